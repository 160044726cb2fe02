//! Activity.

use crate::answer::{Answer, success};
use crate::query::Parameters;
use axum::extract::State;
use goblin_api::{
    Activity, ActivityKind, ActivityState, OPERATIONS_LIMIT_DEFAULT, OPERATIONS_LIMIT_MAX, OperationsAnswer, Success,
};
use goblin_controller::{self as controller, ActivityRecord, Controller};
use goblin_ports::OperationKind;

pub(super) async fn list(State(controller): State<Controller>, parameters: Parameters) -> Answer {
    let limit = parameters.limit(OPERATIONS_LIMIT_DEFAULT, OPERATIONS_LIMIT_MAX);
    let records = controller.activity(parameters.get("gatewayId"), limit as usize);
    success(OperationsAnswer {
        ok: Success,
        operations: records.into_iter().map(activity).collect(),
        limit,
    })
}

fn activity(record: ActivityRecord) -> Activity {
    Activity {
        gateway_id: record.gateway_id,
        operation_id: record.operation_id,
        kind: match record.kind {
            OperationKind::Process => ActivityKind::Process,
            OperationKind::Filesystem => ActivityKind::Filesystem,
        },
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
