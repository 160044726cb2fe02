//! Enrolment and revocation.

use super::gateway::Host;
use super::{Fixture, eventually};
use crate::Presence;
use goblin_ports::{Secret, secret};

#[tokio::test]
async fn revocation_ends_a_running_operation_and_the_trust() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let running = fixture.dispatch(&host, "op-1").await;
    let request = gateway.request("process.exec").await;
    gateway.accept(&request).await;

    let record = fixture.controller.revoke("worker").await.unwrap();
    assert!(record.revoked && !record.trusted() && record.method.is_none());
    gateway.expect_end().await;
    assert_eq!(running.collect().await.unwrap_err().code(), "gateway_disconnected");
    assert_eq!(fixture.secret(&secret::gateway_public_key("worker")).await, None);
    assert_eq!(fixture.controller.gateways().await.unwrap(), []);
    let refused = fixture
        .controller
        .dispatch(super::exec("worker", "op-2"))
        .await
        .err()
        .unwrap();
    assert_eq!(refused.code(), "gateway_not_connected");

    // It is a stranger again: it needs a new approval.
    let _again = fixture.pending(&host).await;
    fixture.controller.revoke("worker").await.unwrap();
    assert_eq!(fixture.stored_pairings().await, []);
    eventually("the waiting connection ends", async || {
        fixture.controller.gateways().await.unwrap().is_empty()
    })
    .await;
    assert_eq!(
        fixture.controller.revoke("nobody").await.unwrap_err().code(),
        "not_found"
    );
}

#[tokio::test]
async fn enrolment_replaces_other_trust_at_once() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut paired = fixture.ready(&host).await;
    let record = fixture
        .controller
        .enrol("worker", None, Secret::new("s3cret".to_owned()))
        .await
        .unwrap();
    assert_eq!(record.controller_id, "controller");
    paired.expect_end().await;
    assert_eq!(fixture.secret(&secret::gateway_public_key("worker")).await, None);
    assert_eq!(fixture.refusal(&host).await, "auth_failed");
    let mut enrolled = fixture.again(&Host::hmac("worker", "s3cret")).await;

    // A changed secret ends the connection that knew the old one.
    fixture
        .controller
        .enrol("worker", None, Secret::new("other".to_owned()))
        .await
        .unwrap();
    enrolled.expect_end().await;
    assert_eq!(fixture.refusal(&Host::hmac("worker", "s3cret")).await, "auth_failed");
    fixture.controller.revoke("worker").await.unwrap();
    assert_eq!(fixture.secret(&secret::gateway("worker")).await, None);
    assert_eq!(fixture.refusal(&Host::hmac("worker", "other")).await, "unknown_node");
}

#[tokio::test]
async fn an_enrolment_that_cannot_be_kept_changes_nothing() {
    let fixture = Fixture::new().await;
    let code = async |id: &str, controller: Option<&str>, text: &str| {
        let result = fixture
            .controller
            .enrol(id, controller, Secret::new(text.to_owned()))
            .await;
        result.unwrap_err().code()
    };
    assert_eq!(code("worker", None, " ").await, "gateway_secret_required");
    assert_eq!(code("worker", Some(" "), "s").await, "controller_id_invalid");
    assert_eq!(
        code("worker", Some(&"x".repeat(256)), "s").await,
        "controller_id_invalid"
    );
    assert_eq!(code("local", None, "s").await, "target_id_invalid");
    for step in 0..2 {
        fixture.store.fail_write_after(step);
        assert_eq!(code("worker", None, "s").await, "store_unavailable");
        assert_eq!(fixture.secret(&secret::gateway("worker")).await, None);
        assert_eq!(fixture.controller.trust().await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_revocation_that_the_store_refuses_can_be_repeated() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    // The record cannot be written: nothing has changed.
    fixture.store.fail_write_after(0);
    assert_eq!(
        fixture.controller.revoke("worker").await.unwrap_err().code(),
        "store_unavailable"
    );
    assert_eq!(
        fixture.controller.gateways().await.unwrap()[0].presence,
        Presence::Ready
    );
    // The record is written, a secret is not cleared: shut out all the same.
    fixture.store.fail_write_after(1);
    assert_eq!(
        fixture.controller.revoke("worker").await.unwrap_err().code(),
        "store_unavailable"
    );
    gateway.expect_end().await;
    assert!(!fixture.controller.trust().await.unwrap()[0].trusted());
    fixture.controller.revoke("worker").await.unwrap();
    assert_eq!(fixture.secret(&secret::gateway_public_key("worker")).await, None);
}

#[tokio::test]
async fn trusted_gateways_are_listed_before_they_ever_connect() {
    let fixture = Fixture::new().await;
    for id in ["b", "a"] {
        fixture
            .controller
            .enrol(id, None, Secret::new("s".to_owned()))
            .await
            .unwrap();
    }
    let _connected = fixture.again(&Host::hmac("b", "s")).await;
    let listed = fixture.controller.gateways().await.unwrap();
    let shown: Vec<_> = listed.iter().map(|it| (it.gateway_id.as_str(), it.presence)).collect();
    assert_eq!(shown, [("a", Presence::Disconnected), ("b", Presence::Ready)]);
}
