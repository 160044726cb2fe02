//! API targets.

use super::Fixture;
use goblin_ports::{Settings, setting};
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

#[tokio::test]
async fn targets_are_added_replaced_and_removed() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    assert_eq!(client.get("/targets").await, json!({"ok": true, "targets": []}));
    let body = json!({"id": "staging", "name": " Staging ", "baseUrl": "HTTPS://Staging.Example:443/api//"});
    let (status, answer) = client.post("/targets", body.clone()).await;
    let target = json!({"id": "staging", "name": "Staging", "baseUrl": "https://staging.example/api", "enabled": true});
    assert_eq!((status, &answer["target"]), (StatusCode::CREATED, &target));
    let (status, answer) = client.post("/targets", body).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::CONFLICT, &json!("api_target_exists"))
    );
    // The id may be left out, since the path has it; the whole target is replaced.
    let body = json!({"name": "S", "baseUrl": "http://[::1]:8080/", "enabled": false});
    let (status, answer) = client.json(Method::PUT, "/targets/staging", &body).await;
    let target = json!({"id": "staging", "name": "S", "baseUrl": "http://[::1]:8080", "enabled": false});
    assert_eq!((status, &answer["target"]), (StatusCode::OK, &target));
    assert_eq!(client.get("/targets").await["targets"], json!([target]));
    let other = json!({"id": "Staging", "name": "S", "baseUrl": "http://x"});
    let (status, answer) = client.json(Method::PUT, "/targets/staging", &other).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::BAD_REQUEST, &json!("target_id_immutable"))
    );
    let (status, answer) = client.json(Method::PUT, "/targets/Staging", &other).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::NOT_FOUND, &json!("api_target_not_found"))
    );
    let (status, answer) = client.json(Method::DELETE, "/targets/staging", &Value::Null).await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"ok": true})));
    let (status, answer) = client.json(Method::DELETE, "/targets/staging", &Value::Null).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::NOT_FOUND, &json!("api_target_not_found"))
    );
}

#[tokio::test]
async fn what_another_version_wrote_survives() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    let stored = json!([{"id": "a", "name": "A", "baseUrl": "http://a", "enabled": true, "colour": "red"}]);
    Settings::set(&*fixture.store, setting::TARGETS, stored).await.unwrap();
    let body = json!({"name": "B", "baseUrl": "http://b"});
    let (status, answer) = client.json(Method::PUT, "/targets/a", &body).await;
    assert_eq!((status, &answer["target"]["colour"]), (StatusCode::OK, &Value::Null));
    let stored = Settings::get(&*fixture.store, setting::TARGETS).await.unwrap().unwrap();
    assert_eq!(
        stored,
        json!([{"id": "a", "name": "B", "baseUrl": "http://b", "enabled": true, "colour": "red"}])
    );
}

#[tokio::test]
async fn each_member_has_its_rule() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    let valid = || json!({"id": "a", "name": "A", "baseUrl": "http://a"});
    let with = |member: &str, value: Value| {
        let mut body = valid();
        body[member] = value;
        body
    };
    let long = "x".repeat(256);
    let mut cases = vec![
        (json!({}), "target_id_invalid"),
        (json!({"id": "a"}), "target_name_required"),
        (json!({"id": "a", "name": "A"}), "target_base_url_invalid"),
        (with("enabled", json!("yes")), "invalid_request"),
        (with("enabled", Value::Null), "invalid_request"),
        (with("name", json!(&long)), "target_name_invalid"),
    ];
    for id in ["", "local", "publicKey.a", "a/b", "..", "a b", "ä", "-a", &long] {
        cases.push((with("id", json!(id)), "target_id_invalid"));
    }
    for name in [json!(""), json!(" \t"), json!(5), Value::Null] {
        cases.push((with("name", name), "target_name_required"));
    }
    for url in [
        "",
        "a",
        "//a",
        "http://",
        "ftp://a",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://user@a",
        "http://@a",
        "http://user:secret@a",
        "http://:secret@a",
        "http://a?",
        "http://a/?q=1",
        "http://a#",
        "http://a/#f",
        "http://a:65536",
        "http://[::1",
        "http://a b",
    ] {
        cases.push((with("baseUrl", json!(url)), "target_base_url_invalid"));
    }
    let far = format!("http://a/{}", "x".repeat(2048));
    cases.push((with("baseUrl", json!(far)), "target_base_url_invalid"));
    cases.push((with("baseUrl", json!(["http://a"])), "target_base_url_invalid"));
    for (body, code) in cases {
        let (status, answer) = client.post("/targets", body.clone()).await;
        assert_eq!(
            (status, &answer["error"]),
            (StatusCode::BAD_REQUEST, &json!(code)),
            "{body}"
        );
    }
    assert_eq!(client.get("/targets").await["targets"], json!([]));
    for id in ["local", "a%2Fb", "%2e%2e", "%ff", &long] {
        for (method, body) in [
            (Method::PUT, json!({"name": "A", "baseUrl": "http://a"})),
            (Method::DELETE, Value::Null),
        ] {
            let (status, answer) = client.json(method, &format!("/targets/{id}"), &body).await;
            assert_eq!(
                (status, &answer["error"]),
                (StatusCode::BAD_REQUEST, &json!("target_id_invalid")),
                "{id}"
            );
        }
    }
}
