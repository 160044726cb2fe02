//! Handshakes of both ends over byte buffers, for every trust.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, CertificateError as Refusal, ClientConfig, ClientConnection, Error, HandshakeKind, ServerConfig,
    ServerConnection,
};

use super::openssl;
use crate::certificate::{CertificateError, Part, certificates, generate, private_key};
use crate::tls::{
    ClientTls, ClientTrust, Leaf, Standing, TlsError, pem_fingerprint, provider, server_config, server_name,
};

const RSA_CERT: &str = include_str!("rsa-cert.pem");
const RSA_KEY: &str = include_str!("rsa-key.pem");
const DAY: Duration = Duration::from_secs(86_400);

struct Pair {
    cert: String,
    key: String,
}

fn own(names: &[&str], now: SystemTime) -> Pair {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let made = generate("localhost", &names, now).unwrap();
    Pair {
        cert: made.cert_pem,
        key: made.key_pem.to_string(),
    }
}

/// An authority and a certificate that it signed for `name`.
fn issued(name: &str, purpose: ExtendedKeyUsagePurpose) -> (String, Pair) {
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority_cert = authority.self_signed(&authority_key).unwrap();

    let mut leaf = CertificateParams::new(vec![name.to_owned()]).unwrap();
    leaf.extended_key_usages = vec![purpose];
    let leaf_key = rcgen::KeyPair::generate().unwrap();
    let leaf = leaf
        .signed_by(&leaf_key, &Issuer::new(authority, authority_key))
        .unwrap();
    (
        authority_cert.pem(),
        Pair {
            cert: leaf.pem(),
            key: leaf_key.serialize_pem(),
        },
    )
}

/// Which end gave up, and why.
#[derive(Debug)]
enum Failure {
    Client(Error),
    Server(Error),
}

struct Connected {
    client: ClientConnection,
    server: ServerConnection,
}

/// Carries bytes between two ends until both have finished the handshake and have nothing more to say.
fn connect(client: Arc<ClientConfig>, server: Arc<ServerConfig>, host: &str) -> Result<Connected, Failure> {
    let mut client = ClientConnection::new(client, server_name(host).unwrap()).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    loop {
        let mut to_server = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut to_server).unwrap();
        }
        let mut rest = to_server.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets().map_err(Failure::Server)?;
        }
        let mut to_client = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut to_client).unwrap();
        }
        let mut rest = to_client.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().map_err(Failure::Client)?;
        }
        if to_server.is_empty() && to_client.is_empty() {
            assert!(!client.is_handshaking() && !server.is_handshaking());
            return Ok(Connected { client, server });
        }
    }
}

fn meet(tls: &ClientTls, server: &Arc<ServerConfig>, host: &str) -> Result<Leaf, Failure> {
    let connected = connect(tls.config(), server.clone(), host)?;
    Ok(tls.judge(connected.client.peer_certificates()).unwrap())
}

fn serve(pair: &Pair) -> Arc<ServerConfig> {
    server_config(&pair.cert, &pair.key, None).unwrap()
}

fn trusting(trust: ClientTrust) -> ClientTls {
    ClientTls::new(&trust, None).unwrap()
}

fn ca(pem: &str) -> ClientTls {
    trusting(ClientTrust::Ca { pem: pem.to_owned() })
}

fn pinned(pem: &str, ca_pem: Option<&str>) -> ClientTls {
    let fingerprint = pem_fingerprint(pem).unwrap();
    trusting(ClientTrust::Pinned {
        fingerprint,
        ca_pem: ca_pem.map(str::to_owned),
    })
}

