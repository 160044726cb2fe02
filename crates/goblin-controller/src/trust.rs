//! Enrolment by a shared secret, and revocation. A change takes effect at once: the live connection of the gateway ends.

use crate::error::ControllerError;
use crate::pairing::{remove_pending, replace_record};
use crate::pending::Verdict;
use crate::registry::Live;
use crate::service::Shared;
use goblin_ports::{GatewayRecord, Secret, TrustMethod, secret};
use tracing::{error, info};

/// Longest controller id, in characters.
const CONTROLLER_ID_MAX: usize = 255;

/// The trust records.
pub(crate) async fn list(shared: &Shared) -> Result<Vec<GatewayRecord>, ControllerError> {
    Ok(shared.book.records(&*shared.settings).await?.list().to_vec())
}

/// Trusts a gateway by a shared secret. The caller holds the gateway's turn.
pub(crate) async fn enrol(
    shared: &Shared,
    gateway_id: &str,
    controller_id: Option<&str>,
    enrolment: Secret,
) -> Result<GatewayRecord, ControllerError> {
    let controller_id = controller_id.unwrap_or(&shared.options.controller_id).trim();
    if controller_id.is_empty() || controller_id.chars().count() > CONTROLLER_ID_MAX {
        return Err(ControllerError::ControllerIdInvalid);
    }
    if enrolment.expose().trim().is_empty() {
        return Err(ControllerError::GatewaySecretRequired);
    }
    let name = secret::gateway(gateway_id);
    let known = shared.secrets.get(&name).await?;
    shared.secrets.set(&name, enrolment).await?;
    let record = GatewayRecord::approved(gateway_id, controller_id, TrustMethod::Hmac);
    if let Err(error) = replace_record(shared, gateway_id, Some(record.clone())).await {
        let undone = match known {
            Some(known) => shared.secrets.set(&name, known).await,
            None => shared.secrets.clear(&name).await,
        };
        if let Err(error) = undone {
            error!(
                gateway_id,
                code = error.code(),
                "an enrolment could not be taken back whole"
            );
        }
        return Err(error.into());
    }
    disconnect(shared, gateway_id);
    info!(gateway_id, "a gateway was enrolled");
    // What is left of another way of trust has no effect any more; a failure here may be repeated by the caller.
    shared.secrets.clear(&secret::gateway_public_key(gateway_id)).await?;
    remove_pending(shared, gateway_id).await?;
    Ok(record)
}

/// Shuts a gateway out. The caller holds the gateway's turn.
pub(crate) async fn revoke(shared: &Shared, gateway_id: &str) -> Result<GatewayRecord, ControllerError> {
    let live = shared.registry.live(gateway_id);
    let pending = remove_pending(shared, gateway_id).await?;
    let known = shared.book.records(&*shared.settings).await?.get(gateway_id).cloned();
    let mut record = match (known, pending, live) {
        (Some(record), _, _) => record,
        (None, Some(pending), _) => GatewayRecord::approved(gateway_id, &pending.controller_id, TrustMethod::Ed25519),
        (None, None, Some(_)) => {
            GatewayRecord::approved(gateway_id, &shared.options.controller_id, TrustMethod::Ed25519)
        }
        (None, None, None) => return Err(ControllerError::NotFound),
    };
    record.revoke();
    // The record alone decides; from here on nobody gets in.
    replace_record(shared, gateway_id, Some(record.clone())).await?;
    disconnect(shared, gateway_id);
    shared.recovery.forget_gateway(gateway_id);
    info!(gateway_id, "a gateway was revoked");
    shared.secrets.clear(&secret::gateway(gateway_id)).await?;
    shared.secrets.clear(&secret::gateway_public_key(gateway_id)).await?;
    Ok(record)
}

/// Ends whatever connection the gateway has.
fn disconnect(shared: &Shared, gateway_id: &str) {
    match shared.registry.remove(gateway_id) {
        Some(Live::Ready(ready)) => shared.lost(&ready),
        Some(Live::Pending(pending)) => {
            pending.decide(Verdict::Dismissed);
        }
        None => {}
    }
}
