//! `node-goblin operations`: what was dispatched lately, and what became of it.

mod follow;

use crate::api::{Api, Method};
use crate::endpoint::Endpoint;
use crate::interrupts::Interrupts;
use crate::terminal::{self, BAD, CAUTION, FAINT, GOOD, STRONG, Table, safe};
use crate::{answer, clock, ids, runtime};
use anstyle::Style;
use clap::{Args, Subcommand};
use goblin_api::{
    Activity, ActivityKind, ActivityState, Correlation, CorrelationState, OPERATIONS_LIMIT_DEFAULT,
    OPERATIONS_LIMIT_MAX, OperationAnswer, OperationsAnswer, ResolveAnswer, ResolveRequest, routes,
};
use std::process::ExitCode;

/// Flags of `node-goblin operations`.
#[derive(Debug, Args)]
#[command(after_help = "\
What was run, with what arguments and output, is not in it: only that something ran, where, and how it ended. With --follow \
each change is a line until Ctrl-C; --json then prints one record a line.

An operation whose outcome nobody knows stays unresolved until an operator, who has looked at the host, closes it.

Examples:
  node-goblin operations --gateway worker-1 --limit 10
  node-goblin operations --follow
  node-goblin operations show deploy-17
  node-goblin operations resolve deploy-17 --note 'looked at the host: it ran to its end'

Exit codes: 0, or 1 when the controller could not be asked; 130 when --follow was ended by Ctrl-C.")]
#[command(args_conflicts_with_subcommands = false)]
pub struct OperationsArguments {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print the controller's answer as it is
    #[arg(long, global = true)]
    json: bool,
    /// Go on with each change as it comes
    #[arg(long, short)]
    follow: bool,
    /// Only those of one gateway
    #[arg(long, value_name = "ID", value_parser = ids::gateway)]
    gateway: Option<String>,
    /// How many of the last ones
    #[arg(long, value_name = "N", default_value_t = OPERATIONS_LIMIT_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(OPERATIONS_LIMIT_MAX)))]
    limit: u32,
    #[command(subcommand)]
    command: Option<OperationsCommand>,
}

#[derive(Debug, Subcommand)]
enum OperationsCommand {
    /// Show all that is known of one
    Show {
        /// Its id
        #[arg(value_parser = ids::operation)]
        operation_id: String,
    },
    /// Close one whose outcome nobody knows
    Resolve {
        /// Its id
        #[arg(value_parser = ids::operation)]
        operation_id: String,
        /// What was found, for whoever asks later
        #[arg(long)]
        note: String,
    },
}

/// Lists, follows, shows or closes.
pub fn run(arguments: OperationsArguments) -> anyhow::Result<ExitCode> {
    let api = arguments.endpoint.api()?;
    runtime::single()?.block_on(work(&api, &arguments))?;
    Ok(ExitCode::SUCCESS)
}

async fn work(api: &Api, arguments: &OperationsArguments) -> anyhow::Result<()> {
    match &arguments.command {
        Some(OperationsCommand::Show { operation_id }) => {
            let text = api.get_text(&routes::operation(operation_id)).await;
            let text = text.map_err(|error| error.about(operation_id))?;
            answer::print(&text, arguments.json, |answer: OperationAnswer| details(&answer))
        }
        Some(OperationsCommand::Resolve { operation_id, note }) => {
            let request = ResolveRequest { note: note.clone() };
            let text = api
                .text(Method::POST, &routes::resolve(operation_id), Some(&request))
                .await;
            let text = text.map_err(|error| error.about(operation_id))?;
            answer::print(&text, arguments.json, |answer: ResolveAnswer| {
                format!("{} is closed", safe(&answer.correlation.operation_id))
            })
        }
        None if arguments.follow => {
            let mut interrupts = Interrupts::watch()?;
            let gateway = arguments.gateway.as_deref();
            let mut print = |line: String| Ok(terminal::line(line)?);
            let following = follow::Following::new(gateway, arguments.limit, arguments.json);
            let following = following.run(api, follow::PATIENCE, &mut print);
            interrupts.unless_stopped(following).await
        }
        None => {
            let path = routes::operations(arguments.gateway.as_deref(), Some(arguments.limit));
            let text = api.get_text(&path).await?;
            let empty = "Nothing was dispatched since the controller started.";
            answer::print_list(
                &text,
                arguments.json,
                empty,
                |answer: OperationsAnswer| answer.operations,
                |rows| table(rows, clock::now_ms()),
            )
        }
    }
}

