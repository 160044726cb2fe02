//! The execution provider against a gateway that plays each part.

use super::Fixture;
use super::gateway::{Dialled, Host, evidence, result};
use crate::{FilesystemCall, ProcessCall, ProviderError, ShellExecResult};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn process_call(process: Value) -> ProcessCall {
    let call = json!({"operationId": "op-1", "targetId": "worker", "parentRunId": "run", "toolCallId": "call", "process": process});
    serde_json::from_value(call).unwrap()
}

fn filesystem_call() -> FilesystemCall {
    let call = json!({"operationId": "op-1", "targetId": "worker", "parentRunId": "run",
        "operation": {"tool": "files_read", "arguments": {"path": "/x"}}});
    serde_json::from_value(call).unwrap()
}

fn full_evidence() -> Value {
    json!({"type": "process.result", "startedAt": "2026-12-01T00:00:00.000Z", "endedAt": "2026-12-01T00:00:00.100Z",
        "durationMs": 100.25, "cwd": "/srv", "mode": "shell", "executable": null, "args": [], "command": "echo hé 🦀",
        "exitCode": 0, "signal": null, "cancelled": false, "killed": false, "truncated": false, "timedOut": false,
        "timeoutReason": null, "timeoutMs": 30000, "deadlineMs": null, "stdout": "hé 🦀\n", "stderr": ""})
}

/// Runs a call against a gateway that answers with this outcome.
async fn outcome(outcome: Value) -> Result<ShellExecResult, ProviderError> {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready(&Host::new("worker")).await;
    let call = process_call(json!({"command": "true"}));
    let playing = async {
        let request = gateway.request("process.exec").await;
        gateway.answer(&request, result("op-1", outcome)).await;
    };
    let token = CancellationToken::new();
    let ((), result) = tokio::join!(playing, fixture.controller.execute_process(call, token));
    result
}

#[tokio::test]
async fn a_process_sends_its_own_options_and_gives_a_shell_result() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready(&Host::new("worker")).await;
    let mut call = process_call(
        json!({"command": "echo hé 🦀", "args": [], "cwd": "/srv", "env": {"A": 1}, "timeoutMs": 5,
        "deadlineMs": 1, "maxOutputBytes": 2, "operationId": "other", "protectedDelivery": {}, "executable": null}),
    );
    let trace = json!({"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"});
    call.protected_values = Some(serde_json::from_value(json!({"TOKEN": "t"})).unwrap());
    call.protected_binding_metadata = Some(json!({"binding": 1}));
    call.trace_context = Some(trace.clone());
    let playing = async {
        let request = gateway.request("process.exec").await;
        gateway.accept(&request).await;
        gateway.output("op-1", 1, "hé ").await;
        gateway.output("op-1", 2, "🦀\n").await;
        gateway.terminal("op-1", 3, &full_evidence()).await;
        gateway.answer(&request, result("op-1", full_evidence())).await;
        request
    };
    let (mut request, shell) = tokio::join!(
        playing,
        fixture.controller.execute_process(call, CancellationToken::new())
    );
    let mut params = request["params"].take();
    assert_eq!(params["protectedDelivery"]["operationId"], "op-1");
    params.as_object_mut().unwrap().remove("protectedDelivery");
    assert_eq!(
        params,
        json!({"operationId": "op-1", "command": "echo hé 🦀", "args": [], "cwd": "/srv", "env": {"A": 1}, "timeoutMs": 5,
            "protectedValues": {"TOKEN": "t"}, "protectedBindingMetadata": {"binding": 1}, "traceContext": trace})
    );
    assert_eq!(
        serde_json::to_string(&shell.unwrap()).unwrap(),
        r#"{"tool":"shell_exec","ok":true,"command":"echo hé 🦀","reason":null,"cwd":"/srv","exitCode":0,"signal":null,"timedOut":false,"cancelled":false,"killed":false,"durationMs":100.25,"stdout":"hé 🦀\n","stderr":"","stdoutTruncated":false,"stderrTruncated":false,"stdoutOriginalChars":6,"stderrOriginalChars":0,"error":null,"artifacts":null,"operationId":"op-1","gatewayId":"worker"}"#
    );
    let record = fixture.record("op-1").await.unwrap();
    assert_eq!(
        (record.parent_run_id.as_deref(), record.tool_call_id.as_deref()),
        (Some("run"), Some("call"))
    );
}

