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
mod trust;

pub(crate) use gateways::snapshot;
pub(crate) use operations::activity;
pub(crate) use pairings::listing;

use crate::answer::{Answer, Failure};
use crate::body::BODY_MAX;
use crate::events::Hub;
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, FromRef, Path, Request};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::FutureExt;
use goblin_controller::Controller;
use std::panic::AssertUnwindSafe;
use std::sync::LazyLock;
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
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| table::routes().into_description().into_document());

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
