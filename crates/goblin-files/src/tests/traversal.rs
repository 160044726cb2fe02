//! `files_list` and `files_find`: order, bounds, odd names and trees that change, and the glob dialect.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const TREE: &str = "mkdir -p t/a/x t/b t/.hidden t/node_modules/m t/a/node_modules
    touch t/a/x/deep t/a/one t/b/two t/.dot t/.hidden/h t/node_modules/m/i t/c
    ln -s a t/link; ln -s nowhere t/dangling; mkfifo t/fifo";

impl Place {
    pub(super) fn list(&self, arguments: Value) -> (Vec<String>, Value) {
        let outcome = self.ok("files_list", arguments);
        let entries = outcome["entries"].as_array().unwrap();
        (
            entries
                .iter()
                .map(|entry| entry["path"].as_str().unwrap().to_owned())
                .collect(),
            outcome,
        )
    }

    pub(super) fn find(&self, arguments: Value) -> (Vec<String>, Value) {
        let outcome = self.ok("files_find", arguments);
        let paths = outcome["paths"].as_array().unwrap();
        (
            paths.iter().map(|path| path.as_str().unwrap().to_owned()).collect(),
            outcome,
        )
    }
}

/// The flags of a traversal: truncated, depth, budget, incomplete, number of warnings.
pub(super) fn flags(outcome: &Value) -> (bool, bool, bool, bool, usize) {
    let flag = |name: &str| outcome[name].as_bool().unwrap();
    let warnings = outcome["warnings"].as_array().unwrap().len();
    (
        flag("truncated"),
        flag("depthTruncated"),
        flag("entryBudgetExhausted"),
        flag("incomplete"),
        warnings,
    )
}

#[test]
fn a_list_is_depth_first_and_in_order() {
    let place = Place::with(TREE);
    let outcome = place.ok("files_list", json!({"dirPath": "t"}));
    let expected = [
        ("a", "directory"),
        ("a/one", "file"),
        ("a/x", "directory"),
        ("a/x/deep", "file"),
        ("b", "directory"),
        ("b/two", "file"),
        ("c", "file"),
        ("dangling", "symlink"),
        ("fifo", "other"),
        ("link", "symlink"),
    ];
    let expected: Vec<Value> = expected
        .iter()
        .map(|(path, kind)| json!({"path": path, "type": kind}))
        .collect();
    assert_eq!(outcome["entries"], json!(expected));
    assert_eq!(flags(&outcome), (false, false, false, false, 0));
    place.shell("mkdir empty");
    assert_eq!(place.list(json!({"dirPath": "empty"})).0, Vec::<String>::new());
}

#[test]
fn bounds_end_a_list_and_say_so() {
    let place = Place::with(TREE);
    // depth, entries, number listed, flags
    let cases = [
        (json!(1), json!(null), 9, (true, true, false, true, 1)),
        (json!(2), json!(null), 10, (false, false, false, false, 0)),
        (json!(null), json!(3), 3, (true, false, true, true, 1)),
        (json!(null), json!("1"), 1, (true, false, true, true, 1)),
        (json!(null), json!(10), 10, (false, false, false, false, 0)),
        (json!(null), json!(9), 9, (true, false, true, true, 1)),
        (json!(1), json!(8), 8, (true, true, true, true, 2)),
        (json!(0), json!(-1), 10, (false, false, false, false, 0)),
    ];
    for (depth, entries, count, expected) in cases {
        let (paths, outcome) = place.list(json!({"dirPath": "t", "maxDepth": depth, "maxEntries": entries}));
        assert_eq!(
            (paths.len(), flags(&outcome)),
            (count, expected),
            "{depth} {entries}: {outcome}"
        );
    }
    place.shell("mkdir many; cd many; seq -f n%05.0f 600 | xargs touch");
    let (paths, outcome) = place.list(json!({"dirPath": "many"}));
    assert_eq!((paths.len(), outcome["truncated"].clone()), (500, json!(true)));
    assert_eq!(paths.last().unwrap(), "n00500");
}

