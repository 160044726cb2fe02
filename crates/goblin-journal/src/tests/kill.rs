//! A process killed at any moment: everything it was told to be recorded is found again, in order, undamaged.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use super::*;

const FILE: &str = "GOBLIN_JOURNAL_TEST_FILE";
const ROUND: &str = "GOBLIN_JOURNAL_TEST_ROUND";
const ROUNDS: u64 = 220;

fn long_outcome(id: &str, number: usize) -> String {
    format!(r#"{{"stdout":"{id}{}"}}"#, "x".repeat(number * 379 % 3_000))
}

/// Small numbers that look random and are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
#[ignore = "the child of every_acknowledged_record_survives_a_kill"]
fn recording_child() {
    let (Some(file), Ok(round)) = (std::env::var_os(FILE), std::env::var(ROUND)) else {
        return;
    };
    let mut options = Options::new(Some(file.into()));
    options.sync = if round.ends_with('7') {
        Sync::Grouped
    } else {
        Sync::Never
    };
    let journal = Journal::open_tuned(options, SMALL, T0).unwrap().journal;
    let mut out = std::io::stdout().lock();
    for number in 0.. {
        let id = format!("{round}-{number}");
        journal.start(&started(&id, T0), T0).unwrap();
        writeln!(out, "started {id}").unwrap();
        out.flush().unwrap();
        journal
            .complete(&id, &digest(&id), long_outcome(&id, number), T0)
            .unwrap();
        writeln!(out, "completed {id}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn every_acknowledged_record_survives_a_kill() {
    let mut place = Place::new();
    place.tuning = SMALL;
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut history: Vec<String> = Vec::new();
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "tests::kill::recording_child",
                "--nocapture",
                "--include-ignored",
            ])
            .env(FILE, place.snapshot())
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut acknowledged: Vec<String> = Vec::new();
        let wanted = 1 + chance.below(60) as usize;
        while acknowledged.len() < wanted {
            let line = lines.next().expect("the child records");
            // The harness of the child writes lines of its own, and one without an end before ours.
            let record = line.find("started ").or_else(|| line.find("completed "));
            acknowledged.extend(record.map(|at| line[at..].to_owned()).filter(|it| it.contains('-')));
        }
        for _ in 0..chance.below(20_000) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it still had written into the pipe counts, a last line cut off excepted.
        acknowledged.extend(lines.filter(|line| line.contains('-')));
        history.extend(
            acknowledged
                .iter()
                .filter_map(|line| line.strip_prefix("completed "))
                .map(str::to_owned),
        );

        let opened = place.open_all(T0);
        let corrupt: Vec<_> = opened.notices.iter().filter(|it| it.contains("corrupt")).collect();
        assert!(corrupt.is_empty(), "{corrupt:?}");
        let kept = opened.journal.ids();
        let newest = kept.last().cloned().unwrap_or_default();
        if history.last() != Some(&newest) && newest.starts_with(&format!("{round}-")) {
            // Completed and killed before it could say so.
            history.push(newest);
        }
        let expected = &history[history.len().saturating_sub(256)..];
        assert_eq!(kept, expected, "round {round}");
        for id in kept.iter().rev().take(40) {
            let number = id.split_once('-').unwrap().1.parse().unwrap();
            let outcome = long_outcome(id, number).into();
            assert_eq!(look(&opened.journal, id, T0), Lookup::Completed { outcome });
        }
        if let Some(id) = acknowledged.last().and_then(|line| line.strip_prefix("started ")) {
            let finished = history.last().is_some_and(|last| last == id);
            let unknown = Lookup::Unknown { started_at_ms: T0 };
            assert!(
                finished || look(&opened.journal, id, T0) == unknown,
                "round {round}: {id}"
            );
        }
        if chance.below(3) == 0 {
            opened.journal.close(T0).unwrap();
        }
    }
}
