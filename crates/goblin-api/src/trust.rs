//! Which gateways the controller trusts, and how they prove who they are.

use crate::Success;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Answer of GET `/gateway-trust`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TrustListing {
    /// Always true.
    pub ok: Success,
    /// The records.
    pub gateways: Vec<TrustRecord>,
}

/// One trust record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustRecord {
    /// The gateway.
    pub gateway_id: String,
    /// The controller that it means.
    pub controller_id: String,
    /// `approved` or `revoked`.
    pub status: String,
    /// An operator let it in.
    pub approved: bool,
    /// An operator shut it out again.
    pub revoked: bool,
    /// It may connect.
    pub trusted: bool,
    /// `ed25519`, `hmac`, or null when nothing is trusted.
    #[schema(required = true)]
    pub method: Option<String>,
}

/// Body of PUT `/gateway-trust/:gatewayId`. Its `Debug` leaves the secret out.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"secret": "a long random text"}))]
pub struct EnrolRequest {
    /// The controller that the gateway will mean; `controller` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub controller_id: Option<String>,
    /// The secret that both ends share.
    #[schema(min_length = 1)]
    pub secret: String,
}

impl fmt::Debug for EnrolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnrolRequest")
            .field("controller_id", &self.controller_id)
            .finish_non_exhaustive()
    }
}

/// Answer of PUT and DELETE `/gateway-trust/:gatewayId`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrustAnswer {
    /// Always true.
    pub ok: Success,
    /// The record as it stands now.
    pub gateway: TrustRecord,
    /// True where the change waits for a restart of the host program.
    pub restart_required: bool,
}
