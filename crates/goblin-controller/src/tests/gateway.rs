//! A gateway for tests: it connects, proves what it is told to prove, and sends what it is told to send.

use super::PATIENCE;
use goblin_keys::pair::KeyPair;
use goblin_keys::tls::{ClientTls, ClientTrust, Leaf, server_name};
use goblin_link::gateway_auth::{Credential, Expectations, GatewayAuth, Progress};
use goblin_link::{FrameReader, FrameSender, Received, start_writer};
use goblin_protocol::auth::GatewayMetadata;
use goblin_protocol::limits::FRAME_MAX;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::ReadHalf;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zeroize::Zeroizing;

/// Who a gateway is.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) id: String,
    pub(super) controller_id: String,
    pub(super) credential: Credential,
}

impl Host {
    /// With a key of its own.
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            controller_id: "controller".to_owned(),
            credential: Credential::Pairing(Arc::new(KeyPair::generate().unwrap())),
        }
    }

    /// With a shared secret. Its connections must be to a certificate that it trusts; the tests' one takes any.
    pub(super) fn hmac(id: &str, secret: &str) -> Self {
        Self {
            credential: Credential::Hmac(Arc::new(Zeroizing::new(secret.to_owned()))),
            ..Self::new(id)
        }
    }

    fn expectations(&self, leaf: &Leaf) -> Expectations {
        Expectations {
            gateway_id: self.id.clone(),
            controller_id: self.controller_id.clone(),
            credential: self.credential.clone(),
            metadata: GatewayMetadata {
                name: Some("burrow-host-gateway".into()),
                version: Some("7".into()),
                protocol_version: Some("1.0".into()),
            },
            pinned_key: None,
            expected_leaf: Some(leaf.fingerprint),
            allow_unproven: false,
        }
    }
}

/// A connection to the controller, from the gateway's side.
pub(super) struct Dialled {
    reader: FrameReader<ReadHalf<TlsStream<TcpStream>>>,
    pub(super) sender: FrameSender,
    pub(super) leaf: Leaf,
    /// The code that the gateway computed for itself.
    pub(super) own_code: Option<String>,
}

impl Dialled {
    pub(super) async fn dial(address: SocketAddr) -> Self {
        let tls = ClientTls::new(&ClientTrust::Unverified, None).unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let connecting = TlsConnector::from(tls.config()).connect(server_name("127.0.0.1").unwrap(), stream);
        let stream = timeout(PATIENCE, connecting).await.unwrap().unwrap();
        let leaf = tls.judge(stream.get_ref().1.peer_certificates()).unwrap();
        let (reading, writing) = tokio::io::split(stream);
        let (sender, _) = start_writer(writing);
        Self {
            reader: FrameReader::new(reading, FRAME_MAX),
            sender,
            leaf,
            own_code: None,
        }
    }

    /// Answers the challenge as the real gateway does; gives what the controller says to it.
    pub(super) async fn authenticate(&mut self, host: &Host) -> Value {
        self.authenticate_with(host, |_| {}).await
    }

    /// The same, with the answer altered.
    pub(super) async fn authenticate_with(&mut self, host: &Host, alter: impl FnOnce(&mut Value)) -> Value {
        let challenge = self.receive().await.unwrap();
        // Here the secret may go to a certificate that nobody verified.
        let leaf = match host.credential {
            Credential::Hmac(_) => Leaf {
                standing: goblin_keys::tls::Standing::Verified,
                ..self.leaf
            },
            Credential::Pairing(_) => self.leaf,
        };
        let mut auth = GatewayAuth::new(host.expectations(&leaf), leaf);
        let Progress::Answer(answer) = auth.receive(challenge.to_string().as_bytes()).unwrap() else {
            panic!("no answer")
        };
        let mut answer: Value = serde_json::from_slice(&answer).unwrap();
        self.own_code = answer["pairingCode"].as_str().map(str::to_owned);
        alter(&mut answer);
        self.send(&answer).await;
        self.receive().await.unwrap()
    }

    pub(super) async fn send(&self, frame: &Value) {
        self.send_text(&frame.to_string()).await;
    }

    pub(super) async fn send_text(&self, text: &str) {
        self.sender.send(format!("{text}\n").into_bytes()).await.unwrap();
    }

    /// The next frame; `None` at the end of the connection, however it ends.
    pub(super) async fn receive(&mut self) -> Option<Value> {
        match timeout(PATIENCE, self.reader.next())
            .await
            .expect("the controller is silent")
        {
            Ok(Received::Frame(frame)) => Some(serde_json::from_slice(&frame).unwrap()),
            Ok(Received::End) | Err(_) => None,
            Ok(Received::TooLarge) => panic!("the controller sent a frame over the limit"),
        }
    }

    pub(super) async fn expect_end(&mut self) {
        let frame = self.receive().await;
        assert_eq!(frame, None);
    }

    /// The next request of this method; probes that come before it are answered.
    pub(super) async fn request(&mut self, method: &str) -> Value {
        loop {
            let frame = self.receive().await.expect("the connection ended");
            if frame["method"] == method {
                return frame;
            }
            assert_eq!(frame["method"], "health", "{frame}");
            self.answer(&frame, json!({"status": "ok", "activeOperations": []}))
                .await;
        }
    }

    pub(super) async fn answer(&self, request: &Value, result: Value) {
        self.send(&json!({"type": "response", "requestId": request["id"], "ok": true, "result": result}))
            .await;
    }

    pub(super) async fn refuse(&self, request: &Value, code: &str) {
        let error = json!({"code": code, "operationId": request["params"]["operationId"]});
        self.send(&json!({"type": "response", "requestId": request["id"], "ok": false, "error": error}))
            .await;
    }

    pub(super) async fn accept(&self, request: &Value) {
        let operation_id = &request["params"]["operationId"];
        self.send(&json!({"type": "accepted", "requestId": request["id"], "ok": true, "operationId": operation_id, "protocolVersion": "1.0"}))
            .await;
    }

    pub(super) async fn output(&self, operation_id: &str, seq: u64, data: &str) {
        self.send(&json!({"type": "process.stream", "operationId": operation_id, "stream": "stdout", "seq": seq, "data": data, "truncated": false}))
            .await;
    }

    pub(super) async fn terminal(&self, operation_id: &str, seq: u64, evidence: &Value) {
        self.send(&json!({"type": "process.terminal", "operationId": operation_id, "seq": seq, "evidence": evidence}))
            .await;
    }

    /// Takes the next execution and plays all of it.
    pub(super) async fn execute(&mut self) -> Value {
        let request = self.request("process.exec").await;
        let operation_id = request["params"]["operationId"].as_str().unwrap().to_owned();
        self.accept(&request).await;
        self.output(&operation_id, 1, "canned\n").await;
        self.terminal(&operation_id, 2, &evidence(0)).await;
        self.answer(&request, result(&operation_id, evidence(0))).await;
        request
    }
}

pub(super) fn evidence(exit_code: i64) -> Value {
    json!({"type": "process.result", "exitCode": exit_code, "signal": null, "cancelled": false, "timedOut": false, "stdout": "canned\n", "stderr": ""})
}

pub(super) fn result(operation_id: &str, outcome: Value) -> Value {
    json!({"operationId": operation_id, "replay": false, "outcome": outcome})
}
