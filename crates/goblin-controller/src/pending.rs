//! A live connection that waits for an operator, and how a decision reaches it. It must never know a store.

use goblin_link::gateway_auth::PairingCode;
use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;

/// What the operator decided.
pub(crate) enum Verdict {
    /// Become ready now. The sender tells whether it did: when it is dropped, the connection was lost.
    Approved(oneshot::Sender<()>),
    /// Say so, and close.
    Rejected,
    /// Close: the gateway's trust was changed otherwise.
    Dismissed,
}

/// One connection that waits. Nonce and generation bind a decision to it.
pub(crate) struct Pending {
    pub(crate) generation: u64,
    pub(crate) gateway_id: String,
    pub(crate) controller_id: String,
    pub(crate) nonce: String,
    pub(crate) public_key: String,
    pub(crate) code: PairingCode,
    verdict: Mutex<Option<oneshot::Sender<Verdict>>>,
}

impl Pending {
    /// A connection that begins to wait, and where its verdict arrives.
    pub(crate) fn new(
        generation: u64,
        claim: &goblin_link::controller_auth::Claim,
        offer: &goblin_link::controller_auth::PairingClaim,
    ) -> (Self, oneshot::Receiver<Verdict>) {
        let (sender, receiver) = oneshot::channel();
        let pending = Self {
            generation,
            gateway_id: claim.gateway_id.clone(),
            controller_id: claim.controller_id.clone(),
            nonce: claim.nonce().to_owned(),
            public_key: offer.public_key.clone(),
            code: offer.code.clone(),
            verdict: Mutex::new(Some(sender)),
        };
        (pending, receiver)
    }

    /// Delivers the verdict. False when the connection no longer waits; there is only one verdict.
    pub(crate) fn decide(&self, verdict: Verdict) -> bool {
        let sender = self.verdict.lock().unwrap_or_else(PoisonError::into_inner).take();
        sender.is_some_and(|sender| sender.send(verdict).is_ok())
    }
}
