//! Where a journal may lie, whose its files are, and what two journals beside each other share: nothing.

use super::*;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::JournalError;

const OTHER: u32 = 65_534;

fn refused(place: &Place) -> JournalError {
    Journal::open_tuned(place.options.clone(), place.tuning, T0).unwrap_err()
}

/// Puts something that is no regular file under the path; says whether that could be done.
fn put(kind: &str, path: &Path) -> bool {
    let node = |kind, device| mknodat(CWD, path, kind, Mode::RUSR | Mode::WUSR, device).is_ok();
    match kind {
        "pipe" => node(FileType::Fifo, 0),
        "socket" => node(FileType::Socket, 0),
        // Takes root.
        "device" => node(FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
        "directory" => fs::create_dir(path).is_ok(),
        "link to a device" => symlink("/dev/null", path).is_ok(),
        "link to a directory" => symlink("/", path).is_ok(),
        "dangling link" => symlink("nowhere", path).is_ok(),
        "loop" => symlink(path, path).is_ok(),
        other => panic!("{other}"),
    }
}

#[test]
fn what_is_no_regular_file_is_refused_by_name_and_left_alone() {
    let kinds = [
        "pipe",
        "socket",
        "device",
        "directory",
        "link to a device",
        "link to a directory",
        "dangling link",
        "loop",
    ];
    let names = [
        "operations.json",
        "operations.log.7",
        "operations.log.lock",
        "operations.log.new",
    ];
    for kind in kinds {
        for name in names {
            let place = Place::new();
            let path = place.folder.path().join(name);
            if !put(kind, &path) {
                continue;
            }
            let before = fs::symlink_metadata(&path).unwrap();
            let error = refused(&place);
            assert_eq!(error.code(), "journal_not_regular", "{kind} {name}");
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            let after = fs::symlink_metadata(&path).unwrap();
            let facts = |it: &fs::Metadata| (it.ino(), it.mode(), it.nlink(), it.uid());
            assert_eq!(facts(&after), facts(&before), "{kind} {name}");
            let corrupt = place.names().into_iter().filter(|name| name.contains("corrupt"));
            assert_eq!(corrupt.count(), 0, "{kind} {name}");
        }
    }
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(fs::metadata("/dev/null").unwrap().mode() & 0o777, 0o666);
}

#[test]
fn a_device_that_takes_the_name_later_is_not_replaced() {
    let place = Place::new();
    let journal = place.open(T0);
    run(&journal, "a", T0);
    rustix::fs::mknodat(CWD, place.snapshot(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    journal.close(T0).unwrap_err();
    assert!(fs::metadata(place.snapshot()).unwrap().file_type().is_fifo());
    drop(journal);
    fs::remove_file(place.snapshot()).unwrap();
    assert_eq!(look(&place.open(T0), "a", T0), completed("a"));
}

#[test]
fn a_link_to_a_file_stands_for_that_file() {
    let target = Place::new();
    let journal = target.open(T0);
    run(&journal, "a", T0);
    journal.close(T0).unwrap();
    drop(journal);
    let mut place = Place::new();
    let link = place.snapshot();
    symlink(target.snapshot(), &link).unwrap();
    place.options.file = Some(link.clone());
    let journal = place.open(T0);
    assert_eq!(look(&journal, "a", T0), completed("a"));
    run(&journal, "b", T0);
    assert_eq!(refused(&target).code(), "journal_locked", "both names are one journal");
    journal.close(T0).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(place.names(), ["operations.json"]);
    assert_eq!(target.ids_in_snapshot(), ["a", "b"]);
}

#[test]
fn two_journals_beside_each_other_share_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        "host.one",
        "host.two",
        "host",
        "host.new",
        "operations.json",
        "operations",
        "operations.txt",
    ];
    let open = |name: &str| {
        let mut options = Options::new(Some(folder.path().join(name)));
        options.sync = Sync::Never;
        Journal::open(options, T0).unwrap()
    };
    let opened: Vec<Opened> = names.map(open).into();
    for (name, opened) in names.iter().zip(&opened) {
        run(&opened.journal, name, T0);
    }
    drop(opened);
    for round in 0..2 {
        let opened: Vec<Opened> = names.map(open).into();
        for (name, opened) in names.iter().zip(&opened) {
            assert_eq!(opened.notices, Vec::<String>::new());
            assert_eq!(opened.journal.ids(), [*name], "round {round}");
            opened.journal.close(T0).unwrap();
        }
    }
    let log = Options::new(Some(folder.path().join("operations.json")));
    run(&Journal::open(log, T0).unwrap().journal, "x", T0);
    assert!(folder.path().join("operations.log.000001").is_file());
    assert!(folder.path().join("host.one.log.lock").is_file());
}

/// Runs on a thread that has given up root. A process without root is what we want already.
fn as_other<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let other = rustix::fs::Uid::from_raw(OTHER);
                rustix::thread::set_thread_res_uid(other, other, other).unwrap();
            }
            work()
        });
        thread.join().unwrap()
    })
}

