//! The in-memory home: all ports, for tests and for a controller that need not remember.
//! It can be told to fail a coming write, so that callers can test how they roll back.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    Begin, Change, Decide, OperationFilter, OperationRecord, OperationStart, Operations, PortError, Secret, Secrets,
    Settings, TerminalReference, TokenRecord, Tokens, check_name, check_secret, check_setting, check_token, ledger,
    token_exists,
};

#[derive(Default)]
struct State {
    settings: HashMap<String, Value>,
    secrets: HashMap<String, Secret>,
    operations: Vec<OperationRecord>,
    tokens: Vec<TokenRecord>,
    writes_before_failure: Option<u32>,
}

impl State {
    /// Each write passes here before it changes anything.
    fn admit_write(&mut self) -> Result<(), PortError> {
        match self.writes_before_failure {
            Some(0) => {
                self.writes_before_failure = None;
                Err(PortError::Unavailable("this write was told to fail".to_owned()))
            }
            Some(left) => {
                self.writes_before_failure = Some(left - 1);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Settings, secrets, operations and tokens in memory.
#[derive(Default)]
pub struct MemoryStore(Mutex<State>);

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `successes` more writes through (of any port; an update that keeps its value is none), then fails one with
    /// `store_unavailable`, then works again.
    pub fn fail_write_after(&self, successes: u32) {
        self.state().writes_before_failure = Some(successes);
    }

    /// A panic in an update's closure leaves the maps whole, since nothing is written before it returns.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_operations<R>(
        &self,
        change: impl FnOnce(&mut Vec<OperationRecord>) -> Result<R, PortError>,
    ) -> Result<R, PortError> {
        let mut state = self.state();
        state.admit_write()?;
        change(&mut state.operations)
    }
}

#[async_trait]
impl Settings for MemoryStore {
    async fn get(&self, name: &str) -> Result<Option<Value>, PortError> {
        check_name(name)?;
        Ok(self.state().settings.get(name).cloned())
    }

    async fn update<'f>(&self, name: &str, decide: Decide<'f>) -> Result<(), PortError> {
        check_name(name)?;
        let mut state = self.state();
        match decide(state.settings.get(name).cloned()) {
            Change::Keep => {}
            Change::Set(value) => {
                check_setting(name, &value)?;
                state.admit_write()?;
                state.settings.insert(name.to_owned(), value);
            }
            Change::Delete => {
                state.admit_write()?;
                state.settings.remove(name);
            }
        }
        Ok(())
    }

    async fn set(&self, name: &str, value: Value) -> Result<(), PortError> {
        Settings::update(self, name, Box::new(|_| Change::Set(value))).await
    }

    async fn delete(&self, name: &str) -> Result<(), PortError> {
        Settings::update(self, name, Box::new(|_| Change::Delete)).await
    }
}

#[async_trait]
impl Secrets for MemoryStore {
    async fn get(&self, name: &str) -> Result<Option<Secret>, PortError> {
        check_name(name)?;
        Ok(self.state().secrets.get(name).cloned())
    }

    async fn set(&self, name: &str, secret: Secret) -> Result<(), PortError> {
        check_secret(name, &secret)?;
        let mut state = self.state();
        state.admit_write()?;
        state.secrets.insert(name.to_owned(), secret);
        Ok(())
    }

    async fn clear(&self, name: &str) -> Result<(), PortError> {
        check_name(name)?;
        let mut state = self.state();
        state.admit_write()?;
        state.secrets.remove(name);
        Ok(())
    }

    async fn has(&self, name: &str) -> Result<bool, PortError> {
        check_name(name)?;
        Ok(self.state().secrets.contains_key(name))
    }
}

#[async_trait]
impl Operations for MemoryStore {
    async fn begin(&self, start: OperationStart, now: &str) -> Result<Begin, PortError> {
        self.change_operations(|list| ledger::begin(list, start, now))
    }

    async fn withdraw(&self, operation_id: &str) -> Result<(), PortError> {
        self.change_operations(|list| {
            ledger::withdraw(list, operation_id);
            Ok(())
        })
    }

    async fn terminal(
        &self,
        operation_id: &str,
        reference: TerminalReference,
        now: &str,
    ) -> Result<OperationRecord, PortError> {
        self.change_operations(|list| ledger::terminal(list, operation_id, reference, now))
    }

    async fn resolve(&self, operation_id: &str, note: &str, now: &str) -> Result<OperationRecord, PortError> {
        self.change_operations(|list| ledger::resolve(list, operation_id, note, now))
    }

    async fn get(&self, operation_id: &str) -> Result<Option<OperationRecord>, PortError> {
        Ok(ledger::find(&self.state().operations, operation_id))
    }

    async fn list(&self, filter: OperationFilter) -> Result<Vec<OperationRecord>, PortError> {
        Ok(ledger::select(&self.state().operations, &filter))
    }
}

#[async_trait]
impl Tokens for MemoryStore {
    async fn all(&self) -> Result<Vec<TokenRecord>, PortError> {
        Ok(self.state().tokens.clone())
    }

    async fn add(&self, record: TokenRecord) -> Result<(), PortError> {
        check_token(&record)?;
        let mut state = self.state();
        let twin = |known: &TokenRecord| known.id == record.id || known.digest == record.digest;
        if state.tokens.iter().any(twin) {
            return Err(token_exists(&record.id));
        }
        state.admit_write()?;
        state.tokens.push(record);
        Ok(())
    }

    async fn remove(&self, id: &str) -> Result<(), PortError> {
        let mut state = self.state();
        state.admit_write()?;
        state.tokens.retain(|known| known.id != id);
        Ok(())
    }
}
