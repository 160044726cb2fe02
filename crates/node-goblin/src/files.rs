//! `node-goblin files`: files of a host.

mod call;
mod edit;
mod listing;
mod read;
mod stat;
mod write;

use crate::endpoint::Endpoint;
use crate::ids;
use crate::interrupts::{Interrupts, Stopped};
use crate::outputs::Outputs;
use crate::runtime;
use call::Host;
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Flags of `node-goblin files`.
#[derive(Debug, Args)]
#[command(after_help = "\
A relative path starts at the gateway's working directory. Names are shown with control characters escaped; --json gives \
them exactly, in the tool's own words.

Examples:
  node-goblin files worker-1 ls /etc --depth 1
  node-goblin files worker-1 read /var/log/syslog | tail
  node-goblin files worker-1 find /srv '**/*.toml'
  node-goblin files worker-1 search /srv/app TODO
  echo hello | node-goblin files worker-1 write /tmp/greeting
  node-goblin files worker-1 edit /etc/motd --old hello --new goodbye
  node-goblin files worker-1 stat /tmp/greeting

Exit codes: 0, or 1 when the tool failed or the gateway could not be asked; 130 when it was cancelled by Ctrl-C; 141 when \
the output was closed.")]
pub struct FilesArguments {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Id of the gateway
    #[arg(value_parser = ids::gateway)]
    gateway: String,
    #[command(subcommand)]
    command: FilesCommand,
}

#[derive(Debug, Subcommand)]
enum FilesCommand {
    /// Print a file, byte for byte, however large
    Read(read::ReadArguments),
    /// Write a file whole, from a file here or standard input
    Write(write::WriteArguments),
    /// Replace the one occurrence of a text in a file
    Edit(edit::EditArguments),
    /// List a directory
    Ls(listing::LsArguments),
    /// Find names below a directory
    Find(listing::FindArguments),
    /// Search the files below a directory for a text
    Search(listing::SearchArguments),
    /// Show what a path is
    Stat(stat::StatArguments),
}

/// Works on files of a gateway.
pub fn run(arguments: FilesArguments) -> anyhow::Result<ExitCode> {
    let api = arguments.endpoint.api()?;
    // Standard input is read before Ctrl-C means anything but the end.
    let content = match &arguments.command {
        FilesCommand::Write(write) => Some(write.content()?),
        _ => None,
    };
    runtime::single()?.block_on(async {
        let mut host = Host::new(api, arguments.gateway, Outputs::standard(), Interrupts::watch()?);
        let code = work(&mut host, arguments.command, content.unwrap_or_default()).await;
        // What was handed over before a fault is printed all the same.
        let finished = match &code {
            Err(error) if error.is::<Stopped>() => Ok(()),
            _ => host.finish().await,
        };
        code.and_then(|code| finished.map(|()| code))
    })
}

async fn work(host: &mut Host, command: FilesCommand, content: String) -> anyhow::Result<ExitCode> {
    match command {
        FilesCommand::Read(arguments) => read::run(host, arguments).await,
        FilesCommand::Write(arguments) => write::run(host, arguments, content).await,
        FilesCommand::Edit(arguments) => edit::run(host, arguments).await,
        FilesCommand::Ls(arguments) => listing::ls(host, arguments).await,
        FilesCommand::Find(arguments) => listing::find(host, arguments).await,
        FilesCommand::Search(arguments) => listing::search(host, arguments).await,
        FilesCommand::Stat(arguments) => stat::run(host, arguments).await,
    }
}

#[cfg(test)]
mod tests;
