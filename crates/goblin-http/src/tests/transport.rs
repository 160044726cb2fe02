//! HTTP over TCP and TLS: versions, certificates, slow clients, and bounds.

use super::web::{Reply, Web, exchange, fixture, plain};
use super::{Fixture, PATIENCE, SECRET, exec};
use crate::server::{Patience, Tuning};
use crate::{AuditLog, HttpOptions, HttpTls, Service, serve};
use bytes::Bytes;
use goblin_api::routes::{self, HEALTHZ, LOGIN, TOKENS};
use goblin_keys::certificate::{GeneratedCertificate, generate};
use goblin_keys::tls::{ClientTls, ClientTrust, server_name};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

fn certificate() -> GeneratedCertificate {
    generate("127.0.0.1", &["127.0.0.1".to_owned()], SystemTime::now()).unwrap()
}

fn own(certificate: &GeneratedCertificate) -> HttpTls {
    HttpTls::Own {
        cert: certificate.cert_pem.clone(),
        key: certificate.key_pem.clone(),
    }
}

/// A TLS connection for one of these protocols, to a server whose certificate chains to `ca`.
async fn shaken(address: SocketAddr, ca: &str, protocols: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
    let trust = ClientTrust::Ca { pem: ca.to_owned() };
    let mut config = rustls::ClientConfig::clone(&*ClientTls::new(&trust, None).unwrap().config());
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(("127.0.0.1", address.port())).await?;
    let name = server_name("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Asks twice at once over one connection of HTTP/2; gives statuses and answers.
async fn over_http2<S>(stream: S, uri: &str, token: &str) -> Vec<(u16, Value)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = timeout(PATIENCE, shake).await.unwrap().unwrap();
    let driving = tokio::spawn(connection);
    let ask = |mut sender: http2::SendRequest<Full<Bytes>>, token: &str| {
        let request = Request::get(uri).header("authorization", format!("Bearer {token}"));
        let request = request.body(Full::default()).unwrap();
        async move {
            let response = timeout(PATIENCE, sender.send_request(request)).await.unwrap().unwrap();
            assert!(response.headers().contains_key("x-request-id"));
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            (status, serde_json::from_slice(&body).unwrap())
        }
    };
    let both = tokio::join!(ask(sender.clone(), token), ask(sender.clone(), "ng_wrong"));
    driving.abort();
    vec![both.0, both.1]
}

#[tokio::test]
async fn both_versions_are_spoken_in_plain() {
    let (fixture, web) = fixture().await;
    let (_, token) = web.made(&fixture, "admin").await;
    let stream = TcpStream::connect(web.address).await.unwrap();
    let answers = over_http2(stream, &format!("http://{}{TOKENS}", web.address), &token).await;
    assert_eq!(answers[0].0, 200);
    assert_eq!((answers[1].0, &answers[1].1["error"]), (401, &json!("unauthorized")));
    let stream = TcpStream::connect(web.address).await.unwrap();
    let answers = over_http2(stream, &format!("http://evil.example{TOKENS}"), &token).await;
    assert_eq!((answers[0].0, &answers[0].1["error"]), (403, &json!("host_forbidden")));
}

#[tokio::test]
async fn a_certificate_of_its_own_is_shown_and_cookies_stay_within_tls() {
    let certificate = certificate();
    let options = HttpOptions {
        tls: own(&certificate),
        ..plain()
    };
    let fixture = Fixture::serving(Tuning::default(), Some(options)).await;
    let web = Web::of(&fixture);
    let (_, token) = web.made(&fixture, "admin").await;
    let ca = &certificate.cert_pem;
    for (protocols, spoken) in [
        (&["h2", "http/1.1"][..], Some(&b"h2"[..])),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let stream = shaken(web.address, ca, protocols).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), spoken);
        if spoken == Some(b"h2") {
            let answers = over_http2(stream, &format!("https://{}{TOKENS}", web.address), &token).await;
            assert_eq!((answers[0].0, answers[1].0), (200, 401));
        } else {
            let login = web.request(&Method::POST, LOGIN, &json!({"token": token}));
            let reply = exchange(stream, login.as_bytes()).await;
            let cookie = reply.header("set-cookie").unwrap();
            assert!(cookie.starts_with("__Host-node_goblin_session="), "{cookie}");
            assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Secure"), "{cookie}");
        }
    }
    assert!(shaken(web.address, ca, &["smtp"]).await.is_err());
    let mut stream = TcpStream::connect(web.address).await.unwrap();
    let request = web.request(&Method::GET, HEALTHZ, &Value::Null);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut said)).await.unwrap();
    assert!(!said.starts_with(b"HTTP"), "there is no answer without TLS");
}

