//! `node-goblin cancel`: asks an operation to end.

use crate::api::{Api, ApiError, explained};
use crate::endpoint::Endpoint;
use crate::{ids, runtime, terminal};
use anyhow::bail;
use bytes::Bytes;
use clap::Args;
use goblin_api::{CancelAnswer, routes};
use goblin_client::{Body, Envelope};
use goblin_protocol::json;
use serde::Deserialize;
use std::process::ExitCode;

/// Flags of `node-goblin cancel`.
#[derive(Debug, Args)]
#[command(after_help = "\
The processes of the operation get SIGTERM, and SIGKILL a second later. How it ended is told to whoever started it.

Example:
  node-goblin cancel worker-1 0b7e1c0c-6d2f-4a55-9d35-1b9a4d1e4f0a

Exit codes: 0 when it is being cancelled, 1 when no such operation runs or the gateway could not be asked.")]
pub struct CancelArguments {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Id of the gateway that runs it
    #[arg(value_parser = ids::gateway)]
    gateway: String,
    /// Id of the operation
    #[arg(value_parser = ids::operation)]
    operation_id: String,
}

/// What a cancel came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The operation is being ended.
    Ending,
    /// No such operation runs there.
    NotRunning,
    /// The gateway refused, with this code.
    Refused(String),
}

/// Cancels an operation.
pub fn run(arguments: CancelArguments) -> anyhow::Result<ExitCode> {
    let api = arguments.endpoint.api()?;
    let (gateway, operation_id) = (&arguments.gateway, &arguments.operation_id);
    let dispatched = runtime::single()?.block_on(dispatch(&api, gateway, operation_id));
    match dispatched.map_err(|error| error.about(gateway))? {
        Cancelled::Ending => terminal::line(format_args!("cancelling {operation_id} on {gateway}"))?,
        Cancelled::NotRunning => bail!("no operation {operation_id} is running on {gateway}"),
        Cancelled::Refused(code) => bail!("{}", explained(&code)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the controller to cancel an operation.
pub async fn dispatch(api: &Api, gateway: &str, operation_id: &str) -> Result<Cancelled, ApiError> {
    #[derive(Deserialize)]
    struct Result {
        #[serde(default)]
        cancelling: bool,
    }
    let answer: CancelAnswer = api.post(&routes::cancel(gateway, operation_id), None::<&()>).await?;
    let response = Bytes::from(String::from(Box::<str>::from(answer.dispatch.response)));
    match Envelope::read(response).map(|envelope| envelope.body) {
        Some(Body::Answer { answer: Ok(result), .. }) => {
            match json::from_text::<Result>(result.get()).map_err(ApiError::Unreadable)? {
                Result { cancelling: true } => Ok(Cancelled::Ending),
                Result { cancelling: false } => Ok(Cancelled::NotRunning),
            }
        }
        Some(Body::Answer { answer: Err(error), .. }) => Ok(Cancelled::Refused(error.code)),
        _ => Err(ApiError::OddLine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scripted::{Controller, answer};

    #[tokio::test]
    async fn the_gateway_says_whether_it_runs() {
        let answered = |response: &str| {
            let body = format!(
                r#"{{"ok":true,"operationId":"o:1","dispatch":{{"accepted":null,"response":{response},"events":[]}}}}"#
            );
            answer(200, &body)
        };
        let controller = Controller::start(vec![
            answered(
                r#"{"type":"response","requestId":"r","ok":true,"result":{"operationId":"o:1","cancelling":true}}"#,
            ),
            answered(
                r#"{"type":"response","requestId":"r","ok":true,"result":{"operationId":"o:1","cancelling":false}}"#,
            ),
            answered(r#"{"type":"error","requestId":"r","ok":false,"error":{"code":"unknown_method"}}"#),
        ]);
        let mut came = Vec::new();
        for _ in 0..3 {
            came.push(dispatch(&controller.api(), "w", "o:1").await.unwrap());
        }
        assert_eq!(
            came,
            [
                Cancelled::Ending,
                Cancelled::NotRunning,
                Cancelled::Refused("unknown_method".into())
            ]
        );
        assert!(
            controller.requests()[0]
                .head
                .starts_with("POST /api/mods/node-goblin/gateways/w/operations/o%3A1/cancel ")
        );
    }
}
