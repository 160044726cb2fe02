//! Who is connected now. Small critical sections, nothing awaited within them. It must never know a store.

use crate::changes::Changes;
use crate::clock;
use crate::correlation::Tracker;
use crate::options::PENDING_LIVE_MAX;
use crate::pending::Pending;
use goblin_client::Connection;
use goblin_link::Heard;
use goblin_protocol::auth::GatewayMetadata;
use goblin_protocol::time::iso8601;
use goblin_redact::Redactor;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A connection that takes operations.
pub(crate) struct Ready {
    pub(crate) gateway_id: Arc<str>,
    pub(crate) connection_id: String,
    /// Tells this connection from an earlier one of the same gateway.
    pub(crate) generation: u64,
    pub(crate) client: Connection,
    pub(crate) heard: Heard,
    pub(crate) tracker: Arc<Tracker>,
    /// Masks the enrolment secret, where there is one.
    pub(crate) redactor: Redactor,
}

impl Ready {
    fn last_seen_ms(&self) -> i64 {
        let silence = self.heard.silence().as_millis();
        clock::now_ms().saturating_sub(silence.try_into().unwrap_or(i64::MAX))
    }
}

/// Where a gateway stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Connected, waits for approval.
    Pending,
    /// Connected and authenticated.
    Ready,
    /// Not connected.
    Disconnected,
}

/// One gateway as the controller sees it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewaySnapshot {
    /// Its id.
    pub gateway_id: String,
    /// Where it stands.
    pub presence: Presence,
    /// ISO 8601 time of its present or last connection.
    pub connected_at: Option<String>,
    /// ISO 8601 time of the last bytes from it.
    pub last_seen_at: Option<String>,
    /// Operations whose answer is outstanding.
    pub active_operations: usize,
    /// What it says of itself.
    pub metadata: GatewayMetadata,
}

/// The live connection of an id.
#[derive(Clone)]
pub(crate) enum Live {
    Pending(Arc<Pending>),
    Ready(Arc<Ready>),
}

struct Entry {
    live: Option<Live>,
    metadata: GatewayMetadata,
    connected_ms: i64,
    last_seen_ms: i64,
}

#[derive(Default)]
struct Entries {
    by_id: HashMap<String, Entry>,
    pending: usize,
}

#[derive(Default)]
pub(crate) struct Registry {
    entries: Mutex<Entries>,
    generation: AtomicU64,
    changes: Changes,
}

/// Connections, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCount {
    /// Ready ones.
    pub ready: usize,
    /// Those that wait for approval.
    pub pending: usize,
}

impl Registry {
    pub(crate) fn new(changes: Changes) -> Self {
        Self {
            changes,
            ..Self::default()
        }
    }

    /// A number that no connection had before.
    pub(crate) fn next_generation(&self) -> u64 {
        self.generation.fetch_add(1, Ordering::Relaxed)
    }

    /// The live connection of an id.
    pub(crate) fn live(&self, gateway_id: &str) -> Option<Live> {
        self.lock().by_id.get(gateway_id)?.live.clone()
    }

    /// False when as many connections wait for approval as may.
    pub(crate) fn has_room_for_pending(&self) -> bool {
        self.lock().pending < PENDING_LIVE_MAX
    }

    /// Puts a connection in the place of whatever the id had. Callers hold the id's turn and have looked before. False
    /// when it would be one too many that waits for approval.
    pub(crate) fn insert(&self, gateway_id: &str, live: Live, metadata: GatewayMetadata) -> bool {
        let mut entries = self.lock();
        let now = clock::now_ms();
        let is_pending = matches!(live, Live::Pending(_));
        if is_pending && entries.pending >= PENDING_LIVE_MAX {
            return false;
        }
        let entry = Entry {
            live: Some(live),
            metadata,
            connected_ms: now,
            last_seen_ms: now,
        };
        let replaced = entries.by_id.insert(gateway_id.to_owned(), entry);
        let was_pending = matches!(
            replaced,
            Some(Entry {
                live: Some(Live::Pending(_)),
                ..
            })
        );
        entries.pending = entries.pending + usize::from(is_pending) - usize::from(was_pending);
        drop(entries);
        self.changes.gateway(gateway_id);
        if is_pending || was_pending {
            self.changes.pairing(gateway_id);
        }
        true
    }

    /// The connection of this generation is lost. A gateway that was ready stays listed.
    pub(crate) fn lost(&self, gateway_id: &str, generation: u64) {
        let mut entries = self.lock();
        let Some(entry) = entries.by_id.get_mut(gateway_id) else {
            return;
        };
        match &entry.live {
            Some(Live::Ready(ready)) if ready.generation == generation => {
                entry.last_seen_ms = ready.last_seen_ms();
                entry.live = None;
                self.changes.gateway(gateway_id);
            }
            Some(Live::Pending(pending)) if pending.generation == generation => {
                entries.by_id.remove(gateway_id);
                entries.pending -= 1;
                self.changes.gateway(gateway_id);
                self.changes.pairing(gateway_id);
            }
            _ => {}
        }
    }

    /// Takes the id off the list, with its live connection.
    pub(crate) fn remove(&self, gateway_id: &str) -> Option<Live> {
        let mut entries = self.lock();
        let live = entries.by_id.remove(gateway_id)?.live;
        let was_pending = matches!(live, Some(Live::Pending(_)));
        entries.pending -= usize::from(was_pending);
        drop(entries);
        self.changes.gateway(gateway_id);
        if was_pending {
            self.changes.pairing(gateway_id);
        }
        live
    }

    /// How many connections there are.
    pub(crate) fn count(&self) -> ConnectionCount {
        let entries = self.lock();
        let live = entries.by_id.values().filter(|entry| entry.live.is_some()).count();
        ConnectionCount {
            ready: live - entries.pending,
            pending: entries.pending,
        }
    }

    /// All live connections.
    pub(crate) fn all_live(&self) -> Vec<Live> {
        let entries = self.lock();
        entries.by_id.values().filter_map(|entry| entry.live.clone()).collect()
    }

    /// All connections that wait for approval.
    pub(crate) fn all_pending(&self) -> Vec<Arc<Pending>> {
        let entries = self.lock();
        let pending = entries.by_id.values().filter_map(|entry| match &entry.live {
            Some(Live::Pending(pending)) => Some(pending.clone()),
            _ => None,
        });
        pending.collect()
    }

    /// Every gateway seen since the start, in no order.
    pub(crate) fn snapshots(&self) -> Vec<GatewaySnapshot> {
        let entries = self.lock();
        entries.by_id.iter().map(|(id, entry)| entry.snapshot(id)).collect()
    }

    /// One gateway, if it was seen since the start.
    pub(crate) fn snapshot(&self, gateway_id: &str) -> Option<GatewaySnapshot> {
        let entries = self.lock();
        entries.by_id.get(gateway_id).map(|entry| entry.snapshot(gateway_id))
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn snapshot(&self, gateway_id: &str) -> GatewaySnapshot {
        let (presence, last_seen_ms, active_operations) = match &self.live {
            Some(Live::Ready(ready)) => (Presence::Ready, ready.last_seen_ms(), ready.tracker.active()),
            Some(Live::Pending(_)) => (Presence::Pending, self.last_seen_ms, 0),
            None => (Presence::Disconnected, self.last_seen_ms, 0),
        };
        GatewaySnapshot {
            gateway_id: gateway_id.to_owned(),
            presence,
            connected_at: Some(iso8601(self.connected_ms)),
            last_seen_at: Some(iso8601(last_seen_ms.max(self.connected_ms))),
            active_operations,
            metadata: self.metadata.clone(),
        }
    }
}
