//! Authentication as the controller sees it. Pure: frames in, a claim out. What a claim is worth is decided by whoever
//! knows the registered gateways.

use crate::gateway_auth::{PairingCode, typed_frame};
use goblin_keys::fingerprint::Fingerprint;
use goblin_keys::pair::{KeyPair, PublicKey};
use goblin_keys::{proof, signature};
use goblin_protocol::Code;
use goblin_protocol::auth::{self, AuthResponse, Challenge, GatewayMetadata};
use goblin_protocol::id::valid_gateway_id;
use goblin_protocol::json;
use serde::Serialize;
use serde_json::Value;

/// Longest text of a gateway's metadata, in characters.
const METADATA_MAX: usize = 255;

/// What a gateway that proved its key offers for pairing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairingClaim {
    /// The node's public key, PEM, in its canonical text.
    pub public_key: String,
    /// The code that our screen shows, computed here.
    pub code: PairingCode,
}

/// How a gateway backs its claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// An HMAC proof, to be checked against the secret of the claimed id, see [`Claim::proves`].
    Hmac(String),
    /// A key whose signature over the transcript is valid.
    Key(PairingClaim),
    /// Neither, or a signature that does not verify.
    None,
}

/// A well-formed answer to the challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The id that the gateway claims; keeps the grammar of ids.
    pub gateway_id: String,
    /// The controller that it means.
    pub controller_id: String,
    /// What backs it.
    pub evidence: Evidence,
    /// What it says of itself, trimmed and cut.
    pub metadata: GatewayMetadata,
    nonce: String,
}

impl Claim {
    /// True when the HMAC proof was made with this secret. Takes constant time.
    pub fn proves(&self, secret: &str) -> bool {
        let message = auth::hmac_message(&self.gateway_id, &self.nonce);
        matches!(&self.evidence, Evidence::Hmac(claimed) if proof::verify(secret.as_bytes(), message.as_bytes(), claimed))
    }

    /// The nonce of the challenge that was answered.
    pub fn nonce(&self) -> &str {
        &self.nonce
    }
}

/// The controller's end of one authentication, up to the claim.
pub struct ControllerAuth {
    nonce: String,
    controller_key: String,
}

impl ControllerAuth {
    /// Begins with a fresh nonce; gives the challenge to send.
    pub fn new(nonce: String, pair: &KeyPair, leaf: &Fingerprint) -> (Self, Vec<u8>) {
        let proof = pair.sign(auth::controller_proof_message(&nonce, &leaf.to_hex()).as_bytes());
        let challenge = Challenge {
            nonce: nonce.clone(),
            controller_public_key: Some(pair.public_pem().to_owned()),
            controller_proof: Some(signature::encode(&proof)),
        };
        let frame = typed_frame("auth.challenge", &challenge);
        (
            Self {
                nonce,
                controller_key: pair.public_pem().to_owned(),
            },
            frame,
        )
    }

    /// Takes the gateway's first frame.
    pub fn receive(&self, frame: &[u8]) -> Result<Claim, Code> {
        let text = std::str::from_utf8(frame).map_err(|_| Code::InvalidJson)?;
        let message: Value = json::from_text(text).map_err(|_| Code::InvalidJson)?;
        if message.get("type").and_then(Value::as_str) != Some("auth.response") {
            return Err(Code::Unauthenticated);
        }
        let text = |name: &str| message.get(name).and_then(Value::as_str).map(str::to_owned);
        let id = |name: &str| {
            text(name)
                .filter(|id| !id.trim().is_empty())
                .ok_or(Code::InvalidAuthMessage)
        };
        let metadata = message.get("gateway").cloned().unwrap_or_default();
        let about = |name: &str| {
            let value = metadata.get(name).and_then(Value::as_str)?.trim();
            (!value.is_empty()).then(|| value.chars().take(METADATA_MAX).collect())
        };
        let response = AuthResponse {
            gateway_id: id("gatewayId")?,
            controller_id: id("controllerId")?,
            proof: text("proof"),
            node_public_key: text("nodePublicKey"),
            pairing_signature: text("pairingSignature"),
            pairing_code: None,
            gateway: Some(GatewayMetadata {
                name: about("name"),
                version: about("version"),
                protocol_version: about("protocolVersion"),
            }),
        };
        if !valid_gateway_id(&response.gateway_id) || response.controller_id.chars().count() > METADATA_MAX {
            return Err(Code::InvalidAuthMessage);
        }
        let evidence = match &response.proof {
            Some(proof) => Evidence::Hmac(proof.clone()),
            None => self.pairing(&response).map_or(Evidence::None, Evidence::Key),
        };
        Ok(Claim {
            gateway_id: response.gateway_id,
            controller_id: response.controller_id,
            evidence,
            metadata: response.gateway.unwrap_or_default(),
            nonce: self.nonce.clone(),
        })
    }

    /// The pairing claim of a response whose signature over our own transcript is valid.
    fn pairing(&self, response: &AuthResponse) -> Option<PairingClaim> {
        let pem = response.node_public_key.as_deref()?;
        let key = PublicKey::from_pem(pem).ok()?;
        let transcript = auth::pairing_transcript(&self.nonce, &response.gateway_id, pem, &self.controller_key);
        let signature = signature::decode(response.pairing_signature.as_deref()?)?;
        key.verify(transcript.as_bytes(), &signature).then(|| PairingClaim {
            public_key: pem.to_owned(),
            code: PairingCode {
                short: auth::pairing_code(&transcript),
                long: auth::long_pairing_code(&transcript),
            },
        })
    }
}

/// The frame that tells a gateway that an operator has to approve it.
pub fn pairing_pending(code: &PairingCode) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Pending<'a> {
        pairing_code: &'a str,
    }
    typed_frame(
        "pairing.pending",
        &Pending {
            pairing_code: &code.short,
        },
    )
}

/// The frame that tells a gateway that it is authenticated.
pub fn auth_ok(connection_id: &str) -> Vec<u8> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Ready<'a> {
        connection_id: &'a str,
    }
    typed_frame("auth.ok", &Ready { connection_id })
}
