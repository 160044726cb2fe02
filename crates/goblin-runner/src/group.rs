//! The members of a process group, as `/proc` shows them.
//!
//! Owns: telling the living from zombies. Must never know: what the group is for.

use std::fs;

use rustix::process::{Pid, test_kill_process};

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

/// The fields follow the name in parentheses, which may hold anything: state, parent, group, and as the eighteenth the
/// number of threads. A zombie with other threads has only lost its first one.
fn is_live_member(stat: &str, group: Pid) -> bool {
    let Some((_, fields)) = stat.rsplit_once(") ") else {
        return false;
    };
    let fields: Vec<&str> = fields.split_ascii_whitespace().take(18).collect();
    let [state, _, of_group, ..] = fields[..] else {
        return false;
    };
    let threads = fields.get(17).and_then(|threads| threads.parse::<u64>().ok());
    let alive = !matches!(state, "Z" | "X" | "x") || threads.is_some_and(|threads| threads > 1);
    alive && of_group.parse() == Ok(group.as_raw_nonzero().get())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_of_the_group_are_told_from_zombies_and_strangers() {
        let group = Pid::from_raw(42).unwrap();
        let line = |name: &str, state: &str, group: &str, threads: u8| {
            format!("7 ({name}) {state} 1 {group} 42 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 {threads} 0 99 0\n")
        };
        for (stat, expected) in [
            (line("sleep", "S", "42", 1), true),
            (line("a) Z 1 9 (b", "R", "42", 1), true),
            (line("sleep", "T", "42", 1), true),
            (line("sleep", "Z", "42", 1), false),
            (line("sleep", "X", "42", 0), false),
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
