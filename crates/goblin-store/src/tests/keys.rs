//! The key's file, the key check, and secrets altered from outside.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use sqlx::Row;

use super::*;
use crate::{key, session::Session};

/// Changes the closed database behind the store's back.
async fn behind_its_back(directory: &Path, statement: &'static str) {
    let mut session = Session::connect(&directory.join("controller.db")).await.unwrap();
    let changed = sqlx::query(statement).execute(&mut session.connection).await.unwrap();
    assert!(changed.rows_affected() > 0, "{statement}");
    sqlx::Connection::close(session.connection).await.unwrap();
}

fn write_key(path: &Path, content: &[u8], mode: u32) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Every file of the directory with its content, to show that nothing was touched.
fn snapshot(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("controller.lock"))
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect();
    files.sort_unstable();
    files
}

async fn store_with_secret(directory: &Path) {
    let store = open(directory).await;
    Secrets::set(&store, "controller.gateway.a", secret("first secret"))
        .await
        .unwrap();
    Secrets::set(&store, "controller.gateway.b", secret("other secret"))
        .await
        .unwrap();
    store.close().await;
}

#[tokio::test]
async fn secrets_are_sealed_and_each_write_differs() {
    let scratch = scratch();
    let store = open(scratch.path()).await;
    let mut sealed = Vec::new();
    for _ in 0..2 {
        Secrets::set(&store, "s", secret("a secret that must not be on disk"))
            .await
            .unwrap();
        let mut session = Session::connect(&scratch.path().join("controller.db")).await.unwrap();
        let row = sqlx::query("SELECT sealed FROM secrets")
            .fetch_one(&mut session.connection)
            .await
            .unwrap();
        sealed.push(row.get::<String, _>(0));
    }
    assert_ne!(sealed[0], sealed[1], "a nonce of its own for each write");
    store.close().await;
    for (path, content) in snapshot(scratch.path()) {
        assert!(
            !content.windows(8).any(|window| window == b"a secret"),
            "{}",
            path.display()
        );
    }
}

#[tokio::test]
async fn a_missing_key_is_not_replaced() {
    let scratch = scratch();
    store_with_secret(scratch.path()).await;
    let key_path = scratch.path().join("secrets.key");
    let key = fs::read(&key_path).unwrap();
    fs::remove_file(&key_path).unwrap();
    let before = snapshot(scratch.path());
    let error = refusal(scratch.path(), None).await;
    assert_eq!(error.code(), "secrets_key_missing");
    assert!(error.to_string().contains("secrets.key"), "{error}");
    assert_eq!(
        snapshot(scratch.path()),
        before,
        "no key is made for a store that has one"
    );

    write_key(&key_path, &key, 0o600);
    let store = open(scratch.path()).await;
    assert_eq!(
        secret_text(&store, "controller.gateway.a").await.as_deref(),
        Some("first secret")
    );
}

#[tokio::test]
async fn a_wrong_key_is_told_from_a_tampered_secret() {
    let scratch = scratch();
    store_with_secret(scratch.path()).await;
    let key_path = scratch.path().join("secrets.key");
    let key = fs::read(&key_path).unwrap();
    write_key(&key_path, &[b'0'; 64], 0o600);
    let before = snapshot(scratch.path());
    let error = refusal(scratch.path(), None).await;
    assert_eq!(error.code(), "secrets_key_wrong");
    assert!(!error.to_string().contains("0000"), "{error}");
    assert_eq!(snapshot(scratch.path()), before);
    write_key(&key_path, &key, 0o600);
    open(scratch.path()).await.close().await;
}

#[tokio::test]
async fn a_tampered_secret_is_named_at_start_and_at_use() {
    let tamperings = [
        // One character of the ciphertext, the whole text, the format, and a genuine secret of another record.
        "UPDATE secrets SET sealed = substr(sealed, 1, 30) || CASE substr(sealed, 31, 1) WHEN 'A' THEN 'B' ELSE 'A' END \
         || substr(sealed, 32) WHERE name = 'controller.gateway.a'",
        "UPDATE secrets SET sealed = '' WHERE name = 'controller.gateway.a'",
        "UPDATE secrets SET sealed = 'v1.AAAA' WHERE name = 'controller.gateway.a'",
        "UPDATE secrets SET sealed = 'v2.' || substr(sealed, 4) WHERE name = 'controller.gateway.a'",
        "UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE name = 'controller.gateway.b') \
         WHERE name = 'controller.gateway.a'",
    ];
    for tampering in tamperings {
        let scratch = scratch();
        store_with_secret(scratch.path()).await;
        behind_its_back(scratch.path(), tampering).await;
        let before = snapshot(scratch.path());
        let error = refusal(scratch.path(), None).await;
        assert_eq!(error.code(), "secret_tampered", "{tampering}: {error}");
        assert!(error.to_string().contains("controller.gateway.a"), "{error}");
        assert_eq!(snapshot(scratch.path()), before, "{tampering}");
    }

    let scratch = scratch();
    let store = open(scratch.path()).await;
    Secrets::set(&store, "controller.gateway.a", secret("first secret"))
        .await
        .unwrap();
    behind_its_back(scratch.path(), tamperings[0]).await;
    let error = Secrets::get(&store, "controller.gateway.a").await.err().unwrap();
    assert_eq!(error.code(), "secret_tampered");
    Secrets::set(&store, "controller.gateway.a", secret("again"))
        .await
        .unwrap();
    assert_eq!(
        secret_text(&store, "controller.gateway.a").await.as_deref(),
        Some("again")
    );
}

