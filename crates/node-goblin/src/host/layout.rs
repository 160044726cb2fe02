//! Where an installed host keeps its things, below `/` or below a staging root. It must never know what stands in them.

use anyhow::bail;
use std::path::{Path, PathBuf};

/// Name of the service's unit.
pub const UNIT: &str = "burrow-host-gateway.service";

/// The account that the service runs as, user and group.
pub const ACCOUNT: &str = "burrow";

/// Variable that selects a staging root.
const ROOT_VARIABLE: &str = "BURROW_GATEWAY_ROOT";

/// The service's state directory unless its environment file names another.
pub const STATE_DIRECTORY: &str = "/var/lib/burrow-host-gateway";

/// The root under which everything lies.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
    staging: bool,
}

impl Layout {
    /// By `BURROW_GATEWAY_ROOT`; without it, or with `/`, the machine itself.
    pub fn from_environment() -> anyhow::Result<Self> {
        let root = std::env::var_os(ROOT_VARIABLE).filter(|root| !root.is_empty());
        let root = PathBuf::from(root.unwrap_or_else(|| "/".into()));
        if !root.is_absolute() {
            bail!("{ROOT_VARIABLE} is an absolute path, not {}", root.display());
        }
        let staging = root != Path::new("/");
        if staging && !root.is_dir() {
            bail!("{ROOT_VARIABLE}: {} is no directory", root.display());
        }
        Ok(Self { root, staging })
    }

    /// True for a root other than the machine's own: there is no service then.
    pub fn is_staging(&self) -> bool {
        self.staging
    }

    /// Below the root.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let absolute = absolute.as_ref();
        self.root.join(absolute.strip_prefix("/").unwrap_or(absolute))
    }

    /// The configuration.
    pub fn env_file(&self) -> PathBuf {
        self.path("/etc/burrow-host-gateway/gateway.env")
    }

    /// The archive's own uninstaller.
    pub fn uninstaller(&self) -> PathBuf {
        self.path("/opt/burrow-host-gateway/uninstall.sh")
    }

    /// Refuses a command that needs the service.
    pub fn require_service(&self, command: &str) -> anyhow::Result<()> {
        if self.staging {
            bail!(
                "{command} speaks to the service, and there is none below {} ({ROOT_VARIABLE})",
                self.root.display()
            );
        }
        Ok(())
    }

    /// Refuses an account that can't do what an operator's command does on the machine itself.
    pub fn require_root(&self, command: &str) -> anyhow::Result<()> {
        if !self.staging && !rustix::process::geteuid().is_root() {
            bail!("{command} needs root: sudo node-goblin {command}");
        }
        Ok(())
    }

    #[cfg(test)]
    pub fn of(root: &Path, staging: bool) -> Self {
        Self {
            root: root.to_owned(),
            staging,
        }
    }
}
