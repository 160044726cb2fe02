//! `files_write` and `files_edit`: content, what survives of the old file, and what is left when they fail.

use super::*;
use crate::replace::{Old, Piece, Read, Replacement, Version};
use crate::target::Target;
use crate::temporary::Notes;
use std::os::unix::fs::{PermissionsExt, symlink};

impl Place {
    pub(super) fn write(&self, path: &str, content: &str) -> Value {
        self.ok("files_write", json!({"filePath": path, "content": content}))
    }

    pub(super) fn edit(&self, path: &str, old: &str, new: &str) -> Value {
        self.ok("files_edit", json!({"filePath": path, "oldText": old, "newText": new}))
    }

    pub(super) fn content(&self, path: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.join(path)).unwrap()).into_owned()
    }

    pub(super) fn mode(&self, path: &str) -> u32 {
        self.join(path).metadata().unwrap().permissions().mode() & 0o7777
    }

    /// Nothing temporary, and no note of it, is left in `folder`.
    pub(super) fn assert_clean(&self, folder: &str) {
        assert!(
            self.names(folder).iter().all(|name| !name.starts_with('.')),
            "{:?}",
            self.names(folder)
        );
        assert_eq!(self.names(".state/temporary"), Vec::<String>::new());
    }
}

pub(super) fn is_atomic(outcome: &Value) -> bool {
    match &outcome["warnings"] {
        Value::Null => true,
        warnings => {
            assert_eq!(outcome["ok"], true, "{outcome}");
            assert_eq!(warnings, &json!(["not_atomic"]));
            false
        }
    }
}

#[test]
fn a_new_file_and_its_parents() {
    let place = Place::new();
    let outcome = place.ok(
        "files_write",
        json!({"filePath": "n", "content": "hällo\n", "workspaceRoot": "/r"}),
    );
    assert_eq!(
        (&outcome["created"], &outcome["overwrote"], &outcome["bytesWritten"]),
        (&json!(true), &json!(false), &json!(7))
    );
    assert_eq!(
        (&outcome["encoding"], &outcome["workspaceRoot"]),
        (&json!("utf8"), &json!("/r"))
    );
    assert_eq!(outcome["filePath"], place.join("n").to_string_lossy().into_owned());
    assert_eq!(place.content("n"), "hällo\n");
    assert_eq!(place.write("e", "")["bytesWritten"], 0);
    assert_eq!(place.content("e"), "");
    place.write("a/b/c/deep", "x");
    assert_eq!(place.content("a/b/c/deep"), "x");
    let name = "n".repeat(255);
    place.write(&name, "the longest name");
    assert_eq!(place.content(&name), "the longest name");
    // As any program would have made them.
    std::fs::write(place.join("plain"), "").unwrap();
    std::fs::create_dir(place.join("folder")).unwrap();
    assert_eq!(
        (place.mode("n"), place.mode("a")),
        (place.mode("plain"), place.mode("folder"))
    );
    place.assert_clean(".");
    place.assert_clean("a/b/c");
}

#[test]
fn an_existing_file_is_replaced_whole() {
    let place = Place::with("echo something longer > f; chmod 750 f; ln f other");
    let outcome = place.write("f", "new");
    assert_eq!(
        (&outcome["created"], &outcome["overwrote"], &outcome["bytesWritten"]),
        (&json!(false), &json!(true), &json!(3))
    );
    assert!(is_atomic(&outcome));
    assert_eq!((place.content("f"), place.mode("f")), ("new".to_owned(), 0o750));
    assert_eq!(place.content("other"), "something longer\n");
    place.assert_clean(".");
}

#[test]
fn contents_and_texts_that_are_none_are_refused() {
    let place = Place::with("echo one > f");
    for content in [json!(null), json!(5), json!(["x"]), json!({})] {
        assert_eq!(
            place.error("files_write", json!({"filePath": "f", "content": content})),
            "content_invalid"
        );
        assert_eq!(
            place.error(
                "files_edit",
                json!({"filePath": "f", "oldText": "one", "newText": content})
            ),
            "new_text_invalid"
        );
        assert_eq!(
            place.error(
                "files_edit",
                json!({"filePath": "f", "oldText": content, "newText": "x"})
            ),
            "old_text_not_found"
        );
    }
    assert_eq!(place.error("files_write", json!({"filePath": "f"})), "content_invalid");
    assert_eq!(
        place.error("files_edit", json!({"filePath": "f", "oldText": "one"})),
        "new_text_invalid"
    );
    assert_eq!(
        place.error("files_edit", json!({"filePath": "f", "oldText": "", "newText": "x"})),
        "old_text_not_found"
    );
    assert_eq!(place.content("f"), "one\n");
}

