//! `node-goblin controller`: putting the controller together and running it until it is told to end.

mod copies;

use crate::api::SOCKET_FILE;
use crate::interrupts::Interrupts;
use crate::place::Place;
use crate::{clock, logging, runtime, terminal, units};
use anyhow::Context;
use clap::Args;
use goblin_controller::{Controller, ControllerOptions, ListenAddress, Timing};
use goblin_http::serve_unix;
use goblin_protocol::time::iso8601;
use goblin_store::Store;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

/// Open files for some thousands of gateways and the requests about them.
const OPEN_FILES: u64 = 65_536;

/// Flags of `node-goblin controller`.
#[derive(Debug, Args)]
#[command(after_help = "\
Gateways dial in over TLS; the certificate is made at the first start and kept. The commands of this program talk to the \
controller through controller.sock in its state directory, which only its account and root may use.

When it serves, its first line on standard output is `ready tls=HOST:PORT`. SIGTERM, SIGINT and SIGHUP end it: requests \
that run may finish for 10 seconds, a second signal ends it at once. RUST_LOG sets the level of the log on standard error.

Examples:
  node-goblin controller
  node-goblin controller --listen 0.0.0.0:7443 --advertise goblin.example.org
  node-goblin controller --state-dir /tmp/try --listen 127.0.0.1:0

Exit codes: 0 when it was told to end, 1 when it could not start.")]
pub struct ControllerArguments {
    #[command(subcommand)]
    task: Option<copies::Task>,
    #[command(flatten)]
    place: Place,
    /// Address that gateways connect to; port 0 lets the system choose
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7443")]
    listen: ListenAddress,
    /// Further name or address by which gateways reach it, for the generated certificate; can be repeated
    #[arg(long, value_name = "NAME", num_args = 1..)]
    advertise: Vec<String>,
    /// How long a gateway may take to be let in, waiting for approval included; it comes again with a new code
    #[arg(long, value_name = "SECONDS", value_parser = units::duration, default_value = "60")]
    auth_timeout: Duration,
    /// File of the key that secrets are stored under; secrets.key in the state directory unless given
    #[arg(long, value_name = "FILE", env = "NODE_GOBLIN_SECRETS_KEY_FILE")]
    secrets_key_file: Option<PathBuf>,
}

/// Runs the controller until it is told to end, or a task about its state.
pub fn run(arguments: ControllerArguments) -> anyhow::Result<ExitCode> {
    if let Some(task) = arguments.task {
        return copies::run(task, &arguments.place);
    }
    logging::start("info");
    // Its memory holds the secrets of every gateway.
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        warn!(%error, "processes of this account may read the controller's memory");
    }
    runtime::raise_open_files(OPEN_FILES);
    let directory = arguments.place.directory()?;
    let key_file = arguments.secrets_key_file.filter(|path| !path.as_os_str().is_empty());
    let options = ControllerOptions {
        listen: Some(arguments.listen),
        advertise: arguments.advertise,
        timing: Timing {
            auth: arguments.auth_timeout,
            ..Timing::default()
        },
        ..ControllerOptions::default()
    };
    runtime::start().context("cannot start the runtime")?.block_on(async {
        let mut interrupts = Interrupts::watch().context("cannot watch for signals")?;
        let store = Store::open(&directory, key_file.as_deref(), &iso8601(clock::now_ms())).await?;
        let store = Arc::new(store);
        let controller = Controller::start(options, store.clone(), store.clone(), store.clone()).await?;
        let server = serve_unix(controller.clone(), &directory.join(SOCKET_FILE))?;
        let address = controller.tls_address().context("the listener does not run")?;
        // A supervisor that reads nothing does not end a service.
        let _ = terminal::line(format_args!("ready tls={address}"));
        info!(%address, directory = %directory.display(), "the controller serves");
        let interrupt = interrupts.next().await;
        info!(?interrupt, "the controller ends");
        let close = async {
            server.close().await;
            controller.close().await;
            store.close().await;
        };
        tokio::select! {
            () = close => {}
            _ = interrupts.next() => warn!("ended at once; requests that ran were cut"),
        }
        Ok(ExitCode::SUCCESS)
    })
}
