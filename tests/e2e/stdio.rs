//! The daemon over standard streams.

use crate::PROGRAM;
use goblin_testkit::{StdioDaemon, eventually, is_running};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn a_command_is_accepted_streamed_and_answered() {
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    let hello = daemon.request("h", "hello", json!({})).last;
    assert_eq!(hello["result"]["name"], json!("burrow-host-gateway"));
    assert_eq!(hello["result"]["transport"], json!("stdio-jsonl"));
    daemon.send(
        "r",
        "process.exec",
        json!({"operationId": "op", "command": "echo out; echo err >&2; exit 3"}),
    );
    let accepted = daemon.frame("accepted", |frame| frame["type"] == json!("accepted"));
    assert_eq!(
        accepted,
        json!({"type": "accepted", "requestId": "r", "ok": true, "operationId": "op", "protocolVersion": "1.0"})
    );
    let answer = daemon.answer("r");
    assert_eq!(
        (answer.outcome()["exitCode"].clone(), answer.outcome()["stdout"].clone()),
        (json!(3), json!("out\n"))
    );
    let terminal = daemon.frame("the terminal event", |frame| frame["type"] == json!("process.terminal"));
    assert_eq!(&terminal["evidence"], answer.outcome());
    assert_eq!(terminal["seq"], json!(3));
}

#[test]
fn the_second_name_is_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("burrow-host-gateway");
    std::os::unix::fs::symlink(PROGRAM, &link).unwrap();
    let mut daemon = StdioDaemon::start_command(Command::new(link).arg("--max-operations=1"));
    daemon.send(
        "a",
        "process.exec",
        json!({"operationId": "a", "command": "echo up; sleep 30"}),
    );
    daemon.output("a", "up");
    assert_eq!(daemon.shell("b", "true").code(), "operation_limit_reached");
    assert_eq!(
        daemon.request("c", "cancel", json!({"operationId": "a"})).last["result"]["cancelling"],
        json!(true)
    );
    assert_eq!(daemon.answer("a").outcome()["cancelled"], json!(true));
}

#[test]
fn signals_end_it_cleanly_with_active_work_cancelled_and_journaled() {
    for signal in ["TERM", "INT", "HUP"] {
        let state = tempfile::tempdir().unwrap();
        let mut daemon = StdioDaemon::start(PROGRAM, Some(state.path()));
        daemon.send(
            "r",
            "process.exec",
            json!({"operationId": "op", "command": "echo up; sleep 60"}),
        );
        daemon.output("op", "up");
        daemon.signal(signal);
        assert_eq!(daemon.answer("r").outcome()["cancelled"], json!(true));
        let (status, errors, _) = daemon.end();
        assert!(status.success(), "{signal}: {status} {errors}");
        let mut next = StdioDaemon::start(PROGRAM, Some(state.path()));
        let again = next.shell("op", "echo up; sleep 60");
        assert!(again.is_replay() && again.outcome()["cancelled"] == json!(true));
    }
}

#[test]
fn a_stop_leaves_no_member_of_a_group_alive() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    let stubborn = format!(
        "trap '' TERM; (trap '' TERM; echo $BASHPID > {0}.tmp; mv {0}.tmp {0}; exec sleep 60) & sleep 60",
        pid_file.display()
    );
    daemon.send(
        "r",
        "process.exec",
        json!({"operationId": "op", "executable": "bash", "args": ["-c", stubborn]}),
    );
    let pid = eventually("the grandchild", || std::fs::read_to_string(&pid_file).ok());
    daemon.signal("TERM");
    let (status, errors, _) = daemon.end();
    assert!(status.success(), "{errors}");
    // The daemon made sure of it before it ended.
    assert!(!is_running(&pid));
}

#[test]
fn a_stopping_daemon_still_answers() {
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    daemon.shell("done", "echo before");
    daemon.send(
        "r",
        "process.exec",
        json!({"operationId": "op", "command": "trap '' TERM; echo up; while :; do sleep 0.05; done"}),
    );
    daemon.output("op", "up");
    daemon.request("s", "shutdown", json!({}));
    assert_eq!(
        daemon.request("h", "health", json!({})).last["result"]["status"],
        json!("stopping")
    );
    assert_eq!(daemon.shell("new", "true").code(), "daemon_stopping");
    assert!(daemon.shell("done", "echo before").is_replay());
    assert_eq!(daemon.answer("r").outcome()["cancelled"], json!(true));
    assert!(daemon.end().0.success());
}

