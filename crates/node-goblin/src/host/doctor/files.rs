//! Configuration, state directory and disk.

use super::Finding;
use crate::host::account;
use crate::host::layout::{ACCOUNT, Layout};
use crate::host::settings::{CONTROLLER_URL, GATEWAY_ID, Settings};
use goblin_protocol::id::valid_gateway_id;
use rustix::fs::StatVfsMountFlags;
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const CONFIGURATION: &str = "configuration";
const STATE: &str = "state";
const DISK: &str = "disk";

/// Free space below which the journal is in danger, and below which it soon may be, in bytes.
const SPACE_FAULT: u64 = 64 << 20;
const SPACE_WARNING: u64 = 512 << 20;

/// Files of the state directory that hold keys and secrets.
const SECRETS: [&str; 2] = ["node-identity.json", "controller-trust.json"];

/// Variables that hold a secret by themselves.
const SECRET_VARIABLES: [&str; 2] = ["BURROW_GATEWAY_ENROLLMENT_TOKEN", "OTEL_EXPORTER_OTLP_HEADERS"];

/// Variables that name a file which must be there.
const FILES: [&str; 3] = [
    "BURROW_GATEWAY_CA_FILE",
    "BURROW_GATEWAY_CERT_FILE",
    "BURROW_GATEWAY_KEY_FILE",
];

/// The environment file and what it says.
pub fn configuration(layout: &Layout, settings: &Settings, findings: &mut Vec<Finding>) {
    let before = findings.len();
    let path = layout.env_file();
    match fs::metadata(&path) {
        Err(_) => findings.push(Finding::fault(
            CONFIGURATION,
            format!("{} is missing", path.display()),
            "node-goblin configure HOST:PORT NODE_ID",
        )),
        Ok(metadata) => {
            let secret = SECRET_VARIABLES.iter().any(|name| settings.get(name).is_some());
            if secret && mode(&metadata) & 0o007 != 0 {
                findings.push(Finding::fault(
                    CONFIGURATION,
                    format!("{} holds a secret and has mode {:04o}", path.display(), mode(&metadata)),
                    format!("chmod 640 '{}', and change the secret", path.display()),
                ));
            }
        }
    }
    let configure = "node-goblin configure HOST:PORT NODE_ID";
    match settings.controller() {
        Err(error) => findings.push(Finding::fault(CONFIGURATION, error.to_string(), configure)),
        Ok(None) => findings.push(Finding::fault(
            CONFIGURATION,
            format!("{CONTROLLER_URL} is not set"),
            configure,
        )),
        Ok(Some(_)) => {}
    }
    match settings.gateway_id() {
        None => findings.push(Finding::fault(
            CONFIGURATION,
            format!("{GATEWAY_ID} is not set"),
            configure,
        )),
        Some(id) if !valid_gateway_id(id) => findings.push(Finding::fault(
            CONFIGURATION,
            format!("{GATEWAY_ID}: {id:?} can't be an id"),
            configure,
        )),
        Some(_) => {}
    }
    for variable in FILES {
        let Some(file) = settings.file(variable) else { continue };
        if let Err(error) = fs::File::open(&file) {
            findings.push(Finding::fault(
                CONFIGURATION,
                format!("{variable}: {}: {error}", file.display()),
                format!(
                    "put the PEM file there, readable by group {ACCOUNT}, or remove the line from {}",
                    path.display()
                ),
            ));
        }
    }
    if findings.len() == before {
        let id = settings.gateway_id().unwrap_or_default();
        let url = settings.controller_url().unwrap_or_default();
        findings.push(Finding::ok(CONFIGURATION, format!("controller {url}, id {id}")));
    }
}

