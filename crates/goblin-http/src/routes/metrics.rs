//! Measurements as Prometheus text. Gauges are read when they are asked for.

use crate::answer::{Answer, Failure};
use crate::connections;
use crate::events::Hub;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use goblin_controller::Controller;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The media type of the text.
pub(super) const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Presence {
    state: &'static str,
}

pub(super) async fn show(State(controller): State<Controller>, State(hub): State<Hub>) -> Answer {
    let mut registry = Registry::with_prefix("node_goblin");
    controller.metrics().register(&mut registry);

    let gateways = Family::<Presence, Gauge>::default();
    let count = controller.connections();
    for (state, count) in [("connected", count.ready), ("pending", count.pending)] {
        gateways.get_or_create(&Presence { state }).set(whole(count));
    }
    registry.register(
        "gateways",
        "Gateways that are connected, or wait for approval",
        gateways,
    );
    gauge(
        &mut registry,
        "http_connections",
        "Open connections of API clients",
        connections::open(),
    );
    gauge(
        &mut registry,
        "event_streams",
        "Open streams of live changes",
        hub.streams(),
    );
    if let Some(bytes) = resident_bytes() {
        let memory = Gauge::<i64>::default();
        memory.set(whole(bytes));
        registry.register_with_unit("process_resident_memory", "Memory in use", Unit::Bytes, memory);
    }

    let mut text = String::new();
    encode(&mut text, &registry).map_err(|_| Failure::internal())?;
    Ok(([(header::CONTENT_TYPE, PROMETHEUS_TEXT)], text).into_response())
}

fn gauge(registry: &mut Registry, name: &str, help: &str, value: usize) {
    let gauge = Gauge::<i64>::default();
    gauge.set(whole(value));
    registry.register(name, help, gauge);
}

fn whole(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The resident set of this process; `None` where the system does not tell.
fn resident_bytes() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size())
}
