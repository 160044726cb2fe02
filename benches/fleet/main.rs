//! Thousands of gateways on one controller: what an idle one costs, and how long it takes until all are back.
//!
//! `cargo bench --bench fleet` starts the controller as a process of its own and plays the gateways here, over loopback:
//! the times hold the work of both ends, on the same processors. `GOBLIN_FLEET` sets how many there are at most.

use goblin_keys::Fingerprint;
use goblin_keys::tls::{ClientTls, ClientTrust, Leaf, Standing, server_name};
use goblin_link::gateway_auth::{Credential, Expectations, GatewayAuth, Progress};
use goblin_link::{FrameReader, FrameSender, Received, WriterTask, start_writer};
use goblin_ports::{GatewayRecord, Secret, Secrets, SettingsExt, TrustMethod, secret, setting};
use goblin_protocol::auth::GatewayMetadata;
use goblin_protocol::limits::FRAME_MAX;
use goblin_store::Store;
use rustls::HandshakeKind;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::ReadHalf;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zeroize::Zeroizing;

const PROGRAM: &str = env!("CARGO_BIN_EXE_node-goblin");

/// Gateways of the first figure, and of the mass reconnects.
const FLEET: usize = 1000;

/// Gateways of the second figure of memory.
const LARGE_FLEET: usize = 3000;

/// Longer than the controller leaves a silent gateway alone: each has been probed by then.
const UNTIL_PROBED: Duration = Duration::from_secs(22);

/// First and longest pause between attempts to connect, as a gateway makes them.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

const SECRET: &str = "a shared secret of the fleet";

struct Controller {
    child: Child,
    address: SocketAddr,
}

impl Controller {
    fn start(directory: &Path, address: SocketAddr) -> Self {
        let mut child = Command::new(PROGRAM)
            .args([
                "controller",
                "--http",
                "off",
                "--listen",
                &address.to_string(),
                "--state-dir",
            ])
            .arg(directory)
            .env("RUST_LOG", "off")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut ready = String::new();
        BufReader::new(child.stdout.take().expect("a pipe"))
            .read_line(&mut ready)
            .expect("a line");
        assert!(ready.starts_with("ready tls="), "the controller did not start");
        Self { child, address }
    }

    /// Memory of its own, in KiB.
    fn anonymous_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a live process");
        let line = status
            .lines()
            .find(|line| line.starts_with("RssAnon:"))
            .expect("its memory");
        line.split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse().ok())
            .expect("a number")
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gateway between its connections.
struct Host {
    id: String,
    tls: ClientTls,
}

/// A gateway that is connected.
struct Connected {
    host: Host,
    reader: FrameReader<ReadHalf<TlsStream<TcpStream>>>,
    sender: FrameSender,
    writer: WriterTask,
    resumed: bool,
}

fn id(number: usize) -> String {
    format!("host-{number:05}")
}

/// A store in which so many gateways are enrolled.
async fn enrol(directory: &Path, gateways: usize) {
    let store = Store::open(directory, None, "2026-12-01T00:00:00.000Z")
        .await
        .expect("a store");
    let records: Vec<_> = (0..gateways)
        .map(|number| GatewayRecord::approved(&id(number), "controller", TrustMethod::Hmac))
        .collect();
    store
        .set_as(setting::GATEWAYS, &records)
        .await
        .expect("the records are written");
    for record in &records {
        let name = secret::gateway(&record.gateway_id);
        Secrets::set(&store, &name, Secret::new(SECRET.to_owned()))
            .await
            .expect("a secret is written");
    }
    store.close().await;
}

async fn connect(tls: &ClientTls, address: SocketAddr) -> std::io::Result<(TlsStream<TcpStream>, Leaf)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = server_name("127.0.0.1").expect("an address is a name");
    let stream = TlsConnector::from(tls.config()).connect(name, stream).await?;
    let leaf = tls
        .judge(stream.get_ref().1.peer_certificates())
        .expect("a certificate");
    Ok((stream, leaf))
}

async fn next(reader: &mut FrameReader<ReadHalf<TlsStream<TcpStream>>>) -> Option<bytes::Bytes> {
    match reader.next().await {
        Ok(Received::Frame(frame)) => Some(frame),
        _ => None,
    }
}

