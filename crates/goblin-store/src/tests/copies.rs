//! Copies while a store serves and rests, the way back, and stores that older programs wrote.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::PathBuf,
};

use goblin_ports::{
    GatewayRecord, OperationFilter, OperationState, Operations, Settings, SettingsExt, TrustMethod, setting,
};
use serde_json::json;

use super::*;
use crate::{backup, restore, schema::MIGRATIONS};

/// A store as the first version of the schema left it, and the key of its secrets. Never made anew: it stands for the
/// stores that are out there.
const GOLDEN: &[u8] = include_bytes!("golden/v1.db");
const GOLDEN_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn write_key(directory: &Path) {
    let path = directory.join("secrets.key");
    fs::write(&path, GOLDEN_KEY).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn golden(directory: &Path) {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("controller.db"), GOLDEN).unwrap();
    write_key(directory);
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

async fn assert_is_golden(store: &Store) {
    let gateways: Vec<GatewayRecord> = store.get_as(setting::GATEWAYS).await.unwrap().unwrap();
    assert_eq!(
        gateways,
        [GatewayRecord::approved("host-1", "controller", TrustMethod::Hmac)]
    );
    assert_eq!(
        Settings::get(store, setting::CONTROLLER).await.unwrap(),
        Some(json!({"enabled": true, "host": "127.0.0.1", "port": 7443, "later": [1]}))
    );
    let name = goblin_ports::secret::gateway("host-1");
    assert_eq!(secret_text(store, &name).await.as_deref(), Some("shared with host-1"));
    let operations = store.list(OperationFilter::newest(9)).await.unwrap();
    let seen: Vec<_> = operations
        .iter()
        .map(|record| (record.operation_id.as_str(), record.state))
        .collect();
    assert_eq!(
        seen,
        [
            ("closed", OperationState::Resolved),
            ("ended", OperationState::Terminal),
            ("open", OperationState::Dispatching)
        ]
    );
    assert_eq!(operations[0].note.as_deref(), Some("looked: it ran"));
    let reference = operations[1].terminal_reference.as_ref().unwrap();
    assert!(reference.replay && reference.outcome_digest.as_deref() == Some("digest of the outcome"));
}

#[tokio::test]
async fn a_store_of_the_first_version_opens_with_all_that_is_in_it() {
    let scratch = scratch();
    golden(scratch.path());
    let store = open(scratch.path()).await;
    assert_is_golden(&store).await;
    store.begin(start("later"), NOW).await.unwrap();
    store.close().await;
    assert_is_first_copied_where_there_is_more_than_one_version(scratch.path());
}

fn assert_is_first_copied_where_there_is_more_than_one_version(directory: &Path) {
    let copy = directory.join("controller-v1-20261201T000000000Z.db").exists();
    assert_eq!(copy, MIGRATIONS.len() > 1);
}

#[tokio::test]
async fn a_migration_begins_with_a_copy_that_can_be_restored() {
    let scratch = scratch();
    golden(scratch.path());
    let newer: &[&[&str]] = &[MIGRATIONS[0], &["DELETE FROM settings", "DROP TABLE operations"]];
    // This one is bad; that is when the copy is needed.
    let error = Store::open_as(scratch.path(), None, NOW, newer, None)
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), "store_unavailable");
    assert_eq!(
        names(scratch.path()),
        [
            "controller-v1-20261201T000000000Z.db",
            "controller.db",
            "controller.lock",
            "secrets.key"
        ]
    );
    let copy = scratch.path().join("controller-v1-20261201T000000000Z.db");
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    // Put by, as an operator would: the next opening migrates too, and begins with a copy of that name.
    let put_by = scratch.path().join("put-by.db");
    fs::rename(&copy, &put_by).unwrap();
    fs::remove_file(scratch.path().join("controller.db")).unwrap();
    restore(&put_by, scratch.path(), None).await.unwrap();
    assert_is_golden(&open(scratch.path()).await).await;
}

