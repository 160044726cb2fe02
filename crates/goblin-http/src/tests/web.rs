//! A client over TCP that writes what it is told, byte for byte.

use super::{Fixture, PATIENCE};
use crate::server::Tuning;
use crate::{HttpOptions, HttpTls};
use goblin_api::routes::{LOGIN, TOKENS};
use hyper::Method;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// An answer as it came.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Reply {
    fn of(said: &[u8]) -> Self {
        let said = String::from_utf8(said.to_vec()).unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap_or((&said, ""));
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap_or("0");
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        };
        Self {
            status: status.parse().unwrap(),
            headers: lines.map(header).collect(),
            body: body.to_owned(),
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Status and code.
    pub(super) fn failure(&self) -> (u16, String) {
        (self.status, self.json()["error"].as_str().unwrap_or("ok").to_owned())
    }
}

/// Where and as whom a test asks.
#[derive(Clone)]
pub(super) struct Web {
    pub(super) address: SocketAddr,
    host: String,
    headers: String,
}

impl Web {
    pub(super) fn of(fixture: &Fixture) -> Self {
        let address = fixture.server.as_ref().unwrap().http_address().unwrap();
        Self {
            address,
            host: address.to_string(),
            headers: String::new(),
        }
    }

    pub(super) fn token(&self, token: &str) -> Self {
        self.with("authorization", &format!("Bearer {token}"))
    }

    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut web = self.clone();
        web.headers.push_str(&format!("{name}: {value}\r\n"));
        web
    }

    pub(super) fn host(&self, host: &str) -> Self {
        Self {
            host: host.to_owned(),
            ..self.clone()
        }
    }

    pub(super) fn request(&self, method: &Method, path: &str, body: &Value) -> String {
        let body = match body {
            Value::Null => "\r\n".to_owned(),
            body => {
                let body = body.to_string();
                let length = body.len();
                format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
            }
        };
        let (host, headers) = (&self.host, &self.headers);
        format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}{body}")
    }

    pub(super) async fn ask(&self, method: Method, path: &str, body: &Value) -> Reply {
        self.raw(self.request(&method, path, body).as_bytes()).await
    }

    pub(super) async fn get(&self, path: &str) -> Reply {
        self.ask(Method::GET, path, &Value::Null).await
    }

    pub(super) async fn post(&self, path: &str, body: Value) -> Reply {
        self.ask(Method::POST, path, &body).await
    }

    /// What the server says to these bytes until it closes the connection.
    pub(super) async fn raw(&self, text: &[u8]) -> Reply {
        let stream = TcpStream::connect(self.address).await.unwrap();
        exchange(stream, text).await
    }

    /// A token of this scope, made over the fixture's Unix socket.
    pub(super) async fn made(&self, fixture: &Fixture, scope: &str) -> (String, String) {
        made(fixture, &json!({"name": scope, "scope": scope})).await
    }

    /// The cookie of a session that began with this token.
    pub(super) async fn session(&self, token: &str) -> String {
        let reply = self.post(LOGIN, json!({"token": token})).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let cookie = reply.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }
}

pub(super) async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, text: &[u8]) -> Reply {
    let mut said = Vec::new();
    timeout(PATIENCE, async {
        // A server that has heard enough may close before all is written.
        let _ = stream.write_all(text).await;
        let _ = stream.read_to_end(&mut said).await;
    })
    .await
    .expect("the server goes on");
    Reply::of(&said)
}

/// A token made over the Unix socket: its id and itself.
pub(super) async fn made(fixture: &Fixture, body: &Value) -> (String, String) {
    let mut client = fixture.client().await;
    let (status, answer) = client.at_root(Method::POST, TOKENS, body).await;
    assert_eq!(status.as_u16(), 201, "{answer}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&answer["token"]["id"]), text(&answer["secret"]))
}

/// HTTP on a loopback address without TLS.
pub(super) fn plain() -> HttpOptions {
    HttpOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        tls: HttpTls::Off,
        hosts: vec!["goblin.example.org".to_owned()],
    }
}

pub(super) async fn fixture() -> (Fixture, Web) {
    let fixture = Fixture::serving(Tuning::default(), Some(plain())).await;
    let web = Web::of(&fixture);
    (fixture, web)
}
