//! One command under way: envelopes in, output out, what Ctrl-C means in between, and what follows when the answer is
//! lost.

use crate::api::{Api, ApiError, Line, Lines, explained};
use crate::cancel::{self, Cancelled};
use crate::exec::Order;
use crate::exec::ending::{Ended, How, Outcome};
use crate::exec::printed::Printed;
use crate::exec::recovery::{self, Patience, Pauses, Verdict};
use crate::interrupts::{Interrupt, Interrupts};
use crate::outputs::{Chunk, Outputs};
use crate::terminal::{self, OutputError};
use goblin_api::{ProcessRequest, routes};
use goblin_client::{Body, Collected, Envelope};
use goblin_protocol::Code;
use goblin_protocol::envelope::OutputStream;
use goblin_protocol::json;
use serde::Deserialize;
use std::collections::VecDeque;
use std::pin::pin;
use tokio::task::JoinHandle;

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The command's output.
    Output,
    /// The gateway's envelopes.
    Envelopes,
}

/// One command, one gateway, one run.
pub struct Session<'a> {
    /// The controller.
    pub api: &'a Api,
    /// What is to be run.
    pub order: &'a Order,
    /// What is printed.
    pub form: Form,
    /// How patiently a lost answer is asked for again; not at all when absent.
    pub recovery: Option<Patience>,
}

/// What has been seen so far.
#[derive(Default)]
struct Progress {
    accepted: bool,
    printed: Printed,
    /// Output was lost in an interruption.
    unrecovered: bool,
    /// The outcome is asked for again.
    recovering: bool,
    /// The line that told of a lost gateway, unless the outcome is found all the same.
    last_line: Option<Chunk>,
    /// The gateway said that output is missing.
    cut: bool,
    cancel: Cancel,
    /// Why the output can't be written any more.
    fault: Option<OutputError>,
}

/// The one cancel that a session sends.
#[derive(Default)]
enum Cancel {
    /// Nobody wants one.
    #[default]
    Unwanted,
    /// To be sent when the operation has begun.
    Wanted,
    /// On its way.
    Sent(JoinHandle<Result<Cancelled, ApiError>>),
    /// Answered.
    Answered,
}

