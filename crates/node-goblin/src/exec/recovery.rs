//! Getting at the outcome of a command after its answer was lost, by the same operation id. It must never know how
//! envelopes are printed.
//!
//! What must hold: nothing runs twice. A request is repeated only when the gateway is known to have accepted it, or when
//! the controller is known never to have sent it; and only while the gateway is sure to remember it. Secrets are
//! delivered once, so a repetition of what was accepted goes without them.

use crate::api::{Api, ApiError, explained};
use crate::exec::ending::{How, Outcome};
use goblin_api::{Activity, ActivityState, CorrelationState, OperationAnswer, TrustListing, routes};
use goblin_client::RemoteError;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long one look at the record, or one cancel, may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How patiently an outcome is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Pause before the first try.
    pub first: Duration,
    /// Longest pause; it doubles up to here.
    pub most: Duration,
    /// How long after the operation was last known to run it may be asked for: shorter than a gateway keeps outcomes, by
    /// what it takes to notice that a connection is lost.
    pub window: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(200),
            most: Duration::from_secs(5),
            window: Duration::from_secs(210),
        }
    }
}

/// The pauses of one recovery.
pub struct Pauses {
    patience: Patience,
    next: Duration,
    /// When the operation was last known to run.
    alive: Instant,
}

impl Pauses {
    pub fn new(patience: Patience) -> Self {
        Self {
            patience,
            next: patience.first,
            alive: Instant::now(),
        }
    }

    /// The operation runs, or did until now.
    pub fn alive(&mut self) {
        self.alive = Instant::now();
    }

    /// How long to wait now; `None` when it is too late to ask.
    pub fn next(&mut self) -> Option<Duration> {
        let pause = self.next;
        self.next = (pause * 2).min(self.patience.most);
        (self.alive.elapsed() + pause < self.patience.window).then_some(pause)
    }
}

/// What a look at the controller's record leads to.
#[derive(Debug)]
pub enum Verdict {
    /// The gateway accepted it: ask again without secrets.
    Repeat,
    /// Look again, and why.
    Wait(String),
    /// It is over.
    Over(How),
}

/// Looks at what the controller knows. `began` is true when the gateway is known to have accepted the operation.
pub async fn look(api: &Api, gateway: &str, operation_id: &str, began: bool) -> Verdict {
    let path = routes::operation(operation_id);
    match timeout(ANSWER_WITHIN, api.get::<OperationAnswer>(&path)).await {
        Err(_) => Verdict::Wait("the controller does not answer".to_owned()),
        Ok(Ok(record)) => judge(record, gateway, began),
        Ok(Err(error)) if error.may_pass() => Verdict::Wait(error.to_string()),
        // Never sent, or ended and forgotten behind newer ones: nobody can tell, so it is not sent again.
        Ok(Err(ApiError::Refused { status: 404, body })) if body.error == "operation_not_found" => match began {
            false => lost("the controller has no record of the operation: it was never sent, or is forgotten already"),
            true => lost("the controller has no record of the operation any more"),
        },
        // An older controller has no such route. What was accepted may be asked for all the same.
        Ok(Err(ApiError::Refused { status: 404, body })) if body.error == "not_found" && began => Verdict::Repeat,
        Ok(Err(error)) => lost(error.to_string()),
    }
}

fn judge(record: OperationAnswer, gateway: &str, began: bool) -> Verdict {
    let activity = record
        .activity
        .into_iter()
        .rfind(|activity| activity.gateway_id == gateway);
    let Some(correlation) = record.correlation else {
        return match activity {
            Some(activity) if began || accepted(&activity) => Verdict::Repeat,
            _ => lost("the controller has no record of the operation any more"),
        };
    };
    if correlation.gateway_id != gateway {
        return lost("the operation id belongs to another gateway");
    }
    match (correlation.state, correlation.terminal_reference) {
        (CorrelationState::Resolved, _) => lost("an operator closed the operation's record"),
        (CorrelationState::Terminal, Some(reference)) if reference.outcome_digest.is_none() => {
            match activity.and_then(|activity| activity.terminal_outcome) {
                Some(code) => Verdict::Over(How::Answered(Box::new(Outcome::Refused(refusal(code))))),
                None => lost("the gateway refused the operation or could not start it; why was lost with its answer"),
            }
        }
        (CorrelationState::Terminal, _) => Verdict::Repeat,
        (CorrelationState::Dispatching, _) => match activity {
            _ if began => Verdict::Repeat,
            Some(activity) if accepted(&activity) => Verdict::Repeat,
            Some(activity) if activity.state == ActivityState::Dispatching => {
                Verdict::Wait("the gateway has not answered yet".to_owned())
            }
            _ => lost("the controller sent the operation, and nobody knows whether the gateway got it"),
        },
    }
}

fn accepted(activity: &Activity) -> bool {
    activity.accepted_at.is_some() || activity.state == ActivityState::Running
}

fn refusal(code: String) -> RemoteError {
    RemoteError {
        code,
        operation_id: None,
        errno: None,
        started_at: None,
    }
}

fn lost(why: impl Into<String>) -> Verdict {
    Verdict::Over(How::Lost(why.into()))
}

/// True when an operator shut the gateway out: it will not come back.
pub async fn is_shut_out(api: &Api, gateway: &str) -> bool {
    let path = routes::trust();
    match timeout(ANSWER_WITHIN, api.get::<TrustListing>(&path)).await {
        Ok(Ok(listing)) => {
            let mut records = listing.gateways.iter();
            records.any(|record| record.gateway_id == gateway && record.revoked)
        }
        // Whoever may not look goes on waiting.
        _ => false,
    }
}

/// What a cancel in the middle of a recovery came to: an error is why it has to be sent again.
pub async fn cancel(api: &Api, gateway: &str, operation_id: &str) -> Result<(), String> {
    use crate::cancel::{Cancelled, dispatch};
    match timeout(ANSWER_WITHIN, dispatch(api, gateway, operation_id)).await {
        Ok(Ok(Cancelled::Ending | Cancelled::NotRunning)) => Ok(()),
        Ok(Ok(Cancelled::Refused(code))) => Err(explained(&code)),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the controller does not answer".to_owned()),
    }
}
