//! Logins and requests over TCP, plain and TLS, against a server of canned answers.

use super::*;
use crate::api::scripted::{Controller, Pieces, answer};
use clap::Parser;
use goblin_keys::certificate::{GeneratedCertificate, generate};
use goblin_keys::tls::{ClientTrust, pem_fingerprint};
use std::time::SystemTime;
use tokio::io::AsyncWriteExt;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: LoginArguments,
}

const FINE: &str = r#"{"ok":true,"gateways":[]}"#;

fn certificate() -> GeneratedCertificate {
    generate("127.0.0.1", &["127.0.0.1".to_owned()], SystemTime::now()).unwrap()
}

async fn serving(answers: Vec<Pieces>, certificate: &GeneratedCertificate) -> Controller {
    Controller::start_tcp(answers, Some((&certificate.cert_pem, &certificate.key_pem))).await
}

/// A file with a token in it, and the words that name it.
fn token_file() -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "ng_hunter2\n").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    (file, path)
}

async fn log_in_at(url: &ApiUrl, words: &[&str]) -> anyhow::Result<Profile> {
    let (_file, path) = token_file();
    let (url, first) = (url.to_string(), ["login", "--token-file", &path]);
    let words = first.iter().copied().chain([url.as_str()]).chain(words.iter().copied());
    let arguments = Line::try_parse_from(words)?.arguments;
    let url = arguments.url.clone().unwrap();
    log_in(&arguments, url).await
}

fn trusting(profile: &Profile) -> ClientTrust {
    endpoint::trust(profile.fingerprint.as_deref(), profile.ca_file.as_deref()).unwrap()
}

fn authorization(controller: &Controller, index: usize) -> Option<String> {
    let requests = controller.requests();
    let head = requests.get(index)?.head.clone();
    let line = head
        .lines()
        .find(|line| line.to_lowercase().starts_with("authorization:"))?;
    Some(line.split_once(' ').unwrap().1.to_owned())
}

#[tokio::test]
async fn a_login_tries_the_token_below_the_base_path() {
    let controller = Controller::start_tcp(vec![answer(200, FINE)], None).await;
    let profile = log_in_at(&controller.url(), &[]).await.unwrap();
    assert_eq!(
        (profile.url, profile.token.expose()),
        (controller.url().to_string(), "ng_hunter2")
    );
    assert_eq!(authorization(&controller, 0).as_deref(), Some("Bearer ng_hunter2"));
    let head = &controller.requests()[0].head;
    assert!(
        head.starts_with("GET /base/api/mods/node-goblin/gateways HTTP/1.1"),
        "{head}"
    );
    assert!(head.contains(&controller.url().authority()), "{head}");
}

