//! What the frames of one connection say about operations: activity is updated and the end recorded, whether somebody
//! still waits for the answer or not, and for work that an earlier connection began as well.

use crate::activity::ActivityLog;
use crate::recorder::Recorder;
use goblin_client::{Answer, Body, Envelope, Observer};
use goblin_ports::TerminalReference;
use goblin_protocol::digest::sha256_hex;
use goblin_protocol::{Code, RequestId, json};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Answers that leave the operation unresolved: it runs, its outcome is not known, or it has one that was withheld.
const UNRESOLVED: [Code; 4] = [
    Code::OperationInProgress,
    Code::OperationOutcomeUnknown,
    Code::ProtectedRedeliveryForbidden,
    Code::InternalError,
];

struct Running {
    operation_id: Arc<str>,
    recorded: oneshot::Sender<()>,
}

/// The operations under way on one connection.
pub(crate) struct Tracker {
    gateway_id: Arc<str>,
    activity: Arc<ActivityLog>,
    recorder: Recorder,
    running: Mutex<HashMap<RequestId, Running>>,
}

impl Tracker {
    pub(crate) fn new(gateway_id: Arc<str>, activity: Arc<ActivityLog>, recorder: Recorder) -> Self {
        Self {
            gateway_id,
            activity,
            recorder,
            running: Mutex::default(),
        }
    }

    /// Expects the answer of a request. The receiver resolves once the answer is recorded, or will not be.
    pub(crate) fn expect(&self, request_id: RequestId, operation_id: &str) -> oneshot::Receiver<()> {
        let (recorded, receiver) = oneshot::channel();
        let running = Running {
            operation_id: operation_id.into(),
            recorded,
        };
        self.running().insert(request_id, running);
        receiver
    }

    /// The request was not sent.
    pub(crate) fn forget(&self, request_id: &RequestId) {
        self.running().remove(request_id);
    }

    /// Requests whose answer is outstanding.
    pub(crate) fn active(&self) -> usize {
        self.running().len()
    }

    /// The connection is lost. Whatever is expected now was interrupted. May be called again.
    pub(crate) fn interrupt(&self) {
        let lost = std::mem::take(&mut *self.running());
        for running in lost.values() {
            self.activity.interrupted(&self.gateway_id, &running.operation_id);
        }
    }

    fn running(&self) -> MutexGuard<'_, HashMap<RequestId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn runs(&self, operation_id: &str) -> bool {
        self.running().values().any(|it| *it.operation_id == *operation_id)
    }

    fn answered(&self, request_id: &RequestId, answer: &Answer) {
        let running = self.running().remove(request_id);
        let conclusion = Conclusion::of(answer);
        match running {
            Some(Running { operation_id, recorded }) => {
                let conclusion = conclusion.about(&operation_id);
                // A refusal of a repetition says nothing about the first one, which still runs.
                if answer.is_err() && self.runs(&operation_id) {
                    return;
                }
                self.conclude(&operation_id, &conclusion);
                if conclusion.resolves() {
                    self.recorder.answered(conclusion.reference(&operation_id), recorded);
                }
            }
            None => {
                if let Some(operation_id) = conclusion.operation_id.clone() {
                    self.late(&operation_id, &conclusion);
                }
            }
        }
    }

    fn conclude(&self, operation_id: &str, conclusion: &Conclusion) {
        if conclusion.outcome == Code::OperationInProgress.as_str() {
            self.activity.running(&self.gateway_id, operation_id);
        } else {
            self.activity
                .ended(&self.gateway_id, operation_id, &conclusion.outcome, conclusion.replay);
        }
    }

    fn late(&self, operation_id: &str, conclusion: &Conclusion) {
        self.conclude(operation_id, conclusion);
        if conclusion.resolves() {
            self.recorder
                .late(conclusion.reference(operation_id), self.gateway_id.clone());
        }
    }
}

