//! `node-goblin trust`: which gateways may connect, and how they prove who they are.

use crate::api::{Api, Method};
use crate::endpoint::Endpoint;
use crate::terminal::{self, BAD, FAINT, GOOD, STRONG, Table, safe};
use crate::{answer, ids, runtime};
use anstyle::Style;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use goblin_api::{EnrolRequest, TrustAnswer, TrustListing, TrustRecord, routes};
use std::path::PathBuf;
use std::process::ExitCode;
use zeroize::Zeroizing;

/// Longest secret file, in bytes.
const SECRET_MAX: u64 = 64 * 1024;

/// Flags of `node-goblin trust`.
#[derive(Debug, Args)]
#[command(after_help = "\
Hosts are usually let in by pairing (`node-goblin pairings`). A host that nobody can watch is enrolled with a secret that both \
ends share; it is typed unseen, or read from standard input or --secret-file.

Examples:
  node-goblin trust
  head -c 32 /dev/urandom | base64 > secret.txt; node-goblin trust enrol worker-1 --secret-file secret.txt
  node-goblin trust revoke worker-1

Exit codes: 0, or 1 when nothing was changed.")]
pub struct TrustArguments {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print the controller's answer as it is
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<TrustCommand>,
}

#[derive(Debug, Subcommand)]
enum TrustCommand {
    /// Show the records; this is done unless another is named
    List,
    /// Trust a gateway that holds a shared secret
    Enrol {
        /// Id of the gateway
        #[arg(value_parser = ids::gateway)]
        gateway: String,
        /// File that holds the secret
        #[arg(long, value_name = "FILE")]
        secret_file: Option<PathBuf>,
        /// Id of the controller that the gateway is set to; `controller` unless given
        #[arg(long, value_name = "ID")]
        controller_id: Option<String>,
    },
    /// Shut a gateway out, at once
    Revoke {
        /// Id of the gateway
        #[arg(value_parser = ids::gateway)]
        gateway: String,
    },
}

/// Lists, enrols or revokes.
pub fn run(arguments: TrustArguments) -> anyhow::Result<ExitCode> {
    let api = arguments.endpoint.api()?;
    let command = arguments.command.unwrap_or(TrustCommand::List);
    runtime::single()?.block_on(work(&api, command, arguments.json))?;
    Ok(ExitCode::SUCCESS)
}

async fn work(api: &Api, command: TrustCommand, json: bool) -> anyhow::Result<()> {
    match command {
        TrustCommand::List => {
            let text = api.get_text(&routes::trust()).await?;
            let empty = "No gateway was ever trusted. `node-goblin pairings` shows who asks to be.";
            answer::print_list(&text, json, empty, |answer: TrustListing| answer.gateways, table)
        }
        TrustCommand::Enrol {
            gateway,
            secret_file,
            controller_id,
        } => {
            let secret = match &secret_file {
                Some(path) => read_secret(path)?,
                None => terminal::secret("Secret").await.context("cannot read the secret")?,
            };
            // A line's end is the editor's, not the secret's.
            let secret = secret.trim_end_matches(['\r', '\n']);
            if secret.is_empty() {
                bail!("no secret was given");
            }
            let request = EnrolRequest {
                controller_id,
                secret: secret.to_owned(),
            };
            let path = routes::trust_of(&gateway);
            let text = api.text(Method::PUT, &path, Some(&request)).await;
            let text = text.map_err(|error| error.about(&gateway))?;
            answer::print(&text, json, |answer: TrustAnswer| {
                format!(
                    "{} is trusted by its secret{}",
                    safe(&answer.gateway.gateway_id),
                    later(answer.restart_required)
                )
            })
        }
        TrustCommand::Revoke { gateway } => {
            let text = api.text(Method::DELETE, &routes::trust_of(&gateway), None::<&()>).await;
            let text = text.map_err(|error| error.about(&gateway))?;
            answer::print(&text, json, |answer: TrustAnswer| {
                format!(
                    "{} is shut out{}",
                    safe(&answer.gateway.gateway_id),
                    later(answer.restart_required)
                )
            })
        }
    }
}

fn later(restart_required: bool) -> &'static str {
    match restart_required {
        true => ", once the host program is restarted",
        false => "",
    }
}

fn read_secret(path: &std::path::Path) -> anyhow::Result<Zeroizing<String>> {
    use std::io::Read;
    let mut text = Zeroizing::new(String::new());
    let read = std::fs::File::open(path).and_then(|file| file.take(SECRET_MAX).read_to_string(&mut text));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text)
}

fn table(records: &[TrustRecord]) -> Table {
    let mut table = Table::new(["GATEWAY", "TRUST", "METHOD", "CONTROLLER"]);
    for record in records {
        let (style, word) = match (record.trusted, record.revoked) {
            (true, _) => (GOOD, "trusted"),
            (false, true) => (BAD, "revoked"),
            (false, false) => (FAINT, "not trusted"),
        };
        table.row([
            (STRONG, safe(&record.gateway_id)),
            (style, word.to_owned()),
            (Style::new(), answer::or_dash(record.method.as_deref())),
            (Style::new(), safe(&record.controller_id)),
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
        arguments: TrustArguments,
    }

    const RECORD: &str = r#"{"gatewayId":"w","controllerId":"c\u0007","status":"approved","approved":true,"revoked":false,"trusted":true,"method":"hmac"}"#;

    async fn asked(words: &[&str]) -> (anyhow::Result<()>, Vec<(String, String)>) {
        let body = format!(r#"{{"ok":true,"gateway":{RECORD},"restartRequired":false}}"#);
        let controller = Controller::start(vec![answer(200, &body)]);
        let arguments = Line::parse_from(["trust"].iter().chain(words)).arguments;
        let command = arguments.command.unwrap_or(TrustCommand::List);
        let result = work(&controller.api(), command, arguments.json).await;
        let requests = controller.requests().into_iter();
        let requests = requests.map(|request| (request.head.lines().next().unwrap().to_owned(), request.body));
        (result, requests.collect())
    }

    #[tokio::test]
    async fn a_secret_comes_out_of_a_file_less_its_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        std::fs::write(path, " hunter2 \n").unwrap();
        let (result, requests) = asked(&["enrol", "w", "--secret-file", path]).await;
        result.unwrap();
        let expected = (
            "PUT /api/mods/node-goblin/gateway-trust/w HTTP/1.1".to_owned(),
            r#"{"secret":" hunter2 "}"#.to_owned(),
        );
        assert_eq!(requests, [expected]);
        std::fs::write(path, "\n").unwrap();
        let (result, requests) = asked(&["enrol", "w", "--secret-file", path]).await;
        assert!(result.is_err() && requests.is_empty());
        assert!(
            Line::try_parse_from(["trust", "enrol", "w", "hunter2"]).is_err(),
            "a secret is no argument"
        );
    }

    #[tokio::test]
    async fn a_revocation_is_one_request() {
        let (result, requests) = asked(&["revoke", "w"]).await;
        result.unwrap();
        assert_eq!(requests[0].0, "DELETE /api/mods/node-goblin/gateway-trust/w HTTP/1.1");
    }

    #[test]
    fn the_list_is_harmless() {
        let record: TrustRecord = serde_json::from_str(RECORD).unwrap();
        let shown = anstream::adapter::strip_str(&table(&[record]).to_string()).to_string();
        assert!(shown.ends_with("w        trusted  hmac    c\\x07"), "{shown}");
    }
}
