//! `files_search`: lines, limits, odd and huge files.

use super::*;
use std::io::Write as _;

impl Place {
    /// The matches as `file:line:text`, and the outcome.
    fn search(&self, arguments: Value) -> (Vec<String>, Value) {
        let outcome = self.ok("files_search", arguments);
        let matches = outcome["matches"].as_array().unwrap().iter();
        let matches = matches.map(|found| {
            format!(
                "{}:{}:{}",
                found["filePath"].as_str().unwrap(),
                found["line"],
                found["text"].as_str().unwrap()
            )
        });
        (matches.collect(), outcome)
    }

    /// Searches a tree that holds one file with this content.
    fn lines(&self, content: &[u8], query: &str) -> Vec<String> {
        std::fs::create_dir_all(self.join("t")).unwrap();
        std::fs::write(self.join("t/f"), content).unwrap();
        let (lines, outcome) = self.search(json!({"dirPath": "t", "query": query}));
        assert_eq!(outcome["warnings"], json!([]));
        lines
            .into_iter()
            .map(|line| line.strip_prefix("f:").unwrap().to_owned())
            .collect()
    }
}

#[test]
fn matches_come_in_order_with_their_lines() {
    let place = Place::with(
        "mkdir -p t/b t/.git t/node_modules; printf 'needle one\\nno\\na needle needle\\nNEEDLE\\n' > t/a.txt
        printf 'x\\r\\nneedle crlf\\r\\n' > t/b/crlf.txt; printf 'last needle' > t/c.txt
        echo needle > t/.git/x; echo needle > t/node_modules/x; ln -s a.txt t/link; ln -s b t/d",
    );
    let (matches, outcome) = place.search(json!({"dirPath": "t", "query": "needle"}));
    assert_eq!(
        matches,
        [
            "a.txt:1:needle one",
            "a.txt:3:a needle needle",
            "b/crlf.txt:2:needle crlf",
            "c.txt:1:last needle"
        ]
    );
    assert_eq!(
        (&outcome["query"], &outcome["truncated"], &outcome["incomplete"]),
        (&json!("needle"), &json!(false), &json!(false))
    );
    assert_eq!(
        place.search(json!({"dirPath": "t", "query": "nothing here"})).0,
        Vec::<String>::new()
    );
    // A named file, also by a link, is searched alone.
    assert_eq!(
        place.search(json!({"dirPath": "t/c.txt", "query": "needle"})).0,
        ["c.txt:1:last needle"]
    );
    assert_eq!(
        place.search(json!({"dirPath": "t/link", "query": "one"})).0,
        ["link:1:needle one"]
    );
}

#[test]
fn lines_end_at_newlines_only() {
    let place = Place::new();
    let cases: [(&[u8], &str, &[&str]); 17] = [
        (b"abc\na.c\n", "a.c", &["2:a.c"]),
        (b"x[id]\n\xc3\xbc\n", "\u{fc}", &["2:\u{fc}"]),
        (b"one\rtwo\nthree", "two", &["1:one\rtwo"]),
        (b"one\rtwo\r\nthree", "one", &["1:one\rtwo"]),
        (b"a\r\nb\r\n", "\r", &[]),
        (b"a\r\r\nb", "\r", &["1:a\r"]),
        (b"ab\r\nb\r", "b\r", &["2:b\r"]),
        (b"a\rb\n", "a\rb", &["1:a\rb"]),
        (b"a\nb\n", "a\nb", &[]),
        (b"a\nb\n", "\n", &[]),
        (b"a\r\n", "a\r\n", &[]),
        (b"needle", "needle", &["1:needle"]),
        (b"\n\n\nneedle", "needle", &["4:needle"]),
        (b"", "needle", &[]),
        (b"\n", "x", &[]),
        (b"\xff needle\n", "needle", &["1:\u{fffd} needle"]),
        (b"aaa\naaaa\n", "aaaa", &["2:aaaa"]),
    ];
    for (content, query, expected) in cases {
        assert_eq!(place.lines(content, query), expected, "{query:?} in {content:?}");
    }
    assert_eq!(place.lines(b"abc", "ABC"), Vec::<String>::new());
    // A query longer than a block.
    let long = "long ".repeat(60_000);
    let content = format!("no\n{long}\n{long}x");
    assert_eq!(place.lines(content.as_bytes(), &long).len(), 2);
}

