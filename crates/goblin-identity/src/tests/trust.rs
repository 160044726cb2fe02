//! HMAC enrolment and unpairing.

use goblin_keys::Fingerprint;
use secrecy::{ExposeSecret, SecretString};

use super::{NOW, NOW_TEXT, Scratch, mode, set_mode};
use crate::{ControllerTrust, Credential, IdentityError, StateDir, credential};

const BASELINE: &str = r#"{"version":1,"controllerId":"controller","secret":"sch\u00f6n \"geheim\"","enrolledAt":"2026-01-02T03:04:05.678Z"}"#;

fn token(text: &str) -> Option<SecretString> {
    Some(text.into())
}

fn told(credential: &Credential) -> String {
    match credential {
        Credential::Stored(trust) => format!("stored {}", trust.secret.expose_secret()),
        Credential::Token(token) => format!("token {}", token.expose_secret()),
        Credential::None => "none".to_owned(),
    }
}

#[test]
fn which_secret_counts() {
    let trust = || {
        Some(ControllerTrust {
            controller_id: "controller".into(),
            secret: "old".into(),
            enrolled_at: NOW_TEXT.into(),
        })
    };
    let table = [
        (None, false, None, "none"),
        (None, false, token("new"), "token new"),
        (None, false, token(""), "none"),
        (None, false, token(" \n"), "none"),
        (None, true, None, "none"),
        (None, true, token("new"), "none"),
        (trust(), false, None, "stored old"),
        (trust(), false, token("new"), "stored old"),
        (trust(), true, None, "stored old"),
        (trust(), true, token("new"), "stored old"),
        (trust(), true, token("old"), "stored old"),
    ];
    for (index, (trust, consumed, token, expected)) in table.into_iter().enumerate() {
        assert_eq!(told(&credential(trust, consumed, token)), expected, "row {index}");
    }
}

#[test]
fn a_token_is_used_once() {
    let scratch = Scratch::new();
    let state = scratch.open();
    let first = state.credential(token("token")).unwrap();
    assert_eq!(told(&first), "token token");
    // Not used yet: a failed attempt changes nothing.
    assert_eq!(scratch.names(), ["daemon.lock"]);
    assert_eq!(told(&state.credential(token("corrected")).unwrap()), "token corrected");

    state.authenticated(&first, "controller", NOW).unwrap();
    assert_eq!(
        scratch.names(),
        ["controller-enrollment-consumed", "controller-trust.json", "daemon.lock"]
    );
    assert_eq!(scratch.get("controller-enrollment-consumed"), format!("{NOW_TEXT}\n"));
    let expected = format!(
        "{{\n  \"version\": 1,\n  \"controllerId\": \"controller\",\n  \"secret\": \"token\",\n  \"enrolledAt\": \"{NOW_TEXT}\"\n}}\n"
    );
    assert_eq!(scratch.get("controller-trust.json"), expected);
    assert_eq!(mode(&scratch.file("controller-trust.json")), 0o600);

    let later = state.credential(token("changed")).unwrap();
    assert_eq!(told(&later), "stored token");
    state.authenticated(&later, "controller", NOW + 1).unwrap();
    assert_eq!(scratch.get("controller-trust.json"), expected);
    assert_eq!(scratch.get("controller-enrollment-consumed"), format!("{NOW_TEXT}\n"));
}

#[test]
fn a_crash_between_trust_and_marker_locks_nobody_out() {
    let scratch = Scratch::new();
    let state = scratch.open();
    state.store_trust("controller", &"token".into(), NOW).unwrap();
    let found = state.credential(token("token")).unwrap();
    assert_eq!(told(&found), "stored token");
    state.authenticated(&found, "controller", NOW).unwrap();
    assert!(state.enrollment_consumed().unwrap());
}

#[test]
fn key_pairing_leaves_enrolment_alone() {
    let scratch = Scratch::new();
    let state = scratch.open();
    state.authenticated(&Credential::None, "controller", NOW).unwrap();
    assert!(!state.enrollment_consumed().unwrap());
    assert!(state.load_trust().unwrap().is_none());
}

#[test]
fn a_baseline_trust_is_taken_over_byte_for_byte() {
    let scratch = Scratch::new();
    scratch.put("controller-trust.json", BASELINE);
    scratch.put("controller-enrollment-consumed", "2026-01-02T03:04:05.678Z\n");
    let state = scratch.open();
    let trust = state.load_trust().unwrap().unwrap();
    assert_eq!(trust.controller_id, "controller");
    assert_eq!(trust.secret.expose_secret(), "schön \"geheim\"");
    assert_eq!(trust.enrolled_at, "2026-01-02T03:04:05.678Z");
    assert!(state.enrollment_consumed().unwrap());
    let found = state.credential(token("other")).unwrap();
    state.authenticated(&found, "controller", NOW).unwrap();
    state.store_trust("controller", &trust.secret, NOW).unwrap();
    assert_eq!(scratch.get("controller-trust.json"), BASELINE);
    assert_eq!(
        scratch.get("controller-enrollment-consumed"),
        "2026-01-02T03:04:05.678Z\n"
    );
}

#[test]
fn a_rewritten_trust_keeps_what_another_version_added() {
    let scratch = Scratch::new();
    scratch.put(
        "controller-trust.json",
        &BASELINE.replace("\"secret\"", "\"note\":[1, 2],\"secret\""),
    );
    let state = scratch.open();
    state.store_trust("other", &"new".into(), NOW).unwrap();
    let text = scratch.get("controller-trust.json");
    assert!(
        text.contains("\"controllerId\": \"other\",\n  \"note\": [1, 2],\n  \"secret\": \"new\""),
        "{text}"
    );
    assert!(!text.contains("geheim"), "{text}");
}

