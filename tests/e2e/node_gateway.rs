//! A gateway that means harm, and the controller that it talks to.

use crate::fleet::{Fleet, request};
use crate::peer::Peer;
use goblin_testkit::eventually;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

/// Bytes of a frame, its newline included.
const FRAME_MAX: usize = 2 * 1024 * 1024;

/// Dials and says nothing on its own.
fn stranger(fleet: &Fleet) -> Peer {
    let mut peer = Peer::gateway(&json!({"port": fleet.port, "id": "node-1", "mute": "challenge"}));
    peer.frame("the challenge", |frame| frame["type"] == json!("auth.challenge"));
    peer
}

/// Admitted, and answers nothing on its own.
fn insider(fleet: &Fleet) -> Peer {
    let mut peer = Peer::gateway(&json!({"port": fleet.port, "id": "node-1", "mute": "requests"}));
    peer.event("code");
    fleet.admit("node-1");
    peer
}

/// Resident memory of the controller, in KiB.
fn memory(fleet: &Fleet) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", fleet.controller.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn nothing_is_served_to_a_stranger() {
    let fleet = Fleet::new();
    for (raw, code) in [
        ("garbage\n".to_owned(), Some("invalid_json")),
        ("\u{0}\n".to_owned(), Some("invalid_json")),
        ("[".repeat(10_000) + "\n", Some("invalid_json")),
        ("[]\n".to_owned(), None),
        ("{\"id\":1,\"method\":\"hello\"}\n".to_owned(), Some("unauthenticated")),
        (
            "{\"type\":\"response\",\"requestId\":null,\"ok\":true,\"result\":{}}\n".to_owned(),
            Some("unauthenticated"),
        ),
        (
            "{\"type\":\"auth.response\"}\n".to_owned(),
            Some("invalid_auth_message"),
        ),
        (
            "{\"type\":\"auth.response\",\"gatewayId\":[],\"controllerId\":{}}\n".to_owned(),
            Some("invalid_auth_message"),
        ),
        (
            "{\"type\":\"auth.response\",\"gatewayId\":\"g\",\"controllerId\":\"controller\"}\n".to_owned(),
            Some("unknown_node"),
        ),
        ("x".repeat(64 * 1024 + 1), Some("frame_too_large")),
        (
            format!("{{\"type\":\"{}\"}}\n", "x".repeat(64 * 1024)),
            Some("frame_too_large"),
        ),
        ("\n".repeat(100_000) + "{}\n", Some("unauthenticated")),
    ] {
        let mut peer = stranger(&fleet);
        peer.order(json!({"raw": raw}));
        let told = peer.frame("a refusal", |frame| frame["type"] == json!("transport.error"));
        let shown = &raw[..raw.len().min(60)];
        assert!(
            code.is_none_or(|code| told["error"]["code"] == json!(code)),
            "{shown:?}: {told}"
        );
        assert_eq!(told["ok"], json!(false));
        peer.event("closed");
    }
    // Bytes that are no TLS at all.
    let mut plain = TcpStream::connect(("127.0.0.1", fleet.port)).unwrap();
    plain.set_read_timeout(Some(goblin_testkit::LIMIT)).unwrap();
    let _ = plain.write_all(&[b'x'; 70_000]);
    let _ = plain.read_to_end(&mut Vec::new());
    assert_eq!(fleet.pairings(), Vec::<Value>::new());
    assert_eq!(fleet.snapshot("node-1"), Value::Null);
    let _host = fleet.paired("host-1");
}

#[test]
fn who_waits_for_approval_may_only_wait() {
    let fleet = Fleet::new();
    for raw in [
        "{\"type\":\"response\",\"requestId\":\"x\",\"ok\":true,\"result\":{}}\n",
        "{\"type\":\"auth.ok\"}\n",
        "junk\n",
    ] {
        let mut peer = Peer::gateway(&json!({"port": fleet.port, "id": "node-1"}));
        peer.event("code");
        fleet.waits("node-1");
        peer.order(json!({"raw": raw}));
        let told = peer.frame("a refusal", |frame| frame["type"] == json!("transport.error"));
        assert_eq!(told["error"]["code"], json!("unauthenticated"), "{raw}");
        peer.event("closed");
        fleet.is_gone("node-1");
    }
}

/// Starts a command and gives the request that the gateway gets.
fn asked(fleet: &Fleet, peer: &mut Peer, operation: &str) -> (crate::fleet::Running, Value) {
    let run = fleet.begin(&["exec", "node-1", "--id", operation, "--", "x"]);
    let request = peer.frame("a request", |frame| {
        frame["method"] == json!("process.exec") && frame["params"]["operationId"] == json!(operation)
    });
    (run, request["id"].clone())
}

