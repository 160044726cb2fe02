//! `files ls`, `find` and `search`: what is below a directory.

use crate::files::call::{self, Host};
use crate::terminal::{FAINT, MATCH, PLACE, POINTER, paint, safe, safe_line};
use anstyle::Style;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use std::process::ExitCode;

/// How deep a walk goes.
#[derive(Debug, Args)]
struct Depth {
    /// Levels of directories below DIR that are entered
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    depth: Option<u64>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Names that begin with a dot, and node_modules, are left out. Unless told otherwise four levels are entered and 500 entries \
shown; what is left out is said on standard error.")]
pub struct LsArguments {
    /// Directory on the host; the gateway's working directory unless given
    #[arg(default_value = ".")]
    dir: String,
    #[command(flatten)]
    depth: Depth,
    /// Entries to show at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Print the outcome as it is
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The pattern is matched against the path below DIR: * and ? stay within a name, ** crosses directories. Unless told \
otherwise eight levels are entered, 4000 entries looked at and 500 shown.

Example:
  node-goblin files worker-1 find /srv '**/*.toml'")]
pub struct FindArguments {
    /// Directory on the host
    dir: String,
    /// Pattern of the path below it
    #[arg(default_value = "*")]
    pattern: String,
    #[command(flatten)]
    depth: Depth,
    /// Paths to show at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Entries to look at at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    budget: Option<u64>,
    /// Print the outcome as it is
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The text is taken literally, within one line, upper and lower case told apart. Unless told otherwise eight levels are \
entered, 4000 entries looked at and 200 lines shown.

Example:
  node-goblin files worker-1 search /srv/app 'TODO'")]
pub struct SearchArguments {
    /// Directory or file on the host
    dir: String,
    /// Text to search for
    query: String,
    #[command(flatten)]
    depth: Depth,
    /// Lines to show at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max: Option<u64>,
    /// Entries to look at at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    budget: Option<u64>,
    /// Print the outcome as it is
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Listed {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    path: String,
    r#type: String,
}

#[derive(Deserialize)]
struct Found {
    paths: Vec<String>,
}

#[derive(Deserialize)]
struct Searched {
    query: String,
    matches: Vec<Match>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Match {
    file_path: String,
    line: u64,
    text: String,
}

/// Lists a directory.
pub async fn ls(host: &mut Host, arguments: LsArguments) -> anyhow::Result<ExitCode> {
    let members = call::arguments([
        ("dirPath", Some(arguments.dir.clone().into())),
        ("maxDepth", arguments.depth.depth.map(Value::from)),
        ("maxEntries", arguments.max.map(Value::from)),
    ]);
    host.show(
        "files_list",
        members,
        arguments.json,
        &arguments.dir,
        |listed: Listed| lines(&listed.entries, entry_line),
    )
    .await
}

/// Finds names.
pub async fn find(host: &mut Host, arguments: FindArguments) -> anyhow::Result<ExitCode> {
    let members = call::arguments([
        ("dirPath", Some(arguments.dir.clone().into())),
        ("pattern", Some(arguments.pattern.into())),
        ("maxDepth", arguments.depth.depth.map(Value::from)),
        ("maxEntries", arguments.max.map(Value::from)),
        ("maxTraversalEntries", arguments.budget.map(Value::from)),
    ]);
    host.show("files_find", members, arguments.json, &arguments.dir, |found: Found| {
        lines(&found.paths, |path| safe(path))
    })
    .await
}

/// Searches files.
pub async fn search(host: &mut Host, arguments: SearchArguments) -> anyhow::Result<ExitCode> {
    let members = call::arguments([
        ("dirPath", Some(arguments.dir.clone().into())),
        ("query", Some(arguments.query.into())),
        ("maxDepth", arguments.depth.depth.map(Value::from)),
        ("maxMatches", arguments.max.map(Value::from)),
        ("maxTraversalEntries", arguments.budget.map(Value::from)),
    ]);
    host.show(
        "files_search",
        members,
        arguments.json,
        &arguments.dir,
        |searched: Searched| lines(&searched.matches, |found| match_line(found, &searched.query)),
    )
    .await
}

fn lines<T>(items: &[T], line: impl Fn(&T) -> String) -> String {
    items.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn entry_line(entry: &Entry) -> String {
    let (style, kind, mark) = match entry.r#type.as_str() {
        "directory" => (PLACE, "dir", "/"),
        "symlink" => (POINTER, "link", ""),
        "file" => (Style::new(), "file", ""),
        _ => (FAINT, "other", ""),
    };
    format!(
        "{}  {}{mark}",
        paint(FAINT, format_args!("{kind:<5}")),
        paint(style, safe(&entry.path))
    )
}

fn match_line(found: &Match, query: &str) -> String {
    let mut shown = format!(
        "{}{}{}{} ",
        paint(PLACE, safe(&found.file_path)),
        paint(FAINT, ":"),
        found.line,
        paint(FAINT, ":")
    );
    for (index, piece) in found.text.split(query).enumerate() {
        if index > 0 {
            shown.push_str(&paint(MATCH, safe_line(query)).to_string());
        }
        shown.push_str(&safe_line(piece));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_harmless() {
        let entry = |kind: &str, path: &str| {
            let line = entry_line(&Entry {
                path: path.into(),
                r#type: kind.into(),
            });
            anstream::adapter::strip_str(&line).to_string()
        };
        assert_eq!(entry("directory", "a"), "dir    a/");
        assert_eq!(entry("file", "a\n\u{1b}[1m"), "file   a\\n\\x1b[1m");
        assert_eq!(entry("symlink", "l"), "link   l");
        assert_eq!(entry("fifo", "f"), "other  f");
    }

    #[test]
    fn a_match_stands_out_in_its_line() {
        let found = Match {
            file_path: "src/a\tb.rs".into(),
            line: 7,
            text: "\tab\u{1b}ab".into(),
        };
        let line = match_line(&found, "ab");
        let plain = anstream::adapter::strip_str(&line).to_string();
        assert_eq!(plain, "src/a\\tb.rs:7: \tab\\x1bab");
        assert_eq!(line.matches(&paint(MATCH, "ab").to_string()).count(), 2);
    }
}
