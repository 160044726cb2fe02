//! `node-goblin agents`: which agents there are, and where their work is carried out.

use crate::api::{Api, Method};
use crate::endpoint::Endpoint;
use crate::terminal::{FAINT, STRONG, Table, safe};
use crate::{answer, ids, runtime};
use anstyle::Style;
use anyhow::bail;
use clap::{Args, Subcommand};
use goblin_api::{
    Agent, AgentAnswer, AgentChange, AgentRequest, AgentsAnswer, EnvironmentKind, ExecutionEnvironment, PROVIDER_ID,
    routes,
};
use std::process::ExitCode;

/// The word for the controller's own machine; no gateway has this id.
const LOCAL: &str = "local";

/// Flags of `node-goblin agents`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  node-goblin agents
  node-goblin agents add builder
  node-goblin agents assign builder worker-1 --root /srv/work
  node-goblin agents assign builder local
  node-goblin agents unassign builder

Exit codes: 0, or 1 when nothing was changed.")]
pub struct AgentsArguments {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print the controller's answer as it is
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<AgentsCommand>,
}

#[derive(Debug, Subcommand)]
enum AgentsCommand {
    /// Show which there are; this is done unless another is named
    List,
    /// Add one
    Add {
        /// Its id, which never changes
        #[arg(value_parser = ids::gateway)]
        agent: String,
        /// Name for people; the id unless given
        #[arg(long)]
        name: Option<String>,
    },
    /// Say where its work is carried out
    Assign {
        /// Its id
        #[arg(value_parser = ids::gateway)]
        agent: String,
        /// Id of an approved gateway, or `local` for the controller's own machine
        #[arg(value_name = "GATEWAY", value_parser = place)]
        gateway: String,
        /// Directory that the work begins in, absolute; needed with a gateway
        #[arg(long, value_name = "DIR")]
        root: Option<String>,
    },
    /// Take its assignment away
    Unassign {
        /// Its id
        #[arg(value_parser = ids::gateway)]
        agent: String,
    },
}

fn place(text: &str) -> Result<String, String> {
    match text {
        LOCAL => Ok(text.to_owned()),
        _ => ids::gateway(text),
    }
}

/// Lists, adds or assigns.
pub fn run(arguments: AgentsArguments) -> anyhow::Result<ExitCode> {
    let api = arguments.endpoint.api()?;
    let command = arguments.command.unwrap_or(AgentsCommand::List);
    runtime::single()?.block_on(work(&api, command, arguments.json))?;
    Ok(ExitCode::SUCCESS)
}

async fn work(api: &Api, command: AgentsCommand, json: bool) -> anyhow::Result<()> {
    match command {
        AgentsCommand::List => {
            let text = api.get_text(&routes::agents()).await?;
            answer::print_list(
                &text,
                json,
                "There is no agent.",
                |answer: AgentsAnswer| answer.agents,
                table,
            )
        }
        AgentsCommand::Add { agent, name } => {
            let request = AgentRequest {
                id: agent.clone(),
                name,
                execution_environment: None,
            };
            let text = api.text(Method::POST, &routes::agents(), Some(&request)).await;
            let text = text.map_err(|error| error.about(&agent))?;
            answer::print(&text, json, |answer: AgentAnswer| {
                format!("added {}", safe(&answer.agent.id))
            })
        }
        AgentsCommand::Assign { agent, gateway, root } => {
            let environment = environment(gateway, root)?;
            change(api, &agent, Some(environment), json).await
        }
        AgentsCommand::Unassign { agent } => change(api, &agent, None, json).await,
    }
}

async fn change(api: &Api, agent: &str, environment: Option<ExecutionEnvironment>, json: bool) -> anyhow::Result<()> {
    let request = AgentChange {
        name: None,
        execution_environment: Some(environment),
    };
    let text = api.text(Method::PATCH, &routes::agent(agent), Some(&request)).await;
    let text = text.map_err(|error| error.about(agent))?;
    answer::print(&text, json, |answer: AgentAnswer| {
        let (place, root) = shown(answer.agent.execution_environment.as_ref());
        format!(
            "{} works {place}{}",
            safe(&answer.agent.id),
            if root == "-" {
                String::new()
            } else {
                format!(" in {root}")
            }
        )
    })
}

