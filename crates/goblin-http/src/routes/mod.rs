//! The routes, one file each subject, and the table that mounts and describes them.

mod agents;
mod controller;
mod dispatch;
mod events;
mod gateways;
mod metrics;
mod operations;
mod pairings;
mod table;
mod targets;
mod tokens;
mod trust;

pub(crate) use gateways::snapshot;
pub(crate) use operations::activity;
pub(crate) use pairings::listing;

use crate::answer::{Answer, Failure};
use crate::auth::{Door, enter};
use crate::body::{BODY_MAX, BodyWithin};
use crate::events::Hub;
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, FromRef, Path, Request};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use bytes::Bytes;
use futures_util::FutureExt;
use goblin_controller::Controller;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tracing::error;

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct App {
    controller: Controller,
    hub: Hub,
}

impl FromRef<App> for Controller {
    fn from_ref(app: &App) -> Self {
        app.controller.clone()
    }
}

impl FromRef<App> for Hub {
    fn from_ref(app: &App) -> Self {
        app.hub.clone()
    }
}

/// The document does not depend on the controller.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let all = table::routes()
        .into_description()
        .and(table::doors().into_description());
    all.into_document()
});

/// The API over a controller. It lets everybody in: identity is a matter of the door in front of it.
pub fn router(controller: Controller) -> Router {
    let hub = Hub::new(controller.clone());
    table::routes()
        .into_router()
        .with_state(App { controller, hub })
        .fallback(async || Failure::not_found())
        .method_not_allowed_fallback(async || Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn(contain_panics))
}

/// The API, tokens and logins included, behind the door that decides who may call what.
pub(crate) fn guarded(controller: Controller, door: Arc<Door>, body_within: Duration) -> Router {
    table::doors()
        .into_router()
        .method_not_allowed_fallback(async || Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .with_state(door.clone())
        .merge(router(controller))
        .layer(Extension(BodyWithin(body_within)))
        .layer(from_fn_with_state(door, enter))
        .layer(from_fn(contain_panics))
}

/// A panic is a bug of ours: the caller learns that there was one, and the server goes on.
pub(crate) async fn contain_panics(request: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => {
            error!("a request handler panicked");
            Failure::internal().into_response()
        }
    }
}

#[cfg(test)]
pub(crate) fn document_text() -> Bytes {
    DOCUMENT.clone()
}

async fn document() -> Answer {
    Ok(([(header::CONTENT_TYPE, "application/json")], DOCUMENT.clone()).into_response())
}

/// A gateway's id out of the path. What cannot be decoded keeps no grammar.
fn gateway_id(path: Result<Path<String>, PathRejection>) -> Result<String, Failure> {
    target_id(path)
}

/// A target's id out of the path.
fn target_id(path: Result<Path<String>, PathRejection>) -> Result<String, Failure> {
    path.map(|Path(id)| id)
        .map_err(|_| Failure::invalid("target_id_invalid"))
}

/// An agent's id out of the path.
fn agent_id(path: Result<Path<String>, PathRejection>) -> Result<String, Failure> {
    path.map(|Path(id)| id)
        .map_err(|_| Failure::invalid("agent_id_invalid"))
}