fn owners(place: &Place) -> Vec<(String, u32, u32)> {
    let mut owners: Vec<_> = fs::read_dir(place.folder.path())
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            (
                entry.file_name().into_string().unwrap(),
                metadata.uid(),
                metadata.mode() & 0o777,
            )
        })
        .collect();
    owners.sort();
    owners
}

#[test]
fn what_root_writes_belongs_to_the_owner_of_the_directory() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for clean in [true, false] {
        let place = Place::new();
        std::os::unix::fs::chown(place.folder.path(), Some(OTHER), Some(OTHER)).unwrap();
        let journal = place.open(T0);
        run(&journal, "a", T0);
        if clean {
            journal.close(T0).unwrap();
        }
        drop(journal);
        let owners = owners(&place);
        assert_eq!(owners.len(), 2, "{owners:?}");
        for (name, owner, mode) in owners {
            assert_eq!((owner, mode), (OTHER, 0o600), "{name}");
        }
        as_other(|| assert_eq!(look(&place.open(T0), "a", T0), completed("a")));
    }
}

#[test]
fn a_file_that_can_not_be_read_is_moved_aside_or_named_with_the_remedy() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for name in ["operations.json", "operations.log.000001"] {
        let place = Place::new();
        let path = place.folder.path().join(name);
        fs::write(&path, "{\"entries\":[]}").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        // A folder that the account can search but not write.
        fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let lock = place.folder.path().join("operations.log.lock");
        fs::write(&lock, "").unwrap();
        std::os::unix::fs::chown(&lock, Some(OTHER), None).unwrap();
        let error = as_other(|| refused(&place));
        assert_eq!(error.code(), "journal_access_denied");
        let text = error.to_string();
        assert!(
            text.contains(path.to_str().unwrap()) && text.contains("chown"),
            "{text}"
        );

        std::os::unix::fs::chown(place.folder.path(), Some(OTHER), None).unwrap();
        as_other(|| {
            let opened = place.open_all(T0);
            assert_eq!(opened.notices.len(), 1, "{:?}", opened.notices);
            assert!(opened.notices[0].contains("set aside"), "{:?}", opened.notices);
            run(&opened.journal, "a", T0);
            opened.journal.close(T0).unwrap();
        });
        let aside = place.folder.path().join(format!("{name}.corrupt-{T0}"));
        assert_eq!(fs::metadata(aside).unwrap().uid(), 0);
        as_other(|| assert_eq!(look(&place.open(T0), "a", T0), completed("a")));
    }
}

#[test]
fn a_lock_of_another_account_is_an_error_with_the_remedy() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    std::os::unix::fs::chown(place.folder.path(), Some(OTHER), None).unwrap();
    let lock = place.folder.path().join("operations.log.lock");
    fs::write(&lock, "").unwrap();
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o600)).unwrap();
    let error = as_other(|| refused(&place));
    assert_eq!(error.code(), "journal_access_denied");
    assert!(error.to_string().contains("operations.log.lock"), "{error}");
}
