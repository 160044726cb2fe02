//! The rules of operation correlation over a plain list, last changed last, and the operations port built on them for
//! a home that has settings only. It must never know where the list is kept.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Begin, OperationFilter, OperationRecord, OperationStart, OperationState, Operations, PortError, Settings,
    SettingsExt, TERMINAL_RECORDS_MAX, TerminalReference, check_note, setting,
};

pub(crate) fn begin(list: &mut Vec<OperationRecord>, start: OperationStart, now: &str) -> Result<Begin, PortError> {
    start.check()?;
    if let Some(record) = list.iter().find(|record| record.operation_id == start.operation_id) {
        record.check_same(&start)?;
        return Ok(Begin::Existing(record.clone()));
    }
    let record = start.into_record(now);
    list.push(record.clone());
    Ok(Begin::Begun(record))
}

pub(crate) fn withdraw(list: &mut Vec<OperationRecord>, operation_id: &str) {
    list.retain(|record| record.operation_id != operation_id || record.state != OperationState::Dispatching);
}

pub(crate) fn terminal(
    list: &mut Vec<OperationRecord>,
    operation_id: &str,
    reference: TerminalReference,
    now: &str,
) -> Result<OperationRecord, PortError> {
    let mut record = take(list, operation_id)?;
    record.state = OperationState::Terminal;
    record.terminal_reference = Some(reference);
    Ok(settle(list, record, now))
}

pub(crate) fn resolve(
    list: &mut Vec<OperationRecord>,
    operation_id: &str,
    note: &str,
    now: &str,
) -> Result<OperationRecord, PortError> {
    check_note(note)?;
    if list
        .iter()
        .any(|record| record.operation_id == operation_id && record.state == OperationState::Terminal)
    {
        return Err(PortError::OperationAlreadyTerminal {
            operation_id: operation_id.to_owned(),
        });
    }
    let mut record = take(list, operation_id)?;
    record.state = OperationState::Resolved;
    record.note = Some(note.to_owned());
    Ok(settle(list, record, now))
}

pub(crate) fn find(list: &[OperationRecord], operation_id: &str) -> Option<OperationRecord> {
    list.iter().find(|record| record.operation_id == operation_id).cloned()
}

pub(crate) fn select(list: &[OperationRecord], filter: &OperationFilter) -> Vec<OperationRecord> {
    list.iter()
        .rev()
        .filter(|record| filter.admits(record))
        .take(filter.limit)
        .cloned()
        .collect()
}

fn take(list: &mut Vec<OperationRecord>, operation_id: &str) -> Result<OperationRecord, PortError> {
    match list.iter().position(|record| record.operation_id == operation_id) {
        Some(index) => Ok(list.remove(index)),
        None => Err(PortError::OperationNotFound {
            operation_id: operation_id.to_owned(),
        }),
    }
}

/// Puts a settled record at the end and lets the oldest settled ones go.
fn settle(list: &mut Vec<OperationRecord>, mut record: OperationRecord, now: &str) -> OperationRecord {
    record.updated_at = now.to_owned();
    list.push(record.clone());
    let settled = list
        .iter()
        .filter(|record| record.state != OperationState::Dispatching)
        .count();
    let mut excess = settled.saturating_sub(TERMINAL_RECORDS_MAX);
    list.retain(|record| {
        let goes = excess > 0 && record.state != OperationState::Dispatching;
        excess -= usize::from(goes);
        !goes
    });
    record
}

/// [`Operations`] kept as one list in the setting `controllerOperations`.
pub struct ListedOperations<S: ?Sized>(Arc<S>);

impl<S: Settings + ?Sized> ListedOperations<S> {
    /// Over these settings.
    pub fn new(settings: Arc<S>) -> Self {
        Self(settings)
    }

    async fn records(&self) -> Result<Vec<OperationRecord>, PortError> {
        Ok(self.0.get_as(setting::OPERATIONS).await?.unwrap_or_default())
    }
}

#[async_trait]
impl<S: Settings + ?Sized> Operations for ListedOperations<S> {
    async fn begin(&self, start: OperationStart, now: &str) -> Result<Begin, PortError> {
        self.0
            .update_list(setting::OPERATIONS, |list| begin(list, start, now))
            .await
    }

    async fn withdraw(&self, operation_id: &str) -> Result<(), PortError> {
        self.0
            .update_list(setting::OPERATIONS, |list| {
                withdraw(list, operation_id);
                Ok(())
            })
            .await
    }

    async fn terminal(
        &self,
        operation_id: &str,
        reference: TerminalReference,
        now: &str,
    ) -> Result<OperationRecord, PortError> {
        self.0
            .update_list(setting::OPERATIONS, |list| terminal(list, operation_id, reference, now))
            .await
    }

    async fn resolve(&self, operation_id: &str, note: &str, now: &str) -> Result<OperationRecord, PortError> {
        self.0
            .update_list(setting::OPERATIONS, |list| resolve(list, operation_id, note, now))
            .await
    }

    async fn get(&self, operation_id: &str) -> Result<Option<OperationRecord>, PortError> {
        Ok(find(&self.records().await?, operation_id))
    }

    async fn list(&self, filter: OperationFilter) -> Result<Vec<OperationRecord>, PortError> {
        Ok(select(&self.records().await?, &filter))
    }
}
