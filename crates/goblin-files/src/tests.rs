//! The tools as their caller sees them, over real files.

use super::*;
use place::{CRASH, Place, SetOnDrop, child, in_child, is_root, run, without_override};
use serde_json::json;

mod crash;
mod globs;
mod own_process;
mod place;
mod reading;
mod searching;
mod surviving;
mod traversal;
mod writing;

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
