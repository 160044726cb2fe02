//! Operation correlation: what was dispatched, where, and what became of it.
//! It must never hold parameters, paths, secrets or output; a request and an outcome are digests here.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{PortError, check_name};

/// Most settled (terminal or resolved) records kept. Unresolved ones never expire.
pub const TERMINAL_RECORDS_MAX: usize = 256;

/// What kind of work an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// A process.
    Process,
    /// A filesystem tool.
    Filesystem,
}

impl OperationKind {
    /// The word in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Filesystem => "filesystem",
        }
    }

    /// The kind named by the word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Process, Self::Filesystem]
            .into_iter()
            .find(|kind| kind.as_str() == word)
    }
}

/// How far an operation is known to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationState {
    /// Dispatched or about to be; what became of it is not known yet.
    Dispatching,
    /// Its terminal evidence was seen.
    Terminal,
    /// An operator closed it.
    Resolved,
}

impl OperationState {
    /// The word in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dispatching => "dispatching",
            Self::Terminal => "terminal",
            Self::Resolved => "resolved",
        }
    }

    /// The state named by the word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Dispatching, Self::Terminal, Self::Resolved]
            .into_iter()
            .find(|state| state.as_str() == word)
    }
}

/// Points at the terminal evidence without copying it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminalReference {
    /// Operation id of the evidence.
    pub operation_id: String,
    /// Whether the gateway answered from its journal.
    pub replay: bool,
    /// Digest of the outcome; `null` where a refusal left none.
    #[serde(default)]
    pub outcome_digest: Option<String>,
}

/// What is written before a dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationStart {
    /// Operation id.
    pub operation_id: String,
    /// Run that the operation belongs to, where the caller named one.
    pub parent_run_id: Option<String>,
    /// Tool call that the operation carries out, where the caller named one.
    pub tool_call_id: Option<String>,
    /// Gateway that it goes to.
    pub gateway_id: String,
    /// Kind of work.
    pub kind: OperationKind,
    /// Digest of the canonical request.
    pub request_digest: String,
}

impl OperationStart {
    /// Checks each text against the bounds of a record name.
    ///
    /// # Errors
    /// [`PortError::NameInvalid`].
    pub fn check(&self) -> Result<(), PortError> {
        for text in [&self.operation_id, &self.gateway_id, &self.request_digest] {
            check_name(text)?;
        }
        for text in [&self.parent_run_id, &self.tool_call_id].into_iter().flatten() {
            if !text.is_empty() {
                check_name(text)?;
            }
        }
        Ok(())
    }

    /// The record of an operation about to be dispatched.
    pub fn into_record(self, now: &str) -> OperationRecord {
        OperationRecord {
            operation_id: self.operation_id,
            parent_run_id: self.parent_run_id,
            tool_call_id: self.tool_call_id,
            gateway_id: self.gateway_id,
            kind: self.kind,
            request_digest: self.request_digest,
            state: OperationState::Dispatching,
            terminal_reference: None,
            note: None,
            updated_at: now.to_owned(),
        }
    }
}

/// One correlated operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationRecord {
    /// Operation id.
    pub operation_id: String,
    /// Run that the operation belongs to.
    #[serde(default)]
    pub parent_run_id: Option<String>,
    /// Tool call that the operation carries out.
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// Gateway that it went to.
    pub gateway_id: String,
    /// Kind of work.
    pub kind: OperationKind,
    /// Digest of the canonical request.
    pub request_digest: String,
    /// How far it is known to be.
    pub state: OperationState,
    /// Its terminal evidence, once seen.
    #[serde(default)]
    pub terminal_reference: Option<TerminalReference>,
    /// The operator's word, where one was needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// ISO 8601 time of the last change.
    pub updated_at: String,
}

impl OperationRecord {
    /// Whether a start is a repetition of this record. Run and tool call may differ: a retry can come from elsewhere.
    ///
    /// # Errors
    /// [`PortError::OperationConflict`], naming what differs.
    pub fn check_same(&self, start: &OperationStart) -> Result<(), PortError> {
        let differs = if self.request_digest != start.request_digest {
            "request"
        } else if self.gateway_id != start.gateway_id {
            "gateway"
        } else if self.kind != start.kind {
            "kind"
        } else {
            return Ok(());
        };
        Err(PortError::OperationConflict {
            operation_id: self.operation_id.clone(),
            differs,
        })
    }
}

/// What [`Operations::begin`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begin {
    /// A new record was written.
    Begun(OperationRecord),
    /// The same operation is already known, in whatever state; nothing was written.
    Existing(OperationRecord),
}

/// Which operations to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationFilter {
    /// Only those of this gateway.
    pub gateway_id: Option<String>,
    /// Only those in this state.
    pub state: Option<OperationState>,
    /// At most so many.
    pub limit: usize,
}

impl OperationFilter {
    /// The newest `limit` of all.
    pub fn newest(limit: usize) -> Self {
        Self {
            gateway_id: None,
            state: None,
            limit,
        }
    }

    /// Narrows to one gateway.
    pub fn of_gateway(self, gateway_id: &str) -> Self {
        Self {
            gateway_id: Some(gateway_id.to_owned()),
            ..self
        }
    }

    /// Narrows to one state.
    pub fn in_state(self, state: OperationState) -> Self {
        Self {
            state: Some(state),
            ..self
        }
    }

    /// Whether the record passes, `limit` aside.
    pub fn admits(&self, record: &OperationRecord) -> bool {
        self.gateway_id.as_ref().is_none_or(|id| *id == record.gateway_id)
            && self.state.is_none_or(|state| state == record.state)
    }
}

/// Durable operation correlation. Order is that of the last change; `now` is an ISO 8601 time and only recorded.
#[async_trait]
pub trait Operations: Send + Sync {
    /// Writes the record before a dispatch, unless the same operation is known already.
    ///
    /// # Errors
    /// [`PortError::OperationConflict`] when the id is known with another request, gateway or kind.
    async fn begin(&self, start: OperationStart, now: &str) -> Result<Begin, PortError>;

    /// Takes back a record whose request certainly never left. Only for the caller that got [`Begin::Begun`]. A
    /// record that is absent or settled stays as it is.
    async fn withdraw(&self, operation_id: &str) -> Result<(), PortError>;

    /// Records terminal evidence, late evidence after a resolution too, and returns the record.
    ///
    /// # Errors
    /// [`PortError::OperationNotFound`].
    async fn terminal(
        &self,
        operation_id: &str,
        reference: TerminalReference,
        now: &str,
    ) -> Result<OperationRecord, PortError>;

    /// Closes an unresolved record by an operator's word and returns it; on a resolved one, replaces the note.
    ///
    /// # Errors
    /// [`PortError::OperationNotFound`], [`PortError::OperationAlreadyTerminal`], [`PortError::ValueInvalid`].
    async fn resolve(&self, operation_id: &str, note: &str, now: &str) -> Result<OperationRecord, PortError>;

    /// The record, or `None`.
    async fn get(&self, operation_id: &str) -> Result<Option<OperationRecord>, PortError>;

    /// The records that pass the filter, last changed first.
    async fn list(&self, filter: OperationFilter) -> Result<Vec<OperationRecord>, PortError>;
}
