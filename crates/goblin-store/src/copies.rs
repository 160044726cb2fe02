//! Copies of a store: on demand while it serves or rests, before a migration, and the way back from one.
//!
//! A copy is made by the database itself, so it is of one moment whatever is written meanwhile. The key is never in it.
//! It must never overwrite a file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use sqlx::Row;

use crate::{
    StoreError,
    error::database,
    key::{KEY_FILE, KeySource},
    schema::{MIGRATIONS, verify_key, version},
    seal::Sealer,
    secrets,
    session::Session,
    state_directory::{DATABASE_FILE, PartialFile, StateDirectory, utf8},
};

/// Files that SQLite keeps beside a database while it is open, and after a crash.
const SIDE_FILES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Copies the store of a state directory to `target` (mode 0600), whether a controller runs there or not: this is one
/// more reader of the same database, from another process. A store that an older program wrote is copied as it is.
///
/// The key is not in the copy: its secrets open only under the key of this store. An existing file is not replaced.
///
/// # Errors
/// [`StoreError::Absent`], [`StoreError::NewerVersion`], [`StoreError::Corrupt`], [`StoreError::Unavailable`]; a
/// half-written copy is removed.
pub async fn backup(directory: &Path, target: &Path) -> Result<(), StoreError> {
    let path = directory.join(DATABASE_FILE);
    match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_file() => {}
        Ok(_) => return Err(not_regular(&path)),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(StoreError::Absent { path }),
        Err(error) => return Err(StoreError::io("inspect", &path, error)),
    }
    let mut session = Session::connect(&path).await?;
    let copied = async {
        known_version(&mut session, &path).await?;
        write(&mut session, target).await
    };
    let copied = copied.await;
    session.close().await;
    copied.map_err(|error| error.at(&path))
}

/// Makes a state directory's store from the copy in `source`, once it is proven sound, of a known version, and open under
/// the key: `key_file`, or `secrets.key` in the directory. A store of an older version is migrated when it is opened.
///
/// # Errors
/// [`StoreError::Exists`] where there is a store, [`StoreError::Locked`] while a controller runs, and those of
/// [`crate::Store::open`]. After an error nothing has been restored.
pub async fn restore(source: &Path, directory: &Path, key_file: Option<&Path>) -> Result<(), StoreError> {
    let directory = StateDirectory::lock(directory)?;
    let database = directory.path().join(DATABASE_FILE);
    for path in [database.clone()].into_iter().chain(side_files(&database)) {
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(StoreError::io("inspect", &path, error)),
            Ok(_) => return Err(StoreError::Exists { path }),
        }
    }
    let key_source = match key_file {
        Some(path) => KeySource::Given(path.to_owned()),
        None => KeySource::Own(directory.path().join(KEY_FILE)),
    };
    let partial = PartialFile::beside(&database)?;
    copy(source, partial.path())?;
    let mut session = Session::connect(partial.path())
        .await
        .map_err(|error| StoreError::from(error).at(source))?;
    let checked = check(&mut session, source, &key_source).await;
    session.close().await;
    checked.map_err(|error| error.at(source))?;
    partial.publish(&database)
}

/// Copies the open store, of an older version, beside itself. The name tells the version and the time.
pub(crate) async fn before_migration(
    session: &mut Session,
    directory: &StateDirectory,
    version: usize,
    now: &str,
) -> Result<(), StoreError> {
    let time: String = now.chars().filter(char::is_ascii_alphanumeric).collect();
    let target = directory.path().join(format!("controller-v{version}-{time}.db"));
    write(session, &target).await?;
    tracing::info!(copy = %target.display(), version, "the store was copied before its migration");
    Ok(())
}

/// Writes a copy of the open store.
pub(crate) async fn write(session: &mut Session, target: &Path) -> Result<(), StoreError> {
    let partial = PartialFile::beside(target)?;
    sqlx::query("VACUUM INTO $1")
        .bind(utf8(partial.path())?)
        .execute(&mut session.connection)
        .await
        .map_err(database)?;
    partial.publish(target)
}

/// Copies bytes from a file at rest.
fn copy(source: &Path, target: &Path) -> Result<(), StoreError> {
    if side_files(source).any(|path| fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)) {
        return Err(StoreError::Corrupt {
            path: source.to_owned(),
            reason: "it has a log beside it, so it is in use or was copied from a store in use; restore a backup"
                .to_owned(),
        });
    }
    // Non-blocking, so that a FIFO in its place is refused rather than waited for.
    let mut from = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(source)
        .map_err(|error| StoreError::io("open", source, error))?;
    if !from.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(not_regular(source));
    }
    File::options()
        .write(true)
        .open(target)
        .and_then(|mut to| io::copy(&mut from, &mut to))
        .map(drop)
        .map_err(|error| StoreError::io("write", target, error))
}

async fn check(session: &mut Session, source: &Path, key_source: &KeySource) -> Result<(), StoreError> {
    known_version(session, source).await?;
    let verdict = sqlx::query("PRAGMA integrity_check(1)")
        .fetch_one(&mut session.connection)
        .await
        .map_err(database)?;
    let verdict: String = verdict.try_get(0).map_err(database)?;
    if verdict != "ok" {
        return Err(StoreError::Corrupt {
            path: source.to_owned(),
            reason: verdict,
        });
    }
    let sealer = Sealer::new(&key_source.load()?)?;
    verify_key(session, &sealer, key_source.path()).await?;
    Ok(secrets::verify_all(session, &sealer).await?)
}

async fn known_version(session: &mut Session, path: &Path) -> Result<(), StoreError> {
    match version(session, MIGRATIONS.len()).await? {
        0 => Err(StoreError::Corrupt {
            path: path.to_owned(),
            reason: "it is empty".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn side_files(database: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let name = database.as_os_str().to_owned();
    SIDE_FILES.into_iter().map(move |suffix| {
        let mut path = name.clone();
        path.push(suffix);
        path.into()
    })
}

fn not_regular(path: &Path) -> StoreError {
    StoreError::Corrupt {
        path: path.to_owned(),
        reason: "it is not a regular file".to_owned(),
    }
}
