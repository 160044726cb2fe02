//! API targets.

use super::target_id;
use crate::answer::{Answer, Failure, created, done, success};
use crate::body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use goblin_api::{Success, TargetAnswer, TargetsAnswer};
use goblin_controller::{Controller, TargetInput};
use goblin_ports::Target;
use serde_json::{Map, Value};

pub(super) async fn list(State(controller): State<Controller>) -> Answer {
    success(TargetsAnswer {
        ok: Success,
        targets: controller.targets().await?.into_iter().map(shown).collect(),
    })
}

pub(super) async fn add(State(controller): State<Controller>, request: Request) -> Answer {
    let body = body::object(request).await?;
    let Some(Value::String(id)) = body.get("id") else {
        return Err(Failure::invalid("target_id_invalid"));
    };
    let target = controller.add_target(id, input(&body)?).await?;
    created(TargetAnswer {
        ok: Success,
        target: shown(target),
    })
}

pub(super) async fn replace(
    State(controller): State<Controller>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let id = target_id(path)?;
    let body = body::object(request).await?;
    match body.get("id") {
        None => {}
        Some(Value::String(named)) if *named == id => {}
        Some(_) => return Err(Failure::invalid("target_id_immutable")),
    }
    let target = controller.replace_target(&id, input(&body)?).await?;
    success(TargetAnswer {
        ok: Success,
        target: shown(target),
    })
}

pub(super) async fn remove(State(controller): State<Controller>, path: Result<Path<String>, PathRejection>) -> Answer {
    let id = target_id(path)?;
    controller.remove_target(&id).await?;
    done()
}

fn input(body: &Map<String, Value>) -> Result<TargetInput, Failure> {
    let Some(Value::String(name)) = body.get("name") else {
        return Err(Failure::invalid("target_name_required"));
    };
    let Some(Value::String(base_url)) = body.get("baseUrl") else {
        return Err(Failure::invalid("target_base_url_invalid"));
    };
    let enabled = match body.get("enabled") {
        None => true,
        Some(Value::Bool(enabled)) => *enabled,
        Some(_) => return Err(Failure::invalid("invalid_request")),
    };
    Ok(TargetInput {
        name: name.clone(),
        base_url: base_url.clone(),
        enabled,
    })
}

fn shown(target: Target) -> goblin_api::Target {
    goblin_api::Target {
        id: target.id,
        name: target.name,
        base_url: target.base_url,
        enabled: target.enabled,
    }
}