fn evidence(exit: i64) -> Value {
    json!({"type": "process.result", "startedAt": "1970-01-01T00:00:00.000Z", "endedAt": "1970-01-01T00:00:00.000Z", "durationMs": 1,
        "cwd": "/", "effectiveUid": 0, "effectiveGid": 0, "hostname": "h", "mode": "exec", "executable": "x", "args": [],
        "command": null, "exitCode": exit, "signal": null, "cancelled": false, "killed": false, "truncated": false,
        "timedOut": false, "timeoutReason": null, "timeoutMs": 1, "deadlineMs": null, "stdout": "", "stderr": "",
        "stdoutDigest": "", "stderrDigest": ""})
}

fn response(id: &Value, operation: &str, exit: i64) -> Value {
    json!({"type": "response", "requestId": id, "ok": true,
        "result": {"operationId": operation, "replay": false, "outcome": evidence(exit)}})
}

#[test]
fn frames_that_nobody_asked_for_change_nothing() {
    let fleet = Fleet::new();
    let mut peer = insider(&fleet);
    let (run, id) = asked(&fleet, &mut peer, "op");
    for frame in [
        json!({"type": "response", "requestId": "another", "ok": true, "result": {}}),
        json!({"type": "accepted", "requestId": "another", "ok": true, "operationId": "op"}),
        json!({"type": "process.stream", "operationId": "unknown", "stream": "stdout", "seq": 1, "data": "stray", "truncated": false}),
        json!({"type": "process.terminal", "operationId": "unknown", "seq": 1, "evidence": evidence(0)}),
        json!({"type": "news", "from": "the future"}),
        json!({"id": "r", "method": "process.exec", "params": {"command": "touch /tmp/never"}}),
        json!({"type": "error", "requestId": null, "ok": false, "error": {"code": "invalid_json"}}),
    ] {
        peer.order(json!({"send": frame}));
    }
    peer.order(json!({"send": {"type": "accepted", "requestId": id, "ok": true, "operationId": "op", "protocolVersion": "1.0"}}));
    peer.order(json!({"send": {"type": "process.stream", "operationId": "op", "stream": "stdout", "seq": 1, "data": "mine\n", "truncated": false}}));
    run.prints("mine\n");
    peer.order(json!({"send": response(&id, "op", 3)}));
    let ended = run.end();
    assert_eq!(
        (ended.code, ended.text().as_str()),
        (Some(3), "mine\n"),
        "{}",
        ended.stderr
    );
    // Answers that come twice, or late, are nobody's.
    peer.order(json!({"send": response(&id, "op", 0)}));
    let (run, id) = asked(&fleet, &mut peer, "next");
    peer.order(json!({"send": response(&id, "next", 4)}));
    assert_eq!(run.end().code, Some(4));
    assert_eq!(fleet.snapshot("node-1")["status"], json!("ready"));
}

#[test]
fn an_answer_for_another_operation_is_no_success() {
    let fleet = Fleet::new();
    let mut peer = insider(&fleet);
    let odd = [
        response(&Value::Null, "another", 0),
        json!({"type": "response", "ok": true, "result": {}}),
        json!({"type": "response", "ok": true, "result": {"operationId": "x", "outcome": {"exitCode": 0}}}),
        json!({"type": "response", "ok": false, "error": {"code": "\u{1b}]0;owned\u{7}"}}),
    ];
    for (index, mut frame) in odd.into_iter().enumerate() {
        let operation = format!("op-{index}");
        let (run, id) = asked(&fleet, &mut peer, &operation);
        frame["requestId"] = id;
        peer.order(json!({"send": frame}));
        let ended = run.end();
        assert_eq!(ended.code, Some(125), "{frame}: {}", ended.stderr);
        assert!(!ended.stderr.contains('\u{1b}'));
    }
    assert_eq!(fleet.snapshot("node-1")["status"], json!("ready"));
}

#[test]
fn a_line_over_the_frame_ends_the_connection_and_one_within_does_not() {
    let fleet = Fleet::new();
    let mut peer = insider(&fleet);
    let padded = |id: &Value, length: usize| {
        let mut frame = response(id, "op", 7);
        frame["padding"] = json!("");
        let bare = frame.to_string().len() + 1;
        frame["padding"] = json!("x".repeat(length - bare));
        format!("{frame}\n")
    };
    let (run, id) = asked(&fleet, &mut peer, "op");
    peer.order(json!({"raw": padded(&id, FRAME_MAX)}));
    assert_eq!(run.end().code, Some(7));
    for raw in [padded(&json!("x"), FRAME_MAX + 1), "x".repeat(FRAME_MAX)] {
        let (run, _) = asked(&fleet, &mut peer, "over");
        peer.order(json!({"raw": raw}));
        let told = peer.frame("a refusal", |frame| frame["type"] == json!("transport.error"));
        assert_eq!(told["error"]["code"], json!("frame_too_large"));
        peer.event("closed");
        assert!(run.end().bad(125).contains("gateway_disconnected"));
        let (_, answer) = fleet.http("DELETE", "/gateway-trust/node-1", None);
        assert_eq!(answer["ok"], json!(true));
        peer = insider(&fleet);
    }
}

