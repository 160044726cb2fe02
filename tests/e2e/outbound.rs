//! The gateway over TLS, against a controller that is not ours.

use crate::fleet::{Running, gateway};
use crate::peer::{Certificate, Peer};
use goblin_testkit::eventually;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn start(port: u64, state: &Path, configure: impl FnOnce(&mut Command)) -> Running {
    gateway(port as u16, "host-1", state, configure)
}

fn plain(port: u64, state: &Path) -> Running {
    start(port, state, |_| ())
}

struct Scene {
    folder: TempDir,
    certificate: Certificate,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certificate = Certificate::new(folder.path(), "controller");
        Self { folder, certificate }
    }

    fn state(&self) -> std::path::PathBuf {
        self.folder.path().join("state")
    }

    fn controller(&self, more: Value) -> Peer {
        Peer::controller(&self.certificate, more)
    }
}

fn shell(operation: &str, command: &str) -> Value {
    json!({"operationId": operation, "command": command})
}

#[test]
fn a_host_pairs_runs_and_recovers_an_outcome_after_a_lost_connection() {
    let scene = Scene::new();
    let mut controller = scene.controller(json!({"approve": false}));
    let gateway = plain(controller.port, &scene.state());
    let pending = controller.event("pending");
    assert_eq!(pending["code"], pending["claimed"]);
    let file = scene.state().join("pairing-code.json");
    let code: Value = eventually("the code's file", || {
        serde_json::from_str(&std::fs::read_to_string(&file).ok()?).ok()
    });
    assert_eq!(
        (&code["pairingCode"], &code["gatewayId"]),
        (&pending["code"], &json!("host-1"))
    );
    controller.order(json!({"approve": true}));
    controller.event("ready");
    controller.request("h", "hello", json!({}));
    assert_eq!(
        controller.answer("h")["result"]["transport"],
        json!("tls-jsonl-outbound")
    );
    assert!(!file.exists());
    let count = scene.folder.path().join("count");
    let slow = shell(
        "op",
        &format!("echo x >> {}; echo begun; sleep 0.7; echo ended", count.display()),
    );
    controller.request("1", "process.exec", slow.clone());
    controller.frame("begun", |frame| frame["data"] == json!("begun\n"));
    controller.order(json!({"drop": true}));
    controller.event("closed");
    // A reconnect is a new challenge; this controller wants approval again.
    controller.event("pending");
    controller.order(json!({"approve": true}));
    controller.event("ready");
    let mut tries = 0;
    let answer = eventually("the outcome", || {
        tries += 1;
        controller.request(&format!("again{tries}"), "process.exec", slow.clone());
        let answer = controller.answer(&format!("again{tries}"));
        (answer["error"]["code"] != json!("operation_in_progress")).then_some(answer)
    });
    assert_eq!(answer["result"]["replay"], json!(true));
    assert_eq!(answer["result"]["outcome"]["stdout"], json!("begun\nended\n"));
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
    assert_eq!(gateway.stop().code, Some(0));
}

#[test]
fn protected_values_need_their_binding_and_are_masked() {
    let scene = Scene::new();
    let mut controller = scene.controller(json!({}));
    let gateway = plain(controller.port, &scene.state());
    controller.event("ready");
    let params = shell("op", "test ${#TOKEN} = 13 && echo got; echo $TOKEN; echo $TOKEN >&2");
    controller.order(json!({"deliver": {"id": "a", "params": params}, "values": {"TOKEN": "marker-secret"}}));
    let answer = controller.answer("a");
    let outcome = &answer["result"]["outcome"];
    assert_eq!(
        (&outcome["stdout"], &outcome["stderr"]),
        (&json!("got\n[redacted]\n"), &json!("[redacted]\n"))
    );
    // The finished operation takes no second delivery, but replays without one.
    controller.order(json!({"deliver": {"id": "b", "params": params}, "values": {"TOKEN": "marker-secret"}}));
    assert_eq!(
        controller.answer("b")["error"],
        json!({"code": "protected_redelivery_forbidden", "operationId": "op"})
    );
    controller.request("c", "process.exec", params);
    assert_eq!(controller.answer("c")["result"]["replay"], json!(true));
    for (id, binding) in [
        ("d", json!({"connectionId": "another"})),
        ("e", json!({"requestId": "another"})),
        ("f", json!({"gatewayId": "another"})),
    ] {
        let params = shell(id, "touch ran");
        controller.order(
            json!({"deliver": {"id": id, "params": params}, "values": {"TOKEN": "marker-secret"}, "binding": binding}),
        );
        let answer = controller.answer(id);
        assert_eq!(
            (&answer["type"], &answer["error"]["code"]),
            (&json!("error"), &json!("protected_delivery_binding_invalid"))
        );
    }
    assert!(!gateway.log().contains("marker-secret"));
    assert_eq!(gateway.stop().code, Some(0));
    for entry in std::fs::read_dir(scene.state()).unwrap().flatten() {
        let content = std::fs::read(entry.path()).unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&content).contains("marker-secret"),
            "{:?}",
            entry.path()
        );
    }
}

