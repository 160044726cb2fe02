//! A gateway that does what a test tells it.

use super::PATIENCE;
use goblin_controller::Controller;
use goblin_keys::pair::KeyPair;
use goblin_keys::tls::{ClientTls, ClientTrust, Leaf, Standing, server_name};
use goblin_link::gateway_auth::{Credential, Expectations, GatewayAuth, Progress};
use goblin_link::{FrameReader, FrameSender, Received, start_writer};
use goblin_protocol::auth::GatewayMetadata;
use goblin_protocol::limits::FRAME_MAX;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::io::ReadHalf;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use zeroize::Zeroizing;

pub(super) struct Gateway {
    reader: FrameReader<ReadHalf<TlsStream<TcpStream>>>,
    sender: FrameSender,
    leaf: Leaf,
}

impl Gateway {
    pub(super) async fn dial(controller: &Controller) -> Self {
        let tls = ClientTls::new(&ClientTrust::Unverified, None).unwrap();
        let stream = TcpStream::connect(controller.tls_address().unwrap()).await.unwrap();
        let connecting = TlsConnector::from(tls.config()).connect(server_name("127.0.0.1").unwrap(), stream);
        let stream = connecting.await.unwrap();
        let leaf = tls.judge(stream.get_ref().1.peer_certificates()).unwrap();
        let (reading, writing) = tokio::io::split(stream);
        Self {
            reader: FrameReader::new(reading, FRAME_MAX),
            sender: start_writer(writing).0,
            leaf,
        }
    }

    /// Proves a shared secret; gives the controller's answer.
    pub(super) async fn enrolled(&mut self, id: &str, secret: &str) -> Value {
        let credential = Credential::Hmac(Arc::new(Zeroizing::new(secret.to_owned())));
        self.authenticate(id, credential, Standing::Verified).await
    }

    /// Asks for approval with a new key; gives the controller's answer.
    pub(super) async fn stranger(&mut self, id: &str) -> Value {
        let credential = Credential::Pairing(Arc::new(KeyPair::generate().unwrap()));
        self.authenticate(id, credential, Standing::Unproven).await
    }

    async fn authenticate(&mut self, gateway_id: &str, credential: Credential, standing: Standing) -> Value {
        let expectations = Expectations {
            gateway_id: gateway_id.to_owned(),
            controller_id: "controller".to_owned(),
            credential,
            metadata: GatewayMetadata::default(),
            pinned_key: None,
            expected_leaf: None,
            allow_unproven: false,
        };
        let mut auth = GatewayAuth::new(expectations, Leaf { standing, ..self.leaf });
        let challenge = self.receive().await.unwrap();
        match auth.receive(challenge.to_string().as_bytes()).unwrap() {
            Progress::Answer(answer) => self.sender.send(answer).await.unwrap(),
            other => panic!("{other:?}"),
        }
        self.receive().await.unwrap()
    }

    /// The next frame; `None` at the end.
    pub(super) async fn receive(&mut self) -> Option<Value> {
        match timeout(PATIENCE, self.reader.next())
            .await
            .expect("the controller is silent")
        {
            Ok(Received::Frame(frame)) => Some(serde_json::from_slice(&frame).unwrap()),
            _ => None,
        }
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

    pub(super) async fn send(&self, frame: Value) {
        self.sender.send(format!("{frame}\n").into_bytes()).await.unwrap();
    }

    pub(super) async fn answer(&self, request: &Value, result: Value) {
        self.send(json!({"type": "response", "requestId": request["id"], "ok": true, "result": result}))
            .await;
    }

    pub(super) async fn accept(&self, request: &Value) {
        let operation_id = &request["params"]["operationId"];
        self.send(json!({"type": "accepted", "requestId": request["id"], "ok": true, "operationId": operation_id, "protocolVersion": "1.0"}))
            .await;
    }

    pub(super) async fn output(&self, request: &Value, seq: u64, data: &str) {
        let operation_id = &request["params"]["operationId"];
        self.send(json!({"type": "process.stream", "operationId": operation_id, "stream": "stdout", "seq": seq, "data": data, "truncated": false}))
            .await;
    }

    /// Ends an operation with exit code 0.
    pub(super) async fn end(&self, request: &Value) {
        let operation_id = &request["params"]["operationId"];
        let outcome = json!({"type": "process.result", "exitCode": 0, "cancelled": false, "timedOut": false});
        self.answer(
            request,
            json!({"operationId": operation_id, "replay": false, "outcome": outcome}),
        )
        .await;
    }
}
