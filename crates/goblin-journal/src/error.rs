//! What can go wrong with the journal, with stable codes. It must never hold an outcome or a parameter.

use std::io;
use std::path::PathBuf;

/// The journal can't be opened at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process holds the lock.
    #[error("the journal is in use by another process: {} is locked", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A path that can't name a journal.
    #[error("{} can't be a journal file", path.display())]
    Path {
        /// The path given.
        path: PathBuf,
    },
    /// Something that can't hold a journal stands where one of its files should: a device, a named pipe, a socket, a
    /// directory, or a symbolic link that leads to no regular file. It was left as it is.
    #[error(
        "the journal file {} is {kind}, not a regular file; name another file, or none to keep outcomes in memory alone",
        path.display()
    )]
    NotRegular {
        /// What was refused.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// This account may not use a file that is there, nor move it out of the way.
    #[error(
        "this account can't use the journal file {} ({source}); make the daemon's account its owner (chown), or move it away",
        path.display()
    )]
    Denied {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file or its directory can't be used.
    #[error("the journal can't use {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The thread that syncs could not be started.
    #[error("the journal's thread can't be started: {source}")]
    Thread {
        /// What the system said.
        source: io::Error,
    },
}

impl JournalError {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Locked { .. } => "journal_locked",
            Self::Path { .. } => "journal_path_invalid",
            Self::NotRegular { .. } => "journal_not_regular",
            Self::Denied { .. } => "journal_access_denied",
            Self::Io { .. } => "journal_unusable",
            Self::Thread { .. } => "journal_thread_failed",
        }
    }
}

/// One record did not reach the disk. The journal goes on; the outcome, if it was one, is kept in memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No room on the disk or in the account's quota.
    #[error("no room is left on the disk: {0}")]
    DiskFull(io::Error),
    /// The file system is mounted read-only.
    #[error("the file system is read-only: {0}")]
    ReadOnly(io::Error),
    /// Anything else the system refused.
    #[error("{0}")]
    Io(io::Error),
    /// The record is longer than the journal takes.
    #[error("a record of {length} bytes is too large for the journal")]
    TooLarge {
        /// Its length in bytes.
        length: usize,
    },
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
}

impl Fault {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::DiskFull(_) => "journal_disk_full",
            Self::ReadOnly(_) => "journal_read_only",
            Self::Io(_) => "journal_write_failed",
            Self::TooLarge { .. } => "journal_record_too_large",
            Self::Closed => "journal_closed",
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::DiskFull(error)
            }
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(error),
            _ => Self::Io(error),
        }
    }
}
