//! Sessions against a controller of canned answers.

use super::*;
use crate::api::scripted::NDJSON_HEAD;
use crate::api::scripted::{Controller, answer, lines, live};
use crate::interrupts::Interrupt;
use clap::Parser;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

mod recovering;

const ACCEPTED: &str = r#"{"type":"accepted","requestId":"r","ok":true,"operationId":"o","protocolVersion":"1.0"}"#;
const CANCELLING: &str = r#"{"ok":true,"operationId":"o","dispatch":{"accepted":null,"response":{"type":"response","requestId":"c","ok":true,"result":{"operationId":"o","cancelling":true}},"events":[]}}"#;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    arguments: ExecArguments,
}

fn order(words: &[&str]) -> Order {
    let line = CommandLine::parse_from(["exec", "w", "--id", "o"].iter().chain(words));
    Order::new(line.arguments, &|_| None).unwrap()
}

fn stream(stream: &str, seq: u64, data: &str) -> String {
    format!(
        r#"{{"type":"process.stream","operationId":"o","stream":"{stream}","seq":{seq},"data":"{data}","truncated":false}}"#
    )
}

fn terminal(seq: u64) -> String {
    format!(r#"{{"type":"process.terminal","operationId":"o","seq":{seq},"evidence":{{}}}}"#)
}

fn response(changes: &[(&str, &str)], replay: bool) -> String {
    let mut outcome: serde_json::Value = serde_json::from_str(
        r#"{"type":"process.result","startedAt":"","endedAt":"","durationMs":1,"cwd":"/","effectiveUid":0,"effectiveGid":0,
        "hostname":"h","mode":"exec","executable":"x","args":[],"command":null,"exitCode":0,"signal":null,"cancelled":false,
        "killed":false,"truncated":false,"timedOut":false,"timeoutReason":null,"timeoutMs":1,"deadlineMs":null,"stdout":"kept",
        "stderr":"kept too","stdoutDigest":"","stderrDigest":""}"#,
    )
    .unwrap();
    for (name, value) in changes {
        outcome[*name] = serde_json::from_str(value).unwrap();
    }
    format!(
        r#"{{"type":"response","requestId":"r","ok":true,"result":{{"operationId":"o","replay":{replay},"outcome":{outcome}}}}}"#
    )
}

/// A writer that tells what it got, and can be made to fail.
#[derive(Clone, Default)]
struct Sink {
    got: Arc<Mutex<Vec<u8>>>,
    fault: Option<io::ErrorKind>,
    tell: Option<mpsc::UnboundedSender<()>>,
}

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if let Some(kind) = self.fault {
            return Err(kind.into());
        }
        self.got.lock().unwrap().extend_from_slice(data);
        if let Some(tell) = &self.tell {
            let _ = tell.send(());
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    fn text(&self) -> String {
        String::from_utf8(self.got.lock().unwrap().clone()).unwrap()
    }
}

struct Ran {
    code: u8,
    stdout: String,
    stderr: String,
    ended: ending::Ended,
}

async fn run(controller: &Controller, order: &Order, form: Form) -> Ran {
    run_with(controller, order, form, None).await
}

async fn run_with(controller: &Controller, order: &Order, form: Form, recovery: Option<Patience>) -> Ran {
    let (out, err) = (Sink::default(), Sink::default());
    let (_sender, mut interrupts) = Interrupts::scripted();
    let api = controller.api();
    let session = Session {
        api: &api,
        order,
        form,
        recovery,
    };
    let outputs = Outputs::over(Box::new(out.clone()), Box::new(err.clone()));
    let ended = session.run(outputs, &mut interrupts).await.unwrap();
    Ran {
        code: ended.exit_code(),
        stdout: out.text(),
        stderr: err.text(),
        ended,
    }
}

#[tokio::test]
async fn output_goes_to_its_stream_and_the_exit_code_is_the_commands() {
    let controller = Controller::start(vec![lines(&[
        ACCEPTED,
        &stream("stdout", 1, "a\\n"),
        &stream("stderr", 2, "e\\u001b[1m"),
        &stream("stdout", 3, "b"),
        &terminal(4),
        &response(&[("exitCode", "7")], false),
    ])]);
    let order = order(&["--cwd", "/x", "--", "prog", "arg"]);
    let ran = run(&controller, &order, Form::Output).await;
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (7, "a\nb", "e\u{1b}[1m")
    );
    let request = &controller.requests()[0];
    assert!(
        request
            .head
            .starts_with("POST /api/mods/node-goblin/gateways/w/processes HTTP/1.1"),
        "{}",
        request.head
    );
    let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
    assert_eq!(
        (&body["operationId"], &body["executable"], &body["cwd"]),
        (&"o".into(), &"prog".into(), &"/x".into())
    );
}