impl Observer for Tracker {
    fn arrived(&self, envelope: &Envelope) {
        match &envelope.body {
            Body::Accepted { operation_id, .. } => self.activity.running(&self.gateway_id, operation_id),
            Body::Answer { request_id, answer } => self.answered(request_id, answer),
            // Where an answer is expected it tells the same a moment later.
            Body::Terminal { operation_id } if !self.runs(operation_id) => {
                if let Some(conclusion) = Conclusion::of_terminal(&envelope.text) {
                    self.late(operation_id, &conclusion);
                }
            }
            _ => {}
        }
    }

    fn closed(&self) {
        self.interrupt();
    }
}

/// How an operation ended.
struct Conclusion {
    operation_id: Option<String>,
    /// `completed`, `failed`, `timed_out`, `cancelled`, or an error code.
    outcome: String,
    replay: bool,
    digest: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OperationResult<'a> {
    #[serde(default)]
    operation_id: Option<String>,
    #[serde(default)]
    replay: bool,
    #[serde(borrow, default)]
    outcome: Option<&'a RawValue>,
}

/// What tells how a process or a tool ended.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ending {
    #[serde(default)]
    exit_code: Option<i64>,
    #[serde(default)]
    cancelled: bool,
    #[serde(default)]
    timed_out: bool,
    /// Only tools have it.
    #[serde(default)]
    ok: Option<bool>,
}

impl Conclusion {
    fn of(answer: &Answer) -> Self {
        match answer {
            Ok(result) => match serde_json::from_str::<OperationResult<'_>>(result.get()) {
                Ok(result) => Self {
                    outcome: result.outcome.map_or("completed", word).to_owned(),
                    digest: result.outcome.map(|outcome| sha256_hex(outcome.get().as_bytes())),
                    operation_id: result.operation_id,
                    replay: result.replay,
                },
                // The answer came, whatever it says.
                Err(_) => Self::refused("gateway_answer_unreadable", None),
            },
            Err(error) => Self::refused(&error.code, error.operation_id.clone()),
        }
    }

    fn of_terminal(frame: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Terminal {
            evidence: Box<RawValue>,
        }
        let terminal: Terminal = json::from_text(std::str::from_utf8(frame).ok()?).ok()?;
        Some(Self {
            operation_id: None,
            outcome: word(&terminal.evidence).to_owned(),
            replay: false,
            digest: Some(sha256_hex(terminal.evidence.get().as_bytes())),
        })
    }

    fn refused(code: &str, operation_id: Option<String>) -> Self {
        Self {
            operation_id,
            outcome: if known_form(code) { code } else { "error_code_invalid" }.to_owned(),
            replay: false,
            digest: None,
        }
    }

    /// The conclusion as far as it is about this operation. An answer about another one came, but tells nothing.
    fn about(self, operation_id: &str) -> Self {
        match &self.operation_id {
            Some(other) if other != operation_id => Self::refused("gateway_operation_id_mismatch", None),
            _ => self,
        }
    }

    fn resolves(&self) -> bool {
        !UNRESOLVED.iter().any(|code| code.as_str() == self.outcome)
    }

    fn reference(&self, operation_id: &str) -> TerminalReference {
        TerminalReference {
            operation_id: operation_id.to_owned(),
            replay: self.replay,
            outcome_digest: self.digest.clone(),
        }
    }
}

fn word(outcome: &RawValue) -> &'static str {
    match serde_json::from_str::<Ending>(outcome.get()) {
        Ok(Ending { timed_out: true, .. }) => "timed_out",
        Ok(Ending { cancelled: true, .. }) => "cancelled",
        Ok(
            Ending { ok: Some(true), .. }
            | Ending {
                ok: None,
                exit_code: Some(0),
                ..
            },
        ) => "completed",
        _ => "failed",
    }
}

/// True for what has the form of a code: it may be shown, logged and kept. A gateway cannot smuggle text in it.
pub(crate) fn known_form(code: &str) -> bool {
    (1..=64).contains(&code.len())
        && code
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