#[test]
fn what_is_no_frame_ends_the_connection_and_harms_nobody_else() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let deep = "[".repeat(100_000) + "\n";
    for raw in [
        "junk\n",
        "[1,2]\n",
        "null\n",
        "\u{0}\u{1}\n",
        &deep,
        "{\"type\":\"response\",\"requestId\":{},\"ok\":true,\"result\":{}}\n",
        "{\"type\":\"response\",\"requestId\":\"x\",\"ok\":true}\n",
    ] {
        let mut peer = insider(&fleet);
        let (run, _) = asked(&fleet, &mut peer, "op");
        peer.order(json!({"raw": raw}));
        let told = peer.frame("a refusal", |frame| frame["type"] == json!("transport.error"));
        assert_eq!(told["error"]["code"], json!("invalid_json"), "{raw:.60}");
        peer.event("closed");
        assert!(run.end().bad(125).contains("gateway_disconnected"));
        assert_eq!(fleet.shell("host-1", "echo fine").good(), "fine\n");
        assert_eq!(fleet.http("DELETE", "/gateway-trust/node-1", None).0, 200);
    }
}

#[test]
fn a_flood_of_output_meets_bounded_memory() {
    let fleet = Fleet::new();
    let mut peer = insider(&fleet);
    let (mut run, id) = asked(&fleet, &mut peer, "op");
    peer.order(json!({"send": {"type": "accepted", "requestId": id, "ok": true, "operationId": "op", "protocolVersion": "1.0"}}));
    // 100 MB of events for an operation that somebody reads, and as many for one that nobody asked for.
    let data = "x".repeat(1_000_000);
    for seq in 1..=50 {
        for operation in ["op", "unknown"] {
            peer.order(json!({"send": {"type": "process.stream", "operationId": operation, "stream": "stdout", "seq": seq, "data": data, "truncated": false}}));
        }
    }
    peer.order(json!({"send": response(&id, "op", 0)}));
    let end = eventually("the end of exec", || run.exit());
    assert_eq!(end, 0);
    assert_eq!(run.end().stdout.len(), 50_000_000);
    let used = memory(&fleet);
    assert!(used < 120 * 1024, "{used} KiB");
}

#[test]
fn a_gateway_that_reads_nothing_holds_up_nobody_else() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let mut peer = insider(&fleet);
    peer.order(json!({"pause": true}));
    // More than socket buffers take.
    let large = "x".repeat(1_500_000);
    let body = |index: usize| json!({"operationId": format!("op-{index}"), "executable": "x", "args": [large]});
    let mut waiting = Vec::new();
    for index in 0..8 {
        let mut socket = fleet.socket();
        socket
            .write_all(&request("POST", "/gateways/node-1/processes", Some(&body(index))))
            .unwrap();
        waiting.push(socket);
    }
    assert_eq!(fleet.shell("host-1", "echo fine").good(), "fine\n");
    assert_eq!(fleet.snapshot("node-1")["connected"], json!(true));
    let used = memory(&fleet);
    assert!(used < 150 * 1024, "{used} KiB");
    // The operator can end it.
    let (status, _) = fleet.http("DELETE", "/gateway-trust/node-1", None);
    assert_eq!(status, 200);
    for mut socket in waiting {
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("gateway_disconnected"),
            "{answer}"
        );
    }
}

#[test]
fn many_strangers_at_once_do_not_keep_a_host_out() {
    let fleet = Fleet::new();
    // Connections that say nothing, and some that stop in the middle of a handshake.
    let silent: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(("127.0.0.1", fleet.port)).unwrap())
        .collect();
    for mut stream in silent.iter().take(100) {
        stream.write_all(&[0x16, 0x03, 0x01, 0x40, 0x00]).unwrap();
    }
    let host = fleet.gateway("host-1");
    fleet.admit("host-1");
    // None of them was given up to make room.
    for mut stream in &silent {
        stream.set_nonblocking(true).unwrap();
        let read = stream.read(&mut [0; 1]);
        assert!(read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
    assert_eq!(host.stop().code, Some(0));
}
