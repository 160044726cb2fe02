//! Server-Sent Events as they come: name and data of each. It must never know what an event means.

use crate::api::ApiError;
use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// Longest event, in bytes: the snapshot of some thousands of gateways.
const EVENT_MAX: usize = 16 * 1024 * 1024;

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name; `message` when it has none.
    pub name: String,
    /// Its data.
    pub data: String,
}

/// The events of one stream.
pub struct Events {
    body: Incoming,
    reader: Reader,
}

impl Events {
    pub(super) fn new(body: Incoming) -> Self {
        Self {
            body,
            reader: Reader::default(),
        }
    }

    /// The next event, `None` at the end of the stream. Can be dropped without losing one.
    pub async fn next(&mut self) -> Result<Option<Event>, ApiError> {
        loop {
            if let Some(event) = self.reader.next()? {
                return Ok(Some(event));
            }
            match self.body.frame().await {
                // An event without its blank line is none.
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame.map_err(|error| ApiError::Cut(error.into()))?.into_data() {
                        self.reader.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

/// Takes the bytes of a stream apart.
#[derive(Default)]
struct Reader {
    buffer: BytesMut,
    /// Bytes that were searched for a line's end already.
    searched: usize,
    name: String,
    data: String,
    has_data: bool,
}

impl Reader {
    fn next(&mut self) -> Result<Option<Event>, ApiError> {
        while let Some(at) = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n') {
            let line = self.buffer.split_to(self.searched + at + 1);
            self.searched = 0;
            let line = line[..line.len() - 1]
                .strip_suffix(b"\r")
                .unwrap_or(&line[..line.len() - 1]);
            let line = std::str::from_utf8(line).map_err(|_| ApiError::NotText)?;
            if let Some(event) = self.line(line)? {
                return Ok(Some(event));
            }
        }
        self.searched = self.buffer.len();
        match self.buffer.len() > EVENT_MAX {
            true => Err(ApiError::OddLine),
            false => Ok(None),
        }
    }

    fn line(&mut self, line: &str) -> Result<Option<Event>, ApiError> {
        if line.is_empty() {
            let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
            return Ok(std::mem::take(&mut self.has_data).then(|| Event {
                name: if name.is_empty() { "message".to_owned() } else { name },
                data,
            }));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.name = value.to_owned(),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                if self.data.len() > EVENT_MAX {
                    return Err(ApiError::OddLine);
                }
            }
            // Comments, ids and what is to come.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scripted::Controller;

    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

    async fn read(body: &str, cut: usize) -> Result<Vec<(String, String)>, ApiError> {
        let text = [HEAD, body].concat();
        let pieces = text.as_bytes().chunks(cut).map(<[u8]>::to_vec).collect();
        let controller = Controller::start(vec![pieces]);
        let mut events = controller.api().events("/x").await.unwrap();
        let mut came = Vec::new();
        while let Some(event) = events.next().await? {
            came.push((event.name, event.data));
        }
        Ok(came)
    }

    #[tokio::test]
    async fn events_come_whole_however_they_were_cut() {
        let body =
            ": hello\n\nevent: a\nid: 1\ndata: one\ndata: é\n\nevent: empty\n\ndata:two\r\n\r\nevent: cut\ndata: x\n";
        for cut in [1, 7, 1_000] {
            let came = read(body, cut).await.unwrap();
            let came: Vec<(&str, &str)> = came.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
            assert_eq!(came, [("a", "one\né"), ("message", "two")]);
        }
    }

    #[test]
    fn an_event_without_end_takes_bounded_memory() {
        let mut reader = Reader::default();
        reader.buffer.resize(EVENT_MAX + 1, b'x');
        assert!(matches!(reader.next(), Err(ApiError::OddLine)));
        let mut reader = Reader::default();
        let line = format!("data: {}\n", "x".repeat(1_000_000));
        let refused = (0..20).any(|_| {
            reader.buffer.extend_from_slice(line.as_bytes());
            reader.next().is_err()
        });
        assert!(refused);
    }
}
