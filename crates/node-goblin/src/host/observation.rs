//! What can be seen of the service from outside: the unit, the daemon's own note, its files. No verdicts here.

use crate::host::layout::Layout;
use crate::host::settings::Settings;
use crate::host::systemctl::{ServiceManager, UnitState};
use anyhow::Context;
use goblin_gateway::presence::{Phase, Presence};
use goblin_identity::private_file::{Privacy, PrivateDirectory};
use goblin_identity::read_pairing_code;
use goblin_keys::Fingerprint;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Everything at one time.
pub struct Observation {
    /// The unit; an error where there is no service manager.
    pub unit: anyhow::Result<UnitState>,
    /// The daemon's note, when it is that of the running daemon.
    pub presence: Option<Presence>,
    /// The daemon's note of an earlier run.
    pub earlier: Option<Presence>,
    /// The short code that waits for approval.
    pub pairing_code: Option<String>,
    /// The long one, which a daemon of the older program does not tell.
    pub long_pairing_code: Option<String>,
    /// How this host is trusted by a controller.
    pub trust: Trust,
}

/// How the host stands with its controller, by its files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The pinned certificate, after key pairing.
    pub pinned: Option<Fingerprint>,
    /// True when a shared secret was stored by HMAC enrolment.
    pub secret: bool,
}

impl Trust {
    /// True when a controller has approved this host.
    pub fn is_paired(&self) -> bool {
        self.pinned.is_some() || self.secret
    }

    /// Reads it without the lock, which the daemon holds.
    pub fn read(state: &Path) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Pins {
            controller_tls_fingerprint: Option<String>,
        }
        if !state.exists() {
            return Ok(Self::default());
        }
        let files = PrivateDirectory::open_existing(state)?;
        let pinned = match files.read("node-identity.json", Privacy::Plain)? {
            None => None,
            Some(text) => {
                let name = || files.join("node-identity.json").display().to_string();
                let pins: Pins = serde_json::from_str(&text).with_context(name)?;
                pins.controller_tls_fingerprint
                    .map(|hex| hex.parse())
                    .transpose()
                    .with_context(name)?
            }
        };
        Ok(Self {
            pinned,
            secret: files.exists("controller-trust.json")?,
        })
    }
}

impl Observation {
    /// Looks. A state directory that can't be read is an error.
    pub fn take(layout: &Layout, manager: &ServiceManager, settings: &Settings) -> anyhow::Result<Self> {
        let state = settings.state_directory();
        let unit = if layout.is_staging() {
            Ok(UnitState::default())
        } else {
            manager.state()
        };
        let note = Presence::read(&state)?;
        let (presence, earlier) = match note {
            Some(note) if is_live(&note, unit.as_ref().ok()) => (Some(note), None),
            note => (None, note),
        };
        let code = read_pairing_code(&state)?.map(|code| code.code);
        let long = presence
            .as_ref()
            .and_then(|note| note.pairing_code.clone())
            .filter(|codes| code.as_deref() == Some(&codes.short))
            .map(|codes| codes.long);
        Ok(Self {
            unit,
            presence,
            earlier,
            pairing_code: code,
            long_pairing_code: long,
            trust: Trust::read(&state)?,
        })
    }
}

/// A note counts while its writer runs: by the manager's word, else by the process table.
fn is_live(note: &Presence, unit: Option<&UnitState>) -> bool {
    if note.phase == Phase::Stopped {
        return false;
    }
    match unit {
        Some(unit) if unit.main_pid != 0 => unit.main_pid == note.pid,
        Some(unit) if !unit.active.is_empty() => unit.active == "active" && process_exists(note.pid),
        _ => process_exists(note.pid),
    }
}

fn process_exists(pid: u32) -> bool {
    i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Outcomes in a journal's snapshot, for a daemon that does not run. `None` where there is no snapshot to read.
pub fn snapshot_entries(state: &Path) -> Option<usize> {
    #[derive(Deserialize)]
    struct Snapshot {
        entries: Vec<IgnoredAny>,
    }
    let file = File::open(state.join("operations.json")).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let snapshot: Snapshot = serde_json::from_reader(BufReader::new(file)).ok()?;
    Some(snapshot.entries.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_snapshot_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(snapshot_entries(folder.path()), None);
        let file = folder.path().join("operations.json");
        std::fs::write(&file, r#"{"entries":[{"id":"a"},{"id":"b"}]}"#).unwrap();
        assert_eq!(snapshot_entries(folder.path()), Some(2));
        std::fs::write(&file, "{").unwrap();
        assert_eq!(snapshot_entries(folder.path()), None);
    }

    #[test]
    fn trust_is_read_from_the_files_of_a_host() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Trust::read(&folder.path().join("none")).unwrap(), Trust::default());
        let identity = folder.path().join("node-identity.json");
        std::fs::write(&identity, r#"{"version":1,"privateKey":"x"}"#).unwrap();
        assert!(!Trust::read(folder.path()).unwrap().is_paired());
        std::fs::write(
            &identity,
            format!(r#"{{"controllerTlsFingerprint":"{}"}}"#, "ab".repeat(32)),
        )
        .unwrap();
        assert_eq!(
            Trust::read(folder.path()).unwrap().pinned.unwrap().to_hex(),
            "ab".repeat(32)
        );
        std::fs::write(&identity, r#"{"controllerTlsFingerprint":"short"}"#).unwrap();
        assert!(Trust::read(folder.path()).is_err());
        std::fs::write(&identity, "{}").unwrap();
        std::fs::write(folder.path().join("controller-trust.json"), "{}").unwrap();
        assert!(Trust::read(folder.path()).unwrap().is_paired());
    }
}
