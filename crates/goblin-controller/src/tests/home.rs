//! Certificate, key and listener: found, made, given or refused; and the embedded store as a home.

use super::gateway::{Dialled, Host};
use super::{exec, options};
use crate::{Controller, ControllerError, ControllerOptions, ListenAddress, TlsMaterial};
use goblin_keys::certificate;
use goblin_ports::{ControllerSettings, MemoryStore, Secret, Secrets, SettingsExt, TlsMetadata, secret, setting};
use std::sync::Arc;
use std::time::SystemTime;

async fn start(options: ControllerOptions, store: &Arc<MemoryStore>) -> Result<Controller, ControllerError> {
    Controller::start(options, store.clone(), store.clone(), store.clone()).await
}

fn material(name: &str) -> TlsMaterial {
    let made = certificate::generate(name, &[name.to_owned()], SystemTime::now()).unwrap();
    TlsMaterial {
        cert: made.cert_pem,
        key: made.key_pem,
        ca: None,
    }
}

#[test]
fn addresses_to_listen_on() {
    for (text, host, port) in [
        ("127.0.0.1:0", "127.0.0.1", 0),
        ("[::1]:7443", "::1", 7443),
        ("host:1", "host", 1),
    ] {
        let address: ListenAddress = text.parse().unwrap();
        assert_eq!((address.host.as_str(), address.port), (host, port));
        assert_eq!(address.to_string(), text);
    }
    for text in [
        "",
        "host",
        ":1",
        "::1:7443",
        "[::1:7443",
        "host:65536",
        "host:-1",
        "[]:1",
    ] {
        assert!(text.parse::<ListenAddress>().is_err(), "{text}");
    }
}

#[tokio::test]
async fn a_generated_certificate_names_where_it_serves_and_is_kept() {
    let store = Arc::new(MemoryStore::new());
    let mut wildcard = options();
    wildcard.listen = Some("0.0.0.0:0".parse().unwrap());
    wildcard.advertise = vec!["controller.example".to_owned(), "192.0.2.7".to_owned()];
    let controller = start(wildcard.clone(), &store).await.unwrap();
    let metadata: TlsMetadata = store.get_as(setting::TLS_METADATA).await.unwrap().unwrap();
    let names = metadata.subject_alt_name.clone().unwrap();
    for name in [
        "DNS:localhost",
        "IP:127.0.0.1",
        "IP:::1",
        "DNS:controller.example",
        "IP:192.0.2.7",
    ] {
        assert!(names.split(',').any(|known| known == name), "{name} in {names}");
    }
    assert!(!names.contains("0.0.0.0"));
    assert!(metadata.rotate_after.is_some() && metadata.fingerprint_sha256.is_some());
    let state = controller.listener().await.unwrap();
    assert!(state.enabled && state.running && state.tls.key && state.tls.cert && !state.tls.ca);
    assert_eq!(state.port, controller.tls_address().unwrap().port());
    controller.close().await;
    let again = start(wildcard, &store).await.unwrap();
    assert_eq!(store.get_as(setting::TLS_METADATA).await.unwrap(), Some(metadata));
    again.close().await;
}

#[tokio::test]
async fn a_given_certificate_is_served_and_not_stored() {
    let store = Arc::new(MemoryStore::new());
    let given = material("given.example");
    let leaf = goblin_keys::tls::pem_fingerprint(&given.cert).unwrap();
    let mut with = options();
    with.tls_material = Some(given.clone());
    let controller = start(with.clone(), &store).await.unwrap();
    let dialled = Dialled::dial(controller.tls_address().unwrap()).await;
    assert_eq!(dialled.leaf.fingerprint, leaf);
    assert!(!Secrets::has(&*store, secret::TLS_KEY).await.unwrap());
    let shown = controller.listener().await.unwrap().tls.metadata.unwrap();
    assert_eq!(
        (shown.source.as_str(), shown.fingerprint_sha256),
        ("configured", Some(leaf.to_hex()))
    );
    controller.close().await;

    with.tls_material = Some(TlsMaterial {
        key: material("other").key,
        ..given
    });
    assert_eq!(start(with, &store).await.err().unwrap().code(), "tls_key_mismatch");
}

#[tokio::test]
async fn what_a_crash_left_of_a_certificate_is_made_anew_and_what_an_operator_left_is_not() {
    let store = Arc::new(MemoryStore::new());
    let key = material("localhost").key;
    Secrets::set(&*store, secret::TLS_KEY, Secret::new(key)).await.unwrap();
    let controller = start(options(), &store).await.unwrap();
    controller.close().await;

    // The same half, but supplied by an operator.
    let mut metadata: TlsMetadata = store.get_as(setting::TLS_METADATA).await.unwrap().unwrap();
    metadata.source = "configured".to_owned();
    store.set_as(setting::TLS_METADATA, &metadata).await.unwrap();
    Secrets::clear(&*store, secret::TLS_CERT).await.unwrap();
    let error = start(options(), &store).await.err().unwrap();
    assert_eq!(error.code(), "controller_tls_credentials_required");
    Secrets::set(&*store, secret::TLS_CERT, Secret::new("rubbish".to_owned()))
        .await
        .unwrap();
    assert_eq!(
        start(options(), &store).await.err().unwrap().code(),
        "tls_certificate_invalid"
    );
}

