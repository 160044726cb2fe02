//! `unpair`: the host forgets its controller. Key pair and journal stay.

use crate::clock::now_ms;
use crate::host::layout::{Layout, UNIT};
use crate::host::output::say;
use crate::host::settings::Settings;
use crate::host::systemctl::ServiceManager;
use goblin_identity::StateDir;
use std::process::ExitCode;

pub fn run(layout: &Layout, manager: &ServiceManager) -> anyhow::Result<ExitCode> {
    layout.require_root("unpair")?;
    let state = Settings::read(layout)?.state_directory();
    if !layout.is_staging() {
        let unit = manager.state()?;
        // A unit that is not there can't be stopped, and need not be.
        if unit.load != "not-found" {
            manager.order(&["stop", UNIT])?;
        }
    }
    if !state.is_dir() {
        say!("{} does not exist: there is nothing to forget", state.display());
        return Ok(ExitCode::SUCCESS);
    }
    StateDir::open(&state)?.unpair(now_ms())?;
    say!("the controller is forgotten; key pair and journal are kept");
    if !layout.is_staging() {
        say!("the service is stopped; node-goblin connect pairs it anew");
    }
    Ok(ExitCode::SUCCESS)
}
