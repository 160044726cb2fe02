//! The contract of [`Operations`].

use std::{future::Future, sync::Arc};

use tokio::task::JoinSet;

use crate::{
    Begin, NOTE_BYTES_MAX, OperationFilter, OperationKind, OperationRecord, OperationStart, OperationState, Operations,
    PortError, TERMINAL_RECORDS_MAX, TerminalReference,
};

const NOW: &str = "2026-12-01T00:00:00.000Z";
const LATER: &str = "2026-12-01T00:00:01.000Z";

/// Runs the whole suite.
pub async fn operations_suite<F>(make: impl Fn() -> F)
where
    F: Future<Output = Arc<dyn Operations>>,
{
    life_of_an_operation(make().await).await;
    repetition_and_conflict(make().await).await;
    concurrent_begins_have_one_winner(make().await).await;
    resolution(make().await).await;
    withdrawal(make().await).await;
    settled_records_are_bounded(make().await).await;
    order_and_filters(make().await).await;
    bounds_are_kept(make().await).await;
}

fn start(operation_id: &str) -> OperationStart {
    OperationStart {
        operation_id: operation_id.to_owned(),
        parent_run_id: Some("run".to_owned()),
        tool_call_id: None,
        gateway_id: "gateway".to_owned(),
        kind: OperationKind::Process,
        request_digest: "digest".to_owned(),
    }
}

fn reference(operation_id: &str, replay: bool) -> TerminalReference {
    TerminalReference {
        operation_id: operation_id.to_owned(),
        replay,
        outcome_digest: Some("outcome".to_owned()),
    }
}

async fn settle(operations: &Arc<dyn Operations>, operation_id: &str) -> OperationRecord {
    operations
        .terminal(operation_id, reference(operation_id, false), LATER)
        .await
        .expect("terminal")
}

fn ids(records: &[OperationRecord]) -> Vec<&str> {
    records.iter().map(|record| record.operation_id.as_str()).collect()
}

async fn life_of_an_operation(operations: Arc<dyn Operations>) {
    assert_eq!(operations.get("a").await, Ok(None));
    let mut expected = start("a").into_record(NOW);
    assert_eq!(
        operations.begin(start("a"), NOW).await,
        Ok(Begin::Begun(expected.clone()))
    );
    assert_eq!(operations.get("a").await, Ok(Some(expected.clone())));
    assert_eq!(expected.state, OperationState::Dispatching);

    expected.state = OperationState::Terminal;
    expected.terminal_reference = Some(reference("a", false));
    expected.updated_at = LATER.to_owned();
    assert_eq!(
        operations.terminal("a", reference("a", false), LATER).await,
        Ok(expected.clone())
    );
    assert_eq!(operations.get("a").await, Ok(Some(expected.clone())));

    let without_digest = TerminalReference {
        outcome_digest: None,
        ..reference("a", true)
    };
    expected.terminal_reference = Some(without_digest.clone());
    assert_eq!(
        operations.terminal("a", without_digest, LATER).await,
        Ok(expected),
        "a replay is recorded over it"
    );
    let unknown = operations.terminal("b", reference("b", false), NOW).await;
    assert_eq!(
        unknown,
        Err(PortError::OperationNotFound {
            operation_id: "b".to_owned()
        })
    );
}

async fn repetition_and_conflict(operations: Arc<dyn Operations>) {
    operations.begin(start("a"), NOW).await.expect("begin");
    for settled in [false, true] {
        if settled {
            settle(&operations, "a").await;
        }
        let before = operations.get("a").await.expect("get").expect("known");
        let again = OperationStart {
            parent_run_id: None,
            tool_call_id: Some("other".to_owned()),
            ..start("a")
        };
        assert_eq!(
            operations.begin(again, LATER).await,
            Ok(Begin::Existing(before.clone()))
        );
        let others = [
            (
                "request",
                OperationStart {
                    request_digest: "other".to_owned(),
                    ..start("a")
                },
            ),
            (
                "gateway",
                OperationStart {
                    gateway_id: "other".to_owned(),
                    ..start("a")
                },
            ),
            (
                "kind",
                OperationStart {
                    kind: OperationKind::Filesystem,
                    ..start("a")
                },
            ),
        ];
        for (differs, other) in others {
            let error = operations.begin(other, LATER).await.expect_err("conflict");
            assert_eq!(
                error,
                PortError::OperationConflict {
                    operation_id: "a".to_owned(),
                    differs
                }
            );
            assert_eq!(error.code(), "operation_correlation_conflict");
        }
        assert_eq!(
            operations.get("a").await,
            Ok(Some(before)),
            "neither repetition nor conflict changes the record"
        );
    }
    operations
        .begin(start("A"), NOW)
        .await
        .map(|begin| assert!(matches!(begin, Begin::Begun(_))))
        .expect("begin");
}

