//! Dispatching operations to gateways, gathered or line by line.
//!
//! With `Accept: application/x-ndjson` a process dispatch answers one envelope a line, each flushed as it arrives. A
//! dispatch that cannot be sent is answered with a status and an [`crate::ErrorBody`], as without it. The
//! last line is the `response` (or `error`) envelope. When the connection to the gateway is lost before it, the last
//! line is a [`DispatchErrorLine`] instead. A body that ends without either was cut by the way: the outcome is not
//! known, and the operation can be asked for again under the same id.

use crate::Success;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use utoipa::ToSchema;

/// The media type of line by line answers.
pub const NDJSON: &str = "application/x-ndjson";

/// The `type` of a [`DispatchErrorLine`].
pub const DISPATCH_ERROR: &str = "dispatch.error";

/// Secrets for a process's environment. They print nothing.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct ProtectedValues(pub BTreeMap<String, String>);

impl fmt::Debug for ProtectedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProtectedValues({} withheld)", self.0.len())
    }
}

/// Body of POST `/gateways/:gatewayId/processes`. Absent members take the gateway's defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"operationId": "op-1", "executable": "/bin/echo", "args": ["hello"], "timeoutMs": 10000}))]
pub struct ProcessRequest {
    /// Identifies the operation; keep it for a retry.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._:-]{0,255}$")]
    pub operation_id: String,
    /// A command line for the shell; excludes `executable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program; excludes `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// The program's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Working directory on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Additions to the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// Milliseconds allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// End of the time allowed, in epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Bytes of output allowed, both streams together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// Secrets for the environment: delivered once, redacted from the output, part of no record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected_values: Option<ProtectedValues>,
    /// What may be remembered of the secrets (never the values); part of the request's digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected_binding_metadata: Option<Map<String, Value>>,
    /// W3C trace context `{traceparent, tracestate?}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TraceContext>)]
    pub trace_context: Option<Map<String, Value>>,
    /// Run that the operation belongs to; recorded, not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub parent_run_id: Option<String>,
    /// Tool call that the operation carries out; recorded, not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub tool_call_id: Option<String>,
}

/// Body of POST `/gateways/:gatewayId/filesystem`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"operationId": "op-2", "tool": "list", "arguments": {"path": "/tmp"}}))]
pub struct FileRequest {
    /// Identifies the operation; keep it for a retry.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._:-]{0,255}$")]
    pub operation_id: String,
    /// Name of the tool.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// W3C trace context `{traceparent, tracestate?}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<TraceContext>)]
    pub trace_context: Option<Map<String, Value>>,
    /// Run that the operation belongs to; recorded, not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub parent_run_id: Option<String>,
    /// Tool call that the operation carries out; recorded, not sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1024)]
    pub tool_call_id: Option<String>,
}

/// The form of a trace context; its values are checked by the rules of W3C Trace Context.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a schema alone: what is sent is passed on as it is")]
struct TraceContext {
    #[schema(pattern = "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")]
    traceparent: String,
    tracestate: Option<String>,
}

/// Answer of a gathered dispatch.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchAnswer {
    /// Always true: the gateway answered. Whether it refused the operation is told by `dispatch.response`.
    pub ok: Success,
    /// The operation.
    pub operation_id: String,
    /// What the gateway sent.
    pub dispatch: CollectedDispatch,
}

/// Answer of a cancel. `dispatch.response.result.cancelling` tells whether the operation was running; its evidence
/// comes to whoever dispatched it.
pub type CancelAnswer = DispatchAnswer;

/// The envelopes of one dispatch, as the gateway wrote them.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CollectedDispatch {
    /// The `accepted` envelope; null when nothing ran.
    #[serde(default)]
    #[schema(value_type = Option<Object>, required = true)]
    pub accepted: Option<Box<RawValue>>,
    /// The final envelope.
    #[schema(value_type = Object)]
    pub response: Box<RawValue>,
    /// Stream and terminal events, in order.
    #[serde(default)]
    #[schema(value_type = Vec<Object>, required = true)]
    pub events: Vec<Box<RawValue>>,
    /// True when events are missing from `events`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub events_truncated: bool,
}

/// The last line of a dispatch whose connection was lost: `{"type":"dispatch.error","error":{…}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DispatchErrorLine {
    /// [`DISPATCH_ERROR`].
    pub r#type: String,
    /// What happened.
    pub error: DispatchError,
}

/// Why a dispatch brought no final answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchError {
    /// Stable code, `gateway_disconnected`.
    pub code: String,
    /// The gateway.
    pub gateway_id: String,
    /// True when the same request may be sent again.
    pub retryable: bool,
    /// What to do: `retry_same_operation_id_after_reconnect`.
    pub action: String,
}
