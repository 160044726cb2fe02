//! Requests that are not as they should be.

use super::client::answer;
use super::{Fixture, PATIENCE, exec};
use crate::server::Patience;
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use hyper::{Method, Request, StatusCode};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

#[tokio::test]
async fn unknown_paths_and_methods_have_their_codes() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    for (method, path, status, code) in [
        (Method::GET, "/nothing", 404, "not_found"),
        (Method::GET, "", 404, "not_found"),
        (Method::GET, "/gateways/", 404, "not_found"),
        (Method::GET, "/pairings/a/b/approve", 404, "not_found"),
        (Method::GET, "/../../etc/passwd", 404, "not_found"),
        (Method::DELETE, "/gateways", 405, "method_not_allowed"),
        (Method::OPTIONS, "/gateways", 405, "method_not_allowed"),
        (Method::GET, "/pairings/a/approve", 405, "method_not_allowed"),
        (Method::GET, "/gateways/a/processes", 405, "method_not_allowed"),
    ] {
        let (found, answer) = client.json(method.clone(), path, &Value::Null).await;
        assert_eq!(found.as_u16(), status, "{method} {path}");
        assert_eq!(answer, json!({"ok": false, "error": code}), "{method} {path}");
    }
    let response = client.send(Method::HEAD, "/gateways", &[], "").await;
    assert_eq!(response.status(), StatusCode::OK);
}

#[tokio::test]
async fn bodies_that_are_no_json_object_are_refused() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    let json_type = ("content-type", "application/json");
    let path = "/gateways/worker/processes";
    let over = format!("{{\"operationId\":\"{}\"}}", "x".repeat(2 * 1024 * 1024));
    for (headers, body, status, code) in [
        (vec![], exec("op").to_string(), 415, "unsupported_media_type"),
        (
            vec![("content-type", "text/plain")],
            exec("op").to_string(),
            415,
            "unsupported_media_type",
        ),
        (
            vec![json_type, ("content-type", "text/plain")],
            exec("op").to_string(),
            415,
            "unsupported_media_type",
        ),
        (vec![json_type], String::new(), 400, "invalid_json"),
        (vec![json_type], "{".to_owned(), 400, "invalid_json"),
        (vec![json_type], "[".repeat(100_000), 400, "invalid_json"),
        (vec![json_type], "[]".to_owned(), 400, "invalid_request"),
        (vec![json_type], "null".to_owned(), 400, "invalid_request"),
        (vec![json_type], "{}".to_owned(), 400, "operation_id_invalid"),
        (
            vec![json_type],
            r#"{"operationId":5}"#.to_owned(),
            400,
            "operation_id_invalid",
        ),
        (
            vec![json_type],
            r#"{"operationId":"a b"}"#.to_owned(),
            400,
            "operation_id_invalid",
        ),
        (
            vec![json_type],
            r#"{"operationId":"a","parentRunId":5}"#.to_owned(),
            400,
            "invalid_request",
        ),
        (
            vec![json_type],
            r#"{"operationId":"a","traceContext":5}"#.to_owned(),
            400,
            "trace_context_invalid",
        ),
        (
            vec![("content-type", "application/json; charset=utf-8")],
            exec("op").to_string(),
            503,
            "gateway_not_connected",
        ),
        // Of doubled keys the last counts.
        (
            vec![json_type],
            r#"{"operationId":5,"operationId":"a"}"#.to_owned(),
            503,
            "gateway_not_connected",
        ),
        (vec![json_type], over, 413, "payload_too_large"),
    ] {
        let shown = body.chars().take(60).collect::<String>();
        let (found, answer) = answer(client.send(Method::POST, path, &headers, body).await).await;
        assert_eq!(
            (found.as_u16(), answer["error"].as_str().unwrap()),
            (status, code),
            "{headers:?} {shown}"
        );
        if status == 413 {
            // The rest of the body is not read.
            client = fixture.client().await;
        }
    }
    let bytes: &[u8] = b"{\"operationId\":\"\xff\"}";
    let (status, answer) = answer(client.send(Method::POST, path, &[json_type], bytes).await).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_json"))
    );
    let (status, answer) = client.post("/pairings/worker/approve", json!({"pairingCode": 5})).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_request"))
    );
}

