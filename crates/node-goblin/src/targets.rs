//! `node-goblin targets`: API targets that the controller lists.

use crate::api::{Api, Method};
use crate::endpoint::Endpoint;
use crate::terminal::{FAINT, GOOD, STRONG, Table, safe};
use crate::{answer, ids, runtime};
use anstyle::Style;
use anyhow::Context;
use clap::{Args, Subcommand};
use goblin_api::{Success, Target, TargetAnswer, TargetRequest, TargetsAnswer, routes};
use serde::Deserialize;
use std::process::ExitCode;

/// Flags of `node-goblin targets`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  node-goblin targets
  node-goblin targets add staging https://staging.example.org --name 'Staging'
  node-goblin targets update staging --disable
  node-goblin targets remove staging

Exit codes: 0, or 1 when nothing was changed.")]
pub struct TargetsArguments {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print the controller's answer as it is
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<TargetsCommand>,
}

#[derive(Debug, Subcommand)]
enum TargetsCommand {
    /// Show which there are; this is done unless another is named
    List,
    /// Add one
    Add {
        /// Its id, which never changes
        #[arg(value_parser = ids::gateway)]
        id: String,
        /// Its URL, http or https
        base_url: String,
        /// Name for people; the id unless given
        #[arg(long)]
        name: Option<String>,
        /// Add it without letting it be used
        #[arg(long)]
        disable: bool,
    },
    /// Change one; what is not given stays
    Update(Update),
    /// Remove one
    Remove {
        /// Its id
        #[arg(value_parser = ids::gateway)]
        id: String,
    },
}

