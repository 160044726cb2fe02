//! `pairing-code` and `unpair` on the files of a host.

use crate::staging::{Staging, said};
use goblin_identity::StateDir;
use goblin_keys::{Fingerprint, KeyPair};
use secrecy::SecretString;
use serde_json::{Value, json};
use std::fs;

const STATE: &str = "/var/lib/burrow-host-gateway";

fn state(staging: &Staging) -> StateDir {
    StateDir::open(&staging.path(STATE)).unwrap()
}

fn identity(staging: &Staging) -> Value {
    serde_json::from_str(&staging.read("/var/lib/burrow-host-gateway/node-identity.json")).unwrap()
}

#[test]
fn the_code_stands_alone_on_its_line() {
    let staging = Staging::installed();
    let none = staging.goblin(&["pairing-code"]);
    assert!(
        !none.status.success() && said(&none).contains("no approval is awaited"),
        "{}",
        said(&none)
    );
    state(&staging)
        .write_pairing_code("host-1", "AAAA-BBBB-CCCC", 0)
        .unwrap();
    let output = staging.goblin(&["pairing-code"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "AAAA-BBBB-CCCC\n");
    // An older daemon tells the short one only; a note of another code is not believed.
    assert!(!staging.goblin(&["pairing-code", "--long"]).status.success());
    let note = |short: &str| {
        json!({"pid": 1, "version": "1", "phase": "waiting", "since": "x", "controller": "c:1", "gatewayId": "host-1",
            "journalEntries": 0, "pairingCode": {"short": short, "long": "AAAA-BBBB-CCCC-DDDD"}})
        .to_string()
    };
    staging.write("/var/lib/burrow-host-gateway/status.json", note("EEEE"));
    assert!(!staging.goblin(&["pairing-code", "--long"]).status.success());
    staging.write("/var/lib/burrow-host-gateway/status.json", note("AAAA-BBBB-CCCC"));
    let output = staging.goblin(&["pairing-code", "--long"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "AAAA-BBBB-CCCC-DDDD\n");
}

#[test]
fn unpairing_forgets_the_controller_and_keeps_key_pair_and_journal() {
    let staging = Staging::installed();
    {
        let state = state(&staging);
        let mut identity = state.load_or_create_identity(0).unwrap();
        let controller = KeyPair::generate().unwrap();
        state
            .pin_controller(&mut identity, controller.public_key(), Fingerprint::of_der(b"x"))
            .unwrap();
        state
            .store_trust("controller", &SecretString::from("secret"), 0)
            .unwrap();
        state.write_pairing_code("host-1", "AAAA", 0).unwrap();
    }
    staging.write("/var/lib/burrow-host-gateway/operations.json", r#"{"entries":[]}"#);
    let before = identity(&staging);
    assert!(before["controllerPublicKey"].is_string());
    let output = staging.goblin(&["unpair"]);
    assert!(output.status.success(), "{}", said(&output));
    let after = identity(&staging);
    for kept in ["nodeId", "publicKey", "privateKey", "createdAt"] {
        assert_eq!(after[kept], before[kept], "{kept}");
    }
    assert_eq!(
        (&after["controllerPublicKey"], &after["controllerTlsFingerprint"]),
        (&Value::Null, &Value::Null)
    );
    let exists = |name: &str| staging.path(STATE).join(name).exists();
    assert!(!exists("controller-trust.json") && !exists("pairing-code.json"));
    assert!(exists("controller-enrollment-consumed") && exists("operations.json"));
    // Again, and where there is nothing.
    assert!(staging.goblin(&["unpair"]).status.success());
    fs::remove_dir_all(staging.path(STATE)).unwrap();
    assert!(staging.goblin(&["unpair"]).status.success());
    assert!(!staging.path(STATE).exists());
}

#[test]
fn a_state_directory_elsewhere_with_a_space_is_found() {
    let staging = Staging::installed();
    staging.write(
        "/etc/burrow-host-gateway/gateway.env",
        "BURROW_GATEWAY_STATE_DIR=\"/srv/my state\"  \r\n",
    );
    fs::create_dir_all(staging.path("/srv")).unwrap();
    StateDir::open(&staging.path("/srv/my state"))
        .unwrap()
        .write_pairing_code("host-1", "AAAA", 0)
        .unwrap();
    let output = staging.goblin(&["pairing-code"]);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "AAAA\n");
}

#[test]
fn a_directory_that_a_daemon_works_on_is_not_unpaired() {
    let staging = Staging::installed();
    let held = state(&staging);
    let output = staging.goblin(&["unpair"]);
    let said = said(&output);
    assert!(
        !output.status.success() && said.contains(&format!("process {}", std::process::id())),
        "{said}"
    );
    drop(held);
}
