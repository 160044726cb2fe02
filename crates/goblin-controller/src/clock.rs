//! Where this crate takes the time. Durations are measured by the runtime's own clock; dates come from here.

use goblin_protocol::time::iso8601;
use std::time::{SystemTime, UNIX_EPOCH};

/// Epoch milliseconds.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(i64::MAX)
}

/// Now as ISO 8601.
pub(crate) fn now_iso() -> String {
    iso8601(now_ms())
}

/// A time of the system as ISO 8601.
pub(crate) fn iso(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    iso8601(since.as_millis().try_into().unwrap_or(i64::MAX))
}
