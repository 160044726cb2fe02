//! Being let in: codes, approval, rejection, revocation, shared secrets.

use crate::fleet::{Fleet, gateway};
use crate::peer::{Certificate, Peer};
use goblin_testkit::eventually;
use serde_json::{Value, json};
use std::path::Path;

/// The code in a host's state directory.
fn code_of(state: &Path) -> String {
    let file = state.join("pairing-code.json");
    let code: Value = eventually("the code's file", || {
        serde_json::from_str(&std::fs::read_to_string(&file).ok()?).ok()
    });
    code["pairingCode"].as_str().unwrap().to_owned()
}

#[test]
fn a_host_gets_nothing_until_its_code_was_compared() {
    let fleet = Fleet::new();
    let host = fleet.gateway("host-1");
    let asked = fleet.waits("host-1");
    let code = code_of(&fleet.state_of("host-1"));
    assert_eq!(asked["pairingCode"], json!(code));
    let long = asked["longPairingCode"].as_str().unwrap().replace('-', "");
    assert!(long.len() == 32 && long.starts_with(&code.replace('-', "")), "{long}");
    // It waits, and nothing reaches it.
    let ran = fleet.path("ran");
    let refused = fleet.run(&["exec", "host-1", "--", "touch", &ran]);
    assert!(refused.bad(125).contains("gateway_not_ready"));
    let read = fleet.run(&["files", "host-1", "read", "/etc/hostname"]);
    assert!(read.bad(1).contains("gateway_not_ready"));
    fleet.run(&["cancel", "host-1", "op"]).bad(1);
    // Another code lets nobody in, neither here nor at the controller itself; nor does a word that nobody gave.
    let wrong = if code.starts_with('0') {
        code.replacen('0', "1", 1)
    } else {
        format!("0{}", &code[1..])
    };
    let refused = fleet.run(&["pairings", "approve", "host-1", "--code", &wrong]);
    assert!(refused.bad(1).contains("nothing was approved"));
    fleet.run(&["pairings", "approve", "host-1"]).bad(1);
    let answer = fleet.http("POST", "/pairings/host-1/approve", Some(&json!({"pairingCode": wrong})));
    assert_eq!(answer, (409, json!({"ok": false, "error": "pairing_code_mismatch"})));
    for body in [
        json!({"pairingCode": 7}),
        json!({"pairingCode": ""}),
        json!([]),
        json!("x"),
    ] {
        let (status, answer) = fleet.http("POST", "/pairings/host-1/approve", Some(&body));
        assert!(status >= 400, "{body}: {answer}");
    }
    assert_eq!(fleet.snapshot("host-1")["status"], json!("pending"));
    let table = fleet.run(&["pairings"]).good();
    assert!(table.contains(&code) && table.contains("waits"), "{table}");

    let approved = fleet.run(&["pairings", "approve", "host-1", "--code", &code]).good();
    assert!(approved.contains("host-1 is approved"));
    fleet.is("host-1", "ready");
    assert_eq!(fleet.run(&["exec", "host-1", "--", "echo", "in"]).good(), "in\n");
    eventually("the code's end", || {
        (!fleet.state_of("host-1").join("pairing-code.json").exists()).then_some(())
    });
    assert!(!Path::new(&ran).exists());
    // There is nothing left to approve.
    let again = fleet.run(&["pairings", "approve", "host-1", "--yes"]);
    assert!(again.bad(1).contains("does not wait"));
    let again = fleet.http("POST", "/pairings/host-1/approve", Some(&json!({"pairingCode": code})));
    assert_eq!(again, (404, json!({"ok": false, "error": "pairing_not_found"})));
    assert_eq!(fleet.pairings(), Vec::<Value>::new());
    assert_eq!(host.stop().code, Some(0));
    fleet.is("host-1", "disconnected");
    assert!(fleet.shell("host-1", "true").bad(125).contains("gateway_not_connected"));
}

#[test]
fn two_operators_approve_once() {
    let fleet = Fleet::new();
    let _host = fleet.gateway("host-1");
    let code = fleet.waits("host-1")["pairingCode"].clone();
    let approve = || fleet.http("POST", "/pairings/host-1/approve", Some(&json!({"pairingCode": code})));
    let answers = std::thread::scope(|scope| {
        let both = [scope.spawn(approve), scope.spawn(approve)];
        both.map(|one| one.join().unwrap())
    });
    let mut codes = answers.map(|(status, _)| status);
    codes.sort_unstable();
    assert_eq!(codes, [200, 404]);
    fleet.is("host-1", "ready");
    assert_eq!(fleet.shell("host-1", "echo fine").good(), "fine\n");
}

