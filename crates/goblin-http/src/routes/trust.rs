//! Trust records. A secret that comes in here never goes out again.

use super::gateway_id;
use crate::answer::{Answer, Failure, success};
use crate::body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use goblin_api::{Success, TrustAnswer, TrustListing, TrustRecord};
use goblin_controller::Controller;
use goblin_ports::{GatewayRecord, Secret, TrustMethod};
use serde_json::Value;

pub(super) async fn list(State(controller): State<Controller>) -> Answer {
    let records = controller.trust().await?;
    success(TrustListing {
        ok: Success,
        gateways: records.into_iter().map(record).collect(),
    })
}

pub(super) async fn enrol(
    State(controller): State<Controller>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let id = gateway_id(path)?;
    let mut body = body::object(request).await?;
    let secret = match body.remove("secret") {
        Some(Value::String(secret)) => Secret::new(secret),
        _ => return Err(Failure::invalid("gateway_secret_required")),
    };
    let controller_id = match body.get("controllerId") {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id.as_str()),
        Some(_) => return Err(Failure::invalid("controller_id_invalid")),
    };
    changed(controller.enrol(&id, controller_id, secret).await?)
}

pub(super) async fn revoke(State(controller): State<Controller>, path: Result<Path<String>, PathRejection>) -> Answer {
    let id = gateway_id(path)?;
    changed(controller.revoke(&id).await?)
}

fn changed(changed: GatewayRecord) -> Answer {
    success(TrustAnswer {
        ok: Success,
        gateway: record(changed),
        restart_required: false,
    })
}

fn record(record: GatewayRecord) -> TrustRecord {
    TrustRecord {
        trusted: record.trusted(),
        gateway_id: record.gateway_id,
        controller_id: record.controller_id,
        status: record.status,
        approved: record.approved,
        revoked: record.revoked,
        method: record.method.map(|method| {
            match method {
                TrustMethod::Ed25519 => "ed25519",
                TrustMethod::Hmac => "hmac",
            }
            .to_owned()
        }),
    }
}
