//! Gateways that fall silent.

use super::Fixture;
use super::gateway::Host;
use crate::Presence;
use serde_json::json;
use std::time::Duration;

async fn probing(within: Duration) -> Fixture {
    Fixture::with(|timing| {
        timing.probe_after = Duration::from_millis(40);
        timing.probe = within;
    })
    .await
}

#[tokio::test]
async fn a_gateway_that_misses_two_probes_is_disconnected() {
    let fixture = probing(Duration::from_millis(40)).await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    let running = fixture.dispatch(&host, "op-1").await;
    gateway.receive().await.unwrap();
    let mut probes = 0;
    while let Some(frame) = gateway.receive().await {
        assert_eq!(frame["method"], "health");
        probes += 1;
    }
    assert_eq!(probes, 2);
    assert_eq!(running.collect().await.unwrap_err().code(), "gateway_disconnected");
    let snapshot = fixture.controller.gateways().await.unwrap().remove(0);
    assert_eq!(snapshot.presence, Presence::Disconnected);
}

#[tokio::test]
async fn a_gateway_that_answers_or_speaks_stays() {
    let fixture = probing(Duration::from_millis(400)).await;
    let host = Host::new("worker");
    let mut gateway = fixture.ready(&host).await;
    for round in 0..6 {
        let probe = gateway.receive().await.unwrap();
        assert_eq!(probe["method"], "health");
        // An answer, an error, and for a missed probe anything else that shows life.
        match round % 3 {
            0 => gateway.answer(&probe, json!({"status": "ok"})).await,
            1 => gateway.refuse(&probe, "internal_error").await,
            _ => gateway.output("nobody's", 1, "alive").await,
        }
    }
    assert_eq!(
        fixture.controller.gateways().await.unwrap()[0].presence,
        Presence::Ready
    );
    assert_eq!(fixture.controller.activity(None, 256), []);
}
