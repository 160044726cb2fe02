//! `files`: the seven tools through controller and gateway.

use crate::fleet::{Ended, Fleet, Running};
use serde_json::{Value, json};
use std::fs::File;

/// Runs a files command with a file as its standard input.
fn fed(fleet: &Fleet, words: &[&str], input: &[u8]) -> Ended {
    let path = fleet.path("input");
    std::fs::write(&path, input).unwrap();
    Running::start_reading(fleet.command(words).stdin(File::open(path).unwrap())).end()
}

/// Bytes without a pattern that a page could hide: a small generator's output.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn a_binary_of_any_size_is_read_byte_for_byte() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let path = fleet.path("binary");
    let content = noise(5 * 1024 * 1024 + 1);
    std::fs::write(&path, &content).unwrap();
    let read = fleet.run(&["files", "host-1", "read", &path]);
    assert_eq!((read.code, read.stderr.as_str()), (Some(0), ""));
    assert!(read.stdout == content);
    for (offset, bytes) in [
        (0, 1),
        (1024 * 1024 - 1, 2),
        (5 * 1024 * 1024, 7),
        (6 * 1024 * 1024, 1),
        (3, 2 * 1024 * 1024),
    ] {
        let words = [
            "files",
            "host-1",
            "read",
            &path,
            "--offset",
            &offset.to_string(),
            "--bytes",
            &bytes.to_string(),
        ];
        let read = fleet.run(&words);
        let from = offset.min(content.len());
        let to = (offset + bytes).min(content.len());
        assert!(read.stdout == content[from..to], "{offset} {bytes}");
        assert_eq!(read.code, Some(0));
    }
    std::fs::write(&path, "").unwrap();
    assert_eq!(fleet.run(&["files", "host-1", "read", &path]).good(), "");
    let status = fleet.run(&["files", "host-1", "read", "/proc/self/status"]).good();
    assert!(status.starts_with("Name:"), "{status}");
    let missing = fleet.run(&["files", "host-1", "read", "/no/such/file"]);
    assert!(missing.bad(1).contains("/no/such/file"));
    fleet.run(&["files", "host-1", "read", "/"]).bad(1);
}

#[test]
fn a_file_is_written_whole_or_not_at_all() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let path = fleet.path("new/deep/file");
    let text = "zeile ä\r\n\u{0}\u{1F600}\tno newline at the end";
    assert!(
        fed(&fleet, &["files", "host-1", "write", &path], text.as_bytes())
            .good()
            .starts_with("created")
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    assert!(
        fed(&fleet, &["files", "host-1", "write", &path], b"")
            .good()
            .starts_with("overwrote")
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    let large = "x".repeat(2 * 1024 * 1024 - 4096);
    fed(&fleet, &["files", "host-1", "write", &path], large.as_bytes()).good();
    for (content, told) in [
        (vec![b'x'; 2 * 1024 * 1024 + 1], "2 MiB"),
        (vec![b'x'; 2 * 1024 * 1024 - 8], "request"),
        (vec![b'\\'; 1024 * 1024 + 512 * 1024], "request"),
        (b"abc\xff".to_vec(), "byte 3"),
    ] {
        let refused = fed(&fleet, &["files", "host-1", "write", &path], &content);
        assert!(refused.bad(1).contains(told), "{}", refused.stderr);
        assert!(std::fs::read_to_string(&path).unwrap() == large);
    }
    assert_eq!(
        std::fs::read_dir(fleet.path("new/deep")).unwrap().count(),
        1,
        "nothing is left beside it"
    );
}

#[test]
fn an_edit_is_exact() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let path = fleet.path("file");
    std::fs::write(&path, "one two\nthree two\n").unwrap();
    let edit = |old: &str, new: &str| fleet.run(&["files", "host-1", "edit", &path, "--old", old, "--new", new]);
    edit("two", "2").bad(1);
    edit("four", "4").bad(1);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one two\nthree two\n");
    edit("one two\nthree", "$1 \\n&").good();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "$1 \\n& two\n");
    std::fs::write(fleet.path("old"), "& two\n").unwrap();
    let old_file = fleet.path("old");
    fleet
        .run(&["files", "host-1", "edit", &path, "--old-file", &old_file, "--new", ""])
        .good();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "$1 \\n");
}

#[test]
fn listings_show_what_is_there() {
    let fleet = Fleet::new();
    let _host = fleet.paired("host-1");
    let root = fleet.path("tree");
    std::fs::create_dir_all(format!("{root}/sub/deeper")).unwrap();
    std::fs::write(format!("{root}/a.txt"), "needle here\nnothing\n").unwrap();
    std::fs::write(format!("{root}/sub/b.txt"), "another\nneedle \u{1b}[31m there\n").unwrap();
    std::fs::write(format!("{root}/sub/deeper/odd\u{1b}[2J\nname"), "").unwrap();
    std::os::unix::fs::symlink("a.txt", format!("{root}/link")).unwrap();
    let files = |words: &[&str]| fleet.run(&[&["files", "host-1"], words].concat());
    let listed = files(&["ls", &root]).good();
    for name in ["a.txt", "sub", "b.txt", "link", "odd\\x1b[2J\\nname"] {
        assert!(listed.contains(name), "{name} in {listed}");
    }
    assert!(!listed.contains('\u{1b}'));
    let shallow = files(&["ls", &root, "--depth", "1"]);
    assert!(
        shallow.text().contains("deeper") && !shallow.text().contains("odd"),
        "{}",
        shallow.text()
    );
    assert!(shallow.stderr.contains("depth"), "{}", shallow.stderr);
    let found = files(&["find", &root, "**/*.txt"]).good();
    assert_eq!(found.lines().count(), 2, "{found}");
    let searched = files(&["search", &root, "needle"]).good();
    assert!(
        searched.contains("needle here") && searched.contains("there") && !searched.contains('\u{1b}'),
        "{searched}"
    );
    assert!(files(&["search", &root, "no such text"]).text().is_empty());
    let described = files(&["stat", &format!("{root}/link")]).good();
    assert!(described.contains("link"), "{described}");
    files(&["stat", &format!("{root}/missing")]).bad(1);
    for words in [
        &["ls", &root, "--json"][..],
        &["stat", &root, "--json"],
        &["find", &root, "--json"],
    ] {
        let outcome: Value = serde_json::from_str(&files(words).good()).unwrap();
        assert_eq!(outcome["ok"], json!(true), "{outcome}");
    }
    assert!(
        fleet
            .run(&["files", "host-2", "ls", "/"])
            .bad(1)
            .contains("gateway_not_connected")
    );
}
