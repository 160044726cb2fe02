//! The operations port over the table `operations`: one row each, one statement per change.

use async_trait::async_trait;
use goblin_ports::{
    Begin, OperationFilter, OperationKind, OperationRecord, OperationStart, OperationState, Operations, PortError,
    TERMINAL_RECORDS_MAX, TerminalReference, check_note,
};
use sqlx::{Row, any::AnyRow};

use crate::{
    Store, corrupt,
    error::database,
    session::{Durability, Lent, Session},
};

/// A statement followed by the columns of a record.
macro_rules! with_columns {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " operation_id, parent_run_id, tool_call_id, gateway_id, kind, request_digest, state, \
             terminal_operation_id, terminal_replay, terminal_outcome_digest, note, updated_at ",
            $after
        )
    };
}

#[async_trait]
impl Operations for Store {
    async fn begin(&self, start: OperationStart, now: &str) -> Result<Begin, PortError> {
        start.check()?;
        let mut lent = self.slot.lend(Durability::Process).await?;
        let inserted = sqlx::query(
            "INSERT INTO operations (operation_id, sequence, parent_run_id, tool_call_id, gateway_id, kind, \
             request_digest, state, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
             ON CONFLICT (operation_id) DO NOTHING",
        )
        .bind(start.operation_id.as_str())
        .bind(self.next_sequence())
        .bind(start.parent_run_id.as_deref())
        .bind(start.tool_call_id.as_deref())
        .bind(start.gateway_id.as_str())
        .bind(start.kind.as_str())
        .bind(start.request_digest.as_str())
        .bind(OperationState::Dispatching.as_str())
        .bind(now)
        .execute(&mut lent.session.connection)
        .await
        .map_err(database)?;
        if inserted.rows_affected() == 1 {
            lent.give_back();
            return Ok(Begin::Begun(start.into_record(now)));
        }
        let existing = find(&mut lent.session, &start.operation_id).await?;
        lent.give_back();
        let existing = existing.ok_or_else(|| corrupt("an operation is both there and not"))?;
        existing.check_same(&start)?;
        Ok(Begin::Existing(existing))
    }

    async fn withdraw(&self, operation_id: &str) -> Result<(), PortError> {
        let mut lent = self.slot.lend(Durability::Process).await?;
        sqlx::query("DELETE FROM operations WHERE operation_id = $1 AND state = 'dispatching'")
            .bind(operation_id)
            .execute(&mut lent.session.connection)
            .await
            .map_err(database)?;
        lent.give_back();
        Ok(())
    }

    async fn terminal(
        &self,
        operation_id: &str,
        reference: TerminalReference,
        now: &str,
    ) -> Result<OperationRecord, PortError> {
        let mut lent = self.slot.lend(Durability::Process).await?;
        // All rows are fetched although there is at most one: only so is the commit's own error seen.
        let rows = sqlx::query(with_columns!(
            "UPDATE operations SET state = 'terminal', terminal_operation_id = $2, terminal_replay = $3, \
             terminal_outcome_digest = $4, updated_at = $5, sequence = $6 WHERE operation_id = $1 RETURNING",
            ""
        ))
        .bind(operation_id)
        .bind(reference.operation_id.as_str())
        .bind(i64::from(reference.replay))
        .bind(reference.outcome_digest.as_deref())
        .bind(now)
        .bind(self.next_sequence())
        .fetch_all(&mut lent.session.connection)
        .await
        .map_err(database)?;
        match rows.first() {
            Some(row) => {
                let settled = record(row)?;
                trim(lent).await;
                Ok(settled)
            }
            None => {
                lent.give_back();
                Err(PortError::OperationNotFound {
                    operation_id: operation_id.to_owned(),
                })
            }
        }
    }

    async fn resolve(&self, operation_id: &str, note: &str, now: &str) -> Result<OperationRecord, PortError> {
        check_note(note)?;
        let mut lent = self.slot.lend(Durability::Process).await?;
        let rows = sqlx::query(with_columns!(
            "UPDATE operations SET state = 'resolved', note = $2, updated_at = $3, sequence = $4 \
             WHERE operation_id = $1 AND state <> 'terminal' RETURNING",
            ""
        ))
        .bind(operation_id)
        .bind(note)
        .bind(now)
        .bind(self.next_sequence())
        .fetch_all(&mut lent.session.connection)
        .await
        .map_err(database)?;
        if let Some(row) = rows.first() {
            let settled = record(row)?;
            trim(lent).await;
            return Ok(settled);
        }
        let existing = find(&mut lent.session, operation_id).await?;
        lent.give_back();
        let operation_id = operation_id.to_owned();
        Err(match existing {
            Some(_) => PortError::OperationAlreadyTerminal { operation_id },
            None => PortError::OperationNotFound { operation_id },
        })
    }

