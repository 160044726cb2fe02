//! Activity: what was dispatched lately. No prompt, parameter, path, secret or output is ever in it.

use crate::Success;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Records that GET `/operations` answers unless told otherwise.
pub const OPERATIONS_LIMIT_DEFAULT: u32 = 50;

/// Most records that GET `/operations` answers.
pub const OPERATIONS_LIMIT_MAX: u32 = 256;

/// Answer of GET `/operations`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OperationsAnswer {
    /// Always true.
    pub ok: Success,
    /// The records, newest last.
    pub operations: Vec<Activity>,
    /// The limit that was applied.
    pub limit: u32,
}

/// Kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActivityKind {
    /// A process.
    Process,
    /// A filesystem tool.
    Filesystem,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActivityState {
    /// Sent, or about to be.
    Dispatching,
    /// The gateway accepted it.
    Running,
    /// Its final answer or its terminal evidence came.
    Terminal,
    /// The connection was lost before either: it may or may not have run.
    Interrupted,
}

/// One operation on one gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// The gateway.
    pub gateway_id: String,
    /// The operation.
    pub operation_id: String,
    /// Kind of work.
    pub kind: ActivityKind,
    /// How far it is.
    pub state: ActivityState,
    /// The answer came from the gateway's journal; nothing ran.
    pub replay: bool,
    /// The gateway has to connect again before the outcome can be known.
    pub reconnect_required: bool,
    /// `completed`, `failed`, `timed_out`, `cancelled`, or an error code; null while it is not known.
    #[schema(required = true)]
    pub terminal_outcome: Option<String>,
    /// ISO 8601 time of the dispatch.
    pub started_at: String,
    /// ISO 8601 time at which the gateway accepted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<String>,
    /// ISO 8601 time of the end; null before.
    #[schema(required = true)]
    pub ended_at: Option<String>,
    /// Milliseconds from dispatch to end; null before.
    #[schema(required = true)]
    pub duration_ms: Option<f64>,
}

/// Answer of GET `/operations/:operationId`: what is on record, and what is in memory. At least one of the two is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OperationAnswer {
    /// Always true.
    pub ok: Success,
    /// The durable record; null when there is none.
    #[schema(required = true)]
    pub correlation: Option<Correlation>,
    /// The activity in memory, one record for each gateway that was asked, newest last.
    pub activity: Vec<Activity>,
}

/// Body of POST `/operations/:operationId/resolve`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({"note": "the host was reinstalled"}))]
pub struct ResolveRequest {
    /// Why the operation counts as closed; neither blank nor longer than 4096 bytes.
    #[schema(min_length = 1, max_length = 4096)]
    pub note: String,
}

/// Answer of POST `/operations/:operationId/resolve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResolveAnswer {
    /// Always true.
    pub ok: Success,
    /// The record as it is now.
    pub correlation: Correlation,
}

/// The durable record of an operation: digests, never a copy of request or outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Correlation {
    /// The operation.
    pub operation_id: String,
    /// Run that it belongs to.
    #[schema(required = true)]
    pub parent_run_id: Option<String>,
    /// Tool call that it carries out.
    #[schema(required = true)]
    pub tool_call_id: Option<String>,
    /// The gateway.
    pub gateway_id: String,
    /// Kind of work.
    pub kind: ActivityKind,
    /// Digest of the request without protected values and trace context.
    pub request_digest: String,
    /// How far it is known to be.
    pub state: CorrelationState,
    /// Its terminal evidence; null before.
    #[schema(required = true)]
    pub terminal_reference: Option<TerminalReference>,
    /// The operator's word, where one was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// ISO 8601 time of the last change.
    pub updated_at: String,
}

/// How far an operation is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CorrelationState {
    /// Dispatched; what became of it is not known: it is unresolved.
    Dispatching,
    /// Its terminal evidence was seen.
    Terminal,
    /// An operator closed it.
    Resolved,
}

/// Points at the terminal evidence without copying it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TerminalReference {
    /// Operation id of the evidence.
    pub operation_id: String,
    /// Whether the gateway answered from its journal.
    pub replay: bool,
    /// Digest of the outcome; null where a refusal left none.
    #[schema(required = true)]
    pub outcome_digest: Option<String>,
}
