//! Approval and rejection, and what is left behind when a step of them fails.

use super::gateway::Host;
use super::{Fixture, code, eventually, exec};
use crate::pending::Pending;
use crate::registry::Live;
use crate::{ControllerError, DispatchError, Presence};
use goblin_keys::pair::KeyPair;
use goblin_link::gateway_auth::Credential;
use goblin_ports::{MemoryStore, secret, setting};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

fn public_key(host: &Host) -> String {
    match &host.credential {
        Credential::Pairing(pair) => pair.public_pem().to_owned(),
        Credential::Hmac(_) => panic!(),
    }
}

#[tokio::test]
async fn a_host_is_approved_once_and_ready_ever_after() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker-01");
    let mut gateway = fixture.pending(&host).await;

    let requests = fixture.controller.pairings().await.unwrap();
    assert_eq!(requests.len(), 1);
    let record = &requests[0].record;
    assert_eq!(
        (record.gateway_id.as_str(), record.status.as_str()),
        ("worker-01", "pending")
    );
    assert_eq!(record.public_key, public_key(&host));
    // Both screens show the same code, and each end computed its own.
    assert_eq!(Some(&record.pairing_code), gateway.own_code.as_ref());
    let long = requests[0].live_code.clone().unwrap();
    assert!(long.starts_with(&record.pairing_code));
    assert_eq!(requests[0].metadata().version.as_deref(), Some("7"));
    assert_eq!(
        fixture.controller.gateways().await.unwrap()[0].presence,
        Presence::Pending
    );
    let refused = fixture
        .controller
        .dispatch(exec("worker-01", "op"))
        .await
        .err()
        .unwrap();
    assert_eq!(
        (refused.code(), refused),
        ("gateway_not_ready", DispatchError::NotReady)
    );

    let code = record.pairing_code.to_lowercase();
    let decision = fixture.controller.approve("worker-01", Some(&code)).await.unwrap();
    assert!(decision.approved);
    assert_eq!(decision.pairing_code, record.pairing_code);
    assert_eq!(gateway.receive().await.unwrap()["type"], "auth.ok");
    assert_eq!(fixture.stored_pairings().await, []);
    assert_eq!(
        fixture.secret(&secret::gateway_public_key("worker-01")).await,
        Some(public_key(&host))
    );
    assert_eq!(
        fixture.setting(setting::GATEWAYS).await,
        Some(
            json!([{"gatewayId": "worker-01", "controllerId": "controller", "status": "approved", "approved": true,
                     "revoked": false, "method": "ed25519"}])
        )
    );

    drop(gateway);
    eventually("the loss is seen", async || {
        fixture.controller.gateways().await.unwrap()[0].presence == Presence::Disconnected
    })
    .await;
    let _gateway = fixture.again(&host).await;
    let snapshot = &fixture.controller.gateways().await.unwrap()[0];
    assert_eq!(snapshot.presence, Presence::Ready);
    assert_eq!(snapshot.metadata.name.as_deref(), Some("burrow-host-gateway"));
    assert!(snapshot.connected_at.is_some() && snapshot.last_seen_at.is_some());
}

#[tokio::test]
async fn approval_binds_the_live_connection_and_its_code() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker-01");
    let approve = async |code: Option<&str>| {
        fixture
            .controller
            .approve("worker-01", code)
            .await
            .map_err(|e| e.code())
    };
    assert_eq!(approve(None).await, Err("pairing_not_found"));

    let first = fixture.pending(&host).await;
    let first_code = first.own_code.clone().unwrap();
    drop(first);
    eventually("the loss is seen", async || {
        fixture.controller.gateways().await.unwrap().is_empty()
    })
    .await;
    // The record informs, no more.
    let listed = fixture.controller.pairings().await.unwrap();
    assert_eq!((listed.len(), listed[0].live_code.as_ref()), (1, None));
    assert_eq!(approve(Some(&first_code)).await, Err("pairing_not_live"));

    let mut second = fixture.pending(&host).await;
    assert_ne!(second.own_code.as_ref(), Some(&first_code));
    assert_eq!(fixture.stored_pairings().await.len(), 1);
    for wrong in [first_code.as_str(), "", "AAAA-AAAA-AAAA"] {
        assert_eq!(approve(Some(wrong)).await, Err("pairing_code_mismatch"));
    }
    let long = fixture.controller.pairings().await.unwrap()[0]
        .live_code
        .clone()
        .unwrap();
    assert!(approve(Some(&long)).await.is_ok());
    assert_eq!(second.receive().await.unwrap()["type"], "auth.ok");
    assert_eq!(approve(None).await, Err("pairing_not_found"));
}

#[tokio::test]
async fn a_failed_step_of_approval_takes_back_those_before_it() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker-01");
    let mut gateway = fixture.pending(&host).await;
    let pairings = fixture.stored_pairings().await;
    // Key, record, pending record: each of the three writes fails once.
    for step in 0..3 {
        fixture.store.fail_write_after(step);
        let error = fixture.controller.approve("worker-01", None).await.unwrap_err();
        assert_eq!(error.code(), "store_unavailable", "step {step}");
        assert_eq!(fixture.secret(&secret::gateway_public_key("worker-01")).await, None);
        assert_eq!(fixture.controller.trust().await.unwrap(), []);
        assert_eq!(fixture.stored_pairings().await, pairings);
        assert!(fixture.controller.pairings().await.unwrap()[0].live_code.is_some());
    }
    // It still waits, and can be approved.
    fixture.controller.approve("worker-01", None).await.unwrap();
    assert_eq!(gateway.receive().await.unwrap()["type"], "auth.ok");
}

