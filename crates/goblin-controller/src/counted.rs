//! The ports as the home gave them, with their failures counted. It changes nothing that passes through.

use crate::metrics::Metrics;
use async_trait::async_trait;
use goblin_ports::{
    Begin, Decide, OperationFilter, OperationRecord, OperationStart, Operations, PortError, Secret, Secrets, Settings,
    TerminalReference,
};
use serde_json::Value;
use std::sync::Arc;

pub(crate) struct Counted<P: ?Sized> {
    pub(crate) port: Arc<P>,
    pub(crate) metrics: Metrics,
}

impl<P: ?Sized> Counted<P> {
    fn pass<T>(&self, result: Result<T, PortError>) -> Result<T, PortError> {
        result.inspect_err(|error| self.metrics.store_failed(error))
    }
}

#[async_trait]
impl Settings for Counted<dyn Settings> {
    async fn get(&self, name: &str) -> Result<Option<Value>, PortError> {
        self.pass(self.port.get(name).await)
    }

    async fn update<'f>(&self, name: &str, decide: Decide<'f>) -> Result<(), PortError> {
        self.pass(self.port.update(name, decide).await)
    }

    async fn set(&self, name: &str, value: Value) -> Result<(), PortError> {
        self.pass(self.port.set(name, value).await)
    }

    async fn delete(&self, name: &str) -> Result<(), PortError> {
        self.pass(self.port.delete(name).await)
    }
}

#[async_trait]
impl Secrets for Counted<dyn Secrets> {
    async fn get(&self, name: &str) -> Result<Option<Secret>, PortError> {
        self.pass(self.port.get(name).await)
    }

    async fn set(&self, name: &str, secret: Secret) -> Result<(), PortError> {
        self.pass(self.port.set(name, secret).await)
    }

    async fn clear(&self, name: &str) -> Result<(), PortError> {
        self.pass(self.port.clear(name).await)
    }

    async fn has(&self, name: &str) -> Result<bool, PortError> {
        self.pass(self.port.has(name).await)
    }
}

#[async_trait]
impl Operations for Counted<dyn Operations> {
    async fn begin(&self, start: OperationStart, now: &str) -> Result<Begin, PortError> {
        self.pass(self.port.begin(start, now).await)
    }

    async fn withdraw(&self, operation_id: &str) -> Result<(), PortError> {
        self.pass(self.port.withdraw(operation_id).await)
    }

    async fn terminal(
        &self,
        operation_id: &str,
        reference: TerminalReference,
        now: &str,
    ) -> Result<OperationRecord, PortError> {
        self.pass(self.port.terminal(operation_id, reference, now).await)
    }

    async fn resolve(&self, operation_id: &str, note: &str, now: &str) -> Result<OperationRecord, PortError> {
        self.pass(self.port.resolve(operation_id, note, now).await)
    }

    async fn get(&self, operation_id: &str) -> Result<Option<OperationRecord>, PortError> {
        self.pass(self.port.get(operation_id).await)
    }

    async fn list(&self, filter: OperationFilter) -> Result<Vec<OperationRecord>, PortError> {
        self.pass(self.port.list(filter).await)
    }
}
