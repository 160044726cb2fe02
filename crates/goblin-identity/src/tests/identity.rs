//! The identity file, ours and the baseline's.

use std::fs;
use std::os::unix::fs::MetadataExt;

use goblin_keys::{Fingerprint, KeyPair, PublicKey};

use super::{NOW, NOW_TEXT, Scratch, mode};
use crate::IdentityError;

const PRIVATE: &str = r"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB\n-----END PRIVATE KEY-----\n";
const PUBLIC: &str = r"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=\n-----END PUBLIC KEY-----\n";
const CONTROLLER: &str = r"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAgTl3Dqh9F19Wo1Rmw0x+zMuNipG07jeiXfYPW4/Js5Q=\n-----END PUBLIC KEY-----\n";
const FINGERPRINT: &str = "9ac0c433f90f405d9b2858e86bda76b00cb76a7c876d62764e19eb07e0a4ce89";

/// An identity as the deployed implementation may have written it, with further members.
fn baseline(more: &str) -> String {
    format!(
        r#"{{"version":1,"nodeId":"5f0c1c0e-7d4b-4a9b-9d64-2f6a5b1f7a11","publicKey":"{PUBLIC}","privateKey":"{PRIVATE}","createdAt":"2026-01-02T03:04:05.678Z"{more}}}"#
    )
}

fn controller() -> PublicKey {
    PublicKey::from_pem(&CONTROLLER.replace(r"\n", "\n")).unwrap()
}

#[test]
fn an_identity_is_made_once_and_read_again() {
    let scratch = Scratch::new();
    let state = scratch.open();
    assert!(state.load_identity().unwrap().is_none());
    let made = state.load_or_create_identity(NOW).unwrap();
    let text = scratch.get("node-identity.json");
    assert_eq!(mode(&scratch.file("node-identity.json")), 0o600);
    assert_eq!(made.created_at(), NOW_TEXT);
    assert_eq!(uuid::Uuid::parse_str(made.node_id()).unwrap().get_version_num(), 4);
    assert!(made.controller_key().is_none() && made.controller_fingerprint().is_none());

    let members = ["version", "nodeId", "publicKey", "privateKey", "createdAt"];
    let at: Vec<_> = members
        .iter()
        .map(|name| text.find(&format!("\"{name}\": ")).unwrap())
        .collect();
    assert!(at.is_sorted(), "{at:?}");
    assert!(text.starts_with("{\n  \"version\": 1,\n") && text.ends_with("Z\"\n}\n"));

    drop(state);
    let again = scratch.open().load_or_create_identity(NOW + 1).unwrap();
    assert_eq!(again.node_id(), made.node_id());
    assert_eq!(again.keys().public_pem(), made.keys().public_pem());
    assert_eq!(again.created_at(), NOW_TEXT);
    assert_eq!(scratch.get("node-identity.json"), text);
    let other = Scratch::new().open().load_or_create_identity(NOW).unwrap();
    assert_ne!(other.keys().public_pem(), made.keys().public_pem());
    assert_ne!(other.node_id(), made.node_id());
}

