//! Commands that reach the controller over TCP: logins, tokens, certificates, and commands that outlive a connection.

use crate::fleet::{Ended, Fleet, Running, gateway};
use crate::line::Line;
use goblin_testkit::eventually;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A person elsewhere: a home of their own, and nothing of the controller's.
struct Elsewhere<'a> {
    fleet: &'a Fleet,
    home: PathBuf,
}

impl<'a> Elsewhere<'a> {
    fn of(fleet: &'a Fleet) -> Self {
        let home = fleet.folder.path().join("elsewhere");
        std::fs::create_dir_all(&home).unwrap();
        Self { fleet, home }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.fleet.command(words);
        command
            .env_remove("NODE_GOBLIN_STATE_DIR")
            .env("XDG_STATE_HOME", &self.home)
            .env("XDG_CONFIG_HOME", &self.home);
        command
    }

    fn begin(&self, words: &[&str]) -> Running {
        Running::start(&mut self.command(words))
    }

    fn run(&self, words: &[&str]) -> Ended {
        self.begin(words).end()
    }

    /// Runs a command that reads a text.
    fn tell(&self, words: &[&str], text: &str) -> Ended {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        Running::start_reading(self.command(words).stdin(Stdio::from(reader))).end()
    }
}

/// A token that was made on the controller's machine.
fn token(fleet: &Fleet, scope: &str) -> String {
    let words = ["tokens", "create", "test", "--scope", scope, "--expires", "1h"];
    let made = fleet.run(&words);
    assert!(made.stderr.contains("only this once"), "{}", made.stderr);
    made.good().trim_end().to_owned()
}

