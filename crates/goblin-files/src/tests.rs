//! The tools as their caller sees them, over real files.

use super::*;
use serde_json::json;
use std::path::Path;
use std::process::Command;

mod crash;
mod reading;
mod searching;
mod traversal;
mod writing;

/// A temporary folder with tools that work in it.
struct Place {
    folder: tempfile::TempDir,
    files: Files,
}

impl Place {
    fn new() -> Self {
        Self::of(tempfile::tempdir().unwrap())
    }

    /// In memory where the system offers that, for very many files.
    fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        Self::of(
            if memory.is_dir() {
                tempfile::tempdir_in(memory)
            } else {
                tempfile::tempdir()
            }
            .unwrap(),
        )
    }

    fn of(folder: tempfile::TempDir) -> Self {
        let working_directory = folder.path().canonicalize().unwrap();
        let files = Files::new(FilesOptions {
            temporary_notes: Some(working_directory.join(".state/temporary")),
            ..FilesOptions::new(working_directory)
        });
        Self { folder, files }
    }

    /// With these shell commands run in it.
    fn with(script: &str) -> Self {
        let place = Self::new();
        place.shell(script);
        place
    }

    fn path(&self) -> &Path {
        &self.files.working_directory
    }

    fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Runs a script in the folder; it must succeed.
    fn shell(&self, script: &str) -> String {
        let output = Command::new("bash")
            .arg("-ec")
            .arg(script)
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn run(&self, tool: &str, arguments: Value) -> Value {
        run(&self.files, tool, arguments)
    }

    /// The outcome of a call that must succeed.
    fn ok(&self, tool: &str, arguments: Value) -> Value {
        let outcome = self.run(tool, arguments.clone());
        assert_eq!(outcome["ok"], true, "{tool} {arguments}: {outcome}");
        assert_eq!(outcome["error"], Value::Null);
        outcome
    }

    /// The code of a call that must fail.
    fn error(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.run(tool, arguments.clone());
        assert_eq!(outcome["ok"], false, "{tool} {arguments}: {outcome}");
        assert_eq!(outcome["error"], outcome["diagnostic"]["code"]);
        outcome["error"].as_str().unwrap().to_owned()
    }

    /// Names in the folder and in `.state/temporary`, to see what was left behind.
    fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = self.join(folder).read_dir() else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names.retain(|name| name != ".state");
        names
    }
}

fn run(files: &Files, tool: &str, arguments: Value) -> Value {
    let outcome = files.run(tool, arguments.as_object().unwrap(), &AtomicBool::new(false));
    let value: Value = serde_json::from_str(&outcome.json).unwrap();
    assert_eq!(value["ok"], outcome.ok);
    assert_eq!(value["error"].as_str(), outcome.error.as_deref());
    value
}

/// Tells a helping thread to end, also when the test fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The keys of a JSON object in the order of the text.
fn keys(json: &str) -> Vec<String> {
    struct Keys(Vec<String>);
    impl<'de> serde::Deserialize<'de> for Keys {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Visitor;
            impl<'de> serde::de::Visitor<'de> for Visitor {
                type Value = Keys;
                fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    formatter.write_str("an object")
                }
                fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                    let mut keys = Vec::new();
                    while let Some((key, _)) = map.next_entry::<String, serde::de::IgnoredAny>()? {
                        keys.push(key);
                    }
                    Ok(Keys(keys))
                }
            }
            deserializer.deserialize_map(Visitor)
        }
    }
    serde_json::from_str::<Keys>(json).unwrap().0
}

/// Set for a child process that runs calls; see [`in_child`].
const CALLS: &str = "GOBLIN_FILES_TEST_CALLS";

/// Set for a child process that is killed; see [`crash`].
const CRASH: &str = "GOBLIN_FILES_TEST_CRASH";

/// A command that runs one of this program's tests, behind `wrapper`.
fn child(wrapper: &[&str], test: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = match wrapper {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    };
    command.args(["--exact", test, "--nocapture"]);
    command
}

