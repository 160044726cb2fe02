//! The trust records in memory, by gateway: an authentication looks one up instead of reading the list of thousands.
//!
//! The list of the settings stays the truth, and this controller its only writer: each change goes through
//! [`Book::change`], which drops what was read before it. It must never decide what a record is worth.

use crate::error::ControllerError;
use goblin_ports::{GatewayRecord, PortError, Settings, SettingsExt, setting};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The list as it was read once.
#[derive(Default)]
pub(crate) struct Records {
    list: Vec<GatewayRecord>,
    places: HashMap<String, usize>,
}

impl Records {
    fn new(list: Vec<GatewayRecord>) -> Self {
        let mut places = HashMap::with_capacity(list.len());
        for (place, record) in list.iter().enumerate() {
            // Of two records of one gateway the first counts, as everywhere.
            places.entry(record.gateway_id.clone()).or_insert(place);
        }
        Self { list, places }
    }

    /// All records, in the order of the list.
    pub(crate) fn list(&self) -> &[GatewayRecord] {
        &self.list
    }

    /// The record of a gateway.
    pub(crate) fn get(&self, gateway_id: &str) -> Option<&GatewayRecord> {
        self.places.get(gateway_id).and_then(|place| self.list.get(*place))
    }
}

#[derive(Default)]
struct Known {
    records: Option<Arc<Records>>,
    /// Counts the changes, so that what was read during one is not taken for what it left.
    changes: u64,
}

/// The records, read when they are needed first and after each change.
#[derive(Default)]
pub(crate) struct Book {
    known: Mutex<Known>,
    /// Held while the list is read, so that a thousand gateways that come back at once read it once. Who finds the
    /// records in memory never waits for it.
    reading: tokio::sync::Mutex<()>,
}

impl Book {
    /// The records as they are now.
    ///
    /// # Errors
    /// Those of the home.
    pub(crate) async fn records(&self, settings: &dyn Settings) -> Result<Arc<Records>, ControllerError> {
        if let Some(records) = &self.known().records {
            return Ok(records.clone());
        }
        let _turn = self.reading.lock().await;
        let before = {
            let known = self.known();
            if let Some(records) = &known.records {
                return Ok(records.clone());
            }
            known.changes
        };
        let list: Option<Vec<GatewayRecord>> = settings.get_as(setting::GATEWAYS).await?;
        let records = Arc::new(Records::new(list.unwrap_or_default()));
        let mut known = self.known();
        if known.changes == before {
            known.records = Some(records.clone());
        }
        Ok(records)
    }

    /// Changes the list as one transaction of the home.
    ///
    /// # Errors
    /// Those of the home; nothing is changed after one.
    pub(crate) async fn change<R: Send>(
        &self,
        settings: &dyn Settings,
        change: impl FnOnce(&mut Vec<GatewayRecord>) -> R + Send,
    ) -> Result<R, PortError> {
        // Dropped at the end whatever it is: an abandoned or failed change may have been written.
        let _after = Forget::new(self);
        settings.update_list(setting::GATEWAYS, |list| Ok(change(list))).await
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self) {
        let mut known = self.known();
        known.changes += 1;
        known.records = None;
    }
}

/// Makes the book read again, at the beginning of a change and at its end.
struct Forget<'b>(&'b Book);

impl<'b> Forget<'b> {
    fn new(book: &'b Book) -> Self {
        book.forget();
        Self(book)
    }
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.forget();
    }
}