#[test]
fn nothing_is_answered_before_approval() {
    let scene = Scene::new();
    let mut controller = scene.controller(json!({"approve": false}));
    let ran = scene.folder.path().join("ran");
    let gateway = plain(controller.port, &scene.state());
    controller.event("pending");
    controller.request(
        "early",
        "process.exec",
        shell("op", &format!("touch {}", ran.display())),
    );
    let told = controller.frame("a refusal", |frame| frame["type"] == json!("transport.error"));
    assert_eq!(told["error"]["code"], json!("unauthenticated"));
    controller.event("closed");
    gateway.logged("unauthenticated");
    assert!(!ran.exists());
}

#[test]
fn a_pairing_code_does_not_outlive_its_connection() {
    let scene = Scene::new();
    let mut controller = scene.controller(json!({"approve": false}));
    let file = scene.state().join("pairing-code.json");
    let gateway = plain(controller.port, &scene.state());
    controller.event("pending");
    eventually("the code's file", || file.exists().then_some(()));
    assert_eq!(gateway.stop().code, Some(0));
    assert!(!file.exists());
    // One that a killed daemon left goes at the next start, before there is any connection.
    std::fs::write(&file, "{}").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    drop(controller);
    let gateway = plain(1, &scene.state());
    eventually("the old code's end", || (!file.exists()).then_some(()));
    assert_eq!(gateway.stop().code, Some(0));
}

#[test]
fn the_controller_has_to_prove_that_its_key_and_certificate_belong_together() {
    for (options, flags, admitted) in [
        (json!({"proof": "no"}), vec![], false),
        (json!({"proof": "wrong"}), vec![], false),
        (json!({"proof": "wrong"}), vec!["--allow-unproven-controller"], false),
        (json!({"proof": "no"}), vec!["--allow-unproven-controller"], true),
        (json!({"proof": "no"}), vec!["--controller-fingerprint"], true),
        (json!({"proof": "no"}), vec!["--ca-file"], true),
    ] {
        let scene = Scene::new();
        let mut controller = scene.controller(options.clone());
        let gateway = start(controller.port, &scene.state(), |command| {
            command.args(&flags);
            match flags.first() {
                Some(&"--controller-fingerprint") => _ = command.arg(&scene.certificate.fingerprint),
                Some(&"--ca-file") => _ = command.arg(&scene.certificate.cert),
                _ => {}
            }
        });
        if admitted {
            controller.event("ready");
        } else {
            controller.frame("a refusal", |frame| {
                frame["error"]["code"] == json!("controller_proof_invalid")
            });
            for remedy in [
                "BURROW_GATEWAY_CA_FILE",
                "--controller-fingerprint",
                "--allow-unproven-controller",
            ] {
                gateway.logged(remedy);
            }
            assert!(!controller.has_seen("ready"), "{options}");
        }
    }
}

#[test]
fn a_paired_host_keeps_to_its_controller() {
    let scene = Scene::new();
    let key = scene.folder.path().join("pairing.key");
    let mut controller = scene.controller(json!({"pairingKey": key}));
    let gateway = plain(controller.port, &scene.state());
    controller.event("ready");
    assert_eq!(gateway.stop().code, Some(0));
    drop(controller);
    // The same key behind a renewed certificate, with proof: admitted, and pinned from now on.
    let renewed = Certificate::new(scene.folder.path(), "renewed");
    let mut controller = Peer::controller(&renewed, json!({"pairingKey": key}));
    let gateway = plain(controller.port, &scene.state());
    controller.event("ready");
    gateway.logged(&renewed.fingerprint);
    assert_eq!(gateway.stop().code, Some(0));
    drop(controller);
    // Yet another certificate without proof, and another key altogether.
    let other = Certificate::new(scene.folder.path(), "other");
    for (certificate, options, code) in [
        (
            &other,
            json!({"pairingKey": key, "proof": "no"}),
            "controller_tls_identity_mismatch",
        ),
        (
            &other,
            json!({"pairingKey": key, "proof": "wrong"}),
            "controller_tls_identity_mismatch",
        ),
        (&other, json!({}), "controller_identity_mismatch"),
        (&renewed, json!({}), "controller_identity_mismatch"),
    ] {
        let mut controller = Peer::controller(certificate, options);
        let gateway = plain(controller.port, &scene.state());
        controller.frame(code, |frame| frame["error"]["code"] == json!(code));
        gateway.logged(code);
        assert!(!controller.has_seen("ready"));
    }
}

