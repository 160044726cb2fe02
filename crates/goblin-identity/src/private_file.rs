//! Private files in one private directory: read whole with their mode checked, replaced whole or not at all. It must
//! never know what the files mean.
//!
//! Every access goes through the opened directory and follows no symbolic link below it, so a directory that is moved or
//! replaced under a running daemon can't redirect a secret.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{self as system, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use zeroize::Zeroizing;

use crate::error::IdentityError;

/// Longest private file that is read, in bytes; the real ones are under 2 KiB.
pub const MAX_FILE: u64 = 64 * 1_024;

const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
const PRIVATE_DIRECTORY: Mode = Mode::RWXU;
/// Every permission of group and others.
const SHARED: u32 = 0o077;
/// Read permission of the group.
const GROUP_READ: u32 = 0o040;
/// Write permission of group and others.
const SHARED_WRITE: u32 = 0o022;

/// An opened directory whose files are private.
#[derive(Debug)]
pub struct PrivateDirectory {
    descriptor: OwnedFd,
    path: PathBuf,
    owner: (system::Uid, system::Gid),
}

/// What a file must be to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// A key or secret: a mode that lets others read or write it is an error.
    Secret,
    /// Not worth protecting by itself.
    Plain,
}

impl PrivateDirectory {
    /// Opens the directory, after creating it and its parents with mode 0700 where they are missing.
    ///
    /// A directory that others can enter is made private when it is plainly ours: empty, or holding one of `known` and
    /// not writable by others. Any other is refused, since it might be a folder that others need.
    pub fn open(path: &Path, known: &[&str]) -> Result<Self, IdentityError> {
        let path = std::path::absolute(path).map_err(|error| IdentityError::io("resolve", path, error))?;
        let existed = path.exists();
        DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE_DIRECTORY.bits())
            .create(&path)
            .map_err(|error| IdentityError::io("create", &path, error))?;
        let directory = Self::enter(path)?;
        let stat = directory.stat()?;
        let user = rustix::process::geteuid();
        if stat.st_uid != user.as_raw() && !user.is_root() {
            return Err(IdentityError::ForeignDirectory {
                path: directory.path,
                owner: stat.st_uid,
            });
        }
        let mode = permissions(&stat);
        // A new one too: the umask may have taken permissions away.
        if !existed || mode & SHARED != 0 {
            if existed && !directory.is_plainly_ours(mode, known)? {
                return Err(IdentityError::DirectoryExposed {
                    path: directory.path,
                    mode,
                });
            }
            system::fchmod(&directory.descriptor, PRIVATE_DIRECTORY)
                .map_err(|error| IdentityError::io("make private", &directory.path, error))?;
        }
        if !existed && let Some(parent) = directory.path.parent() {
            // A parent that this account can't read can't be synced either; the entry is there all the same.
            let _ = File::open(parent).and_then(|parent| parent.sync_all());
        }
        Ok(directory)
    }

    /// Opens a directory as it is, to read from it.
    pub fn open_existing(path: &Path) -> Result<Self, IdentityError> {
        Self::enter(path.to_owned())
    }

    fn enter(path: PathBuf) -> Result<Self, IdentityError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor =
            system::open(&path, flags, Mode::empty()).map_err(|error| IdentityError::io("open", &path, error))?;
        let stat = system::fstat(&descriptor).map_err(|error| IdentityError::io("examine", &path, error))?;
        let owner = (system::Uid::from_raw(stat.st_uid), system::Gid::from_raw(stat.st_gid));
        Ok(Self {
            descriptor,
            path,
            owner,
        })
    }

    fn stat(&self) -> Result<Stat, IdentityError> {
        system::fstat(&self.descriptor).map_err(|error| IdentityError::io("examine", &self.path, error))
    }

    fn is_plainly_ours(&self, mode: u32, known: &[&str]) -> Result<bool, IdentityError> {
        let mut entries = fs::read_dir(&self.path).map_err(|error| IdentityError::io("list", &self.path, error))?;
        if entries.next().is_none() {
            return Ok(true);
        }
        if mode & SHARED_WRITE != 0 {
            return Ok(false);
        }
        for name in known {
            if self.exists(name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The directory's absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file in it, to show or to hand on.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether anything has this name: a dangling link counts.
    pub fn exists(&self, name: &str) -> Result<bool, IdentityError> {
        Ok(self.examine(name)?.is_some())
    }

    fn examine(&self, name: &str) -> Result<Option<Stat>, IdentityError> {
        match system::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(IdentityError::io("examine", &self.join(name), error)),
        }
    }

    /// Checks, without reading it, that a file is regular and private enough. One that is missing passes.
    pub fn check(&self, name: &str, privacy: Privacy) -> Result<(), IdentityError> {
        match self.examine(name)? {
            Some(stat) => self.judge(name, &stat, privacy),
            None => Ok(()),
        }
    }

    fn judge(&self, name: &str, stat: &Stat, privacy: Privacy) -> Result<(), IdentityError> {
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(IdentityError::NotRegular { path: self.join(name) });
        }
        let mode = permissions(stat);
        if privacy == Privacy::Secret && mode & SHARED != 0 {
            return Err(IdentityError::FileExposed {
                path: self.join(name),
                mode,
            });
        }
        Ok(())
    }

    /// Reads a whole file; `None` when there is none. Links, folders, devices, files over [`MAX_FILE`] and text that is
    /// not UTF-8 are errors.
    pub fn read(&self, name: &str, privacy: Privacy) -> Result<Option<Zeroizing<String>>, IdentityError> {
        let path = self.join(name);
        // Non-blocking, so that a named pipe can't hold the start.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let descriptor = match system::openat(&self.descriptor, name, flags, Mode::empty()) {
            Ok(descriptor) => descriptor,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NXIO) => return Err(IdentityError::NotRegular { path }),
            Err(error) => return Err(IdentityError::io("open", &path, error)),
        };
        let stat = system::fstat(&descriptor).map_err(|error| IdentityError::io("examine", &path, error))?;
        self.judge(name, &stat, privacy)?;
        contents(descriptor, &path).map(Some)
    }

    /// Replaces a file by a new one with mode 0600, whatever the umask. When this returns, the new content is on the
    /// disk under its name; on an error the old file is untouched. A link of that name is replaced, not followed.
    ///
    /// Written by root, the file belongs to the directory's owner, so that an operator's command doesn't lock the
    /// daemon's account out.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), IdentityError> {
        let failed = |action| move |error: io::Error| IdentityError::io(action, &self.join(name), error);
        let temporary = temporary_name(name);
        self.unlink(&temporary)?;
        let written = self
            .write_new(&temporary, content)
            .map_err(failed("write"))
            .and_then(|()| {
                system::renameat(&self.descriptor, temporary.as_str(), &self.descriptor, name)
                    .map_err(|error| failed("replace")(error.into()))
            });
        if written.is_err() {
            // The first error is the one to tell.
            let _ = self.unlink(&temporary);
            return written;
        }
        self.sync()
    }

    fn write_new(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = system::openat(&self.descriptor, name, flags, PRIVATE_FILE)?;
        system::fchmod(&descriptor, PRIVATE_FILE)?;
        self.hand_over(&descriptor)?;
        let mut file = File::from(descriptor);
        file.write_all(content)?;
        file.sync_all()
    }

    /// Gives what root has created to the owner of the directory.
    pub(crate) fn hand_over(&self, created: &OwnedFd) -> Result<(), Errno> {
        let user = rustix::process::geteuid();
        if user.is_root() && self.owner.0 != user {
            system::fchown(created, Some(self.owner.0), Some(self.owner.1))?;
        }
        Ok(())
    }

    /// Removes a file for good; `false` when there was none.
    pub fn remove(&self, name: &str) -> Result<bool, IdentityError> {
        let removed = self.unlink(name)?;
        if removed {
            self.sync()?;
        }
        Ok(removed)
    }

    /// Removes what a write that was cut off left of `name`.
    pub(crate) fn clear_leftover(&self, name: &str) -> Result<(), IdentityError> {
        self.unlink(&temporary_name(name)).map(|_| ())
    }

    fn unlink(&self, name: &str) -> Result<bool, IdentityError> {
        match system::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            // A read-only file system says so before it looks for the name.
            Err(Errno::ROFS) if self.examine(name)?.is_none() => Ok(false),
            Err(error) => Err(IdentityError::io("remove", &self.join(name), error)),
        }
    }

    fn sync(&self) -> Result<(), IdentityError> {
        match system::fsync(&self.descriptor) {
            // Some network file systems can't sync a directory, and have nothing to sync there either.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(IdentityError::io("sync", &self.path, error)),
        }
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }
}