impl Session<'_> {
    /// Runs the command to its end, or until the user leaves. Faults before the gateway could have heard of the
    /// command are errors; afterwards they are an [`Ended`].
    pub async fn run(&self, mut outputs: Outputs, interrupts: &mut Interrupts) -> anyhow::Result<Ended> {
        let mut progress = Progress::default();
        let mut asked: Option<Interrupt> = None;
        let opened = self
            .open(&self.order.request, interrupts, &mut asked, &mut progress)
            .await;
        let mut how = match opened {
            Some(Ok(lines)) => {
                self.follow(lines, &mut outputs, interrupts, &mut asked, &mut progress)
                    .await
            }
            Some(Err(error)) if may_have_begun(&error) => How::Lost(error.to_string()),
            Some(Err(error)) => return Err(error.about(&self.order.gateway)),
            None => How::Left,
        };
        if let (How::Lost(why), Some(patience)) = (&how, self.recovery) {
            let why = why.clone();
            how = self
                .recover(why, patience, &mut outputs, interrupts, &mut asked, &mut progress)
                .await;
        }
        let mut fault = progress.fault.take();
        if fault.is_none() && !matches!(how, How::Left) {
            let finish = async {
                if let (How::Lost(_), Some(line)) = (&how, progress.last_line.take())
                    && let Some(room) = outputs.room().await
                {
                    room.send(line);
                }
                outputs.finish().await
            };
            // A reader that takes nothing must not keep a user who wants to leave.
            fault = tokio::select! {
                finished = finish => finished.err(),
                _ = interrupts.next() => Some(OutputError::Closed),
            };
        }
        Ok(Ended {
            how,
            asked,
            began: progress.accepted,
            missing: progress.printed.missing(),
            unrecovered: progress.unrecovered,
            cut: progress.cut,
            fault,
            envelopes: self.form == Form::Envelopes,
            recovered: progress.recovering,
        })
    }

    /// Asks for the outcome again until it is there, or can't be had.
    async fn recover(
        &self,
        mut why: String,
        patience: Patience,
        outputs: &mut Outputs,
        interrupts: &mut Interrupts,
        asked: &mut Option<Interrupt>,
        progress: &mut Progress,
    ) -> How {
        let (gateway, id) = (&self.order.gateway, &self.order.request.operation_id);
        let mut pauses = Pauses::new(patience);
        let mut told_running = false;
        terminal::note(format_args!(
            "node-goblin: {why}; looking for operation {id}, which is not run twice"
        ));
        loop {
            progress.recovering = true;
            let Some(pause) = pauses.next() else {
                return How::Lost(format!("{why}; it is too late now to ask again safely"));
            };
            // A cancel on its way may have gone down with the controller; one more does no harm.
            if matches!(progress.cancel, Cancel::Sent(_)) {
                progress.cancel = Cancel::Wanted;
            }
            let next = async {
                tokio::time::sleep(pause).await;
                recovery::look(self.api, gateway, id, progress.accepted).await
            };
            let Some(verdict) = unless_left(next, interrupts, asked).await else {
                return How::Left;
            };
            if asked.is_some() && matches!(progress.cancel, Cancel::Unwanted) {
                progress.cancel = Cancel::Wanted;
            }
            if matches!((&verdict, &progress.cancel), (Verdict::Repeat, Cancel::Wanted)) {
                let cancel = recovery::cancel(self.api, gateway, id);
                match unless_left(cancel, interrupts, asked).await {
                    None => return How::Left,
                    Some(Ok(())) => progress.cancel = Cancel::Answered,
                    Some(Err(reason)) => {
                        why = reason;
                        continue;
                    }
                }
            }
            let opened = match verdict {
                Verdict::Over(how) => return how,
                Verdict::Wait(reason) => {
                    why = reason;
                    continue;
                }
                Verdict::Repeat => {
                    progress.accepted = true;
                    let request = ProcessRequest {
                        protected_values: None,
                        ..self.order.request.clone()
                    };
                    self.open(&request, interrupts, asked, progress).await
                }
            };
            let how = match opened {
                None => return How::Left,
                Some(Err(error)) if error.may_pass() => {
                    why = error.to_string();
                    let away = [Code::GatewayNotConnected, Code::GatewayNotReady];
                    if away.iter().any(|code| code.as_str() == error.code()) {
                        match unless_left(recovery::is_shut_out(self.api, gateway), interrupts, asked).await {
                            None => return How::Left,
                            Some(true) => {
                                return How::Lost("the gateway was shut out; it does not come back".to_owned());
                            }
                            Some(false) => {}
                        }
                    }
                    continue;
                }
                Some(Err(error)) => return How::Lost(error.to_string()),
                Some(Ok(lines)) => self.follow(lines, outputs, interrupts, asked, progress).await,
            };
            match how {
                How::Lost(reason) => {
                    if !progress.recovering {
                        pauses = Pauses::new(patience);
                    }
                    why = reason;
                }
                How::Answered(outcome) if outcome.is_in_progress() => {
                    pauses.alive();
                    why = "the command still runs".to_owned();
                    if !std::mem::replace(&mut told_running, true) {
                        terminal::note("node-goblin: it still runs; the rest of its output comes when it has ended");
                    }
                }
                How::BeganAgain => {
                    // Best effort, and said so.
                    let _ = recovery::cancel(self.api, gateway, id).await;
                    return How::BeganAgain;
                }
                how => return how,
            }
        }
    }

    /// Sends the request and waits for the answer to begin; `None` when the user left.
    async fn open(
        &self,
        request: &ProcessRequest,
        interrupts: &mut Interrupts,
        asked: &mut Option<Interrupt>,
        progress: &mut Progress,
    ) -> Option<Result<Lines, ApiError>> {
        let path = routes::processes(&self.order.gateway, false);
        let mut opening = pin!(self.api.post_for_lines(&path, request));
        loop {
            tokio::select! {
                lines = &mut opening => return Some(lines),
                interrupt = interrupts.next() => {
                    if asked.replace(interrupt).is_some() {
                        return None;
                    }
                    self.want_cancel(progress);
                }
            }
        }
    }

    async fn follow(
        &self,
        mut lines: Lines,
        outputs: &mut Outputs,
        interrupts: &mut Interrupts,
        asked: &mut Option<Interrupt>,
        progress: &mut Progress,
    ) -> How {
        let mut waiting: VecDeque<Chunk> = VecDeque::new();
        let mut how = None;
        loop {
            if progress.fault.is_some() {
                waiting.clear();
            }
            // The answer counts once the output before it has been handed over.
            if waiting.is_empty()
                && let Some(how) = how.take()
            {
                return how;
            }
            let writable = progress.fault.is_none();
            tokio::select! {
                biased;
                interrupt = interrupts.next() => {
                    if asked.replace(interrupt).is_some() || !writable {
                        return How::Left;
                    }
                    self.want_cancel(progress);
                }
                room = outputs.room(), if writable && !waiting.is_empty() => match (room, waiting.pop_front()) {
                    (Some(room), Some(chunk)) => _ = room.send(chunk),
                    _ => progress.fault = Some(outputs.fault().await),
                },
                error = outputs.fault(), if writable => {
                    progress.fault = Some(error);
                    self.want_cancel(progress);
                }
                answered = answer(&mut progress.cancel) => {
                    progress.cancel = Cancel::Answered;
                    match answered {
                        Ok(Cancelled::Ending | Cancelled::NotRunning) => {}
                        // The recovery that follows sends it again.
                        Err(error) if error.may_pass() && self.recovery.is_some() => progress.cancel = Cancel::Wanted,
                        Ok(Cancelled::Refused(code)) => terminal::warn(format_args!("it could not be cancelled: {}", explained(&code))),
                        Err(error) => terminal::warn(format_args!("it could not be cancelled: {error}")),
                    }
                }
                line = lines.next(), if waiting.is_empty() && how.is_none() => match line {
                    Ok(Some(Line::Envelope(envelope))) => {
                        if progress.recovering && progress.accepted && matches!(envelope.body, Body::Accepted { .. }) {
                            return How::BeganAgain;
                        }
                        let outcome = self.take(&envelope, progress);
                        waiting.extend(self.chunks(&envelope, outcome.as_ref(), progress));
                        how = outcome.map(|outcome| How::Answered(Box::new(outcome)));
                    }
                    Ok(Some(Line::Lost(text, error))) => {
                        progress.last_line = (self.form == Form::Envelopes).then(|| with_newline(&text));
                        how = Some(How::Lost(explained(&error.code)));
                    }
                    Ok(None) => how = Some(How::Lost("the controller's answer ended too early".to_owned())),
                    Err(error) => how = Some(How::Lost(error.to_string())),
                },
            }
        }
    }

    /// Notes what an envelope tells; the last one is the outcome.
    fn take(&self, envelope: &Envelope, progress: &mut Progress) -> Option<Outcome> {
        match &envelope.body {
            Body::Accepted { .. } => {
                progress.accepted = true;
                // From here on it is a run like any other.
                progress.recovering = false;
                if matches!(progress.cancel, Cancel::Wanted) {
                    self.want_cancel(progress);
                }
            }
            Body::Stream { event, .. } => {
                progress.printed.event(event.seq);
                progress.cut |= event.truncated;
            }
            Body::Terminal { .. } => {
                if let Some(seq) = seq_of(envelope) {
                    progress.printed.event(seq);
                }
                progress.printed.complete();
            }
            Body::Answer { .. } => {
                let mut collected = Collected::default();
                collected.add(envelope.clone());
                return Some(Outcome::of(&collected, &self.order.request.operation_id));
            }
            Body::Closing(_) | Body::Other => {}
        }
        None
    }

    /// What is to be printed for an envelope. An outcome out of the journal brings the output that nothing streamed.
    fn chunks(&self, envelope: &Envelope, outcome: Option<&Outcome>, progress: &mut Progress) -> Vec<Chunk> {
        if let Some(Outcome::Ran { evidence, replay: true }) = outcome {
            let rest = progress.printed.rest(evidence);
            progress.unrecovered = progress.recovering && rest.lost;
            if self.form == Form::Output {
                return rest.chunks;
            }
        }
        if self.form == Form::Envelopes {
            // Whoever reads envelopes sees one final answer, the one that counts.
            let passing = progress.recovering && outcome.is_some_and(Outcome::is_in_progress);
            return if passing {
                Vec::new()
            } else {
                vec![with_newline(&envelope.text)]
            };
        }
        match &envelope.body {
            Body::Stream { event, .. } => {
                progress.printed.output(event.stream, event.data.len());
                vec![(event.stream, event.data.clone().into_bytes())]
            }
            _ => Vec::new(),
        }
    }

    /// Sends the cancel, or notes that it is to be sent when the operation has begun.
    fn want_cancel(&self, progress: &mut Progress) {
        if progress.recovering {
            // Sent with the next look at the record.
            progress.cancel = Cancel::Wanted;
            return;
        }
        let told = match (&progress.cancel, progress.accepted) {
            (Cancel::Unwanted, false) => {
                progress.cancel = Cancel::Wanted;
                "cancelling as soon as it has begun; press Ctrl-C again to leave at once"
            }
            (Cancel::Unwanted | Cancel::Wanted, true) => {
                let (api, gateway) = (self.api.clone(), self.order.gateway.clone());
                let operation_id = self.order.request.operation_id.clone();
                progress.cancel = Cancel::Sent(tokio::spawn(async move {
                    cancel::dispatch(&api, &gateway, &operation_id).await
                }));
                "cancelling; press Ctrl-C again to leave it running"
            }
            _ => return,
        };
        // Nobody pressed anything when the reader of the output went away.
        if progress.fault.is_none() {
            terminal::note(format_args!("node-goblin: {told}"));
        }
    }
}

