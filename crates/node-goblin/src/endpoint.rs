//! Which controller a command talks to: flags, then the environment, then the default login, else the one on this
//! machine.

use crate::api::{Api, ApiUrl, Remote};
use crate::place::{Place, STATE_DIR};
use crate::profiles::{self, Profile, Profiles, Token};
use anyhow::{Context, bail};
use clap::Args;
use goblin_keys::Fingerprint;
use goblin_keys::tls::ClientTrust;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const URL: &str = "NODE_GOBLIN_URL";
const TOKEN: &str = "NODE_GOBLIN_TOKEN";
const PROFILE: &str = "NODE_GOBLIN_PROFILE";

/// Longest file of certificates, in bytes.
const CA_MAX: u64 = 1024 * 1024;

/// Which controller is meant. Never holds a token: those are no arguments.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Which controller")]
pub struct Endpoint {
    #[command(flatten)]
    pub place: Place,
    /// URL of the API, http or https; unless given $NODE_GOBLIN_URL. The token is that of $NODE_GOBLIN_TOKEN, else of the login of the same URL
    #[arg(long, value_name = "URL", value_parser = ApiUrl::parse, global = true)]
    pub url: Option<ApiUrl>,
    /// Name of a login; unless given $NODE_GOBLIN_PROFILE, else the last one
    #[arg(long, value_name = "NAME", value_parser = profiles::name, global = true)]
    pub profile: Option<String>,
    /// File of the authority that the certificate must come from, PEM; the system's authorities unless given
    #[arg(long, value_name = "FILE", global = true)]
    pub ca_file: Option<PathBuf>,
    /// Send the token over http to another machine, where everybody on the way can read it
    #[arg(long, global = true)]
    pub insecure_http: bool,
}

/// What was chosen.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Local,
    Url { url: ApiUrl, token: Option<Token> },
    Profile(String),
}

impl Endpoint {
    /// The local controller of a state directory.
    pub fn local(state_dir: PathBuf) -> Self {
        Self {
            place: Place {
                state_dir: Some(state_dir),
            },
            ..Self::default()
        }
    }

    /// Its API.
    pub fn api(&self) -> anyhow::Result<Api> {
        self.api_in(&|name| std::env::var_os(name))
    }

