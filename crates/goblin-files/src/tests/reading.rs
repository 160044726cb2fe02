//! `files_read`: ranges, encodings, odd files, and the shortening for transport.

use super::*;
use goblin_protocol::digest::sha256_hex;
use proptest::prelude::*;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;

impl Place {
    fn file(&self, content: &[u8]) {
        std::fs::write(self.join("f"), content).unwrap();
    }

    /// Reads `f` with these further arguments.
    fn read(&self, arguments: Value) -> Value {
        let mut all = json!({"filePath": "f"});
        all.as_object_mut()
            .unwrap()
            .extend(arguments.as_object().unwrap().clone());
        self.ok("files_read", all)
    }
}

#[test]
fn every_field_of_a_read() {
    let place = Place::with("printf 'h\\303\\244llo' > f; touch -d 2020-02-29T12:34:56.789Z f; ln -s f l");
    let outcome = place.ok("files_read", json!({"filePath": "sub/../l", "workspaceRoot": "/r"}));
    assert_eq!(outcome["filePath"], place.join("l").to_string_lossy().into_owned());
    assert_eq!(outcome["workspaceRoot"], "/r");
    assert_eq!(
        (&outcome["encoding"], &outcome["content"]),
        (&json!("utf8"), &json!("hällo"))
    );
    assert_eq!(
        (&outcome["bytes"], &outcome["returnedBytes"], &outcome["offsetBytes"]),
        (&json!(6), &json!(6), &json!(0))
    );
    assert_eq!(outcome["modifiedAt"], "2020-02-29T12:34:56.789Z");
    assert_eq!(outcome["contentHash"], sha256_hex("hällo".as_bytes())[..16]);
    assert_eq!(
        (&outcome["truncated"], &outcome["nextOffsetBytes"], &outcome["warnings"]),
        (&json!(false), &json!(null), &json!([]))
    );
}

#[test]
fn ranges_say_whether_there_is_more() {
    let place = Place::new();
    place.file(b"0123456789");
    // offset, maximum, content, next offset
    let cases = [
        (json!(0), json!(4), "0123", Some(4)),
        (json!("4"), json!("4"), "4567", Some(8)),
        (json!(8), json!(4), "89", None),
        (json!(6), json!(4), "6789", None),
        (json!(0), json!(10), "0123456789", None),
        (json!(10), json!(null), "", None),
        (json!(5000), json!(7), "", None),
        (json!(u64::MAX), json!(1e300), "", None),
        (json!(-1), json!(0), "0123456789", None),
        (json!(1.5), json!(1.5), "0123456789", None),
    ];
    for (offset, maximum, content, next) in cases {
        let outcome = place.read(json!({"offsetBytes": offset, "maxBytes": maximum}));
        assert_eq!(outcome["content"], content, "{offset} {maximum}");
        assert_eq!(outcome["returnedBytes"], content.len());
        assert_eq!(outcome["nextOffsetBytes"], json!(next));
        assert_eq!(outcome["truncated"], next.is_some());
        assert_eq!(outcome["contentHash"], sha256_hex(content.as_bytes())[..16]);
    }
}

#[test]
fn without_a_bound_512_000_bytes_are_read() {
    let place = Place::new();
    place.file(&[b'x'; 600_000]);
    let outcome = place.read(json!({}));
    assert_eq!(
        (&outcome["returnedBytes"], &outcome["nextOffsetBytes"]),
        (&json!(512_000), &json!(512_000))
    );
    assert_eq!(place.read(json!({"maxBytes": 600_000}))["truncated"], false);
}

