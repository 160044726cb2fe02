//! What a caller asks for, and where output goes while the command runs.
//!
//! Owns: the input types of an operation. Must never know: how it is carried out.

use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use zeroize::Zeroizing;

/// What to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// A command line for `/bin/sh -c`, already trimmed.
    Shell {
        /// The command line.
        command: String,
    },
    /// A program with its arguments; no shell sees them.
    Exec {
        /// A path when it holds a `/`, relative to the child's folder; else a name that is
        /// looked up on the child's own `PATH`.
        executable: String,
        /// The arguments after the program's name.
        args: Vec<String>,
    },
}

/// One operation.
pub struct RunSpec {
    /// What to execute.
    pub form: Form,
    /// Where it runs; the daemon's own folder when absent, and the start of a relative path.
    pub cwd: Option<PathBuf>,
    /// The child's complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// Byte strings that are masked in both output streams.
    pub secrets: Vec<Zeroizing<Vec<u8>>>,
    /// How long the command may run. Saturates: no value fires early.
    pub timeout: Duration,
    /// When the command has to end, by the wall clock as it stands at the start. The earlier of
    /// the two limits counts.
    pub deadline: Option<SystemTime>,
    /// How many bytes of text both streams may deliver together.
    pub max_output_bytes: u64,
    /// How many bytes of that text the outcome may hold.
    pub retain_bytes: usize,
}

/// Names no argument, no variable and no secret.
impl fmt::Debug for RunSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunSpec")
            .field("timeout", &self.timeout)
            .field("deadline", &self.deadline)
            .field("max_output_bytes", &self.max_output_bytes)
            .field("retain_bytes", &self.retain_bytes)
            .finish_non_exhaustive()
    }
}

/// Which of the child's two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of output as it arrived: whole characters, secrets masked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The stream it came from.
    pub stream: Stream,
    /// The text; empty only where the cap left nothing of it.
    pub data: String,
    /// The cap cut here. No chunk follows one with this mark.
    pub truncated: bool,
}

/// Takes the output while the command runs.
pub trait Sink: Send {
    /// Takes one chunk. While this future is pending no output is read, so a slow sink slows the
    /// command down. Time limits and cancel go on meanwhile, and when the operation has to be
    /// settled the future is dropped; the outcome then still holds the text.
    fn chunk(&mut self, chunk: Chunk) -> impl Future<Output = ()> + Send;
}
