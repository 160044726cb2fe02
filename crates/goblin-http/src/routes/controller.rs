//! The listener and its certificate, and that the server lives.

use crate::answer::{Answer, Failure, success};
use crate::body;
use axum::extract::{Request, State};
use goblin_api::{ControllerAnswer, ControllerChange, ControllerState, HealthAnswer, Success, TlsAnswer, TlsState};
use goblin_controller::{Controller, ListenerState, TlsMaterial};
use serde_json::Value;

pub(super) async fn show(State(controller): State<Controller>) -> Answer {
    success(ControllerAnswer {
        ok: Success,
        controller: shown(controller.listener().await?),
    })
}

pub(super) async fn change(State(controller): State<Controller>, request: Request) -> Answer {
    let body = body::object(request).await?;
    let Some(Value::Bool(enabled)) = body.get("enabled") else {
        return Err(Failure::invalid("invalid_request"));
    };
    let Some(Value::String(host)) = body.get("host") else {
        return Err(Failure::invalid("controller_host_invalid"));
    };
    let port = body
        .get("port")
        .and_then(Value::as_u64)
        .and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or_else(|| Failure::invalid("controller_port_invalid"))?;
    success(ControllerChange {
        ok: Success,
        controller: shown(controller.set_listener(*enabled, host, port).await?),
        restart_required: false,
    })
}

pub(super) async fn supply_tls(State(controller): State<Controller>, request: Request) -> Answer {
    let mut body = body::object(request).await?;
    let mut text = |name: &str| match body.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let (Some(key), Some(cert)) = (text("key"), text("cert")) else {
        return Err(Failure::invalid("controller_tls_credentials_required"));
    };
    let ca = text("ca").filter(|ca| !ca.trim().is_empty());
    let key = key.into();
    controller.set_tls(TlsMaterial { cert, key, ca }).await?;
    tls_changed()
}

pub(super) async fn forget_tls(State(controller): State<Controller>) -> Answer {
    controller.clear_tls().await?;
    tls_changed()
}

fn tls_changed() -> Answer {
    success(TlsAnswer {
        ok: Success,
        restart_required: false,
    })
}

fn shown(state: ListenerState) -> ControllerState {
    let (tls, about) = (state.tls.clone(), state.tls.metadata);
    let about = about.as_ref();
    ControllerState {
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
    }
}

pub(super) async fn health() -> Answer {
    success(HealthAnswer { ok: Success })
}
