//! The one way to open a file for reading: regular files only, decided before anything is opened for reading, never
//! blocking, closed on exec. It must never know what is read, or why.

use crate::failure::Failure;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use rustix::path::Arg;
use std::path::Path;

/// A regular file, open for reading.
pub(crate) struct Regular {
    pub(crate) file: OwnedFd,
    /// As it was when the file was opened.
    pub(crate) stat: Stat,
}

/// A place in the tree that is neither opened for reading nor for writing: it can be looked at without disturbing it.
pub(crate) struct Place {
    handle: OwnedFd,
    pub(crate) stat: Stat,
}

/// Opens the regular file at `path`, following links.
pub(crate) fn regular(path: &Path) -> Result<Regular, Failure> {
    match place(path)?.open()? {
        Opened::Regular(regular) => Ok(regular),
        Opened::Directory(_) => Err(Errno::ISDIR.into()),
    }
}

/// Opens the regular file `name` in `directory`, following no link.
pub(crate) fn regular_in(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Regular, Failure> {
    match place_at(directory, name, OFlags::NOFOLLOW)?.open()? {
        Opened::Regular(regular) => Ok(regular),
        Opened::Directory(_) => Err(Failure::NotARegularFile),
    }
}

/// The directory `name` in `directory`, ready to be listed; no link is followed. A FIFO of that name is not touched.
pub(crate) fn directory_in(directory: BorrowedFd<'_>, name: impl Arg) -> Result<OwnedFd, Errno> {
    openat(
        directory,
        name,
        READ | OFlags::DIRECTORY | OFlags::NOFOLLOW,
        rustix::fs::Mode::empty(),
    )
}

/// What `path` leads to, following links.
pub(crate) fn place(path: &Path) -> Result<Place, Errno> {
    place_at(CWD, path, OFlags::empty())
}

fn place_at(directory: BorrowedFd<'_>, name: impl Arg, flags: OFlags) -> Result<Place, Errno> {
    let handle = openat(
        directory,
        name,
        OFlags::PATH | OFlags::CLOEXEC | flags,
        rustix::fs::Mode::empty(),
    )?;
    let stat = fstat(&handle)?;
    Ok(Place { handle, stat })
}

/// Flags of every opening for reading. Regular files ignore `NONBLOCK`; the odd file of `/proc` that waits for news does not.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// A place that was opened for reading.
pub(crate) enum Opened {
    Regular(Regular),
    Directory(OwnedFd),
}

impl Place {
    /// Opens a regular file or a directory for reading; anything else is refused without being opened.
    pub(crate) fn open(self) -> Result<Opened, Failure> {
        match FileType::from_raw_mode(self.stat.st_mode) {
            FileType::RegularFile => {
                let file = self.reopen(READ)?;
                Ok(Opened::Regular(Regular { file, stat: self.stat }))
            }
            FileType::Directory => Ok(Opened::Directory(directory_in(self.handle.as_fd(), c".")?)),
            _ => Err(Failure::NotARegularFile),
        }
    }

    /// The very file that was looked at, whatever its name leads to by now.
    fn reopen(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        openat(
            CWD,
            descriptor_path(self.handle.as_fd()),
            flags,
            rustix::fs::Mode::empty(),
        )
    }
}

/// The path by which this process can open a descriptor's file anew.
fn descriptor_path(descriptor: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

/// What is at `name` in `directory`, a link itself included.
pub(crate) fn look(directory: BorrowedFd<'_>, name: impl Arg) -> Result<Stat, Errno> {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// Reads into `buffer` until it is full or the file ends, and says how much came. Interruptions are not errors.
pub(crate) fn fill(file: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::read(file, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
