//! A filesystem tool through the provider: its outcome as the gateway wrote it, and where it came from.

use super::{ProviderError, execute as run};
use crate::dispatch::DispatchRequest;
use crate::service::Shared;
use goblin_ports::OperationKind;
use goblin_protocol::id::Params;
use goblin_protocol::json;
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A tool to run.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FilesystemCall {
    /// Identifies the operation for replay; a retry keeps it.
    pub operation_id: String,
    /// The gateway.
    pub target_id: String,
    /// Run that the call belongs to.
    #[serde(default)]
    pub parent_run_id: Option<String>,
    /// Tool call that it carries out.
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// What to do.
    pub operation: FilesystemOperation,
}

/// A tool and its arguments; the gateway checks them. Arguments can hold content of files, so there is no `Debug`.
#[derive(Clone, Deserialize)]
pub struct FilesystemOperation {
    /// The tool's name.
    pub tool: String,
    /// The tool's arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// The outcome of a tool, its members as and in the order that the gateway wrote them, followed by where it came from.
pub struct FilesystemResult {
    outcome: Members,
    operation_id: String,
    gateway_id: String,
    parent_run_id: Option<String>,
    tool_call_id: Option<String>,
}

impl FilesystemResult {
    /// Whether the tool did what was asked.
    pub fn is_ok(&self) -> bool {
        self.outcome
            .0
            .iter()
            .any(|(name, value)| name == "ok" && value.get() == "true")
    }
}

/// Where an outcome came from. A member of the outcome of the same name gives way to it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Execution<'a> {
    kind: &'static str,
    gateway_id: &'a str,
}

/// What this side says of an outcome.
const OURS: [&str; 5] = ["operationId", "gatewayId", "parentRunId", "toolCallId", "execution"];

impl Serialize for FilesystemResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.outcome.0 {
            if !OURS.contains(&name.as_str()) {
                map.serialize_entry(name, value)?;
            }
        }
        map.serialize_entry("operationId", &self.operation_id)?;
        map.serialize_entry("gatewayId", &self.gateway_id)?;
        map.serialize_entry("parentRunId", &self.parent_run_id)?;
        map.serialize_entry("toolCallId", &self.tool_call_id)?;
        let execution = Execution {
            kind: "gateway",
            gateway_id: &self.gateway_id,
        };
        map.serialize_entry("execution", &execution)?;
        map.end()
    }
}

/// An object's members as they came.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

pub(super) async fn execute(
    shared: &Arc<Shared>,
    call: FilesystemCall,
    abort: &CancellationToken,
) -> Result<FilesystemResult, ProviderError> {
    let FilesystemCall {
        operation_id,
        target_id: gateway_id,
        parent_run_id,
        tool_call_id,
        operation,
    } = call;
    let params = Params::from_iter([
        ("tool".to_owned(), Value::String(operation.tool)),
        ("arguments".to_owned(), Value::Object(operation.arguments)),
    ]);
    let request = DispatchRequest {
        gateway_id: gateway_id.clone(),
        operation_id: operation_id.clone(),
        kind: OperationKind::Filesystem,
        params,
        parent_run_id: parent_run_id.clone(),
        tool_call_id: tool_call_id.clone(),
    };
    let result = run(shared, request, abort, drop).await?;
    let outcome = json::from_text(result.outcome.get()).map_err(|_| ProviderError::EvidenceMissing)?;
    Ok(FilesystemResult {
        outcome,
        operation_id,
        gateway_id,
        parent_run_id,
        tool_call_id,
    })
}
