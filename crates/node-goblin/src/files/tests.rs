//! File commands against a controller of canned answers.

use super::*;
use crate::api::scripted::{ASKED_OPERATION, Controller, Pieces, answer, live};
use crate::interrupts::Interrupt;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Parser;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: FilesArguments,
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn outcome(outcome: &Value) -> Pieces {
    let response = json!({"type": "response", "requestId": "r", "ok": true,
        "result": {"operationId": ASKED_OPERATION, "replay": false, "outcome": outcome}});
    answer(
        200,
        &json!({"ok": true, "operationId": "o", "dispatch": {"accepted": null, "response": response, "events": []}})
            .to_string(),
    )
}

fn page(content: &[u8], size: u64, next: Option<u64>) -> Pieces {
    outcome(
        &json!({"tool": "files_read", "ok": true, "bytes": size, "modifiedAt": "t", "returnedBytes": content.len(),
        "truncated": next.is_some(), "nextOffsetBytes": next, "content": STANDARD.encode(content), "warnings": []}),
    )
}

/// What a command printed, whether it succeeded, and the arguments that each call brought.
async fn run(words: &[&str], answers: Vec<Pieces>) -> (Vec<u8>, Result<ExitCode, String>, Vec<Value>) {
    let controller = Controller::start(answers);
    let line = Line::parse_from(["files", "w"].iter().chain(words));
    let printed = Sink::default();
    let outputs = Outputs::over(Box::new(printed.clone()), Box::new(io::sink()));
    let (_sender, interrupts) = Interrupts::scripted();
    let mut host = Host::new(controller.api(), "w".into(), outputs, interrupts);
    let content = match &line.arguments.command {
        FilesCommand::Write(arguments) => arguments.content(),
        _ => Ok(String::new()),
    };
    let done = match content {
        Ok(content) => work(&mut host, line.arguments.command, content).await,
        Err(error) => Err(error),
    };
    host.finish().await.unwrap();
    let bytes = printed.0.lock().unwrap().clone();
    let calls = controller.requests().into_iter().map(|request| {
        assert!(
            request
                .head
                .starts_with("POST /api/mods/node-goblin/gateways/w/filesystem ")
        );
        let body: Value = serde_json::from_str(&request.body).unwrap();
        json!([body["tool"], body["arguments"]])
    });
    (bytes, done.map_err(|error| format!("{error:#}")), calls.collect())
}

#[tokio::test]
async fn pages_come_out_as_the_file_byte_for_byte() {
    let (bytes, done, calls) = run(
        &["read", "/f", "--offset", "5"],
        vec![
            page(b"\xff\0a", 11, Some(8)),
            page(b"\nb", 11, Some(10)),
            page(b"c", 11, None),
        ],
    )
    .await;
    assert_eq!(
        (bytes.as_slice(), done),
        (b"\xff\0a\nbc".as_slice(), Ok(ExitCode::SUCCESS))
    );
    let offsets: Vec<_> = calls
        .iter()
        .map(|call| call[1]["offsetBytes"].as_u64().unwrap())
        .collect();
    assert_eq!(offsets, [5, 8, 10]);
    assert_eq!(
        calls[0],
        json!(["files_read", {"filePath": "/f", "offsetBytes": 5, "maxBytes": 1_048_576, "encoding": "base64"}])
    );
}

#[tokio::test]
async fn no_more_is_read_than_was_asked_for() {
    let (bytes, done, calls) = run(
        &["read", "/f", "--bytes", "4"],
        vec![
            page(b"abc", 100, Some(3)),
            page(b"d", 100, Some(4)),
            page(b"never", 100, None),
        ],
    )
    .await;
    assert_eq!((bytes.as_slice(), done), (b"abcd".as_slice(), Ok(ExitCode::SUCCESS)));
    assert_eq!((calls.len(), &calls[1][1]["maxBytes"]), (2, &json!(1)));
}

