//! The secrets port over the table `secrets`: sealed texts by name. The database never sees a plain one.

use async_trait::async_trait;
use goblin_ports::{PortError, Secret, Secrets, check_name, check_secret};
use sqlx::Row;

use crate::{
    Store,
    error::database,
    seal::Sealer,
    session::{Durability, Session},
};

/// Records read at a time when all are verified.
const VERIFY_BATCH: i64 = 64;

/// What a record is sealed with beside the key, so that no record can stand in for another.
fn context(name: &str) -> String {
    format!("secret:{name}")
}

#[async_trait]
impl Secrets for Store {
    async fn get(&self, name: &str) -> Result<Option<Secret>, PortError> {
        check_name(name)?;
        let mut lent = self.slot.lend(Durability::Process).await?;
        let sealed = read(&mut lent.session, name).await?;
        lent.give_back();
        sealed.map(|sealed| open(&self.sealer, name, &sealed)).transpose()
    }

    async fn set(&self, name: &str, secret: Secret) -> Result<(), PortError> {
        check_secret(name, &secret)?;
        let sealed = self.sealer.seal(&context(name), secret.expose())?;
        let mut lent = self.slot.lend(Durability::Power).await?;
        sqlx::query(
            "INSERT INTO secrets (name, sealed) VALUES ($1, $2) \
             ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed",
        )
        .bind(name)
        .bind(sealed)
        .execute(&mut lent.session.connection)
        .await
        .map_err(database)?;
        lent.give_back();
        Ok(())
    }

    async fn clear(&self, name: &str) -> Result<(), PortError> {
        check_name(name)?;
        let mut lent = self.slot.lend(Durability::Power).await?;
        sqlx::query("DELETE FROM secrets WHERE name = $1")
            .bind(name)
            .execute(&mut lent.session.connection)
            .await
            .map_err(database)?;
        lent.give_back();
        Ok(())
    }

    async fn has(&self, name: &str) -> Result<bool, PortError> {
        check_name(name)?;
        let mut lent = self.slot.lend(Durability::Process).await?;
        let sealed = read(&mut lent.session, name).await?;
        lent.give_back();
        Ok(sealed.is_some())
    }
}

/// Opens every secret once.
///
/// # Errors
/// [`PortError::SecretTampered`] names the first that does not open.
pub(crate) async fn verify_all(session: &mut Session, sealer: &Sealer) -> Result<(), PortError> {
    let mut after = String::new();
    loop {
        let rows = sqlx::query("SELECT name, sealed FROM secrets WHERE name > $1 ORDER BY name LIMIT $2")
            .bind(after.as_str())
            .bind(VERIFY_BATCH)
            .fetch_all(&mut session.connection)
            .await
            .map_err(database)?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            after = row.try_get("name").map_err(database)?;
            open(sealer, &after, row.try_get("sealed").map_err(database)?)?;
        }
    }
}

fn open(sealer: &Sealer, name: &str, sealed: &str) -> Result<Secret, PortError> {
    sealer
        .open(&context(name), sealed)
        .ok_or_else(|| PortError::SecretTampered { name: name.to_owned() })
}

async fn read(session: &mut Session, name: &str) -> Result<Option<String>, PortError> {
    let row = sqlx::query("SELECT sealed FROM secrets WHERE name = $1")
        .bind(name)
        .fetch_optional(&mut session.connection)
        .await
        .map_err(database)?;
    row.map(|row| row.try_get(0).map_err(database)).transpose()
}
