//! The daemon's clock. Mechanisms below take the time as an argument; this is where it comes from.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    epoch_ms(SystemTime::now())
}

/// A time as milliseconds since 1970; 0 before that.
pub fn epoch_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis().try_into().unwrap_or(u64::MAX))
}
