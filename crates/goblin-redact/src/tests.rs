//! Redaction against a naive reference, over random texts, patterns and splits.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{MARK, Redactor};

/// Every occurrence at every place, merged where two share a byte.
fn naive(patterns: &[Vec<u8>], input: &[u8]) -> Vec<u8> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut found: Vec<(usize, usize)> = Vec::new();
    for start in 0..input.len() {
        for pattern in patterns.iter().filter(|pattern| !pattern.is_empty()) {
            if input[start..].starts_with(pattern) {
                found.push((start, start + pattern.len()));
            }
        }
    }
    found.sort_unstable();
    for (start, end) in found {
        match runs.last_mut() {
            Some(last) if start < last.1 => last.1 = last.1.max(end),
            _ => runs.push((start, end)),
        }
    }
    let mut out = Vec::new();
    let mut at = 0;
    for (start, end) in runs {
        out.extend_from_slice(&input[at..start]);
        out.extend_from_slice(MARK.as_bytes());
        at = end;
    }
    out.extend_from_slice(&input[at..]);
    out
}

fn text(patterns: &[&str], input: &str) -> String {
    Redactor::new(patterns).redact_text(input)
}

/// What each push lets out, and then the end.
fn flow(patterns: &[&str], pieces: &[&str]) -> Vec<String> {
    let mut stream = Redactor::new(patterns).stream();
    let mut seen = Vec::new();
    for piece in pieces {
        let mut out = Vec::new();
        stream.push(piece.as_bytes(), &mut out);
        seen.push(String::from_utf8(out).unwrap());
    }
    let mut out = Vec::new();
    stream.finish(&mut out);
    seen.push(String::from_utf8(out).unwrap());
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn equals_the_reference_however_it_is_split(
        patterns in prop::collection::vec(prop::collection::vec(b'a'..=b'c', 0..6), 0..5),
        pieces in prop::collection::vec(prop::collection::vec(b'a'..=b'c', 0..7), 0..12),
    ) {
        let redactor = Redactor::new(&patterns);
        let longest = patterns.iter().map(Vec::len).max().unwrap_or(0);
        let whole = pieces.concat();
        let expected = naive(&patterns, &whole);
        prop_assert_eq!(redactor.redact(&whole), expected.clone());

        let mut stream = redactor.stream();
        let mut out = Vec::new();
        let mut fed = Vec::new();
        for piece in &pieces {
            stream.push(piece, &mut out);
            fed.extend_from_slice(piece);
            // Held back: exactly the longest tail that begins a pattern without being all of it.
            let tail = (0..longest.min(fed.len() + 1)).rev().find(|length| {
                let tail = &fed[fed.len() - length..];
                patterns.iter().any(|p| p.len() > *length && p.starts_with(tail))
            });
            prop_assert_eq!(stream.held.len(), tail.unwrap_or(0));
        }
        stream.finish(&mut out);
        prop_assert_eq!(out, expected);
    }

    #[test]
    fn two_letters_overlap_all_the_time(
        patterns in prop::collection::vec("[ab]{1,5}", 1..4),
        input in "[ab]{0,40}",
        cut in 0usize..41,
    ) {
        let bytes: Vec<Vec<u8>> = patterns.iter().map(|p| p.clone().into_bytes()).collect();
        let input = input.into_bytes();
        let (first, second) = input.split_at(cut.min(input.len()));
        let mut stream = Redactor::new(&bytes).stream();
        let mut out = Vec::new();
        stream.push(first, &mut out);
        stream.push(second, &mut out);
        stream.finish(&mut out);
        prop_assert_eq!(out, naive(&bytes, &input));
    }
}

#[test]
fn overlapping_is_one_and_adjacent_is_two() {
    assert_eq!(text(&["abab"], "xababab"), "x[redacted]");
    assert_eq!(text(&["ab"], "xababy"), "x[redacted][redacted]y");
    assert_eq!(text(&["ab", "cd", "abcdX"], "abcd"), "[redacted][redacted]");
    assert_eq!(text(&["ab", "cd", "abcdX"], "abcdX"), "[redacted]");
    assert_eq!(text(&["ab", "cd", "bc"], "abcd"), "[redacted]");
    assert_eq!(text(&["a"], "aaa"), "[redacted][redacted][redacted]");
}

#[test]
fn bytes_flow_as_soon_as_they_are_decided() {
    assert_eq!(
        flow(&["secret"], &["pass: s", "o", "sec", "ret", "."]),
        ["pass: ", "so", "", "[redacted]", ".", ""]
    );
    // The mark goes out at once although the run may grow.
    assert_eq!(flow(&["aa"], &["aa", "a", "a", "b"]), ["[redacted]", "", "", "b", ""]);
    assert_eq!(flow(&["ab", "abX"], &["ab", "X"]), ["[redacted]", "", ""]);
    assert_eq!(
        flow(&["ab", "cd", "abcdX"], &["ab", "cd", "Y"]),
        ["[redacted]", "", "[redacted]Y", ""]
    );
    assert_eq!(flow(&["secret"], &["sec"]), ["", "sec"]);
}

#[test]
fn nothing_to_look_for_passes_everything() {
    let none = Redactor::new::<&str>(&[]);
    assert!(none.is_empty());
    assert!(Redactor::new(&["", ""]).is_empty());
    assert!(!Redactor::new(&["", "x"]).is_empty());
    assert_eq!(none.redact(b"\x00\xff any"), b"\x00\xff any");
    assert_eq!(Redactor::new(&["", "x"]).redact(b"axb"), b"a[redacted]b");
}

#[test]
fn an_abandoned_stream_reveals_no_beginning() {
    let mut stream = Redactor::new(&["secret"]).stream();
    let mut out = Vec::new();
    stream.push(b"a secre", &mut out);
    assert!(stream.abandon());
    assert_eq!(out, b"a ");
    stream.push(b"t.", &mut out);
    assert!(!stream.abandon(), "nothing was held back");
    assert_eq!(out, b"a t.");
}

#[test]
fn a_pattern_may_be_any_bytes_and_cut_a_character() {
    let redactor = Redactor::new(&[b"\xc3".as_slice(), b"\x00\xff"]);
    assert_eq!(redactor.redact(b"a\x00\xffb"), b"a[redacted]b");
    assert_eq!(redactor.redact_text("é"), "[redacted]\u{fffd}");
}

#[test]
fn hostile_patterns_take_linear_time() {
    let patterns = [vec![b'a'; 4_000], {
        let mut near = vec![b'a'; 3_999];
        near.push(b'b');
        near
    }];
    let redactor = Redactor::new(&patterns);
    let mut input = vec![b'a'; 4_000_000];
    for at in (3_990..input.len()).step_by(3_990) {
        input[at] = b'c';
    }
    let started = Instant::now();
    let mut out = Vec::new();
    let mut stream = redactor.stream();
    for byte in input.chunks(1_000) {
        stream.push(byte, &mut out);
        assert!(stream.held.len() < 4_000);
    }
    stream.finish(&mut out);
    assert_eq!(out, input, "no run is long enough");
    let all = redactor.redact(&vec![b'a'; 1_000_000]);
    assert_eq!(all, MARK.as_bytes());
    // Quadratic work would take minutes.
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn no_debug_tells_a_pattern() {
    let redactor = Redactor::new(&["hunter2"]);
    let mut stream = redactor.stream();
    stream.push(b"hunt", &mut Vec::new());
    let shown = format!("{redactor:?} {stream:?}");
    assert!(!shown.contains("hunt"), "{shown}");
    assert!(!shown.contains("104"), "{shown}");
}
