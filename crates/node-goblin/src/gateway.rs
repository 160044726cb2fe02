//! `node-goblin gateway`: configuration of the daemon, and putting it together.

mod address;
mod configuration;
mod proxy;

pub use configuration::GatewayArguments;

use crate::clock::now_ms;
use crate::{logging, runtime};
use anyhow::Context;
use configuration::{Configuration, Transport};
use goblin_files::{Files, FilesOptions};
use goblin_gateway::daemon::{Daemon, Parts};
use goblin_gateway::environment::BaseEnvironment;
use goblin_gateway::{outbound, predecessor, stdio};
use goblin_identity::StateDir;
use goblin_journal::{Journal, Opened, Options};
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

/// Version that `hello` and `--version` report.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How often expired outcomes are looked for: they leave the disk within a minute.
const EXPIRY: Duration = Duration::from_secs(15);

/// Open files for the largest number of operations at once: two pipes and a pidfd each, and as many pipes held open.
const OPEN_FILES: u64 = 4096;

/// Runs the daemon until its input ends or it is asked to stop.
pub fn run(arguments: GatewayArguments) -> anyhow::Result<ExitCode> {
    let configuration = Configuration::new(arguments, &|name| std::env::var_os(name))?;
    let network = matches!(configuration.transport, Transport::Outbound(_));
    logging::start(if network { "info" } else { "warn" });
    // Commands run under the daemon's account; its memory and environment are not theirs to read.
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        warn!(%error, "commands of this account may read the daemon's memory");
    }
    runtime::raise_open_files(OPEN_FILES);
    let state = configuration
        .state_directory
        .as_deref()
        .map(StateDir::open)
        .transpose()?;
    if let Some(state) = &state {
        // What cannot be read stops the start, not every later attempt to connect.
        state.check()?;
    }
    let daemon = assemble(&configuration, state.as_ref())?;
    let serving = runtime::start().context("cannot start the runtime")?;
    serving.block_on(async {
        stop_on_signals(&daemon)?;
        let housekeeping = tokio::spawn(expire(daemon.clone()));
        match (configuration.transport, state) {
            (Transport::Outbound(outbound), Some(state)) => {
                let identity = state.load_or_create_identity(now_ms())?;
                outbound::serve(&daemon, state, identity, &outbound).await;
            }
            // The lock of a state directory is held until the end.
            (_, _state) => stdio::serve(&daemon, goblin_link::stdio::input(), goblin_link::stdio::output())
                .await
                .context("the standard streams failed")?,
        }
        housekeeping.abort();
        anyhow::Ok(())
    })?;
    // A blocked read of a terminal must not keep the process.
    serving.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

/// Opens what the daemon works on, and clears up after a predecessor that crashed.
fn assemble(configuration: &Configuration, state: Option<&StateDir>) -> anyhow::Result<Daemon> {
    let boot_id = predecessor::boot_id();
    let file = configuration
        .journal_file
        .clone()
        .or_else(|| state.map(StateDir::journal_file));
    let options = Options {
        sync: configuration.journal_sync,
        ..Options::new(file)
    };
    let Opened {
        journal,
        unfinished,
        notices,
    } = Journal::open(options, now_ms().unsigned_abs()).context("cannot open the journal")?;
    for notice in notices {
        warn!("{notice}");
    }
    if !unfinished.is_empty() {
        let ended = predecessor::end_leftovers(&unfinished, &boot_id);
        warn!(
            operations = unfinished.len(),
            processes = ended,
            "a previous daemon ended in mid-operation; the processes that could still be recognised were ended"
        );
    }
    let directory = std::env::current_dir().context("the working directory is gone")?;
    let files = Files::new(FilesOptions {
        traversal_entries: configuration.traversal_entries,
        temporary_notes: state.map(StateDir::temporary_notes),
        ..FilesOptions::new(directory.clone())
    });
    let removed = files.recover().len();
    if removed > 0 {
        info!(files = removed, "removed temporary files of a previous daemon");
    }
    Ok(Daemon::new(Parts {
        version: VERSION.to_owned(),
        boot_id,
        journal,
        files,
        environment: BaseEnvironment::new(std::env::vars_os()),
        directory,
        max_operations: configuration.max_operations,
    }))
}

/// Stops the daemon cleanly on the signals that ask for it. Others that would end it at once, and leave commands behind,
/// do nothing.
fn stop_on_signals(daemon: &Daemon) -> anyhow::Result<()> {
    let asking = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ];
    let idle = [
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
        SignalKind::alarm(),
    ];
    for (kind, stops) in asking
        .map(|kind| (kind, true))
        .into_iter()
        .chain(idle.map(|kind| (kind, false)))
    {
        let mut signals = signal(kind).context("cannot watch for signals")?;
        let daemon = daemon.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if stops {
                    daemon.stop();
                }
            }
        });
    }
    Ok(())
}

async fn expire(daemon: Daemon) {
    let mut ticks = tokio::time::interval(EXPIRY);
    loop {
        ticks.tick().await;
        daemon.expire();
    }
}