#[tokio::test]
async fn the_controllers_certificate_is_shown_whichever_it_is() {
    let options = HttpOptions {
        listen: "0.0.0.0:0".parse().unwrap(),
        tls: HttpTls::Controller,
        hosts: Vec::new(),
    };
    let fixture = Fixture::serving(Tuning::default(), Some(options)).await;
    let web = Web::of(&fixture).host("127.0.0.1");
    let (_, token) = web.made(&fixture, "admin").await;
    let ask = async |ca: &str| -> std::io::Result<Reply> {
        let stream = shaken(web.address, ca, &["http/1.1"]).await?;
        Ok(exchange(
            stream,
            web.token(&token).request(&Method::GET, TOKENS, &Value::Null).as_bytes(),
        )
        .await)
    };
    let stored = goblin_ports::Secrets::get(&*fixture.store, goblin_ports::secret::TLS_CERT).await;
    let first = stored.unwrap().unwrap().expose().to_owned();
    assert_eq!(ask(&first).await.unwrap().status, 200);
    let second = certificate();
    let body = json!({"key": *second.key_pem, "cert": second.cert_pem});
    let mut client = fixture.client().await;
    let (status, answer) = client.json(Method::PUT, "/controller/tls", &body).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    assert_eq!(ask(&second.cert_pem).await.unwrap().status, 200);
    assert!(ask(&first).await.is_err());
}

#[tokio::test]
async fn an_address_that_others_reach_is_not_served_without_tls() {
    let (fixture, web) = fixture().await;
    let refused = async |listen: &str, tls: HttpTls| {
        let socket = fixture.directory.path().join("another.sock");
        let service = Service {
            controller: fixture.controller.clone(),
            tokens: fixture.store.clone(),
            audit: AuditLog::off(),
            socket: socket.clone(),
            http: Some(HttpOptions {
                listen: listen.parse().unwrap(),
                tls,
                hosts: Vec::new(),
            }),
        };
        let error = serve(service).await.err().unwrap();
        assert!(!socket.exists(), "nothing is left half served");
        (error.code(), error.to_string())
    };
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let (code, text) = refused(listen, HttpTls::Off).await;
        assert_eq!(code, "http_tls_required");
        assert!(text.contains(listen) && text.contains("--http-cert"), "{text}");
    }
    let (code, text) = refused(&web.address.to_string(), HttpTls::Off).await;
    assert!(code == "http_listen_failed" && text.contains("--http off"), "{text}");
    let (first, second) = (certificate(), certificate());
    let mixed = HttpTls::Own {
        cert: first.cert_pem,
        key: second.key_pem,
    };
    assert_eq!(refused("127.0.0.1:0", mixed).await.0, "tls_key_mismatch");
    assert_eq!(
        refused("203.0.113.1:0", own(&certificate())).await.0,
        "http_listen_failed"
    );
}

fn brief() -> Tuning {
    let brief = Duration::from_millis(100);
    Tuning {
        patience: Patience {
            head: brief,
            body: brief,
            idle: brief,
            stranger: PATIENCE,
            finish: brief,
        },
        ..Tuning::default()
    }
}

