//! `uninstall`: hands over to what installed the program.

use crate::host::layout::Layout;
use anyhow::{Context, bail};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// What dpkg keeps as long as the package is installed; its list of files outlives a removal.
const DEBIAN_SUMS: &str = "/var/lib/dpkg/info/burrow-host-gateway.md5sums";

pub fn run(layout: &Layout) -> anyhow::Result<ExitCode> {
    layout.require_root("uninstall")?;
    if layout.path(DEBIAN_SUMS).exists() {
        bail!(
            "this host has the Debian package: apt remove burrow-host-gateway keeps configuration and state, apt purge removes them"
        );
    }
    let script = layout.uninstaller();
    if !script.is_file() {
        bail!("{} is missing: nothing is installed here", script.display());
    }
    // The script removes this program, so it takes this process's place.
    let error = Command::new("/bin/sh").arg(&script).exec();
    Err(error).with_context(|| format!("cannot run {}", script.display()))
}