#[test]
fn links_are_followed_and_dangling_ones_create_their_target() {
    let place = Place::with(
        "mkdir d; echo old > d/real; ln -s d/real l; ln -s l l2; ln -s ../new d/dangling; ln -s d/dangling l3; ln -s $PWD/d/real abs",
    );
    assert_eq!(place.write("l2", "new text")["overwrote"], true);
    place.edit("l", "new", "newer");
    place.edit("abs", "newer", "newest");
    assert_eq!(place.content("d/real"), "newest text");
    assert_eq!(place.write("l3", "y")["created"], true);
    assert_eq!(place.content("new"), "y");
    for link in ["l", "l2", "l3", "abs", "d/dangling"] {
        assert!(place.join(link).is_symlink(), "{link}");
    }
    symlink("d", place.join("folder")).unwrap();
    assert_eq!(
        place.error("files_write", json!({"filePath": "folder", "content": "x"})),
        "EISDIR"
    );
    place.assert_clean(".");
    place.assert_clean("d");
}

#[test]
fn exactly_one_occurrence_is_replaced_literally() {
    let place = Place::new();
    let dollars = "$$42 $& $1 $` $' \\1 \\n ${x} $<y> \\u0041";
    type Case = (
        &'static [u8],
        &'static str,
        &'static str,
        Result<&'static [u8], &'static str>,
    );
    let cases: [Case; 14] = [
        (b"one\ntwo\nthree\n", "two", "2", Ok(b"one\n2\nthree\n")),
        (b"one\ntwo\n", "one\n", "", Ok(b"two\n")),
        (b"end", "end", "start", Ok(b"start")),
        (b"one", "ONE", "x", Err("old_text_not_found")),
        (b"one", "o.e", "x", Err("old_text_not_found")),
        (b"", "x", "y", Err("old_text_not_found")),
        (b"a = 1\nb\na = 1\n", "a = 1", "x", Err("old_text_not_unique")),
        (b"ha ha ha", "ha ha", "ho", Err("old_text_not_unique")),
        (b"aaa", "aa", "b", Err("old_text_not_unique")),
        (
            b"total: SLOT end\n",
            "SLOT",
            dollars,
            Ok(b"total: $$42 $& $1 $` $' \\1 \\n ${x} $<y> \\u0041 end\n"),
        ),
        (
            b"\xef\xbb\xbflevel = 3;\r\nx\nlast\r\n",
            "level = 3",
            "level = 4",
            Ok(b"\xef\xbb\xbflevel = 4;\r\nx\nlast\r\n"),
        ),
        (
            b"level = 3;\r\n# gr\xfcn \0 \xff\n",
            "level = 3",
            "level = \u{fc}",
            Ok(b"level = \xc3\xbc;\r\n# gr\xfcn \0 \xff\n"),
        ),
        (b"a\0b", "\0", "nul", Ok(b"anulb")),
        (b"same", "same", "same", Ok(b"same")),
    ];
    for (content, old, new, expected) in cases {
        std::fs::write(place.join("f"), content).unwrap();
        let outcome = place.run("files_edit", json!({"filePath": "f", "oldText": old, "newText": new}));
        match expected {
            Ok(_) => {
                let path = place.join("f").to_string_lossy().into_owned();
                assert_eq!(
                    (&outcome["replaced"], &outcome["changedFiles"]),
                    (&json!(1), &json!([path])),
                    "{outcome}"
                );
            }
            Err(code) => assert_eq!(outcome["error"], code, "{old:?}"),
        }
        assert_eq!(
            std::fs::read(place.join("f")).unwrap(),
            expected.unwrap_or(content),
            "{old:?}"
        );
    }
    place.assert_clean(".");
}

#[test]
fn occurrences_across_blocks_are_found() {
    let place = Place::new();
    let block = 128 * 1024;
    for (before, old) in [
        (block - 3, "needle"),
        (block - 6, "needle"),
        (block, "needle"),
        (3 * block - 1, "needle"),
    ] {
        let content = format!("{}{old}{}", "x".repeat(before), "y".repeat(block));
        std::fs::write(place.join("f"), &content).unwrap();
        place.edit("f", old, "pin");
        assert_eq!(place.content("f"), content.replace(old, "pin"));
        std::fs::write(place.join("f"), format!("{content}{content}")).unwrap();
        assert_eq!(
            place.error("files_edit", json!({"filePath": "f", "oldText": old, "newText": ""})),
            "old_text_not_unique"
        );
    }
    let long = "long ".repeat(60_000);
    std::fs::write(place.join("f"), format!("<{long}>")).unwrap();
    place.edit("f", &long, "short");
    assert_eq!(place.content("f"), "<short>");
}

#[test]
fn a_reader_sees_the_old_or_the_new_content() {
    let place = Place::new();
    place.write("f", &"a".repeat(200_000));
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = SetOnDrop(done);
        let reader = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) {
                let content = std::fs::read(place.join("f")).unwrap();
                assert!(content.len() == 200_000 && content.iter().all(|byte| *byte == content[0]));
                rounds += 1;
            }
            rounds
        });
        for round in 0..30 {
            place.write("f", &["b", "a"][round % 2].repeat(200_000));
        }
        done.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
}