#[test]
fn encodings_are_those_of_node() {
    let place = Place::new();
    place.file(b"a\xc3\xa9z");
    let cases = [
        ("utf8", "aéz"),
        ("utf-8", "aéz"),
        ("base64", "YcOpeg=="),
        ("hex", "61c3a97a"),
        ("latin1", "aÃ©z"),
        ("ascii", "aC)z"),
        ("utf16le", "썡窩"),
    ];
    for (encoding, content) in cases {
        let outcome = place.read(json!({ "encoding": encoding }));
        assert_eq!(
            (outcome["content"].as_str(), outcome["encoding"].as_str()),
            (Some(content), Some(encoding))
        );
        assert_eq!(outcome["returnedBytes"], 4);
    }
    for encoding in [json!("rot13"), json!(""), json!("UTF8"), json!(8), json!([])] {
        assert_eq!(
            place.error("files_read", json!({"filePath": "f", "encoding": encoding})),
            "encoding_unsupported"
        );
    }
    assert_eq!(place.read(json!({"encoding": null}))["content"], "aéz");
}

#[test]
fn a_cut_character_waits_for_the_next_page() {
    let place = Place::new();
    place.file("x😀y語z".as_bytes());
    // encoding, offset, maximum, content, next offset
    let cases = [
        ("utf8", 0, 3, "x", Some(1)),
        ("utf8", 1, 6, "😀y", Some(6)),
        ("utf8", 6, 6, "語z", None),
        // A bound below one character still makes progress.
        ("utf8", 1, 1, "😀", Some(5)),
        ("utf-8", 1, 3, "😀", Some(5)),
        ("utf8", 6, 2, "語", Some(9)),
        // Other encodings give exactly what was asked for.
        ("base64", 1, 1, "8A==", Some(2)),
        ("hex", 1, 3, "f09f98", Some(4)),
        ("latin1", 1, 1, "ð", Some(2)),
        ("ascii", 1, 1, "p", Some(2)),
    ];
    for (encoding, offset, maximum, content, next) in cases {
        let outcome = place.read(json!({"encoding": encoding, "offsetBytes": offset, "maxBytes": maximum}));
        assert_eq!(outcome["content"], content, "{encoding} {offset} {maximum}");
        assert_eq!(outcome["nextOffsetBytes"], json!(next), "{encoding} {offset} {maximum}");
    }
}

#[test]
fn utf16_keeps_units_and_pairs_whole() {
    let place = Place::new();
    let mut bytes: Vec<u8> = "a😀b".encode_utf16().flat_map(u16::to_le_bytes).collect();
    bytes.push(0x63);
    place.file(&bytes);
    // offset, maximum, content, next offset
    let cases = [
        (0, 3, "a", Some(2)),
        (0, 4, "a", Some(2)),
        (0, 5, "a", Some(2)),
        (0, 6, "a😀", Some(6)),
        (2, 1, "😀", Some(6)),
        (2, 2, "😀", Some(6)),
        (0, 1, "a", Some(2)),
        // Half a unit at the end of the file is no character, but not lost either.
        (6, 100, "b\u{fffd}", None),
        (6, 2, "b", Some(8)),
        (8, 1, "\u{fffd}", None),
    ];
    for (offset, maximum, content, next) in cases {
        let outcome = place.read(json!({"encoding": "utf16le", "offsetBytes": offset, "maxBytes": maximum}));
        assert_eq!(outcome["content"], content, "{offset} {maximum}");
        assert_eq!(outcome["nextOffsetBytes"], json!(next), "{offset} {maximum}");
    }
}

#[test]
fn invalid_bytes_become_replacement_characters() {
    let place = Place::new();
    place.file(b"a\xffb\xf0\x9f\x98");
    let outcome = place.read(json!({}));
    assert_eq!(
        (&outcome["content"], &outcome["returnedBytes"]),
        (&json!("a\u{fffd}b\u{fffd}"), &json!(6))
    );
    assert_eq!(
        place.read(json!({"offsetBytes": 3, "maxBytes": 2}))["content"],
        "\u{fffd}"
    );
}

