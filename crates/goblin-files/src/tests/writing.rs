//! `files_write` and `files_edit`: content, what survives of the old file, and what is left when they fail.

use super::*;
use crate::replace::{Old, Piece, Read, Replacement, Version};
use crate::target::Target;
use crate::temporary::Notes;
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use rustix::io::Errno;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

impl Place {
    fn write(&self, path: &str, content: &str) -> Value {
        self.ok("files_write", json!({"filePath": path, "content": content}))
    }

    fn edit(&self, path: &str, old: &str, new: &str) -> Value {
        self.ok("files_edit", json!({"filePath": path, "oldText": old, "newText": new}))
    }

    fn content(&self, path: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.join(path)).unwrap()).into_owned()
    }

    fn mode(&self, path: &str) -> u32 {
        self.join(path).metadata().unwrap().permissions().mode() & 0o7777
    }

    /// Nothing temporary, and no note of it, is left in `folder`.
    fn assert_clean(&self, folder: &str) {
        assert!(
            self.names(folder).iter().all(|name| !name.starts_with('.')),
            "{:?}",
            self.names(folder)
        );
        assert_eq!(self.names(".state/temporary"), Vec::<String>::new());
    }
}

fn is_atomic(outcome: &Value) -> bool {
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
fn set_user_id_bits_survive_as_the_rest_of_the_mode() {
    let place = Place::with("echo old > f; chmod 6755 f; echo old > g; chmod 600 g");
    place.write("f", "new");
    place.edit("f", "new", "newer");
    place.edit("g", "old", "new");
    assert_eq!((place.mode("f"), place.mode("g")), (0o6755, 0o600));
}

#[test]
fn the_owner_survives() {
    if !is_root() {
        return;
    }
    let place = Place::with("echo old > f; echo old > g; chown 65534:65533 f g; chmod 4750 f; chmod 600 g");
    assert!(is_atomic(&place.write("f", "new")));
    assert!(is_atomic(&place.edit("g", "old", "new")));
    for (name, mode) in [("f", 0o4750), ("g", 0o600)] {
        let metadata = place.join(name).metadata().unwrap();
        assert_eq!(
            (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777),
            (65534, 65533, mode),
            "{name}"
        );
    }
}

/// A POSIX access list that grants user 12 reading: owner rw, user 12 r, group -, mask r, others -.
fn access_list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] = [
        (1, 6, u32::MAX),
        (2, 4, 12),
        (4, 0, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend([&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    list
}

#[test]
fn extended_attributes_and_access_lists_survive() {
    let place = Place::with("mkdir d; echo old > d/f; echo old > d/plain; chmod 640 d/plain");
    let (file, plain) = (place.join("d/f"), place.join("d/plain"));
    let set = |path: &Path, name: &str, value: &[u8]| setxattr(path, name, value, XattrFlags::empty());
    if set(&file, "user.note", b"kept").is_err() || set(&file, "system.posix_acl_access", &access_list()).is_err() {
        eprintln!("skipped: no extended attributes here");
        return;
    }
    // New files in here get an access list; a file that has none must not get one by being replaced.
    set(&place.join("d"), "system.posix_acl_default", &access_list()).unwrap();
    assert!(is_atomic(&place.write("d/f", "new")));
    assert!(is_atomic(&place.edit("d/plain", "old", "new")));
    let get = |path: &Path, name: &str| {
        let mut value = vec![0; 200];
        getxattr(path, name, value.as_mut_slice()).map(|length| value[..length].to_vec())
    };
    assert_eq!(get(&file, "user.note").unwrap(), b"kept");
    assert_eq!(get(&file, "system.posix_acl_access").unwrap(), access_list());
    assert_eq!(get(&plain, "system.posix_acl_access"), Err(Errno::NODATA));
    assert_eq!(listxattr(&plain, vec![0; 200].as_mut_slice()).unwrap(), 0);
    assert_eq!(place.mode("d/plain"), 0o640);
    place.write("d/new", "x");
    assert_eq!(
        get(&place.join("d/new"), "system.posix_acl_access").unwrap().len(),
        access_list().len()
    );
}

#[test]
fn file_capabilities_go_with_the_old_content() {
    let place = Place::with("echo old > f");
    let file = place.join("f");
    let capability = [[1, 0, 0, 2], [0, 4, 0, 0], [0; 4], [0; 4], [0; 4]].concat();
    if setxattr(&file, "security.capability", &capability, XattrFlags::empty()).is_err() {
        eprintln!("skipped: needs the superuser");
        return;
    }
    place.write("f", "new");
    assert_eq!(
        getxattr(&file, "security.capability", vec![0; 100].as_mut_slice()),
        Err(Errno::NODATA)
    );
}

#[test]
fn what_may_not_be_written_is_refused_and_left_alone() {
    let place = Place::with(
        "echo old > shut; chmod 444 shut; mkdir dir; echo old > dir/f; echo old > dir/unwritable; chmod 444 dir/unwritable; chmod 555 dir",
    );
    let outcomes = in_child(
        &place,
        without_override(),
        &[
            ("files_write", json!({"filePath": "shut", "content": "x"})),
            (
                "files_edit",
                json!({"filePath": "shut", "oldText": "old", "newText": "x"}),
            ),
            ("files_write", json!({"filePath": "dir/new", "content": "x"})),
            ("files_write", json!({"filePath": "dir/sub/new", "content": "x"})),
            ("files_write", json!({"filePath": "dir/unwritable", "content": "x"})),
            // The parent can't take a replacement, but the file can be written.
            ("files_write", json!({"filePath": "dir/f", "content": "one two three"})),
            (
                "files_edit",
                json!({"filePath": "dir/f", "oldText": "two", "newText": "2"}),
            ),
            (
                "files_edit",
                json!({"filePath": "dir/f", "oldText": "one", "newText": "eleven"}),
            ),
            (
                "files_edit",
                json!({"filePath": "dir/f", "oldText": "three", "newText": ""}),
            ),
        ],
    );
    for outcome in &outcomes[..5] {
        assert_eq!(outcome["error"], "EACCES", "{outcome}");
    }
    for outcome in &outcomes[5..] {
        assert_eq!(
            (outcome["ok"].as_bool(), is_atomic(outcome)),
            (Some(true), false),
            "{outcome}"
        );
    }
    assert_eq!(
        (place.content("shut"), place.content("dir/f")),
        ("old\n".to_owned(), "eleven 2 ".to_owned())
    );
    place.assert_clean(".");
    place.assert_clean("dir");
    place.shell("chmod 755 dir");
}

#[test]
fn a_file_of_another_owner_is_written_in_place_or_refused() {
    if !is_root() {
        return;
    }
    let place = Place::with(
        "chmod 777 .; mkdir -m 777 d; mkdir -m 1777 sticky; for f in d/f sticky/f; do echo old > $f; chmod 4666 $f; done; echo secret > d/private; chmod 600 d/private",
    );
    let wrapper = [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "--",
    ];
    let outcomes = in_child(
        &place,
        &wrapper,
        &[
            ("files_write", json!({"filePath": "d/f", "content": "new"})),
            (
                "files_edit",
                json!({"filePath": "sticky/f", "oldText": "old", "newText": "new"}),
            ),
            ("files_write", json!({"filePath": "d/private", "content": "x"})),
            (
                "files_edit",
                json!({"filePath": "d/private", "oldText": "s", "newText": "x"}),
            ),
        ],
    );
    for (outcome, name) in outcomes.iter().zip(["d/f", "sticky/f"]) {
        assert_eq!(
            (outcome["ok"].as_bool(), is_atomic(outcome)),
            (Some(true), false),
            "{outcome}"
        );
        let metadata = place.join(name).metadata().unwrap();
        // The system takes the set-user-id bit from what a stranger writes.
        assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (0, 0o666), "{name}");
    }
    assert_eq!(
        (place.content("d/f"), place.content("sticky/f")),
        ("new".to_owned(), "new\n".to_owned())
    );
    for outcome in &outcomes[2..] {
        assert_eq!(outcome["error"], "EACCES", "{outcome}");
    }
    assert_eq!(place.content("d/private"), "secret\n");
    place.assert_clean("d");
    place.assert_clean("sticky");
}

/// A wrapper that runs `script` in a mount namespace of its own before the program; `None` where that is not possible.
fn mounted(script: &str) -> Option<Vec<String>> {
    let allowed = is_root()
        && Command::new("unshare")
            .args(["-m", "true"])
            .status()
            .is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("skipped: needs mounts");
        return None;
    }
    let script = format!("set -e; {script}; \"$@\"; status=$?; cat small/* 2>/dev/null; ls -A small; exit $status");
    Some(["unshare", "-m", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec())
}

#[test]
fn a_full_disk_leaves_the_old_content_and_nothing_else() {
    let place = Place::with("mkdir small");
    let fill = "mount -t tmpfs -o size=256k tmpfs small; head -c 4000 /dev/zero | tr '\\0' k > small/keep; touch bound; mount --bind small/keep bound";
    let Some(wrapper) = mounted(fill) else { return };
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let (old, large) = ("k".repeat(4000), "n".repeat(1_000_000));
    let outcomes = in_child(
        &place,
        &wrapper,
        &[
            ("files_write", json!({"filePath": "small/keep", "content": large})),
            (
                "files_edit",
                json!({"filePath": "small/keep", "oldText": old, "newText": large}),
            ),
            ("files_write", json!({"filePath": "small/new", "content": large})),
            ("files_read", json!({"filePath": "small/keep"})),
            ("files_list", json!({"dirPath": "small"})),
            // In place, too: the room is reserved before the first byte is written.
            ("files_write", json!({"filePath": "bound", "content": large})),
            ("files_read", json!({"filePath": "bound"})),
        ],
    );
    for index in [0, 1, 2, 5] {
        assert_eq!(outcomes[index]["error"], "ENOSPC", "{}", outcomes[index]);
    }
    assert_eq!(outcomes[3]["content"], old);
    assert_eq!(outcomes[4]["entries"], json!([{"path": "keep", "type": "file"}]));
    assert_eq!(outcomes[6]["content"], old);
    place.assert_clean(".");
}

#[test]
fn a_mount_point_is_written_in_place_and_a_read_only_one_not_at_all() {
    let place = Place::with("mkdir small; echo old > hosts; echo bound > elsewhere; echo old > small/f");
    let mounts = "mount --bind elsewhere hosts; mount --bind small small; mount -o remount,ro,bind small";
    let Some(wrapper) = mounted(mounts) else { return };
    let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    let outcomes = in_child(
        &place,
        &wrapper,
        &[
            (
                "files_edit",
                json!({"filePath": "hosts", "oldText": "bound", "newText": "127.0.0.1 here"}),
            ),
            ("files_write", json!({"filePath": "small/f", "content": "x"})),
            ("files_write", json!({"filePath": "small/new", "content": "x"})),
            (
                "files_edit",
                json!({"filePath": "small/f", "oldText": "old", "newText": "x"}),
            ),
        ],
    );
    assert_eq!(
        (outcomes[0]["ok"].as_bool(), is_atomic(&outcomes[0])),
        (Some(true), false)
    );
    assert_eq!(
        (place.content("elsewhere"), place.content("hosts")),
        ("127.0.0.1 here\n".to_owned(), "old\n".to_owned())
    );
    for outcome in &outcomes[1..] {
        assert_eq!(outcome["error"], "EROFS", "{outcome}");
    }
    place.assert_clean(".");
    place.assert_clean("small");
}

#[test]
fn a_file_of_a_lower_layer_is_edited_like_any_other() {
    let place = Place::with("mkdir small; printf 'old f' > old; printf 'old g' > other");
    // Both kinds: layers of one file system, and of two.
    for lower in [
        "mkdir layers/lower",
        "mkdir layers/lower; mount -t tmpfs tmpfs layers/lower",
    ] {
        let mount = format!(
            "rm -rf layers; mkdir layers; mount -t tmpfs tmpfs layers; mkdir layers/upper layers/work; {lower}; cp old layers/lower/f; cp other layers/lower/g; mount -t overlay -o lowerdir=layers/lower,upperdir=layers/upper,workdir=layers/work overlay small"
        );
        let Some(wrapper) = mounted(&mount) else { return };
        let wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
        if !Command::new(wrapper[0])
            .args(&wrapper[1..])
            .arg("true")
            .current_dir(place.path())
            .output()
            .unwrap()
            .status
            .success()
        {
            eprintln!("skipped: no layers here");
            return;
        }
        let outcomes = in_child(
            &place,
            &wrapper,
            &[
                (
                    "files_edit",
                    json!({"filePath": "small/f", "oldText": "old", "newText": "new"}),
                ),
                ("files_write", json!({"filePath": "small/g", "content": "new"})),
                (
                    "files_edit",
                    json!({"filePath": "small/g", "oldText": "new", "newText": "newer"}),
                ),
                ("files_read", json!({"filePath": "small/f"})),
                ("files_read", json!({"filePath": "small/g"})),
            ],
        );
        for outcome in &outcomes {
            assert_eq!(outcome["ok"], true, "{outcome}");
        }
        assert!(outcomes[..3].iter().all(is_atomic));
        assert_eq!(
            (&outcomes[3]["content"], &outcomes[4]["content"]),
            (&json!("new f"), &json!("newer"))
        );
    }
}

#[test]
fn an_immutable_file_is_refused() {
    let place = Place::with("echo old > f; echo old > log");
    let chattr = |flags: &str, file: &str| {
        Command::new("chattr")
            .args([flags, file])
            .current_dir(place.path())
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if !chattr("+i", "f") {
        eprintln!("skipped: no immutable files here");
        return;
    }
    chattr("+a", "log");
    for file in ["f", "log"] {
        let write = place.run("files_write", json!({"filePath": file, "content": "x"}));
        let edit = place.run(
            "files_edit",
            json!({"filePath": file, "oldText": "old", "newText": "x"}),
        );
        assert_eq!(
            (write["error"].as_str(), edit["error"].as_str()),
            (Some("EPERM"), Some("EPERM"))
        );
    }
    chattr("-i", "f");
    chattr("-a", "log");
    assert_eq!(
        (place.content("f"), place.content("log")),
        ("old\n".to_owned(), "old\n".to_owned())
    );
    place.assert_clean(".");
}

#[test]
fn a_running_program_can_be_replaced() {
    let place = Place::with("cp \"$(command -v sleep)\" program");
    let mut running = Command::new(place.join("program")).arg("60").spawn().unwrap();
    let outcome = place.write("program", "#!/bin/sh\necho new\n");
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(is_atomic(&outcome));
    assert_eq!(place.shell("./program"), "new\n");
}

#[test]
fn devices_that_are_always_full_and_odd_files_are_not_written() {
    let place = Place::new();
    let full = json!({"filePath": "/dev/full", "content": "x"});
    assert_eq!(place.error("files_write", full), "not_a_regular_file");
    // The child's output is a pipe, to which a link of `/proc` leads that is none of the usual ones.
    let pipe = json!({"filePath": "/proc/self/fd/1", "content": "x"});
    assert_eq!(
        in_child(&place, &[], &[("files_write", pipe)])[0]["error"],
        "not_a_regular_file"
    );
    // A file of `/proc` can only be written in place.
    let outcome = place.run(
        "files_write",
        json!({"filePath": "/proc/self/comm", "content": "renamed"}),
    );
    assert_eq!(
        (outcome["ok"].as_bool(), is_atomic(&outcome)),
        (Some(true), false),
        "{outcome}"
    );
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
