//! Connections.

use crate::answer::{Answer, success};
use axum::extract::State;
use goblin_api::{GatewaySnapshot, GatewayStatus, GatewaysAnswer, Success};
use goblin_controller::{Controller, Presence};

pub(super) async fn list(State(controller): State<Controller>) -> Answer {
    let gateways = controller.gateways().await?.into_iter().map(snapshot);
    success(GatewaysAnswer {
        ok: Success,
        gateways: gateways.collect(),
    })
}

pub(crate) fn snapshot(gateway: goblin_controller::GatewaySnapshot) -> GatewaySnapshot {
    let status = match gateway.presence {
        Presence::Pending => GatewayStatus::Pending,
        Presence::Ready => GatewayStatus::Ready,
        Presence::Disconnected => GatewayStatus::Disconnected,
    };
    GatewaySnapshot {
        gateway_id: gateway.gateway_id,
        status,
        connected: gateway.presence != Presence::Disconnected,
        connected_at: gateway.connected_at,
        last_seen_at: gateway.last_seen_at,
        active_operations: u32::try_from(gateway.active_operations).unwrap_or(u32::MAX),
        name: gateway.metadata.name,
        version: gateway.metadata.version,
        protocol_version: gateway.metadata.protocol_version,
    }
}