    async fn get(&self, operation_id: &str) -> Result<Option<OperationRecord>, PortError> {
        let mut lent = self.slot.lend(Durability::Process).await?;
        let found = find(&mut lent.session, operation_id).await?;
        lent.give_back();
        Ok(found)
    }

    async fn list(&self, filter: OperationFilter) -> Result<Vec<OperationRecord>, PortError> {
        let limit = i64::try_from(filter.limit).unwrap_or(i64::MAX);
        let query = match (&filter.gateway_id, filter.state) {
            (None, None) => sqlx::query(with_columns!(
                "SELECT",
                "FROM operations ORDER BY sequence DESC LIMIT $1"
            )),
            (Some(gateway_id), None) => sqlx::query(with_columns!(
                "SELECT",
                "FROM operations WHERE gateway_id = $1 ORDER BY sequence DESC LIMIT $2"
            ))
            .bind(gateway_id.as_str()),
            (None, Some(state)) => sqlx::query(with_columns!(
                "SELECT",
                "FROM operations WHERE state = $1 ORDER BY sequence DESC LIMIT $2"
            ))
            .bind(state.as_str()),
            (Some(gateway_id), Some(state)) => sqlx::query(with_columns!(
                "SELECT",
                "FROM operations WHERE gateway_id = $1 AND state = $2 ORDER BY sequence DESC LIMIT $3"
            ))
            .bind(gateway_id.as_str())
            .bind(state.as_str()),
        };
        let mut lent = self.slot.lend(Durability::Process).await?;
        let rows = query
            .bind(limit)
            .fetch_all(&mut lent.session.connection)
            .await
            .map_err(database)?;
        lent.give_back();
        rows.iter().map(record).collect()
    }
}

/// The highest sequence in use, 0 when there is none.
pub(crate) async fn last_sequence(session: &mut Session) -> Result<i64, PortError> {
    let row = sqlx::query("SELECT sequence FROM operations ORDER BY sequence DESC LIMIT 1")
        .fetch_optional(&mut session.connection)
        .await
        .map_err(database)?;
    row.map_or(Ok(0), |row| row.try_get(0).map_err(database))
}

async fn find(session: &mut Session, operation_id: &str) -> Result<Option<OperationRecord>, PortError> {
    let row = sqlx::query(with_columns!("SELECT", "FROM operations WHERE operation_id = $1"))
        .bind(operation_id)
        .fetch_optional(&mut session.connection)
        .await
        .map_err(database)?;
    row.as_ref().map(record).transpose()
}

/// Lets the oldest settled records beyond the bound go. The settlement before it is committed, so a failure here only
/// leaves a record too many until the next.
async fn trim(mut lent: Lent<'_>) {
    let trimmed = sqlx::query(
        "DELETE FROM operations WHERE state <> 'dispatching' AND sequence <= \
         (SELECT sequence FROM operations WHERE state <> 'dispatching' ORDER BY sequence DESC LIMIT 1 OFFSET $1)",
    )
    .bind(TERMINAL_RECORDS_MAX as i64)
    .execute(&mut lent.session.connection)
    .await;
    match trimmed {
        Ok(_) => lent.give_back(),
        Err(error) => tracing::warn!(%error, "old operation records were not removed"),
    }
}

fn record(row: &AnyRow) -> Result<OperationRecord, PortError> {
    let text = |name: &str| row.try_get::<String, _>(name).map_err(database);
    let optional = |name: &str| row.try_get::<Option<String>, _>(name).map_err(database);
    let terminal_reference = match optional("terminal_operation_id")? {
        Some(operation_id) => Some(TerminalReference {
            operation_id,
            replay: row.try_get::<i64, _>("terminal_replay").map_err(database)? != 0,
            outcome_digest: optional("terminal_outcome_digest")?,
        }),
        None => None,
    };
    Ok(OperationRecord {
        operation_id: text("operation_id")?,
        parent_run_id: optional("parent_run_id")?,
        tool_call_id: optional("tool_call_id")?,
        gateway_id: text("gateway_id")?,
        kind: OperationKind::parse(&text("kind")?).ok_or_else(|| corrupt("an operation is of no known kind"))?,
        request_digest: text("request_digest")?,
        state: OperationState::parse(&text("state")?).ok_or_else(|| corrupt("an operation is in no known state"))?,
        terminal_reference,
        note: optional("note")?,
        updated_at: text("updated_at")?,
    })
}