#[test]
fn depths_have_their_defaults() {
    let place = Place::with("mkdir -p t/1/2/3/4/5/6/7/8/9/10");
    let (paths, outcome) = place.list(json!({"dirPath": "t"}));
    assert_eq!((paths.len(), flags(&outcome)), (5, (true, true, false, true, 1)));
    let (paths, outcome) = place.find(json!({"dirPath": "t", "pattern": "**"}));
    assert_eq!((paths.len(), flags(&outcome)), (9, (true, true, false, true, 1)));
}

#[test]
fn the_entry_budget_is_the_request_s_or_the_host_s() {
    let mut place = Place::with("mkdir t; cd t; seq -f n%05.0f 4100 | xargs touch");
    let count = |place: &Place, budget: Value| {
        let (paths, outcome) = place.find(json!({"dirPath": "t", "maxEntries": 10_000, "maxTraversalEntries": budget}));
        (paths.len(), outcome["entryBudgetExhausted"].as_bool().unwrap())
    };
    assert_eq!(count(&place, json!(null)), (4000, true));
    assert_eq!(count(&place, json!(0)), (4000, true));
    assert_eq!(count(&place, json!(5)), (5, true));
    assert_eq!(count(&place, json!(4100)), (4100, false));
    place.files.traversal_entries = 7;
    assert_eq!(count(&place, json!(null)), (7, true));
    assert_eq!(count(&place, json!(12)), (12, true));
    assert_eq!(place.list(json!({"dirPath": "t", "maxEntries": 20})).0.len(), 20);
}

#[test]
fn names_come_in_byte_order() {
    let place = Place::with("mkdir -p t/a/B; cd t; touch ./- 0 A Z _ b z é ﬁ 😀 a/B/x a/B-1 a/a");
    assert_eq!(
        place.find(json!({"dirPath": "t"})).0,
        ["-", "0", "A", "Z", "_", "a", "b", "z", "é", "ﬁ", "😀"]
    );
    assert_eq!(place.list(json!({"dirPath": "t/a"})).0, ["B", "B/x", "B-1", "a"]);
}

#[test]
fn links_in_a_circle_are_listed_and_not_entered() {
    let place = Place::with("mkdir -p t/sub; ln -s . t/ring; ln -s .. t/sub/up; ln -s self t/self; ln -s t root");
    for root in ["t", "root"] {
        let (paths, outcome) = place.list(json!({"dirPath": root, "maxDepth": 64}));
        assert_eq!(paths, ["ring", "self", "sub", "sub/up"], "{root}");
        assert_eq!(flags(&outcome), (false, false, false, false, 0));
    }
}

#[test]
fn odd_names_are_shown_lossily_with_a_warning() {
    let place = Place::with(
        "mkdir t; cd t; touch ok $'raw-\\xff' $'new\\nline' $'tab\\tand\\x01'; mkdir $'d\\xfe'; touch $'d\\xfe/in'",
    );
    let (paths, outcome) = place.list(json!({"dirPath": "t"}));
    assert_eq!(
        paths,
        [
            "d\u{fffd}",
            "d\u{fffd}/in",
            "new\nline",
            "ok",
            "raw-\u{fffd}",
            "tab\tand\u{1}"
        ]
    );
    let expected = [
        "undecodable_name:d\u{fffd}",
        "undecodable_name:d\u{fffd}/in",
        "undecodable_name:raw-\u{fffd}",
    ];
    assert_eq!(outcome["warnings"], json!(expected));
    assert_eq!(
        (&outcome["incomplete"], &outcome["truncated"]),
        (&json!(true), &json!(false))
    );
    // What isn't shown needs no warning; `?` is one byte where there is no character.
    let (paths, outcome) = place.find(json!({"dirPath": "t", "pattern": "raw-?"}));
    assert_eq!(
        (paths, &outcome["warnings"]),
        (
            vec!["raw-\u{fffd}".to_owned()],
            &json!(["undecodable_name:raw-\u{fffd}"])
        )
    );
    assert_eq!(flags(&place.find(json!({"dirPath": "t", "pattern": "ok"})).1).4, 0);
    assert_eq!(place.find(json!({"dirPath": "t", "pattern": "*\n*"})).0, ["new\nline"]);
}

