//! What a crashed daemon left running: found by the mark of the very operation, pinned, and ended.
//!
//! A process without a mark is never touched. Each candidate is pinned by a pidfd, its mark is read again, and signals
//! go through the pidfd, so that a reused number can hit nobody else.

use crate::environment::MARK_VARIABLE;
use goblin_journal::StartRecord;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);

/// Looks that are taken, in case a process forks while it is being ended.
const ROUNDS: usize = 5;

/// The boot that this is: processes of another one are gone.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Ends the processes of operations that were started in this boot and never completed. Blocks for about a second where
/// one ignores SIGTERM. Gives the number of processes that were signalled.
pub fn end_leftovers(unfinished: &[StartRecord], boot_id: &str) -> usize {
    let marks: HashSet<&str> = unfinished
        .iter()
        .filter(|record| record.boot_id == boot_id && !record.mark.is_empty())
        .map(|record| record.mark.as_str())
        .collect();
    let mut ended = 0;
    if marks.is_empty() {
        return ended;
    }
    for round in 0..ROUNDS {
        let found = marked_processes(&marks);
        if found.is_empty() {
            break;
        }
        let signal = if round == 0 { Signal::TERM } else { Signal::KILL };
        for process in &found {
            // A process that has ended meanwhile needs no signal.
            let _ = pidfd_send_signal(process, signal);
        }
        if round == 0 {
            ended = found.len();
        }
        wait_for(found);
    }
    ended
}

/// Running processes that carry one of the marks, pinned.
fn marked_processes(marks: &HashSet<&str>) -> Vec<OwnedFd> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|&pid| carries(pid, marks))
        .filter_map(|pid| {
            let pinned = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
            // Only now is the number sure to mean this process.
            carries(pid, marks).then_some(pinned)
        })
        .collect()
}

fn carries(pid: i32, marks: &HashSet<&str>) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    environment.split(|&byte| byte == 0).any(|entry| {
        let value = entry
            .strip_prefix(MARK_VARIABLE.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="));
        value
            .and_then(|value| std::str::from_utf8(value).ok())
            .is_some_and(|mark| marks.contains(mark))
    })
}

/// Waits until all have ended, at most [`GRACE`].
fn wait_for(mut processes: Vec<OwnedFd>) {
    let begun = Instant::now();
    while let Some(left) = GRACE.checked_sub(begun.elapsed()).filter(|_| !processes.is_empty()) {
        let ended: Vec<bool> = {
            let mut polled: Vec<PollFd<'_>> = processes
                .iter()
                .map(|process| PollFd::new(process, PollFlags::IN))
                .collect();
            let timeout = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: left.subsec_nanos().into(),
            };
            if poll(&mut polled, Some(&timeout)).is_err() {
                return;
            }
            polled.iter().map(|process| !process.revents().is_empty()).collect()
        };
        let mut ended = ended.into_iter();
        processes.retain(|_| ended.next() == Some(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn record(mark: &str, boot_id: &str) -> StartRecord {
        StartRecord {
            id: "op".into(),
            digest: "d".into(),
            started_at_ms: 0,
            boot_id: boot_id.into(),
            mark: mark.into(),
        }
    }

    /// A shell that ignores SIGTERM and says so when it is ready.
    fn stubborn(mark: &str) -> std::process::Child {
        let mut child = Command::new("/bin/sh")
            .args(["-c", "trap '' TERM; echo ready; exec sleep 60"])
            .env(MARK_VARIABLE, mark)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    #[test]
    fn only_processes_of_this_boots_marks_are_ended() {
        let unique = format!("test-{}", std::process::id());
        let (mine, other) = (format!("{unique}-a"), format!("{unique}-b"));
        let (mut left, mut spared) = (stubborn(&mine), stubborn(&other));
        let boot = boot_id();
        assert!(!boot.is_empty());
        assert_eq!(
            end_leftovers(&[record(&mine, "another boot"), record("", &boot)], &boot),
            0
        );
        assert!(left.try_wait().unwrap().is_none());
        assert_eq!(end_leftovers(&[record(&mine, &boot)], &boot), 1);
        assert!(!left.wait().unwrap().success());
        assert!(spared.try_wait().unwrap().is_none());
        spared.kill().unwrap();
        spared.wait().unwrap();
    }
}
