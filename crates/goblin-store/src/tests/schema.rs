//! Versions: forward, newer, foreign, and a migration that fails.

use goblin_ports::{Settings, Tokens};
use serde_json::json;
use sqlx::{Connection, Row};

use super::*;
use crate::{
    key::KeySource,
    schema::{MIGRATIONS, migrate, version},
    seal::Sealer,
    session::Session,
};

async fn connect(directory: &Path) -> Session {
    Session::connect(&directory.join("controller.db")).await.unwrap()
}

fn sealer(directory: &Path) -> Sealer {
    Sealer::new(&KeySource::Own(directory.join("secrets.key")).load().unwrap()).unwrap()
}

#[tokio::test]
async fn a_newer_store_is_refused_and_left_alone() {
    let scratch = scratch();
    open(scratch.path()).await.close().await;
    let mut session = connect(scratch.path()).await;
    session
        .statement("UPDATE meta SET value = value + 1 WHERE name = 'schema_version'")
        .await
        .unwrap();
    session.connection.close().await.unwrap();
    let before = std::fs::read(scratch.path().join("controller.db")).unwrap();
    let error = refusal(scratch.path(), None).await;
    assert_eq!(error.code(), "store_newer_version");
    assert!(
        error.to_string().contains(&format!("version {}", MIGRATIONS.len() + 1))
            && error.to_string().contains(&format!("up to {}", MIGRATIONS.len())),
        "{error}"
    );
    assert_eq!(std::fs::read(scratch.path().join("controller.db")).unwrap(), before);
}

#[tokio::test]
async fn a_database_of_something_else_is_refused() {
    let statements = [
        "CREATE TABLE somebodys (thing TEXT)",
        "CREATE TABLE meta (name TEXT, value TEXT)",
    ];
    for statement in statements {
        let scratch = scratch();
        std::fs::write(scratch.path().join("controller.db"), "").unwrap();
        let mut session = connect(scratch.path()).await;
        session.statement(statement).await.unwrap();
        session.connection.close().await.unwrap();
        assert_eq!(refusal(scratch.path(), None).await.code(), "store_corrupt");
        assert!(!scratch.path().join("secrets.key").exists(), "no key is made beside it");
    }
    for value in ["", "0", "-1", "one", "99999999999999999999"] {
        let scratch = scratch();
        open(scratch.path()).await.close().await;
        let mut session = connect(scratch.path()).await;
        sqlx::query("UPDATE meta SET value = $1 WHERE name = 'schema_version'")
            .bind(value)
            .execute(&mut session.connection)
            .await
            .unwrap();
        session.connection.close().await.unwrap();
        assert_eq!(refusal(scratch.path(), None).await.code(), "store_corrupt", "{value:?}");
    }
}

#[tokio::test]
async fn a_migration_goes_forward_wholly_or_not_at_all() {
    let scratch = scratch();
    let store = open(scratch.path()).await;
    Settings::set(&store, "a", json!(1)).await.unwrap();
    store.close().await;
    let sealer = sealer(scratch.path());

    let known = MIGRATIONS.len();
    let broken: &[&'static str] = &["CREATE TABLE later (x TEXT)", "CREATE TABLE settings (x TEXT)"];
    let broken = [MIGRATIONS, &[broken]].concat();
    let mut session = connect(scratch.path()).await;
    migrate(&mut session, known, &broken, &sealer, NOW).await.unwrap_err();
    drop(session);
    open(scratch.path()).await.close().await;

    let good: &[&[&'static str]] = &[
        &["ALTER TABLE settings ADD COLUMN x TEXT"],
        &["UPDATE settings SET x = 'y'"],
    ];
    let good = [MIGRATIONS, good].concat();
    let mut session = connect(scratch.path()).await;
    assert_eq!(
        version(&mut session, good.len()).await.unwrap(),
        known,
        "the broken one left nothing"
    );
    migrate(&mut session, known, &good, &sealer, NOW).await.unwrap();
    assert_eq!(version(&mut session, good.len()).await.unwrap(), good.len());
    let row = sqlx::query("SELECT value, x FROM settings")
        .fetch_one(&mut session.connection)
        .await
        .unwrap();
    assert_eq!((row.get::<&str, _>(0), row.get::<&str, _>(1)), ("1", "y"));
    session.connection.close().await.unwrap();
    assert_eq!(refusal(scratch.path(), None).await.code(), "store_newer_version");
}

#[tokio::test]
async fn a_store_of_the_first_version_keeps_its_records_and_gains_tokens() {
    let scratch = scratch();
    open(scratch.path()).await.close().await;
    let sealer = sealer(scratch.path());
    std::fs::remove_file(scratch.path().join("controller.db")).unwrap();
    std::fs::write(scratch.path().join("controller.db"), "").unwrap();
    let mut session = connect(scratch.path()).await;
    migrate(&mut session, 0, &MIGRATIONS[..1], &sealer, NOW).await.unwrap();
    session
        .statement("INSERT INTO settings (name, value) VALUES ('a', '1')")
        .await
        .unwrap();
    session.connection.close().await.unwrap();
    let store = open(scratch.path()).await;
    assert_eq!(Settings::get(&store, "a").await, Ok(Some(json!(1))));
    assert_eq!(store.all().await, Ok(Vec::new()));
}