#[test]
fn files_of_size_zero_with_content_are_read_to_their_end() {
    let place = Place::new();
    let read = |path: &str, arguments: Value| {
        let mut all = json!({ "filePath": path });
        all.as_object_mut()
            .unwrap()
            .extend(arguments.as_object().unwrap().clone());
        place.ok("files_read", all)
    };
    let status = read("/proc/self/status", json!({}));
    assert!(status["content"].as_str().unwrap().contains("VmRSS"));
    assert_eq!((&status["bytes"], &status["truncated"]), (&json!(0), &json!(false)));
    assert!(
        read("/proc/version", json!({}))["content"]
            .as_str()
            .unwrap()
            .contains("Linux")
    );
    let processor = read("/proc/cpuinfo", json!({"maxBytes": 100}));
    assert_eq!(
        (&processor["returnedBytes"], &processor["nextOffsetBytes"]),
        (&json!(100), &json!(100))
    );
    assert_eq!(
        read("/proc/self/status", json!({"offsetBytes": 6, "maxBytes": 20}))["returnedBytes"],
        20
    );
    // This one ends after a read that is not at its beginning; its pages concatenate nevertheless.
    let whole = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap();
    let (mut paged, mut next) = (String::new(), json!(0));
    while next != Value::Null {
        let page = read("/proc/sys/kernel/pid_max", json!({"maxBytes": 3, "offsetBytes": next}));
        paged.push_str(page["content"].as_str().unwrap());
        next = page["nextOffsetBytes"].clone();
    }
    assert_eq!(paged, whole);
    if Path::new("/sys/kernel/mm/transparent_hugepage/enabled").exists() {
        assert!(
            read("/sys/kernel/mm/transparent_hugepage/enabled", json!({}))["content"]
                .as_str()
                .unwrap()
                .contains("never")
        );
    }
}

#[test]
fn only_regular_files_are_read_and_nothing_blocks_or_disturbs() {
    let place = Place::with("mkfifo idle busy");
    let _socket = std::os::unix::net::UnixListener::bind(place.join("s")).unwrap();
    symlink("idle", place.join("link")).unwrap();
    let mut writer = Command::new("bash")
        .args(["-c", "printf precious > busy"])
        .current_dir(place.path())
        .spawn()
        .unwrap();
    for path in ["idle", "busy", "link", "s", "/dev/zero", "/dev/null", "/dev/tty"] {
        for _ in 0..50 {
            let outcome = place.run("files_read", json!({"filePath": path, "maxBytes": 10}));
            if path == "/dev/tty" && outcome["error"] != "not_a_regular_file" {
                continue;
            }
            assert_eq!(outcome["error"], "not_a_regular_file", "{path}");
        }
        for (tool, arguments) in [
            ("files_edit", json!({"filePath": path, "oldText": "a", "newText": "b"})),
            ("files_write", json!({"filePath": path, "content": "b"})),
            ("files_search", json!({"dirPath": path, "query": "b"})),
        ] {
            assert_eq!(place.error(tool, arguments), "not_a_regular_file", "{tool} {path}");
        }
    }
    assert_eq!(place.shell("timeout 5 cat busy"), "precious");
    assert!(writer.wait().unwrap().success());
}

#[test]
fn a_range_of_a_huge_sparse_file_costs_its_own_length() {
    let place = Place::new();
    let file = std::fs::File::create(place.join("f")).unwrap();
    file.set_len(100 << 30).unwrap();
    file.write_all_at(b"MARK", 100_000_000_000).unwrap();
    let started = Instant::now();
    let outcome = place.read(json!({"offsetBytes": 100_000_000_000_u64, "maxBytes": 4096}));
    assert!(outcome["content"].as_str().unwrap().starts_with("MARK"));
    assert_eq!(outcome["bytes"], 100_u64 << 30);
    assert_eq!(outcome["nextOffsetBytes"], 100_000_004_096_u64);
    // Unbounded requests are bounded nevertheless.
    let outcome = place.read(json!({"maxBytes": 100_u64 << 30, "encoding": "latin1"}));
    assert!(outcome["returnedBytes"].as_u64().unwrap() <= 4 << 20);
    assert!(started.elapsed().as_secs() < 5);
}

