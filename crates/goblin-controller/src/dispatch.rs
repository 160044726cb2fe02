//! Sending an operation to a gateway, and what comes back. The record of the operation is durable before the request
//! leaves. A consumer that goes away gives up the answer, never the operation or its record.

use crate::clock;
use crate::recovery::Recoverable;
use crate::redaction::Screen;
use crate::registry::{Live, Ready};
use crate::service::Shared;
use goblin_client::{Body, ClientError, Dispatch, Envelope};
use goblin_ports::{Begin, OperationKind, OperationStart, PortError};
use goblin_protocol::id::{Params, request_digest, valid_api_operation_id, valid_gateway_id};
use goblin_protocol::request::{DeliveryBinding, Method};
use goblin_protocol::trace::TraceContext;
use goblin_protocol::{Code, RequestId};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::warn;

pub use goblin_client::Collected;

/// What to do about a lost connection.
const RETRY: &str = "retry_same_operation_id_after_reconnect";

/// An operation to send. Its params may hold protected values, so it has no `Debug`.
pub struct DispatchRequest {
    /// The gateway.
    pub gateway_id: String,
    /// The operation.
    pub operation_id: String,
    /// Kind of work.
    pub kind: OperationKind,
    /// The params of the method, without operation id and delivery.
    pub params: Params,
    /// Run that the operation belongs to; recorded, not sent.
    pub parent_run_id: Option<String>,
    /// Tool call that the operation carries out; recorded, not sent.
    pub tool_call_id: Option<String>,
}

/// Why a dispatch brought no final answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DispatchError {
    /// The gateway's id breaks the grammar of ids.
    #[error("the gateway id is not valid")]
    TargetIdInvalid,
    /// The operation's id breaks the grammar of ids.
    #[error("the operation id is not valid")]
    OperationIdInvalid,
    /// The trace context breaks a rule of W3C Trace Context.
    #[error("the trace context is not valid")]
    TraceContextInvalid,
    /// No live connection.
    #[error("the gateway is not connected")]
    NotConnected,
    /// Connected, not yet approved.
    #[error("the gateway is not approved yet")]
    NotReady,
    /// The connection was lost before the answer. The operation may or may not have run.
    #[error("the gateway {gateway_id} was disconnected before it answered")]
    Disconnected {
        /// The gateway.
        gateway_id: String,
    },
    /// The request does not fit a frame.
    #[error("the request is larger than a frame of 2 MiB")]
    RequestTooLarge,
    /// The controller takes no operations any more.
    #[error("the controller stops")]
    Stopping,
    /// The record of the operation could not be written, or belongs to another request. Nothing was sent.
    #[error(transparent)]
    Port(#[from] PortError),
}

impl DispatchError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TargetIdInvalid => "target_id_invalid",
            Self::OperationIdInvalid => Code::OperationIdInvalid.as_str(),
            Self::TraceContextInvalid => Code::TraceContextInvalid.as_str(),
            Self::NotConnected => Code::GatewayNotConnected.as_str(),
            Self::NotReady => Code::GatewayNotReady.as_str(),
            Self::Disconnected { .. } => Code::GatewayDisconnected.as_str(),
            Self::RequestTooLarge => Code::RequestFrameTooLarge.as_str(),
            Self::Stopping => "controller_stopping",
            Self::Port(error) => error.code(),
        }
    }

    /// What the caller can do, where the same request may be sent again under the same operation id.
    pub fn action(&self) -> Option<&'static str> {
        matches!(self, Self::Disconnected { .. }).then_some(RETRY)
    }
}

/// A dispatched operation: its envelopes as they arrive. Dropping it gives up the answer; the operation goes on and is
/// recorded.
pub struct LiveDispatch {
    gateway_id: Arc<str>,
    screen: Screen,
    operation_id: String,
    dispatch: Dispatch,
    recorded: Option<oneshot::Receiver<()>>,
    end: End,
}

