//! A store that fails: the call fails with a code, nothing is half written, and the next call works.

use super::Fixture;
use goblin_ports::{MemoryStore, Secrets, Settings, secret, setting};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

/// What is stored, as far as these calls change it.
async fn stored(store: &MemoryStore) -> Vec<Option<Value>> {
    let mut all = Vec::new();
    for name in [
        setting::TARGETS,
        setting::AGENTS,
        setting::GATEWAYS,
        setting::CONTROLLER,
        setting::TLS_METADATA,
        setting::PENDING_PAIRINGS,
    ] {
        all.push(Settings::get(store, name).await.unwrap());
    }
    for name in [
        secret::gateway("worker"),
        secret::gateway_public_key("worker"),
        secret::TLS_KEY.to_owned(),
        secret::TLS_CERT.to_owned(),
        secret::TLS_CA.to_owned(),
    ] {
        let secret = Secrets::get(store, &name).await.unwrap();
        all.push(secret.map(|secret| json!(secret.expose())));
    }
    all
}

#[tokio::test]
async fn a_call_that_cannot_write_changes_nothing() {
    let now = std::time::SystemTime::now();
    let made = goblin_keys::certificate::generate("given", &["given".to_owned()], now).unwrap();
    let prepare = [
        (
            Method::POST,
            "/targets",
            json!({"id": "old", "name": "O", "baseUrl": "http://o"}),
        ),
        (Method::POST, "/api/agents", json!({"id": "old"})),
    ];
    let calls = [
        (
            Method::POST,
            "/targets",
            json!({"id": "a", "name": "A", "baseUrl": "http://a"}),
        ),
        (Method::PUT, "/targets/old", json!({"name": "N", "baseUrl": "http://n"})),
        (Method::DELETE, "/targets/old", Value::Null),
        (Method::POST, "/api/agents", json!({"id": "a"})),
        (Method::PATCH, "/api/agents/old", json!({"name": "New"})),
        (Method::PUT, "/gateway-trust/worker", json!({"secret": "s"})),
        (
            Method::PUT,
            "/controller",
            json!({"enabled": true, "host": "127.0.0.1", "port": 7443}),
        ),
        (
            Method::PUT,
            "/controller/tls",
            json!({"key": *made.key_pem, "cert": made.cert_pem}),
        ),
    ];
    for (method, path, body) in calls {
        let fixture = Fixture::new().await;
        let mut client = fixture.client().await;
        for (method, path, body) in &prepare {
            let (status, _) = client.json(method.clone(), path, body).await;
            assert_eq!(status, StatusCode::CREATED);
        }
        // Each write of the call fails once, until all of them have been let through.
        let mut failures = 0;
        for successes in 0.. {
            let before = stored(&fixture.store).await;
            fixture.store.fail_write_after(successes);
            let (status, answer) = client.json(method.clone(), path, &body).await;
            if status.is_success() {
                break;
            }
            assert_eq!(
                (status, &answer["error"]),
                (StatusCode::SERVICE_UNAVAILABLE, &json!("store_unavailable")),
                "{method} {path}"
            );
            let after = stored(&fixture.store).await;
            // An enrolment is whole once its secret and its record are there; what fails after them is the removal of
            // what has no effect any more.
            let enrolled = path.starts_with("/gateway-trust") && successes >= 2 && {
                let records = Settings::get(&*fixture.store, setting::GATEWAYS).await.unwrap();
                records.unwrap()[0]["method"] == "hmac"
            };
            assert!(after == before || enrolled, "{method} {path} after {successes} writes");
            failures += 1;
            assert!(failures < 20, "{method} {path} never succeeds");
        }
        assert!(failures > 0, "{method} {path} writes nothing");
    }
}
