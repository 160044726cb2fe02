//! Files that a crash, a full disk or a hand left damaged: set aside, reported, and as much as can be read is used.

use super::*;
use crate::state::OUTCOME_MAX;

/// A folder whose log holds the completed operations `a`, `b` and `c` in one segment.
fn logged() -> (Place, PathBuf) {
    let place = Place::new();
    let journal = place.open(T0);
    for id in ["a", "b", "c"] {
        run(&journal, id, T0);
    }
    drop(journal);
    let path = place.folder.path().join("operations.log.000001");
    (place, path)
}

fn set_aside(place: &Place, name: &str) -> Vec<String> {
    let prefix = format!("{name}.corrupt-{T0}");
    place
        .names()
        .into_iter()
        .filter(|name| name.starts_with(&prefix))
        .collect()
}

#[test]
fn a_tail_torn_anywhere_is_dropped_and_nothing_else() {
    let (_original, path) = logged();
    let whole = fs::read(&path).unwrap();
    let lines: Vec<usize> = whole
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    assert_eq!(lines.len(), 6);
    for cut in 0..whole.len() {
        let place = Place::new();
        fs::write(place.folder.path().join("operations.log.000001"), &whole[..cut]).unwrap();
        let opened = place.open_all(T0);
        let torn = cut > 0 && !lines.contains(&cut);
        assert_eq!(opened.notices.len(), usize::from(torn), "{:?}", opened.notices);
        for (number, id) in ["a", "b", "c"].into_iter().enumerate() {
            let expected = if cut >= lines[2 * number + 1] {
                completed(id)
            } else if cut >= lines[2 * number] {
                Lookup::Unknown { started_at_ms: T0 }
            } else {
                Lookup::Free
            };
            assert_eq!(look(&opened.journal, id, T0), expected, "{id} cut at {cut}");
        }
        opened.journal.settle();
        assert!(place.names().iter().all(|name| !name.contains("corrupt")));
        run(&opened.journal, "new", T0);
        assert_eq!(look(&opened.journal, "new", T0), completed("new"));
    }
}

#[test]
fn zeros_that_a_power_loss_left_at_the_end_are_a_torn_tail() {
    let (place, path) = logged();
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(&[0; 5_000]);
    fs::write(&path, bytes).unwrap();
    let opened = place.open_all(T0);
    assert_eq!(opened.notices.len(), 1);
    assert!(opened.notices[0].contains("never finished"), "{:?}", opened.notices);
    assert_eq!(look(&opened.journal, "c", T0), completed("c"));
}

#[test]
fn damage_in_the_middle_sets_the_segment_aside_and_costs_its_record_alone() {
    let (_original, path) = logged();
    let whole = fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    for (bad, line) in lines.iter().enumerate() {
        let start: usize = lines[..bad].iter().map(|line| line.len()).sum();
        let place = Place::new();
        let mut bytes = whole.clone();
        bytes[start + line.len() / 2] ^= 1;
        fs::write(place.folder.path().join("operations.log.000001"), &bytes).unwrap();
        let opened = place.open_all(T0);
        assert_eq!(opened.notices.len(), 1);
        assert!(
            opened.notices[0].contains("corrupt") && opened.notices[0].contains("checksum"),
            "{:?}",
            opened.notices
        );
        for (number, id) in ["a", "b", "c"].into_iter().enumerate() {
            let unknown = Lookup::Unknown { started_at_ms: T0 };
            let expected = if bad == 2 * number + 1 { unknown } else { completed(id) };
            assert_eq!(look(&opened.journal, id, T0), expected);
        }
        opened.journal.settle();
        let aside = set_aside(&place, "operations.log.000001");
        assert_eq!(aside.len(), 1);
        assert_eq!(fs::read(place.folder.path().join(&aside[0])).unwrap(), bytes);
        assert_eq!(
            place.segments().len(),
            usize::from(bad % 2 == 1),
            "the segment itself is folded away"
        );
        drop(opened);
        place.open(T0);
    }
}

