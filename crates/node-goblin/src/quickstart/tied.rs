//! A child whose life is tied to ours: it is told to end when this process is gone, however that came about.

#![allow(unsafe_code)]

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use tokio::process::Command;

/// Has the child get SIGTERM when the thread that starts it ends, and keeps the terminal's Ctrl-C from it.
pub fn tie(command: &mut Command) {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // The parent may have ended before it could be watched.
        match getppid() {
            Some(now) if now == parent => Ok(()),
            _ => Err(io::Error::other("the parent is gone")),
        }
    };
    command.process_group(0);
    // SAFETY: between fork and exec the closure makes two system calls and touches nothing but a number on its stack;
    // neither it nor an error of the kind it makes after a fault is anything but a value. The one allocation, of the
    // error's text, happens only where the parent is gone, and then the child ends without having run anything.
    unsafe {
        command.pre_exec(tie);
    }
}
