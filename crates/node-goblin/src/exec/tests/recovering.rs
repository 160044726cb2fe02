//! Sessions whose answer is lost at each point, against a controller of canned answers.

use super::*;
use crate::api::scripted::Pieces;
use serde_json::json;
use std::time::Duration;

const PATIENCE: Patience = Patience {
    first: Duration::from_millis(1),
    most: Duration::from_millis(4),
    window: Duration::from_secs(60),
};

const IN_PROGRESS: &str = r#"{"type":"error","requestId":"r","ok":false,"error":{"code":"operation_in_progress"}}"#;
const GATEWAY_LOST: &str = r#"{"type":"dispatch.error","error":{"code":"gateway_disconnected","gatewayId":"w","retryable":true,"action":"retry_same_operation_id_after_reconnect"}}"#;

/// A connection that ends without a word.
fn dropped() -> Pieces {
    Vec::new()
}

fn no_record() -> Pieces {
    answer(404, r#"{"ok":false,"error":"operation_not_found"}"#)
}

fn activity(state: &str, changes: serde_json::Value) -> serde_json::Value {
    let mut activity = json!({"gatewayId": "w", "operationId": "o", "kind": "process", "state": state, "replay": false,
        "reconnectRequired": false, "terminalOutcome": null, "startedAt": "", "endedAt": null, "durationMs": null});
    activity
        .as_object_mut()
        .unwrap()
        .extend(changes.as_object().unwrap().clone());
    activity
}

fn record(state: &str, reference: serde_json::Value, activity: Vec<serde_json::Value>) -> Pieces {
    let correlation = json!({"operationId": "o", "parentRunId": null, "toolCallId": null, "gatewayId": "w", "kind": "process",
        "requestDigest": "d", "state": state, "terminalReference": reference, "updatedAt": ""});
    let body = json!({"ok": true, "correlation": correlation, "activity": activity});
    answer(200, &body.to_string())
}

fn dispatching() -> Pieces {
    record("dispatching", json!(null), vec![])
}

fn running() -> Pieces {
    let activity = activity("running", json!({"acceptedAt": "1970-01-01T00:00:00.000Z"}));
    record("dispatching", json!(null), vec![activity])
}

fn trust(revoked: bool) -> Pieces {
    let record = json!({"gatewayId": "w", "controllerId": "c", "status": "approved", "approved": !revoked, "revoked": revoked,
        "trusted": !revoked, "method": "ed25519"});
    answer(200, &json!({"ok": true, "gateways": [record]}).to_string())
}

fn secret_order() -> Order {
    let line = CommandLine::parse_from(["exec", "w", "--id", "o", "--secret", "TOKEN", "x"]);
    Order::new(line.arguments, &|_| Some("hunter2".into())).unwrap()
}

async fn recovered(answers: Vec<Pieces>, order: &Order) -> (Ran, Vec<crate::api::scripted::Received>) {
    let controller = Controller::start(answers);
    let ran = run_with(&controller, order, Form::Output, Some(PATIENCE)).await;
    (ran, controller.requests())
}

/// The first words of each request.
fn asked(requests: &[crate::api::scripted::Received]) -> String {
    let words: Vec<&str> = requests
        .iter()
        .map(|request| match request.head.split(' ').nth(1).unwrap() {
            "/api/mods/node-goblin/gateways/w/processes" => "run",
            "/api/mods/node-goblin/operations/o" => "look",
            "/api/mods/node-goblin/gateway-trust" => "trust",
            "/api/mods/node-goblin/gateways/w/operations/o/cancel" => "cancel",
            other => panic!("{other}"),
        })
        .collect();
    words.join(" ")
}

#[tokio::test]
async fn what_nobody_knows_of_is_not_sent_again() {
    // Never sent, or run and forgotten by controller and gateway behind newer ones: the two look the same.
    let (ran, requests) = recovered(vec![dropped(), no_record()], &secret_order()).await;
    assert!(
        matches!(&ran.ended.how, ending::How::Lost(why) if why.contains("no record")),
        "{:?}",
        ran.ended
    );
    assert_eq!((ran.code, asked(&requests).as_str()), (125, "run look"));
}

#[tokio::test]
async fn what_was_perhaps_sent_is_not_sent_again() {
    let interrupted = || record("dispatching", json!(null), vec![activity("interrupted", json!({}))]);
    for record in [dispatching(), interrupted()] {
        let (ran, requests) = recovered(vec![dropped(), record], &order(&["x"])).await;
        assert!(
            matches!(&ran.ended.how, ending::How::Lost(why) if why.contains("nobody knows")),
            "{:?}",
            ran.ended
        );
        assert_eq!(
            (ran.code, ran.ended.began, asked(&requests).as_str()),
            (125, false, "run look")
        );
    }
    // While the controller still waits for the gateway, so do we.
    let waiting = record("dispatching", json!(null), vec![activity("dispatching", json!({}))]);
    let replay = lines(&[&response(&[("exitCode", "3")], true)]);
    let (ran, requests) = recovered(vec![dropped(), waiting, running(), replay], &order(&["x"])).await;
    assert_eq!((ran.code, asked(&requests).as_str()), (3, "run look look run"));
}

#[tokio::test]
async fn a_cut_stream_goes_on_where_it_was_cut_and_secrets_go_once() {
    let first = lines(&[ACCEPTED, &stream("stdout", 1, "ke"), &stream("stderr", 2, "kept")]);
    let (ran, requests) = recovered(
        vec![
            first,
            running(),
            lines(&[IN_PROGRESS]),
            answer(503, r#"{"ok":false,"error":"store_unavailable"}"#),
            dropped(),
            dispatching(),
            answer(503, r#"{"ok":false,"error":"gateway_not_connected"}"#),
            trust(false),
            dispatching(),
            lines(&[&response(&[("exitCode", "7")], true)]),
        ],
        &secret_order(),
    )
    .await;
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (7, "kept", "kept too")
    );
    assert!(ran.ended.recovered && !ran.ended.unrecovered);
    assert_eq!(asked(&requests), "run look run look look look run trust look run");
    for request in &requests[1..] {
        assert!(!request.body.contains("hunter2") && !request.body.contains("protectedValues"));
    }
    let bodies: Vec<serde_json::Value> = [0, 2]
        .map(|index| serde_json::from_str(&requests[index].body).unwrap())
        .into();
    assert_eq!(bodies[0]["operationId"], bodies[1]["operationId"]);
    assert_eq!(bodies[0]["executable"], bodies[1]["executable"]);
}

#[tokio::test]
async fn a_lost_gateway_is_waited_for() {
    let first = lines(&[ACCEPTED, GATEWAY_LOST]);
    let replay = || lines(&[&response(&[], true)]);
    let (ran, _) = recovered(vec![first.clone(), dispatching(), replay()], &order(&["x"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "kept"));
    let controller = Controller::start(vec![
        first,
        dispatching(),
        lines(&[IN_PROGRESS]),
        dispatching(),
        replay(),
    ]);
    let ran = run_with(&controller, &order(&["x"]), Form::Envelopes, Some(PATIENCE)).await;
    assert_eq!(
        ran.stdout,
        format!("{ACCEPTED}\n{}\n", response(&[], true)),
        "whoever reads envelopes sees one answer, the last"
    );
}

#[tokio::test]
async fn a_gateway_that_was_shut_out_is_not_waited_for() {
    let away = answer(503, r#"{"ok":false,"error":"gateway_not_connected"}"#);
    let first = lines(&[ACCEPTED, GATEWAY_LOST]);
    let (ran, requests) = recovered(vec![first, dispatching(), away, trust(true)], &order(&["x"])).await;
    assert_eq!((ran.code, asked(&requests).as_str()), (125, "run look run trust"));
    assert!(matches!(&ran.ended.how, ending::How::Lost(why) if why.contains("shut out")));
}

#[tokio::test]
async fn output_that_was_printed_whole_is_not_printed_again() {
    let first = lines(&[ACCEPTED, &stream("stdout", 1, "everything"), &terminal(2)]);
    let replay = lines(&[&response(&[("truncated", "true"), ("stdout", "\"every\"")], true)]);
    let (ran, _) = recovered(vec![first, running(), replay], &order(&["x"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "everything"));
    assert!(!ran.ended.unrecovered);
}

#[tokio::test]
async fn output_that_nobody_kept_is_no_success() {
    let first = lines(&[ACCEPTED, &stream("stdout", 1, "more than was kept")]);
    let replay = lines(&[&response(&[("truncated", "true")], true)]);
    let (ran, _) = recovered(vec![first, running(), replay], &order(&["x"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (125, "more than was kept"));
    assert!(ran.ended.unrecovered);
}

#[tokio::test]
async fn an_unknown_outcome_is_an_end() {
    let unknown =
        r#"{"type":"error","requestId":"r","ok":false,"error":{"code":"operation_outcome_unknown","operationId":"o"}}"#;
    let (ran, requests) = recovered(vec![lines(&[ACCEPTED]), running(), lines(&[unknown])], &order(&["x"])).await;
    assert_eq!((ran.code, requests.len()), (125, 3));
    let ending::How::Answered(outcome) = &ran.ended.how else {
        panic!("{:?}", ran.ended)
    };
    assert!(matches!(&**outcome, ending::Outcome::Refused(error) if error.code == "operation_outcome_unknown"));
}

#[tokio::test]
async fn a_refusal_on_record_is_told_without_asking_again() {
    let refused = |outcome: serde_json::Value| {
        let activity = activity("terminal", json!({"acceptedAt": "t", "terminalOutcome": outcome}));
        record(
            "terminal",
            json!({"operationId": "o", "replay": false, "outcomeDigest": null}),
            vec![activity],
        )
    };
    let first = || lines(&[ACCEPTED]);
    let (ran, requests) = recovered(vec![first(), refused(json!("executable_not_found"))], &order(&["x"])).await;
    assert_eq!((ran.code, asked(&requests).as_str()), (127, "run look"));
    let (ran, requests) = recovered(vec![first(), refused(json!(null))], &order(&["x"])).await;
    assert_eq!((ran.code, asked(&requests).as_str()), (125, "run look"));
}

#[tokio::test]
async fn a_second_beginning_is_ended_and_said() {
    let again = lines(&[ACCEPTED, &stream("stdout", 1, "again")]);
    let cancelled = answer(200, CANCELLING);
    let (ran, requests) = recovered(vec![lines(&[ACCEPTED]), running(), again, cancelled], &order(&["x"])).await;
    assert!(matches!(ran.ended.how, ending::How::BeganAgain));
    assert_eq!((ran.code, ran.stdout.as_str()), (125, ""));
    assert_eq!(asked(&requests), "run look run cancel");
}

#[tokio::test]
async fn a_record_that_is_gone_or_closed_ends_it() {
    let resolved = record("resolved", json!(null), vec![]);
    let denied = answer(401, r#"{"ok":false,"error":"unauthorized"}"#);
    for record in [no_record(), resolved, denied] {
        let (ran, requests) = recovered(vec![lines(&[ACCEPTED]), record], &order(&["x"])).await;
        assert_eq!((ran.code, asked(&requests).as_str()), (125, "run look"));
        assert!(matches!(ran.ended.how, ending::How::Lost(_)) && ran.ended.began);
    }
}

#[tokio::test]
async fn it_is_not_asked_for_when_the_gateway_may_have_forgotten_it() {
    let controller = Controller::start(vec![lines(&[ACCEPTED])]);
    let patience = Patience {
        window: Duration::ZERO,
        ..PATIENCE
    };
    let ran = run_with(&controller, &order(&["x"]), Form::Output, Some(patience)).await;
    assert!(matches!(&ran.ended.how, ending::How::Lost(why) if why.contains("too late")));
    assert_eq!((ran.code, controller.requests().len()), (125, 1));
}

/// A session that is in the middle of a look at the record when the user presses Ctrl-C so many times.
async fn interrupted(times: usize, rest: Vec<Pieces>) -> (u8, String) {
    let (look, answer_of_look) = live();
    let finished = |pieces: Pieces| {
        let (sender, answer) = live();
        for piece in pieces {
            sender.send(piece).unwrap();
        }
        answer
    };
    let mut answers = vec![finished(lines(&[ACCEPTED])), answer_of_look];
    answers.extend(rest.into_iter().map(finished));
    let controller = Controller::start_live(answers);
    let (sender, mut interrupts) = Interrupts::scripted();
    let (api, order) = (controller.api(), order(&["x"]));
    let session = Session {
        api: &api,
        order: &order,
        form: Form::Output,
        recovery: Some(PATIENCE),
    };
    let outputs = Outputs::over(Box::new(io::sink()), Box::new(io::sink()));
    let running_session = session.run(outputs, &mut interrupts);
    let script = async {
        while controller.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        for _ in 0..times {
            sender.send(Interrupt::Interrupted).unwrap();
        }
        for piece in running() {
            // Whoever left reads nothing.
            let _ = look.send(piece);
        }
    };
    let (ended, ()) = tokio::join!(running_session, script);
    (ended.unwrap().exit_code(), asked(&controller.requests()))
}

#[tokio::test]
async fn ctrl_c_in_a_recovery_cancels_before_it_asks_again() {
    let cancelled = lines(&[&response(&[("cancelled", "true")], true)]);
    let away = answer(503, r#"{"ok":false,"error":"gateway_not_connected"}"#);
    let rest = vec![away, running(), answer(200, CANCELLING), cancelled];
    let (code, asked) = interrupted(1, rest).await;
    assert_eq!((code, asked.as_str()), (130, "run look cancel look cancel run"));
}

#[tokio::test]
async fn a_second_ctrl_c_in_a_recovery_leaves_at_once() {
    let (code, asked) = interrupted(2, vec![]).await;
    assert_eq!((code, asked.as_str()), (130, "run look"));
}
