//! `node-goblin login`: keeps a controller's URL, how its certificate is judged, and a token, after trying them.

use crate::api::{Api, ApiError, ApiUrl, ReachError, Remote, shown_fingerprint};
use crate::interrupts::Interrupts;
use crate::profiles::{self, Profile, Profiles, Token};
use crate::terminal::{self, GOOD, STRONG, Table, paint, safe};
use crate::{endpoint, runtime};
use anstyle::Style;
use anyhow::{Context, bail};
use clap::Args;
use goblin_api::{GatewaysAnswer, routes};
use goblin_keys::Fingerprint;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use zeroize::Zeroizing;

/// Longest token file, in bytes.
const TOKEN_FILE_MAX: u64 = 64 * 1024;

/// Flags of `node-goblin login`.
#[derive(Debug, Args)]
#[command(after_help = "\
The token is typed unseen, or read from standard input or --token-file; it is no argument, because those are seen by every \
process of the machine. It is tried, then kept in ~/.config/node-goblin/profiles.json, which only you can read. Commands go \
to the last login unless another controller is named. On the controller's own machine `node-goblin tokens create NAME` makes \
a token.

A certificate that no authority of this system vouches for is shown by its fingerprint and taken when you confirm it, or \
when it is the one of --fingerprint; from then on no other is taken.

Without a URL the logins are listed.

Examples:
  node-goblin login https://goblin.example.org:7480
  node-goblin login https://10.0.0.5:7480 --name lab --fingerprint 3f5a… < token.txt
  node-goblin login

