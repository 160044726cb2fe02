//! Input that no honest peer sends. Never a panic, never unbounded memory, always the documented answer.

use crate::PROGRAM;
use goblin_testkit::StdioDaemon;
use serde_json::{Value, json};

const CAP: usize = 2 * 1024 * 1024;

#[test]
fn lines_that_are_no_requests_get_their_codes_and_the_session_goes_on() {
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    let deep = format!(
        r#"{{"id":"deep","method":"health","params":{{"x":{}{}}}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    for (line, id, code) in [
        (b"not json".to_vec(), Value::Null, "invalid_json"),
        (b"{\"id\":\"cut\",\"meth".to_vec(), json!("cut"), "invalid_json"),
        (deep.into_bytes(), json!("deep"), "invalid_json"),
        (
            b"{\"id\":\"utf\",\"method\":\"\xff\"}".to_vec(),
            json!("utf"),
            "invalid_json",
        ),
        (b"\0\0\0".to_vec(), Value::Null, "invalid_json"),
        (
            b"{\"id\":\"nul\",\"method\":\"a\0\"}".to_vec(),
            json!("nul"),
            "invalid_json",
        ),
        (b"[]".to_vec(), Value::Null, "invalid_message"),
        (
            b"{\"id\":{},\"method\":\"health\"}".to_vec(),
            Value::Null,
            "invalid_message",
        ),
        (b"{\"id\":\"none\"}".to_vec(), json!("none"), "unknown_method"),
    ] {
        daemon.write(&[line.as_slice(), b"\n"].concat());
        let answer = daemon.frame(code, |frame| frame["type"] == json!("error"));
        assert_eq!(
            answer,
            json!({"type": "error", "requestId": id, "ok": false, "error": {"code": code}})
        );
    }
    // Duplicate keys: the last counts. Numbers beyond 2^53 are what JavaScript makes of them.
    daemon.write(b"{\"id\":\"x\",\"id\":9007199254740993,\"method\":\"nope\",\"method\":\"health\"}\n");
    let answer = daemon.frame("health", |frame| frame["type"] == json!("response"));
    assert_eq!(answer["requestId"], json!(9_007_199_254_740_992u64));
}

#[test]
fn frames_at_the_cap_are_taken_and_longer_ones_refused() {
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    let frame = |length: usize| {
        let mut line = br#"{"id":"cap","method":"health","params":{"pad":""#.to_vec();
        line.resize(length - 4, b'x');
        line.extend_from_slice(b"\"}}\n");
        line
    };
    daemon.write(&frame(CAP));
    assert_eq!(daemon.answer("cap").last["result"]["status"], json!("ok"));
    daemon.write(&frame(CAP + 1));
    let answer = daemon.frame("the refusal", |frame| frame["type"] == json!("error"));
    assert_eq!(
        answer,
        json!({"type": "error", "requestId": null, "ok": false, "error": {"code": "frame_too_large"}})
    );
    daemon.request("h", "health", json!({}));
}

#[test]
fn a_line_without_end_takes_no_memory() {
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    daemon.request("h", "health", json!({}));
    let before = daemon.resident_kib();
    let block = vec![b'A'; 1 << 20];
    for _ in 0..64 {
        assert!(daemon.write(&block));
    }
    daemon.frame("the refusal", |frame| {
        frame["error"]["code"] == json!("frame_too_large")
    });
    assert!(daemon.resident_kib() < before + 16 * 1024);
    daemon.write(b"\n");
    daemon.request("after", "health", json!({}));
}

#[test]
fn ten_thousand_pipelined_requests_are_all_answered() {
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    let mut lines = String::new();
    for n in 0..10_000 {
        lines += &match n % 10 {
            0 => format!(
                "{{\"id\":\"{n}\",\"method\":\"process.exec\",\"params\":{{\"operationId\":\"{n}\",\"executable\":\"/bin/true\"}}}}\n"
            ),
            1 => format!("{{\"id\":\"{n}\",\"method\":\"nope\"}}\n"),
            _ => format!("{{\"id\":\"{n}\",\"method\":\"health\"}}\n"),
        };
    }
    daemon.write(lines.as_bytes());
    daemon.close_input();
    let (status, errors, frames) = daemon.end();
    assert!(status.success(), "{errors}");
    let answers = frames
        .iter()
        .filter(|frame| matches!(frame["type"].as_str(), Some("response" | "error")))
        .count();
    assert_eq!(answers, 10_000);
    let refused = frames
        .iter()
        .filter(|frame| frame["error"]["code"] == json!("operation_limit_reached"))
        .count();
    let ran = frames
        .iter()
        .filter(|frame| frame["result"]["outcome"]["exitCode"] == json!(0))
        .count();
    assert_eq!(ran + refused, 1_000);
    assert!(ran >= 256);
}

#[test]
fn a_peer_that_reads_nothing_costs_bounded_memory_and_cannot_keep_the_daemon_alive() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new(PROGRAM)
        .arg("gateway")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // Twenty floods of output, and nobody reads any of it.
    for n in 0..20 {
        let line = json!({"id": n, "method": "process.exec", "params": {"operationId": n.to_string(), "command": "yes", "maxOutputBytes": 1e12}});
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    let resident = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap()
            .to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let children = |pid: u32| {
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
            .map(|text| text.split_whitespace().count())
            .unwrap_or(0)
    };
    let pid = child.id();
    goblin_testkit::eventually("the floods", || {
        let started: usize = std::fs::read_dir(format!("/proc/{pid}/task"))
            .unwrap()
            .flatten()
            .map(|task| {
                std::fs::read_to_string(task.path().join("children"))
                    .map(|text| text.split_whitespace().count())
                    .unwrap_or(0)
            })
            .sum();
        (started >= 20 || children(pid) >= 20).then_some(())
    });
    // Writers that are held back stay held back: two looks far apart show the same bound.
    let mut largest = 0;
    let begun = std::time::Instant::now();
    goblin_testkit::eventually("two seconds of flood", || {
        largest = largest.max(resident(pid));
        (begun.elapsed() > std::time::Duration::from_secs(2)).then_some(())
    });
    assert!(largest < 160 * 1024, "{largest} KiB");
    Command::new("kill").arg("-TERM").arg(pid.to_string()).status().unwrap();
    let status = goblin_testkit::eventually("its end", || child.try_wait().unwrap());
    assert!(status.success());
}
