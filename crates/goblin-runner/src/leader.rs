//! The process that leads an operation's group.
//!
//! Owns: its pidfd, its exit status, signals to its group and its reaping. Must never know: why
//! a signal is sent.
//!
//! The leader stays unreaped as long as its group may have to be signalled: a zombie keeps its
//! number, so no signal can reach a stranger. A leader that is dropped unreaped is killed with
//! its group.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, pidfd_open, waitid,
};
use tokio::io::unix::AsyncFd;
use tokio_util::task::TaskTracker;

use crate::reactor::register;

/// How a leader ended. Both are `None` when the status is lost, which takes a stranger that reaps
/// our children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
}

pub(crate) struct Leader {
    pid: Pid,
    /// Present until the leader is reaped.
    pidfd: Option<AsyncFd<OwnedFd>>,
    tracker: TaskTracker,
}

impl Leader {
    /// Takes over a child just started. `tracker` learns of leaders that are dropped unreaped.
    pub(crate) fn new(pid: Pid, tracker: TaskTracker) -> Result<Self, Errno> {
        // The child is not reaped yet, so the number means no other process.
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).and_then(register);
        match pidfd {
            Ok(pidfd) => Ok(Self {
                pid,
                pidfd: Some(pidfd),
                tracker,
            }),
            Err(errno) => {
                end(pid, &tracker);
                Err(errno)
            }
        }
    }

    /// Waits until the leader has exited, and leaves it unreaped.
    pub(crate) async fn exit(&self) -> Exit {
        loop {
            let ready = match &self.pidfd {
                Some(pidfd) => pidfd.readable().await,
                None => return Exit::default(),
            };
            match ready {
                Ok(mut ready) => {
                    if let Some(exit) = self.peek() {
                        return exit;
                    }
                    ready.clear_ready();
                }
                // The runtime is going down and this future with it.
                Err(_) => std::future::pending().await,
            }
        }
    }

    /// The exit status if there is one, leaving the leader unreaped.
    pub(crate) fn peek(&self) -> Option<Exit> {
        self.wait(WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)
    }

    /// Sends a signal to the whole group; whether it was delivered to anyone.
    pub(crate) fn signal_group(&self, signal: Signal) -> bool {
        self.pidfd.is_some() && kill_process_group(self.pid, signal).is_ok()
    }

    /// Reaps a leader that has exited. No signal can be sent afterwards.
    pub(crate) fn reap(mut self) {
        if self.wait(WaitIdOptions::NOHANG).is_some() {
            self.pidfd = None;
        }
    }

    fn wait(&self, options: WaitIdOptions) -> Option<Exit> {
        let pidfd = self.pidfd.as_ref()?;
        match waitid(WaitId::PidFd(pidfd.as_fd()), options | WaitIdOptions::EXITED) {
            Ok(status) => status.map(exit_of),
            // Somebody else has reaped it.
            Err(_) => Some(Exit::default()),
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if self.pidfd.is_some() {
            end(self.pid, &self.tracker);
        }
    }
}

fn exit_of(status: WaitIdStatus) -> Exit {
    Exit {
        code: status.exit_status(),
        signal: status.terminating_signal(),
    }
}

/// Kills the group of an unreaped leader and reaps the leader, which SIGKILL may not have ended
/// yet: a thread waits for it, since there may be no runtime any more.
fn end(pid: Pid, tracker: &TaskTracker) {
    // Either can fail only when the leader is gone already.
    let _ = kill_process_group(pid, Signal::KILL);
    let reaped = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    if !matches!(reaped, Ok(None)) {
        return;
    }
    let token = tracker.token();
    let waiting = std::thread::Builder::new()
        .name("reaper".into())
        .stack_size(64 * 1024)
        .spawn(move || {
            let _token = token;
            while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).is_err_and(|e| e == Errno::INTR) {}
        });
    if waiting.is_err() {
        tracing::warn!("no thread to wait for a killed process; it remains as a zombie");
    }
}
