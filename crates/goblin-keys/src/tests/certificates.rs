//! The generated certificate and the check of configured ones.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::openssl;
use crate::certificate::{CertificateError, GeneratedCertificate, MAX_PEM, Part, VALIDITY, check, check_ca, generate};
use crate::tls::pem_fingerprint;

const RSA_CERT: &str = include_str!("rsa-cert.pem");
const RSA_KEY: &str = include_str!("rsa-key.pem");

/// 2026-12-01T00:00:00.123Z
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(1_796_083_200_123)
}

const DAY: Duration = Duration::from_secs(86_400);

fn made(names: &[&str], time: SystemTime) -> GeneratedCertificate {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    generate("controller.example", &names, time).unwrap()
}

#[test]
fn a_generated_certificate_passes_the_check_and_says_what_it_is() {
    let made = made(
        &[
            "Controller.example",
            "127.0.0.1",
            "::1",
            "controller.example",
            "localhost",
        ],
        now(),
    );
    let metadata = &made.metadata;
    assert_eq!(metadata.algorithm, "EC-P256");
    assert_eq!(metadata.host.as_deref(), Some("controller.example"));
    let names = "DNS:controller.example,IP:127.0.0.1,IP:::1,DNS:localhost";
    assert_eq!(metadata.subject_alt_name.as_deref(), Some(names));
    assert_eq!(metadata.created_at, now());
    let whole_second = now() - Duration::from_millis(123);
    assert_eq!(metadata.expires_at, whole_second + 3_650 * DAY);
    assert_eq!(metadata.rotate_after, Some(whole_second + 9 * 365 * DAY));
    assert_eq!(metadata.fingerprint_sha256, pem_fingerprint(&made.cert_pem).unwrap());

    let checked = check(&made.cert_pem, &made.key_pem, Some(&made.cert_pem), now()).unwrap();
    assert_eq!(checked.algorithm, metadata.algorithm);
    assert_eq!(checked.host, metadata.host);
    assert_eq!(checked.subject_alt_name, metadata.subject_alt_name);
    assert_eq!(checked.expires_at, metadata.expires_at);
    assert_eq!(checked.fingerprint_sha256, metadata.fingerprint_sha256);
    assert_eq!(checked.rotate_after, None);
}

#[test]
fn its_debug_shows_no_key() {
    let made = made(&["localhost"], now());
    let shown = format!("{made:?}");
    assert!(shown.contains("EC-P256"), "{shown}");
    assert!(
        !shown.contains("PRIVATE") && !shown.contains(made.key_pem.lines().nth(1).unwrap()),
        "{shown}"
    );
}

#[test]
fn every_certificate_has_its_own_key() {
    let (first, second) = (made(&["localhost"], now()), made(&["localhost"], now()));
    assert_ne!(first.metadata.fingerprint_sha256, second.metadata.fingerprint_sha256);
    assert_eq!(
        check(&first.cert_pem, &second.key_pem, None, now()).unwrap_err(),
        CertificateError::KeyMismatch
    );
}

#[test]
fn a_long_host_name_is_left_out_of_the_subject_only() {
    let host = format!("{}.example", ["a"; 40].join("."));
    let made = generate(&host, std::slice::from_ref(&host), now()).unwrap();
    assert_eq!(made.metadata.host.as_deref(), Some(host.as_str()));
    let checked = check(&made.cert_pem, &made.key_pem, None, now()).unwrap();
    assert_eq!(checked.host.as_deref(), Some("node-goblin"));
    assert_eq!(checked.subject_alt_name, Some(format!("DNS:{host}")));
}

#[test]
fn names_that_no_client_can_ask_for_are_refused() {
    let long = "a".repeat(64);
    for wrong in [
        "",
        " ",
        "a b",
        "*.example",
        "host:7443",
        "[::1]",
        "höst",
        "a..b",
        "a.",
        ".",
        "a\0b",
        "-",
        long.as_str(),
    ] {
        let error = generate("host", &["localhost".to_owned(), wrong.to_owned()], now()).unwrap_err();
        assert_eq!(error, CertificateError::NameInvalid(wrong.to_owned()));
    }
    assert_eq!(generate("host", &[], now()).unwrap_err(), CertificateError::NoNames);
}