#[tokio::test]
async fn a_migration_that_cannot_be_preceded_by_a_copy_does_not_happen() {
    let scratch = scratch();
    golden(scratch.path());
    let copy = scratch.path().join("controller-v1-20261201T000000000Z.db");
    fs::write(&copy, "somebody's").unwrap();
    let newer: &[&[&str]] = &[MIGRATIONS[0], &["DELETE FROM settings"]];
    Store::open_as(scratch.path(), None, NOW, newer, None)
        .await
        .err()
        .unwrap();
    assert_eq!(fs::read(&copy).unwrap(), b"somebody's");
    let first: &[&[&str]] = &[MIGRATIONS[0]];
    let store = Store::open_as(scratch.path(), None, NOW, first, None).await.unwrap();
    assert_is_golden(&store).await;
}

#[tokio::test]
async fn a_copy_is_made_of_a_store_that_rests_that_serves_and_that_crashed() {
    let scratch = scratch();
    let directory = scratch.path().join("state");
    golden(&directory);
    let rests = scratch.path().join("rests.db");
    backup(&directory, &rests).await.unwrap();
    assert_eq!(fs::metadata(&rests).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        names(&directory),
        ["controller.db", "secrets.key"],
        "it leaves nothing behind"
    );

    let store = open(&directory).await;
    Settings::set(&store, "served", json!(1)).await.unwrap();
    let serves = scratch.path().join("serves.db");
    // Written all the while, one record at a time: a copy holds a beginning of them, never a gap.
    let writing = async {
        for index in 0..200 {
            store.begin(start(&format!("during-{index:03}")), NOW).await.unwrap();
        }
    };
    let ((), copied) = tokio::join!(writing, backup(&directory, &serves));
    copied.unwrap();
    Settings::set(&store, "served", json!(2))
        .await
        .expect("the store serves on");
    let again = backup(&directory, &serves).await.unwrap_err();
    assert_eq!(
        again.code(),
        "store_unavailable",
        "an existing file is not replaced: {again}"
    );

    let restored = scratch.path().join("restored");
    fs::create_dir(&restored).unwrap();
    write_key(&restored);
    restore(&serves, &restored, None).await.unwrap();
    let copy = open(&restored).await;
    assert_eq!(Settings::get(&copy, "served").await, Ok(Some(json!(1))));
    let during = copy.list(OperationFilter::newest(usize::MAX)).await.unwrap();
    let during = during
        .iter()
        .filter(|record| record.operation_id.starts_with("during-"));
    let mut last = during.map(|record| record.operation_id.clone()).collect::<Vec<_>>();
    last.sort_unstable();
    let expected: Vec<_> = (0..last.len()).map(|index| format!("during-{index:03}")).collect();
    assert_eq!(last, expected);

    // What a crash leaves is a log beside the file: it is part of the copy.
    let crashed = scratch.path().join("crashed");
    fs::create_dir(&crashed).unwrap();
    for name in ["controller.db", "controller.db-wal"] {
        fs::copy(directory.join(name), crashed.join(name)).unwrap();
    }
    let refused = restore(&crashed.join("controller.db"), &scratch.path().join("no"), None).await;
    assert!(refused.unwrap_err().to_string().contains("restore a backup"));
    let from_crash = scratch.path().join("from-crash.db");
    backup(&crashed, &from_crash).await.unwrap();
    let back = scratch.path().join("back");
    fs::create_dir(&back).unwrap();
    write_key(&back);
    restore(&from_crash, &back, None).await.unwrap();
    assert_eq!(Settings::get(&open(&back).await, "served").await, Ok(Some(json!(2))));
}

