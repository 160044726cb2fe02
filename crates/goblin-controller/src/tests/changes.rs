//! What watchers are told.

use super::gateway::Host;
use super::{Fixture, PATIENCE};
use crate::changes::Changes;
use crate::{Change, ChangeBatch, ChangeFeed};
use tokio::time::timeout;

fn gateway(id: &str) -> Change {
    Change::Gateway(id.into())
}

#[tokio::test]
async fn a_batch_tells_each_thing_once_in_order() {
    let changes = Changes::default();
    changes.gateway("before");
    let mut feed = changes.watch();
    for id in ["b", "a", "b", "a"] {
        changes.gateway(id);
        changes.pairing("a");
    }
    changes.operation("a", "op");
    let expected = vec![
        gateway("b"),
        Change::Pairing("a".into()),
        gateway("a"),
        Change::Operation {
            gateway_id: "a".into(),
            operation_id: "op".into(),
        },
    ];
    let batch = feed.next().await.unwrap();
    assert_eq!(
        batch,
        ChangeBatch {
            changes: expected,
            missed: false
        }
    );
    drop(changes);
    assert_eq!(feed.next().await, None);
}

#[tokio::test]
async fn a_watcher_that_is_far_behind_is_told_so_and_goes_on() {
    let changes = Changes::default();
    let mut feed = changes.watch();
    for index in 0..10_000 {
        changes.gateway(&index.to_string());
    }
    let mut missed = false;
    let mut last = None;
    while last != Some(gateway("9999")) {
        let batch = feed.next().await.unwrap();
        missed |= batch.missed;
        last = batch.changes.last().cloned().or(last);
    }
    assert!(missed);
    changes.gateway("next");
    let batch = feed.next().await.unwrap();
    assert_eq!((batch.changes, batch.missed), (vec![gateway("next")], false));
}

async fn until(feed: &mut ChangeFeed, change: Change) {
    let waiting = async { while !feed.next().await.unwrap().changes.contains(&change) {} };
    timeout(PATIENCE, waiting).await.unwrap();
}

#[tokio::test]
async fn connections_trust_and_operations_are_told() {
    let fixture = Fixture::new().await;
    let mut feed = fixture.controller.changes();
    let host = Host::new("worker");
    let mut dialled = fixture.pending(&host).await;
    until(&mut feed, Change::Pairing("worker".into())).await;
    assert_eq!(fixture.controller.connections().pending, 1);
    fixture.controller.approve("worker", None).await.unwrap();
    until(&mut feed, gateway("worker")).await;
    assert_eq!(dialled.receive().await.unwrap()["type"], "auth.ok");
    assert_eq!(fixture.controller.connections().ready, 1);
    let operation = Change::Operation {
        gateway_id: "worker".into(),
        operation_id: "op".into(),
    };
    let _live = fixture.dispatch(&host, "op").await;
    until(&mut feed, operation.clone()).await;
    drop(dialled);
    until(&mut feed, operation).await;
    let record = fixture.controller.activity_on("worker", "op").unwrap();
    assert_eq!(record.state, crate::ActivityState::Interrupted);
    fixture.controller.revoke("worker").await.unwrap();
    until(&mut feed, gateway("worker")).await;
    assert_eq!(fixture.controller.gateway("worker").await.unwrap(), None);
}
