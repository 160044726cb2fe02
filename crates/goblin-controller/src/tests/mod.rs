//! The controller over real sockets, with a gateway of our own that says whatever a test wants.

mod authentication;
mod book;
mod bounds;
mod changes;
mod dispatching;
mod gateway;
mod home;
mod hostile;
mod liveness;
mod pairing;
mod provider;
mod recording;
mod recovery;
mod redaction;
mod trust;

use crate::{Controller, ControllerOptions, DispatchRequest, LiveDispatch, Timing};
use gateway::{Dialled, Host};
use goblin_ports::{MemoryStore, OperationKind, Operations, PendingPairing, Secrets, Settings, SettingsExt, setting};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Longer than anything takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A controller on a port of its own, over a store in memory.
struct Fixture {
    controller: Controller,
    store: Arc<MemoryStore>,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(timing: impl FnOnce(&mut Timing)) -> Self {
        Self::over(Arc::new(MemoryStore::new()), timing).await
    }

    async fn over(store: Arc<MemoryStore>, timing: impl FnOnce(&mut Timing)) -> Self {
        let mut options = options();
        timing(&mut options.timing);
        let controller = Controller::start(options, store.clone(), store.clone(), store.clone())
            .await
            .unwrap();
        Self { controller, store }
    }

    async fn dial(&self) -> Dialled {
        Dialled::dial(self.controller.tls_address().unwrap()).await
    }

    /// A gateway that waits for approval.
    async fn pending(&self, host: &Host) -> Dialled {
        let mut dialled = self.dial().await;
        assert_eq!(dialled.authenticate(host).await["type"], "pairing.pending");
        dialled
    }

    /// A gateway that was approved and is ready.
    async fn ready(&self, host: &Host) -> Dialled {
        let mut dialled = self.pending(host).await;
        self.controller.approve(&host.id, None).await.unwrap();
        assert_eq!(dialled.receive().await.unwrap()["type"], "auth.ok");
        dialled
    }

    /// An approved gateway that connects again.
    async fn again(&self, host: &Host) -> Dialled {
        let mut dialled = self.dial().await;
        let answer = dialled.authenticate(host).await;
        assert_eq!(answer["type"], "auth.ok", "{answer}");
        dialled
    }

    /// The code with which a connection of this gateway is refused.
    async fn refusal(&self, host: &Host) -> String {
        let mut dialled = self.dial().await;
        let answer = dialled.authenticate(host).await;
        dialled.expect_end().await;
        code(&answer)
    }

    async fn stored_pairings(&self) -> Vec<PendingPairing> {
        self.store
            .get_as(setting::PENDING_PAIRINGS)
            .await
            .unwrap()
            .unwrap_or_default()
    }

    async fn dispatch(&self, host: &Host, operation_id: &str) -> LiveDispatch {
        self.controller.dispatch(exec(&host.id, operation_id)).await.unwrap()
    }

    async fn record(&self, operation_id: &str) -> Option<goblin_ports::OperationRecord> {
        Operations::get(&*self.store, operation_id).await.unwrap()
    }

    async fn secret(&self, name: &str) -> Option<String> {
        Secrets::get(&*self.store, name)
            .await
            .unwrap()
            .map(|secret| secret.expose().to_owned())
    }

    async fn setting(&self, name: &str) -> Option<Value> {
        Settings::get(&*self.store, name).await.unwrap()
    }
}

fn options() -> ControllerOptions {
    ControllerOptions {
        listen: Some("127.0.0.1:0".parse().unwrap()),
        ..ControllerOptions::default()
    }
}

fn exec(gateway_id: &str, operation_id: &str) -> DispatchRequest {
    process(gateway_id, operation_id, json!({"executable": "/bin/true"}))
}

fn process(gateway_id: &str, operation_id: &str, params: Value) -> DispatchRequest {
    let Value::Object(params) = params else { panic!() };
    DispatchRequest {
        gateway_id: gateway_id.to_owned(),
        operation_id: operation_id.to_owned(),
        kind: OperationKind::Process,
        params,
        parent_run_id: None,
        tool_call_id: None,
    }
}

fn code(frame: &Value) -> String {
    assert_eq!(
        (&frame["type"], &frame["ok"]),
        (&json!("transport.error"), &json!(false)),
        "{frame}"
    );
    frame["error"]["code"].as_str().unwrap().to_owned()
}

/// Waits until something holds that comes about without an event to wait for.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}
