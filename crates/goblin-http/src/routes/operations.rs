//! Operations: activity in memory, and the durable record of each.

use crate::answer::{Answer, Failure, success};
use crate::body;
use crate::query::Parameters;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use goblin_api::{
    Activity, ActivityKind, ActivityState, Correlation, CorrelationState, OPERATIONS_LIMIT_DEFAULT,
    OPERATIONS_LIMIT_MAX, OperationAnswer, OperationsAnswer, ResolveAnswer, Success, TerminalReference,
};
use goblin_controller::{self as controller, ActivityRecord, Controller};
use goblin_ports::{OperationKind, OperationRecord, OperationState};
use serde_json::Value;

pub(super) async fn list(State(controller): State<Controller>, parameters: Parameters) -> Answer {
    let limit = parameters.limit(OPERATIONS_LIMIT_DEFAULT, OPERATIONS_LIMIT_MAX);
    let records = controller.activity(parameters.get("gatewayId"), limit as usize);
    success(OperationsAnswer {
        ok: Success,
        operations: records.into_iter().map(activity).collect(),
        limit,
    })
}

pub(super) async fn show(State(controller): State<Controller>, path: Result<Path<String>, PathRejection>) -> Answer {
    let id = operation_id(path)?;
    let correlation = controller.correlation(&id).await?;
    let records = controller.activity_of(&id);
    if correlation.is_none() && records.is_empty() {
        return Err(Failure::new(StatusCode::NOT_FOUND, "operation_not_found"));
    }
    success(OperationAnswer {
        ok: Success,
        correlation: correlation.map(correlated),
        activity: records.into_iter().map(activity).collect(),
    })
}

pub(super) async fn resolve(
    State(controller): State<Controller>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Answer {
    let id = operation_id(path)?;
    let body = body::object(request).await?;
    let Some(Value::String(note)) = body.get("note") else {
        return Err(Failure::invalid("note_invalid"));
    };
    success(ResolveAnswer {
        ok: Success,
        correlation: correlated(controller.resolve(&id, note).await?),
    })
}

fn operation_id(path: Result<Path<String>, PathRejection>) -> Result<String, Failure> {
    path.map(|Path(id)| id)
        .map_err(|_| Failure::invalid("operation_id_invalid"))
}

fn correlated(record: OperationRecord) -> Correlation {
    Correlation {
        operation_id: record.operation_id,
        parent_run_id: record.parent_run_id,
        tool_call_id: record.tool_call_id,
        gateway_id: record.gateway_id,
        kind: kind(record.kind),
        request_digest: record.request_digest,
        state: match record.state {
            OperationState::Dispatching => CorrelationState::Dispatching,
            OperationState::Terminal => CorrelationState::Terminal,
            OperationState::Resolved => CorrelationState::Resolved,
        },
        terminal_reference: record.terminal_reference.map(|reference| TerminalReference {
            operation_id: reference.operation_id,
            replay: reference.replay,
            outcome_digest: reference.outcome_digest,
        }),
        note: record.note,
        updated_at: record.updated_at,
    }
}

fn kind(kind: OperationKind) -> ActivityKind {
    match kind {
        OperationKind::Process => ActivityKind::Process,
        OperationKind::Filesystem => ActivityKind::Filesystem,
    }
}

pub(crate) fn activity(record: ActivityRecord) -> Activity {
    Activity {
        gateway_id: record.gateway_id,
        operation_id: record.operation_id,
        kind: kind(record.kind),
        state: match record.state {
            controller::ActivityState::Dispatching => ActivityState::Dispatching,
            controller::ActivityState::Running => ActivityState::Running,
            controller::ActivityState::Terminal => ActivityState::Terminal,
            controller::ActivityState::Interrupted => ActivityState::Interrupted,
        },
        replay: record.replay,
        reconnect_required: record.reconnect_required,
        terminal_outcome: record.terminal_outcome,
        started_at: record.started_at,
        accepted_at: record.accepted_at,
        ended_at: record.ended_at,
        duration_ms: record.duration_ms,
    }
}
