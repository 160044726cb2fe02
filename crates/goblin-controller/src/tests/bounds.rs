//! Every bound, exceeded by one.

use super::gateway::Host;
use super::{Fixture, eventually};
use crate::activity::{ActivityLog, RECORDS_MAX};
use crate::options::{PENDING_LIVE_MAX, PENDING_STORED_MAX, REJECTED_MAX};
use goblin_ports::{OperationKind, PendingPairing, SettingsExt, setting};

#[tokio::test]
async fn so_many_wait_for_approval_and_no_more() {
    let fixture = Fixture::new().await;
    let mut waiting = Vec::new();
    for index in 0..PENDING_LIVE_MAX {
        waiting.push(fixture.pending(&Host::new(&format!("w-{index}"))).await);
    }
    assert_eq!(fixture.refusal(&Host::new("one-more")).await, "too_many_pending");
    assert_eq!(fixture.controller.pairings().await.unwrap().len(), PENDING_LIVE_MAX);
    // A place that becomes free can be taken.
    drop(waiting.pop());
    eventually("there is room", async || {
        fixture.controller.gateways().await.unwrap().len() < PENDING_LIVE_MAX
    })
    .await;
    let _late = fixture.pending(&Host::new("one-more")).await;
}

#[tokio::test]
async fn stored_requests_are_bounded_and_live_ones_stay() {
    let fixture = Fixture::new().await;
    let live = Host::new("live");
    let _live = fixture.pending(&live).await;
    let template = fixture.stored_pairings().await.remove(0);
    fixture
        .store
        .update_list(setting::PENDING_PAIRINGS, |list: &mut Vec<PendingPairing>| {
            list.extend((1..PENDING_STORED_MAX).map(|index| PendingPairing {
                gateway_id: format!("old-{index}"),
                nonce: format!("nonce-{index}"),
                ..template.clone()
            }));
            Ok::<_, goblin_ports::PortError>(())
        })
        .await
        .unwrap();
    let _another = fixture.pending(&Host::new("another")).await;
    let stored: Vec<_> = fixture
        .stored_pairings()
        .await
        .into_iter()
        .map(|record| record.gateway_id)
        .collect();
    assert_eq!(stored.len(), PENDING_STORED_MAX);
    assert_eq!((stored[0].as_str(), stored[1].as_str()), ("live", "old-2"));
    assert_eq!(stored.last().map(String::as_str), Some("another"));
}

#[tokio::test]
async fn rejected_keys_are_bounded() {
    let fixture = Fixture::new().await;
    let shared = fixture.controller.shared();
    for index in 0..=REJECTED_MAX {
        shared.reject_key(format!("key-{index}"));
    }
    assert!(!shared.rejected("key-0"));
    assert!(shared.rejected("key-1") && shared.rejected(&format!("key-{REJECTED_MAX}")));
}

#[test]
fn activity_keeps_the_newest_and_lists_them_last() {
    let log = ActivityLog::default();
    for index in 0..=RECORDS_MAX {
        let gateway = if index % 2 == 0 { "even" } else { "odd" };
        log.begin(gateway, &format!("op-{index}"), OperationKind::Process);
    }
    let all = log.list(None, usize::MAX);
    assert_eq!(all.len(), RECORDS_MAX);
    assert_eq!(
        (all[0].operation_id.as_str(), all[RECORDS_MAX - 1].operation_id.as_str()),
        ("op-1", "op-256")
    );
    let odd = log.list(Some("odd"), 2);
    let ids: Vec<_> = odd.iter().map(|record| record.operation_id.as_str()).collect();
    assert_eq!(ids, ["op-253", "op-255"]);
    // The same operation has one record, and a repetition after its end makes it the newest.
    log.begin("odd", "op-1", OperationKind::Process);
    assert_eq!(log.list(None, usize::MAX)[0].operation_id, "op-1");
    log.ended("odd", "op-1", "completed", false);
    log.begin("odd", "op-1", OperationKind::Process);
    assert_eq!(log.list(None, 1)[0].operation_id, "op-1");
    assert_eq!(log.list(None, usize::MAX).len(), RECORDS_MAX);
    log.withdraw("odd", "op-1");
    assert_eq!(log.list(None, usize::MAX).len(), RECORDS_MAX - 1);
}
