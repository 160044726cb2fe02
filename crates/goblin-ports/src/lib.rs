//! What the controller asks of the home it lives in: settings, secrets, operation correlation and, where it
//! authenticates callers itself, their tokens, as object-safe asynchronous traits; the typed records kept in them; the suite that every implementation must pass; and the
//! in-memory implementation.
//!
//! It must never know a database, a file, a socket or a clock: times are ISO 8601 texts that the caller hands in, and
//! order comes from the order of the calls, never from comparing times.

mod checks;
pub mod conformance;
mod error;
mod ledger;
pub mod memory;
mod operations;
mod records;
mod secrets;
mod settings;
#[cfg(test)]
mod tests;
mod tokens;

pub use checks::{
    NAME_BYTES_MAX, NOTE_BYTES_MAX, SECRET_BYTES_MAX, SETTING_BYTES_MAX, SETTING_NESTING_MAX, check_name, check_note,
    check_secret, check_setting,
};
pub use error::PortError;
pub use ledger::ListedOperations;
pub use memory::MemoryStore;
pub use operations::{
    Begin, OperationFilter, OperationKind, OperationRecord, OperationStart, OperationState, Operations,
    TERMINAL_RECORDS_MAX, TerminalReference,
};
pub use records::{
    Agent, ControllerSettings, ExecutionEnvironment, GatewayRecord, PROVIDER_ID, PendingPairing, TLS_SOURCE_CONFIGURED,
    TLS_SOURCE_GENERATED, Target, TlsMetadata, TrustMethod, secret, setting,
};
pub use secrets::{Secret, Secrets};
pub use settings::{Change, Decide, Settings, SettingsExt};
pub use tokens::{TokenRecord, TokenScope, Tokens, check_token, token_exists};
