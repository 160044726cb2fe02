//! Streams of live changes.

use super::{Fixture, PATIENCE, SECRET, exec};
use crate::events::Hub;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use goblin_controller::{Controller, ControllerOptions};
use goblin_ports::{Decide, MemoryStore, PortError, Secret, Settings};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::{Method, StatusCode};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
struct Event {
    name: String,
    id: Option<u64>,
    data: Value,
}

fn parse(text: &str) -> Event {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    Event {
        name: field("event").unwrap().to_owned(),
        id: field("id").map(|id| id.parse().unwrap()),
        data: serde_json::from_str(field("data").unwrap()).unwrap(),
    }
}

/// The events of a response.
struct Events {
    body: Incoming,
    text: String,
}

impl Events {
    async fn open(fixture: &Fixture, headers: &[(&str, &str)]) -> (Self, super::client::Client) {
        let mut client = fixture.client().await;
        let response = client.send(Method::GET, "/events", headers, "").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        let events = Self {
            body: response.into_body(),
            text: String::new(),
        };
        (events, client)
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let text: String = self.text.drain(..end + 2).collect();
                return Some(parse(&text));
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.expect("no event came")?;
            self.text
                .push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
    }

    /// The next event that fits; those before it are dropped.
    async fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.next().await.expect("the stream ended");
            if fits(&event) {
                return event;
            }
        }
    }
}

#[tokio::test]
async fn a_stream_begins_with_the_state_and_tells_what_changes() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    let mut gateway = fixture.ready("worker").await;
    let mut stranger = super::Gateway::dial(&fixture.controller).await;
    stranger.stranger("other").await;
    // What it asks to be resumed at makes no difference.
    let (mut events, _connection) = Events::open(&fixture, &[("last-event-id", "7")]).await;
    let first = events.next().await.unwrap();
    assert_eq!((first.name.as_str(), first.id), ("snapshot", Some(0)));
    let state = serde_json::from_value::<goblin_api::events::SnapshotEvent>(first.data).unwrap();
    assert_eq!(state.gateways.len(), 2);
    assert!(state.pairings[0].live && state.operations.is_empty());

    let ((status, _), ()) = tokio::join!(client.post("/gateways/worker/processes", exec("op-1")), async {
        let request = gateway.request("process.exec").await;
        gateway.accept(&request).await;
        let running = events
            .until(|event| event.name == "operation" && event.data["operation"]["state"] == "running")
            .await;
        assert_eq!(running.data["operationId"], "op-1");
        let busy = events.until(|event| event.name == "gateway").await;
        assert_eq!(busy.data["gateway"]["activeOperations"], 1);
        gateway.end(&request).await;
    });
    assert_eq!(status, StatusCode::OK);
    let ended = events
        .until(|event| event.name == "operation" && event.data["operation"]["state"] == "terminal")
        .await;
    assert_eq!(ended.data["operation"]["terminalOutcome"], "completed");
    let idle = events.until(|event| event.name == "gateway").await;
    assert_eq!(idle.data["gateway"]["activeOperations"], 0);
    assert!(idle.id > ended.id);

    fixture.controller.approve("other", None).await.unwrap();
    let approved = events
        .until(|event| event.name == "pairing" && event.data["pairing"].is_null())
        .await;
    assert_eq!(approved.data["gatewayId"], "other");
    drop(gateway);
    let lost = events
        .until(|event| event.name == "gateway" && event.data["gateway"]["status"] == "disconnected")
        .await;
    assert_eq!(lost.data["gatewayId"], "worker");
    fixture.controller.revoke("worker").await.unwrap();
    let gone = events
        .until(|event| event.name == "gateway" && event.data["gateway"].is_null())
        .await;
    assert_eq!(gone.data, json!({"gatewayId": "worker", "gateway": null}));
    drop(stranger);

    // One that comes later begins where things stand.
    let (mut late, _connection) = Events::open(&fixture, &[]).await;
    let first = late.next().await.unwrap();
    assert!(first.name == "snapshot" && first.id >= gone.id);
    assert_eq!(first.data["operations"][0]["operationId"], "op-1");
    assert_eq!(first.data["pairings"], json!([]));
}

#[tokio::test]
async fn streams_do_not_hold_up_the_end_of_the_server() {
    let mut fixture = Fixture::new().await;
    let (mut events, _connection) = Events::open(&fixture, &[]).await;
    events.next().await.unwrap();
    let begun = Instant::now();
    fixture.server.take().unwrap().close().await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(events.next().await.is_none());
}

/// A controller without a listener: only timers and channels, so that the test's clock can run ahead.
async fn controller(settings: Arc<dyn Settings>) -> Controller {
    let store = Arc::new(MemoryStore::new());
    Controller::start(ControllerOptions::default(), settings, store.clone(), store)
        .await
        .unwrap()
}

async fn piece(stream: &mut (impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Unpin)) -> Option<String> {
    let piece = stream.next().await?;
    Some(String::from_utf8(piece.unwrap().to_vec()).unwrap())
}

