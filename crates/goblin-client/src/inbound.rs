//! What a gateway sends: one frame read into a typed envelope that still holds its text.

use bytes::Bytes;
use goblin_protocol::envelope::OutputStream;
use goblin_protocol::id::RequestId;
use goblin_protocol::json;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// An error that the gateway answered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoteError {
    /// Stable code.
    #[serde(default)]
    pub code: String,
    /// The operation it is about.
    #[serde(default)]
    pub operation_id: Option<String>,
    /// Name of the system's error.
    #[serde(default)]
    pub errno: Option<String>,
    /// When an operation of unknown outcome had started.
    #[serde(default)]
    pub started_at: Option<String>,
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.errno {
            Some(errno) => write!(f, "{} ({errno})", self.code),
            None => f.write_str(&self.code),
        }
    }
}

/// The final answer of a request.
pub type Answer = Result<Box<RawValue>, RemoteError>;

/// A chunk of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEvent {
    /// Where it came from.
    pub stream: OutputStream,
    /// Its number within the operation, from 1.
    pub seq: u64,
    /// The text.
    pub data: String,
    /// Output is missing after it.
    pub truncated: bool,
}

/// One frame from a gateway.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// What it is.
    pub body: Body,
    /// The frame as it came, without its newline: UTF-8 JSON on one line.
    pub text: Bytes,
}

/// The kinds of frames that a gateway sends.
#[derive(Clone, Debug)]
pub enum Body {
    /// An operation begins.
    Accepted {
        /// The request.
        request_id: RequestId,
        /// The operation.
        operation_id: String,
    },
    /// Output of an operation.
    Stream {
        /// The operation.
        operation_id: String,
        /// The chunk.
        event: StreamEvent,
    },
    /// The last event of a process.
    Terminal {
        /// The operation.
        operation_id: String,
    },
    /// The final answer.
    Answer {
        /// The request.
        request_id: RequestId,
        /// Result or error.
        answer: Answer,
    },
    /// The peer is about to close the connection, and why.
    Closing(String),
    /// A frame of another kind, from a newer gateway.
    Other,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    #[serde(borrow, default)]
    request_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    operation_id: Option<Cow<'a, str>>,
    #[serde(default)]
    ok: bool,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(default)]
    stream: Option<OutputStream>,
    #[serde(default)]
    seq: u64,
    #[serde(borrow, default)]
    data: Cow<'a, str>,
    #[serde(default)]
    truncated: bool,
}

impl Envelope {
    /// Reads one frame; `None` when it is no JSON object of the protocol.
    pub fn read(frame: Bytes) -> Option<Self> {
        let text = std::str::from_utf8(&frame).ok()?;
        // Serde would take an array for a struct.
        if json::too_deep(&frame) || !text.trim_start().starts_with('{') {
            return None;
        }
        // Texts are passed on as they came, so what only JavaScript takes is mended before anybody reads it.
        let repaired = match serde_json::from_str::<Frame<'_>>(text) {
            Ok(read) if !has_surrogate_escapes(&frame) => {
                let body = body(read)?;
                return Some(Self { body, text: frame });
            }
            _ => json::repair(text).into_owned(),
        };
        let body = body(serde_json::from_str(&repaired).ok()?)?;
        Some(Self {
            body,
            text: Bytes::from(repaired),
        })
    }

    /// The operation that an event is about.
    pub fn operation_id(&self) -> Option<&str> {
        match &self.body {
            Body::Accepted { operation_id, .. }
            | Body::Stream { operation_id, .. }
            | Body::Terminal { operation_id } => Some(operation_id),
            _ => None,
        }
    }
}

/// `\\ud…`: a pair of them is fine, a lone one is not.
fn has_surrogate_escapes(frame: &[u8]) -> bool {
    memchr::memmem::find(frame, b"\\ud")
        .or_else(|| memchr::memmem::find(frame, b"\\uD"))
        .is_some()
}

fn body(frame: Frame<'_>) -> Option<Body> {
    let request_id = || {
        frame
            .request_id
            .map_or_else(|| Some(RequestId::null()), |raw| RequestId::from_json(raw.get()))
    };
    let operation_id = || frame.operation_id.as_ref().map(|id| id.clone().into_owned());
    let error = || {
        frame
            .error
            .and_then(|raw| json::from_text::<RemoteError>(raw.get()).ok())
    };
    Some(match frame.r#type.as_ref() {
        "accepted" => Body::Accepted {
            request_id: request_id()?,
            operation_id: operation_id()?,
        },
        "process.stream" => Body::Stream {
            operation_id: operation_id()?,
            event: StreamEvent {
                stream: frame.stream?,
                seq: frame.seq,
                data: frame.data.into_owned(),
                truncated: frame.truncated,
            },
        },
        "process.terminal" => Body::Terminal {
            operation_id: operation_id()?,
        },
        "response" if frame.ok => Body::Answer {
            request_id: request_id()?,
            answer: Ok(frame.result?.to_owned()),
        },
        "response" | "error" => Body::Answer {
            request_id: request_id()?,
            answer: Err(error()?),
        },
        "transport.error" => Body::Closing(error()?.code),
        _ => Body::Other,
    })
}
