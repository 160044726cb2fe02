//! The real program over real processes, sockets and files.
//!
//! One binary for all of it: a module for each thing that a user relies on.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "tests are read, not called, and a panic is their verdict"
)]

mod controlled;
mod controller_kills;
mod controller_state;
mod files;
mod hostile_input;
mod outbound;
mod peer;
mod recovery;
mod stdio;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_node-goblin");
