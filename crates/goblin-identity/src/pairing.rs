//! `pairing-code.json`: the code that an operator compares, as long as this host waits for approval. It must never know
//! how a code is made.

use std::path::Path;

use goblin_protocol::time::iso8601;

use crate::document::Document;
use crate::error::IdentityError;
use crate::private_file::{Privacy, PrivateDirectory};
use crate::state::StateDir;

pub(crate) const PAIRING_FILE: &str = "pairing-code.json";

/// A code that waits for approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairingCode {
    /// The id under which the host asked.
    pub gateway_id: String,
    /// The code to compare.
    pub code: String,
    /// When it was written, as the file has it (ISO 8601).
    pub updated_at: String,
}

/// Reads the code that a daemon has left, for an operator's command: without the lock, which the daemon holds. `None`
/// when no approval is awaited or there is no such directory.
pub fn read_pairing_code(directory: &Path) -> Result<Option<PairingCode>, IdentityError> {
    let files = match PrivateDirectory::open_existing(directory) {
        Ok(files) => files,
        Err(IdentityError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let Some(text) = files.read(PAIRING_FILE, Privacy::Plain)? else {
        return Ok(None);
    };
    let parse = || {
        let document = Document::parse(&text)?;
        Ok(PairingCode {
            gateway_id: document.text("gatewayId")?.to_string(),
            code: document.text("pairingCode")?.to_string(),
            updated_at: document.text("updatedAt")?.to_string(),
        })
    };
    let invalid = |reason: String| IdentityError::invalid(&files.join(PAIRING_FILE), reason);
    parse().map(Some).map_err(invalid)
}

impl StateDir {
    /// Leaves the code for the operator's command. `now` is in milliseconds since 1970.
    pub fn write_pairing_code(&self, gateway_id: &str, code: &str, now: i64) -> Result<(), IdentityError> {
        let mut document = Document::default();
        document.set_text("gatewayId", gateway_id);
        document.set_text("pairingCode", code);
        document.set_text("updatedAt", &iso8601(now));
        self.files().write(PAIRING_FILE, document.to_text().as_bytes())
    }

    /// Removes the code, when there is one: on authentication.
    pub fn remove_pairing_code(&self) -> Result<(), IdentityError> {
        self.files().remove(PAIRING_FILE).map(|_| ())
    }
}