#[test]
fn a_shared_secret_goes_only_to_a_verified_controller() {
    let token =
        |secret: &'static str| move |command: &mut Command| _ = command.env("BURROW_GATEWAY_ENROLLMENT_TOKEN", secret);
    let scene = Scene::new();
    let ca = scene.certificate.cert.clone();
    let mut controller = scene.controller(json!({"hmac": "pässwort"}));
    // Without an authority there is no verified controller, so nothing is proven to it.
    let gateway = start(controller.port, &scene.state(), token("pässwort"));
    controller.event("tls error");
    gateway.logged("TLS handshake failed");
    drop(gateway);
    let wrong = start(controller.port, &scene.state(), |command| {
        token("other")(command);
        command.arg("--ca-file").arg(&ca);
    });
    controller.frame("a proof", |frame| frame["type"] == json!("auth.response"));
    wrong.logged("auth_failed");
    drop(wrong);
    let right = start(controller.port, &scene.state(), |command| {
        token("pässwort")(command);
        command.arg("--ca-file").arg(&ca);
    });
    controller.event("ready");
    assert_eq!(right.stop().code, Some(0));
    // Enrolled: the stored secret wins over a changed token.
    let again = start(controller.port, &scene.state(), |command| {
        token("changed")(command);
        command.arg("--ca-file").arg(&ca);
    });
    controller.event("ready");
    assert_eq!(again.stop().code, Some(0));
    // A controller under another authority.
    let other = Certificate::new(scene.folder.path(), "other");
    let mut stranger = Peer::controller(&other, json!({"hmac": "pässwort"}));
    let gateway = start(stranger.port, &scene.state(), |command| {
        _ = command.arg("--ca-file").arg(&ca)
    });
    stranger.event("tls error");
    assert!(!stranger.has_seen("frame"));
    drop(gateway);
}

#[test]
fn a_frame_over_the_cap_ends_the_connection_and_the_gateway_comes_back() {
    let scene = Scene::new();
    let mut controller = scene.controller(json!({}));
    let gateway = plain(controller.port, &scene.state());
    controller.event("ready");
    controller.order(json!({"raw": "x".repeat(2 * 1024 * 1024 + 1)}));
    let told = controller.frame("a refusal", |frame| frame["type"] == json!("transport.error"));
    assert_eq!(told["error"]["code"], json!("frame_too_large"));
    controller.event("closed");
    controller.event("ready");
    controller.order(json!({"raw": "nonsense\n"}));
    assert_eq!(
        controller.frame("invalid_json", |frame| frame["type"] == json!("error"))["error"]["code"],
        json!("invalid_json")
    );
    controller.order(json!({"send": {"type": "auth.challenge", "nonce": "again"}}));
    controller.frame("a refusal", |frame| {
        frame["error"]["code"] == json!("unexpected_auth_message")
    });
    controller.event("ready");
    assert_eq!(gateway.stop().code, Some(0));
}

#[test]
fn a_stop_answers_cancelled_work_before_it_leaves() {
    let scene = Scene::new();
    let mut controller = scene.controller(json!({}));
    let gateway = plain(controller.port, &scene.state());
    controller.event("ready");
    controller.request("1", "process.exec", shell("op", "echo up; sleep 60"));
    controller.frame("up", |frame| frame["data"] == json!("up\n"));
    assert_eq!(gateway.stop().code, Some(0));
    assert_eq!(controller.answer("1")["result"]["outcome"]["cancelled"], json!(true));
    controller.event("closed");
}

#[test]
fn a_proxy_is_asked_to_connect() {
    let scene = Scene::new();
    let mut controller = scene.controller(json!({}));
    let target = controller.port;
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = proxy.local_addr().unwrap().port();
    let request = std::thread::spawn(move || {
        let (mut near, _) = proxy.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            near.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
        let far = TcpStream::connect(("127.0.0.1", target as u16)).unwrap();
        let (mut from_near, mut to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from_near, &mut to_far));
        let (mut from_far, mut to_near) = (far, near);
        std::thread::spawn(move || std::io::copy(&mut from_far, &mut to_near));
        String::from_utf8(head).unwrap()
    });
    let gateway = start(target, &scene.state(), |command| {
        _ = command.env("HTTPS_PROXY", format!("http://user:secret@127.0.0.1:{port}"))
    });
    controller.event("ready");
    let head = request.join().unwrap();
    assert!(
        head.starts_with(&format!("CONNECT 127.0.0.1:{target} HTTP/1.1\r\n")),
        "{head}"
    );
    assert!(head.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"));
    assert!(!gateway.log().contains("secret"));
    assert_eq!(gateway.stop().code, Some(0));
}