#[test]
fn a_broken_trust_stops_the_start_without_showing_it() {
    let cases = [
        ("", "it is empty"),
        (&BASELINE[..BASELINE.len() - 10], "cut off"),
        ("{\"version\":1,\"secret\":\"geheim\"}", "controllerId is missing"),
        (
            "{\"version\":1,\"controllerId\":\"c\",\"enrolledAt\":\"x\"}",
            "secret is missing",
        ),
        (
            "{\"version\":1,\"controllerId\":\"c\",\"secret\":[\"geheim\"],\"enrolledAt\":\"x\"}",
            "secret is no text",
        ),
        (
            "{\"version\":1,\"controllerId\":\"c\",\"secret\":\"\",\"enrolledAt\":\"x\"}",
            "secret is empty",
        ),
        ("{\"version\":3}", "version is not 1"),
        ("geheim", "no JSON text"),
    ];
    for (content, reason) in cases {
        let scratch = Scratch::new();
        scratch.put("controller-trust.json", content);
        let error = scratch.open().credential(token("token")).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(matches!(error, IdentityError::Invalid { .. }), "{text}");
        assert!(
            text.contains("controller-trust.json") && text.contains(reason),
            "{text} instead of {reason}"
        );
        assert!(!text.contains("geheim"), "{text}");
        assert_eq!(scratch.get("controller-trust.json"), content);
    }
}

#[test]
fn an_exposed_trust_is_refused_while_running_too() {
    let scratch = Scratch::new();
    let state = scratch.open();
    state.store_trust("controller", &"token".into(), NOW).unwrap();
    set_mode(&scratch.file("controller-trust.json"), 0o644);
    assert_eq!(state.load_trust().unwrap_err().code(), "state_file_exposed");
}

#[test]
fn debug_shows_no_secret() {
    let scratch = Scratch::new();
    let state = scratch.open();
    state.store_trust("controller", &"geheim".into(), NOW).unwrap();
    let shown = format!(
        "{:?} {:?}",
        state.load_trust().unwrap(),
        state.credential(None).unwrap()
    );
    assert!(shown.contains("controller") && !shown.contains("geheim"), "{shown}");
    assert!(!format!("{:?}", Credential::Token("geheim".into())).contains("geheim"));
}

#[test]
fn unpairing_forgets_the_controller_and_keeps_the_host() {
    let scratch = Scratch::new();
    scratch.put("operations.json", "{\"entries\":[]}");
    let state = scratch.open();
    let mut identity = state.load_or_create_identity(NOW).unwrap();
    let unpaired = scratch.get("node-identity.json");
    let key = identity.keys().public_key().clone();
    state
        .pin_controller(&mut identity, &key, Fingerprint::of_der(b"x"))
        .unwrap();
    state.store_trust("controller", &"token".into(), NOW).unwrap();
    state.write_pairing_code("worker", "AAAA-BBBB-CCCC", NOW).unwrap();

    state.unpair(NOW).unwrap();
    let left = [
        "controller-enrollment-consumed",
        "daemon.lock",
        "node-identity.json",
        "operations.json",
    ];
    assert_eq!(scratch.names(), left);
    assert_eq!(scratch.get("node-identity.json"), unpaired);
    assert_eq!(scratch.get("operations.json"), "{\"entries\":[]}");
    assert_eq!(told(&state.credential(token("token")).unwrap()), "none");
    // Once more changes nothing.
    state.unpair(NOW + 1).unwrap();
    assert_eq!(scratch.get("controller-enrollment-consumed"), format!("{NOW_TEXT}\n"));
    assert_eq!(scratch.names(), left);
}

#[test]
fn unpairing_a_fresh_directory_makes_tokens_inert() {
    let folder = tempfile::tempdir().unwrap();
    let state = StateDir::open(&folder.path().join("state")).unwrap();
    state.unpair(NOW).unwrap();
    assert!(state.load_identity().unwrap().is_none());
    assert_eq!(told(&state.credential(token("token")).unwrap()), "none");
}

#[test]
fn a_check_at_the_start_names_the_broken_file_and_unpairing_still_removes_it() {
    let cases = [
        ("controller-trust.json", "{\"version\":1", "cut off"),
        (
            "controller-trust.json",
            r#"{"version":2,"controllerId":"c","secret":"s3cret","enrolledAt":"x"}"#,
            "version is not 1",
        ),
        (
            "controller-trust.json",
            r#"{"version":1,"controllerId":"c","secret":"s3cret"}"#,
            "enrolledAt",
        ),
        ("controller-trust.json", "", "empty"),
        ("node-identity.json", r#"{"version":2}"#, "version is not 1"),
        ("node-identity.json", "[]", "no JSON object"),
    ];
    for (name, content, reason) in cases {
        let scratch = Scratch::new();
        scratch.open().check().unwrap();
        scratch.put(name, content);
        let state = scratch.open();
        let error = state.check().unwrap_err();
        assert_eq!(error.code(), "state_file_invalid");
        let text = error.to_string();
        assert!(text.contains(name) && text.contains(reason), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
        assert_eq!(scratch.get(name), content);
        if name == "controller-trust.json" {
            state.unpair(NOW).unwrap();
            state.check().unwrap();
        }
    }
    let scratch = Scratch::new();
    let state = scratch.open();
    state.load_or_create_identity(NOW).map(|_| ()).unwrap();
    state.store_trust("c", &"s".into(), NOW).unwrap();
    state.check().unwrap();
}
