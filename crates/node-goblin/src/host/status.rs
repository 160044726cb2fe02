//! `status`: what the service is doing, in plain words or as JSON.

use crate::host::hint;
use crate::host::layout::{Layout, UNIT};
use crate::host::observation::{Observation, snapshot_entries};
use crate::host::output::say;
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
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say!("{}", report.words().trim_end());
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    /// A machine with a systemctl that prints `unit`, an environment file and files of the state directory.
    fn machine(unit: &str, env: &str, state: &[(&str, String)]) -> (TempDir, Report) {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::of(root.path(), false);
        let directory = root.path().join("var/lib/burrow-host-gateway");
        fs::create_dir_all(&directory).unwrap();
        fs::create_dir_all(layout.env_file().parent().unwrap()).unwrap();
        fs::write(layout.env_file(), env).unwrap();
        for (name, text) in state {
            fs::write(directory.join(name), text).unwrap();
        }
        let systemctl = root.path().join("systemctl");
        fs::write(&systemctl, format!("#!/bin/sh\nprintf '%s\\n' {unit}\n")).unwrap();
        fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
        let report = Report::make(&layout, &ServiceManager::with(&systemctl)).unwrap();
        (root, report)
    }

    const CONFIGURED: &str = "BURROW_GATEWAY_CONTROLLER_URL=tls://[::1]:7443\r\nBURROW_GATEWAY_ID=host-1  \r\n";
    const ACTIVE: &str = "LoadState=loaded ActiveState=active SubState=running UnitFileState=enabled NRestarts=2";
    const DEAD: &str = "LoadState=loaded ActiveState=inactive SubState=dead UnitFileState=disabled";

    fn note(phase: &str, more: &str) -> String {
        let pid = std::process::id();
        format!(
            r#"{{"pid":{pid},"version":"9.9","phase":"{phase}","since":"2026-01-02T03:04:05.000Z","controller":"[::1]:7443",
            "gatewayId":"host-1","journalEntries":7{more}}}"#
        )
    }

    fn code() -> (&'static str, String) {
        let text = r#"{"gatewayId":"host-1","pairingCode":"AAAA-BBBB-CCCC","updatedAt":"2026-01-01T00:00:00.000Z"}"#;
        ("pairing-code.json", text.to_owned())
    }

    #[test]
    fn a_connected_host_says_since_when() {
        let more = r#","connectionId":"1-a","lastError":{"code":"dial_failed","message":"refused","at":"x"}"#;
        let (_root, report) = machine(ACTIVE, CONFIGURED, &[("status.json", note("connected", more))]);
        assert_eq!(report.standing, Standing::Connected);
        assert_eq!(report.connected_since.as_deref(), Some("2026-01-02T03:04:05.000Z"));
        assert_eq!(report.controller.as_deref(), Some("tls://[::1]:7443"));
        let words = report.words();
        for part in [
            "active (running)",
            "2 restarts",
            "version 9.9",
            "connected since 2026-01-02",
            "7 finished",
            "since mended",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        assert!(!words.contains("hint:"), "{words}");
    }

    #[test]
    fn a_waiting_host_shows_its_code() {
        let codes = r#","pairingCode":{"short":"AAAA-BBBB-CCCC","long":"AAAA-BBBB-CCCC-DDDD"}"#;
        let (_root, report) = machine(ACTIVE, CONFIGURED, &[("status.json", note("waiting", codes)), code()]);
        assert_eq!(report.standing, Standing::Waiting);
        assert_eq!(report.long_pairing_code.as_deref(), Some("AAAA-BBBB-CCCC-DDDD"));
        assert!(report.words().contains("AAAA-BBBB-CCCC; approve it"));
        // The older program leaves the code alone.
        let (_root, older) = machine(ACTIVE, CONFIGURED, &[code()]);
        assert_eq!((older.standing, older.long_pairing_code), (Standing::Waiting, None));
        // A code that was left behind counts for nothing.
        let (_root, dead) = machine(DEAD, CONFIGURED, &[code()]);
        assert_eq!((dead.standing, dead.pairing_code), (Standing::Stopped, None));
    }

    #[test]
    fn a_lost_host_says_why_and_what_to_do() {
        let more = r#","lastError":{"code":"unknown_node","message":"the controller answered unknown_node","at":"x"}"#;
        let (_root, report) = machine(ACTIVE, CONFIGURED, &[("status.json", note("connecting", more))]);
        assert_eq!(report.standing, Standing::Connecting);
        assert!(report.words().contains("node-goblin unpair"), "{}", report.words());
        let json: serde_json::Value = serde_json::to_value(&report).unwrap();
        assert_eq!(json["lastError"]["code"], "unknown_node");
        assert_eq!(json["unit"]["active"], "active");
        assert!(json["hint"].is_string() && json["journalEntries"] == 7);
    }

    #[test]
    fn a_host_that_is_not_set_up_says_what_comes_next() {
        let (_root, report) = machine("LoadState=not-found ActiveState=inactive", "", &[]);
        assert_eq!(report.standing, Standing::Unconfigured);
        let words = report.words();
        assert!(
            words.contains("not installed") && words.contains("node-goblin configure"),
            "{words}"
        );
        let (_root, bad) = machine(
            DEAD,
            "BURROW_GATEWAY_CONTROLLER_URL=https://x\nBURROW_GATEWAY_ID=a",
            &[],
        );
        assert!(bad.words().contains("does not begin with tls://"), "{}", bad.words());
        assert!(bad.words().contains("node-goblin connect starts it"));
    }

    #[test]
    fn an_older_configuration_in_the_daemon_is_noticed() {
        let env = "BURROW_GATEWAY_CONTROLLER_URL=tls://new.example:1\nBURROW_GATEWAY_ID=host-1";
        let (_root, report) = machine(ACTIVE, env, &[("status.json", note("connected", ""))]);
        assert!(report.restart_needed && report.words().contains("older configuration"));
    }

    #[test]
    fn the_snapshot_counts_where_no_daemon_runs() {
        let files = [
            ("operations.json", r#"{"entries":[{},{},{}]}"#.to_owned()),
            ("status.json", note("stopped", "")),
        ];
        let (_root, report) = machine(DEAD, CONFIGURED, &files);
        assert_eq!((report.standing, report.journal_entries), (Standing::Stopped, Some(3)));
    }
}
