//! Where logs go: standard error, for a person.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging. `RUST_LOG` overrides the default level.
pub fn start(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let terminal = std::io::stderr().is_terminal();
    // A second start, as tests may do, changes nothing.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(terminal)
        .with_target(false)
        .try_init();
}