async fn touch(controller: &Controller, id: &str) {
    controller
        .enrol(id, None, Secret::new(SECRET.to_owned()))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn silence_is_broken_every_fifteen_seconds() {
    let hub = Hub::new(controller(Arc::new(MemoryStore::new())).await);
    let mut stream = pin!(hub.stream(CancellationToken::new()).await.unwrap());
    assert_eq!(parse(&piece(&mut stream).await.unwrap()).name, "snapshot");
    for _ in 0..3 {
        let begun = Instant::now();
        assert_eq!(piece(&mut stream).await.unwrap(), ":\n\n");
        assert!(begun.elapsed() <= Duration::from_secs(15));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_is_reset_and_others_are_not() {
    let controller = controller(Arc::new(MemoryStore::new())).await;
    let hub = Hub::new(controller.clone());
    let mut slow = pin!(hub.stream(CancellationToken::new()).await.unwrap());
    let mut quick = pin!(hub.stream(CancellationToken::new()).await.unwrap());
    piece(&mut slow).await.unwrap();
    piece(&mut quick).await.unwrap();
    for index in 0..300 {
        let id = format!("g-{index}");
        touch(&controller, &id).await;
        while !piece(&mut quick).await.unwrap().contains(&id) {}
        sleep(Duration::from_millis(60)).await;
    }
    let last = parse(&piece(&mut slow).await.unwrap());
    assert_eq!((last.name.as_str(), last.id), ("reset", None));
    assert_eq!(last.data, json!({"reason": "slow_client"}));
    assert_eq!(piece(&mut slow).await, None);
    touch(&controller, "after").await;
    while !piece(&mut quick).await.unwrap().contains("after") {}
}

#[tokio::test(start_paused = true)]
async fn many_changes_at_once_are_told_as_they_stand() {
    let controller = controller(Arc::new(MemoryStore::new())).await;
    let hub = Hub::new(controller.clone());
    let mut stream = pin!(hub.stream(CancellationToken::new()).await.unwrap());
    piece(&mut stream).await.unwrap();
    touch(&controller, "first").await;
    assert!(piece(&mut stream).await.unwrap().contains("first"));
    // During the pause that follows.
    for _ in 0..10 {
        touch(&controller, "again").await;
    }
    controller.revoke("again").await.unwrap();
    let text = piece(&mut stream).await.unwrap();
    let told: Vec<_> = text.split_terminator("\n\n").map(parse).collect();
    let gateways: Vec<_> = told.iter().filter(|event| event.name == "gateway").collect();
    assert_eq!(gateways.len(), 1, "{text}");
    assert_eq!(gateways[0].data["gateway"], Value::Null);
}

/// Settings that cannot be read while they are told to fail.
struct Failing {
    store: MemoryStore,
    fails: AtomicBool,
}

impl Failing {
    fn check(&self) -> Result<(), PortError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(PortError::Unavailable("told to".to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl Settings for Failing {
    async fn get(&self, name: &str) -> Result<Option<Value>, PortError> {
        self.check()?;
        Settings::get(&self.store, name).await
    }

    async fn update<'f>(&self, name: &str, decide: Decide<'f>) -> Result<(), PortError> {
        // Writing goes on, so that there is something to tell.
        self.store.update(name, decide).await
    }

    async fn set(&self, name: &str, value: Value) -> Result<(), PortError> {
        Settings::set(&self.store, name, value).await
    }

    async fn delete(&self, name: &str) -> Result<(), PortError> {
        Settings::delete(&self.store, name).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_read_is_not_made_up() {
    let settings = Arc::new(Failing {
        store: MemoryStore::new(),
        fails: AtomicBool::new(false),
    });
    let controller = controller(settings.clone()).await;
    let hub = Hub::new(controller.clone());
    let mut stream = pin!(hub.stream(CancellationToken::new()).await.unwrap());
    piece(&mut stream).await.unwrap();
    settings.fails.store(true, Ordering::Relaxed);
    touch(&controller, "worker").await;
    let last = parse(&piece(&mut stream).await.unwrap());
    assert_eq!(
        (last.name.as_str(), &last.data["reason"]),
        ("reset", &json!("store_unavailable"))
    );
    assert_eq!(piece(&mut stream).await, None);
    assert!(hub.stream(CancellationToken::new()).await.is_err());
    settings.fails.store(false, Ordering::Relaxed);
    let mut stream = pin!(hub.stream(CancellationToken::new()).await.unwrap());
    assert!(piece(&mut stream).await.unwrap().contains("worker"));
}

#[tokio::test]
async fn a_stream_ends_with_the_controller_and_leaves_nothing() {
    let controller = controller(Arc::new(MemoryStore::new())).await;
    let hub = Hub::new(controller.clone());
    {
        let mut stream = pin!(hub.stream(CancellationToken::new()).await.unwrap());
        piece(&mut stream).await.unwrap();
        assert_eq!(hub.streams(), 1);
        controller.close().await;
        assert_eq!(piece(&mut stream).await, None);
    }
    assert_eq!(hub.streams(), 0);
    assert!(hub.stream(CancellationToken::new()).await.is_err());
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Reads until the text was seen.
async fn read_until(stream: &mut UnixStream, text: &str) {
    let reading = async {
        let mut said = String::new();
        let mut buffer = [0; 4096];
        while !said.contains(text) {
            let count = stream.read(&mut buffer).await.unwrap();
            assert!(count > 0, "{said}");
            said.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
    };
    timeout(PATIENCE, reading).await.unwrap();
}

#[tokio::test]
async fn two_thousand_streams_cost_little() {
    const STREAMS: usize = 2000;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let fixture = Fixture::new().await;
    let before = resident_kib();
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        let mut stream = UnixStream::connect(&fixture.path).await.unwrap();
        let request = "GET /api/mods/node-goblin/events HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    for stream in &mut streams {
        read_until(stream, "event: snapshot").await;
    }
    // Both ends of each are in this process.
    let each = (resident_kib() - before) / STREAMS;
    println!("{each} KiB a stream");
    assert!(each < 64, "{each} KiB a stream");
    let begun = Instant::now();
    touch(&fixture.controller, "worker").await;
    for stream in &mut streams {
        read_until(stream, "\"worker\"").await;
    }
    println!("an event reached all after {:?}", begun.elapsed());
    // Others are served meanwhile.
    let mut client = fixture.client().await;
    assert_eq!(client.get("/gateways").await["gateways"][0]["gatewayId"], "worker");
}
