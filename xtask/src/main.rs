//! Checks of the tree itself: `cargo run -p xtask -- tidy`.
//!
//! What the compiler and clippy can't see: which crate may use which, what every file begins with, where unsafe code
//! may stand. Each check names the place and the rule.

mod dependencies;
mod sources;

use anyhow::{Context, anyhow, bail};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy(),
        _ => Err(anyhow!("usage: cargo run -p xtask -- tidy")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> anyhow::Result<()> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the tree")?
        .to_owned();
    let mut faults = dependencies::check(&root)?;
    faults.extend(sources::check(&root)?);
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    if !faults.is_empty() {
        bail!("{} faults", faults.len());
    }
    println!("tidy: the tree keeps its rules");
    Ok(())
}
