//! Authentication as the gateway sees it. Pure: frames in, verdicts out; no socket, no file, no clock.

use goblin_keys::compare;
use goblin_keys::fingerprint::Fingerprint;
use goblin_keys::pair::{KeyPair, PublicKey};
use goblin_keys::tls::{Leaf, Standing};
use goblin_keys::{proof, signature};
use goblin_protocol::Code;
use goblin_protocol::auth::{self, AuthResponse, Challenge, GatewayMetadata};
use goblin_protocol::json;
use goblin_protocol::limits::NONCE_MIN;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use zeroize::Zeroizing;

/// How the gateway proves who it is.
#[derive(Clone)]
pub enum Credential {
    /// Its key pair, approved once by an operator.
    Pairing(Arc<KeyPair>),
    /// A secret shared with the controller.
    Hmac(Arc<Zeroizing<String>>),
}

/// What the gateway knows and asks for before a connection.
#[derive(Clone)]
pub struct Expectations {
    /// Its own id.
    pub gateway_id: String,
    /// The controller it means.
    pub controller_id: String,
    /// How it proves who it is.
    pub credential: Credential,
    /// What it says of itself.
    pub metadata: GatewayMetadata,
    /// The controller's pairing key (PEM) as pinned at the first approval.
    pub pinned_key: Option<String>,
    /// A certificate that the operator vouched for.
    pub expected_leaf: Option<Fingerprint>,
    /// The operator accepts a controller that cannot prove that its key and its certificate belong together.
    pub allow_unproven: bool,
}

/// The code that an operator compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairingCode {
    /// `XXXX-XXXX-XXXX`
    pub short: String,
    /// 32 digits in groups of four.
    pub long: String,
}

/// What the gateway learnt of the controller and shall pin before the connection counts as ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pins {
    /// The controller's pairing key, PEM.
    pub controller_key: String,
    /// Its certificate.
    pub leaf: Fingerprint,
    /// True when another certificate had been pinned: to be logged.
    pub renewed: bool,
}

/// What a frame brought about.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// The challenge was acceptable: send this.
    Answer(Vec<u8>),
    /// An operator has to compare and approve this code.
    Pending(PairingCode),
    /// Authenticated.
    Ready {
        /// The controller's name for the connection; protected values are bound to it.
        connection_id: String,
        /// What to pin, after pairing and after a renewed certificate.
        pins: Option<Pins>,
    },
}

/// Why authentication failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The controller broke a rule; tell it, and close.
    #[error("{}: {}", .0, hint(*.0))]
    Refused(Code),
    /// The controller refused us and closes.
    #[error("the controller answered {0}")]
    Told(String),
}

/// What an operator can do about a refusal.
fn hint(code: Code) -> &'static str {
    match code {
        Code::ControllerProofInvalid => {
            "the controller did not prove that its key belongs to its certificate; someone may be in between. Give its certificate authority \
             (BURROW_GATEWAY_CA_FILE), its certificate's fingerprint (--controller-fingerprint), or accept it unproven (--allow-unproven-controller)"
        }
        Code::ControllerTlsIdentityMismatch => {
            "the controller's certificate is not the pinned one; unpair if it was replaced on purpose"
        }
        Code::ControllerIdentityMismatch => {
            "the controller's pairing key is not the pinned one; unpair if it was replaced on purpose"
        }
        Code::ControllerIdentityMissing => "the controller sent no pairing key",
        Code::Unauthenticated => "the controller sent a request before authentication",
        _ => "the controller sent an unexpected message",
    }
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum FromController {
    #[serde(rename = "auth.challenge")]
    Challenge(Challenge),
    #[serde(rename = "pairing.pending")]
    Pending,
    #[serde(rename = "auth.ok", rename_all = "camelCase")]
    Ok { connection_id: String },
    #[serde(rename = "transport.error")]
    Error { error: ErrorCode },
}

#[derive(Deserialize)]
struct ErrorCode {
    #[serde(default)]
    code: String,
}

enum State {
    Expecting,
    Answered {
        code: Option<PairingCode>,
        pins: Option<Pins>,
    },
}

/// The gateway's end of one authentication.
pub struct GatewayAuth {
    expectations: Expectations,
    leaf: Leaf,
    state: State,
}

impl GatewayAuth {
    /// Begins on a connection whose certificate was judged.
    pub fn new(expectations: Expectations, leaf: Leaf) -> Self {
        Self {
            expectations,
            leaf,
            state: State::Expecting,
        }
    }

    /// Takes the next frame from the controller.
    pub fn receive(&mut self, frame: &[u8]) -> Result<Progress, Failure> {
        let unexpected = Failure::Refused(Code::UnexpectedAuthMessage);
        let message = std::str::from_utf8(frame)
            .ok()
            .and_then(|text| json::from_text::<FromController>(text).ok());
        match (message, &mut self.state) {
            (Some(FromController::Error { error }), _) => Err(Failure::Told(readable(error.code))),
            (Some(FromController::Challenge(challenge)), State::Expecting) => {
                let (answer, state) = self.answer(&challenge).map_err(Failure::Refused)?;
                self.state = state;
                Ok(Progress::Answer(answer))
            }
            (Some(FromController::Pending), State::Answered { code: Some(code), .. }) => {
                Ok(Progress::Pending(code.clone()))
            }
            (Some(FromController::Ok { connection_id }), State::Answered { pins, .. }) => Ok(Progress::Ready {
                connection_id,
                pins: pins.take(),
            }),
            (None, _) if is_request(frame) => Err(Failure::Refused(Code::Unauthenticated)),
            _ => Err(unexpected),
        }
    }

