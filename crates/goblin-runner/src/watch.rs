//! When an operation ends.
//!
//! Owns: the leader, the timers, cancel, and the decision to settle. Must never know: output.
//!
//! Whatever the operation waits for, it waits for under [`Watch::during`], so nothing can hold
//! up a limit, a cancel or an escalation.

use std::pin::Pin;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFuture;

use crate::background::Background;
use crate::leader::{Exit, Leader};
use crate::outcome::TimeoutReason;

/// From SIGTERM to SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_millis(1_000);

/// From SIGTERM to the answer, whatever happens.
pub(crate) const SETTLE: Duration = Duration::from_millis(1_100);

/// How long output may follow a leader's exit while another process holds the pipe.
pub(crate) const DRAIN: Duration = Duration::from_millis(1_000);

/// The timer is looked at again at least so often: no time is too far for it.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// The earlier of the two limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) at: Instant,
    pub(crate) reason: TimeoutReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The leader runs.
    Running,
    /// The leader has exited by itself, and output may follow.
    Draining,
    /// As before, but only our own sink is behind; the limit bounds it.
    Delivering,
    /// The group was told to end, then.
    Terminating { since: Instant, escalated: bool },
}

pub(crate) struct Watch<'a, 'c> {
    leader: Leader,
    cancel: Pin<&'a mut WaitForCancellationFuture<'c>>,
    timer: Pin<&'a mut Sleep>,
    /// When the timer means something.
    due: Option<Instant>,
    limit: Option<Limit>,
    phase: Phase,
    exit: Option<Exit>,
    output_ended: bool,
    over: bool,
    cancelled: bool,
    killed: bool,
    timeout_reason: Option<TimeoutReason>,
}

/// What the watch has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    /// Absent when the leader could not be ended.
    pub(crate) exit: Option<Exit>,
    pub(crate) cancelled: bool,
    pub(crate) killed: bool,
    pub(crate) timeout_reason: Option<TimeoutReason>,
}

/// A timer for [`Watch::new`], which sets it.
pub(crate) fn timer() -> Sleep {
    tokio::time::sleep(FAR)
}

impl<'a, 'c> Watch<'a, 'c> {
    pub(crate) fn new(
        leader: Leader,
        limit: Option<Limit>,
        cancel: Pin<&'a mut WaitForCancellationFuture<'c>>,
        timer: Pin<&'a mut Sleep>,
    ) -> Self {
        let mut watch = Self {
            leader,
            cancel,
            timer,
            due: None,
            limit,
            phase: Phase::Running,
            exit: None,
            output_ended: false,
            over: false,
            cancelled: false,
            killed: false,
            timeout_reason: None,
        };
        watch.arm(limit.map(|limit| limit.at));
        watch
    }

    /// Goes on with `work`; `None` when the operation has to be settled, with `work` unfinished.
    pub(crate) async fn during<F: Future>(&mut self, mut work: Pin<&mut F>) -> Option<F::Output> {
        loop {
            if self.over || (self.output_ended && self.exit.is_some()) {
                return None;
            }
            tokio::select! {
                // Output without end must not keep us from looking at the rest.
                biased;
                () = self.cancel.as_mut(), if self.heeds_cancel() => self.on_cancel(),
                () = self.timer.as_mut() => self.on_timer(),
                exit = self.leader.exit(), if self.exit.is_none() => self.on_exit(exit),
                output = work.as_mut() => return Some(output),
            }
        }
    }

    /// Both streams have ended.
    pub(crate) fn output_ended(&mut self) {
        self.output_ended = true;
    }

    /// Tells the group to end because of too much output. No escalation follows from that.
    pub(crate) fn overflow(&mut self) {
        self.killed |= self.leader.signal_group(Signal::TERM);
    }

    /// The drain is over while a chunk is still being delivered, and nobody holds the pipes any
    /// more. Output will then end by itself, and a slow sink shall get all of it: delivery may
    /// take as long as the operation might have. Returns whether to go on.
    pub(crate) fn grant_delivery(&mut self) -> bool {
        if self.phase != Phase::Draining || self.cancelled {
            return false;
        }
        self.phase = Phase::Delivering;
        self.over = false;
        self.arm(self.limit.map(|limit| limit.at));
        true
    }

    /// Settles: reaps the leader, or leaves a group that may have members to the background.
    pub(crate) fn settle(mut self, background: &Background) -> Verdict {
        self.exit = self.exit.or_else(|| self.leader.peek());
        match (self.phase, self.exit) {
            (Phase::Terminating { since, .. }, None) => {
                background.kill_later(self.leader, since + GRACE);
            }
            (
                Phase::Terminating {
                    since,
                    escalated: false,
                },
                Some(_),
            ) => background.kill_later(self.leader.rest(), since + GRACE),
            _ => self.leader.reap(),
        }
        Verdict {
            exit: self.exit,
            cancelled: self.cancelled,
            killed: self.killed,
            timeout_reason: self.timeout_reason,
        }
    }

    /// The first cause of the end counts.
    fn heeds_cancel(&self) -> bool {
        !self.cancelled && self.timeout_reason.is_none()
    }

    fn on_cancel(&mut self) {
        self.cancelled = true;
        self.exit = self.exit.or_else(|| self.leader.peek());
        // After the leader there is only the drain to end.
        self.over = self.exit.is_some();
        self.terminate();
    }

    fn on_timer(&mut self) {
        let now = Instant::now();
        match self.due {
            Some(due) if due <= now => {}
            // It was only too far away.
            due => return self.arm(due),
        }
        match self.phase {
            Phase::Running => match (self.leader.peek(), self.limit) {
                (Some(exit), _) => self.on_exit(exit),
                (None, Some(limit)) => {
                    self.timeout_reason = Some(limit.reason);
                    self.terminate();
                }
                (None, None) => self.arm(None),
            },
            Phase::Draining | Phase::Delivering => self.over = true,
            Phase::Terminating {
                since,
                escalated: false,
            } => {
                self.killed |= self.leader.signal_group(Signal::KILL);
                self.phase = Phase::Terminating { since, escalated: true };
                self.arm(since.checked_add(SETTLE));
            }
            Phase::Terminating { .. } => self.over = true,
        }
    }

    fn on_exit(&mut self, exit: Exit) {
        self.exit = Some(exit);
        if self.phase == Phase::Running {
            self.phase = Phase::Draining;
            self.arm(Instant::now().checked_add(DRAIN));
        }
    }

    fn terminate(&mut self) {
        let since = Instant::now();
        self.killed |= self.leader.signal_group(Signal::TERM);
        self.phase = Phase::Terminating {
            since,
            escalated: false,
        };
        self.arm(since.checked_add(GRACE));
    }

    fn arm(&mut self, due: Option<Instant>) {
        let far = Instant::now() + FAR;
        self.due = due;
        self.timer.as_mut().reset(due.unwrap_or(far).min(far));
    }
}
