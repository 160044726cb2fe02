//! `node-goblin controller`: putting the controller together and running it until it is told to end.

use crate::api::SOCKET_FILE;
use crate::interrupts::Interrupts;
use crate::place::Place;
use crate::{clock, logging, runtime, terminal, units};
use anyhow::Context;
use clap::{Args, ValueEnum};
use goblin_controller::{Controller, ControllerOptions, ListenAddress, Timing};
use goblin_http::{AuditLog, HttpOptions, HttpTls, Service, serve};
use goblin_protocol::time::iso8601;
use goblin_store::Store;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};
use zeroize::Zeroizing;

/// Longest certificate or key file, in bytes.
const PEM_MAX: u64 = 1024 * 1024;

/// Open files for some thousands of gateways and the requests about them.
const OPEN_FILES: u64 = 65_536;

/// Flags of `node-goblin controller`.
#[derive(Debug, Args)]
#[command(after_help = "\
Gateways dial in over TLS; the certificate is made at the first start and kept. The commands of this program talk to the \
controller through controller.sock in its state directory, which only its account and root may use.

Programs, pages and commands elsewhere use HTTP, on this machine alone unless --http says otherwise; they need a token, \
which is never printed by the controller. HTTP that others can reach is served with TLS only. Who asked for what is in \
audit.log in the state directory.

When it serves, its first line on standard output is `ready tls=HOST:PORT http=HOST:PORT`. SIGTERM, SIGINT and SIGHUP end it: requests \
that run may finish for 10 seconds, a second signal ends it at once. RUST_LOG sets the level of the log on standard error.

Examples:
  node-goblin controller
  node-goblin controller --listen 0.0.0.0:7443 --advertise goblin.example.org
  node-goblin controller --http 0.0.0.0:7480 --http-allow-host goblin.example.org
  node-goblin controller --state-dir /tmp/try --listen 127.0.0.1:0 --http off

Exit codes: 0 when it was told to end, 1 when it could not start.")]
pub struct ControllerArguments {
    #[command(flatten)]
    place: Place,
    /// Address that gateways connect to; port 0 lets the system choose
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7443")]
    listen: ListenAddress,
    /// Further name or address by which gateways reach it, for the generated certificate; can be repeated
    #[arg(long, value_name = "NAME", num_args = 1..)]
    advertise: Vec<String>,
    /// Address that HTTP is served on; port 0 lets the system choose, `off` serves none
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7480")]
    http: HttpAddress,
    /// TLS of HTTP: auto is on where others can reach it or a certificate is given; without one, the controller's is shown
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    http_tls: WhenTls,
    /// Certificate for HTTP, followed by its chain where there is one, PEM
    #[arg(long, value_name = "FILE", requires = "http_key")]
    http_cert: Option<PathBuf>,
    /// Private key of that certificate, PEM
    #[arg(long, value_name = "FILE", requires = "http_cert")]
    http_key: Option<PathBuf>,
    /// Further name by which HTTP is asked, beside its address and those advertised; requests to other names are refused
    #[arg(long, value_name = "NAME", num_args = 1..)]
    http_allow_host: Vec<String>,
    /// How long a gateway may take to be let in, waiting for approval included; it comes again with a new code
    #[arg(long, value_name = "SECONDS", value_parser = units::duration, default_value = "60")]
    auth_timeout: Duration,
    /// File of the key that secrets are stored under; secrets.key in the state directory unless given
    #[arg(long, value_name = "FILE", env = "NODE_GOBLIN_SECRETS_KEY_FILE")]
    secrets_key_file: Option<PathBuf>,
}

/// Where HTTP is served, if at all.
#[derive(Clone, Debug)]
struct HttpAddress(Option<ListenAddress>);

impl FromStr for HttpAddress {
    type Err = <ListenAddress as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Self(None)),
            address => Ok(Self(Some(address.parse()?))),
        }
    }
}

/// When HTTP is served with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WhenTls {
    /// Where others can reach it, or a certificate is given.
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

impl ControllerArguments {
    fn http(&self) -> anyhow::Result<Option<HttpOptions>> {
        let Some(listen) = self.http.0.clone() else {
            return Ok(None);
        };
        let tls = match (&self.http_cert, &self.http_key, self.http_tls) {
            (_, _, WhenTls::Off) => HttpTls::Off,
            (Some(cert), Some(key), _) => HttpTls::Own {
                cert: pem(cert)?.to_string(),
                key: pem(key)?,
            },
            (_, _, WhenTls::Auto) if is_local(&listen) => HttpTls::Off,
            _ => HttpTls::Controller,
        };
        let hosts = [self.advertise.as_slice(), &self.http_allow_host].concat();
        Ok(Some(HttpOptions { listen, tls, hosts }))
    }
}

/// Whether nobody but this machine can reach an address. A name that leads elsewhere after all is refused later.
fn is_local(address: &ListenAddress) -> bool {
    let is_loopback = |host: &str| {
        host.parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
    };
    address.host.eq_ignore_ascii_case("localhost") || is_loopback(&address.host)
}

fn pem(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    let read = || {
        let mut text = Zeroizing::new(String::new());
        File::open(path)?.take(PEM_MAX).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text)
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

/// Runs the controller until it is told to end.
pub fn run(arguments: ControllerArguments) -> anyhow::Result<ExitCode> {
    logging::start("info");
    // Its memory holds the secrets of every gateway.
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable) {
        warn!(%error, "processes of this account may read the controller's memory");
    }
    runtime::raise_open_files(OPEN_FILES);
    let directory = arguments.place.directory()?;
    let http = arguments.http()?;
    let key_file = arguments.secrets_key_file.filter(|path| !path.as_os_str().is_empty());
    let options = ControllerOptions {
        listen: Some(arguments.listen),
        advertise: arguments.advertise,
        timing: Timing {
            auth: arguments.auth_timeout,
            ..Timing::default()
        },
        ..ControllerOptions::default()
    };
    runtime::start().context("cannot start the runtime")?.block_on(async {
        let mut interrupts = Interrupts::watch().context("cannot watch for signals")?;
        let store = Store::open(&directory, key_file.as_deref(), &iso8601(clock::now_ms())).await?;
        let store = Arc::new(store);
        let controller = Controller::start(options, store.clone(), store.clone(), store.clone()).await?;
        let server = serve(Service {
            controller: controller.clone(),
            tokens: store.clone(),
            audit: AuditLog::start(&directory),
            socket: directory.join(SOCKET_FILE),
            http,
        })
        .await?;
        let address = controller.tls_address().context("the listener does not run")?;
        let http = match server.http_address() {
            Some(http) => format!(" http={http}"),
            None => String::new(),
        };
        // A supervisor that reads nothing does not end a service.
        let _ = terminal::line(format_args!("ready tls={address}{http}"));
        info!(%address, directory = %directory.display(), "the controller serves");
        let interrupt = interrupts.next().await;
        info!(?interrupt, "the controller ends");
        let close = async {
            server.close().await;
            controller.close().await;
            store.close().await;
        };
        tokio::select! {
            () = close => {}
            _ = interrupts.next() => warn!("ended at once; requests that ran were cut"),
        }
        Ok(ExitCode::SUCCESS)
    })
}