#[tokio::test]
async fn a_certificate_that_cannot_be_kept_is_not_half_kept() {
    // The identity is the first write, key, certificate and metadata follow.
    for step in 1..4 {
        let store = Arc::new(MemoryStore::new());
        store.fail_write_after(step);
        assert_eq!(
            start(options(), &store).await.err().unwrap().code(),
            "store_unavailable"
        );
        assert!(!Secrets::has(&*store, secret::TLS_KEY).await.unwrap(), "step {step}");
        assert!(!Secrets::has(&*store, secret::TLS_CERT).await.unwrap(), "step {step}");
    }
}

#[tokio::test]
async fn an_identity_that_cannot_be_read_is_never_replaced() {
    let store = Arc::new(MemoryStore::new());
    Secrets::set(&*store, secret::PAIRING_IDENTITY, Secret::new("{}".to_owned()))
        .await
        .unwrap();
    let error = start(options(), &store).await.err().unwrap();
    assert_eq!(error.code(), "pairing_identity_invalid");
    let kept = Secrets::get(&*store, secret::PAIRING_IDENTITY).await.unwrap().unwrap();
    assert_eq!(kept.expose(), "{}");
}

#[tokio::test]
async fn the_setting_enables_the_listener_and_its_failure_is_told() {
    let store = Arc::new(MemoryStore::new());
    let by_setting = || ControllerOptions {
        listen: None,
        ..options()
    };
    let controller = start(by_setting(), &store).await.unwrap();
    let state = controller.listener().await.unwrap();
    assert_eq!(
        (state.enabled, state.running, state.host.as_str(), state.port),
        (false, false, "127.0.0.1", 7443)
    );
    assert_eq!(controller.tls_address(), None);

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let setting = ControllerSettings {
        enabled: true,
        port,
        ..ControllerSettings::default()
    };
    store.set_as(setting::CONTROLLER, &setting).await.unwrap();
    let controller = start(by_setting(), &store).await.unwrap();
    let state = controller.listener().await.unwrap();
    assert_eq!(
        (state.running, state.error.as_deref()),
        (false, Some("controller_listen_failed"))
    );
    drop(taken);

    let controller = start(by_setting(), &store).await.unwrap();
    assert_eq!(controller.tls_address().map(|address| address.port()), Some(port));
    // An address that was asked for by option is an error when it is taken.
    let mut same = options();
    same.listen = Some(ListenAddress {
        host: "127.0.0.1".into(),
        port,
    });
    assert_eq!(
        start(same, &store).await.err().unwrap().code(),
        "controller_listen_failed"
    );
    controller.close().await;
}

#[tokio::test]
async fn the_embedded_store_remembers_everything_that_matters() {
    let directory = tempfile::tempdir().unwrap();
    let open = async || {
        let store = goblin_store::Store::open(directory.path(), None, "2026-01-01T00:00:00.000Z")
            .await
            .unwrap();
        let store = Arc::new(store);
        let controller = Controller::start(options(), store.clone(), store.clone(), store.clone())
            .await
            .unwrap();
        (controller, store)
    };
    let host = Host::new("worker");
    let (controller, store) = open().await;
    let mut gateway = Dialled::dial(controller.tls_address().unwrap()).await;
    assert_eq!(gateway.authenticate(&host).await["type"], "pairing.pending");
    controller.approve("worker", gateway.own_code.as_deref()).await.unwrap();
    gateway.receive().await.unwrap();
    let dispatch = controller.dispatch(exec("worker", "op-1")).await.unwrap();
    let (_, collected) = tokio::join!(gateway.execute(), dispatch.collect());
    collected.unwrap();
    controller.close().await;
    store.close().await;
    drop((controller, store));

    let (controller, store) = open().await;
    let mut again = Dialled::dial(controller.tls_address().unwrap()).await;
    assert_eq!(again.leaf.fingerprint, gateway.leaf.fingerprint);
    assert_eq!(again.authenticate(&host).await["type"], "auth.ok");
    let record = goblin_ports::Operations::get(&*store, "op-1").await.unwrap().unwrap();
    assert_eq!(record.state, goblin_ports::OperationState::Terminal);
    controller.close().await;
    store.close().await;
}

#[tokio::test]
async fn sockets_of_gateways_are_set_up_for_small_frames_and_lost_hosts() {
    // What the system reports of an accepted socket is what the listener asked for.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = tokio::net::TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    crate::listener::prepare(&stream).unwrap();
    use rustix::net::sockopt;
    assert!(stream.nodelay().unwrap() && sockopt::socket_keepalive(&stream).unwrap());
    assert_eq!(sockopt::tcp_keepidle(&stream).unwrap().as_secs(), 15);
    assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap().as_secs(), 10);
    assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), 3);
    assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), 30_000);
}

