//! What an interrupted connection left open is asked for on the next one, and never begun a second time.

use super::gateway::{Dialled, Host, evidence, result};
use super::{Fixture, eventually, exec, process};
use crate::{Controller, DispatchRequest};
use goblin_ports::{OperationFilter, OperationState, Operations, Secret, TERMINAL_RECORDS_MAX};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

async fn fixture() -> Fixture {
    Fixture::with(|timing| timing.recover_first = Duration::from_millis(1)).await
}

/// Dispatches, lets the gateway accept or not, and breaks the connection.
async fn interrupted(fixture: &Fixture, gateway: Dialled, request: DispatchRequest, accept: bool) -> Value {
    let mut gateway = gateway;
    let mut live = fixture.controller.dispatch(request).await.unwrap();
    let sent = gateway.request("process.exec").await;
    if accept {
        gateway.accept(&sent).await;
        live.next().await.unwrap().unwrap();
    }
    drop(gateway);
    // Who waits learns it at once, whatever comes of it later.
    assert_eq!(live.next().await.unwrap().unwrap_err().code(), "gateway_disconnected");
    sent
}

async fn state(fixture: &Fixture, operation_id: &str) -> OperationState {
    fixture.record(operation_id).await.unwrap().state
}

async fn is_terminal(fixture: &Fixture, operation_id: &str) {
    eventually("the record is settled", async || {
        state(fixture, operation_id).await == OperationState::Terminal
    })
    .await;
}

/// The gateway takes a dispatch of its own first thing: nothing else had been asked of it.
async fn is_asked_nothing(fixture: &Fixture, gateway: &mut Dialled, host: &Host) {
    let other = fixture.dispatch(host, "other").await;
    let request = gateway.receive().await.unwrap();
    assert_eq!(request["params"]["operationId"], "other", "{request}");
    gateway.answer(&request, result("other", evidence(0))).await;
    other.collect().await.unwrap();
}

#[tokio::test]
async fn an_accepted_operation_is_asked_for_again_without_its_secrets_until_it_has_ended() {
    let fixture = fixture().await;
    let host = Host::new("worker");
    let gateway = fixture.ready(&host).await;
    let params = json!({"command": "x", "protectedValues": {"TOKEN": "t"}, "protectedBindingMetadata": {"b": 1}, "deadlineMs": 5});
    let first = interrupted(&fixture, gateway, process("worker", "op-1", params), true).await;
    assert_eq!(first["params"]["protectedValues"], json!({"TOKEN": "t"}));
    assert_eq!(state(&fixture, "op-1").await, OperationState::Dispatching);

    let mut gateway = fixture.again(&host).await;
    for _ in 0..4 {
        let again = gateway.request("process.exec").await;
        assert_ne!(again["id"], first["id"]);
        assert_eq!(
            again["params"],
            json!({"operationId": "op-1", "command": "x", "protectedBindingMetadata": {"b": 1}, "deadlineMs": 5})
        );
        gateway.refuse(&again, "operation_in_progress").await;
    }
    // The second connection is lost as well, while an answer is outstanding.
    gateway.request("process.exec").await;
    drop(gateway);
    let mut gateway = fixture.again(&host).await;
    let again = gateway.request("process.exec").await;
    let mut replayed = result("op-1", evidence(0));
    replayed["replay"] = json!(true);
    gateway.answer(&again, replayed).await;
    is_terminal(&fixture, "op-1").await;
    assert!(fixture.record("op-1").await.unwrap().terminal_reference.unwrap().replay);
    is_asked_nothing(&fixture, &mut gateway, &host).await;
    drop(gateway);
    let mut gateway = fixture.again(&host).await;
    is_asked_nothing(&fixture, &mut gateway, &host).await;
}

#[tokio::test]
async fn what_was_not_seen_accepted_is_never_sent_again() {
    let fixture = fixture().await;
    let host = Host::new("worker");
    let gateway = fixture.ready(&host).await;
    interrupted(&fixture, gateway, exec("worker", "op-1"), false).await;
    let mut gateway = fixture.again(&host).await;
    is_asked_nothing(&fixture, &mut gateway, &host).await;
    assert_eq!(state(&fixture, "op-1").await, OperationState::Dispatching);
    // The client may repeat it: the gateway decides by its journal.
    let (_, collected) = tokio::join!(gateway.execute(), async {
        fixture.dispatch(&host, "op-1").await.collect().await
    });
    collected.unwrap();
    assert_eq!(state(&fixture, "op-1").await, OperationState::Terminal);
}

