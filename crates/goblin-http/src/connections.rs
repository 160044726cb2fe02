//! Open connections of this process, whatever door they came through: one number for the measurements, as memory is.

use std::sync::atomic::{AtomicUsize, Ordering};

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// How many are open.
pub(crate) fn open() -> usize {
    OPEN.load(Ordering::Relaxed)
}

/// Counts as an open connection until it is dropped.
pub(crate) struct Counted(());

impl Counted {
    pub(crate) fn new() -> Self {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}