#[test]
fn a_login_pins_what_was_confirmed_and_is_private() {
    let fleet = Fleet::with(|command| _ = command.args(["--http-tls", "on"]));
    let elsewhere = Elsewhere::of(&fleet);
    let (_, state) = fleet.http("GET", "/controller", None);
    let fingerprint = state["controller"]["tls"]["fingerprintSha256"].as_str().unwrap();
    let url = format!("https://127.0.0.1:{}", fleet.http_port);
    let token = token(&fleet, "read");
    // Nobody vouches for the certificate, and nobody can be asked.
    let unknown = elsewhere.tell(&["login", &url], &token);
    assert!(unknown.bad(1).contains(fingerprint), "{}", unknown.stderr);
    let words = ["login", &url, "--name", "lab", "--fingerprint", fingerprint];
    let wrong = elsewhere.tell(&words, "ng_wrong");
    assert!(wrong.bad(1).contains("unauthorized") && !wrong.stderr.contains("ng_wrong"));
    elsewhere.run(&["gateways"]).bad(1);
    elsewhere.tell(&words, &format!("{token}\n")).good();
    let file = elsewhere.home.join("node-goblin").join("profiles.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    // The login is used from now on, and its token does what its scope allows.
    assert_eq!(
        elsewhere.run(&["gateways", "--json"]).good().trim(),
        r#"{"ok":true,"gateways":[]}"#
    );
    let denied = elsewhere.run(&["trust", "revoke", "x"]);
    assert!(denied.bad(1).contains("forbidden"), "{}", denied.stderr);
    let listed = elsewhere.run(&["login"]).good();
    assert!(listed.contains("lab") && listed.contains(&url) && !listed.contains(&token));
    // Revoked, it is nothing.
    let tokens: Value = serde_json::from_str(&fleet.run(&["tokens", "--json"]).good()).unwrap();
    let id = tokens["tokens"][0]["id"].as_str().unwrap();
    fleet.run(&["tokens", "revoke", id]).good();
    assert!(elsewhere.run(&["gateways"]).bad(1).contains("unauthorized"));
    // Another certificate on the same port is somebody else.
    let mut text = std::fs::read_to_string(&file).unwrap();
    text = text.replace(fingerprint, &"0".repeat(64));
    std::fs::write(&file, text).unwrap();
    assert!(elsewhere.run(&["gateways"]).bad(1).contains("HAS CHANGED"));
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    assert!(elsewhere.run(&["gateways"]).bad(1).contains("profiles.json"));
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    elsewhere.run(&["logout"]).good();
    assert!(elsewhere.run(&["gateways"]).bad(1).contains("no controller is running"));
}

/// A controller with one host, each reached through a line of its own, and what somebody elsewhere needs.
struct Distant {
    fleet: Fleet,
    to_gateways: Line,
    to_http: Line,
    host: Running,
    token: String,
}

impl Distant {
    fn new() -> Self {
        let fleet = Fleet::new();
        let to_gateways = Line::to(fleet.port);
        let host = gateway(to_gateways.port, "host-1", &fleet.state_of("host-1"), |_| ());
        fleet.admit("host-1");
        Self {
            to_http: Line::to(fleet.http_port),
            token: token(&fleet, "execute"),
            to_gateways,
            host,
            fleet,
        }
    }

    fn begin(&self, words: &[&str]) -> Running {
        let elsewhere = Elsewhere::of(&self.fleet);
        let mut command = elsewhere.command(words);
        command
            .env("NODE_GOBLIN_URL", format!("http://127.0.0.1:{}", self.to_http.port))
            .env("NODE_GOBLIN_TOKEN", &self.token);
        Running::start(&mut command)
    }

    /// A command line that counts how often it runs, and waits in the middle until its gate is opened.
    fn gated(&self) -> (String, String, String) {
        let (gate, count) = (self.fleet.path("gate"), self.fleet.path("count"));
        let command = format!(
            "echo x >> {count}; echo begun; echo aside >&2; until [ -e {gate} ]; do sleep 0.02; done; echo ended; exit 5"
        );
        (command, gate, count)
    }
}

#[track_caller]
fn ran_once_and_whole(ended: &Ended, count: &str) {
    assert_eq!(
        (ended.code, ended.text().as_str()),
        (Some(5), "begun\nended\n"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.matches("aside\n").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("not run twice"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
}

#[test]
fn a_command_survives_a_cut_connection() {
    let distant = Distant::new();
    let (command, gate, count) = distant.gated();
    let run = distant.begin(&["exec", "host-1", "--shell", &command]);
    run.prints("begun\n");
    run.logged("aside\n");
    distant.to_http.cut();
    run.logged("it still runs");
    std::fs::write(gate, "").unwrap();
    ran_once_and_whole(&run.end(), &count);
}

#[test]
fn a_command_survives_a_controller_that_crashes_and_comes_back() {
    let mut distant = Distant::new();
    let (command, gate, count) = distant.gated();
    let run = distant.begin(&["exec", "host-1", "--id", "op", "--shell", &command]);
    run.prints("begun\n");
    run.logged("aside\n");
    distant.fleet.controller.signal("KILL");
    eventually("the controller's end", || distant.fleet.controller.exit());
    // It ends while there is no controller at all.
    std::fs::write(gate, "").unwrap();
    run.logged("looking for operation op");
    distant.fleet.serve_again();
    distant.to_gateways.lead_to(distant.fleet.port);
    distant.to_http.lead_to(distant.fleet.http_port);
    ran_once_and_whole(&run.end(), &count);
}

#[test]
fn a_command_survives_a_host_that_loses_its_controller() {
    let distant = Distant::new();
    let (command, gate, count) = distant.gated();
    let run = distant.begin(&["exec", "host-1", "--shell", &command]);
    run.prints("begun\n");
    run.logged("aside\n");
    distant.to_gateways.cut();
    run.logged("gateway_disconnected");
    std::fs::write(gate, "").unwrap();
    ran_once_and_whole(&run.end(), &count);
}

#[test]
fn a_host_that_crashed_leaves_the_outcome_unknown() {
    let mut distant = Distant::new();
    let (command, _, count) = distant.gated();
    let run = distant.begin(&["exec", "host-1", "--shell", &command]);
    run.prints("begun\n");
    distant.host.signal("KILL");
    eventually("the host's end", || distant.host.exit());
    distant.host = gateway(
        distant.to_gateways.port,
        "host-1",
        &distant.fleet.state_of("host-1"),
        |_| (),
    );
    let ended = run.end();
    let told = ended.bad(125);
    assert!(
        told.contains("operation_outcome_unknown") && told.contains("nobody knows"),
        "{told}"
    );
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
}

#[test]
fn ctrl_c_reaches_a_command_whose_connection_was_cut() {
    let distant = Distant::new();
    let (command, _, count) = distant.gated();
    let run = distant.begin(&["exec", "host-1", "--shell", &command]);
    run.prints("begun\n");
    distant.to_http.cut();
    run.logged("it still runs");
    run.signal("INT");
    let ended = run.end();
    assert_eq!(
        (ended.code, ended.text().as_str()),
        (Some(130), "begun\n"),
        "{}",
        ended.stderr
    );
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
}

#[test]
fn files_and_cancels_go_over_tcp_too() {
    let distant = Distant::new();
    let path = distant.fleet.path("note");
    std::fs::write(&path, "hello\n").unwrap();
    assert_eq!(
        distant.begin(&["files", "host-1", "read", &path]).end().good(),
        "hello\n"
    );
    let run = distant.begin(&["exec", "host-1", "--id", "long", "--shell", "echo begun; exec sleep 60"]);
    run.prints("begun\n");
    distant.begin(&["cancel", "host-1", "long"]).end().good();
    assert_eq!(run.end().code, Some(130));
    let listed: Value = serde_json::from_str(&distant.begin(&["operations", "--json"]).end().good()).unwrap();
    let outcomes: Vec<&Value> = listed["operations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|operation| &operation["terminalOutcome"])
        .collect();
    assert_eq!(outcomes, [&json!("completed"), &json!("cancelled")]);
}
