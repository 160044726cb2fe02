//! Gateways that wait for an operator's approval.

use crate::Success;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of GET `/pairings`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PairingsAnswer {
    /// Always true.
    pub ok: Success,
    /// The pairings, oldest first.
    pub pairings: Vec<PairingListing>,
}

/// One pairing request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PairingListing {
    /// Id that the gateway asked for.
    pub gateway_id: String,
    /// Controller that the gateway means.
    pub controller_id: String,
    /// The gateway's public key, PEM.
    pub public_key: String,
    /// What the gateway says of itself. Never verified.
    #[serde(default)]
    pub metadata: PairingMetadata,
    /// The code to compare with the one that the gateway shows, `XXXX-XXXX-XXXX`.
    pub pairing_code: String,
    /// The longer form of the code, for the wary; absent on one that is not live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long_pairing_code: Option<String>,
    /// Always `pending`.
    pub status: String,
    /// ISO 8601 time of the request.
    pub requested_at: String,
    /// True while the gateway is connected and waits. Only then can it be approved.
    pub live: bool,
}

/// What a gateway says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PairingMetadata {
    /// Program name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Program version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Protocol version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
}

/// Body of POST `/pairings/:gatewayId/approve`. The whole body may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApproveRequest {
    /// The code that the operator compared, short or long; another one is refused as `pairing_code_mismatch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairing_code: Option<String>,
}

/// Answer of approve and reject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairingAnswer {
    /// Always true.
    pub ok: Success,
    /// What became of the pairing.
    pub pairing: PairingDecision,
}

/// What an operator decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PairingDecision {
    /// The gateway.
    pub gateway_id: String,
    /// The controller that it means.
    pub controller_id: String,
    /// The code that was approved or rejected.
    pub pairing_code: String,
    /// `approved` or `rejected`.
    pub status: String,
    /// True once the gateway is trusted; absent after a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<bool>,
}
