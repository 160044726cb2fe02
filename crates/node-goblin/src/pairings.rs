//! `node-goblin pairings`: hosts that wait for an operator's word.

use crate::api::{Api, ApiError};
use crate::endpoint::Endpoint;
use crate::shell::command_line;
use crate::terminal::{self, CAUTION, FAINT, GOOD, STRONG, Table, ago, safe};
use crate::{clock, ids, runtime};
use anstyle::Style;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use goblin_api::{ApproveRequest, PairingAnswer, PairingListing, PairingsAnswer, routes};
use goblin_protocol::{json, time};
use std::process::ExitCode;

/// Flags of `node-goblin pairings`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  node-goblin pairings
  node-goblin pairings approve worker-1
  node-goblin pairings approve worker-1 --code 1A2B-3C4D-5E6F
  node-goblin pairings reject worker-1

Exit codes: 0, or 1 when nothing was changed.")]
pub struct PairingsArguments {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Show the longer form of the codes, 32 digits
    #[arg(long, global = true)]
    long: bool,
    /// Print the controller's list as it is
    #[arg(long, global = true, conflicts_with = "long")]
    json: bool,
    #[command(subcommand)]
    command: Option<PairingsCommand>,
}

#[derive(Debug, Subcommand)]
enum PairingsCommand {
    /// Show who waits, with the code that each host shows too; this is done unless another is named
    List,
    /// Let a host in, after its code was compared
    Approve(ApproveArguments),
    /// Turn a host away
    Reject {
        /// Id of the gateway
        #[arg(value_parser = ids::gateway)]
        gateway: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
The code proves that nobody stands between host and controller. The host shows the same one in its log, and in \
pairing-code.json in its state directory. Without --code and --yes you are asked; where nobody can be asked nothing is \
approved.

Exit codes: 0 when the host was let in, 1 when not.")]
struct ApproveArguments {
    /// Id of the gateway
    #[arg(value_parser = ids::gateway)]
    gateway: String,
    /// The code that the host's screen shows, short or long; another one approves nothing
    #[arg(long, value_name = "XXXX-XXXX-XXXX")]
    code: Option<String>,
    /// Approve without asking
    #[arg(long, short)]
    yes: bool,
}

/// Lists, approves or rejects.
pub fn run(arguments: PairingsArguments) -> anyhow::Result<ExitCode> {
    let api = arguments.endpoint.api()?;
    let command = arguments.command.as_ref().unwrap_or(&PairingsCommand::List);
    if arguments.json && !matches!(command, PairingsCommand::List) {
        bail!("--json is for the list");
    }
    runtime::single()?.block_on(async {
        match command {
            PairingsCommand::List => list(&api, &arguments).await,
            PairingsCommand::Approve(approval) => approve(&api, &arguments, approval).await,
            PairingsCommand::Reject { gateway } => {
                let rejected = api.post(&routes::reject(gateway), None::<&()>).await;
                let answer: PairingAnswer = rejected.map_err(|error| error.about(gateway))?;
                let gateway = safe(&answer.pairing.gateway_id);
                Ok(terminal::line(format_args!("{gateway} was turned away"))?)
            }
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A command line about a gateway of this controller.
fn typed(endpoint: &Endpoint, command: &[&str]) -> String {
    let (name, rest) = command.split_at(1);
    let mut words = endpoint.command(name[0]);
    words.extend(rest.iter().map(|&word| word.to_owned()));
    command_line(&words)
}

async fn list(api: &Api, arguments: &PairingsArguments) -> anyhow::Result<()> {
    let text = api.get_text(&routes::pairings()).await?;
    if arguments.json {
        return Ok(terminal::line(text.trim_end())?);
    }
    let answer: PairingsAnswer = json::from_text(&text).context("the controller's answer cannot be read")?;
    if answer.pairings.is_empty() {
        terminal::note("Nobody waits for approval.");
        return Ok(());
    }
    terminal::line(table(&answer.pairings, arguments.long, clock::now_ms()))?;
    let first_live = answer.pairings.iter().find(|pairing| pairing.live);
    if let (Some(pairing), true) = (first_live, terminal::watched()) {
        terminal::note(format_args!(
            "\nCompare the code with the one that the host shows, then: {}",
            typed(&arguments.endpoint, &["pairings", "approve", &pairing.gateway_id])
        ));
    }
    Ok(())
}

fn table(pairings: &[PairingListing], long: bool, now: i64) -> Table {
    let mut table = Table::new(["GATEWAY", "CODE", "STATUS", "ASKED", "VERSION"]);
    for pairing in pairings {
        let (style, status) = match pairing.live {
            true => (CAUTION, "waits"),
            false => (FAINT, "not connected"),
        };
        let asked = time::from_iso8601(&pairing.requested_at);
        table.row([
            (STRONG, safe(&pairing.gateway_id)),
            (STRONG, safe(code(pairing, long))),
            (style, status.to_owned()),
            (
                Style::new(),
                asked.map_or_else(|| safe(&pairing.requested_at), |asked| ago(asked, now)),
            ),
            (Style::new(), safe(pairing.metadata.version.as_deref().unwrap_or("-"))),
        ]);
    }
    table
}

/// The code to show, the long one where that is wanted and known.
fn code(pairing: &PairingListing, long: bool) -> &str {
    match &pairing.long_pairing_code {
        Some(code) if long => code,
        _ => &pairing.pairing_code,
    }
}

async fn approve(api: &Api, arguments: &PairingsArguments, approval: &ApproveArguments) -> anyhow::Result<()> {
    let pairing = waiting(api, &approval.gateway).await?;
    let shown = code(&pairing, arguments.long);
    terminal::note(format_args!(
        "{} asks to be let in. This is its code:\n{}",
        terminal::paint(STRONG, safe(&pairing.gateway_id)),
        terminal::code_box(shown)
    ));
    match &approval.code {
        Some(read) if same_code(read, &pairing) => {}
        Some(read) => bail!(
            "the code {} is not the one above: nothing was approved. Either it was mistyped, or somebody stands between the host and this controller",
            safe(read)
        ),
        None if approval.yes => {}
        None if !terminal::can_ask() => {
            bail!("nobody can be asked here: give the code that the host shows with --code, or --yes")
        }
        None => {
            if !terminal::confirm("Does the host show the same code?").await {
                bail!(
                    "nothing was approved; to turn the host away: {}",
                    typed(&arguments.endpoint, &["pairings", "reject", &approval.gateway])
                );
            }
        }
    }
    let approved = send_approval(api, &pairing.gateway_id, &pairing.pairing_code).await;
    approved.map_err(|error| error.about(&approval.gateway))?;
    terminal::line(format_args!(
        "{} {} is approved; try: {}",
        terminal::paint(GOOD, "✓"),
        approval.gateway,
        typed(&arguments.endpoint, &["exec", &approval.gateway, "--", "uname", "-a"]),
    ))?;
    Ok(())
}

/// Approves a gateway whose code was compared.
pub async fn send_approval(api: &Api, gateway: &str, code: &str) -> Result<PairingAnswer, ApiError> {
    let request = ApproveRequest {
        pairing_code: Some(code.to_owned()),
    };
    api.post(&routes::approve(gateway), Some(&request)).await
}

/// The pairing of a gateway that is connected and waits.
async fn waiting(api: &Api, gateway: &str) -> anyhow::Result<PairingListing> {
    let answer: PairingsAnswer = api.get(&routes::pairings()).await?;
    let others: Vec<String> = answer
        .pairings
        .iter()
        .map(|pairing| safe(&pairing.gateway_id))
        .collect();
    match answer
        .pairings
        .into_iter()
        .find(|pairing| pairing.gateway_id == gateway)
    {
        Some(pairing) if pairing.live => Ok(pairing),
        Some(_) => bail!("{gateway} is not connected now; when it comes again it brings a new code"),
        None if others.is_empty() => bail!("{gateway} does not wait for approval, nor does anybody else"),
        None => bail!("{gateway} does not wait for approval; these do: {}", others.join(", ")),
    }
}

/// True when what an operator read is the pairing's code, short or long, whatever separates the digits.
pub fn same_code(read: &str, pairing: &PairingListing) -> bool {
    let digits = |text: &str| -> String {
        text.chars()
            .filter(|character| !character.is_whitespace() && *character != '-')
            .map(|character| character.to_ascii_uppercase())
            .collect()
    };
    let read = digits(read);
    let long = pairing.long_pairing_code.as_deref();
    !read.is_empty()
        && [Some(pairing.pairing_code.as_str()), long]
            .into_iter()
            .flatten()
            .any(|code| digits(code) == read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scripted::{Controller, answer};
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: PairingsArguments,
    }

    const LISTED: &str = r#"{"ok":true,"pairings":[{"gatewayId":"worker-1","controllerId":"controller","publicKey":"PEM",
        "metadata":{"version":"2\u001b[2J"},"nonce":"n","pairingCode":"1A2B-3C4D-5E6F","longPairingCode":"1A2B3C4D5E6F00112233445566778899",
        "status":"pending","requestedAt":"1970-01-01T00:00:00.000Z","live":true},
        {"gatewayId":"gone","controllerId":"controller","publicKey":"PEM","pairingCode":"0000-0000-0000","status":"pending",
        "requestedAt":"?","live":false}]}"#;
    const APPROVED: &str = r#"{"ok":true,"pairing":{"gatewayId":"worker-1","controllerId":"controller","pairingCode":"1A2B-3C4D-5E6F","status":"approved","trusted":true}}"#;

    async fn approve_by(words: &[&str], controller: &Controller) -> anyhow::Result<()> {
        let arguments = Line::parse_from(["pairings", "approve"].iter().chain(words)).arguments;
        let Some(PairingsCommand::Approve(approval)) = &arguments.command else {
            panic!("{arguments:?}")
        };
        approve(&controller.api(), &arguments, approval).await
    }

    #[test]
    fn list_is_what_it_does_unless_told_otherwise() {
        assert!(Line::parse_from(["pairings"]).arguments.command.is_none());
        assert!(Line::parse_from(["pairings", "--long"]).arguments.long);
        let placed = ["pairings", "--state-dir", "/s", "approve", "--long", "w"];
        let placed = Line::parse_from(placed).arguments;
        assert!(placed.long && placed.endpoint.place.state_dir == Some("/s".into()));
        assert_eq!(
            typed(&placed.endpoint, &["exec", "w"]),
            "node-goblin exec --state-dir /s w"
        );
        assert!(Line::try_parse_from(["pairings", "approve"]).is_err());
        assert!(Line::try_parse_from(["pairings", "reject", "../x"]).is_err());
        assert!(Line::try_parse_from(["pairings", "list", "--long", "--json"]).is_err());
    }

    #[test]
    fn the_list_shows_the_codes_and_is_harmless() {
        let answer: PairingsAnswer = json::from_text(LISTED).unwrap();
        let shown = anstream::adapter::strip_str(&table(&answer.pairings, false, 61_000).to_string()).to_string();
        let rows: Vec<&str> = shown.lines().collect();
        assert!(rows[1].starts_with("worker-1  1A2B-3C4D-5E6F  waits"), "{shown}");
        assert!(
            rows[1].contains("1 min ago") && rows[1].ends_with("2\\x1b[2J"),
            "{shown}"
        );
        assert!(rows[2].contains("not connected") && rows[2].ends_with('-'), "{shown}");
        let long = table(&answer.pairings, true, 0).to_string();
        assert!(long.contains("1A2B3C4D5E6F00112233445566778899") && long.contains("0000-0000-0000"));
    }

    #[tokio::test]
    async fn the_code_that_was_compared_is_the_code_that_is_sent() {
        for words in [
            ["worker-1", "--yes"].as_slice(),
            &["worker-1", "--code", "1a2b3c4d5e6f"],
            &["worker-1", "--code", "1A2B3C4D5E6F00112233445566778899"],
        ] {
            let controller = Controller::start(vec![answer(200, LISTED), answer(200, APPROVED)]);
            approve_by(words, &controller).await.unwrap();
            let requests = controller.requests();
            assert!(
                requests[1]
                    .head
                    .starts_with("POST /api/mods/node-goblin/pairings/worker-1/approve ")
            );
            assert_eq!(requests[1].body, r#"{"pairingCode":"1A2B-3C4D-5E6F"}"#);
        }
    }

    #[tokio::test]
    async fn nothing_is_approved_on_a_wrong_code_or_without_a_word() {
        for (words, told) in [
            (
                ["worker-1", "--code", "1A2B-3C4D-5E60"].as_slice(),
                "nothing was approved",
            ),
            (&["worker-1", "--code", ""], "nothing was approved"),
            (&["worker-1", "--code", "", "--yes"], "nothing was approved"),
            (&["worker-1", "--code", "1A2B"], "nothing was approved"),
            (&["gone", "--yes"], "not connected now"),
            (&["nobody", "--yes"], "these do: worker-1, gone"),
        ] {
            let controller = Controller::start(vec![answer(200, LISTED), answer(200, APPROVED)]);
            let fault = approve_by(words, &controller).await.unwrap_err().to_string();
            assert!(fault.contains(told), "{fault}");
            assert_eq!(controller.requests().len(), 1, "nothing but the list was asked for");
        }
    }

    #[tokio::test]
    async fn a_code_that_has_changed_since_is_refused_by_the_controller() {
        let refusal = r#"{"ok":false,"error":"pairing_code_mismatch"}"#;
        let controller = Controller::start(vec![answer(200, LISTED), answer(409, refusal)]);
        let fault = approve_by(&["worker-1", "--yes"], &controller).await.unwrap_err();
        assert!(format!("{fault:#}").contains("another code now"), "{fault}");
    }
}
