//! The processes of a quickstart: this very program, started, watched and ended.

use crate::quickstart::tied::tie;
use crate::terminal::safe_line;
use anyhow::{Context, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::time::timeout;

/// How long a process may take to end before it is killed: longer than a controller lets requests finish.
const END_WITHIN: Duration = Duration::from_secs(15);

/// Longest first line, in bytes.
const LINE_MAX: u64 = 4096;

/// Lines of a log that are shown with a fault.
const LOG_LINES: usize = 10;

/// Bytes of a log that are looked at for them.
const LOG_TAIL: usize = 16 * 1024;

/// One process. Killed when dropped, though [`Child::end`] is the way.
pub struct Child {
    name: &'static str,
    process: tokio::process::Child,
    output: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Child {
    /// Starts this program with other arguments, its log in `NAME.log` in `directory`.
    pub fn start(name: &'static str, words: &[String], directory: &Path) -> anyhow::Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new(std::env::current_exe().context("cannot find this program's file")?);
        command.args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        command.kill_on_drop(true);
        // What configures another controller or gateway is not meant for these.
        for (variable, _) in std::env::vars_os() {
            let known = variable.to_string_lossy();
            if known.starts_with("BURROW_GATEWAY_") || known.starts_with("NODE_GOBLIN_") || known == "STATE_DIRECTORY" {
                command.env_remove(&variable);
            }
        }
        for variable in ["NO_PROXY", "no_proxy"] {
            command.env(variable, with_loopback(std::env::var(variable).ok()));
        }
        tie(&mut command);
        let mut process = command.spawn().with_context(|| format!("cannot start the {name}"))?;
        let output = process.stdout.take().context("a child without standard output")?;
        Ok(Self {
            name,
            process,
            output: BufReader::new(output),
            log,
        })
    }

    /// The first line that it prints; an error when it ends before.
    pub async fn first_line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        (&mut self.output).take(LINE_MAX).read_line(&mut line).await?;
        match line.strip_suffix('\n') {
            Some(line) => Ok(line.to_owned()),
            None => Err(self.ended().await),
        }
    }

    /// Waits for its end, which nobody asked for.
    pub async fn ended(&mut self) -> anyhow::Error {
        match self.process.wait().await {
            Ok(status) => self.fault(status),
            Err(error) => anyhow!("cannot wait for the {}: {error}", self.name),
        }
    }

    fn fault(&self, status: ExitStatus) -> anyhow::Error {
        let tail = log_tail(&self.log);
        let said = match tail.is_empty() {
            true => "and said nothing".to_owned(),
            false => format!("and said:\n{tail}"),
        };
        anyhow!("the {} ended by itself ({status}) {said}", self.name)
    }

    /// Asks it to end and waits; kills it when that takes too long.
    pub async fn end(mut self) {
        if let Some(pid) = self.process.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // Not waited for yet, so the number is still its own. It may have ended all the same.
            let _ = kill_process(pid, Signal::TERM);
        }
        if timeout(END_WITHIN, self.process.wait()).await.is_err() {
            let _ = self.process.kill().await;
        }
    }
}

/// The list of hosts that no proxy is asked for, with this machine in it.
fn with_loopback(list: Option<String>) -> String {
    match list.filter(|list| !list.trim().is_empty()) {
        Some(list) => format!("{list},127.0.0.1"),
        None => "127.0.0.1".to_owned(),
    }
}

/// The last lines of a log, harmless.
fn log_tail(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let tail = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LOG_TAIL)..]).into_owned();
    let lines: Vec<String> = tail.lines().map(|line| format!("  {}", safe_line(line))).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_needs_no_proxy() {
        assert_eq!(with_loopback(None), "127.0.0.1");
        assert_eq!(with_loopback(Some("a,b".into())), "a,b,127.0.0.1");
    }

    #[test]
    fn the_end_of_a_log_is_shown_harmless() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("x.log");
        assert_eq!(log_tail(&log), "");
        let lines: String = (0..5_000).map(|n| format!("line {n}\u{1b}\n")).collect();
        std::fs::write(&log, lines).unwrap();
        let tail = log_tail(&log);
        assert_eq!(tail.lines().count(), LOG_LINES);
        assert!(tail.ends_with("  line 4999\\x1b"), "{tail}");
    }
}
