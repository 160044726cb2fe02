//! Tokens that hold: made here, known by their digests alone, kept by the home. All of them are in memory, so a request
//! never waits for the disk; the home's directory is locked, so nobody else changes them.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use goblin_api::TOKEN_PREFIX;
use goblin_ports::{PortError, Secret, TokenRecord, TokenScope, Tokens};
use goblin_protocol::time::{from_iso8601, iso8601};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Tokens at once; those that expired make room for new ones.
const TOKENS_MAX: usize = 1024;

const SECRET_BYTES: usize = 32;
const ID_BYTES: usize = 8;

/// SHA-256 of a token or of a session's secret. Being looked up by it tells nothing about the secret, however long it
/// takes.
pub(crate) type Digest = [u8; 32];

pub(crate) fn digest_of(secret: &str) -> Digest {
    let mut bytes = [0; 32];
    // Both hold 32 bytes, which is SHA-256's length by definition.
    bytes.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    bytes
}

fn hex(digest: &Digest) -> String {
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// 256 random bits as base64url, 43 characters.
pub(crate) fn random_secret() -> Result<String, TokenError> {
    let mut bytes = zeroize::Zeroizing::new([0; SECRET_BYTES]);
    goblin_keys::random::fill(bytes.as_mut_slice()).map_err(|_| TokenError::Random)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes.as_slice()))
}

/// Whether a text holds what may be a token.
pub(crate) fn holds_token(text: &str) -> bool {
    let length = SECRET_BYTES.div_ceil(3) * 4 - 1;
    text.match_indices(TOKEN_PREFIX).any(|(at, _)| {
        let rest = &text.as_bytes()[at + TOKEN_PREFIX.len()..];
        let secret = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        rest.iter().take_while(secret).count() >= length
    })
}

/// Why a token was not made or revoked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("the system's random generator gave nothing")]
    Random,
    #[error("there are {TOKENS_MAX} tokens already")]
    TooMany,
}

/// A token that is known.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) record: TokenRecord,
    pub(crate) digest: Digest,
    /// Epoch milliseconds.
    expires: Option<i64>,
    /// Cancelled once it holds no more by somebody's word.
    pub(crate) revoked: CancellationToken,
}

impl Known {
    fn of(record: TokenRecord) -> Option<Self> {
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(record.digest.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        // A time that cannot be read is one that has passed.
        let expires = record
            .expires_at
            .as_deref()
            .map(|at| from_iso8601(at).unwrap_or(i64::MIN));
        Some(Self {
            record,
            digest,
            expires,
            revoked: CancellationToken::new(),
        })
    }

    /// How long it holds after `now` unless it is revoked; `None` for ever.
    pub(crate) fn left(&self, now: i64) -> Option<Duration> {
        let expires = self.expires?;
        Some(Duration::from_millis(
            u64::try_from(expires.saturating_sub(now)).unwrap_or(0),
        ))
    }

    pub(crate) fn has_expired(&self, now: i64) -> bool {
        self.expires.is_some_and(|at| now >= at)
    }
}

/// The tokens of a home.
pub(crate) struct Book {
    home: Arc<dyn Tokens>,
    /// Held while they are changed, so that memory follows the home in its order.
    changing: tokio::sync::Mutex<()>,
    known: RwLock<Vec<Arc<Known>>>,
    by_digest: RwLock<HashMap<Digest, Arc<Known>>>,
}

impl Book {
    pub(crate) async fn open(home: Arc<dyn Tokens>) -> Result<Self, PortError> {
        let records = home.all().await?;
        let known: Vec<_> = records.into_iter().filter_map(Known::of).map(Arc::new).collect();
        Ok(Self {
            home,
            changing: tokio::sync::Mutex::default(),
            by_digest: RwLock::new(known.iter().map(|known| (known.digest, known.clone())).collect()),
            known: RwLock::new(known),
        })
    }

    /// The token of this digest, if it holds at `now`.
    pub(crate) fn holding(&self, digest: &Digest, now: i64) -> Option<Arc<Known>> {
        let known = self.by_digest.read().unwrap_or_else(PoisonError::into_inner);
        known.get(digest).filter(|known| !known.has_expired(now)).cloned()
    }