#[tokio::test]
async fn the_listener_moves_and_stops_at_once() {
    let store = Arc::new(MemoryStore::new());
    let controller = start(
        ControllerOptions {
            listen: None,
            ..options()
        },
        &store,
    )
    .await
    .unwrap();
    let free = || {
        let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        probe.local_addr().unwrap().port()
    };
    for (host, port, code) in [
        ("", 1, "controller_host_invalid"),
        ("127.0.0.1", 0, "controller_port_invalid"),
    ] {
        assert_eq!(
            controller.set_listener(true, host, port).await.unwrap_err().code(),
            code
        );
    }
    let (first, second) = (free(), free());
    let state = controller.set_listener(true, " 127.0.0.1 ", first).await.unwrap();
    assert_eq!(
        (state.running, state.port, state.host.as_str()),
        (true, first, "127.0.0.1")
    );
    controller
        .enrol("worker", None, Secret::new("s".to_owned()))
        .await
        .unwrap();
    let host = Host::hmac("worker", "s");
    let mut gateway = Dialled::dial(controller.tls_address().unwrap()).await;
    assert_eq!(gateway.authenticate(&host).await["type"], "auth.ok");

    // It serves elsewhere; who is connected stays so.
    controller.set_listener(true, "127.0.0.1", second).await.unwrap();
    assert_eq!(controller.tls_address().map(|address| address.port()), Some(second));
    assert!(tokio::net::TcpStream::connect(("127.0.0.1", first)).await.is_err());
    let dispatch = controller.dispatch(exec("worker", "op-1")).await.unwrap();
    let (_, collected) = tokio::join!(gateway.execute(), dispatch.collect());
    collected.unwrap();

    let state = controller.set_listener(false, "127.0.0.1", second).await.unwrap();
    assert_eq!((state.enabled, state.running), (false, false));
    gateway.expect_end().await;
    // Where it cannot run is told, and the setting is kept.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let state = controller.set_listener(true, "127.0.0.1", port).await.unwrap();
    assert_eq!(
        (state.enabled, state.error.as_deref()),
        (true, Some("controller_listen_failed"))
    );
    controller.close().await;
}

#[tokio::test]
async fn an_operators_certificate_is_checked_stored_whole_and_served_at_once() {
    let store = Arc::new(MemoryStore::new());
    let controller = start(options(), &store).await.unwrap();
    let generated = Dialled::dial(controller.tls_address().unwrap()).await.leaf.fingerprint;
    let given = material("given.example");
    let refused = async |material: TlsMaterial| controller.set_tls(material).await.unwrap_err().code();
    let with = |key: &str, cert: &str, ca: Option<&str>| TlsMaterial {
        key: key.to_owned().into(),
        cert: cert.to_owned(),
        ca: ca.map(str::to_owned),
    };
    assert_eq!(
        refused(with("", &given.cert, None)).await,
        "controller_tls_credentials_required"
    );
    assert_eq!(
        refused(with(&material("x").key, &given.cert, None)).await,
        "tls_key_mismatch"
    );
    assert_eq!(
        refused(with(&given.key, "rubbish", None)).await,
        "tls_certificate_invalid"
    );
    assert_eq!(
        refused(with(&given.key, &given.cert, Some("rubbish"))).await,
        "tls_ca_invalid"
    );
    // Key, certificate, authority, metadata: each of the four writes fails once.
    let ca = material("an.authority").cert;
    for step in 0..4 {
        store.fail_write_after(step);
        assert_eq!(
            refused(with(&given.key, &given.cert, Some(&ca))).await,
            "store_unavailable"
        );
        let state = controller.listener().await.unwrap();
        assert_eq!(
            state.tls.metadata.unwrap().fingerprint_sha256,
            Some(generated.to_hex()),
            "step {step}"
        );
        assert!(!state.tls.ca, "step {step}");
    }
    assert_eq!(
        Dialled::dial(controller.tls_address().unwrap()).await.leaf.fingerprint,
        generated
    );

    let address = controller.tls_address();
    let state = controller.set_tls(given.clone()).await.unwrap();
    assert_eq!(controller.tls_address(), address);
    let leaf = goblin_keys::tls::pem_fingerprint(&given.cert).unwrap();
    assert_eq!(state.tls.metadata.unwrap().source, "configured");
    assert_eq!(
        Dialled::dial(controller.tls_address().unwrap()).await.leaf.fingerprint,
        leaf
    );
    // Without it the listener makes itself another.
    let state = controller.clear_tls().await.unwrap();
    assert_eq!(
        (state.running, state.tls.metadata.unwrap().source),
        (true, "generated".to_owned())
    );
    let fresh = Dialled::dial(controller.tls_address().unwrap()).await.leaf.fingerprint;
    assert!(fresh != leaf && fresh != generated);
    controller.close().await;
}
