//! What can go wrong when a store is opened, and how database errors become port errors.
//! It must never carry a record's content.

use std::path::{Path, PathBuf};

use goblin_ports::PortError;
use thiserror::Error;

/// Why a store did not open, or was not copied. Each message names the culprit and, where there is one, the remedy.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The disk, the directory or the database does not serve.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// Another controller holds the directory.
    #[error("{} is in use by another controller ({})", directory.display(), holder(*pid))]
    Locked {
        /// The state directory.
        directory: PathBuf,
        /// Process that wrote the lock file last, when readable.
        pid: Option<u32>,
    },
    /// Others could replace the files.
    #[error("{path} is writable by other users; mend it with: chmod go-w {path}", path = path.display())]
    DirectoryExposed {
        /// The state directory.
        path: PathBuf,
    },
    /// A later version of the program wrote this store.
    #[error("the store has schema version {found}, this program knows up to {known}: use the newer program")]
    NewerVersion {
        /// Version in the store.
        found: i64,
        /// Newest version this program knows.
        known: i64,
    },
    /// The file is damaged, or was made by something else.
    #[error("{} is not a sound controller store: {reason}", path.display())]
    Corrupt {
        /// The database file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// The store has secrets but the key is not where it was looked for.
    #[error("the key of the secrets is missing: {} does not exist; put the key of this store back there", path.display())]
    KeyMissing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Other users can read the key.
    #[error("{path} can be read by other users; mend it with: chmod 600 {path}", path = path.display())]
    KeyExposed {
        /// The key file.
        path: PathBuf,
    },
    /// The key file does not hold a key.
    #[error("{} does not hold a key: it must be a regular file of 64 hexadecimal digits", path.display())]
    KeyInvalid {
        /// The key file.
        path: PathBuf,
    },
    /// The key is not the one this store was made with.
    #[error("the key in {} is not the key of this store; nothing was changed", path.display())]
    KeyWrong {
        /// The key file.
        path: PathBuf,
    },
    /// A secret was changed from outside.
    #[error("the secret {name:?} was altered outside the controller; restore the store from a backup")]
    SecretTampered {
        /// Name of the record.
        name: String,
    },
}

impl StoreError {
    /// The stable snake_case code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "store_unavailable",
            Self::Locked { .. } => "store_locked",
            Self::DirectoryExposed { .. } => "state_directory_exposed",
            Self::NewerVersion { .. } => "store_newer_version",
            Self::Corrupt { .. } => "store_corrupt",
            Self::KeyMissing { .. } => "secrets_key_missing",
            Self::KeyExposed { .. } => "secrets_key_exposed",
            Self::KeyInvalid { .. } => "secrets_key_invalid",
            Self::KeyWrong { .. } => "secrets_key_wrong",
            Self::SecretTampered { .. } => "secret_tampered",
        }
    }

    /// Names the database in an error that does not know it.
    pub(crate) fn at(self, database: &Path) -> Self {
        match self {
            Self::Corrupt { reason, .. } => Self::Corrupt {
                path: database.to_owned(),
                reason,
            },
            other => other,
        }
    }

    /// An operation on `path` that the system refused.
    pub(crate) fn io(doing: &str, path: &Path, error: impl Into<std::io::Error>) -> Self {
        Self::Unavailable(format!("{doing} {}: {}", path.display(), error.into()))
    }
}

impl From<PortError> for StoreError {
    fn from(error: PortError) -> Self {
        match error {
            PortError::SecretTampered { name } => Self::SecretTampered { name },
            PortError::Corrupt(reason) => Self::Corrupt {
                path: PathBuf::from(crate::state_directory::DATABASE_FILE),
                reason,
            },
            PortError::Unavailable(reason) => Self::Unavailable(reason),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "process unknown".to_owned(), |pid| format!("process {pid}"))
}

/// SQLite's primary result codes of a damaged or foreign file.
const SQLITE_CORRUPT: i32 = 11;
const SQLITE_NOTADB: i32 = 26;

/// Sorts a database error: damage, or something that may pass (full, busy, read-only, closed).
pub(crate) fn database(error: sqlx::Error) -> PortError {
    match &error {
        sqlx::Error::Database(inner) => {
            let code = inner
                .code()
                .and_then(|code| code.parse::<i32>().ok())
                .map(|code| code & 0xff);
            match code {
                Some(SQLITE_CORRUPT | SQLITE_NOTADB) => PortError::Corrupt(inner.message().to_owned()),
                _ => PortError::Unavailable(inner.message().to_owned()),
            }
        }
        sqlx::Error::ColumnDecode { index, .. } => PortError::Corrupt(format!("column {index} has another type")),
        _ => PortError::Unavailable(error.to_string()),
    }
}
