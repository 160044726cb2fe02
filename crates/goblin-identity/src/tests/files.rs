//! Private files by themselves.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use super::{Scratch, as_ordinary_user, mode, set_mode};
use crate::IdentityError;
use crate::private_file::{MAX_FILE, Privacy, PrivateDirectory, read_secret};

fn files(scratch: &Scratch) -> PrivateDirectory {
    PrivateDirectory::open_existing(&scratch.state()).unwrap()
}

#[test]
fn a_file_is_replaced_by_a_new_one() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    files.write("file", b"first").unwrap();
    let inode = fs::metadata(scratch.file("file")).unwrap().ino();
    // Whoever still reads the old file reads all of it.
    let mut reader = fs::File::open(scratch.file("file")).unwrap();
    files.write("file", b"second").unwrap();
    assert_ne!(fs::metadata(scratch.file("file")).unwrap().ino(), inode);
    assert_eq!(std::io::read_to_string(&mut reader).unwrap(), "first");
    assert_eq!(files.read("file", Privacy::Secret).unwrap().unwrap().as_str(), "second");
    assert_eq!(scratch.names(), ["file"]);
}

#[test]
fn a_link_is_replaced_and_its_target_left_alone() {
    let scratch = Scratch::new();
    let target = scratch.folder.path().join("target");
    fs::write(&target, "untouched").unwrap();
    symlink(&target, scratch.file("file")).unwrap();
    symlink(&target, scratch.file(".file.new")).unwrap();
    let files = files(&scratch);
    assert!(matches!(
        files.read("file", Privacy::Plain),
        Err(IdentityError::NotRegular { .. })
    ));
    files.write("file", b"new").unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
    assert!(fs::symlink_metadata(scratch.file("file")).unwrap().is_file());
    assert_eq!(scratch.get("file"), "new");
    assert_eq!(mode(&scratch.file("file")), 0o600);
}

#[test]
fn what_can_not_be_replaced_leaves_no_rest() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.file("file")).unwrap();
    let error = files(&scratch).write("file", b"new").unwrap_err();
    assert!(
        error.to_string().contains(&scratch.file("file").display().to_string()),
        "{error}"
    );
    assert_eq!(scratch.names(), ["file"]);
}

#[test]
fn what_a_crash_left_is_cleared() {
    let scratch = Scratch::new();
    for name in [
        "node-identity.json",
        "controller-trust.json",
        "controller-enrollment-consumed",
        "pairing-code.json",
    ] {
        scratch.put(&format!(".{name}.new"), "half a fi");
    }
    let state = scratch.open();
    assert_eq!(scratch.names(), ["daemon.lock"]);
    scratch.put(".pairing-code.json.new", "half a fi");
    state.write_pairing_code("worker", "AAAA-BBBB-CCCC", 0).unwrap();
    assert_eq!(scratch.names(), ["daemon.lock", "pairing-code.json"]);
}

#[test]
fn removing_tells_whether_there_was_something() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    files.write("file", b"").unwrap();
    assert!(files.exists("file").unwrap());
    assert!(files.remove("file").unwrap());
    assert!(!files.exists("file").unwrap());
    assert!(!files.remove("file").unwrap());
    assert!(files.read("file", Privacy::Secret).unwrap().is_none());
}

#[test]
fn long_binary_and_special_files_are_refused() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    let longest = "x".repeat(MAX_FILE as usize);
    scratch.put("long", &longest);
    assert_eq!(
        files.read("long", Privacy::Secret).unwrap().unwrap().len(),
        longest.len()
    );
    scratch.put("long", &format!("{longest}x"));
    assert_eq!(
        files.read("long", Privacy::Secret).unwrap_err().code(),
        "state_file_invalid"
    );
    fs::write(scratch.file("binary"), [0xff, 0xfe]).unwrap();
    assert_eq!(
        files.read("binary", Privacy::Plain).unwrap_err().code(),
        "state_file_invalid"
    );

    let pipe = scratch.file("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scratch.file("socket")).unwrap();
    fs::create_dir(scratch.file("folder")).unwrap();
    for name in ["pipe", "socket", "folder"] {
        // At once: a pipe without a writer would hold a plain open for ever.
        assert_eq!(
            files.read(name, Privacy::Plain).unwrap_err().code(),
            "state_file_not_regular",
            "{name}"
        );
    }
}

#[test]
fn an_unreadable_file_is_an_error_and_not_a_missing_one() {
    let scratch = Scratch::new();
    let error = as_ordinary_user(&scratch.state(), || {
        scratch.put("file", "content");
        set_mode(&scratch.file("file"), 0);
        files(&scratch).read("file", Privacy::Secret).unwrap_err()
    });
    assert_eq!(error.code(), "state_directory_io");
    assert!(error.to_string().contains("file"), "{error}");
}

#[test]
fn a_directory_replaced_under_way_redirects_nothing() {
    let scratch = Scratch::new();
    let files = files(&scratch);
    let moved = scratch.folder.path().join("moved");
    fs::rename(scratch.state(), &moved).unwrap();
    fs::create_dir(scratch.state()).unwrap();
    files.write("file", b"secret").unwrap();
    assert!(scratch.names().is_empty());
    assert_eq!(fs::read_to_string(moved.join("file")).unwrap(), "secret");
}

#[test]
fn a_secret_given_by_path_must_be_a_private_file() {
    let scratch = Scratch::new();
    let path = scratch.file("key.pem");
    fs::write(&path, "a key\n").unwrap();
    for good in [0o600, 0o400, 0o700] {
        set_mode(&path, good);
        assert_eq!(read_secret(&path).unwrap().as_str(), "a key\n");
    }
    let link = scratch.file("link");
    symlink(&path, &link).unwrap();
    assert_eq!(read_secret(&link).unwrap().as_str(), "a key\n");
    for bad in [0o644, 0o604, 0o602, 0o620, 0o460, 0o601, 0o610, 0o666] {
        set_mode(&path, bad);
        let error = read_secret(&path).unwrap_err();
        assert_eq!(error.code(), "state_file_exposed", "{bad:o}");
        let text = error.to_string();
        assert!(text.contains("key.pem") && text.contains("chmod 600"), "{text}");
        assert!(read_secret(&link).is_err());
    }
    // Readable by the group: only as root hands credentials to a service.
    set_mode(&path, 0o440);
    let owner = fs::metadata(&path).unwrap().uid();
    assert_eq!(read_secret(&path).is_ok(), owner == 0);
    if owner == 0 {
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        assert_eq!(read_secret(&path).unwrap_err().code(), "state_file_exposed");
    }
}

#[test]
fn what_is_no_readable_text_file_is_no_secret() {
    let scratch = Scratch::new();
    let pipe = scratch.file("pipe");
    let private = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, private, 0).unwrap();
    assert_eq!(read_secret(&pipe).unwrap_err().code(), "state_file_not_regular");
    assert_eq!(
        read_secret(&scratch.state()).unwrap_err().code(),
        "state_file_not_regular"
    );
    assert_eq!(
        read_secret(&scratch.file("none")).unwrap_err().code(),
        "state_directory_io"
    );
    for content in [vec![0xff, 0xfe], vec![b'x'; MAX_FILE as usize + 1]] {
        fs::write(scratch.file("bad"), content).unwrap();
        set_mode(&scratch.file("bad"), 0o600);
        assert_eq!(
            read_secret(&scratch.file("bad")).unwrap_err().code(),
            "state_file_invalid"
        );
    }
}
