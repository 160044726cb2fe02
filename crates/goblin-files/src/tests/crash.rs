//! Killing the process at any instant: old or new content, and nothing left after the next start.

use super::*;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const ROUNDS: u32 = 300;

/// Bytes of the content that is written and edited over and over.
const LENGTH: usize = 400_000;

fn files(folder: &Path) -> Files {
    Files::new(FilesOptions {
        temporary_notes: Some(folder.join("state/temporary")),
        ..FilesOptions::new(folder.join("work"))
    })
}

/// The body of the processes that are killed: writes, edits and creates until then.
#[test]
fn crashing_process() {
    let Ok(folder) = std::env::var(CRASH) else { return };
    let files = files(Path::new(&folder));
    let [a, b] = ["a", "b"].map(|letter| letter.repeat(LENGTH));
    for round in 0_u64.. {
        let (old, new) = if round % 2 == 0 {
            ("one", "three")
        } else {
            ("three", "one")
        };
        run(
            &files,
            "files_write",
            json!({"filePath": "written", "content": if round % 2 == 0 { &a } else { &b }}),
        );
        run(
            &files,
            "files_edit",
            json!({"filePath": "edited", "oldText": old, "newText": new}),
        );
        let _ = std::fs::remove_file(Path::new(&folder).join("work/new/created"));
        run(&files, "files_write", json!({"filePath": "new/created", "content": a}));
        println!("\nround {round}");
    }
}

#[test]
fn a_kill_at_any_instant_leaves_old_or_new_content() {
    let place = Place::in_memory();
    let folder = place.path();
    let work = folder.join("work");
    std::fs::create_dir(&work).unwrap();
    let edited = |word: &str| format!("{}{word}{}", "x".repeat(LENGTH), "y".repeat(LENGTH));
    std::fs::write(work.join("written"), "a".repeat(LENGTH)).unwrap();
    std::fs::write(work.join("edited"), edited("one")).unwrap();
    let mut recovered = 0;
    for round in 0..ROUNDS {
        let mut process = child(&[], "tests::crash::crashing_process")
            .env(CRASH, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with("round")));
        // Some other instant of the loop each time.
        let (started, wait) = (Instant::now(), Duration::from_micros(u64::from(round * 37 % 101) * 30));
        while started.elapsed() < wait {
            std::hint::spin_loop();
        }
        process.kill().unwrap();
        process.wait().unwrap();

        let written = std::fs::read(work.join("written")).unwrap();
        assert!(
            written.len() == LENGTH && written.iter().all(|byte| *byte == written[0]),
            "round {round}"
        );
        let text = std::fs::read_to_string(work.join("edited")).unwrap();
        assert!(text == edited("one") || text == edited("three"), "round {round}");
        if let Ok(created) = std::fs::read(work.join("new/created")) {
            assert_eq!(created.len(), LENGTH, "round {round}");
        }
        let removed = files(folder).recover();
        recovered += removed.len();
        let left = place.shell("find work state -name '.goblin-*' -o -path 'state/temporary/*'");
        assert_eq!(
            (left.as_str(), removed.iter().any(|path| path.exists())),
            ("", false),
            "round {round}"
        );
    }
    assert!(recovered > 0, "no kill hit a write");
}

#[test]
fn recovery_removes_only_what_is_ours() {
    let place = Place::with("mkdir -p .state/temporary d");
    let random = "0123456789abcdef0123456789abcdef";
    let other = "f".repeat(32);
    let ours = place.join(format!("d/.goblin-{random}.tmp"));
    let note = |name: &str, target: &Path| symlink(target, place.join(".state/temporary").join(name)).unwrap();
    let file = |name: &str| {
        let path = place.join(name);
        std::fs::write(&path, "content").unwrap();
        path
    };
    // Ours; already renamed; another's name; a name that is not the note's; a short one; no file; a relative one; no note.
    std::fs::write(&ours, "half").unwrap();
    note(random, &ours);
    let gone = "a".repeat(32);
    note(&gone, &place.join(format!("d/.goblin-{gone}.tmp")));
    note(&other, &file("precious"));
    note(&"e".repeat(32), &file(&format!("d/.goblin-{other}.tmp")));
    note("short", &file("d/.goblin-short.tmp"));
    let folder = "d".repeat(32);
    std::fs::create_dir(place.join(format!("d/.goblin-{folder}.tmp"))).unwrap();
    note(&folder, &place.join(format!("d/.goblin-{folder}.tmp")));
    let relative = "c".repeat(32);
    note(&relative, Path::new(&format!(".goblin-{relative}.tmp")));
    file(&format!("d/.goblin-{}.tmp", "b".repeat(32)));
    std::fs::write(place.join(".state/temporary/file"), "no link").unwrap();

    assert_eq!(place.files.recover(), std::slice::from_ref(&ours));
    assert!(!ours.exists());
    let mut left = place.names("d");
    left.sort();
    let mut expected = vec![
        ".goblin-short.tmp".to_owned(),
        format!(".goblin-{other}.tmp"),
        format!(".goblin-{folder}.tmp"),
        format!(".goblin-{}.tmp", "b".repeat(32)),
    ];
    expected.sort();
    assert_eq!(left, expected);
    assert!(place.join("precious").exists());
    let notes = place.names(".state/temporary");
    assert!(
        !notes.contains(&random.to_owned()) && !notes.contains(&gone),
        "{notes:?}"
    );
    assert_eq!(place.files.recover(), Vec::<PathBuf>::new());
}

#[test]
fn a_folder_of_notes_that_root_makes_belongs_to_the_owner_of_the_state() {
    use std::os::unix::fs::MetadataExt;
    if !is_root() {
        return;
    }
    let place = Place::with("mkdir .state; chown 65534:65534 .state");
    place.write("f", "x");
    let metadata = place.join(".state/temporary").metadata().unwrap();
    assert_eq!(
        (metadata.uid(), metadata.gid(), metadata.mode() & 0o777),
        (65_534, 65_534, 0o700)
    );
}
