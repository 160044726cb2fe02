//! What is known of a process that ended: the evidence, as it crosses the wire and lies in the journal.

use crate::digest::sha256_hex;
use serde::{Deserialize, Serialize};
use serde_json::Number;

/// Which execution form ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// `/bin/sh -c COMMAND`.
    Shell,
    /// A program with its arguments.
    Exec,
}

/// Which limit ended a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeoutReason {
    /// The duration `timeoutMs`.
    #[serde(rename = "timeoutMs")]
    Timeout,
    /// The absolute time `deadlineMs`.
    #[serde(rename = "deadlineMs")]
    Deadline,
}

/// The tag `process.result`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessResult {
    /// The only value.
    #[default]
    #[serde(rename = "process.result")]
    Tag,
}

/// Terminal evidence of one process, its members in the order of the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessEvidence {
    /// Always `process.result`.
    pub r#type: ProcessResult,
    /// ISO 8601, milliseconds, `Z`.
    pub started_at: String,
    /// ISO 8601, milliseconds, `Z`.
    pub ended_at: String,
    /// Milliseconds, with a fraction.
    pub duration_ms: f64,
    /// Absolute working directory.
    pub cwd: String,
    /// Effective user of the process.
    pub effective_uid: u32,
    /// Effective group of the process.
    pub effective_gid: u32,
    /// The host's name.
    pub hostname: String,
    /// Execution form.
    pub mode: Mode,
    /// Program as requested; null in shell mode.
    pub executable: Option<String>,
    /// Arguments as requested.
    pub args: Vec<String>,
    /// Command as it ran; null in exec mode.
    pub command: Option<String>,
    /// Null when a signal ended the process.
    pub exit_code: Option<i32>,
    /// Name of the signal that ended the process.
    pub signal: Option<String>,
    /// A cancel was asked for while it ran.
    pub cancelled: bool,
    /// The gateway sent a signal, and it was delivered.
    pub killed: bool,
    /// Output is missing from `stdout` or `stderr`.
    pub truncated: bool,
    /// A limit of time ended it.
    pub timed_out: bool,
    /// Which limit.
    pub timeout_reason: Option<TimeoutReason>,
    /// Milliseconds allowed.
    pub timeout_ms: Number,
    /// Epoch milliseconds allowed, when asked for.
    pub deadline_ms: Option<Number>,
    /// Captured text, redacted.
    pub stdout: String,
    /// Captured text, redacted.
    pub stderr: String,
    /// SHA-256 of the delivered `stdout`.
    pub stdout_digest: String,
    /// SHA-256 of the delivered `stderr`.
    pub stderr_digest: String,
    /// Another process still held the output when the leader had ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub output_held_open: bool,
    /// The frame budget shortened the text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transport_truncated: bool,
}

impl ProcessEvidence {
    /// Makes the digests those of the text as it stands.
    pub fn seal(&mut self) {
        self.stdout_digest = sha256_hex(self.stdout.as_bytes());
        self.stderr_digest = sha256_hex(self.stderr.as_bytes());
    }

    /// How the operation ended, in the words of activity records: `completed`, `failed`, `timed_out`, `cancelled`.
    pub fn conclusion(&self) -> &'static str {
        match self {
            Self { timed_out: true, .. } => "timed_out",
            Self { cancelled: true, .. } => "cancelled",
            Self { exit_code: Some(0), .. } => "completed",
            _ => "failed",
        }
    }
}
