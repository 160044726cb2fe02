//! Rules for single files.

use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};

/// Files in which unsafe code may stand: one trick each.
const UNSAFE: &[&str] = &[
    "crates/goblin-runner/src/spawn.rs",
    "crates/goblin-runner/src/reactor.rs",
    "crates/node-goblin/src/memory.rs",
    "crates/node-goblin/src/quickstart/tied.rs",
];

/// Lines beyond which a file is surely more than one idea.
const LONGEST: usize = 900;

/// Words that mean that something was left over.
const LEFT_OVER: &[&str] = &[concat!("TO", "DO:"), concat!("TO", "DO("), concat!("FIX", "ME")];

/// Folders with our sources.
const FOLDERS: &[&str] = &["crates", "xtask", "tests", "benches", "fuzz"];

/// Faults of all sources.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    for folder in FOLDERS {
        for path in rust_files(&root.join(folder))? {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            check_file(&name, &text, &mut faults);
        }
    }
    Ok(faults)
}

fn rust_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(files);
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn check_file(name: &str, text: &str, faults: &mut Vec<String>) {
    let mut fault = |line: usize, rule: &str| faults.push(format!("{name}:{line}: {rule}"));
    if !text.starts_with("//! ") {
        fault(1, "a file opens with what it owns (//! …)");
    }
    if text.lines().count() > LONGEST {
        fault(LONGEST, "is this still one idea? Split it");
    }
    let of_tests = name.contains("/tests") || name.starts_with("tests/");
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line)) {
        if line.ends_with([' ', '\t']) {
            fault(number, "white space at the end");
        }
        if LEFT_OVER.iter().any(|word| line.contains(word)) {
            fault(number, "left over");
        }
        if line.contains(concat!("#[ign", "ore]")) {
            fault(number, "a test that does not run by itself says why");
        }
        let code = line.split("//").next().unwrap_or_default();
        if code.contains(concat!("allow(unsafe", "_code")) && !UNSAFE.contains(&name) && !of_tests {
            fault(
                number,
                "unsafe code has its own small modules; see xtask/src/sources.rs",
            );
        }
        if code.contains("thread::sleep(") && !name.starts_with("crates/goblin-testkit/") && of_tests {
            fault(number, "a test waits for events, it does not sleep");
        }
    }
}