/// Connects until it is ready, as often as it takes.
async fn become_ready(host: Host, address: SocketAddr) -> Connected {
    let mut pause = PAUSES.0;
    let mut host = host;
    loop {
        match attempt(host, address).await {
            Ok(connected) => return connected,
            Err(again) => host = again,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

async fn attempt(host: Host, address: SocketAddr) -> Result<Connected, Host> {
    let Ok((stream, leaf)) = connect(&host.tls, address).await else {
        return Err(host);
    };
    let resumed = stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
    let (reading, writing) = tokio::io::split(stream);
    let (mut reader, (sender, writer)) = (FrameReader::new(reading, FRAME_MAX), start_writer(writing));
    let leaf = Leaf {
        standing: Standing::Verified,
        ..leaf
    };
    let expectations = Expectations {
        gateway_id: host.id.clone(),
        controller_id: "controller".to_owned(),
        credential: Credential::Hmac(Arc::new(Zeroizing::new(SECRET.to_owned()))),
        metadata: GatewayMetadata::default(),
        pinned_key: None,
        expected_leaf: Some(leaf.fingerprint),
        allow_unproven: false,
    };
    let Some(challenge) = next(&mut reader).await else {
        return Err(host);
    };
    let mut auth = GatewayAuth::new(expectations, leaf);
    let Ok(Progress::Answer(answer)) = auth.receive(&challenge) else {
        panic!("the challenge is not taken")
    };
    if sender.send(answer).await.is_err() {
        return Err(host);
    }
    match next(&mut reader).await {
        Some(frame) if frame.starts_with(br#"{"type":"auth.ok""#) => Ok(Connected {
            host,
            reader,
            sender,
            writer,
            resumed,
        }),
        // After a restart the controller may not have noticed that the connection before was lost.
        _ => Err(host),
    }
}

/// Answers probes until the connection ends or its owner says so; gives the gateway back.
async fn stay(mut connected: Connected, leave: Arc<tokio::sync::Semaphore>) -> Host {
    loop {
        let frame = tokio::select! {
            frame = next(&mut connected.reader) => frame,
            _ = leave.acquire() => None,
        };
        let Some(frame) = frame else { break };
        let probe: Value = serde_json::from_slice(&frame).expect("JSON");
        let result = json!({"status": "ok", "activeOperations": []});
        let answer = json!({"type": "response", "requestId": probe["id"], "ok": true, "result": result});
        if connected.sender.send(format!("{answer}\n").into_bytes()).await.is_err() {
            break;
        }
    }
    drop((connected.sender, connected.reader));
    connected.writer.abort();
    connected.host
}

/// Connects all at once; gives them, and how long it took until the last was ready.
async fn rally(hosts: Vec<Host>, address: SocketAddr) -> (Vec<Connected>, Duration) {
    let begun = Instant::now();
    let mut rallying = JoinSet::new();
    for host in hosts {
        rallying.spawn(become_ready(host, address));
    }
    let connected = rallying.join_all().await;
    (connected, begun.elapsed())
}

fn stand(connected: Vec<Connected>, leave: &Arc<tokio::sync::Semaphore>, standing: &mut JoinSet<Host>) {
    for one in connected {
        standing.spawn(stay(one, leave.clone()));
    }
}

fn report(what: &str, connected: &[Connected], took: Duration) {
    let resumed = connected.iter().filter(|it| it.resumed).count();
    println!(
        "{what:44} {:>8.0} ms   {} gateways, {resumed} sessions resumed",
        took.as_secs_f64() * 1e3,
        connected.len()
    );
}

fn report_memory(controller: &Controller, before: u64, gateways: usize) {
    let kib = controller.anonymous_kib();
    println!(
        "{:44} {:>8.1} KiB  each of {gateways} ({:.1} MiB in all, {:.1} MiB before)",
        "memory of an idle gateway",
        kib.saturating_sub(before) as f64 / gateways as f64,
        kib as f64 / 1024.0,
        before as f64 / 1024.0
    );
}

async fn hosts(numbers: std::ops::Range<usize>, fingerprint: Fingerprint) -> Vec<Host> {
    let trust = ClientTrust::Pinned {
        fingerprint,
        ca_pem: None,
    };
    numbers
        .map(|number| Host {
            id: id(number),
            tls: ClientTls::new(&trust, None).expect("a configuration"),
        })
        .collect()
}

async fn measure(large: usize) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let directory = folder.path().join("controller");
    enrol(&directory, large).await;
    let probe = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = probe.local_addr().expect("an address");
    drop(probe);
    let mut controller = Controller::start(&directory, address);
    let strange = ClientTls::new(&ClientTrust::Unverified, None).expect("a configuration");
    let (_, leaf) = connect(&strange, controller.address)
        .await
        .expect("the controller serves");
    let before = controller.anonymous_kib();

    let fleet = FLEET.min(large);
    let leave = Arc::new(tokio::sync::Semaphore::new(0));
    let mut standing = JoinSet::new();
    let (connected, took) = rally(hosts(0..fleet, leaf.fingerprint).await, address).await;
    report("all at once for the first time", &connected, took);
    stand(connected, &leave, &mut standing);
    tokio::time::sleep(UNTIL_PROBED).await;
    report_memory(&controller, before, fleet);

    // The network was gone for a moment: every connection ends, and all come back.
    leave.close();
    let back = standing.join_all().await;
    let (connected, took) = rally(back, address).await;
    report("all back after an interruption", &connected, took);
    let (leave, mut standing) = (Arc::new(tokio::sync::Semaphore::new(0)), JoinSet::new());
    stand(connected, &leave, &mut standing);

    if large > fleet {
        let (more, took) = rally(hosts(fleet..large, leaf.fingerprint).await, address).await;
        report("many more at once", &more, took);
        stand(more, &leave, &mut standing);
        tokio::time::sleep(UNTIL_PROBED).await;
        report_memory(&controller, before, large);
    }

    // The controller crashes; it comes back while they try.
    let mut back = Vec::new();
    let killed = controller.child.kill();
    killed.expect("it runs");
    while let Some(host) = standing.join_next().await {
        back.push(host.expect("a gateway"));
    }
    back.truncate(fleet);
    drop(controller);
    let rallying = tokio::spawn(rally(back, address));
    controller = Controller::start(&directory, address);
    let begun = Instant::now();
    let (connected, _) = rallying.await.expect("all come back");
    report("all back after a crash of the controller", &connected, begun.elapsed());
    report_memory(&controller, before, connected.len());
}

fn main() {
    // `cargo test --benches` builds and runs this too; only a real benchmark measures.
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("files may be opened");
    let large = std::env::var("GOBLIN_FLEET").ok();
    let large = large.map_or(LARGE_FLEET, |large| large.parse().expect("a number of gateways"));
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(measure(large));
}
