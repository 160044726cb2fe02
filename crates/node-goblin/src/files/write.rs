//! `files write`: a file, whole, in one request.

use crate::files::call::{self, Host};
use crate::terminal::{self, safe};
use anyhow::{Context, bail};
use clap::Args;
use goblin_protocol::limits::FRAME_MAX;
use serde::Deserialize;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes of a frame that are left to what surrounds the params: id, method, punctuation.
const SURROUNDINGS: usize = 1024;

#[derive(Debug, Args)]
#[command(after_help = "\
The content is UTF-8 text that fits one request of 2 MiB. Missing directories are made. The file is replaced in one step:
whoever reads it sees the old content or the new.")]
pub struct WriteArguments {
    /// Path on the host
    path: String,
    /// File here that holds the content; - is standard input
    #[arg(default_value = "-", value_name = "FILE")]
    file: PathBuf,
    /// Print the outcome as it is
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    file_path: String,
    created: bool,
    bytes_written: u64,
}

impl WriteArguments {
    /// Reads the content.
    pub fn content(&self) -> anyhow::Result<String> {
        if self.file == Path::new("-") {
            if std::io::stdin().is_terminal() {
                terminal::note("Type the content, then Ctrl-D at the start of a line.");
            }
            return text("standard input", std::io::stdin().lock());
        }
        let name = self.file.display().to_string();
        let file = std::fs::File::open(&self.file).with_context(|| format!("cannot open {name}"))?;
        text(&name, file)
    }
}

/// Reads text of bounded length; the fault says what is wrong with it.
pub fn text(name: &str, reader: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    reader
        .take(FRAME_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {name}"))?;
    if bytes.len() > FRAME_MAX {
        bail!("{name} is larger than 2 MiB, and one request carries no more: copy it another way");
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("{name} is not UTF-8 text (byte {at}): only text can be written this way")
    })
}

/// Writes a file.
pub async fn run(host: &mut Host, arguments: WriteArguments, content: String) -> anyhow::Result<ExitCode> {
    let path = arguments.path.clone();
    let length = content.len();
    let members = call::arguments([
        ("filePath", Some(arguments.path.into())),
        ("content", Some(content.into())),
    ]);
    let needed = serde_json::to_vec(&members)?.len() + SURROUNDINGS;
    if needed > FRAME_MAX {
        bail!(
            "the content of {length} bytes takes {needed} in a request, and that carries at most {FRAME_MAX}: copy it another way"
        );
    }
    host.show("files_write", members, arguments.json, &path, |written: Written| {
        format!(
            "{} {} ({})",
            if written.created { "created" } else { "overwrote" },
            safe(&written.file_path),
            terminal::bytes(written.bytes_written)
        )
    })
    .await
}
