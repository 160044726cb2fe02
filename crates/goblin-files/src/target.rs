//! Where a write goes: the directory and the name that a path leads to, links followed to their end.
//! It must never know what is written.

use crate::failure::Failure;
use crate::open::{self, check_regular};
use crate::path_locks::Key;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, fsync, mkdir, openat, readlinkat, syncfs};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Links that are followed before they count as a loop, as the system counts.
const LINKS_MAX: usize = 40;

/// A name in a directory that is held open, so that nothing that happens above it matters.
pub(crate) struct Target {
    pub(crate) directory: OwnedFd,
    /// A path of that directory, for notes.
    pub(crate) directory_path: PathBuf,
    pub(crate) name: OsString,
}

impl Target {
    /// Follows `path`. With `create_parents` its missing parent directories are created.
    pub(crate) fn resolve(path: &Path, create_parents: bool) -> Result<Self, Failure> {
        // What is there already must be a regular file; the system itself says what is wrong with the path.
        match open::place(path) {
            Ok(place) => check_regular(&place.stat)?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
                return Err(Errno::ISDIR.into());
            };
            let directory = open_directory(parent, create_parents)?;
            match open::look(directory.as_fd(), name) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
                    let link = readlinkat(&directory, name, Vec::new())?;
                    path = parent.join(OsString::from_vec(link.into_bytes()));
                }
                Ok(_) | Err(Errno::NOENT) => {
                    return Ok(Self {
                        directory,
                        directory_path: parent.to_owned(),
                        name: name.to_owned(),
                    });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::LOOP.into())
    }

    pub(crate) fn directory_handle(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub(crate) fn name_bytes(&self) -> &[u8] {
        self.name.as_bytes()
    }

    /// The regular file at the target; `None` when there is nothing.
    pub(crate) fn existing(&self) -> Result<Option<Stat>, Failure> {
        match open::look(self.directory.as_fd(), self.name.as_os_str()) {
            Ok(stat) => check_regular(&stat).map(|()| Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Distinguishes the name from every other.
    pub(crate) fn key(&self) -> Result<Key, Failure> {
        let stat = fstat(&self.directory)?;
        Ok((stat.st_dev, stat.st_ino, self.name.clone()))
    }
}

/// Opens a directory without reading it, with or without creating it.
fn open_directory(path: &Path, create: bool) -> Result<OwnedFd, Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        Err(Errno::NOENT) if create => create_directory(path)?,
        opened => return Ok(opened?),
    }
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// Creates a directory and its missing parents, each durably.
fn create_directory(path: &Path) -> Result<(), Failure> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|ancestor| matches!(open::place(ancestor), Err(Errno::NOENT)))
        .collect();
    for directory in missing.into_iter().rev() {
        match mkdir(directory, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
            // Somebody else may have been faster.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(parent) = directory.parent() {
            sync_directory(&open_directory(parent, false)?, None)?;
        }
    }
    Ok(())
}

/// Makes the names of a directory durable. `inside` is a file of the same file system, if there is one at hand: a directory
/// that may be written but not read can't be synced by itself.
pub(crate) fn sync_directory(directory: &OwnedFd, inside: Option<&OwnedFd>) -> Result<(), Errno> {
    let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = match (openat(directory, c".", readable, Mode::empty()), inside) {
        (Ok(directory), _) => fsync(&directory),
        (Err(Errno::ACCESS), Some(inside)) => syncfs(inside),
        (Err(Errno::ACCESS), None) => Ok(()),
        (Err(error), _) => Err(error),
    };
    match synced {
        // File systems without the notion refuse.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
        synced => synced,
    }
}