#[tokio::test]
async fn what_is_no_store_is_not_copied() {
    let scratch = scratch();
    let target = scratch.path().join("copy.db");
    let code = async |directory: &Path| backup(directory, &target).await.unwrap_err().code();
    assert_eq!(code(scratch.path()).await, "store_absent");
    assert_eq!(code(&scratch.path().join("absent")).await, "store_absent");
    fs::write(scratch.path().join("controller.db"), "").unwrap();
    assert_eq!(code(scratch.path()).await, "store_corrupt");
    fs::write(scratch.path().join("controller.db"), "x".repeat(5000)).unwrap();
    assert_eq!(code(scratch.path()).await, "store_corrupt");
    fs::remove_file(scratch.path().join("controller.db")).unwrap();
    symlink("/dev/zero", scratch.path().join("controller.db")).unwrap();
    assert_eq!(code(scratch.path()).await, "store_corrupt");
    assert!(!target.exists());
}

async fn refused(source: &Path, directory: &Path) -> StoreError {
    // The directory and its lock may be new.
    fs::create_dir_all(directory).unwrap();
    let files = || {
        let mut names = names(directory);
        names.retain(|name| name != "controller.lock");
        names
    };
    let before = files();
    let error = restore(source, directory, None).await.unwrap_err();
    assert_eq!(files(), before, "nothing is restored by halves");
    error
}

#[tokio::test]
async fn a_restore_overwrites_nothing_and_proves_the_copy_first() {
    let scratch = scratch();
    let source = scratch.path().join("golden.db");
    fs::write(&source, GOLDEN).unwrap();
    let directory = scratch.path().join("state");

    // The key first: a store is never restored under a new one.
    assert_eq!(refused(&source, &directory).await.code(), "secrets_key_missing");
    write_key(&directory);
    fs::write(directory.join("secrets.key"), "f".repeat(64)).unwrap();
    assert_eq!(refused(&source, &directory).await.code(), "secrets_key_wrong");
    write_key(&directory);

    let bad = |name: &str, content: &[u8]| -> PathBuf {
        let path = scratch.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let mut damaged = GOLDEN.to_vec();
    let middle = damaged.len() / 2;
    damaged[middle - 8000..].fill(0xa5);
    for (name, content) in [
        ("empty", &b""[..]),
        (
            "text",
            "not a database at all, and longer than its header "
                .repeat(99)
                .as_bytes(),
        ),
        ("cut", &GOLDEN[..GOLDEN.len() - 9000]),
        ("damaged", &damaged),
    ] {
        let source = bad(name, content);
        let error = refused(&source, &directory).await;
        assert_eq!(error.code(), "store_corrupt", "{name}: {error}");
        assert!(error.to_string().contains(source.to_str().unwrap()), "{error}");
    }
    assert_eq!(
        refused(&scratch.path().join("absent"), &directory).await.code(),
        "store_unavailable"
    );
    assert_eq!(refused(scratch.path(), &directory).await.code(), "store_corrupt");
    let newer = scratch.path().join("newer.db");
    fs::write(&newer, GOLDEN).unwrap();
    let mut session = crate::session::Session::connect(&newer).await.unwrap();
    session
        .statement("UPDATE meta SET value = '999' WHERE name = 'schema_version'")
        .await
        .unwrap();
    session.close().await;
    assert_eq!(refused(&newer, &directory).await.code(), "store_newer_version");

    restore(&source, &directory, None).await.unwrap();
    let database = directory.join("controller.db");
    assert_eq!(fs::metadata(&database).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read(&source).unwrap(), GOLDEN, "the copy is only read");
    assert_eq!(refused(&source, &directory).await.code(), "store_exists");
    let store = open(&directory).await;
    assert_is_golden(&store).await;
    assert_eq!(
        restore(&source, &directory, None).await.unwrap_err().code(),
        "store_locked"
    );
    store.close().await;

    // Half of a store is a store.
    fs::rename(&database, directory.join("controller.db-wal")).unwrap();
    assert_eq!(refused(&source, &directory).await.code(), "store_exists");

    // The key may lie elsewhere.
    let elsewhere = scratch.path().join("elsewhere");
    restore(&source, &elsewhere, Some(&directory.join("secrets.key")))
        .await
        .unwrap();
    assert!(!elsewhere.join("secrets.key").exists());
}
