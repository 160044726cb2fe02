//! One call of a filesystem tool, and printing what it gave.

use crate::api::{Api, explained, explained_remote};
use crate::interrupts::{Interrupts, Stopped};
use crate::outputs::Outputs;
use crate::terminal::{self, safe};
use crate::{cancel, ids};
use anyhow::{Context, bail};
use bytes::Bytes;
use goblin_api::{DispatchAnswer, FileRequest, routes};
use goblin_client::{ClientError, Collected, Envelope};
use goblin_protocol::envelope::OutputStream;
use goblin_protocol::json;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::process::ExitCode;
use std::time::Duration;

/// How long a cancel is waited for after Ctrl-C.
const CANCEL_WAIT: Duration = Duration::from_secs(2);

/// Warnings that are printed one by one.
const WARNINGS_SHOWN: usize = 20;

/// A gateway whose files are worked on.
pub struct Host {
    api: Api,
    gateway: String,
    outputs: Outputs,
    interrupts: Interrupts,
    /// What is to be said when the output is out.
    warnings: Vec<String>,
}

/// What every outcome has.
#[derive(Deserialize)]
struct Common {
    ok: bool,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    diagnostic: Option<Diagnostic>,
    #[serde(default)]
    incomplete: bool,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Diagnostic {
    #[serde(default)]
    message: String,
}

impl Host {
    pub fn new(api: Api, gateway: String, outputs: Outputs, interrupts: Interrupts) -> Self {
        Self {
            api,
            gateway,
            outputs,
            interrupts,
            warnings: Vec::new(),
        }
    }

    /// The request of a call.
    pub fn request(tool: &str, arguments: Map<String, Value>) -> FileRequest {
        FileRequest {
            operation_id: ids::new_operation(),
            tool: tool.to_owned(),
            arguments,
            ..FileRequest::default()
        }
    }

    /// Calls a tool and gives its outcome as it came. Ctrl-C cancels the call.
    pub async fn call(&mut self, request: &FileRequest) -> anyhow::Result<String> {
        let path = routes::filesystem(&self.gateway);
        let answer: DispatchAnswer = tokio::select! {
            answer = self.api.post(&path, Some(request)) => answer.map_err(|error| error.about(&self.gateway))?,
            interrupt = self.interrupts.next() => {
                let cancel = cancel::dispatch(&self.api, &self.gateway, &request.operation_id);
                // Best effort: a tool only reads, or replaces a file whole.
                let _ = tokio::time::timeout(CANCEL_WAIT, cancel).await;
                return Err(Stopped(interrupt).into());
            }
        };
        let response = Bytes::from(String::from(Box::<str>::from(answer.dispatch.response)));
        let mut collected = Collected::default();
        collected.add(Envelope::read(response).context("the gateway's answer is no part of the protocol")?);
        match collected.result_of(&request.operation_id) {
            Ok(result) => Ok(String::from(Box::<str>::from(result.outcome))),
            Err(ClientError::Remote(error)) => bail!("{}: {}", self.gateway, explained_remote(&error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls a tool whose outcome is shown in one piece: as it came, or as `show` renders it.
    pub async fn show<T: DeserializeOwned>(
        &mut self,
        tool: &str,
        arguments: Map<String, Value>,
        json: bool,
        path: &str,
        show: impl FnOnce(T) -> String,
    ) -> anyhow::Result<ExitCode> {
        let outcome = self.call(&Self::request(tool, arguments)).await?;
        if json {
            return self.print_outcome(&outcome).await;
        }
        let shown = show(self.succeeded(&outcome, path)?);
        if !shown.is_empty() {
            self.print(terminal::rendered(&(shown + "\n")).into_bytes()).await?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints an outcome as it came.
    pub async fn print_outcome(&mut self, outcome: &str) -> anyhow::Result<ExitCode> {
        let common: Common = json::from_text(outcome).context("the tool's outcome cannot be read")?;
        self.print([outcome, "\n"].concat().into_bytes()).await?;
        Ok(if common.ok {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Hands bytes to standard output.
    pub async fn print(&mut self, bytes: Vec<u8>) -> anyhow::Result<()> {
        tokio::select! {
            room = self.outputs.room() => match room {
                Some(room) => _ = room.send((OutputStream::Stdout, bytes)),
                None => return Err(self.outputs.fault().await.into()),
            },
            interrupt = self.interrupts.next() => return Err(Stopped(interrupt).into()),
        }
        Ok(())
    }

    /// Says something on standard error once the output is out.
    pub fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// Waits until all is printed.
    pub async fn finish(mut self) -> anyhow::Result<()> {
        let outputs = self.outputs;
        let finished = self
            .interrupts
            .unless_stopped(async { Ok(outputs.finish().await?) })
            .await;
        for warning in self.warnings.iter().take(WARNINGS_SHOWN) {
            terminal::warn(warning);
        }
        if self.warnings.len() > WARNINGS_SHOWN {
            let more = self.warnings.len() - WARNINGS_SHOWN;
            terminal::warn(format_args!("{more} more warnings; --json shows them all"));
        }
        finished
    }

    /// The result of a tool that did what was asked. `path` is what was asked about, for the error of one that did not.
    pub fn succeeded<T: DeserializeOwned>(&mut self, outcome: &str, path: &str) -> anyhow::Result<T> {
        let common: Common = json::from_text(outcome).context("the tool's outcome cannot be read")?;
        if !common.ok {
            let code = safe(common.error.as_deref().unwrap_or("no_error_code"));
            match common.diagnostic.filter(|diagnostic| !diagnostic.message.is_empty()) {
                Some(diagnostic) => bail!("{}: {} ({code})", safe(path), safe(&diagnostic.message)),
                None => bail!("{}: {}", safe(path), explained(&code)),
            }
        }
        if common.incomplete && common.warnings.is_empty() {
            self.warn("the result is not complete".to_owned());
        }
        self.warnings
            .extend(common.warnings.iter().map(|warning| warning_sentence(warning)));
        json::from_text(outcome).context("the tool's outcome cannot be read")
    }
}

fn warning_sentence(warning: &str) -> String {
    let (what, rest) = warning.split_once(':').unwrap_or((warning, ""));
    let rest = safe(rest);
    match what {
        "unreadable_directory" => format!("this directory could not be read: {rest}"),
        "unreadable_file" => format!("this file could not be read: {rest}"),
        "not_a_regular_file" => format!("this is no regular file and was left out: {rest}"),
        "binary_file" => format!("this file is binary and was not searched: {rest}"),
        "undecodable_name" => format!("this name is not UTF-8 and is shown as near as can be: {rest}"),
        "not_atomic" => "the file could not be replaced in one step and was written in its place".to_owned(),
        _ => safe(warning),
    }
}

/// Arguments of a call: those that are given.
pub fn arguments<const N: usize>(members: [(&str, Option<Value>); N]) -> Map<String, Value> {
    let given = members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    given.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_become_sentences() {
        assert!(warning_sentence("unreadable_directory:a\n/b:EACCES").ends_with(": a\\n/b:EACCES"));
        assert!(warning_sentence("not_atomic").contains("in one step"));
        assert_eq!(warning_sentence("Something else: here"), "Something else: here");
    }
}
