//! One operation from start to outcome.
//!
//! Owns: the order of start, pump, sweep and settlement. Must never know: how each is done.

use std::ffi::{CString, OsStr};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use rustix::process::Pid;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::background::Background;
use crate::capture::Capture;
use crate::error::StartError;
use crate::leader::Leader;
use crate::outcome::{Outcome, TimeoutReason};
use crate::pipes::{Pipes, Read, Swept, WriteEnds};
use crate::resolve;
use crate::spawn::{self, Plan, StringList};
use crate::spec::{Chunk, Form, RunSpec, Sink, Stream};
use crate::watch::{Limit, Watch, timer};

/// What the shell form starts.
const SHELL: &str = "/bin/sh";

/// How often a program that is being written to is tried again. Another start can hold a writing
/// descriptor of it for the moment between its clone and its exec.
const BUSY_TRIES: u32 = 6;

/// Executes commands, and owns what is left over of them. Cheap to clone; all clones are one.
/// Needs a Tokio runtime with its I/O and time drivers, and Linux 5.4 for pidfds.
#[derive(Clone)]
pub struct Runner {
    background: Arc<Background>,
}

impl Default for Runner {
    fn default() -> Self {
        Self::new()
    }
}

impl Runner {
    /// A runner with nothing to do. When the process has inherited SIGCHLD ignored, its default
    /// disposition is restored: without it no exit status could be read.
    pub fn new() -> Self {
        spawn::keep_children_waitable();
        Self {
            background: Arc::new(Background::new()),
        }
    }

    /// Executes one command and returns when it is settled.
    ///
    /// Cancel and limits end the whole process group: SIGTERM, SIGKILL after 1 000 ms, and an
    /// answer after 1 100 ms at the latest. A leader that exits by itself ends the operation
    /// when its output ends, or after 1 000 ms when another process still holds the output; its
    /// group is then left alone. A command that is cancelled before it starts is started and
    /// ended at once, like one whose deadline has passed.
    ///
    /// A future that is dropped before its end kills the group at once.
    pub async fn run<S: Sink>(
        &self,
        spec: RunSpec,
        cancel: &CancellationToken,
        sink: &mut S,
    ) -> Result<Outcome, StartError> {
        let (mut pipes, ends) = Pipes::new().map_err(StartError::failed)?;
        let cwd = effective_cwd(spec.cwd.as_deref());
        let started_at = SystemTime::now();
        let started = Instant::now();
        let pid = start(&spec, &cwd, ends).await?;
        let leader = Leader::new(pid, self.background.tracker().clone()).map_err(StartError::failed)?;

        let limit = limit(&spec, started, started_at);
        let mut capture = Capture::new(&spec.secrets, spec.max_output_bytes, spec.retain_bytes);
        drop(spec);
        let cancelled = pin!(cancel.cancelled());
        let timer = pin!(timer());
        let mut watch = Watch::new(leader, limit, cancelled, timer);

        pump(&mut watch, &mut pipes, &mut capture, sink).await;

        let verdict = watch.settle(&self.background);
        let exit = verdict.exit.unwrap_or_default();
        let output_held_open = pipes.open() && verdict.exit.is_some();
        for pipe in pipes.into_open() {
            self.background.hold(pipe);
        }
        let (stdout, stderr, truncated) = capture.into_parts();
        Ok(Outcome {
            started_at,
            ended_at: SystemTime::now(),
            duration: started.elapsed(),
            cwd,
            exit_code: exit.code,
            signal: exit.signal,
            cancelled: verdict.cancelled,
            killed: verdict.killed,
            truncated,
            timed_out: verdict.timeout_reason.is_some(),
            timeout_reason: verdict.timeout_reason,
            stdout,
            stderr,
            output_held_open,
        })
    }

    /// Waits until no member of a settled operation's group that had to end is left alive: the
    /// pending SIGKILLs go out at their time. Operations that still run are not waited for.
    pub async fn settle(&self) {
        self.background.settled().await;
    }

    /// Like [`Runner::settle`], with the pending SIGKILLs sent at once.
    pub async fn settle_now(&self) {
        self.background.hurry();
        self.background.settled().await;
    }
}

/// Pumps output until both streams have ended and the leader with them, or until the watch says
/// that it is time to settle.
async fn pump<S: Sink>(watch: &mut Watch<'_, '_>, pipes: &mut Pipes, capture: &mut Capture, sink: &mut S) {
    // Once a delivery was given up, no further chunk may follow it.
    let mut delivered = true;
    let mut terminated = false;
    loop {
        let read = {
            let read = pin!(pipes.read(|stream, read| feed(capture, stream, read)));
            watch.during(read).await
        };
        let Some(read) = read else { break };
        let Some(chunk) = read else {
            watch.output_ended();
            // Ends when the leader does.
            let _ = watch.during(pin!(std::future::pending::<()>())).await;
            return;
        };
        if capture.overflowed() && !terminated {
            terminated = true;
            watch.overflow();
        }
        if let Some(chunk) = chunk {
            delivered = deliver(watch, pipes, sink, chunk).await;
            if !delivered {
                break;
            }
        }
    }

    // Time to settle: what is in the pipes belongs to the outcome, and as far as the sink takes
    // it without a wait, to the stream.
    let mut swept = Swept::default();
    while let Some(chunk) = pipes.sweep(|stream, read| feed(capture, stream, read), &mut swept) {
        offer(&mut delivered, sink, chunk).await;
    }
    for stream in pipes.streams() {
        let chunk = capture.abandon(stream);
        offer(&mut delivered, sink, chunk).await;
    }
    if capture.overflowed() && !terminated {
        watch.overflow();
    }
}

