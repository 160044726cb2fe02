//! Activity: the last operations in memory, for people to look at. It must never hold parameters, paths, secrets or
//! output, and nothing decides by it.

use crate::changes::Changes;
use crate::clock;
use crate::metrics::Metrics;
use goblin_ports::OperationKind;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Most records kept.
pub(crate) const RECORDS_MAX: usize = 256;

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityState {
    /// Sent, or about to be.
    Dispatching,
    /// The gateway accepted it.
    Running,
    /// Its final answer or its terminal evidence came.
    Terminal,
    /// The connection was lost before either: it may or may not have run.
    Interrupted,
}

/// One operation on one gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityRecord {
    /// The gateway.
    pub gateway_id: String,
    /// The operation.
    pub operation_id: String,
    /// Kind of work.
    pub kind: OperationKind,
    /// How far it is.
    pub state: ActivityState,
    /// The answer came from the gateway's journal.
    pub replay: bool,
    /// The gateway has to connect again before the outcome can be known.
    pub reconnect_required: bool,
    /// `completed`, `failed`, `timed_out`, `cancelled`, or an error code.
    pub terminal_outcome: Option<String>,
    /// ISO 8601.
    pub started_at: String,
    /// ISO 8601.
    pub accepted_at: Option<String>,
    /// ISO 8601.
    pub ended_at: Option<String>,
    /// Milliseconds from dispatch to end.
    pub duration_ms: Option<f64>,
}

struct Kept {
    record: ActivityRecord,
    started: Instant,
}

#[derive(Default)]
struct Records {
    by_age: BTreeMap<u64, Kept>,
    /// Gateway, then operation: its place in `by_age`.
    places: HashMap<String, HashMap<String, u64>>,
    next: u64,
}

/// The records of all gateways.
#[derive(Default)]
pub(crate) struct ActivityLog {
    records: Mutex<Records>,
    changes: Changes,
    metrics: Metrics,
}

impl ActivityLog {
    pub(crate) fn new(changes: Changes, metrics: Metrics) -> Self {
        Self {
            records: Mutex::default(),
            changes,
            metrics,
        }
    }

    /// An operation is about to be sent. One that is under way keeps its record: the gateway will say that it runs.
    pub(crate) fn begin(&self, gateway_id: &str, operation_id: &str, kind: OperationKind) {
        let mut records = self.lock();
        if let Some(kept) = records.find(gateway_id, operation_id)
            && matches!(kept.record.state, ActivityState::Dispatching | ActivityState::Running)
        {
            return;
        }
        records.remove(gateway_id, operation_id);
        while records.by_age.len() >= RECORDS_MAX
            && let Some(oldest) = records.remove_oldest()
        {
            self.changes.operation(&oldest.gateway_id, &oldest.operation_id);
        }
        let place = records.next;
        records.next += 1;
        records
            .places
            .entry(gateway_id.to_owned())
            .or_default()
            .insert(operation_id.to_owned(), place);
        let record = ActivityRecord {
            gateway_id: gateway_id.to_owned(),
            operation_id: operation_id.to_owned(),
            kind,
            state: ActivityState::Dispatching,
            replay: false,
            reconnect_required: false,
            terminal_outcome: None,
            started_at: clock::now_iso(),
            accepted_at: None,
            ended_at: None,
            duration_ms: None,
        };
        let kept = Kept {
            record,
            started: Instant::now(),
        };
        records.by_age.insert(place, kept);
        self.changes.operation(gateway_id, operation_id);
    }

    /// It runs: the gateway accepted it, or says that it is in progress.
    pub(crate) fn running(&self, gateway_id: &str, operation_id: &str) {
        if let Some(kept) = self.lock().find(gateway_id, operation_id)
            && kept.record.state != ActivityState::Terminal
        {
            let record = &mut kept.record;
            record.state = ActivityState::Running;
            record.reconnect_required = false;
            record.accepted_at.get_or_insert_with(clock::now_iso);
            self.changes.operation(gateway_id, operation_id);
        }
    }

    /// It ended, or was refused.
    pub(crate) fn ended(&self, gateway_id: &str, operation_id: &str, outcome: &str, replay: bool) {
        if let Some(kept) = self.lock().find(gateway_id, operation_id) {
            let duration = kept.started.elapsed();
            let record = &mut kept.record;
            // The answer follows the terminal event and tells the same; the end is when it was first known.
            if record.state != ActivityState::Terminal {
                record.ended_at = Some(clock::now_iso());
                record.duration_ms = Some((duration.as_secs_f64() * 1e6).round() / 1e3);
                self.metrics.ended(record.kind, outcome, duration);
            }
            record.state = ActivityState::Terminal;
            record.reconnect_required = false;
            record.replay = replay;
            record.terminal_outcome = Some(outcome.to_owned());
            self.changes.operation(gateway_id, operation_id);
        }
    }

    /// The connection was lost while it was under way.
    pub(crate) fn interrupted(&self, gateway_id: &str, operation_id: &str) {
        if let Some(kept) = self.lock().find(gateway_id, operation_id)
            && kept.record.state != ActivityState::Terminal
        {
            kept.record.state = ActivityState::Interrupted;
            kept.record.reconnect_required = true;
            self.metrics.interrupted(kept.record.kind);
            self.changes.operation(gateway_id, operation_id);
        }
    }

    /// The request never left: there is nothing to tell.
    pub(crate) fn withdraw(&self, gateway_id: &str, operation_id: &str) {
        let mut records = self.lock();
        if let Some(kept) = records.find(gateway_id, operation_id)
            && kept.record.state == ActivityState::Dispatching
        {
            records.remove(gateway_id, operation_id);
            self.changes.operation(gateway_id, operation_id);
        }
    }

    /// The newest `limit` records, of one gateway where given, newest last.
    pub(crate) fn list(&self, gateway_id: Option<&str>, limit: usize) -> Vec<ActivityRecord> {
        let records = self.lock();
        let mut listed: Vec<_> = records
            .by_age
            .values()
            .rev()
            .map(|kept| &kept.record)
            .filter(|record| gateway_id.is_none_or(|id| id == record.gateway_id))
            .take(limit)
            .cloned()
            .collect();
        listed.reverse();
        listed
    }

    /// One record.
    pub(crate) fn get(&self, gateway_id: &str, operation_id: &str) -> Option<ActivityRecord> {
        self.lock()
            .find(gateway_id, operation_id)
            .map(|kept| kept.record.clone())
    }

    /// The records of one operation, one for each gateway that was asked, oldest first.
    pub(crate) fn of_operation(&self, operation_id: &str) -> Vec<ActivityRecord> {
        let records = self.lock();
        let all = records.by_age.values().map(|kept| &kept.record);
        all.filter(|record| record.operation_id == operation_id)
            .cloned()
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Records {
    fn find(&mut self, gateway_id: &str, operation_id: &str) -> Option<&mut Kept> {
        let place = self.places.get(gateway_id)?.get(operation_id)?;
        self.by_age.get_mut(place)
    }

    fn remove(&mut self, gateway_id: &str, operation_id: &str) {
        if let Some(of_gateway) = self.places.get_mut(gateway_id)
            && let Some(place) = of_gateway.remove(operation_id)
        {
            if of_gateway.is_empty() {
                self.places.remove(gateway_id);
            }
            self.by_age.remove(&place);
        }
    }

    fn remove_oldest(&mut self) -> Option<ActivityRecord> {
        let (_, kept) = self.by_age.pop_first()?;
        self.remove(&kept.record.gateway_id, &kept.record.operation_id);
        Some(kept.record)
    }
}
