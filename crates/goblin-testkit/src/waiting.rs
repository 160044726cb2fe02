//! Waiting for what only shows from outside: files, processes, sockets.

use std::time::{Duration, Instant};

/// How long anything may take before a test gives it up. Generous, because machines are shared.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Looks again and again until `look` finds something, and gives it.
///
/// # Panics
/// When nothing is found within [`LIMIT`].
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        // Nothing announces these events, so the gap between two looks is the one pause that tests may take.
        #[allow(clippy::disallowed_methods, reason = "see above")]
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// True while a process runs; one that has ended and only waits to be reaped does not.
pub fn is_running(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("State:"))
        .is_some_and(|state| !state.trim_start().starts_with('Z'))
}
