//! The independent peer on Node, as a process under a test's control.

use goblin_testkit::LIMIT;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Instant, SystemTime};

/// A running peer.
pub struct Peer {
    child: Child,
    orders: ChildStdin,
    events: Receiver<Value>,
    seen: Vec<Value>,
    /// Port of a controller.
    pub port: u64,
}

/// A certificate with its key, as files.
pub struct Certificate {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub fingerprint: String,
}

impl Certificate {
    /// A fresh one for the loopback address.
    pub fn new(folder: &Path, name: &str) -> Self {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made = goblin_keys::certificate::generate("127.0.0.1", &names, SystemTime::now()).unwrap();
        let (cert, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        std::fs::write(&cert, &made.cert_pem).unwrap();
        std::fs::write(&key, made.key_pem.as_bytes()).unwrap();
        Self {
            cert,
            key,
            fingerprint: made.metadata.fingerprint_sha256.to_string(),
        }
    }
}

impl Peer {
    /// A controller with a certificate and further options.
    pub fn controller(certificate: &Certificate, more: Value) -> Self {
        let mut options = json!({"cert": certificate.cert, "key": certificate.key});
        options
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let mut peer = Self::start("controller", &options);
        peer.port = peer.event("listening")["port"].as_u64().unwrap();
        peer
    }

    /// A gateway that dials a port.
    pub fn gateway(options: &Value) -> Self {
        Self::start("gateway", options)
    }

    fn start(role: &str, options: &Value) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/peer.mjs");
        let mut child = Command::new("node")
            .args([script, role, &options.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs");
        let output = child.stdout.take().unwrap();
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self {
            orders: child.stdin.take().unwrap(),
            child,
            events,
            seen: Vec::new(),
            port: 0,
        }
    }

    /// Gives an order.
    pub fn order(&mut self, order: Value) {
        self.orders.write_all(format!("{order}\n").as_bytes()).unwrap();
    }

    /// Sends a request.
    pub fn request(&mut self, id: &str, method: &str, params: Value) {
        self.order(json!({"send": {"id": id, "method": method, "params": params}}));
    }

    /// Waits for an event of a kind.
    pub fn event(&mut self, kind: &str) -> Value {
        self.find(kind, |event| event["event"] == json!(kind))
    }

    /// Waits for a frame.
    pub fn frame(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.find(what, |event| {
            event["event"] == json!("frame") && wanted(&event["frame"])
        })["frame"]
            .take()
    }

    /// Waits for the answer of a request.
    pub fn answer(&mut self, id: &str) -> Value {
        self.frame(&format!("the answer of {id}"), |frame| {
            frame["requestId"] == json!(id) && matches!(frame["type"].as_str(), Some("response" | "error"))
        })
    }

    /// True when an event of a kind has been seen and not been taken.
    pub fn has_seen(&mut self, kind: &str) -> bool {
        self.seen.extend(self.events.try_iter());
        self.seen.iter().any(|event| event["event"] == json!(kind))
    }

    fn find(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(found) = self.seen.iter().position(&wanted) {
                return self.seen.remove(found);
            }
            match self
                .events
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(event) => self.seen.push(event),
                Err(_) => panic!("{what}: never came; seen {:?}", self.seen),
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