#[tokio::test]
async fn a_file_that_changes_meanwhile_is_no_success() {
    let (bytes, done, _) = run(&["read", "/f"], vec![page(b"ab", 4, Some(2)), page(b"cde", 5, None)]).await;
    assert_eq!((bytes.as_slice(), done), (b"abcde".as_slice(), Ok(ExitCode::FAILURE)));
    let (_, done, _) = run(
        &["read", "/proc/x"],
        vec![page(b"ab", 0, Some(2)), page(b"cd", 0, None)],
    )
    .await;
    assert_eq!(done, Ok(ExitCode::SUCCESS));
}

#[tokio::test]
async fn a_gateway_that_misbehaves_is_not_followed() {
    let (_, done, calls) = run(&["read", "/f"], vec![page(b"ab", 4, Some(0)), page(b"ab", 4, Some(0))]).await;
    assert!(done.unwrap_err().contains("does not come to the end"));
    assert_eq!(calls.len(), 1);
    let short = outcome(
        &json!({"ok": true, "bytes": 4, "modifiedAt": "t", "returnedBytes": 4, "truncated": false,
        "nextOffsetBytes": null, "content": "YQ=="}),
    );
    let (bytes, done, _) = run(&["read", "/f"], vec![short]).await;
    assert!(bytes.is_empty() && done.unwrap_err().contains("not whole"));
    let (_, done, _) = run(&["read", "/f"], vec![outcome(&json!(["odd"]))]).await;
    assert!(done.unwrap_err().contains("cannot be read"));
}

#[tokio::test]
async fn json_is_the_outcome_itself_and_a_failure_is_one() {
    let failed = json!({"tool": "files_read", "ok": false, "error": "EISDIR", "diagnostic": {"code": "EISDIR", "message": "is a directory"}});
    let (bytes, done, calls) = run(&["read", "/f", "--json"], vec![outcome(&failed)]).await;
    assert_eq!(
        (serde_json::from_slice::<Value>(&bytes).unwrap(), done),
        (failed.clone(), Ok(ExitCode::FAILURE))
    );
    assert_eq!(calls[0][1]["encoding"], "utf8");
    let (bytes, done, _) = run(&["read", "/f"], vec![outcome(&failed)]).await;
    assert_eq!((bytes.len(), done), (0, Err("/f: is a directory (EISDIR)".into())));
    let refused = answer(
        200,
        r#"{"ok":true,"operationId":"o","dispatch":{"response":{"type":"response","requestId":"r","ok":false,"error":{"code":"operation_limit_reached"}}}}"#,
    );
    let (_, done, _) = run(&["stat", "/f"], vec![refused]).await;
    assert!(done.unwrap_err().contains("operation_limit_reached"));
}

#[tokio::test]
async fn writing_takes_text_that_fits_and_refuses_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let written = outcome(
        &json!({"ok": true, "filePath": "/f", "created": false, "bytesWritten": 6, "warnings": ["not_atomic"]}),
    );
    let (bytes, done, calls) = run(&["write", "/f", &file("a", "grüß".as_bytes())], vec![written]).await;
    assert_eq!(
        (String::from_utf8(bytes).unwrap().as_str(), done),
        ("overwrote /f (6 bytes)\n", Ok(ExitCode::SUCCESS))
    );
    assert_eq!(calls[0], json!(["files_write", {"filePath": "/f", "content": "grüß"}]));
    for (name, content, told) in [
        ("b", b"ab\xff".to_vec(), "byte 2"),
        ("c", vec![b'x'; 2 * 1024 * 1024 + 1], "larger than 2 MiB"),
        ("d", vec![b'\n'; 1024 * 1024], "takes"),
    ] {
        let (_, done, calls) = run(&["write", "/f", &file(name, &content)], vec![]).await;
        let fault = done.unwrap_err();
        assert!(fault.contains(told) && calls.is_empty(), "{fault}");
    }
    let (_, done, _) = run(&["write", "/f", "/no/such/file"], vec![]).await;
    assert!(done.unwrap_err().contains("/no/such/file"));
}

