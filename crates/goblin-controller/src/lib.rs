//! The controller: gateways dial in, are approved once by an operator, and take operations from then on.
//!
//! [`Controller`] is the façade. Behind it: the TLS listener, one task for each connection, the registry of who is
//! connected, pairing and trust, dispatch with its correlation and activity, and liveness. Everything that lives belongs
//! to the controller and ends with [`Controller::close`].
//!
//! It must never know its home: settings, secrets and operations are ports that it is given, and who may call the
//! façade is decided outside. Nothing that it logs holds a secret, a command, a path or output.

mod activity;
mod admission;
mod agents;
mod book;
mod changes;
mod clock;
mod connection;
mod correlation;
mod counted;
mod dispatch;
mod error;
mod listener;
mod liveness;
mod material;
mod metrics;
mod options;
mod pairing;
mod pending;
mod provider;
mod recorder;
mod recovery;
mod redaction;
mod registry;
mod service;
mod targets;
#[cfg(test)]
mod tests;
mod trust;
mod turns;

pub use activity::{ActivityRecord, ActivityState};
pub use agents::AgentUpdate;
pub use changes::{Change, ChangeBatch, ChangeFeed};
pub use dispatch::{Collected, DispatchError, DispatchRequest, LiveDispatch};
pub use error::{ControllerError, Named};
pub use goblin_client::{Body, Envelope};
pub use listener::{ListenerState, TlsState};
pub use metrics::Metrics;
pub use options::{ControllerOptions, ListenAddress, Timing, TlsMaterial};
pub use pairing::{Decision, PairingRequest};
pub use provider::{
    FilesystemCall, FilesystemOperation, FilesystemResult, ProcessCall, ProcessForm, ProviderError, ShellExecResult,
};
pub use registry::{ConnectionCount, GatewaySnapshot, Presence};
pub use service::Controller;
pub use targets::TargetInput;
