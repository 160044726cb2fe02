//! The daemon: one frame in, its answers out. It knows the methods and who may deliver what; it knows no socket.

use crate::active::{ActiveOperations, Decision};
use crate::clock::now_ms;
use crate::environment::BaseEnvironment;
use crate::operation::{self, Host};
use crate::outlet::Outlet;
use futures_util::FutureExt;
use goblin_files::{Files, shorten_read};
use goblin_journal::Journal;
use goblin_protocol::Code;
use goblin_protocol::envelope::{self, OperationError, PROTOCOL_VERSION};
use goblin_protocol::evidence::ProcessEvidence;
use goblin_protocol::id::{Params, RequestId, named_operation_id};
use goblin_protocol::request::{DeliveryBinding, Execution, Method, NotARequest, Request, Work, take_protected_values};
use goblin_protocol::time::iso8601;
use goblin_runner::Runner;
use serde::Serialize;
use serde_json::value::RawValue;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, warn};

/// The daemon's name on the wire.
pub const NAME: &str = "burrow-host-gateway";

/// How long the last answers may wait for a peer that does not read, once the daemon stops.
pub(crate) const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// What a daemon is made of.
pub struct Parts {
    /// Version that `hello` reports.
    pub version: String,
    /// The boot that this is, for start records.
    pub boot_id: String,
    /// Finished and started operations.
    pub journal: Journal,
    /// The filesystem tools.
    pub files: Files,
    /// What children share of the environment.
    pub environment: BaseEnvironment,
    /// Working directory of the daemon, absolute.
    pub directory: PathBuf,
    /// Operations that may run at once.
    pub max_operations: usize,
}

/// The running daemon. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Daemon(Arc<Inner>);

struct Inner {
    version: String,
    host: Host,
    work: TaskTracker,
    stop: CancellationToken,
}

