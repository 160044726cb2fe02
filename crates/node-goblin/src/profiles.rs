//! The file of logins: named controllers with their tokens, readable by its owner alone. It must never know how a
//! controller is reached.

use anyhow::{Context, bail};
use goblin_identity::private_file::{Privacy, PrivateDirectory};
use goblin_protocol::json;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use zeroize::{Zeroize, Zeroizing};

/// Name of the file.
const FILE: &str = "profiles.json";

/// The only version of its form.
const VERSION: u32 = 1;

/// A token at rest. Prints nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// Takes what was typed or read: one line of visible ASCII.
    pub fn read(text: &str) -> anyhow::Result<Self> {
        let text = text.trim();
        if text.is_empty() {
            bail!("no token was given");
        }
        // The text may be a secret, so it is not repeated.
        if text.len() > 4_096 || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!("this is no token: a token is one line of visible characters");
        }
        Ok(Self(text.to_owned()))
    }

    /// The secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(withheld)")
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// One login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// URL of the API.
    pub url: String,
    /// What is shown there.
    pub token: Token,
    /// SHA-256 of the certificate that was confirmed at login, and only that one passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// File of the authority that its certificate must come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The token may cross a network in the clear.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure_http: bool,
}

/// All logins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Profiles {
    /// Of the form of the file.
    pub version: u32,
    /// The one that counts where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// By name.
    #[serde(default)]
    pub profiles: BTreeMap<String, Profile>,
}

impl Profiles {
    /// Reads the file; none is an empty one. One that others may read is an error.
    pub fn read(directory: &Path) -> anyhow::Result<Self> {
        if !directory.exists() {
            return Ok(Self::default());
        }
        let Some(text) = PrivateDirectory::open_existing(directory)?.read(FILE, Privacy::Secret)? else {
            return Ok(Self::default());
        };
        let path = directory.join(FILE);
        let profiles: Self = json::from_text(&text).with_context(|| format!("{} cannot be read", path.display()))?;
        match profiles.version {
            VERSION => Ok(profiles),
            version => bail!(
                "{} has version {version}, and this program knows {VERSION}",
                path.display()
            ),
        }
    }

    /// Replaces the file, with mode 0600.
    pub fn write(&self, directory: &Path) -> anyhow::Result<()> {
        let private = PrivateDirectory::open(directory, &[FILE])?;
        // What is there already must not have been open to others: its tokens would be known.
        private.check(FILE, Privacy::Secret)?;
        let written = Self {
            version: VERSION,
            ..self.clone()
        };
        let text = Zeroizing::new(serde_json::to_string_pretty(&written)?);
        Ok(private.write(FILE, text.as_bytes())?)
    }

    /// The profile of this name, with it.
    pub fn named(&self, name: &str) -> anyhow::Result<&Profile> {
        let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
        self.profiles.get(name).with_context(|| match known.is_empty() {
            true => format!("there is no profile {name}, nor any other; `node-goblin login URL` makes one"),
            false => format!("there is no profile {name}; there are: {}", known.join(", ")),
        })
    }
}

/// A profile's name as an argument.
pub fn name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    match (1..=255).contains(&text.len()) && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("a name has letters, digits, '.', '_' and '-', at most 255".to_owned()),
    }
}

/// The directory of the file: `$XDG_CONFIG_HOME/node-goblin`, else below the home.
pub fn directory(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configuration = set("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let configuration = configuration.or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(configuration.join("node-goblin"))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    pub fn profile(url: &str, token: &str) -> Profile {
        Profile {
            url: url.to_owned(),
            token: Token::read(token).unwrap(),
            fingerprint: None,
            ca_file: None,
            insecure_http: false,
        }
    }

    fn one() -> Profiles {
        Profiles {
            default: Some("p".into()),
            profiles: [("p".to_owned(), profile("https://h:443", "ng_hunter2"))].into(),
            ..Profiles::default()
        }
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_file_is_private_and_comes_back() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("a").join("node-goblin");
        assert_eq!(Profiles::read(&directory).unwrap(), Profiles::default());
        one().write(&directory).unwrap();
        assert_eq!((mode(&directory), mode(&directory.join(FILE))), (0o700, 0o600));
        let read = Profiles::read(&directory).unwrap();
        assert_eq!(read.profiles, one().profiles);
        assert!(!format!("{read:?}").contains("hunter2"));
    }

    #[test]
    fn a_file_that_others_may_read_is_neither_read_nor_replaced() {
        let home = tempfile::tempdir().unwrap();
        one().write(home.path()).unwrap();
        let file = home.path().join(FILE);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        for fault in [
            Profiles::read(home.path()).unwrap_err(),
            one().write(home.path()).unwrap_err(),
        ] {
            let fault = format!("{fault:#}");
            assert!(fault.contains("profiles.json") && fault.contains("640"), "{fault}");
        }
        assert_eq!(mode(&file), 0o640);
    }

    #[test]
    fn a_file_of_another_form_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(FILE);
        for text in ["", "[]", "{\"version\":2}", "{\"version\":1,\"profiles\":{\"x\":{}}}"] {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
            assert!(Profiles::read(home.path()).is_err(), "{text}");
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        }
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert!(Profiles::read(home.path()).is_err());
    }

    #[test]
    fn what_is_no_token_is_refused_without_repeating_it() {
        assert_eq!(Token::read(" ng_x\n").unwrap().expose(), "ng_x");
        for bad in ["", "\n", "a b", "a\nb", "é", "a\u{7}"] {
            let fault = Token::read(bad).unwrap_err().to_string();
            assert!(fault.contains("token") && !fault.contains("a b"), "{fault}");
        }
    }

    #[test]
    fn the_directory_follows_the_conventions() {
        let found = |variables: &[(&str, &str)]| {
            directory(&|name| {
                let known = variables.iter().find(|(known, _)| *known == name);
                known.map(|(_, value)| value.into())
            })
        };
        assert_eq!(found(&[("HOME", "/h")]), Some("/h/.config/node-goblin".into()));
        assert_eq!(
            found(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c")]),
            Some("/c/node-goblin".into())
        );
        assert_eq!(
            found(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "c")]),
            Some("/h/.config/node-goblin".into())
        );
        assert_eq!(found(&[]), None);
    }
}
