//! An answer that comes line by line: the envelopes of a dispatch while it runs.

use crate::api::ApiError;
use bytes::Bytes;
use goblin_api::{DISPATCH_ERROR, DispatchError, DispatchErrorLine};
use goblin_client::{Body, Envelope};
use goblin_protocol::frame::{Decoded, FrameDecoder};
use goblin_protocol::json;
use goblin_protocol::limits::FRAME_MAX;
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// One line of the answer.
#[derive(Debug)]
pub enum Line {
    /// An envelope of the gateway.
    Envelope(Envelope),
    /// The connection to the gateway was lost; the line as it came, and what it says.
    Lost(Bytes, DispatchError),
}

/// The lines of one answer.
pub struct Lines {
    body: Incoming,
    decoder: FrameDecoder,
    ended: bool,
}

impl Lines {
    pub(super) fn new(body: Incoming) -> Self {
        Self {
            body,
            decoder: FrameDecoder::new(FRAME_MAX),
            ended: false,
        }
    }

    /// The next line, `None` at the end of the answer. Can be dropped without losing one.
    pub async fn next(&mut self) -> Result<Option<Line>, ApiError> {
        loop {
            let decoded = match self.decoder.next() {
                None if self.ended => self.decoder.finish(),
                decoded => decoded,
            };
            match decoded {
                Some(Decoded::Frame(frame)) => return read(frame).map(Some),
                Some(Decoded::TooLarge) => return Err(ApiError::OddLine),
                None if self.ended => return Ok(None),
                None => {}
            }
            match self.body.frame().await {
                None => self.ended = true,
                Some(frame) => {
                    if let Ok(data) = frame.map_err(|error| ApiError::Cut(error.into()))?.into_data() {
                        self.decoder.buffer().extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

fn read(frame: Bytes) -> Result<Line, ApiError> {
    let envelope = Envelope::read(frame).ok_or(ApiError::OddLine)?;
    if !matches!(envelope.body, Body::Other) {
        return Ok(Line::Envelope(envelope));
    }
    let text = String::from_utf8_lossy(&envelope.text);
    match json::from_text::<DispatchErrorLine>(&text) {
        Ok(line) if line.r#type == DISPATCH_ERROR => Ok(Line::Lost(envelope.text, line.error)),
        _ => Ok(Line::Envelope(envelope)),
    }
}

#[cfg(test)]
mod tests {
    use crate::api::scripted::{Controller, NDJSON_HEAD};
    use crate::api::{ApiError, Line, Lines};
    use goblin_client::Body;
    use goblin_protocol::limits::FRAME_MAX;

    async fn opened(controller: &Controller) -> Lines {
        let body = serde_json::json!({});
        controller.api().post_for_lines("/x", &body).await.unwrap()
    }

    #[tokio::test]
    async fn lines_come_whole_however_they_were_cut() {
        let stream =
            r#"{"type":"process.stream","operationId":"o","stream":"stdout","seq":1,"data":"é","truncated":false}"#;
        let lost = r#"{"type":"dispatch.error","error":{"code":"gateway_disconnected","gatewayId":"g","retryable":true,"action":"a"}}"#;
        let text = format!("{NDJSON_HEAD}{stream}\n\r\n{{\"type\":\"news\"}}\n{lost}");
        let pieces = text.as_bytes().chunks(7).map(<[u8]>::to_vec).collect();
        let controller = Controller::start(vec![pieces]);
        let mut lines = opened(&controller).await;
        assert!(controller.requests()[0].head.contains("application/x-ndjson"));
        let first = lines.next().await.unwrap();
        let Some(Line::Envelope(envelope)) = first else {
            panic!("{first:?}")
        };
        assert_eq!(envelope.text, stream.as_bytes());
        let other = lines.next().await.unwrap();
        assert!(matches!(other, Some(Line::Envelope(envelope)) if matches!(envelope.body, Body::Other)));
        let last = lines.next().await.unwrap();
        assert!(matches!(last, Some(Line::Lost(text, error)) if text == lost && error.code == "gateway_disconnected"));
        assert!(lines.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_is_no_line_of_the_protocol_is_refused() {
        for body in ["{}x\n".to_owned(), "\u{1}\n".to_owned(), "x".repeat(FRAME_MAX + 1)] {
            let controller = Controller::start(vec![vec![[NDJSON_HEAD, &body].concat().into_bytes()]]);
            let fault = opened(&controller).await.next().await.unwrap_err();
            assert!(matches!(fault, ApiError::OddLine), "{fault}");
        }
    }

    #[tokio::test]
    async fn a_body_cut_by_the_way_is_an_error() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{\"a";
        let controller = Controller::start(vec![vec![head.into()]]);
        let fault = opened(&controller).await.next().await.unwrap_err();
        assert!(matches!(fault, ApiError::Cut(_)), "{fault}");
    }
}
