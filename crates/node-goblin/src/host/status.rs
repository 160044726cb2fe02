//! `status`: what the service is doing, in plain words or as JSON.

use crate::host::hint;
use crate::host::layout::{Layout, UNIT};
use crate::host::observation::{Observation, snapshot_entries};
use crate::host::settings::Settings;
use crate::host::systemctl::{ServiceManager, UnitState};
use clap::Args;
use goblin_gateway::presence::{LastError, Phase};
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;

/// Lines of the log that are shown.
const LOG_LINES: usize = 5;

/// Words of `status`.
#[derive(Debug, Args)]
pub struct StatusArguments {
    /// One JSON object instead of words
    #[arg(long)]
    json: bool,
}

/// How the host stands with its controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Standing {
    /// No controller is configured.
    Unconfigured,
    /// The service does not run.
    Stopped,
    /// It has no connection and tries again by itself.
    Connecting,
    /// An operator has to approve it.
    Waiting,
    /// It is connected and approved.
    Connected,
    /// It runs, but tells nothing of itself.
    Unknown,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    standing: Standing,
    unit: UnitState,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit_error: Option<String>,
    controller: Option<String>,
    gateway_id: Option<String>,
    paired: bool,
    pairing_code: Option<String>,
    long_pairing_code: Option<String>,
    connected_since: Option<String>,
    connection_id: Option<String>,
    version: Option<String>,
    last_error: Option<LastError>,
    hint: Option<&'static str>,
    journal_entries: Option<usize>,
    configuration_error: Option<String>,
    restart_needed: bool,
    state_directory: String,
    log: Vec<String>,
}

