//! The operations that run, and the one decision about each request: run, replay, or refuse.

use goblin_journal::{Journal, Lookup};
use goblin_protocol::Code;
use goblin_protocol::id::{Params, baseline_request_digest};
use goblin_protocol::request::{Execution, Method};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// How a running operation is told to stop, in the form that each kind of work can watch.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// For processes.
    pub token: CancellationToken,
    /// For tools, which run on a thread of their own.
    pub flag: Arc<AtomicBool>,
}

impl Stop {
    fn stop(&self) {
        self.flag.store(true, Ordering::Relaxed);
        self.token.cancel();
    }
}

struct Operation {
    digest: String,
    stop: Stop,
}

#[derive(Default)]
struct State {
    operations: HashMap<String, Operation>,
    stopping: bool,
}

/// What is to be done about an execution request.
#[derive(Debug)]
pub enum Decision {
    /// Accept it and run it. It counts as active from now on.
    Run(Stop),
    /// Return the stored outcome, a JSON text.
    Replay(Arc<str>),
    /// It started before a crash, at these epoch milliseconds, and nobody knows how it ended.
    Unknown(u64),
    /// Refuse it.
    Refuse(Code),
}

/// The operations that run on this host.
pub struct ActiveOperations {
    state: Mutex<State>,
    most: usize,
}

impl ActiveOperations {
    /// At most `most` run at once.
    pub fn new(most: usize) -> Self {
        Self {
            state: Mutex::default(),
            most,
        }
    }

    /// Decides about a request, in the documented order. One lock covers the look into the journal and the look at what
    /// runs, and completing takes the same lock, so that an operation is always seen in one of the two.
    pub fn decide(
        &self,
        journal: &Journal,
        method: Method,
        params: &Params,
        request: &Execution,
        protected: bool,
        now_ms: u64,
    ) -> Decision {
        let mut state = self.lock();
        let id = request.operation_id.as_str();
        if protected && journal.contains_completed(id, now_ms) {
            return Decision::Refuse(Code::ProtectedRedeliveryForbidden);
        }
        let unknown = match journal.lookup(
            id,
            &request.digest,
            || baseline_request_digest(method.name(), params),
            now_ms,
        ) {
            Lookup::Completed { outcome } => return Decision::Replay(outcome),
            // An operation that runs has no entry yet, so this conflict is with a finished or an interrupted one.
            Lookup::Conflict => return Decision::Refuse(Code::OperationIdConflict),
            Lookup::Unknown { started_at_ms } => Some(started_at_ms),
            Lookup::Free => None,
        };
        if let Some(running) = state.operations.get(id) {
            let same = running.digest == request.digest;
            return Decision::Refuse(if same {
                Code::OperationInProgress
            } else {
                Code::OperationIdConflict
            });
        }
        if let Some(started_at_ms) = unknown {
            return Decision::Unknown(started_at_ms);
        }
        if state.stopping {
            return Decision::Refuse(Code::DaemonStopping);
        }
        if state.operations.len() >= self.most {
            return Decision::Refuse(Code::OperationLimitReached);
        }
        let stop = Stop::default();
        state.operations.insert(
            id.to_owned(),
            Operation {
                digest: request.digest.clone(),
                stop: stop.clone(),
            },
        );
        Decision::Run(stop)
    }

    /// The operation has ended and its outcome, if it is to have one, is in the journal.
    pub fn remove(&self, id: &str) {
        self.lock().operations.remove(id);
    }

    /// Asks an operation to stop; false when it does not run.
    pub fn cancel(&self, id: &str) -> bool {
        self.lock()
            .operations
            .get(id)
            .map(|operation| operation.stop.stop())
            .is_some()
    }

    /// Takes no new work and asks everything that runs to stop.
    pub fn stop_all(&self) {
        let mut state = self.lock();
        state.stopping = true;
        for operation in state.operations.values() {
            operation.stop.stop();
        }
    }

    /// The ids of what runs, sorted, and whether the daemon is stopping.
    pub fn snapshot(&self) -> (Vec<String>, bool) {
        let state = self.lock();
        let mut ids: Vec<String> = state.operations.keys().cloned().collect();
        ids.sort_unstable();
        (ids, state.stopping)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
