//! The glob dialect, alone and through `files_find`.

use super::traversal::flags;
use super::*;
use crate::glob::Glob;
use proptest::prelude::*;

const GLOB_TREE: &str = "mkdir -p t/src/lib; cd t
    touch a.ts b.tsx README.md src/c.ts src/lib/d.ts 'f[1].txt' '{a,b}' 'sp ace' 'x+y.(z)' 'q^$' '[a].txt' '{x}'";

fn matches(glob: &mut Glob, path: &str) -> bool {
    glob.matches(path.as_bytes(), &AtomicBool::new(false)).unwrap()
}

#[test]
fn globs() {
    let place = Place::with(GLOB_TREE);
    let cases: [(&str, &[&str]); 30] = [
        ("a.ts", &["a.ts"]),
        ("*.ts", &["a.ts"]),
        ("?.ts", &["a.ts"]),
        ("*/*.ts", &["src/c.ts"]),
        ("src/*", &["src/c.ts", "src/lib"]),
        ("src?c.ts", &[]),
        ("c.ts", &[]),
        ("*.ts*", &["a.ts", "b.tsx"]),
        ("**/*.ts", &["a.ts", "src/c.ts", "src/lib/d.ts"]),
        ("src/**", &["src/c.ts", "src/lib", "src/lib/d.ts"]),
        ("**/lib/*", &["src/lib/d.ts"]),
        ("**/**/lib/**/*", &["src/lib/d.ts"]),
        ("src/**/*.ts", &["src/c.ts", "src/lib/d.ts"]),
        ("s**.ts", &["src/c.ts", "src/lib/d.ts"]),
        ("***/d.ts", &["src/lib/d.ts"]),
        ("f[1].txt", &["f[1].txt"]),
        ("[a].txt", &["[a].txt"]),
        ("[ab].ts", &[]),
        ("{a,b}", &["{a,b}"]),
        ("{x}", &["{x}"]),
        ("{a,b}.ts", &[]),
        ("sp ace", &["sp ace"]),
        ("x+y.(z)", &["x+y.(z)"]),
        ("q^$", &["q^$"]),
        ("readme.md", &[]),
        ("aXts", &[]),
        ("[", &[]),
        ("a\\.ts", &[]),
        ("src/", &[]),
        ("/src", &[]),
    ];
    for (pattern, expected) in cases {
        let (paths, outcome) = place.find(json!({"dirPath": "t", "pattern": pattern}));
        assert_eq!(
            (paths, &outcome["pattern"]),
            (
                expected.iter().map(|path| (*path).to_owned()).collect(),
                &json!(pattern)
            )
        );
    }
    let (all, _) = place.find(json!({"dirPath": "t"}));
    assert_eq!(
        all,
        [
            "README.md",
            "[a].txt",
            "a.ts",
            "b.tsx",
            "f[1].txt",
            "q^$",
            "sp ace",
            "src",
            "x+y.(z)",
            "{a,b}",
            "{x}"
        ]
    );
}

#[test]
fn a_full_result_says_so_only_when_something_is_left_out() {
    let place = Place::with(GLOB_TREE);
    let (paths, outcome) = place.find(json!({"dirPath": "t", "maxEntries": 2}));
    assert_eq!((paths.len(), flags(&outcome)), (2, (true, false, false, true, 1)));
    let (paths, outcome) = place.find(json!({"dirPath": "t", "pattern": "**/*.ts", "maxEntries": 3}));
    assert_eq!((paths.len(), flags(&outcome)), (3, (false, false, false, false, 0)));
    let (paths, outcome) = place.find(json!({"dirPath": "t", "pattern": "**/*.ts", "maxDepth": 1}));
    assert_eq!((paths.len(), flags(&outcome)), (2, (true, true, false, true, 1)));
}

#[test]
fn signs_of_a_glob_in_the_root_are_plain_characters() {
    let place = Place::with(
        "for d in '[id]' i '{a,b}' a 'st*r' star; do mkdir \"$d\"; echo \"needle $d\" > \"$d/page.ts\"; done",
    );
    for root in ["[id]", "{a,b}", "st*r"] {
        assert_eq!(place.find(json!({"dirPath": root, "pattern": "*.ts"})).0, ["page.ts"]);
        assert_eq!(place.list(json!({"dirPath": root})).0, ["page.ts"]);
    }
}

#[test]
fn hostile_patterns_take_no_time() {
    let started = Instant::now();
    let name = "a".repeat(255);
    let path = [name.as_str(); 9].join("/");
    for pattern in [
        "*".repeat(10_000),
        "*a".repeat(5_000),
        "**/".repeat(5_000),
        "?*".repeat(200) + "b",
        "**a".repeat(80) + "b",
        "*?".repeat(1_000_000),
    ] {
        let mut glob = Glob::new(&pattern);
        for _ in 0..20 {
            matches(&mut glob, &path);
            matches(&mut glob, &name);
        }
    }
    assert!(matches(&mut Glob::new(&"*".repeat(10_000)), &path));
    assert!(!matches(&mut Glob::new(&("*a".repeat(100) + "b")), &name));
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

/// The dialect, the naive way: by trying everything.
fn naive_glob(pattern: &[char], path: &[char]) -> bool {
    match pattern {
        [] => path.is_empty(),
        ['*', '*', '/', rest @ ..] => {
            naive_glob(rest, path) || (0..path.len()).any(|at| path[at] == '/' && naive_glob(rest, &path[at + 1..]))
        }
        ['*', '*', '*', ..] => naive_glob(&pattern[1..], path),
        ['*', '*', rest @ ..] => (0..=path.len()).any(|at| naive_glob(rest, &path[at..])),
        ['*', rest @ ..] => (0..=path.len())
            .take_while(|at| *at == 0 || path[at - 1] != '/')
            .any(|at| naive_glob(rest, &path[at..])),
        ['?', rest @ ..] => matches!(path, [first, ..] if *first != '/') && naive_glob(rest, &path[1..]),
        [literal, rest @ ..] => path.first() == Some(literal) && naive_glob(rest, &path[1..]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

    #[test]
    fn the_glob_equals_a_naive_one(pattern in "[ab/*?é]{0,8}", path in "[abé]{1,3}(/[abé]{1,3}){0,3}") {
        let naive = naive_glob(&pattern.chars().collect::<Vec<_>>(), &path.chars().collect::<Vec<_>>());
        prop_assert_eq!(matches(&mut Glob::new(&pattern), &path), naive);
    }
}
