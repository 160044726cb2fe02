//! Activity and correlation, whoever still waits for the answer.

use super::gateway::{Host, evidence, result};
use super::{Fixture, eventually};
use crate::{ActivityRecord, ActivityState};
use goblin_ports::{OperationState, TerminalReference};
use goblin_protocol::digest::sha256_hex;
use serde_json::json;

fn activity(fixture: &Fixture, operation_id: &str) -> ActivityRecord {
    let all = fixture.controller.activity(None, 256);
    all.into_iter()
        .find(|record| record.operation_id == operation_id)
        .unwrap()
}

async fn is_terminal(fixture: &Fixture, operation_id: &str) -> bool {
    let record = fixture.record(operation_id).await.unwrap();
    record.state == OperationState::Terminal && activity(fixture, operation_id).state == ActivityState::Terminal
}

#[tokio::test]
async fn the_end_is_on_record_when_the_answer_arrives() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let mut live = fixture.dispatch(&host, "op-1").await;
    let before = activity(&fixture, "op-1");
    assert_eq!(
        (before.state, before.terminal_outcome, before.ended_at),
        (ActivityState::Dispatching, None, None)
    );
    assert_eq!(fixture.record("op-1").await.unwrap().state, OperationState::Dispatching);
    let request = gateway.request("process.exec").await;
    gateway.accept(&request).await;
    live.next().await.unwrap().unwrap();
    let running = activity(&fixture, "op-1");
    assert!(running.state == ActivityState::Running && running.accepted_at.is_some());
    assert_eq!(fixture.controller.gateways().await.unwrap()[0].active_operations, 1);

    gateway.answer(&request, result("op-1", evidence(3))).await;
    live.next().await.unwrap().unwrap();
    let ended = activity(&fixture, "op-1");
    assert_eq!(
        (ended.state, ended.terminal_outcome.as_deref()),
        (ActivityState::Terminal, Some("failed"))
    );
    assert!(ended.ended_at.is_some() && ended.duration_ms.is_some() && !ended.replay);
    assert_eq!(
        fixture.record("op-1").await.unwrap().terminal_reference,
        Some(TerminalReference {
            operation_id: "op-1".into(),
            replay: false,
            outcome_digest: Some(sha256_hex(evidence(3).to_string().as_bytes())),
        })
    );
    assert_eq!(fixture.controller.gateways().await.unwrap()[0].active_operations, 0);
}

#[tokio::test]
async fn every_end_has_its_word() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let outcomes = [
        (
            json!({"exitCode": 0, "cancelled": false, "timedOut": false}),
            "completed",
        ),
        (
            json!({"exitCode": null, "signal": "SIGTERM", "cancelled": true, "timedOut": false}),
            "cancelled",
        ),
        (
            json!({"exitCode": null, "cancelled": false, "timedOut": true}),
            "timed_out",
        ),
        (json!({"tool": "files_read", "ok": true}), "completed"),
        (json!("not what the protocol says"), "failed"),
    ];
    for (index, (outcome, word)) in outcomes.into_iter().enumerate() {
        let operation_id = format!("op-{index}");
        let dispatch = fixture.dispatch(&host, &operation_id).await;
        let request = gateway.request("process.exec").await;
        gateway
            .answer(
                &request,
                json!({"operationId": operation_id, "replay": true, "outcome": outcome}),
            )
            .await;
        dispatch.collect().await.unwrap();
        let record = activity(&fixture, &operation_id);
        assert_eq!((record.terminal_outcome.as_deref(), record.replay), (Some(word), true));
    }
    for (code, shown, state) in [
        ("command_invalid", "command_invalid", OperationState::Terminal),
        ("spawn_failed", "spawn_failed", OperationState::Terminal),
        (
            "operation_outcome_unknown",
            "operation_outcome_unknown",
            OperationState::Dispatching,
        ),
        (
            "protected_redelivery_forbidden",
            "protected_redelivery_forbidden",
            OperationState::Dispatching,
        ),
        ("Smuggled text!", "error_code_invalid", OperationState::Terminal),
    ] {
        let operation_id = format!("op-{}", code.len());
        let dispatch = fixture.dispatch(&host, &operation_id).await;
        let request = gateway.request("process.exec").await;
        gateway.refuse(&request, code).await;
        dispatch.collect().await.unwrap();
        assert_eq!(
            activity(&fixture, &operation_id).terminal_outcome.as_deref(),
            Some(shown)
        );
        assert_eq!(fixture.record(&operation_id).await.unwrap().state, state, "{code}");
    }
}

#[tokio::test]
async fn a_consumer_that_leaves_gives_up_the_answer_but_not_the_record() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    drop(fixture.dispatch(&host, "op-1").await);
    gateway.execute().await;
    eventually("the end is recorded", async || is_terminal(&fixture, "op-1").await).await;
    assert_eq!(fixture.controller.gateways().await.unwrap()[0].active_operations, 0);
}

