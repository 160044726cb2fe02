//! Comparison, randomness, proofs, signature texts, fingerprints.

use std::collections::HashSet;

use crate::fingerprint::{Fingerprint, FingerprintError};
use crate::{compare, proof, random, signature};

#[test]
fn comparison_is_equality() {
    assert!(compare::text("", ""));
    assert!(compare::text("geheim", "geheim"));
    for other in ["", "geheiM", "Geheim", "geheim ", "gehei"] {
        assert!(!compare::text("geheim", other), "{other:?}");
    }
    assert!(compare::bytes(&[0, 255], &[0, 255]));
    assert!(!compare::bytes(&[0, 255], &[0, 254]));
}

#[test]
fn nonces_have_32_base64url_characters_and_differ() {
    let nonces: HashSet<String> = (0..64).map(|_| random::nonce().unwrap()).collect();
    assert_eq!(nonces.len(), 64);
    for nonce in nonces {
        assert_eq!(nonce.len(), 32);
        assert!(
            nonce
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'),
            "{nonce}"
        );
    }
}

#[test]
fn random_hex_has_two_digits_a_byte() {
    assert_eq!(random::hex(0).unwrap(), "");
    let text = random::hex(6).unwrap();
    assert_eq!(text.len(), 12);
    assert!(text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{text}");
    assert_ne!(text, random::hex(6).unwrap());
    let mut filled = [0; 64];
    random::fill(&mut filled).unwrap();
    assert_ne!(filled, [0; 64]);
}

#[test]
fn proof_is_hmac_sha_256_in_lower_case_hex() {
    // RFC 4231, test case 2.
    let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    let message = b"what do ya want for nothing?";
    assert_eq!(proof::prove(b"Jefe", message), expected);
    assert!(proof::verify(b"Jefe", message, expected));
    assert!(!proof::verify(b"jefe", message, expected));
    assert!(!proof::verify(b"Jefe", b"what do ya want for nothing", expected));
    for wrong in [
        "",
        "5b",
        &expected.to_uppercase(),
        &expected[..63],
        &format!("{expected}0"),
        &"é".repeat(32),
    ] {
        assert!(!proof::verify(b"Jefe", message, wrong), "{wrong:?}");
    }
}

#[test]
fn an_empty_secret_is_a_secret_like_any_other() {
    let of_nothing = proof::prove(b"", b"message");
    assert!(proof::verify(b"", b"message", &of_nothing));
    assert!(!proof::verify(b"x", b"message", &of_nothing));
}

#[test]
fn a_signature_has_exactly_one_text() {
    let bytes: [u8; 64] = std::array::from_fn(|index| index as u8 ^ 0xa5);
    let text = signature::encode(&bytes);
    assert_eq!(text.len(), 86);
    assert_eq!(signature::decode(&text), Some(bytes));

    // The last of 86 characters carries four bits that must be zero: the next letter names the same bytes.
    let all_zero = signature::encode(&[0; 64]);
    assert!(all_zero.ends_with('A'));
    let stray_bits = format!("{}B", &all_zero[..85]);
    let standard_alphabet = signature::encode(&[0xff; 64]).replace('_', "/");
    let padded = format!("{text}==");
    for wrong in [
        "",
        "AAAA",
        &stray_bits,
        &standard_alphabet,
        &padded,
        &text[..85],
        &format!(" {}", &text[1..]),
    ] {
        assert_eq!(signature::decode(wrong), None, "{wrong:?}");
    }
    assert_eq!(signature::decode(&"ä".repeat(43)), None);
}

#[test]
fn fingerprints_are_read_as_operators_write_them() {
    let fingerprint = Fingerprint::of_der(b"abc");
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(fingerprint.to_hex(), hex);
    assert_eq!(fingerprint.to_string(), hex);
    let upper = hex.to_uppercase();
    let pairs: Vec<&str> = (0..32).map(|at| &upper[at * 2..at * 2 + 2]).collect();
    let colons = pairs.join(":");
    let labelled = format!("sha256 Fingerprint={colons}\n");
    let spaced = format!("  {hex} \n");
    for text in [hex, &upper, &colons, &colons.to_lowercase(), &labelled, &spaced] {
        assert_eq!(Fingerprint::parse(text), Ok(fingerprint), "{text:?}");
    }
    assert_eq!(hex.parse(), Ok(fingerprint));
    assert_ne!(fingerprint, Fingerprint::of_der(b"abd"));
}

#[test]
fn what_is_no_fingerprint_is_refused() {
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let dashes: Vec<&str> = (0..32).map(|at| &hex[at * 2..at * 2 + 2]).collect();
    let dashes = dashes.join("-");
    let swapped = format!("g{}", &hex[1..]);
    let multibyte = "é".repeat(32);
    for text in [
        "",
        "ba78",
        &hex[1..],
        &format!("{hex}0"),
        &dashes,
        &swapped,
        &multibyte,
        "sha1 Fingerprint=BA:78",
    ] {
        assert_eq!(Fingerprint::parse(text), Err(FingerprintError), "{text:?}");
    }
    assert_eq!(FingerprintError.code(), "fingerprint_invalid");
}