#[tokio::test]
async fn envelopes_come_through_as_they_are() {
    let sent = [ACCEPTED, &stream("stderr", 1, "x"), &terminal(2), &response(&[], false)].map(str::to_owned);
    let controller = Controller::start(vec![lines(&sent.each_ref().map(String::as_str))]);
    let ran = run(&controller, &order(&["x"]), Form::Envelopes).await;
    assert_eq!(ran.stdout, sent.join("\n") + "\n");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn a_replay_prints_what_was_kept() {
    let controller = Controller::start(vec![lines(&[&response(&[("exitCode", "3")], true)])]);
    let ran = run(&controller, &order(&["x"]), Form::Output).await;
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (3, "kept", "kept too")
    );
}

#[tokio::test]
async fn output_that_is_missing_is_noticed_wherever_it_was() {
    for (lost, sent) in [
        (0, vec![stream("stdout", 1, "a"), stream("stdout", 2, "b"), terminal(3)]),
        (1, vec![stream("stdout", 2, "b"), terminal(3)]),
        (2, vec![stream("stdout", 1, "a"), terminal(4)]),
    ] {
        let last = response(&[], false);
        let all: Vec<&str> = std::iter::once(ACCEPTED)
            .chain(sent.iter().map(String::as_str))
            .chain([last.as_str()])
            .collect();
        let ran = run(&Controller::start(vec![lines(&all)]), &order(&["x"]), Form::Output).await;
        assert_eq!((ran.ended.missing, ran.code), (lost, if lost > 0 { 125 } else { 0 }));
    }
}

#[tokio::test]
async fn a_lost_gateway_and_a_cut_answer_are_uncertain() {
    let lost = r#"{"type":"dispatch.error","error":{"code":"gateway_disconnected","gatewayId":"w","retryable":true,"action":"retry_same_operation_id_after_reconnect"}}"#;
    for sent in [vec![ACCEPTED, lost], vec![ACCEPTED], vec![ACCEPTED, "nonsense"]] {
        let ran = run(&Controller::start(vec![lines(&sent)]), &order(&["x"]), Form::Output).await;
        assert!(
            matches!(ran.ended.how, ending::How::Lost(_)) && ran.ended.began,
            "{:?}",
            ran.ended
        );
        assert_eq!(ran.code, 125);
    }
    let ran = run(
        &Controller::start(vec![lines(&[ACCEPTED, lost])]),
        &order(&["x"]),
        Form::Envelopes,
    )
    .await;
    assert_eq!(ran.stdout, format!("{ACCEPTED}\n{lost}\n"));
}

