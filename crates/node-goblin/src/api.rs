//! The client of a controller's HTTP API. It must never know what a command does with an answer.
//!
//! Each request has a connection of its own. The way to the controller is a Unix socket in its state directory, where
//! the file system is the authentication, or TCP with a token. Redirects are not followed.

mod error;
mod events;
mod lines;
mod remote;
#[cfg(test)]
pub mod scripted;
mod socket;
mod url;

pub use error::{ApiError, explained, explained_remote};
pub use events::Events;
pub use hyper::Method;
pub use lines::{Line, Lines};
pub use remote::{ReachError, Remote, shown_fingerprint};
pub use socket::SOCKET_FILE;
pub use url::ApiUrl;

use bytes::Bytes;
use goblin_api::ErrorBody;
use goblin_protocol::json;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest answer that is taken whole, in bytes: a gathered dispatch holds some 4 MiB of events and a frame.
const ANSWER_MAX: usize = 16 * 1024 * 1024;

/// How a controller is reached.
#[derive(Debug)]
enum Endpoint {
    /// The socket in a state directory.
    Local(PathBuf),
    /// A URL.
    Remote(Remote),
}

/// A controller's API. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Api {
    endpoint: Arc<Endpoint>,
}

impl Api {
    /// The API of the controller that runs on a state directory.
    pub fn local(directory: &Path) -> Self {
        Self {
            endpoint: Arc::new(Endpoint::Local(directory.to_owned())),
        }
    }

    /// The API at a URL.
    pub fn remote(remote: Remote) -> Self {
        Self {
            endpoint: Arc::new(Endpoint::Remote(remote)),
        }
    }

    /// Gets an answer as its text.
    pub async fn get_text(&self, path: &str) -> Result<String, ApiError> {
        self.text(Method::GET, path, None::<&()>).await
    }

    /// Sends a body, if any, and takes the answer whole, as its text.
    pub async fn text(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Result<String, ApiError> {
        let body = body.map(serde_json::to_vec).transpose().map_err(ApiError::Unwritable)?;
        text(self.send(method, path, body, None).await?).await
    }

    /// Gets an answer.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        json::from_text(&self.get_text(path).await?).map_err(ApiError::Unreadable)
    }

    /// Posts a body, if any, and takes the answer whole.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: Option<&impl Serialize>) -> Result<T, ApiError> {
        json::from_text(&self.text(Method::POST, path, body).await?).map_err(ApiError::Unreadable)
    }

    /// Opens a stream of events.
    pub async fn events(&self, path: &str) -> Result<Events, ApiError> {
        let accept = Some(goblin_api::events::EVENT_STREAM);
        let response = self.send(Method::GET, path, None, accept).await?;
        Ok(Events::new(response.into_body()))
    }

    /// Posts a body and takes the answer line by line, as it comes.
    pub async fn post_for_lines(&self, path: &str, body: &impl Serialize) -> Result<Lines, ApiError> {
        let body = serde_json::to_vec(body).map_err(ApiError::Unwritable)?;
        let response = self
            .send(Method::POST, path, Some(body), Some(goblin_api::NDJSON))
            .await?;
        Ok(Lines::new(response.into_body()))
    }

    /// Sends a request. An answer that is no success is an error.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
        accept: Option<&str>,
    ) -> Result<Response<Incoming>, ApiError> {
        let (stream, host, base, authorization): (Box<dyn remote::Wire>, _, _, _) = match &*self.endpoint {
            Endpoint::Local(directory) => (
                Box::new(socket::connect(directory).await?),
                "localhost".to_owned(),
                "",
                None,
            ),
            Endpoint::Remote(remote) => (
                remote.connect().await?,
                remote.url().authority(),
                remote.url().base.as_str(),
                remote.authorization().cloned(),
            ),
        };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream))
            .await
            .map_err(ApiError::Broken)?;
        // Ends with the answer's body, or when nobody wants that any more.
        tokio::spawn(connection);
        let path = [base, path].concat();
        let mut request = Request::builder().method(method).uri(path).header(HOST, host);
        request = request.header(ACCEPT, accept.unwrap_or("application/json"));
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(body) = &body {
            request = request
                .header(CONTENT_TYPE, "application/json")
                .header(CONTENT_LENGTH, body.len());
        }
        let request = request
            .body(Full::new(Bytes::from(body.unwrap_or_default())))
            .map_err(ApiError::Request)?;
        let response = sender.send_request(request).await.map_err(ApiError::Broken)?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = text(response).await.unwrap_or_default();
        let body = json::from_text::<ErrorBody>(&body).unwrap_or_else(|_| ErrorBody::new("no_error_code"));
        Err(ApiError::Refused {
            status,
            body: Box::new(body),
        })
    }
}

