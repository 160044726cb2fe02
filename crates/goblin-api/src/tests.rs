//! The shapes as JSON, and the paths.

use crate::*;
use serde_json::{Value, json};

#[test]
fn ids_become_one_segment_each() {
    assert_eq!(
        routes::approve("worker-01"),
        "/api/mods/node-goblin/pairings/worker-01/approve"
    );
    assert_eq!(
        routes::cancel("a/../b", "op:1 ü"),
        "/api/mods/node-goblin/gateways/a%2F..%2Fb/operations/op%3A1%20%C3%BC/cancel"
    );
    assert_eq!(routes::trust_of(".."), "/api/mods/node-goblin/gateway-trust/%2E%2E");
    assert_eq!(routes::operations(None, None), "/api/mods/node-goblin/operations");
    assert_eq!(
        routes::operations(Some("g&x"), Some(5)),
        "/api/mods/node-goblin/operations?gatewayId=g%26x&limit=5"
    );
    assert_eq!(
        routes::processes("g", true),
        "/api/mods/node-goblin/gateways/g/processes?cancelOnDisconnect=true"
    );
}

#[test]
fn a_request_writes_only_what_was_asked_for() {
    let request = ProcessRequest {
        operation_id: "op-1".into(),
        executable: Some("uname".into()),
        args: Some(vec!["-r".into()]),
        timeout_ms: Some(5),
        protected_values: Some(ProtectedValues([("TOKEN".to_owned(), "hunter2".to_owned())].into())),
        ..ProcessRequest::default()
    };
    assert_eq!(
        serde_json::to_value(&request).unwrap(),
        json!({"operationId": "op-1", "executable": "uname", "args": ["-r"], "timeoutMs": 5,
               "protectedValues": {"TOKEN": "hunter2"}})
    );
    assert!(!format!("{request:?}").contains("hunter2"));
    let enrol = EnrolRequest {
        controller_id: None,
        secret: "hunter2".into(),
    };
    assert!(!format!("{enrol:?}").contains("hunter2"));
}

#[test]
fn envelopes_pass_through_untouched() {
    let text =
        r#"{"ok":true,"operationId":"o","dispatch":{"accepted":null,"response":{"z":1,"a":1.50},"events":[{"b":2}]}}"#;
    let answer: DispatchAnswer = serde_json::from_str(text).unwrap();
    assert_eq!(answer.dispatch.response.get(), r#"{"z":1,"a":1.50}"#);
    assert_eq!(serde_json::to_string(&answer).unwrap(), text);
}

#[test]
fn a_failure_is_no_success() {
    let failure = r#"{"ok":false,"error":"gateway_not_connected"}"#;
    assert!(serde_json::from_str::<GatewaysAnswer>(failure).is_err());
    let body: ErrorBody = serde_json::from_str(failure).unwrap();
    assert_eq!(body, ErrorBody::new("gateway_not_connected"));
    assert_eq!(serde_json::to_string(&body).unwrap(), failure);
}

#[test]
fn records_have_exactly_the_documented_members() {
    let members = |value: Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let snapshot = GatewaySnapshot {
        gateway_id: "g".into(),
        status: GatewayStatus::Ready,
        connected: true,
        connected_at: None,
        last_seen_at: None,
        active_operations: 0,
        name: None,
        version: None,
        protocol_version: None,
    };
    assert_eq!(
        members(serde_json::to_value(snapshot).unwrap()),
        [
            "activeOperations",
            "connected",
            "connectedAt",
            "gatewayId",
            "lastSeenAt",
            "name",
            "protocolVersion",
            "status",
            "version"
        ]
    );
    let activity = Activity {
        gateway_id: "g".into(),
        operation_id: "o".into(),
        kind: ActivityKind::Process,
        state: ActivityState::Dispatching,
        replay: false,
        reconnect_required: false,
        terminal_outcome: None,
        started_at: "2026-01-01T00:00:00.000Z".into(),
        accepted_at: None,
        ended_at: None,
        duration_ms: None,
    };
    assert_eq!(
        serde_json::to_value(activity).unwrap(),
        json!({"gatewayId": "g", "operationId": "o", "kind": "process", "state": "dispatching", "replay": false,
               "reconnectRequired": false, "terminalOutcome": null, "startedAt": "2026-01-01T00:00:00.000Z",
               "endedAt": null, "durationMs": null})
    );
}

#[test]
fn a_change_of_an_agent_tells_null_from_absent() {
    let absent: AgentChange = serde_json::from_str("{}").unwrap();
    assert_eq!(absent.execution_environment, None);
    let null: AgentChange = serde_json::from_str(r#"{"executionEnvironment":null}"#).unwrap();
    assert_eq!(null.execution_environment, Some(None));
    for (change, text) in [(absent, "{}"), (null, r#"{"executionEnvironment":null}"#)] {
        assert_eq!(serde_json::to_string(&change).unwrap(), text);
    }
    assert_eq!(routes::agent_processes("a/b", false), "/api/agents/a%2Fb/processes");
}

#[test]
fn tokens_and_logins_print_no_secret_and_keep_their_shapes() {
    assert_eq!(routes::token("a/b"), "/api/tokens/a%2Fb");
    let create = CreateToken {
        name: "ci".into(),
        scope: Scope::Execute,
        expires_in_seconds: None,
    };
    assert_eq!(
        serde_json::to_value(create).unwrap(),
        json!({"name": "ci", "scope": "execute"})
    );
    let token = TokenListing {
        id: "t".into(),
        name: "ci".into(),
        scope: Scope::Admin,
        created_at: "2026-01-01T00:00:00.000Z".into(),
        expires_at: None,
        expired: false,
    };
    let created = CreatedToken {
        ok: Success,
        token,
        secret: "ng_hunter2".into(),
    };
    assert_eq!(
        serde_json::to_value(&created).unwrap(),
        json!({"ok": true, "secret": "ng_hunter2", "token": {"id": "t", "name": "ci", "scope": "admin",
               "createdAt": "2026-01-01T00:00:00.000Z", "expiresAt": null, "expired": false}})
    );
    let login = LoginRequest {
        token: "ng_hunter2".into(),
    };
    assert!(!format!("{created:?}{login:?}").contains("hunter2"));
    assert!(Scope::Read < Scope::Execute && Scope::Execute < Scope::Admin);
    assert_eq!(Scope::of("execute"), Some(Scope::Execute));
    assert_eq!(Scope::of("Execute"), None);
}
