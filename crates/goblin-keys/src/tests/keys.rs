//! Key pairs against the golden authentication vectors and OpenSSL.

use std::fs;

use serde_json::Value;

use super::openssl;
use crate::fingerprint::hex_of;
use crate::{KeyError, KeyPair, PublicKey, proof, signature};

/// Made with Node's crypto and OpenSSL keys.
const VECTORS: &str = include_str!("auth.json");

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no {pointer}"))
}

fn sha256_hex(bytes: &[u8]) -> String {
    hex_of(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes).as_ref())
}

#[test]
fn pem_texts_come_back_byte_for_byte() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    for who in ["/node", "/controller"] {
        let private = text(&vectors, &format!("{who}/privateKey"));
        let public = text(&vectors, &format!("{who}/publicKey"));
        let pair = KeyPair::from_private_pem(private).unwrap();
        assert_eq!(*pair.private_pem(), private);
        assert_eq!(pair.public_pem(), public);
        assert_eq!(PublicKey::from_pem(public).unwrap(), *pair.public_key());
        assert_eq!(PublicKey::from_pem(public).unwrap().pem(), public);
    }
}

#[test]
fn signatures_and_proofs_equal_the_vectors() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let node = KeyPair::from_private_pem(text(&vectors, "/node/privateKey")).unwrap();
    let controller = KeyPair::from_private_pem(text(&vectors, "/controller/privateKey")).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 3);
    for case in cases {
        let (nonce, id) = (text(case, "/nonce"), text(case, "/gatewayId"));
        let transcript = [
            "burrow-node-goblin-pairing-v1",
            nonce,
            id,
            node.public_pem(),
            controller.public_pem(),
        ]
        .join("\0");
        assert_eq!(sha256_hex(transcript.as_bytes()), text(case, "/transcriptSha256"));
        let signed = node.sign(transcript.as_bytes());
        assert_eq!(signature::encode(&signed), text(case, "/pairingSignature"));
        assert!(node.public_key().verify(transcript.as_bytes(), &signed));
        assert!(!controller.public_key().verify(transcript.as_bytes(), &signed));

        let message = ["burrow-host-gateway-auth-v1", id, nonce].join("\0");
        let secret = text(case, "/hmac/secret").as_bytes();
        assert_eq!(proof::prove(secret, message.as_bytes()), text(case, "/hmac/proof"));
        assert!(proof::verify(secret, message.as_bytes(), text(case, "/hmac/proof")));

        let leaf = text(case, "/controllerProof/leafSha256");
        let message = ["burrow-node-goblin-controller-v1", nonce, leaf].join("\0");
        let signed = signature::decode(text(case, "/controllerProof/signature")).unwrap();
        assert!(controller.public_key().verify(message.as_bytes(), &signed));
        assert_eq!(controller.sign(message.as_bytes()), signed);
    }
}

#[test]
fn a_changed_message_or_signature_does_not_verify() {
    let pair = KeyPair::generate().unwrap();
    let signed = pair.sign(b"message");
    assert!(pair.public_key().verify(b"message", &signed));
    assert!(!pair.public_key().verify(b"messagf", &signed));
    assert!(!pair.public_key().verify(b"", &signed));
    for at in [0, 31, 32, 63] {
        let mut changed = signed;
        changed[at] ^= 1;
        assert!(!pair.public_key().verify(b"message", &changed), "byte {at}");
    }
    assert!(!pair.public_key().verify(b"message", &signed[..63]));
    assert!(!pair.public_key().verify(b"message", &[]));
    assert!(!pair.public_key().verify(b"message", &[0; 64]));
}

#[test]
fn generated_pairs_differ_and_survive_their_texts() {
    let (first, second) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    assert_ne!(first.public_pem(), second.public_pem());
    let again = KeyPair::from_private_pem(&first.private_pem()).unwrap();
    assert_eq!(again.public_pem(), first.public_pem());
    assert_eq!(again.private_pem(), first.private_pem());
}

