//! The parts of a quickstart that need no processes.

use super::*;
use crate::api::scripted::{Controller, answer};
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: QuickstartArguments,
}

fn listed(code: &str) -> String {
    format!(
        r#"{{"ok":true,"pairings":[{{"gatewayId":"quickstart","controllerId":"c","publicKey":"","pairingCode":"{code}",
        "status":"pending","requestedAt":"","live":true}}]}}"#
    )
}

fn host(directory: &Path, code: &str) {
    let state = goblin_identity::StateDir::open(directory).unwrap();
    state.write_pairing_code(GATEWAY, code, 0).unwrap();
}

#[test]
fn a_command_may_follow_with_or_without_dashes() {
    let words = |words: &[&str]| Line::parse_from(["quickstart"].iter().chain(words)).arguments.program;
    assert_eq!(words(&["--yes", "--", "ls", "--exit"]), ["ls", "--exit"]);
    assert_eq!(words(&["ls", "-l"]), ["ls", "-l"]);
    assert!(words(&["--exit"]).is_empty());
}

#[test]
fn commands_to_type_name_the_controller() {
    let placed = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        with_place(&words, Path::new("/d")).unwrap().join(" ")
    };
    assert_eq!(placed(&["gateways"]), "gateways --state-dir /d");
    assert_eq!(placed(&["exec", "q", "--", "ls"]), "exec --state-dir /d q -- ls");
    assert_eq!(
        placed(&["pairings", "approve", "q"]),
        "pairings approve --state-dir /d q"
    );
}

#[tokio::test]
async fn the_codes_of_both_sides_are_awaited() {
    let directory = tempfile::tempdir().unwrap();
    host(directory.path(), "AAAA-BBBB-CCCC");
    let none = answer(200, r#"{"ok":true,"pairings":[]}"#);
    let gateways = answer(200, r#"{"ok":true,"gateways":[]}"#);
    let controller = Controller::start(vec![none, gateways, answer(200, &listed("AAAA-BBBB-CCCC"))]);
    let Arrived::Waits(pairing, code) = arrived(&controller.api(), directory.path()).await.unwrap() else {
        panic!("it is not ready yet")
    };
    assert_eq!(
        (pairing.pairing_code.as_str(), code.as_str()),
        ("AAAA-BBBB-CCCC", "AAAA-BBBB-CCCC")
    );
}

#[tokio::test]
async fn codes_that_differ_approve_nothing() {
    let directory = tempfile::tempdir().unwrap();
    host(directory.path(), "AAAA-BBBB-CCCC");
    let controller = Controller::start(vec![answer(200, &listed("DDDD-BBBB-CCCC")); 21]);
    let Arrived::Waits(pairing, code) = arrived(&controller.api(), directory.path()).await.unwrap() else {
        panic!("it is not ready yet")
    };
    let arguments = Line::parse_from(["quickstart", "--yes"]).arguments;
    let fault = admit(&arguments, &pairing, &code).await.unwrap_err();
    assert!(fault.to_string().contains("codes differ"), "{fault}");
}

#[test]
fn a_given_directory_is_made_and_kept_and_a_temporary_one_goes() {
    let parent = tempfile::tempdir().unwrap();
    let given = parent.path().join("a").join("b");
    Home::new(Some(&given)).unwrap().close().unwrap();
    assert!(given.is_dir());
    let home = Home::new(None).unwrap();
    let temporary = home.directory.clone();
    assert!(temporary.is_dir());
    home.close().unwrap();
    assert!(!temporary.exists());
    let file = parent.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(Home::new(Some(&file)).is_err());
}