#[test]
fn times_that_a_certificate_cannot_hold_are_refused() {
    let names = ["localhost".to_owned()];
    let year_9999 = UNIX_EPOCH + Duration::from_secs(253_402_300_000);
    for wrong in [UNIX_EPOCH - DAY, UNIX_EPOCH, year_9999] {
        assert_eq!(
            generate("host", &names, wrong).unwrap_err(),
            CertificateError::TimeOutOfRange
        );
    }
    let last = year_9999 - VALIDITY;
    let made = generate("host", &names, last).unwrap();
    assert_eq!(made.metadata.expires_at, year_9999);
    assert!(check(&made.cert_pem, &made.key_pem, None, last).is_ok());
}

#[test]
fn the_dates_of_a_configured_certificate_count() {
    let made = made(&["localhost"], now());
    let ends = made.metadata.expires_at;
    let at = |time| check(&made.cert_pem, &made.key_pem, None, time).map(|_| ());
    assert_eq!(at(now()), Ok(()));
    assert_eq!(
        at(now() - 2 * DAY),
        Err(CertificateError::NotYetValid(Part::Certificate))
    );
    assert_eq!(
        at(UNIX_EPOCH - 2 * DAY),
        Err(CertificateError::NotYetValid(Part::Certificate))
    );
    assert_eq!(at(ends), Ok(()));
    assert_eq!(
        at(ends + Duration::from_secs(1)),
        Err(CertificateError::Expired(Part::Certificate))
    );

    let ca = |time| check_ca(&made.cert_pem, time);
    assert_eq!(ca(now()), Ok(()));
    assert_eq!(ca(now() - 2 * DAY), Err(CertificateError::NotYetValid(Part::Ca)));
    assert_eq!(ca(ends + DAY), Err(CertificateError::Expired(Part::Ca)));
    // A bundle may hold an old certificate beside a good one.
    let old = self::made(&["localhost"], now() - 4_000 * DAY);
    assert_eq!(check_ca(&format!("{}{}", old.cert_pem, made.cert_pem), now()), Ok(()));
}

#[test]
fn a_foreign_rsa_certificate_is_taken() {
    let metadata = check(RSA_CERT, RSA_KEY, Some(RSA_CERT), now()).unwrap();
    assert_eq!(metadata.algorithm, "RSA-3072");
    assert_eq!(metadata.host.as_deref(), Some("127.0.0.1"));
    assert_eq!(
        metadata.subject_alt_name.as_deref(),
        Some("DNS:controller.example,IP:127.0.0.1")
    );
    // As `openssl x509 -fingerprint -sha256` showed it.
    let shown = "4C:D9:E3:AF:0E:49:F1:76:74:F5:FA:E1:F7:65:44:86:C1:23:56:19:1D:7A:3E:40:2E:A3:C9:18:AD:1F:41:6E";
    assert_eq!(metadata.fingerprint_sha256, shown.parse().unwrap());
}

