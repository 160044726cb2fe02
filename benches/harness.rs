//! What the benchmarks share: the program started from outside, floors, medians and rows.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_node-goblin");

/// A gateway over standard streams, with a state directory of its own.
pub struct Daemon {
    child: Child,
    streams: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    state: TempDir,
}

impl Daemon {
    pub fn start_with_state() -> Self {
        let state = tempfile::tempdir().expect("a temporary directory");
        let mut child = Command::new(PROGRAM)
            .args(["gateway", "--state-dir"])
            .arg(state.path().join("state"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::with_capacity(1 << 20, child.stdout.take().expect("a pipe"));
        Self {
            child,
            streams: Mutex::new((input, output)),
            state,
        }
    }

    /// A folder for the benchmark's files.
    pub fn scratch(&self) -> &Path {
        self.state.path()
    }

    /// Sends a request; gives its final answer.
    pub fn request(&self, line: &str) -> String {
        let mut streams = self.streams.lock().expect("one user");
        streams
            .0
            .write_all(format!("{line}\n").as_bytes())
            .expect("the daemon reads");
        next_answer(&mut streams.1)
    }

    /// Runs a process; gives the response.
    pub fn execute(&self, id: &str, params: &str) -> String {
        let answer = self.request(&format!(
            r#"{{"id":"{id}","method":"process.exec","params":{{"operationId":"{id}",{params}}}}}"#
        ));
        assert!(answer.contains(r#""ok":true"#), "{answer}");
        answer
    }

    pub fn execute_true(&self, id: &str) -> Duration {
        let begun = Instant::now();
        self.execute(id, r#""executable":"/bin/true""#);
        begun.elapsed()
    }

    /// Operations a second with so many outstanding.
    pub fn execution_rate(&self, name: &str, outstanding: usize, total: usize) -> f64 {
        let mut streams = self.streams.lock().expect("one user");
        let (input, output) = &mut *streams;
        let mut send = |n: usize| {
            let line = format!(
                r#"{{"id":"{n}","method":"process.exec","params":{{"operationId":"{name}-{n}","executable":"/bin/true"}}}}"#
            );
            input
                .write_all(format!("{line}\n").as_bytes())
                .expect("the daemon reads");
        };
        let begun = Instant::now();
        (0..outstanding).for_each(&mut send);
        for done in 1..=total {
            assert!(next_answer(output).contains(r#""exitCode":0"#));
            if done + outstanding <= total {
                send(done + outstanding);
            }
        }
        total as f64 / begun.elapsed().as_secs_f64()
    }

    pub fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("a live process");
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .expect("its memory");
        line.split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse().ok())
            .expect("a number")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn next_answer(output: &mut impl BufRead) -> String {
    loop {
        let mut line = String::new();
        assert!(
            output.read_line(&mut line).expect("the daemon writes") > 0,
            "the daemon ended"
        );
        if line.starts_with(r#"{"type":"response""#) || line.starts_with(r#"{"type":"error""#) {
            return line;
        }
    }
}

/// A controller and a gateway paired with it, both as processes.
pub struct Controller {
    controller: Child,
    gateway: Child,
    state: TempDir,
}

impl Controller {
    pub fn start_with_gateway() -> Self {
        let state = tempfile::tempdir().expect("a temporary directory");
        let directory = state.path().join("controller");
        let mut controller = Command::new(PROGRAM)
            .args(["controller", "--listen", "127.0.0.1:0", "--http", "off", "--state-dir"])
            .arg(&directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut ready = String::new();
        BufReader::new(controller.stdout.take().expect("a pipe"))
            .read_line(&mut ready)
            .expect("a line");
        let address = ready
            .split_whitespace()
            .find_map(|word| word.strip_prefix("tls="))
            .expect("ready tls=HOST:PORT")
            .to_owned();
        let gateway = Command::new(PROGRAM)
            .args([
                "gateway",
                "--id",
                "bench",
                "--controller",
                &format!("tls://{address}"),
                "--state-dir",
            ])
            .arg(state.path().join("gateway"))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let this = Self {
            controller,
            gateway,
            state,
        };
        this.poll(&["pairings", "approve", "bench", "--yes"]);
        this.poll(&["exec", "bench", "--", "/bin/true"]);
        this
    }

    /// Repeats a command until it succeeds: the other process is still on its way.
    fn poll(&self, words: &[&str]) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let succeeds = || {
            let mut command = Command::new(PROGRAM);
            command
                .args(words)
                .env("NODE_GOBLIN_STATE_DIR", self.directory())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().expect("the program starts").success()
        };
        while !succeeds() {
            assert!(Instant::now() < deadline, "{words:?} never succeeded");
        }
    }

    fn directory(&self) -> PathBuf {
        self.state.path().join("controller")
    }

    /// One HTTP connection to the controller's socket, kept alive.
    pub fn connect(&self) -> Http {
        let stream = UnixStream::connect(self.directory().join("controller.sock")).expect("the controller listens");
        Http(BufReader::new(stream))
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        for child in [&mut self.gateway, &mut self.controller] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A kept HTTP/1.1 connection.
pub struct Http(BufReader<UnixStream>);

impl Http {
    pub fn execute_true(&mut self, id: &str) -> Duration {
        let begun = Instant::now();
        let body = format!(r#"{{"operationId":"{id}","executable":"/bin/true"}}"#);
        let answer = self.post("/api/mods/node-goblin/gateways/bench/processes", &body);
        assert!(answer.contains(r#""exitCode":0"#), "{answer}");
        begun.elapsed()
    }

    fn post(&mut self, path: &str, body: &str) -> String {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.0
            .get_mut()
            .write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())
            .expect("the controller reads");
        let mut length = None;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("the controller answers");
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok();
            }
        }
        let mut content = vec![0; length.expect("a length")];
        self.0.read_exact(&mut content).expect("a body");
        String::from_utf8(content).expect("text")
    }
}

/// The floor: the system's own way to start `/bin/true` and wait for it.
pub fn bare_spawn() -> Duration {
    let begun = Instant::now();
    spawn_true();
    begun.elapsed()
}

fn spawn_true() {
    let status = Command::new("/bin/true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.expect("/bin/true starts").success());
}

/// Bare starts a second from so many threads.
pub fn spawn_rate(threads: usize, total: usize) -> f64 {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..total / threads).for_each(|_| spawn_true()));
        }
    });
    total as f64 / begun.elapsed().as_secs_f64()
}

pub fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

/// One figure beside its floor.
pub struct Row(String);

impl Row {
    pub const HEAD: &str = "figure (median)                                  measured                         floor";

    pub fn ratio(name: &str, measured: Duration, floor_name: &str, floor: Duration, goal: f64) -> Self {
        let ratio = measured.as_secs_f64() / floor.as_secs_f64();
        Self(format!(
            "{name:44} {:>10.3} ms {floor_name:>25} {:>8.3} ms {ratio:>6.2} × goal ≤ {goal:.2} × {}",
            millis(measured),
            millis(floor),
            verdict(ratio <= goal)
        ))
    }

    pub fn difference(name: &str, measured: Duration, floor_name: &str, floor: Duration, goal: Duration) -> Self {
        let more = measured.saturating_sub(floor);
        Self(format!(
            "{name:44} {:>10.3} ms {floor_name:>25} {:>8.3} ms +{:.3} ms goal ≤ +{:.1} ms {}",
            millis(measured),
            millis(floor),
            millis(more),
            millis(goal),
            verdict(more <= goal)
        ))
    }

    pub fn absolute(name: &str, measured: Duration, goal: Duration) -> Self {
        Self(format!(
            "{name:44} {:>10.3} ms {:>37} {:.0} ms {}",
            millis(measured),
            "goal ≤",
            millis(goal),
            verdict(measured <= goal)
        ))
    }

    pub fn print(self) {
        println!("{}", self.0);
    }
}

pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
