//! One accepted operation, from `accepted` to its final response.

use crate::active::{ActiveOperations, Stop};
use crate::clock::now_ms;
use crate::environment::BaseEnvironment;
use crate::outlet::Outlet;
use crate::process::{evidence, run_spec};
use goblin_files::{Files, Tool, shorten_read};
use goblin_journal::{Journal, StartRecord};
use goblin_keys::random;
use goblin_protocol::Code;
use goblin_protocol::envelope::{self, OperationError, OutputStream};
use goblin_protocol::id::{Params, RequestId};
use goblin_protocol::process::ProcessRequest;
use goblin_protocol::request::ProtectedValues;
use goblin_runner::{Chunk, Outcome, Runner, Sink, Stream};
use serde_json::value::RawValue;
use std::path::PathBuf;
use std::sync::Arc;
use tracing::{error, warn};

/// Bytes of randomness in an operation's mark.
const MARK_BYTES: usize = 16;

/// What operations need of the daemon.
pub struct Host {
    /// Starts processes.
    pub runner: Runner,
    /// Remembers operations.
    pub journal: Journal,
    /// What runs now.
    pub active: ActiveOperations,
    /// Runs tools.
    pub files: Arc<Files>,
    /// What children share of the environment.
    pub environment: BaseEnvironment,
    /// Working directory of the daemon, absolute.
    pub directory: PathBuf,
    /// The boot that this is.
    pub boot_id: String,
    /// Where events go.
    pub outlet: Outlet,
}

/// Who asked for what.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// The request to answer.
    pub id: &'a RequestId,
    /// The operation.
    pub operation_id: &'a str,
    /// Its request's digest.
    pub digest: &'a str,
    /// Tells it to stop.
    pub stop: &'a Stop,
}

impl Order<'_> {
    fn refusal(&self, code: &str, errno: Option<&str>) -> Vec<u8> {
        envelope::refusal(
            self.id,
            &OperationError {
                code,
                operation_id: Some(self.operation_id),
                errno,
                started_at: None,
            },
        )
    }
}

impl Order<'_> {
    /// The final response.
    fn response(&self, outcome: &RawValue, journaled: bool) -> Vec<u8> {
        envelope::outcome_response(self.id, self.operation_id, false, journaled, outcome)
            .unwrap_or_else(|| self.refusal(Code::OutputFrameTooLarge.as_str(), None))
    }
}

impl Host {
    /// Writes the start record. A journal that cannot be written does not keep work from being done; it says so in `health`.
    fn record_start(&self, order: Order<'_>, mark: &str) {
        let record = StartRecord {
            id: order.operation_id.to_owned(),
            digest: order.digest.to_owned(),
            started_at_ms: now_ms(),
            boot_id: self.boot_id.clone(),
            mark: mark.to_owned(),
        };
        if let Err(fault) = self.journal.start(&record, now_ms()) {
            warn!(%fault, operation = order.operation_id, "the start of an operation could not be journaled");
        }
    }

    fn withdraw_start(&self, order: Order<'_>) {
        if let Err(fault) = self.journal.withdraw(order.operation_id, now_ms()) {
            warn!(%fault, operation = order.operation_id, "the start of an operation could not be withdrawn from the journal");
        }
    }

    /// Stores the outcome as delivered; false when the journal could not take it.
    fn store(&self, order: Order<'_>, outcome: &RawValue) -> bool {
        let stored = self
            .journal
            .complete(order.operation_id, order.digest, outcome.get(), now_ms());
        if let Err(fault) = &stored {
            warn!(%fault, operation = order.operation_id, "an outcome could not be journaled");
        }
        stored.is_ok()
    }
}

/// Sends output as stream events.
struct Events<'a> {
    outlet: &'a Outlet,
    operation_id: &'a str,
    /// Number of the last event that went out.
    seq: u64,
    /// Bytes of each stream that went out, or were dropped for want of a connection.
    told: [usize; 2],
    told_truncated: bool,
}

impl<'a> Events<'a> {
    fn new(outlet: &'a Outlet, operation_id: &'a str) -> Self {
        Self {
            outlet,
            operation_id,
            seq: 0,
            told: [0; 2],
            told_truncated: false,
        }
    }

    /// The runner drops this future when an operation has to be settled while the peer is slow. Nothing counts before it
    /// is queued, so the next event takes the number, and [`Events::finish`] tells the text.
    async fn tell(&mut self, stream: OutputStream, data: &str, truncated: bool) {
        let event = envelope::stream_event(self.operation_id, stream, self.seq + 1, data, truncated);
        self.outlet.send(event).await;
        self.seq += 1;
        self.told[stream as usize] += data.len();
        self.told_truncated |= truncated;
    }

