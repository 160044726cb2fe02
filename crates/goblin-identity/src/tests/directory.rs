//! Opening and locking.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{NOW, Scratch, as_ordinary_user, given_directory, mode, set_mode, start_test};
use crate::{IdentityError, StateDir};

#[test]
fn a_missing_directory_is_created_private_with_its_parents() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/state");
    let state = StateDir::open(&path).unwrap();
    assert_eq!(state.path(), path);
    for created in [folder.path().join("a"), folder.path().join("a/b"), path.clone()] {
        assert_eq!(mode(&created), 0o700, "{}", created.display());
    }
    assert_eq!(mode(&path.join("daemon.lock")), 0o600);
    assert_eq!(state.journal_file(), path.join("operations.json"));
    assert_eq!(state.temporary_notes(), path.join("temporary-notes"));
    let names: Vec<_> = fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["daemon.lock"]);
}

#[test]
fn a_second_opening_names_the_holder() {
    let scratch = Scratch::new();
    let first = scratch.open();
    let error = StateDir::open(&scratch.state()).unwrap_err();
    assert_eq!(error.code(), "state_directory_in_use");
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
    assert!(text.contains(&scratch.state().display().to_string()), "{text}");
    drop(first);
    scratch.open();
}

#[test]
fn a_holder_without_a_number_is_told_as_such() {
    let scratch = Scratch::new();
    let _first = scratch.open();
    for content in ["", "none\n", "-1", "99999999999999999999"] {
        fs::write(scratch.file("daemon.lock"), content).unwrap();
        let error = StateDir::open(&scratch.state()).unwrap_err();
        assert!(
            matches!(error, IdentityError::InUse { pid: None, .. }),
            "{content:?}: {error}"
        );
        assert!(!error.to_string().contains("process"), "{error}");
    }
}

#[test]
fn a_foreign_number_in_the_lock_holds_nobody_up() {
    let scratch = Scratch::new();
    drop(scratch.open());
    // Our parent lives, and is no daemon.
    scratch.put("daemon.lock", &format!("{}\n", std::os::unix::process::parent_id()));
    let _state = scratch.open();
    assert_eq!(scratch.get("daemon.lock"), format!("{}\n", std::process::id()));
}

#[test]
fn two_directories_are_two_locks() {
    let (one, other) = (Scratch::new(), Scratch::new());
    let _first = one.open();
    let _second = other.open();
    // A copy of a directory in use is another directory.
    fs::copy(one.file("daemon.lock"), other.folder.path().join("copy")).unwrap();
    let copied = other.folder.path().join("cloned");
    fs::create_dir(&copied).unwrap();
    set_mode(&copied, 0o700);
    fs::copy(one.file("daemon.lock"), copied.join("daemon.lock")).unwrap();
    StateDir::open(&copied).unwrap();
}

#[test]
fn a_lock_is_taken_by_directory_not_by_path() {
    let scratch = Scratch::new();
    let _state = scratch.open();
    let link = scratch.folder.path().join("link");
    symlink(scratch.state(), &link).unwrap();
    assert_eq!(StateDir::open(&link).unwrap_err().code(), "state_directory_in_use");
}

#[test]
fn a_killed_holder_leaves_no_lock() {
    if let Some(directory) = given_directory() {
        let _state = StateDir::open(&directory).unwrap();
        println!("\nholding");
        // Until the end of input: the parent kills first.
        let _ = std::io::stdin().read_line(&mut String::new());
        return;
    }
    let scratch = Scratch::new();
    let mut child = start_test(
        "tests::directory::a_killed_holder_leaves_no_lock",
        "022",
        &scratch.state(),
    );
    let output = BufReader::new(child.stdout.take().unwrap());
    assert!(output.lines().any(|line| line.unwrap() == "holding"));
    let error = StateDir::open(&scratch.state()).unwrap_err();
    assert!(
        matches!(error, IdentityError::InUse { pid: Some(pid), .. } if pid == child.id()),
        "{error}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(scratch.get("daemon.lock"), format!("{}\n", child.id()));
    scratch.open();
}

#[test]
fn everything_is_private_whatever_the_umask() {
    if let Some(directory) = given_directory() {
        let state = StateDir::open(&directory).unwrap();
        let mut identity = state.load_or_create_identity(NOW).unwrap();
        let key = identity.keys().public_key().clone();
        state
            .pin_controller(&mut identity, &key, goblin_keys::Fingerprint::of_der(b"x"))
            .unwrap();
        state.store_trust("controller", &"secret".into(), NOW).unwrap();
        state.consume_enrollment(NOW).unwrap();
        state.write_pairing_code("worker", "AAAA-BBBB-CCCC", NOW).unwrap();
        return;
    }
    for umask in ["000", "027", "077"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("parent/state");
        let name = "tests::directory::everything_is_private_whatever_the_umask";
        let mut child = start_test(name, umask, &path);
        child.stdin.take().unwrap().flush().unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(mode(&path), 0o700, "umask {umask}");
        let files: Vec<_> = fs::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(files.len(), 5, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "umask {umask}: {}", file.display());
        }
    }
}

