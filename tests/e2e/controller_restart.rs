//! Controllers that end or crash, lines that break, and what is there afterwards.

use crate::fleet::{Ended, Fleet, Running, controller_command, gateway};
use crate::line::Line;
use goblin_testkit::{eventually, is_running};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

/// A gateway behind a line of its own.
fn behind(fleet: &Fleet, id: &str) -> (Line, Running) {
    let line = Line::to(fleet.port);
    let host = gateway(line.port, id, &fleet.state_of(id), |_| ());
    (line, host)
}

/// Asks for an operation again until it is not in progress any more.
fn outcome(fleet: &Fleet, words: &[&str]) -> Ended {
    eventually("the outcome", || {
        let ended = fleet.run(words);
        let waiting = ["operation_in_progress", "gateway_not_connected"];
        (!waiting.iter().any(|code| ended.stderr.contains(code))).then_some(ended)
    })
}

#[test]
fn an_operation_survives_its_connection_and_is_replayed_by_its_id() {
    let fleet = Fleet::new();
    let (line, host) = behind(&fleet, "host-1");
    fleet.admit("host-1");
    let (gate, count) = (fleet.path("gate"), fleet.path("count"));
    let command =
        format!("echo x >> {count}; echo begun; until [ -e {gate} ]; do sleep 0.02; done; echo ended; exit 5");
    let words = ["exec", "host-1", "--no-recover", "--id", "op", "--shell", &command];
    let run = fleet.begin(&words);
    run.prints("begun\n");
    // The host finds nobody for a while, so that what the loss left behind can be looked at.
    line.lead_to(1);
    line.cut();
    let lost = run.end();
    let told = lost.bad(125);
    assert!(
        told.contains("gateway_disconnected") && told.contains("--id op"),
        "{told}"
    );
    let (_, listed) = fleet.http("GET", "/operations", None);
    assert_eq!(
        (
            &listed["operations"][0]["state"],
            &listed["operations"][0]["reconnectRequired"]
        ),
        (&json!("interrupted"), &json!(true))
    );
    line.lead_to(fleet.port);
    fleet.is("host-1", "ready");
    assert!(fleet.run(&words).bad(125).contains("operation_in_progress"));
    std::fs::write(gate, "").unwrap();
    let again = outcome(&fleet, &words);
    assert_eq!((again.code, again.text().as_str()), (Some(5), "begun\nended\n"));
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
    let (_, listed) = fleet.http("GET", "/operations", None);
    assert_eq!(
        (&listed["operations"][0]["state"], &listed["operations"][0]["replay"]),
        (&json!("terminal"), &json!(true))
    );
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn a_paired_host_comes_back_to_a_controller_that_restarts() {
    let mut fleet = Fleet::new();
    let (line, host) = behind(&fleet, "host-1");
    fleet.admit("host-1");
    let gate = fleet.path("gate");
    let command = format!("echo begun; until [ -e {gate} ]; do sleep 0.02; done; echo ended");
    let words = ["exec", "host-1", "--no-recover", "--id", "op", "--shell", &command];
    let run = fleet.begin(&words);
    run.prints("begun\n");
    // As a crash: nothing is said to anybody.
    fleet.controller.signal("KILL");
    assert!(run.end().bad(125).contains("--id op"));
    fleet.serve_again();
    line.lead_to(fleet.port);
    fleet.is("host-1", "ready");
    // What it runs is known to the controller from before its crash.
    let other = fleet.run(&["exec", "host-1", "--id", "op", "--shell", "true"]);
    assert!(other.bad(125).contains("operation_correlation_conflict"));
    std::fs::write(gate, "").unwrap();
    assert_eq!(outcome(&fleet, &words).good(), "begun\nended\n");
    // In good order: an idle host does not hold it up.
    assert_eq!(stop(&mut fleet), 0);
    assert!(!fleet.state().join("controller.sock").exists());
    assert!(
        fleet
            .shell("host-1", "true")
            .bad(125)
            .contains("no controller is running")
    );
    fleet.serve_again();
    line.lead_to(fleet.port);
    fleet.is("host-1", "ready");
    assert_eq!(outcome(&fleet, &words).good(), "begun\nended\n");
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn a_controller_that_is_told_to_end_lets_a_command_finish() {
    let mut fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let gate = fleet.path("gate");
    let command = format!("echo begun; until [ -e {gate} ]; do sleep 0.02; done; echo ended; exit 7");
    let run = fleet.begin(&["exec", "host-1", "--shell", &command]);
    run.prints("begun\n");
    fleet.controller.signal("TERM");
    fleet.controller.logged("the controller ends");
    std::fs::write(gate, "").unwrap();
    let ended = run.end();
    assert_eq!((ended.code, ended.text().as_str()), (Some(7), "begun\nended\n"));
    assert_eq!(eventually("the controller's end", || fleet.controller.exit()), 0);
    // A second signal cuts short what the first one waits for.
    fleet.serve_again();
    let _host = gateway(fleet.port, "host-2", &fleet.state_of("host-2"), |_| ());
    fleet.admit("host-2");
    let run = fleet.begin(&["exec", "host-2", "--no-recover", "--shell", "echo begun; exec sleep 60"]);
    run.prints("begun\n");
    fleet.controller.signal("TERM");
    fleet.controller.logged("the controller ends");
    assert_eq!(stop(&mut fleet), 0);
    assert!(run.end().bad(125).contains("--id"));
}

#[test]
fn a_pending_request_is_only_told_of_after_a_restart() {
    let mut fleet = Fleet::new();
    let (line, host) = behind(&fleet, "host-1");
    let code = fleet.waits("host-1")["pairingCode"].clone();
    fleet.controller.signal("KILL");
    eventually("the controller's end", || fleet.controller.exit());
    fleet.serve_again();
    // The host still dials the old port.
    let stored = fleet.pairings();
    assert_eq!(
        (&stored[0]["pairingCode"], &stored[0]["live"], stored.len()),
        (&code, &json!(false), 1)
    );
    let refused = fleet.http("POST", "/pairings/host-1/approve", Some(&json!({"pairingCode": code})));
    assert_eq!(refused, (409, json!({"ok": false, "error": "pairing_not_live"})));
    assert!(
        fleet
            .run(&["pairings", "approve", "host-1", "--yes"])
            .bad(1)
            .contains("not connected")
    );
    line.lead_to(fleet.port);
    let next = fleet.waits("host-1");
    assert_ne!(next["pairingCode"], code);
    assert_eq!(fleet.pairings().len(), 1);
    fleet.admit("host-1");
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn a_host_that_crashed_says_what_it_knows() {
    let fleet = Fleet::new();
    let host = fleet.paired("host-1");
    let done = ["exec", "host-1", "--id", "done", "--shell", "echo $$; exit 2"];
    let first = fleet.run(&done);
    assert_eq!(first.code, Some(2));
    let words = [
        "exec",
        "host-1",
        "--no-recover",
        "--id",
        "op",
        "--shell",
        "echo $$; exec sleep 60",
    ];
    let run = fleet.begin(&words);
    run.prints("\n");
    let pid = run.printed();
    host.kill();
    assert!(run.end().bad(125).contains("gateway_disconnected"));
    fleet.is("host-1", "disconnected");
    let host = fleet.gateway("host-1");
    fleet.is("host-1", "ready");
    assert!(fleet.run(&words).bad(125).contains("operation_outcome_unknown"));
    assert!(!is_running(&pid));
    let again = fleet.run(&done);
    assert_eq!((again.code, again.stdout), (Some(2), first.stdout.clone()));
    // A clean restart replays too.
    assert_eq!(host.stop().code, Some(0));
    fleet.is("host-1", "disconnected");
    let _host = fleet.gateway("host-1");
    fleet.is("host-1", "ready");
    assert_eq!(fleet.run(&done).stdout, first.stdout);
}

#[test]
fn a_host_that_is_told_to_end_answers_first() {
    let fleet = Fleet::new();
    let host = fleet.paired("host-1");
    let run = fleet.begin(&["exec", "host-1", "--shell", "echo up; exec sleep 60"]);
    run.prints("up\n");
    assert_eq!(host.stop().code, Some(0));
    let ended = run.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
}

#[test]
fn another_controller_in_its_place_gets_nothing_from_a_paired_host() {
    let fleet = Fleet::new();
    let (line, host) = behind(&fleet, "host-1");
    fleet.admit("host-1");
    let impostor = Fleet::new();
    line.lead_to(impostor.port);
    line.cut();
    host.logged("controller_identity_mismatch");
    assert_eq!(impostor.pairings(), Vec::<Value>::new());
    assert_eq!(impostor.snapshot("host-1"), Value::Null);
    // The right one is still the right one.
    line.lead_to(fleet.port);
    fleet.is("host-1", "ready");
    assert_eq!(fleet.shell("host-1", "echo home").good(), "home\n");
}

#[test]
fn one_state_directory_has_one_controller() {
    let fleet = Fleet::new();
    let second = Running::start(&mut controller_command(&fleet.state())).end();
    let told = second.bad(1);
    assert!(told.contains(&fleet.controller.pid().to_string()), "{told}");
    assert_eq!(second.text(), "");
    // The first one is not disturbed.
    fleet.run(&["gateways"]).good();
}

#[test]
fn others_can_neither_write_the_state_directory_nor_read_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    for mode in [0o777, 0o775, 0o1777] {
        std::fs::set_permissions(&state, PermissionsExt::from_mode(mode)).unwrap();
        let refused = Running::start(&mut controller_command(&state)).end();
        assert!(refused.bad(1).contains("chmod go-w"), "{mode:o}: {}", refused.stderr);
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
    }
    // Service managers make directories that all may enter: every file in it is private then.
    std::fs::set_permissions(&state, PermissionsExt::from_mode(0o755)).unwrap();
    let controller = Running::start(&mut controller_command(&state));
    controller.prints("ready");
    let names: Vec<_> = std::fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(names.iter().any(|path| path.ends_with("controller.sock")), "{names:?}");
    for path in &names {
        let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{path:?}");
    }
    assert_eq!(controller.stop().code, Some(0));
    let key = state.join("secrets.key");
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
    let refused = Running::start(&mut controller_command(&state)).end();
    assert!(refused.bad(1).contains("secrets.key"), "{}", refused.stderr);
}

#[test]
fn a_wrong_key_is_a_clear_fault_and_loses_nothing() {
    let mut fleet = Fleet::new();
    assert_eq!(stop(&mut fleet), 0);
    let key = fleet.state().join("secrets.key");
    let right = std::fs::read(&key).unwrap();
    let other = Fleet::new();
    let wrong = std::fs::read(other.state().join("secrets.key")).unwrap();
    std::fs::write(&key, &wrong).unwrap();
    let refused = Running::start(&mut controller_command(&fleet.state())).end();
    assert!(refused.bad(1).contains("key"), "{}", refused.stderr);
    std::fs::remove_file(&key).unwrap();
    let refused = Running::start(&mut controller_command(&fleet.state())).end();
    assert!(refused.bad(1).contains("key"), "{}", refused.stderr);
    assert!(!key.exists(), "no new key in place of the lost one");
    std::fs::write(&key, &right).unwrap();
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).unwrap();
    fleet.serve_again();
    fleet.run(&["gateways"]).good();
}

fn stop(fleet: &mut Fleet) -> i32 {
    fleet.controller.signal("TERM");
    eventually("the controller's end", || fleet.controller.exit())
}

#[test]
fn a_stale_socket_is_replaced_and_anything_else_is_left_alone() {
    let mut fleet = Fleet::new();
    fleet.controller.signal("KILL");
    eventually("the controller's end", || fleet.controller.exit());
    let socket = fleet.state().join("controller.sock");
    assert!(socket.exists());
    assert!(fleet.run(&["gateways"]).bad(1).contains("no controller is running"));
    fleet.serve_again();
    fleet.run(&["gateways"]).good();
    assert_eq!(stop(&mut fleet), 0);
    std::fs::write(&socket, "precious").unwrap();
    let refused = Running::start(&mut controller_command(&fleet.state())).end();
    assert!(refused.bad(1).contains("controller.sock"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(&socket).unwrap(), "precious");
    std::fs::remove_file(&socket).unwrap();
    // One that somebody else serves is not a controller's: whoever holds the lock decides.
    let _foreign = UnixListener::bind(&socket).unwrap();
    fleet.serve_again();
    fleet.run(&["gateways"]).good();
}