#[test]
fn a_directory_of_200_000_names_costs_what_the_budget_costs() {
    let place = Place::in_memory();
    place.shell("mkdir big; cd big; seq -f 'file-%06.0f-with-a-longer-name.txt' 0 199999 | xargs touch");
    let (paths, outcome) = place.list(json!({"dirPath": "big", "maxEntries": 100}));
    assert_eq!((paths.len(), flags(&outcome)), (100, (true, false, true, true, 1)));
    assert_eq!(paths[99], "file-000099-with-a-longer-name.txt");
    let list = ("files_list", json!({"dirPath": "big", "maxEntries": 4000}));
    let outcomes = in_child(&place, &[], &[("files_inspect", json!({"path": "."})), list]);
    let grown = outcomes[1]["peakKib"].as_u64().unwrap() - outcomes[0]["peakKib"].as_u64().unwrap();
    assert!(grown < 8_192, "{grown} KiB");
    let (paths, outcome) = place.find(json!({"dirPath": "big", "pattern": "*19999?*"}));
    assert_eq!((paths.len(), outcome["entryBudgetExhausted"].clone()), (0, json!(true)));
    let (paths, outcome) = place.find(json!({"dirPath": "big", "pattern": "*199999*", "maxTraversalEntries": 400_000}));
    assert_eq!(
        (paths, flags(&outcome)),
        (
            vec!["file-199999-with-a-longer-name.txt".to_owned()],
            (false, false, false, false, 0)
        )
    );
}

/// A tree deeper than the longest path, made by handles: in each folder a file and the next one.
fn deep(place: &Place, depth: usize, name: &str) {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let directory = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let file = |parent: &rustix::fd::OwnedFd, name: &str| {
        let file = openat(
            parent,
            name,
            OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::RWXU,
        )
        .unwrap();
        rustix::io::write(&file, b"needle").unwrap();
    };
    std::fs::create_dir(place.join("deep")).unwrap();
    let mut parent = openat(CWD, place.join("deep"), directory, Mode::empty()).unwrap();
    for _ in 0..depth {
        file(&parent, "file");
        mkdirat(&parent, name, Mode::RWXU).unwrap();
        parent = openat(&parent, name, directory, Mode::empty()).unwrap();
    }
    file(&parent, "last");
}

#[test]
fn a_tree_deeper_than_the_longest_path_is_walked() {
    let place = Place::new();
    let (depth, name) = (120, "d".repeat(40));
    deep(&place, depth, &name);
    let arguments = json!({"dirPath": "deep", "maxDepth": 10_000, "maxEntries": 10_000});
    let (paths, outcome) = place.list(arguments.clone());
    assert_eq!(flags(&outcome), (false, false, false, false, 0));
    assert_eq!(paths.len(), 2 * depth + 1);
    let expected = vec![name.as_str(); depth].join("/");
    assert!(paths.contains(&format!("{expected}/last")));
    // Every file beside a directory comes after it, so that each ancestor is found again from below.
    assert!(paths.ends_with(&[format!("{name}/file"), "file".to_owned()]));
    let mut search = arguments;
    search["query"] = json!("needle");
    search["maxMatches"] = json!(10_000);
    assert_eq!(
        place.ok("files_search", search)["matches"].as_array().unwrap().len(),
        depth + 1
    );
    place.shell("rm -rf deep");
}

#[test]
fn handles_are_closed_on_the_way_down_and_found_again_on_the_way_up() {
    fn every(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        let mut names: Vec<String> = folder
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        for name in names {
            found.push(format!("{prefix}{name}"));
            if folder.join(&name).is_dir() {
                every(&folder.join(&name), &format!("{prefix}{name}/"), found);
            }
        }
    }
    // A trunk with long branches on both sides of it, so that the walk goes far up and far down again and again.
    let place = Place::new();
    let (trunk, branch) = (vec!["m"; 90], vec!["b"; 45].join("/"));
    for length in (0..=90).step_by(9) {
        for side in ["a", "z"] {
            let folder = place.join("t").join(trunk[..length].join("/")).join(side).join(&branch);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("end"), "").unwrap();
        }
    }
    let mut expected = Vec::new();
    every(&place.join("t"), "", &mut expected);
    let (paths, outcome) = place.list(json!({"dirPath": "t", "maxDepth": 1000, "maxEntries": 10_000}));
    assert_eq!(flags(&outcome), (false, false, false, false, 0));
    assert_eq!(paths, expected);
}