#[tokio::test]
async fn an_approval_that_the_connection_does_not_live_to_see_is_taken_back() {
    let fixture = Fixture::new().await;
    let (shared, host) = (fixture.controller.shared(), Host::new("worker-01"));
    drop(fixture.pending(&host).await);
    eventually("the loss is seen", async || shared.registry.all_pending().is_empty()).await;
    // A connection that ends just as the operator decides.
    let (claim, offer) = claim("worker-01");
    let (pending, verdict) = Pending::new(7, &claim, &offer);
    shared
        .registry
        .insert("worker-01", Live::Pending(Arc::new(pending)), claim.metadata.clone());
    drop(verdict);
    let pairings = fixture.stored_pairings().await;
    let error = fixture.controller.approve("worker-01", None).await.unwrap_err();
    assert!(matches!(error, ControllerError::PairingNotLive));
    assert_eq!(fixture.secret(&secret::gateway_public_key("worker-01")).await, None);
    assert_eq!(fixture.controller.trust().await.unwrap(), []);
    assert_eq!(fixture.stored_pairings().await, pairings);
}

/// A claim as a gateway with a new key makes it.
fn claim(
    gateway_id: &str,
) -> (
    goblin_link::controller_auth::Claim,
    goblin_link::controller_auth::PairingClaim,
) {
    use goblin_link::controller_auth::{ControllerAuth, Evidence};
    let (ours, theirs) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let leaf = goblin_keys::Fingerprint::of_der(b"a certificate");
    let (auth, _) = ControllerAuth::new("n".repeat(32), &ours, &leaf);
    let transcript =
        goblin_protocol::auth::pairing_transcript(&"n".repeat(32), gateway_id, theirs.public_pem(), ours.public_pem());
    let answer = json!({"type": "auth.response", "gatewayId": gateway_id, "controllerId": "controller",
        "nodePublicKey": theirs.public_pem(),
        "pairingSignature": goblin_keys::signature::encode(&theirs.sign(transcript.as_bytes()))});
    let claim = auth.receive(answer.to_string().as_bytes()).unwrap();
    let Evidence::Key(offer) = claim.evidence.clone() else {
        panic!()
    };
    (claim, offer)
}

#[tokio::test]
async fn a_rejected_key_is_refused_at_once_for_a_while() {
    let fixture = Fixture::with(|timing| timing.rejected = Duration::from_millis(1500)).await;
    let host = Host::new("worker-01");
    let mut gateway = fixture.pending(&host).await;
    let decision = fixture.controller.reject("worker-01").await.unwrap();
    assert!(!decision.approved);
    assert_eq!(code(&gateway.receive().await.unwrap()), "pairing_rejected");
    gateway.expect_end().await;
    assert_eq!(fixture.stored_pairings().await, []);
    assert_eq!(fixture.refusal(&host).await, "pairing_rejected");
    // Another id does not help, another key does.
    let renamed = Host {
        id: "worker-02".into(),
        ..host.clone()
    };
    assert_eq!(fixture.refusal(&renamed).await, "pairing_rejected");
    let _other = fixture.pending(&Host::new("worker-01")).await;
    eventually("the key may try again", async || {
        let mut dialled = fixture.dial().await;
        dialled.authenticate(&renamed).await["type"] == "pairing.pending"
    })
    .await;
    let error = fixture.controller.reject("nobody").await.unwrap_err();
    assert_eq!(error.code(), "pairing_not_found");
}

#[tokio::test]
async fn one_id_waits_for_approval_once() {
    let fixture = Fixture::new().await;
    let host = Host::new("worker-01");
    let waiting = fixture.pending(&host).await;
    assert_eq!(
        fixture.refusal(&Host::new("worker-01")).await,
        "gateway_identity_conflict"
    );
    assert_eq!(fixture.refusal(&host).await, "gateway_already_connected");
    drop(waiting);
    eventually("the loss is seen", async || {
        fixture.controller.gateways().await.unwrap().is_empty()
    })
    .await;
    // The stored record alone is no obstacle.
    let _other = fixture.pending(&Host::new("worker-01")).await;
    assert_eq!(fixture.stored_pairings().await.len(), 1);
}

#[tokio::test]
async fn a_stored_request_informs_only_after_a_restart() {
    let store = Arc::new(MemoryStore::new());
    let fixture = Fixture::over(store.clone(), |_| {}).await;
    let host = Host::new("worker-01");
    let mut gateway = fixture.pending(&host).await;
    fixture.controller.close().await;
    gateway.expect_end().await;

    let fixture = Fixture::over(store, |_| {}).await;
    let listed = fixture.controller.pairings().await.unwrap();
    assert_eq!((listed.len(), listed[0].live_code.as_ref()), (1, None));
    let error = fixture.controller.approve("worker-01", None).await.unwrap_err();
    assert_eq!(error.code(), "pairing_not_live");
    // The same certificate and key are served, and the host can be approved now.
    let again = fixture.ready(&host).await;
    assert_eq!(again.leaf.fingerprint, gateway.leaf.fingerprint);
}
