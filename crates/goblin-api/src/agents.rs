//! Agents, and where their work is carried out.

use crate::{FileRequest, ProcessRequest, Success};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The only [`ExecutionEnvironment::provider_id`].
pub const PROVIDER_ID: &str = "node-goblin";

/// Answer of GET `/api/agents`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentsAnswer {
    /// Always true.
    pub ok: Success,
    /// The agents, in the order in which they were added.
    pub agents: Vec<Agent>,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Its id, which never changes.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Where its work is carried out; null while it is assigned nowhere.
    #[schema(required = true)]
    pub execution_environment: Option<ExecutionEnvironment>,
}

/// The kind of place where an agent's work is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnvironmentKind {
    /// On the controller's own machine, which is not this service's business: nothing is dispatched.
    Local,
    /// On a gateway.
    Remote,
}

/// Where an agent's work is carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionEnvironment {
    /// Here or on a gateway.
    pub kind: EnvironmentKind,
    /// [`PROVIDER_ID`]; required of a remote one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The gateway; required of a remote one, which must be approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_id: Option<String>,
    /// Absolute directory that the work begins in; required of a remote one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^/", max_length = 4096)]
    pub workspace_root: Option<String>,
}

/// Body of POST `/api/agents`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"id": "builder", "name": "Builder"}))]
pub struct AgentRequest {
    /// Its id: the grammar of gateway ids.
    #[schema(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$")]
    pub id: String,
    /// Name for people; the id when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// Where its work is carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_environment: Option<ExecutionEnvironment>,
}

/// Body of PATCH `/api/agents/:agentId`. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"executionEnvironment": {"kind": "local", "workspaceRoot": "/srv/work"}}))]
pub struct AgentChange {
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 255)]
    pub name: Option<String>,
    /// Where its work is carried out from now on; JSON null takes the assignment away. Here the outer `None` leaves it.
    #[serde(default, with = "present", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ExecutionEnvironment>)]
    pub execution_environment: Option<Option<ExecutionEnvironment>>,
}

/// Answer of POST `/api/agents` (status 201) and of PATCH `/api/agents/:agentId`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentAnswer {
    /// Always true.
    pub ok: Success,
    /// The agent as it is stored.
    pub agent: Agent,
}

/// Body of POST `/api/agents/:agentId/processes`. The agent's workspace root is the `cwd` unless one is given.
pub type AgentProcessRequest = ProcessRequest;

/// Body of POST `/api/agents/:agentId/filesystem`. The agent's workspace root is the argument `workspaceRoot` unless one
/// is given.
pub type AgentFileRequest = FileRequest;

/// Tells an absent member from null.
mod present {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Serialize, S: Serializer>(value: &Option<Option<T>>, serializer: S) -> Result<S::Ok, S::Error> {
        value.as_ref().and_then(Option::as_ref).serialize(serializer)
    }

    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Option<T>>, D::Error> {
        Option::deserialize(deserializer).map(Some)
    }
}
