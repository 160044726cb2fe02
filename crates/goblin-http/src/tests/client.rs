//! An HTTP client over the socket.

use super::{PATIENCE, document};
use bytes::Bytes;
use goblin_api::routes::{HEALTHZ, PREFIX, TOKENS};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::path::Path;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(super) struct Client {
    sender: SendRequest<Full<Bytes>>,
    connection: JoinHandle<()>,
}

impl Drop for Client {
    /// A client that is gone is gone at once.
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Client {
    pub(super) async fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async move {
            let _ = connection.await;
        });
        Self { sender, connection }
    }

    /// Sends any request to a path below the prefix.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        self.send_at(method, &at(path), headers, body).await
    }

    /// Sends any request.
    pub(super) async fn send_at(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        let mut request = Request::builder().method(method).uri(path).header("host", "local");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        timeout(PATIENCE, async {
            self.sender.ready().await.unwrap();
            self.sender.send_request(request).await.unwrap()
        })
        .await
        .unwrap()
    }

    /// Sends JSON, or nothing for null; gives status and answer, which must be as documented.
    pub(super) async fn json(&mut self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        self.at_root(method, &at(path), body).await
    }

    /// The tokens that there are.
    pub(super) async fn tokens(&mut self) -> Vec<Value> {
        let (_, answer) = self.at_root(Method::GET, TOKENS, &Value::Null).await;
        answer["tokens"].as_array().unwrap().clone()
    }

    /// As [`Client::json`], with a whole path.
    pub(super) async fn at_root(&mut self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let (headers, body) = match body {
            Value::Null => (vec![], String::new()),
            body => (vec![("content-type", "application/json")], body.to_string()),
        };
        let (status, answer) = answer(self.send_at(method.clone(), path, &headers, body).await).await;
        document::check(&method, path, status, &answer);
        (status, answer)
    }

    pub(super) async fn get(&mut self, path: &str) -> Value {
        let (status, answer) = self.json(Method::GET, path, &Value::Null).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer
    }

    pub(super) async fn post(&mut self, path: &str, body: Value) -> (StatusCode, Value) {
        self.json(Method::POST, path, &body).await
    }

    /// Begins a dispatch line by line.
    pub(super) async fn lines(&mut self, path: &str, body: &Value) -> Lines {
        let headers = [
            ("content-type", "application/json"),
            ("accept", "text/html, Application/X-NDJSON;q=0.9"),
        ];
        let response = self.send(Method::POST, path, &headers, body.to_string()).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        Lines {
            body: response.into_body(),
            text: Vec::new(),
        }
    }
}

/// A path below the prefix, or one of those beside it as it is.
fn at(path: &str) -> String {
    if path.starts_with("/api/") || path == HEALTHZ {
        path.to_owned()
    } else {
        format!("{PREFIX}{path}")
    }
}

pub(super) async fn answer(response: Response<Incoming>) -> (StatusCode, Value) {
    assert_eq!(response.headers()["content-type"], "application/json");
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

pub(super) struct Lines {
    body: Incoming,
    text: Vec<u8>,
}

impl Lines {
    /// The next line; `None` at the end of the body.
    pub(super) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = timeout(PATIENCE, self.body.frame()).await.expect("no line came")?;
            self.text.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
    }
}