#[test]
fn a_host_that_is_turned_away_stays_out_and_another_key_may_ask() {
    let fleet = Fleet::new();
    let host = fleet.gateway("host-1");
    fleet.waits("host-1");
    assert!(
        fleet
            .run(&["pairings", "reject", "host-1"])
            .good()
            .contains("turned away")
    );
    host.logged("pairing_rejected");
    fleet.controller.logged("pairing_rejected");
    // It comes again, and is refused at once without being asked about.
    let refusals = || fleet.controller.log().matches("pairing_rejected").count();
    let first = refusals();
    eventually("another refusal", || (refusals() > first).then_some(()));
    assert_eq!(fleet.pairings(), Vec::<Value>::new());
    fleet.run(&["pairings", "reject", "host-1"]).bad(1);
    host.stop();
    let _other = gateway(fleet.port, "host-1", &fleet.state_of("other"), |_| ());
    fleet.admit("host-1");
}

#[test]
fn a_revoked_host_is_out_at_once_in_the_middle_of_its_work() {
    let fleet = Fleet::new();
    let host = fleet.paired("host-1");
    let work = fleet.begin(&["exec", "host-1", "--id", "op", "--shell", "echo up; sleep 60"]);
    work.prints("up\n");
    let (status, answer) = fleet.http("DELETE", "/gateway-trust/host-1", None);
    assert_eq!((status, &answer["gateway"]["revoked"]), (200, &json!(true)), "{answer}");
    let ended = work.end();
    assert!(ended.bad(125).contains("gateway_disconnected"));
    // What it holds of us admits it no longer; it may ask anew.
    let asked = fleet.waits("host-1");
    assert!(fleet.shell("host-1", "true").bad(125).contains("gateway_not_ready"));
    assert_eq!(asked["status"], json!("pending"));
    let (_, trust) = fleet.http("GET", "/gateway-trust", None);
    assert_eq!(
        (&trust["gateways"][0]["revoked"], &trust["gateways"][0]["trusted"]),
        (&json!(true), &json!(false))
    );
    fleet.admit("host-1");
    assert_eq!(fleet.shell("host-1", "echo back").good(), "back\n");
    fleet.run(&["cancel", "host-1", "op"]).good();
    assert_eq!(fleet.http("DELETE", "/gateway-trust/nobody", None).0, 404);
    assert_eq!(host.stop().code, Some(0));
}

#[test]
fn a_shared_secret_admits_only_who_knows_it() {
    let fleet = Fleet::new();
    let mut look = Peer::gateway(&json!({"port": fleet.port, "id": "look", "mute": "challenge"}));
    let ca = fleet.path("ca.pem");
    std::fs::write(&ca, look.event("connected")["certificate"].as_str().unwrap()).unwrap();
    let (status, answer) = fleet.http("PUT", "/gateway-trust/host-1", Some(&json!({"secret": "open-sesame"})));
    assert_eq!(
        (status, &answer["gateway"]["method"]),
        (200, &json!("hmac")),
        "{answer}"
    );
    let dial = |token: &str, ca: &str, state: &str| {
        gateway(fleet.port, "host-1", &fleet.state_of(state), |command| {
            command
                .env("BURROW_GATEWAY_ENROLLMENT_TOKEN", token)
                .args(["--ca-file", ca]);
        })
    };
    let wrong = dial("open-barley", &ca, "wrong");
    wrong.logged("auth_failed");
    wrong.stop();
    // Under another authority nothing is said to the controller at all.
    let other = Certificate::new(fleet.folder.path(), "other");
    let astray = dial("open-sesame", &other.cert.display().to_string(), "astray");
    astray.logged("TLS handshake failed");
    astray.stop();
    assert_eq!(fleet.snapshot("host-1")["status"], json!("disconnected"));
    let right = dial("open-sesame", &ca, "right");
    fleet.is("host-1", "ready");
    // Whatever the host prints, the secret does not come back.
    assert_eq!(fleet.shell("host-1", "echo open-sesame").good(), "[redacted]\n");
    assert!(!fleet.controller.log().contains("open-sesame"));
    assert!(!right.log().contains("open-sesame"));
    // The peer on Node, with the secret and without, and a key where a secret is wanted.
    assert_eq!(right.stop().code, Some(0));
    fleet.is("host-1", "disconnected");
    for (more, code) in [
        (json!({"hmac": "open-sesame", "tamper": "proof"}), "auth_failed"),
        (json!({"hmac": "open-barley"}), "auth_failed"),
        (json!({}), "auth_failed"),
        (
            json!({"hmac": "open-sesame", "controllerId": "another"}),
            "controller_identity_mismatch",
        ),
    ] {
        assert_eq!(refusal(&fleet, "host-1", more.clone()), code, "{more}");
    }
    let mut node = Peer::gateway(&json!({"port": fleet.port, "id": "host-1", "hmac": "open-sesame"}));
    node.frame("auth.ok", |frame| frame["type"] == json!("auth.ok"));
    fleet.is("host-1", "ready");
    assert_eq!(fleet.run(&["exec", "host-1", "--", "x"]).good(), "from node\n");
}