#[test]
fn a_result_that_no_frame_can_hold_is_not_gathered() {
    let place = Place::new();
    deep(&place, 400, &"d".repeat(200));
    let outcome = place.ok(
        "files_list",
        json!({"dirPath": "deep", "maxDepth": 10_000, "maxEntries": 10_000}),
    );
    let length: usize = outcome["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["path"].as_str().unwrap().len())
        .sum();
    assert!((2 << 20..3 << 20).contains(&length), "{length}");
    assert_eq!(flags(&outcome), (true, false, false, true, 1));
    place.shell("rm -rf deep");
}

#[test]
fn a_directory_that_goes_away_during_the_walk_is_a_warning_at_most() {
    let place = Place::with("mkdir t");
    let root = place.join("t");
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = SetOnDrop(done);
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                for index in 0..20 {
                    let _ = std::fs::create_dir_all(root.join(format!("{index}/sub/sub")));
                    let _ = std::fs::write(root.join(format!("{index}/sub/file")), "needle");
                }
                for index in 0..20 {
                    let _ = std::fs::remove_dir_all(root.join(format!("{index}")));
                    let _ = std::os::unix::fs::symlink("..", root.join(format!("{index}")));
                }
                for index in 0..20 {
                    let _ = std::fs::remove_file(root.join(format!("{index}")));
                }
            }
        });
        for _ in 0..300 {
            let (paths, outcome) = place.list(json!({"dirPath": "t", "maxDepth": 20}));
            assert!(paths.iter().all(|path| path.matches('/').count() <= 2), "{paths:?}");
            let search = place.ok("files_search", json!({"dirPath": "t", "query": "needle"}));
            for warning in outcome["warnings"]
                .as_array()
                .unwrap()
                .iter()
                .chain(search["warnings"].as_array().unwrap())
            {
                assert!(warning.as_str().unwrap().starts_with("unreadable_"), "{warning}");
            }
        }
    });
}

#[test]
fn unreadable_folders_are_warnings_and_an_unreadable_root_is_an_error() {
    let place = Place::with(
        "mkdir -p t/open t/shut; for f in open/gem shut/b sealed; do echo quartz > t/$f.md; done; chmod 000 t/shut t/sealed.md; chmod 755 .",
    );
    let run = |tool: &str, arguments: Value| in_child(&place, without_override(), &[(tool, arguments)]).remove(0);
    let list = run("files_list", json!({"dirPath": "t"}));
    assert_eq!(list["warnings"], json!(["unreadable_directory:shut:EACCES"]));
    assert_eq!((&list["incomplete"], &list["truncated"]), (&json!(true), &json!(false)));
    assert!(
        list["entries"]
            .as_array()
            .unwrap()
            .contains(&json!({"path": "shut", "type": "directory"}))
    );
    let find = run("files_find", json!({"dirPath": "t", "pattern": "**/*.md"}));
    assert_eq!(find["paths"], json!(["open/gem.md", "sealed.md"]));
    let search = run("files_search", json!({"dirPath": "t", "query": "quartz"}));
    assert_eq!(
        search["matches"],
        json!([{"filePath": "open/gem.md", "line": 1, "text": "quartz"}])
    );
    assert_eq!(
        search["warnings"],
        json!(["unreadable_file:sealed.md:EACCES", "unreadable_directory:shut:EACCES"])
    );
    for tool in ["files_list", "files_find", "files_search"] {
        assert_eq!(
            run(tool, json!({"dirPath": "t/shut", "query": "x"}))["error"],
            "EACCES",
            "{tool}"
        );
    }
    assert_eq!(run("files_read", json!({"filePath": "t/sealed.md"}))["error"], "EACCES");
    place.shell("chmod -R 755 t");
}