#[tokio::test]
async fn an_unknown_outcome_stays_unresolved_and_is_not_asked_for_for_ever() {
    for code in ["operation_outcome_unknown", "operation_id_conflict"] {
        let fixture = fixture().await;
        let host = Host::new("worker");
        let gateway = fixture.ready(&host).await;
        interrupted(&fixture, gateway, exec("worker", "op-1"), true).await;
        let mut gateway = fixture.again(&host).await;
        let again = gateway.request("process.exec").await;
        gateway.refuse(&again, code).await;
        is_asked_nothing(&fixture, &mut gateway, &host).await;
        assert_eq!(state(&fixture, "op-1").await, OperationState::Dispatching, "{code}");

        // An operator's word closes it, evidence that comes late wins.
        let unknown = fixture.controller.resolve("absent", "n").await.unwrap_err();
        assert_eq!(unknown.code(), "operation_not_found");
        assert_eq!(
            fixture.controller.resolve("a b", "n").await.unwrap_err().code(),
            "operation_id_invalid"
        );
        let resolved = fixture.controller.resolve("op-1", "looked: it ran").await.unwrap();
        assert_eq!(
            (resolved.state, resolved.note.as_deref()),
            (OperationState::Resolved, Some("looked: it ran"))
        );
        gateway.terminal("op-1", 9, &evidence(0)).await;
        is_terminal(&fixture, "op-1").await;
        assert_eq!(
            fixture.controller.resolve("op-1", "n").await.unwrap_err().code(),
            "operation_already_terminal"
        );
        let record = fixture.controller.correlation("op-1").await.unwrap().unwrap();
        assert_eq!(record.note.as_deref(), Some("looked: it ran"));
    }
}

#[tokio::test]
async fn refusals_for_want_of_room_settle_nothing() {
    let fixture = fixture().await;
    let host = Host::new("worker");
    let gateway = fixture.ready(&host).await;
    interrupted(&fixture, gateway, exec("worker", "op-1"), true).await;
    let mut gateway = fixture.again(&host).await;
    let again = gateway.request("process.exec").await;
    gateway.refuse(&again, "operation_limit_reached").await;
    let again = gateway.request("process.exec").await;
    gateway.refuse(&again, "daemon_stopping").await;
    is_asked_nothing(&fixture, &mut gateway, &host).await;
    assert_eq!(state(&fixture, "op-1").await, OperationState::Dispatching);
    drop(gateway);
    let mut gateway = fixture.again(&host).await;
    let again = gateway.request("process.exec").await;
    gateway.answer(&again, result("op-1", evidence(0))).await;
    is_terminal(&fixture, "op-1").await;

    // Nor do they replace what is known, when a client repeats an operation that has ended.
    let known = fixture.record("op-1").await.unwrap();
    let repeated = fixture.dispatch(&host, "op-1").await;
    let request = gateway.request("process.exec").await;
    gateway.refuse(&request, "operation_limit_reached").await;
    repeated.collect().await.unwrap();
    assert_eq!(fixture.record("op-1").await.unwrap(), known);
}

#[tokio::test]
async fn a_gateway_that_begins_it_a_second_time_is_told_to_stop_once() {
    let fixture = fixture().await;
    let host = Host::new("worker");
    let gateway = fixture.ready(&host).await;
    interrupted(&fixture, gateway, exec("worker", "op-1"), true).await;
    let mut gateway = fixture.again(&host).await;
    let again = gateway.request("process.exec").await;
    gateway.accept(&again).await;
    let cancel = gateway.request("cancel").await;
    assert_eq!(cancel["params"], json!({"operationId": "op-1"}));
    gateway
        .answer(&cancel, json!({"operationId": "op-1", "cancelling": true}))
        .await;
    gateway.answer(&again, result("op-1", evidence(1))).await;
    is_terminal(&fixture, "op-1").await;
    is_asked_nothing(&fixture, &mut gateway, &host).await;
}