#[test]
fn a_small_range_takes_little_memory() {
    let place = Place::new();
    let file = std::fs::File::create(place.join("f")).unwrap();
    file.set_len(200_000_000).unwrap();
    let read = json!({"filePath": "f", "offsetBytes": 100_000_000, "maxBytes": 4096});
    let outcomes = in_child(
        &place,
        &[],
        &[("files_inspect", json!({"path": "f"})), ("files_read", read)],
    );
    let grown = outcomes[1]["peakKib"].as_u64().unwrap() - outcomes[0]["peakKib"].as_u64().unwrap();
    assert!(grown <= 1_024, "{grown} KiB");
}

#[test]
fn a_file_that_changes_during_the_read_gives_one_consistent_answer() {
    let place = Place::new();
    place.file(&[b'x'; 300_000]);
    let path = place.join("f");
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = SetOnDrop(done);
        scope.spawn(move || {
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                round += 1;
                file.set_len(if round % 2 == 0 { 300_000 } else { 5 }).unwrap();
            }
        });
        for _ in 0..300 {
            let outcome = place.read(json!({"maxBytes": 200_000, "encoding": "latin1"}));
            let content = outcome["content"].as_str().unwrap();
            assert_eq!(outcome["returnedBytes"], content.len());
            assert_eq!(outcome["contentHash"], sha256_hex(content.as_bytes())[..16]);
            let next = if outcome["truncated"] == true {
                json!(content.len())
            } else {
                Value::Null
            };
            assert_eq!(outcome["nextOffsetBytes"], next);
        }
    });
}

#[test]
fn shortened_reads_fit_and_describe_what_they_deliver() {
    let place = Place::new();
    let mixed = "a\"\\\u{8}\t\n\u{c}\r\0\u{1f}\u{7f}é語😀".repeat(500);
    for (encoding, content) in [
        ("utf8", mixed.as_bytes()),
        ("base64", mixed.as_bytes()),
        ("hex", mixed.as_bytes()),
        ("utf8", &[0; 9_000]),
        ("utf8", &[0xff; 9_000]),
    ] {
        place.file(content);
        let arguments = json!({"filePath": "f", "encoding": encoding});
        let whole = place
            .files
            .run("files_read", arguments.as_object().unwrap(), &AtomicBool::new(false))
            .json;
        assert_eq!(shorten_read(&whole, whole.len()).unwrap(), whole);
        let full: Value = serde_json::from_str(&whole).unwrap();
        for maximum in (700..whole.len()).step_by(97).chain([whole.len() - 1]) {
            let short = shorten_read(&whole, maximum).unwrap();
            assert!(
                short.len() <= maximum && short.len() + 24 >= maximum,
                "{} of {maximum}",
                short.len()
            );
            let outcome: Value = serde_json::from_str(&short).unwrap();
            let text = outcome["content"].as_str().unwrap();
            assert!(full["content"].as_str().unwrap().starts_with(text));
            assert_eq!(
                text.len()
                    % if encoding == "base64" {
                        4
                    } else if encoding == "hex" {
                        2
                    } else {
                        1
                    },
                0
            );
            assert_eq!(outcome["returnedBytes"], text.len());
            assert_eq!(outcome["contentHash"], sha256_hex(text.as_bytes())[..16]);
            for flag in ["ok", "truncated", "transportTruncated", "incomplete"] {
                assert_eq!(outcome[flag], true, "{flag}");
            }
            assert_eq!(
                (&outcome["nextOffsetBytes"], outcome.get("resultFingerprint")),
                (&Value::Null, None)
            );
            for same in [
                "tool",
                "filePath",
                "bytes",
                "offsetBytes",
                "modifiedAt",
                "encoding",
                "durationMs",
                "execution",
                "error",
                "artifacts",
            ] {
                assert_eq!(outcome[same], full[same], "{same}");
            }
        }
        assert_eq!(shorten_read(&whole, 100), None);
    }
    assert_eq!(
        keys(
            &shorten_read(
                &place
                    .files
                    .run(
                        "files_read",
                        json!({"filePath": "f"}).as_object().unwrap(),
                        &AtomicBool::new(false)
                    )
                    .json,
                900
            )
            .unwrap()
        )[14..],
        [
            "error",
            "artifacts",
            "transportTruncated",
            "incomplete",
            "durationMs",
            "execution"
        ]
    );
}