#[test]
fn cancel_takes_an_id_as_execution_does() {
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    daemon.send(
        "r",
        "process.exec",
        json!({"operationId": 5, "command": "echo up; sleep 60"}),
    );
    daemon.output("5", "up");
    let cancel = daemon.request("c", "cancel", json!({"operationId": 5.0})).last;
    assert_eq!(cancel["result"], json!({"operationId": "5", "cancelling": true}));
    assert_eq!(daemon.answer("r").outcome()["cancelled"], json!(true));
    assert_eq!(
        daemon.request("n", "cancel", json!({})).last["result"],
        json!({"operationId": null, "cancelling": false})
    );
}

#[test]
fn sockets_serve_as_standard_streams() {
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    let (mut near, far) = UnixStream::pair().unwrap();
    // As somebody may leave it: non-blocking.
    far.set_nonblocking(true).unwrap();
    let end = |stream: &UnixStream| std::process::Stdio::from(OwnedFd::from(stream.try_clone().unwrap()));
    let mut child = Command::new(PROGRAM)
        .arg("gateway")
        .stdin(end(&far))
        .stdout(end(&far))
        .spawn()
        .unwrap();
    drop(far);
    let line = json!({"id": 1, "method": "process.exec", "params": {"operationId": "a", "command": "head -c 900000 /dev/zero | tr '\\0' x"}});
    near.write_all(format!("{line}\n").as_bytes()).unwrap();
    near.shutdown(std::net::Shutdown::Write).unwrap();
    let last = BufReader::new(near).lines().map(Result::unwrap).last().unwrap();
    let answer: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!(answer["result"]["outcome"]["stdout"].as_str().unwrap().len(), 900_000);
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_end_of_input_lets_work_finish() {
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    daemon.send(
        "r",
        "process.exec",
        json!({"operationId": "op", "command": "sleep 0.3; echo done"}),
    );
    daemon.close_input();
    assert_eq!(daemon.answer("r").outcome()["stdout"], json!("done\n"));
    assert!(daemon.end().0.success());
}

#[test]
fn the_daemons_secrets_never_reach_a_command() {
    let mut command = Command::new(PROGRAM);
    command
        .arg("gateway")
        .env("BURROW_GATEWAY_ENROLLMENT_TOKEN", "marker-token")
        .env("OTEL_EXPORTER_OTLP_HEADERS", "k=marker-header");
    let mut daemon = StdioDaemon::start_command(&mut command);
    let answer = daemon.shell(
        "env",
        "env; cat /proc/$PPID/environ 2>&1 | tr '\\0' '\\n'; ls /proc/self/fd | wc -l",
    );
    let text = answer.outcome().to_string();
    // Only a process with the right to trace the daemon may look into it; root may.
    if !is_root() {
        assert!(!text.contains("marker"), "{text}");
    }
    let own = daemon.shell("own", "env").outcome().to_string();
    assert!(!own.contains("marker") && own.contains("BURROW_OPERATION_MARK="));
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0)
}

#[test]
fn a_state_directory_belongs_to_one_daemon() {
    let state = tempfile::tempdir().unwrap();
    let mut first = StdioDaemon::start(PROGRAM, Some(state.path()));
    first.request("h", "hello", json!({}));
    let (status, errors, _) = StdioDaemon::start(PROGRAM, Some(state.path())).end();
    assert!(
        !status.success() && errors.contains(&first.pid().to_string()),
        "{errors}"
    );
    assert_eq!(first.shell("a", "echo still").outcome()["stdout"], json!("still\n"));
    let mode = std::fs::metadata(state.path()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

#[test]
fn an_idle_daemon_is_small() {
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    daemon.request("h", "hello", json!({}));
    // The benchmark measures all of the optimised program; what counts here is what it allocates.
    let kib = daemon.anonymous_kib();
    assert!(kib < 6 * 1024, "{kib} KiB");
}
