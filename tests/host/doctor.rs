//! `doctor`: each fault that it knows, and that it says what to do.

use crate::peer::{Certificate, Peer};
use crate::staging::Staging;
use goblin_identity::StateDir;
use goblin_keys::{Fingerprint, KeyPair};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

const ENV: &str = "/etc/burrow-host-gateway/gateway.env";
const STATE: &str = "/var/lib/burrow-host-gateway";

fn configure(staging: &Staging, port: u64, more: &str) {
    staging.write(
        ENV,
        format!("BURROW_GATEWAY_CONTROLLER_URL=tls://127.0.0.1:{port}\nBURROW_GATEWAY_ID=host-1\n{more}"),
    );
}

/// All findings; each fault and warning has a remedy, and the exit code tells of faults.
fn examine(staging: &Staging) -> Vec<Value> {
    let output = staging.goblin(&["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().clone();
    let faults = findings.iter().any(|finding| finding["verdict"] == "fault");
    assert_eq!(
        (output.status.success(), &report["healthy"]),
        (!faults, &json!(!faults))
    );
    for finding in &findings {
        assert_eq!(finding["verdict"] == "ok", finding["remedy"].is_null(), "{finding}");
    }
    findings
}

/// What was found by a check, as `verdict: seen`.
fn found(findings: &[Value], check: &str) -> String {
    findings
        .iter()
        .filter(|finding| finding["check"] == check)
        .map(|finding| {
            format!(
                "{}: {}\n",
                finding["verdict"].as_str().unwrap(),
                finding["seen"].as_str().unwrap()
            )
        })
        .collect()
}

fn pin(staging: &Staging, fingerprint: Fingerprint) {
    let state = StateDir::open(&staging.path(STATE)).unwrap();
    let mut identity = state.load_or_create_identity(0).unwrap();
    let controller = KeyPair::generate().unwrap();
    state
        .pin_controller(&mut identity, controller.public_key(), fingerprint)
        .unwrap();
}

fn controller() -> (TempDir, Certificate, Peer) {
    let folder = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(folder.path(), "controller");
    let peer = Peer::controller(&certificate, json!({}));
    (folder, certificate, peer)
}

#[test]
fn a_host_before_its_first_pairing_is_healthy() {
    let staging = Staging::installed();
    let (_folder, certificate, peer) = controller();
    configure(&staging, peer.port, "");
    let findings = examine(&staging);
    assert!(
        findings.iter().all(|finding| finding["verdict"] != "fault"),
        "{findings:#?}"
    );
    let tls = found(&findings, "tls");
    assert!(
        tls.contains(&certificate.fingerprint) && tls.contains("nothing is pinned yet"),
        "{tls}"
    );
    assert!(found(&findings, "state").contains("is private"));
    assert!(found(&findings, "dns").contains("needs none"));
    let words = String::from_utf8(staging.goblin(&["doctor"]).stdout).unwrap();
    assert!(words.contains(&certificate.fingerprint), "{words}");
}

#[test]
fn the_pin_is_compared_with_the_certificate() {
    let staging = Staging::installed();
    let (_folder, certificate, peer) = controller();
    configure(&staging, peer.port, "");
    pin(&staging, certificate.fingerprint.parse().unwrap());
    assert!(found(&examine(&staging), "tls").contains("ok: it is the pinned one"));
    fs::remove_dir_all(staging.path(STATE)).unwrap();
    pin(&staging, Fingerprint::of_der(b"another"));
    let findings = examine(&staging);
    assert!(
        found(&findings, "tls").contains("fault: the pinned certificate is another"),
        "{findings:#?}"
    );
}

#[test]
fn the_operators_fingerprint_and_authority_are_compared_too() {
    let staging = Staging::installed();
    let (folder, certificate, peer) = controller();
    let other = Certificate::new(folder.path(), "other");
    let tls = |more: String| {
        configure(&staging, peer.port, &more);
        found(&examine(&staging), "tls")
    };
    let fingerprint = |text: &str| format!("BURROW_GATEWAY_CONTROLLER_FINGERPRINT={text}\n");
    assert!(tls(fingerprint(&certificate.fingerprint)).contains("ok: it is the one of"));
    assert!(
        tls(fingerprint(&other.fingerprint)).contains("fault: BURROW_GATEWAY_CONTROLLER_FINGERPRINT names another")
    );
    assert!(tls(fingerprint("abc")).contains("fault: BURROW_GATEWAY_CONTROLLER_FINGERPRINT: a fingerprint is"));
    let authority = |certificate: &Certificate| {
        staging.write("/etc/ca file.pem", fs::read(&certificate.cert).unwrap());
        "BURROW_GATEWAY_CA_FILE=\"/etc/ca file.pem\"\n".to_owned()
    };
    assert!(tls(authority(&certificate)).contains("ok: it passes BURROW_GATEWAY_CA_FILE"));
    assert!(tls(authority(&other)).contains("fault: it does not pass BURROW_GATEWAY_CA_FILE"));
}

#[test]
fn what_does_not_answer_is_told_apart() {
    let staging = Staging::installed();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().into();
    // A listener that takes connections and hangs up: no TLS.
    let hanging_up = std::thread::spawn(move || {
        let (first, _) = listener.accept().unwrap();
        drop(first);
        let (second, _) = listener.accept().unwrap();
        drop(second);
    });
    configure(&staging, port, "");
    let findings = examine(&staging);
    hanging_up.join().unwrap();
    assert!(found(&findings, "tcp").starts_with("ok: "), "{findings:#?}");
    assert!(
        found(&findings, "tls").contains("fault: the TLS handshake failed"),
        "{findings:#?}"
    );
    // Nobody listens there any more.
    let findings = examine(&staging);
    assert!(found(&findings, "tcp").contains("refused"), "{findings:#?}");
    assert_eq!(found(&findings, "tls"), "");
}

#[test]
fn a_name_that_is_none_is_a_fault_of_dns() {
    let staging = Staging::installed();
    staging.write(
        ENV,
        "BURROW_GATEWAY_CONTROLLER_URL=tls://no-such-host.invalid:7443\nBURROW_GATEWAY_ID=host-1\n",
    );
    let findings = examine(&staging);
    assert!(
        found(&findings, "dns").starts_with("fault: no-such-host.invalid can't be resolved"),
        "{findings:#?}"
    );
}

#[test]
fn a_proxy_is_named_and_direct_looks_count_less() {
    let staging = Staging::installed();
    staging.write(
        ENV,
        "BURROW_GATEWAY_CONTROLLER_URL=tls://no-such-host.invalid:7443\nBURROW_GATEWAY_ID=host-1\nHTTPS_PROXY=http://user:hunter2@p:1\n",
    );
    let findings = examine(&staging);
    assert!(found(&findings, "dns").starts_with("warning: "), "{findings:#?}");
    assert!(found(&findings, "proxy").contains("HTTPS_PROXY"));
    assert!(!format!("{findings:?}").contains("hunter2"));
}

#[test]
fn modes_that_let_others_look_are_faults() {
    let staging = Staging::installed();
    configure(&staging, 1, "");
    pin(&staging, Fingerprint::of_der(b"x"));
    let chmod = |path: &str, mode| fs::set_permissions(staging.path(path), fs::Permissions::from_mode(mode)).unwrap();
    chmod(STATE, 0o755);
    chmod(&format!("{STATE}/node-identity.json"), 0o644);
    let state = found(&examine(&staging), "state");
    assert!(
        state.contains("has mode 0755") && state.contains("node-identity.json has mode 0644"),
        "{state}"
    );
    fs::remove_file(staging.path(STATE).join("node-identity.json")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", staging.path(STATE).join("node-identity.json")).unwrap();
    let findings = examine(&staging);
    assert!(found(&findings, "state").contains("no regular file"));
    assert!(found(&findings, "identity").starts_with("fault"), "{findings:#?}");
}

#[test]
fn a_configuration_that_gives_a_secret_away_or_lacks_something_is_a_fault() {
    let staging = Staging::installed();
    let configuration = || found(&examine(&staging), "configuration");
    let unset = configuration();
    assert!(
        unset.contains("CONTROLLER_URL is not set") && unset.contains("GATEWAY_ID is not set"),
        "{unset}"
    );
    configure(&staging, 1, "BURROW_GATEWAY_ENROLLMENT_TOKEN=hunter2\n");
    fs::set_permissions(staging.path(ENV), fs::Permissions::from_mode(0o644)).unwrap();
    let told = configuration();
    assert!(
        told.contains("holds a secret and has mode 0644") && !told.contains("hunter2"),
        "{told}"
    );
    configure(&staging, 1, "BURROW_GATEWAY_CA_FILE=/no/such.pem\n");
    assert!(configuration().contains("BURROW_GATEWAY_CA_FILE"));
    staging.write(ENV, "BURROW_GATEWAY_CONTROLLER_URL=https://x\nBURROW_GATEWAY_ID=a/b\n");
    let wrong = configuration();
    assert!(wrong.contains("tls://") && wrong.contains("a/b"), "{wrong}");
    fs::remove_file(staging.path(ENV)).unwrap();
    assert!(configuration().contains("gateway.env is missing"));
}

#[test]
fn clocks_that_disagree_are_a_fault() {
    let staging = Staging::installed();
    configure(&staging, 1, "");
    let note = |connection: &str| {
        json!({"pid": 1, "version": "1", "phase": "connected", "since": "2026-01-01T00:10:00.000Z", "controller": "c:1",
            "gatewayId": "host-1", "journalEntries": 0, "connectionId": connection})
        .to_string()
    };
    // 2026-01-01T00:10:00Z, and ten minutes before.
    staging.write("/var/lib/burrow-host-gateway/status.json", note("1767226200000-ab"));
    assert!(found(&examine(&staging), "clock").contains("ok: agrees"));
    staging.write("/var/lib/burrow-host-gateway/status.json", note("1767225600000-ab"));
    assert!(found(&examine(&staging), "clock").contains("fault: this host was 600 s ahead of"));
}