async fn concurrent_begins_have_one_winner(operations: Arc<dyn Operations>) {
    let mut tasks = JoinSet::new();
    for _ in 0..16 {
        let operations = operations.clone();
        tasks.spawn(async move { operations.begin(start("a"), NOW).await.expect("begin") });
    }
    let begun = tasks
        .join_all()
        .await
        .into_iter()
        .filter(|begin| matches!(begin, Begin::Begun(_)))
        .count();
    assert_eq!(begun, 1);
}

async fn resolution(operations: Arc<dyn Operations>) {
    let unknown = operations.resolve("a", "note", NOW).await;
    assert_eq!(
        unknown,
        Err(PortError::OperationNotFound {
            operation_id: "a".to_owned()
        })
    );
    operations.begin(start("a"), NOW).await.expect("begin");
    let mut expected = start("a").into_record(LATER);
    expected.state = OperationState::Resolved;
    expected.note = Some("looked: it ran".to_owned());
    assert_eq!(
        operations.resolve("a", "looked: it ran", LATER).await,
        Ok(expected.clone())
    );
    assert_eq!(operations.get("a").await, Ok(Some(expected.clone())));
    let replaced = operations.resolve("a", "it did not", LATER).await.expect("again");
    assert_eq!(replaced.note.as_deref(), Some("it did not"));

    let late = settle(&operations, "a").await;
    assert_eq!(late.state, OperationState::Terminal, "late evidence wins");
    assert_eq!(late.note.as_deref(), Some("it did not"), "the note stays beside it");
    let refused = operations.resolve("a", "note", NOW).await;
    assert_eq!(
        refused,
        Err(PortError::OperationAlreadyTerminal {
            operation_id: "a".to_owned()
        })
    );
    assert_eq!(operations.get("a").await, Ok(Some(late)));
}

async fn withdrawal(operations: Arc<dyn Operations>) {
    operations.withdraw("absent").await.expect("nothing to withdraw");
    for id in ["a", "b"] {
        operations.begin(start(id), NOW).await.expect("begin");
    }
    operations.withdraw("a").await.expect("withdraw");
    assert_eq!(operations.get("a").await, Ok(None));
    let settled = settle(&operations, "b").await;
    operations.withdraw("b").await.expect("withdraw");
    assert_eq!(
        operations.get("b").await,
        Ok(Some(settled)),
        "a settled record cannot be withdrawn"
    );
    let other = OperationStart {
        request_digest: "other".to_owned(),
        ..start("a")
    };
    assert!(
        matches!(operations.begin(other, NOW).await, Ok(Begin::Begun(_))),
        "a withdrawn id is free again"
    );
}

