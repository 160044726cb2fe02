//! A controller, gateways and commands as processes of one test, and a line between them that can be cut.

use crate::PROGRAM;
use goblin_testkit::eventually;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// What every route begins with.
const PREFIX: &str = "/api/mods/node-goblin";

type Text = Arc<Mutex<Vec<u8>>>;

/// A process of the program, and what it has written so far.
pub struct Running {
    child: Child,
    stdout: Text,
    stderr: Text,
    readers: Vec<std::thread::JoinHandle<()>>,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ended {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    /// Standard output of a success.
    #[track_caller]
    pub fn good(&self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.text(), self.stderr);
        self.text()
    }

    /// Standard error of a failure with this code.
    #[track_caller]
    pub fn bad(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{}{}", self.text(), self.stderr);
        &self.stderr
    }
}

impl Running {
    /// Starts a command that reads nothing.
    pub fn start(command: &mut Command) -> Self {
        Self::start_reading(command.stdin(Stdio::null()))
    }

    /// Starts a command that reads what the caller has set.
    pub fn start_reading(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut readers = Vec::new();
        let mut kept = |mut from: Box<dyn Read + Send>| {
            let text = Text::default();
            let into = text.clone();
            readers.push(std::thread::spawn(move || {
                let mut block = vec![0; 64 * 1024];
                while let Ok(read) = from.read(&mut block)
                    && read > 0
                {
                    into.lock().unwrap().extend_from_slice(&block[..read]);
                }
            }));
            text
        };
        let stdout = kept(Box::new(child.stdout.take().unwrap()));
        let stderr = kept(Box::new(child.stderr.take().unwrap()));
        Self {
            child,
            stdout,
            stderr,
            readers,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Standard output so far.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.stdout.lock().unwrap()).into_owned()
    }

    /// Standard error so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap()).into_owned()
    }

    /// Waits for a text on standard output.
    #[track_caller]
    pub fn prints(&self, text: &str) {
        eventually(&format!("{text:?} on standard output"), || {
            self.printed().contains(text).then_some(())
        });
    }

    /// Waits for a text on standard error.
    #[track_caller]
    pub fn logged(&self, text: &str) {
        eventually(&format!("{text:?} on standard error"), || {
            self.log().contains(text).then_some(())
        });
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        signal(&self.pid().to_string(), name);
    }

    /// The exit code of one that has ended; -1 when a signal ended it.
    pub fn exit(&mut self) -> Option<i32> {
        let status = self.child.try_wait().unwrap()?;
        Some(status.code().unwrap_or(-1))
    }

    /// Waits for its end, and for the end of what it writes.
    pub fn end(mut self) -> Ended {
        let status = eventually("the end of the process", || self.child.try_wait().unwrap());
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        Ended {
            code: status.code(),
            stdout: std::mem::take(&mut self.stdout.lock().unwrap()),
            stderr: self.log(),
        }
    }

    /// Asks it to end, and waits.
    pub fn stop(self) -> Ended {
        self.signal("TERM");
        self.end()
    }

    /// Ends it as a crash would, and waits.
    pub fn kill(self) {
        self.signal("KILL");
        self.end();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process of the test's own.
pub fn signal(pid: &str, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), pid]).status().unwrap();
    assert!(sent.success(), "{name} to {pid}");
}

/// A gateway that dials a port of this machine.
pub fn gateway(port: u16, id: &str, state: &Path, configure: impl FnOnce(&mut Command)) -> Running {
    let mut command = Command::new(PROGRAM);
    command
        .args(["gateway", "--id", id, "--controller"])
        .arg(format!("tls://127.0.0.1:{port}"))
        .arg("--state-dir")
        .arg(state)
        .env_remove("RUST_LOG")
        .env_remove("HTTPS_PROXY")
        .env_remove("https_proxy");
    configure(&mut command);
    Running::start(&mut command)
}

/// The command line of a controller on a state directory.
pub fn controller_command(state: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(["controller", "--listen", "127.0.0.1:0", "--state-dir"])
        .arg(state)
        .env_remove("RUST_LOG");
    command
}

/// A controller in a directory of its own.
pub struct Fleet {
    pub folder: TempDir,
    pub controller: Running,
    /// Where it listens for gateways.
    pub port: u16,
}

impl Fleet {
    pub fn new() -> Self {
        Self::with(|_| ())
    }

    /// A controller with further flags.
    pub fn with(configure: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (controller, port) = Self::serve(folder.path(), configure);
        Self {
            folder,
            controller,
            port,
        }
    }

