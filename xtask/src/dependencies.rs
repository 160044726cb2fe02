//! The crates and what each may use: dependencies point downward only, as ARCHITECTURE.md draws them.

use anyhow::Context;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Every crate of the workspace, and the crates of the workspace that it may use. `*` stands for all.
const ALLOWED: &[(&str, &[&str])] = &[
    ("goblin-protocol", &[]),
    ("goblin-redact", &[]),
    ("goblin-api", &["goblin-protocol"]),
    ("goblin-ports", &["goblin-protocol"]),
    ("goblin-keys", &["goblin-protocol"]),
    ("goblin-link", &["goblin-protocol", "goblin-keys"]),
    ("goblin-client", &["goblin-protocol", "goblin-link"]),
    ("goblin-runner", &["goblin-redact"]),
    ("goblin-files", &["goblin-protocol"]),
    ("goblin-journal", &["goblin-protocol"]),
    ("goblin-identity", &["goblin-protocol", "goblin-keys"]),
    (
        "goblin-gateway",
        &[
            "goblin-protocol",
            "goblin-redact",
            "goblin-keys",
            "goblin-link",
            "goblin-client",
            "goblin-runner",
            "goblin-files",
            "goblin-journal",
            "goblin-identity",
        ],
    ),
    (
        "goblin-controller",
        &[
            "goblin-protocol",
            "goblin-redact",
            "goblin-ports",
            "goblin-keys",
            "goblin-link",
            "goblin-client",
        ],
    ),
    ("goblin-store", &["goblin-ports"]),
    (
        "goblin-http",
        &[
            "goblin-controller",
            "goblin-ports",
            "goblin-api",
            "goblin-keys",
            "goblin-protocol",
        ],
    ),
    (
        "goblin-testkit",
        &["goblin-protocol", "goblin-keys", "goblin-link", "goblin-client"],
    ),
    ("node-goblin", &["*"]),
    ("xtask", &[]),
];

/// Crates that only tests may use.
const TEST_ONLY: &[&str] = &["goblin-testkit"];

/// Faults of the workspace's dependencies, as `cargo metadata` tells them.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked"])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().context("packages")? {
        let name = package["name"].as_str().unwrap_or_default();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().and_then(Path::file_name).unwrap_or_default();
        if folder != name {
            faults.push(format!("{}: the folder is not named {name}", manifest.display()));
        }
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            faults.push(format!(
                "{name}: not in the list of crates; say in xtask and in ARCHITECTURE.md what it owns and may use"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let for_tests = dependency["kind"] == "dev";
            let ours = ALLOWED.iter().any(|(known, _)| *known == used);
            if ours && TEST_ONLY.contains(&used) && !for_tests {
                faults.push(format!("{name}: {used} is for tests alone"));
            } else if ours && !for_tests && !allowed.contains(&used) && !allowed.contains(&"*") {
                faults.push(format!("{name}: may not use {used}"));
            }
        }
    }
    Ok(faults)
}
