//! Agents and where they are assigned.

use super::agent_id;
use crate::answer::{Answer, Failure, created, success};
use crate::body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use goblin_api::{AgentAnswer, AgentsAnswer, EnvironmentKind, Success};
use goblin_controller::{AgentUpdate, Controller};
use goblin_ports::{Agent, ExecutionEnvironment};
use serde_json::{Map, Value};

pub(super) async fn list(State(controller): State<Controller>) -> Answer {
    success(AgentsAnswer {
        ok: Success,
        agents: controller.agents().await?.into_iter().map(shown).collect(),
    })
}

pub(super) async fn add(State(controller): State<Controller>, request: Request) -> Answer {
    let body = body::object(request).await?;
    let Some(Value::String(id)) = body.get("id") else {
        return Err(Failure::invalid("agent_id_invalid"));
    };
    let agent = controller.add_agent(id, update(&body)?).await?;
    created(answer(agent))
}

pub(super) async fn change(
    State(controller): State<Controller>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let id = agent_id(path)?;
    let body = body::object(request).await?;
    success(answer(controller.update_agent(&id, update(&body)?).await?))
}

fn update(body: &Map<String, Value>) -> Result<AgentUpdate, Failure> {
    let name = match body.get("name") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name.clone()),
        Some(_) => return Err(Failure::invalid("agent_name_required")),
    };
    let environment = match body.get("executionEnvironment") {
        None => None,
        Some(Value::Null) => Some(None),
        Some(Value::Object(members)) => Some(Some(environment(members)?)),
        Some(_) => return Err(Failure::invalid("execution_environment_invalid")),
    };
    Ok(AgentUpdate { name, environment })
}

fn environment(members: &Map<String, Value>) -> Result<ExecutionEnvironment, Failure> {
    let text = |name: &str, code: &str| match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(Failure::invalid(code)),
    };
    let root = text("workspaceRoot", "workspace_root_invalid")?;
    match members.get("kind").and_then(Value::as_str) {
        Some("local") => Ok(ExecutionEnvironment::Local { workspace_root: root }),
        Some("remote") => Ok(ExecutionEnvironment::Remote {
            provider_id: required(text("providerId", "provider_id_invalid")?, "provider_id_invalid")?,
            target_id: required(text("targetId", "target_id_invalid")?, "target_id_invalid")?,
            workspace_root: required(root, "workspace_root_invalid")?,
        }),
        _ => Err(Failure::invalid("execution_environment_invalid")),
    }
}

fn required(text: Option<String>, code: &str) -> Result<String, Failure> {
    text.ok_or_else(|| Failure::invalid(code))
}

fn answer(agent: Agent) -> AgentAnswer {
    AgentAnswer {
        ok: Success,
        agent: shown(agent),
    }
}

fn shown(agent: Agent) -> goblin_api::Agent {
    let environment = agent.execution_environment.map(|environment| match environment {
        ExecutionEnvironment::Local { workspace_root } => goblin_api::ExecutionEnvironment {
            kind: EnvironmentKind::Local,
            provider_id: None,
            target_id: None,
            workspace_root,
        },
        ExecutionEnvironment::Remote {
            provider_id,
            target_id,
            workspace_root,
        } => goblin_api::ExecutionEnvironment {
            kind: EnvironmentKind::Remote,
            provider_id: Some(provider_id),
            target_id: Some(target_id),
            workspace_root: Some(workspace_root),
        },
    });
    goblin_api::Agent {
        id: agent.id,
        name: agent.name,
        execution_environment: environment,
    }
}
