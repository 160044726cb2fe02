//! `files stat`: what a path is.

use crate::clock;
use crate::files::call::{self, Host};
use crate::terminal::{self, Table, ago, safe};
use anstyle::Style;
use anyhow::bail;
use clap::Args;
use goblin_protocol::{json, time};
use serde::Deserialize;
use std::process::ExitCode;

#[derive(Debug, Args)]
#[command(after_help = "A symbolic link is not followed. A path that does not exist ends with exit code 1.")]
pub struct StatArguments {
    /// Path on the host
    path: String,
    /// Print the outcome as it is
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Inspected {
    path: String,
    exists: bool,
    r#type: Option<String>,
    size: Option<u64>,
    modified_at: Option<String>,
    symlink_target: Option<String>,
}

/// Shows what a path is.
pub async fn run(host: &mut Host, arguments: StatArguments) -> anyhow::Result<ExitCode> {
    let members = call::arguments([("path", Some(arguments.path.clone().into()))]);
    let outcome = host.call(&Host::request("files_inspect", members)).await?;
    if arguments.json {
        let code = host.print_outcome(&outcome).await?;
        let exists = json::from_text::<Inspected>(&outcome).is_ok_and(|inspected| inspected.exists);
        return Ok(if exists { code } else { ExitCode::FAILURE });
    }
    let inspected: Inspected = host.succeeded(&outcome, &arguments.path)?;
    if !inspected.exists {
        bail!("{} does not exist", safe(&inspected.path));
    }
    let shown = terminal::rendered(&format!("{}\n", table(&inspected, clock::now_ms())));
    host.print(shown.into_bytes()).await?;
    Ok(ExitCode::SUCCESS)
}

fn table(inspected: &Inspected, now: i64) -> Table {
    let mut table = Table::new(["", ""]);
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            table.row([(terminal::FAINT, name.to_owned()), (Style::new(), value)]);
        }
    };
    row("path", Some(safe(&inspected.path)));
    row("type", inspected.r#type.as_deref().map(safe));
    row(
        "size",
        inspected.size.map(|size| match size {
            ..1_024 => terminal::bytes(size),
            _ => format!("{size} bytes ({})", terminal::bytes(size)),
        }),
    );
    row(
        "modified",
        inspected
            .modified_at
            .as_deref()
            .map(|text| match time::from_iso8601(text) {
                Some(then) => format!("{text} ({})", ago(then, now)),
                None => safe(text),
            }),
    );
    row("target", inspected.symlink_target.as_deref().map(safe));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_shown() {
        let inspected = Inspected {
            path: "/a\u{7}".into(),
            exists: true,
            r#type: Some("symlink".into()),
            size: Some(2_048),
            modified_at: Some("1970-01-01T00:00:01.000Z".into()),
            symlink_target: Some("/b".into()),
        };
        let shown = anstream::adapter::strip_str(&table(&inspected, 3_000).to_string()).to_string();
        assert_eq!(
            shown,
            "path      /a\\x07\ntype      symlink\nsize      2048 bytes (2.0 KiB)\nmodified  1970-01-01T00:00:01.000Z (2 s ago)\ntarget    /b"
        );
    }
}