/// The code that a peer is refused with.
fn refusal(fleet: &Fleet, id: &str, more: Value) -> String {
    let mut options = json!({"port": fleet.port, "id": id});
    options
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let mut peer = Peer::gateway(&options);
    let told = peer.frame("a refusal", |frame| frame["type"] == json!("transport.error"));
    peer.event("closed");
    told["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn an_independent_gateway_pairs_and_its_tampering_does_not() {
    let fleet = Fleet::new();
    for (more, code) in [
        (json!({"tamper": "signature"}), "unknown_node"),
        (json!({"tamper": "key"}), "unknown_node"),
        (json!({"hmac": "guess"}), "unknown_node"),
        (json!({"controllerId": " "}), "invalid_auth_message"),
    ] {
        assert_eq!(refusal(&fleet, "node-1", more.clone()), code, "{more}");
    }
    for id in ["", " ", "local", "publicKey.x", "../x", "a b", "é", &"x".repeat(256)] {
        assert_eq!(refusal(&fleet, id, json!({})), "invalid_auth_message", "{id:?}");
    }
    assert_eq!(fleet.pairings(), Vec::<Value>::new());
    // What it claims to be its code is not believed.
    let mut node = Peer::gateway(&json!({"port": fleet.port, "id": "node-1", "tamper": "code"}));
    let code = node.event("code")["code"].clone();
    assert_eq!(fleet.waits("node-1")["pairingCode"], code);
    let told = node.frame("pending", |frame| frame["type"] == json!("pairing.pending"));
    assert_eq!(told["pairingCode"], code);
    // Nobody else may ask under its id while it waits.
    assert_eq!(refusal(&fleet, "node-1", json!({})), "gateway_identity_conflict");
    fleet.admit("node-1");
    assert_eq!(fleet.run(&["exec", "node-1", "--", "x"]).good(), "from node\n");
    // Nor take its place.
    assert_eq!(refusal(&fleet, "node-1", json!({})), "identity_mismatch");
    assert_eq!(fleet.snapshot("node-1")["status"], json!("ready"));
}

#[test]
fn whoever_waits_too_long_comes_again_with_a_new_code() {
    let fleet = Fleet::with(|command| _ = command.args(["--auth-timeout", "1"]));
    let _host = fleet.gateway("host-1");
    let first = fleet.waits("host-1")["pairingCode"].clone();
    fleet.controller.logged("auth_timeout");
    let next = eventually("another code", || {
        let next = fleet.waits("host-1")["pairingCode"].clone();
        (next != first).then_some(next)
    });
    let answer = fleet.http("POST", "/pairings/host-1/approve", Some(&json!({"pairingCode": first})));
    assert!(
        matches!(
            answer.1["error"].as_str(),
            Some("pairing_code_mismatch" | "pairing_not_live")
        ),
        "{answer:?}"
    );
    assert_ne!(next, first);
}

#[test]
fn what_a_gateway_says_of_itself_steers_no_terminal() {
    let fleet = Fleet::new();
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\r\n\u{202e}x\u{9b}1m";
    let metadata = json!({"name": evil, "version": format!("{evil}{}", "v".repeat(1000)), "protocolVersion": "1.0", "extra": {"deep": [evil]}});
    let mut node = Peer::gateway(&json!({"port": fleet.port, "id": "node-1", "metadata": metadata}));
    node.event("code");
    fleet.waits("node-1");
    let harmless = |text: &str| {
        let bad = |letter: char| letter.is_control() && letter != '\n' || letter == '\u{202e}';
        assert!(!text.contains(bad), "{text:?}");
        assert!(text.lines().count() <= 2, "{text:?}");
    };
    harmless(&fleet.run(&["pairings"]).good());
    fleet.admit("node-1");
    harmless(&fleet.run(&["gateways"]).good());
    let version = fleet.snapshot("node-1")["version"].as_str().unwrap().to_owned();
    assert!(version.chars().count() <= 255);
    assert!(!fleet.controller.log().contains('\u{7}'));
    // Metadata of other shapes is no reason to be refused, nor to fall over.
    for (index, metadata) in [json!("x"), json!([1]), json!({"name": 7, "version": {}}), json!(null)]
        .into_iter()
        .enumerate()
    {
        let id = format!("odd-{index}");
        let mut odd = Peer::gateway(&json!({"port": fleet.port, "id": id, "metadata": metadata}));
        odd.event("code");
        let told = odd.frame("an answer", |frame| frame["type"] != json!("auth.challenge"));
        assert!(
            told["type"] == json!("pairing.pending") || told["error"]["code"] == json!("invalid_auth_message"),
            "{told}"
        );
    }
    harmless_table(&fleet.run(&["pairings"]).good());
}

fn harmless_table(text: &str) {
    assert!(
        !text.contains(|letter: char| letter.is_control() && letter != '\n'),
        "{text:?}"
    );
}
