//! The one error of every port: a stable code for machines and a sentence for people.
//! It must never carry the content of a secret or of a setting.

use thiserror::Error;

/// Why a port refused or failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PortError {
    /// The home cannot serve now (disk full, closed, unreachable). Nothing of the call was kept; it may be repeated.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// A stored record cannot be read back. The bug or damage is in the store, not in the call.
    #[error("the store holds a record that cannot be read: {0}")]
    Corrupt(String),
    /// A stored secret fails its authentication.
    #[error("the secret {name:?} was altered outside the controller")]
    SecretTampered {
        /// Name of the record.
        name: String,
    },
    /// A name that no store takes.
    #[error("a record name must hold 1 to {max} bytes and no NUL", max = crate::NAME_BYTES_MAX)]
    NameInvalid,
    /// A value that no store takes.
    #[error("the value of {name:?} cannot be stored: {reason}")]
    ValueInvalid {
        /// Name of the record.
        name: String,
        /// Which bound it exceeds.
        reason: String,
    },
    /// A setting whose JSON is not of the expected shape.
    #[error("the setting {name:?} is not of the expected form: {reason}")]
    SettingInvalid {
        /// Name of the setting.
        name: String,
        /// Where its form departs.
        reason: String,
    },
    /// The operation id is already in use for another request, gateway or kind.
    #[error("operation {operation_id:?} is already known with another {differs}")]
    OperationConflict {
        /// The operation id.
        operation_id: String,
        /// What differs: `request`, `gateway` or `kind`.
        differs: &'static str,
    },
    /// No record with this operation id.
    #[error("operation {operation_id:?} is not known")]
    OperationNotFound {
        /// The operation id.
        operation_id: String,
    },
    /// The operation has terminal evidence, which an operator's word cannot replace.
    #[error("operation {operation_id:?} has already ended")]
    OperationAlreadyTerminal {
        /// The operation id.
        operation_id: String,
    },
}

impl PortError {
    /// The stable snake_case code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "store_unavailable",
            Self::Corrupt(_) => "store_corrupt",
            Self::SecretTampered { .. } => "secret_tampered",
            Self::NameInvalid => "record_name_invalid",
            Self::ValueInvalid { .. } => "record_value_invalid",
            Self::SettingInvalid { .. } => "setting_invalid",
            Self::OperationConflict { .. } => "operation_correlation_conflict",
            Self::OperationNotFound { .. } => "operation_not_found",
            Self::OperationAlreadyTerminal { .. } => "operation_already_terminal",
        }
    }
}
