//! Live changes, as Server-Sent Events on GET `/events`.
//!
//! The first event of every stream is a [`SNAPSHOT`] with the whole state as it is then. Later ones tell changes. Each
//! carries an `id`, a number that grows within one run of the controller. Nothing is replayed: whatever `Last-Event-ID`
//! a client sends, it gets a snapshot, which covers what it missed. A client that reads too slowly gets a [`RESET`] as
//! its last event and is disconnected; it connects again and gets a snapshot.

use crate::{Activity, GatewaySnapshot, PairingListing};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of the stream.
pub const EVENT_STREAM: &str = "text/event-stream";

/// Name of the first event; its data is a [`SnapshotEvent`].
pub const SNAPSHOT: &str = "snapshot";
/// Name of an event whose data is a [`GatewayEvent`].
pub const GATEWAY: &str = "gateway";
/// Name of an event whose data is a [`PairingEvent`].
pub const PAIRING: &str = "pairing";
/// Name of an event whose data is an [`OperationEvent`].
pub const OPERATION: &str = "operation";
/// Name of the last event of a client that was too slow; its data is a [`ResetEvent`].
pub const RESET: &str = "reset";

/// The state at the beginning of a stream. It replaces whatever the client knew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotEvent {
    /// As GET `/gateways`.
    pub gateways: Vec<GatewaySnapshot>,
    /// As GET `/pairings`.
    pub pairings: Vec<PairingListing>,
    /// As GET `/operations` with the highest limit, newest last.
    pub operations: Vec<Activity>,
}

/// A gateway connected, was disconnected, or its trust changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayEvent {
    /// The gateway.
    pub gateway_id: String,
    /// As it is now; null when it is no longer listed.
    #[schema(required = true)]
    pub gateway: Option<GatewaySnapshot>,
}

/// A pairing request came, was decided, or its connection was lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PairingEvent {
    /// The gateway that asks.
    pub gateway_id: String,
    /// As it is now; null when there is none any more.
    #[schema(required = true)]
    pub pairing: Option<PairingListing>,
}

/// The activity record of an operation changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperationEvent {
    /// The gateway.
    pub gateway_id: String,
    /// The operation.
    pub operation_id: String,
    /// As it is now; null when there is no record of it any more.
    #[schema(required = true)]
    pub operation: Option<Activity>,
}

/// Why the stream ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResetEvent {
    /// `slow_client`, or `store_unavailable` when the state could not be read.
    pub reason: String,
}