    fn api_in(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> anyhow::Result<Api> {
        let directory = profiles::directory(variable);
        // Not read where it does not matter: a damaged file does not keep from the local controller.
        let profiles = || {
            directory
                .as_deref()
                .map_or_else(|| Ok(Profiles::default()), Profiles::read)
        };
        match self.choice(variable, &|| Ok(profiles()?.default))? {
            Choice::Local => Ok(Api::local(&self.place.directory()?)),
            Choice::Profile(name) => {
                let profiles = profiles()?;
                self.of_profile(profiles.named(&name)?)
                    .with_context(|| format!("profile {name}"))
            }
            Choice::Url { url, token } => {
                let profiles = profiles()?;
                let same = |profile: &&Profile| ApiUrl::parse(&profile.url).is_ok_and(|of| of == url);
                let known = profiles.profiles.values().find(same);
                let token = token.as_ref().or(known.map(|known| &known.token));
                self.remote(url, token, known)
            }
        }
    }

    fn choice(
        &self,
        variable: &dyn Fn(&str) -> Option<OsString>,
        default: &dyn Fn() -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<Choice> {
        let text = |name: &str| -> anyhow::Result<Option<String>> {
            match variable(name)
                .filter(|value| !value.is_empty())
                .map(OsString::into_string)
            {
                None => Ok(None),
                Some(Ok(value)) => Ok(Some(value)),
                Some(Err(_)) => bail!("{name} is not UTF-8"),
            }
        };
        let token = || -> anyhow::Result<Option<Token>> {
            text(TOKEN)?.map(|token| Token::read(&token)).transpose().context(TOKEN)
        };
        match (&self.url, &self.profile, &self.place.state_dir) {
            (Some(url), None, None) => {
                return Ok(Choice::Url {
                    url: url.clone(),
                    token: token()?,
                });
            }
            (None, Some(name), None) => return Ok(Choice::Profile(name.clone())),
            (None, None, Some(_)) => return Ok(Choice::Local),
            (None, None, None) => {}
            _ => bail!("--url, --profile and --state-dir mean different controllers: give one of them"),
        }
        if let Some(url) = text(URL)? {
            let url = ApiUrl::parse(&url).map_err(anyhow::Error::msg).context(URL)?;
            return Ok(Choice::Url { url, token: token()? });
        }
        if let Some(name) = text(PROFILE)? {
            return Ok(Choice::Profile(name));
        }
        if text(STATE_DIR)?.is_some() {
            return Ok(Choice::Local);
        }
        Ok(default()?.map_or(Choice::Local, Choice::Profile))
    }

    fn of_profile(&self, profile: &Profile) -> anyhow::Result<Api> {
        let url = ApiUrl::parse(&profile.url).map_err(anyhow::Error::msg)?;
        self.remote(url, Some(&profile.token), Some(profile))
    }

    fn remote(&self, url: ApiUrl, token: Option<&Token>, known: Option<&Profile>) -> anyhow::Result<Api> {
        let ca_file = self
            .ca_file
            .as_deref()
            .or(known.and_then(|known| known.ca_file.as_deref()));
        let pinned = known.and_then(|known| known.fingerprint.as_deref());
        let trust = trust(pinned, ca_file)?;
        let insecure = self.insecure_http || known.is_some_and(|known| known.insecure_http);
        let remote = Remote::new(url, &trust, token.map(Token::expose), insecure)?;
        Ok(Api::remote(remote))
    }

    /// The first words of a command line that means the same controller.
    pub fn command(&self, name: &str) -> Vec<String> {
        let mut words = self.place.command(name);
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if let Some(url) = &self.url {
            flag("--url", url.to_string());
        }
        if let Some(profile) = &self.profile {
            flag("--profile", profile.clone());
        }
        if let Some(file) = &self.ca_file {
            flag("--ca-file", file.display().to_string());
        }
        if self.insecure_http {
            words.push("--insecure-http".to_owned());
        }
        words
    }
}

/// What a certificate is judged by.
pub fn trust(pinned: Option<&str>, ca_file: Option<&Path>) -> anyhow::Result<ClientTrust> {
    let ca_pem = ca_file.map(read_ca).transpose()?;
    Ok(match (pinned, ca_pem) {
        (Some(fingerprint), ca_pem) => ClientTrust::Pinned {
            fingerprint: Fingerprint::parse(fingerprint)?,
            ca_pem,
        },
        (None, Some(pem)) => ClientTrust::Ca { pem },
        (None, None) => ClientTrust::SystemRoots,
    })
}

fn read_ca(path: &Path) -> anyhow::Result<String> {
    use std::io::Read;
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        std::fs::File::open(path)?.take(CA_MAX).read_to_string(&mut text)?;
        Ok(text)
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        endpoint: Endpoint,
    }

    fn choice(words: &[&str], variables: &[(&str, &str)], default: Option<&str>) -> anyhow::Result<Choice> {
        let line = Line::try_parse_from(["x"].iter().chain(words))?;
        let variable = |name: &str| {
            let known = variables.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| OsString::from(value))
        };
        line.endpoint.choice(&variable, &|| Ok(default.map(str::to_owned)))
    }