/// The connection that a frame came over.
#[derive(Clone, Debug)]
pub enum Session {
    /// Standard input and output: no identity, no protected values.
    Stdio,
    /// An authenticated connection.
    Authenticated {
        /// Our own id.
        gateway_id: String,
        /// The controller's name for the connection.
        connection_id: String,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Hello<'a> {
    name: &'static str,
    version: &'a str,
    protocol_version: &'static str,
    transport: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    status: &'static str,
    active_operations: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cancelling {
    operation_id: Option<String>,
    cancelling: bool,
}

#[derive(Serialize)]
struct Stopping {
    status: &'static str,
}

impl Daemon {
    /// A daemon that runs nothing yet and is connected to nobody.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            version: parts.version,
            host: Host {
                runner: Runner::new(),
                journal: parts.journal,
                active: ActiveOperations::new(parts.max_operations),
                files: Arc::new(parts.files),
                environment: parts.environment,
                directory: parts.directory,
                boot_id: parts.boot_id,
                outlet: Outlet::default(),
            },
            work: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Where its answers go.
    pub fn outlet(&self) -> &Outlet {
        &self.0.host.outlet
    }

    /// Cancelled once the daemon has been asked to stop.
    pub fn stopping(&self) -> &CancellationToken {
        &self.0.stop
    }

    /// Asks the daemon to stop: no new work, everything that runs is cancelled.
    pub fn stop(&self) {
        self.0.host.active.stop_all();
        self.0.stop.cancel();
    }

    /// Waits until all accepted work has been answered; false when the peer had to be given up. That happens only once the
    /// daemon has been asked to stop: the last answers may wait for a slow peer, but not for ever.
    pub async fn finished(&self) -> bool {
        let drained = || async {
            self.0.work.close();
            self.0.work.wait().await;
        };
        let patience = async {
            self.0.stop.cancelled().await;
            tokio::time::sleep(LAST_ANSWERS).await;
        };
        tokio::select! {
            () = drained() => return true,
            () = patience => {}
        }
        warn!("the peer reads nothing; its last answers are dropped");
        self.0.host.outlet.give_up();
        // Nothing holds the work up any more: its outcomes get into the journal.
        if tokio::time::timeout(LAST_ANSWERS, drained()).await.is_err() {
            warn!("some work does not end");
        }
        false
    }

    /// Ends what is left: groups that still have to die, and the journal's clean snapshot.
    pub async fn close(&self) {
        self.0.host.runner.settle().await;
        if let Err(fault) = self.0.host.journal.close(now_ms()) {
            warn!(%fault, "the journal could not be closed cleanly");
        }
    }

    /// Drops outcomes whose time is over.
    pub fn expire(&self) {
        self.0.host.journal.expire(now_ms());
    }

    /// Answers one frame. Returns once the answer is queued and work, if any, has begun in a task of its own.
    pub async fn receive(&self, frame: &[u8], session: &Session) {
        match Request::read(frame) {
            Ok(request) => self.answer(request, session).await,
            Err(NotARequest { id, code }) => self.0.host.outlet.send(envelope::protocol_error(&id, code)).await,
        }
    }

    /// Answers a frame over the cap, where the stream goes on after it.
    pub async fn receive_too_large(&self) {
        self.0
            .host
            .outlet
            .send(envelope::protocol_error(&RequestId::null(), Code::FrameTooLarge))
            .await;
    }

    /// Outcomes that are kept for replay now.
    pub fn journal_entries(&self) -> usize {
        self.0.host.journal.len()
    }

    async fn answer(&self, request: Request, session: &Session) {
        let Request { id, method, params } = request;
        let answer = match method {
            Method::Hello => envelope::response(&id, &self.hello(session)),
            Method::Health => envelope::response(&id, &self.health()),
            Method::Cancel => envelope::response(&id, &self.cancel(&params)),
            Method::Shutdown => {
                self.0
                    .host
                    .outlet
                    .send(envelope::response(&id, &Stopping { status: "stopping" }))
                    .await;
                return self.stop();
            }
            Method::ProcessExec | Method::FilesystemExecute => match self.execute(&id, method, params, session) {
                Some(answer) => answer,
                None => return,
            },
            // Answered honestly until spans are exported: a configuration that does nothing would be a lie.
            Method::TelemetryConfigure => envelope::protocol_error(&id, Code::UnknownMethod),
        };
        self.0.host.outlet.send(answer).await;
    }

    fn hello(&self, session: &Session) -> Hello<'_> {
        let transport = match session {
            Session::Stdio => "stdio-jsonl",
            Session::Authenticated { .. } => "tls-jsonl-outbound",
        };
        Hello {
            name: NAME,
            version: &self.0.version,
            protocol_version: PROTOCOL_VERSION,
            transport,
        }
    }

    fn health(&self) -> Health {
        let (active_operations, stopping) = self.0.host.active.snapshot();
        let warnings = self.0.host.journal.warnings();
        let status = if stopping {
            "stopping"
        } else if warnings.is_empty() {
            "ok"
        } else {
            "degraded"
        };
        Health {
            status,
            active_operations,
            warnings,
        }
    }

    fn cancel(&self, params: &Params) -> Cancelling {
        // An id that could not name an operation names none that runs.
        let operation_id = named_operation_id(params).unwrap_or_default();
        let cancelling = operation_id.as_deref().is_some_and(|id| self.0.host.active.cancel(id));
        Cancelling {
            operation_id,
            cancelling,
        }
    }

    /// Decides about an execution request. Gives the answer, or begins the work that will answer by itself.
    fn execute(&self, id: &RequestId, method: Method, mut params: Params, session: &Session) -> Option<Vec<u8>> {
        let execution = match Execution::read(method, &params) {
            Ok(execution) => execution,
            Err(refusal) => {
                return Some(envelope::refusal(
                    id,
                    &OperationError::new(refusal.code, refusal.operation_id.as_deref()),
                ));
            }
        };
        let operation_id = execution.operation_id.as_str();
        let refuse = |code| Some(envelope::refusal(id, &OperationError::new(code, Some(operation_id))));
        let binding = match (session, method) {
            (
                Session::Authenticated {
                    gateway_id,
                    connection_id,
                },
                Method::ProcessExec,
            ) => Some(DeliveryBinding {
                gateway_id: gateway_id.clone(),
                connection_id: connection_id.clone(),
                request_id: id.plain(),
                operation_id: operation_id.to_owned(),
            }),
            _ => None,
        };
        let protected = match take_protected_values(&mut params, binding.as_ref()) {
            Ok(protected) => protected,
            Err(code) => return Some(envelope::protocol_error(id, code)),
        };
        match self.0.host.active.decide(
            &self.0.host.journal,
            method,
            &params,
            &execution,
            protected.is_some(),
            now_ms(),
        ) {
            Decision::Refuse(code) => refuse(code),
            Decision::Replay(outcome) => Some(replayed(id, operation_id, &outcome)),
            Decision::Unknown(started_at_ms) => {
                let started_at = iso8601(started_at_ms.try_into().unwrap_or(i64::MAX));
                let error = OperationError {
                    started_at: Some(&started_at),
                    ..OperationError::new(Code::OperationOutcomeUnknown, Some(operation_id))
                };
                Some(envelope::refusal(id, &error))
            }
            Decision::Run(stop) => {
                debug!(operation = operation_id, method = method.name(), "accepted");
                let (daemon, id) = (self.clone(), id.clone());
                self.0.work.spawn(async move {
                    let order = operation::Order {
                        id: &id,
                        operation_id: &execution.operation_id,
                        digest: &execution.digest,
                        stop: &stop,
                    };
                    let host = &daemon.0.host;
                    let work = async {
                        match execution.work {
                            Work::Process(request) => {
                                operation::run_process(host, order, *request, protected.unwrap_or_default()).await
                            }
                            Work::Filesystem { tool, arguments } => {
                                operation::run_tool(host, order, tool, arguments).await
                            }
                        }
                    };
                    // A bug in one operation neither leaves it active and unanswered nor ends the daemon.
                    let answer = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
                        error!(operation = order.operation_id, "an operation failed by a bug");
                        envelope::refusal(&id, &OperationError::new(Code::InternalError, Some(order.operation_id)))
                    });
                    host.active.remove(order.operation_id);
                    host.outlet.send(answer).await;
                });
                None
            }
        }
    }
}

/// The answer of a replay. It passes the same frame budget as the first answer did.
fn replayed(id: &RequestId, operation_id: &str, outcome: &str) -> Vec<u8> {
    let answer = |text: Box<RawValue>| envelope::outcome_response(id, operation_id, true, true, &text);
    let too_large = || envelope::refusal(id, &OperationError::new(Code::OutputFrameTooLarge, Some(operation_id)));
    let room = envelope::outcome_room(id, operation_id);
    let fitted = if outcome.len() <= room {
        RawValue::from_string(outcome.to_owned()).ok()
    } else if let Ok(mut evidence) = serde_json::from_str::<ProcessEvidence>(outcome) {
        envelope::fit_evidence(&mut evidence, room)
    } else {
        shorten_read(outcome, room).and_then(|text| RawValue::from_string(text).ok())
    };
    fitted.and_then(answer).unwrap_or_else(too_large)
}
