//! What outlives an operation's answer.
//!
//! Owns: the late SIGKILL of a group, and pipes that somebody else still holds. Must never know:
//! the operation they came from.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::TaskTracker;

use crate::leader::Leader;
use crate::pipes::Pipe;
use crate::watch::GRACE;

/// How many pipes are read and dropped at a time. Beyond that the oldest is closed, and whoever
/// writes to it learns it.
pub(crate) const HELD_PIPES: usize = 256;

/// How long after its SIGKILL a process may take to end before nobody waits for it any more.
const UNKILLABLE: Duration = Duration::from_secs(2);

pub(crate) struct Background {
    /// Everything that still has to end a process.
    tracker: TaskTracker,
    hurry: Arc<Notify>,
    held: Mutex<VecDeque<AbortHandle>>,
}

impl Background {
    pub(crate) fn new() -> Self {
        let tracker = TaskTracker::new();
        // So that waiting for it means waiting until it is empty.
        tracker.close();
        Self {
            tracker,
            hurry: Arc::new(Notify::new()),
            held: Mutex::new(VecDeque::new()),
        }
    }

    pub(crate) fn tracker(&self) -> &TaskTracker {
        &self.tracker
    }

    /// Kills what is left of the group at that time, then reaps the leader.
    pub(crate) fn kill_later(&self, leader: Leader, at: Instant) {
        // Made here rather than in the task, so that no call of `hurry` is missed.
        let hurry = Arc::clone(&self.hurry).notified_owned();
        // If the runtime goes down first, the leader's own end does the same at once.
        self.tracker.spawn(async move {
            tokio::select! {
                () = sleep_until(at) => {}
                () = hurry => {}
            }
            leader.send(Signal::KILL);
            leader.exit().await;
            leader.reap();
        });
    }

    /// Lets the pending kills happen now.
    pub(crate) fn hurry(&self) {
        self.hurry.notify_waiters();
    }

    /// Waits until nothing is left to kill or to reap. Gives up on a process that the kernel
    /// does not end although it was killed, such as one that waits for a dead disk.
    pub(crate) async fn settled(&self) {
        let ended = timeout(GRACE + UNKILLABLE, self.tracker.wait()).await;
        if ended.is_err() {
            tracing::warn!("a killed process does not end; it is left to the kernel");
        }
    }

    /// Goes on reading, so that whoever writes there is not killed by SIGPIPE.
    pub(crate) fn hold(&self, pipe: Pipe) {
        let task = tokio::spawn(pipe.discard()).abort_handle();
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|task| !task.is_finished());
        while held.len() >= HELD_PIPES {
            if let Some(oldest) = held.pop_front() {
                oldest.abort();
            }
        }
        held.push_back(task);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        for task in held.drain(..) {
            task.abort();
        }
    }
}