/// True when the request may have reached the gateway although no answer began.
fn may_have_begun(error: &ApiError) -> bool {
    matches!(error, ApiError::Broken(_)) || error.code() == Code::GatewayDisconnected.as_str()
}

/// Waits for `work`; `None` when the user left, by a second interrupt.
async fn unless_left<T>(
    work: impl Future<Output = T>,
    interrupts: &mut Interrupts,
    asked: &mut Option<Interrupt>,
) -> Option<T> {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            interrupt = interrupts.next() => {
                if asked.replace(interrupt).is_some() {
                    return None;
                }
                terminal::note("node-goblin: cancelling as soon as it can be reached; press Ctrl-C again to leave at once");
            }
            done = &mut work => return Some(done),
        }
    }
}

/// The answer to a cancel that is on its way.
async fn answer(cancel: &mut Cancel) -> Result<Cancelled, ApiError> {
    match cancel {
        Cancel::Sent(task) => match task.await {
            Ok(answered) => answered,
            // The task neither panics nor is aborted.
            Err(_) => Ok(Cancelled::NotRunning),
        },
        _ => std::future::pending().await,
    }
}

fn with_newline(text: &[u8]) -> Chunk {
    (OutputStream::Stdout, [text, b"\n"].concat())
}

/// Number of an event.
fn seq_of(envelope: &Envelope) -> Option<u64> {
    #[derive(Deserialize)]
    struct Numbered {
        seq: u64,
    }
    let text = std::str::from_utf8(&envelope.text).ok()?;
    json::from_text::<Numbered>(text).ok().map(|event| event.seq)
}
