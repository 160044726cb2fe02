//! What the service manager is told: that the program is ready, what it is doing, that it is alive (sd_notify(3)).
//!
//! Nothing where no manager listens. It must never know what the program does.

use rustix::io::Errno;
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::warn;

/// Shortest pause between two signs of life, however impatient the manager.
const SHORTEST: Duration = Duration::from_millis(100);

/// A manager that listens.
#[derive(Debug)]
pub struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    watchdog: Option<Duration>,
}

impl Manager {
    /// The one that started this process, by `NOTIFY_SOCKET`.
    pub fn of_this_process() -> Option<Self> {
        Self::find(&|name| std::env::var_os(name), std::process::id())
    }

    fn find(variable: &dyn Fn(&str) -> Option<OsString>, pid: u32) -> Option<Self> {
        let path = variable("NOTIFY_SOCKET").filter(|path| !path.is_empty())?;
        let address = match path.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            [b'/', ..] => SocketAddr::from_pathname(&path),
            _ => return None,
        }
        .ok()?;
        let number = |name| variable(name)?.into_string().ok()?.parse::<u64>().ok();
        // The variables may have been meant for a process further up.
        let meant = number("WATCHDOG_PID").is_none_or(|meant| meant == u64::from(pid));
        let watchdog = number("WATCHDOG_USEC")
            .filter(|&limit| meant && limit > 0)
            .map(Duration::from_micros);
        Some(Self {
            socket: UnixDatagram::unbound().ok()?,
            address,
            watchdog,
        })
    }

    /// Sends lines of `NAME=value`.
    fn tell(&self, lines: &str) {
        let sent = self.socket.send_to_addr(lines.as_bytes(), &self.address);
        if let Err(error) = sent
            && error.raw_os_error() != Some(Errno::AGAIN.raw_os_error())
        {
            warn!(%error, "the service manager can't be told");
        }
    }

    /// Says what the program is doing, in one line.
    pub fn status(&self, sentence: &str) {
        let line: String = sentence.chars().filter(|letter| !letter.is_control()).collect();
        self.tell(&format!("STATUS={line}\n"));
    }

    /// Says that the program is ready, and from then on that it lives: from a task of the runtime, so that a runtime
    /// that hangs is noticed.
    pub fn attend(self, runtime: &Handle) {
        self.tell("READY=1\n");
        let Some(limit) = self.watchdog else { return };
        runtime.spawn(async move {
            let mut ticks = tokio::time::interval((limit / 3).max(SHORTEST));
            loop {
                ticks.tick().await;
                self.tell("WATCHDOG=1\n");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(socket: &str, more: &[(&str, &str)]) -> Option<Manager> {
        let variable = |name: &str| {
            let found = more.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            (name == "NOTIFY_SOCKET").then_some(socket).or(found).map(Into::into)
        };
        Manager::find(&variable, 7)
    }

    #[test]
    fn the_manager_hears_of_readiness_and_life() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify socket");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let receive = || {
            let mut block = [0; 256];
            let length = manager.recv(&mut block).unwrap();
            String::from_utf8(block[..length].to_vec()).unwrap()
        };
        let service = find(
            path.to_str().unwrap(),
            &[("WATCHDOG_USEC", "300000"), ("WATCHDOG_PID", "7")],
        )
        .unwrap();
        service.status("two\nlines");
        assert_eq!(receive(), "STATUS=twolines\n");
        let runtime = crate::runtime::build().unwrap();
        service.attend(runtime.handle());
        assert_eq!(receive(), "READY=1\n");
        assert_eq!(receive(), "WATCHDOG=1\n");
        assert_eq!(receive(), "WATCHDOG=1\n");
        runtime.shutdown_background();
    }

    #[test]
    fn variables_meant_for_others_are_left_alone() {
        let watchdog = |more: &[(&str, &str)]| find("@x", more).unwrap().watchdog;
        assert_eq!(watchdog(&[]), None);
        assert_eq!(watchdog(&[("WATCHDOG_USEC", "5000000")]), Some(Duration::from_secs(5)));
        assert_eq!(watchdog(&[("WATCHDOG_USEC", "5000000"), ("WATCHDOG_PID", "8")]), None);
        assert_eq!(watchdog(&[("WATCHDOG_USEC", "0")]), None);
        assert_eq!(watchdog(&[("WATCHDOG_USEC", "soon")]), None);
        assert!(find("", &[]).is_none());
        assert!(find("relative", &[]).is_none());
        assert!(find(&format!("/{}", "x".repeat(500)), &[]).is_none());
    }
}
