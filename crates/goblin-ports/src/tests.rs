//! The suites over the in-memory home, the frozen JSON of the records, and the injected failures.

use std::sync::Arc;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_passes_the_settings_suite() {
    conformance::settings_suite(|| async { Arc::new(MemoryStore::new()) as Arc<dyn Settings> }).await;
}

#[tokio::test]
async fn memory_passes_the_secrets_suite() {
    conformance::secrets_suite(|| async { Arc::new(MemoryStore::new()) as Arc<dyn Secrets> }).await;
}

#[tokio::test]
async fn memory_passes_the_tokens_suite() {
    conformance::tokens_suite(|| async { Arc::new(MemoryStore::new()) as Arc<dyn Tokens> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_passes_the_operations_suite() {
    conformance::operations_suite(|| async { Arc::new(MemoryStore::new()) as Arc<dyn Operations> }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_kept_as_a_setting_pass_the_same_suite() {
    let make = || async {
        let settings: Arc<dyn Settings> = Arc::new(MemoryStore::new());
        Arc::new(ListedOperations::new(settings)) as Arc<dyn Operations>
    };
    conformance::operations_suite(make).await;
}

/// The JSON reads into the record and comes out equal, members of other versions included.
fn frozen<T: Serialize + DeserializeOwned>(json: Value) -> T {
    let record: T = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(serde_json::to_value(&record).unwrap(), json);
    record
}

#[test]
fn records_have_their_frozen_json() {
    let target: Target =
        frozen(json!({"id": "t", "name": "T", "baseUrl": "https://t.example", "enabled": true, "future": [1]}));
    assert_eq!(target.base_url, "https://t.example");
    assert_eq!(
        serde_json::to_value(ControllerSettings::default()).unwrap(),
        json!({"enabled": false, "host": "127.0.0.1", "port": 7443})
    );
    let partial: ControllerSettings = serde_json::from_value(json!({"enabled": true})).unwrap();
    assert_eq!((partial.enabled, partial.port), (true, 7443));
    frozen::<ControllerSettings>(json!({"enabled": true, "host": "::", "port": 1, "future": {}}));

    let pending: PendingPairing = frozen(json!({
        "gatewayId": "g", "controllerId": "c", "publicKey": "PEM", "metadata": {"name": "host", "version": "1"},
        "nonce": "n", "pairingCode": "123-456", "status": "pending", "requestedAt": "2026-12-01T00:00:00.000Z",
    }));
    assert_eq!(pending.metadata["name"], "host");
    frozen::<TlsMetadata>(json!({"source": "configured"}));
    let tls: TlsMetadata = frozen(json!({
        "source": "generated", "algorithm": "ec-p256", "host": "h", "subjectAltName": "DNS:h", "createdAt": "c",
        "expiresAt": "e", "rotateAfter": "r", "fingerprintSha256": "f",
    }));
    assert_eq!(tls.fingerprint_sha256.as_deref(), Some("f"));
    let operation: OperationRecord = frozen(json!({
        "operationId": "o", "parentRunId": null, "toolCallId": "t", "gatewayId": "g", "kind": "filesystem",
        "requestDigest": "d", "state": "terminal",
        "terminalReference": {"operationId": "o", "replay": true, "outcomeDigest": null}, "updatedAt": "u",
    }));
    assert_eq!(operation.kind, OperationKind::Filesystem);
}

#[test]
fn a_gateway_record_goes_from_approved_to_revoked() {
    let mut record: GatewayRecord = frozen(json!({
        "gatewayId": "g", "controllerId": "c", "status": "approved", "approved": true, "revoked": false,
        "method": "ed25519", "future": "kept",
    }));
    assert!(record.trusted());
    assert_eq!(
        record,
        GatewayRecord {
            other: record.other.clone(),
            ..GatewayRecord::approved("g", "c", TrustMethod::Ed25519)
        }
    );
    record.revoke();
    assert!(!record.trusted());
    assert_eq!(
        serde_json::to_value(&record).unwrap(),
        json!({
            "gatewayId": "g", "controllerId": "c", "status": "revoked", "approved": false, "revoked": true,
            "method": null, "future": "kept",
        })
    );
}

#[test]
fn secret_names_of_gateways_are_the_contract() {
    assert_eq!(secret::gateway("host-1"), "controller.gateway.host-1");
    assert_eq!(
        secret::gateway_public_key("host-1"),
        "controller.gateway.publicKey.host-1"
    );
}

#[tokio::test]
async fn a_told_failure_hits_one_write_and_changes_nothing() {
    let store = MemoryStore::new();
    Settings::set(&store, "a", json!(1)).await.unwrap();
    store.fail_write_after(1);
    Settings::update(&store, "a", Box::new(|_| Change::Keep)).await.unwrap();
    Secrets::set(&store, "s", Secret::new("one".to_owned())).await.unwrap();
    let failed = Settings::set(&store, "a", json!(2)).await.unwrap_err();
    assert_eq!(failed.code(), "store_unavailable");
    assert_eq!(Settings::get(&store, "a").await, Ok(Some(json!(1))));
    Settings::set(&store, "a", json!(3)).await.unwrap();
    assert_eq!(Settings::get(&store, "a").await, Ok(Some(json!(3))));
}

#[tokio::test]
async fn an_equal_value_is_not_written_again() {
    let store = MemoryStore::new();
    let list = [Target {
        id: "t".to_owned(),
        name: "T".to_owned(),
        base_url: "http://t".to_owned(),
        enabled: true,
        other: Map::new(),
    }];
    store.set_as(setting::TARGETS, &list).await.unwrap();
    store.fail_write_after(0);
    let length = store
        .update_list(setting::TARGETS, |list: &mut Vec<Target>| {
            Ok::<_, PortError>(list.len())
        })
        .await
        .expect("an unchanged list needs no write");
    assert_eq!(length, 1);
    let absent = store
        .update_list("absent", |_: &mut Vec<Target>| Ok::<_, PortError>(()))
        .await;
    assert_eq!(absent, Ok(()), "an empty list is not created");
    let changed = store
        .update_list(setting::TARGETS, |list: &mut Vec<Target>| {
            list.clear();
            Ok::<_, PortError>(())
        })
        .await;
    assert_eq!(changed.map_err(|error| error.code()), Err("store_unavailable"));
    assert_eq!(
        store
            .get_as::<Vec<Target>>(setting::TARGETS)
            .await
            .unwrap()
            .unwrap()
            .len(),
        1
    );
}