#[tokio::test]
async fn a_refusal_of_the_controller_is_an_error() {
    let controller = Controller::start(vec![answer(503, r#"{"ok":false,"error":"gateway_not_connected"}"#)]);
    let (_sender, mut interrupts) = Interrupts::scripted();
    let session = Session {
        api: &controller.api(),
        order: &order(&["x"]),
        form: Form::Output,
        recovery: None,
    };
    let outputs = Outputs::over(Box::new(io::sink()), Box::new(io::sink()));
    let fault = session.run(outputs, &mut interrupts).await.unwrap_err();
    let fault = format!("{fault:#}");
    assert!(
        fault.starts_with("w: ") && fault.contains("gateway_not_connected"),
        "{fault}"
    );
}

#[tokio::test]
async fn ctrl_c_cancels_once_and_waits_for_the_evidence() {
    let (process, answer_of_process) = live();
    let (cancel, answer_of_cancel) = live();
    let controller = Controller::start_live(vec![answer_of_process, answer_of_cancel]);
    let (tell, mut told) = mpsc::unbounded_channel();
    let out = Sink {
        tell: Some(tell),
        ..Sink::default()
    };
    let (sender, mut interrupts) = Interrupts::scripted();
    let (api, order) = (controller.api(), order(&["x"]));
    let session = Session {
        api: &api,
        order: &order,
        form: Form::Output,
        recovery: None,
    };
    let running = session.run(
        Outputs::over(Box::new(out.clone()), Box::new(io::sink())),
        &mut interrupts,
    );
    let script = async {
        process
            .send(
                [NDJSON_HEAD, ACCEPTED, "\n", &stream("stdout", 1, "a"), "\n"]
                    .concat()
                    .into(),
            )
            .unwrap();
        told.recv().await.unwrap();
        sender.send(Interrupt::Interrupted).unwrap();
        for piece in answer(200, CANCELLING) {
            cancel.send(piece).unwrap();
        }
        drop(cancel);
        while controller.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        let last = response(
            &[("cancelled", "true"), ("exitCode", "null"), ("signal", "\"SIGTERM\"")],
            false,
        );
        process
            .send(
                [&stream("stdout", 2, "b"), "\n", &terminal(3), "\n", &last, "\n"]
                    .concat()
                    .into(),
            )
            .unwrap();
        drop(process);
    };
    let (ended, ()) = tokio::join!(running, script);
    assert_eq!(ended.unwrap().exit_code(), 130);
    assert_eq!(out.text(), "ab", "output that came meanwhile is printed");
    let requests = controller.requests();
    assert_eq!(requests.len(), 2);
    assert!(
        requests[1]
            .head
            .starts_with("POST /api/mods/node-goblin/gateways/w/operations/o/cancel ")
    );
}

#[tokio::test]
async fn a_second_ctrl_c_leaves_at_once() {
    let (process, answer_of_process) = live();
    let (_cancel, answer_of_cancel) = live();
    let controller = Controller::start_live(vec![answer_of_process, answer_of_cancel]);
    let (sender, mut interrupts) = Interrupts::scripted();
    let (api, order) = (controller.api(), order(&["x"]));
    let session = Session {
        api: &api,
        order: &order,
        form: Form::Output,
        recovery: None,
    };
    process.send([NDJSON_HEAD, ACCEPTED, "\n"].concat().into()).unwrap();
    sender.send(Interrupt::Interrupted).unwrap();
    sender.send(Interrupt::Terminated).unwrap();
    let ended = session
        .run(
            Outputs::over(Box::new(io::sink()), Box::new(io::sink())),
            &mut interrupts,
        )
        .await
        .unwrap();
    assert!(matches!(ended.how, ending::How::Left));
    assert_eq!(ended.exit_code(), 143);
}

#[tokio::test]
async fn a_cancel_waits_for_the_operation_to_begin() {
    let (process, answer_of_process) = live();
    let (_cancel, answer_of_cancel) = live();
    let controller = Controller::start_live(vec![answer_of_process, answer_of_cancel]);
    let (sender, mut interrupts) = Interrupts::scripted();
    let (api, order) = (controller.api(), order(&["x"]));
    let session = Session {
        api: &api,
        order: &order,
        form: Form::Output,
        recovery: None,
    };
    sender.send(Interrupt::Interrupted).unwrap();
    let running = session.run(
        Outputs::over(Box::new(io::sink()), Box::new(io::sink())),
        &mut interrupts,
    );
    let script = async {
        while controller.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(controller.requests().len(), 1, "there is nothing to cancel yet");
        process.send([NDJSON_HEAD, ACCEPTED, "\n"].concat().into()).unwrap();
        while controller.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        process
            .send((response(&[("cancelled", "true")], false) + "\n").into())
            .unwrap();
    };
    let (ended, ()) = tokio::join!(running, script);
    assert_eq!(ended.unwrap().exit_code(), 130);
}

#[tokio::test]
async fn a_closed_output_cancels_the_command() {
    let (process, answer_of_process) = live();
    let (_cancel, answer_of_cancel) = live();
    let controller = Controller::start_live(vec![answer_of_process, answer_of_cancel]);
    let (_sender, mut interrupts) = Interrupts::scripted();
    let (api, order) = (controller.api(), order(&["x"]));
    let session = Session {
        api: &api,
        order: &order,
        form: Form::Output,
        recovery: None,
    };
    let closed = Sink {
        fault: Some(io::ErrorKind::BrokenPipe),
        ..Sink::default()
    };
    let running = session.run(Outputs::over(Box::new(closed), Box::new(io::sink())), &mut interrupts);
    let script = async {
        let chunk = stream("stdout", 1, "a");
        process
            .send([NDJSON_HEAD, ACCEPTED, "\n", &chunk, "\n"].concat().into())
            .unwrap();
        while controller.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        // What still comes is taken and dropped, whatever its amount.
        for seq in 2..200 {
            process
                .send((stream("stdout", seq, &"x".repeat(10_000)) + "\n").into())
                .unwrap();
        }
        process
            .send(
                [&terminal(200), "\n", &response(&[("cancelled", "true")], false), "\n"]
                    .concat()
                    .into(),
            )
            .unwrap();
    };
    let (ended, ()) = tokio::join!(running, script);
    assert_eq!(ended.unwrap().exit_code(), 141);
    assert!(controller.requests()[1].head.contains("/cancel "));
}

/// A writer whose reader takes nothing.
struct Stuck(std::sync::mpsc::Receiver<()>);

impl Write for Stuck {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let _ = self.0.recv();
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_stuck_reader_holds_up_the_stream_but_not_ctrl_c() {
    let (process, answer_of_process) = live();
    let (_cancel, answer_of_cancel) = live();
    let controller = Controller::start_live(vec![answer_of_process, answer_of_cancel]);
    let (sender, mut interrupts) = Interrupts::scripted();
    let (api, order) = (controller.api(), order(&["x"]));
    let session = Session {
        api: &api,
        order: &order,
        form: Form::Output,
        recovery: None,
    };
    let (_held, never) = std::sync::mpsc::channel();
    let outputs = Outputs::over(Box::new(Stuck(never)), Box::new(io::sink()));
    let running = session.run(outputs, &mut interrupts);
    let script = async {
        process.send([NDJSON_HEAD, ACCEPTED, "\n"].concat().into()).unwrap();
        for seq in 1..100 {
            process.send((stream("stdout", seq, "x") + "\n").into()).unwrap();
        }
        while controller.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        sender.send(Interrupt::Interrupted).unwrap();
        while controller.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        sender.send(Interrupt::Interrupted).unwrap();
    };
    let (ended, ()) = tokio::join!(running, script);
    assert_eq!(ended.unwrap().exit_code(), 130);
}
