//! The enrolment secret never comes back through a dispatch.

use super::Fixture;
use super::gateway::{Host, evidence, result};
use crate::redaction::redact;
use bytes::Bytes;
use goblin_client::Envelope;
use goblin_ports::Secret;
use goblin_redact::Redactor;
use serde_json::{Value, json};

#[tokio::test]
async fn a_host_that_prints_its_secret_hands_on_a_mark() {
    let fixture = Fixture::new().await;
    let secret = "s3\"cret\\ü";
    fixture
        .controller
        .enrol("worker", None, Secret::new(secret.to_owned()))
        .await
        .unwrap();
    let host = Host::hmac("worker", secret);
    let mut gateway = fixture.again(&host).await;
    let dispatch = fixture.dispatch(&host, "op-1").await;
    let request = gateway.request("process.exec").await;
    gateway.accept(&request).await;
    gateway.output("op-1", 1, &format!("SECRET={secret}\n")).await;
    let mut outcome = evidence(0);
    outcome["stdout"] = json!(format!("SECRET={secret}\n"));
    gateway.terminal("op-1", 2, &outcome).await;
    gateway.answer(&request, result("op-1", outcome)).await;
    let collected = dispatch.collect().await.unwrap();
    for envelope in collected.events.iter().chain(&collected.response) {
        let frame: Value = serde_json::from_slice(&envelope.text).unwrap();
        let text = frame.to_string();
        assert!(
            text.contains("SECRET=[redacted]") && !text.contains("cret\\\\"),
            "{text}"
        );
    }
    assert_eq!(collected.evidence_stdout(), "SECRET=[redacted]\n");
}

trait Stdout {
    fn evidence_stdout(&self) -> String;
}

impl Stdout for goblin_client::Collected {
    fn evidence_stdout(&self) -> String {
        let outcome: Value = serde_json::from_str(self.result().unwrap().outcome.get()).unwrap();
        outcome["stdout"].as_str().unwrap().to_owned()
    }
}

#[test]
fn structure_survives_any_secret() {
    let text = r#"{"type":"process.stream","operationId":"data","stream":"stdout","seq":1,"data":"a data b","truncated":false}"#;
    let nested =
        r#"{"type":"response","requestId":"data","ok":true,"result":{"z":["data","\u0064ata"],"data":{"a":1.50}}}"#;
    for (secret, input, expected) in [
        (
            "data",
            text,
            r#""operationId":"data","stream":"stdout","seq":1,"data":"a [redacted] b""#,
        ),
        (
            "data",
            nested,
            r#""requestId":"data","ok":true,"result":{"z":["[redacted]","[redacted]"],"data":{"a":1.50}}"#,
        ),
        ("true", nested, nested),
        ("\"", text, text),
        ("1", text, text),
    ] {
        let envelope = Envelope::read(Bytes::from_static(input.as_bytes())).unwrap();
        let redacted = redact(&Redactor::new(&[secret]), envelope);
        let text = std::str::from_utf8(&redacted.text).unwrap();
        assert!(text.contains(expected), "{secret}: {text}");
        assert!(serde_json::from_str::<Value>(text).is_ok());
    }
}