#[tokio::test]
async fn slow_clients_lose_their_places() {
    let fixture = Fixture::serving(brief(), Some(plain())).await;
    let web = Web::of(&fixture);
    let (_, token) = web.made(&fixture, "execute").await;
    for text in [
        // Nothing at all, half a line, half a head, one byte too few, half of the other version's opening.
        "",
        "GET /heal",
        "GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ",
        "GET /healthz HTTP/1.1\r\nhost: x\r\n\r",
        "PRI * HTTP/2.0\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut stream = TcpStream::connect(web.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        let closed = timeout(PATIENCE, stream.read_to_end(&mut said)).await;
        assert!(closed.is_ok(), "{text:?}");
        assert!(!String::from_utf8_lossy(&said).contains("200 OK"), "{text:?}");
    }
    // Kept alive after an answer, and then silent.
    let mut stream = TcpStream::connect(web.address).await.unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut said = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut said)).await.unwrap().unwrap();
    assert!(said.starts_with(b"HTTP/1.1 200 OK"));
    // A body that never comes: waited for if its caller may call, else not even that.
    let path = routes::processes("worker", false);
    let head = |web: &Web| {
        let text = web.request(&Method::POST, &path, &json!({}));
        text.replace("content-length: 2", "content-length: 100")
    };
    let reply = web.raw(head(&web.token(&token)).as_bytes()).await;
    assert_eq!(reply.failure(), (408, "request_timeout".to_owned()));
    let reply = web.raw(head(&web).as_bytes()).await;
    assert_eq!(reply.failure(), (401, "unauthorized".to_owned()));
}

#[tokio::test]
async fn an_answer_that_a_stranger_does_not_fetch_keeps_no_place() {
    let mut tuning = brief();
    tuning.patience.stranger = Duration::from_millis(100);
    tuning.patience.head = PATIENCE;
    let fixture = Fixture::serving(tuning, Some(plain())).await;
    let web = Web::of(&fixture);
    // Over HTTP/2 a client can leave no room for the answer's body.
    let stream = TcpStream::connect(web.address).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(0);
    let shake = builder.handshake::<_, Full<Bytes>>(TokioIo::new(stream));
    let (mut sender, connection) = shake.await.unwrap();
    let driving = tokio::spawn(connection);
    let request = Request::get(format!("http://{}{TOKENS}", web.address));
    let response = sender
        .send_request(request.body(Full::default()).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status().as_u16(), 401);
    timeout(PATIENCE, driving)
        .await
        .expect("the connection is closed")
        .unwrap()
        .ok();
}

#[tokio::test]
async fn heads_and_bodies_have_their_bounds() {
    let (fixture, web) = fixture().await;
    let (_, token) = web.made(&fixture, "admin").await;
    let caller = web.token(&token);
    assert_eq!(
        caller.with("x-long", &"x".repeat(20_000)).get(HEALTHZ).await.status,
        200
    );
    let reply = caller.with("x-long", &"x".repeat(200_000)).get(HEALTHZ).await;
    assert_eq!(reply.status, 431);
    let many = (0..200).fold(caller.clone(), |web, number| web.with(&format!("x-{number}"), "x"));
    assert_eq!(many.get(HEALTHZ).await.status, 431);
    let long = format!("/{}", "x".repeat(100_000));
    assert!(matches!(caller.get(&long).await.status, 414 | 431));
    let text = caller.request(&Method::POST, &routes::processes("w", false), &json!({}));
    let declared = text.replace("content-length: 2", "content-length: 2097153");
    assert_eq!(
        web.raw(declared.as_bytes()).await.failure(),
        (413, "payload_too_large".to_owned())
    );
    let chunk = format!("100000\r\n{}\r\n", "x".repeat(0x10_0000));
    let chunked = text
        .replace("content-length: 2", "transfer-encoding: chunked")
        .replace("{}", &chunk.repeat(3));
    assert_eq!(
        web.raw(chunked.as_bytes()).await.failure(),
        (413, "payload_too_large".to_owned())
    );
}

/// A connection from this address of ours.
async fn from(source: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    matches!(timeout(PATIENCE, stream.read(&mut byte)).await, Ok(Ok(0) | Err(_)))
}

