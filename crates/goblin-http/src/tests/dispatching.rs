//! Dispatches line by line and gathered, and what a client that leaves brings about.

use super::{Fixture, exec};
use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

#[tokio::test]
async fn each_envelope_is_a_line_as_it_arrives() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready("worker").await;
    let mut client = fixture.client().await;
    let mut lines = client.lines("/gateways/worker/processes", &exec("op-1")).await;
    let request = gateway.request("process.exec").await;
    gateway.accept(&request).await;
    assert_eq!(lines.next().await.unwrap()["type"], "accepted");
    for seq in 1..=3 {
        // Each is seen before the next is sent.
        gateway.output(&request, seq, "x\n").await;
        assert_eq!(lines.next().await.unwrap()["seq"], seq);
    }
    gateway.end(&request).await;
    let last = lines.next().await.unwrap();
    assert_eq!(
        (&last["type"], &last["requestId"]),
        (&json!("response"), &request["id"])
    );
    assert_eq!(lines.next().await, None);
    // The connection serves on.
    assert_eq!(client.get("/operations").await["operations"][0]["state"], "terminal");
}

#[tokio::test]
async fn a_lost_gateway_is_the_last_line_or_the_answer() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready("worker").await;
    let (mut first, mut second) = (fixture.client().await, fixture.client().await);
    let mut lines = first.lines("/gateways/worker/processes", &exec("op-1")).await;
    let request = gateway.request("process.exec").await;
    gateway.accept(&request).await;
    lines.next().await.unwrap();
    let ((status, gathered), ()) = tokio::join!(second.post("/gateways/worker/processes", exec("op-2")), async {
        gateway.request("process.exec").await;
        drop(gateway);
    });
    let retry = json!({"gatewayId": "worker", "retryable": true, "action": "retry_same_operation_id_after_reconnect"});
    let mut error = retry.clone();
    error["code"] = json!("gateway_disconnected");
    assert_eq!(
        lines.next().await,
        Some(json!({"type": "dispatch.error", "error": error}))
    );
    assert_eq!(lines.next().await, None);
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    let mut expected = retry;
    for (name, value) in [
        ("ok", json!(false)),
        ("error", json!("gateway_disconnected")),
        ("operationId", json!("op-2")),
    ] {
        expected[name] = value;
    }
    assert_eq!(gathered, expected);
    let operations = first.get("/operations").await;
    assert_eq!(operations["operations"][1]["reconnectRequired"], true);
}

#[tokio::test]
async fn what_the_gateway_refuses_is_still_an_answer() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready("worker").await;
    let mut client = fixture.client().await;
    let body = json!({"operationId": "op-1", "command": " "});
    let ((status, answer), ()) = tokio::join!(client.post("/gateways/worker/processes", body), async {
        let request = gateway.request("process.exec").await;
        let error = json!({"code": "command_invalid", "operationId": "op-1"});
        gateway
            .send(json!({"type": "response", "requestId": request["id"], "ok": false, "error": error}))
            .await;
    });
    assert_eq!((status, &answer["ok"]), (StatusCode::OK, &json!(true)));
    assert_eq!(answer["dispatch"]["accepted"], Value::Null);
    assert_eq!(answer["dispatch"]["response"]["error"]["code"], "command_invalid");
}

#[tokio::test]
async fn only_known_members_are_sent_on() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready("worker").await;
    let mut client = fixture.client().await;
    let sent = json!({"command": "true", "args": [], "cwd": "/", "env": {"A": 1}, "timeoutMs": 5, "deadlineMs": 6,
        "maxOutputBytes": 7, "protectedBindingMetadata": {"a": 1}});
    let mut body = sent.clone();
    for (name, value) in [
        ("operationId", json!("op-1")),
        ("parentRunId", json!("run")),
        ("toolCallId", json!("call")),
        ("protectedDelivery", json!({"forged": true})),
        ("unknown", json!(1)),
    ] {
        body[name] = value;
    }
    let (_, request) = tokio::join!(client.post("/gateways/worker/processes", body), async {
        let request = gateway.request("process.exec").await;
        gateway.end(&request).await;
        request
    });
    let mut expected = sent;
    expected["operationId"] = json!("op-1");
    assert_eq!(request["params"], expected);

    let body = json!({"operationId": "op-2", "tool": "files_read", "arguments": {"path": "/x"}, "protectedValues": {"A": "b"}});
    let (_, request) = tokio::join!(client.post("/gateways/worker/filesystem", body), async {
        let request = gateway.request("filesystem.execute").await;
        gateway.end(&request).await;
        request
    });
    assert_eq!(
        request["params"],
        json!({"operationId": "op-2", "tool": "files_read", "arguments": {"path": "/x"}})
    );
}

