//! The signals that ask a command to end: SIGINT, SIGTERM, SIGHUP. One that was ignored when the program began, as
//! `nohup` and background jobs of scripts do, stays ignored.

use std::io;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// SIGINT: Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// SIGHUP: the terminal is gone.
    HungUp,
}

impl Interrupt {
    const ALL: [Self; 3] = [Self::Interrupted, Self::Terminated, Self::HungUp];

    fn kind(self) -> SignalKind {
        match self {
            Self::Interrupted => SignalKind::interrupt(),
            Self::Terminated => SignalKind::terminate(),
            Self::HungUp => SignalKind::hangup(),
        }
    }

    /// 128 and the signal's number, as shells have it.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupted => 130,
            Self::Terminated => 143,
            Self::HungUp => 129,
        }
    }
}

/// What a command ends with that was asked to end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("asked to end")]
pub struct Stopped(pub Interrupt);

/// The interrupts as they come.
pub struct Interrupts(mpsc::UnboundedReceiver<Interrupt>);

impl Interrupts {
    /// Watches for them from now on; they no longer end the process by themselves. To be called within a runtime.
    pub fn watch() -> io::Result<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let ignored = std::fs::read_to_string("/proc/self/status").map_or(0, |status| ignored_signals(&status));
        for interrupt in Interrupt::ALL {
            let kind = interrupt.kind();
            if ignored >> (kind.as_raw_value() - 1) & 1 == 1 {
                continue;
            }
            let mut signals = signal(kind)?;
            let sender = sender.clone();
            tokio::spawn(async move { while signals.recv().await.is_some() && sender.send(interrupt).is_ok() {} });
        }
        Ok(Self(receiver))
    }

    /// Interrupts that a test sends.
    #[cfg(test)]
    pub fn scripted() -> (mpsc::UnboundedSender<Interrupt>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self(receiver))
    }

    /// The next one. Can be dropped without losing one.
    pub async fn next(&mut self) -> Interrupt {
        match self.0.recv().await {
            Some(interrupt) => interrupt,
            None => std::future::pending().await,
        }
    }

    /// Waits for `work`, unless an interrupt comes first: that is a [`Stopped`].
    pub async fn unless_stopped<T>(&mut self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        tokio::select! {
            biased;
            interrupt = self.next() => Err(Stopped(interrupt).into()),
            done = work => done,
        }
    }
}

/// The mask of ignored signals in the text of `/proc/self/status`.
fn ignored_signals(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_found() {
        assert_eq!(
            ignored_signals("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\tff\n"),
            0x1001
        );
        assert_eq!(ignored_signals("nothing"), 0);
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        for interrupt in Interrupt::ALL {
            assert_eq!(i32::from(interrupt.exit_code()), 128 + interrupt.kind().as_raw_value());
        }
    }
}