    /// All tokens, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a token that holds from `now` (epoch milliseconds) for so many seconds, or until it is revoked.
    pub(crate) async fn create(
        &self,
        name: String,
        scope: TokenScope,
        seconds: Option<u64>,
        now: i64,
    ) -> Result<(Arc<Known>, Secret), TokenError> {
        let _change = self.changing.lock().await;
        self.make_room(now).await?;
        let secret = format!("{TOKEN_PREFIX}{}", random_secret()?);
        let digest = digest_of(&secret);
        let expires = seconds.map(|seconds| {
            let span = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000);
            now.saturating_add(span)
        });
        let record = TokenRecord {
            id: goblin_keys::random::hex(ID_BYTES).map_err(|_| TokenError::Random)?,
            name,
            scope,
            digest: hex(&digest),
            created_at: iso8601(now),
            expires_at: expires.map(iso8601),
        };
        self.home.add(record.clone()).await?;
        let known = Arc::new(Known {
            record,
            digest,
            expires,
            revoked: CancellationToken::new(),
        });
        self.change(|all, by_digest| {
            all.push(known.clone());
            by_digest.insert(digest, known.clone());
        });
        Ok((known, Secret::new(secret)))
    }

    /// The token of this id holds no more; `None` when there is none.
    pub(crate) async fn revoke(&self, id: &str) -> Result<Option<Arc<Known>>, PortError> {
        let _change = self.changing.lock().await;
        let Some(known) = self.all().into_iter().find(|known| known.record.id == id) else {
            return Ok(None);
        };
        self.forget(&known).await?;
        Ok(Some(known))
    }

    async fn make_room(&self, now: i64) -> Result<(), TokenError> {
        if self.all().len() < TOKENS_MAX {
            return Ok(());
        }
        for known in self.all() {
            if known.has_expired(now) {
                self.forget(&known).await?;
            }
        }
        if self.all().len() < TOKENS_MAX {
            Ok(())
        } else {
            Err(TokenError::TooMany)
        }
    }

    async fn forget(&self, known: &Known) -> Result<(), PortError> {
        self.home.remove(&known.record.id).await?;
        self.change(|all, by_digest| {
            all.retain(|other| other.digest != known.digest);
            by_digest.remove(&known.digest);
        });
        known.revoked.cancel();
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Known>>, &mut HashMap<Digest, Arc<Known>>)) {
        let mut all = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let mut by_digest = self.by_digest.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut all, &mut by_digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goblin_ports::MemoryStore;

    const SECOND: i64 = 1000;

    #[tokio::test]
    async fn a_token_holds_until_it_expires_or_is_revoked() {
        let home = Arc::new(MemoryStore::new());
        let book = Book::open(home.clone()).await.unwrap();
        let (timed, secret) = book
            .create("t".to_owned(), TokenScope::Read, Some(10), 0)
            .await
            .unwrap();
        let (_, other) = book.create("o".to_owned(), TokenScope::Admin, None, 0).await.unwrap();
        assert_ne!(secret.expose(), other.expose());
        assert!(
            secret.expose().starts_with("ng_") && secret.expose().len() == 46,
            "256 bits"
        );
        let digest = digest_of(secret.expose());
        assert_eq!(
            book.holding(&digest, 10 * SECOND - 1).unwrap().record.scope,
            TokenScope::Read
        );
        assert!(book.holding(&digest, 10 * SECOND).is_none());
        assert!(book.holding(&digest_of("ng_other"), 0).is_none());

        let again = Book::open(home.clone()).await.unwrap();
        assert!(again.holding(&digest, 0).is_some(), "the home remembers");
        home.fail_write_after(0);
        assert!(again.revoke(&timed.record.id).await.is_err());
        assert!(again.holding(&digest, 0).is_some(), "memory says what the home says");
        assert!(again.revoke(&timed.record.id).await.unwrap().is_some());
        assert!(again.revoke(&timed.record.id).await.unwrap().is_none());
        assert!(again.holding(&digest, 0).is_none());
        assert_eq!(home.all().await.unwrap().len(), 1);
        let stored = format!("{:?}", home.all().await.unwrap());
        assert!(!stored.contains(other.expose()));
    }

    #[tokio::test]
    async fn what_expired_makes_room_and_nothing_else_does() {
        let book = Book::open(Arc::new(MemoryStore::new())).await.unwrap();
        for number in 0..TOKENS_MAX {
            let seconds = (number == 5).then_some(1);
            book.create("t".to_owned(), TokenScope::Read, seconds, 0).await.unwrap();
        }
        let full = book.create("t".to_owned(), TokenScope::Read, None, 0).await;
        assert!(matches!(full, Err(TokenError::TooMany)));
        book.create("t".to_owned(), TokenScope::Read, None, SECOND)
            .await
            .unwrap();
        assert_eq!(book.all().len(), TOKENS_MAX);
    }

    #[test]
    fn a_token_is_recognised_in_a_text() {
        let token = format!("ng_{}", "aB-_9".repeat(9));
        assert!(holds_token(&token) && holds_token(&format!("x=ng_ng_{token}&y")));
        assert!(!holds_token("ng_short") && !holds_token("") && !holds_token(&"a".repeat(100)));
    }
}