    /// Checks the challenge against what is known of the controller, and proves who we are.
    fn answer(&self, challenge: &Challenge) -> Result<(Vec<u8>, State), Code> {
        let known = &self.expectations;
        if challenge.nonce.chars().count() < NONCE_MIN {
            return Err(Code::UnexpectedAuthMessage);
        }
        // What the operator vouched for counts beside an authority too, until there is a pin.
        let pinning = matches!(self.leaf.standing, Standing::Unproven | Standing::Verified);
        if pinning
            && known
                .expected_leaf
                .is_some_and(|expected| expected != self.leaf.fingerprint)
        {
            return Err(Code::ControllerTlsIdentityMismatch);
        }
        let mut response = AuthResponse {
            gateway_id: known.gateway_id.clone(),
            controller_id: known.controller_id.clone(),
            gateway: Some(known.metadata.clone()),
            ..AuthResponse::default()
        };
        let state = match &known.credential {
            Credential::Hmac(secret) => {
                // A secret goes only to a controller whose certificate was verified: configurations for it allow no other.
                if self.leaf.standing == Standing::Changed || self.leaf.standing == Standing::Unproven {
                    return Err(Code::ControllerTlsIdentityMismatch);
                }
                let message = auth::hmac_message(&known.gateway_id, &challenge.nonce);
                response.proof = Some(proof::prove(secret.as_bytes(), message.as_bytes()));
                State::Answered { code: None, pins: None }
            }
            Credential::Pairing(pair) => {
                let controller_key = challenge
                    .controller_public_key
                    .as_deref()
                    .ok_or(Code::ControllerIdentityMissing)?;
                let pins = self.check_controller(challenge, controller_key)?;
                let transcript =
                    auth::pairing_transcript(&challenge.nonce, &known.gateway_id, pair.public_pem(), controller_key);
                let code = PairingCode {
                    short: auth::pairing_code(&transcript),
                    long: auth::long_pairing_code(&transcript),
                };
                response.node_public_key = Some(pair.public_pem().to_owned());
                response.pairing_signature = Some(signature::encode(&pair.sign(transcript.as_bytes())));
                response.pairing_code = Some(code.short.clone());
                State::Answered { code: Some(code), pins }
            }
        };
        Ok((typed_frame("auth.response", &response), state))
    }

    /// Decides whether the controller's key and certificate are those that we know or may learn; gives what to pin.
    fn check_controller(&self, challenge: &Challenge, controller_key: &str) -> Result<Option<Pins>, Code> {
        let known = &self.expectations;
        let key = PublicKey::from_pem(controller_key).map_err(|_| Code::ControllerIdentityMissing)?;
        if known
            .pinned_key
            .as_ref()
            .is_some_and(|pinned| !compare::text(pinned, controller_key))
        {
            return Err(Code::ControllerIdentityMismatch);
        }
        let proven = challenge.controller_proof.as_deref().map(|proof| {
            let message = auth::controller_proof_message(&challenge.nonce, &self.leaf.fingerprint.to_hex());
            signature::decode(proof).is_some_and(|signature| key.verify(message.as_bytes(), &signature))
        });
        let renewed = match self.leaf.standing {
            Standing::Pinned => return Ok(None),
            // A renewed certificate: only the pinned key can vouch for it.
            Standing::Changed if known.pinned_key.is_some() && proven == Some(true) => true,
            Standing::Changed => return Err(Code::ControllerTlsIdentityMismatch),
            Standing::Verified => false,
            Standing::Unproven => {
                match proven {
                    Some(true) => {}
                    Some(false) => return Err(Code::ControllerProofInvalid),
                    None if known.expected_leaf.is_some() || known.allow_unproven => {}
                    None => return Err(Code::ControllerProofInvalid),
                }
                false
            }
        };
        Ok(Some(Pins {
            controller_key: controller_key.to_owned(),
            leaf: self.leaf.fingerprint,
            renewed,
        }))
    }
}

/// A code as it may be shown: what is no code could be anything, so it is not repeated.
fn readable(code: String) -> String {
    let plain = (1..=64).contains(&code.len())
        && code
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if plain { code } else { "an unreadable code".to_owned() }
}

/// True when a frame looks like a daemon request rather than an authentication message.
fn is_request(frame: &[u8]) -> bool {
    goblin_protocol::request::Request::read(frame).is_ok()
}

/// A message with its `type` first, as one frame.
pub(crate) fn typed_frame(r#type: &'static str, body: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Typed<'a, B> {
        r#type: &'static str,
        #[serde(flatten)]
        body: &'a B,
    }
    // Plain structs of texts: encoding them cannot fail.
    let mut frame = serde_json::to_vec(&Typed { r#type, body }).unwrap_or_default();
    frame.push(b'\n');
    frame
}
