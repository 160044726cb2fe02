//! A connection against a scripted gateway in memory.

use crate::{Body, ClientError, Connection, EVENT_BYTES_KEPT, Observer, ProcessParams, StreamEvent, start};
use goblin_link::{FrameReader, FrameSender, Received, start_writer};
use goblin_protocol::envelope::OutputStream;
use goblin_protocol::id::RequestId;
use goblin_protocol::limits::FRAME_MAX;
use goblin_protocol::request::Method;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::io::{DuplexStream, ReadHalf, split};
use tokio::task::JoinHandle;

/// The far end: reads requests, sends whatever frames a test wants.
struct Peer {
    reader: FrameReader<ReadHalf<DuplexStream>>,
    sender: FrameSender,
}

impl Peer {
    async fn request(&mut self) -> Value {
        match self.reader.next().await.unwrap() {
            Received::Frame(frame) => serde_json::from_slice(&frame).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn send(&self, frame: Value) {
        self.sender.send(format!("{frame}\n").into_bytes()).await.unwrap();
    }

    async fn accept(&self, id: &Value, operation: &str) {
        self.send(json!({"type": "accepted", "requestId": id, "ok": true, "operationId": operation, "protocolVersion": "1.0"})).await;
    }

    async fn output(&self, operation: &str, seq: u64, data: &str) {
        self.send(json!({"type": "process.stream", "operationId": operation, "stream": "stdout", "seq": seq, "data": data, "truncated": false})).await;
    }

    async fn answer(&self, id: &Value, operation: &str) {
        self.send(json!({"type": "response", "requestId": id, "ok": true, "result": {"operationId": operation, "replay": false, "outcome": {"n": 1}}})).await;
    }
}

fn meet(observer: Option<Arc<dyn Observer>>) -> (Connection, Peer, JoinHandle<Option<String>>) {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (read, write) = split(near);
    let (connection, task) = start(FrameReader::new(read, FRAME_MAX), start_writer(write).0, observer);
    let (read, write) = split(far);
    (
        connection,
        Peer {
            reader: FrameReader::new(read, FRAME_MAX),
            sender: start_writer(write).0,
        },
        task,
    )
}

#[tokio::test]
async fn envelopes_go_to_whoever_asked() {
    let (connection, mut peer, _task) = meet(None);
    let mut first = connection.execute(&ProcessParams::shell("one", "x")).await.unwrap();
    let mut second = connection
        .execute(&ProcessParams::exec("two", "true", ["a"]))
        .await
        .unwrap();
    let (one, two) = (peer.request().await, peer.request().await);
    assert_eq!(
        (one["method"].clone(), one["params"].clone()),
        (json!("process.exec"), json!({"operationId": "one", "command": "x"}))
    );
    assert_eq!(
        two["params"],
        json!({"operationId": "two", "executable": "true", "args": ["a"]})
    );
    peer.accept(&two["id"], "two").await;
    peer.accept(&one["id"], "one").await;
    peer.output("one", 1, "from one").await;
    peer.output("two", 1, "from two").await;
    peer.answer(&two["id"], "two").await;
    peer.answer(&one["id"], "one").await;
    for (dispatch, operation, text) in [(&mut first, "one", "from one"), (&mut second, "two", "from two")] {
        assert_eq!(dispatch.next().await.unwrap().operation_id(), Some(operation));
        let Body::Stream { event, .. } = dispatch.next().await.unwrap().body else {
            panic!()
        };
        assert_eq!(
            event,
            StreamEvent {
                stream: OutputStream::Stdout,
                seq: 1,
                data: text.into(),
                truncated: false
            }
        );
        assert!(matches!(
            dispatch.next().await.unwrap().body,
            Body::Answer { answer: Ok(_), .. }
        ));
        assert!(dispatch.next().await.is_none());
    }
}

#[tokio::test]
async fn a_refused_twin_does_not_take_the_events_of_the_first() {
    let (connection, mut peer, _task) = meet(None);
    let first = connection.execute(&ProcessParams::shell("op", "x")).await.unwrap();
    let one = peer.request().await;
    peer.accept(&one["id"], "op").await;
    let twin = connection.execute(&ProcessParams::shell("op", "x")).await.unwrap();
    let two = peer.request().await;
    peer.send(json!({"type": "response", "requestId": two["id"], "ok": false, "error": {"code": "operation_in_progress", "operationId": "op"}})).await;
    match twin.collect().await.unwrap().result() {
        Err(ClientError::Remote(error)) => assert_eq!(
            (error.code.as_str(), error.operation_id.as_deref()),
            ("operation_in_progress", Some("op"))
        ),
        other => panic!("{other:?}"),
    }
    peer.output("op", 1, "mine").await;
    peer.answer(&one["id"], "op").await;
    let collected = first.collect().await.unwrap();
    assert_eq!(collected.events.len(), 1);
    assert_eq!(collected.result().unwrap().outcome.get(), r#"{"n":1}"#);
}

#[tokio::test]
async fn a_lost_connection_tells_every_dispatch() {
    let (connection, mut peer, task) = meet(None);
    let dispatch = connection.execute(&ProcessParams::shell("op", "x")).await.unwrap();
    let request = peer.request().await;
    peer.accept(&request["id"], "op").await;
    drop(peer);
    assert!(matches!(dispatch.collect().await, Err(ClientError::Disconnected)));
    assert_eq!(task.await.unwrap(), None);
    assert!(connection.is_closed());
    assert!(matches!(connection.cancel("op").await, Err(ClientError::Disconnected)));
}

#[tokio::test]
async fn a_peer_that_breaks_the_protocol_is_left_with_the_reason() {
    for (frame, reason) in [
        ("nonsense\n".to_owned(), "invalid_json"),
        ("[]\n".to_owned(), "invalid_json"),
        (format!("{}\n", "x".repeat(FRAME_MAX)), "frame_too_large"),
        (format!("{}\n", "[".repeat(10_000)), "invalid_json"),
        (
            json!({"type": "transport.error", "ok": false, "error": {"code": "unauthenticated"}}).to_string() + "\n",
            "unauthenticated",
        ),
    ] {
        let (connection, peer, task) = meet(None);
        peer.sender.send(frame.into_bytes()).await.unwrap();
        assert_eq!(task.await.unwrap().as_deref(), Some(reason));
        assert!(connection.is_closed());
    }
}

#[derive(Default)]
struct Unclaimed(Mutex<Vec<String>>);

impl Observer for Unclaimed {
    fn unclaimed(&self, envelope: &crate::Envelope) {
        self.0
            .lock()
            .unwrap()
            .push(String::from_utf8(envelope.text.to_vec()).unwrap());
    }
}

#[tokio::test]
async fn what_nobody_waits_for_goes_to_the_observer() {
    let observer = Arc::new(Unclaimed::default());
    let (connection, mut peer, task) = meet(Some(observer.clone()));
    let dropped = connection.execute(&ProcessParams::shell("op", "x")).await.unwrap();
    let request = peer.request().await;
    drop(dropped);
    peer.accept(&request["id"], "op").await;
    peer.output("earlier", 7, "late \u{1}").await;
    peer.send(json!({"type": "of the future", "x": 1})).await;
    peer.answer(&request["id"], "op").await;
    drop(peer);
    task.await.unwrap();
    let seen = observer.0.lock().unwrap();
    let kinds: Vec<Value> = seen
        .iter()
        .map(|text| serde_json::from_str::<Value>(text).unwrap()["type"].clone())
        .collect();
    assert_eq!(kinds, ["accepted", "process.stream", "of the future", "response"]);
}

#[tokio::test]
async fn a_collected_dispatch_keeps_a_bounded_amount_of_events() {
    let (connection, mut peer, _task) = meet(None);
    let dispatch = connection.execute(&ProcessParams::shell("op", "x")).await.unwrap();
    let request = peer.request().await;
    peer.accept(&request["id"], "op").await;
    let collecting = tokio::spawn(dispatch.collect());
    let data = "x".repeat(256 * 1024);
    for seq in 1..=30 {
        peer.output("op", seq, &data).await;
    }
    peer.answer(&request["id"], "op").await;
    let collected = collecting.await.unwrap().unwrap();
    let kept: usize = collected.events.iter().map(|event| event.text.len()).sum();
    assert!(collected.events_truncated && kept <= EVENT_BYTES_KEPT && kept > EVENT_BYTES_KEPT - data.len() * 2);
    assert!(collected.result().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_takes_nothing_is_given_up_and_others_go_on() {
    let (connection, mut peer, _task) = meet(None);
    let mut stuck = connection.execute(&ProcessParams::shell("stuck", "x")).await.unwrap();
    let request = peer.request().await;
    peer.accept(&request["id"], "stuck").await;
    let sender = peer.sender.clone();
    let flood = tokio::spawn(async move {
        let data = "x".repeat(1024 * 1024);
        for seq in 1..=40 {
            let event = json!({"type": "process.stream", "operationId": "stuck", "stream": "stdout", "seq": seq, "data": data, "truncated": false});
            sender.send(format!("{event}\n").into_bytes()).await.unwrap();
        }
    });
    // The connection waits for the stuck consumer, but not for ever.
    flood.await.unwrap();
    peer.answer(&request["id"], "stuck").await;
    let health = tokio::spawn({
        let connection = connection.clone();
        async move { connection.health().await }
    });
    let asked = peer.request().await;
    peer.send(json!({"type": "response", "requestId": asked["id"], "ok": true, "result": {"status": "ok"}}))
        .await;
    assert_eq!(health.await.unwrap().unwrap(), json!({"status": "ok"}));
    assert!(stuck.events_dropped());
    let mut last = None;
    while let Some(envelope) = stuck.next().await {
        last = Some(envelope);
    }
    assert!(
        matches!(last.unwrap().body, Body::Answer { .. }),
        "the answer comes in any case"
    );
}

#[tokio::test]
async fn requests_are_encoded_once_and_never_over_the_cap() {
    let (connection, mut peer, _task) = meet(None);
    let huge = json!({"pad": "x".repeat(FRAME_MAX)});
    assert!(matches!(
        connection.request(Method::Health, &huge).await,
        Err(ClientError::RequestTooLarge)
    ));
    let odd = tokio::spawn({
        let connection = connection.clone();
        async move {
            connection
                .send(RequestId::text("é\""), Method::Cancel, &json!({}))
                .await
                .unwrap()
                .collect()
                .await
        }
    });
    let request = peer.request().await;
    assert_eq!(request["id"], json!("é\""));
    // An answer that only a JavaScript peer could write.
    peer.sender.send(b"{\"type\":\"response\",\"requestId\":\"\\u00e9\\\"\",\"ok\":true,\"result\":{\"text\":\"\\ud83d\",\"n\":1e300}}\n".to_vec()).await.unwrap();
    let collected = odd.await.unwrap().unwrap();
    let answer = collected.answer().unwrap().as_ref().unwrap();
    assert_eq!(answer.get(), r#"{"text":"\ufffd","n":1e300}"#);
}
