//! Turns for writers: two calls of this process that write one name wait for each other. It must never touch a file.

use crate::check_cancelled;
use crate::failure::Failure;
use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often a waiting writer looks whether it was cancelled.
const CANCEL_INTERVAL: Duration = Duration::from_millis(20);

/// A name in a directory: device and inode of the directory, and the name.
pub(crate) type Key = (u64, u64, OsString);

#[derive(Debug, Default)]
pub(crate) struct PathLocks {
    held: Mutex<HashSet<Key>>,
    released: Condvar,
}

/// The turn; it ends when this is dropped.
pub(crate) struct PathLock<'a> {
    locks: &'a PathLocks,
    key: Key,
}

impl PathLocks {
    /// Waits for the turn on `key`.
    pub(crate) fn lock(&self, key: Key, cancel: &AtomicBool) -> Result<PathLock<'_>, Failure> {
        // A set of keys is whole at every instant, so a poisoned lock still guards a good one.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while held.contains(&key) {
            check_cancelled(cancel)?;
            held = self
                .released
                .wait_timeout(held, CANCEL_INTERVAL)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        held.insert(key.clone());
        Ok(PathLock { locks: self, key })
    }
}

impl Drop for PathLock<'_> {
    fn drop(&mut self) {
        self.locks
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.key);
        self.locks.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn one_name_has_one_turn_at_a_time_and_waiting_can_be_cancelled() {
        let locks = PathLocks::default();
        let key = |name: &str| (1, 2, OsString::from(name));
        let (idle, cancelled) = (AtomicBool::new(false), AtomicBool::new(true));
        let first = locks.lock(key("a"), &idle).unwrap();
        let other = locks.lock(key("b"), &idle).unwrap();
        assert!(matches!(locks.lock(key("a"), &cancelled), Err(Failure::Cancelled)));
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _second = locks.lock(key("a"), &idle).unwrap();
                sender.send(()).unwrap();
            });
            assert!(receiver.try_recv().is_err());
            drop(first);
            receiver.recv().unwrap();
        });
        drop(other);
        assert!(locks.held.lock().unwrap().is_empty());
    }
}
