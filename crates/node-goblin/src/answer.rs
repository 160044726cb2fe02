//! Printing what a controller answered: as it is, or made readable. It must never know a command.

use crate::terminal::{self, Table, ago, safe};
use anyhow::Context;
use goblin_protocol::{json, time};
use serde::de::DeserializeOwned;

/// Reads an answer.
pub fn read<T: DeserializeOwned>(text: &str) -> anyhow::Result<T> {
    json::from_text(text).context("the controller's answer cannot be read")
}

/// Prints an answer as it came, or what `show` makes of it.
pub fn print<T: DeserializeOwned>(text: &str, json: bool, show: impl FnOnce(T) -> String) -> anyhow::Result<()> {
    match json {
        true => Ok(terminal::line(text.trim_end())?),
        false => Ok(terminal::line(show(read(text)?))?),
    }
}

/// Prints a list as it came, or as a table; an empty one is said on standard error.
pub fn print_list<T: DeserializeOwned, R>(
    text: &str,
    json: bool,
    empty: &str,
    rows: impl FnOnce(T) -> Vec<R>,
    table: impl FnOnce(&[R]) -> Table,
) -> anyhow::Result<()> {
    if json {
        return Ok(terminal::line(text.trim_end())?);
    }
    let rows = rows(read(text)?);
    if rows.is_empty() {
        terminal::note(empty);
        return Ok(());
    }
    Ok(terminal::line(table(&rows))?)
}

/// How long ago an ISO 8601 time was; the text itself when it is none.
pub fn since(text: &str, now: i64) -> String {
    time::from_iso8601(text).map_or_else(|| safe(text), |then| ago(then, now))
}

/// A text, or a dash where there is none.
pub fn or_dash(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), safe)
}
