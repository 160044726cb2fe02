//! The lock that lets one daemon at a time work on a directory. The kernel's lock decides; the process number in the
//! file is for the error message alone, so a number left by a killed daemon, or a wrong one, holds nobody up.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{self as system, AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::error::IdentityError;
use crate::private_file::PrivateDirectory;

/// The lock's file. It stays when the daemon ends: removing it would let two daemons lock two files of the same name.
pub(crate) const LOCK_FILE: &str = "daemon.lock";

/// Times to try again when the file was replaced between opening and locking it.
const ATTEMPTS: usize = 8;

/// A held lock, until this is dropped or the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    pub(crate) fn take(directory: &PrivateDirectory) -> Result<Self, IdentityError> {
        let path = directory.join(LOCK_FILE);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS {
            let descriptor = match system::openat(directory.descriptor(), LOCK_FILE, flags, Mode::RUSR | Mode::WUSR) {
                Ok(descriptor) => descriptor,
                Err(Errno::LOOP | Errno::NXIO | Errno::ISDIR) => return Err(IdentityError::NotRegular { path }),
                Err(error) => return Err(IdentityError::io("open", &path, error)),
            };
            match system::flock(&descriptor, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let pid = holder(descriptor);
                    return Err(IdentityError::InUse {
                        path: directory.path().to_owned(),
                        pid,
                    });
                }
                Err(error) => return Err(IdentityError::io("lock", &path, error)),
            }
            if is_current(directory, &descriptor).map_err(|error| IdentityError::io("examine", &path, error))? {
                system::fchmod(&descriptor, Mode::RUSR | Mode::WUSR)
                    .map_err(|error| IdentityError::io("make private", &path, error))?;
                let file = File::from(descriptor);
                // Without room for the number (a full disk) the lock holds all the same.
                let _ = file
                    .set_len(0)
                    .and_then(|()| file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0));
                return Ok(Self { file });
            }
        }
        Err(IdentityError::invalid(&path, "it is being replaced again and again"))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a child that is just being started and still holds the descriptor.
        let _ = system::flock(&self.file, FlockOperation::Unlock);
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

fn holder(descriptor: OwnedFd) -> Option<u32> {
    let mut text = String::new();
    File::from(descriptor).take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
