//! `exec`: the exit codes, the streams and the secrets of a command that runs elsewhere.

use crate::fleet::{Fleet, Running, signal};
use goblin_testkit::{eventually, is_running};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

#[test]
fn the_exit_code_is_that_of_the_command() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    std::fs::write(fleet.path("plain"), "no program").unwrap();
    let plain = fleet.path("plain");
    for (words, code) in [
        (&["--", "true"][..], 0),
        (&["--shell", "exit 3"], 3),
        (&["--shell", "exit 255"], 255),
        (&["--shell", "kill -KILL $$"], 137),
        (&["--shell", "kill -TERM $$"], 143),
        (&["--timeout", "200ms", "--", "sleep", "60"], 124),
        (&["--", "/no/such/program"], 127),
        (&["--", "no-such-program"], 127),
        (&["--", &plain], 126),
        (&["--", "/etc"], 126),
        (&["--cwd", "/no/such/place", "--", "true"], 125),
        (&["--shell", " "], 125),
        (&["--bogus"], 125),
    ] {
        let ended = fleet.run(&[&["exec", "host-1"], words].concat());
        assert_eq!(ended.code, Some(code), "{words:?}: {}", ended.stderr);
        assert_eq!(ended.text(), "", "{words:?}");
    }
    let absent = fleet.shell("host-2", "true");
    assert!(absent.bad(125).contains("gateway_not_connected"));
    let nowhere = Running::start(
        fleet
            .command(&["exec", "x", "--", "true"])
            .env("NODE_GOBLIN_STATE_DIR", "/no/where"),
    );
    assert!(nowhere.end().bad(125).contains("no controller is running"));
}

#[test]
fn output_arrives_while_the_command_runs_on_the_stream_it_was_written_to() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let gate = fleet.path("gate");
    let command = format!("echo begun; echo aside >&2; until [ -e {gate} ]; do sleep 0.02; done; echo ended; exit 4");
    let run = fleet.begin(&["exec", "host-1", "--shell", &command]);
    run.prints("begun\n");
    run.logged("aside\n");
    assert_eq!(fleet.snapshot("host-1")["activeOperations"], json!(1));
    std::fs::write(gate, "").unwrap();
    let ended = run.end();
    assert_eq!((ended.code, ended.text().as_str()), (Some(4), "begun\nended\n"));
    assert_eq!(ended.stderr, "aside\n");
    assert_eq!(fleet.snapshot("host-1")["activeOperations"], json!(0));
}

#[test]
fn ctrl_c_cancels_there_and_waits_for_the_end() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        // It takes its time to end, and what it says meanwhile still arrives.
        let command = "trap 'echo ending; exit 9' TERM; echo $$; while :; do sleep 0.02; done";
        let run = fleet.begin(&["exec", "host-1", "--shell", command]);
        run.prints("\n");
        let pid = run.printed();
        run.signal(name);
        let ended = run.end();
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert_eq!(ended.text(), format!("{pid}ending\n"));
        assert!(!is_running(&pid));
    }
    // One that resists is killed.
    let run = fleet.begin(&[
        "exec",
        "host-1",
        "--json",
        "--shell",
        "trap '' TERM; echo $$; while :; do sleep 0.02; done",
    ]);
    run.prints("process.stream");
    run.signal("INT");
    let ended = run.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let text = ended.text();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let outcome = &last["result"]["outcome"];
    assert_eq!(
        (&outcome["cancelled"], &outcome["signal"]),
        (&json!(true), &json!("SIGKILL"))
    );
}