    fn serve(folder: &Path, configure: impl FnOnce(&mut Command)) -> (Running, u16) {
        let mut command = controller_command(&folder.join("controller"));
        configure(&mut command);
        let controller = Running::start(&mut command);
        controller.prints("\n");
        let printed = controller.printed();
        let address = printed.strip_prefix("ready tls=127.0.0.1:").expect("the first line");
        let port = address.trim_end().parse().unwrap();
        (controller, port)
    }

    /// Starts the controller again on what it kept, after it was ended.
    pub fn serve_again(&mut self) {
        (self.controller, self.port) = Self::serve(self.folder.path(), |_| ());
    }

    /// State directory of the controller.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("controller")
    }

    /// State directory of a gateway.
    pub fn state_of(&self, id: &str) -> PathBuf {
        self.folder.path().join(id)
    }

    /// A path in the test's directory.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// A command line for this controller.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(words)
            .env("NODE_GOBLIN_STATE_DIR", self.state())
            .env_remove("RUST_LOG");
        command
    }

    /// Starts a command.
    pub fn begin(&self, words: &[&str]) -> Running {
        Running::start(&mut self.command(words))
    }

    /// Runs a command to its end.
    pub fn run(&self, words: &[&str]) -> Ended {
        self.begin(words).end()
    }

    /// Runs a command line on a gateway.
    pub fn shell(&self, id: &str, command: &str) -> Ended {
        self.run(&["exec", id, "--shell", command])
    }

    /// Starts a gateway that dials the controller.
    pub fn gateway(&self, id: &str) -> Running {
        gateway(self.port, id, &self.state_of(id), |_| ())
    }

    /// Starts a gateway and lets it in.
    pub fn paired(&self, id: &str) -> Running {
        let gateway = self.gateway(id);
        self.admit(id);
        gateway
    }

    /// Lets a gateway in that is about to ask, and waits until it is ready.
    pub fn admit(&self, id: &str) {
        let code = self.waits(id)["pairingCode"].as_str().unwrap().to_owned();
        self.run(&["pairings", "approve", id, "--code", &code]).good();
        self.is(id, "ready");
    }

    /// The stored pairing requests.
    pub fn pairings(&self) -> Vec<Value> {
        let answer: Value = serde_json::from_str(&self.run(&["pairings", "--json"]).good()).unwrap();
        answer["pairings"].as_array().unwrap().clone()
    }

    /// Waits until a gateway waits for approval; gives its request.
    #[track_caller]
    pub fn waits(&self, id: &str) -> Value {
        eventually(&format!("{id} among those that wait"), || {
            let (_, answer) = self.http("GET", "/pairings", None);
            let pairings = answer["pairings"].as_array()?;
            let mut found = pairings.iter().filter(|pairing| pairing["gatewayId"] == json!(id));
            found.find(|pairing| pairing["live"] == json!(true)).cloned()
        })
    }

    /// What the controller knows of a gateway; null when it knows nothing.
    pub fn snapshot(&self, id: &str) -> Value {
        let (_, answer) = self.http("GET", "/gateways", None);
        let gateways = answer["gateways"].as_array().unwrap();
        let found = gateways.iter().find(|gateway| gateway["gatewayId"] == json!(id));
        found.cloned().unwrap_or_default()
    }

    /// Waits until a gateway has a status.
    #[track_caller]
    pub fn is(&self, id: &str, status: &str) {
        eventually(&format!("{id} is {status}"), || {
            (self.snapshot(id)["status"] == json!(status)).then_some(())
        });
    }

    /// Waits until a gateway that asked is not connected any more.
    #[track_caller]
    pub fn is_gone(&self, id: &str) {
        eventually(&format!("the end of {id}"), || {
            (self.snapshot(id)["connected"] != json!(true)).then_some(())
        });
    }

    /// One request over the controller's socket.
    pub fn http(&self, method: &str, route: &str, body: Option<&Value>) -> (u16, Value) {
        let answer = self.raw(&request(method, route, body));
        let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// Bytes to the controller's socket; everything that it answers until it closes.
    pub fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.socket();
        // One that is refused is not read to its end.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A connection to the controller's socket.
    pub fn socket(&self) -> UnixStream {
        let stream = UnixStream::connect(self.state().join("controller.sock")).unwrap();
        stream.set_read_timeout(Some(goblin_testkit::LIMIT)).unwrap();
        stream
    }
}

/// The text of a request after which the connection ends.
pub fn request(method: &str, route: &str, body: Option<&Value>) -> Vec<u8> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let kind = match body.is_empty() {
        true => "",
        false => "content-type: application/json\r\n",
    };
    let length = body.len();
    format!("{method} {PREFIX}{route} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{kind}content-length: {length}\r\n\r\n{body}")
        .into_bytes()
}
