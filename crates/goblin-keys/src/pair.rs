//! Ed25519 key pairs and public keys in the PEM texts that are part of signed transcripts: SPKI and PKCS#8 version 1,
//! 64-column lines and a final newline, byte for byte as OpenSSL writes them. It must never know where a key is kept.

use std::fmt;

use aws_lc_rs::signature::{self as primitives, KeyPair as _};
use pem_rfc7468::LineEnding;
use zeroize::Zeroizing;

use crate::signature::SIGNATURE_BYTES;

/// DER before the 32 bytes of an Ed25519 public key in a SubjectPublicKeyInfo (RFC 8410).
const SPKI_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
const PUBLIC_LABEL: &str = "PUBLIC KEY";
const PRIVATE_LABEL: &str = "PRIVATE KEY";

/// Longest private key text that is looked at, in bytes; a PKCS#8 text of either version is under 200.
const MAX_PRIVATE_PEM: usize = 1_024;

/// Bytes of the PEM text of an Ed25519 public key. No other length can be one.
const PUBLIC_PEM_BYTES: usize = 113;

/// Why a key could not be made or read. Never holds key material.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The environment: no key could be generated.
    #[error("the cryptography library could not generate a key")]
    GenerationFailed,
    /// The text is no Ed25519 private key in PKCS#8 PEM.
    #[error("this is no Ed25519 private key in PKCS#8 PEM form")]
    PrivateKeyInvalid,
    /// The text is no Ed25519 public key in exactly the PEM form that OpenSSL writes.
    #[error("this is no Ed25519 public key in exactly the PEM form that OpenSSL writes")]
    PublicKeyInvalid,
}

impl KeyError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::GenerationFailed => "key_generation_failed",
            Self::PrivateKeyInvalid => "private_key_invalid",
            Self::PublicKeyInvalid => "public_key_invalid",
        }
    }
}

/// An Ed25519 key pair. Its `Debug` shows the public half alone.
pub struct KeyPair {
    pair: primitives::Ed25519KeyPair,
    private_pem: Zeroizing<String>,
    public: PublicKey,
}

impl KeyPair {
    /// A new random key pair.
    pub fn generate() -> Result<Self, KeyError> {
        let pair = primitives::Ed25519KeyPair::generate().map_err(|_| KeyError::GenerationFailed)?;
        Self::of(pair).ok_or(KeyError::GenerationFailed)
    }

    /// Reads a PKCS#8 PEM text, of version 1 or 2.
    pub fn from_private_pem(pem: &str) -> Result<Self, KeyError> {
        if pem.len() > MAX_PRIVATE_PEM {
            return Err(KeyError::PrivateKeyInvalid);
        }
        let (label, der) = pem_rfc7468::decode_vec(pem.as_bytes()).map_err(|_| KeyError::PrivateKeyInvalid)?;
        let der = Zeroizing::new(der);
        if label != PRIVATE_LABEL {
            return Err(KeyError::PrivateKeyInvalid);
        }
        let pair = primitives::Ed25519KeyPair::from_pkcs8(&der).map_err(|_| KeyError::PrivateKeyInvalid)?;
        Self::of(pair).ok_or(KeyError::PrivateKeyInvalid)
    }

    fn of(pair: primitives::Ed25519KeyPair) -> Option<Self> {
        let der = pair.to_pkcs8v1().ok()?;
        let private_pem = Zeroizing::new(pem_rfc7468::encode_string(PRIVATE_LABEL, LineEnding::LF, der.as_ref()).ok()?);
        let raw = pair.public_key().as_ref().try_into().ok()?;
        Some(Self {
            public: PublicKey::of(raw)?,
            pair,
            private_pem,
        })
    }

    /// The private key as PKCS#8 version 1 PEM.
    pub fn private_pem(&self) -> Zeroizing<String> {
        self.private_pem.clone()
    }

    /// The public key as SPKI PEM.
    pub fn public_pem(&self) -> &str {
        self.public.pem()
    }

    /// The public half.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// Signs `message`.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut signature = [0; SIGNATURE_BYTES];
        // Both sides hold 64 bytes: that is the length of every Ed25519 signature.
        signature.copy_from_slice(self.pair.sign(message).as_ref());
        signature
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("KeyPair")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

/// An Ed25519 public key together with its one PEM text. Compared in constant time.
#[derive(Clone)]
pub struct PublicKey {
    raw: [u8; 32],
    pem: String,
}

impl PublicKey {
    /// Reads an SPKI PEM text. A text that does not re-encode to itself is refused, since the text is part of what is
    /// signed and shown: one key must have one text.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        if pem.len() != PUBLIC_PEM_BYTES {
            return Err(KeyError::PublicKeyInvalid);
        }
        let (label, der) = pem_rfc7468::decode_vec(pem.as_bytes()).map_err(|_| KeyError::PublicKeyInvalid)?;
        let raw = der.strip_prefix(&SPKI_HEAD).and_then(|raw| raw.try_into().ok());
        let (PUBLIC_LABEL, Some(raw)) = (label, raw) else {
            return Err(KeyError::PublicKeyInvalid);
        };
        match Self::of(raw) {
            Some(key) if key.pem == pem => Ok(key),
            _ => Err(KeyError::PublicKeyInvalid),
        }
    }

    fn of(raw: [u8; 32]) -> Option<Self> {
        let der = [SPKI_HEAD.as_slice(), raw.as_slice()].concat();
        let pem = pem_rfc7468::encode_string(PUBLIC_LABEL, LineEnding::LF, &der).ok()?;
        Some(Self { raw, pem })
    }

    /// The SPKI PEM text.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Whether `signature` is this key's signature of `message`. Anything but 64 bytes is false.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        primitives::UnparsedPublicKey::new(&primitives::ED25519, self.raw)
            .verify(message, signature)
            .is_ok()
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        crate::compare::bytes(&self.raw, &other.raw)
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PublicKey({})", crate::fingerprint::hex_of(&self.raw))
    }
}
