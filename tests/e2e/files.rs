//! The filesystem tools through the daemon.

use crate::PROGRAM;
use goblin_testkit::StdioDaemon;
use serde_json::{Value, json};

fn tool(daemon: &mut StdioDaemon, operation: &str, tool: &str, arguments: Value) -> Value {
    let params = json!({"operationId": operation, "tool": tool, "arguments": arguments});
    daemon.request(operation, "filesystem.execute", params).last["result"].take()
}

#[test]
fn a_tool_is_accepted_answered_and_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.txt");
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    let arguments = json!({"filePath": file, "content": "one\ntwo\n"});
    let written = tool(&mut daemon, "w", "files_write", arguments.clone());
    assert_eq!(
        (&written["replay"], &written["outcome"]["created"]),
        (&json!(false), &json!(true))
    );
    daemon.frame("accepted", |frame| {
        frame["type"] == json!("accepted") && frame["operationId"] == json!("w")
    });
    std::fs::write(&file, "changed since").unwrap();
    let again = tool(&mut daemon, "w", "files_write", arguments);
    assert_eq!(
        (&again["replay"], &again["outcome"]),
        (&json!(true), &written["outcome"])
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "changed since");
    let read = tool(&mut daemon, "r", "files_read", json!({"filePath": file}));
    assert_eq!(read["outcome"]["content"], json!("changed since"));
    assert_eq!(
        read["outcome"]["execution"],
        json!({"kind": "gateway", "protocolMethod": "filesystem.execute"})
    );
}

#[test]
fn a_read_that_does_not_fit_a_frame_is_shortened_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nul");
    std::fs::write(&file, vec![1u8; 500_000]).unwrap();
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    for replay in [false, true] {
        let result = tool(&mut daemon, "r", "files_read", json!({"filePath": file}));
        let outcome = &result["outcome"];
        assert_eq!(result["replay"], json!(replay));
        for mark in ["truncated", "transportTruncated", "incomplete"] {
            assert_eq!(outcome[mark], json!(true), "{mark}");
        }
        assert_eq!(outcome["nextOffsetBytes"], Value::Null);
        assert!(outcome.get("resultFingerprint").is_none());
        assert_eq!(
            outcome["returnedBytes"],
            json!(outcome["content"].as_str().unwrap().len())
        );
    }
}

#[test]
fn a_long_search_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("sparse")).unwrap();
    // Text at first, so that it is no binary file, and then more than can be searched in a test's time.
    std::io::Write::write_all(&mut &file, &vec![b'x'; 64 * 1024]).unwrap();
    file.set_len(60 << 30).unwrap();
    let mut daemon = StdioDaemon::start(PROGRAM, None);
    let params =
        json!({"operationId": "s", "tool": "files_search", "arguments": {"dirPath": folder.path(), "query": "needle"}});
    daemon.send("s", "filesystem.execute", params);
    daemon.frame("accepted", |frame| frame["type"] == json!("accepted"));
    daemon.request("c", "cancel", json!({"operationId": "s"}));
    let answer = daemon.answer("s");
    assert_eq!(
        (&answer.outcome()["ok"], &answer.outcome()["error"]),
        (&json!(false), &json!("cancelled"))
    );
}

#[test]
fn a_kill_at_any_instant_leaves_old_or_new_content_and_no_stray_file_after_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let (state, work) = (folder.path().join("state"), folder.path().join("work"));
    std::fs::create_dir(&work).unwrap();
    let (written, edited) = (work.join("written"), work.join("edited"));
    let (old, new) = ("o".repeat(300_000), "n".repeat(200_000));
    std::fs::write(&written, &old).unwrap();
    std::fs::write(&edited, format!("{old}|a|")).unwrap();
    for round in 0..60u64 {
        let mut daemon = StdioDaemon::start(PROGRAM, Some(&state));
        daemon.request("h", "health", json!({}));
        let names: Vec<_> = std::fs::read_dir(&work)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(names.len(), 2, "a stray file outlived the next start: {names:?}");
        for n in 0..20 {
            let content = if n % 2 == 0 { &new } else { &old };
            let (from, to) = if n % 2 == 0 { ("|a|", "|b|") } else { ("|b|", "|a|") };
            let write = json!({"filePath": written, "content": content});
            let edit = json!({"filePath": edited, "oldText": from, "newText": to});
            daemon.send(
                &format!("w{n}"),
                "filesystem.execute",
                json!({"operationId": format!("w{round}.{n}"), "tool": "files_write", "arguments": write}),
            );
            daemon.send(
                &format!("e{n}"),
                "filesystem.execute",
                json!({"operationId": format!("e{round}.{n}"), "tool": "files_edit", "arguments": edit}),
            );
        }
        // Each round is ended after another number of answers, so that the kills fall everywhere.
        for n in 0..round % 12 {
            daemon.answer(&format!("w{n}"));
        }
        daemon.signal("KILL");
        daemon.end();
        let content = std::fs::read_to_string(&written).unwrap();
        assert!(
            content == old || content == new,
            "round {round}: {} bytes",
            content.len()
        );
        let content = std::fs::read_to_string(&edited).unwrap();
        assert!(
            content == format!("{old}|a|") || content == format!("{old}|b|"),
            "round {round}"
        );
    }
}