#[tokio::test]
async fn a_token_that_is_not_taken_or_a_server_that_is_none_makes_no_login() {
    for (pieces, told) in [
        (
            answer(401, r#"{"ok":false,"error":"unauthorized"}"#),
            "does not take the token",
        ),
        (answer(302, ""), "sends us elsewhere"),
        (answer(200, "<html>"), "cannot be read"),
        (vec![], "lost before it answered"),
    ] {
        let controller = Controller::start_tcp(vec![pieces], None).await;
        let fault = format!("{:#}", log_in_at(&controller.url(), &[]).await.unwrap_err());
        assert!(fault.contains(told) && !fault.contains("hunter2"), "{fault}");
        assert_eq!(controller.requests().len(), 1, "and nothing is followed");
    }
}

#[tokio::test]
async fn a_certificate_that_was_confirmed_is_pinned_and_no_other_passes() {
    let (right, wrong) = (certificate(), certificate());
    let fingerprint = pem_fingerprint(&right.cert_pem).unwrap().to_hex();
    let controller = serving(vec![answer(200, FINE)], &right).await;
    let profile = log_in_at(&controller.url(), &["--fingerprint", &fingerprint])
        .await
        .unwrap();
    assert_eq!(profile.fingerprint.as_deref(), Some(fingerprint.as_str()));
    // Somebody else now answers in its place.
    let impostor = serving(vec![answer(200, FINE)], &wrong).await;
    let remote = Remote::new(impostor.url(), &trusting(&profile), Some("ng_hunter2"), false).unwrap();
    let fault = Api::remote(remote).get_text("/x").await.unwrap_err();
    assert!(
        !fault.may_pass() && fault.to_string().contains("HAS CHANGED"),
        "{fault}"
    );
    let fault = log_in_at(&impostor.url(), &["--fingerprint", &fingerprint])
        .await
        .unwrap_err();
    assert!(fault.to_string().contains("not the given one"), "{fault}");
    assert_eq!(impostor.requests().len(), 0, "the token went nowhere");
}

#[tokio::test]
async fn an_unknown_certificate_is_not_taken_where_nobody_can_be_asked() {
    let own = certificate();
    let controller = serving(vec![answer(200, FINE)], &own).await;
    // Standard input of a test is no terminal, or the answer is no.
    let fault = log_in_at(&controller.url(), &[]).await.unwrap_err().to_string();
    assert!(fault.contains("nobody can be asked"), "{fault}");
    assert_eq!(controller.requests().len(), 0);
}

#[tokio::test]
async fn an_authority_of_ones_own_vouches_for_names_as_well() {
    let (own, other) = (certificate(), certificate());
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    std::fs::write(path, &own.cert_pem).unwrap();
    let controller = serving(vec![answer(200, FINE)], &own).await;
    let profile = log_in_at(&controller.url(), &["--ca-file", path]).await.unwrap();
    assert_eq!(
        (profile.fingerprint, profile.ca_file.as_deref()),
        (None, Some(file.path()))
    );
    let impostor = serving(vec![answer(200, FINE)], &other).await;
    let fault = log_in_at(&impostor.url(), &["--ca-file", path])
        .await
        .unwrap_err()
        .to_string();
    assert!(fault.contains("not to be trusted"), "{fault}");
    let misnamed = generate("elsewhere", &["elsewhere".to_owned()], SystemTime::now()).unwrap();
    std::fs::write(path, &misnamed.cert_pem).unwrap();
    let impostor = serving(vec![answer(200, FINE)], &misnamed).await;
    let fault = log_in_at(&impostor.url(), &["--ca-file", path])
        .await
        .unwrap_err()
        .to_string();
    assert!(fault.contains("not to be trusted"), "{fault}");
}

#[tokio::test]
async fn a_plain_server_is_no_tls_server() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = ApiUrl::parse(&format!("https://{}", listener.local_addr().unwrap())).unwrap();
    let server = async {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        }
    };
    let fault = tokio::select! {
        login = log_in_at(&url, &[]) => login.unwrap_err().to_string(),
        () = async { server.await; std::future::pending().await } => unreachable!(),
    };
    assert!(fault.contains("handshake"), "{fault}");
    let controller = Controller::start_tcp(vec![answer(200, FINE)], None).await;
    let fault = log_in_at(&controller.url(), &["--ca-file", "/x"])
        .await
        .unwrap_err()
        .to_string();
    assert!(fault.contains("use https"), "{fault}");
}

#[tokio::test]
async fn nothing_is_asked_before_a_network_in_the_clear_is_refused() {
    let url = ApiUrl::parse("http://192.0.2.1:9").unwrap();
    let fault = log_in_at(&url, &[]).await.unwrap_err().to_string();
    assert!(fault.contains("unencrypted"), "{fault}");
}

#[test]
fn a_token_is_no_argument() {
    assert!(Line::try_parse_from(["login", "http://h", "--token", "x"]).is_err());
    assert!(
        Line::try_parse_from(["login", "--token-file", "x"]).is_err(),
        "a URL is missing"
    );
    assert_eq!(host_name(&ApiUrl::parse("http://[::1]:1").unwrap()), "--1");
}

#[test]
fn the_list_shows_no_token() {
    let mut profile = profiles::tests::profile("https://h:443", "ng_hunter2");
    profile.fingerprint = Some("00112233445566778899".into());
    let profiles = Profiles {
        default: Some("p".into()),
        profiles: [("p".to_owned(), profile)].into(),
        ..Profiles::default()
    };
    let shown = anstream::adapter::strip_str(&table(&profiles).to_string()).to_string();
    assert!(shown.contains("https://h:443") && shown.contains("0011223344556677…") && shown.contains("default"));
    assert!(!shown.contains("hunter2"));
}
