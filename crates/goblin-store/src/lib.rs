//! The embedded store behind the ports: one SQLite file in the controller's state directory, secrets sealed under a
//! key that lives beside it.
//!
//! It owns the directory's lock, the file modes, the schema and the cipher. It must never know what a setting or a
//! secret means, nor take the time.
//!
//! # Durability
//! A setting or a secret decides whom the controller trusts, so its commit reaches the disk before the call returns
//! (`synchronous=FULL`). An operation record is written twice per operation and only survives the end of the process
//! for certain (`synchronous=NORMAL`): a power cut may cost the last of them, never the file. What a power cut takes
//! the gateway's journal still answers.

mod error;
mod key;
mod operations;
mod schema;
mod seal;
mod secrets;
mod session;
mod settings;
mod state_directory;
#[cfg(test)]
mod tests;
mod tokens;

use std::{
    path::Path,
    sync::atomic::{AtomicI64, Ordering},
};

use goblin_ports::PortError;

pub use error::StoreError;

use key::KeySource;
use seal::Sealer;
use session::{Durability, Session, Slot};
use state_directory::StateDirectory;

/// The embedded store. Share it as an `Arc`; it serves [`goblin_ports::Settings`], [`goblin_ports::Secrets`],
/// [`goblin_ports::Operations`] and [`goblin_ports::Tokens`].
pub struct Store {
    slot: Slot,
    sealer: Sealer,
    /// Sequence of the operation changed last.
    sequence: AtomicI64,
}

impl Store {
    /// Opens the store of a state directory, creating both where they are missing, and holds the directory's lock
    /// until [`Store::close`] or drop. `key_file` names the key's file; without it the key is `secrets.key` in the
    /// directory, made on first start. `now` (ISO 8601) is recorded when the store is new.
    ///
    /// Every secret is opened once here, so a wrong key or an altered record shows at start-up.
    ///
    /// # Errors
    /// See [`StoreError`]; nothing that exists is overwritten by a failed opening.
    pub async fn open(directory: &Path, key_file: Option<&Path>, now: &str) -> Result<Self, StoreError> {
        Self::open_bounded(directory, key_file, now, None).await
    }

    /// As [`Store::open`], with the database held to so many pages where a bound is given.
    async fn open_bounded(
        directory: &Path,
        key_file: Option<&Path>,
        now: &str,
        pages_max: Option<u32>,
    ) -> Result<Self, StoreError> {
        let directory = StateDirectory::lock(directory)?;
        let database = directory.private_database()?;
        let key_source = match key_file {
            Some(path) => KeySource::Given(path.to_owned()),
            None => KeySource::Own(directory.path().join(key::KEY_FILE)),
        };
        let mut session = Session::connect(&database).await?;
        let (sealer, sequence) = match prepare(&mut session, &directory, &key_source, now, pages_max).await {
            Ok(prepared) => prepared,
            Err(error) => {
                // Closed before the lock goes, so that no side file stays and the next opening meets no old connection.
                session.close().await;
                return Err(error.at(&database));
            }
        };
        Ok(Self {
            slot: Slot::new(database, pages_max, session, directory),
            sealer,
            sequence: AtomicI64::new(sequence),
        })
    }

    /// Writes a consistent copy of the store to `target` (mode 0600) while it serves. The key is not in it: secrets in
    /// the copy open only under the key of this store. An existing file is not replaced.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; a half-written copy is removed.
    pub async fn backup(&self, target: &Path) -> Result<(), StoreError> {
        let partial = state_directory::PartialFile::beside(target)?;
        let text = state_directory::utf8(partial.path())?;
        let mut lent = self.slot.lend(Durability::Process).await?;
        sqlx::query("VACUUM INTO $1")
            .bind(text)
            .execute(&mut lent.session.connection)
            .await
            .map_err(error::database)?;
        lent.give_back();
        partial.publish(target)
    }

    /// Folds the write-ahead log into the file, closes it and gives the directory's lock back. Calls that come later
    /// answer `store_unavailable`.
    pub async fn close(&self) {
        self.slot.close().await;
    }

    /// The next sequence; taken while the session is lent, so that sequences follow the order of the writes.
    fn next_sequence(&self) -> i64 {
        self.sequence.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Brings the database to where it can serve. The key is proven before anything is written.
async fn prepare(
    session: &mut Session,
    directory: &StateDirectory,
    key_source: &KeySource,
    now: &str,
    pages_max: Option<u32>,
) -> Result<(Sealer, i64), StoreError> {
    let version = schema::version(session, schema::MIGRATIONS.len()).await?;
    let sealer = if version == 0 {
        Sealer::new(&key_source.load_or_create()?)?
    } else {
        let sealer = Sealer::new(&key_source.load()?)?;
        schema::verify_key(session, &sealer, key_source.path()).await?;
        sealer
    };
    session.tune(pages_max).await?;
    schema::migrate(session, version, schema::MIGRATIONS, &sealer, now).await?;
    if version == 0 {
        directory.sync()?;
    }
    secrets::verify_all(session, &sealer).await?;
    let sequence = operations::last_sequence(session).await?;
    Ok((sealer, sequence))
}

/// A record that this store itself cannot have written.
fn corrupt(what: &str) -> PortError {
    PortError::Corrupt(what.to_owned())
}
