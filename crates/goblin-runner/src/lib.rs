//! Starting, pumping and terminating one process.
//!
//! Owns: how a command becomes a process in a session of its own, how its output becomes text,
//! and how it ends. Must never know: requests, JSON, the journal, or who asked. Time limits and
//! everything else that decides come in with the `RunSpec`.
//!
//! The way of one operation: `resolve` finds the program, `spawn` starts it, `run` pumps
//! its `pipes` through its `capture` into the sink, under a `watch` over leader, timers and
//! cancel, and `background` takes over what outlives the answer.

mod background;
mod capture;
mod errno;
mod error;
mod group;
mod leader;
mod outcome;
mod pipes;
mod reactor;
mod resolve;
mod run;
mod signal;
mod spawn;
mod spec;
mod utf8;
mod watch;

#[cfg(test)]
mod tests;

pub use error::StartError;
pub use outcome::{Outcome, TimeoutReason};
pub use run::Runner;
pub use signal::signal_name;
pub use spec::{Chunk, Form, RunSpec, Sink, Stream};
