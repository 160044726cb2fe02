//! `process.exec`: from the typed request to a run, and from its outcome to the evidence.

use crate::clock::epoch_ms;
use goblin_protocol::evidence::{Mode, ProcessEvidence, ProcessResult, TimeoutReason};
use goblin_protocol::limits::OUTPUT_BYTES_RETAINED;
use goblin_protocol::process::{Form, ProcessRequest};
use goblin_protocol::request::ProtectedValues;
use goblin_protocol::time::iso8601;
use goblin_runner::{Outcome, RunSpec, signal_name};
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use zeroize::Zeroizing;

/// What the runner is asked to do.
pub fn run_spec(
    request: &ProcessRequest,
    env: Vec<(OsString, OsString)>,
    protected: &ProtectedValues,
    own_directory: &Path,
) -> RunSpec {
    RunSpec {
        form: match request.form.clone() {
            Form::Shell { command } => goblin_runner::Form::Shell { command },
            Form::Exec { executable, args } => goblin_runner::Form::Exec { executable, args },
        },
        cwd: request.cwd.as_ref().map(|cwd| own_directory.join(cwd)),
        env,
        secrets: protected
            .iter()
            .map(|(_, value)| Zeroizing::new(value.as_bytes().to_vec()))
            .collect(),
        timeout: Duration::from_millis(request.timeout_ms()),
        // A deadline beyond the range of the clock never comes.
        deadline: request
            .deadline_ms()
            .and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms))),
        max_output_bytes: request.max_output_bytes,
        retain_bytes: OUTPUT_BYTES_RETAINED,
    }
}

/// What is known of the process that ended, its digests included.
pub fn evidence(request: ProcessRequest, outcome: Outcome, own_directory: &Path) -> ProcessEvidence {
    // A daemon whose directory was removed still knows where it was.
    let cwd = if request.cwd.is_some() {
        &outcome.cwd
    } else {
        own_directory
    };
    let (mode, executable, args, command) = match request.form {
        Form::Shell { command } => (Mode::Shell, None, Vec::new(), Some(command)),
        Form::Exec { executable, args } => (Mode::Exec, Some(executable), args, None),
    };
    let mut evidence = ProcessEvidence {
        r#type: ProcessResult::Tag,
        started_at: iso8601(epoch_ms(outcome.started_at) as i64),
        ended_at: iso8601(epoch_ms(outcome.ended_at) as i64),
        duration_ms: (outcome.duration.as_secs_f64() * 1e6).round() / 1e3,
        cwd: cwd.to_string_lossy().into_owned(),
        effective_uid: rustix::process::geteuid().as_raw(),
        effective_gid: rustix::process::getegid().as_raw(),
        hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        mode,
        executable,
        args,
        command,
        exit_code: outcome.exit_code,
        signal: outcome.signal.map(|signal| signal_name(signal).into_owned()),
        cancelled: outcome.cancelled,
        killed: outcome.killed,
        truncated: outcome.truncated,
        timed_out: outcome.timed_out,
        timeout_reason: outcome.timeout_reason.map(|reason| match reason {
            goblin_runner::TimeoutReason::Timeout => TimeoutReason::Timeout,
            goblin_runner::TimeoutReason::Deadline => TimeoutReason::Deadline,
        }),
        timeout_ms: request.timeout_ms,
        deadline_ms: request.deadline_ms,
        stdout: outcome.stdout,
        stderr: outcome.stderr,
        stdout_digest: String::new(),
        stderr_digest: String::new(),
        output_held_open: outcome.output_held_open,
        transport_truncated: false,
    };
    evidence.seal();
    evidence
}
