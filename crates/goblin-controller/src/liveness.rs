//! Whether a gateway is still there: it is asked when nothing came from it for a while. A probe is no operation.

use crate::options::Timing;
use crate::registry::Ready;
use goblin_client::ClientError;
use goblin_protocol::request::Method;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Probes that may be missed in a row; the last of them closes the connection.
const MISSED_MAX: u32 = 2;

/// Resolves when the gateway has missed its probes, or the connection is lost.
pub(crate) async fn lapse(ready: &Ready, timing: &Timing) {
    let mut missed = 0;
    loop {
        let silence = ready.heard.silence();
        if silence < timing.probe_after {
            missed = 0;
            sleep(timing.probe_after - silence).await;
            continue;
        }
        match probe(ready, timing.probe).await {
            Probe::Answered => missed = 0,
            Probe::Missed => missed += 1,
            Probe::Lost => return,
        }
        if missed == MISSED_MAX && ready.heard.silence() >= timing.probe_after {
            return;
        }
    }
}

/// True when the gateway answers at once.
pub(crate) async fn answers(ready: &Ready, within: Duration) -> bool {
    matches!(probe(ready, within).await, Probe::Answered)
}

enum Probe {
    Answered,
    Missed,
    Lost,
}

async fn probe(ready: &Ready, within: Duration) -> Probe {
    match timeout(within, ready.client.request(Method::Health, &serde_json::Map::new())).await {
        Ok(Ok(_)) => Probe::Answered,
        Ok(Err(ClientError::Disconnected)) => Probe::Lost,
        // What cannot be read is an answer all the same.
        Ok(Err(_)) => Probe::Answered,
        Err(_) => Probe::Missed,
    }
}