fn feed(capture: &mut Capture, stream: Stream, read: Read<'_>) -> Option<Chunk> {
    match read {
        Read::Bytes(bytes) => capture.push(stream, bytes),
        Read::End => capture.finish(stream),
    }
}

/// Whether the chunk was taken before the operation had to be settled.
async fn deliver<S: Sink>(watch: &mut Watch<'_, '_>, pipes: &Pipes, sink: &mut S, chunk: Chunk) -> bool {
    let mut delivery = pin!(sink.chunk(chunk));
    loop {
        if watch.during(delivery.as_mut()).await.is_some() {
            return true;
        }
        if !(pipes.hung_up() && watch.grant_delivery()) {
            return false;
        }
    }
}

/// Delivers a chunk if the sink takes it at once; nothing after one that it did not.
async fn offer<S: Sink>(delivered: &mut bool, sink: &mut S, chunk: Option<Chunk>) {
    if let (true, Some(chunk)) = (*delivered, chunk) {
        *delivered = tokio::select! {
            biased;
            () = sink.chunk(chunk) => true,
            () = std::future::ready(()) => false,
        };
    }
}

/// Starts the command. The writing ends are closed on our side when this returns, which also
/// frees the descriptor that the pidfd needs.
async fn start(spec: &RunSpec, cwd: &Path, ends: WriteEnds) -> Result<Pid, StartError> {
    // Without a wish the child simply stays where we are, whatever we may do there.
    let folder = spec.cwd.as_ref().map(|_| cwd);
    let mut args = StringList::with_capacity(3, 0);
    let program = match &spec.form {
        Form::Shell { command } => {
            for arg in [SHELL, "-c", command] {
                args.push(&[arg.as_bytes()]).map_err(StartError::failed)?;
            }
            PathBuf::from(SHELL)
        }
        Form::Exec { executable, args: rest } => {
            args.push(&[executable.as_bytes()]).map_err(StartError::failed)?;
            for arg in rest {
                args.push(&[arg.as_bytes()]).map_err(StartError::failed)?;
            }
            let path = spec.env.iter().find(|(name, _)| name == "PATH");
            let path = path.map(|(_, value)| value.as_os_str());
            resolve::resolve(OsStr::new(executable), path, cwd)
                .map_err(|error| folder.and_then(resolve::check_folder).unwrap_or(error))?
        }
    };
    let length = |(name, value): &(std::ffi::OsString, std::ffi::OsString)| name.len() + 1 + value.len();
    let mut env = StringList::with_capacity(spec.env.len(), spec.env.iter().map(length).sum());
    for (name, value) in &spec.env {
        env.push(&[name.as_bytes(), b"=", value.as_bytes()])
            .map_err(StartError::failed)?;
    }
    let c_program = c_string(&program)?;
    let c_cwd = spec.cwd.as_deref().map(c_string).transpose()?;
    let plan = || Plan {
        program: &c_program,
        args: &args,
        env: &env,
        cwd: c_cwd.as_deref(),
        stdout: ends.stdout.as_fd(),
        stderr: ends.stderr.as_fd(),
    };
    let mut tries = 1;
    loop {
        match spawn::spawn(&plan()) {
            Ok(pid) => return Ok(pid),
            Err(Errno::TXTBSY) if tries < BUSY_TRIES => {
                tokio::time::sleep(Duration::from_millis(1 << tries)).await;
                tries += 1;
            }
            Err(errno) => return Err(resolve::explain(errno, &cwd.join(&program), folder)),
        }
    }
}

fn c_string(path: &Path) -> Result<CString, StartError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| StartError::failed(Errno::INVAL))
}

/// The child's folder, absolute as long as our own folder still has a path.
fn effective_cwd(cwd: Option<&Path>) -> PathBuf {
    match (cwd, std::env::current_dir()) {
        (Some(cwd), _) if cwd.is_absolute() => cwd.to_path_buf(),
        (Some(cwd), Ok(own)) => own.join(cwd),
        (Some(cwd), Err(_)) => cwd.to_path_buf(),
        (None, Ok(own)) => own,
        (None, Err(_)) => PathBuf::from("."),
    }
}

/// The earlier of the two limits; `None` when neither can ever be reached.
fn limit(spec: &RunSpec, started: Instant, started_at: SystemTime) -> Option<Limit> {
    let timeout = started.checked_add(spec.timeout).map(|at| Limit {
        at,
        reason: TimeoutReason::Timeout,
    });
    let deadline = spec.deadline.and_then(|deadline| {
        let left = deadline.duration_since(started_at).unwrap_or_default();
        started.checked_add(left).map(|at| Limit {
            at,
            reason: TimeoutReason::Deadline,
        })
    });
    match (timeout, deadline) {
        (Some(timeout), Some(deadline)) if deadline.at < timeout.at => Some(deadline),
        (None, deadline) => deadline,
        (timeout, _) => timeout,
    }
}