#[tokio::test]
async fn only_a_clean_end_is_ok() {
    for (change, ok) in [
        (json!({}), true),
        (json!({"exitCode": 3}), false),
        (json!({"exitCode": null, "signal": "SIGKILL", "killed": true}), false),
        (json!({"timedOut": true}), false),
        (json!({"cancelled": true}), false),
    ] {
        let mut evidence = full_evidence();
        for (name, value) in change.as_object().unwrap() {
            evidence[name] = value.clone();
        }
        let shell = serde_json::to_value(outcome(evidence.clone()).await.unwrap()).unwrap();
        assert_eq!(shell["ok"], ok, "{change}");
        for name in ["exitCode", "signal", "killed", "timedOut", "cancelled"] {
            assert_eq!(shell[name], evidence[name], "{change}");
        }
    }
    // A program without a shell has no command line.
    let mut exec = full_evidence();
    (exec["command"], exec["executable"]) = (Value::Null, json!("/bin/true"));
    assert_eq!(outcome(exec).await.unwrap().command, None);
}

#[tokio::test]
async fn truncation_is_told_of_the_stream_that_was_cut() {
    let mut cut = full_evidence();
    cut["truncated"] = json!(true);
    let unknown = outcome(cut.clone()).await.unwrap();
    assert!(unknown.stdout_truncated && unknown.stderr_truncated);

    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready(&Host::new("worker")).await;
    let playing = async {
        let request = gateway.request("process.exec").await;
        gateway.accept(&request).await;
        gateway.output("op-1", 1, "twelve chars").await;
        gateway
            .send(&json!({"type": "process.stream", "operationId": "op-1", "stream": "stderr", "seq": 2, "data": "e", "truncated": true}))
            .await;
        (cut["stdout"], cut["stderr"]) = (json!("twelve chars"), json!("e"));
        gateway.answer(&request, result("op-1", cut)).await;
    };
    let call = process_call(json!({"command": "x"}));
    let ((), known) = tokio::join!(
        playing,
        fixture.controller.execute_process(call, CancellationToken::new())
    );
    let known = known.unwrap();
    assert_eq!((known.stdout_truncated, known.stderr_truncated), (false, true));
    assert_eq!((known.stdout_original_chars, known.stderr_original_chars), (12, 1));
}

#[tokio::test]
async fn an_answer_without_evidence_or_of_another_operation_is_an_error() {
    for missing in [
        json!(null),
        json!({}),
        json!([1]),
        json!("text"),
        json!({"type": "process.result", "exitCode": "0"}),
        json!({"type": "note", "exitCode": 0}),
    ] {
        let error = outcome(missing.clone()).await.unwrap_err();
        assert_eq!(error.code(), "gateway_terminal_evidence_missing", "{missing}");
    }
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready(&Host::new("worker")).await;
    let execute = async |play: &mut (dyn FnMut(Value) -> Value + Send), gateway: &mut Dialled| {
        let playing = async {
            let request = gateway.request("process.exec").await;
            let frame = play(request["id"].clone());
            gateway.send(&frame).await;
        };
        let call = process_call(json!({"command": "true"}));
        let token = CancellationToken::new();
        let ((), result) = tokio::join!(playing, fixture.controller.execute_process(call, token));
        result.unwrap_err()
    };
    let mut other =
        |id| json!({"type": "response", "requestId": id, "ok": true, "result": result("op-2", evidence(0))});
    assert_eq!(
        execute(&mut other, &mut gateway).await.code(),
        "gateway_operation_id_mismatch"
    );
    let mut accepted =
        |id| json!({"type": "accepted", "requestId": id, "ok": true, "operationId": "op-2", "protocolVersion": "1.0"});
    assert_eq!(
        execute(&mut accepted, &mut gateway).await.code(),
        "gateway_operation_id_mismatch"
    );
    let mut empty = |id| json!({"type": "response", "requestId": id, "ok": true, "result": {"operationId": "op-1"}});
    assert_eq!(
        execute(&mut empty, &mut gateway).await.code(),
        "gateway_terminal_evidence_missing"
    );
    let mut refusal = |id| json!({"type": "response", "requestId": id, "ok": false, "error": {"code": "executable_not_found", "operationId": "op-1", "errno": "ENOENT"}});
    let refused = execute(&mut refusal, &mut gateway).await;
    assert_eq!(refused.code(), "executable_not_found");
    assert!(matches!(refused, ProviderError::Refused(error) if error.errno.as_deref() == Some("ENOENT")));

    let call = process_call(json!({"command": "true"}));
    let waiting = fixture.controller.execute_process(call, CancellationToken::new());
    let leaving = async {
        gateway.request("process.exec").await;
        drop(gateway);
    };
    let ((), lost) = tokio::join!(leaving, waiting);
    assert_eq!(lost.unwrap_err().code(), "gateway_disconnected");
    let mut absent = filesystem_call();
    absent.target_id = "absent".to_owned();
    let refused = fixture
        .controller
        .execute_native_filesystem(absent, CancellationToken::new())
        .await;
    assert_eq!(refused.err().unwrap().code(), "gateway_not_connected");
}

