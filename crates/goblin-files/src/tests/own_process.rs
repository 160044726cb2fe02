//! The tools never tell of the process that they run in.

use super::*;
use std::process::Command;

const OWN: [&str; 10] = [
    "environ",
    "mem",
    "maps",
    "smaps",
    "auxv",
    "cmdline",
    "stat",
    "comm",
    "oom_score_adj",
    "fdinfo/0",
];

/// Paths by which this process is known.
fn names() -> Vec<String> {
    let pid = std::process::id();
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let tid = thread.file_name().unwrap().to_str().unwrap().to_owned();
    vec![
        "/proc/self".to_owned(),
        "/proc/thread-self".to_owned(),
        format!("/proc/{pid}"),
        format!("/proc/{pid}/task/{pid}"),
        // Not listed, but there.
        format!("/proc/{tid}"),
    ]
}

fn refused(place: &Place, tool: &str, arguments: Value) {
    let outcome = place.run(tool, arguments.clone());
    assert_eq!(outcome["error"], "EACCES", "{tool} {arguments}: {outcome}");
}

#[test]
fn nothing_of_the_own_process_is_read_listed_or_written() {
    let place = Place::with("ln -s /proc/self/environ link; ln -s /proc/self folder; ln -s folder/task again");
    for name in names() {
        for file in OWN {
            let path = format!("{name}/{file}");
            refused(&place, "files_read", json!({"filePath": path}));
            refused(&place, "files_search", json!({"dirPath": path, "query": "a"}));
            refused(&place, "files_inspect", json!({"path": path}));
            refused(&place, "files_write", json!({"filePath": path, "content": "x"}));
            refused(
                &place,
                "files_edit",
                json!({"filePath": path, "oldText": "a", "newText": "b"}),
            );
        }
        for folder in ["", "/fd", "/task", "/fdinfo", "/map_files"] {
            // The thread's own folder has no folder of threads.
            let path = format!("{name}{folder}");
            if !std::path::Path::new(&path).is_dir() {
                continue;
            }
            refused(&place, "files_list", json!({"dirPath": path}));
            refused(&place, "files_find", json!({"dirPath": path, "pattern": "**"}));
            refused(&place, "files_search", json!({"dirPath": path, "query": "a"}));
        }
        refused(&place, "files_inspect", json!({"path": format!("{name}/exe")}));
        refused(&place, "files_inspect", json!({"path": format!("{name}/fd/0")}));
    }
    refused(&place, "files_read", json!({"filePath": "link"}));
    refused(&place, "files_read", json!({"filePath": "folder/environ"}));
    refused(&place, "files_write", json!({"filePath": "link", "content": "x"}));
    refused(&place, "files_list", json!({"dirPath": "again"}));
    assert_eq!(
        place.ok("files_inspect", json!({"path": "/proc/self"}))["type"],
        "symlink"
    );
}

#[test]
fn a_traversal_that_comes_by_passes_by() {
    let place = Place::new();
    let pid = std::process::id();
    let outcome = place.ok(
        "files_search",
        json!({"dirPath": "/proc", "query": "goblin-not-there", "maxDepth": 1, "maxTraversalEntries": 1_000_000}),
    );
    let warnings = outcome["warnings"].as_array().unwrap();
    let expected = format!("unreadable_directory:{pid}:EACCES");
    assert!(warnings.iter().any(|warning| *warning == expected), "no {expected}");
    let inside = format!(":{pid}/");
    assert!(
        !warnings
            .iter()
            .any(|warning| warning.as_str().unwrap().contains(&inside))
    );
}

#[test]
fn the_rest_of_the_process_file_system_stays_readable() {
    let place = Place::new();
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = other.id();
    for path in [
        "/proc/meminfo".to_owned(),
        "/proc/mounts".to_owned(),
        "/proc/self/mountinfo".to_owned(),
        "/proc/self/status".to_owned(),
        "/proc/thread-self/status".to_owned(),
        format!("/proc/{pid}/status"),
        format!("/proc/{pid}/task/{pid}/stat"),
    ] {
        let outcome = place.ok("files_read", json!({"filePath": path}));
        assert_ne!(outcome["content"], "", "{path}");
    }
    place.ok("files_list", json!({"dirPath": "/proc/net/"}));
    place.ok("files_list", json!({"dirPath": format!("/proc/{pid}/task")}));
    assert_eq!(
        place.ok("files_read", json!({"filePath": "/proc/self/root/proc/version"}))["error"],
        Value::Null
    );
    other.kill().unwrap();
    other.wait().unwrap();
}

/// Other mounts of the same, one of which knows this process by another number.
#[test]
fn other_mounts_lead_no_way_around() {
    let namespaces = Command::new("unshare").args(["-mpf", "true"]).status();
    if !(is_root() && namespaces.is_ok_and(|status| status.success())) {
        eprintln!("skipped: needs mounts");
        return;
    }
    let place = Place::with("mkdir new bound own thread");
    let here = "mount -t proc proc new; mount --rbind /proc bound; mount --bind /proc/$$ own; mount --bind /proc/$$/task/$$ thread";
    for (flags, mounts, names) in [
        ("-m", here, &["new/self", "bound/self", "own", "thread"][..]),
        (
            "-mpf",
            "mount --rbind /proc bound; mount -t proc proc /proc",
            &["bound/self", "/proc/self"],
        ),
    ] {
        let script = format!("set -e; {mounts}; exec \"$@\"");
        let calls: Vec<(&str, Value)> = names
            .iter()
            .flat_map(|name| {
                [
                    ("files_read", json!({"filePath": format!("{name}/environ")})),
                    ("files_list", json!({"dirPath": format!("{name}/")})),
                ]
            })
            .collect();
        let outcomes = in_child(&place, &["unshare", flags, "sh", "-c", &script, "sh"], &calls);
        assert_eq!(outcomes.len(), calls.len());
        for (outcome, call) in outcomes.iter().zip(&calls) {
            assert_eq!(outcome["error"], "EACCES", "{call:?}: {outcome}");
        }
    }
}
