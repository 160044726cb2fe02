//! The store is killed at random moments, over and over: it always opens, and what was acknowledged is there.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
};

use aws_lc_rs::rand;
use goblin_ports::{Begin, OperationState, Operations, PortError, SettingsExt, TerminalReference};

use super::*;

const DIRECTORY: &str = "GOBLIN_STORE_TEST_CRASH_DIRECTORY";
const ROUNDS: u32 = 60;
const COUNTER: &str = "counter";
const MEMBERS: &str = "members";

/// Writes for ever: a counter, a list, a secret and an operation per turn, each turn acknowledged on standard output.
#[tokio::test]
#[ignore = "a child process of killed_at_random_it_loses_nothing_acknowledged"]
async fn child_writes_until_killed() {
    let directory = std::env::var_os(DIRECTORY).expect("started by its parent");
    let mut acknowledge = std::io::stdout();
    writeln!(acknowledge, "\nstarted").unwrap();
    let store = open(Path::new(&directory)).await;
    loop {
        let turn = store
            .update_as(COUNTER, |turn: Option<u64>| {
                let next = turn.unwrap_or(0) + 1;
                Ok::<_, PortError>((Some(next), next))
            })
            .await
            .unwrap();
        store
            .update_list(MEMBERS, |members: &mut Vec<u64>| {
                members.push(turn);
                Ok::<_, PortError>(())
            })
            .await
            .unwrap();
        Secrets::set(&store, "s", secret(&turn.to_string())).await.unwrap();
        let operation_id = format!("operation-{turn}");
        store.begin(start(&operation_id), NOW).await.unwrap();
        let reference = TerminalReference {
            operation_id: operation_id.clone(),
            replay: false,
            outcome_digest: Some(turn.to_string()),
        };
        store.terminal(&operation_id, reference, NOW).await.unwrap();
        writeln!(acknowledge, "turn {turn}").unwrap();
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn random_below(bound: u8) -> u8 {
    let mut byte = [0];
    rand::fill(&mut byte).unwrap();
    byte[0] % bound
}

/// Starts the writer, kills it some lines later, and returns the last turn that it acknowledged.
fn run_and_kill(directory: &Path, lines: u8) -> Option<u64> {
    let mut child = Killed(
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "tests::crash::child_writes_until_killed",
            ])
            .env(DIRECTORY, directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut output = BufReader::new(child.0.stdout.take().unwrap());
    let mut line = String::new();
    while line.trim() != "started" {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the writer starts");
    }
    let mut acknowledged = None;
    let mut note = |line: &str| {
        if let Some(turn) = line.strip_prefix("turn ").and_then(|turn| turn.strip_suffix('\n')) {
            acknowledged = Some(turn.parse().unwrap());
        }
    };
    for _ in 0..lines {
        line.clear();
        assert_ne!(
            output.read_line(&mut line).unwrap(),
            0,
            "the writer writes until it is killed"
        );
        note(&line);
    }
    drop(child);
    // What it said before the signal took effect counts as well.
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    rest.split_inclusive('\n').for_each(&mut note);
    acknowledged
}

#[tokio::test]
async fn killed_at_random_it_loses_nothing_acknowledged() {
    let scratch = scratch();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        // Every fourth is killed while it opens.
        let lines = if round % 4 == 3 { 0 } else { random_below(12) };
        acknowledged = run_and_kill(scratch.path(), lines).unwrap_or(acknowledged);

        let store = open(scratch.path()).await;
        let counter = store.get_as::<u64>(COUNTER).await.unwrap().unwrap_or(0);
        // At most the one turn that was under way is there without having been acknowledged.
        assert!(
            (acknowledged..=acknowledged + 1).contains(&counter),
            "{counter} after {acknowledged}"
        );
        let members = store.get_as::<Vec<u64>>(MEMBERS).await.unwrap().unwrap_or_default();
        assert!(members.len() as u64 == counter || members.len() as u64 + 1 == counter);
        assert!(members.len() as u64 >= acknowledged);
        let kept = secret_text(&store, "s")
            .await
            .map_or(0, |turn| turn.parse::<u64>().unwrap());
        assert!((acknowledged..=counter).contains(&kept));
        if acknowledged > 0 {
            let record = Operations::get(&store, &format!("operation-{acknowledged}"))
                .await
                .unwrap()
                .unwrap();
            assert_eq!(record.state, OperationState::Terminal);
        }
        let unresolved = goblin_ports::OperationFilter::newest(9).in_state(OperationState::Dispatching);
        for open in store.list(unresolved).await.unwrap() {
            assert_eq!(
                open.operation_id,
                format!("operation-{counter}"),
                "only the turn under way is unresolved"
            );
        }
        // Finish the broken turn, so that the next round starts from an even state.
        let missing: Vec<u64> = (members.len() as u64 + 1..=counter).collect();
        store
            .update_list(MEMBERS, |members: &mut Vec<u64>| {
                members.extend(missing);
                Ok::<_, PortError>(())
            })
            .await
            .unwrap();
        if counter > 0 {
            let id = format!("operation-{counter}");
            assert!(matches!(
                store.begin(start(&id), NOW).await.unwrap(),
                Begin::Begun(_) | Begin::Existing(_)
            ));
            let reference = TerminalReference {
                operation_id: id.clone(),
                replay: false,
                outcome_digest: None,
            };
            store.terminal(&id, reference, NOW).await.unwrap();
        }
        acknowledged = counter;
        Secrets::set(&store, "s", secret(&counter.to_string())).await.unwrap();
        // Half of the rounds leave the log for the next writer to recover.
        if round % 2 == 0 {
            store.close().await;
        }
    }
    assert!(
        acknowledged > u64::from(ROUNDS),
        "the writers got somewhere: {acknowledged}"
    );
}