    /// Tells what the evidence holds and no event has told yet; gives the number of the terminal event.
    async fn finish(&mut self, evidence: &UntoldText) -> u64 {
        let last = if evidence.stderr.is_empty() {
            OutputStream::Stdout
        } else {
            OutputStream::Stderr
        };
        for (stream, text) in [
            (OutputStream::Stdout, &evidence.stdout),
            (OutputStream::Stderr, &evidence.stderr),
        ] {
            if !text.is_empty() {
                let truncated = evidence.truncated && !self.told_truncated && stream == last;
                self.tell(stream, text, truncated).await;
            }
        }
        self.seq + 1
    }

    /// What is still to be told of an outcome.
    fn untold(&self, outcome: &Outcome) -> UntoldText {
        let rest =
            |text: &str, stream: OutputStream| text.get(self.told[stream as usize]..).unwrap_or_default().to_owned();
        UntoldText {
            stdout: rest(&outcome.stdout, OutputStream::Stdout),
            stderr: rest(&outcome.stderr, OutputStream::Stderr),
            truncated: outcome.truncated,
        }
    }
}

/// Output that is in the evidence and in no event: nearly always nothing.
struct UntoldText {
    stdout: String,
    stderr: String,
    truncated: bool,
}

impl Sink for Events<'_> {
    async fn chunk(&mut self, chunk: Chunk) {
        let stream = match chunk.stream {
            Stream::Stdout => OutputStream::Stdout,
            Stream::Stderr => OutputStream::Stderr,
        };
        self.tell(stream, &chunk.data, chunk.truncated).await;
    }
}

/// Runs a process; gives the final response.
pub async fn run_process(
    host: &Host,
    order: Order<'_>,
    request: ProcessRequest,
    protected: ProtectedValues,
) -> Vec<u8> {
    let Ok(mark) = random::hex(MARK_BYTES) else {
        return order.refusal(Code::InternalError.as_str(), None);
    };
    host.outlet.send(envelope::accepted(order.id, order.operation_id)).await;
    host.record_start(order, &mark);
    let environment = host.environment.for_child(&request.env, &protected, &mark);
    let spec = run_spec(&request, environment, &protected, &host.directory);
    drop(protected);
    let mut events = Events::new(&host.outlet, order.operation_id);
    let outcome = match host.runner.run(spec, &order.stop.token, &mut events).await {
        Ok(outcome) => outcome,
        Err(failure) => {
            host.withdraw_start(order);
            return order.refusal(failure.code(), failure.errno());
        }
    };
    let untold = events.untold(&outcome);
    let mut evidence = evidence(request, outcome, &host.directory);
    let Some(text) = envelope::fit_evidence(&mut evidence, envelope::outcome_room(order.id, order.operation_id)) else {
        // What does not fit is the request's own text. It ran, so its id stays taken, and a replay meets the same gate.
        evidence.stdout.clear();
        evidence.stderr.clear();
        (evidence.truncated, evidence.transport_truncated) = (true, true);
        evidence.seal();
        if let Some(text) = serde_json::to_string(&evidence)
            .ok()
            .and_then(|text| RawValue::from_string(text).ok())
        {
            host.store(order, &text);
        }
        return order.refusal(Code::OutputFrameTooLarge.as_str(), None);
    };
    drop(evidence);
    // The journal comes before anything that a slow peer could hold up.
    let journaled = host.store(order, &text);
    host.active.remove(order.operation_id);
    let seq = events.finish(&untold).await;
    host.outlet
        .send(envelope::terminal_event(order.operation_id, seq, &text))
        .await;
    order.response(&text, journaled)
}

/// Runs a filesystem tool; gives the final response.
pub async fn run_tool(host: &Host, order: Order<'_>, tool: String, arguments: Params) -> Vec<u8> {
    let writes = Tool::parse(&tool).is_some_and(Tool::writes);
    host.outlet.send(envelope::accepted(order.id, order.operation_id)).await;
    if writes {
        // No process carries a mark: a tool's effects are atomic, and nothing of it outlives the daemon.
        host.record_start(order, "");
    }
    let (files, flag) = (host.files.clone(), order.stop.flag.clone());
    let outcome = match tokio::task::spawn_blocking(move || files.run(&tool, &arguments, &flag)).await {
        Ok(outcome) => outcome,
        Err(fault) => {
            error!(%fault, operation = order.operation_id, "a filesystem tool failed by a bug");
            return order.refusal(Code::InternalError.as_str(), None);
        }
    };
    let room = envelope::outcome_room(order.id, order.operation_id);
    let text = if outcome.json.len() <= room {
        Some(outcome.json)
    } else {
        shorten_read(&outcome.json, room)
    };
    match text.and_then(|text| RawValue::from_string(text).ok()) {
        Some(text) => order.response(&text, host.store(order, &text)),
        None => {
            // Only answers of reading tools can be this long; running one again does no harm.
            if writes {
                host.withdraw_start(order);
            }
            order.refusal(Code::OutputFrameTooLarge.as_str(), None)
        }
    }
}
