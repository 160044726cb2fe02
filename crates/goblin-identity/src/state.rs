//! A locked state directory: opening it, where things lie in it, and unpairing. It must never know what a file of
//! another crate holds.

use std::path::{Path, PathBuf};

use crate::error::IdentityError;
use crate::identity::IDENTITY_FILE;
use crate::lock::{LOCK_FILE, Lock};
use crate::pairing::PAIRING_FILE;
use crate::private_file::{Privacy, PrivateDirectory};
use crate::trust::{CONSUMED_FILE, TRUST_FILE};

const JOURNAL_FILE: &str = "operations.json";
const NOTES_FOLDER: &str = "temporary-notes";

/// Files that this crate writes.
const OWN_FILES: [&str; 4] = [IDENTITY_FILE, TRUST_FILE, CONSUMED_FILE, PAIRING_FILE];

/// Names by which a directory is known to be a state directory.
const KNOWN: [&str; 6] = [
    IDENTITY_FILE,
    TRUST_FILE,
    CONSUMED_FILE,
    PAIRING_FILE,
    LOCK_FILE,
    JOURNAL_FILE,
];

/// A state directory that this process alone works on, until this value is dropped.
#[derive(Debug)]
pub struct StateDir {
    files: PrivateDirectory,
    _lock: Lock,
}

impl StateDir {
    /// Creates the directory where it is missing (mode 0700, parents too), takes the lock, and checks that keys and
    /// secrets in it are private. What others could read in a directory that is plainly a state directory is closed by
    /// making the directory private; see [`PrivateDirectory::open`].
    ///
    /// Nothing is created but the lock: an identity is made by [`StateDir::load_or_create_identity`]. A directory on a
    /// read-only file system is opened as it is; storing anything in it then fails.
    ///
    /// What the files hold is not read, so that unpairing can do away with a broken one; see [`StateDir::check`].
    pub fn open(path: &Path) -> Result<Self, IdentityError> {
        let files = PrivateDirectory::open(path, &KNOWN)?;
        let lock = Lock::take(&files)?;
        for name in [IDENTITY_FILE, TRUST_FILE] {
            files.check(name, Privacy::Secret)?;
        }
        for name in OWN_FILES {
            files.clear_leftover(name)?;
        }
        Ok(Self { files, _lock: lock })
    }

    /// Whether every file that this version must understand can be understood: to be asked at a daemon's start, whatever
    /// the daemon then needs. The error names the file and the reason.
    pub fn check(&self) -> Result<(), IdentityError> {
        self.load_identity()?;
        self.load_trust()?;
        Ok(())
    }

    /// The directory's absolute path.
    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// Where the journal lies unless configured elsewhere; its log segments lie beside it.
    pub fn journal_file(&self) -> PathBuf {
        self.files.join(JOURNAL_FILE)
    }

    /// The folder of temporary notes. It is not created here.
    pub fn temporary_notes(&self) -> PathBuf {
        self.files.join(NOTES_FOLDER)
    }

    /// Forgets the controller: trust, pins and pairing code go, and any enrolment token is inert from now on. The key
    /// pair and the journal stay. `now` is in milliseconds since 1970.
    ///
    /// The marker is written first, so that a crash in the middle can't let an old token enrol the host again; the
    /// command can then be repeated.
    pub fn unpair(&self, now: i64) -> Result<(), IdentityError> {
        self.consume_enrollment(now)?;
        self.files.remove(TRUST_FILE)?;
        self.remove_pins()?;
        self.remove_pairing_code()
    }

    pub(crate) fn files(&self) -> &PrivateDirectory {
        &self.files
    }
}
