//! `configure`: writes the controller's address and this host's id into the environment file.

use crate::host::account::replace_configuration;
use crate::host::address;
use crate::host::env_file::EnvFile;
use crate::host::layout::Layout;
use crate::host::output::say;
use crate::host::settings::{CONTROLLER_URL, GATEWAY_ID};
use anyhow::{Context, bail};
use clap::Args;
use goblin_protocol::id::valid_gateway_id;
use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

/// Longest answer that is read from a terminal, in bytes.
const ANSWER_MAX: u64 = 4096;

/// Words of `configure`.
#[derive(Debug, Args)]
pub struct ConfigureArguments {
    /// Where the controller listens: HOST:PORT or tls://HOST:PORT
    #[arg(value_name = "CONTROLLER")]
    controller: Option<String>,
    /// Id of this host: letters, digits, '.', '_' and '-'
    #[arg(value_name = "NODE_ID")]
    id: Option<String>,
}

pub fn run(layout: &Layout, arguments: &ConfigureArguments) -> anyhow::Result<ExitCode> {
    layout.require_root("configure")?;
    let path = layout.env_file();
    let mut file = EnvFile::read(&path)?;
    let controller = match &arguments.controller {
        Some(text) => text.clone(),
        None => ask("Controller (HOST:PORT)", file.filled(CONTROLLER_URL), "CONTROLLER")?,
    };
    let address = address::given(&controller)?;
    let id = match &arguments.id {
        Some(id) => id.clone(),
        None => ask("Id of this host", file.filled(GATEWAY_ID), "NODE_ID")?,
    };
    check_id(&id)?;
    let url = format!("tls://{}", address.authority());
    file.set(CONTROLLER_URL, &url);
    file.set(GATEWAY_ID, &id);
    replace_configuration(layout, &path, file.text())?;
    say!("{}: controller {url}, id {id}", path.display());
    if !layout.is_staging() {
        say!("next: node-goblin connect");
    }
    Ok(ExitCode::SUCCESS)
}

fn check_id(id: &str) -> anyhow::Result<()> {
    if let Some(odd) = id
        .chars()
        .find(|letter| !letter.is_ascii_alphanumeric() && !"._-".contains(*letter))
    {
        bail!("the id {id:?} can't be: {odd:?} is no letter, digit, '.', '_' or '-'");
    }
    if !valid_gateway_id(id) {
        bail!("the id {id:?} can't be: it begins with a letter or digit, has at most 255, and is not \"local\"");
    }
    Ok(())
}

/// Asks on a terminal; an empty answer keeps what is configured.
fn ask(question: &str, configured: Option<&str>, word: &str) -> anyhow::Result<String> {
    let mut terminal = std::io::stdin().lock();
    if !terminal.is_terminal() {
        bail!("{word} is missing, and there is no terminal to ask on: node-goblin configure CONTROLLER NODE_ID");
    }
    match configured {
        Some(value) => print!("{question} [{value}]: "),
        None => print!("{question}: "),
    }
    std::io::stdout().flush().context("the terminal")?;
    let mut answer = String::new();
    std::io::Read::take(&mut terminal, ANSWER_MAX)
        .read_line(&mut answer)
        .context("the terminal")?;
    match (answer.trim(), configured) {
        ("", Some(value)) => Ok(value.to_owned()),
        ("", None) => bail!("{word} is missing"),
        (given, _) => Ok(given.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_that_the_daemon_takes() {
        for good in ["a", "host-1", "web.example_2", &"x".repeat(255)] {
            assert!(check_id(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "a/b", "ä", "-a", ".a", "local", "a\n", &"x".repeat(256)] {
            assert!(check_id(bad).is_err(), "{bad:?}");
        }
    }
}
