//! Connections of gateways.

use crate::Success;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Answer of GET `/gateways`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GatewaysAnswer {
    /// Always true.
    pub ok: Success,
    /// The gateways, by id.
    pub gateways: Vec<GatewaySnapshot>,
}

/// Where a gateway stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GatewayStatus {
    /// Connected, waits for approval.
    Pending,
    /// Connected and authenticated: takes operations.
    Ready,
    /// Not connected.
    Disconnected,
}

impl GatewayStatus {
    /// The word in the JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Disconnected => "disconnected",
        }
    }
}

/// One gateway as the controller sees it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySnapshot {
    /// Its id.
    pub gateway_id: String,
    /// Where it stands.
    pub status: GatewayStatus,
    /// True while its connection is open.
    pub connected: bool,
    /// ISO 8601 time of its present or last connection; null when there was none since the controller started.
    #[schema(required = true)]
    pub connected_at: Option<String>,
    /// ISO 8601 time of the last bytes from it; null when there were none since the controller started.
    #[schema(required = true)]
    pub last_seen_at: Option<String>,
    /// Operations dispatched to it whose final answer is outstanding.
    pub active_operations: u32,
    /// Program name, as it says.
    #[schema(required = true)]
    pub name: Option<String>,
    /// Program version, as it says.
    #[schema(required = true)]
    pub version: Option<String>,
    /// Protocol version, as it says.
    #[schema(required = true)]
    pub protocol_version: Option<String>,
}
