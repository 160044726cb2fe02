//! Activity: what was dispatched lately. No prompt, parameter, path, secret or output is ever in it.

use crate::Success;
use serde::{Deserialize, Serialize};

/// Records that GET `/operations` answers unless told otherwise.
pub const OPERATIONS_LIMIT_DEFAULT: u32 = 50;

/// Most records that GET `/operations` answers.
pub const OPERATIONS_LIMIT_MAX: u32 = 256;

/// Answer of GET `/operations`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationsAnswer {
    /// Always true.
    pub ok: Success,
    /// The records, newest last.
    pub operations: Vec<Activity>,
    /// The limit that was applied.
    pub limit: u32,
}

/// Kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActivityKind {
    /// A process.
    Process,
    /// A filesystem tool.
    Filesystem,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    pub terminal_outcome: Option<String>,
    /// ISO 8601 time of the dispatch.
    pub started_at: String,
    /// ISO 8601 time at which the gateway accepted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<String>,
    /// ISO 8601 time of the end; null before.
    pub ended_at: Option<String>,
    /// Milliseconds from dispatch to end; null before.
    pub duration_ms: Option<f64>,
}
