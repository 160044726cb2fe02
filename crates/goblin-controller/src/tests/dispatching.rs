//! What goes out, what comes back, and every way in which it does not.

use super::gateway::{Host, evidence, result};
use super::{Fixture, exec, process};
use crate::{Body, DispatchRequest};
use goblin_ports::{OperationKind, OperationState};
use serde_json::{Value, json};

fn json_of(envelope: &goblin_client::Envelope) -> Value {
    serde_json::from_slice(&envelope.text).unwrap()
}

#[tokio::test]
async fn a_request_carries_what_was_asked_for_and_nothing_else() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.pending(&host).await;
    fixture.controller.approve("worker", None).await.unwrap();
    let connection_id = gateway.receive().await.unwrap()["connectionId"].clone();
    let (ms, suffix) = connection_id.as_str().unwrap().split_once('-').unwrap();
    assert!(ms.parse::<u64>().is_ok() && suffix.len() == 12);

    let params = json!({"executable": "/bin/true", "protectedValues": {"TOKEN": "t"}, "protectedDelivery": {"forged": true},
        "traceContext": {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}});
    let request = DispatchRequest {
        parent_run_id: Some("run".into()),
        tool_call_id: Some("call".into()),
        ..process("worker", "op-1", params)
    };
    let (sent, dispatch) = tokio::join!(gateway.execute(), async {
        fixture.controller.dispatch(request).await.unwrap().collect().await
    });
    let id = sent["id"].as_str().unwrap();
    assert_eq!(uuid::Uuid::parse_str(id).unwrap().get_version_num(), 4);
    let delivery =
        json!({"gatewayId": "worker", "connectionId": connection_id, "requestId": id, "operationId": "op-1"});
    assert_eq!(
        sent,
        json!({"id": id, "method": "process.exec", "params": {"operationId": "op-1", "executable": "/bin/true",
            "protectedValues": {"TOKEN": "t"}, "protectedDelivery": delivery,
            "traceContext": {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}})
    );
    let collected = dispatch.unwrap();
    assert_eq!(json_of(collected.accepted.as_ref().unwrap())["operationId"], "op-1");
    assert_eq!(collected.events.len(), 2);
    assert!(!collected.events_truncated);
    assert_eq!(
        json_of(collected.response.as_ref().unwrap())["result"],
        result("op-1", evidence(0))
    );

    // The digest leaves secrets and trace out, so a repetition without them is the same request.
    let record = fixture.record("op-1").await.unwrap();
    assert_eq!(
        (record.parent_run_id.as_deref(), record.tool_call_id.as_deref()),
        (Some("run"), Some("call"))
    );
    assert_eq!(record.state, OperationState::Terminal);
    let (sent, again) = tokio::join!(gateway.execute(), async {
        fixture.dispatch(&host, "op-1").await.collect().await
    });
    assert_eq!(
        sent["params"],
        json!({"operationId": "op-1", "executable": "/bin/true"})
    );
    assert!(again.is_ok());
}

#[tokio::test]
async fn tools_are_dispatched_under_their_own_method() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let request = DispatchRequest {
        kind: OperationKind::Filesystem,
        ..process(
            "worker",
            "op-1",
            json!({"tool": "files_read", "arguments": {"path": "/x"}}),
        )
    };
    let dispatch = fixture.controller.dispatch(request).await.unwrap();
    let sent = gateway.request("filesystem.execute").await;
    assert_eq!(
        sent["params"],
        json!({"operationId": "op-1", "tool": "files_read", "arguments": {"path": "/x"}})
    );
    gateway
        .answer(&sent, result("op-1", json!({"tool": "files_read", "ok": false})))
        .await;
    dispatch.collect().await.unwrap();
    let activity = fixture.controller.activity(None, 1).remove(0);
    assert_eq!(
        (activity.kind, activity.terminal_outcome.as_deref()),
        (OperationKind::Filesystem, Some("failed"))
    );
}

#[tokio::test]
async fn a_dispatch_that_cannot_go_out_says_why_and_leaves_no_record() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let refusal = async |request| fixture.controller.dispatch(request).await.err().unwrap().code();
    assert_eq!(refusal(exec("absent", "op")).await, "gateway_not_connected");
    assert_eq!(refusal(exec("a/b", "op")).await, "target_id_invalid");
    assert_eq!(refusal(exec("worker", "")).await, "operation_id_invalid");
    assert_eq!(refusal(exec("worker", "-op")).await, "operation_id_invalid");
    assert_eq!(refusal(exec("worker", &"x".repeat(257))).await, "operation_id_invalid");
    let trace = json!({"command": "true", "traceContext": {"traceparent": "00-0-0-00"}});
    assert_eq!(refusal(process("worker", "op", trace)).await, "trace_context_invalid");
    let large = json!({"command": "x".repeat(2 * 1024 * 1024)});
    assert_eq!(refusal(process("worker", "op", large)).await, "request_frame_too_large");
    fixture.store.fail_write_after(0);
    assert_eq!(refusal(exec("worker", "op")).await, "store_unavailable");
    assert_eq!(fixture.record("op").await, None);
    assert_eq!(fixture.controller.activity(None, 256), []);

    // An id that belongs to another request does not go out either.
    let first = fixture.dispatch(&host, "op").await;
    let other = process("worker", "op", json!({"command": "other"}));
    assert_eq!(refusal(other).await, "operation_correlation_conflict");
    let (_, collected) = tokio::join!(gateway.execute(), first.collect());
    assert!(collected.unwrap().answer().is_ok());
}