fn table(operations: &[Activity], now: i64) -> Table {
    let mut table = Table::new(["OPERATION", "GATEWAY", "KIND", "STATE", "STARTED", "TOOK"]);
    for operation in operations {
        let (style, state) = state(operation);
        table.row([
            (STRONG, safe(&operation.operation_id)),
            (Style::new(), safe(&operation.gateway_id)),
            (FAINT, kind(operation.kind).to_owned()),
            (style, state),
            (Style::new(), answer::since(&operation.started_at, now)),
            (Style::new(), took(operation)),
        ]);
    }
    table
}

fn kind(kind: ActivityKind) -> &'static str {
    match kind {
        ActivityKind::Process => "process",
        ActivityKind::Filesystem => "files",
    }
}

fn took(operation: &Activity) -> String {
    operation.duration_ms.map_or_else(|| "-".to_owned(), terminal::duration)
}

/// How an operation stands, in a word.
fn state(operation: &Activity) -> (Style, String) {
    let replayed = if operation.replay { ", replayed" } else { "" };
    match (operation.state, operation.terminal_outcome.as_deref()) {
        (ActivityState::Dispatching, _) => (CAUTION, "dispatching".to_owned()),
        (ActivityState::Running, _) => (CAUTION, "running".to_owned()),
        (ActivityState::Interrupted, _) => (BAD, "connection lost".to_owned()),
        (ActivityState::Terminal, Some("completed")) => (GOOD, format!("completed{replayed}")),
        (ActivityState::Terminal, Some(outcome)) => (BAD, format!("{}{replayed}", safe(outcome))),
        (ActivityState::Terminal, None) => (FAINT, format!("ended{replayed}")),
    }
}

fn details(answer: &OperationAnswer) -> String {
    let mut parts = Vec::new();
    if let Some(correlation) = &answer.correlation {
        parts.push(recorded(correlation).to_string());
    }
    parts.extend(answer.activity.iter().map(|activity| seen(activity).to_string()));
    parts.join("\n\n")
}

fn rows(rows: Vec<(&str, String)>) -> Table {
    let mut table = Table::new(["", ""]);
    for (name, value) in rows {
        table.row([(FAINT, name.to_owned()), (Style::new(), value)]);
    }
    table
}

fn recorded(correlation: &Correlation) -> Table {
    let state = match correlation.state {
        CorrelationState::Dispatching => "unresolved: dispatched, and what became of it is not known",
        CorrelationState::Terminal => "ended",
        CorrelationState::Resolved => "closed by an operator",
    };
    let mut shown = vec![
        ("operation", safe(&correlation.operation_id)),
        ("gateway", safe(&correlation.gateway_id)),
        ("kind", kind(correlation.kind).to_owned()),
        ("record", state.to_owned()),
        ("changed", safe(&correlation.updated_at)),
        ("request digest", safe(&correlation.request_digest)),
    ];
    let reference = correlation.terminal_reference.as_ref();
    shown.extend(
        reference
            .and_then(|reference| reference.outcome_digest.as_deref())
            .map(|digest| ("outcome digest", safe(digest))),
    );
    shown.extend(correlation.note.as_deref().map(|note| ("note", safe(note))));
    shown.extend(correlation.parent_run_id.as_deref().map(|id| ("run", safe(id))));
    shown.extend(correlation.tool_call_id.as_deref().map(|id| ("tool call", safe(id))));
    rows(shown)
}

fn seen(activity: &Activity) -> Table {
    let mut shown = vec![
        ("on gateway", safe(&activity.gateway_id)),
        ("state", state(activity).1),
        ("started", safe(&activity.started_at)),
    ];
    shown.extend(activity.accepted_at.as_deref().map(|time| ("accepted", safe(time))));
    shown.extend(activity.ended_at.as_deref().map(|time| ("ended", safe(time))));
    shown.extend(
        activity
            .duration_ms
            .map(|duration| ("took", terminal::duration(duration))),
    );
    rows(shown)
}

#[cfg(test)]
mod tests;
