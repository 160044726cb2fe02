//! The host's clock: against the controller's, and whether anything keeps it right.

use super::Finding;
use crate::host::layout::Layout;
use goblin_gateway::presence::Presence;
use goblin_protocol::time::from_iso8601;
use std::path::Path;
use std::process::{Command, Stdio};

const CLOCK: &str = "clock";

/// Difference above which clocks disagree, in milliseconds. A controller names a connection when it comes in; the note
/// of it follows once it has been approved, which may take a minute.
const TOLERANCE_MS: i64 = 120_000;

/// Looks at what the last connection told of the controller's clock, and at the time service.
pub fn check(layout: &Layout, state: &Path, findings: &mut Vec<Finding>) {
    let note = Presence::read(state).ok().flatten();
    let skew = note.and_then(|note| skew_ms(note.connection_id.as_deref()?, &note.since));
    match skew {
        Some(skew) if skew.abs() > TOLERANCE_MS => {
            let (seconds, side) = (skew.abs() / 1000, if skew > 0 { "ahead of" } else { "behind" });
            findings.push(Finding::fault(
                CLOCK,
                format!("this host was {seconds} s {side} its controller when they connected"),
                "set the clock that is wrong: timedatectl set-ntp true",
            ));
        }
        Some(_) => findings.push(Finding::ok(CLOCK, "agrees with the controller's")),
        None => {}
    }
    if layout.is_staging() {
        return;
    }
    match synchronised() {
        Some(true) if skew.is_none() => findings.push(Finding::ok(CLOCK, "kept by a time service")),
        Some(false) => findings.push(Finding::warning(
            CLOCK,
            "no time service keeps it right",
            "timedatectl set-ntp true; deadlines and certificates go by the clock",
        )),
        _ => {}
    }
}

/// This host's clock less the controller's, from a connection's name (`<epoch ms>-<digits>`) and when it was noted here.
fn skew_ms(connection_id: &str, noted: &str) -> Option<i64> {
    let theirs: i64 = connection_id.split_once('-')?.0.parse().ok()?;
    from_iso8601(noted)?.checked_sub(theirs)
}

/// What systemd knows of the time service; none where it can't be asked.
fn synchronised() -> Option<bool> {
    let output = Command::new("timedatectl")
        .args(["show", "--property=NTPSynchronized", "--value"])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    match String::from_utf8_lossy(&output.stdout).trim() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_ours_less_theirs() {
        assert_eq!(skew_ms("1000-abc", "1970-01-01T00:00:03.000Z"), Some(2_000));
        assert_eq!(skew_ms("5000-abc", "1970-01-01T00:00:03.000Z"), Some(-2_000));
        assert_eq!(skew_ms("x-abc", "1970-01-01T00:00:03.000Z"), None);
        assert_eq!(skew_ms("5000", "1970-01-01T00:00:03.000Z"), None);
        assert_eq!(skew_ms("-9223372036854775808-x", "9999-01-01T00:00:00.000Z"), None);
        assert_eq!(skew_ms("1-x", "soon"), None);
    }
}
