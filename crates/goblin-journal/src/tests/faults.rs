//! A disk that refuses: the caller is told, the outcome is replayed from memory, and later writing works again.

use super::*;
use crate::Fault;

#[test]
fn while_the_folder_is_away_outcomes_are_kept_in_memory_and_reach_the_disk_afterwards() {
    let outer = tempfile::tempdir().unwrap();
    let (folder, away) = (outer.path().join("state"), outer.path().join("away"));
    fs::create_dir(&folder).unwrap();
    let mut place = Place::new();
    place.options.file = Some(folder.join("operations.json"));
    place.tuning.segment_age_ms = 1;
    let journal = place.open(T0);
    run(&journal, "before", T0);
    fs::rename(&folder, &away).unwrap();
    for (number, id) in ["x", "y"].into_iter().enumerate() {
        let now = T0 + 10 + number as u64;
        let fault = journal.start(&started(id, now), now).unwrap_err();
        assert_eq!(fault.code(), "journal_write_failed");
        journal.complete(id, &digest(id), outcome(id), now).unwrap_err();
        assert_eq!(look(&journal, id, now), completed(id));
    }
    journal.start(&started("running", T0), T0 + 15).unwrap_err();
    assert_eq!(look(&journal, "before", T0), completed("before"));
    assert_eq!(journal.warnings().len(), 1, "{:?}", journal.warnings());
    journal.expire(T0 + 20);
    journal.settle();
    assert!(!journal.warnings().is_empty());

    fs::rename(&away, &folder).unwrap();
    journal.expire(T0 + 30_000);
    journal.settle();
    assert_eq!(journal.warnings(), Vec::<String>::new(), "it is all on the disk now");
    run(&journal, "after", T0 + 30_000);
    drop(journal);
    let opened = place.open_all(T0 + 40_000);
    assert_eq!(opened.unfinished, [started("running", T0)]);
    for id in ["before", "x", "y", "after"] {
        assert_eq!(look(&opened.journal, id, T0 + 40_000), completed(id));
    }
}

#[test]
fn the_next_append_that_works_brings_the_rest_to_the_disk_too() {
    let place = Place::new();
    let journal = place.open(T0);
    fs::create_dir(place.folder.path().join("operations.log.000001")).unwrap();
    journal.complete("x", &digest("x"), outcome("x"), T0).unwrap_err();
    assert_eq!(journal.warnings().len(), 1);
    run(&journal, "y", T0);
    journal.settle();
    assert_eq!(journal.warnings(), Vec::<String>::new());
    fs::remove_dir(place.folder.path().join("operations.log.000001")).unwrap();
    drop(journal);
    let journal = place.open(T0);
    for id in ["x", "y"] {
        assert_eq!(look(&journal, id, T0), completed(id));
    }
}

const LIMITED: &str = "GOBLIN_JOURNAL_TEST_LIMITED";

/// A limit on the size of files makes the system write a part of a record and refuse the rest, as a full disk does.
/// It holds for a whole process, so a child of ours takes it; the signal that comes with it is ignored from the shell.
#[test]
fn a_record_that_was_written_in_part_is_cut_off_again() {
    let own = std::env::current_exe().unwrap();
    let output = std::process::Command::new("/bin/sh")
        .args([
            "-c",
            "trap '' XFSZ; exec \"$0\" --exact tests::faults::limited_child --nocapture --include-ignored",
        ])
        .arg(own)
        .env(LIMITED, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("limited child is done"),
        "{text}"
    );
}

#[test]
#[ignore = "the child of a_record_that_was_written_in_part_is_cut_off_again"]
fn limited_child() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if std::env::var_os(LIMITED).is_none() {
        return;
    }
    let place = Place::new();
    let journal = place.open(T0);
    run(&journal, "a", T0);
    let path = place.folder.path().join("operations.log.000001");
    let length = fs::metadata(&path).unwrap().len();
    let before = getrlimit(Resource::Fsize);
    setrlimit(
        Resource::Fsize,
        Rlimit {
            current: Some(length + 100),
            ..before
        },
    )
    .unwrap();
    let large = format!("\"{}\"", "x".repeat(2_000));
    for id in ["x", "y"] {
        let fault = journal.complete(id, &digest(id), large.clone(), T0).unwrap_err();
        assert!(matches!(fault, Fault::DiskFull(_)), "{fault:?}");
        assert_eq!(fault.code(), "journal_disk_full");
        assert_eq!(fs::metadata(&path).unwrap().len(), length);
        assert_eq!(
            look(&journal, id, T0),
            Lookup::Completed {
                outcome: large.as_str().into()
            }
        );
    }
    assert_eq!(journal.warnings().len(), 1);
    journal.expire(T0);
    journal.settle();
    assert_eq!(
        journal.warnings().len(),
        2,
        "there is no room for a snapshot either: {:?}",
        journal.warnings()
    );
    assert_eq!(place.names(), ["operations.log.000001"], "and no draft is left");
    setrlimit(Resource::Fsize, before).unwrap();
    run(&journal, "b", T0 + 20_000);
    journal.settle();
    assert_eq!(journal.warnings(), Vec::<String>::new());
    drop(journal);
    // No notice: the log has neither a torn tail nor damage.
    let journal = place.open(T0);
    assert_eq!(look(&journal, "a", T0), completed("a"));
    assert_eq!(look(&journal, "b", T0), completed("b"));
    assert!(journal.contains_completed("x", T0) && journal.contains_completed("y", T0));
    println!("limited child is done");
}

#[test]
fn an_outcome_that_can_not_be_read_back_is_unknown_and_never_run_again() {
    let place = Place::new();
    let journal = place.open(T0);
    run(&journal, "a", T0);
    let path = place.folder.path().join("operations.log.000001");
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(20)
        .unwrap();
    assert_eq!(look(&journal, "a", T0 + 1), Lookup::Unknown { started_at_ms: T0 });
    assert_eq!(journal.warnings().len(), 1);
}
