//! When the peer was last heard.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A clock that the reader sets back to zero with every byte that arrives. Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
pub struct Heard {
    opened: Instant,
    /// Milliseconds from `opened` to the last bytes.
    last: Arc<AtomicU64>,
}

impl Default for Heard {
    fn default() -> Self {
        Self {
            opened: Instant::now(),
            last: Arc::default(),
        }
    }
}

impl Heard {
    /// Bytes arrived just now.
    pub fn now(&self) {
        let elapsed = self.opened.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        self.last.store(elapsed, Ordering::Relaxed);
    }

    /// How long nothing has arrived.
    pub fn silence(&self) -> Duration {
        self.opened
            .elapsed()
            .saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }
}
