//! Stamps the program with the commit and the day it was built from.
//!
//! The same tree gives the same stamp: the day is `SOURCE_DATE_EPOCH`'s, else the commit's. Without git the commit is
//! `NODE_GOBLIN_COMMIT` or unknown.

use std::process::Command;

fn main() {
    for variable in ["NODE_GOBLIN_COMMIT", "SOURCE_DATE_EPOCH"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    // Without one of these, cargo would run this script at every change of any file.
    println!("cargo:rerun-if-changed=build.rs");
    // Grows with every commit and checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| std::path::Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
    let commit = variable("NODE_GOBLIN_COMMIT")
        .or_else(|| git(&["rev-parse", "--short=12", "HEAD"]))
        .unwrap_or_else(|| "unknown".to_owned());
    let epoch = variable("SOURCE_DATE_EPOCH")
        .or_else(|| git(&["log", "-1", "--format=%ct"]))
        .and_then(|seconds| seconds.parse::<i64>().ok());
    let date = epoch.map_or_else(|| "unknown".to_owned(), day);
    // A fourth part of the version is written `+N` where cargo reads it.
    let version = variable("CARGO_PKG_VERSION").unwrap_or_default().replace('+', ".");
    println!("cargo:rustc-env=CARGO_PKG_VERSION={version}");
    println!("cargo:rustc-env=NODE_GOBLIN_LONG_VERSION={version} (commit {commit}, built {date})");
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// `YYYY-MM-DD` of seconds since 1970, by the usual arithmetic of eras of 400 years that begin on the 1st of March.
fn day(epoch: i64) -> String {
    let days = epoch.div_euclid(86_400) + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