#[tokio::test]
async fn what_is_settled_otherwise_is_not_asked_for() {
    let fixture = fixture().await;
    let host = Host::hmac("worker", "s");
    let enrol = async || {
        fixture
            .controller
            .enrol("worker", None, Secret::new("s".to_owned()))
            .await
    };
    enrol().await.unwrap();
    let gateway = fixture.again(&host).await;
    interrupted(&fixture, gateway, exec("worker", "op-1"), true).await;
    fixture.controller.resolve("op-1", "seen").await.unwrap();
    let mut gateway = fixture.again(&host).await;
    is_asked_nothing(&fixture, &mut gateway, &host).await;

    // A gateway that was shut out meanwhile is asked nothing either, when it is let in again.
    interrupted(&fixture, gateway, exec("worker", "op-2"), true).await;
    fixture.controller.revoke("worker").await.unwrap();
    enrol().await.unwrap();
    let mut gateway = fixture.again(&host).await;
    is_asked_nothing(&fixture, &mut gateway, &host).await;
    assert_eq!(state(&fixture, "op-2").await, OperationState::Dispatching);
}

#[tokio::test]
async fn after_a_restart_a_record_waits_for_a_repetition_with_the_same_request() {
    let first = fixture().await;
    let host = Host::new("worker");
    let gateway = first.ready(&host).await;
    interrupted(&first, gateway, exec("worker", "op-1"), true).await;
    first.controller.close().await;
    let fixture = Fixture::over(first.store.clone(), |_| {}).await;
    let mut gateway = fixture.again(&host).await;
    is_asked_nothing(&fixture, &mut gateway, &host).await;
    let unresolved = OperationFilter::newest(9).in_state(OperationState::Dispatching);
    assert_eq!(fixture.store.list(unresolved).await.unwrap()[0].operation_id, "op-1");
    let other = process("worker", "op-1", json!({"command": "other"}));
    let conflict = fixture.controller.dispatch(other).await.err().unwrap();
    assert_eq!(conflict.code(), "operation_correlation_conflict");
    for expected in [
        OperationState::Dispatching,
        OperationState::Terminal,
        OperationState::Terminal,
    ] {
        let repeated = fixture.dispatch(&host, "op-1").await;
        let request = gateway.request("process.exec").await;
        if expected == OperationState::Dispatching {
            gateway.refuse(&request, "operation_outcome_unknown").await;
        } else {
            gateway.answer(&request, result("op-1", evidence(0))).await;
        }
        repeated.collect().await.unwrap();
        assert_eq!(state(&fixture, "op-1").await, expected);
    }
}

/// Unresolved operations first, then one terminal record more than are kept.
async fn fill(controller: &Controller, gateway: &mut Dialled, operations: &dyn Operations) {
    let mut open = Vec::new();
    for index in 0..3 {
        open.push(
            controller
                .dispatch(exec("worker", &format!("open-{index}")))
                .await
                .unwrap(),
        );
        gateway.request("process.exec").await;
    }
    for index in 0..=TERMINAL_RECORDS_MAX {
        let id = format!("done-{index}");
        let dispatch = controller.dispatch(exec("worker", &id)).await.unwrap();
        let request = gateway.request("process.exec").await;
        gateway.answer(&request, result(&id, evidence(0))).await;
        dispatch.collect().await.unwrap();
    }
    let of = async |state| {
        let filter = OperationFilter::newest(usize::MAX).in_state(state);
        operations.list(filter).await.unwrap().len()
    };
    assert_eq!(of(OperationState::Terminal).await, TERMINAL_RECORDS_MAX);
    assert_eq!(of(OperationState::Dispatching).await, 3);
    assert_eq!(controller.correlation("done-0").await.unwrap(), None, "the oldest goes");
    assert!(controller.correlation("done-1").await.unwrap().is_some());
    assert!(controller.correlation("open-0").await.unwrap().is_some());
}

#[tokio::test]
async fn settled_records_are_bounded_and_unresolved_ones_stay_in_either_store() {
    let fixture = fixture().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    fill(&fixture.controller, &mut gateway, &*fixture.store).await;

    let directory = tempfile::tempdir().unwrap();
    let store = goblin_store::Store::open(directory.path(), None, "2026-01-01T00:00:00.000Z").await;
    let store = Arc::new(store.unwrap());
    let controller = Controller::start(super::options(), store.clone(), store.clone(), store.clone())
        .await
        .unwrap();
    controller
        .enrol("worker", None, Secret::new("s".to_owned()))
        .await
        .unwrap();
    let mut gateway = Dialled::dial(controller.tls_address().unwrap()).await;
    assert_eq!(
        gateway.authenticate(&Host::hmac("worker", "s")).await["type"],
        "auth.ok"
    );
    fill(&controller, &mut gateway, &*store).await;
    controller.close().await;
    store.close().await;
}
