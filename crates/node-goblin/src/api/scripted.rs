//! A controller of canned answers on a real socket, for tests.

use crate::api::Api;
use crate::api::socket::SOCKET_FILE;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::sync::mpsc;

/// Head of a line by line answer that ends with the connection.
pub const NDJSON_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n\r\n";

/// Stands in an answer for the operation id of the request, when that is as long.
pub const ASKED_OPERATION: &str = "00000000-0000-0000-0000-000000000000";

/// What one connection is answered, piece by piece.
pub type Pieces = Vec<Vec<u8>>;

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub head: String,
    pub body: String,
}

/// A whole answer.
pub fn answer(status: u16, body: &str) -> Pieces {
    let text = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    vec![text.into_bytes()]
}

/// A line by line answer.
pub fn lines(lines: &[&str]) -> Pieces {
    let lines = lines.iter().map(|line| format!("{line}\n").into_bytes());
    std::iter::once(NDJSON_HEAD.as_bytes().to_vec()).chain(lines).collect()
}

/// The server. Each connection takes the next answer.
pub struct Controller {
    directory: PathBuf,
    requests: Arc<Mutex<Vec<Received>>>,
    _own: Option<TempDir>,
}

/// An answer whose pieces the test sends while the connection is open.
pub struct Live(pub mpsc::UnboundedReceiver<Vec<u8>>);

impl Controller {
    /// Serves in a directory of its own.
    pub fn start(answers: Vec<Pieces>) -> Self {
        Self::start_live(answers.into_iter().map(finished).collect())
    }

    /// Serves in a directory of its own, at the test's pace.
    pub fn start_live(answers: Vec<Live>) -> Self {
        let own = tempfile::tempdir().unwrap();
        let mut controller = Self::serve(own.path(), answers);
        controller._own = Some(own);
        controller
    }

    /// Serves in a given directory.
    pub fn start_in(directory: &Path, answers: Vec<Pieces>) -> Self {
        Self::serve(directory, answers.into_iter().map(finished).collect())
    }

    fn serve(directory: &Path, answers: Vec<Live>) -> Self {
        // A listener is bound under its short name, so that long directories can be tested too.
        let handle = std::fs::File::open(directory).unwrap();
        let name = format!(
            "/proc/self/fd/{}/{SOCKET_FILE}",
            std::os::fd::AsRawFd::as_raw_fd(&handle)
        );
        let listener = UnixListener::bind(name).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        tokio::spawn(async move {
            for Live(mut pieces) in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let seen = seen.clone();
                tokio::spawn(async move {
                    let mut bytes = Vec::new();
                    let request = loop {
                        if let Some(request) = whole_request(&bytes) {
                            break request;
                        }
                        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
                            return;
                        }
                    };
                    let asked = operation_id(&request.body);
                    seen.lock().unwrap().push(request);
                    while let Some(piece) = pieces.recv().await {
                        let piece = match (&asked, String::from_utf8(piece)) {
                            (Some(asked), Ok(text)) => text.replace(ASKED_OPERATION, asked).into_bytes(),
                            (None, Ok(text)) => text.into_bytes(),
                            (_, Err(bytes)) => bytes.into_bytes(),
                        };
                        // A client that has seen enough goes away.
                        if stream.write_all(&piece).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self {
            directory: directory.to_owned(),
            requests,
            _own: None,
        }
    }

    pub fn api(&self) -> Api {
        Api::local(&self.directory)
    }

    pub fn requests(&self) -> Vec<Received> {
        self.requests.lock().unwrap().clone()
    }
}

/// An answer that waits for the test.
pub fn live() -> (mpsc::UnboundedSender<Vec<u8>>, Live) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Live(receiver))
}

fn finished(pieces: Pieces) -> Live {
    let (sender, answer) = live();
    for piece in pieces {
        sender.send(piece).unwrap();
    }
    answer
}

fn operation_id(body: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let id = body["operationId"].as_str()?;
    (id.len() == ASKED_OPERATION.len()).then(|| id.to_owned())
}

fn whole_request(bytes: &[u8]) -> Option<Received> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map_or(0, |(_, value)| value.trim().parse().unwrap());
    (body.len() >= length).then(|| Received {
        head: head.to_owned(),
        body: body.to_owned(),
    })
}
