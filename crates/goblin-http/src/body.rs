//! Request bodies: bounded in size and time, JSON objects only.

use crate::answer::Failure;
use axum::RequestExt;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use goblin_protocol::json;
use hyper::body::Body as _;
use serde_json::{Map, Value};
use std::time::Duration;

/// Longest body, in bytes: that of a frame.
pub(crate) const BODY_MAX: usize = goblin_protocol::limits::FRAME_MAX;

/// Time for the whole body to arrive, as an extension of the request; without it there is no limit.
#[derive(Clone, Copy)]
pub(crate) struct BodyWithin(pub(crate) Duration);

/// The members of a body that must be there.
pub(crate) async fn object(request: Request) -> Result<Map<String, Value>, Failure> {
    let is_json = has_json_type(&request);
    let body = read(request).await?;
    if !is_json {
        return Err(unsupported());
    }
    parse(&body)
}

/// The members of a body that may be absent.
pub(crate) async fn optional_object(request: Request) -> Result<Map<String, Value>, Failure> {
    let is_json = has_json_type(&request);
    let body = read(request).await?;
    if body.is_empty() {
        return Ok(Map::new());
    }
    if !is_json {
        return Err(unsupported());
    }
    parse(&body)
}

async fn read(request: Request) -> Result<Bytes, Failure> {
    let too_large = || Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large");
    // A length that is declared need not arrive.
    if request.body().size_hint().lower() > BODY_MAX as u64 {
        return Err(too_large());
    }
    let within = request
        .extensions()
        .get::<BodyWithin>()
        .map_or(Duration::MAX, |it| it.0);
    let reading = tokio::time::timeout(within, request.extract::<Bytes, _>()).await;
    match reading {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(rejection)) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(too_large()),
        Ok(Err(_)) => Err(Failure::invalid("invalid_body")),
        Err(_) => Err(Failure::new(StatusCode::REQUEST_TIMEOUT, "request_timeout")),
    }
}

fn parse(body: &[u8]) -> Result<Map<String, Value>, Failure> {
    let text = std::str::from_utf8(body).map_err(|_| Failure::invalid("invalid_json"))?;
    match json::from_text::<Value>(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Failure::invalid("invalid_request")),
        Err(_) => Err(Failure::invalid("invalid_json")),
    }
}

fn unsupported() -> Failure {
    Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type")
}

fn has_json_type(request: &Request) -> bool {
    let mut types = request.headers().get_all(header::CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else {
        return false;
    };
    only.to_str().is_ok_and(|text| {
        let essence = text.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/json")
    })
}
