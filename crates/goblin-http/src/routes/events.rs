//! The stream of live changes.

use crate::answer::Answer;
use crate::events::Hub;
use crate::server::Closing;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use goblin_api::events::EVENT_STREAM;

pub(super) async fn stream(State(hub): State<Hub>, closing: Option<Extension<Closing>>) -> Answer {
    let closing = closing.map(|Extension(Closing(token))| token).unwrap_or_default();
    let stream = hub.stream(closing).await?;
    let headers = [
        (header::CONTENT_TYPE, EVENT_STREAM),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::from_stream(stream)).into_response())
}
