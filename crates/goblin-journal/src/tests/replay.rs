//! The ordinary life: start, complete, replay, close, open again; and operations whose outcome is not known.

use super::*;

#[test]
fn an_outcome_is_replayed_as_delivered_until_it_expires_and_a_replay_refreshes_nothing() {
    for file in [true, false] {
        let mut place = Place::new();
        if !file {
            place.options.file = None;
        }
        let journal = place.open(T0);
        assert_eq!(look(&journal, "a", T0), Lookup::Free);
        journal.start(&started("a", T0), T0).unwrap();
        assert_eq!(
            look(&journal, "a", T0),
            Lookup::Free,
            "active operations are the caller's business"
        );
        let text = r#"{"stdout":"é\u0000\\\"","n":1.50}"#;
        journal.complete("a", &digest("a"), text, T0 + 10).unwrap();
        let end = T0 + 10 + RETENTION;
        for now in [T0 + 10, T0 + 200_000, end - 1] {
            assert_eq!(look(&journal, "a", now), Lookup::Completed { outcome: text.into() });
            assert!(journal.contains_completed("a", now));
        }
        assert_eq!(
            journal.lookup("a", "another", || "no".to_owned(), T0 + 20),
            Lookup::Conflict
        );
        assert_eq!(look(&journal, "a", end), Lookup::Free);
        assert!(!journal.contains_completed("a", end));
        assert_eq!(journal.len(), 1);
        journal.expire(end);
        assert!(journal.is_empty());
        journal.close(end).unwrap();
        assert_eq!(place.names().is_empty(), !file);
    }
}

#[test]
fn a_clean_stop_leaves_the_snapshot_alone_in_insertion_order_and_it_is_taken_over() {
    let place = Place::new();
    let journal = place.open(T0);
    for id in ["b", "a", "c"] {
        run(&journal, id, T0);
    }
    journal.close(T0 + 1).unwrap();
    assert!(matches!(
        journal.start(&started("d", T0), T0),
        Err(crate::Fault::Closed)
    ));
    drop(journal);
    assert_eq!(place.names(), ["operations.json"]);
    assert_eq!(place.ids_in_snapshot(), ["b", "a", "c"]);
    let before = fs::read(place.snapshot()).unwrap();
    let text = String::from_utf8(before.clone()).unwrap();
    let expires = T0 + RETENTION;
    let first = r#"{"entries":[{"id":"b","requestDigest":"digest of b","result":{"stdout":"says b"},"expiresAt":"#;
    assert!(
        text.starts_with(&format!("{first}{expires}}},{{\"id\":\"a\"")),
        "{text}"
    );

    let journal = place.open(T0 + 2);
    for id in ["b", "a", "c"] {
        assert_eq!(look(&journal, id, T0 + 2), completed(id));
        assert_eq!(look(&journal, id, expires), Lookup::Free);
    }
    journal.settle();
    assert_eq!(place.names(), ["operations.json"]);
    assert_eq!(
        fs::read(place.snapshot()).unwrap(),
        before,
        "an opening changes nothing that is in order"
    );
}

#[test]
fn after_a_crash_the_log_is_taken_over_and_folded_into_the_snapshot() {
    for sync in [Sync::Always, Sync::Grouped, Sync::Never] {
        let mut place = Place::new();
        place.options.sync = sync;
        let journal = place.open(T0);
        run(&journal, "a", T0);
        run(&journal, "b", T0);
        assert_eq!(place.segments(), ["operations.log.000001"]);
        drop(journal);
        let journal = place.open(T0 + 5);
        assert_eq!(look(&journal, "a", T0 + 5), completed("a"));
        journal.settle();
        assert_eq!(place.names(), ["operations.json"]);
        assert_eq!(place.ids_in_snapshot(), ["a", "b"]);
        run(&journal, "c", T0 + 6);
        drop(journal);
        let journal = place.open(T0 + 7);
        for id in ["a", "b", "c"] {
            assert_eq!(look(&journal, id, T0 + 7), completed(id));
        }
        assert_eq!(
            look(&journal, "a", T0 + RETENTION),
            Lookup::Free,
            "retention counts from completion"
        );
    }
}

