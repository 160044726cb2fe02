//! The table of refusals, and one live connection for each id.

use super::gateway::{Host, evidence, result};
use super::{Fixture, code};
use goblin_keys::pair::KeyPair;
use serde_json::json;
use std::time::Duration;

async fn refusal_with(fixture: &Fixture, host: &Host, alter: impl FnOnce(&mut serde_json::Value)) -> String {
    let mut dialled = fixture.dial().await;
    let answer = dialled.authenticate_with(host, alter).await;
    dialled.expect_end().await;
    code(&answer)
}

#[tokio::test]
async fn every_false_claim_has_its_code() {
    let fixture = Fixture::new().await;
    let paired = Host::new("paired");
    drop(fixture.ready(&paired).await);
    let secret = || goblin_ports::Secret::new("an enrolment secret".to_owned());
    fixture.controller.enrol("enrolled", None, secret()).await.unwrap();
    fixture
        .controller
        .enrol("elsewhere", Some("another"), secret())
        .await
        .unwrap();

    // Unregistered, without a valid signature.
    let stranger = Host::new("stranger");
    let tampered = |answer: &mut serde_json::Value| answer["pairingSignature"] = json!("A".repeat(86));
    assert_eq!(refusal_with(&fixture, &stranger, tampered).await, "unknown_node");
    assert_eq!(
        fixture.refusal(&Host::hmac("stranger", "guessed")).await,
        "unknown_node"
    );
    let other_key = KeyPair::generate().unwrap();
    let swapped = |answer: &mut serde_json::Value| answer["nodePublicKey"] = json!(other_key.public_pem());
    assert_eq!(refusal_with(&fixture, &stranger, swapped).await, "unknown_node");

    // Registered by key.
    assert_eq!(refusal_with(&fixture, &paired, tampered).await, "identity_mismatch");
    assert_eq!(fixture.refusal(&Host::new("paired")).await, "identity_mismatch");
    assert_eq!(
        fixture.refusal(&Host::hmac("paired", "guessed")).await,
        "identity_mismatch"
    );

    // Registered by secret.
    assert_eq!(fixture.refusal(&Host::hmac("enrolled", "guessed")).await, "auth_failed");
    assert_eq!(fixture.refusal(&Host::new("enrolled")).await, "auth_failed");
    let _enrolled = fixture.again(&Host::hmac("enrolled", "an enrolment secret")).await;

    // Another controller is meant.
    let host = Host::hmac("elsewhere", "an enrolment secret");
    assert_eq!(fixture.refusal(&host).await, "controller_identity_mismatch");
    let host = Host {
        controller_id: "another".into(),
        ..host
    };
    let _elsewhere = fixture.again(&host).await;
}

#[tokio::test]
async fn an_answer_that_is_no_answer_is_refused() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    for (member, value) in [
        ("gatewayId", json!(null)),
        ("gatewayId", json!("  ")),
        ("gatewayId", json!("local")),
        ("gatewayId", json!("publicKey.a")),
        ("gatewayId", json!("a/../b")),
        ("gatewayId", json!("x".repeat(256))),
        ("gatewayId", json!({"a": 1})),
        ("controllerId", json!("")),
        ("controllerId", json!("x".repeat(256))),
    ] {
        let refusal = refusal_with(&fixture, &host, |answer| answer[member] = value.clone()).await;
        assert_eq!(refusal, "invalid_auth_message", "{member} {value}");
    }
    let refusal = refusal_with(&fixture, &host, |answer| answer["type"] = json!("hello")).await;
    assert_eq!(refusal, "unauthenticated");
    assert_eq!(fixture.stored_pairings().await, []);
}

#[tokio::test]
async fn a_second_connection_of_one_identity_is_refused_while_the_first_answers() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut first = fixture.ready(&host).await;
    // A copied state directory: same id, same key.
    let mut clone = fixture.dial().await;
    let (answer, ()) = tokio::join!(clone.authenticate(&host), async {
        let probe = first.receive().await.unwrap();
        assert_eq!(probe["method"], "health");
        first
            .answer(&probe, json!({"status": "ok", "activeOperations": []}))
            .await;
    });
    assert_eq!(code(&answer), "gateway_already_connected");
    // The first one serves on, and a probe is no operation.
    let dispatch = fixture.dispatch(&host, "op-1").await;
    let (_, collected) = tokio::join!(first.execute(), dispatch.collect());
    assert!(collected.unwrap().answer().is_ok());
    assert_eq!(fixture.controller.activity(None, 256).len(), 1);
}

#[tokio::test]
async fn a_half_open_connection_is_replaced() {
    let fixture = Fixture::with(|timing| timing.replace_probe = Duration::from_millis(50)).await;
    let host = Host::new("worker");
    let mut silent = fixture.ready(&host).await;
    let lost = fixture.dispatch(&host, "op-1").await;
    // The first connection answers nothing, as if its host were gone.
    let mut second = fixture.again(&host).await;
    let error = lost.collect().await.unwrap_err();
    assert_eq!(error.code(), "gateway_disconnected");
    assert_eq!(error.action(), Some("retry_same_operation_id_after_reconnect"));
    while silent.receive().await.is_some() {}
    let dispatch = fixture.dispatch(&host, "op-1").await;
    let request = second.request("process.exec").await;
    second.answer(&request, result("op-1", evidence(0))).await;
    assert!(dispatch.collect().await.unwrap().answer().is_ok());
}