#[test]
fn broken_texts_are_refused_with_the_reason() {
    let made = made(&["localhost"], now());
    let (cert, key) = (made.cert_pem.as_str(), made.key_pem.as_str());
    let cut = &cert[..cert.len() / 2];
    let other_der = cert.replace("MII", "MIX");
    let huge = format!("{cert}{}", "\n".repeat(MAX_PEM));
    let empty_der = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let cases = [
        ("", key, None, CertificateError::NotPem(Part::Certificate)),
        (
            "no PEM at all \0",
            key,
            None,
            CertificateError::NotPem(Part::Certificate),
        ),
        (key, key, None, CertificateError::NotPem(Part::Certificate)),
        (cut, key, None, CertificateError::NotPem(Part::Certificate)),
        (&huge, key, None, CertificateError::TooLarge(Part::Certificate)),
        (empty_der, key, None, CertificateError::Unparsable(Part::Certificate)),
        (cert, "", None, CertificateError::KeyInvalid),
        (cert, cert, None, CertificateError::KeyInvalid),
        (cert, &key[..60], None, CertificateError::KeyInvalid),
        (cert, RSA_KEY, None, CertificateError::KeyMismatch),
        (cert, key, Some(""), CertificateError::NotPem(Part::Ca)),
        (cert, key, Some(key), CertificateError::NotPem(Part::Ca)),
        (cert, key, Some(empty_der), CertificateError::Unparsable(Part::Ca)),
        (cert, key, Some(&huge), CertificateError::TooLarge(Part::Ca)),
    ];
    for (index, (cert, key, ca, expected)) in cases.into_iter().enumerate() {
        assert_eq!(check(cert, key, ca, now()).unwrap_err(), expected, "case {index}");
    }
    assert!(check(&other_der, key, None, now()).is_err());
    assert_eq!(CertificateError::NotPem(Part::Ca).code(), "tls_ca_invalid");
    assert_eq!(CertificateError::KeyMismatch.code(), "tls_key_mismatch");
}

#[test]
fn a_certificate_with_any_byte_changed_never_panics() {
    let made = made(&["localhost", "127.0.0.1"], now());
    let (_, der) = pem_rfc7468::decode_vec(made.cert_pem.as_bytes()).unwrap();
    let mut refused = 0;
    for at in 0..der.len() {
        let mut changed = der.clone();
        changed[at] ^= 0x55;
        let pem = pem_rfc7468::encode_string("CERTIFICATE", pem_rfc7468::LineEnding::LF, &changed).unwrap();
        refused += usize::from(check(&pem, &made.key_pem, Some(&pem), now()).is_err());
    }
    // Structure and key are most of it; a changed name or signature is for the other end to notice.
    assert!(refused > der.len() / 4, "{refused} of {}", der.len());
}

#[test]
fn an_old_certificate_without_extensions_is_refused_for_tls() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("key.pem"), RSA_KEY).unwrap();
    let request = [
        "req",
        "-new",
        "-key",
        "key.pem",
        "-subj",
        "/CN=localhost",
        "-out",
        "request.pem",
    ];
    let Some(_) = openssl(at, &request) else { return };
    let sign = [
        "x509",
        "-req",
        "-in",
        "request.pem",
        "-signkey",
        "key.pem",
        "-days",
        "2",
        "-out",
        "cert.pem",
    ];
    openssl(at, &sign).unwrap();
    let cert = fs::read_to_string(at.join("cert.pem")).unwrap();
    let error = check(&cert, RSA_KEY, None, SystemTime::now()).unwrap_err();
    assert!(matches!(error, CertificateError::Unusable(_)), "{error}");
    assert_eq!(error.code(), "tls_certificate_unusable");
}

#[test]
fn openssl_agrees_with_the_generated_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let made = made(&["localhost", "127.0.0.1"], SystemTime::now());
    fs::write(at.join("cert.pem"), &made.cert_pem).unwrap();
    fs::write(at.join("key.pem"), made.key_pem.as_bytes()).unwrap();
    let Some(shown) = openssl(at, &["x509", "-in", "cert.pem", "-noout", "-fingerprint", "-sha256"]) else {
        return;
    };
    let shown = String::from_utf8(shown).unwrap();
    assert_eq!(shown.parse(), Ok(made.metadata.fingerprint_sha256));

    // It is its own authority, for both names, as a TLS server.
    for name in [["-verify_hostname", "localhost"], ["-verify_ip", "127.0.0.1"]] {
        let verify = ["verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "cert.pem"];
        openssl(at, &[&verify[..], &name, &["cert.pem"]].concat()).unwrap();
    }
    // PEM texts as OpenSSL writes them.
    assert_eq!(
        openssl(at, &["x509", "-in", "cert.pem"]).unwrap(),
        made.cert_pem.as_bytes()
    );
    assert_eq!(
        openssl(at, &["pkey", "-in", "key.pem"]).unwrap(),
        made.key_pem.as_bytes()
    );
}
