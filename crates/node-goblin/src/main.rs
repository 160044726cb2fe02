//! The one program of Node Goblin: arguments and configuration, composition, and what a person sees.
//!
//! Everything else is in the crates that it puts together. As `burrow-host-gateway` (a link to it) it is the gateway.

mod agents;
mod answer;
mod api;
mod arguments;
mod cancel;
mod clock;
mod controller;
mod documents;
mod endpoint;
mod exec;
mod files;
mod gateway;
mod gateways;
mod host;
mod ids;
mod interrupts;
mod logging;
mod login;
mod logout;
mod memory;
mod operations;
mod outputs;
mod pairings;
mod place;
mod profiles;
mod quickstart;
mod runtime;
mod service;
mod shell;
mod targets;
mod terminal;
mod tokens;
mod trust;
mod units;

use arguments::{Arguments, Command};
use clap::Parser;
use interrupts::Stopped;
use std::process::ExitCode;
use terminal::OutputError;

/// What a command ends with whose output was closed: 128 and the number of SIGPIPE, as if that had ended it.
const OUTPUT_CLOSED: u8 = 141;

/// An error with its causes, each said once: some errors tell their cause themselves.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.is_empty() && text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text += ": ";
        }
        text += &cause;
    }
    text
}

fn main() -> ExitCode {
    memory::give_back_large_blocks();
    let words = arguments::with_second_name(std::env::args_os().collect());
    // What exec itself fails with must not look like what the command fails with, so it has a code of its own.
    let failure = match words.get(1).is_some_and(|word| word == "exec") {
        true => exec::EXIT_OURS,
        false => 1,
    };
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Nobody minds when a closed output does not show the help.
            let _ = error.print();
            return match error.exit_code() {
                0 => ExitCode::SUCCESS,
                _ if failure == exec::EXIT_OURS => ExitCode::from(failure),
                usage => ExitCode::from(usage.to_le_bytes()[0]),
            };
        }
    };
    let result = match arguments.command {
        Command::Gateway(options) => gateway::run(options),
        Command::Controller(options) => controller::run(options),
        Command::Exec(options) => exec::run(options),
        Command::Files(options) => files::run(options),
        Command::Quickstart(options) => quickstart::run(options),
        Command::Gateways(options) => gateways::run(options),
        Command::Pairings(options) => pairings::run(options),
        Command::Cancel(options) => cancel::run(options),
        Command::Operations(options) => operations::run(options),
        Command::Trust(options) => trust::run(options),
        Command::Targets(options) => targets::run(options),
        Command::Agents(options) => agents::run(options),
        Command::Tokens(options) => tokens::run(options),
        Command::Login(options) => login::run(options),
        Command::Logout(options) => logout::run(&options),
        Command::Documents(options) => documents::run(&options),
        Command::Host(command) => host::run(command),
    };
    result.unwrap_or_else(|error| {
        if let Some(OutputError::Closed) = error.downcast_ref() {
            return ExitCode::from(OUTPUT_CLOSED);
        }
        if let Some(Stopped(interrupt)) = error.downcast_ref() {
            return ExitCode::from(interrupt.exit_code());
        }
        terminal::fail(sentence(&error));
        ExitCode::from(failure)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let cause = std::io::Error::other("no such name");
        let told = goblin_controller::ControllerError::Bind {
            address: "x:1".to_owned(),
            source: cause,
        };
        let error = anyhow::Error::from(told).context("the start failed");
        assert_eq!(sentence(&error), "the start failed: cannot listen on x:1: no such name");
        assert_eq!(sentence(&anyhow::anyhow!("alone")), "alone");
    }
}