#[test]
fn a_baseline_identity_is_taken_over_byte_for_byte() {
    let pins = format!(r#","controllerPublicKey":"{CONTROLLER}","controllerTlsFingerprint":"{FINGERPRINT}""#);
    let pretty = baseline(&pins).replace(",\"", ",\r\n\t\"");
    for content in [
        baseline(""),
        baseline(&pins),
        pretty,
        format!("  {}\n\n", baseline(&pins)),
    ] {
        let scratch = Scratch::new();
        scratch.put("node-identity.json", &content);
        let inode = fs::metadata(scratch.file("node-identity.json")).unwrap().ino();
        let state = scratch.open();
        let mut identity = state.load_or_create_identity(NOW).unwrap();
        assert_eq!(identity.node_id(), "5f0c1c0e-7d4b-4a9b-9d64-2f6a5b1f7a11");
        assert_eq!(identity.keys().public_pem(), PUBLIC.replace(r"\n", "\n"));
        assert_eq!(identity.created_at(), "2026-01-02T03:04:05.678Z");
        if content.contains("controllerPublicKey") {
            assert_eq!(identity.controller_key(), Some(&controller()));
            assert_eq!(identity.controller_fingerprint().unwrap().to_hex(), FINGERPRINT);
            // Nothing new, so nothing is written.
            state
                .pin_controller(&mut identity, &controller(), FINGERPRINT.parse().unwrap())
                .unwrap();
            state
                .update_pinned_fingerprint(&mut identity, FINGERPRINT.parse().unwrap())
                .unwrap();
        } else {
            assert!(identity.controller_key().is_none() && identity.controller_fingerprint().is_none());
            state.unpair(NOW).unwrap();
        }
        assert_eq!(scratch.get("node-identity.json"), content);
        assert_eq!(fs::metadata(scratch.file("node-identity.json")).unwrap().ino(), inode);
    }
}

#[test]
fn what_another_version_added_survives_in_its_place() {
    let scratch = Scratch::new();
    let odd = r#","later":{"z":[1.50,1e400,"\ud83d"],"a":null},"versioN":2"#;
    scratch.put("node-identity.json", &baseline(odd));
    let state = scratch.open();
    let mut identity = state.load_or_create_identity(NOW).unwrap();
    let first = Fingerprint::of_der(b"first");
    state.pin_controller(&mut identity, &controller(), first).unwrap();
    let text = scratch.get("node-identity.json");
    let expected = format!(
        concat!(
            "{{\n  \"version\": 1,\n  \"nodeId\": \"5f0c1c0e-7d4b-4a9b-9d64-2f6a5b1f7a11\",\n",
            "  \"publicKey\": \"{}\",\n  \"privateKey\": \"{}\",\n  \"createdAt\": \"2026-01-02T03:04:05.678Z\",\n",
            "  \"later\": {{\"z\":[1.50,1e400,\"\\ud83d\"],\"a\":null}},\n  \"versioN\": 2,\n",
            "  \"controllerPublicKey\": \"{}\",\n  \"controllerTlsFingerprint\": \"{}\"\n}}\n",
        ),
        PUBLIC, PRIVATE, CONTROLLER, first
    );
    assert_eq!(text, expected);

    let renewed = Fingerprint::of_der(b"renewed");
    state.update_pinned_fingerprint(&mut identity, renewed).unwrap();
    assert_eq!(identity.controller_fingerprint(), Some(renewed));
    assert_eq!(
        scratch.get("node-identity.json"),
        text.replace(&first.to_hex(), &renewed.to_hex())
    );
    let again = state.load_identity().unwrap().unwrap();
    assert_eq!(again.controller_key(), Some(&controller()));
    assert_eq!(again.controller_fingerprint(), Some(renewed));
}

#[test]
fn a_pin_is_never_replaced_by_another_key() {
    let scratch = Scratch::new();
    let state = scratch.open();
    let mut identity = state.load_or_create_identity(NOW).unwrap();
    let fingerprint = Fingerprint::of_der(b"first");
    state.pin_controller(&mut identity, &controller(), fingerprint).unwrap();
    let before = scratch.get("node-identity.json");
    let stranger = KeyPair::generate().unwrap();
    let other = Fingerprint::of_der(b"other");
    let error = state
        .pin_controller(&mut identity, stranger.public_key(), other)
        .unwrap_err();
    assert_eq!(error.code(), "controller_already_pinned");
    assert_eq!(scratch.get("node-identity.json"), before);
    assert_eq!(identity.controller_key(), Some(&controller()));
    assert_eq!(identity.controller_fingerprint(), Some(fingerprint));
}

#[test]
fn a_pin_that_can_not_be_stored_does_not_count() {
    let scratch = Scratch::new();
    let state = scratch.open();
    let mut identity = state.load_or_create_identity(NOW).unwrap();
    fs::remove_file(scratch.file("node-identity.json")).unwrap();
    fs::create_dir(scratch.file("node-identity.json")).unwrap();
    state
        .pin_controller(&mut identity, &controller(), Fingerprint::of_der(b"x"))
        .unwrap_err();
    assert!(identity.controller_key().is_none());
    assert!(identity.controller_fingerprint().is_none());
}

#[test]
fn a_fingerprint_is_read_in_every_usual_form() {
    let scratch = Scratch::new();
    let upper = FINGERPRINT.to_uppercase();
    let pairs: Vec<&str> = (0..32).map(|at| &upper[at * 2..at * 2 + 2]).collect();
    let pins = format!(
        r#","controllerPublicKey":null,"controllerTlsFingerprint":"{}""#,
        pairs.join(":")
    );
    scratch.put("node-identity.json", &baseline(&pins));
    let identity = scratch.open().load_identity().unwrap().unwrap();
    assert_eq!(identity.controller_fingerprint().unwrap().to_hex(), FINGERPRINT);
    assert!(identity.controller_key().is_none());
}

#[test]
fn of_doubled_members_the_last_counts() {
    let scratch = Scratch::new();
    let pins = format!(r#","controllerTlsFingerprint":"junk","controllerTlsFingerprint":"{FINGERPRINT}""#);
    scratch.put("node-identity.json", &baseline(&pins));
    let identity = scratch.open().load_identity().unwrap().unwrap();
    assert_eq!(identity.controller_fingerprint().unwrap().to_hex(), FINGERPRINT);
}

#[test]
fn a_broken_identity_stops_the_start_and_is_left_alone() {
    let good = baseline("");
    let other = KeyPair::generate().unwrap();
    let foreign = other.public_pem().replace('\n', r"\n");
    let cut = good[..good.len() / 2].to_owned();
    let cases: Vec<(String, &str)> = vec![
        (String::new(), "it is empty"),
        (" \n".to_owned(), "it is empty"),
        (cut, "cut off"),
        (good[..good.len() - 1].to_owned(), "cut off"),
        (format!("{good}x"), "no JSON text (line 1"),
        ("[]".to_owned(), "no JSON object"),
        ("null".to_owned(), "no JSON object"),
        ("\"text\"".to_owned(), "no JSON object"),
        ("[".repeat(60_000), "no JSON object"),
        (format!("{{\"a\":{}", "[".repeat(60_000)), "cut off"),
        ("\0\0\0\0".to_owned(), "no JSON text"),
        ("{}".to_owned(), "version is missing"),
        (good.replace("\"version\":1", "\"version\":2"), "version is not 1"),
        (good.replace("\"version\":1", "\"version\":\"1\""), "version is not 1"),
        (
            good.replace("\"nodeId\":\"5f0c1c0e-7d4b-4a9b-9d64-2f6a5b1f7a11\",", ""),
            "nodeId is missing",
        ),
        (
            good.replace("5f0c1c0e-7d4b-4a9b-9d64-2f6a5b1f7a11", " "),
            "nodeId is empty",
        ),
        (
            good.replace("\"5f0c1c0e-7d4b-4a9b-9d64-2f6a5b1f7a11\"", "7"),
            "nodeId is no text",
        ),
        (good.replace(PRIVATE, ""), "privateKey is empty"),
        (
            good.replace("AEBAQEB", "!!!!!!!"),
            "privateKey: this is no Ed25519 private key",
        ),
        (good.replace(PUBLIC, &foreign), "publicKey is not the public half"),
        (
            good.replace(PUBLIC, PUBLIC.trim_end_matches(r"\n")),
            "publicKey is not the public half",
        ),
        (
            baseline(r#","controllerPublicKey":"junk""#),
            "controllerPublicKey: this is no Ed25519 public key",
        ),
        (
            baseline(r#","controllerTlsFingerprint":"ab:cd""#),
            "controllerTlsFingerprint: a fingerprint is",
        ),
        (
            baseline(r#","controllerTlsFingerprint":{}"#),
            "controllerTlsFingerprint is no text",
        ),
    ];
    for (content, reason) in cases {
        let scratch = Scratch::new();
        scratch.put("node-identity.json", &content);
        let error = scratch.open().load_or_create_identity(NOW).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, IdentityError::Invalid { .. }), "{text}");
        assert!(
            text.contains(&scratch.file("node-identity.json").display().to_string()),
            "{text}"
        );
        assert!(text.contains(reason), "{text} instead of {reason}");
        assert!(
            !text.contains("EBAQEB") && !format!("{error:?}").contains("EBAQEB"),
            "{text}"
        );
        assert_eq!(scratch.get("node-identity.json"), content);
    }
}

#[test]
fn debug_shows_no_private_key() {
    let scratch = Scratch::new();
    scratch.put("node-identity.json", &baseline(""));
    let state = scratch.open();
    let identity = state.load_identity().unwrap().unwrap();
    let shown = format!("{identity:?} {state:?}");
    assert!(shown.contains(identity.node_id()), "{shown}");
    assert!(!shown.contains("EBAQEB") && !shown.contains("PRIVATE"), "{shown}");
}

#[test]
fn a_cloned_directory_has_the_same_identity() {
    let (original, clone) = (Scratch::new(), Scratch::new());
    let first = original.open();
    let identity = first.load_or_create_identity(NOW).unwrap();
    for name in original.names() {
        fs::copy(original.file(&name), clone.file(&name)).unwrap();
    }
    let second = clone.open();
    // Both run; it is the controller that refuses the second connection of one id.
    let cloned = second.load_or_create_identity(NOW + 1).unwrap();
    assert_eq!(cloned.keys().public_pem(), identity.keys().public_pem());
    assert_eq!(cloned.node_id(), identity.node_id());
}
