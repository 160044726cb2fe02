//! The daemon's configuration: flags, the environment, and what they mean together.
//!
//! A flag wins over its variable. A blank variable counts as absent, as environment files leave them.

use crate::gateway::address::address;
use crate::gateway::proxy;
use anyhow::{Context, bail};
use clap::Args;
use goblin_files::TRAVERSAL_ENTRIES_DEFAULT;
use goblin_gateway::dial::Address;
use goblin_gateway::outbound::Outbound;
use goblin_identity::read_secret;
use goblin_journal::Sync;
use goblin_keys::Fingerprint;
use goblin_protocol::id::valid_gateway_id;
use goblin_protocol::limits::OPERATIONS_MAX;
use secrecy::SecretString;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Port of a controller whose address names none.
const PORT_DEFAULT: u16 = 443;

/// Flags of `node-goblin gateway`.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Without --controller the daemon serves standard input and output.

The enrolment token is never given on the command line: set BURROW_GATEWAY_ENROLLMENT_TOKEN, or name a file that holds it.
HTTPS_PROXY and NO_PROXY are honoured. RUST_LOG sets the level of the log on standard error.")]
pub struct GatewayArguments {
    /// Controller to connect to, tls://HOST[:PORT] [env: BURROW_GATEWAY_CONTROLLER_URL]
    #[arg(long, value_name = "URL")]
    controller: Option<String>,
    /// Id of this host [env: BURROW_GATEWAY_ID]
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Directory of the identity and the journal [env: BURROW_GATEWAY_STATE_DIR]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Journal file instead of operations.json in the state directory [env: BURROW_GATEWAY_JOURNAL_FILE]
    #[arg(long, value_name = "FILE")]
    journal_file: Option<PathBuf>,
    /// When journal records reach the disk: grouped (within 100 ms), always, never [env: BURROW_GATEWAY_JOURNAL_SYNC]
    #[arg(long, value_name = "WHEN")]
    journal_sync: Option<String>,
    /// Operations that may run at once, 256 unless given [env: BURROW_GATEWAY_MAX_OPERATIONS]
    #[arg(long, value_name = "N")]
    max_operations: Option<String>,
    /// Id of the controller, `controller` unless given [env: BURROW_GATEWAY_CONTROLLER_ID]
    #[arg(long, value_name = "ID")]
    controller_id: Option<String>,
    /// File that holds the enrolment token [env: BURROW_GATEWAY_ENROLLMENT_TOKEN_FILE]
    #[arg(long, value_name = "FILE")]
    enrollment_token_file: Option<PathBuf>,
    /// PEM file of authorities that the controller's certificate must pass [env: BURROW_GATEWAY_CA_FILE]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// PEM file of a client certificate [env: BURROW_GATEWAY_CERT_FILE]
    #[arg(long, value_name = "FILE")]
    cert_file: Option<PathBuf>,
    /// PEM file of the client certificate's key [env: BURROW_GATEWAY_KEY_FILE]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// SHA-256 of the controller's certificate, as its operator tells it [env: BURROW_GATEWAY_CONTROLLER_FINGERPRINT]
    #[arg(long, value_name = "HEX")]
    controller_fingerprint: Option<String>,
    /// Pair with a controller that cannot prove that its key belongs to its certificate [env: BURROW_GATEWAY_ALLOW_UNPROVEN_CONTROLLER=1]
    #[arg(long)]
    allow_unproven_controller: bool,
    /// Default budget of a directory traversal, 4000 unless given [env: BURROW_FILESYSTEM_TRAVERSAL_ENTRIES]
    #[arg(long, value_name = "N")]
    traversal_entries: Option<String>,
}

/// How the daemon is reached.
pub enum Transport {
    /// Standard input and output.
    Stdio,
    /// A connection to a controller.
    Outbound(Box<Outbound>),
}

/// All that the daemon is told.
pub struct Configuration {
    pub transport: Transport,
    pub state_directory: Option<PathBuf>,
    pub journal_file: Option<PathBuf>,
    pub journal_sync: Sync,
    pub max_operations: usize,
    pub traversal_entries: u64,
}