#[tokio::test]
async fn envelopes_arrive_live_and_in_order() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let mut live = fixture.dispatch(&host, "op-1").await;
    assert_eq!(live.operation_id(), "op-1");
    let request = gateway.request("process.exec").await;
    gateway.accept(&request).await;
    assert!(matches!(live.next().await, Some(Ok(envelope)) if matches!(envelope.body, Body::Accepted { .. })));
    for seq in 1..=3 {
        // Each is seen before the next is sent.
        gateway.output("op-1", seq, &format!("{seq}\n")).await;
        let Some(Ok(envelope)) = live.next().await else {
            panic!()
        };
        let Body::Stream { event, .. } = envelope.body else {
            panic!()
        };
        assert_eq!((event.seq, event.data), (seq, format!("{seq}\n")));
    }
    gateway.answer(&request, result("op-1", evidence(0))).await;
    assert!(matches!(live.next().await, Some(Ok(envelope)) if matches!(envelope.body, Body::Answer { .. })));
    assert!(live.next().await.is_none());
}

#[tokio::test]
async fn a_cancel_goes_to_the_gateway_and_makes_no_activity() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let (request, collected) = tokio::join!(
        async {
            let request = gateway.request("cancel").await;
            gateway
                .answer(&request, json!({"operationId": "op-1", "cancelling": true}))
                .await;
            request
        },
        fixture.controller.cancel("worker", "op-1")
    );
    assert_eq!(request["params"], json!({"operationId": "op-1"}));
    assert_eq!(
        json_of(&collected.unwrap().response.unwrap())["result"]["cancelling"],
        true
    );
    assert_eq!(fixture.controller.activity(None, 256), []);
    let error = fixture.controller.cancel("absent", "op-1").await.unwrap_err();
    assert_eq!(error.code(), "gateway_not_connected");
}

#[tokio::test]
async fn gathered_events_are_bounded_and_live_ones_are_not() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let flood = async |gateway: &mut super::gateway::Dialled| {
        let request = gateway.request("process.exec").await;
        gateway.accept(&request).await;
        let operation_id = request["params"]["operationId"].as_str().unwrap();
        for seq in 1..=8 {
            gateway.output(operation_id, seq, &"x".repeat(1_000_000)).await;
        }
        gateway.answer(&request, result(operation_id, evidence(0))).await;
    };
    let dispatch = fixture.dispatch(&host, "op-1").await;
    let ((), collected) = tokio::join!(flood(&mut gateway), dispatch.collect());
    let collected = collected.unwrap();
    assert!(collected.events_truncated && collected.events.len() == 4);

    let mut live = fixture.dispatch(&host, "op-2").await;
    let ((), events) = tokio::join!(flood(&mut gateway), async {
        let mut events = 0;
        while let Some(Ok(envelope)) = live.next().await {
            events += usize::from(matches!(envelope.body, Body::Stream { .. }));
        }
        events
    });
    assert_eq!((events, live.events_dropped()), (8, false));
}

#[tokio::test]
async fn closing_ends_everything() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let mut waiting = fixture.pending(&Host::new("waiting")).await;
    let mut silent = fixture.dial().await;
    silent.receive().await.unwrap();
    let running = fixture.dispatch(&host, "op-1").await;
    gateway.request("process.exec").await;
    let address = fixture.controller.tls_address().unwrap();
    tokio::time::timeout(super::PATIENCE, fixture.controller.close())
        .await
        .unwrap();
    assert_eq!(running.collect().await.unwrap_err().code(), "gateway_disconnected");
    gateway.expect_end().await;
    waiting.expect_end().await;
    silent.expect_end().await;
    let refused = fixture.controller.dispatch(exec("worker", "op-2")).await.err().unwrap();
    assert_eq!(refused.code(), "controller_stopping");
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
    assert!(fixture.controller.shared().tasks.is_empty());
    // A second close is no mistake.
    fixture.controller.close().await;
}

#[tokio::test]
async fn a_controller_that_nobody_holds_stops_by_itself() {
    let Fixture { controller, store } = Fixture::new().await;
    let mut dialled = super::gateway::Dialled::dial(controller.tls_address().unwrap()).await;
    dialled.receive().await.unwrap();
    drop(controller);
    dialled.expect_end().await;
    // The tasks have let go of the home, in the end.
    super::eventually("the store is free", async || std::sync::Arc::strong_count(&store) == 1).await;
}
