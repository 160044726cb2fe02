//! `quickstart`: the whole way in one command, and nothing left behind.

use crate::PROGRAM;
use crate::fleet::{Running, signal};
use goblin_testkit::eventually;
use std::path::Path;
use std::process::Command;

/// Processes whose command line names a text.
fn processes_of(text: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let named = entries.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    });
    named.map(|entry| entry.file_name().display().to_string()).collect()
}

/// Starts a quickstart whose temporary directory is in `place`.
fn start(place: &Path, words: &[&str]) -> Running {
    let mut command = Command::new(PROGRAM);
    command
        .arg("quickstart")
        .args(words)
        .env("TMPDIR", place)
        .env_remove("RUST_LOG");
    Running::start(&mut command)
}

#[test]
fn it_pairs_runs_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let text = start(place.path(), &["--yes", "--exit"]).end().good();
    for part in [
        "ready",
        "Paired.",
        "line 1\nline 2\nline 3\n",
        "exit code 0",
        "Both processes end now.",
    ] {
        assert!(part == "ready" || text.contains(part), "{part:?} in {text}");
    }
    // Both sides show one code.
    let codes: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix('│')?.strip_suffix('│').map(str::trim))
        .collect();
    assert!(
        codes.len() == 2 && codes[0] == codes[1] && codes[0].len() == 14,
        "{codes:?}"
    );
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    assert_eq!(processes_of(&place.path().display().to_string()), [""; 0]);
}

#[test]
fn it_runs_until_ctrl_c_and_its_commands_work_meanwhile() {
    let place = tempfile::tempdir().unwrap();
    let run = start(place.path(), &["--yes", "--", "sh", "-c", "echo mine; exit 5"]);
    run.prints("Both processes run until Ctrl-C");
    let text = run.printed();
    assert!(text.contains("mine\n") && text.contains("exit code 5"), "{text}");
    let shown = text.lines().find(|line| line.contains("ps aux")).unwrap();
    let shown = shown.trim().trim_start_matches("$ ").replace("ps aux", "echo typed");
    let typed = Command::new("sh").args(["-c", &shown]).output().unwrap();
    assert_eq!(String::from_utf8(typed.stdout).unwrap(), "typed\n", "{shown}");
    run.signal("INT");
    run.end().good();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    assert_eq!(processes_of(&place.path().display().to_string()), [""; 0]);
}

#[test]
fn it_ends_when_told_to_in_the_middle_of_its_command() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let place = tempfile::tempdir().unwrap();
        let run = start(place.path(), &["--yes", "--", "sh", "-c", "echo up; exec sleep 60"]);
        run.prints("up\n");
        run.signal(name);
        let ended = run.end();
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert!(!ended.text().contains("Now you"), "{}", ended.text());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        assert_eq!(processes_of(&place.path().display().to_string()), [""; 0]);
    }
}

#[test]
fn its_processes_end_with_it_however_it_ends() {
    let place = tempfile::tempdir().unwrap();
    let run = start(place.path(), &["--yes"]);
    run.prints("Both processes run until Ctrl-C");
    assert_eq!(processes_of(&place.path().display().to_string()).len(), 2);
    run.kill();
    eventually("the end of its processes", || {
        processes_of(&place.path().display().to_string())
            .is_empty()
            .then_some(())
    });
}

#[test]
fn a_kept_directory_is_paired_already_the_next_time() {
    let place = tempfile::tempdir().unwrap();
    let kept = place.path().join("kept");
    let directory = kept.display().to_string();
    let words = ["--yes", "--exit", "--dir", &directory, "--", "sh", "-c", "exit 9"];
    let first = start(place.path(), &words).end();
    assert_eq!(first.code, Some(9), "{}", first.stderr);
    assert!(first.text().contains("Paired."));
    let second = start(place.path(), &words).end();
    assert_eq!(second.code, Some(9), "{}", second.stderr);
    assert!(
        second.text().contains("paired with this controller from before"),
        "{}",
        second.text()
    );
    assert_eq!(processes_of(&directory), [""; 0]);
    // Two of them on one directory: the second is told why not, and disturbs nothing.
    let run = start(place.path(), &["--yes", "--dir", &directory]);
    run.prints("Both processes run until Ctrl-C");
    let refused = start(place.path(), &words).end();
    let told = refused.bad(1);
    assert!(told.contains("controller ended by itself"), "{told}");
    assert_eq!(
        processes_of(&directory).len(),
        3,
        "the first quickstart and its two processes"
    );
    for pid in processes_of(&directory) {
        if pid == run.pid().to_string() {
            signal(&pid, "TERM");
        }
    }
    assert_eq!(run.end().code, Some(0));
    assert_eq!(processes_of(&directory), [""; 0]);
}