fn refusal(result: Result<Leaf, Failure>) -> Refusal {
    match result {
        Err(Failure::Client(Error::InvalidCertificate(refusal))) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn bootstrap_takes_any_certificate_and_says_it_is_unproven() {
    let tls = trusting(ClientTrust::Unverified);
    let expired = own(&["elsewhere.example"], SystemTime::now() - 5_000 * DAY);
    let rsa = Pair {
        cert: RSA_CERT.to_owned(),
        key: RSA_KEY.to_owned(),
    };
    for pair in [expired, rsa] {
        let leaf = meet(&tls, &serve(&pair), "127.0.0.1").unwrap();
        assert_eq!(
            leaf,
            Leaf {
                fingerprint: pem_fingerprint(&pair.cert).unwrap(),
                standing: Standing::Unproven
            }
        );
    }
}

#[test]
fn bootstrap_never_resumes_and_a_verified_client_does() {
    let pair = own(&["localhost"], SystemTime::now());
    let server = serve(&pair);
    let kinds = |tls: &ClientTls| -> Vec<HandshakeKind> {
        (0..2)
            .map(|_| {
                connect(tls.config(), server.clone(), "localhost")
                    .unwrap()
                    .client
                    .handshake_kind()
                    .unwrap()
            })
            .collect()
    };
    assert_eq!(
        kinds(&trusting(ClientTrust::Unverified)),
        [HandshakeKind::Full, HandshakeKind::Full]
    );
    for tls in [ca(&pair.cert), pinned(&pair.cert, None)] {
        assert_eq!(kinds(&tls), [HandshakeKind::Full, HandshakeKind::Resumed]);
        // The leaf is still judged on a resumed session.
        assert_ne!(meet(&tls, &server, "localhost").unwrap().standing, Standing::Changed);
    }
}

#[test]
fn a_session_of_another_certificate_is_not_resumed() {
    let (first, second) = (
        own(&["localhost"], SystemTime::now()),
        own(&["localhost"], SystemTime::now()),
    );
    let tls = pinned(&first.cert, None);
    assert_eq!(
        meet(&tls, &serve(&first), "localhost").unwrap().standing,
        Standing::Pinned
    );
    let changed = connect(tls.config(), serve(&second), "localhost").unwrap();
    assert_eq!(changed.client.handshake_kind(), Some(HandshakeKind::Full));
    let leaf = tls.judge(changed.client.peer_certificates()).unwrap();
    assert_eq!(
        leaf,
        Leaf {
            fingerprint: pem_fingerprint(&second.cert).unwrap(),
            standing: Standing::Changed
        }
    );
}

#[test]
fn a_self_signed_certificate_is_its_own_authority() {
    let pair = own(&["localhost", "127.0.0.1", "::1"], SystemTime::now());
    let tls = ca(&pair.cert);
    for host in ["localhost", "LOCALHOST", "127.0.0.1", "::1", "[::1]"] {
        assert_eq!(
            meet(&tls, &serve(&pair), host).unwrap().standing,
            Standing::Verified,
            "{host}"
        );
    }
    for host in ["127.0.0.2", "example.org"] {
        let refused = refusal(meet(&tls, &serve(&pair), host));
        assert!(
            matches!(
                refused,
                Refusal::NotValidForName | Refusal::NotValidForNameContext { .. }
            ),
            "{refused:?}"
        );
    }
}

#[test]
fn an_rsa_certificate_marked_as_authority_is_taken_by_ca_and_by_pin() {
    let pair = Pair {
        cert: RSA_CERT.to_owned(),
        key: RSA_KEY.to_owned(),
    };
    let server = serve(&pair);
    for host in ["127.0.0.1", "controller.example"] {
        assert_eq!(meet(&ca(RSA_CERT), &server, host).unwrap().standing, Standing::Verified);
        assert_eq!(
            meet(&pinned(RSA_CERT, Some(RSA_CERT)), &server, host).unwrap().standing,
            Standing::Pinned
        );
    }
    assert_eq!(
        meet(&pinned(RSA_CERT, None), &server, "any.example").unwrap().standing,
        Standing::Pinned
    );
    assert!(meet(&ca(RSA_CERT), &server, "any.example").is_err());
}

#[test]
fn a_fresh_openssl_certificate_is_taken_in_every_mode() {
    let folder = tempfile::tempdir().unwrap();
    let request = [
        "req",
        "-x509",
        "-newkey",
        "rsa:3072",
        "-nodes",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
        "-days",
        "3650",
        "-subj",
        "/CN=127.0.0.1",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    ];
    let Some(_) = openssl(folder.path(), &request) else {
        return;
    };
    let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();
    let pair = Pair {
        cert: read("cert.pem"),
        key: read("key.pem"),
    };
    let server = serve(&pair);
    for (tls, standing) in [
        (trusting(ClientTrust::Unverified), Standing::Unproven),
        (ca(&pair.cert), Standing::Verified),
        (pinned(&pair.cert, None), Standing::Pinned),
        (pinned(&pair.cert, Some(&pair.cert)), Standing::Pinned),
    ] {
        assert_eq!(meet(&tls, &server, "127.0.0.1").unwrap().standing, standing);
    }
}

#[test]
fn the_dates_of_a_certificate_count_under_a_ca_and_not_under_a_pin() {
    let expired = own(&["localhost"], SystemTime::now() - 4_000 * DAY);
    let early = own(&["localhost"], SystemTime::now() + 3 * DAY);
    assert_eq!(
        refusal(meet(&ca(&expired.cert), &serve(&expired), "localhost")),
        Refusal::Expired
    );
    assert_eq!(
        refusal(meet(&ca(&early.cert), &serve(&early), "localhost")),
        Refusal::NotValidYet
    );
    for pair in [expired, early] {
        let with_both = pinned(&pair.cert, Some(&pair.cert));
        assert!(meet(&with_both, &serve(&pair), "localhost").is_err());
        assert_eq!(
            meet(&pinned(&pair.cert, None), &serve(&pair), "elsewhere")
                .unwrap()
                .standing,
            Standing::Pinned
        );
    }
}

#[test]
fn another_authority_is_refused() {
    let (first, second) = (
        own(&["localhost"], SystemTime::now()),
        own(&["localhost"], SystemTime::now()),
    );
    assert_eq!(
        refusal(meet(&ca(&first.cert), &serve(&second), "localhost")),
        Refusal::UnknownIssuer
    );
    let (authority, leaf) = issued("localhost", ExtendedKeyUsagePurpose::ServerAuth);
    let (other, _) = issued("localhost", ExtendedKeyUsagePurpose::ServerAuth);
    assert_eq!(
        meet(&ca(&authority), &serve(&leaf), "localhost").unwrap().standing,
        Standing::Verified
    );
    assert_eq!(
        meet(&ca(&format!("{other}{authority}")), &serve(&leaf), "localhost")
            .unwrap()
            .standing,
        Standing::Verified
    );
    refusal(meet(&ca(&other), &serve(&leaf), "localhost"));
    // The pin alone doesn't help where a CA is asked for too.
    refusal(meet(&pinned(&leaf.cert, Some(&other)), &serve(&leaf), "localhost"));
    // A valid certificate of the CA that is not the pinned one is reported as changed.
    let changed = meet(&pinned(&first.cert, Some(&authority)), &serve(&leaf), "localhost").unwrap();
    assert_eq!(changed.standing, Standing::Changed);
}

#[test]
fn the_systems_authorities_do_not_vouch_for_a_self_signed_certificate() {
    let pair = own(&["localhost"], SystemTime::now());
    match ClientTls::new(&ClientTrust::SystemRoots, None) {
        Ok(tls) => {
            refusal(meet(&tls, &serve(&pair), "localhost"));
        }
        // A system without any certificates.
        Err(error) => assert_eq!(error.code(), "tls_system_roots_unavailable"),
    }
}

/// Presents a certificate whose private key it does not have.
#[derive(Debug)]
struct Impostor(Arc<CertifiedKey>);

impl ResolvesServerCert for Impostor {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

#[test]
fn a_certificate_without_its_private_key_is_refused_in_every_mode() {
    let (shown, held) = (
        own(&["localhost"], SystemTime::now()),
        own(&["localhost"], SystemTime::now()),
    );
    let key = provider()
        .key_provider
        .load_private_key(private_key(&held.key).unwrap())
        .unwrap();
    let impostor = Arc::new(CertifiedKey::new(
        certificates(&shown.cert, Part::Certificate).unwrap(),
        key,
    ));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Impostor(impostor.clone())));
        let server = Arc::new(server);
        for tls in [
            trusting(ClientTrust::Unverified),
            ca(&shown.cert),
            pinned(&shown.cert, None),
            pinned(&shown.cert, Some(&shown.cert)),
        ] {
            assert_eq!(
                refusal(meet(&tls, &server, "localhost")),
                Refusal::BadSignature,
                "{version:?}"
            );
        }
    }
}

