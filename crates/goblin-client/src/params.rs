//! The params of execution requests, as a caller writes them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Params of `process.exec`. Absent members take the gateway's defaults.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessParams {
    /// Identifies the operation for replay; keep it for a retry.
    pub operation_id: String,
    /// A command line for the shell; excludes `executable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program; excludes `command`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<String>,
    /// The program's arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Working directory on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Additions to the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Milliseconds allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Bytes of output allowed, both streams together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
}

impl ProcessParams {
    /// Runs a program with arguments; no shell sees them.
    pub fn exec<A: Into<String>>(
        operation_id: impl Into<String>,
        executable: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            operation_id: operation_id.into(),
            executable: Some(executable.into()),
            args: args.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Runs a command line with `/bin/sh -c`.
    pub fn shell(operation_id: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            operation_id: operation_id.into(),
            command: Some(command.into()),
            ..Self::default()
        }
    }
}

/// Params of `filesystem.execute`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FileParams {
    /// Identifies the operation for replay; keep it for a retry.
    pub operation_id: String,
    /// The tool's name.
    pub tool: String,
    /// The tool's arguments.
    pub arguments: Map<String, Value>,
}
