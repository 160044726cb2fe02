//! Checks of the tree itself, `cargo run -p xtask -- tidy`; the bill of materials, `cargo run -p xtask -- sbom TARGET [TIME]`.
//!
//! What the compiler and clippy can't see: which crate may use which, what every file begins with, where unsafe code
//! may stand. Each check names the place and the rule.

mod dependencies;
mod sbom;
mod sources;

use anyhow::{Context, anyhow, bail};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["tidy"] => tidy(),
        ["sbom", target] => sbom(target, None),
        ["sbom", target, time] => sbom(target, Some(time)),
        _ => Err(anyhow!("usage: cargo run -p xtask -- tidy | sbom TARGET [TIME]")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The folder of the workspace.
fn root() -> anyhow::Result<PathBuf> {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    Ok(own.parent().context("the tree")?.to_owned())
}

fn sbom(target: &str, time: Option<&str>) -> anyhow::Result<()> {
    let document = sbom::make(&root()?, target, time)?;
    println!("{}", serde_json::to_string_pretty(&document)?);
    Ok(())
}

fn tidy() -> anyhow::Result<()> {
    let root = root()?;
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