#[derive(Debug, Args)]
struct Update {
    /// Its id
    #[arg(value_parser = ids::gateway)]
    id: String,
    #[command(flatten)]
    change: Change,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Change {
    /// Name for people
    #[arg(long)]
    name: Option<String>,
    /// Its URL, http or https
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// Let it be used
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// Do not let it be used
    #[arg(long)]
    disable: bool,
}

/// Lists, adds, changes or removes.
pub fn run(arguments: TargetsArguments) -> anyhow::Result<ExitCode> {
    let api = arguments.endpoint.api()?;
    let command = arguments.command.unwrap_or(TargetsCommand::List);
    runtime::single()?.block_on(work(&api, command, arguments.json))?;
    Ok(ExitCode::SUCCESS)
}

async fn work(api: &Api, command: TargetsCommand, json: bool) -> anyhow::Result<()> {
    match command {
        TargetsCommand::List => {
            let text = api.get_text(&routes::targets()).await?;
            answer::print_list(
                &text,
                json,
                "There is no target.",
                |answer: TargetsAnswer| answer.targets,
                table,
            )
        }
        TargetsCommand::Add {
            id,
            base_url,
            name,
            disable,
        } => {
            let request = TargetRequest {
                name: name.unwrap_or_else(|| id.clone()),
                id: Some(id.clone()),
                base_url,
                enabled: Some(!disable),
            };
            let text = api.text(Method::POST, &routes::targets(), Some(&request)).await;
            let text = text.map_err(|error| error.about(&id))?;
            answer::print(&text, json, |answer: TargetAnswer| {
                format!("added {}", told(&answer.target))
            })
        }
        TargetsCommand::Update(Update { id, change }) => {
            let listed: TargetsAnswer = api.get(&routes::targets()).await?;
            let target = listed.targets.into_iter().find(|target| target.id == id);
            let target = target.with_context(|| format!("{id}: there is no such target"))?;
            let request = TargetRequest {
                id: None,
                name: change.name.unwrap_or(target.name),
                base_url: change.base_url.unwrap_or(target.base_url),
                enabled: Some(change.enable || target.enabled && !change.disable),
            };
            let text = api.text(Method::PUT, &routes::target(&id), Some(&request)).await;
            let text = text.map_err(|error| error.about(&id))?;
            answer::print(&text, json, |answer: TargetAnswer| {
                format!("changed {}", told(&answer.target))
            })
        }
        TargetsCommand::Remove { id } => {
            #[derive(Deserialize)]
            struct Removed {
                #[serde(rename = "ok")]
                _ok: Success,
            }
            let text = api.text(Method::DELETE, &routes::target(&id), None::<&()>).await;
            let text = text.map_err(|error| error.about(&id))?;
            answer::print(&text, json, |_: Removed| format!("removed {id}"))
        }
    }
}

fn told(target: &Target) -> String {
    let state = if target.enabled { "" } else { ", disabled" };
    format!("{} ({}){state}", safe(&target.id), safe(&target.base_url))
}

fn table(targets: &[Target]) -> Table {
    let mut table = Table::new(["TARGET", "NAME", "URL", "STATE"]);
    for target in targets {
        let state = if target.enabled {
            (GOOD, "enabled")
        } else {
            (FAINT, "disabled")
        };
        table.row([
            (STRONG, safe(&target.id)),
            (Style::new(), safe(&target.name)),
            (Style::new(), safe(&target.base_url)),
            (state.0, state.1.to_owned()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scripted::{Controller, Pieces, answer};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: TargetsArguments,
    }

    const TARGET: &str = r#"{"id":"s","name":"S\u001b","baseUrl":"https://s","enabled":false}"#;

    fn one() -> Pieces {
        answer(200, &format!(r#"{{"ok":true,"target":{TARGET}}}"#))
    }

    fn all() -> Pieces {
        answer(200, &format!(r#"{{"ok":true,"targets":[{TARGET}]}}"#))
    }

    async fn asked(words: &[&str], answers: Vec<Pieces>) -> (anyhow::Result<()>, Vec<String>) {
        let controller = Controller::start(answers);
        let arguments = Line::parse_from(["targets"].iter().chain(words)).arguments;
        let command = arguments.command.unwrap_or(TargetsCommand::List);
        let result = work(&controller.api(), command, arguments.json).await;
        let requests = controller.requests().into_iter();
        let requests = requests.map(|request| {
            let line = request
                .head
                .lines()
                .next()
                .unwrap()
                .replace("/api/mods/node-goblin", "");
            format!("{} {}", line.trim_end_matches(" HTTP/1.1"), request.body)
        });
        (result, requests.collect())
    }

    #[tokio::test]
    async fn each_command_asks_for_what_it_says() {
        let (result, asked_for) = asked(&["add", "s", "https://s", "--disable"], vec![one()]).await;
        result.unwrap();
        assert_eq!(
            asked_for,
            [r#"POST /targets {"id":"s","name":"s","baseUrl":"https://s","enabled":false}"#]
        );
        let (result, asked_for) = asked(&["update", "s", "--enable"], vec![all(), one()]).await;
        result.unwrap();
        assert_eq!(
            asked_for[1],
            "PUT /targets/s {\"name\":\"S\\u001b\",\"baseUrl\":\"https://s\",\"enabled\":true}"
        );
        let (result, asked_for) = asked(&["update", "t", "--name", "x"], vec![all()]).await;
        assert!(result.unwrap_err().to_string().contains("no such target"));
        assert_eq!(asked_for.len(), 1);
        let (result, asked_for) = asked(&["remove", "s"], vec![answer(200, r#"{"ok":true}"#)]).await;
        result.unwrap();
        assert_eq!(asked_for, ["DELETE /targets/s "]);
    }

    #[tokio::test]
    async fn a_refusal_names_the_target() {
        let refused = answer(409, r#"{"ok":false,"error":"api_target_exists"}"#);
        let (result, _) = asked(&["add", "s", "https://s"], vec![refused]).await;
        let fault = format!("{:#}", result.unwrap_err());
        assert!(
            fault.starts_with("s: ") && fault.contains("api_target_exists"),
            "{fault}"
        );
    }

    #[test]
    fn an_update_changes_something_and_not_both_ways() {
        for bad in [
            &["update", "s"][..],
            &["update", "s", "--enable", "--disable"],
            &["add", "a/b", "u"],
        ] {
            assert!(Line::try_parse_from(["targets"].iter().chain(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_list_is_harmless() {
        let target: Target = serde_json::from_str(TARGET).unwrap();
        let shown = anstream::adapter::strip_str(&table(&[target]).to_string()).to_string();
        assert!(shown.ends_with("s       S\\x1b  https://s  disabled"), "{shown}");
    }
}
