//! `node-goblin logout`: forgets a login.

use crate::profiles::{self, Profiles};
use crate::terminal;
use anyhow::Context;
use clap::Args;
use serde_json::json;
use std::process::ExitCode;

/// Flags of `node-goblin logout`.
#[derive(Debug, Args)]
#[command(after_help = "\
The token is removed from this machine; it holds on until it expires or `node-goblin tokens revoke` revokes it. After the \
default login is gone, commands go to the controller on this machine.

Examples:
  node-goblin logout
  node-goblin logout lab

Exit codes: 0, or 1 when there was no such login.")]
pub struct LogoutArguments {
    /// Name of the login; the default one unless given
    #[arg(value_parser = profiles::name)]
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Forgets a login.
pub fn run(arguments: &LogoutArguments) -> anyhow::Result<ExitCode> {
    let directory = profiles::directory(&|name| std::env::var_os(name))
        .context("there is no home directory that could hold logins")?;
    let mut profiles = Profiles::read(&directory)?;
    let name = forget(&mut profiles, arguments.name.as_deref())?;
    profiles.write(&directory)?;
    match arguments.json {
        true => terminal::line(json!({"profile": name, "forgotten": true}))?,
        false => terminal::line(format_args!(
            "forgot profile {name}; its token holds until it expires or is revoked"
        ))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn forget(profiles: &mut Profiles, name: Option<&str>) -> anyhow::Result<String> {
    let name = name
        .or(profiles.default.as_deref())
        .context("there is no login to forget")?
        .to_owned();
    profiles.named(&name)?;
    profiles.profiles.remove(&name);
    if profiles.default.as_ref() == Some(&name) {
        profiles.default = None;
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_login_is_forgotten_unless_another_is_named() {
        let of = |name: &str| (name.to_owned(), profiles::tests::profile("https://h:443", "t"));
        let mut profiles = Profiles {
            default: Some("a".into()),
            profiles: [of("a"), of("b"), of("c")].into(),
            ..Profiles::default()
        };
        assert_eq!(forget(&mut profiles, Some("b")).unwrap(), "b");
        assert_eq!(profiles.default.as_deref(), Some("a"));
        assert_eq!(forget(&mut profiles, None).unwrap(), "a");
        assert_eq!((profiles.default.as_deref(), profiles.profiles.len()), (None, 1));
        assert!(forget(&mut profiles, None).is_err() && forget(&mut profiles, Some("b")).is_err());
    }
}
