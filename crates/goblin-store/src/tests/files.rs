//! Modes, the lock, what survives a restart, copies, and files that are not ours.

use std::{
    fs,
    future::Future,
    os::unix::fs::{PermissionsExt, symlink},
    pin::pin,
    process::Command,
    task::{Context, Waker},
};

use goblin_ports::{Operations, PortError, Settings, SettingsExt, TerminalReference};
use serde_json::json;

use super::*;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let scratch = scratch();
    for close in [true, false] {
        let store = open(scratch.path()).await;
        Settings::set(&store, "a", json!({"closed": close})).await.unwrap();
        Secrets::set(&store, "s", secret("hidden")).await.unwrap();
        store.begin(start(&format!("open-{close}")), NOW).await.unwrap();
        store.begin(start(&format!("done-{close}")), NOW).await.unwrap();
        let reference = TerminalReference {
            operation_id: "done".to_owned(),
            replay: true,
            outcome_digest: None,
        };
        let done = store.terminal(&format!("done-{close}"), reference, NOW).await.unwrap();
        if close {
            store.close().await;
            assert!(
                !scratch.path().join("controller.db-wal").exists(),
                "closing folds the log into the file"
            );
        }
        drop(store);

        let store = open(scratch.path()).await;
        assert_eq!(Settings::get(&store, "a").await, Ok(Some(json!({"closed": close}))));
        assert_eq!(secret_text(&store, "s").await.as_deref(), Some("hidden"));
        let newest = store.list(goblin_ports::OperationFilter::newest(2)).await.unwrap();
        assert_eq!(newest[0], done);
        assert_eq!(newest[1].operation_id, format!("open-{close}"));
        store.begin(start(&format!("later-{close}")), NOW).await.unwrap();
        let newest = store.list(goblin_ports::OperationFilter::newest(1)).await.unwrap();
        assert_eq!(
            newest[0].operation_id,
            format!("later-{close}"),
            "the order goes on after a restart"
        );
    }
}

/// The umask belongs to the process, so the store is opened in a child that starts under a wide one.
#[tokio::test]
async fn files_are_private_whatever_the_umask() {
    let scratch = scratch();
    let directory = scratch.path().join("made/here");
    let status = Command::new("sh")
        .args([
            "-c",
            "umask 000; exec \"$0\" --ignored --exact tests::files::child_opens_and_is_killed",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(DIRECTORY, &directory)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(
        !status.success(),
        "the child kills itself, so that the log stays behind"
    );
    assert_eq!(mode(&directory), 0o700);
    let mut names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "controller.db",
            "controller.db-shm",
            "controller.db-wal",
            "controller.lock",
            "secrets.key"
        ]
    );
    for name in names {
        assert_eq!(mode(&directory.join(&name)), 0o600, "{name}");
    }
}

const DIRECTORY: &str = "GOBLIN_STORE_TEST_FILES_DIRECTORY";