#[test]
fn a_query_is_required() {
    let place = Place::new();
    for query in [json!(""), json!(null), json!(5), json!(["x"])] {
        assert_eq!(
            place.error("files_search", json!({"dirPath": ".", "query": query})),
            "query_required"
        );
    }
    assert_eq!(place.error("files_search", json!({"dirPath": "."})), "query_required");
}

#[test]
fn a_line_is_cut_to_a_thousand_characters() {
    let place = Place::new();
    for (content, expected) in [
        (
            format!("needle{}", "x".repeat(3_000_000)),
            format!("needle{}", "x".repeat(994)),
        ),
        (format!("{}needle\n", "é".repeat(3_000)), "é".repeat(1000)),
        (
            format!("{}needle\r\n", "😀".repeat(994)),
            format!("{}needle", "😀".repeat(994)),
        ),
        (format!("{}needle\r\n", "😀".repeat(1_000)), "😀".repeat(1000)),
    ] {
        assert_eq!(place.lines(content.as_bytes(), "needle"), [format!("1:{expected}")]);
    }
}

#[test]
fn minified_and_huge_files_take_bounded_memory() {
    let place = Place::new();
    std::fs::create_dir(place.join("t")).unwrap();
    let mut file = std::io::BufWriter::new(std::fs::File::create(place.join("t/min.js")).unwrap());
    for _ in 0..50 {
        file.write_all(&[b' '; 1_000_000]).unwrap();
    }
    file.write_all(b"needle;end\nneedle again").unwrap();
    file.into_inner().unwrap();
    let outcomes = in_child(
        &place,
        &[],
        &[
            ("files_inspect", json!({"path": "."})),
            ("files_search", json!({"dirPath": "t", "query": "needle"})),
            ("files_search", json!({"dirPath": "t", "query": "   "})),
        ],
    );
    let matches = outcomes[1]["matches"].as_array().unwrap();
    assert_eq!(
        (matches.len(), &matches[0]["line"], &matches[1]["line"]),
        (2, &json!(1), &json!(2))
    );
    assert_eq!(
        (&matches[0]["text"], &matches[1]["text"]),
        (&json!(" ".repeat(1000)), &json!("needle again"))
    );
    assert_eq!(outcomes[2]["matches"].as_array().unwrap().len(), 1);
    let grown = outcomes[2]["peakKib"].as_u64().unwrap() - outcomes[0]["peakKib"].as_u64().unwrap();
    assert!(grown < 4_096, "{grown} KiB");
}

#[test]
fn a_late_match_has_its_line_number() {
    let place = Place::with("mkdir t; { seq 1000000; echo needle late; } > t/late.log");
    assert_eq!(
        place.search(json!({"dirPath": "t", "query": "needle"})).0,
        ["late.log:1000001:needle late"]
    );
}

#[test]
fn limits_say_so_only_when_something_is_left_out() {
    let place = Place::with("mkdir t; yes needle | head -n 300 > t/f; echo needle > t/g");
    let count = |maximum: Value| {
        let (matches, outcome) = place.search(json!({"dirPath": "t", "query": "needle", "maxMatches": maximum}));
        assert_eq!(outcome["incomplete"], outcome["truncated"]);
        (
            matches.len(),
            outcome["truncated"].as_bool().unwrap(),
            outcome["warnings"].as_array().unwrap().len(),
        )
    };
    assert_eq!(count(json!(2)), (2, true, 1));
    assert_eq!(count(json!(null)), (200, true, 1));
    assert_eq!(count(json!(300)), (300, true, 1));
    assert_eq!(count(json!("301")), (301, false, 0));
    let (matches, outcome) =
        place.search(json!({"dirPath": "t", "query": "needle", "maxTraversalEntries": 1, "maxMatches": 1000}));
    assert_eq!((matches.len(), &outcome["entryBudgetExhausted"]), (300, &json!(true)));
    place.shell("mkdir -p t/1/2/3/4/5/6/7/8/9; echo needle > t/1/2/3/4/5/6/7/8/f; echo needle > t/1/2/3/4/5/6/7/8/9/f; rm t/f t/g");
    let (matches, outcome) = place.search(json!({"dirPath": "t", "query": "needle"}));
    assert_eq!(
        (matches, &outcome["depthTruncated"]),
        (vec!["1/2/3/4/5/6/7/8/f:1:needle".to_owned()], &json!(true))
    );
}

