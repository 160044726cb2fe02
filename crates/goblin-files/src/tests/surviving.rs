//! What of a file survives a write: owner, mode, attributes, place. And what must not be written at all.

use super::writing::is_atomic;
use super::*;
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use rustix::io::Errno;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

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

/// Larger than several blocks, with an end that is no block, and told apart at every place.
fn numbered(count: u32) -> Vec<u8> {
    (0..count).flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn an_edit_in_place_moves_the_rest_whether_it_grows_or_shrinks() {
    let place = Place::with("mkdir dir; touch dir/f; chmod 555 dir");
    let (head, tail) = (numbered(70_001), numbered(300_001));
    let long = "n".repeat(400_000);
    for new in ["", "new", "NEEDLE", "needle!", long.as_str()] {
        let content = [&head[..], b"NEEDLE", &tail].concat();
        std::fs::write(place.join("dir/f"), content).unwrap();
        let edit = json!({"filePath": "dir/f", "oldText": "NEEDLE", "newText": new});
        let outcome = in_child(&place, without_override(), &[("files_edit", edit)]).remove(0);
        assert_eq!(
            (outcome["ok"].as_bool(), is_atomic(&outcome)),
            (Some(true), false),
            "{outcome}"
        );
        let expected = [&head[..], new.as_bytes(), &tail].concat();
        assert!(
            std::fs::read(place.join("dir/f")).unwrap() == expected,
            "{} bytes",
            new.len()
        );
    }
    place.shell("chmod 755 dir");
}

#[test]
fn an_edit_in_place_needs_no_memory_for_the_rest() {
    let place = Place::with("mkdir dir; printf NEEDLE > dir/f; head -c 96M /dev/zero >> dir/f; chmod 555 dir");
    let edit = |old: &str, new: &str| {
        (
            "files_edit",
            json!({"filePath": "dir/f", "oldText": old, "newText": new}),
        )
    };
    let calls = [edit("NEEDLE", "needle!"), edit("needle!", "n")];
    let outcomes = in_child(&place, without_override(), &calls);
    for outcome in &outcomes {
        assert_eq!(
            (outcome["ok"].as_bool(), is_atomic(outcome)),
            (Some(true), false),
            "{outcome}"
        );
        assert!(outcome["peakKib"].as_u64().unwrap() < 48 * 1024, "{outcome}");
    }
    assert_eq!(place.join("dir/f").metadata().unwrap().len(), 1 + (96 << 20));
    place.shell("chmod 755 dir");
}

#[test]
fn a_file_of_another_owner_is_written_in_place_or_refused() {
    if !is_root() {
        return;
    }
    let place = Place::with(
        "chmod 777 .; mkdir -m 777 d; mkdir -m 1777 sticky; for f in d/f sticky/f; do echo old > $f; chmod 4666 $f; done; echo secret > d/private; chmod 600 d/private; echo old > d/own; chown 65534:65534 d/own; chmod 6755 d/own",
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
            ("files_write", json!({"filePath": "d/own", "content": "new"})),
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
    // On its own file it may set those bits, so they are kept with the rest of the mode.
    assert!(is_atomic(&outcomes[2]), "{}", outcomes[2]);
    let metadata = place.join("d/own").metadata().unwrap();
    assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (65_534, 0o6755));
    for outcome in &outcomes[3..] {
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
    // Another test that starts a program holds our writing descriptor for a moment.
    let tries = "for try in {1..200}; do ./program 2>/dev/null && exit; done; exit 1";
    assert_eq!(place.shell(tries), "new\n");
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
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let path = format!("/proc/{}/oom_score_adj", other.id());
    let outcome = place.run("files_write", json!({"filePath": path, "content": "500"}));
    let written = std::fs::read_to_string(&path).unwrap();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(written, "500\n");
    assert_eq!(
        (outcome["ok"].as_bool(), is_atomic(&outcome)),
        (Some(true), false),
        "{outcome}"
    );
}
