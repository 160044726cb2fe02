//! `files read`: a file to standard output, byte for byte, page by page.

use crate::files::call::{self, Host};
use crate::terminal;
use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use std::process::ExitCode;

/// Bytes of one page: as base64 it fits a frame of 2 MiB with room to spare.
const PAGE: u64 = 1024 * 1024;

#[derive(Debug, Args)]
#[command(after_help = "\
The file is read in pages of 1 MiB. When it changes in between, what was printed may mix old and new content: that is said \
on standard error, and the exit code is 1.

With --json one page is read, as text, and its outcome printed.")]
pub struct ReadArguments {
    /// Path on the host
    path: String,
    /// Byte to begin at
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// Bytes to read at most; to the end unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    bytes: Option<u64>,
    /// Print the outcome of one page as it is
    #[arg(long)]
    json: bool,
    /// How the outcome holds the content: utf8, base64, hex, latin1, ascii or utf16le
    #[arg(long, requires = "json", default_value = "utf8")]
    encoding: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    bytes: u64,
    modified_at: String,
    returned_bytes: u64,
    truncated: bool,
    #[serde(default)]
    transport_truncated: bool,
    next_offset_bytes: Option<u64>,
    content: String,
}

/// Prints a file.
pub async fn run(host: &mut Host, arguments: ReadArguments) -> anyhow::Result<ExitCode> {
    if arguments.json {
        let request = call::arguments([
            ("filePath", Some(arguments.path.into())),
            ("offsetBytes", Some(arguments.offset.into())),
            ("maxBytes", arguments.bytes.map(Value::from)),
            ("encoding", Some(arguments.encoding.into())),
        ]);
        let outcome = host.call(&Host::request("files_read", request)).await?;
        return host.print_outcome(&outcome).await;
    }
    let (mut offset, mut left) = (arguments.offset, arguments.bytes.unwrap_or(u64::MAX));
    let (mut first, mut changed) = (None, None);
    loop {
        let request = call::arguments([
            ("filePath", Some(arguments.path.clone().into())),
            ("offsetBytes", Some(offset.into())),
            ("maxBytes", Some(left.min(PAGE).into())),
            ("encoding", Some("base64".into())),
        ]);
        let outcome = host.call(&Host::request("files_read", request)).await?;
        let page: Page = host.succeeded(&outcome, &arguments.path)?;
        let bytes = STANDARD
            .decode(&page.content)
            .context("the gateway sent broken base64")?;
        if page.transport_truncated || bytes.len() as u64 != page.returned_bytes {
            bail!(
                "{}: the gateway sent a page that is not whole",
                terminal::safe(&arguments.path)
            );
        }
        let (size, modified_at) = first.get_or_insert_with(|| (page.bytes, page.modified_at.clone()));
        // Files of /proc have no size and are as new as the question.
        if (*size, &*modified_at) != (page.bytes, &page.modified_at) && (*size > 0 || page.bytes > 0) {
            changed.get_or_insert((*size, page.bytes));
        }
        left = left.saturating_sub(page.returned_bytes);
        host.print(bytes).await?;
        match page.next_offset_bytes.filter(|_| page.truncated && left > 0) {
            None => break,
            Some(next) if next > offset => offset = next,
            Some(_) => bail!(
                "{}: the gateway does not come to the end",
                terminal::safe(&arguments.path)
            ),
        }
    }
    let Some((before, after)) = changed else {
        return Ok(ExitCode::SUCCESS);
    };
    let how = match before == after {
        true => "changed".to_owned(),
        false => format!("went from {before} to {after} bytes"),
    };
    host.warn(format!(
        "{} {how} while it was read; what was printed may mix old and new content",
        terminal::safe(&arguments.path)
    ));
    Ok(ExitCode::FAILURE)
}