impl Configuration {
    /// Reads flags and environment. Every error names the flag or the variable.
    pub fn new(arguments: GatewayArguments, environment: &dyn Fn(&str) -> Option<OsString>) -> anyhow::Result<Self> {
        let variables = Variables { environment };
        let state_directory = variables.path(arguments.state_dir.clone(), "BURROW_GATEWAY_STATE_DIR");
        let journal_sync = match variables
            .text(arguments.journal_sync.clone(), "BURROW_GATEWAY_JOURNAL_SYNC")?
            .as_deref()
        {
            None | Some("grouped") => Sync::Grouped,
            Some("always") => Sync::Always,
            Some("never") => Sync::Never,
            Some(other) => {
                bail!("BURROW_GATEWAY_JOURNAL_SYNC (--journal-sync) is grouped, always or never, not {other:?}")
            }
        };
        let max_operations = variables.number(
            arguments.max_operations.clone(),
            "BURROW_GATEWAY_MAX_OPERATIONS",
            OPERATIONS_MAX as u64,
        )?;
        let traversal_entries = variables.number(
            arguments.traversal_entries.clone(),
            "BURROW_FILESYSTEM_TRAVERSAL_ENTRIES",
            TRAVERSAL_ENTRIES_DEFAULT,
        )?;
        let journal_file = variables.path(arguments.journal_file.clone(), "BURROW_GATEWAY_JOURNAL_FILE");
        let transport = match variables.text(arguments.controller.clone(), "BURROW_GATEWAY_CONTROLLER_URL")? {
            None => Transport::Stdio,
            Some(url) => {
                if state_directory.is_none() {
                    bail!("a controller needs a state directory: give --state-dir or BURROW_GATEWAY_STATE_DIR");
                }
                Transport::Outbound(Box::new(outbound(&arguments, &variables, &url)?))
            }
        };
        Ok(Self {
            transport,
            state_directory,
            journal_file,
            journal_sync,
            max_operations: max_operations.try_into().unwrap_or(usize::MAX),
            traversal_entries,
        })
    }
}

fn outbound(arguments: &GatewayArguments, variables: &Variables<'_>, url: &str) -> anyhow::Result<Outbound> {
    let address = controller_address(url)?;
    let gateway_id = variables
        .text(arguments.id.clone(), "BURROW_GATEWAY_ID")?
        .context("a controller needs the id of this host: give --id or BURROW_GATEWAY_ID")?;
    if !valid_gateway_id(&gateway_id) {
        bail!(
            "the id {gateway_id:?} is not valid: letters, digits, '.', '_' and '-', a letter or digit first, at most 255, not \"local\""
        );
    }
    let file = |flag: &Option<PathBuf>, name| variables.path(flag.clone(), name).map(|path| read(&path)).transpose();
    let secret = |flag: &Option<PathBuf>, name| {
        variables
            .path(flag.clone(), name)
            .map(|path| read_secret(&path))
            .transpose()
    };
    let ca_pem = file(&arguments.ca_file, "BURROW_GATEWAY_CA_FILE")?.map(|text| text.to_string());
    let certificate = file(&arguments.cert_file, "BURROW_GATEWAY_CERT_FILE")?;
    let client_certificate = match (certificate, secret(&arguments.key_file, "BURROW_GATEWAY_KEY_FILE")?) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate.to_string(), key)),
        _ => bail!(
            "a client certificate and its key come together: BURROW_GATEWAY_CERT_FILE and BURROW_GATEWAY_KEY_FILE"
        ),
    };
    let token_file = secret(&arguments.enrollment_token_file, "BURROW_GATEWAY_ENROLLMENT_TOKEN_FILE")?;
    let token = match variables.text(None, "BURROW_GATEWAY_ENROLLMENT_TOKEN")? {
        Some(token) => Some(SecretString::from(token)),
        // An editor's final newline is no part of the token.
        None => token_file.map(|text| SecretString::from(text.trim_end_matches(['\r', '\n']).to_owned())),
    };
    let controller_fingerprint = variables
        .text(
            arguments.controller_fingerprint.clone(),
            "BURROW_GATEWAY_CONTROLLER_FINGERPRINT",
        )?
        .map(|text| text.parse::<Fingerprint>())
        .transpose()
        .context("BURROW_GATEWAY_CONTROLLER_FINGERPRINT (--controller-fingerprint)")?;
    let allow = variables.text(None, "BURROW_GATEWAY_ALLOW_UNPROVEN_CONTROLLER")?;
    let allow_unproven = match allow.as_deref() {
        None | Some("0" | "false") => arguments.allow_unproven_controller,
        Some("1" | "true") => true,
        Some(other) => bail!("BURROW_GATEWAY_ALLOW_UNPROVEN_CONTROLLER is 1 or 0, not {other:?}"),
    };
    Ok(Outbound {
        proxy: proxy::for_host(&address.host, &|name| {
            (variables.environment)(name).and_then(|value| value.into_string().ok())
        })?,
        address,
        gateway_id,
        controller_id: variables.text(arguments.controller_id.clone(), "BURROW_GATEWAY_CONTROLLER_ID")?,
        token,
        ca_pem,
        client_certificate,
        controller_fingerprint,
        allow_unproven,
        version: super::VERSION.to_owned(),
    })
}

/// `tls://HOST[:PORT]`, with brackets round an IPv6 address.
fn controller_address(url: &str) -> anyhow::Result<Address> {
    let rest = url
        .strip_prefix("tls://")
        .with_context(|| format!("the controller's address {url:?} does not begin with tls://"))?;
    address(rest.strip_suffix('/').unwrap_or(rest), PORT_DEFAULT)
        .with_context(|| format!("the controller's address {url:?} is not tls://HOST[:PORT]"))
}

