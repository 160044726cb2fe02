//! A state directory whose file system has become read-only.

use std::process::Command;

use super::{NOW, Scratch};
use crate::{IdentityError, StateDir};

const FOLDER: &str = "GOBLIN_IDENTITY_TEST_READONLY";

/// A mount of its own needs a mount namespace, so a child of ours does the work.
#[test]
fn a_read_only_directory_serves_the_identity_that_is_there() {
    let scratch = Scratch::new();
    let namespace = Command::new("unshare").args(["-m", "true"]).status();
    if !(rustix::process::geteuid().is_root() && namespace.is_ok_and(|status| status.success())) {
        eprintln!("skipped: needs mounts");
        return;
    }
    let script = format!(
        "mount -t tmpfs -o size=1m,mode=700 tmpfs \"${FOLDER}\" && \
         exec \"$0\" --exact tests::readonly::readonly_child --nocapture --include-ignored"
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(FOLDER, scratch.state())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("read-only child is done"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn remount(how: &str) {
    let folder = std::env::var_os(FOLDER).unwrap();
    let status = Command::new("mount")
        .args(["-o", &format!("remount,{how}")])
        .arg(folder)
        .status();
    assert!(status.unwrap().success(), "{how}");
}

#[test]
#[ignore = "the child of a_read_only_directory_serves_the_identity_that_is_there"]
fn readonly_child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let open = || StateDir::open(folder.as_ref());
    let in_use = || match open().unwrap_err() {
        IdentityError::InUse { pid, .. } => pid,
        error => panic!("{error}"),
    };
    let id = open()
        .unwrap()
        .load_or_create_identity(NOW)
        .unwrap()
        .node_id()
        .to_owned();

    for lock_file in [true, false] {
        if !lock_file {
            std::fs::remove_file(std::path::Path::new(&folder).join("daemon.lock")).unwrap();
        }
        remount("ro");
        let state = open().unwrap();
        state.check().unwrap();
        assert_eq!(state.load_or_create_identity(NOW).unwrap().node_id(), id);
        state.remove_pairing_code().unwrap();
        assert_eq!(state.consume_enrollment(NOW).unwrap_err().code(), "state_directory_io");
        in_use();
        // Still ours when the file system can be written again.
        remount("rw");
        in_use();
        drop(state);
        open().unwrap();
    }

    // The number of a daemon that was there before the file system became read-only.
    let state = open().unwrap();
    assert_eq!(in_use(), Some(std::process::id()));
    drop(state);
    println!("read-only child is done");
}
