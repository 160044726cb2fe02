//! What is known of an operation when it is settled.
//!
//! Owns: the result type. Must never know: how it is written on the wire.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Which limit ended the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutReason {
    /// The longest run time.
    Timeout,
    /// The absolute time.
    Deadline,
}

/// The evidence of one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Wall clock just before the start.
    pub started_at: SystemTime,
    /// Wall clock at settlement.
    pub ended_at: SystemTime,
    /// From start to settlement, by a clock that nobody sets.
    pub duration: Duration,
    /// Where the command ran, absolute.
    pub cwd: PathBuf,
    /// The leader's exit code. `None` when a signal ended it. Both this and `signal` are `None`
    /// only when the kernel still hadn't ended the leader 100 ms after SIGKILL: then nobody
    /// knows, and nothing is claimed.
    pub exit_code: Option<i32>,
    /// The number of the signal that ended the leader.
    pub signal: Option<i32>,
    /// A cancel ended the operation (a limit that had fired before is told instead).
    pub cancelled: bool,
    /// A signal was sent to the group and delivered to a member that was alive.
    pub killed: bool,
    /// Text is missing: over the cap, over what is retained, or held back as the possible
    /// beginning of a secret when the stream was left.
    pub truncated: bool,
    /// A limit ended the operation.
    pub timed_out: bool,
    /// Which limit that was.
    pub timeout_reason: Option<TimeoutReason>,
    /// Standard output, as far as retained.
    pub stdout: String,
    /// Standard error, as far as retained.
    pub stderr: String,
    /// The leader has ended, yet another process still held an output pipe at settlement.
    pub output_held_open: bool,
}
