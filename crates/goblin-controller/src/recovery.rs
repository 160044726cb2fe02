//! Operations whose connection was lost after the gateway had accepted them: on its next connection they are asked for
//! again under the same id, so that what became of them is recorded. Nobody waits for the answer here.
//!
//! Only what was accepted is asked for, and never with protected values: a gateway that accepted an operation knows the
//! id, so it answers from its journal or says that the operation runs. It must never be the first to send anything, nor
//! outlive the process: after a restart the params are gone, and a record stays unresolved until its gateway, a
//! repetition by the client, or an operator settles it.

use crate::dispatch::{self, queue};
use crate::registry::Ready;
use crate::service::Shared;
use goblin_client::Body;
use goblin_protocol::id::Params;
use goblin_protocol::request::Method;
use goblin_protocol::{Code, RequestId};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::{info, warn};

/// Operations kept for recovery, of all gateways: the records of further ones stay unresolved.
const UNSETTLED_MAX: usize = 1024;

/// Bytes of their params, which each may be as large as a frame.
const UNSETTLED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What it takes to ask for an operation again.
#[derive(Clone)]
pub(crate) struct Recoverable {
    pub(crate) method: Method,
    /// Without protected values and their delivery.
    pub(crate) params: Arc<Params>,
}

/// An operation that was accepted and whose end is not known.
struct Unsettled {
    operation_id: Arc<str>,
    method: Method,
    params: Box<RawValue>,
}

#[derive(Default)]
struct Kept {
    by_gateway: HashMap<Arc<str>, BTreeMap<Arc<str>, Arc<Unsettled>>>,
    count: usize,
    bytes: usize,
}

/// The operations to ask for, by gateway.
#[derive(Default)]
pub(crate) struct Recovery(Mutex<Kept>);

impl Recovery {
    /// Keeps an operation until its end is known. False when there is no room for it.
    pub(crate) fn keep(&self, gateway_id: &Arc<str>, operation_id: &Arc<str>, recoverable: &Recoverable) -> bool {
        let Ok(params) = serde_json::value::to_raw_value(&*recoverable.params) else {
            return false;
        };
        let mut kept = self.lock();
        kept.remove(gateway_id, operation_id);
        let bytes = kept.bytes + params.get().len();
        if kept.count >= UNSETTLED_MAX || bytes > UNSETTLED_BYTES_MAX {
            return false;
        }
        kept.count += 1;
        kept.bytes = bytes;
        let unsettled = Unsettled {
            operation_id: operation_id.clone(),
            method: recoverable.method,
            params,
        };
        let of_gateway = kept.by_gateway.entry(gateway_id.clone()).or_default();
        of_gateway.insert(operation_id.clone(), Arc::new(unsettled));
        true
    }

    /// The operation's end is known, or will never be.
    pub(crate) fn forget(&self, gateway_id: &str, operation_id: &str) {
        self.lock().remove(gateway_id, operation_id);
    }

    /// The gateway is shut out: nothing of it will be asked for.
    pub(crate) fn forget_gateway(&self, gateway_id: &str) {
        let mut kept = self.lock();
        for unsettled in kept.by_gateway.remove(gateway_id).unwrap_or_default().into_values() {
            kept.count -= 1;
            kept.bytes -= unsettled.params.get().len();
        }
    }

    /// True when something of the gateway is to be asked for.
    pub(crate) fn has(&self, gateway_id: &str) -> bool {
        self.lock().by_gateway.contains_key(gateway_id)
    }

    fn of(&self, gateway_id: &str) -> Vec<Arc<Unsettled>> {
        let kept = self.lock();
        let of_gateway = kept.by_gateway.get(gateway_id);
        of_gateway.map_or_else(Vec::new, |of_gateway| of_gateway.values().cloned().collect())
    }

    fn holds(&self, gateway_id: &str, operation_id: &str) -> bool {
        let kept = self.lock();
        kept.by_gateway
            .get(gateway_id)
            .is_some_and(|of_gateway| of_gateway.contains_key(operation_id))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn remove(&mut self, gateway_id: &str, operation_id: &str) {
        let Some(of_gateway) = self.by_gateway.get_mut(gateway_id) else {
            return;
        };
        if let Some(unsettled) = of_gateway.remove(operation_id) {
            self.count -= 1;
            self.bytes -= unsettled.params.get().len();
        }
        if of_gateway.is_empty() {
            self.by_gateway.remove(gateway_id);
        }
    }
}

/// What the gateway said.
enum Said {
    /// All that will ever be known of it.
    Enough,
    /// It runs, or there was no room to look: ask again later.
    Later,
    /// The connection is lost, or the gateway stops: the next connection asks.
    Nothing,
}

/// Asks a gateway that is ready for all that it left open, and again while it says that something runs.
pub(crate) async fn recover(shared: &Arc<Shared>, ready: &Arc<Ready>) {
    let timing = &shared.options.timing;
    let mut pause = timing.recover_first;
    loop {
        let mut later = false;
        for unsettled in shared.recovery.of(&ready.gateway_id) {
            // Late evidence, a repetition or an operator may have settled it meanwhile.
            if !shared.recovery.holds(&ready.gateway_id, &unsettled.operation_id) {
                continue;
            }
            match ask(shared, ready, &unsettled).await {
                Said::Enough => shared.recovery.forget(&ready.gateway_id, &unsettled.operation_id),
                Said::Later => later = true,
                Said::Nothing => return,
            }
        }
        if !later {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(timing.recover_longest);
    }
}

async fn ask(shared: &Arc<Shared>, ready: &Arc<Ready>, unsettled: &Unsettled) -> Said {
    let operation_id = &*unsettled.operation_id;
    let request_id = RequestId::text(&uuid::Uuid::new_v4().to_string());
    let recorded = ready.tracker.expect_recovery(request_id.clone(), operation_id);
    let sent = queue(shared, ready, request_id.clone(), unsettled.method, &unsettled.params).await;
    let Ok(mut dispatch) = sent else {
        ready.tracker.forget(&request_id);
        return Said::Nothing;
    };
    while let Some(envelope) = dispatch.next().await {
        match envelope.body {
            Body::Accepted { .. } => {
                // It accepted this before and has lost what it knew of it: nobody asked for a second run.
                warn!(gateway_id = %ready.gateway_id, "a gateway began an operation again; it is cancelled");
                let (shared, gateway_id) = (shared.clone(), ready.gateway_id.clone());
                let operation_id = operation_id.to_owned();
                let tasks = shared.tasks.clone();
                // Its answer tells nothing that the operation's own does not.
                tasks.spawn(async move {
                    let _ = dispatch::cancel(&shared, &gateway_id, &operation_id).await;
                });
            }
            Body::Answer { answer, .. } => {
                // An error means that there is nothing to record.
                let _ = recorded.await;
                return said(&ready.gateway_id, answer.err().map(|error| error.code));
            }
            _ => {}
        }
    }
    Said::Nothing
}

fn said(gateway_id: &str, refusal: Option<String>) -> Said {
    let is = |code: Code| refusal.as_deref() == Some(code.as_str());
    if is(Code::OperationInProgress) || is(Code::OperationLimitReached) {
        Said::Later
    } else if is(Code::DaemonStopping) {
        Said::Nothing
    } else {
        info!(
            gateway_id,
            outcome_known = refusal.is_none(),
            "an interrupted operation was asked for again"
        );
        Said::Enough
    }
}
