//! Tokens of API callers as the home keeps them: digests, never the tokens. A home whose host program authenticates
//! has none. It must never know what a scope allows, nor the time.

use async_trait::async_trait;

use crate::{NAME_BYTES_MAX, PortError, check_name};

/// What a token may do; each scope includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenScope {
    /// Look.
    Read,
    /// Also dispatch and cancel.
    Execute,
    /// Everything.
    Admin,
}

impl TokenScope {
    /// The word that is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Execute => "execute",
            Self::Admin => "admin",
        }
    }

    /// The scope of a stored word.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Read, Self::Execute, Self::Admin]
            .into_iter()
            .find(|scope| scope.as_str() == word)
    }
}

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Its id; unique.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// What it may do.
    pub scope: TokenScope,
    /// Lower-case hexadecimal SHA-256 of the token; unique.
    pub digest: String,
    /// ISO 8601 time.
    pub created_at: String,
    /// ISO 8601 time from which it holds no more.
    pub expires_at: Option<String>,
}

/// Token storage of the home.
#[async_trait]
pub trait Tokens: Send + Sync {
    /// All tokens, in the order in which they were added.
    async fn all(&self) -> Result<Vec<TokenRecord>, PortError>;

    /// Adds one; durable when it returns. One whose id or digest is there already is refused as
    /// [`PortError::ValueInvalid`].
    async fn add(&self, record: TokenRecord) -> Result<(), PortError>;

    /// Removes one; durable when it returns. Removing what is not there succeeds.
    async fn remove(&self, id: &str) -> Result<(), PortError>;
}

/// Checks the fields of a token.
///
/// # Errors
/// [`PortError::NameInvalid`], [`PortError::ValueInvalid`].
pub fn check_token(record: &TokenRecord) -> Result<(), PortError> {
    check_name(&record.id)?;
    check_name(&record.name)?;
    let refused = |reason: &str| {
        Err(PortError::ValueInvalid {
            name: record.id.clone(),
            reason: reason.to_owned(),
        })
    };
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if record.digest.len() != 64 || !record.digest.bytes().all(hex) {
        return refused("the digest is no SHA-256");
    }
    let times = [Some(&record.created_at), record.expires_at.as_ref()];
    if times
        .into_iter()
        .flatten()
        .any(|time| time.is_empty() || time.len() > NAME_BYTES_MAX || time.contains('\0'))
    {
        return refused("a time is no text of a time");
    }
    Ok(())
}

/// The refusal of a token that is there already.
pub fn token_exists(id: &str) -> PortError {
    PortError::ValueInvalid {
        name: id.to_owned(),
        reason: "there is a token of this id or digest".to_owned(),
    }
}
