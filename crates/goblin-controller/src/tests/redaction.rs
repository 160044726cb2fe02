//! The enrolment secret never comes back through a dispatch.

use super::Fixture;
use super::gateway::{Host, evidence, result};
use crate::redaction::{Screen, redact};
use bytes::Bytes;
use goblin_client::{Body, Envelope};
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

/// What comes out of a screen, envelope by envelope as it may; `|` parts what each push let out.
fn screened(secret: &str, events: &[(&str, &str)]) -> String {
    let mut screen = Screen::new(Redactor::new(&[secret]));
    let mut seen = Vec::new();
    let mut take = |screen: &mut Screen| {
        let mut out = Vec::new();
        while let Some(envelope) = screen.pop() {
            let frame: Value = serde_json::from_slice(&envelope.text).unwrap();
            let read = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
            if let Body::Stream { event, .. } = &envelope.body {
                assert_eq!(event.data, read("data"), "body and text agree");
            }
            out.push(match frame["type"].as_str().unwrap() {
                "process.stream" => format!("{}{}:{}", &read("stream")[3..], frame["seq"], read("data")),
                _ => "end".to_owned(),
            });
        }
        seen.push(out.join(","));
    };
    for (index, (stream, data)) in events.iter().enumerate() {
        let frame = match *stream {
            "end" => json!({"type": "process.terminal", "operationId": "op", "seq": index + 1, "evidence": {}}),
            _ => {
                json!({"type": "process.stream", "operationId": "op", "stream": stream, "seq": index + 1, "data": data, "truncated": false})
            }
        };
        screen.push(Envelope::read(Bytes::from(frame.to_string())).unwrap());
        take(&mut screen);
    }
    screen.finish();
    take(&mut screen);
    seen.join("|")
}

#[test]
fn a_secret_split_over_events_is_masked_and_nothing_else_is_lost_or_reordered() {
    let (out, err, end) = ("stdout", "stderr", ("end", ""));
    for (events, expected) in [
        (
            &[(out, "a sec"), (out, "ret b"), end][..],
            "|out1:a ,out2:[redacted] b|end|",
        ),
        // Each of three parts; the other stream waits its turn and is looked at by itself.
        (
            &[(out, "s"), (err, "ecret"), (out, "ecre"), (err, "x"), (out, "t!"), end],
            "||out1:,err2:ecret|||out3:,err4:x,out5:[redacted]!|end|",
        ),
        // What only began like it comes out whole, where it began or with what follows.
        (&[(out, "a se"), (out, "e b"), end], "|out1:a ,out2:see b|end|"),
        (&[(out, "bless"), end], "|out1:bless,end|"),
        (&[(out, "bless"), (err, "es"), end], "||out1:bless,err2:es,end|"),
        (&[(out, "bless")], "|out1:bless"),
        (&[(out, "secret"), (out, "sec"), end], "out1:[redacted]||out2:sec,end|"),
        (&[(out, "plain"), (err, "plain"), end], "out1:plain|err2:plain|end|"),
    ] {
        // The tables are written by hand: the parts that say nothing are left out.
        let tidy = |text: String| {
            text.split('|')
                .filter(|it| !it.is_empty())
                .collect::<Vec<_>>()
                .join("|")
        };
        assert_eq!(
            tidy(screened("secret", events)),
            tidy(expected.to_owned()),
            "{events:?}"
        );
    }
    // Characters of several bytes.
    assert_eq!(
        screened("gö🦀", &[(out, "x gö"), (out, "🦀 y")]),
        "|out1:x ,out2:[redacted] y|"
    );
}

#[test]
fn what_waits_behind_the_beginning_of_a_secret_is_bounded() {
    let much = "x".repeat(600_000);
    let events = [("stdout", "s"), ("stderr", &*much), ("stderr", &*much), ("stdout", "x")];
    let seen = screened("secret", &events);
    let parts: Vec<_> = seen.split('|').map(str::len).collect();
    assert!(parts[0] == 0 && parts[1] == 0 && parts[2] > 1_200_000, "{parts:?}");
    assert!(seen.contains("out1:s,") && seen.contains("out4:x"));
}

#[tokio::test]
async fn a_secret_in_two_writes_is_masked_in_a_live_dispatch() {
    let fixture = Fixture::new().await;
    fixture
        .controller
        .enrol("worker", None, Secret::new("s3cret".to_owned()))
        .await
        .unwrap();
    let host = Host::hmac("worker", "s3cret");
    let mut gateway = fixture.again(&host).await;
    let mut live = fixture.dispatch(&host, "op-1").await;
    let request = gateway.request("process.exec").await;
    gateway.accept(&request).await;
    gateway.output("op-1", 1, "it is s3c").await;
    gateway.output("op-1", 2, "ret; s").await;
    drop(gateway);
    let mut data = String::new();
    let lost = loop {
        match live.next().await.unwrap() {
            Ok(envelope) => {
                if let Body::Stream { event, .. } = envelope.body {
                    data.push_str(&event.data);
                }
            }
            Err(error) => break error,
        }
    };
    assert_eq!(
        (data.as_str(), lost.code()),
        ("it is [redacted]; s", "gateway_disconnected")
    );
    assert!(live.next().await.is_none());
}