/// How far a dispatch is.
enum End {
    /// More may come.
    Open,
    /// The connection was lost, which is to be told once all that came before is.
    Lost,
    /// Nothing comes any more.
    Told,
}

impl LiveDispatch {
    /// The operation.
    pub fn operation_id(&self) -> &str {
        &self.operation_id
    }

    /// The next envelope: at most one `accepted`, events, and one answer as the last, whose end is on record by then.
    /// `None` after the answer and after an error.
    pub async fn next(&mut self) -> Option<Result<Envelope, DispatchError>> {
        loop {
            if let Some(envelope) = self.screen.pop() {
                return Some(Ok(envelope));
            }
            match self.end {
                End::Open => {}
                End::Lost => {
                    self.end = End::Told;
                    return Some(Err(DispatchError::Disconnected {
                        gateway_id: self.gateway_id.to_string(),
                    }));
                }
                End::Told => return None,
            }
            let Some(envelope) = self.dispatch.next().await else {
                self.end = End::Lost;
                self.screen.finish();
                continue;
            };
            if matches!(envelope.body, Body::Answer { .. }) {
                self.end = End::Told;
                if let Some(recorded) = self.recorded.take() {
                    // An error means that there is nothing to record, or nobody to do it.
                    let _ = recorded.await;
                }
            }
            self.screen.push(envelope);
        }
    }

    /// True when output was dropped because it was not taken for long.
    pub fn events_dropped(&self) -> bool {
        self.dispatch.events_dropped()
    }

    /// Takes all envelopes up to the answer, keeping a bounded amount of events.
    pub async fn collect(mut self) -> Result<Collected, DispatchError> {
        let mut collected = Collected::default();
        while let Some(envelope) = self.next().await {
            collected.add(envelope?);
        }
        collected.events_truncated |= self.events_dropped();
        Ok(collected)
    }
}

/// Sends an operation to its gateway.
pub(crate) async fn dispatch(shared: &Arc<Shared>, request: DispatchRequest) -> Result<LiveDispatch, DispatchError> {
    if !valid_gateway_id(&request.gateway_id) {
        return Err(DispatchError::TargetIdInvalid);
    }
    if !valid_api_operation_id(&request.operation_id) {
        return Err(DispatchError::OperationIdInvalid);
    }
    if let Some(trace) = request.params.get("traceContext")
        && !trace.is_null()
        && TraceContext::from_value(trace).is_none()
    {
        return Err(DispatchError::TraceContextInvalid);
    }
    let kind = request.kind;
    let ready = ready(shared, &request.gateway_id).inspect_err(|_| shared.metrics.not_sent(kind))?;
    // Detached: a caller that goes away between the record and the request must not leave a record of nothing.
    let sending = shared.tasks.spawn(send(shared.clone(), ready, request));
    let sent = sending.await.unwrap_or(Err(DispatchError::Stopping));
    sent.inspect_err(|_| shared.metrics.not_sent(kind))
}

/// Asks a gateway to cancel an operation; gives its answer.
pub(crate) async fn cancel(shared: &Shared, gateway_id: &str, operation_id: &str) -> Result<Collected, DispatchError> {
    if !valid_gateway_id(gateway_id) {
        return Err(DispatchError::TargetIdInvalid);
    }
    if !valid_api_operation_id(operation_id) {
        return Err(DispatchError::OperationIdInvalid);
    }
    let ready = ready(shared, gateway_id)?;
    let params = Params::from_iter([("operationId".to_owned(), Value::from(operation_id))]);
    let request_id = RequestId::text(&uuid::Uuid::new_v4().to_string());
    let dispatch = queue(shared, &ready, request_id, Method::Cancel, &params).await?;
    let live = LiveDispatch {
        gateway_id: ready.gateway_id.clone(),
        screen: Screen::new(ready.redactor.clone()),
        operation_id: operation_id.to_owned(),
        dispatch,
        recorded: None,
        end: End::Open,
    };
    live.collect().await
}