/// Reads a key or secret that the operator keeps elsewhere, such as a client key or a token file: a whole regular file of
/// at most [`MAX_FILE`] bytes of UTF-8, links followed.
///
/// A mode that lets others read or write it is an error. One that root owns may be readable by its group, as the
/// credentials are that a service manager hands to a service.
pub fn read_secret(path: &Path) -> Result<Zeroizing<String>, IdentityError> {
    let not_regular = || IdentityError::NotRegular { path: path.to_owned() };
    // Non-blocking, so that a named pipe can't hold the start.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let descriptor = match system::open(path, flags, Mode::empty()) {
        Ok(descriptor) => descriptor,
        Err(Errno::NXIO) => return Err(not_regular()),
        Err(error) => return Err(IdentityError::io("open", path, error)),
    };
    let stat = system::fstat(&descriptor).map_err(|error| IdentityError::io("examine", path, error))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(not_regular());
    }
    let allowed = if stat.st_uid == 0 { GROUP_READ } else { 0 };
    let mode = permissions(&stat);
    if mode & SHARED & !allowed != 0 {
        return Err(IdentityError::FileExposed {
            path: path.to_owned(),
            mode,
        });
    }
    contents(descriptor, path)
}

/// The text of a whole file.
fn contents(descriptor: OwnedFd, path: &Path) -> Result<Zeroizing<String>, IdentityError> {
    // Room for all of it at once: a growing buffer would leave copies of a secret behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_FILE as usize + 1));
    File::from(descriptor)
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| IdentityError::io("read", path, error))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(IdentityError::invalid(
            path,
            format!("it is longer than {MAX_FILE} bytes"),
        ));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(_) => Err(IdentityError::invalid(path, "it is not UTF-8 text")),
    }
}

fn permissions(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

fn temporary_name(name: &str) -> String {
    format!(".{name}.new")
}