/// Runs calls in a process of their own, behind `wrapper`; the outcomes also hold that process's `peakKib`.
fn in_child(place: &Place, wrapper: &[&str], calls: &[(&str, Value)]) -> Vec<Value> {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(tool, arguments)| json!({"tool": tool, "arguments": arguments}))
        .collect();
    let calls = json!({"folder": place.path(), "calls": calls}).to_string();
    // In a file, since a command line and an environment have their limits.
    std::fs::create_dir_all(place.join(".state")).unwrap();
    let path = place.join(".state/calls");
    std::fs::write(&path, calls).unwrap();
    place.shell("chmod 777 .state");
    let mut command = child(wrapper, "tests::child_process");
    let output = command.env(CALLS, path).current_dir(place.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let outcomes = text.lines().filter_map(|line| line.strip_prefix("outcome "));
    outcomes.map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The body of child processes; without their variable there is nothing to do.
#[test]
fn child_process() {
    let Ok(path) = std::env::var(CALLS) else { return };
    let calls: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let folder: PathBuf = calls["folder"].as_str().unwrap().into();
    let files = Files::new(FilesOptions {
        temporary_notes: Some(folder.join(".state/temporary")),
        ..FilesOptions::new(folder)
    });
    for call in calls["calls"].as_array().unwrap() {
        let mut outcome = run(&files, call["tool"].as_str().unwrap(), call["arguments"].clone());
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        outcome["peakKib"] = peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap().into();
        println!("\noutcome {outcome}");
    }
}

/// The wrapper that takes away the superuser's right to override permissions, where there is one.
fn without_override() -> &'static [&'static str] {
    if rustix::process::geteuid().is_root() {
        &[
            "setpriv",
            "--bounding-set",
            "-dac_override,-dac_read_search,-fowner,-chown",
            "--",
        ]
    } else {
        &[]
    }
}

/// Whether this process may do what only the superuser may; such a test says so and ends otherwise.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs the superuser");
    }
    root
}

#[test]
fn keys_come_in_the_documented_order() {
    let place = Place::with("echo x > f");
    let tail = ["durationMs", "resultFingerprint", "execution"];
    let cases: [(&str, Value, &[&str]); 8] = [
        (
            "files_inspect",
            json!({"path": "f"}),
            &[
                "tool",
                "ok",
                "path",
                "exists",
                "type",
                "size",
                "modifiedAt",
                "symlinkTarget",
                "error",
                "artifacts",
            ],
        ),
        (
            "files_read",
            json!({"filePath": "none"}),
            &["tool", "ok", "error", "diagnostic", "warnings", "artifacts", "filePath"],
        ),
        (
            "files_read",
            json!({"filePath": "f"}),
            &[
                "tool",
                "ok",
                "filePath",
                "workspaceRoot",
                "encoding",
                "bytes",
                "modifiedAt",
                "offsetBytes",
                "returnedBytes",
                "contentHash",
                "truncated",
                "nextOffsetBytes",
                "content",
                "warnings",
                "error",
                "artifacts",
            ],
        ),
        (
            "files_list",
            json!({"dirPath": "."}),
            &[
                "tool",
                "ok",
                "dirPath",
                "entries",
                "truncated",
                "depthTruncated",
                "entryBudgetExhausted",
                "incomplete",
                "warnings",
                "error",
                "artifacts",
            ],
        ),
        (
            "files_find",
            json!({"dirPath": "."}),
            &[
                "tool",
                "ok",
                "dirPath",
                "pattern",
                "paths",
                "truncated",
                "depthTruncated",
                "entryBudgetExhausted",
                "incomplete",
                "warnings",
                "error",
                "artifacts",
            ],
        ),
        (
            "files_search",
            json!({"dirPath": ".", "query": "x"}),
            &[
                "tool",
                "ok",
                "dirPath",
                "query",
                "matches",
                "truncated",
                "depthTruncated",
                "entryBudgetExhausted",
                "incomplete",
                "warnings",
                "error",
                "artifacts",
            ],
        ),
        (
            "files_write",
            json!({"filePath": "f", "content": "y"}),
            &[
                "tool",
                "ok",
                "filePath",
                "workspaceRoot",
                "encoding",
                "created",
                "overwrote",
                "bytesWritten",
                "error",
                "artifacts",
            ],
        ),
        (
            "files_edit",
            json!({"filePath": "f", "oldText": "y", "newText": "z"}),
            &[
                "tool",
                "ok",
                "filePath",
                "replaced",
                "changedFiles",
                "error",
                "artifacts",
            ],
        ),
    ];
    for (tool, arguments, expected) in cases {
        let outcome = place
            .files
            .run(tool, arguments.as_object().unwrap(), &AtomicBool::new(false));
        let expected: Vec<&str> = expected.iter().chain(&tail).copied().collect();
        assert_eq!(keys(&outcome.json), expected, "{tool}");
        let value: Value = serde_json::from_str(&outcome.json).unwrap();
        assert!(value["durationMs"].as_f64().unwrap() >= 0.0);
        assert_eq!(
            value["execution"],
            json!({"kind": "gateway", "protocolMethod": "filesystem.execute"})
        );
    }
}