#[tokio::test]
async fn an_edit_takes_its_texts_literally() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("new");
    std::fs::write(&file, "$&\n").unwrap();
    let edited = outcome(&json!({"ok": true, "filePath": "/f", "replaced": 1, "changedFiles": ["/f"]}));
    let words = ["edit", "/f", "--old", "-x", "--new-file", file.to_str().unwrap()];
    let (bytes, _, calls) = run(&words, vec![edited]).await;
    assert_eq!(bytes, b"edited /f\n");
    assert_eq!(
        calls[0],
        json!(["files_edit", {"filePath": "/f", "oldText": "-x", "newText": "$&\n"}])
    );
    let parses = |words: &[&str]| Line::try_parse_from(["files", "w", "edit", "/f"].iter().chain(words)).is_ok();
    assert!(parses(&["--old", "a", "--new", ""]));
    assert!(
        !parses(&["--old", "a"])
            && !parses(&["--new", "a"])
            && !parses(&["--old", "a", "--old-file", "b", "--new", ""])
    );
}

#[tokio::test]
async fn bounds_go_along_only_where_given() {
    let listed = outcome(
        &json!({"ok": true, "entries": [{"path": "a", "type": "directory"}, {"path": "a/b", "type": "file"}],
        "incomplete": true, "warnings": []}),
    );
    let (bytes, done, calls) = run(&["ls"], vec![listed]).await;
    assert_eq!(
        (bytes.as_slice(), done),
        (b"dir    a/\nfile   a/b\n".as_slice(), Ok(ExitCode::SUCCESS))
    );
    assert_eq!(calls[0], json!(["files_list", {"dirPath": "."}]));
    let found = || outcome(&json!({"ok": true, "paths": ["a", "b\u{1b}"], "warnings": []}));
    let words = ["find", "/d", "**/*", "--depth", "2", "--max", "3", "--budget", "4"];
    let (bytes, _, calls) = run(&words, vec![found()]).await;
    assert_eq!(bytes, b"a\nb\\x1b\n");
    assert_eq!(
        calls[0][1],
        json!({"dirPath": "/d", "pattern": "**/*", "maxDepth": 2, "maxEntries": 3, "maxTraversalEntries": 4})
    );
    let searched = outcome(&json!({"ok": true, "query": "q", "matches": [], "warnings": []}));
    let (bytes, _, calls) = run(&["search", "/d", "q"], vec![searched]).await;
    assert_eq!(
        (bytes.len(), &calls[0]),
        (0, &json!(["files_search", {"dirPath": "/d", "query": "q"}]))
    );
    assert!(Line::try_parse_from(["files", "w", "ls", "--depth", "0"]).is_err());
}

#[tokio::test]
async fn a_path_that_does_not_exist_is_a_failure() {
    let missing = || {
        outcome(
            &json!({"ok": true, "path": "/f", "exists": false, "type": null, "size": null, "modifiedAt": null, "symlinkTarget": null}),
        )
    };
    let (_, done, _) = run(&["stat", "/f"], vec![missing()]).await;
    assert_eq!(done, Err("/f does not exist".into()));
    let (_, done, _) = run(&["stat", "/f", "--json"], vec![missing()]).await;
    assert_eq!(done, Ok(ExitCode::FAILURE));
}

#[tokio::test]
async fn ctrl_c_cancels_the_call() {
    let (_held, never) = live();
    let (_cancel, cancelled) = live();
    for piece in answer(200, "{}") {
        _cancel.send(piece).unwrap();
    }
    let controller = Controller::start_live(vec![never, cancelled]);
    let (sender, interrupts) = Interrupts::scripted();
    let outputs = Outputs::over(Box::new(io::sink()), Box::new(io::sink()));
    let mut host = Host::new(controller.api(), "w".into(), outputs, interrupts);
    let request = Host::request("files_search", Default::default());
    let script = async {
        while controller.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        sender.send(Interrupt::Interrupted).unwrap();
    };
    let (called, ()) = tokio::join!(host.call(&request), script);
    let fault = called.unwrap_err();
    assert_eq!(
        fault.downcast_ref::<Stopped>().map(|stopped| stopped.0),
        Some(Interrupt::Interrupted)
    );
    let path = format!("/operations/{}/cancel ", request.operation_id);
    assert!(controller.requests()[1].head.contains(&path));
}
