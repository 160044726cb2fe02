//! What the daemon tells its own host about itself: `status.json` in the state directory, for the operator's command.
//!
//! Written when something changes, and at most once a minute for the journal's size alone. It must never hold a secret,
//! and nothing depends on it: a file that can't be written is said once and the daemon goes on.

use crate::clock::now_ms;
use goblin_identity::IdentityError;
use goblin_identity::private_file::{Privacy, PrivateDirectory};
use goblin_link::gateway_auth::PairingCode;
use goblin_protocol::time::iso8601;
use serde::{Deserialize, Serialize};
use std::path::Path;
use tracing::{trace, warn};

/// The file's name.
pub const STATUS_FILE: &str = "status.json";

/// Target of the log events that tell what the daemon is doing, one sentence each.
pub const TARGET: &str = "goblin_gateway::presence";

/// Longest text of an error in the file, in characters.
const ERROR_MAX: usize = 1_000;

/// What the daemon is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No connection; the next attempt comes by itself.
    Connecting,
    /// An operator has to approve this host.
    Waiting,
    /// Authenticated: work can come.
    Connected,
    /// It ended cleanly.
    Stopped,
}

/// The latest reason for having no connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// A stable code.
    pub code: String,
    /// A sentence for a person.
    pub message: String,
    /// When it came up first, ISO 8601.
    pub at: String,
}

/// The codes of a host that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Codes {
    /// `XXXX-XXXX-XXXX`
    pub short: String,
    /// 32 digits in groups of four.
    pub long: String,
}

/// What stands in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Presence {
    /// The daemon's process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// What it is doing.
    pub phase: Phase,
    /// Since when, ISO 8601.
    pub since: String,
    /// The controller that it was told of, `host:port`.
    pub controller: String,
    /// The id that it was given.
    pub gateway_id: String,
    /// The controller's name for the live connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_id: Option<String>,
    /// What an operator compares, while this host waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairing_code: Option<Codes>,
    /// Why there was no connection, the last time that there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// Outcomes that were kept for replay when this was written.
    pub journal_entries: usize,
}

