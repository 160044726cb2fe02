//! Measurements.

use super::{Fixture, exec};
use goblin_api::routes::METRICS;
use http_body_util::BodyExt;
use hyper::Method;

async fn scrape(client: &mut super::client::Client) -> String {
    let response = client.send_at(Method::GET, METRICS, &[], "").await;
    assert_eq!(
        response.headers()["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn what_happens_is_counted_without_names() {
    let fixture = Fixture::new().await;
    let mut client = fixture.client().await;
    let mut gateway = fixture.ready("worker").await;
    let mut stranger = super::Gateway::dial(&fixture.controller).await;
    assert_eq!(stranger.stranger("newcomer").await["type"], "pairing.pending");
    let mut liar = super::Gateway::dial(&fixture.controller).await;
    assert_eq!(liar.enrolled("worker", "a guess").await["type"], "transport.error");

    for operation_id in ["op-1", "op-2"] {
        tokio::join!(client.post("/gateways/worker/processes", exec(operation_id)), async {
            let request = gateway.request("process.exec").await;
            gateway.end(&request).await;
        });
    }
    client.post("/gateways/nobody/processes", exec("op-3")).await;
    fixture.store.fail_write_after(0);
    client.post("/gateways/worker/processes", exec("op-4")).await;

    let text = scrape(&mut client).await;
    for line in [
        r#"node_goblin_gateways{state="connected"} 1"#,
        r#"node_goblin_gateways{state="pending"} 1"#,
        r#"node_goblin_dispatches_total{kind="process",outcome="completed"} 2"#,
        r#"node_goblin_dispatches_total{kind="process",outcome="not_sent"} 2"#,
        r#"node_goblin_dispatch_duration_seconds_count{kind="process"} 2"#,
        r#"node_goblin_authentication_failures_total{code="auth_failed"} 1"#,
        r#"node_goblin_handshakes_total{result="completed"} 3"#,
        r#"node_goblin_store_errors_total{code="store_unavailable"} 1"#,
        "node_goblin_event_streams 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in\n{text}"))
            .parse()
            .unwrap()
    };
    assert!(value("node_goblin_http_connections") >= 1.0);
    assert!(value("node_goblin_process_resident_memory_bytes") > 1e6);
    for name in ["worker", "newcomer", "nobody", "op-"] {
        assert!(!text.contains(name), "{name} is in\n{text}");
    }
}