#[tokio::test]
async fn late_evidence_on_the_next_connection_settles_what_the_last_one_began() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let mut requests = Vec::new();
    let mut dispatches = Vec::new();
    for operation_id in ["op-1", "op-2", "op-3"] {
        dispatches.push(fixture.dispatch(&host, operation_id).await);
        let request = gateway.request("process.exec").await;
        gateway.accept(&request).await;
        requests.push(request);
    }
    drop(gateway);
    for dispatch in dispatches {
        assert_eq!(dispatch.collect().await.unwrap_err().code(), "gateway_disconnected");
    }
    let interrupted = activity(&fixture, "op-1");
    assert_eq!(
        (interrupted.state, interrupted.reconnect_required),
        (ActivityState::Interrupted, true)
    );
    assert_eq!(fixture.record("op-1").await.unwrap().state, OperationState::Dispatching);

    let mut gateway = fixture.again(&host).await;
    // The event of one, the response of another, and a third that is asked for again.
    gateway.terminal("op-1", 2, &evidence(0)).await;
    gateway.answer(&requests[1], result("op-2", evidence(0))).await;
    eventually("both are settled", async || {
        is_terminal(&fixture, "op-1").await && is_terminal(&fixture, "op-2").await
    })
    .await;
    assert_eq!(
        activity(&fixture, "op-1").terminal_outcome.as_deref(),
        Some("completed")
    );
    let again = fixture.dispatch(&host, "op-3").await;
    let request = gateway.request("process.exec").await;
    gateway.refuse(&request, "operation_in_progress").await;
    again.collect().await.unwrap();
    let running = activity(&fixture, "op-3");
    assert_eq!(
        (running.state, running.reconnect_required),
        (ActivityState::Running, false)
    );
    assert_eq!(fixture.record("op-3").await.unwrap().state, OperationState::Dispatching);
    gateway.answer(&requests[2], result("op-3", evidence(0))).await;
    eventually("the third is settled", async || is_terminal(&fixture, "op-3").await).await;
}

#[tokio::test]
async fn a_gateway_settles_nothing_of_another() {
    let fixture = Fixture::new().await;
    let (honest, liar) = (Host::new("honest"), Host::new("liar"));
    let mut gateway = fixture.ready(&honest).await;
    let mut false_friend = fixture.ready(&liar).await;
    let dispatch = fixture.dispatch(&honest, "op-1").await;
    let request = gateway.request("process.exec").await;
    false_friend.terminal("op-1", 1, &evidence(0)).await;
    false_friend.answer(&request, result("op-1", evidence(0))).await;
    // Once the liar's own operation is through, its lies before it are as well.
    let own = fixture.dispatch(&liar, "op-2").await;
    let (_, collected) = tokio::join!(false_friend.execute(), own.collect());
    collected.unwrap();
    assert_eq!(fixture.record("op-1").await.unwrap().state, OperationState::Dispatching);
    assert_eq!(activity(&fixture, "op-1").state, ActivityState::Dispatching);
    gateway.answer(&request, result("op-1", evidence(0))).await;
    dispatch.collect().await.unwrap();
    assert!(is_terminal(&fixture, "op-1").await);
}

#[tokio::test]
async fn a_repetition_of_what_runs_does_not_end_it() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let first = fixture.dispatch(&host, "op-1").await;
    let request = gateway.request("process.exec").await;
    gateway.accept(&request).await;
    for code in ["operation_in_progress", "operation_limit_reached"] {
        let second = fixture.dispatch(&host, "op-1").await;
        let repetition = gateway.request("process.exec").await;
        gateway.refuse(&repetition, code).await;
        second.collect().await.unwrap();
        assert_eq!(activity(&fixture, "op-1").state, ActivityState::Running);
        assert_eq!(fixture.record("op-1").await.unwrap().state, OperationState::Dispatching);
    }
    gateway.answer(&request, result("op-1", evidence(0))).await;
    first.collect().await.unwrap();
    assert!(is_terminal(&fixture, "op-1").await);
}

#[tokio::test]
async fn an_end_that_cannot_be_written_leaves_the_record_unresolved_and_the_answer_intact() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let dispatch = fixture.dispatch(&host, "op-1").await;
    let request = gateway.request("process.exec").await;
    fixture.store.fail_write_after(0);
    gateway.answer(&request, result("op-1", evidence(0))).await;
    assert!(dispatch.collect().await.unwrap().answer().is_ok());
    assert_eq!(fixture.record("op-1").await.unwrap().state, OperationState::Dispatching);
}

#[tokio::test]
async fn an_answer_about_another_operation_says_nothing_of_either() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let other = fixture.dispatch(&host, "other").await;
    let other_request = gateway.request("process.exec").await;
    let mut live = fixture.dispatch(&host, "op").await;
    let request = gateway.request("process.exec").await;
    gateway.answer(&request, result("other", evidence(0))).await;
    live.next().await.unwrap().unwrap();
    assert_eq!(
        activity(&fixture, "op").terminal_outcome.as_deref(),
        Some("gateway_operation_id_mismatch")
    );
    assert_eq!(activity(&fixture, "other").state, ActivityState::Dispatching);
    gateway.answer(&other_request, result("other", evidence(0))).await;
    assert!(other.collect().await.is_ok());
    assert_eq!(
        activity(&fixture, "other").terminal_outcome.as_deref(),
        Some("completed")
    );
}
