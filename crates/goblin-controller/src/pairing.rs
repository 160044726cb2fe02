//! Approval and rejection by an operator. An approval binds the live connection: its nonce and its generation.
//!
//! Approval stores the key, then the gateway's record, then removes the pending one, then lets the connection in. When a
//! step fails, those before it are taken back in reverse.

use crate::clock;
use crate::error::ControllerError;
use crate::options::PENDING_STORED_MAX;
use crate::pending::{Pending, Verdict};
use crate::registry::Live;
use crate::service::Shared;
use goblin_keys::compare;
use goblin_link::controller_auth::{Claim, PairingClaim};
use goblin_ports::{GatewayRecord, PendingPairing, PortError, Secret, SettingsExt, TrustMethod, secret, setting};
use goblin_protocol::auth::GatewayMetadata;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use tracing::{error, info};

/// One pairing request as it is listed.
#[derive(Clone, Debug, PartialEq)]
pub struct PairingRequest {
    /// What is stored of it.
    pub record: PendingPairing,
    /// The longer code of a live one; `None` for one that cannot be approved, since its connection is gone.
    pub live_code: Option<String>,
}

impl PairingRequest {
    /// What the gateway says of itself.
    pub fn metadata(&self) -> GatewayMetadata {
        let text = |name: &str| self.record.metadata.get(name)?.as_str().map(str::to_owned);
        GatewayMetadata {
            name: text("name"),
            version: text("version"),
            protocol_version: text("protocolVersion"),
        }
    }
}

/// What an operator decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The gateway.
    pub gateway_id: String,
    /// The controller that it means.
    pub controller_id: String,
    /// The code of the request.
    pub pairing_code: String,
    /// True after an approval, false after a rejection.
    pub approved: bool,
}

/// Stores the request of a connection that begins to wait. Of too many, the oldest that is not live goes first.
pub(crate) async fn remember(shared: &Shared, claim: &Claim, offer: &PairingClaim) -> Result<(), ControllerError> {
    let metadata = match serde_json::to_value(&claim.metadata) {
        Ok(serde_json::Value::Object(members)) => members,
        _ => serde_json::Map::new(),
    };
    let record = PendingPairing {
        gateway_id: claim.gateway_id.clone(),
        controller_id: claim.controller_id.clone(),
        public_key: offer.public_key.clone(),
        metadata,
        nonce: claim.nonce().to_owned(),
        pairing_code: offer.code.short.clone(),
        status: "pending".to_owned(),
        requested_at: clock::now_iso(),
        other: serde_json::Map::new(),
    };
    let live = live_by_nonce(shared);
    let mut gone = Vec::new();
    shared
        .settings
        .update_list(setting::PENDING_PAIRINGS, |list: &mut Vec<PendingPairing>| {
            list.retain(|known| known.gateway_id != record.gateway_id);
            let mut excess = (list.len() + 1).saturating_sub(PENDING_STORED_MAX);
            list.retain(|known| {
                let goes = excess > 0 && !live.contains_key(&known.nonce);
                excess -= usize::from(goes);
                if goes {
                    gone.push(known.gateway_id.clone());
                }
                !goes
            });
            list.push(record);
            Ok::<_, ControllerError>(())
        })
        .await?;
    // The one that came is told of when its connection is listed.
    gone.iter().for_each(|gateway_id| shared.changes.pairing(gateway_id));
    Ok(())
}

fn live_by_nonce(shared: &Shared) -> HashMap<String, Arc<Pending>> {
    let all = shared.registry.all_pending().into_iter();
    all.map(|pending| (pending.nonce.clone(), pending)).collect()
}

/// The requests, oldest first.
pub(crate) async fn list(shared: &Shared) -> Result<Vec<PairingRequest>, ControllerError> {
    let records: Vec<PendingPairing> = shared
        .settings
        .get_as(setting::PENDING_PAIRINGS)
        .await?
        .unwrap_or_default();
    let live = live_by_nonce(shared);
    let request = |record: PendingPairing| PairingRequest {
        live_code: live.get(&record.nonce).map(|pending| pending.code.long.clone()),
        record,
    };
    Ok(records.into_iter().map(request).collect())
}

/// Approves the live request of a gateway, if `code` (short or long) is its code. The caller holds the gateway's turn.
pub(crate) async fn approve(
    shared: &Shared,
    gateway_id: &str,
    code: Option<&str>,
) -> Result<Decision, ControllerError> {
    let Some(Live::Pending(pending)) = shared.registry.live(gateway_id) else {
        return Err(match stored(shared, gateway_id).await? {
            Some(_) => ControllerError::PairingNotLive,
            None => ControllerError::PairingNotFound,
        });
    };
    if let Some(code) = code {
        let code = code.trim().to_ascii_uppercase();
        if !compare::text(&code, &pending.code.short) && !compare::text(&code, &pending.code.long) {
            return Err(ControllerError::PairingCodeMismatch);
        }
    }
    let mut steps = Steps {
        shared,
        gateway_id,
        taken: Vec::new(),
    };
    if let Err(error) = steps.approve(&pending).await {
        steps.take_back().await;
        return Err(error);
    }
    info!(gateway_id, "a gateway was approved");
    Ok(Decision {
        gateway_id: gateway_id.to_owned(),
        controller_id: pending.controller_id.clone(),
        pairing_code: pending.code.short.clone(),
        approved: true,
    })
}

