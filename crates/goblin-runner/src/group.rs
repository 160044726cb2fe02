//! The members of a process group, as `/proc` shows them.
//!
//! Owns: telling the living from zombies. Must never know: what the group is for.

use std::fs;

use rustix::process::{Pid, Signal, test_kill_process};

/// Whether the group has a member that is alive and may be signalled. Its number must be held by an unreaped leader.
///
/// Looks at every process of the host; without `/proc` nobody is found.
pub(crate) fn has_live_member(group: Pid) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    processes.flatten().any(|process| {
        let pid = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(pid) = pid.filter(|pid| *pid > 0).and_then(Pid::from_raw) else {
            return false;
        };
        // One that has just ended has no such file any more.
        fs::read_to_string(process.path().join("stat")).is_ok_and(|stat| is_live_member(&stat, group))
            && test_kill_process(pid).is_ok()
    })
}

/// Whether the process is on its last way: it takes signals as it did before, and heeds none.
pub(crate) fn is_ending(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    // Without the file nothing is known that the leader's own status would not tell.
    stat.is_ok_and(|stat| parse(&stat).is_some_and(|process| !process.alive))
}

/// Whether the process has a handler for the signal, or ignores it: then an exit of its own may be its answer.
pub(crate) fn answers(pid: Pid, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
    status.is_ok_and(|status| has_disposition(&status, signal))
}

fn has_disposition(status: &str, signal: Signal) -> bool {
    let bit = 1u64 << (signal.as_raw() - 1);
    let masks = status
        .lines()
        .filter_map(|line| line.strip_prefix("SigCgt:").or_else(|| line.strip_prefix("SigIgn:")));
    masks
        .filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .any(|mask| mask & bit != 0)
}

fn is_live_member(stat: &str, group: Pid) -> bool {
    parse(stat).is_some_and(|process| process.alive && process.group == group.as_raw_nonzero().get())
}

struct Process {
    group: i32,
    /// Neither a zombie nor about to become one. With other threads it has only lost its first.
    alive: bool,
}

/// The kernel's flag of a task that has begun to exit.
const EXITING: u64 = 0x4;

/// The fields follow the name in parentheses, which may hold anything: state, parent, group, and further on the flags and
/// the number of threads.
fn parse(stat: &str) -> Option<Process> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    let flags: u64 = fields.nth(3)?.parse().ok()?;
    let threads: u64 = fields.nth(10)?.parse().ok()?;
    let ending = matches!(state, "Z" | "X" | "x") || flags & EXITING != 0;
    Some(Process {
        group,
        alive: !ending || threads > 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_and_ignored_signals_are_told_from_defaults() {
        let status = |ignored: &str, caught: &str| format!("Name:\tsh\nSigIgn:\t{ignored}\nSigCgt:\t{caught}\n");
        // Bit 14 is SIGTERM.
        for (ignored, caught, expected) in [
            ("0", "4002", true),
            ("4000", "0", true),
            ("2", "2", false),
            ("x", "", false),
        ] {
            assert_eq!(has_disposition(&status(ignored, caught), Signal::TERM), expected);
        }
        assert!(!has_disposition("", Signal::TERM));
    }

    #[test]
    fn the_living_of_the_group_are_told_from_zombies_and_strangers() {
        let group = Pid::from_raw(42).unwrap();
        let line = |name: &str, state: &str, group: &str, threads: u8| {
            let flags = if state == "exiting" { 4_194_308 } else { 4_194_304 };
            let state = state.replace("exiting", "R");
            format!("7 ({name}) {state} 1 {group} 42 0 -1 {flags} 1 0 0 0 0 0 0 0 20 0 {threads} 0 99 0\n")
        };
        for (stat, expected) in [
            (line("sleep", "S", "42", 1), true),
            (line("a) Z 1 9 (b", "R", "42", 1), true),
            (line("sleep", "T", "42", 1), true),
            (line("sleep", "Z", "42", 1), false),
            (line("sleep", "X", "42", 0), false),
            (line("sleep", "exiting", "42", 1), false),
            (line("threads", "exiting", "42", 2), true),
            (line("threads", "Z", "42", 3), true),
            (line("sleep", "S", "43", 1), false),
            (line("sleep", "S", "x", 1), false),
            (String::new(), false),
            ("7 (cut".to_owned(), false),
            ("7 (cut) S".to_owned(), false),
        ] {
            assert_eq!(is_live_member(&stat, group), expected, "{stat}");
        }
    }
}
