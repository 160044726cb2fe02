//! HMAC enrolment: `controller-trust.json`, the consumed marker, and which secret counts. It must never know how a
//! secret is proven.

use std::fmt;

use goblin_protocol::time::iso8601;
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use crate::document::Document;
use crate::error::IdentityError;
use crate::private_file::Privacy;
use crate::state::StateDir;

pub(crate) const TRUST_FILE: &str = "controller-trust.json";
pub(crate) const CONSUMED_FILE: &str = "controller-enrollment-consumed";

/// A stored enrolment. Its `Debug` leaves the secret out.
#[derive(Clone)]
pub struct ControllerTrust {
    /// The controller that it holds for.
    pub controller_id: String,
    /// The shared secret.
    pub secret: SecretString,
    /// When it was stored, as the file has it (ISO 8601).
    pub enrolled_at: String,
}

impl fmt::Debug for ControllerTrust {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ControllerTrust")
            .field("controller_id", &self.controller_id)
            .field("enrolled_at", &self.enrolled_at)
            .finish_non_exhaustive()
    }
}

/// The secret that a host authenticates with by HMAC.
#[derive(Clone, Debug)]
pub enum Credential {
    /// The one of the trust file.
    Stored(ControllerTrust),
    /// The enrolment token, which has not been used yet.
    Token(SecretString),
    /// None: the host pairs by key.
    None,
}

/// Which secret counts: a stored trust wins over any token; a token counts only as long as none has been consumed; a
/// blank token is none.
pub fn credential(trust: Option<ControllerTrust>, consumed: bool, token: Option<SecretString>) -> Credential {
    match (trust, token) {
        (Some(trust), _) => Credential::Stored(trust),
        (None, Some(token)) if !consumed && !token.expose_secret().trim().is_empty() => Credential::Token(token),
        (None, _) => Credential::None,
    }
}

impl StateDir {
    /// The stored enrolment, when there is one.
    pub fn load_trust(&self) -> Result<Option<ControllerTrust>, IdentityError> {
        Ok(self.trust_document()?.map(|(_, trust)| trust))
    }

    fn trust_document(&self) -> Result<Option<(Document, ControllerTrust)>, IdentityError> {
        let Some(text) = self.files().read(TRUST_FILE, Privacy::Secret)? else {
            return Ok(None);
        };
        let parse = || {
            let document = Document::parse(&text)?;
            document.require_version_1()?;
            let trust = ControllerTrust {
                controller_id: document.text("controllerId")?.to_string(),
                secret: secret(document.text("secret")?),
                enrolled_at: document.text("enrolledAt")?.to_string(),
            };
            Ok((document, trust))
        };
        let invalid = |reason: String| IdentityError::invalid(&self.files().join(TRUST_FILE), reason);
        parse().map(Some).map_err(invalid)
    }

    /// Stores an enrolment. `now` is in milliseconds since 1970. Storing what is stored already changes nothing.
    pub fn store_trust(&self, controller_id: &str, secret: &SecretString, now: i64) -> Result<(), IdentityError> {
        let mut document = match self.trust_document()? {
            Some((_, trust)) if is_same(&trust, controller_id, secret) => return Ok(()),
            Some((document, _)) => document,
            None => Document::default(),
        };
        document.set_version_1();
        document.set_text("controllerId", controller_id);
        document.set_text("secret", secret.expose_secret());
        document.set_text("enrolledAt", &iso8601(now));
        self.files().write(TRUST_FILE, document.to_text().as_bytes())
    }

    /// Whether an enrolment token has been used on this host, or the host was unpaired: tokens are inert then.
    pub fn enrollment_consumed(&self) -> Result<bool, IdentityError> {
        self.files().exists(CONSUMED_FILE)
    }

    /// Writes the consumed marker, unless there is one. `now` is in milliseconds since 1970.
    pub fn consume_enrollment(&self, now: i64) -> Result<(), IdentityError> {
        if self.enrollment_consumed()? {
            return Ok(());
        }
        self.files()
            .write(CONSUMED_FILE, format!("{}\n", iso8601(now)).as_bytes())
    }

    /// The secret that counts, from this directory's files and the configured token.
    pub fn credential(&self, token: Option<SecretString>) -> Result<Credential, IdentityError> {
        Ok(credential(self.load_trust()?, self.enrollment_consumed()?, token))
    }

    /// Records a successful HMAC authentication: stores a token as the trust, then writes the marker. In this order, a
    /// crash in between leaves a trust that works, never a host without any secret.
    pub fn authenticated(&self, with: &Credential, controller_id: &str, now: i64) -> Result<(), IdentityError> {
        match with {
            Credential::Stored(_) => self.consume_enrollment(now),
            Credential::Token(token) => {
                self.store_trust(controller_id, token, now)?;
                self.consume_enrollment(now)
            }
            Credential::None => Ok(()),
        }
    }
}

fn secret(text: Zeroizing<String>) -> SecretString {
    SecretString::from(text.as_str())
}

fn is_same(trust: &ControllerTrust, controller_id: &str, secret: &SecretString) -> bool {
    trust.controller_id == controller_id
        && goblin_keys::compare::text(trust.secret.expose_secret(), secret.expose_secret())
}
