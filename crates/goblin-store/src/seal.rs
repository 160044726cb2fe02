//! Authenticated encryption of secrets: AES-256-GCM, a random nonce per write, the record's name as associated data.
//! It must never know where a sealed text is kept.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::{Engine, engine::general_purpose::STANDARD};
use goblin_ports::{PortError, Secret};
use zeroize::Zeroizing;

use crate::{StoreError, key::Key};

/// First part of every sealed text, so that another cipher can follow.
const FORMAT: &str = "v1.";
const TAG_BYTES: usize = 16;

/// Seals and opens under one key.
pub(crate) struct Sealer(RandomizedNonceKey);

impl Sealer {
    pub(crate) fn new(key: &Key) -> Result<Self, StoreError> {
        RandomizedNonceKey::new(&AES_256_GCM, key.as_slice())
            .map(Self)
            .map_err(|_| StoreError::Unavailable("the cipher refused the key".to_owned()))
    }

    /// The sealed form of a secret. `context` is the kind and name of its record; opening wants the same.
    pub(crate) fn seal(&self, context: &str, secret: &str) -> Result<String, PortError> {
        let mut buffer = Zeroizing::new(Vec::with_capacity(secret.len() + TAG_BYTES));
        buffer.extend_from_slice(secret.as_bytes());
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(context.as_bytes()), &mut *buffer)
            .map_err(|_| PortError::Unavailable("the cipher failed".to_owned()))?;
        let mut record = Vec::with_capacity(NONCE_LEN + buffer.len());
        record.extend_from_slice(nonce.as_ref());
        record.extend_from_slice(&buffer);
        Ok(format!("{FORMAT}{}", STANDARD.encode(record)))
    }

    /// The secret, or `None` when the text, the context or the key is not the one it was sealed with.
    pub(crate) fn open(&self, context: &str, sealed: &str) -> Option<Secret> {
        let mut record = Zeroizing::new(STANDARD.decode(sealed.strip_prefix(FORMAT)?).ok()?);
        let (nonce, ciphertext) = record.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let plain = self
            .0
            .open_in_place(nonce, Aad::from(context.as_bytes()), ciphertext)
            .ok()?;
        Some(Secret::new(std::str::from_utf8(plain).ok()?.to_owned()))
    }
}
