//! The filesystem tools from outside, beside the usual tools on the same generated trees.
//!
//! `find` and `rg` are started anew for each sample, as people start them; ours answer over standard streams. `rg` gets
//! one thread and the same rules for hidden files and `node_modules`. Without `rg` on the PATH its rows are left out.

#[path = "../harness.rs"]
#[allow(dead_code, reason = "shared with another benchmark")]
mod harness;

use harness::{Daemon, Row, median, verdict};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SAMPLES: usize = 15;
const FOLDERS: usize = 200;
const FILES: usize = 20;

/// A literal that stands once in each tree.
const NEEDLE: &str = "rare-needle-4711";

fn main() {
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let daemon = Daemon::start_with_state();
    let scratch = daemon.scratch().to_owned();
    let with_rg = Command::new("rg")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    println!("{}", Row::HEAD);
    for (name, size) in [("200 × 20 × 4 KB", 4 * 1024), ("1 GB", 256 * 1024)] {
        let tree = scratch.join("tree");
        make_tree(&tree, size);
        compare_tree(&daemon, name, &tree, with_rg);
        fs::remove_dir_all(&tree).expect("the tree goes");
    }
    range_of_a_large_file(&daemon, &scratch);
    if !with_rg {
        println!("rg is not on the PATH; install ripgrep for its rows");
    }
}

fn make_tree(root: &Path, size: usize) {
    let line = "the quick brown fox jumps over the lazy dog and goes home again\n";
    let content: String = line.repeat(size / line.len() + 1)[..size].to_owned();
    for folder in 0..FOLDERS {
        let path = root.join(format!("folder{folder:03}"));
        fs::create_dir_all(&path).expect("a folder");
        for file in 0..FILES {
            fs::write(path.join(format!("file{file:02}.txt")), &content).expect("a file");
        }
    }
    let late = root.join("folder150").join("file10.txt");
    fs::write(late, content + NEEDLE + "\n").expect("a file");
}

fn compare_tree(daemon: &Daemon, name: &str, tree: &Path, with_rg: bool) {
    let root = tree.display().to_string();
    let list = format!(r#""dirPath":{root:?},"maxDepth":8,"maxEntries":10000"#);
    pair(
        daemon,
        &format!("files_list, {name}"),
        "files_list",
        &list,
        "find",
        &["find", &root],
        1.5,
    );
    if with_rg {
        let budget = r#","maxTraversalEntries":10000"#;
        let rules = ["--no-ignore", "-g", "!node_modules"];
        let find = format!(r#""dirPath":{root:?},"pattern":"**/*","maxEntries":10000{budget}"#);
        let rg_files = [&["rg", "--files", "-j1"], rules.as_slice(), &[&root]].concat();
        pair(
            daemon,
            &format!("files_find, {name}"),
            "files_find",
            &find,
            "rg --files -j1",
            &rg_files,
            1.5,
        );
        let search = format!(r#""dirPath":{root:?},"query":"{NEEDLE}"{budget}"#);
        let rg = [&["rg", "-F", "-j1"], rules.as_slice(), &[NEEDLE, &root]].concat();
        pair(
            daemon,
            &format!("files_search, {name}"),
            "files_search",
            &search,
            "rg -F -j1",
            &rg,
            1.3,
        );
    }
}

/// Our tool and another program in turn.
fn pair(daemon: &Daemon, name: &str, tool: &str, arguments: &str, other_name: &str, other: &[&str], goal: f64) {
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    // One of each first, so that both find the tree in the cache.
    for sample in 0..=SAMPLES {
        let begun = Instant::now();
        let status = Command::new(other[0])
            .args(&other[1..])
            .stdout(Stdio::null())
            .status()
            .expect("it runs");
        let theirs = begun.elapsed();
        assert!(status.success(), "{other:?}");
        let taken = run_tool(daemon, tool, arguments);
        if sample > 0 {
            ours.push(taken);
            floor.push(theirs);
        }
    }
    Row::ratio(name, median(ours), other_name, median(floor), goal).print();
}

fn run_tool(daemon: &Daemon, tool: &str, arguments: &str) -> Duration {
    // Ids are derived from the request, so a member that nobody reads keeps each one new.
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let id = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let begun = Instant::now();
    let answer = daemon.request(&format!(
        r#"{{"id":{id},"method":"filesystem.execute","params":{{"operationId":"t{id}","tool":"{tool}","arguments":{{{arguments}}}}}}}"#
    ));
    let taken = begun.elapsed();
    assert!(
        answer.contains(r#""error":null"#),
        "{}",
        &answer[..answer.len().min(400)]
    );
    assert!(
        answer.contains(r#""incomplete":false"#) || tool == "files_read",
        "the budget was too small"
    );
    taken
}

fn range_of_a_large_file(daemon: &Daemon, scratch: &Path) {
    let file = scratch.join("large");
    fs::write(&file, "x".repeat(200_000_000)).expect("a large file");
    let arguments = format!(
        r#""filePath":{:?},"offsetBytes":100000000,"maxBytes":4096"#,
        file.display().to_string()
    );
    run_tool(daemon, "files_read", &arguments);
    let before = daemon.resident_kib();
    let taken = median((0..100).map(|_| run_tool(daemon, "files_read", &arguments)).collect());
    let more = daemon.resident_kib().saturating_sub(before);
    Row::absolute("files_read, 4 KiB at 100 MB of 200 MB", taken, Duration::from_millis(1)).print();
    println!(
        "{:44} {more:>10} KiB {:>35} {}",
        "  its extra memory, after 100 reads",
        "goal ≤ 1024 KiB",
        verdict(more <= 1024)
    );
}