/// A step that was taken, with what it takes to undo it.
enum Step {
    /// The key was stored in place of this one.
    Key(Option<Secret>),
    /// The gateway's record was stored in place of this one.
    Record(Option<GatewayRecord>),
    /// This pending record was removed.
    Pending(Option<PendingPairing>),
}

struct Steps<'s> {
    shared: &'s Shared,
    gateway_id: &'s str,
    taken: Vec<Step>,
}

impl Steps<'_> {
    async fn approve(&mut self, pending: &Pending) -> Result<(), ControllerError> {
        let name = secret::gateway_public_key(self.gateway_id);
        let known = self.shared.secrets.get(&name).await?;
        let key = Secret::new(pending.public_key.clone());
        self.shared.secrets.set(&name, key).await?;
        self.taken.push(Step::Key(known));

        let record = GatewayRecord::approved(self.gateway_id, &pending.controller_id, TrustMethod::Ed25519);
        let known = replace_record(self.shared, self.gateway_id, Some(record)).await?;
        self.taken.push(Step::Record(known));

        let removed = remove_pending(self.shared, self.gateway_id).await?;
        self.taken.push(Step::Pending(removed));

        let (ready, is_ready) = oneshot::channel();
        if pending.decide(Verdict::Approved(ready)) && is_ready.await.is_ok() {
            Ok(())
        } else {
            Err(ControllerError::PairingNotLive)
        }
    }

    async fn take_back(&mut self) {
        while let Some(step) = self.taken.pop() {
            let undone = match step {
                Step::Key(known) => {
                    let name = secret::gateway_public_key(self.gateway_id);
                    match known {
                        Some(known) => self.shared.secrets.set(&name, known).await,
                        None => self.shared.secrets.clear(&name).await,
                    }
                }
                Step::Record(known) => replace_record(self.shared, self.gateway_id, known).await.map(|_| ()),
                Step::Pending(None) => Ok(()),
                Step::Pending(Some(record)) => restore_pending(self.shared, record).await,
            };
            if let Err(error) = undone {
                error!(
                    gateway_id = self.gateway_id,
                    code = error.code(),
                    "an approval could not be taken back whole"
                );
            }
        }
    }
}

/// Rejects a gateway's request. A live one is told and closed, and its key refused for a while.
pub(crate) async fn reject(shared: &Shared, gateway_id: &str) -> Result<Decision, ControllerError> {
    let live = match shared.registry.live(gateway_id) {
        Some(Live::Pending(pending)) => Some(pending),
        _ => None,
    };
    let removed = remove_pending(shared, gateway_id).await?;
    let (controller_id, pairing_code, key) = match (&live, removed) {
        (Some(pending), _) => (
            pending.controller_id.clone(),
            pending.code.short.clone(),
            pending.public_key.clone(),
        ),
        (None, Some(record)) => (record.controller_id, record.pairing_code, record.public_key),
        (None, None) => return Err(ControllerError::PairingNotFound),
    };
    shared.reject_key(key);
    if let Some(pending) = live {
        pending.decide(Verdict::Rejected);
    }
    info!(gateway_id, "a gateway was rejected");
    Ok(Decision {
        gateway_id: gateway_id.to_owned(),
        controller_id,
        pairing_code,
        approved: false,
    })
}

async fn stored(shared: &Shared, gateway_id: &str) -> Result<Option<PendingPairing>, PortError> {
    let records: Option<Vec<PendingPairing>> = shared.settings.get_as(setting::PENDING_PAIRINGS).await?;
    Ok(records
        .unwrap_or_default()
        .into_iter()
        .find(|record| record.gateway_id == gateway_id))
}

/// Removes the stored request of a gateway; gives what was removed.
pub(crate) async fn remove_pending(shared: &Shared, gateway_id: &str) -> Result<Option<PendingPairing>, PortError> {
    shared
        .settings
        .update_list(setting::PENDING_PAIRINGS, |list: &mut Vec<PendingPairing>| {
            let place = list.iter().position(|record| record.gateway_id == gateway_id);
            Ok(place.map(|place| list.remove(place)))
        })
        .await
        .inspect(|_| shared.changes.pairing(gateway_id))
}

async fn restore_pending(shared: &Shared, record: PendingPairing) -> Result<(), PortError> {
    let gateway_id = record.gateway_id.clone();
    shared
        .settings
        .update_list(setting::PENDING_PAIRINGS, |list: &mut Vec<PendingPairing>| {
            list.retain(|known| known.gateway_id != record.gateway_id);
            list.push(record);
            Ok(())
        })
        .await
        .inspect(|()| shared.changes.pairing(&gateway_id))
}

/// Stores a gateway's record in place of the known one, or removes it; gives the known one.
pub(crate) async fn replace_record(
    shared: &Shared,
    gateway_id: &str,
    record: Option<GatewayRecord>,
) -> Result<Option<GatewayRecord>, PortError> {
    shared
        .book
        .change(&*shared.settings, |list| {
            let place = list.iter().position(|known| known.gateway_id == gateway_id);
            match (place, record) {
                (Some(place), Some(record)) => Some(std::mem::replace(&mut list[place], record)),
                (Some(place), None) => Some(list.remove(place)),
                (None, Some(record)) => {
                    list.push(record);
                    None
                }
                (None, None) => None,
            }
        })
        .await
        .inspect(|_| shared.changes.gateway(gateway_id))
}
