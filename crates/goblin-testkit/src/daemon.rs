//! The daemon over standard streams, as a process of its own.

use crate::waiting::{LIMIT, eventually};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Instant;

/// A running daemon and everything that it wrote.
pub struct StdioDaemon {
    child: Child,
    input: Option<ChildStdin>,
    frames: Receiver<Value>,
    seen: Vec<Value>,
    errors: Option<JoinHandle<String>>,
}

/// The frames of one request.
#[derive(Debug)]
pub struct Answer {
    /// The response or protocol error.
    pub last: Value,
}

impl Answer {
    /// The error's code, or "".
    pub fn code(&self) -> &str {
        self.last["error"]["code"].as_str().unwrap_or_default()
    }

    /// The outcome of an operation.
    pub fn outcome(&self) -> &Value {
        &self.last["result"]["outcome"]
    }

    /// True for a replayed outcome.
    pub fn is_replay(&self) -> bool {
        self.last["result"]["replay"] == json!(true)
    }
}

impl StdioDaemon {
    /// Starts `program gateway`, with a state directory where one is given.
    pub fn start(program: &str, state: Option<&Path>) -> Self {
        let mut command = Command::new(program);
        command.arg("gateway");
        if let Some(state) = state {
            command.arg("--state-dir").arg(state);
        }
        Self::start_command(&mut command)
    }

    /// Starts any command that is a daemon over standard streams.
    pub fn start_command(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let output = child.stdout.take().expect("a pipe");
        let mut errors = child.stderr.take().expect("a pipe");
        let (sender, frames) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n') {
                let Ok(line) = line else { return };
                assert!(line.len() < 2 * 1024 * 1024, "a frame over the cap");
                let frame = serde_json::from_slice(&line).expect("every line is JSON");
                if sender.send(frame).is_err() {
                    return;
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Self {
            input: child.stdin.take(),
            child,
            frames,
            seen: Vec::new(),
            errors: Some(errors),
        }
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes bytes as they are; false when the daemon no longer reads.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        self.input
            .as_mut()
            .is_some_and(|input| input.write_all(bytes).and_then(|()| input.flush()).is_ok())
    }

    /// Sends a request without waiting.
    pub fn send(&mut self, id: &str, method: &str, params: Value) {
        let line = json!({"id": id, "method": method, "params": params});
        assert!(self.write(format!("{line}\n").as_bytes()), "the daemon reads");
    }

    /// Sends a request and waits for its answer.
    pub fn request(&mut self, id: &str, method: &str, params: Value) -> Answer {
        self.send(id, method, params);
        self.answer(id)
    }

    /// Runs a command line under an operation id and waits for its answer.
    pub fn shell(&mut self, operation: &str, command: &str) -> Answer {
        self.request(
            operation,
            "process.exec",
            json!({"operationId": operation, "command": command}),
        )
    }

    /// Waits for the answer of a request.
    pub fn answer(&mut self, id: &str) -> Answer {
        let last = self.frame(&format!("the answer of {id}"), |frame| {
            frame["requestId"] == json!(id) && matches!(frame["type"].as_str(), Some("response" | "error"))
        });
        Answer { last }
    }

    /// Waits until an operation has written a text to standard output.
    pub fn output(&mut self, operation: &str, text: &str) {
        self.frame(&format!("{text:?} of {operation}"), |frame| {
            frame["type"] == json!("process.stream")
                && frame["operationId"] == json!(operation)
                && frame["data"].as_str().is_some_and(|data| data.contains(text))
        });
    }

    /// Waits for a frame, past or to come; each is given once.
    pub fn frame(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(found) = self.seen.iter().position(&wanted) {
                return self.seen.remove(found);
            }
            match self
                .frames
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(frame) => self.seen.push(frame),
                Err(RecvTimeoutError::Timeout) => panic!("{what}: not within {LIMIT:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("{what}: the daemon ended"),
            }
        }
    }

    /// Ends its input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.child.id().to_string())
            .status();
        assert!(status.expect("kill starts").success());
    }

    /// Waits for its end; gives status, standard error and the frames that nobody took.
    pub fn end(mut self) -> (ExitStatus, String, Vec<Value>) {
        let status = eventually("the daemon's end", || self.child.try_wait().expect("a child"));
        let errors = self
            .errors
            .take()
            .map(|thread| thread.join().expect("a thread"))
            .unwrap_or_default();
        let mut frames = std::mem::take(&mut self.seen);
        frames.extend(self.frames.iter());
        (status, errors, frames)
    }

    /// Memory of its own (neither files nor code), in KiB.
    pub fn anonymous_kib(&self) -> u64 {
        self.memory_kib("RssAnon:")
    }

    /// Resident memory, in KiB.
    pub fn resident_kib(&self) -> u64 {
        self.memory_kib("VmRSS:")
    }

    fn memory_kib(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a live process");
        let line = status.lines().find(|line| line.starts_with(field)).expect("its memory");
        line.split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse().ok())
            .expect("a number")
    }
}

impl Drop for StdioDaemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
