//! The body of every answer that is no success.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `{"ok":false,"error":CODE}`, with what is known beside the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorBody {
    /// Always false.
    pub ok: bool,
    /// Stable snake_case code.
    pub error: String,
    /// A sentence for people, where the code alone does not say enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The gateway it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_id: Option<String>,
    /// The operation it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// True when the same request may be sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// What to do: `retry_same_operation_id_after_reconnect`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

impl ErrorBody {
    /// A code alone.
    pub fn new(error: impl Into<String>) -> Self {
        Self {
            ok: false,
            error: error.into(),
            reason: None,
            gateway_id: None,
            operation_id: None,
            retryable: None,
            action: None,
        }
    }
}
