//! Where a controller keeps its state, which is also where its commands find it.

use anyhow::Context;
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names the state directory where no flag does.
pub const STATE_DIR: &str = "NODE_GOBLIN_STATE_DIR";

/// Which controller is meant.
#[derive(Clone, Debug, Default, Args)]
pub struct Place {
    /// State directory of the controller; unless given $NODE_GOBLIN_STATE_DIR, else $STATE_DIRECTORY, else ~/.local/state/node-goblin/controller
    #[arg(long, value_name = "DIR", global = true)]
    pub state_dir: Option<PathBuf>,
}

impl Place {
    /// The directory.
    pub fn directory(&self) -> anyhow::Result<PathBuf> {
        let named = self
            .state_dir
            .clone()
            .or_else(|| std::env::var_os(STATE_DIR).map(PathBuf::from));
        match named {
            Some(directory) if !directory.as_os_str().is_empty() => Ok(directory),
            _ => default_directory(&|name| std::env::var_os(name))
                .context("there is no home directory to keep state in: give --state-dir DIR"),
        }
    }

    /// The first words of a command line that means the same controller.
    pub fn command(&self, name: &str) -> Vec<String> {
        let mut words = vec!["node-goblin".to_owned(), name.to_owned()];
        if let Some(directory) = &self.state_dir {
            words.extend(["--state-dir".to_owned(), directory.display().to_string()]);
        }
        words
    }
}

/// `$STATE_DIRECTORY` as service managers set it (the first one), else below `$XDG_STATE_HOME`, else below the home.
fn default_directory(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(directories) = set("STATE_DIRECTORY") {
        return std::env::split_paths(&directories).next();
    }
    let below = |directory: &Path| directory.join("node-goblin").join("controller");
    match set("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
    {
        Some(state) => Some(below(&state)),
        None => set("HOME").map(|home| below(&PathBuf::from(home).join(".local").join("state"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<String> {
        let directory = default_directory(&|name| {
            let known = variables.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| value.into())
        });
        directory.map(|path| path.display().to_string())
    }

    #[test]
    fn the_service_manager_wins_over_the_user() {
        let home = ("HOME", "/home/u");
        assert_eq!(
            found(&[home]).as_deref(),
            Some("/home/u/.local/state/node-goblin/controller")
        );
        assert_eq!(
            found(&[home, ("XDG_STATE_HOME", "/state")]).as_deref(),
            Some("/state/node-goblin/controller")
        );
        assert_eq!(
            found(&[home, ("XDG_STATE_HOME", "relative"), ("STATE_DIRECTORY", "")]).as_deref(),
            Some("/home/u/.local/state/node-goblin/controller")
        );
        assert_eq!(
            found(&[home, ("STATE_DIRECTORY", "/var/lib/a:/var/lib/b")]).as_deref(),
            Some("/var/lib/a")
        );
        assert_eq!(found(&[]), None);
    }
}