    fn at(url: &str, token: Option<&str>) -> Choice {
        Choice::Url {
            url: ApiUrl::parse(url).unwrap(),
            token: token.map(|token| Token::read(token).unwrap()),
        }
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_default_login() {
        let everything = [
            (URL, "http://127.0.0.1:1"),
            (TOKEN, "t"),
            (PROFILE, "e"),
            (STATE_DIR, "/s"),
        ];
        let of = |words: &[&str], skipped: usize| choice(words, &everything[skipped..], Some("d")).unwrap();
        assert_eq!(of(&["--url", "http://[::1]:2"], 0), at("http://[::1]:2", Some("t")));
        assert_eq!(of(&["--profile", "p"], 0), Choice::Profile("p".into()));
        assert_eq!(of(&["--state-dir", "/x"], 0), Choice::Local);
        assert_eq!(of(&[], 0), at("http://127.0.0.1:1", Some("t")));
        assert_eq!(of(&[], 1), Choice::Profile("e".into()), "a token alone means nothing");
        assert_eq!(of(&[], 3), Choice::Local);
        assert_eq!(of(&[], 4), Choice::Profile("d".into()));
        assert_eq!(choice(&[], &[(URL, "")], None).unwrap(), Choice::Local);
    }

    #[test]
    fn what_contradicts_itself_or_cannot_be_is_said() {
        assert!(choice(&["--url", "http://h", "--profile", "p"], &[], None).is_err());
        assert!(choice(&["--url", "http://h", "--state-dir", "/x"], &[], None).is_err());
        assert!(choice(&["--url", "nonsense"], &[], None).is_err());
        let fault = format!(
            "{:#}",
            choice(&[], &[(URL, "http://h"), (TOKEN, "a b")], None).unwrap_err()
        );
        assert!(fault.starts_with(TOKEN) && !fault.contains("a b"), "{fault}");
    }

    fn api(words: &[&str], variables: &[(&str, &str)]) -> anyhow::Result<Api> {
        let line = Line::try_parse_from(["x"].iter().chain(words))?;
        line.endpoint.api_in(&|name| {
            let known = variables.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn a_token_crosses_no_network_in_the_clear() {
        let home = tempfile::tempdir().unwrap();
        let config = home.path().to_str().unwrap();
        let variables = [("XDG_CONFIG_HOME", config), (URL, "http://10.0.0.1"), (TOKEN, "t")];
        let fault = format!("{:#}", api(&[], &variables).unwrap_err());
        assert!(
            fault.contains("unencrypted") && fault.contains("--insecure-http"),
            "{fault}"
        );
        assert!(api(&["--insecure-http"], &variables).is_ok());
        assert!(api(&["--url", "http://127.0.0.1"], &variables).is_ok());
        assert!(
            api(&[], &variables[..2]).is_ok(),
            "without a token there is nothing to hide"
        );
    }

    #[test]
    fn the_login_of_a_url_serves_that_url_alone() {
        let home = tempfile::tempdir().unwrap();
        let profiles = Profiles {
            default: Some("p".into()),
            profiles: [("p".to_owned(), profiles::tests::profile("http://10.0.0.1:80", "secret"))].into(),
            ..Profiles::default()
        };
        profiles.write(&home.path().join("node-goblin")).unwrap();
        let variables = [("XDG_CONFIG_HOME", home.path().to_str().unwrap())];
        // Each refusal shows that the login's token would have been sent.
        for words in [&[][..], &["--profile", "p"], &["--url", "http://10.0.0.1"]] {
            assert!(format!("{:#}", api(words, &variables).unwrap_err()).contains("unencrypted"));
        }
        for other in ["http://10.0.0.1:81", "http://10.0.0.1/base", "http://10.0.0.2"] {
            assert!(api(&["--url", other], &variables).is_ok(), "{other}");
        }
        let fault = format!("{:#}", api(&["--profile", "q"], &variables).unwrap_err());
        assert!(fault.contains("there are: p"), "{fault}");
    }

    #[test]
    fn the_same_controller_again() {
        let line = Line::parse_from(["x", "--url", "https://h", "--ca-file", "/ca", "--insecure-http"]);
        assert_eq!(
            line.endpoint.command("exec").join(" "),
            "node-goblin exec --url https://h:443 --ca-file /ca --insecure-http"
        );
    }
}
