//! The tables, their version, and the way forward from older versions.
//! It must never go back: a store of a newer version is left alone.

use std::path::{Path, PathBuf};

use goblin_ports::PortError;
use sqlx::Row;

use crate::{
    StoreError, corrupt,
    error::database,
    seal::Sealer,
    session::{Durability, Session},
    state_directory::DATABASE_FILE,
};

/// One list of statements per version; a store of version n has run the first n. Never edited once released: a change
/// is one more list. Columns are TEXT and BIGINT alone, which every database behind the driver shares.
pub(crate) const MIGRATIONS: &[&[&str]] = &[
    &[
        "CREATE TABLE settings (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
        "CREATE TABLE secrets (name TEXT NOT NULL PRIMARY KEY, sealed TEXT NOT NULL)",
        "CREATE TABLE operations (
        operation_id TEXT NOT NULL PRIMARY KEY,
        sequence BIGINT NOT NULL,
        parent_run_id TEXT,
        tool_call_id TEXT,
        gateway_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        request_digest TEXT NOT NULL,
        state TEXT NOT NULL,
        terminal_operation_id TEXT,
        terminal_replay BIGINT,
        terminal_outcome_digest TEXT,
        note TEXT,
        updated_at TEXT NOT NULL
    )",
        // The one index: a record is written twice per operation and rarely read, and each index costs a page per write.
        // The table stays small, since settled records are bounded.
        "CREATE INDEX operations_settled ON operations (sequence) WHERE state <> 'dispatching'",
    ],
    &["CREATE TABLE tokens (
        id TEXT NOT NULL PRIMARY KEY,
        sequence BIGINT NOT NULL,
        name TEXT NOT NULL,
        scope TEXT NOT NULL,
        digest TEXT NOT NULL UNIQUE,
        created_at TEXT NOT NULL,
        expires_at TEXT
    )"],
];

const SCHEMA_VERSION: &str = "schema_version";
const CREATED_AT: &str = "created_at";
const KEY_CHECK: &str = "key_check";
/// Associated data of the key check; no secret's context begins so.
const KEY_CHECK_CONTEXT: &str = "meta:key_check";
const KEY_CHECK_TEXT: &str = "this key opens this store";

/// The version of the store, 0 when it is empty. Reads only.
///
/// # Errors
/// [`StoreError::NewerVersion`] beyond `known`, [`StoreError::Corrupt`] for a file that is no store of ours.
pub(crate) async fn version(session: &mut Session, known: usize) -> Result<usize, StoreError> {
    let tables = sqlx::query("SELECT name FROM sqlite_master WHERE type = 'table'")
        .fetch_all(&mut session.connection)
        .await
        .map_err(database)?;
    if tables.is_empty() {
        return Ok(0);
    }
    let has_meta = tables
        .iter()
        .any(|row| row.try_get::<&str, _>(0).is_ok_and(|name| name == "meta"));
    let text = if has_meta {
        meta(session, SCHEMA_VERSION).await?
    } else {
        None
    };
    let found = text
        .and_then(|text| text.parse::<i64>().ok())
        .filter(|version| *version > 0)
        .ok_or_else(|| StoreError::Corrupt {
            path: PathBuf::from(DATABASE_FILE),
            reason: "it names no schema version".to_owned(),
        })?;
    match usize::try_from(found) {
        Ok(version) if version <= known => Ok(version),
        _ => Err(StoreError::NewerVersion {
            found,
            known: known as i64,
        }),
    }
}

/// Brings a store of version `from` to the newest, wholly or not at all.
pub(crate) async fn migrate(
    session: &mut Session,
    from: usize,
    migrations: &[&[&'static str]],
    sealer: &Sealer,
    now: &str,
) -> Result<(), PortError> {
    if from >= migrations.len() {
        return Ok(());
    }
    session.make_durable(Durability::Power).await?;
    session.begin().await?;
    if from == 0 {
        session
            .statement("CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
            .await?;
        put_meta(session, CREATED_AT, now).await?;
        put_meta(session, KEY_CHECK, &sealer.seal(KEY_CHECK_CONTEXT, KEY_CHECK_TEXT)?).await?;
    }
    for statement in migrations.iter().skip(from).copied().flatten() {
        session.statement(statement).await?;
    }
    put_meta(session, SCHEMA_VERSION, &migrations.len().to_string()).await?;
    session.commit().await
}

/// Makes sure that the key is the one this store was made with.
pub(crate) async fn verify_key(session: &mut Session, sealer: &Sealer, key_path: &Path) -> Result<(), StoreError> {
    let sealed = meta(session, KEY_CHECK)
        .await?
        .ok_or_else(|| corrupt("it has no key check"))?;
    match sealer.open(KEY_CHECK_CONTEXT, &sealed) {
        Some(text) if text.expose() == KEY_CHECK_TEXT => Ok(()),
        _ => Err(StoreError::KeyWrong {
            path: key_path.to_owned(),
        }),
    }
}

async fn meta(session: &mut Session, name: &str) -> Result<Option<String>, PortError> {
    let row = sqlx::query("SELECT value FROM meta WHERE name = $1")
        .bind(name)
        .fetch_optional(&mut session.connection)
        .await
        .map_err(database)?;
    row.map(|row| row.try_get(0).map_err(database)).transpose()
}

async fn put_meta(session: &mut Session, name: &str, value: &str) -> Result<(), PortError> {
    sqlx::query(
        "INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .bind(value)
    .execute(&mut session.connection)
    .await
    .map(drop)
    .map_err(database)
}