async fn settled_records_are_bounded(operations: Arc<dyn Operations>) {
    const OPEN: usize = 40;
    for index in 0..OPEN {
        operations
            .begin(start(&format!("open-{index}")), NOW)
            .await
            .expect("begin");
    }
    for index in 0..=TERMINAL_RECORDS_MAX {
        operations
            .begin(start(&format!("done-{index}")), NOW)
            .await
            .expect("begin");
    }
    // The first is resolved rather than terminal: both kinds count, and the oldest settlement goes first.
    operations.resolve("done-0", "note", LATER).await.expect("resolve");
    for index in 1..TERMINAL_RECORDS_MAX {
        settle(&operations, &format!("done-{index}")).await;
    }
    assert!(
        operations.get("done-0").await.expect("get").is_some(),
        "the bound itself is kept"
    );
    settle(&operations, &format!("done-{TERMINAL_RECORDS_MAX}")).await;
    assert_eq!(
        operations.get("done-0").await,
        Ok(None),
        "one beyond the bound: the oldest goes"
    );
    assert!(operations.get("done-1").await.expect("get").is_some());

    // Settling one again makes it the newest, so the next eviction takes its neighbour.
    settle(&operations, "done-1").await;
    settle(&operations, "open-0").await;
    assert!(operations.get("done-1").await.expect("get").is_some());
    assert_eq!(operations.get("done-2").await, Ok(None));

    let all = operations
        .list(OperationFilter::newest(usize::MAX))
        .await
        .expect("list");
    assert_eq!(all.len(), TERMINAL_RECORDS_MAX + OPEN - 1);
    let open = operations
        .list(OperationFilter::newest(usize::MAX).in_state(OperationState::Dispatching))
        .await;
    assert_eq!(open.expect("list").len(), OPEN - 1, "unresolved records never expire");
}

async fn order_and_filters(operations: Arc<dyn Operations>) {
    for (id, gateway_id) in [("a", "one"), ("b", "two"), ("c", "one"), ("d", "One")] {
        // The clock runs backwards here: the order of calls decides.
        let now = if id == "a" { LATER } else { NOW };
        operations
            .begin(
                OperationStart {
                    gateway_id: gateway_id.to_owned(),
                    ..start(id)
                },
                now,
            )
            .await
            .expect("begin");
    }
    let newest = |limit| OperationFilter::newest(limit);
    assert_eq!(
        ids(&operations.list(newest(10)).await.expect("list")),
        ["d", "c", "b", "a"]
    );
    settle(&operations, "b").await;
    assert_eq!(
        ids(&operations.list(newest(10)).await.expect("list")),
        ["b", "d", "c", "a"],
        "a change moves it up"
    );
    assert_eq!(ids(&operations.list(newest(2)).await.expect("list")), ["b", "d"]);
    assert_eq!(
        ids(&operations.list(newest(0)).await.expect("list")),
        Vec::<&str>::new()
    );
    assert_eq!(
        ids(&operations.list(newest(10).of_gateway("one")).await.expect("list")),
        ["c", "a"]
    );
    assert_eq!(
        ids(&operations.list(newest(1).of_gateway("one")).await.expect("list")),
        ["c"]
    );
    assert_eq!(
        ids(&operations
            .list(newest(9).in_state(OperationState::Terminal))
            .await
            .expect("list")),
        ["b"]
    );
    let both = newest(9).of_gateway("two").in_state(OperationState::Dispatching);
    assert_eq!(ids(&operations.list(both).await.expect("list")), Vec::<&str>::new());
}

async fn bounds_are_kept(operations: Arc<dyn Operations>) {
    for bad in [
        OperationStart {
            operation_id: String::new(),
            ..start("a")
        },
        start("nul\0"),
    ] {
        assert_eq!(operations.begin(bad, NOW).await, Err(PortError::NameInvalid));
    }
    let long = OperationStart {
        tool_call_id: Some("t".repeat(crate::NAME_BYTES_MAX + 1)),
        ..start("a")
    };
    assert_eq!(operations.begin(long, NOW).await, Err(PortError::NameInvalid));
    let odd = OperationStart {
        parent_run_id: Some(String::new()),
        tool_call_id: Some("'; DROP TABLE operations; -- 🦀".to_owned()),
        ..start("a'b%_")
    };
    let expected = odd.clone().into_record(NOW);
    operations.begin(odd, NOW).await.expect("begin");
    assert_eq!(operations.get("a'b%_").await, Ok(Some(expected.clone())));
    let refused = operations.resolve("a'b%_", &"n".repeat(NOTE_BYTES_MAX + 1), NOW).await;
    assert_eq!(refused.map_err(|error| error.code()), Err("record_value_invalid"));
    assert_eq!(operations.get("a'b%_").await, Ok(Some(expected)));
}
