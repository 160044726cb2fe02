//! `node-goblin exec`: runs a command on a host, as if it ran here.

mod ending;
mod order;

mod session;

pub use ending::EXIT_OURS;
pub use order::Order;
pub use session::{Form, Session};

use crate::api::Api;
use crate::interrupts::Interrupts;
use crate::outputs::Outputs;
use crate::place::Place;
use crate::{ids, runtime, units};
use clap::Args;
use std::process::ExitCode;
use std::time::Duration;

/// Flags of `node-goblin exec`.
#[derive(Debug, Args)]
#[command(after_help = "\
Output arrives as it is written, on standard output and standard error as there. The command reads nothing: its standard \
input is empty. Ctrl-C cancels it and waits for its end; a second Ctrl-C leaves at once, and it may still run. A standard \
output that is closed, as `head` does, cancels it too.

Examples:
  node-goblin exec worker-1 -- uname -a
  node-goblin exec worker-1 --cwd /srv/app --env MODE=test -- make check
  node-goblin exec worker-1 --timeout 5m --shell 'journalctl -f | grep --line-buffered error'
  TOKEN=… node-goblin exec worker-1 --secret TOKEN --shell 'deploy --token \"$TOKEN\"'

Exit codes: that of the command, and
  124      it ran longer than --timeout
  125      node-goblin itself failed: not connected, connection lost, output lost
  126      the program is there but could not be started
  127      there is no such program
  130      it was cancelled (143, 129: by SIGTERM, SIGHUP here)
  141      standard output or standard error was closed
  128 + N  signal N ended it")]
pub struct ExecArguments {
    #[command(flatten)]
    place: Place,
    /// Id of the gateway that runs it
    #[arg(value_parser = ids::gateway)]
    gateway: String,
    /// Working directory on the host; the gateway's own unless given
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Add a variable to the command's environment; can be repeated
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = order::variable)]
    env: Vec<(String, String)>,
    /// Deliver a variable of this environment as a secret: it is in no record, and masked in the output; can be repeated
    #[arg(long, value_name = "NAME", value_parser = order::secret_name)]
    secret: Vec<String>,
    /// End the command after so long, such as 30s, 5m, 1h30m
    #[arg(long, value_name = "DURATION", value_parser = units::duration, default_value = "24h")]
    timeout: Duration,
    /// End the command when it has written more than so many bytes, such as 64K or 1M; no limit unless given
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    max_output: Option<u64>,
    /// Id of the operation: the same id with the same command gives the outcome again instead of running it twice
    #[arg(long, value_name = "OPERATION_ID", value_parser = ids::operation)]
    id: Option<String>,
    /// Print the gateway's envelopes, one a line, instead of the output
    #[arg(long)]
    json: bool,
    /// Run a command line with /bin/sh -c
    #[arg(long, value_name = "COMMAND", conflicts_with = "program")]
    shell: Option<String>,
    /// The program and its arguments; no shell sees them
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, required_unless_present = "shell")]
    program: Vec<String>,
}

/// Runs a command on a gateway.
pub fn run(arguments: ExecArguments) -> anyhow::Result<ExitCode> {
    let directory = arguments.place.directory()?;
    let form = if arguments.json { Form::Envelopes } else { Form::Output };
    let order = Order::new(arguments, &|name| std::env::var_os(name))?;
    let runtime = runtime::single()?;
    let ended = runtime.block_on(async {
        let mut interrupts = Interrupts::watch()?;
        let session = Session {
            api: &Api::local(&directory),
            order: &order,
            form,
        };
        session.run(Outputs::spooled(), &mut interrupts).await
    })?;
    Ok(ExitCode::from(ended.conclude(&order)))
}

#[cfg(test)]
mod tests;
