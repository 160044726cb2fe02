//! The real program over real processes, sockets and files.
//!
//! One binary for all of it: a module for each thing that a user relies on.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "tests are read, not called, and a panic is their verdict"
)]

mod cli_files;
mod controller_restart;
mod duplicate;
mod exec;
mod files;
mod fleet;
mod hostile_input;
mod line;
mod node_gateway;
mod outbound;
mod pairing;
mod peer;
mod quickstart;
mod recovery;
mod sdk;
mod stdio;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_node-goblin");