#[tokio::test]
async fn a_client_that_leaves_cancels_only_when_it_said_so() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready("worker").await;
    let path = "/gateways/worker/processes";
    for (operation_id, query) in [("stays", ""), ("ends", "?cancelOnDisconnect=true")] {
        let mut client = fixture.client().await;
        let mut lines = client.lines(&format!("{path}{query}"), &exec(operation_id)).await;
        let request = gateway.request("process.exec").await;
        gateway.accept(&request).await;
        lines.next().await.unwrap();
    }
    // The first thing that comes is the cancel of the second; the first one goes on.
    let cancel = gateway.request("cancel").await;
    assert_eq!(cancel["params"], json!({"operationId": "ends"}));
    gateway
        .answer(&cancel, json!({"operationId": "ends", "cancelling": true}))
        .await;

    // Gathered, the same.
    let mut client = fixture.client().await;
    let cancelling = format!("{path}?cancelOnDisconnect=true");
    tokio::select! {
        _ = client.post(&cancelling, exec("gathered")) => panic!("nobody answered"),
        _ = gateway.request("process.exec") => {}
    }
    drop(client);
    let cancel = gateway.request("cancel").await;
    assert_eq!(cancel["params"], json!({"operationId": "gathered"}));

    // One that was answered is not cancelled: what comes next is the next request.
    let mut client = fixture.client().await;
    let mut lines = client
        .lines(&format!("{path}?cancelOnDisconnect=true"), &exec("answered"))
        .await;
    let request = gateway.request("process.exec").await;
    gateway.end(&request).await;
    assert_eq!(lines.next().await.unwrap()["type"], "response");
    drop(client);
    let mut client = fixture.client().await;
    let (_, request) = tokio::join!(client.post(path, exec("next")), async {
        let request = gateway.receive().await.unwrap();
        gateway.end(&request).await;
        request
    });
    assert_eq!(request["params"]["operationId"], "next");
}

#[tokio::test]
async fn a_cancel_gives_the_gateways_answer() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready("worker").await;
    let mut client = fixture.client().await;
    let ((status, answer), ()) = tokio::join!(
        client.post("/gateways/worker/operations/op:1/cancel", Value::Null),
        async {
            let request = gateway.request("cancel").await;
            gateway
                .answer(&request, json!({"operationId": "op:1", "cancelling": false}))
                .await;
        }
    );
    assert_eq!((status, &answer["operationId"]), (StatusCode::OK, &json!("op:1")));
    assert_eq!(answer["dispatch"]["response"]["result"]["cancelling"], false);
}

#[tokio::test]
async fn a_client_that_leaves_at_once_cancels_what_it_began() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready("worker").await;
    for round in 0..20 {
        let body = exec(&format!("op-{round}")).to_string();
        let head = format!(
            "POST /api/mods/node-goblin/gateways/worker/processes?cancelOnDisconnect=true HTTP/1.1\r\nhost: x\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = UnixStream::connect(&fixture.path).await.unwrap();
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        drop(stream);
        // Never the other way round.
        for method in ["process.exec", "cancel"] {
            let frame = gateway.receive().await.unwrap();
            assert_eq!(
                (&frame["method"], &frame["params"]["operationId"]),
                (&json!(method), &json!(format!("op-{round}")))
            );
        }
    }
}