#[test]
fn a_second_ctrl_c_leaves_and_cancel_ends_what_was_left() {
    let fleet = Fleet::new();
    let host = fleet.paired("host-1");
    let run = fleet.begin(&["exec", "host-1", "--id", "left", "--shell", "echo $$; exec sleep 60"]);
    run.prints("\n");
    let pid = run.printed();
    // The host is stopped, so that no answer can come in between.
    host.signal("STOP");
    run.signal("INT");
    run.logged("cancelling");
    run.signal("INT");
    let left = run.end();
    assert!(left.bad(130).contains("node-goblin cancel"));
    host.signal("CONT");
    eventually("the end of the command", || (!is_running(&pid)).then_some(()));
    let again = fleet.run(&["exec", "host-1", "--id", "left", "--shell", "echo $$; exec sleep 60"]);
    assert_eq!((again.code, again.text()), (Some(130), pid));
    assert!(
        fleet
            .run(&["cancel", "host-1", "left"])
            .bad(1)
            .contains("no operation left")
    );
}

#[test]
fn environment_directory_and_arguments_go_through_untouched() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let odd = "a  b\"'$HOME\\\n\t*é\u{1F600}";
    let words = [
        "exec",
        "host-1",
        "--cwd",
        "/",
        "--env",
        &format!("ODD={odd}"),
        "-e",
        "EMPTY=",
        "--",
        "sh",
        "-c",
        "pwd; printf '%s|' \"$ODD\" \"$EMPTY\" \"$@\"",
        "sh",
        odd,
        "",
        "--flag",
    ];
    assert_eq!(fleet.run(&words).good(), format!("/\n{odd}||{odd}||--flag|"));
    // Neither what configures the daemon nor the caller's own environment is there.
    let names = fleet.shell("host-1", "env").good();
    assert!(
        !names.contains("BURROW_GATEWAY") && !names.contains("NODE_GOBLIN_STATE_DIR"),
        "{names}"
    );
}

#[test]
fn a_secret_is_delivered_and_shows_nowhere() {
    let fleet = Fleet::new();
    let host = fleet.paired("host-1");
    let secret = "s3cr3t-élan-\"quoted\\";
    let command = "test ${#TOKEN} -ge 20 && echo got; echo \"<$TOKEN>\"; echo \"$TOKEN\" >&2; rest=${TOKEN#???}; printf %s \"${TOKEN%\"$rest\"}\"; sleep 0.05; printf '%s\\n' \"$rest\"";
    let words = ["exec", "host-1", "--id", "op", "--secret", "TOKEN", "--shell", command];
    let ended = Running::start(fleet.command(&words).env("TOKEN", secret)).end();
    assert_eq!(ended.good(), "got\n<[redacted]>\n[redacted]\n");
    assert_eq!(ended.stderr, "[redacted]\n");
    let again = Running::start(fleet.command(&words).env("TOKEN", secret)).end();
    assert!(again.bad(125).contains("protected_redelivery_forbidden"));
    let replayed = fleet.run(&["exec", "host-1", "--id", "op", "--shell", command]);
    assert_eq!(replayed.good(), "got\n<[redacted]>\n[redacted]\n");
    let missing = fleet.run(&["exec", "host-1", "--secret", "NOT_SET_ANYWHERE", "--", "true"]);
    assert!(missing.bad(125).contains("NOT_SET_ANYWHERE"));
    let (_, operations) = fleet.http("GET", "/operations", None);
    assert!(!operations.to_string().contains("s3cr3t") && !operations.to_string().contains("TOKEN"));
    let logs = [host.stop().stderr, fleet.controller.log()];
    assert!(!logs.iter().any(|log| log.contains("s3cr3t")));
    for directory in [fleet.state(), fleet.state_of("host-1")] {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let content = std::fs::read(entry.path()).unwrap_or_default();
            assert!(
                !String::from_utf8_lossy(&content).contains("s3cr3t"),
                "{:?}",
                entry.path()
            );
        }
    }
}

