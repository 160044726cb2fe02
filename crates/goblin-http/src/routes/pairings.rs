//! Gateways that wait for an operator.

use super::gateway_id;
use crate::answer::{Answer, Failure, success};
use crate::body;
use crate::query::Parameters;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use goblin_api::{PairingAnswer, PairingDecision, PairingListing, PairingMetadata, PairingsAnswer, Success};
use goblin_controller::{Controller, Decision, PairingRequest};
use serde_json::Value;

/// Most pairings listed; there are never more.
const LIMIT: u32 = 256;

pub(super) async fn list(State(controller): State<Controller>, parameters: Parameters) -> Answer {
    let limit = parameters.limit(LIMIT, LIMIT) as usize;
    let mut requests = controller.pairings().await?;
    let older = requests.len().saturating_sub(limit);
    requests.drain(..older);
    success(PairingsAnswer {
        ok: Success,
        pairings: requests.into_iter().map(listing).collect(),
    })
}

pub(crate) fn listing(request: PairingRequest) -> PairingListing {
    let metadata = request.metadata();
    let record = request.record;
    PairingListing {
        gateway_id: record.gateway_id,
        controller_id: record.controller_id,
        public_key: record.public_key,
        metadata: PairingMetadata {
            name: metadata.name,
            version: metadata.version,
            protocol_version: metadata.protocol_version,
        },
        pairing_code: record.pairing_code,
        live: request.live_code.is_some(),
        long_pairing_code: request.live_code,
        status: record.status,
        requested_at: record.requested_at,
    }
}

pub(super) async fn approve(
    State(controller): State<Controller>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let id = gateway_id(path)?;
    let body = body::optional_object(request).await?;
    let code = match body.get("pairingCode") {
        None | Some(Value::Null) => None,
        Some(Value::String(code)) => Some(code.as_str()),
        Some(_) => return Err(Failure::invalid("invalid_request")),
    };
    decided(controller.approve(&id, code).await?)
}

pub(super) async fn reject(
    State(controller): State<Controller>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let id = gateway_id(path)?;
    body::optional_object(request).await?;
    decided(controller.reject(&id).await?)
}

fn decided(decision: Decision) -> Answer {
    success(PairingAnswer {
        ok: Success,
        pairing: PairingDecision {
            gateway_id: decision.gateway_id,
            controller_id: decision.controller_id,
            pairing_code: decision.pairing_code,
            status: if decision.approved { "approved" } else { "rejected" }.to_owned(),
            trusted: decision.approved.then_some(true),
        },
    })
}
