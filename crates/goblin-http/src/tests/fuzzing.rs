//! Random bodies and ids on every route of the document: each answer is a documented one of its documented form, and
//! the server lives on.

use super::document::{check, operations, path_of};
use super::{Fixture, client};
use goblin_api::routes::METRICS;
use hyper::{Method, StatusCode};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// Bodies for each route. More find nothing that these don't.
const BODIES: usize = 60;

/// Members that some route looks at, so that random bodies get past the first check.
const MEMBERS: [&str; 26] = [
    "operationId",
    "command",
    "executable",
    "args",
    "cwd",
    "env",
    "timeoutMs",
    "deadlineMs",
    "maxOutputBytes",
    "protectedValues",
    "protectedBindingMetadata",
    "traceContext",
    "parentRunId",
    "toolCallId",
    "tool",
    "arguments",
    "id",
    "name",
    "baseUrl",
    "enabled",
    "host",
    "port",
    "secret",
    "controllerId",
    "note",
    "executionEnvironment",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "",
            "worker",
            "op-1",
            "http://a",
            "/srv",
            "remote",
            "local",
            "node-goblin",
            "127.0.0.1",
            "\u{0}",
            "../../etc",
            "🐉",
            "true",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
        "[a-zA-Z0-9._:-]{1,300}",
    ]
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        (0..70_000_u32).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(name(), inner, 0..6).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    let environment = [
        "kind",
        "providerId",
        "targetId",
        "workspaceRoot",
        "pairingCode",
        "key",
        "cert",
        "ca",
    ];
    prop_oneof![
        4 => select([&MEMBERS[..], &environment[..]].concat()).prop_map(str::to_owned),
        1 => text(),
    ]
}

fn body() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => btree_map(name(), json_value(), 0..8)
            .prop_map(|members| Value::Object(members.into_iter().collect()).to_string()),
        2 => json_value().prop_map(|value| value.to_string()),
        1 => any::<String>(),
        1 => (json_value(), any::<prop::sample::Index>()).prop_map(|(value, cut)| {
            let text: Vec<char> = value.to_string().chars().collect();
            text[..cut.index(text.len())].iter().collect()
        }),
    ]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(vec!["worker", "other", "op-1", "nobody", "agent"]).prop_map(str::to_owned),
        1 => any::<String>().prop_map(|text| goblin_api::routes::segment(&text)),
        1 => select(vec![
            "%2e%2e", "..%2f..%2fetc%2fpasswd", "%00", "%ff%fe", "%252e", "%25", "local", "publicKey.a", "~", "%2F",
        ])
        .prop_map(str::to_owned),
        1 => (200..9000_usize).prop_map(|length| "x".repeat(length)),
    ]
}

fn content_type() -> impl Strategy<Value = Option<&'static str>> {
    select(vec![
        Some("application/json"),
        Some("application/json"),
        Some("application/json"),
        Some("application/json; charset=utf-8"),
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("multipart/form-data; boundary=x"),
        Some(""),
        None,
    ])
}

#[tokio::test]
async fn whatever_is_sent_gets_a_documented_answer() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    client.post("/api/agents", json!({"id": "agent"})).await;
    let mut runner = TestRunner::deterministic();
    let strategy = (body(), id(), content_type());
    for (method, template, _) in operations() {
        // These two do not answer JSON; there is nothing in them to fuzz.
        if template.ends_with("/events") || template == METRICS {
            continue;
        }
        for _ in 0..BODIES {
            let (body, id, content_type) = strategy.new_tree(&mut runner).unwrap().current();
            let path = path_of(template, &id);
            if path.ends_with('/') || path.contains("//") {
                continue;
            }
            let headers: Vec<_> = content_type.map(|it| ("content-type", it)).into_iter().collect();
            let has_body = !matches!(method, Method::GET | Method::DELETE);
            let sent = if has_body { body.clone() } else { String::new() };
            let response = client.send_at(method.clone(), &path, &headers, sent).await;
            let (status, answer) = client::answer(response).await;
            check(&method, template, status, &answer);
            let unavailable = status == StatusCode::SERVICE_UNAVAILABLE && answer["error"] != "store_unavailable";
            assert!(
                !status.is_server_error() || unavailable,
                "{method} {path}: {status} {answer} {body}"
            );
            let refused_type = answer["error"] == "unsupported_media_type";
            assert!(
                !refused_type || !content_type.is_some_and(|it| it.starts_with("application/json")),
                "{method} {path}"
            );
        }
        client = fixture.client().await;
    }
    assert_eq!(client.get("/healthz").await, json!({"ok": true}));
}
