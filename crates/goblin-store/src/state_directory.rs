//! The state directory: its lock, and files that nobody else may read whatever the umask.
//! It must never know what the files hold.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, OFlags, RenameFlags};

use crate::StoreError;

/// Name of the database in the state directory.
pub(crate) const DATABASE_FILE: &str = "controller.db";
const LOCK_FILE: &str = "controller.lock";
const PRIVATE: u32 = 0o600;

/// A state directory held by this process until dropped.
pub(crate) struct StateDirectory {
    path: PathBuf,
    lock: File,
}

impl StateDirectory {
    /// Creates the directory where it is missing and locks it. The lock dies with the process, so a crash leaves none.
    pub(crate) fn lock(path: &Path) -> Result<Self, StoreError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| StoreError::io("create", path, error))?;
        let path = path
            .canonicalize()
            .map_err(|error| StoreError::io("resolve", path, error))?;
        let metadata = fs::metadata(&path).map_err(|error| StoreError::io("inspect", &path, error))?;
        // Whoever may write here could put a key, or a socket that is offered secrets, in the place of ours.
        if metadata.mode() & 0o022 != 0 {
            return Err(StoreError::DirectoryExposed { path });
        }
        let lock_path = path.join(LOCK_FILE);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(PRIVATE)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&lock_path)
            .map_err(|error| StoreError::io("open", &lock_path, error))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                // The holder may be between locking and writing; then the process stays unnamed.
                let pid = (&lock)
                    .take(32)
                    .read_to_string(&mut text)
                    .ok()
                    .and_then(|_| text.trim().parse().ok());
                return Err(StoreError::Locked { directory: path, pid });
            }
            Err(error) => return Err(StoreError::io("lock", &lock_path, error)),
        }
        // The pid is for people; a full disk must not keep a store from opening for it.
        let _ = lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id()));
        Ok(Self { path, lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Path of the database, which exists with mode 0600 afterwards. SQLite gives its side files the same mode.
    ///
    /// An existing file is not opened here: closing a second descriptor would drop the record locks that SQLite holds.
    pub(crate) fn private_database(&self) -> Result<PathBuf, StoreError> {
        let path = self.path.join(DATABASE_FILE);
        match create_private(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(StoreError::io("create", &path, error)),
        }
        let metadata = fs::symlink_metadata(&path).map_err(|error| StoreError::io("inspect", &path, error))?;
        if !metadata.is_file() {
            return Err(StoreError::Corrupt {
                path,
                reason: "it is not a regular file".to_owned(),
            });
        }
        if metadata.mode() & 0o777 != PRIVATE {
            fs::set_permissions(&path, Permissions::from_mode(PRIVATE))
                .map_err(|error| StoreError::io("chmod", &path, error))?;
        }
        Ok(path)
    }

    /// Makes the names of new files durable.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        sync_directory(&self.path)
    }
}

impl Drop for StateDirectory {
    /// Closing alone would not do: a child between fork and exec still shares the descriptor, and the lock with it.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.lock, FlockOperation::Unlock);
    }
}

/// Creates a new empty file with mode 0600 exactly.
fn create_private(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(PRIVATE))?;
    Ok(file)
}

fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| StoreError::io("sync", path, error))
}

/// A private file under a provisional name, removed when dropped unless published.
pub(crate) struct PartialFile {
    path: PathBuf,
    published: bool,
}

impl PartialFile {
    /// An empty private file in the directory of `target`. A left-over of an earlier crash is replaced.
    pub(crate) fn beside(target: &Path) -> Result<Self, StoreError> {
        let Some(name) = target.file_name() else {
            return Err(StoreError::Unavailable(format!(
                "{} does not name a file",
                target.display()
            )));
        };
        let mut partial = std::ffi::OsString::from(".");
        partial.push(name);
        partial.push(".partial");
        let path = target.with_file_name(partial);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(StoreError::io("remove", &path, error)),
            _ => {}
        }
        create_private(&path).map_err(|error| StoreError::io("create", &path, error))?;
        Ok(Self { path, published: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the whole content.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), StoreError> {
        OpenOptions::new()
            .write(true)
            .open(&self.path)
            .and_then(|mut file| file.write_all(content))
            .map_err(|error| StoreError::io("write", &self.path, error))
    }

    /// Makes the content durable and gives it its name, unless a file of that name exists.
    pub(crate) fn publish(mut self, target: &Path) -> Result<(), StoreError> {
        File::open(&self.path)
            .and_then(|file| file.sync_all())
            .map_err(|error| StoreError::io("sync", &self.path, error))?;
        let here = rustix::fs::CWD;
        rustix::fs::renameat_with(here, &self.path, here, target, RenameFlags::NOREPLACE)
            .map_err(|error| StoreError::io("create", target, error))?;
        self.published = true;
        match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
            _ => sync_directory(Path::new(".")),
        }
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if !self.published {
            // Best effort: the next attempt replaces a left-over.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The path as text, for a database that takes no other.
pub(crate) fn utf8(path: &Path) -> Result<&str, StoreError> {
    path.to_str()
        .ok_or_else(|| StoreError::Unavailable(format!("the path {} is not UTF-8", path.display())))
}
