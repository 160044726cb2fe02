//! A child whose life is tied to ours: it is told to end when this process is gone, however that came about.

#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::process::Command;

/// Has the child get SIGTERM when the thread that starts it ends, and keeps the terminal's Ctrl-C from it.
pub fn tie(command: &mut Command) {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // The parent may have ended before it could be watched.
        match getppid() {
            Some(now) if now == parent => Ok(()),
            _ => Err(Errno::SRCH.into()),
        }
    };
    command.process_group(0);
    // SAFETY: between fork and exec the closure makes two system calls and touches nothing but a number that it owns.
    // It allocates nothing and takes no lock: its errors are bare error numbers.
    unsafe {
        command.pre_exec(tie);
    }
}
