//! `node-identity.json`: the host's key pair and the controller that it was approved by. It must never know how a
//! controller proves itself.

use std::sync::Arc;

use goblin_keys::{Fingerprint, KeyPair, PublicKey};
use goblin_protocol::time::iso8601;
use uuid::Uuid;

use crate::document::Document;
use crate::error::IdentityError;
use crate::private_file::Privacy;
use crate::state::StateDir;

pub(crate) const IDENTITY_FILE: &str = "node-identity.json";
const CONTROLLER_KEY: &str = "controllerPublicKey";
const CONTROLLER_FINGERPRINT: &str = "controllerTlsFingerprint";

/// The identity of a host: its key pair, and the pins of its controller once it has been approved.
pub struct NodeIdentity {
    document: Document,
    node_id: String,
    created_at: String,
    keys: Arc<KeyPair>,
    controller_key: Option<PublicKey>,
    controller_fingerprint: Option<Fingerprint>,
}

impl NodeIdentity {
    /// A UUID, made with the key pair.
    pub fn node_id(&self) -> &str {
        &self.node_id
    }

    /// When the key pair was made, as the file has it (ISO 8601).
    pub fn created_at(&self) -> &str {
        &self.created_at
    }

    /// The host's key pair.
    pub fn keys(&self) -> &Arc<KeyPair> {
        &self.keys
    }

    /// The pinned pairing key of the controller.
    pub fn controller_key(&self) -> Option<&PublicKey> {
        self.controller_key.as_ref()
    }

    /// The pinned fingerprint of the controller's certificate.
    pub fn controller_fingerprint(&self) -> Option<Fingerprint> {
        self.controller_fingerprint
    }

    fn generate(now: i64) -> Result<Self, IdentityError> {
        let keys = KeyPair::generate()?;
        let node_id = Uuid::new_v4().to_string();
        let created_at = iso8601(now);
        let mut document = Document::default();
        document.set_version_1();
        document.set_text("nodeId", &node_id);
        document.set_text("publicKey", keys.public_pem());
        document.set_text("privateKey", &keys.private_pem());
        document.set_text("createdAt", &created_at);
        Ok(Self {
            document,
            node_id,
            created_at,
            keys: Arc::new(keys),
            controller_key: None,
            controller_fingerprint: None,
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document = Document::parse(text)?;
        document.require_version_1()?;
        let keys =
            KeyPair::from_private_pem(&document.text("privateKey")?).map_err(|error| format!("privateKey: {error}"))?;
        if document.text("publicKey")?.as_str() != keys.public_pem() {
            return Err("publicKey is not the public half of privateKey".to_owned());
        }
        let controller_key = document.optional_text(CONTROLLER_KEY)?;
        let controller_key = controller_key.map(|pem| PublicKey::from_pem(&pem));
        let controller_key = controller_key
            .transpose()
            .map_err(|error| format!("{CONTROLLER_KEY}: {error}"))?;
        let fingerprint = document.optional_text(CONTROLLER_FINGERPRINT)?;
        let fingerprint = fingerprint.map(|hex| Fingerprint::parse(&hex));
        let fingerprint = fingerprint
            .transpose()
            .map_err(|error| format!("{CONTROLLER_FINGERPRINT}: {error}"))?;
        Ok(Self {
            node_id: document.text("nodeId")?.to_string(),
            created_at: document.text("createdAt")?.to_string(),
            keys: Arc::new(keys),
            controller_key,
            controller_fingerprint: fingerprint,
            document,
        })
    }
}

impl std::fmt::Debug for NodeIdentity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("NodeIdentity")
            .field("node_id", &self.node_id)
            .field("keys", &self.keys)
            .field("controller_key", &self.controller_key)
            .field("controller_fingerprint", &self.controller_fingerprint)
            .finish_non_exhaustive()
    }
}

impl StateDir {
    /// The identity of this host, made and stored at first use. `now` is in milliseconds since 1970.
    pub fn load_or_create_identity(&self, now: i64) -> Result<NodeIdentity, IdentityError> {
        if let Some(identity) = self.load_identity()? {
            return Ok(identity);
        }
        let identity = NodeIdentity::generate(now)?;
        self.store_identity(&identity.document)?;
        Ok(identity)
    }

    /// The identity of this host when it has one.
    pub fn load_identity(&self) -> Result<Option<NodeIdentity>, IdentityError> {
        let Some(text) = self.files().read(IDENTITY_FILE, Privacy::Secret)? else {
            return Ok(None);
        };
        let invalid = |reason| IdentityError::invalid(&self.files().join(IDENTITY_FILE), reason);
        NodeIdentity::parse(&text).map(Some).map_err(invalid)
    }

    /// Pins the controller that approved this host. Pinning what is pinned already changes nothing; another key than
    /// the pinned one is refused, because only unpairing may remove it.
    pub fn pin_controller(
        &self,
        identity: &mut NodeIdentity,
        key: &PublicKey,
        fingerprint: Fingerprint,
    ) -> Result<(), IdentityError> {
        if identity.controller_key.as_ref().is_some_and(|pinned| pinned != key) {
            return Err(IdentityError::AlreadyPinned {
                path: self.files().join(IDENTITY_FILE),
            });
        }
        if identity.controller_key.is_some() && identity.controller_fingerprint == Some(fingerprint) {
            return Ok(());
        }
        let mut document = identity.document.clone();
        document.set_text(CONTROLLER_KEY, key.pem());
        document.set_text(CONTROLLER_FINGERPRINT, &fingerprint.to_hex());
        self.store_identity(&document)?;
        identity.document = document;
        identity.controller_key = Some(key.clone());
        identity.controller_fingerprint = Some(fingerprint);
        Ok(())
    }

    /// Pins a renewed certificate, after the pinned key has vouched for it.
    pub fn update_pinned_fingerprint(
        &self,
        identity: &mut NodeIdentity,
        fingerprint: Fingerprint,
    ) -> Result<(), IdentityError> {
        if identity.controller_fingerprint == Some(fingerprint) {
            return Ok(());
        }
        let mut document = identity.document.clone();
        document.set_text(CONTROLLER_FINGERPRINT, &fingerprint.to_hex());
        self.store_identity(&document)?;
        identity.document = document;
        identity.controller_fingerprint = Some(fingerprint);
        Ok(())
    }

    /// Removes both pins from the file, when there are any.
    pub(crate) fn remove_pins(&self) -> Result<(), IdentityError> {
        let Some(mut identity) = self.load_identity()? else {
            return Ok(());
        };
        let key_removed = identity.document.remove(CONTROLLER_KEY);
        let fingerprint_removed = identity.document.remove(CONTROLLER_FINGERPRINT);
        if key_removed || fingerprint_removed {
            self.store_identity(&identity.document)
        } else {
            Ok(())
        }
    }

    fn store_identity(&self, document: &Document) -> Result<(), IdentityError> {
        self.files().write(IDENTITY_FILE, document.to_text().as_bytes())
    }
}