#[test]
fn a_public_key_has_exactly_one_text() {
    let pem = KeyPair::generate().unwrap().public_pem().to_owned();
    let body = pem.lines().nth(1).unwrap();
    let folded = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n{}\n-----END PUBLIC KEY-----\n",
        &body[..32],
        &body[32..]
    );
    let ed25519_private = KeyPair::generate().unwrap().private_pem().to_string();
    let rsa = include_str!("rsa-cert.pem");
    for wrong in [
        "",
        "-----BEGIN PUBLIC KEY-----",
        pem.trim_end(),
        &format!("{pem}\n"),
        &format!("\n{pem}"),
        &pem.replace('\n', "\r\n"),
        &pem.replace("PUBLIC KEY", "PUBLIX KEY"),
        &pem.replace("MCow", "MCox"),
        &pem.replace('=', "A"),
        &pem.replace(body, &body.replace("K2Vw", "K2Vu")),
        &folded,
        &ed25519_private,
        rsa,
        &"\0".repeat(113),
        &pem.replace("-----END", "-----ÉND")
            .chars()
            .take(112)
            .collect::<String>(),
    ] {
        assert_eq!(
            PublicKey::from_pem(wrong).unwrap_err(),
            KeyError::PublicKeyInvalid,
            "{wrong:?}"
        );
    }
    assert_eq!(KeyError::PublicKeyInvalid.code(), "public_key_invalid");
}

#[test]
fn what_is_no_private_key_is_refused_without_showing_it() {
    let pair = KeyPair::generate().unwrap();
    let pem = pair.private_pem();
    let body = pem.lines().nth(1).unwrap();
    for wrong in [
        "",
        "secret",
        pair.public_pem(),
        include_str!("rsa-key.pem"),
        &pem.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
        &pem.replace(body, &body[..60]),
        &"A".repeat(100_000),
    ] {
        let error = KeyPair::from_private_pem(wrong).unwrap_err();
        assert_eq!(error, KeyError::PrivateKeyInvalid);
        assert!(!format!("{error} {error:?}").contains(&body[22..]), "{error}");
    }
}

#[test]
fn debug_shows_no_private_key() {
    let pair = KeyPair::generate().unwrap();
    let shown = format!("{pair:?} {pair:#?}");
    let pem = pair.private_pem();
    assert!(shown.contains("PublicKey("), "{shown}");
    assert!(!shown.contains(pem.lines().nth(1).unwrap()), "{shown}");
    assert!(!shown.contains("PRIVATE"), "{shown}");
}

#[test]
fn version_2_private_keys_are_read_and_written_as_version_1() {
    let pair = aws_lc_rs::signature::Ed25519KeyPair::generate().unwrap();
    let der = pair.to_pkcs8().unwrap();
    let pem = pem_rfc7468::encode_string("PRIVATE KEY", pem_rfc7468::LineEnding::LF, der.as_ref()).unwrap();
    let read = KeyPair::from_private_pem(&pem).unwrap();
    assert!(read.private_pem().len() < pem.len());
    assert!(read.private_pem().contains("\nMC4CAQAwBQYDK2VwBCIEI"));
}

#[test]
fn openssl_agrees_with_keys_and_signatures() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for round in 0..4 {
        // Their key, our texts.
        let Some(_) = openssl(at, &["genpkey", "-algorithm", "ED25519", "-out", "theirs.pem"]) else {
            return;
        };
        let theirs = fs::read_to_string(at.join("theirs.pem")).unwrap();
        let pair = KeyPair::from_private_pem(&theirs).unwrap();
        assert_eq!(*pair.private_pem(), theirs, "round {round}");
        let public = openssl(at, &["pkey", "-in", "theirs.pem", "-pubout"]).unwrap();
        assert_eq!(pair.public_pem().as_bytes(), public, "round {round}");

        // Our key, their reading of it.
        let ours = KeyPair::generate().unwrap();
        fs::write(at.join("ours.pem"), ours.private_pem().as_bytes()).unwrap();
        fs::write(at.join("ours.pub"), ours.public_pem()).unwrap();
        assert_eq!(
            openssl(at, &["pkey", "-in", "ours.pem"]).unwrap(),
            ours.private_pem().as_bytes()
        );
        assert_eq!(
            openssl(at, &["pkey", "-in", "ours.pem", "-pubout"]).unwrap(),
            ours.public_pem().as_bytes()
        );

        // Signatures in both directions; Ed25519 is deterministic, so they are even equal.
        let message = b"burrow\0message";
        fs::write(at.join("message"), message).unwrap();
        fs::write(at.join("signature"), ours.sign(message)).unwrap();
        let verify = [
            "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "ours.pub", "-in", "message",
        ];
        openssl(at, &[&verify[..], &["-sigfile", "signature"]].concat()).unwrap();
        let signed = openssl(
            at,
            &["pkeyutl", "-sign", "-rawin", "-inkey", "ours.pem", "-in", "message"],
        )
        .unwrap();
        assert_eq!(signed, ours.sign(message));
    }
}
