//! A host's life below a staging root: packaging, installing, configuring, pairing, looking, unpairing, upgrading,
//! uninstalling, by the real scripts and the real program. No network, no service manager, nothing outside temporary
//! directories; what needs those is in `scripts/test-packages`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "tests are read, not called, and a panic is their verdict"
)]

mod configuring;
mod doctor;
mod installing;
mod packaging;
#[path = "../e2e/peer.rs"]
#[allow(dead_code, reason = "shared with the end-to-end tests, which use more of it")]
mod peer;
mod running;
mod staging;
mod unpairing;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_node-goblin");