fn environment(gateway: String, root: Option<String>) -> anyhow::Result<ExecutionEnvironment> {
    if root.as_ref().is_some_and(|root| !root.starts_with('/')) {
        bail!("--root: give an absolute directory");
    }
    if gateway == LOCAL {
        return Ok(ExecutionEnvironment {
            kind: EnvironmentKind::Local,
            provider_id: None,
            target_id: None,
            workspace_root: root,
        });
    }
    if root.is_none() {
        bail!("--root is needed with a gateway: the directory that the work begins in");
    }
    Ok(ExecutionEnvironment {
        kind: EnvironmentKind::Remote,
        provider_id: Some(PROVIDER_ID.to_owned()),
        target_id: Some(gateway),
        workspace_root: root,
    })
}

/// Where an agent works, and in which directory.
fn shown(environment: Option<&ExecutionEnvironment>) -> (String, String) {
    let Some(environment) = environment else {
        return ("nowhere".to_owned(), "-".to_owned());
    };
    let place = match environment.kind {
        EnvironmentKind::Local => "on the controller's machine".to_owned(),
        EnvironmentKind::Remote => format!("on {}", answer::or_dash(environment.target_id.as_deref())),
    };
    (place, answer::or_dash(environment.workspace_root.as_deref()))
}

fn table(agents: &[Agent]) -> Table {
    let mut table = Table::new(["AGENT", "NAME", "WORKS", "DIRECTORY"]);
    for agent in agents {
        let (place, root) = shown(agent.execution_environment.as_ref());
        let style = if agent.execution_environment.is_none() {
            FAINT
        } else {
            Style::new()
        };
        table.row([
            (STRONG, safe(&agent.id)),
            (Style::new(), safe(&agent.name)),
            (style, place),
            (Style::new(), root),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scripted::{Controller, answer};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: AgentsArguments,
    }

    const AGENT: &str = r#"{"id":"b","name":"B\u0007","executionEnvironment":{"kind":"remote","providerId":"node-goblin","targetId":"w","workspaceRoot":"/x\n"}}"#;

    async fn asked(words: &[&str]) -> (anyhow::Result<()>, Vec<String>) {
        let controller = Controller::start(vec![answer(200, &format!(r#"{{"ok":true,"agent":{AGENT}}}"#))]);
        let arguments = Line::parse_from(["agents"].iter().chain(words)).arguments;
        let command = arguments.command.unwrap_or(AgentsCommand::List);
        let result = work(&controller.api(), command, arguments.json).await;
        let requests = controller.requests().into_iter();
        let requests = requests.map(|request| {
            let line = request.head.lines().next().unwrap().to_owned();
            format!("{} {}", line.trim_end_matches(" HTTP/1.1"), request.body)
        });
        (result, requests.collect())
    }

    #[tokio::test]
    async fn each_command_asks_for_what_it_says() {
        for (words, expected) in [
            (&["add", "b"][..], r#"POST /api/agents {"id":"b"}"#),
            (
                &["assign", "b", "w", "--root", "/x"],
                r#"PATCH /api/agents/b {"executionEnvironment":{"kind":"remote","providerId":"node-goblin","targetId":"w","workspaceRoot":"/x"}}"#,
            ),
            (
                &["assign", "b", "local"],
                r#"PATCH /api/agents/b {"executionEnvironment":{"kind":"local"}}"#,
            ),
            (
                &["unassign", "b"],
                r#"PATCH /api/agents/b {"executionEnvironment":null}"#,
            ),
        ] {
            let (result, requests) = asked(words).await;
            result.unwrap();
            assert_eq!(requests, [expected]);
        }
    }

    #[tokio::test]
    async fn a_directory_is_absolute_and_needed_with_a_gateway() {
        for words in [
            &["assign", "b", "w"][..],
            &["assign", "b", "w", "--root", "x"],
            &["assign", "b", "local", "--root", "x"],
        ] {
            let (result, requests) = asked(words).await;
            assert!(result.unwrap_err().to_string().contains("--root") && requests.is_empty());
        }
        assert!(Line::try_parse_from(["agents", "add", "local"]).is_err());
    }

    #[test]
    fn the_list_is_harmless() {
        let agent: Agent = serde_json::from_str(AGENT).unwrap();
        let shown = anstream::adapter::strip_str(&table(&[agent]).to_string()).to_string();
        assert!(shown.ends_with("b      B\\x07  on w   /x\\n"), "{shown}");
    }
}
