//! The texts that authentication signs and shows, and its messages (spec of protocol 1.0, "Authentication").
//!
//! Only texts: who signs, checks or draws nonces is told elsewhere.

use crate::digest::sha256_hex;
use serde::{Deserialize, Serialize};

/// First word of the pairing transcript.
pub const PAIRING_CONTEXT: &str = "burrow-node-goblin-pairing-v1";
/// First word of the HMAC message.
pub const HMAC_CONTEXT: &str = "burrow-host-gateway-auth-v1";
/// First word of the controller's proof.
pub const CONTROLLER_PROOF_CONTEXT: &str = "burrow-node-goblin-controller-v1";
/// The controller's id unless configured otherwise.
pub const CONTROLLER_ID_DEFAULT: &str = "controller";

/// What a gateway signs to pair: nonce, its id and both public keys, the PEM texts byte for byte.
pub fn pairing_transcript(nonce: &str, gateway_id: &str, node_pem: &str, controller_pem: &str) -> String {
    [PAIRING_CONTEXT, nonce, gateway_id, node_pem, controller_pem].join("\0")
}

/// The code that an operator compares on both screens: the first 12 hexadecimal digits of the transcript's SHA-256, `XXXX-XXXX-XXXX`.
pub fn pairing_code(transcript: &str) -> String {
    grouped(&sha256_hex(transcript.as_bytes())[..12])
}

/// The longer form of the same code: 32 hexadecimal digits in groups of four.
pub fn long_pairing_code(transcript: &str) -> String {
    grouped(&sha256_hex(transcript.as_bytes())[..32])
}

fn grouped(digits: &str) -> String {
    let upper = digits.to_ascii_uppercase();
    let groups: Vec<&str> = (0..upper.len()).step_by(4).map(|at| &upper[at..at + 4]).collect();
    groups.join("-")
}

/// What an HMAC enrolment proves knowledge of the secret over.
pub fn hmac_message(gateway_id: &str, nonce: &str) -> String {
    [HMAC_CONTEXT, gateway_id, nonce].join("\0")
}

/// What a controller signs with its pairing key: the nonce bound to its own certificate (`leaf` = hexadecimal SHA-256 of its DER).
pub fn controller_proof_message(nonce: &str, leaf: &str) -> String {
    [CONTROLLER_PROOF_CONTEXT, nonce, leaf].join("\0")
}

/// controller → gateway, first message of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Challenge {
    /// base64url of 24 random bytes.
    pub nonce: String,
    /// SPKI PEM of the controller's pairing key.
    #[serde(default)]
    pub controller_public_key: Option<String>,
    /// base64url signature of [`controller_proof_message`]; the baseline sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller_proof: Option<String>,
}

/// gateway → controller, answer to the challenge. Text fields are read leniently: the controller answers a stable code.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuthResponse {
    /// The gateway's id.
    pub gateway_id: String,
    /// The controller that the gateway means to talk to.
    pub controller_id: String,
    /// Hexadecimal HMAC proof; stands instead of the pairing members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// SPKI PEM of the node's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_public_key: Option<String>,
    /// base64url signature of the transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairing_signature: Option<String>,
    /// The code as the gateway shows it; never believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairing_code: Option<String>,
    /// Name and versions for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayMetadata>,
}

/// What a gateway says of itself; shown, never trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayMetadata {
    /// Program name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Program version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Protocol version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn transcripts_and_codes_match_the_golden_cases() {
        let golden: Value = serde_json::from_str(include_str!("golden/auth.json")).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (node, controller) = (
            text(&golden["node"]["publicKey"]),
            text(&golden["controller"]["publicKey"]),
        );
        let cases = golden["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 3);
        for case in cases {
            let transcript = pairing_transcript(&text(&case["nonce"]), &text(&case["gatewayId"]), &node, &controller);
            assert_eq!(sha256_hex(transcript.as_bytes()), text(&case["transcriptSha256"]));
            assert_eq!(pairing_code(&transcript), text(&case["pairingCode"]));
            assert!(long_pairing_code(&transcript).starts_with(&text(&case["pairingCode"])));
            assert_eq!(long_pairing_code(&transcript).len(), 39);
        }
    }
}
