//! The service manager, by its own command. `SYSTEMCTL` names another, `JOURNALCTL` likewise.

use crate::host::layout::UNIT;
use anyhow::{Context, bail};
use serde::Serialize;
use std::ffi::OsString;
use std::process::{Command, Output, Stdio};

/// What the service manager says of the unit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitState {
    /// `loaded`, `not-found`, `masked`…
    pub load: String,
    /// `active`, `inactive`, `failed`, `activating`…
    pub active: String,
    /// The same, finer: `running`, `auto-restart`, `dead`…
    pub sub: String,
    /// `enabled`, `disabled`…
    pub enabled: String,
    /// How the last run ended: `success`, `exit-code`, `watchdog`…
    pub result: String,
    /// The daemon's process; 0 for none.
    pub main_pid: u32,
    /// Restarts since it was started by hand.
    pub restarts: u32,
    /// The manager's word for when it became active.
    pub active_since: String,
}

/// The commands.
pub struct ServiceManager {
    systemctl: OsString,
    journalctl: OsString,
}

impl ServiceManager {
    /// By the environment, else the ones of `PATH`.
    pub fn from_environment() -> Self {
        let named = |variable: &str, default: &str| {
            std::env::var_os(variable)
                .filter(|value| !value.is_empty())
                .unwrap_or_else(|| default.into())
        };
        Self {
            systemctl: named("SYSTEMCTL", "systemctl"),
            journalctl: named("JOURNALCTL", "journalctl"),
        }
    }

    /// Runs a command that must succeed.
    pub fn order(&self, words: &[&str]) -> anyhow::Result<()> {
        let output = self.run(words)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("systemctl {} failed ({}): {said}", words.join(" "), output.status);
        }
        Ok(())
    }

    fn run(&self, words: &[&str]) -> anyhow::Result<Output> {
        Command::new(&self.systemctl)
            .args(words)
            .stdin(Stdio::null())
            .output()
            .with_context(|| {
                format!(
                    "cannot run {}; is this a systemd machine? (SYSTEMCTL names another command)",
                    self.systemctl.display()
                )
            })
    }

    /// What the unit is doing.
    pub fn state(&self) -> anyhow::Result<UnitState> {
        let properties =
            "--property=LoadState,ActiveState,SubState,UnitFileState,Result,MainPID,NRestarts,ActiveEnterTimestamp";
        let output = self.run(&["show", UNIT, properties])?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            bail!("systemctl show failed ({}): {said}", output.status);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let property = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        Ok(UnitState {
            load: property("LoadState"),
            active: property("ActiveState"),
            sub: property("SubState"),
            enabled: property("UnitFileState"),
            result: property("Result"),
            main_pid: property("MainPID").parse().unwrap_or_default(),
            restarts: property("NRestarts").parse().unwrap_or_default(),
            active_since: property("ActiveEnterTimestamp"),
        })
    }

    /// The last lines that the service logged; none where there is no log to read.
    pub fn log(&self, lines: usize) -> Vec<String> {
        let count = lines.to_string();
        let words = [
            "--unit",
            UNIT,
            "--lines",
            &count,
            "--no-pager",
            "--quiet",
            "--output",
            "short-iso",
        ];
        match Command::new(&self.journalctl).args(words).stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
                .lines()
                .map(str::to_owned)
                .collect(),
            _ => Vec::new(),
        }
    }

    #[cfg(test)]
    pub fn with(systemctl: &std::path::Path) -> Self {
        Self {
            systemctl: systemctl.into(),
            journalctl: "/nonexistent/journalctl".into(),
        }
    }
}
