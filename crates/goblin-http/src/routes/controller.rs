//! State of the listener, and that the server lives.

use crate::answer::{Answer, success};
use axum::extract::State;
use goblin_api::{ControllerAnswer, ControllerState, HealthAnswer, Success, TlsState};
use goblin_controller::Controller;

pub(super) async fn show(State(controller): State<Controller>) -> Answer {
    let state = controller.listener().await?;
    let (tls, about) = (state.tls.clone(), state.tls.metadata);
    let about = about.as_ref();
    success(ControllerAnswer {
        ok: Success,
        controller: ControllerState {
            enabled: state.enabled,
            host: state.host,
            port: state.port,
            running: state.running,
            error: state.error,
            tls: TlsState {
                configured: tls.key && tls.cert,
                ready: state.running,
                key_configured: tls.key,
                cert_configured: tls.cert,
                ca_configured: tls.ca,
                source: about.map(|it| it.source.clone()),
                created_at: about.and_then(|it| it.created_at.clone()),
                expires_at: about.and_then(|it| it.expires_at.clone()),
                rotate_after: about.and_then(|it| it.rotate_after.clone()),
                host: about.and_then(|it| it.host.clone()),
                fingerprint_sha256: about.and_then(|it| it.fingerprint_sha256.clone()),
            },
        },
    })
}

pub(super) async fn health() -> Answer {
    success(HealthAnswer { ok: Success })
}
