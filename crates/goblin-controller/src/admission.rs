//! What a gateway's claim is worth: the one place where trust is read and decided by.

use crate::error::ControllerError;
use crate::service::Shared;
use goblin_keys::compare;
use goblin_link::controller_auth::{Claim, Evidence, PairingClaim};
use goblin_ports::{TrustMethod, secret};
use goblin_protocol::Code;
use goblin_redact::Redactor;

/// What follows from a claim.
pub(crate) enum Admission {
    /// It is who it says, and trusted. The redactor masks its enrolment secret.
    Trusted(Redactor),
    /// It proved a key that nobody has approved.
    Stranger(PairingClaim),
    /// Refused.
    Refused(Code),
}

/// Decides about a claim by what is stored now. Callers hold the gateway's turn until they have acted on it, so that a
/// revocation cannot fall in between.
pub(crate) async fn judge(shared: &Shared, claim: &Claim) -> Result<Admission, ControllerError> {
    use Admission::{Refused, Stranger, Trusted};
    let records = shared.book.records(&*shared.settings).await?;
    let record = records.get(&claim.gateway_id).filter(|record| record.trusted());
    let Some(record) = record else {
        return Ok(match &claim.evidence {
            Evidence::Key(offer) if shared.rejected(&offer.public_key) => Refused(Code::PairingRejected),
            Evidence::Key(offer) => Stranger(offer.clone()),
            Evidence::Hmac(_) | Evidence::None => Refused(Code::UnknownNode),
        });
    };
    if record.controller_id != claim.controller_id {
        return Ok(Refused(Code::ControllerIdentityMismatch));
    }
    match record.method {
        Some(TrustMethod::Hmac) => {
            let stored = shared.secrets.get(&secret::gateway(&claim.gateway_id)).await?;
            Ok(match stored {
                Some(stored) if claim.proves(stored.expose()) => Trusted(Redactor::new(&[stored.expose()])),
                _ => Refused(Code::AuthFailed),
            })
        }
        Some(TrustMethod::Ed25519) => {
            let stored = shared
                .secrets
                .get(&secret::gateway_public_key(&claim.gateway_id))
                .await?;
            Ok(match (stored, &claim.evidence) {
                (Some(stored), Evidence::Key(offer)) if compare::text(stored.expose(), &offer.public_key) => {
                    Trusted(Redactor::new::<&str>(&[]))
                }
                _ => Refused(Code::IdentityMismatch),
            })
        }
        None => Ok(Refused(Code::IdentityMismatch)),
    }
}
