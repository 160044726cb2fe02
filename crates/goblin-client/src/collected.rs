//! The envelopes of one dispatch, gathered.

use crate::ClientError;
use crate::inbound::{Answer, Body, Envelope};
use goblin_protocol::evidence::ProcessEvidence;
use goblin_protocol::json;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Bytes of events that a gathered dispatch keeps; what comes after is left out, and said to be.
pub const EVENT_BYTES_KEPT: usize = 4 * 1024 * 1024;

/// All that a dispatch brought.
#[derive(Debug, Default)]
pub struct Collected {
    /// The `accepted` envelope, when the operation began.
    pub accepted: Option<Envelope>,
    /// Stream and terminal events, in order, up to [`EVENT_BYTES_KEPT`].
    pub events: Vec<Envelope>,
    /// True when events are missing from `events`.
    pub events_truncated: bool,
    /// The final answer's envelope.
    pub response: Option<Envelope>,
    event_bytes: usize,
}

/// The result of an execution request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationResult {
    /// The operation.
    pub operation_id: String,
    /// The outcome comes from the journal; nothing ran.
    pub replay: bool,
    /// The outcome, as delivered.
    pub outcome: Box<RawValue>,
}

impl Collected {
    /// Adds the next envelope.
    pub fn add(&mut self, envelope: Envelope) {
        match &envelope.body {
            Body::Accepted { .. } => self.accepted = Some(envelope),
            Body::Answer { .. } => self.response = Some(envelope),
            Body::Stream { .. } | Body::Terminal { .. } => {
                if self.event_bytes + envelope.text.len() <= EVENT_BYTES_KEPT {
                    self.event_bytes += envelope.text.len();
                    self.events.push(envelope);
                } else {
                    self.events_truncated = true;
                }
            }
            Body::Closing(_) | Body::Other => {}
        }
    }

    /// The final answer.
    pub fn answer(&self) -> Result<&Answer, ClientError> {
        match self.response.as_ref().map(|envelope| &envelope.body) {
            Some(Body::Answer { answer, .. }) => Ok(answer),
            _ => Err(ClientError::Disconnected),
        }
    }

    /// The result of the operation, when the gateway did not refuse it.
    pub fn result(&self) -> Result<OperationResult, ClientError> {
        match self.answer()? {
            Ok(result) => json::from_text(result.get()).map_err(ClientError::Unreadable),
            Err(error) => Err(ClientError::Remote(error.clone())),
        }
    }

    /// The same, of this very operation: an answer about another one tells nothing.
    pub fn result_of(&self, operation_id: &str) -> Result<OperationResult, ClientError> {
        let result = self.result()?;
        match result.operation_id == operation_id {
            true => Ok(result),
            false => Err(ClientError::OperationIdMismatch),
        }
    }

    /// The evidence of a process that ended.
    pub fn evidence(&self) -> Result<ProcessEvidence, ClientError> {
        json::from_text(self.result()?.outcome.get()).map_err(ClientError::Unreadable)
    }
}
