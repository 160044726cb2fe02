//! `pairing-code`: the code of a host that waits for approval, alone on its line.

use crate::host::layout::Layout;
use crate::host::output::say;
use crate::host::settings::Settings;
use anyhow::{Context, bail};
use clap::Args;
use goblin_gateway::presence::Presence;
use goblin_identity::read_pairing_code;
use std::process::ExitCode;

/// Words of `pairing-code`.
#[derive(Debug, Args)]
pub struct PairingCodeArguments {
    /// All 32 digits instead of the first 12
    #[arg(long)]
    long: bool,
}

pub fn run(layout: &Layout, arguments: &PairingCodeArguments) -> anyhow::Result<ExitCode> {
    layout.require_root("pairing-code")?;
    let state = Settings::read(layout)?.state_directory();
    let Some(code) = read_pairing_code(&state)? else {
        bail!("no approval is awaited: node-goblin status says what this host is doing");
    };
    if arguments.long {
        let long = Presence::read(&state)?
            .and_then(|note| note.pairing_code)
            .filter(|codes| codes.short == code.code)
            .context("this daemon tells the short code only: node-goblin pairing-code")?;
        say!("{}", long.long);
    } else {
        say!("{}", code.code);
    }
    Ok(ExitCode::SUCCESS)
}
