//! The settings port over the table `settings`: compact JSON texts by name.

use async_trait::async_trait;
use goblin_ports::{Change, Decide, PortError, Settings, check_name, check_setting};
use serde_json::Value;
use sqlx::Row;

use crate::{
    Store,
    error::database,
    session::{Durability, Session},
};

#[async_trait]
impl Settings for Store {
    async fn get(&self, name: &str) -> Result<Option<Value>, PortError> {
        check_name(name)?;
        let mut lent = self.slot.lend(Durability::Process).await?;
        let text = read(&mut lent.session, name).await?;
        lent.give_back();
        parse(name, text)
    }

    async fn update<'f>(&self, name: &str, decide: Decide<'f>) -> Result<(), PortError> {
        check_name(name)?;
        let mut lent = self.slot.lend(Durability::Power).await?;
        lent.session.begin().await?;
        let text = read(&mut lent.session, name).await?;
        let refused = match parse(name, text).map(decide) {
            Ok(Change::Keep) => Some(Ok(())),
            Ok(Change::Delete) => {
                remove(&mut lent.session, name).await?;
                None
            }
            Ok(Change::Set(value)) => match check_setting(name, &value) {
                Ok(text) => {
                    write(&mut lent.session, name, &text).await?;
                    None
                }
                Err(error) => Some(Err(error)),
            },
            Err(error) => Some(Err(error)),
        };
        match refused {
            None => lent.session.commit().await?,
            Some(_) => lent.session.rollback().await?,
        }
        lent.give_back();
        refused.unwrap_or(Ok(()))
    }

    async fn set(&self, name: &str, value: Value) -> Result<(), PortError> {
        let text = check_setting(name, &value)?;
        let mut lent = self.slot.lend(Durability::Power).await?;
        write(&mut lent.session, name, &text).await?;
        lent.give_back();
        Ok(())
    }

    async fn delete(&self, name: &str) -> Result<(), PortError> {
        check_name(name)?;
        let mut lent = self.slot.lend(Durability::Power).await?;
        remove(&mut lent.session, name).await?;
        lent.give_back();
        Ok(())
    }
}

async fn read(session: &mut Session, name: &str) -> Result<Option<String>, PortError> {
    let row = sqlx::query("SELECT value FROM settings WHERE name = $1")
        .bind(name)
        .fetch_optional(&mut session.connection)
        .await
        .map_err(database)?;
    row.map(|row| row.try_get(0).map_err(database)).transpose()
}

fn parse(name: &str, text: Option<String>) -> Result<Option<Value>, PortError> {
    text.map(|text| serde_json::from_str(&text))
        .transpose()
        .map_err(|_| PortError::Corrupt(format!("the setting {name:?} is not JSON")))
}

async fn write(session: &mut Session, name: &str, text: &str) -> Result<(), PortError> {
    sqlx::query(
        "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .bind(text)
    .execute(&mut session.connection)
    .await
    .map(drop)
    .map_err(database)
}

async fn remove(session: &mut Session, name: &str) -> Result<(), PortError> {
    sqlx::query("DELETE FROM settings WHERE name = $1")
        .bind(name)
        .execute(&mut session.connection)
        .await
        .map(drop)
        .map_err(database)
}
