//! Names, modes and whereabouts of the journal's files. It must never know what they hold.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::JournalError;

const PRIVATE: u32 = 0o600;

/// Where a journal with a file lives.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) directory: PathBuf,
    pub(crate) snapshot: PathBuf,
    log_prefix: OsString,
}

impl Files {
    pub(crate) fn new(snapshot: &Path) -> Result<Self, JournalError> {
        let invalid = || JournalError::Path {
            path: snapshot.to_owned(),
        };
        snapshot.file_name().ok_or_else(invalid)?;
        let mut log_prefix = snapshot.file_stem().ok_or_else(invalid)?.to_owned();
        log_prefix.push(".log.");
        let directory = match snapshot.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        Ok(Self {
            directory,
            snapshot: snapshot.to_owned(),
            log_prefix,
        })
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.log_prefix.clone();
        name.push(suffix);
        self.directory.join(name)
    }

    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.beside(&format!("{number:06}"))
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.beside("lock")
    }

    /// Where a new snapshot is written before it takes its place.
    pub(crate) fn draft(&self) -> PathBuf {
        let mut name = self.snapshot.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        self.directory.join(name)
    }

    /// The segments on disk, oldest first. Numbers that can't be followed by another are none of ours.
    pub(crate) fn segments(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let prefix = self.log_prefix.as_encoded_bytes();
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let Some(digits) = name.as_encoded_bytes().strip_prefix(prefix) else {
                continue;
            };
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                continue;
            }
            let number = std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse::<u64>().ok());
            if let Some(number) = number.filter(|number| (1..u64::MAX / 2).contains(number)) {
                found.push((number, self.directory.join(&name)));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Makes names in the directory durable.
    pub(crate) fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// A new file that nobody else may read, whatever the umask. Fails when the name is taken.
pub(crate) fn create(path: &Path, append: bool) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .append(append)
        .create_new(true)
        .mode(PRIVATE)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(PRIVATE))?;
    Ok(file)
}

/// Opens a file to read it, without waiting for a writer should it be a pipe.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path)
}

/// Takes the reading away from others, should a predecessor have left it to them.
pub(crate) fn make_private(file: &File) -> io::Result<()> {
    if file.metadata()?.permissions().mode() & 0o177 != 0 {
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
    }
    Ok(())
}

/// Removes a file; one that is gone already is fine.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Keeps a damaged file under a name that tells when. It stays under its own name too where that is possible, so that
/// what could be read of it is on disk until a new snapshot holds it.
pub(crate) fn set_aside(path: &Path, now_ms: u64) -> io::Result<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".corrupt-{now_ms}"));
    let mut target = PathBuf::from(&name);
    let mut count = 1;
    while fs::symlink_metadata(&target).is_ok() {
        count += 1;
        let mut next = name.clone();
        next.push(format!("-{count}"));
        target = PathBuf::from(next);
    }
    if fs::hard_link(path, &target).is_err() {
        fs::rename(path, &target)?;
    }
    Ok(target)
}

/// The lock, held until it is dropped.
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is just being spawned may hold the descriptor a moment longer.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// Takes the lock that keeps a second process off the same files; None where the file system knows no locks.
pub(crate) fn take_lock(path: &Path) -> Result<Option<Lock>, LockError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE)
        .open(path)?;
    make_private(&file)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Lock(file))),
        Err(Errno::WOULDBLOCK) => Err(LockError::Held),
        Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(error) => Err(LockError::Io(error.into())),
    }
}

/// Why the lock was not taken.
pub(crate) enum LockError {
    Held,
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
