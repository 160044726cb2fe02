//! The asynchronous runtime, and what the process asks of the system once.

use crate::service::Manager;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use tokio::runtime::{Builder, Runtime};

/// Threads of the runtime. Starting a process blocks one for half a millisecond, so one alone would stall the rest.
const FEWEST_WORKERS: usize = 2;
const MOST_WORKERS: usize = 8;

/// Starts the runtime of a program that serves. What it needs has been opened by then, so the service manager, where
/// there is one, hears that it is ready.
pub fn start() -> io::Result<Runtime> {
    let runtime = build()?;
    if let Some(manager) = Manager::of_this_process() {
        manager.attend(runtime.handle());
    }
    Ok(runtime)
}

/// A multi-threaded runtime for a machine of this size.
pub fn build() -> io::Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(FEWEST_WORKERS, usize::from);
    Builder::new_multi_thread()
        .worker_threads(cores.clamp(FEWEST_WORKERS, MOST_WORKERS))
        .enable_all()
        .build()
}

/// Raises the number of files that may be open towards what is needed, as far as the system allows.
pub fn raise_open_files(needed: u64) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(needed, |most| most.min(needed));
    if limit.current.is_some_and(|now| now < wanted) {
        // Without it the daemon works, only with fewer operations at once.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(wanted),
                maximum: limit.maximum,
            },
        );
    }
}

/// A runtime on this thread alone, for commands that mostly wait.
pub fn single() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}
