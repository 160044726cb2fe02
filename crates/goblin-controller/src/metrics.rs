//! Measurements of the controller. Every label takes its values from a fixed set, so their number is bounded whatever
//! peers do. It must never know how they are exposed, nor hold an id.

use goblin_ports::{OperationKind, PortError};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

/// Upper bounds of the buckets, in seconds: from a short command to the longest timeouts in use.
const BUCKETS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 600.0, 3600.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Dispatch {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Coded {
    code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Handshake {
    result: &'static str,
}

/// How a TLS handshake ended.
#[derive(Clone, Copy)]
pub(crate) enum HandshakeEnd {
    Completed,
    Failed,
    TimedOut,
}

/// What is counted. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Metrics {
    dispatches: Family<Dispatch, Counter>,
    durations: Family<Kind, Histogram>,
    refusals: Family<Coded, Counter>,
    handshakes: Family<Handshake, Counter>,
    store_errors: Family<Coded, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            dispatches: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            refusals: Family::default(),
            handshakes: Family::default(),
            store_errors: Family::default(),
        }
    }
}

impl Metrics {
    /// Adds everything to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "dispatches",
            "Operations by kind and by how they ended: completed, failed, timed_out, cancelled, refused by the \
             gateway, interrupted by a lost connection (they may end otherwise later), or not_sent",
            self.dispatches.clone(),
        );
        registry.register_with_unit(
            "dispatch_duration",
            "Time from dispatch to the known end of an operation",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register(
            "authentication_failures",
            "Connections of gateways that were refused, by code",
            self.refusals.clone(),
        );
        registry.register(
            "handshakes",
            "TLS handshakes of gateways, by result",
            self.handshakes.clone(),
        );
        registry.register(
            "store_errors",
            "Failed calls of the store, by code",
            self.store_errors.clone(),
        );
    }

    /// An operation ended. `outcome` is a word or an error code; all codes count as one.
    pub(crate) fn ended(&self, kind: OperationKind, outcome: &str, duration: Duration) {
        let outcome = ["completed", "failed", "timed_out", "cancelled"]
            .into_iter()
            .find(|word| *word == outcome)
            .unwrap_or("refused");
        self.count(kind, outcome);
        let kind = kind.as_str();
        self.durations
            .get_or_create(&Kind { kind })
            .observe(duration.as_secs_f64());
    }

    pub(crate) fn interrupted(&self, kind: OperationKind) {
        self.count(kind, "interrupted");
    }

    pub(crate) fn not_sent(&self, kind: OperationKind) {
        self.count(kind, "not_sent");
    }

    /// A connection was refused. Its code is one of ours, never a peer's text.
    pub(crate) fn refused(&self, code: &'static str) {
        self.refusals.get_or_create(&Coded { code }).inc();
    }

    pub(crate) fn handshake(&self, end: HandshakeEnd) {
        let result = match end {
            HandshakeEnd::Completed => "completed",
            HandshakeEnd::Failed => "failed",
            HandshakeEnd::TimedOut => "timed_out",
        };
        self.handshakes.get_or_create(&Handshake { result }).inc();
    }

    /// The home failed; what it refused because of the call is no failure of its own.
    pub(crate) fn store_failed(&self, error: &PortError) {
        if matches!(
            error,
            PortError::Unavailable(_) | PortError::Corrupt(_) | PortError::SecretTampered { .. }
        ) {
            self.store_errors.get_or_create(&Coded { code: error.code() }).inc();
        }
    }

    fn count(&self, kind: OperationKind, outcome: &'static str) {
        let kind = kind.as_str();
        self.dispatches.get_or_create(&Dispatch { kind, outcome }).inc();
    }
}
