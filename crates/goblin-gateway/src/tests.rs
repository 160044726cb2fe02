//! A daemon in memory, with a peer that reads when it likes.

use crate::daemon::{Daemon, Parts};
use crate::environment::BaseEnvironment;
use crate::stdio;
use goblin_files::{Files, FilesOptions};
use goblin_journal::{Journal, Options};
use serde_json::{Value, json};
use std::path::PathBuf;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, split};
use tokio::task::JoinHandle;

struct Peer {
    write: WriteHalf<DuplexStream>,
    read: BufReader<ReadHalf<DuplexStream>>,
    served: JoinHandle<std::io::Result<()>>,
    daemon: Daemon,
}

impl Peer {
    fn new() -> Self {
        let daemon = Daemon::new(Parts {
            version: "test".into(),
            boot_id: "boot".into(),
            journal: Journal::open(Options::new(None), 0).unwrap().journal,
            files: Files::new(FilesOptions::new(PathBuf::from("/"))),
            environment: BaseEnvironment::new([("PATH".into(), "/usr/bin:/bin".into())]),
            directory: PathBuf::from("/"),
            max_operations: 4,
        });
        let (near, far) = tokio::io::duplex(1024);
        let (input, output) = split(far);
        let serving = daemon.clone();
        let served = tokio::spawn(async move { stdio::serve(&serving, input, output).await });
        let (read, write) = split(near);
        Self {
            write,
            read: BufReader::new(read),
            served,
            daemon,
        }
    }

    async fn execute(&mut self, operation: &str, params: Value) {
        let mut params = params;
        params["operationId"] = json!(operation);
        let line = json!({"id": operation, "method": "process.exec", "params": params});
        self.write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    /// All frames until the daemon has ended.
    async fn rest(mut self) -> Vec<Value> {
        let mut frames = Vec::new();
        let mut line = String::new();
        while self.read.read_line(&mut line).await.unwrap() > 0 {
            frames.push(serde_json::from_str(&line).unwrap());
            line.clear();
        }
        self.served.await.unwrap().unwrap();
        frames
    }
}

/// The events of an operation: numbers, and the text of a stream.
fn events<'a>(frames: &'a [Value], operation: &str) -> (Vec<u64>, String, &'a Value) {
    let mine: Vec<&Value> = frames
        .iter()
        .filter(|frame| frame["operationId"] == json!(operation) && frame.get("seq").is_some())
        .collect();
    let numbers = mine.iter().map(|frame| frame["seq"].as_u64().unwrap()).collect();
    let text = mine.iter().filter_map(|frame| frame["data"].as_str()).collect();
    let evidence = &mine
        .iter()
        .find(|frame| frame["type"] == json!("process.terminal"))
        .expect("a terminal event")["evidence"];
    (numbers, text, evidence)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_have_no_gap_and_hold_the_text_although_the_peer_was_slow() {
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let when_told = |then: &str| format!("while [ ! -e {} ]; do sleep 0.02; done; {then}", go.display());
    let mut peer = Peer::new();
    // These will end, one by its limit and one by itself, while none of their output can be queued.
    let limited = when_told("printf '%060000d' 1; sleep 60");
    peer.execute("limited", json!({"command": limited, "timeoutMs": 2_000}))
        .await;
    peer.execute(
        "held",
        json!({"command": when_told("printf '%050000d' 1; setsid sleep 5 & exit 0")}),
    )
    .await;
    let flood = "head -c 8000000 /dev/zero | tr '\\0' f";
    peer.execute("flood", json!({"command": flood, "maxOutputBytes": 100_000_000}))
        .await;
    while peer.daemon.outlet().is_roomy() {
        tokio::task::yield_now().await;
    }
    std::fs::write(&go, "").unwrap();
    while peer.daemon.journal_entries() < 2 {
        tokio::task::yield_now().await;
    }
    peer.write.shutdown().await.unwrap();
    let frames = peer.rest().await;
    for (operation, length) in [("flood", 8_000_000), ("limited", 60_000), ("held", 50_000)] {
        let (numbers, text, evidence) = events(&frames, operation);
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "{operation}");
        assert_eq!(text.len(), length, "{operation}");
        let captured = evidence["stdout"].as_str().unwrap();
        assert!(
            text.starts_with(captured) && (captured.len() == length || evidence["truncated"] == json!(true)),
            "{operation}"
        );
    }
}