#[test]
fn the_fingerprint_is_of_the_canonical_result_without_the_tail() {
    let place = Place::with("mkdir d; printf 'x\\001\"\\n' > d/f; touch d/$'odd\\n\"\\x01' d/é; echo x > f");
    let calls = [
        ("files_inspect", json!({"path": "f"})),
        ("files_read", json!({"filePath": "d/f", "workspaceRoot": "/\u{1}"})),
        ("files_list", json!({"dirPath": ".", "maxDepth": 1})),
        ("files_find", json!({"dirPath": ".", "pattern": "**", "maxEntries": 2})),
        ("files_search", json!({"dirPath": ".", "query": "x"})),
        ("files_read", json!({"filePath": "none"})),
        ("files_dance", json!({})),
        ("files_edit", json!({"filePath": "f", "oldText": "x", "newText": "y"})),
        ("files_write", json!({"filePath": "f", "content": "y"})),
    ];
    for (tool, arguments) in calls {
        let outcome = place.run(tool, arguments);
        let mut rest = outcome.clone();
        for key in ["durationMs", "resultFingerprint", "execution"] {
            rest.as_object_mut().unwrap().remove(key);
        }
        let canonical = goblin_protocol::canonical::canonical(&rest);
        let expected = goblin_protocol::digest::sha256_hex(canonical.as_bytes());
        assert_eq!(outcome["resultFingerprint"], expected[..16], "{tool}");
    }
}

#[test]
fn unknown_tools_fail_with_their_name() {
    let place = Place::new();
    for tool in ["files_dance", "", "files_Read", "read"] {
        let outcome = place.run(tool, json!({"filePath": "f"}));
        assert_eq!(
            (outcome["error"].as_str(), outcome["tool"].as_str()),
            (Some("native_filesystem_tool_unsupported"), Some(tool))
        );
        assert_eq!(Tool::parse(tool), None);
    }
    for tool in Tool::ALL {
        assert_eq!(Tool::parse(tool.name()), Some(tool));
        assert_eq!(tool.writes(), matches!(tool.name(), "files_write" | "files_edit"));
    }
}

#[test]
fn every_tool_refuses_paths_that_are_none() {
    let place = Place::new();
    for tool in Tool::ALL {
        for path in [json!(5), json!(null), json!(["/"]), json!("a\0b")] {
            let mut arguments = json!({"query": "x", "content": "x", "oldText": "a", "newText": "b"});
            arguments[tool.path_field()] = path.clone();
            assert_eq!(place.error(tool.name(), arguments), "path_invalid", "{tool:?} {path}");
        }
        let arguments = json!({"query": "x", "content": "x", "oldText": "a", "newText": "b"});
        assert_eq!(place.error(tool.name(), arguments), "path_invalid", "{tool:?}");
    }
    assert!(place.names(".").is_empty());
}

#[test]
fn a_failed_outcome_names_the_path() {
    let place = Place::new();
    let none = place.join("none").to_string_lossy().into_owned();
    for tool in [Tool::Read, Tool::Edit, Tool::List, Tool::Find, Tool::Search] {
        let mut arguments = json!({"query": "x", "oldText": "a", "newText": "b"});
        arguments[tool.path_field()] = json!("none");
        let outcome = place.run(tool.name(), arguments);
        assert_eq!(outcome["error"], "ENOENT", "{tool:?}");
        assert_eq!(
            outcome["diagnostic"],
            json!({"code": "ENOENT", "message": "No such file or directory"})
        );
        assert_eq!(
            (&outcome["warnings"], &outcome["artifacts"]),
            (&json!([]), &Value::Null)
        );
        assert_eq!(outcome[tool.path_field()], none);
    }
}

