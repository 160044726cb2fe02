//! What an installed service is told: the variables of its environment file that an operator's command goes by.

use crate::host::address;
use crate::host::env_file::EnvFile;
use crate::host::layout::{Layout, STATE_DIRECTORY};
use anyhow::Context;
use goblin_gateway::dial::Address;
use std::path::PathBuf;

/// Variable of the controller's address.
pub const CONTROLLER_URL: &str = "BURROW_GATEWAY_CONTROLLER_URL";

/// Variable of this host's id.
pub const GATEWAY_ID: &str = "BURROW_GATEWAY_ID";

const STATE_DIR: &str = "BURROW_GATEWAY_STATE_DIR";

/// The settings of a host.
pub struct Settings {
    file: EnvFile,
    layout: Layout,
}

impl Settings {
    /// Reads the environment file; without one nothing is set.
    pub fn read(layout: &Layout) -> anyhow::Result<Self> {
        let file = EnvFile::read(&layout.env_file()).context("the configuration can't be read")?;
        Ok(Self {
            file,
            layout: layout.clone(),
        })
    }

    /// The controller, when one is configured; an error when its address can't be one.
    pub fn controller(&self) -> anyhow::Result<Option<Address>> {
        self.file.filled(CONTROLLER_URL).map(address::configured).transpose()
    }

    /// The controller's address as it stands in the file.
    pub fn controller_url(&self) -> Option<&str> {
        self.file.filled(CONTROLLER_URL)
    }

    /// This host's id.
    pub fn gateway_id(&self) -> Option<&str> {
        self.file.filled(GATEWAY_ID)
    }

    /// The state directory, below the root.
    pub fn state_directory(&self) -> PathBuf {
        self.layout.path(self.file.filled(STATE_DIR).unwrap_or(STATE_DIRECTORY))
    }

    /// Any other variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.file.filled(name)
    }

    /// A file that a variable names, below the root.
    pub fn file(&self, name: &str) -> Option<PathBuf> {
        self.file.filled(name).map(|path| self.layout.path(path))
    }
}
