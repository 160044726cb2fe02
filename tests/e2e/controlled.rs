//! A controller and gateways as processes of the real program, and its HTTP API over the socket.

use crate::PROGRAM;
use goblin_testkit::eventually;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that ends with its owner.
pub struct Killed(pub Child);

impl Killed {
    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A port that nobody uses now, for a controller that has to come back to the same one.
pub fn free_port() -> u16 {
    let probe = TcpListener::bind("127.0.0.1:0").unwrap();
    probe.local_addr().unwrap().port()
}

/// The words that start a controller.
pub fn controller_command(directory: &Path, port: u16) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args([
            "controller",
            "--http",
            "off",
            "--listen",
            &format!("127.0.0.1:{port}"),
            "--state-dir",
        ])
        .arg(directory);
    command
}

/// A running controller.
pub struct Controller {
    pub process: Killed,
    api: Api,
}

impl Controller {
    /// Starts one and waits until it serves.
    pub fn start(directory: &Path, port: u16) -> Self {
        Self::start_by(controller_command(directory, port), directory)
    }

    /// The same by a command of the caller's.
    pub fn start_by(mut command: Command, directory: &Path) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut process = Killed(child);
        let mut ready = String::new();
        BufReader::new(process.0.stdout.take().unwrap())
            .read_line(&mut ready)
            .unwrap();
        assert!(
            ready.starts_with("ready tls="),
            "the controller did not start: {ready:?}"
        );
        Self {
            process,
            api: Api::of(directory),
        }
    }

    /// Its API.
    pub fn api(&self) -> &Api {
        &self.api
    }
}

/// Starts a gateway that dials a controller on this machine.
pub fn gateway(id: &str, port: u16, state: &Path) -> Killed {
    let child = Command::new(PROGRAM)
        .args([
            "gateway",
            "--id",
            id,
            "--controller",
            &format!("tls://127.0.0.1:{port}"),
            "--state-dir",
        ])
        .arg(state)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Killed(child)
}

/// The API of a controller, by its socket. A call that finds no controller, or loses it, is an error of input or output.
#[derive(Clone)]
pub struct Api(PathBuf);

impl Api {
    /// Of the controller in this state directory.
    pub fn of(directory: &Path) -> Self {
        Self(directory.join("controller.sock"))
    }

    /// One request; gives status and answer.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<(u16, Value)> {
        let mut stream = UnixStream::connect(&self.0)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} /api/mods/node-goblin{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let answer = String::from_utf8(answer).map_err(io::Error::other)?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(head.to_owned()))?;
        Ok((status, serde_json::from_str(body)?))
    }

    /// Runs a command line.
    pub fn shell(&self, gateway_id: &str, operation_id: &str, command: &str) -> io::Result<(u16, Value)> {
        self.call(
            "POST",
            &format!("/gateways/{gateway_id}/processes"),
            Some(&json!({"operationId": operation_id, "command": command})),
        )
    }

    /// Approves a gateway as soon as it waits.
    pub fn approve(&self, gateway_id: &str) {
        let path = format!("/pairings/{gateway_id}/approve");
        eventually("the approval", || {
            matches!(self.call("POST", &path, None), Ok((200, _))).then_some(())
        });
    }

    /// Waits until these gateways take operations.
    pub fn ready(&self, gateway_ids: &[&str]) {
        eventually("the gateways are ready", || {
            let (_, listed) = self.call("GET", "/gateways", None).ok()?;
            let ready = |id: &&str| {
                let mut all = listed["gateways"].as_array().into_iter().flatten();
                all.any(|it| it["gatewayId"] == **id && it["status"] == "ready")
            };
            gateway_ids.iter().all(ready).then_some(())
        });
    }
}
