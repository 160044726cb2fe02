//! The routes, one file each subject.

mod controller;
mod dispatch;
mod gateways;
mod operations;
mod pairings;
mod tokens;
mod trust;

use crate::answer::Failure;
use crate::auth::{Door, enter};
use crate::body::{BODY_MAX, BodyWithin};
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, Path, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Extension, Router};
use futures_util::FutureExt;
use goblin_api::routes::{HEALTHZ, LOGIN, LOGOUT, PREFIX, TOKEN, TOKENS, template};
use goblin_controller::Controller;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tracing::error;

/// The API over a controller. It lets everybody in: identity is a matter of the door in front of it.
pub fn router(controller: Controller) -> Router {
    let api = Router::new()
        .route(template::CONTROLLER, get(controller::show).put(controller::change))
        .route(
            template::CONTROLLER_TLS,
            put(controller::supply_tls).delete(controller::forget_tls),
        )
        .route(template::PAIRINGS, get(pairings::list))
        .route(template::APPROVE, post(pairings::approve))
        .route(template::REJECT, post(pairings::reject))
        .route(template::TRUST, get(trust::list))
        .route(template::TRUST_OF, put(trust::enrol).delete(trust::revoke))
        .route(template::GATEWAYS, get(gateways::list))
        .route(template::OPERATIONS, get(operations::list))
        .route(template::PROCESSES, post(dispatch::process))
        .route(template::FILESYSTEM, post(dispatch::filesystem))
        .route(template::CANCEL, post(dispatch::cancel))
        .with_state(controller);
    Router::new()
        .nest(PREFIX, api)
        .route(HEALTHZ, get(controller::health))
        .fallback(async || Failure::not_found())
        .method_not_allowed_fallback(async || Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(from_fn(contain_panics))
}

/// The API, tokens and logins included, behind the door that decides who may call what.
pub(crate) fn guarded(controller: Controller, door: Arc<Door>, body_within: Duration) -> Router {
    Router::new()
        .route(LOGIN, post(tokens::log_in))
        .route(LOGOUT, post(tokens::log_out))
        .route(TOKENS, get(tokens::list).post(tokens::create))
        .route(TOKEN, delete(tokens::revoke))
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

/// A gateway's id out of the path. What cannot be decoded keeps no grammar.
fn gateway_id(path: Result<Path<String>, PathRejection>) -> Result<String, Failure> {
    path.map(|Path(id)| id)
        .map_err(|_| Failure::invalid("target_id_invalid"))
}
