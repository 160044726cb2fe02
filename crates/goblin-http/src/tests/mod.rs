//! The API over a real Unix socket, with a gateway of our own at the other end.

mod access;
mod agents;
mod client;
mod dispatching;
mod document;
mod events;
mod failing;
mod fuzzing;
mod gateway;
mod metrics;
mod operations;
mod requests;
mod serving;
mod session;
mod targets;
mod tokens;
mod transport;
mod web;

use crate::server::{Patience, Tuning, serve_with};
use crate::{AuditLog, HttpOptions, ServeError, Server, Service, serve};
use client::Client;
use gateway::Gateway;
use goblin_controller::{Controller, ControllerOptions};
use goblin_ports::{MemoryStore, Secret};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Longer than anything takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where the clock of a test begins: 2026-12-01.
const NOW: i64 = 1_796_083_200_000;

const SECRET: &str = "an enrolment secret";

struct Fixture {
    controller: Controller,
    store: Arc<MemoryStore>,
    server: Option<Server>,
    path: PathBuf,
    /// Epoch milliseconds.
    clock: Arc<AtomicI64>,
    directory: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(Patience::default()).await
    }

    async fn with(patience: Patience) -> Self {
        let tuning = Tuning {
            patience,
            ..Tuning::default()
        };
        Self::serving(tuning, None).await
    }

    async fn serving(tuning: Tuning, http: Option<HttpOptions>) -> Self {
        let store = Arc::new(MemoryStore::new());
        let options = ControllerOptions {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            ..ControllerOptions::default()
        };
        let controller = Controller::start(options, store.clone(), store.clone(), store.clone())
            .await
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("controller.sock");
        let clock = Arc::new(AtomicI64::new(NOW));
        let ticking = clock.clone();
        let service = Service {
            controller: controller.clone(),
            tokens: store.clone(),
            audit: AuditLog::start(directory.path()),
            socket: path.clone(),
            http,
        };
        let clocked = Arc::new(move || ticking.load(Ordering::Relaxed));
        let server = serve_with(service, tuning, clocked).await.unwrap();
        Self {
            clock,
            controller,
            store,
            server: Some(server),
            path,
            directory,
        }
    }

    /// Another server of the same controller.
    async fn another(&self, path: &Path) -> Result<Server, ServeError> {
        let service = Service {
            controller: self.controller.clone(),
            tokens: self.store.clone(),
            audit: AuditLog::off(),
            socket: path.to_owned(),
            http: None,
        };
        serve(service).await
    }

    async fn client(&self) -> Client {
        Client::connect(&self.path).await
    }

    /// A gateway that is enrolled and ready.
    async fn ready(&self, id: &str) -> Gateway {
        let secret = Secret::new(SECRET.to_owned());
        self.controller.enrol(id, None, secret).await.unwrap();
        let mut gateway = Gateway::dial(&self.controller).await;
        assert_eq!(gateway.enrolled(id, SECRET).await["type"], "auth.ok");
        gateway
    }
}

fn exec(operation_id: &str) -> Value {
    json!({"operationId": operation_id, "executable": "/bin/true"})
}
