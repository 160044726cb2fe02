//! The tokens port over the table `tokens`: digests of tokens, never the tokens.

use async_trait::async_trait;
use goblin_ports::{PortError, TokenRecord, TokenScope, Tokens, check_token, token_exists};
use sqlx::{Row, any::AnyRow};

use crate::{Store, corrupt, error::database, session::Durability};

#[async_trait]
impl Tokens for Store {
    async fn all(&self) -> Result<Vec<TokenRecord>, PortError> {
        let mut lent = self.slot.lend(Durability::Process).await?;
        let rows = sqlx::query("SELECT id, name, scope, digest, created_at, expires_at FROM tokens ORDER BY sequence")
            .fetch_all(&mut lent.session.connection)
            .await
            .map_err(database)?;
        lent.give_back();
        rows.iter().map(record).collect()
    }

    async fn add(&self, record: TokenRecord) -> Result<(), PortError> {
        check_token(&record)?;
        let mut lent = self.slot.lend(Durability::Power).await?;
        // One statement, so that it is there wholly or not at all.
        let added = sqlx::query(
            "INSERT INTO tokens (id, sequence, name, scope, digest, created_at, expires_at) \
             SELECT $1, COALESCE(MAX(sequence), 0) + 1, $2, $3, $4, $5, $6 FROM tokens WHERE TRUE \
             ON CONFLICT DO NOTHING",
        )
        .bind(record.id.as_str())
        .bind(record.name)
        .bind(record.scope.as_str())
        .bind(record.digest)
        .bind(record.created_at)
        .bind(record.expires_at)
        .execute(&mut lent.session.connection)
        .await
        .map_err(database)?;
        lent.give_back();
        match added.rows_affected() {
            0 => Err(token_exists(&record.id)),
            _ => Ok(()),
        }
    }

    async fn remove(&self, id: &str) -> Result<(), PortError> {
        let mut lent = self.slot.lend(Durability::Power).await?;
        sqlx::query("DELETE FROM tokens WHERE id = $1")
            .bind(id)
            .execute(&mut lent.session.connection)
            .await
            .map_err(database)?;
        lent.give_back();
        Ok(())
    }
}

fn record(row: &AnyRow) -> Result<TokenRecord, PortError> {
    let scope: &str = row.try_get("scope").map_err(database)?;
    Ok(TokenRecord {
        id: row.try_get("id").map_err(database)?,
        name: row.try_get("name").map_err(database)?,
        scope: TokenScope::of(scope).ok_or_else(|| corrupt("a token has an unknown scope"))?,
        digest: row.try_get("digest").map_err(database)?,
        created_at: row.try_get("created_at").map_err(database)?,
        expires_at: row.try_get("expires_at").map_err(database)?,
    })
}