#[test]
fn errors_of_the_system_keep_their_names() {
    let place = Place::with("echo x > f; ln -s l l; mkdir d");
    let cases = [
        ("files_read", json!({"filePath": "d"}), "EISDIR"),
        ("files_write", json!({"filePath": "d", "content": "x"}), "EISDIR"),
        ("files_write", json!({"filePath": "/", "content": "x"}), "EISDIR"),
        (
            "files_edit",
            json!({"filePath": "d", "oldText": "x", "newText": "y"}),
            "EISDIR",
        ),
        ("files_read", json!({"filePath": "f/x"}), "ENOTDIR"),
        ("files_write", json!({"filePath": "f/x", "content": "x"}), "ENOTDIR"),
        ("files_write", json!({"filePath": "f/x/y", "content": "x"}), "ENOTDIR"),
        (
            "files_edit",
            json!({"filePath": "f/x", "oldText": "x", "newText": "y"}),
            "ENOTDIR",
        ),
        ("files_list", json!({"dirPath": "f"}), "ENOTDIR"),
        ("files_find", json!({"dirPath": "f"}), "ENOTDIR"),
        ("files_read", json!({"filePath": "l"}), "ELOOP"),
        ("files_write", json!({"filePath": "l", "content": "x"}), "ELOOP"),
        ("files_list", json!({"dirPath": "l"}), "ELOOP"),
        ("files_read", json!({"filePath": "x".repeat(300)}), "ENAMETOOLONG"),
        (
            "files_write",
            json!({"filePath": "x".repeat(300), "content": ""}),
            "ENAMETOOLONG",
        ),
        ("files_inspect", json!({"path": "x/".repeat(4000)}), "ENAMETOOLONG"),
    ];
    for (tool, arguments, expected) in cases {
        assert_eq!(place.error(tool, arguments.clone()), expected, "{tool} {arguments}");
    }
}

#[test]
fn inspect_tells_types_and_missing_paths() {
    let place = Place::with(
        "printf hello > f; mkdir d; ln -s f l; ln -s no/where dangling; mkfifo p; touch -d 2020-02-29T12:34:56.789Z f",
    );
    let of = |path: &str| {
        let outcome = place.ok("files_inspect", json!({ "path": path }));
        (
            outcome["exists"].clone(),
            outcome["type"].clone(),
            outcome["symlinkTarget"].clone(),
        )
    };
    assert_eq!(of("f"), (json!(true), json!("file"), json!(null)));
    assert_eq!(of("d"), (json!(true), json!("directory"), json!(null)));
    assert_eq!(of("l"), (json!(true), json!("symlink"), json!("f")));
    assert_eq!(of("dangling"), (json!(true), json!("symlink"), json!("no/where")));
    assert_eq!(of("p"), (json!(true), json!("other"), json!(null)));
    assert_eq!(of("/dev/null"), (json!(true), json!("other"), json!(null)));
    let file = place.ok("files_inspect", json!({"path": "f"}));
    assert_eq!(
        (&file["size"], &file["modifiedAt"]),
        (&json!(5), &json!("2020-02-29T12:34:56.789Z"))
    );
    for path in ["none", "none/none", "f/below"] {
        let missing = place.ok("files_inspect", json!({ "path": path }));
        for field in ["type", "size", "modifiedAt", "symlinkTarget"] {
            assert_eq!(missing[field], Value::Null, "{path} {field}");
        }
        assert_eq!(missing["exists"], false);
    }
}

#[test]
fn a_call_that_is_already_cancelled_does_nothing() {
    let place = Place::new();
    for tool in Tool::ALL {
        let mut arguments = json!({"query": "x", "content": "x", "oldText": "a", "newText": "b"});
        arguments[tool.path_field()] = json!("f");
        let outcome = place
            .files
            .run(tool.name(), arguments.as_object().unwrap(), &AtomicBool::new(true));
        assert_eq!(outcome.error.as_deref(), Some("cancelled"), "{tool:?}");
    }
    assert!(place.names(".").is_empty());
}
