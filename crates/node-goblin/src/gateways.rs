//! `node-goblin gateways`: which hosts there are, and how they are.

use crate::endpoint::Endpoint;
use crate::terminal::{self, CAUTION, FAINT, GOOD, STRONG, Table, ago, safe};
use crate::{clock, runtime};
use anstyle::Style;
use anyhow::Context;
use clap::Args;
use goblin_api::{GatewaySnapshot, GatewayStatus, GatewaysAnswer, routes};
use goblin_protocol::{json, time};
use std::process::ExitCode;

/// Flags of `node-goblin gateways`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  node-goblin gateways
  node-goblin gateways --json | jq -r '.gateways[] | select(.connected) | .gatewayId'

Exit codes: 0, or 1 when the controller could not be asked.")]
pub struct GatewaysArguments {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print the controller's answer as it is
    #[arg(long)]
    json: bool,
}

/// Lists the gateways.
pub fn run(arguments: GatewaysArguments) -> anyhow::Result<ExitCode> {
    let api = arguments.endpoint.api()?;
    let text = runtime::single()?.block_on(api.get_text(&routes::gateways()))?;
    if arguments.json {
        terminal::line(text.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let answer: GatewaysAnswer = json::from_text(&text).context("the controller's answer cannot be read")?;
    if answer.gateways.is_empty() {
        terminal::note(
            "No gateway has connected yet. On a host: node-goblin gateway --controller tls://HOST:PORT --id ID --state-dir DIR",
        );
        return Ok(ExitCode::SUCCESS);
    }
    terminal::line(table(&answer.gateways, clock::now_ms()))?;
    Ok(ExitCode::SUCCESS)
}

fn table(gateways: &[GatewaySnapshot], now: i64) -> Table {
    let mut table = Table::new(["GATEWAY", "STATUS", "VERSION", "LAST SEEN", "ACTIVE"]);
    for gateway in gateways {
        let style = match gateway.status {
            GatewayStatus::Ready => GOOD,
            GatewayStatus::Pending => CAUTION,
            GatewayStatus::Disconnected => FAINT,
        };
        let seen = gateway
            .last_seen_at
            .as_deref()
            .map(|text| match time::from_iso8601(text) {
                Some(seen) => ago(seen, now),
                None => safe(text),
            });
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row([
            (STRONG, safe(&gateway.gateway_id)),
            (style, gateway.status.as_str().to_owned()),
            (Style::new(), or_dash(gateway.version.as_deref().map(safe))),
            (Style::new(), or_dash(seen)),
            (Style::new(), gateway.active_operations.to_string()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_how_a_gateway_is_and_nothing_it_says_steers_the_terminal() {
        let gateway = GatewaySnapshot {
            gateway_id: "worker-1".into(),
            status: GatewayStatus::Ready,
            connected: true,
            connected_at: None,
            last_seen_at: Some("1970-01-01T00:00:05.000Z".into()),
            active_operations: 3,
            name: None,
            version: Some("1\u{1b}[2J\n".into()),
            protocol_version: None,
        };
        let gone = GatewaySnapshot {
            gateway_id: "w".into(),
            status: GatewayStatus::Disconnected,
            last_seen_at: None,
            version: None,
            ..gateway.clone()
        };
        let shown = anstream::adapter::strip_str(&table(&[gateway, gone], 17_000).to_string()).to_string();
        let rows: Vec<Vec<&str>> = shown
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(rows[0], ["GATEWAY", "STATUS", "VERSION", "LAST SEEN", "ACTIVE"]);
        assert_eq!(rows[1], ["worker-1", "ready", "1\\x1b[2J\\n", "12 s ago", "3"]);
        assert_eq!(rows[2], ["w", "disconnected", "-", "-", "3"]);
        assert_eq!(rows.len(), 3);
    }
}