#[tokio::test]
async fn an_abort_cancels_once_and_the_end_is_still_waited_for() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready(&Host::new("worker")).await;
    let abort = CancellationToken::new();
    let playing = async {
        let request = gateway.request("process.exec").await;
        gateway.accept(&request).await;
        abort.cancel();
        let cancel = gateway.request("cancel").await;
        assert_eq!(cancel["params"], json!({"operationId": "op-1"}));
        abort.cancel();
        let mut ended = full_evidence();
        (ended["cancelled"], ended["exitCode"]) = (json!(true), Value::Null);
        gateway.answer(&request, result("op-1", ended)).await;
        gateway
            .answer(&cancel, json!({"operationId": "op-1", "cancelling": true}))
            .await;
    };
    let call = process_call(json!({"command": "sleep 9"}));
    let ((), shell) = tokio::join!(playing, fixture.controller.execute_process(call, abort.clone()));
    let shell = shell.unwrap();
    assert!(shell.cancelled && !shell.ok);
    // Nothing else came: the next request is that of the next call.
    let call = process_call(json!({"command": "sleep 9"}));
    let (next, shell) = tokio::join!(
        async {
            let request = gateway.receive().await.unwrap();
            gateway.answer(&request, result("op-1", full_evidence())).await;
            request
        },
        fixture.controller.execute_process(call, CancellationToken::new())
    );
    assert_eq!(next["method"], "process.exec");
    assert!(shell.unwrap().ok);
    // What was aborted before it began never goes out.
    let aborted = fixture
        .controller
        .execute_process(process_call(json!({"command": "x"})), abort);
    assert_eq!(aborted.await.unwrap_err().code(), "operation_aborted");
}

#[tokio::test]
async fn a_tool_gives_its_outcome_and_where_it_came_from() {
    let fixture = Fixture::new().await;
    let mut gateway = fixture.ready(&Host::new("worker")).await;
    let playing = async {
        let request = gateway.request("filesystem.execute").await;
        let text = format!(
            r#"{{"type":"response","requestId":{},"ok":true,"result":{{"operationId":"op-1","replay":false,"outcome":{{"tool":"files_read","ok":true,"z":1.50,"a":[],"error":null,"artifacts":null,"execution":{{"kind":"gateway","protocolMethod":"filesystem.execute"}}}}}}}}"#,
            request["id"]
        );
        gateway.send_text(&text).await;
        request
    };
    let (request, outcome) = tokio::join!(
        playing,
        fixture
            .controller
            .execute_native_filesystem(filesystem_call(), CancellationToken::new())
    );
    assert_eq!(
        request["params"],
        json!({"operationId": "op-1", "tool": "files_read", "arguments": {"path": "/x"}})
    );
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.is_ok());
    assert_eq!(
        serde_json::to_string(&outcome).unwrap(),
        r#"{"tool":"files_read","ok":true,"z":1.50,"a":[],"error":null,"artifacts":null,"operationId":"op-1","gatewayId":"worker","parentRunId":"run","toolCallId":null,"execution":{"kind":"gateway","gatewayId":"worker"}}"#
    );
    for missing in [json!(null), json!([]), json!("x")] {
        let playing = async {
            let request = gateway.request("filesystem.execute").await;
            gateway.answer(&request, result("op-1", missing)).await;
        };
        let call = fixture
            .controller
            .execute_native_filesystem(filesystem_call(), CancellationToken::new());
        let ((), error) = tokio::join!(playing, call);
        assert_eq!(error.err().unwrap().code(), "gateway_terminal_evidence_missing");
    }
}