/// The whole body of an answer.
async fn text(response: Response<Incoming>) -> Result<String, ApiError> {
    let body = Limited::new(response.into_body(), ANSWER_MAX);
    let bytes = body.collect().await.map_err(ApiError::Cut)?.to_bytes();
    String::from_utf8(bytes.into()).map_err(|_| ApiError::NotText)
}

#[cfg(test)]
mod tests {
    use super::scripted::{Controller, answer};
    use super::*;
    use goblin_api::{GatewaysAnswer, routes};

    #[tokio::test]
    async fn a_request_is_plain_http_and_its_answer_is_typed() {
        let controller = Controller::start(vec![
            answer(200, r#"{"ok":true,"gateways":[]}"#),
            answer(200, r#"{"ok":true,"gateways":[]}"#),
        ]);
        let answered: GatewaysAnswer = controller.api().get(&routes::gateways()).await.unwrap();
        assert_eq!(answered.gateways, []);
        let _: GatewaysAnswer = controller
            .api()
            .post("/x", Some(&serde_json::json!({"a": 1})))
            .await
            .unwrap();
        let requests = controller.requests();
        assert_eq!(
            requests[0].head.lines().next(),
            Some("GET /api/mods/node-goblin/gateways HTTP/1.1")
        );
        assert_eq!(requests[1].body, r#"{"a":1}"#);
        assert!(
            requests[1]
                .head
                .to_lowercase()
                .contains("content-type: application/json")
        );
    }

    #[tokio::test]
    async fn a_refusal_is_explained() {
        let controller = Controller::start(vec![
            answer(503, r#"{"ok":false,"error":"gateway_not_connected","gatewayId":"w"}"#),
            answer(500, "oops"),
            answer(200, "{}"),
        ]);
        let mut faults = Vec::new();
        for _ in 0..3 {
            let fault = controller.api().get::<GatewaysAnswer>("/x").await.unwrap_err();
            faults.push(fault.to_string());
        }
        assert!(faults[0].contains("not connected") && faults[0].ends_with("(gateway_not_connected)"));
        assert!(faults[1].contains("500"), "{}", faults[1]);
        assert!(faults[2].contains("cannot be read"), "{}", faults[2]);
    }

    #[tokio::test]
    async fn an_absent_controller_is_said_so_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let fault = |directory: &Path| {
            let api = Api::local(directory);
            async move { api.get_text("/x").await.unwrap_err().to_string() }
        };
        let path = directory.path().display().to_string();
        let absent = fault(directory.path()).await;
        assert!(
            absent.contains("no controller is running")
                && absent.contains(&path)
                && absent.contains("node-goblin controller"),
            "{absent}"
        );
        // A socket that nobody serves any more.
        drop(std::os::unix::net::UnixListener::bind(directory.path().join("controller.sock")).unwrap());
        assert!(fault(directory.path()).await.contains("no controller is running"));
        assert!(
            fault(&directory.path().join("missing"))
                .await
                .contains("no controller is running")
        );
    }

    #[tokio::test]
    async fn a_long_directory_is_reached_all_the_same() {
        let parent = tempfile::tempdir().unwrap();
        let long = parent.path().join("x".repeat(120));
        std::fs::create_dir(&long).unwrap();
        let controller = Controller::start_in(&long, vec![answer(200, "fine")]);
        assert_eq!(Api::local(&long).get_text("/x").await.unwrap(), "fine");
        assert_eq!(controller.requests().len(), 1);
    }

    #[tokio::test]
    async fn an_answer_without_end_takes_bounded_memory() {
        let mut endless = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec();
        endless.resize(endless.len() + ANSWER_MAX + 1, b'x');
        let controller = Controller::start(vec![vec![endless]]);
        let fault = controller.api().get_text("/x").await.unwrap_err();
        assert!(matches!(fault, ApiError::Cut(_)), "{fault}");
    }
}