#[test]
fn concurrent_edits_of_one_file_are_all_in_it() {
    let place = Place::with("echo start > f; ln -s f l");
    let threads = 8;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let place = &place;
            scope.spawn(move || {
                for round in 0..5 {
                    let path = if thread % 2 == 0 { "f" } else { "l" };
                    place.edit(path, "start", &format!("start {thread}-{round}"));
                }
            });
        }
    });
    let content = place.content("f");
    for thread in 0..threads {
        for round in 0..5 {
            assert!(content.contains(&format!("{thread}-{round}")), "{content}");
        }
    }
    assert_eq!(content.split_whitespace().count(), threads * 5 + 1);
    place.assert_clean(".");
}

#[test]
fn a_file_that_changed_since_it_was_read_is_not_overwritten() {
    let place = Place::with("echo old > f");
    let notes = Notes::new(Some(place.join(".state/temporary")));
    let target = Target::resolve(&place.join("f"), false).unwrap();
    let replace = |(old, version): (Old, Version)| {
        let replacement = Replacement {
            notes: &notes,
            target: &target,
            pieces: &[Piece::Bytes(b"lost")],
            read: Some(Read { old: &old, version }),
            cancel: &AtomicBool::new(false),
        };
        replacement.run().map(|replaced| replaced.in_place)
    };
    let changes = [
        "echo longer > f",
        "printf 'new\\n' > f",
        "touch f",
        "cp f g; mv g f",
        "chmod 700 f",
        "rm f",
    ];
    for change in changes {
        let read = (
            Old::open(&target).unwrap(),
            Version::of(&target.existing().unwrap().unwrap()),
        );
        place.shell(change);
        assert!(matches!(replace(read), Err(Failure::FileChanged)), "{change}");
        if change != "rm f" {
            assert_ne!(place.content("f"), "lost");
        }
        place.assert_clean(".");
    }
    place.shell("echo new > f");
    let read = (
        Old::open(&target).unwrap(),
        Version::of(&target.existing().unwrap().unwrap()),
    );
    assert!(!replace(read).unwrap());
    assert_eq!(place.content("f"), "lost");
}

#[test]
fn two_daemons_that_edit_one_file_lose_nothing_silently() {
    let place = Place::with("echo start > f");
    let other = Files::new(FilesOptions::new(place.path().to_owned()));
    let mut kept = Vec::new();
    std::thread::scope(|scope| {
        let edits = |files: &Files, name: &str| {
            let mut kept = Vec::new();
            for round in 0..60 {
                let text = format!("{name}{round};");
                let outcome = run(
                    files,
                    "files_edit",
                    json!({"filePath": "f", "oldText": "start", "newText": format!("start {text}")}),
                );
                match outcome["error"].as_str() {
                    None => kept.push(text),
                    Some(code) => assert_eq!(code, "file_changed"),
                }
            }
            kept
        };
        let other = scope.spawn(move || edits(&other, "b"));
        kept = edits(&place.files, "a");
        kept.extend(other.join().unwrap());
    });
    // Only a whole edit of the other between two adjacent system calls of one can be lost.
    let content = place.content("f");
    let lost = kept.iter().filter(|text| !content.contains(*text)).count();
    assert!(lost <= 1, "{lost} of {} are lost", kept.len());
    place.assert_clean(".");
}

#[test]
fn a_cancelled_write_leaves_nothing() {
    let place = Place::with("echo old > f");
    let notes = Notes::new(Some(place.join(".state/temporary")));
    for path in ["f", "new"] {
        let target = Target::resolve(&place.join(path), false).unwrap();
        let cancel = AtomicBool::new(true);
        let replacement = Replacement {
            notes: &notes,
            target: &target,
            pieces: &[Piece::Bytes(b"x")],
            read: None,
            cancel: &cancel,
        };
        assert!(matches!(replacement.run(), Err(Failure::Cancelled)));
    }
    assert_eq!(
        (place.names("."), place.content("f")),
        (vec!["f".to_owned()], "old\n".to_owned())
    );
    place.assert_clean(".");
}

#[test]
fn notes_that_can_not_be_kept_do_not_keep_from_writing() {
    let place = Place::with("echo x > file");
    let files = Files::new(FilesOptions {
        temporary_notes: Some(place.join("file/notes")),
        ..FilesOptions::new(place.path().to_owned())
    });
    assert_eq!(
        run(&files, "files_write", json!({"filePath": "f", "content": "y"}))["ok"],
        true
    );
    assert_eq!(files.recover(), Vec::<PathBuf>::new());
    assert_eq!(place.names("."), ["f", "file"]);
}
