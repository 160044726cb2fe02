//! Keeps the tools out of what the system shows of this very process: its environment, memory, descriptors and threads.
//!
//! A process may always read its own, also when it has closed itself to others of its account. A tool that read there
//! would give them what they can't get by themselves. It is judged on what was opened, so neither links nor other mounts of
//! the process file system lead around it, not even one that knows this process by another number. Left readable is
//! what everybody may read of every process: its status, and the mounts and the network of its namespace, to which
//! `/proc/mounts` and `/proc/net` lead.
//!
//! It must never know which tool asks.

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, MemfdFlags, PROC_SUPER_MAGIC, fstat, fstatfs, memfd_create, readlinkat, stat, statat,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Entries of a process that hold nothing of its memory, environment or descriptors.
const HARMLESS: [&str; 5] = ["status", "mounts", "mountinfo", "mountstats", "net"];

/// `EACCES` for a handle on anything of this process in a process file system.
pub(crate) fn refuse(handle: BorrowedFd<'_>) -> Result<(), Errno> {
    if fstatfs(handle)?.f_type != PROC_SUPER_MAGIC {
        return Ok(());
    }
    let path = readlinkat(CWD, format!("/proc/self/fd/{}", handle.as_raw_fd()), Vec::new());
    let Ok(path) = path else { return Err(Errno::ACCESS) };
    let path = Path::new(OsStr::from_bytes(path.as_bytes()));
    let (opened, named) = (fstat(handle)?, statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?);
    // A name that leads elsewhere, in another namespace perhaps, tells nothing of what was opened.
    if (opened.st_dev, opened.st_ino) != (named.st_dev, named.st_ino) {
        return Err(Errno::ACCESS);
    }
    // Only this process has this file among its descriptors (and for a moment a child that is about to become another
    // program), under whatever number the process is known there.
    let mark = memfd_create(c"goblin-mark", MemfdFlags::CLOEXEC)?;
    let mark_stat = fstat(&mark)?;
    let mark_name = format!("fd/{}", mark.as_raw_fd());
    let is_own = |directory: &Path| {
        stat(directory.join(&mark_name))
            .is_ok_and(|found| (found.st_dev, found.st_ino) == (mark_stat.st_dev, mark_stat.st_ino))
    };
    let is_directory = FileType::from_raw_mode(opened.st_mode) == FileType::Directory;
    let own = path
        .ancestors()
        .skip(usize::from(!is_directory))
        .find(|ancestor| is_own(ancestor));
    let Some(own) = own else { return Ok(()) };
    let first = path.strip_prefix(own).ok().and_then(|rest| rest.iter().next());
    match first.and_then(OsStr::to_str) {
        Some(first) if HARMLESS.contains(&first) => Ok(()),
        _ => Err(Errno::ACCESS),
    }
}
