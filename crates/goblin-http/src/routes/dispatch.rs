//! Dispatching operations, gathered or line by line, and cancelling them. Envelopes pass through as the gateway wrote
//! them.

use super::{agent_id, gateway_id};
use crate::answer::{Answer, Failure};
use crate::auth::about;
use crate::body;
use crate::query::Parameters;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use goblin_api::{DISPATCH_ERROR, DispatchError as LastError, DispatchErrorLine, NDJSON};
use goblin_controller::{Collected, Controller, DispatchError, DispatchRequest, Envelope, LiveDispatch};
use goblin_ports::OperationKind;
use goblin_protocol::id::valid_api_operation_id;
use serde_json::{Map, Value};
use std::convert::Infallible;
use tokio::sync::oneshot;

/// Members of a process request that are sent on. `protectedDelivery` is the controller's own to write.
const PROCESS_MEMBERS: [&str; 10] = [
    "command",
    "executable",
    "args",
    "cwd",
    "env",
    "timeoutMs",
    "deadlineMs",
    "maxOutputBytes",
    "protectedValues",
    "protectedBindingMetadata",
];

/// Members of a filesystem request that are sent on.
const FILE_MEMBERS: [&str; 2] = ["tool", "arguments"];

const TRACE_CONTEXT: &str = "traceContext";

pub(super) async fn process(
    State(controller): State<Controller>,
    path: Result<Path<String>, PathRejection>,
    parameters: Parameters,
    headers: HeaderMap,
    request: Request,
) -> Answer {
    let gateway_id = gateway_id(path)?;
    let body = body::object(request).await?;
    run_process(controller, gateway_id, body, &parameters, &headers).await
}

pub(super) async fn filesystem(
    State(controller): State<Controller>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let gateway_id = gateway_id(path)?;
    let body = body::object(request).await?;
    run_tool(controller, gateway_id, body).await
}

pub(super) async fn agent_process(
    State(controller): State<Controller>,
    path: Result<Path<String>, PathRejection>,
    parameters: Parameters,
    headers: HeaderMap,
    request: Request,
) -> Answer {
    let agent_id = agent_id(path)?;
    let mut body = body::object(request).await?;
    let (gateway_id, root) = controller.assignment(&agent_id).await?;
    default_to(&mut body, "cwd", root);
    run_process(controller, gateway_id, body, &parameters, &headers).await
}

pub(super) async fn agent_filesystem(
    State(controller): State<Controller>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let agent_id = agent_id(path)?;
    let mut body = body::object(request).await?;
    let (gateway_id, root) = controller.assignment(&agent_id).await?;
    // Arguments of another form are the gateway's to refuse.
    if let Value::Object(arguments) = body.entry("arguments").or_insert_with(|| Map::new().into()) {
        default_to(arguments, "workspaceRoot", root);
    }
    run_tool(controller, gateway_id, body).await
}

fn default_to(members: &mut Map<String, Value>, name: &str, value: String) {
    if members.get(name).is_none_or(Value::is_null) {
        members.insert(name.to_owned(), value.into());
    }
}

async fn run_process(
    controller: Controller,
    gateway_id: String,
    mut body: Map<String, Value>,
    parameters: &Parameters,
    headers: &HeaderMap,
) -> Answer {
    let operation_id = operation_id(&mut body)?;
    let request = work(
        OperationKind::Process,
        &PROCESS_MEMBERS,
        &gateway_id,
        &operation_id,
        body,
    )?;
    let failed = |error: DispatchError| Failure::of_dispatch(&error, &gateway_id, &operation_id);
    let (live, guard) = if parameters.is_true("cancelOnDisconnect") {
        let (sent, is_sent) = oneshot::channel();
        let guard = CancelGuard {
            controller: controller.clone(),
            gateway_id: gateway_id.clone(),
            operation_id: operation_id.clone(),
            is_sent: Some(is_sent),
        };
        // A task of its own, so that a cancel can wait for it even if the client leaves at once.
        let sending = tokio::spawn(async move {
            let live = controller.dispatch(request).await;
            let _ = sent.send(live.is_ok());
            live
        });
        (sending.await.map_err(|_| Failure::internal())?, Some(guard))
    } else {
        (controller.dispatch(request).await, None)
    };
    let live = match live {
        Ok(live) => live,
        Err(error) => {
            disarm(guard);
            return Err(failed(error));
        }
    };
    if accepts_lines(headers) {
        return Ok(lines(live, guard));
    }
    let collected = live.collect().await;
    disarm(guard);
    gathered(&operation_id, collected.map_err(failed)?)
}

async fn run_tool(controller: Controller, gateway_id: String, mut body: Map<String, Value>) -> Answer {
    let operation_id = operation_id(&mut body)?;
    let request = work(
        OperationKind::Filesystem,
        &FILE_MEMBERS,
        &gateway_id,
        &operation_id,
        body,
    )?;
    let failed = |error: DispatchError| Failure::of_dispatch(&error, &gateway_id, &operation_id);
    let live = controller.dispatch(request).await.map_err(failed)?;
    gathered(&operation_id, live.collect().await.map_err(failed)?)
}

