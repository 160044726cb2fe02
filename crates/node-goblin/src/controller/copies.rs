//! `node-goblin controller backup` and `restore`: the store's copies as commands. Both work on the files of the state
//! directory, so neither needs a controller that runs.

use crate::place::Place;
use crate::{runtime, terminal};
use anyhow::Context;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be done with a controller's state.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Copy the controller's store to a file, while it runs or not
    Backup(BackupArguments),
    /// Make a controller's store from such a copy
    Restore(RestoreArguments),
}

/// Flags of `node-goblin controller backup`.
#[derive(Debug, Args)]
#[command(after_help = "\
The copy is of one moment, whatever the controller writes meanwhile, and only its owner may read it. It holds everything \
that the controller keeps, except the key of its secrets: keep a copy of secrets.key too, in another place. An existing \
file is not replaced.

Example: node-goblin controller backup /var/backups/goblin-2026-12-01.db

Exit codes: 0 when it is done, 1 when nothing was copied.")]
pub struct BackupArguments {
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Flags of `node-goblin controller restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
The directory must hold no store, and no controller may run there; put secrets.key back into it first, or name it with \
--secrets-key-file. The copy is checked before anything is made of it.

Hosts stand with the restored controller as they did at the time of the copy: one that was shut out since is let in again. \
Look at `node-goblin gateways` before you start it for good.

Example: node-goblin controller restore /var/backups/goblin-2026-12-01.db --state-dir /var/lib/node-goblin

Exit codes: 0 when it is done, 1 when nothing was restored.")]
pub struct RestoreArguments {
    /// A file that `backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File of the key that secrets are stored under; secrets.key in the state directory unless given
    #[arg(long, value_name = "FILE", env = "NODE_GOBLIN_SECRETS_KEY_FILE")]
    secrets_key_file: Option<PathBuf>,
}

/// Carries a task out.
pub fn run(task: Task, place: &Place) -> anyhow::Result<ExitCode> {
    let directory = place.directory()?;
    let runtime = runtime::single().context("cannot start the runtime")?;
    match task {
        Task::Backup(BackupArguments { file }) => {
            runtime.block_on(goblin_store::backup(&directory, &file))?;
            terminal::note(format_args!(
                "{} is a copy of the store in {}; the key of its secrets is not in it",
                file.display(),
                directory.display()
            ));
        }
        Task::Restore(RestoreArguments { file, secrets_key_file }) => {
            let key_file = secrets_key_file.filter(|path| !path.as_os_str().is_empty());
            runtime.block_on(goblin_store::restore(&file, &directory, key_file.as_deref()))?;
            terminal::note(format_args!(
                "{} holds what was in {}; hosts stand as they did then",
                directory.display(),
                file.display()
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}