#[tokio::test]
#[ignore = "a child process of files_are_private_whatever_the_umask"]
async fn child_opens_and_is_killed() {
    let directory = std::env::var_os(DIRECTORY).expect("started by its parent");
    let store = open(Path::new(&directory)).await;
    Secrets::set(&store, "s", secret("hidden")).await.unwrap();
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_wide_database_is_narrowed_and_a_wide_directory_refused() {
    let scratch = scratch();
    open(scratch.path()).await.close().await;
    let database = scratch.path().join("controller.db");
    fs::set_permissions(&database, fs::Permissions::from_mode(0o644)).unwrap();
    open(scratch.path()).await.close().await;
    assert_eq!(mode(&database), 0o600);

    for mode in [0o777, 0o770] {
        fs::set_permissions(scratch.path(), fs::Permissions::from_mode(mode)).unwrap();
        let error = refusal(scratch.path(), None).await;
        assert_eq!(error.code(), "state_directory_exposed");
        assert!(error.to_string().contains("chmod go-w"), "{error}");
    }
}

#[tokio::test]
async fn a_second_controller_is_refused_by_pid() {
    let scratch = scratch();
    let store = open(scratch.path()).await;
    let error = refusal(scratch.path(), None).await;
    assert_eq!(error.code(), "store_locked");
    assert!(
        error.to_string().contains(&format!("process {}", std::process::id())),
        "{error}"
    );
    Settings::set(&store, "a", json!(1)).await.expect("the first goes on");

    store.close().await;
    let closed = Settings::get(&store, "a").await.unwrap_err();
    assert_eq!(closed.code(), "store_unavailable", "a closed store says so");
    let second = open(scratch.path()).await;
    assert_eq!(
        Settings::get(&second, "a").await,
        Ok(Some(json!(1))),
        "closing gave the lock back"
    );
}

#[tokio::test]
async fn a_backup_is_whole_private_and_without_the_key() {
    let scratch = scratch();
    let store = open(&scratch.path().join("first")).await;
    Settings::set(&store, "a", json!(1)).await.unwrap();
    Secrets::set(&store, "s", secret("hidden")).await.unwrap();
    let target = scratch.path().join("it's a backup.db");
    store.backup(&target).await.unwrap();
    assert_eq!(mode(&target), 0o600);
    Settings::set(&store, "a", json!(2)).await.expect("the store serves on");
    let error = store.backup(&target).await.unwrap_err();
    assert_eq!(
        error.code(),
        "store_unavailable",
        "an existing file is not replaced: {error}"
    );
    let left: Vec<_> = fs::read_dir(scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "nothing partial stays: {left:?}");

    let key = fs::read_to_string(scratch.path().join("first/secrets.key")).unwrap();
    let copy = fs::read(&target).unwrap();
    for hidden in [key.trim(), "hidden"] {
        assert!(!copy.windows(hidden.len()).any(|window| window == hidden.as_bytes()));
    }
    let second = scratch.path().join("second");
    fs::create_dir(&second).unwrap();
    fs::copy(&target, second.join("controller.db")).unwrap();
    let error = refusal(&second, None).await;
    assert_eq!(error.code(), "secrets_key_missing", "{error}");
    fs::copy(scratch.path().join("first/secrets.key"), second.join("secrets.key")).unwrap();
    let restored = open(&second).await;
    assert_eq!(Settings::get(&restored, "a").await, Ok(Some(json!(1))));
    assert_eq!(secret_text(&restored, "s").await.as_deref(), Some("hidden"));
}

#[tokio::test]
async fn what_is_no_store_of_ours_is_left_alone() {
    let scratch = scratch();
    let database = scratch.path().join("controller.db");
    for content in [
        b"not a database, but longer than a header of one hundred bytes: ".repeat(9),
        b"short".to_vec(),
    ] {
        fs::write(&database, &content).unwrap();
        let error = refusal(scratch.path(), None).await;
        assert_eq!(error.code(), "store_corrupt", "{error}");
        assert!(error.to_string().contains(database.to_str().unwrap()), "{error}");
        assert_eq!(fs::read(&database).unwrap(), content);
    }

    fs::remove_file(&database).unwrap();
    symlink("/dev/null", &database).unwrap();
    assert_eq!(refusal(scratch.path(), None).await.code(), "store_corrupt");

    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(
        refusal(&file, None).await.code(),
        "store_unavailable",
        "a file is no directory"
    );
}

#[tokio::test]
async fn an_abandoned_call_happens_wholly_or_not_at_all() {
    let scratch = scratch();
    let store = open(scratch.path()).await;
    let push = |number: u32| {
        store.update_list("list", move |list: &mut Vec<u32>| {
            list.push(number);
            Ok::<_, PortError>(list.clone())
        })
    };
    let mut finished = Vec::new();
    for polls in 0..60 {
        let mut update = pin!(push(polls));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..polls {
            if update.as_mut().poll(&mut context).is_ready() {
                finished.push(polls);
                break;
            }
            std::thread::yield_now();
        }
        // Dropped here: before it began, in the middle, or after its end.
    }
    // An update, unlike a read, waits for an abandoned one that is past its decision.
    let list = push(1000).await.unwrap();
    assert!(
        list.is_sorted_by(|one, next| one < next),
        "each at most once, in order: {list:?}"
    );
    assert!(
        finished.iter().all(|number| list.contains(number)),
        "what was acknowledged is there"
    );
    assert_eq!(store.get_as::<Vec<u32>>("list").await, Ok(Some(list)));
}
