//! The API over a real Unix socket, with a gateway of our own at the other end.

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

use crate::Server;
use crate::server::{Patience, serve_patiently};
use client::Client;
use gateway::Gateway;
use goblin_controller::{Controller, ControllerOptions};
use goblin_ports::{MemoryStore, Secret};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Longer than anything takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

const SECRET: &str = "an enrolment secret";

struct Fixture {
    controller: Controller,
    store: Arc<MemoryStore>,
    server: Option<Server>,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(Patience::default()).await
    }

    async fn with(patience: Patience) -> Self {
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
        let server = serve_patiently(controller.clone(), &path, patience).unwrap();
        Self {
            controller,
            store,
            server: Some(server),
            path,
            _directory: directory,
        }
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
