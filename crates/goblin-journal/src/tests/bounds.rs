//! What is bounded: entries, memory, and how long anything stays on the disk.

use super::*;
use crate::Fault;
use crate::state::OUTCOME_MAX;

#[test]
fn the_oldest_of_256_goes_first_and_a_replay_saves_none() {
    for file in [true, false] {
        let mut place = Place::new();
        if !file {
            place.options.file = None;
        }
        let journal = place.open(T0);
        for number in 0..256 {
            run(&journal, &number.to_string(), T0);
        }
        assert_eq!(look(&journal, "0", T0), completed("0"));
        run(&journal, "last", T0);
        assert_eq!(look(&journal, "0", T0), Lookup::Free);
        assert_eq!(look(&journal, "1", T0), completed("1"));
        assert_eq!(journal.len(), 256);
        if file {
            drop(journal);
            let journal = place.open(T0);
            assert_eq!(look(&journal, "0", T0), Lookup::Free);
            assert_eq!(look(&journal, "1", T0), completed("1"));
            assert_eq!(journal.len(), 256);
        }
    }
}

#[test]
fn outcomes_in_memory_are_bounded_in_bytes() {
    let mut place = Place::new();
    place.options.file = None;
    place.tuning.memory_bytes = 1_000;
    let journal = place.open(T0);
    for id in ["a", "b", "c"] {
        journal
            .complete(id, &digest(id), format!("\"{}\"", "x".repeat(398)), T0)
            .unwrap();
    }
    assert_eq!(look(&journal, "a", T0), Lookup::Free);
    assert!(journal.contains_completed("b", T0) && journal.contains_completed("c", T0));
    journal
        .complete("huge", &digest("huge"), "1".repeat(1_001), T0)
        .unwrap();
    assert!(
        journal.is_empty(),
        "what can't be kept at all drives out the rest and itself"
    );
    assert_eq!(journal.warnings(), Vec::<String>::new());
}

#[test]
fn an_outcome_too_large_for_a_record_is_refused_and_replayed_from_memory() {
    let place = Place::new();
    let journal = place.open(T0);
    let huge = format!("\"{}\"", "x".repeat(OUTCOME_MAX));
    assert!(matches!(
        journal.complete("huge", &digest("huge"), huge.clone(), T0),
        Err(Fault::TooLarge { .. })
    ));
    assert_eq!(look(&journal, "huge", T0), Lookup::Completed { outcome: huge.into() });
    let largest = format!("\"{}\"", "x".repeat(OUTCOME_MAX - 2));
    journal
        .complete("largest", &digest("largest"), largest.clone(), T0)
        .unwrap();
    let mut record = started("mark", T0);
    record.mark = "m".repeat(17_000);
    assert!(matches!(journal.start(&record, T0), Err(Fault::TooLarge { .. })));
    drop(journal);
    for _ in 0..2 {
        let journal = place.open(T0);
        assert_eq!(
            look(&journal, "largest", T0),
            Lookup::Completed {
                outcome: largest.as_str().into()
            }
        );
        assert_eq!(look(&journal, "huge", T0), Lookup::Free);
        journal.close(T0).unwrap();
    }
}

#[test]
fn expired_outcomes_leave_the_disk_within_a_minute_and_dropping_segments_is_enough() {
    let place = Place::new();
    let journal = place.open(T0);
    // An operation that runs all the time: its record must outlive the segments.
    journal.start(&started("long", T0), T0).unwrap();
    let mut log: Vec<(String, u64)> = Vec::new();
    // Ten minutes of work, then idleness; the caller calls every 30 s, a little late.
    for second in 0..1_200u64 {
        let now = T0 + second * 1_000;
        if second < 600 && second % 7 == 0 {
            let id = format!("op-{second}-");
            run(&journal, &id, now);
            log.push((id, now + RETENTION));
        }
        if second % 31 == 30 {
            journal.expire(now);
            journal.settle();
            for (id, expires) in &log {
                assert!(
                    now < expires + 60_000 - 31_000 || !place.on_disk(&outcome(id)),
                    "{id} at {second}"
                );
                assert_eq!(
                    look(&journal, id, now),
                    if now < *expires { completed(id) } else { Lookup::Free }
                );
            }
            assert!(place.segments().len() <= 30);
        }
    }
    assert!(!place.snapshot().exists(), "nothing had to be rewritten");
    assert_eq!(place.segments().len(), 1);
    drop(journal);
    let opened = place.open_all(T0 + 1_300_000);
    assert_eq!(opened.unfinished, [started("long", T0)]);
}

#[test]
fn an_expired_outcome_leaves_the_snapshot_though_others_in_it_live_on() {
    let place = Place::new();
    let entry = |id: &str, expires: u64| {
        format!(
            r#"{{"id":"{id}","requestDigest":"{}","result":{},"expiresAt":{expires}}}"#,
            digest(id),
            outcome(id)
        )
    };
    let entries = [
        entry("young", T0 + 500_000),
        entry("old", T0 + 1_000),
        entry("middle", T0 + 100_000),
    ];
    fs::write(place.snapshot(), format!(r#"{{"entries":[{}]}}"#, entries.join(","))).unwrap();
    let journal = place.open(T0);
    run(&journal, "new", T0);
    for second in (30..=210).step_by(30) {
        let now = T0 + second * 1_000;
        journal.expire(now);
        journal.settle();
        assert!(!place.on_disk(&outcome("old")) || now < T0 + 61_000);
        assert!(!place.on_disk(&outcome("middle")) || now < T0 + 160_000);
        for id in ["young", "new"] {
            assert_eq!(look(&journal, id, now), completed(id));
        }
    }
    assert_eq!(
        place.ids_in_snapshot(),
        ["young"],
        "the log is not folded for the snapshot's sake"
    );
    journal.close(T0 + 220_000).unwrap();
    assert_eq!(place.ids_in_snapshot(), ["young", "new"]);
}

#[test]
fn a_clock_set_back_delays_nothing_beyond_its_own_expiry() {
    let place = Place::new();
    let journal = place.open(T0);
    run(&journal, "future", T0 + 3_600_000);
    run(&journal, "now", T0);
    let after = T0 + RETENTION;
    journal.expire(after);
    journal.settle();
    journal.expire(after + 30_000);
    journal.settle();
    assert!(!place.on_disk(&outcome("now")));
    assert_eq!(look(&journal, "future", after + 30_000), completed("future"));
    run(&journal, "later", after);
    journal.expire(after + 40_000);
    assert_eq!(look(&journal, "later", after + 40_000), completed("later"));
}

#[test]
fn a_long_log_is_folded_in_the_background_and_stays_bounded() {
    let mut place = Place::new();
    place.tuning = SMALL;
    let journal = place.open(T0);
    journal.start(&started("long", T0), T0).unwrap();
    for number in 0..500 {
        run(&journal, &format!("op-{number}"), T0);
        if number % 50 == 0 {
            journal.settle();
        }
    }
    journal.settle();
    journal.expire(T0);
    journal.settle();
    let size: u64 = place
        .names()
        .iter()
        .map(|name| fs::metadata(place.folder.path().join(name)).unwrap().len())
        .sum();
    assert!(size < 200_000, "{size} bytes");
    assert!(place.snapshot().exists());
    drop(journal);
    let opened = place.open_all(T0);
    assert_eq!(opened.unfinished, [started("long", T0)]);
    for number in 244..500 {
        let id = format!("op-{number}");
        assert_eq!(look(&opened.journal, &id, T0), completed(&id));
    }
}