#[test]
fn a_start_without_an_outcome_is_unknown_for_the_window_after_the_next_start() {
    let place = Place::new();
    let journal = place.open(T0);
    journal.start(&started("lost", T0), T0).unwrap();
    run(&journal, "done", T0);
    journal.start(&started("gone", T0), T0).unwrap();
    journal.withdraw("gone", T0).unwrap();
    drop(journal);

    let opening = T0 + 1_000_000;
    let opened = place.open_all(opening);
    assert_eq!(opened.unfinished, [started("lost", T0)]);
    let journal = opened.journal;
    journal.settle();
    let unknown = Lookup::Unknown { started_at_ms: T0 };
    assert_eq!(look(&journal, "lost", opening), unknown);
    assert_eq!(look(&journal, "lost", opening + RETENTION - 1), unknown);
    assert_eq!(
        journal.lookup("lost", "another", || "no".to_owned(), opening),
        Lookup::Conflict
    );
    assert_eq!(look(&journal, "gone", opening), Lookup::Free);
    assert_eq!(look(&journal, "lost", opening + RETENTION), Lookup::Free);
    drop(journal);

    // Neither a crash nor a clean stop within the window makes it forgotten, nor does either prolong the window.
    let mut now = opening;
    for clean in [false, true, true, false] {
        now += 10_000;
        let opened = place.open_all(now);
        assert_eq!(opened.unfinished, [started("lost", T0)]);
        assert_eq!(look(&opened.journal, "lost", now), unknown);
        if clean {
            opened.journal.close(now).unwrap();
            assert_eq!(place.segments().len(), 1, "its record alone stays in the log");
        }
    }
    let opened = place.open_all(opening + RETENTION);
    assert_eq!(opened.unfinished, []);
    assert_eq!(look(&opened.journal, "lost", opening + RETENTION), Lookup::Free);
    opened.journal.close(opening + RETENTION).unwrap();
    drop(opened);
    assert_eq!(place.names(), ["operations.json"]);
}

#[test]
fn an_unknown_operation_that_is_run_again_after_its_window_is_completed_as_ever() {
    let place = Place::new();
    drop({
        let journal = place.open(T0);
        journal.start(&started("a", T0), T0).unwrap();
        journal
    });
    let journal = place.open_all(T0).journal;
    run(&journal, "a", T0 + RETENTION);
    drop(journal);
    let opened = place.open_all(T0 + RETENTION + 1);
    assert_eq!(opened.unfinished, []);
    assert_eq!(look(&opened.journal, "a", T0 + RETENTION + 1), completed("a"));
}

#[test]
fn an_explicit_file_has_its_log_beside_it_under_its_own_name() {
    let mut place = Place::new();
    place.options.file = Some(place.folder.path().join("other.name.json"));
    let journal = place.open(T0);
    run(&journal, "a", T0);
    assert!(
        place.names().contains(&"other.name.json.log.000001".to_owned()),
        "{:?}",
        place.names()
    );
    journal.close(T0).unwrap();
    drop(journal);
    assert_eq!(place.names(), ["other.name.json", "other.name.json.log.lock"]);
    assert_eq!(look(&place.open(T0), "a", T0), completed("a"));
}

#[test]
fn a_second_journal_on_the_same_file_is_refused_by_name() {
    let place = Place::new();
    let journal = place.open(T0);
    let error = Journal::open(place.options.clone(), T0).unwrap_err();
    assert_eq!(error.code(), "journal_locked");
    assert!(error.to_string().contains("operations.log.lock"), "{error}");
    drop(journal);
    place.open(T0);
}

#[test]
fn grouped_appends_reach_the_disk_without_anybody_asking() {
    let mut place = Place::new();
    place.options.sync = Sync::Grouped;
    let journal = place.open(T0);
    for round in 0..3 {
        run(&journal, &round.to_string(), T0 + round * 20_000);
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while !journal.is_synced() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
    }
    assert_eq!(place.segments().len(), 3);
}

#[test]
fn threads_share_it() {
    let mut place = Place::new();
    place.tuning = SMALL;
    place.options.sync = Sync::Grouped;
    let journal = place.open(T0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let journal = &journal;
            scope.spawn(move || {
                for number in 0..60 {
                    let id = format!("{thread}-{number}");
                    run(journal, &id, T0);
                    assert_eq!(look(journal, &id, T0), completed(&id));
                }
            });
        }
    });
    assert_eq!(journal.len(), 240);
    drop(journal);
    let journal = place.open(T0);
    for thread in 0..4 {
        for number in 0..60 {
            let id = format!("{thread}-{number}");
            assert_eq!(look(&journal, &id, T0), completed(&id));
        }
    }
}

/// The snapshot of a first life holds an old outcome; the same id completes again within the same millisecond after the
/// old one was evicted, and the segment that tells of the eviction is dropped.
#[test]
fn a_later_outcome_wins_over_the_snapshot_even_within_a_millisecond() {
    let mut place = Place::new();
    place.options.capacity = 2;
    let journal = place.open(T0);
    journal.complete("a", &digest("a"), "\"first\"", T0).unwrap();
    journal.close(T0).unwrap();
    drop(journal);
    let journal = place.open(T0);
    for id in ["b", "c"] {
        run(&journal, id, T0);
    }
    assert_eq!(look(&journal, "a", T0), Lookup::Free);
    journal.complete("a", &digest("a"), "\"later\"", T0).unwrap();
    drop(journal);
    // What the background leaves when a segment is dead: only the end of the log.
    let path = place.folder.path().join("operations.log.000001");
    let log = fs::read_to_string(&path).unwrap();
    fs::write(&path, log.lines().last().map(|line| format!("{line}\n")).unwrap()).unwrap();
    let expected = Lookup::Completed {
        outcome: "\"later\"".into(),
    };
    assert_eq!(look(&place.open(T0), "a", T0), expected);
}
