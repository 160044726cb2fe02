//! The host daemon: request, decision, run, evidence, journal, response; and the outbound connection.
//!
//! A frame comes in, and [`daemon::Daemon`] answers it: at once, or by a task that runs a process or a tool and journals
//! its outcome first. Where frames come from is told by [`stdio`] and [`outbound`]; configuration is parsed elsewhere.

mod active;
mod backoff;
mod clock;
pub mod daemon;
pub mod dial;
pub mod environment;
mod operation;
pub mod outbound;
mod outlet;
pub mod predecessor;
pub mod presence;
mod process;
pub mod stdio;

#[cfg(test)]
mod tests;
