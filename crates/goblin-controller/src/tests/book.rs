//! Many gateways: what an authentication reads, and what a reconnect costs.

use super::gateway::{Dialled, Host};
use super::options;
use crate::Controller;
use async_trait::async_trait;
use goblin_keys::tls::{ClientTls, ClientTrust, server_name};
use goblin_ports::{Decide, MemoryStore, PortError, Secret, Settings, setting};
use rustls::HandshakeKind;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Settings that count how often the trust records are read.
struct Counted {
    settings: Arc<MemoryStore>,
    reads: AtomicUsize,
}

#[async_trait]
impl Settings for Counted {
    async fn get(&self, name: &str) -> Result<Option<Value>, PortError> {
        self.reads
            .fetch_add(usize::from(name == setting::GATEWAYS), Ordering::Relaxed);
        Settings::get(&*self.settings, name).await
    }

    async fn update<'f>(&self, name: &str, decide: Decide<'f>) -> Result<(), PortError> {
        self.settings.update(name, decide).await
    }

    async fn set(&self, name: &str, value: Value) -> Result<(), PortError> {
        Settings::set(&*self.settings, name, value).await
    }

    async fn delete(&self, name: &str) -> Result<(), PortError> {
        Settings::delete(&*self.settings, name).await
    }
}

#[tokio::test]
async fn trust_is_read_once_for_any_number_of_authentications() {
    let store = Arc::new(MemoryStore::new());
    let settings = Arc::new(Counted {
        settings: store.clone(),
        reads: AtomicUsize::new(0),
    });
    let controller = Controller::start(options(), settings.clone(), store.clone(), store.clone())
        .await
        .unwrap();
    let hosts: Vec<_> = (0..20).map(|index| Host::hmac(&format!("g{index}"), "s")).collect();
    for host in &hosts {
        controller
            .enrol(&host.id, None, Secret::new("s".to_owned()))
            .await
            .unwrap();
    }
    let address = controller.tls_address().unwrap();
    let before = settings.reads.load(Ordering::Relaxed);
    let mut connecting = tokio::task::JoinSet::new();
    for host in hosts.clone() {
        connecting.spawn(async move {
            let mut gateway = Dialled::dial(address).await;
            assert_eq!(gateway.authenticate(&host).await["type"], "auth.ok");
            gateway
        });
    }
    let connected = connecting.join_all().await;
    assert_eq!(controller.gateways().await.unwrap().len(), 20);
    assert!(controller.trust_of("g7").await.unwrap().unwrap().trusted());
    assert_eq!(controller.trust_of("absent").await.unwrap(), None);
    assert_eq!(settings.reads.load(Ordering::Relaxed) - before, 1);

    // A change is seen by the very next one, and a failed one changes nothing.
    store.fail_write_after(0);
    controller.revoke("g7").await.unwrap_err();
    assert!(controller.trust_of("g7").await.unwrap().unwrap().trusted());
    controller.revoke("g7").await.unwrap();
    let mut refused = Dialled::dial(address).await;
    assert_eq!(super::code(&refused.authenticate(&hosts[7]).await), "unknown_node");
    drop(connected);
    controller.close().await;
}

#[tokio::test]
async fn a_gateway_that_comes_back_resumes_its_session() {
    let store = Arc::new(MemoryStore::new());
    let controller = Controller::start(options(), store.clone(), store.clone(), store.clone())
        .await
        .unwrap();
    let address = controller.tls_address().unwrap();
    let fingerprint = Dialled::dial(address).await.leaf.fingerprint;
    let trust = ClientTrust::Pinned {
        fingerprint,
        ca_pem: None,
    };
    let tls = ClientTls::new(&trust, None).unwrap();
    for expected in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(tls.config());
        let mut stream = connector
            .connect(server_name("127.0.0.1").unwrap(), stream)
            .await
            .unwrap();
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(expected));
        // A resumed session still shows the certificate that it began with.
        tls.judge(stream.get_ref().1.peer_certificates()).unwrap();
        // The ticket comes with the challenge.
        stream.read_u8().await.unwrap();
    }
    controller.close().await;
}
