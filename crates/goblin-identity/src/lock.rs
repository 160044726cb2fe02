//! The lock that lets one daemon at a time work on a directory. The kernel's lock decides; the process number in the
//! file is for the error message alone, so a number left by a killed daemon, or a wrong one, holds nobody up.
//!
//! The directory itself is locked, and the file of the number. A directory that can't be written any more, because its file
//! system became read-only, is locked all the same: the daemon goes on with the identity that it has.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::fs::{self as system, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::error::IdentityError;
use crate::private_file::PrivateDirectory;

/// The lock's file. It stays when the daemon ends: removing it would let two daemons lock two files of the same name.
pub(crate) const LOCK_FILE: &str = "daemon.lock";

/// Times to try again when the file was replaced between opening and locking it.
const ATTEMPTS: usize = 8;

/// A held lock, until this is dropped or the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Lock {
    held: Vec<OwnedFd>,
}

impl Lock {
    pub(crate) fn take(directory: &PrivateDirectory) -> Result<Self, IdentityError> {
        let mut held = Vec::new();
        held.extend(lock_directory(directory)?);
        let path = directory.join(LOCK_FILE);
        for _ in 0..ATTEMPTS {
            let Some((descriptor, writable)) = open(directory)? else {
                return match held.is_empty() {
                    false => Ok(Self { held }),
                    true => Err(IdentityError::io("lock", directory.path(), Errno::ROFS)),
                };
            };
            match system::flock(&descriptor, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(in_use(directory)),
                // A network file system locks only what is open for writing.
                Err(Errno::BADF) if !writable && !held.is_empty() => return Ok(Self { held }),
                Err(error) => return Err(IdentityError::io("lock", &path, error)),
            }
            if !is_current(directory, &descriptor).map_err(|error| IdentityError::io("examine", &path, error))? {
                continue;
            }
            if writable {
                system::fchmod(&descriptor, Mode::RUSR | Mode::WUSR)
                    .map_err(|error| IdentityError::io("make private", &path, error))?;
                // Without room for the number (a full disk) the lock holds all the same.
                let number = format!("{}\n", std::process::id());
                let _ = system::ftruncate(&descriptor, 0)
                    .and_then(|()| rustix::io::pwrite(&descriptor, number.as_bytes(), 0));
            }
            held.push(descriptor);
            return Ok(Self { held });
        }
        Err(IdentityError::invalid(&path, "it is being replaced again and again"))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a child that is just being started and still holds the descriptor.
        for descriptor in &self.held {
            let _ = system::flock(descriptor, FlockOperation::Unlock);
        }
    }
}

/// Locks the directory itself, through a descriptor of its own; `None` where the file system locks no directories.
fn lock_directory(directory: &PrivateDirectory) -> Result<Option<OwnedFd>, IdentityError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let descriptor = system::openat(directory.descriptor(), c".", flags, Mode::empty())
        .map_err(|error| IdentityError::io("open", directory.path(), error))?;
    match system::flock(&descriptor, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(descriptor)),
        Err(Errno::WOULDBLOCK) => Err(in_use(directory)),
        Err(_) => Ok(None),
    }
}

/// The lock file, created where it is missing, and whether it can be written; `None` when there is none and the file
/// system is read-only.
fn open(directory: &PrivateDirectory) -> Result<Option<(OwnedFd, bool)>, IdentityError> {
    let path = directory.join(LOCK_FILE);
    let careful = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let private = Mode::RUSR | Mode::WUSR;
    let open = |flags: OFlags| system::openat(directory.descriptor(), LOCK_FILE, flags | careful, private);
    let failed = |error| match error {
        Errno::LOOP | Errno::NXIO | Errno::ISDIR => IdentityError::NotRegular { path: path.clone() },
        error => IdentityError::io("open", &path, error),
    };
    for _ in 0..ATTEMPTS {
        match open(OFlags::RDWR) {
            Ok(descriptor) => return Ok(Some((descriptor, true))),
            Err(Errno::NOENT) => {}
            Err(Errno::ROFS) => return open(OFlags::RDONLY).map(|it| Some((it, false))).map_err(failed),
            Err(error) => return Err(failed(error)),
        }
        match open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL) {
            Ok(descriptor) => {
                directory
                    .hand_over(&descriptor)
                    .map_err(|error| IdentityError::io("hand over", &path, error))?;
                return Ok(Some((descriptor, true)));
            }
            // Somebody else was faster.
            Err(Errno::EXIST) => {}
            Err(Errno::ROFS) => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
    }
    Err(IdentityError::invalid(&path, "it is being replaced again and again"))
}

fn in_use(directory: &PrivateDirectory) -> IdentityError {
    IdentityError::InUse {
        path: directory.path().to_owned(),
        pid: holder(directory),
    }
}

/// Whether the locked file is still the one of that name.
fn is_current(directory: &PrivateDirectory, locked: &OwnedFd) -> Result<bool, Errno> {
    let held = system::fstat(locked)?;
    match system::statat(directory.descriptor(), LOCK_FILE, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => Ok(named.st_ino == held.st_ino && named.st_dev == held.st_dev),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The number in the file. A daemon on a read-only file system could not write its own, so that of a process that is gone
/// is not told.
fn holder(directory: &PrivateDirectory) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let descriptor = system::openat(directory.descriptor(), LOCK_FILE, flags, Mode::empty()).ok()?;
    let mut text = String::new();
    File::from(descriptor).take(32).read_to_string(&mut text).ok()?;
    let number: u32 = text.trim().parse().ok()?;
    let pid = i32::try_from(number)
        .ok()
        .filter(|pid| *pid > 0)
        .and_then(Pid::from_raw)?;
    match rustix::process::test_kill_process(pid) {
        Err(Errno::SRCH) => None,
        _ => Some(number),
    }
}
