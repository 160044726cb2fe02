//! What survives a crash, and what is honestly said to be unknown.

use crate::PROGRAM;
use goblin_testkit::{StdioDaemon, eventually, is_running};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

fn digest(text: &str) -> String {
    use aws_lc_rs::digest::{SHA256, digest};
    digest(&SHA256, text.as_bytes())
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn a_completed_outcome_survives_a_kill_and_is_replayed_as_it_was_delivered() {
    let state = tempfile::tempdir().unwrap();
    let count = state.path().join("count");
    let command = format!("echo x >> {}; echo $$", count.display());
    let mut daemon = StdioDaemon::start(PROGRAM, Some(state.path()));
    let first = daemon.shell("op", &command).outcome().clone();
    daemon.signal("KILL");
    daemon.end();
    let mut next = StdioDaemon::start(PROGRAM, Some(state.path()));
    let again = next.shell("op", &command);
    assert!(again.is_replay());
    assert_eq!(again.outcome(), &first);
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
    assert_eq!(next.shell("op", "true").code(), "operation_id_conflict");
}

#[test]
fn an_interrupted_operation_is_unknown_and_what_it_left_is_ended() {
    let state = tempfile::tempdir().unwrap();
    let pid_file = state.path().join("pid");
    // In a session of its own, so that no group reaches it: only the mark does.
    let command = format!(
        "setsid sh -c 'trap \"\" TERM; echo $$ > {0}.tmp; mv {0}.tmp {0}; exec sleep 120' & echo up; sleep 120",
        pid_file.display()
    );
    let mut daemon = StdioDaemon::start(PROGRAM, Some(state.path()));
    daemon.send("r", "process.exec", json!({"operationId": "op", "command": command}));
    daemon.output("op", "up");
    let left = eventually("the left process", || std::fs::read_to_string(&pid_file).ok());
    daemon.signal("KILL");
    daemon.end();
    let mut next = StdioDaemon::start(PROGRAM, Some(state.path()));
    let again = next.shell("op", &command);
    assert_eq!(again.code(), "operation_outcome_unknown");
    assert_eq!(again.last["error"]["operationId"], json!("op"));
    assert!(
        again.last["error"]["startedAt"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    assert_eq!(next.shell("op", "true").code(), "operation_id_conflict");
    // It was ended before the daemon took work.
    assert!(!is_running(&left));
    assert_eq!(next.shell("other", "echo fine").outcome()["stdout"], json!("fine\n"));
}

#[test]
fn a_start_that_failed_cleanly_leaves_the_id_free() {
    let state = tempfile::tempdir().unwrap();
    let mut daemon = StdioDaemon::start(PROGRAM, Some(state.path()));
    let failed = daemon.request(
        "a",
        "process.exec",
        json!({"operationId": "op", "executable": "/no/such/program"}),
    );
    assert_eq!(
        (failed.code(), failed.last["error"]["errno"].clone()),
        ("executable_not_found", json!("ENOENT"))
    );
    daemon.signal("KILL");
    daemon.end();
    let mut next = StdioDaemon::start(PROGRAM, Some(state.path()));
    let again = next.request(
        "a",
        "process.exec",
        json!({"operationId": "op", "executable": "/no/such/program"}),
    );
    assert_eq!(again.code(), "executable_not_found");
}

#[test]
fn a_baseline_state_directory_is_taken_over_unchanged() {
    let state = tempfile::tempdir().unwrap();
    let text = r#"{"method":"process.exec","params":{"command":"echo taken","operationId":undefined,"protectedDelivery":undefined,"protectedValues":undefined}}"#;
    let expires = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64
        + 200_000;
    let journal = json!({"entries": [{"id": "old", "requestDigest": digest(text), "result": {"type": "note", "stdout": "from before"}, "expiresAt": expires}]});
    let identity = json!({
        "version": 1,
        "nodeId": "5f0b7a1e-30a5-4bb3-a9a2-6f0f3f6f7b11",
        "publicKey": "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=\n-----END PUBLIC KEY-----\n",
        "privateKey": "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB\n-----END PRIVATE KEY-----\n",
        "createdAt": "2026-01-01T00:00:00.000Z",
    });
    let trust = json!({"version": 1, "controllerId": "controller", "secret": "shared", "enrolledAt": "2026-01-01T00:00:00.000Z"});
    let write = |name: &str, value: &Value| {
        let path = state.path().join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("operations.json", &journal);
    write("node-identity.json", &identity);
    write("controller-trust.json", &trust);
    let mut daemon = StdioDaemon::start(PROGRAM, Some(state.path()));
    let answer = daemon.shell("old", "echo taken");
    assert!(answer.is_replay());
    assert_eq!(answer.outcome()["stdout"], json!("from before"));
    daemon.signal("TERM");
    assert!(daemon.end().0.success());
    for (name, value) in [
        ("node-identity.json", &identity),
        ("controller-trust.json", &trust),
        ("operations.json", &journal),
    ] {
        let now: Value = serde_json::from_str(&std::fs::read_to_string(state.path().join(name)).unwrap()).unwrap();
        assert_eq!(&now, value, "{name}");
    }
}

#[test]
fn a_key_that_others_can_read_stops_the_start() {
    let state = tempfile::tempdir().unwrap();
    std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let key = state.path().join("node-identity.json");
    std::fs::write(&key, "{}").unwrap();
    std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (status, errors, _) = StdioDaemon::start(PROGRAM, Some(state.path())).end();
    assert!(
        !status.success() && errors.contains("node-identity.json") && errors.contains("chmod"),
        "{errors}"
    );
}

#[test]
fn a_stop_journals_what_a_peer_that_reads_nothing_never_took() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let state = tempfile::tempdir().unwrap();
    let mut child = Command::new(PROGRAM)
        .args(["gateway", "--state-dir"])
        .arg(state.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let marks = tempfile::tempdir().unwrap();
    // Four write more than fits the queue and end by themselves, three never end.
    let commands: Vec<String> = (0..7)
        .map(|n| {
            let then = if n < 4 { "true" } else { "exec sleep 60" };
            format!(
                "head -c 3000000 /dev/zero; echo > {}/{n}; {then}",
                marks.path().display()
            )
        })
        .collect();
    let params =
        |n: usize| json!({"operationId": format!("op{n}"), "command": commands[n], "maxOutputBytes": 10_000_000});
    for n in 0..7 {
        let line = json!({"id": n, "method": "process.exec", "params": params(n)});
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    // Everything has started; most of it is held back by now.
    eventually("the commands", || {
        let running = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            std::fs::read(entry.path().join("environ")).is_ok_and(|text| !text.is_empty())
                && std::fs::read_to_string(entry.path().join("cmdline"))
                    .is_ok_and(|line| line.contains(&marks.path().display().to_string()))
        });
        (running.count() >= 7).then_some(())
    });
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    assert!(eventually("its end", || child.try_wait().unwrap()).success());
    let mut next = StdioDaemon::start(PROGRAM, Some(state.path()));
    for n in 0..7 {
        let answer = next.request(&format!("again{n}"), "process.exec", params(n));
        assert!(answer.is_replay(), "op{n}: {}", answer.code());
    }
}

#[test]
fn a_trust_file_that_cannot_be_read_stops_the_start() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("controller-trust.json");
    for content in [
        "nonsense",
        r#"{"version":2,"controllerId":"c","secret":"marker","enrolledAt":"x"}"#,
    ] {
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let (status, errors, _) = StdioDaemon::start(PROGRAM, Some(state.path())).end();
        assert!(
            !status.success() && errors.contains("controller-trust.json"),
            "{errors}"
        );
        assert!(!errors.contains("marker"));
    }
}
