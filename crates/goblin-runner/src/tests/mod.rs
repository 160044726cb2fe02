//! Real processes, real pipes.

mod limits;
mod output;
mod start;

use std::ffi::OsString;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::{Chunk, Form, Outcome, RunSpec, Runner, Sink, StartError, Stream};

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

async fn try_run(spec: RunSpec) -> Result<(Outcome, Seen), StartError> {
    let mut seen = Seen::default();
    let outcome = Runner::new().run(spec, &CancellationToken::new(), &mut seen).await?;
    Ok((outcome, seen))
}

async fn run(spec: RunSpec) -> Outcome {
    try_run(spec).await.unwrap().0
}
