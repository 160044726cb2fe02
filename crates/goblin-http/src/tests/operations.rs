//! One operation, on record and in memory, and its closing by an operator's word.

use super::{Fixture, exec};
use hyper::StatusCode;
use serde_json::json;

#[tokio::test]
async fn an_operation_is_shown_from_record_and_memory() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready("worker").await;
    let mut client = fixture.client().await;
    let mut body = exec("op:1");
    body["toolCallId"] = json!("call-7");
    let mut lines = client.lines("/gateways/worker/processes", &body).await;
    let request = gateway.request("process.exec").await;
    gateway.accept(&request).await;
    lines.next().await.unwrap();
    let mut other = fixture.client().await;
    let shown = other.get("/operations/op%3A1").await;
    assert_eq!(shown["correlation"]["state"], "dispatching");
    assert_eq!(shown["correlation"]["toolCallId"], "call-7");
    assert_eq!(shown["correlation"]["terminalReference"], json!(null));
    assert_eq!(shown["activity"][0]["state"], "running");
    gateway.end(&request).await;
    lines.next().await.unwrap();
    let shown = other.get("/operations/op:1").await;
    assert_eq!(shown["correlation"]["state"], "terminal");
    assert_eq!(shown["correlation"]["terminalReference"]["operationId"], "op:1");
    assert_eq!(shown["activity"][0]["terminalOutcome"], "completed");
    let (status, answer) = other.post("/operations/op:1/resolve", json!({"note": "n"})).await;
    assert_eq!(
        (status, &answer["error"]),
        (StatusCode::CONFLICT, &json!("operation_already_terminal"))
    );
}

#[tokio::test]
async fn an_operators_word_closes_what_is_not_known() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready("worker").await;
    let mut client = fixture.client().await;
    let ((status, _), ()) = tokio::join!(client.post("/gateways/worker/processes", exec("op-1")), async {
        let request = gateway.request("process.exec").await;
        gateway.accept(&request).await;
        drop(gateway);
    });
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let shown = client.get("/operations/op-1").await;
    assert_eq!(
        (&shown["correlation"]["state"], &shown["activity"][0]["state"]),
        (&json!("dispatching"), &json!("interrupted"))
    );
    let resolve = "/operations/op-1/resolve";
    for body in [
        json!({}),
        json!({"note": ""}),
        json!({"note": " \n"}),
        json!({"note": 5}),
        json!({"note": "a\u{0}b"}),
        json!({"note": "x".repeat(4097)}),
    ] {
        let (status, answer) = client.post(resolve, body.clone()).await;
        assert_eq!(
            (status.as_u16(), &answer["error"]),
            (400, &json!("note_invalid")),
            "{body}"
        );
    }
    for note in ["the host was reinstalled", "and its disk is gone"] {
        let (status, answer) = client.post(resolve, json!({"note": note})).await;
        let correlation = &answer["correlation"];
        assert_eq!(
            (status, &correlation["state"], &correlation["note"]),
            (StatusCode::OK, &json!("resolved"), &json!(note))
        );
        assert_eq!(client.get("/operations/op-1").await["correlation"], *correlation);
    }
}

#[tokio::test]
async fn operations_that_are_not_there_or_cannot_be() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    let long = "x".repeat(257);
    for (id, status, code) in [
        ("unknown", 404, "operation_not_found"),
        ("a%20b", 400, "operation_id_invalid"),
        ("%2e%2e%2fetc", 400, "operation_id_invalid"),
        ("%ff", 400, "operation_id_invalid"),
        (":a", 400, "operation_id_invalid"),
        (&long, 400, "operation_id_invalid"),
    ] {
        let path = format!("/operations/{id}");
        let (found, answer) = client.json(hyper::Method::GET, &path, &json!(null)).await;
        assert_eq!((found.as_u16(), &answer["error"]), (status, &json!(code)), "{path}");
        let (found, answer) = client.post(&format!("{path}/resolve"), json!({"note": "n"})).await;
        assert_eq!((found.as_u16(), &answer["error"]), (status, &json!(code)), "{path}");
    }
}
