//! The systemd unit.

use super::Finding;
use crate::host::layout::UNIT;
use crate::host::systemctl::ServiceManager;

const SERVICE: &str = "service";

/// Whether the unit is there, comes at boot, and runs.
pub fn unit(manager: &ServiceManager, findings: &mut Vec<Finding>) {
    let unit = match manager.state() {
        Ok(unit) => unit,
        Err(error) => {
            let remedy = "without systemd run the daemon yourself: burrow-host-gateway gateway --help";
            findings.push(Finding::fault(SERVICE, format!("{error:#}"), remedy));
            return;
        }
    };
    let log = format!("journalctl -u {UNIT} -n 50");
    match (unit.load.as_str(), unit.active.as_str()) {
        ("not-found", _) => findings.push(Finding::fault(
            SERVICE,
            format!("{UNIT} is not installed"),
            "install the package again, then systemctl daemon-reload",
        )),
        ("masked", _) => findings.push(Finding::fault(
            SERVICE,
            "it is masked",
            format!("systemctl unmask {UNIT}"),
        )),
        ("error" | "bad-setting", _) => findings.push(Finding::fault(
            SERVICE,
            format!("systemd can't use {UNIT}"),
            format!("systemd-analyze verify {UNIT}; look at its drop-ins: systemctl cat {UNIT}"),
        )),
        (_, "active") if unit.restarts > 0 => findings.push(Finding::warning(
            SERVICE,
            format!("active, but restarted {} times", unit.restarts),
            log,
        )),
        (_, "active") => findings.push(Finding::ok(SERVICE, format!("active, process {}", unit.main_pid))),
        (_, "failed") => findings.push(Finding::fault(SERVICE, format!("failed: {}", unit.result), log)),
        (_, "activating") => findings.push(Finding::fault(
            SERVICE,
            format!("it does not come up ({}), {} restarts", unit.sub, unit.restarts),
            log,
        )),
        (_, other) => findings.push(Finding::fault(SERVICE, format!("it is {other}"), "node-goblin connect")),
    }
    if unit.load == "loaded" && !unit.enabled.starts_with("enabled") {
        findings.push(Finding::warning(
            SERVICE,
            format!("it is {} at boot", unit.enabled),
            format!("systemctl enable {UNIT}"),
        ));
    }
}