#[test]
fn nothing_but_a_successful_read_is_shortened() {
    let place = Place::with("echo x > f");
    let calls = [
        ("files_read", json!({"filePath": "none"})),
        ("files_list", json!({"dirPath": "."})),
        ("files_dance", json!({})),
    ];
    for (tool, arguments) in calls {
        let outcome = place
            .files
            .run(tool, arguments.as_object().unwrap(), &AtomicBool::new(false));
        assert_eq!(shorten_read(&outcome.json, 10_000), None, "{tool}");
    }
    for text in ["", "{}", "[]", "null", "{\"tool\":\"files_read\",\"ok\":true}"] {
        assert_eq!(shorten_read(text, 10_000), None, "{text}");
    }
}

/// Bytes with a good share of whole, broken and misplaced characters.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<char>().prop_map(|character| character.to_string().into_bytes()),
        proptest::collection::vec(any::<u8>(), 1..4),
        proptest::collection::vec(
            prop_oneof![Just(0xf0), Just(0x9f), Just(0xe8), Just(0xc3), Just(0xd8), Just(0xdc)],
            1..4
        ),
        Just(b"plain text".to_vec()),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn pages_of_any_size_concatenate_to_the_file(content in content(), sizes in proptest::collection::vec(1_u64..20, 1..6)) {
        let place = Place::new();
        place.file(&content);
        for encoding in ["utf8", "utf-8", "utf16le", "latin1", "ascii", "hex", "base64"] {
            let whole = place.read(json!({ "encoding": encoding }));
            let (mut text, mut bytes, mut next, mut round) = (String::new(), 0, json!(0), 0);
            while next != Value::Null {
                let page = place.read(json!({"encoding": encoding, "offsetBytes": next, "maxBytes": sizes[round % sizes.len()]}));
                let page_text = page["content"].as_str().unwrap();
                if encoding == "base64" {
                    // Each page is encoded by itself; what is decoded concatenates.
                    use base64::Engine as _;
                    let decoded = base64::engine::general_purpose::STANDARD.decode(page_text).unwrap();
                    prop_assert_eq!(&content[bytes as usize..bytes as usize + decoded.len()], &decoded[..]);
                } else {
                    text.push_str(page_text);
                }
                bytes += page["returnedBytes"].as_u64().unwrap();
                next = page["nextOffsetBytes"].clone();
                prop_assert!(next == Value::Null || next == bytes);
                round += 1;
                prop_assert!(round <= content.len() + 1, "no progress");
            }
            prop_assert_eq!(bytes, content.len() as u64);
            if encoding != "base64" {
                prop_assert_eq!(&json!(text), &whole["content"], "{}", encoding);
            }
        }
    }

    #[test]
    fn write_then_read_is_identity(text in any::<String>(), more in "\\PC{0,300}") {
        let place = Place::new();
        for content in [&text, &more] {
            place.ok("files_write", json!({"filePath": "f", "content": content}));
            prop_assert_eq!(&place.read(json!({}))["content"], &json!(content));
            prop_assert_eq!(std::fs::read(place.join("f")).unwrap(), content.as_bytes());
        }
    }
}

#[test]
fn base64_pages_of_the_default_length_join_as_text() {
    use base64::Engine as _;
    let place = Place::new();
    let content: Vec<u8> = (0..1_200_000_u32).map(|number| (number % 251) as u8).collect();
    std::fs::write(place.join("f"), &content).unwrap();
    let (mut text, mut next) = (String::new(), json!(0));
    while next != Value::Null {
        let page = place.ok(
            "files_read",
            json!({"filePath": "f", "encoding": "base64", "offsetBytes": next}),
        );
        text.push_str(page["content"].as_str().unwrap());
        next = page["nextOffsetBytes"].clone();
    }
    assert_eq!(base64::engine::general_purpose::STANDARD.decode(text).unwrap(), content);
}