#[test]
fn hostile_logs_are_read_without_harm() {
    let long = [b"x".repeat(crate::segment::LINE_MAX + 5), b"\n".to_vec()].concat();
    let longest = [b"x".repeat(crate::segment::LINE_MAX - 1), b"\n".to_vec()].concat();
    let endless = b"y".repeat(crate::segment::LINE_MAX * 2);
    let noise: Vec<u8> = (0..100_000u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let contents: [&[u8]; 7] = [
        &long,
        &longest,
        &endless,
        &noise,
        b"\n\n\n",
        b"00000000\t\t\n",
        b"\0\0\0\n",
    ];
    for content in contents {
        let (place, path) = logged();
        let mut bytes = fs::read(&path).unwrap();
        let good = bytes.clone();
        bytes.extend_from_slice(content);
        if content.ends_with(b"\n") {
            bytes.extend_from_slice(&good);
        }
        fs::write(&path, bytes).unwrap();
        let opened = place.open_all(T0);
        assert!(!opened.notices.is_empty());
        for id in ["a", "b", "c"] {
            assert_eq!(look(&opened.journal, id, T0), completed(id));
        }
        assert_eq!(opened.journal.len(), 3);
    }
}

#[test]
fn a_corrupt_snapshot_is_set_aside_and_what_can_be_read_of_it_stays() {
    let entry = |id: &str| {
        let (digest, outcome) = (digest(id), outcome(id));
        format!(
            r#"{{"id":"{id}","requestDigest":"{digest}","result":{outcome},"expiresAt":{}}}"#,
            T0 + 1_000
        )
    };
    let (a, b) = (entry("a"), entry("b"));
    let deep = format!(r#"{{"entries":[{},"#, "[".repeat(200_000));
    let cases: Vec<(Vec<u8>, &[&str])> = vec![
        (b"".to_vec(), &[]),
        (b"\0".to_vec(), &[]),
        (b"null".to_vec(), &[]),
        (b"{\"entries\":[ not json".to_vec(), &[]),
        (b"{\"entries\":{}}".to_vec(), &[]),
        (b"{\"entries\":[]".to_vec(), &[]),
        (b"{\"entries\":[}".to_vec(), &[]),
        (b"{\"entries\":[1,null,\"x\",{}]}".to_vec(), &[]),
        (deep.into_bytes(), &[]),
        (format!(r#"{{"entries":[{a},{b}"#).into_bytes(), &["a"]),
        (format!(r#"{{"entries":[{a},{b}]"#).into_bytes(), &["a", "b"]),
        (
            format!(r#"{{"entries":[{a},{b}]}}"#).bytes().chain(0..=255).collect(),
            &["a", "b"],
        ),
        (
            format!(r#"{{"entries":[{a},{{"id":3}},{b}]}}"#).into_bytes(),
            &["a", "b"],
        ),
        (format!(r#"{{"entries":[{a},,{b}]}}"#).into_bytes(), &["a", "b"]),
        (format!(r#"{{"entries":[{a},{b},]}}"#).into_bytes(), &["a", "b"]),
        (
            format!(r#"{{"entries":[{},{b}]}}"#, a.replace("says", "\u{1}")).into_bytes(),
            &["b"],
        ),
        (
            [
                b"{\"entries\":[".as_slice(),
                &a.replace("says", "\u{80}").into_bytes()[..60],
                b"\xff",
            ]
            .concat(),
            &[],
        ),
    ];
    let long_id = a.replace("\"a\"", &format!("\"{}\"", "i".repeat(1_025)));
    let huge = a.replace("says", &"s".repeat(OUTCOME_MAX));
    let endless = a.replace("says", &"s".repeat(2 * OUTCOME_MAX + 100_000));
    let cases = cases.into_iter().chain([long_id, huge, endless].map(|entry| {
        let kept: &[&str] = &["b"];
        (format!(r#"{{"entries":[{entry},{b}]}}"#).into_bytes(), kept)
    }));
    for (content, kept) in cases {
        let place = Place::new();
        fs::write(place.snapshot(), &content).unwrap();
        let opened = place.open_all(T0);
        let shown = String::from_utf8_lossy(&content[..content.len().min(80)]).into_owned();
        assert_eq!(opened.notices.len(), 1, "{shown}");
        assert!(opened.notices[0].contains("corrupt") && opened.notices[0].contains("operations.json"));
        let aside = set_aside(&place, "operations.json");
        assert_eq!(aside.len(), 1, "{shown}");
        assert_eq!(fs::read(place.folder.path().join(&aside[0])).unwrap(), content);
        for id in ["a", "b"] {
            let expected = if kept.contains(&id) {
                completed(id)
            } else {
                Lookup::Free
            };
            assert_eq!(look(&opened.journal, id, T0), expected, "{shown}");
        }
        opened.journal.settle();
        assert_eq!(place.ids_in_snapshot(), *kept, "{shown}");
        run(&opened.journal, "new", T0);
        opened.journal.close(T0).unwrap();
        drop(opened);
        assert_eq!(look(&place.open(T0), "new", T0), completed("new"));
    }
}

#[test]
fn files_of_other_names_are_left_alone() {
    let place = Place::new();
    let names = [
        "operations.log.x",
        "operations.log.",
        "operations.log.1.corrupt-5",
        "operations.log.99999999999999999999",
        "operations.txt",
    ];
    for name in names {
        fs::write(place.folder.path().join(name), "not ours").unwrap();
    }
    let journal = place.open(T0);
    run(&journal, "a", T0);
    journal.close(T0).unwrap();
    for name in names {
        assert_eq!(fs::read(place.folder.path().join(name)).unwrap(), b"not ours");
    }
}

#[test]
fn a_fold_that_was_cut_off_before_it_deleted_the_log_changes_nothing() {
    let (place, path) = logged();
    let log = fs::read(&path).unwrap();
    place.open(T0).close(T0).unwrap();
    fs::write(&path, &log).unwrap();
    fs::write(place.folder.path().join("operations.log.new"), "half a draft").unwrap();
    let opened = place.open_all(T0);
    assert_eq!(opened.unfinished, []);
    opened.journal.close(T0).unwrap();
    assert_eq!(place.names(), ["operations.json"]);
    assert_eq!(place.ids_in_snapshot(), ["a", "b", "c"]);
}

#[test]
fn an_outcome_that_is_no_json_does_not_spoil_the_snapshot() {
    let place = Place::new();
    let journal = place.open(T0);
    run(&journal, "a", T0);
    journal.complete("bad", &digest("bad"), "{\"cut", T0).unwrap();
    run(&journal, "b", T0);
    journal.close(T0).unwrap();
    assert_eq!(place.ids_in_snapshot(), ["a", "b"]);
    assert_eq!(journal.warnings().len(), 1);
}

#[test]
fn an_unusable_place_is_an_error_that_names_it() {
    let place = Place::new();
    let missing = place.folder.path().join("missing").join("operations.json");
    let error = Journal::open(Options::new(Some(missing)), T0).unwrap_err();
    assert_eq!(error.code(), "journal_unusable");
    assert!(error.to_string().contains("missing"), "{error}");
    let error = Journal::open(Options::new(Some("/".into())), T0).unwrap_err();
    assert_eq!(error.code(), "journal_path_invalid");
}
