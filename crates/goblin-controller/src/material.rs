//! The listener's certificate and the controller's pairing key: found, or made on first use and kept.

use crate::clock;
use crate::error::ControllerError;
use crate::options::{ControllerOptions, TlsMaterial};
use goblin_keys::certificate::{self, CertificateMetadata};
use goblin_keys::tls::{pem_fingerprint, server_config, server_name, web_server_config};
use goblin_keys::{Fingerprint, KeyPair};
use goblin_ports::{
    PortError, Secret, Secrets, Settings, SettingsExt, TLS_SOURCE_CONFIGURED, TLS_SOURCE_GENERATED, TlsMetadata,
    secret, setting,
};
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;
use tracing::{error, warn};
use zeroize::{Zeroize, Zeroizing};

/// What the listener serves with.
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    /// The same certificate, for HTTP.
    pub(crate) web: Arc<ServerConfig>,
    /// The certificate that the challenge's proof is about.
    pub(crate) leaf: Fingerprint,
}

impl Tls {
    fn of(material: &TlsMaterial) -> Result<Self, ControllerError> {
        Ok(Self {
            config: server_config(&material.cert, &material.key, material.ca.as_deref())?,
            web: web_server_config(&material.cert, &material.key)?,
            leaf: pem_fingerprint(&material.cert)?,
        })
    }
}

/// The certificate to serve with: the given one, the stored one, or a new one for `host` that is stored.
pub(crate) async fn tls(
    options: &ControllerOptions,
    settings: &dyn Settings,
    secrets: &dyn Secrets,
    host: &str,
) -> Result<Tls, ControllerError> {
    if let Some(material) = &options.tls_material {
        certificate::check(&material.cert, &material.key, material.ca.as_deref(), SystemTime::now())?;
        return Tls::of(material);
    }
    let metadata: Option<TlsMetadata> = settings.get_as(setting::TLS_METADATA).await?;
    let (key, cert) = (
        secrets.get(secret::TLS_KEY).await?,
        secrets.get(secret::TLS_CERT).await?,
    );
    let ca = secrets.get(secret::TLS_CA).await?.map(|ca| ca.expose().to_owned());
    let configured = metadata
        .as_ref()
        .is_some_and(|metadata| metadata.source == TLS_SOURCE_CONFIGURED);
    if let (Some(key), Some(cert)) = (&key, &cert) {
        let material = TlsMaterial {
            cert: cert.expose().to_owned(),
            key: Zeroizing::new(key.expose().to_owned()),
            ca: ca.clone(),
        };
        // A generated pair of which a crash left one half is made anew; an operator's is theirs to mend.
        match Tls::of(&material) {
            Ok(tls) => {
                warn_of_age_and_names(options, metadata.as_ref());
                return Ok(tls);
            }
            Err(error) if configured => return Err(error),
            Err(error) => warn!(
                code = error.code(),
                "the stored certificate cannot be used, another one is made"
            ),
        }
    } else if configured {
        return Err(ControllerError::TlsCredentialsRequired);
    }
    let generated = certificate::generate(host, &names(host, &options.advertise), SystemTime::now())?;
    let material = TlsMaterial {
        cert: generated.cert_pem,
        key: generated.key_pem,
        ca,
    };
    let tls = Tls::of(&material)?;
    let metadata = metadata_record(&generated.metadata);
    store(settings, secrets, Some(&material), Some(&metadata)).await?;
    Ok(tls)
}

/// Stores an operator's certificate in place of whatever there is, or nothing in its place.
pub(crate) async fn configure(
    settings: &dyn Settings,
    secrets: &dyn Secrets,
    material: Option<&TlsMaterial>,
) -> Result<(), ControllerError> {
    let metadata = match material {
        None => None,
        Some(material) if material.key.trim().is_empty() || material.cert.trim().is_empty() => {
            return Err(ControllerError::TlsCredentialsRequired);
        }
        Some(material) => {
            let ca = material.ca.as_deref();
            let checked = certificate::check(&material.cert, &material.key, ca, SystemTime::now())?;
            // What the library refuses would only show at the next start.
            Tls::of(material)?;
            let mut metadata = metadata_record(&checked);
            metadata.source = TLS_SOURCE_CONFIGURED.to_owned();
            Some(metadata)
        }
    };
    Ok(store(settings, secrets, material, metadata.as_ref()).await?)
}

