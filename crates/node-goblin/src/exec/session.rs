//! One command under way: envelopes in, output out, and what Ctrl-C means in between.

use crate::api::{Api, ApiError, Line, Lines, explained};
use crate::cancel::{self, Cancelled};
use crate::exec::Order;
use crate::exec::ending::{Ended, How, Outcome};
use crate::interrupts::{Interrupt, Interrupts};
use crate::outputs::{Chunk, Outputs};
use crate::terminal::{self, OutputError};
use anyhow::bail;
use goblin_api::routes;
use goblin_client::{Body, Collected, Envelope};
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
}

/// What has been seen so far.
#[derive(Default)]
struct Progress {
    accepted: bool,
    /// Number of the last event.
    seq: u64,
    /// Events that did not arrive.
    missing: u64,
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
        let how = match self.open(interrupts, &mut asked, &mut progress).await? {
            Some(lines) => {
                self.follow(lines, &mut outputs, interrupts, &mut asked, &mut progress)
                    .await
            }
            None => How::Left,
        };
        let mut fault = progress.fault.take();
        if fault.is_none() && !matches!(how, How::Left) {
            // A reader that takes nothing must not keep a user who wants to leave.
            fault = tokio::select! {
                finished = outputs.finish() => finished.err(),
                _ = interrupts.next() => Some(OutputError::Closed),
            };
        }
        Ok(Ended {
            how,
            asked,
            began: progress.accepted,
            missing: progress.missing,
            cut: progress.cut,
            fault,
            envelopes: self.form == Form::Envelopes,
        })
    }

    /// Sends the request and waits for the answer to begin; `None` when the user left.
    async fn open(
        &self,
        interrupts: &mut Interrupts,
        asked: &mut Option<Interrupt>,
        progress: &mut Progress,
    ) -> anyhow::Result<Option<Lines>> {
        let path = routes::processes(&self.order.gateway, false);
        let mut opening = pin!(self.api.post_for_lines(&path, &self.order.request));
        loop {
            tokio::select! {
                lines = &mut opening => return match lines {
                    Ok(lines) => Ok(Some(lines)),
                    Err(error @ ApiError::Broken(_)) => {
                        bail!("{error}; it is not known whether the command runs. This asks for it without running it twice: {}", self.order.command_line(false))
                    }
                    Err(error) => Err(error.about(&self.order.gateway)),
                },
                interrupt = interrupts.next() => {
                    if asked.replace(interrupt).is_some() {
                        return Ok(None);
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
                        Ok(Cancelled::Refused(code)) => terminal::warn(format_args!("it could not be cancelled: {}", explained(&code))),
                        Err(error) => terminal::warn(format_args!("it could not be cancelled: {error}")),
                    }
                }
                line = lines.next(), if waiting.is_empty() && how.is_none() => match line {
                    Ok(Some(Line::Envelope(envelope))) => {
                        let outcome = self.take(&envelope, progress);
                        waiting.extend(self.chunks(&envelope, outcome.as_ref()));
                        how = outcome.map(|outcome| How::Answered(Box::new(outcome)));
                    }
                    Ok(Some(Line::Lost(text, error))) => {
                        waiting.extend((self.form == Form::Envelopes).then(|| with_newline(&text)));
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
                if matches!(progress.cancel, Cancel::Wanted) {
                    self.want_cancel(progress);
                }
            }
            Body::Stream { event, .. } => {
                progress.next_event(event.seq);
                progress.cut |= event.truncated;
            }
            Body::Terminal { .. } => {
                if let Some(seq) = seq_of(envelope) {
                    progress.next_event(seq);
                }
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
    fn chunks(&self, envelope: &Envelope, outcome: Option<&Outcome>) -> Vec<Chunk> {
        if self.form == Form::Envelopes {
            return vec![with_newline(&envelope.text)];
        }
        match (&envelope.body, outcome) {
            (Body::Stream { event, .. }, _) => vec![(event.stream, event.data.clone().into_bytes())],
            (_, Some(Outcome::Ran { evidence, replay: true })) => vec![
                (OutputStream::Stdout, evidence.stdout.clone().into_bytes()),
                (OutputStream::Stderr, evidence.stderr.clone().into_bytes()),
            ],
            _ => Vec::new(),
        }
    }

    /// Sends the cancel, or notes that it is to be sent when the operation has begun.
    fn want_cancel(&self, progress: &mut Progress) {
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

impl Progress {
    fn next_event(&mut self, seq: u64) {
        self.missing += seq.saturating_sub(self.seq + 1);
        self.seq = self.seq.max(seq);
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