impl Presence {
    /// Reads what a daemon of this state directory wrote last. `None` where none ever did.
    pub fn read(directory: &Path) -> Result<Option<Self>, IdentityError> {
        let files = match PrivateDirectory::open_existing(directory) {
            Ok(files) => files,
            Err(IdentityError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(text) = files.read(STATUS_FILE, Privacy::Plain)? else {
            return Ok(None);
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| IdentityError::Invalid {
                path: files.join(STATUS_FILE),
                reason: error.to_string(),
            })
    }
}

/// Keeps the file.
pub(crate) struct Reporter {
    files: Option<PrivateDirectory>,
    presence: Presence,
}

impl Reporter {
    pub(crate) fn new(directory: &Path, version: &str, controller: String, gateway_id: &str) -> Self {
        let mut reporter = Self {
            files: PrivateDirectory::open_existing(directory).ok(),
            presence: Presence {
                pid: std::process::id(),
                version: version.to_owned(),
                phase: Phase::Connecting,
                since: now(),
                controller,
                gateway_id: gateway_id.to_owned(),
                connection_id: None,
                pairing_code: None,
                last_error: None,
                journal_entries: 0,
            },
        };
        reporter.write();
        reporter
    }

    pub(crate) fn waiting(&mut self, code: &PairingCode) {
        self.enter(Phase::Waiting);
        self.presence.pairing_code = Some(Codes {
            short: code.short.clone(),
            long: code.long.clone(),
        });
        self.write();
    }

    pub(crate) fn connected(&mut self, connection_id: &str, journal_entries: usize) {
        self.enter(Phase::Connected);
        self.presence.connection_id = Some(connection_id.to_owned());
        self.presence.journal_entries = journal_entries;
        self.write();
    }

    /// Notes why there is no connection. The same reason again and again is written once.
    pub(crate) fn failed(&mut self, code: &str, message: &str) {
        let message: String = message.chars().take(ERROR_MAX).collect();
        let known = self
            .presence
            .last_error
            .as_ref()
            .is_some_and(|last| last.code == code && last.message == message);
        if known && self.presence.phase == Phase::Connecting {
            return;
        }
        if self.presence.phase != Phase::Connecting {
            self.enter(Phase::Connecting);
        }
        self.presence.last_error = Some(LastError {
            code: code.to_owned(),
            message,
            at: now(),
        });
        self.write();
    }

    /// Writes the journal's size, where it has changed.
    pub(crate) fn counted(&mut self, journal_entries: usize) {
        if self.presence.journal_entries != journal_entries {
            self.presence.journal_entries = journal_entries;
            self.write();
        }
    }

    pub(crate) fn stopped(&mut self, journal_entries: usize) {
        self.enter(Phase::Stopped);
        self.presence.journal_entries = journal_entries;
        self.write();
    }

    fn enter(&mut self, phase: Phase) {
        self.presence.phase = phase;
        self.presence.since = now();
        self.presence.connection_id = None;
        self.presence.pairing_code = None;
    }

    fn write(&mut self) {
        let presence = &self.presence;
        trace!(target: TARGET, "{}", sentence(presence));
        let Some(files) = &self.files else { return };
        // Texts and numbers always serialise.
        let Ok(text) = serde_json::to_string_pretty(presence) else {
            return;
        };
        if let Err(error) = files.write(STATUS_FILE, format!("{text}\n").as_bytes()) {
            warn!(%error, "the status file can't be written; the operator's command will know less");
            self.files = None;
        }
    }
}

fn sentence(presence: &Presence) -> String {
    let controller = &presence.controller;
    match (presence.phase, &presence.last_error) {
        (Phase::Connecting, None) => format!("Connecting to {controller}"),
        (Phase::Connecting, Some(error)) => format!("Not connected to {controller}: {}", error.code),
        (Phase::Waiting, _) => format!("Waiting for approval by an operator of {controller}"),
        (Phase::Connected, _) => format!("Connected to {controller}"),
        (Phase::Stopped, _) => "Stopping".to_owned(),
    }
}

fn now() -> String {
    iso8601(now_ms().try_into().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_file_follows_the_daemon() {
        let folder = tempfile::tempdir().unwrap();
        let read = || Presence::read(folder.path()).unwrap().unwrap();
        assert_eq!(Presence::read(&folder.path().join("none")).unwrap(), None);
        assert_eq!(Presence::read(folder.path()).unwrap(), None);
        let mut reporter = Reporter::new(folder.path(), "1", "c:1".into(), "host-1");
        assert_eq!((read().phase, read().pid), (Phase::Connecting, std::process::id()));
        reporter.failed("dial_failed", "refused");
        let first = read();
        assert_eq!(first.last_error.as_ref().unwrap().code, "dial_failed");
        reporter.failed("dial_failed", "refused");
        assert_eq!(read(), first);
        let code = PairingCode {
            short: "AAAA".into(),
            long: "AAAA-BBBB".into(),
        };
        reporter.waiting(&code);
        assert_eq!(read().pairing_code.unwrap().long, "AAAA-BBBB");
        reporter.connected("1-a", 7);
        let connected = read();
        assert_eq!(
            (connected.connection_id.as_deref(), connected.pairing_code),
            (Some("1-a"), None)
        );
        assert_eq!(connected.journal_entries, 7);
        reporter.failed("connection_closed", &"é".repeat(5_000));
        let lost = read();
        assert_eq!((lost.phase, lost.connection_id), (Phase::Connecting, None));
        assert_eq!(lost.last_error.unwrap().message.chars().count(), ERROR_MAX);
        reporter.stopped(9);
        assert_eq!((read().phase, read().journal_entries), (Phase::Stopped, 9));
        let mode = std::fs::metadata(folder.path().join(STATUS_FILE))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_is_no_status_is_an_error_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{}", "[1]", "{\"pid\":-1}", "\u{0}"] {
            std::fs::write(folder.path().join(STATUS_FILE), text).unwrap();
            assert!(Presence::read(folder.path()).is_err(), "{text:?}");
        }
    }
}