#[test]
fn an_open_directory_that_is_plainly_ours_is_made_private() {
    // Empty, even when others may write: a fresh folder of a service manager or container.
    for open in [0o755, 0o750, 0o777, 0o701] {
        let scratch = Scratch::new();
        set_mode(&scratch.state(), open);
        scratch.open();
        assert_eq!(mode(&scratch.state()), 0o700);
    }
    // With files of ours.
    for name in [
        "node-identity.json",
        "operations.json",
        "controller-enrollment-consumed",
        "daemon.lock",
    ] {
        let scratch = Scratch::new();
        if name != "node-identity.json" {
            scratch.put(name, "");
        } else {
            scratch.open().load_or_create_identity(NOW).unwrap();
        }
        set_mode(&scratch.state(), 0o755);
        scratch.open();
        assert_eq!(mode(&scratch.state()), 0o700, "{name}");
    }
}

#[test]
fn an_open_directory_of_others_is_left_alone() {
    let foreign = Scratch::new();
    foreign.put("someone-elses.conf", "");
    set_mode(&foreign.state(), 0o755);
    let writable = Scratch::new();
    writable.put("node-identity.json", "{}");
    set_mode(&writable.state(), 0o770);
    for (scratch, expected) in [(foreign, 0o755), (writable, 0o770)] {
        let error = StateDir::open(&scratch.state()).unwrap_err();
        assert_eq!(error.code(), "state_directory_exposed");
        let remedy = format!("chmod 700 '{}'", scratch.state().display());
        assert!(error.to_string().contains(&remedy), "{error}");
        assert_eq!(mode(&scratch.state()), expected);
        assert!(!scratch.file("daemon.lock").exists());
        set_mode(&scratch.state(), 0o700);
        scratch.open();
    }
}

#[test]
fn an_exposed_key_or_secret_stops_the_start_with_the_remedy() {
    for name in ["node-identity.json", "controller-trust.json"] {
        for open in [0o644, 0o640, 0o604, 0o620, 0o602] {
            let scratch = Scratch::new();
            scratch.put(name, "{}");
            set_mode(&scratch.file(name), open);
            let error = StateDir::open(&scratch.state()).unwrap_err();
            assert_eq!(error.code(), "state_file_exposed");
            let text = error.to_string();
            assert!(text.contains(&format!("{open:04o}")), "{text}");
            assert!(
                text.contains(&format!("chmod 600 '{}'", scratch.file(name).display())),
                "{text}"
            );
            assert_eq!(mode(&scratch.file(name)), open);
            // The refused opening holds no lock.
            set_mode(&scratch.file(name), 0o400);
            scratch.open();
        }
    }
}

#[test]
fn files_that_are_no_secret_may_be_readable() {
    let scratch = Scratch::new();
    for name in ["pairing-code.json", "controller-enrollment-consumed", "operations.json"] {
        scratch.put(name, "");
        set_mode(&scratch.file(name), 0o644);
    }
    assert!(scratch.open().enrollment_consumed().unwrap());
}

