//! The one program of Node Goblin: arguments and configuration, composition, and what a person sees.
//!
//! Everything else is in the crates that it puts together. As `burrow-host-gateway` (a link to it) it is the gateway.

mod arguments;
mod documents;
mod gateway;
mod host;
mod logging;
mod runtime;
mod service;

use arguments::{Arguments, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(arguments::with_second_name(std::env::args_os().collect()));
    let result = match arguments.command {
        Command::Gateway(options) => gateway::run(options),
        Command::Documents(options) => documents::run(&options),
        Command::Host(command) => host::run(command),
    };
    result.unwrap_or_else(|error| {
        eprintln!("node-goblin: {error:#}");
        ExitCode::FAILURE
    })
}