/// Replaces key, certificate, authority and metadata; what was there is put back when a step fails.
async fn store(
    settings: &dyn Settings,
    secrets: &dyn Secrets,
    material: Option<&TlsMaterial>,
    metadata: Option<&TlsMetadata>,
) -> Result<(), PortError> {
    let wanted = [
        (secret::TLS_KEY, material.map(|it| Secret::new(it.key.clone()))),
        (secret::TLS_CERT, material.map(|it| Secret::new(it.cert.clone()))),
        (secret::TLS_CA, material.and_then(|it| it.ca.clone()).map(Secret::new)),
    ];
    let mut replaced = Vec::new();
    let mut result = Ok(());
    for (name, wanted) in wanted {
        let written = async {
            let known = secrets.get(name).await?;
            put(secrets, name, wanted).await?;
            Ok(known)
        };
        match written.await {
            Ok(known) => replaced.push((name, known)),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    if result.is_ok() {
        result = match metadata {
            Some(metadata) => settings.set_as(setting::TLS_METADATA, metadata).await,
            None => settings.delete(setting::TLS_METADATA).await,
        };
    }
    if result.is_err() {
        for (name, known) in replaced.into_iter().rev() {
            if let Err(error) = put(secrets, name, known).await {
                error!(
                    code = error.code(),
                    "a change of certificate could not be taken back whole"
                );
            }
        }
    }
    result
}

async fn put(secrets: &dyn Secrets, name: &str, secret: Option<Secret>) -> Result<(), PortError> {
    match secret {
        Some(secret) => secrets.set(name, secret).await,
        None if secrets.has(name).await? => secrets.clear(name).await,
        None => Ok(()),
    }
}

pub(crate) fn metadata_record(metadata: &CertificateMetadata) -> TlsMetadata {
    TlsMetadata {
        source: TLS_SOURCE_GENERATED.to_owned(),
        algorithm: Some(metadata.algorithm.clone()),
        host: metadata.host.clone(),
        subject_alt_name: metadata.subject_alt_name.clone(),
        created_at: Some(clock::iso(metadata.created_at)),
        expires_at: Some(clock::iso(metadata.expires_at)),
        rotate_after: metadata.rotate_after.map(clock::iso),
        fingerprint_sha256: Some(metadata.fingerprint_sha256.to_hex()),
        other: serde_json::Map::new(),
    }
}

/// Names for a certificate of a listener at `host`. A wildcard stands for this machine: its name and its loopback.
fn names(host: &str, advertise: &[String]) -> Vec<String> {
    let wildcard = host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
    let mut names = Vec::new();
    if wildcard {
        names.extend(host_name());
        names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    } else {
        names.push(host.to_owned());
    }
    names.extend(advertise.iter().cloned());
    names
}

/// The machine's name, where it is one that a client can ask for.
fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    server_name(&name).is_ok().then_some(name)
}

fn warn_of_age_and_names(options: &ControllerOptions, metadata: Option<&TlsMetadata>) {
    let Some(metadata) = metadata else { return };
    if metadata
        .rotate_after
        .as_ref()
        .is_some_and(|after| *after < clock::now_iso())
    {
        warn!("the controller's certificate should be replaced soon");
    }
    let known = metadata.subject_alt_name.as_deref().unwrap_or_default();
    let missing = options.advertise.iter().find(|name| {
        let entries = [format!("DNS:{}", name.to_ascii_lowercase()), format!("IP:{name}")];
        !known
            .split(',')
            .any(|entry| entries.iter().any(|wanted| wanted == entry))
    });
    if let Some(name) = missing
        && metadata.source == TLS_SOURCE_GENERATED
    {
        warn!(
            name,
            "the certificate was made before this name was advertised and lacks it"
        );
    }
}

/// The form of [`secret::PAIRING_IDENTITY`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PairingIdentity {
    public_key: String,
    private_key: String,
}

impl Drop for PairingIdentity {
    fn drop(&mut self) {
        self.private_key.zeroize();
    }
}

/// The controller's own key pair, made on first use.
pub(crate) async fn pairing_identity(secrets: &dyn Secrets) -> Result<KeyPair, ControllerError> {
    if let Some(stored) = secrets.get(secret::PAIRING_IDENTITY).await? {
        let invalid = |_| ControllerError::PairingIdentityInvalid;
        // The error is dropped here: it could quote the text.
        let identity: PairingIdentity =
            serde_json::from_str(stored.expose()).map_err(|_| ControllerError::PairingIdentityInvalid)?;
        let pair = KeyPair::from_private_pem(&identity.private_key).map_err(invalid)?;
        if pair.public_pem() != identity.public_key {
            return Err(ControllerError::PairingIdentityInvalid);
        }
        return Ok(pair);
    }
    let pair = KeyPair::generate()?;
    let identity = PairingIdentity {
        public_key: pair.public_pem().to_owned(),
        private_key: pair.private_pem().to_string(),
    };
    let text = serde_json::to_string(&identity).map_err(|_| ControllerError::PairingIdentityInvalid)?;
    secrets.set(secret::PAIRING_IDENTITY, Secret::new(text)).await?;
    Ok(pair)
}