fn ready(shared: &Shared, gateway_id: &str) -> Result<Arc<Ready>, DispatchError> {
    if shared.closing.is_cancelled() {
        return Err(DispatchError::Stopping);
    }
    match shared.registry.live(gateway_id) {
        Some(Live::Ready(ready)) => Ok(ready),
        Some(Live::Pending(_)) => Err(DispatchError::NotReady),
        None => Err(DispatchError::NotConnected),
    }
}

async fn send(shared: Arc<Shared>, ready: Arc<Ready>, request: DispatchRequest) -> Result<LiveDispatch, DispatchError> {
    let DispatchRequest {
        gateway_id,
        operation_id,
        kind,
        mut params,
        parent_run_id,
        tool_call_id,
    } = request;
    let method = match kind {
        OperationKind::Process => Method::ProcessExec,
        OperationKind::Filesystem => Method::FilesystemExecute,
    };
    params.remove("protectedDelivery");
    params.insert("operationId".to_owned(), operation_id.clone().into());
    let start = OperationStart {
        operation_id: operation_id.clone(),
        parent_run_id,
        tool_call_id,
        gateway_id: gateway_id.clone(),
        kind,
        request_digest: request_digest(method.name(), &params),
    };
    let begun = shared.operations.begin(start, &clock::now_iso()).await?;

    let request_id = RequestId::text(&uuid::Uuid::new_v4().to_string());
    // What is kept for a recovery holds no protected values.
    let mut again = None;
    if params.get("protectedValues").is_some_and(|values| !values.is_null()) {
        let mut without = params.clone();
        without.remove("protectedValues");
        again = Some(Arc::new(without));
        let binding = DeliveryBinding {
            gateway_id: gateway_id.clone(),
            connection_id: ready.connection_id.clone(),
            request_id: request_id.plain(),
            operation_id: operation_id.clone(),
        };
        let delivery = serde_json::to_value(binding).unwrap_or_default();
        params.insert("protectedDelivery".to_owned(), delivery);
    }
    let params = Arc::new(params);
    let recoverable = Recoverable {
        method,
        params: again.unwrap_or_else(|| params.clone()),
    };
    shared.activity.begin(&gateway_id, &operation_id, kind);
    let repeated = matches!(begun, Begin::Existing(_));
    let recorded = ready
        .tracker
        .expect(request_id.clone(), &operation_id, repeated, recoverable);
    match queue(&shared, &ready, request_id.clone(), method, &*params).await {
        Ok(dispatch) => Ok(LiveDispatch {
            gateway_id: ready.gateway_id.clone(),
            screen: Screen::new(ready.redactor.clone()),
            operation_id,
            dispatch,
            recorded: Some(recorded),
            end: End::Open,
        }),
        Err(error) => {
            // It certainly never left.
            ready.tracker.forget(&request_id);
            shared.activity.withdraw(&gateway_id, &operation_id);
            if !repeated && let Err(error) = shared.operations.withdraw(&operation_id).await {
                warn!(
                    gateway_id,
                    code = error.code(),
                    "the record of an operation that never left stays"
                );
            }
            Err(error)
        }
    }
}

/// Queues a request on the connection. A gateway that reads nothing for long loses it. After an error the request was
/// not sent.
pub(crate) async fn queue(
    shared: &Shared,
    ready: &Arc<Ready>,
    request_id: RequestId,
    method: Method,
    params: &impl Serialize,
) -> Result<Dispatch, DispatchError> {
    let disconnected = || DispatchError::Disconnected {
        gateway_id: ready.gateway_id.to_string(),
    };
    match timeout(
        shared.options.timing.send,
        ready.client.send(request_id, method, params),
    )
    .await
    {
        Ok(Ok(dispatch)) => Ok(dispatch),
        Ok(Err(ClientError::RequestTooLarge)) => Err(DispatchError::RequestTooLarge),
        Ok(Err(_)) => Err(disconnected()),
        Err(_) => {
            warn!(gateway_id = %ready.gateway_id, "a gateway that reads nothing is disconnected");
            shared.lost(ready);
            Err(disconnected())
        }
    }
}
