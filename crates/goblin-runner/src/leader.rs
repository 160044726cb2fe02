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
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid};
use tokio::io::unix::AsyncFd;
use tokio_util::task::TaskTracker;

use crate::group;
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
    /// Tells of the exit. Given up once that is known.
    pidfd: Option<AsyncFd<OwnedFd>>,
    reaped: bool,
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
                reaped: false,
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
                None => return self.peek().unwrap_or_default(),
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
        // Without a status somebody else has reaped it.
        self.wait(WaitIdOptions::NOWAIT).unwrap_or(Some(Exit::default()))
    }

    /// Sends a signal to the whole group; whether somebody alive got it. The system counts a zombie leader as well, so
    /// once that has exited or begun to, the others are looked at. A leader that exits by itself in the very moment is told
    /// from one that answers the signal by whether it has an answer to it.
    pub(crate) fn signal_group(&self, signal: Signal) -> bool {
        let exited = self.peek().is_some() || group::is_ending(self.pid);
        // Before the signal, which may end them.
        let others = exited && group::has_live_member(self.pid);
        let answers = !exited && group::answers(self.pid, signal);
        if !self.send(signal) {
            return false;
        }
        if exited {
            return others;
        }
        match self.peek() {
            None => true,
            Some(exit) => answers || exit.signal == Some(signal.as_raw()) || group::has_live_member(self.pid),
        }
    }

    /// Sends a signal to the whole group, for nobody to tell of; whether the system took it.
    pub(crate) fn send(&self, signal: Signal) -> bool {
        self.is_ours() && kill_process_group(self.pid, signal).is_ok()
    }

    /// Reaps a leader that has exited. No signal can be sent afterwards.
    pub(crate) fn reap(mut self) {
        self.reaped = matches!(self.wait(WaitIdOptions::empty()), Ok(Some(_)));
    }

    /// Gives up the descriptor of a leader that has exited and must stay unreaped for a while, so
    /// that many of them take up process numbers only.
    pub(crate) fn rest(mut self) -> Self {
        self.pidfd = None;
        self
    }

    /// Whether the number still means this process.
    fn is_ours(&self) -> bool {
        !self.reaped && self.wait(WaitIdOptions::NOWAIT).is_ok()
    }

    fn wait(&self, options: WaitIdOptions) -> Result<Option<Exit>, Errno> {
        let id = match &self.pidfd {
            Some(pidfd) => WaitId::PidFd(pidfd.as_fd()),
            None => WaitId::Pid(self.pid),
        };
        let options = options | WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        Ok(waitid(id, options)?.map(|status| Exit {
            code: status.exit_status(),
            signal: status.terminating_signal(),
        }))
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        if self.is_ours() {
            end(self.pid, &self.tracker);
        }
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