#[test]
fn what_is_no_file_is_not_followed() {
    for name in ["node-identity.json", "controller-trust.json", "daemon.lock"] {
        let scratch = Scratch::new();
        let elsewhere = scratch.folder.path().join("elsewhere");
        fs::write(&elsewhere, "{}").unwrap();
        set_mode(&elsewhere, 0o600);
        symlink(&elsewhere, scratch.file(name)).unwrap();
        let error = StateDir::open(&scratch.state()).unwrap_err();
        assert!(
            matches!(&error, IdentityError::NotRegular { path } if *path == scratch.file(name)),
            "{error}"
        );
        fs::remove_file(scratch.file(name)).unwrap();
        fs::create_dir(scratch.file(name)).unwrap();
        let error = StateDir::open(&scratch.state()).unwrap_err();
        assert_eq!(error.code(), "state_file_not_regular", "{name}: {error}");
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "{}");
    }
}

#[test]
fn what_is_no_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let dangling = folder.path().join("dangling");
    symlink("nowhere", &dangling).unwrap();
    for path in [file.as_path(), &file.join("below"), &dangling, Path::new("")] {
        let error = StateDir::open(path).unwrap_err();
        assert_eq!(error.code(), "state_directory_io", "{}", path.display());
    }
}

#[test]
fn a_read_only_directory_is_an_error_that_names_it() {
    let scratch = Scratch::new();
    let error = as_ordinary_user(&scratch.state(), || {
        set_mode(&scratch.state(), 0o500);
        StateDir::open(&scratch.state()).unwrap_err()
    });
    let text = error.to_string();
    assert_eq!(error.code(), "state_directory_io");
    assert!(
        text.contains(&scratch.file("daemon.lock").display().to_string()),
        "{text}"
    );
    assert!(text.contains("ermission denied"), "{text}");
}

#[test]
fn a_directory_that_becomes_read_only_keeps_its_files() {
    let scratch = Scratch::new();
    let error = as_ordinary_user(&scratch.state(), || {
        let state = scratch.open();
        state.write_pairing_code("worker", "AAAA-BBBB-CCCC", NOW).unwrap();
        set_mode(&scratch.state(), 0o500);
        state.write_pairing_code("worker", "DDDD-EEEE-FFFF", NOW).unwrap_err()
    });
    set_mode(&scratch.state(), 0o700);
    assert!(error.to_string().contains("pairing-code.json"), "{error}");
    assert!(scratch.get("pairing-code.json").contains("AAAA-BBBB-CCCC"));
    assert_eq!(scratch.names(), ["daemon.lock", "pairing-code.json"]);
}

#[test]
fn a_directory_of_another_account_is_refused() {
    if !rustix::process::geteuid().is_root() {
        // Another account's directory can't be made here; what root owns serves as well.
        let error = StateDir::open(Path::new("/")).unwrap_err();
        assert_eq!(error.code(), "state_directory_foreign");
        return;
    }
    let scratch = Scratch::new();
    let inner = scratch.file("inner");
    fs::create_dir(&inner).unwrap();
    set_mode(&inner, 0o755);
    let error = as_ordinary_user(&scratch.state(), || StateDir::open(&inner).unwrap_err());
    assert!(
        matches!(error, IdentityError::ForeignDirectory { owner: 0, .. }),
        "{error}"
    );
}

#[test]
fn what_root_writes_belongs_to_the_directorys_account() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new();
    if !rustix::process::geteuid().is_root() {
        // Only root can write for others; what an account writes is its own.
        scratch.open().consume_enrollment(NOW).unwrap();
        let owner = fs::metadata(scratch.file("controller-enrollment-consumed"))
            .unwrap()
            .uid();
        assert_eq!(owner, rustix::process::geteuid().as_raw());
        return;
    }
    as_ordinary_user(&scratch.state(), || {
        scratch.open().load_or_create_identity(NOW).map(|_| ()).unwrap()
    });
    fs::remove_file(scratch.file("daemon.lock")).unwrap();
    let state = scratch.open();
    state.unpair(NOW).unwrap();
    drop(state);
    for name in scratch.names() {
        assert_eq!(fs::metadata(scratch.file(&name)).unwrap().uid(), 65_534, "{name}");
    }
    // The daemon's account can still take the lock and read everything.
    as_ordinary_user(&scratch.state(), || {
        assert!(scratch.open().enrollment_consumed().unwrap())
    });
}