#[test]
fn both_versions_are_spoken_and_the_newer_is_preferred() {
    let pair = own(&["localhost"], SystemTime::now());
    let newest = connect(ca(&pair.cert).config(), serve(&pair), "localhost").unwrap();
    assert_eq!(newest.client.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    assert!(newest.server.server_name() == Some("localhost"), "names are indicated");

    let older = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates({
            let mut roots = rustls::RootCertStore::empty();
            roots
                .add(certificates(&pair.cert, Part::Ca).unwrap().remove(0))
                .unwrap();
            roots
        })
        .with_no_client_auth();
    let connected = connect(Arc::new(older), serve(&pair), "localhost").unwrap();
    assert_eq!(
        connected.server.protocol_version(),
        Some(rustls::ProtocolVersion::TLSv1_2)
    );
}

#[test]
fn an_address_is_not_indicated() {
    let pair = own(&["127.0.0.1"], SystemTime::now());
    let connected = connect(ca(&pair.cert).config(), serve(&pair), "127.0.0.1").unwrap();
    assert_eq!(connected.server.server_name(), None);
}

#[test]
fn client_certificates_are_optional_and_verified_when_presented() {
    let pair = own(&["localhost"], SystemTime::now());
    let (authority, good) = issued("worker", ExtendedKeyUsagePurpose::ClientAuth);
    let (_, stranger) = issued("worker", ExtendedKeyUsagePurpose::ClientAuth);
    let own_authority = own(&["worker"], SystemTime::now());
    let expired = own(&["worker"], SystemTime::now() - 4_000 * DAY);
    let anchors = format!("{authority}{}{}", own_authority.cert, expired.cert);
    let server = server_config(&pair.cert, &pair.key, Some(&anchors)).unwrap();
    let presenting = |client: &Pair| {
        let trust = ClientTrust::Ca { pem: pair.cert.clone() };
        let tls = ClientTls::new(&trust, Some((&client.cert, &client.key))).unwrap();
        connect(tls.config(), server.clone(), "localhost")
    };

    let none = connect(ca(&pair.cert).config(), server.clone(), "localhost").unwrap();
    assert!(none.server.peer_certificates().is_none());
    for client in [&good, &own_authority] {
        let connected = presenting(client).unwrap();
        let leaf = crate::tls::leaf_fingerprint(connected.server.peer_certificates()).unwrap();
        assert_eq!(leaf, pem_fingerprint(&client.cert).unwrap());
    }
    for client in [&stranger, &expired] {
        match presenting(client) {
            Err(Failure::Server(Error::InvalidCertificate(_))) => {}
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("taken"),
        }
    }

    // Without a CA nothing is asked for.
    let trust = ClientTrust::Unverified;
    let tls = ClientTls::new(&trust, Some((&stranger.cert, &stranger.key))).unwrap();
    assert!(
        connect(tls.config(), serve(&pair), "localhost")
            .unwrap()
            .server
            .peer_certificates()
            .is_none()
    );
}

#[test]
fn a_client_that_is_refused_learns_why() {
    let pair = own(&["localhost"], SystemTime::now());
    let other = own(&["localhost"], SystemTime::now());
    let mut server = ServerConnection::new(serve(&pair)).unwrap();
    let mut client = ClientConnection::new(ca(&other.cert).config(), server_name("localhost").unwrap()).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    server.read_tls(&mut bytes.as_slice()).unwrap();
    server.process_new_packets().unwrap();
    bytes.clear();
    server.write_tls(&mut bytes).unwrap();
    client.read_tls(&mut bytes.as_slice()).unwrap();
    client.process_new_packets().unwrap_err();
    bytes.clear();
    client.write_tls(&mut bytes).unwrap();
    server.read_tls(&mut bytes.as_slice()).unwrap();
    let error = server.process_new_packets().unwrap_err();
    // The server can say in its log that its certificate was not trusted.
    assert!(
        matches!(error, Error::AlertReceived(AlertDescription::UnknownCA)),
        "{error:?}"
    );
}

#[test]
fn configurations_that_cannot_work_are_refused_with_the_reason() {
    let pair = own(&["localhost"], SystemTime::now());
    let other = own(&["localhost"], SystemTime::now());
    let reason = |result: Result<Arc<ServerConfig>, TlsError>| result.unwrap_err();
    let mismatch = TlsError::Certificate(CertificateError::KeyMismatch);
    assert_eq!(reason(server_config(&pair.cert, &other.key, None)), mismatch);
    assert_eq!(
        reason(server_config("", &pair.key, None)).code(),
        "tls_certificate_invalid"
    );
    assert_eq!(reason(server_config(&pair.cert, "", None)).code(), "tls_key_invalid");
    assert_eq!(
        reason(server_config(&pair.cert, &pair.key, Some("junk"))).code(),
        "tls_ca_invalid"
    );

    let trust = ClientTrust::Ca { pem: String::new() };
    assert_eq!(ClientTls::new(&trust, None).unwrap_err().code(), "tls_ca_invalid");
    let crossed = ClientTls::new(&ClientTrust::Unverified, Some((&pair.cert, &other.key))).unwrap_err();
    assert_eq!(crossed, mismatch);
    let shown = format!("{crossed} {crossed:?}");
    assert!(!shown.contains(other.key.lines().nth(1).unwrap()), "{shown}");
}

#[test]
fn a_connection_without_certificates_has_no_leaf() {
    let tls = trusting(ClientTrust::Unverified);
    assert_eq!(tls.judge(None), Err(TlsError::NoPeerCertificate));
    assert_eq!(tls.judge(Some(&[])), Err(TlsError::NoPeerCertificate));
}

#[test]
fn hosts_that_are_no_names_are_refused() {
    for host in [
        "",
        " ",
        "a b",
        "[localhost]",
        "[127.0.0.1]",
        "host:1",
        "[::1",
        "a..b",
        "\0",
    ] {
        assert_eq!(
            server_name(host),
            Err(TlsError::ServerName(host.to_owned())),
            "{host:?}"
        );
    }
}
