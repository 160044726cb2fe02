//! Lists, records and the stream of changes, against a controller of canned answers.

use super::*;
use crate::api::scripted::{Controller, Pieces, answer};
use clap::Parser;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: OperationsArguments,
}

fn activity(gateway: &str, id: &str, state: &str, outcome: Option<&str>) -> Value {
    json!({"gatewayId": gateway, "operationId": id, "kind": "process", "state": state, "replay": false,
        "reconnectRequired": false, "terminalOutcome": outcome, "startedAt": "1970-01-01T00:00:00.000Z",
        "acceptedAt": "1970-01-01T00:00:01.000Z", "endedAt": null, "durationMs": outcome.map(|_| 1_500.0)})
}

fn stream(events: &[(&str, Value)]) -> Pieces {
    let mut text =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: hello\n\n".to_owned();
    for (name, data) in events {
        text += &format!("event: {name}\ndata: {data}\n\n");
    }
    vec![text.into_bytes()]
}

fn snapshot(operations: Vec<Value>) -> (&'static str, Value) {
    (
        "snapshot",
        json!({"gateways": [], "pairings": [], "operations": operations}),
    )
}

fn change(operation: Value) -> (&'static str, Value) {
    let event =
        json!({"gatewayId": operation["gatewayId"], "operationId": operation["operationId"], "operation": operation});
    ("operation", event)
}

/// The lines of a follow whose streams come one after the other until the controller refuses.
async fn followed(gateway: Option<&str>, limit: u32, json: bool, mut streams: Vec<Pieces>) -> Vec<String> {
    streams.push(answer(401, r#"{"ok":false,"error":"unauthorized"}"#));
    let controller = Controller::start(streams);
    let mut lines = Vec::new();
    let mut print = |line: String| {
        lines.push(anstream::adapter::strip_str(&line).to_string());
        Ok(())
    };
    let following = follow::Following::new(gateway, limit, json);
    let patience = (Duration::from_millis(1), Duration::from_millis(2));
    let fault = following
        .run(&controller.api(), patience, &mut print)
        .await
        .unwrap_err();
    assert!(fault.to_string().contains("unauthorized"), "{fault}");
    lines
}

#[tokio::test]
async fn each_change_is_told_once_over_lost_streams() {
    let first = stream(&[
        snapshot(vec![
            activity("w", "old", "terminal", Some("completed")),
            activity("w", "a", "running", None),
        ]),
        ("gateway", json!({"gatewayId": "w", "gateway": null})),
        ("news", json!(1)),
        change(activity("w", "b\u{1b}", "terminal", Some("executable_not_found"))),
        (
            "operation",
            json!({"gatewayId": "w", "operationId": "old", "operation": null}),
        ),
    ]);
    let second = stream(&[snapshot(vec![
        activity("w", "a", "terminal", Some("completed")),
        activity("w", "b\u{1b}", "terminal", Some("executable_not_found")),
    ])]);
    let lines = followed(None, 1, false, vec![first, second]).await;
    let words: Vec<Vec<&str>> = lines.iter().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        words,
        [
            vec!["1970-01-01T00:00:01", "w", "a", "process", "running"],
            vec![
                "1970-01-01T00:00:01",
                "w",
                "b\\x1b",
                "process",
                "executable_not_found",
                "after",
                "1.5",
                "s"
            ],
            vec![
                "1970-01-01T00:00:01",
                "w",
                "a",
                "process",
                "completed",
                "after",
                "1.5",
                "s"
            ],
        ]
    );
}

#[tokio::test]
async fn one_gateway_as_json_is_a_record_a_line() {
    let events = stream(&[
        snapshot(vec![activity("v", "x", "running", None)]),
        change(activity("w", "a", "running", None)),
        change(activity("v", "y", "running", None)),
    ]);
    let lines = followed(Some("w"), 50, true, vec![events]).await;
    let records: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records, [activity("w", "a", "running", None)]);
}

