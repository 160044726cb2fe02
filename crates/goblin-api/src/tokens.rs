//! Tokens of API callers, and the login of a browser.
//!
//! A token goes into `Authorization: Bearer TOKEN`, never into a URL. Over the Unix socket none is needed.

use crate::Success;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// What every token begins with, so that people and scanners recognise one.
pub const TOKEN_PREFIX: &str = "ng_";

/// Header that a browser session has to send with every unsafe method, with any value: another site's page cannot set
/// it. Callers with a bearer token need none.
pub const CSRF_HEADER: &str = "x-node-goblin-request";

/// Header of every answer: names the request in the audit log.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// Longest life of a token, in seconds: ten years.
pub const TOKEN_EXPIRY_MAX_SECONDS: u64 = 10 * 366 * 24 * 60 * 60;

/// Longest name of a token, in characters.
pub const TOKEN_NAME_MAX: usize = 255;

/// What a token may do. Each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Look at everything but tokens.
    Read,
    /// Also dispatch and cancel operations.
    Execute,
    /// Everything.
    Admin,
}

impl Scope {
    /// The word in the JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Execute => "execute",
            Self::Admin => "admin",
        }
    }

    /// The scope of this word.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Read, Self::Execute, Self::Admin]
            .into_iter()
            .find(|scope| scope.as_str() == word)
    }
}

/// Body of POST `/api/tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"name": "ci", "scope": "execute", "expiresInSeconds": 86400}))]
pub struct CreateToken {
    /// A name for people; need not be unique.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// Seconds until it expires, 1 to [`TOKEN_EXPIRY_MAX_SECONDS`]; without it the token holds until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<u64>,
}

/// What is known of a token. The token itself is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenListing {
    /// Its id, for revoking it and in the audit log. No secret.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
    /// ISO 8601 time.
    pub created_at: String,
    /// ISO 8601 time; null for one that holds until it is revoked.
    #[schema(required = true)]
    pub expires_at: Option<String>,
    /// True once `expiresAt` has passed.
    pub expired: bool,
}

/// Answer of GET `/api/tokens`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokensAnswer {
    /// Always true.
    pub ok: Success,
    /// The tokens, oldest first.
    pub tokens: Vec<TokenListing>,
}

/// Answer of POST `/api/tokens`, with status 201. Its `Debug` leaves the token out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// Always true.
    pub ok: Success,
    /// What is known of it from now on.
    pub token: TokenListing,
    /// The token. It is shown this once.
    pub secret: String,
}

impl fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedToken")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// Answer of DELETE `/api/tokens/:id`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevokedToken {
    /// Always true.
    pub ok: Success,
    /// The token that holds no more.
    pub token: TokenListing,
}

/// Body of POST `/api/login`. Its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginRequest {
    /// A token.
    pub token: String,
}

impl fmt::Debug for LoginRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRequest").finish_non_exhaustive()
    }
}

/// Answer of POST `/api/login`. The session is in its cookie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginAnswer {
    /// Always true.
    pub ok: Success,
    /// The token that the session stands for, and ends with.
    pub token: TokenListing,
    /// ISO 8601 time at which the session ends at the latest.
    pub session_expires_at: String,
}

/// Answer of POST `/api/logout`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogoutAnswer {
    /// Always true.
    pub ok: Success,
}