#[test]
fn matches_that_no_frame_can_hold_are_not_gathered() {
    let place = Place::with("mkdir t; yes 'a needle in a long line' | head -c 50000000 > t/a; cp t/a t/b");
    let search = json!({"dirPath": "t", "query": "needle", "maxMatches": 1_000_000_000});
    let outcomes = in_child(
        &place,
        &[],
        &[("files_inspect", json!({"path": "."})), ("files_search", search)],
    );
    let length: usize = outcomes[1]["matches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["filePath"].as_str().unwrap().len() + found["text"].as_str().unwrap().len())
        .sum();
    assert!((2 << 20..3 << 20).contains(&length), "{length}");
    assert_eq!(
        (
            &outcomes[1]["truncated"],
            outcomes[1]["warnings"].as_array().unwrap().len()
        ),
        (&json!(true), 1)
    );
}

#[test]
fn what_is_no_regular_file_is_a_warning_and_blocks_nothing() {
    let place = Place::with("mkdir t; mkfifo t/feed.md; echo needle > t/z");
    let _socket = std::os::unix::net::UnixListener::bind(place.join("t/s")).unwrap();
    let (matches, outcome) = place.search(json!({"dirPath": "t", "query": "needle"}));
    assert_eq!(matches, ["z:1:needle"]);
    assert_eq!(
        outcome["warnings"],
        json!(["not_a_regular_file:feed.md", "not_a_regular_file:s"])
    );
    assert_eq!(
        (&outcome["incomplete"], &outcome["truncated"]),
        (&json!(true), &json!(false))
    );
}

#[test]
fn binary_files_are_skipped_and_named_ones_said_to_be() {
    let place = Place::with(
        "mkdir t; printf 'needle\\0\\n' > t/bin; echo needle > t/z; printf '\\377\\376n\\0e\\0e\\0d\\0' > t/utf16",
    );
    let (matches, outcome) = place.search(json!({"dirPath": "t", "query": "need"}));
    assert_eq!(
        (matches, &outcome["warnings"]),
        (vec!["z:1:needle".to_owned()], &json!([]))
    );
    let (matches, outcome) = place.search(json!({"dirPath": "t/bin", "query": "needle"}));
    assert_eq!(
        (matches.len(), &outcome["warnings"], &outcome["incomplete"]),
        (0, &json!(["binary_file:bin"]), &json!(true))
    );
    // A NUL further on makes no binary file.
    let content = [&b"needle\n".repeat(2_000)[..], b"nul \0 needle\n"].concat();
    std::fs::write(place.join("t/late"), content).unwrap();
    let (matches, _) = place.search(json!({"dirPath": "t/late", "query": "\0 needle"}));
    assert_eq!(matches, ["late:2001:nul \0 needle"]);
}

#[test]
fn odd_names_are_shown_with_one_warning_each() {
    let place = Place::with("mkdir t; printf 'needle\\nneedle\\n' > $'t/raw-\\xff'; echo no > $'t/other-\\xfe'");
    let (matches, outcome) = place.search(json!({"dirPath": "t", "query": "needle"}));
    assert_eq!(matches, ["raw-\u{fffd}:1:needle", "raw-\u{fffd}:2:needle"]);
    assert_eq!(outcome["warnings"], json!(["undecodable_name:raw-\u{fffd}"]));
}

#[test]
fn files_of_proc_are_searched_to_their_end() {
    let place = Place::new();
    assert_eq!(
        place
            .search(json!({"dirPath": "/proc/self/status", "query": "VmRSS"}))
            .0
            .len(),
        1
    );
}

#[test]
fn cancellation_ends_a_search_inside_one_huge_file() {
    let place = Place::new();
    std::fs::create_dir(place.join("t")).unwrap();
    let mut file = std::fs::File::create(place.join("t/big")).unwrap();
    file.write_all(&[b'\n'; 100_000]).unwrap();
    file.set_len(60 << 30).unwrap();
    let cancel = AtomicBool::new(false);
    let arguments = json!({"dirPath": "t", "query": "needle"});
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let outcome = place.files.run("files_search", arguments.as_object().unwrap(), &cancel);
            (outcome.error, Instant::now())
        });
        // Something that takes a while, so that the search is under way.
        place.run(
            "files_search",
            json!({"dirPath": "/proc/sys", "query": "no such text", "maxDepth": 3}),
        );
        cancel.store(true, Ordering::Relaxed);
        let at = Instant::now();
        let (error, ended) = running.join().unwrap();
        assert_eq!(error.as_deref(), Some("cancelled"));
        assert!(ended.saturating_duration_since(at).as_millis() < 50);
    });
}
