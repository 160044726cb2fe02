//! `node-goblin tokens`: who may use the API from elsewhere.

use crate::api::{Api, Method};
use crate::endpoint::Endpoint;
use crate::terminal::{self, BAD, FAINT, GOOD, STRONG, Table, safe};
use crate::{answer, clock, runtime, units};
use anstyle::Style;
use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use goblin_api::{
    CreateToken, CreatedToken, RevokedToken, Scope, TOKEN_EXPIRY_MAX_SECONDS, TokenListing, TokensAnswer, routes,
};
use std::process::ExitCode;
use std::time::Duration;

/// Flags of `node-goblin tokens`.
#[derive(Debug, Args)]
#[command(after_help = "\
On the controller's own machine no token is needed, so the first one is made there. A token is shown once, when it is made; \
the controller keeps only its digest.

Examples:
  node-goblin tokens create laptop --scope admin --expires 90d
  node-goblin tokens create ci --scope execute > token.txt
  node-goblin tokens
  node-goblin tokens revoke 5f0c7a1e

Exit codes: 0, or 1 when nothing was changed.")]
pub struct TokensArguments {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print the controller's answer as it is
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<TokensCommand>,
}

#[derive(Debug, Subcommand)]
enum TokensCommand {
    /// Show which there are; this is done unless another is named
    List,
    /// Make one, and print it
    Create {
        /// A name for people
        name: String,
        /// What it may do; each word includes those before it
        #[arg(long, value_enum)]
        scope: ScopeWord,
        /// How long it holds, such as 12h or 30d; until it is revoked unless given
        #[arg(long, value_name = "DURATION", value_parser = units::duration)]
        expires: Option<Duration>,
    },
    /// Let one hold no longer
    Revoke {
        /// Its id, as the list shows it
        id: String,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScopeWord {
    /// Look at everything but tokens
    Read,
    /// Also run and cancel operations
    Execute,
    /// Everything
    Admin,
}

impl From<ScopeWord> for Scope {
    fn from(word: ScopeWord) -> Self {
        match word {
            ScopeWord::Read => Self::Read,
            ScopeWord::Execute => Self::Execute,
            ScopeWord::Admin => Self::Admin,
        }
    }
}

/// Lists, makes or revokes.
pub fn run(arguments: TokensArguments) -> anyhow::Result<ExitCode> {
    let api = arguments.endpoint.api()?;
    let command = arguments.command.unwrap_or(TokensCommand::List);
    runtime::single()?.block_on(work(&api, command, arguments.json))?;
    Ok(ExitCode::SUCCESS)
}

async fn work(api: &Api, command: TokensCommand, json: bool) -> anyhow::Result<()> {
    match command {
        TokensCommand::List => {
            let text = api.get_text(routes::TOKENS).await?;
            let empty = "There is no token: only this machine's own socket is open. `node-goblin tokens create NAME --scope SCOPE` makes one.";
            answer::print_list(
                &text,
                json,
                empty,
                |answer: TokensAnswer| answer.tokens,
                |tokens| table(tokens, clock::now_ms()),
            )
        }
        TokensCommand::Create { name, scope, expires } => {
            let text = api
                .text(Method::POST, routes::TOKENS, Some(&request(name, scope, expires)?))
                .await?;
            let created: CreatedToken = answer::read(&text)?;
            if json {
                return Ok(terminal::line(text.trim_end())?);
            }
            let token = &created.token;
            terminal::note(format_args!(
                "token {} ({}), scope {}, {}; it is shown only this once:",
                safe(&token.id),
                safe(&token.name),
                token.scope.as_str(),
                match &token.expires_at {
                    Some(time) => format!("holds until {}", safe(time)),
                    None => "holds until it is revoked".to_owned(),
                }
            ));
            Ok(terminal::line(safe(&created.secret))?)
        }
        TokensCommand::Revoke { id } => {
            let text = api.text(Method::DELETE, &routes::token(&id), None::<&()>).await?;
            answer::print(&text, json, |answer: RevokedToken| {
                format!(
                    "token {} ({}) holds no more",
                    safe(&answer.token.id),
                    safe(&answer.token.name)
                )
            })
        }
    }
}

fn request(name: String, scope: ScopeWord, expires: Option<Duration>) -> anyhow::Result<CreateToken> {
    let expires_in_seconds = expires.map(|expires| expires.as_secs());
    if let Some(seconds) = expires_in_seconds
        && !(1..=TOKEN_EXPIRY_MAX_SECONDS).contains(&seconds)
    {
        bail!("--expires: a token holds for a second at least and ten years at most");
    }
    Ok(CreateToken {
        name,
        scope: scope.into(),
        expires_in_seconds,
    })
}

fn table(tokens: &[TokenListing], now: i64) -> Table {
    let mut table = Table::new(["TOKEN", "NAME", "SCOPE", "MADE", "EXPIRES"]);
    for token in tokens {
        let expires = match (&token.expires_at, token.expired) {
            (_, true) => (BAD, "expired".to_owned()),
            (Some(time), false) => (Style::new(), safe(time)),
            (None, false) => (FAINT, "when revoked".to_owned()),
        };
        let scope = if token.scope == Scope::Admin {
            GOOD
        } else {
            Style::new()
        };
        table.row([
            (STRONG, safe(&token.id)),
            (Style::new(), safe(&token.name)),
            (scope, token.scope.as_str().to_owned()),
            (Style::new(), answer::since(&token.created_at, now)),
            expires,
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
        arguments: TokensArguments,
    }

    const LISTED: &str = r#"{"id":"t1","name":"ci\u001b[2J","scope":"execute","createdAt":"1970-01-01T00:00:00.000Z","expiresAt":null,"expired":false}"#;

    async fn asked(words: &[&str], body: &str, status: u16) -> (anyhow::Result<()>, String, String) {
        let controller = Controller::start(vec![answer(status, body)]);
        let arguments = Line::parse_from(["tokens"].iter().chain(words)).arguments;
        let command = arguments.command.unwrap_or(TokensCommand::List);
        let result = work(&controller.api(), command, arguments.json).await;
        let request = controller.requests().remove(0);
        (result, request.head.lines().next().unwrap().to_owned(), request.body)
    }

    #[tokio::test]
    async fn each_command_is_one_request() {
        let created = format!(r#"{{"ok":true,"token":{LISTED},"secret":"ng_x"}}"#);
        let words = ["create", "ci", "--scope", "execute", "--expires", "30d"];
        let (result, line, body) = asked(&words, &created, 201).await;
        assert!(result.is_ok());
        assert_eq!(line, "POST /api/tokens HTTP/1.1");
        assert_eq!(body, r#"{"name":"ci","scope":"execute","expiresInSeconds":2592000}"#);
        let revoked = format!(r#"{{"ok":true,"token":{LISTED}}}"#);
        let (result, line, _) = asked(&["revoke", "../x"], &revoked, 200).await;
        assert!(result.is_ok());
        assert_eq!(line, "DELETE /api/tokens/..%2Fx HTTP/1.1");
        let refused = r#"{"ok":false,"error":"forbidden"}"#;
        let (result, line, _) = asked(&[], refused, 403).await;
        assert_eq!(line, "GET /api/tokens HTTP/1.1");
        assert!(result.unwrap_err().to_string().contains("scope"));
    }

    #[test]
    fn a_scope_has_to_be_named_and_an_expiry_has_bounds() {
        assert!(Line::try_parse_from(["tokens", "create", "x"]).is_err());
        assert!(Line::try_parse_from(["tokens", "create", "x", "--scope", "root"]).is_err());
        for bad in [Duration::from_millis(999), Duration::from_secs(u64::MAX / 1_000)] {
            assert!(request("x".into(), ScopeWord::Read, Some(bad)).is_err());
        }
    }

    #[test]
    fn the_list_is_harmless() {
        let token: TokenListing = serde_json::from_str(LISTED).unwrap();
        let shown = anstream::adapter::strip_str(&table(&[token], 61_000).to_string()).to_string();
        assert!(
            shown.ends_with("t1     ci\\x1b[2J  execute  1 min ago  when revoked"),
            "{shown}"
        );
    }
}