#[tokio::test]
async fn a_stream_that_never_began_is_an_error_at_once() {
    let controller = Controller::start(vec![answer(503, r#"{"ok":false,"error":"store_unavailable"}"#)]);
    let following = follow::Following::new(None, 1, false);
    let fault = following
        .run(&controller.api(), follow::PATIENCE, &mut |_| Ok(()))
        .await;
    assert!(fault.unwrap_err().to_string().contains("store_unavailable"));
}

async fn asked(words: &[&str], answers: Vec<Pieces>) -> (anyhow::Result<()>, Vec<String>) {
    let controller = Controller::start(answers);
    let arguments = Line::parse_from(["operations"].iter().chain(words)).arguments;
    let result = work(&controller.api(), &arguments).await;
    let requests = controller.requests().into_iter();
    let requests = requests.map(|request| {
        let line = request
            .head
            .lines()
            .next()
            .unwrap()
            .replace("/api/mods/node-goblin", "");
        format!("{} {}", line.trim_end_matches(" HTTP/1.1"), request.body)
    });
    (result, requests.collect())
}

#[tokio::test]
async fn each_command_is_one_request() {
    let listed = answer(200, r#"{"ok":true,"operations":[],"limit":5}"#);
    let (result, requests) = asked(&["--gateway", "w", "--limit", "5"], vec![listed]).await;
    result.unwrap();
    assert_eq!(requests, ["GET /operations?gatewayId=w&limit=5 "]);
    let refused = answer(404, r#"{"ok":false,"error":"operation_not_found"}"#);
    let (result, requests) = asked(&["show", "a:b"], vec![refused]).await;
    let fault = format!("{:#}", result.unwrap_err());
    assert!(fault.starts_with("a:b: ") && fault.contains("no record"), "{fault}");
    assert_eq!(requests, ["GET /operations/a%3Ab "]);
    let correlation = json!({"operationId": "o", "parentRunId": null, "toolCallId": null, "gatewayId": "w", "kind": "process",
        "requestDigest": "d", "state": "resolved", "terminalReference": null, "note": "n", "updatedAt": ""});
    let closed = answer(200, &json!({"ok": true, "correlation": correlation}).to_string());
    let (result, requests) = asked(&["resolve", "o", "--note", "looked"], vec![closed]).await;
    result.unwrap();
    assert_eq!(requests, [r#"POST /operations/o/resolve {"note":"looked"}"#]);
}

#[test]
fn limits_and_notes_are_checked_before_anything_is_sent() {
    for bad in [
        &["--limit", "0"][..],
        &["--limit", "257"],
        &["resolve", "o"],
        &["show", "a b"],
        &["--gateway", "local"],
    ] {
        assert!(
            Line::try_parse_from(["operations"].iter().chain(bad)).is_err(),
            "{bad:?}"
        );
    }
}

#[test]
fn lists_and_records_are_harmless() {
    let mut ended = activity("w", "o", "terminal", Some("failed\u{7}"));
    ended["replay"] = json!(true);
    let ended: Activity = serde_json::from_value(ended).unwrap();
    let plain = |text: &str| anstream::adapter::strip_str(text).to_string();
    let shown = plain(&table(std::slice::from_ref(&ended), 61_000).to_string());
    assert!(
        shown.ends_with("o          w        process  failed\\x07, replayed  1 min ago  1.5 s"),
        "{shown}"
    );
    let correlation = json!({"operationId": "o", "parentRunId": "r", "toolCallId": null, "gatewayId": "w", "kind": "filesystem",
        "requestDigest": "d", "state": "dispatching", "terminalReference": null, "note": "a\u{1b}b", "updatedAt": "t"});
    let answer = OperationAnswer {
        ok: goblin_api::Success,
        correlation: Some(serde_json::from_value(correlation).unwrap()),
        activity: vec![ended],
    };
    let shown = plain(&details(&answer));
    assert!(
        shown.contains("unresolved") && shown.contains("a\\x1bb") && shown.contains("on gateway  w"),
        "{shown}"
    );
}