Exit codes: 0, or 1 when nothing was kept.")]
pub struct LoginArguments {
    /// URL of the API
    #[arg(value_parser = ApiUrl::parse)]
    url: Option<ApiUrl>,
    /// Name of the login; the URL's host unless given
    #[arg(long, value_parser = profiles::name, requires = "url")]
    name: Option<String>,
    /// File that holds the token
    #[arg(long, value_name = "FILE", requires = "url")]
    token_file: Option<PathBuf>,
    /// SHA-256 fingerprint that the certificate must have
    #[arg(long, value_name = "HEX", value_parser = Fingerprint::parse, requires = "url")]
    fingerprint: Option<Fingerprint>,
    /// File of the authority that the certificate must come from, PEM
    #[arg(long, value_name = "FILE", requires = "url")]
    ca_file: Option<PathBuf>,
    /// Send the token over http to another machine, where everybody on the way can read it
    #[arg(long, requires = "url")]
    insecure_http: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Logs in, or lists the logins.
pub fn run(arguments: LoginArguments) -> anyhow::Result<ExitCode> {
    let directory = profiles::directory(&|name| std::env::var_os(name))
        .context("there is no home directory to keep logins in: set HOME or XDG_CONFIG_HOME")?;
    let Some(url) = arguments.url.clone() else {
        list(&Profiles::read(&directory)?, arguments.json)?;
        return Ok(ExitCode::SUCCESS);
    };
    // Before anything is asked, so that nothing is typed in vain.
    let mut profiles = Profiles::read(&directory)?;
    let name = arguments.name.clone().unwrap_or_else(|| host_name(&url));
    let profile = runtime::single()?.block_on(async {
        let mut interrupts = Interrupts::watch()?;
        interrupts.unless_stopped(log_in(&arguments, url)).await
    })?;
    let pinned = profile.fingerprint.is_some();
    let shown = profile.url.clone();
    profiles.profiles.insert(name.clone(), profile);
    profiles.default = Some(name.clone());
    profiles.write(&directory)?;
    if arguments.json {
        terminal::line(json!({"profile": name, "url": shown, "pinned": pinned}))?;
    } else {
        terminal::line(format_args!(
            "{} logged in to {shown} as profile {name}; commands go there until another login, or `node-goblin logout`",
            paint(GOOD, "✓")
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A profile's name out of a URL's host.
fn host_name(url: &ApiUrl) -> String {
    url.host.replace(
        |letter: char| !letter.is_ascii_alphanumeric() && !matches!(letter, '.' | '-' | '_'),
        "-",
    )
}

async fn log_in(arguments: &LoginArguments, url: ApiUrl) -> anyhow::Result<Profile> {
    let ca_file = arguments.ca_file.as_deref().map(std::path::absolute).transpose()?;
    let fingerprint = match url.https {
        true => judged(&url, arguments.fingerprint, ca_file.as_deref()).await?,
        false if arguments.fingerprint.is_some() || ca_file.is_some() => bail!("{url} has no certificate: use https"),
        false => None,
    };
    let fingerprint = fingerprint.map(|fingerprint| fingerprint.to_hex());
    let trust = endpoint::trust(fingerprint.as_deref(), ca_file.as_deref())?;
    // A network in the clear is refused before a token is asked for.
    Remote::new(url.clone(), &trust, Some("-"), arguments.insecure_http)?;
    let text = match &arguments.token_file {
        Some(path) => read_token(path)?,
        None => terminal::secret("Token").await.context("cannot read the token")?,
    };
    let token = Token::read(&text)?;
    let remote = Remote::new(url.clone(), &trust, Some(token.expose()), arguments.insecure_http)?;
    let tried = Api::remote(remote).get::<GatewaysAnswer>(&routes::gateways()).await;
    tried.map_err(|error| match error {
        ApiError::Refused { status: 401, .. } => {
            anyhow::anyhow!("the controller does not take the token: it is wrong, revoked or expired (unauthorized)")
        }
        other => other.into(),
    })?;
    Ok(Profile {
        url: url.to_string(),
        token,
        fingerprint,
        ca_file,
        insecure_http: arguments.insecure_http,
    })
}

fn read_token(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    use std::io::Read;
    let mut text = Zeroizing::new(String::new());
    let read = std::fs::File::open(path).and_then(|file| file.take(TOKEN_FILE_MAX).read_to_string(&mut text));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text)
}

/// Judges the certificate; gives the fingerprint that is to be pinned, where no authority vouches for it.
async fn judged(
    url: &ApiUrl,
    given: Option<Fingerprint>,
    ca_file: Option<&Path>,
) -> anyhow::Result<Option<Fingerprint>> {
    if let Some(given) = given {
        let found = shown_fingerprint(url).await?;
        if found != given {
            bail!(
                "the certificate of {url} has the fingerprint {found}, not the given one: nothing was sent. Somebody may stand between"
            );
        }
        return Ok(Some(given));
    }
    let vouched = match endpoint::trust(None, ca_file) {
        Ok(trust) => match Remote::new(url.clone(), &trust, None, false) {
            Ok(remote) => remote.connect().await.map(drop),
            Err(error) => Err(error),
        },
        Err(error) => return Err(error),
    };
    match vouched {
        Ok(()) => return Ok(None),
        // A system without authorities vouches for nobody.
        Err(ReachError::Certificate { .. } | ReachError::Tls(_)) if ca_file.is_none() => {}
        Err(error) => return Err(error.into()),
    }
    let found = shown_fingerprint(url).await?;
    terminal::note(format_args!(
        "No authority vouches for the certificate of {url}. This is its SHA-256 fingerprint:\n  {}",
        paint(STRONG, found)
    ));
    if !terminal::can_ask() {
        bail!(
            "nobody can be asked here whether it is the right one: compare it on the controller's machine, then give --fingerprint"
        );
    }
    match terminal::confirm("Does the controller's machine show the same?").await {
        true => Ok(Some(found)),
        false => bail!("nothing was sent and nothing was kept"),
    }
}

fn list(profiles: &Profiles, json: bool) -> anyhow::Result<()> {
    if json {
        let listed: Vec<_> = profiles
            .profiles
            .iter()
            .map(|(name, profile)| {
                json!({"profile": name, "url": profile.url, "default": profiles.default.as_ref() == Some(name),
                    "fingerprint": profile.fingerprint})
            })
            .collect();
        return Ok(terminal::line(json!({ "profiles": listed }))?);
    }
    if profiles.profiles.is_empty() {
        terminal::note(
            "There is no login: commands go to the controller on this machine. `node-goblin login URL` makes one.",
        );
        return Ok(());
    }
    Ok(terminal::line(table(profiles))?)
}

fn table(profiles: &Profiles) -> Table {
    let mut table = Table::new(["PROFILE", "URL", "CERTIFICATE", ""]);
    for (name, profile) in &profiles.profiles {
        let certificate = match (&profile.fingerprint, &profile.ca_file) {
            (Some(fingerprint), _) => format!("{}…", safe(fingerprint.get(..16).unwrap_or(fingerprint))),
            (None, Some(file)) => safe(&file.display().to_string()),
            (None, None) if profile.url.starts_with("https:") => "system".to_owned(),
            (None, None) => "none".to_owned(),
        };
        let default = profiles.default.as_ref() == Some(name);
        table.row([
            (STRONG, safe(name)),
            (Style::new(), safe(&profile.url)),
            (Style::new(), certificate),
            (GOOD, if default { "default" } else { "" }.to_owned()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests;
