//! Real processes, real pipes.

mod aftermath;
mod alone;
mod limits;
mod output;
mod start;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::{Chunk, Form, Outcome, RunSpec, Runner, Sink, StartError, Stream, TimeoutReason};

/// Keeps every chunk; tells of each over a channel.
#[derive(Default)]
struct Seen {
    chunks: Vec<Chunk>,
    tell: Option<tokio::sync::mpsc::UnboundedSender<String>>,
}

impl Seen {
    fn text(&self, stream: Stream) -> String {
        let of_stream = self.chunks.iter().filter(|chunk| chunk.stream == stream);
        of_stream.map(|chunk| chunk.data.as_str()).collect()
    }
}

impl Sink for Seen {
    async fn chunk(&mut self, chunk: Chunk) {
        if let Some(tell) = &self.tell {
            let _ = tell.send(chunk.data.clone());
        }
        self.chunks.push(chunk);
    }
}

/// Takes the first chunks and then none.
struct Stuck {
    takes: usize,
}

impl Sink for Stuck {
    async fn chunk(&mut self, _: Chunk) {
        if self.takes == 0 {
            std::future::pending::<()>().await;
        }
        self.takes -= 1;
    }
}

fn spec(form: Form) -> RunSpec {
    RunSpec {
        form,
        cwd: None,
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        secrets: Vec::new(),
        timeout: Duration::from_secs(30),
        deadline: None,
        max_output_bytes: 1 << 20,
        retain_bytes: 2 << 20,
    }
}

fn shell(command: &str) -> RunSpec {
    spec(Form::Shell {
        command: command.into(),
    })
}

fn exec(executable: &str, args: &[&str]) -> RunSpec {
    spec(Form::Exec {
        executable: executable.into(),
        args: args.iter().map(ToString::to_string).collect(),
    })
}

fn secret(value: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(value.as_bytes().to_vec())
}

fn env(name: &str, value: impl Into<OsString>) -> (OsString, OsString) {
    (name.into(), value.into())
}

fn timeout(mut spec: RunSpec, ms: u64) -> RunSpec {
    spec.timeout = Duration::from_millis(ms);
    spec
}

fn cap(mut spec: RunSpec, bytes: u64) -> RunSpec {
    spec.max_output_bytes = bytes;
    spec
}

/// A running operation, whose output can be waited for.
struct Running {
    runner: Runner,
    cancel: CancellationToken,
    task: tokio::task::JoinHandle<Result<Outcome, StartError>>,
    output: tokio::sync::mpsc::UnboundedReceiver<String>,
    so_far: String,
}

impl Running {
    fn start(spec: RunSpec) -> Self {
        let (runner, cancel) = (Runner::new(), CancellationToken::new());
        let (tell, output) = tokio::sync::mpsc::unbounded_channel();
        let (own, token) = (runner.clone(), cancel.clone());
        let task = tokio::spawn(async move {
            let mut seen = Seen {
                tell: Some(tell),
                ..Seen::default()
            };
            own.run(spec, &token, &mut seen).await
        });
        Self {
            runner,
            cancel,
            task,
            output,
            so_far: String::new(),
        }
    }

    /// Waits until the output holds this text; returns all of it.
    async fn says(&mut self, text: &str) -> String {
        while !self.so_far.contains(text) {
            let more = self.output.recv().await;
            self.so_far.push_str(&more.expect("output ended"));
        }
        self.so_far.clone()
    }

    async fn outcome(self) -> Outcome {
        self.task.await.unwrap().unwrap()
    }

    /// Cancels and tells how long the answer took.
    async fn cancelled(self) -> (Outcome, Duration) {
        let started = Instant::now();
        self.cancel.cancel();
        let outcome = self.outcome().await;
        (outcome, started.elapsed())
    }
}

/// Whether the process exists and is no zombie.
fn alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Whether the process still takes up a number, if only as a zombie.
fn exists(pid: &str) -> bool {
    std::path::Path::new("/proc").join(pid).exists()
}

/// Waits for something that nobody announces.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(5), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn ms(duration: Duration) -> u128 {
    duration.as_millis()
}

async fn try_run(spec: RunSpec) -> Result<(Outcome, Seen), StartError> {
    let mut seen = Seen::default();
    let outcome = Runner::new().run(spec, &CancellationToken::new(), &mut seen).await?;
    Ok((outcome, seen))
}

async fn run(spec: RunSpec) -> Outcome {
    try_run(spec).await.unwrap().0
}
