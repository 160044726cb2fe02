//! A process through the provider: which of its options go out, and the `shell_exec` result.

use super::{ProviderError, execute as run};
use crate::dispatch::DispatchRequest;
use crate::service::Shared;
use goblin_client::{Body, Envelope, StreamEvent};
use goblin_ports::OperationKind;
use goblin_protocol::envelope::OutputStream;
use goblin_protocol::id::Params;
use goblin_protocol::json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A process to run. It may hold protected values, so it has no `Debug`.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessCall {
    /// Identifies the operation for replay; a retry keeps it.
    pub operation_id: String,
    /// The gateway.
    pub target_id: String,
    /// Run that the call belongs to.
    #[serde(default)]
    pub parent_run_id: Option<String>,
    /// Tool call that it carries out.
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// What to run.
    pub process: ProcessForm,
    /// Secrets for the process's environment, by name; masked in its output.
    #[serde(default)]
    pub protected_values: Option<Map<String, Value>>,
    /// What may be known of the secrets: part of the request's digest.
    #[serde(default)]
    pub protected_binding_metadata: Option<Value>,
    /// W3C trace context, `{traceparent, tracestate?}`.
    #[serde(default)]
    pub trace_context: Option<Value>,
}

/// The options of a process that go out; others, such as `deadlineMs` and `maxOutputBytes`, are left out. The gateway
/// checks them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessForm {
    /// A command line for the shell; excludes `executable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Value>,
    /// A program; excludes `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<Value>,
    /// The program's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Value>,
    /// Working directory on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Value>,
    /// Additions to the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Value>,
    /// Milliseconds allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<Value>,
}

/// How a process ended, in the shape and order of a `shell_exec` result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShellExecResult {
    /// Always `shell_exec`.
    pub tool: &'static str,
    /// Exit code 0, neither cancelled nor timed out.
    pub ok: bool,
    /// The command line as it ran; `null` where a program ran without a shell.
    pub command: Option<String>,
    /// Always `null`: permission was decided before.
    pub reason: (),
    /// Working directory.
    pub cwd: Option<String>,
    /// `null` when a signal ended it.
    pub exit_code: Option<i64>,
    /// Name of the signal that ended it.
    pub signal: Option<String>,
    /// A limit of time ended it.
    pub timed_out: bool,
    /// A cancel was asked for while it ran.
    pub cancelled: bool,
    /// The gateway sent it a signal.
    pub killed: bool,
    /// Milliseconds.
    pub duration_ms: Option<Number>,
    /// Captured text.
    pub stdout: String,
    /// Captured text.
    pub stderr: String,
    /// Text is missing from `stdout`. The evidence tells of both streams together; where the live events tell which one
    /// was cut, only that one is said to be.
    pub stdout_truncated: bool,
    /// The same of `stderr`.
    pub stderr_truncated: bool,
    /// Length of the standard output that came from the gateway, before anything was shortened on the way, in UTF-16
    /// code units as `String.length` counts. What the gateway itself cut off was never sent and is not counted: of a
    /// truncated stream it is the least that there was.
    pub stdout_original_chars: u64,
    /// The same of standard error.
    pub stderr_original_chars: u64,
    /// Always `null`: what has no result is an error of the call.
    pub error: (),
    /// Always `null`.
    pub artifacts: (),
    /// The operation.
    pub operation_id: String,
    /// The gateway.
    pub gateway_id: String,
}

/// What is taken from the evidence; a gateway of another version may know more or less.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Evidence {
    r#type: String,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
    exit_code: Option<i64>,
    #[serde(default)]
    signal: Option<String>,
    #[serde(default)]
    timed_out: bool,
    #[serde(default)]
    cancelled: bool,
    #[serde(default)]
    killed: bool,
    #[serde(default)]
    duration_ms: Option<Number>,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
    #[serde(default)]
    truncated: bool,
}

/// What the live events told of one stream.
#[derive(Default)]
struct Streamed {
    chars: u64,
    truncated: bool,
}

impl Streamed {
    fn add(&mut self, event: &StreamEvent) {
        self.chars += chars(&event.data);
        self.truncated |= event.truncated;
    }
}

pub(super) async fn execute(
    shared: &Arc<Shared>,
    call: ProcessCall,
    abort: &CancellationToken,
) -> Result<ShellExecResult, ProviderError> {
    let (operation_id, gateway_id) = (call.operation_id.clone(), call.target_id.clone());
    let (mut stdout, mut stderr) = (Streamed::default(), Streamed::default());
    let result = run(shared, request(call), abort, |envelope: Envelope| {
        if let Body::Stream { event, .. } = &envelope.body {
            match event.stream {
                OutputStream::Stdout => stdout.add(event),
                OutputStream::Stderr => stderr.add(event),
            }
        }
    })
    .await?;
    let evidence: Evidence = json::from_text(result.outcome.get()).map_err(|_| ProviderError::EvidenceMissing)?;
    if evidence.r#type != "process.result" {
        return Err(ProviderError::EvidenceMissing);
    }
    // No event told which stream was cut, as in a replay: either may have been.
    let unknown = evidence.truncated && !stdout.truncated && !stderr.truncated;
    let original = |streamed: &Streamed, delivered: &str| streamed.chars.max(chars(delivered));
    Ok(ShellExecResult {
        tool: "shell_exec",
        ok: evidence.exit_code == Some(0) && !evidence.cancelled && !evidence.timed_out,
        command: evidence.command,
        reason: (),
        cwd: evidence.cwd,
        exit_code: evidence.exit_code,
        signal: evidence.signal,
        timed_out: evidence.timed_out,
        cancelled: evidence.cancelled,
        killed: evidence.killed,
        duration_ms: evidence.duration_ms,
        stdout_truncated: stdout.truncated || unknown || stdout.chars > chars(&evidence.stdout),
        stderr_truncated: stderr.truncated || unknown || stderr.chars > chars(&evidence.stderr),
        stdout_original_chars: original(&stdout, &evidence.stdout),
        stderr_original_chars: original(&stderr, &evidence.stderr),
        stdout: evidence.stdout,
        stderr: evidence.stderr,
        error: (),
        artifacts: (),
        operation_id,
        gateway_id,
    })
}

fn request(call: ProcessCall) -> DispatchRequest {
    let mut params = match serde_json::to_value(&call.process) {
        Ok(Value::Object(params)) => params,
        // A structure of values always is an object.
        _ => Params::new(),
    };
    let protected = [
        ("protectedValues", call.protected_values.map(Value::Object)),
        ("protectedBindingMetadata", call.protected_binding_metadata),
        ("traceContext", call.trace_context),
    ];
    for (name, value) in protected {
        if let Some(value) = value {
            params.insert(name.to_owned(), value);
        }
    }
    DispatchRequest {
        gateway_id: call.target_id,
        operation_id: call.operation_id,
        kind: OperationKind::Process,
        params,
        parent_run_id: call.parent_run_id,
        tool_call_id: call.tool_call_id,
    }
}

/// The length of a text as JavaScript counts.
fn chars(text: &str) -> u64 {
    text.chars().map(|char| char.len_utf16() as u64).sum()
}