fn read(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    std::fs::read_to_string(path)
        .map(Zeroizing::new)
        .with_context(|| format!("cannot read {}", path.display()))
}

struct Variables<'a> {
    environment: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Variables<'_> {
    fn text(&self, flag: Option<String>, name: &str) -> anyhow::Result<Option<String>> {
        if flag.is_some() {
            return Ok(flag);
        }
        match (self.environment)(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
            Some(Err(_)) => bail!("{name} is not valid UTF-8"),
        }
    }

    fn path(&self, flag: Option<PathBuf>, name: &str) -> Option<PathBuf> {
        flag.or_else(|| {
            (self.environment)(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        })
    }

    fn number(&self, flag: Option<String>, name: &str, default: u64) -> anyhow::Result<u64> {
        match self.text(flag, name)? {
            None => Ok(default),
            Some(text) => match text.parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => bail!("{name} is a positive integer, not {text:?}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, FromArgMatches, Parser};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: GatewayArguments,
    }

    fn configure(flags: &[&str], variables: &[(&str, &str)]) -> anyhow::Result<Configuration> {
        let matches = Line::command().get_matches_from(std::iter::once("gateway").chain(flags.iter().copied()));
        let line = Line::from_arg_matches(&matches).unwrap();
        Configuration::new(line.arguments, &|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.into())
        })
    }

    fn fault(flags: &[&str], variables: &[(&str, &str)]) -> String {
        format!("{:#}", configure(flags, variables).err().expect("a fault"))
    }

    #[test]
    fn without_a_controller_it_is_stdio() {
        let configuration = configure(&[], &[("BURROW_GATEWAY_CONTROLLER_URL", " ")]).unwrap();
        assert!(matches!(configuration.transport, Transport::Stdio));
        assert_eq!(
            (configuration.max_operations, configuration.traversal_entries),
            (256, 4000)
        );
        assert_eq!(configuration.journal_sync, Sync::Grouped);
    }

    #[test]
    fn flags_win_over_variables() {
        let variables = [
            ("BURROW_GATEWAY_CONTROLLER_URL", "tls://other:1"),
            ("BURROW_GATEWAY_ID", "host-1"),
            ("BURROW_GATEWAY_STATE_DIR", "/state"),
            ("BURROW_GATEWAY_MAX_OPERATIONS", "3"),
        ];
        let configuration = configure(&["--controller", "tls://[::1]:7443"], &variables).unwrap();
        let Transport::Outbound(outbound) = configuration.transport else {
            panic!()
        };
        assert_eq!(
            outbound.address,
            Address {
                host: "::1".into(),
                port: 7443
            }
        );
        assert_eq!(
            (outbound.gateway_id.as_str(), configuration.max_operations),
            ("host-1", 3)
        );
        assert_eq!(configuration.state_directory.unwrap(), Path::new("/state"));
    }

    #[test]
    fn addresses() {
        let host = |text| {
            controller_address(text)
                .ok()
                .map(|address| (address.host, address.port))
        };
        assert_eq!(host("tls://a.example"), Some(("a.example".into(), 443)));
        assert_eq!(host("tls://a.example:7443/"), Some(("a.example".into(), 7443)));
        assert_eq!(host("tls://[2001:db8::1]"), Some(("2001:db8::1".into(), 443)));
        assert_eq!(host("tls://2001:db8::1"), Some(("2001:db8::1".into(), 443)));
        for bad in [
            "https://a",
            "a:1",
            "tls://",
            "tls://a:0",
            "tls://a:x",
            "tls://a:99999",
            "tls://a b",
            "tls://[::1",
            "tls://u@a",
            "tls://a/b",
        ] {
            assert_eq!(host(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_fault_names_what_to_mend() {
        let network = ["--controller", "tls://a:1", "--state-dir", "/s"];
        assert!(fault(&["--controller", "tls://a:1", "--id", "x"], &[]).contains("--state-dir"));
        assert!(fault(&network, &[]).contains("BURROW_GATEWAY_ID"));
        assert!(fault(&network, &[("BURROW_GATEWAY_ID", "a/b")]).contains("a/b"));
        let with_id = [network.as_slice(), &["--id", "x"]].concat();
        assert!(fault(&with_id, &[("BURROW_GATEWAY_CA_FILE", "/no/such/file")]).contains("/no/such/file"));
        assert!(fault(&with_id, &[("BURROW_GATEWAY_CONTROLLER_FINGERPRINT", "xyz")]).contains("FINGERPRINT"));
        assert!(fault(&with_id, &[("BURROW_GATEWAY_ALLOW_UNPROVEN_CONTROLLER", "perhaps")]).contains("perhaps"));
        assert!(fault(&[], &[("BURROW_GATEWAY_MAX_OPERATIONS", "0")]).contains("MAX_OPERATIONS"));
        assert!(fault(&[], &[("BURROW_GATEWAY_JOURNAL_SYNC", "often")]).contains("often"));
    }
}
