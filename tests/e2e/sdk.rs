//! The SDK with the real program: a gateway as a child process, its operations and their events.

use crate::PROGRAM;
use goblin_client::{Body, ClientError, FileParams, GatewayProcess, ProcessParams};
use goblin_testkit::{eventually, is_running};
use serde_json::{Value, json};
use std::process::Command;

fn start() -> GatewayProcess {
    GatewayProcess::start(Command::new(PROGRAM).arg("gateway")).unwrap()
}

#[tokio::test]
async fn an_operation_is_sent_and_its_events_are_collected() {
    let gateway = start();
    let run = gateway
        .connection()
        .execute(&ProcessParams::shell("op", "echo out; echo err >&2; exit 4"))
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert!(run.accepted.is_some() && !run.events_truncated);
    let evidence = run.evidence().unwrap();
    assert_eq!(
        (evidence.exit_code, evidence.stdout.as_str(), evidence.stderr.as_str()),
        (Some(4), "out\n", "err\n")
    );
    assert_eq!(evidence.conclusion(), "failed");
    assert!(matches!(run.events.last().unwrap().body, Body::Terminal { .. }));
    let again = gateway
        .connection()
        .execute(&ProcessParams::shell("op", "echo out; echo err >&2; exit 4"))
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert!(again.result().unwrap().replay && again.events.is_empty());
    assert!(gateway.shutdown().await.unwrap().success());
}

#[tokio::test]
async fn output_arrives_while_the_command_runs_and_cancel_ends_it() {
    let gateway = start();
    let mut dispatch = gateway
        .connection()
        .execute(&ProcessParams::shell("op", "echo first; sleep 60"))
        .await
        .unwrap();
    assert!(matches!(dispatch.next().await.unwrap().body, Body::Accepted { .. }));
    let Body::Stream { event, .. } = dispatch.next().await.unwrap().body else {
        panic!()
    };
    assert_eq!(event.data, "first\n");
    assert_eq!(
        gateway.connection().health().await.unwrap()["activeOperations"],
        json!(["op"])
    );
    assert!(gateway.connection().cancel("op").await.unwrap());
    let evidence = dispatch.collect().await.unwrap().evidence().unwrap();
    assert!(evidence.cancelled && evidence.signal.as_deref() == Some("SIGTERM"));
    assert!(!gateway.connection().cancel("op").await.unwrap());
}

#[tokio::test]
async fn tools_and_refusals() {
    let gateway = start();
    let arguments = json!({"path": "/"}).as_object().unwrap().clone();
    let params = FileParams {
        operation_id: "f".into(),
        tool: "files_inspect".into(),
        arguments,
    };
    let result = gateway
        .connection()
        .tool(&params)
        .await
        .unwrap()
        .collect()
        .await
        .unwrap()
        .result()
        .unwrap();
    let outcome: Value = serde_json::from_str(result.outcome.get()).unwrap();
    assert_eq!(outcome["type"], json!("directory"));
    let refused = gateway
        .connection()
        .execute(&ProcessParams::exec("x", "/no/such/program", ["a"]))
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    match refused.evidence() {
        Err(ClientError::Remote(error)) => assert_eq!(
            (error.code.as_str(), error.errno.as_deref()),
            ("executable_not_found", Some("ENOENT"))
        ),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_caller_owns_the_childs_lifetime() {
    let gateway = start();
    let pid = gateway.id().unwrap().to_string();
    let dispatch = gateway
        .connection()
        .execute(&ProcessParams::shell("op", "sleep 60"))
        .await
        .unwrap();
    let connection = gateway.connection().clone();
    drop(gateway);
    assert!(matches!(dispatch.collect().await, Err(ClientError::Disconnected)));
    assert!(connection.is_closed());
    eventually("the child's end", || (!is_running(&pid)).then_some(()));
}
