//! Peers that break the rules, before and after authentication.

use super::gateway::{Host, evidence, result};
use super::{Fixture, PATIENCE, code, process};
use crate::Presence;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[tokio::test]
async fn a_stranger_gets_a_small_buffer_and_a_stable_code() {
    let fixture = Fixture::new().await;
    for (text, expected) in [
        ("x".repeat(64 * 1024 + 1), "frame_too_large"),
        ("not json".to_owned(), "invalid_json"),
        ("[".repeat(10_000), "invalid_json"),
        (r#"{"id":1,"method":"hello"}"#.to_owned(), "unauthenticated"),
        ("[]".to_owned(), "unauthenticated"),
        ("{\"type\":\"auth.response\"}".to_owned(), "invalid_auth_message"),
    ] {
        let mut dialled = fixture.dial().await;
        assert_eq!(dialled.receive().await.unwrap()["type"], "auth.challenge");
        dialled.send_text(&text).await;
        assert_eq!(code(&dialled.receive().await.unwrap()), expected);
        dialled.expect_end().await;
    }
    // Bytes that are no text.
    let mut dialled = fixture.dial().await;
    dialled.receive().await.unwrap();
    dialled.sender.send(vec![0xff, 0, b'\n']).await.unwrap();
    assert_eq!(code(&dialled.receive().await.unwrap()), "invalid_json");
}

#[tokio::test]
async fn silence_before_authentication_is_not_waited_for() {
    let fixture = Fixture::with(|timing| {
        timing.first_message = Duration::from_millis(500);
        timing.handshake = Duration::from_millis(500);
    })
    .await;
    let mut dialled = fixture.dial().await;
    dialled.receive().await.unwrap();
    assert_eq!(code(&dialled.receive().await.unwrap()), "auth_timeout");
    dialled.expect_end().await;

    // A peer that never begins the handshake, and one that speaks no TLS.
    for bytes in [b"".as_slice(), b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(fixture.controller.tls_address().unwrap())
            .await
            .unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut rest = Vec::new();
        // The end may come as a reset; what counts is that it comes.
        let _ = timeout(PATIENCE, stream.read_to_end(&mut rest))
            .await
            .expect("never closed");
    }
}

#[tokio::test]
async fn waiting_for_approval_ends_in_time_and_gives_nothing() {
    let fixture = Fixture::with(|timing| timing.auth = Duration::from_secs(1)).await;
    let host = Host::new("worker");
    let mut waiting = fixture.pending(&host).await;
    assert_eq!(code(&waiting.receive().await.unwrap()), "auth_timeout");
    waiting.expect_end().await;
    assert_eq!(
        fixture.controller.approve("worker", None).await.unwrap_err().code(),
        "pairing_not_live"
    );

    // One that does not wait loses its place.
    let mut eager = fixture.pending(&host).await;
    eager
        .send(&json!({"id": 1, "method": "process.exec", "params": {}}))
        .await;
    assert_eq!(code(&eager.receive().await.unwrap()), "unauthenticated");
    eager.expect_end().await;
}

#[tokio::test]
async fn a_hundred_connections_at_once_are_all_served() {
    let fixture = Fixture::new().await;
    fixture
        .controller
        .enrol("worker", None, goblin_ports::Secret::new("s".to_owned()))
        .await
        .unwrap();
    let crowd = (0..100).map(|index| {
        let fixture = &fixture;
        async move {
            let mut dialled = fixture.dial().await;
            // Most are strangers; one is who it says.
            let host = if index == 50 {
                Host::hmac("worker", "s")
            } else {
                Host::hmac("worker", "wrong")
            };
            dialled.authenticate(&host).await
        }
    });
    let answers = futures_join(crowd).await;
    assert_eq!(answers.iter().filter(|answer| answer["type"] == "auth.ok").count(), 1);
    assert_eq!(
        answers
            .iter()
            .filter(|answer| answer["error"]["code"] == "auth_failed")
            .count(),
        99
    );
}

/// Runs them all at once on this task.
async fn futures_join(futures: impl Iterator<Item = impl Future<Output = Value>>) -> Vec<Value> {
    let mut pending: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut all = true;
        for (future, answer) in &mut pending {
            if answer.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *answer = Some(value),
                    std::task::Poll::Pending => all = false,
                }
            }
        }
        if all {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    pending.into_iter().filter_map(|(_, answer)| answer).collect()
}

#[tokio::test]
async fn odd_frames_after_authentication_disturb_no_dispatch() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let dispatch = fixture.dispatch(&host, "op-1").await;
    let request = gateway.request("process.exec").await;
    gateway.send(&json!({"type": "a.newer.kind", "anything": [1, 2]})).await;
    gateway.answer(&json!({"id": "nobody asked"}), json!({})).await;
    gateway.output("nobody's", 1, "text").await;
    gateway.terminal("nobody's", 2, &evidence(0)).await;
    gateway.send_text("").await;
    gateway.accept(&request).await;
    gateway.answer(&request, result("op-1", evidence(0))).await;
    gateway.answer(&request, result("op-1", evidence(1))).await;
    let collected = dispatch.collect().await.unwrap();
    assert_eq!(collected.events.len(), 0);
    assert!(collected.answer().is_ok());
    assert_eq!(
        fixture.controller.gateways().await.unwrap()[0].presence,
        Presence::Ready
    );
    assert_eq!(fixture.record("nobody's").await, None);
}

#[tokio::test]
async fn a_ready_gateway_that_breaks_the_framing_is_told_and_closed() {
    let fixture = Fixture::new().await;
    for (id, text, expected) in [
        ("a", "{".to_owned(), "invalid_json"),
        ("b", "[".repeat(10_000), "invalid_json"),
        ("c", "x".repeat(2 * 1024 * 1024), "frame_too_large"),
    ] {
        let host = Host::new(id);
        let mut gateway = fixture.ready(&host).await;
        let dispatch = fixture.dispatch(&host, &format!("op-{id}")).await;
        gateway.request("process.exec").await;
        gateway.send_text(&text).await;
        assert_eq!(code(&gateway.receive().await.unwrap()), expected);
        gateway.expect_end().await;
        assert_eq!(dispatch.collect().await.unwrap_err().code(), "gateway_disconnected");
    }
}

#[tokio::test]
async fn a_gateway_that_reads_nothing_loses_its_connection() {
    let fixture = Fixture::with(|timing| timing.send = Duration::from_millis(200)).await;
    let host = Host::new("worker");
    let _gateway = fixture.ready(&host).await;
    let mut sent = Vec::new();
    let error = loop {
        // Sockets hold some of it, then the queue does, then there is no room.
        let params = json!({"command": "true", "env": {"BULK": "x".repeat(1_900_000)}});
        let request = process("worker", &format!("op-{}", sent.len()), params);
        match timeout(PATIENCE, fixture.controller.dispatch(request)).await.unwrap() {
            Ok(dispatch) => sent.push(dispatch),
            Err(error) => break error,
        }
        assert!(sent.len() < 100);
    };
    assert_eq!(error.code(), "gateway_disconnected");
    // What never left has no record; what was sent may have run.
    assert_eq!(fixture.record(&format!("op-{}", sent.len())).await, None);
    assert!(fixture.record("op-0").await.is_some());
    for dispatch in sent {
        assert_eq!(dispatch.collect().await.unwrap_err().code(), "gateway_disconnected");
    }
}