/// Modes and owners of the state directory and what is in it.
pub fn state_directory(layout: &Layout, path: &Path, findings: &mut Vec<Finding>) -> anyhow::Result<()> {
    let before = findings.len();
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            findings.push(Finding::warning(
                STATE,
                format!("{} does not exist", path.display()),
                "the service makes it at its first start",
            ));
            return Ok(());
        }
        Err(error) => {
            let remedy = "look at the directories above it";
            findings.push(Finding::fault(STATE, format!("{}: {error}", path.display()), remedy));
            return Ok(());
        }
    };
    let shown = path.display();
    if !metadata.is_dir() {
        let remedy = "move it away; the service makes a directory there";
        findings.push(Finding::fault(STATE, format!("{shown} is no directory"), remedy));
        return Ok(());
    }
    if mode(&metadata) & 0o077 != 0 {
        findings.push(Finding::fault(
            STATE,
            format!("{shown} has mode {:04o}: others can look into it", mode(&metadata)),
            format!("chmod 700 '{shown}'"),
        ));
    }
    let user = account::user(layout)?;
    if user.is_none() && !layout.is_staging() {
        findings.push(Finding::fault(
            STATE,
            format!("there is no account {ACCOUNT}"),
            "install the package again",
        ));
    }
    let foreign = |metadata: &Metadata| user.is_some_and(|user| user != metadata.uid());
    let mut strangers = Vec::new();
    if foreign(&metadata) {
        strangers.push(path.to_owned());
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let Ok(inner) = fs::symlink_metadata(entry.path()) else {
            continue;
        };
        let name = entry.file_name();
        if foreign(&inner) {
            strangers.push(entry.path());
        }
        if SECRETS.iter().any(|secret| name == *secret) {
            let file = entry.path();
            if !inner.is_file() {
                let remedy = "put the file itself there: a link or folder is refused";
                findings.push(Finding::fault(
                    STATE,
                    format!("{} is no regular file", file.display()),
                    remedy,
                ));
            } else if mode(&inner) & 0o077 != 0 {
                findings.push(Finding::fault(
                    STATE,
                    format!(
                        "{} has mode {:04o}: others could have read it",
                        file.display(),
                        mode(&inner)
                    ),
                    format!(
                        "chmod 600 '{}'; if others use this host, unpair and pair again",
                        file.display()
                    ),
                ));
            }
        }
    }
    if let Some(first) = strangers.first() {
        findings.push(Finding::fault(
            STATE,
            format!(
                "{} of {} files do not belong to {ACCOUNT}, the first {}",
                strangers.len(),
                shown,
                first.display()
            ),
            format!("systemctl stop burrow-host-gateway; chown -R {ACCOUNT}:{ACCOUNT} '{shown}'"),
        ));
    }
    if findings.len() == before {
        findings.push(Finding::ok(STATE, format!("{shown} is private")));
    }
    Ok(())
}

/// Whether the journal can be written.
pub fn disk(state: &Path, findings: &mut Vec<Finding>) {
    // A directory that is not there yet will lie in one of these.
    let Some(existing) = state.ancestors().find(|path| path.exists()) else {
        return;
    };
    let shown = existing.display();
    let space = match rustix::fs::statvfs(existing) {
        Ok(space) => space,
        Err(error) => {
            let remedy = "look at the file system";
            findings.push(Finding::warning(DISK, format!("{shown}: {error}"), remedy));
            return;
        }
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let mib = free >> 20;
    let make_room =
        format!("make room on the file system of {shown}: a full disk loses the record of finished operations");
    if space.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let remedy = "mount it writable, or set BURROW_GATEWAY_STATE_DIR to a place that is";
        findings.push(Finding::fault(
            DISK,
            format!("{shown} is on a read-only file system"),
            remedy,
        ));
    } else if space.f_files > 0 && space.f_favail == 0 {
        findings.push(Finding::fault(DISK, format!("{shown} has no inode left"), make_room));
    } else if free < SPACE_FAULT {
        findings.push(Finding::fault(DISK, format!("{shown} has {mib} MiB left"), make_room));
    } else if free < SPACE_WARNING {
        findings.push(Finding::warning(DISK, format!("{shown} has {mib} MiB left"), make_room));
    } else {
        findings.push(Finding::ok(DISK, format!("{mib} MiB free")));
    }
}

fn mode(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}
