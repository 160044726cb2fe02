//! The one way to open a file for reading: regular files only, decided before anything is opened for reading, never
//! blocking, closed on exec. It must never know what is read, or why.

use crate::failure::Failure;
use crate::own_process;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::CString;
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
    match open(path)? {
        Opened::Regular(regular) => Ok(regular),
        Opened::Directory(_) => Err(Errno::ISDIR.into()),
    }
}

/// Opens the regular file `name` in `directory`, following no link.
///
/// Here a look at the name comes right before the opening, which is cheaper than holding the place: a traversal opens
/// thousands. Something else that takes the name between the two is found out after it, and didn't block.
pub(crate) fn regular_in(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Regular, Failure> {
    check_regular(&look(directory, name)?)?;
    named(directory, name, OFlags::NOFOLLOW)
}

/// Opens what `path` leads to, following links: a regular file or a directory. Anything else is refused without being
/// opened.
pub(crate) fn open(path: &Path) -> Result<Opened, Failure> {
    let place = place(path)?;
    match FileType::from_raw_mode(place.stat.st_mode) {
        FileType::RegularFile => match place.reopen() {
            Ok(file) => Ok(Opened::Regular(Regular { file, stat: place.stat })),
            // Without `/proc` there is only the name.
            Err(Errno::NOENT) => named(CWD, path, OFlags::empty()).map(Opened::Regular),
            Err(error) => Err(error.into()),
        },
        FileType::Directory => Ok(Opened::Directory(directory_in(place.handle.as_fd(), c".")?)),
        _ => Err(Failure::NotARegularFile),
    }
}

/// Opens a name that was seen to be a regular file, and looks again.
fn named(directory: BorrowedFd<'_>, name: impl Arg, flags: OFlags) -> Result<Regular, Failure> {
    let file = openat(directory, name, READ | flags, Mode::empty())?;
    let stat = fstat(&file)?;
    check_regular(&stat)?;
    refuse_own(&file, &stat)?;
    Ok(Regular { file, stat })
}

/// Only regular files are read and written; for a directory the system has a name of its own.
pub(crate) fn check_regular(stat: &Stat) -> Result<(), Failure> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        _ => Err(Failure::NotARegularFile),
    }
}

/// Refuses a file of this very process. Only files without a size can be such.
pub(crate) fn refuse_own(file: &OwnedFd, stat: &Stat) -> Result<(), Errno> {
    match stat.st_size {
        0 => own_process::refuse(file.as_fd()),
        _ => Ok(()),
    }
}

/// Opens the directory that `path` leads to, following links, ready to be listed.
pub(crate) fn directory(path: &Path) -> Result<OwnedFd, Failure> {
    let place = place(path)?;
    match FileType::from_raw_mode(place.stat.st_mode) {
        FileType::Directory => Ok(directory_in(place.handle.as_fd(), c".")?),
        _ => Err(Errno::NOTDIR.into()),
    }
}

/// The directory `name` in `directory`, ready to be listed; no link is followed. A FIFO of that name is not touched.
pub(crate) fn directory_in(directory: BorrowedFd<'_>, name: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = READ | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let directory = openat(directory, name, flags, Mode::empty())?;
    own_process::refuse(directory.as_fd())?;
    Ok(directory)
}

/// What `path` leads to, following links, without opening it.
pub(crate) fn place(path: &Path) -> Result<Place, Errno> {
    place_with(path, OFlags::empty())
}

/// What is at `path`, a link itself included, without opening it.
pub(crate) fn unfollowed(path: &Path) -> Result<Place, Errno> {
    place_with(path, OFlags::NOFOLLOW)
}

fn place_with(path: &Path, flags: OFlags) -> Result<Place, Errno> {
    let handle = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty())?;
    let stat = fstat(&handle)?;
    own_process::refuse(handle.as_fd())?;
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
    /// Where the link leads that this is.
    pub(crate) fn link_target(&self) -> Result<CString, Errno> {
        readlinkat(&self.handle, c"", Vec::new())
    }

    /// The very file that was looked at, whatever its name leads to by now.
    fn reopen(&self) -> Result<OwnedFd, Errno> {
        openat(
            CWD,
            format!("/proc/self/fd/{}", self.handle.as_raw_fd()),
            READ,
            Mode::empty(),
        )
    }
}

/// What is at `name` in `directory`, a link itself included.
pub(crate) fn look(directory: BorrowedFd<'_>, name: impl Arg) -> Result<Stat, Errno> {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}

impl Regular {
    /// Reads on into `buffer` until it is full or the file ends, and says how much came. `position` is where the file
    /// stands. Interruptions are not errors.
    pub(crate) fn fill(&self, buffer: &mut [u8], position: &mut u64) -> Result<usize, Errno> {
        let size = u64::try_from(self.stat.st_size).unwrap_or(0);
        let mut filled = 0;
        while filled < buffer.len() {
            match rustix::io::read(&self.file, &mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    *position += count as u64;
                }
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            }
            // A file that has a size need not be asked whether it ends there; one that has none (`/proc`) must.
            if size > 0 && *position >= size {
                break;
            }
        }
        Ok(filled)
    }
}
