//! What can be wrong with a state directory. Each error names the file and, where there is one, the remedy. It must
//! never hold what stands in a file.

use std::io;
use std::path::{Path, PathBuf};

/// Why a state directory can't be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The environment: a system call failed.
    #[error("can't {action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// Another daemon works on the directory.
    #[error("the state directory {} is in use by another daemon{}", path.display(), holder(*pid))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that holds the lock, unless it has not written its number yet.
        pid: Option<u32>,
    },
    /// The directory is open to others and not plainly ours, so its mode was left alone.
    #[error("the state directory {} has mode {mode:04o}, open to other users; make it private: chmod 700 '{}'", path.display(), path.display())]
    DirectoryExposed {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The directory belongs to another account.
    #[error("the state directory {} belongs to user {owner}, not to the account of this process", path.display())]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
    },
    /// A key or secret can be read or written by others.
    #[error("{} has mode {mode:04o}, so other users could have read it; make it private: chmod 600 '{}'", path.display(), path.display())]
    FileExposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link, folder or device stands where a file should.
    #[error("{} is no regular file", path.display())]
    NotRegular {
        /// The path.
        path: PathBuf,
    },
    /// The file can't be understood. It was left as it is.
    #[error("{} can't be used: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it; never its content.
        reason: String,
    },
    /// Another controller's key is pinned already. Only unpairing removes a pin.
    #[error("{} already pins another controller key", path.display())]
    AlreadyPinned {
        /// The identity file.
        path: PathBuf,
    },
    /// The environment: no key could be generated.
    #[error(transparent)]
    Key(#[from] goblin_keys::KeyError),
}

impl IdentityError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "state_directory_io",
            Self::InUse { .. } => "state_directory_in_use",
            Self::DirectoryExposed { .. } => "state_directory_exposed",
            Self::ForeignDirectory { .. } => "state_directory_foreign",
            Self::FileExposed { .. } => "state_file_exposed",
            Self::NotRegular { .. } => "state_file_not_regular",
            Self::Invalid { .. } => "state_file_invalid",
            Self::AlreadyPinned { .. } => "controller_already_pinned",
            Self::Key(error) => error.code(),
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source: source.into(),
        }
    }

    pub(crate) fn invalid(path: &Path, reason: impl Into<String>) -> Self {
        Self::Invalid {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}