#[tokio::test]
async fn ids_in_paths_keep_their_grammar_however_they_are_written() {
    let fixture = Fixture::new().await;
    let _gateway = fixture.ready("Worker").await;
    let mut client = fixture.client().await;
    let long = "x".repeat(256);
    for id in [
        "local",
        "publicKey.x",
        "a%2Fb",
        "%2e%2e",
        "..%2f..",
        "a%00",
        "%ff",
        "%c3%bc",
        "a%20b",
        "%252e",
        "-a",
        &long,
    ] {
        let (status, answer) = client.post(&format!("/gateways/{id}/processes"), exec("op")).await;
        assert_eq!(
            (status.as_u16(), &answer["error"]),
            (400, &json!("target_id_invalid")),
            "{id}"
        );
        for (method, path) in [
            (Method::POST, format!("/pairings/{id}/approve")),
            (Method::POST, format!("/pairings/{id}/reject")),
            (Method::DELETE, format!("/gateway-trust/{id}")),
            (Method::POST, format!("/gateways/{id}/operations/op/cancel")),
        ] {
            let (status, answer) = client.json(method, &path, &Value::Null).await;
            assert_eq!(
                (status.as_u16(), &answer["error"]),
                (400, &json!("target_id_invalid")),
                "{path}"
            );
        }
    }
    let (_, answer) = client.post("/gateways/worker/processes", exec("op")).await;
    assert_eq!(answer["error"], "gateway_not_connected", "ids are case-sensitive");
    let (status, answer) = client
        .post("/gateways/Worker/operations/a%20b/cancel", Value::Null)
        .await;
    assert_eq!(
        (status.as_u16(), &answer["error"]),
        (400, &json!("operation_id_invalid"))
    );
}

#[tokio::test]
async fn limits_are_clamped() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    for (query, limit) in [
        ("", 50),
        ("?limit=3", 3),
        ("?limit=0", 1),
        ("?limit=-4", 1),
        ("?limit=999", 256),
        ("?limit=99999999999999999999", 256),
        ("?limit=2.5", 50),
        ("?limit=", 50),
        ("?limit=x", 50),
        ("?limit=3&limit=4", 4),
        ("?%ff=1", 50),
    ] {
        assert_eq!(
            client.get(&format!("/operations{query}")).await["limit"],
            limit,
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_panic_becomes_an_answer_without_details() {
    let router: Router = Router::new()
        .route("/", get(async || -> &'static str { panic!("a secret of ours") }))
        .layer(axum::middleware::from_fn(crate::routes::contain_panics));
    let service = router.into_service::<Body>();
    let request = Request::builder().uri("/").body(Body::empty()).unwrap();
    let response = hyper::service::Service::call(&hyper_util::service::TowerToHyperService::new(service), request)
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert_eq!(body, r#"{"ok":false,"error":"internal_error"}"#);
}

/// What the server says on a connection until it closes it.
async fn raw(fixture: &Fixture, text: &[u8]) -> String {
    let mut stream = UnixStream::connect(&fixture.path).await.unwrap();
    stream.write_all(text).await.unwrap();
    let mut said = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut said)).await.unwrap().unwrap();
    String::from_utf8(said).unwrap()
}

#[tokio::test]
async fn slow_clients_are_not_waited_for() {
    let brief = Duration::from_millis(100);
    let fixture = Fixture::with(Patience {
        head: brief,
        body: brief,
        finish: brief,
        ..Patience::default()
    })
    .await;
    // A head that never ends.
    let said = raw(&fixture, b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").await;
    assert!(!said.contains("200"), "{said}");
    // A body that never comes.
    let head = b"POST /api/mods/node-goblin/gateways/w/processes HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
        content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let said = raw(&fixture, head).await;
    assert!(
        said.starts_with("HTTP/1.1 408 ") && said.ends_with(r#"{"ok":false,"error":"request_timeout"}"#),
        "{said}"
    );
    // No HTTP at all.
    let said = raw(&fixture, b"\x16\x03\x01 hello\r\n\r\n").await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 400"), "{said}");
}