pub(super) async fn cancel(
    State(controller): State<Controller>,
    path: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Answer {
    let Path((gateway_id, operation_id)) = path.map_err(|_| Failure::invalid("target_id_invalid"))?;
    body::optional_object(request).await?;
    let collected = controller.cancel(&gateway_id, &operation_id).await;
    let collected = collected.map_err(|error| Failure::of_dispatch(&error, &gateway_id, &operation_id))?;
    gathered(&operation_id, collected)
}

fn operation_id(body: &mut Map<String, Value>) -> Result<String, Failure> {
    match body.remove("operationId") {
        Some(Value::String(id)) => {
            if valid_api_operation_id(&id) {
                about(&id);
            }
            Ok(id)
        }
        _ => Err(Failure::invalid("operation_id_invalid")),
    }
}

/// Takes the known members of a body over; the rest stays here.
fn work(
    kind: OperationKind,
    members: &[&str],
    gateway_id: &str,
    operation_id: &str,
    mut body: Map<String, Value>,
) -> Result<DispatchRequest, Failure> {
    let mut correlation = |name: &str| match body.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(id)) if !id.is_empty() && id.len() <= goblin_protocol::limits::ID_MAX => Ok(Some(id)),
        Some(_) => Err(Failure::invalid("invalid_request")),
    };
    let parent_run_id = correlation("parentRunId")?;
    let tool_call_id = correlation("toolCallId")?;
    let known = members.iter().copied().chain([TRACE_CONTEXT]);
    let params = known.filter_map(|name| body.remove_entry(name)).collect();
    Ok(DispatchRequest {
        gateway_id: gateway_id.to_owned(),
        operation_id: operation_id.to_owned(),
        kind,
        params,
        parent_run_id,
        tool_call_id,
    })
}

fn accepts_lines(headers: &HeaderMap) -> bool {
    let ranges = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    ranges.flat_map(|value| value.split(',')).any(|range| {
        range
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .eq_ignore_ascii_case(NDJSON)
    })
}

/// Cancels the operation when it is dropped: the client went away before the answer.
struct CancelGuard {
    controller: Controller,
    gateway_id: String,
    operation_id: String,
    /// Whether the request went out: a cancel must not overtake it. `None` once disarmed.
    is_sent: Option<oneshot::Receiver<bool>>,
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        let Some(is_sent) = self.is_sent.take() else {
            return;
        };
        let controller = self.controller.clone();
        let (gateway_id, operation_id) = (
            std::mem::take(&mut self.gateway_id),
            std::mem::take(&mut self.operation_id),
        );
        tokio::spawn(async move {
            if is_sent.await != Ok(true) {
                return;
            }
            if let Err(error) = controller.cancel(&gateway_id, &operation_id).await {
                tracing::debug!(
                    code = error.code(),
                    "the operation of a client that left was not cancelled"
                );
            }
        });
    }
}

fn disarm(guard: Option<CancelGuard>) {
    if let Some(mut guard) = guard {
        guard.is_sent = None;
    }
}

/// One envelope a line, each as it arrives.
fn lines(live: LiveDispatch, guard: Option<CancelGuard>) -> Response {
    let lines = stream::unfold((live, guard), async |(mut live, mut guard)| {
        let line = match live.next().await {
            Some(Ok(envelope)) => {
                if matches!(envelope.body, goblin_controller::Body::Answer { .. }) {
                    disarm(guard.take());
                }
                line(&envelope.text)
            }
            Some(Err(error)) => {
                disarm(guard.take());
                last_line(&error)
            }
            None => return None,
        };
        Some((Ok::<_, Infallible>(line), (live, guard)))
    });
    let mut response = Body::from_stream(lines).into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON));
    response
}

fn line(text: &[u8]) -> Bytes {
    [text, b"\n"].concat().into()
}

fn last_line(error: &DispatchError) -> Bytes {
    let gateway_id = match error {
        DispatchError::Disconnected { gateway_id } => gateway_id.clone(),
        _ => String::new(),
    };
    let last = DispatchErrorLine {
        r#type: DISPATCH_ERROR.to_owned(),
        error: LastError {
            code: error.code().to_owned(),
            gateway_id,
            retryable: error.action().is_some(),
            action: error.action().unwrap_or_default().to_owned(),
        },
    };
    // Plain texts: encoding them cannot fail.
    line(&serde_json::to_vec(&last).unwrap_or_default())
}

/// The form of [`goblin_api::DispatchAnswer`], put together from the envelopes as they are: they are JSON already.
fn gathered(operation_id: &str, collected: Collected) -> Answer {
    let Some(response) = collected.response else {
        return Err(Failure::internal());
    };
    let size = |envelope: &Envelope| envelope.text.len() + 1;
    let events: usize = collected.events.iter().map(size).sum();
    let mut body = Vec::with_capacity(256 + operation_id.len() + size(&response) + events);
    body.extend_from_slice(b"{\"ok\":true,\"operationId\":");
    body.extend_from_slice(Value::from(operation_id).to_string().as_bytes());
    body.extend_from_slice(b",\"dispatch\":{\"accepted\":");
    body.extend_from_slice(collected.accepted.as_ref().map_or(b"null", |envelope| &envelope.text));
    body.extend_from_slice(b",\"response\":");
    body.extend_from_slice(&response.text);
    body.extend_from_slice(b",\"events\":[");
    for (index, event) in collected.events.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&event.text);
    }
    body.extend_from_slice(b"]");
    if collected.events_truncated {
        body.extend_from_slice(b",\"eventsTruncated\":true");
    }
    body.extend_from_slice(b"}}");
    let mut response = Body::from(body).into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