#[tokio::test]
async fn a_tampered_key_check_is_no_key() {
    let scratch = scratch();
    store_with_secret(scratch.path()).await;
    behind_its_back(scratch.path(), "DELETE FROM meta WHERE name = 'key_check'").await;
    assert_eq!(refusal(scratch.path(), None).await.code(), "store_corrupt");
}

#[tokio::test]
async fn a_key_that_others_can_read_is_refused_with_the_remedy() {
    let scratch = scratch();
    store_with_secret(scratch.path()).await;
    let key_path = scratch.path().join("secrets.key");
    for mode in [0o640, 0o604, 0o622, 0o666] {
        fs::set_permissions(&key_path, fs::Permissions::from_mode(mode)).unwrap();
        let error = refusal(scratch.path(), None).await;
        assert_eq!(error.code(), "secrets_key_exposed", "{mode:o}");
        let canonical = key_path.canonicalize().unwrap();
        assert!(
            error
                .to_string()
                .contains(&format!("chmod 600 {}", canonical.display())),
            "{error}"
        );
    }
    fs::set_permissions(&key_path, fs::Permissions::from_mode(0o400)).unwrap();
    open(scratch.path()).await.close().await;
}

#[test]
fn a_group_may_read_only_what_root_handed_over() {
    for (mode, owner, me, exposed) in [
        (0o100_600, 1000, 1000, false),
        (0o100_400, 1000, 1000, false),
        (0o100_640, 1000, 1000, true),
        (0o100_440, 0, 1000, false),
        (0o100_440, 0, 0, true),
        (0o100_444, 0, 1000, true),
        (0o100_460, 0, 1000, true),
        (0o100_602, 1000, 1000, true),
    ] {
        assert_eq!(key::exposed(mode, owner, me), exposed, "{mode:o} of {owner} for {me}");
    }
}

#[tokio::test]
async fn what_is_not_a_key_is_refused() {
    let scratch = scratch();
    let state = scratch.path().join("state");
    let key_path = scratch.path().join("key");
    let digits = "0123456789abcdefABCDEF0123456789".repeat(2);
    let bad: [&[u8]; 6] = [
        b"",
        b"0123",
        &digits.as_bytes()[1..],
        &[0xff; 64],
        format!("{digits}0").leak().as_bytes(),
        format!("{digits}\n\n\n{digits}").leak().as_bytes(),
    ];
    for content in bad {
        write_key(&key_path, content, 0o600);
        assert_eq!(
            refusal(&state, Some(&key_path)).await.code(),
            "secrets_key_invalid",
            "{content:?}"
        );
    }
    assert_eq!(
        refusal(&state, Some(scratch.path())).await.code(),
        "secrets_key_invalid",
        "a directory"
    );
    let fifo = scratch.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert_eq!(
        refusal(&state, Some(&fifo)).await.code(),
        "secrets_key_invalid",
        "a FIFO is not waited for"
    );

    // None of the failures has made a store, so the first good key is taken.
    write_key(&key_path, format!("{digits}\r\n").as_bytes(), 0o600);
    let store = Store::open(&state, Some(&key_path), NOW).await.unwrap();
    Secrets::set(&store, "s", secret("hidden")).await.unwrap();
    store.close().await;
    assert!(!state.join("secrets.key").exists(), "a key given is the only key");
    assert_eq!(refusal(&state, None).await.code(), "secrets_key_missing");
    let store = Store::open(&state, Some(&key_path), NOW).await.unwrap();
    assert_eq!(secret_text(&store, "s").await.as_deref(), Some("hidden"));
}

#[tokio::test]
async fn a_given_key_is_never_made() {
    let scratch = scratch();
    let key_path = scratch.path().join("absent");
    let error = refusal(&scratch.path().join("state"), Some(&key_path)).await;
    assert_eq!(error.code(), "secrets_key_missing");
    assert!(!key_path.exists());
}