pub fn run(layout: &Layout, manager: &ServiceManager, arguments: &StatusArguments) -> anyhow::Result<ExitCode> {
    layout.require_service("status")?;
    layout.require_root("status")?;
    let report = Report::make(layout, manager)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", report.words());
    }
    // As systemctl's own: 3 says that the service does not run.
    let running = report.unit.active == "active";
    Ok(if running { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

impl Report {
    fn make(layout: &Layout, manager: &ServiceManager) -> anyhow::Result<Self> {
        let settings = Settings::read(layout)?;
        let seen = Observation::take(layout, manager, &settings)?;
        let (controller, configuration_error) = match settings.controller() {
            Ok(address) => (address, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let configured = settings.controller_url().is_some() && settings.gateway_id().is_some();
        let running = seen.unit.as_ref().is_ok_and(|unit| unit.active == "active");
        let standing = match (&seen.presence, &seen.pairing_code) {
            (Some(note), _) if note.phase == Phase::Connected => Standing::Connected,
            (Some(note), _) if note.phase == Phase::Waiting => Standing::Waiting,
            (None, Some(_)) if running => Standing::Waiting,
            (Some(_), _) => Standing::Connecting,
            (None, _) if running => Standing::Unknown,
            (None, _) if !configured => Standing::Unconfigured,
            (None, _) => Standing::Stopped,
        };
        let restart_needed = seen.presence.as_ref().is_some_and(|note| {
            let other = controller
                .as_ref()
                .is_some_and(|address| address.authority() != note.controller);
            other || settings.gateway_id().is_some_and(|id| id != note.gateway_id)
        });
        let state = settings.state_directory();
        let last_error = seen
            .presence
            .as_ref()
            .or(seen.earlier.as_ref())
            .and_then(|note| note.last_error.clone());
        let (unit, unit_error) = match seen.unit {
            Ok(unit) => (unit, None),
            Err(error) => (UnitState::default(), Some(format!("{error:#}"))),
        };
        let connected = seen.presence.as_ref().filter(|note| note.phase == Phase::Connected);
        Ok(Self {
            standing,
            unit,
            unit_error,
            controller: controller.map(|address| format!("tls://{}", address.authority())),
            gateway_id: settings.gateway_id().map(str::to_owned),
            paired: seen.trust.is_paired(),
            connected_since: connected.map(|note| note.since.clone()),
            connection_id: connected.and_then(|note| note.connection_id.clone()),
            version: seen.presence.as_ref().map(|note| note.version.clone()),
            hint: last_error.as_ref().and_then(|error| hint::for_code(&error.code)),
            last_error,
            journal_entries: match &seen.presence {
                Some(note) => Some(note.journal_entries),
                None => snapshot_entries(&state),
            },
            pairing_code: seen.pairing_code.filter(|_| running),
            long_pairing_code: seen.long_pairing_code,
            configuration_error,
            restart_needed,
            state_directory: state.display().to_string(),
            log: manager.log(LOG_LINES),
        })
    }

    fn words(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            // Writing into a text can't fail.
            let _ = writeln!(text, "{:<12} {value}", format!("{name}:"));
        };
        line("service", &self.service());
        let controller = match (&self.controller, &self.configuration_error) {
            (Some(address), _) => address.clone(),
            (None, Some(error)) => error.clone(),
            (None, None) => "none configured; node-goblin configure HOST:PORT NODE_ID".to_owned(),
        };
        line("controller", &controller);
        line("this host", self.gateway_id.as_deref().unwrap_or("has no id yet"));
        line("connection", &self.connection());
        if let Some(code) = &self.pairing_code {
            line(
                "code",
                &format!("{code}; approve it on the controller once it shows the same"),
            );
        }
        line(
            "paired",
            if self.paired {
                "yes; node-goblin unpair forgets the controller"
            } else {
                "not yet"
            },
        );
        if let Some(error) = &self.last_error {
            let when = if self.standing == Standing::Connected {
                ", since mended"
            } else {
                ""
            };
            line("last error", &format!("{} ({}{when})", error.message, error.at));
            if let (Some(advice), "") = (self.hint, when) {
                line("hint", advice);
            }
        }
        if self.restart_needed {
            line(
                "hint",
                "the service still has an older configuration; node-goblin connect restarts it",
            );
        }
        if let Some(entries) = self.journal_entries {
            line("journal", &format!("{entries} finished operations kept for replay"));
        }
        line("state", &self.state_directory);
        if !self.log.is_empty() {
            line("log", &format!("journalctl -u {UNIT}, its end:"));
            for entry in &self.log {
                let _ = writeln!(text, "  {entry}");
            }
        }
        text
    }

    fn service(&self) -> String {
        if let Some(error) = &self.unit_error {
            return error.clone();
        }
        let unit = &self.unit;
        match (unit.load.as_str(), unit.active.as_str()) {
            ("not-found", _) => format!("{UNIT} is not installed"),
            ("masked", _) => format!("{UNIT} is masked; systemctl unmask {UNIT}"),
            (_, "active") => {
                let version = self.version.as_ref().map(|version| format!(", version {version}"));
                format!(
                    "active ({}) since {}, process {}, {} restarts, {} at boot{}",
                    unit.sub,
                    unit.active_since,
                    unit.main_pid,
                    unit.restarts,
                    unit.enabled,
                    version.unwrap_or_default()
                )
            }
            (_, "failed") => format!("failed ({}); journalctl -u {UNIT}", unit.result),
            (_, "activating") => format!("starting ({}), {} restarts", unit.sub, unit.restarts),
            (_, active) => format!(
                "{active} ({}), {} at boot; node-goblin connect starts it",
                unit.sub, unit.enabled
            ),
        }
    }

    fn connection(&self) -> String {
        match self.standing {
            Standing::Unconfigured => "none: not configured".to_owned(),
            Standing::Stopped => "none: the service does not run".to_owned(),
            Standing::Connecting => "none; the service tries again by itself".to_owned(),
            Standing::Waiting => "waits for an operator's approval".to_owned(),
            Standing::Connected => format!("connected since {}", self.connected_since.as_deref().unwrap_or("?")),
            Standing::Unknown => "unknown; the running daemon tells nothing of itself".to_owned(),
        }
    }
}
