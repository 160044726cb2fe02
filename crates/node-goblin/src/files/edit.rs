//! `files edit`: the one occurrence of a text, replaced.

use crate::files::call::{self, Host};
use crate::files::write::text;
use crate::terminal::safe;
use anyhow::Context;
use clap::Args;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "\
The old text must occur exactly once. Both texts are taken literally. From a file (--old-file, --new-file) every byte \
counts, the final newline too.

Example:
  node-goblin files worker-1 edit /etc/hosts --old '10.0.0.1 db' --new '10.0.0.2 db'")]
pub struct EditArguments {
    /// Path on the host
    path: String,
    /// Text to replace
    #[arg(
        long,
        value_name = "TEXT",
        required_unless_present = "old_file",
        allow_hyphen_values = true
    )]
    old: Option<String>,
    /// File here that holds the text to replace
    #[arg(long, value_name = "FILE", conflicts_with = "old")]
    old_file: Option<PathBuf>,
    /// Text to put in its place
    #[arg(
        long,
        value_name = "TEXT",
        required_unless_present = "new_file",
        allow_hyphen_values = true
    )]
    new: Option<String>,
    /// File here that holds the text to put in its place
    #[arg(long, value_name = "FILE", conflicts_with = "new")]
    new_file: Option<PathBuf>,
    /// Print the outcome as it is
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Edited {
    file_path: String,
}

/// Edits a file.
pub async fn run(host: &mut Host, arguments: EditArguments) -> anyhow::Result<ExitCode> {
    let (old, new) = (
        given(arguments.old, arguments.old_file)?,
        given(arguments.new, arguments.new_file)?,
    );
    let members = call::arguments([
        ("filePath", Some(arguments.path.clone().into())),
        ("oldText", Some(old.into())),
        ("newText", Some(new.into())),
    ]);
    let show = |edited: Edited| format!("edited {}", safe(&edited.file_path));
    host.show("files_edit", members, arguments.json, &arguments.path, show)
        .await
}

fn given(literal: Option<String>, file: Option<PathBuf>) -> anyhow::Result<String> {
    let Some(path) = file else {
        return Ok(literal.unwrap_or_default());
    };
    let name = path.display().to_string();
    text(
        &name,
        std::fs::File::open(&path).with_context(|| format!("cannot open {name}"))?,
    )
}
