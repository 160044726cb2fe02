//! Agents, and where their work is carried out. It must never know what an agent does.

use crate::Controller;
use crate::error::{ControllerError, Named};
use crate::targets::checked_name;
use crate::trust;
use goblin_ports::{Agent, ExecutionEnvironment, PROVIDER_ID, SettingsExt, setting};
use goblin_protocol::id::valid_gateway_id;
use serde_json::Map;

/// Longest workspace root, in bytes: the longest path that Linux takes.
const ROOT_MAX: usize = 4096;

/// A change of an agent; `None` leaves what there is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentUpdate {
    /// Name for people.
    pub name: Option<String>,
    /// Where its work is carried out; the inner `None` takes the assignment away.
    pub environment: Option<Option<ExecutionEnvironment>>,
}

impl Controller {
    /// The agents, in the order in which they were added.
    ///
    /// # Errors
    /// Those of the home.
    pub async fn agents(&self) -> Result<Vec<Agent>, ControllerError> {
        let agents = self.shared().settings.get_as(setting::AGENTS).await?;
        Ok(agents.unwrap_or_default())
    }

    /// Adds an agent, named by its id unless a name is given.
    ///
    /// # Errors
    /// [`ControllerError::AgentIdInvalid`], [`ControllerError::AgentExists`], and as for
    /// [`Controller::update_agent`].
    pub async fn add_agent(&self, id: &str, input: AgentUpdate) -> Result<Agent, ControllerError> {
        check_id(id)?;
        let input = self.checked(input).await?;
        let agent = Agent {
            id: id.to_owned(),
            name: input.name.unwrap_or_else(|| id.to_owned()),
            execution_environment: input.environment.flatten(),
            other: Map::new(),
        };
        self.shared()
            .settings
            .update_list(setting::AGENTS, |list: &mut Vec<Agent>| {
                if list.iter().any(|known| known.id == agent.id) {
                    return Err(ControllerError::AgentExists);
                }
                list.push(agent.clone());
                Ok(agent)
            })
            .await
    }

    /// Changes an agent.
    ///
    /// # Errors
    /// [`ControllerError::AgentIdInvalid`], [`ControllerError::NameRequired`], [`ControllerError::NameTooLong`],
    /// [`ControllerError::ProviderInvalid`], [`ControllerError::TargetIdInvalid`],
    /// [`ControllerError::WorkspaceRootInvalid`], [`ControllerError::GatewayNotApproved`],
    /// [`ControllerError::AgentNotFound`], and those of the home.
    pub async fn update_agent(&self, id: &str, update: AgentUpdate) -> Result<Agent, ControllerError> {
        check_id(id)?;
        let update = self.checked(update).await?;
        self.shared()
            .settings
            .update_list(setting::AGENTS, |list: &mut Vec<Agent>| {
                let known = list.iter_mut().find(|known| known.id == id);
                let known = known.ok_or(ControllerError::AgentNotFound)?;
                if let Some(name) = update.name {
                    known.name = name;
                }
                if let Some(environment) = update.environment {
                    known.execution_environment = environment;
                }
                Ok(known.clone())
            })
            .await
    }

    /// The gateway that carries out an agent's work, and the directory that the work begins in.
    ///
    /// # Errors
    /// [`ControllerError::AgentIdInvalid`], [`ControllerError::AgentNotFound`], [`ControllerError::AgentNotRemote`],
    /// and those of the home.
    pub async fn assignment(&self, agent_id: &str) -> Result<(String, String), ControllerError> {
        check_id(agent_id)?;
        let agents = self.agents().await?;
        let agent = agents.into_iter().find(|agent| agent.id == agent_id);
        match agent.ok_or(ControllerError::AgentNotFound)?.execution_environment {
            Some(ExecutionEnvironment::Remote {
                target_id,
                workspace_root,
                ..
            }) => Ok((target_id, workspace_root)),
            Some(ExecutionEnvironment::Local { .. }) | None => Err(ControllerError::AgentNotRemote),
        }
    }

    async fn checked(&self, mut update: AgentUpdate) -> Result<AgentUpdate, ControllerError> {
        if let Some(name) = &mut update.name {
            *name = checked_name(name, Named::Agent)?;
        }
        match update.environment.as_ref().and_then(Option::as_ref) {
            Some(ExecutionEnvironment::Remote {
                provider_id,
                target_id,
                workspace_root,
            }) => {
                if provider_id != PROVIDER_ID {
                    return Err(ControllerError::ProviderInvalid);
                }
                if !valid_gateway_id(target_id) {
                    return Err(ControllerError::TargetIdInvalid);
                }
                check_root(workspace_root)?;
                let records = trust::list(self.shared()).await?;
                // It may be revoked the moment after; a dispatch meets the gateway's trust as it is then.
                if !records.iter().any(|it| it.gateway_id == *target_id && it.trusted()) {
                    return Err(ControllerError::GatewayNotApproved);
                }
            }
            Some(ExecutionEnvironment::Local {
                workspace_root: Some(root),
            }) => check_root(root)?,
            Some(ExecutionEnvironment::Local { workspace_root: None }) | None => {}
        }
        Ok(update)
    }
}

fn check_id(id: &str) -> Result<(), ControllerError> {
    if valid_gateway_id(id) {
        Ok(())
    } else {
        Err(ControllerError::AgentIdInvalid)
    }
}

fn check_root(root: &str) -> Result<(), ControllerError> {
    if root.starts_with('/') && root.len() <= ROOT_MAX && !root.contains('\0') {
        Ok(())
    } else {
        Err(ControllerError::WorkspaceRootInvalid)
    }
}