#[test]
fn envelopes_are_those_of_the_gateway() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let ended = fleet.run(&["exec", "host-1", "--json", "--id", "op", "--shell", "echo out; exit 6"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(6), ""));
    let lines: Vec<Value> = ended
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let types: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["accepted", "process.stream", "process.terminal", "response"]);
    assert_eq!(lines[2]["evidence"], lines[3]["result"]["outcome"]);
    assert_eq!((&lines[1]["seq"], &lines[2]["seq"]), (&json!(1), &json!(2)));
    assert_eq!(lines[3]["result"]["outcome"]["timeoutMs"], json!(86_400_000));
    // The same id: a replay of the same evidence; another command is a conflict that runs nothing.
    let again = fleet.run(&["exec", "host-1", "--json", "--id", "op", "--shell", "echo out; exit 6"]);
    let again: Value = serde_json::from_str(again.text().trim()).unwrap();
    assert_eq!(
        (&again["result"]["replay"], &again["result"]["outcome"]),
        (&json!(true), &lines[3]["result"]["outcome"])
    );
    let other = fleet.run(&["exec", "host-1", "--id", "op", "--shell", "echo other"]);
    assert!(other.bad(125).contains("operation_correlation_conflict"));
}

#[test]
fn ten_megabytes_arrive_whole_and_in_order() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let ended = fleet.shell("host-1", "seq 1 1500000");
    let text = ended.good();
    assert!(text.len() > 10_000_000);
    for (line, number) in text.lines().zip(1..) {
        assert!(line.parse() == Ok(number), "{line} at {number}");
    }
    assert!(text.ends_with("\n1500000\n"));
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_reader_that_pauses_loses_nothing_and_holds_up_nothing() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    // More than all buffers on the way hold together.
    let done = fleet.path("done");
    let command = format!("head -c 30000000 /dev/zero | tr '\\0' x; echo end; touch {done}; exit 3");
    let mut run = fleet
        .command(&["exec", "host-1", "--shell", &command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the end of the command", || {
        std::path::Path::new(&done).exists().then_some(())
    });
    // Ten seconds later the controller would have given it up.
    eventually("its answer", || {
        (fleet.snapshot("host-1")["activeOperations"] == json!(0)).then_some(())
    });
    let mut text = String::new();
    std::io::Read::read_to_string(&mut run.stdout.take().unwrap(), &mut text).unwrap();
    assert_eq!(text.len(), 30_000_004);
    assert!(text.ends_with("xend\n"));
    let ended = run.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

#[test]
fn a_limit_of_output_ends_the_command_and_is_said() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let ended = fleet.run(&["exec", "host-1", "--max-output", "1K", "--", "yes"]);
    assert_eq!(ended.code, Some(143));
    assert_eq!(ended.stdout.len(), 1024);
    assert!(ended.stderr.contains("--max-output"));
}

#[test]
fn a_reader_that_leaves_ends_the_command() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let pid_file = fleet.path("pid");
    let command = format!("echo $$ > {pid_file}; exec yes");
    let mut run = fleet
        .command(&["exec", "host-1", "--shell", &command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Like `head`: a little is read, then the pipe is closed.
    let mut output = run.stdout.take().unwrap();
    std::io::Read::read_exact(&mut output, &mut [0; 2]).unwrap();
    drop(output);
    let status = eventually("the end of exec", || run.try_wait().unwrap());
    assert_eq!(status.code(), Some(141));
    let pid = std::fs::read_to_string(pid_file).unwrap();
    eventually("the end of the command", || (!is_running(&pid)).then_some(()));
    let full = Command::new("sh")
        .args(["-c", "\"$0\" exec host-1 -- echo x > /dev/full", crate::PROGRAM])
        .env("NODE_GOBLIN_STATE_DIR", fleet.state())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(full.code(), Some(125));
}

#[test]
fn a_client_that_is_killed_leaves_the_operation_running() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let gate = fleet.path("gate");
    let command = format!("echo up; until [ -e {gate} ]; do sleep 0.02; done; echo done");
    let words = ["exec", "host-1", "--id", "op", "--shell", &command];
    let run = fleet.begin(&words);
    run.prints("up\n");
    signal(&run.pid().to_string(), "KILL");
    run.end();
    assert!(fleet.run(&words).bad(125).contains("operation_in_progress"));
    std::fs::write(gate, "").unwrap();
    let text = eventually("the outcome", || {
        let again = fleet.run(&words);
        (again.code == Some(0)).then(|| again.text())
    });
    assert_eq!(text, "up\ndone\n");
}