#[tokio::test]
async fn one_peer_does_not_take_every_place() {
    let tuning = Tuning {
        of_one_peer_max: 2,
        connections_max: 3,
        ..Tuning::default()
    };
    let fixture = Fixture::serving(tuning, Some(plain())).await;
    let web = Web::of(&fixture);
    let mut mine = vec![
        from("127.0.0.1", web.address).await,
        from("127.0.0.1", web.address).await,
    ];
    assert!(is_closed(&mut from("127.0.0.1", web.address).await).await);
    let mut other = from("127.0.0.2", web.address).await;
    let request = format!("GET {HEALTHZ} HTTP/1.1\r\nhost: x\r\n\r\n");
    other.write_all(request.as_bytes()).await.unwrap();
    let mut said = [0; 15];
    other.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"HTTP/1.1 200 OK");
    // Every place is taken: the next one waits until there is one.
    let mut waiting = from("127.0.0.3", web.address).await;
    waiting.write_all(request.as_bytes()).await.unwrap();
    mine.pop();
    waiting.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"HTTP/1.1 200 OK");
}

#[tokio::test]
async fn two_thousand_idle_connections_are_borne_and_then_closed() {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = most.maximum.map_or(8192, |limit| limit.min(8192));
    let raised = rustix::process::Rlimit {
        current: Some(wanted),
        maximum: most.maximum,
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let mut tuning = Tuning::default();
    tuning.patience.head = Duration::from_secs(2);
    let fixture = Fixture::serving(tuning, Some(plain())).await;
    let web = Web::of(&fixture);
    let (_, token) = web.made(&fixture, "read").await;
    let mut idle = Vec::new();
    for _ in 0..2000 {
        idle.push(TcpStream::connect(web.address).await.unwrap());
    }
    let reply = web.token(&token).get(&routes::gateways()).await;
    assert_eq!(reply.status, 200, "the others are served meanwhile");
    for stream in &mut idle {
        assert!(is_closed(stream).await);
    }
}

#[tokio::test]
async fn closing_lets_a_running_dispatch_over_tcp_finish() {
    let (mut fixture, web) = fixture().await;
    let mut gateway = fixture.ready("worker").await;
    let (_, token) = web.made(&fixture, "execute").await;
    let caller = web.token(&token);
    let server = fixture.server.take().unwrap();
    let dispatch = routes::processes("worker", false);
    let (reply, ()) = tokio::join!(caller.post(&dispatch, exec("op-1")), async {
        let request = gateway.request("process.exec").await;
        let closing = tokio::spawn(server.close());
        timeout(PATIENCE, async {
            while TcpStream::connect(web.address).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        assert!(!closing.is_finished());
        gateway.end(&request).await;
        timeout(PATIENCE, closing).await.unwrap().unwrap();
    });
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(!reply.body.contains(SECRET));
}

#[tokio::test]
async fn a_stream_ends_when_its_token_is_revoked_or_expires() {
    let (fixture, web) = fixture().await;
    let mut gateway = fixture.ready("worker").await;
    let bodies = [
        json!({"name": "revoked", "scope": "execute"}),
        json!({"name": "expiring", "scope": "execute", "expiresInSeconds": 1}),
    ];
    for (index, body) in bodies.iter().enumerate() {
        let (id, token) = super::web::made(&fixture, body).await;
        let caller = web.token(&token).with("accept", "application/x-ndjson");
        let dispatch = routes::processes("worker", false);
        let operation = exec(&format!("op-{index}"));
        let text = caller.request(&Method::POST, &dispatch, &operation);
        let mut stream = TcpStream::connect(web.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let request = gateway.request("process.exec").await;
        gateway.accept(&request).await;
        let mut said = [0; 15];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"HTTP/1.1 200 OK");
        if index == 0 {
            let mut client = fixture.client().await;
            client.at_root(Method::DELETE, &routes::token(&id), &Value::Null).await;
        }
        let mut rest = Vec::new();
        // How a body ends that was cut is the client's to see: the last chunk is missing.
        let _ = timeout(PATIENCE, stream.read_to_end(&mut rest))
            .await
            .expect("the stream ends");
        assert!(!rest.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&rest));
    }
}