#[test]
fn cancellation_ends_a_walk() {
    let place = Place::in_memory();
    place.shell("mkdir t; cd t; for i in $(seq 50); do mkdir $i; (cd $i; seq 1000 | xargs touch); done");
    let cancel = AtomicBool::new(false);
    let arguments = json!({"dirPath": "t", "pattern": "none", "maxTraversalEntries": 10_000_000, "maxDepth": 100});
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let mut rounds = 0;
            loop {
                let outcome = place.files.run("files_find", arguments.as_object().unwrap(), &cancel);
                if outcome.error.is_some() {
                    return (outcome.error, Instant::now());
                }
                rounds += 1;
                assert!(rounds < 100_000);
            }
        });
        place.run(
            "files_find",
            json!({"dirPath": "t", "pattern": "none", "maxTraversalEntries": 10_000}),
        );
        cancel.store(true, Ordering::Relaxed);
        let at = Instant::now();
        let (error, ended) = running.join().unwrap();
        assert_eq!(error.as_deref(), Some("cancelled"));
        assert!(ended.saturating_duration_since(at).as_millis() < 50);
    });
}

/// One node of a random tree.
#[derive(Clone, Debug)]
enum Node {
    File,
    Link,
    Directory(BTreeMap<Vec<u8>, Node>),
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[ab.\\[{é]{1,3}".prop_map(String::into_bytes),
        1 => Just(b"node_modules".to_vec()),
        1 => proptest::collection::vec(1_u8..=255, 1..4),
    ]
    .prop_map(|name| {
        name.into_iter()
            .map(|byte| if byte == b'/' { b'_' } else { byte })
            .collect::<Vec<u8>>()
    })
    .prop_filter("a name", |name| name != b"." && name != b"..")
}

fn tree() -> impl Strategy<Value = BTreeMap<Vec<u8>, Node>> {
    let leaf = prop_oneof![3 => Just(Node::File), 1 => Just(Node::Link)];
    let node = leaf.prop_recursive(5, 60, 6, |inner| {
        proptest::collection::btree_map(name(), inner, 0..6).prop_map(Node::Directory)
    });
    proptest::collection::btree_map(name(), node, 0..8)
}

fn make(folder: &Path, tree: &BTreeMap<Vec<u8>, Node>) {
    for (name, node) in tree {
        let path = folder.join(OsStr::from_bytes(name));
        match node {
            Node::File => std::fs::write(path, "").unwrap(),
            Node::Link => std::os::unix::fs::symlink("..", path).unwrap(),
            Node::Directory(below) => {
                std::fs::create_dir(&path).unwrap();
                make(&path, below);
            }
        }
    }
}

/// The whole traversal, the naive way: every visible path with its depth limit only.
fn naive(
    tree: &BTreeMap<Vec<u8>, Node>,
    prefix: &[u8],
    depth: u64,
    limit: u64,
    found: &mut Vec<Vec<u8>>,
    cut: &mut Vec<usize>,
) {
    for (name, node) in tree {
        if name.starts_with(b".") || name == b"node_modules" {
            continue;
        }
        let path = [prefix, name].concat();
        found.push(path.clone());
        if let Node::Directory(below) = node {
            if depth == limit {
                cut.push(found.len());
            } else {
                naive(below, &[&path[..], b"/"].concat(), depth + 1, limit, found, cut);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn the_traversal_equals_a_naive_one(tree in tree(), depth in 1_u64..6, budget in 1_u64..30) {
        let place = Place::new();
        std::fs::create_dir(place.join("t")).unwrap();
        make(&place.join("t"), &tree);
        let (mut found, mut cut) = (Vec::new(), Vec::new());
        naive(&tree, b"", 0, depth, &mut found, &mut cut);
        let expected: Vec<String> =
            found.iter().take(budget as usize).map(|path| String::from_utf8_lossy(path).into_owned()).collect();
        let exhausted = found.len() as u64 > budget;
        let (paths, outcome) = place.list(json!({"dirPath": "t", "maxDepth": depth, "maxEntries": budget}));
        prop_assert_eq!(paths, expected.clone());
        prop_assert_eq!(&outcome["entryBudgetExhausted"], exhausted);
        prop_assert_eq!(&outcome["depthTruncated"], cut.iter().any(|at| *at as u64 <= budget));
        let find = json!({"dirPath": "t", "pattern": "**", "maxDepth": depth, "maxEntries": 1000, "maxTraversalEntries": budget});
        prop_assert_eq!(place.find(find).0, expected);
    }
}
