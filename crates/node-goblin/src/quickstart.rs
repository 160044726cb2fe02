//! `node-goblin quickstart`: the whole way in one command, told step by step.

mod children;
mod tied;

use crate::api::Api;
use crate::exec::{Form, Order, Session};
use crate::interrupts::{Interrupts, Stopped};
use crate::outputs::Outputs;
use crate::place::Place;
use crate::shell::command_line;
use crate::terminal::{self, BAD, FAINT, GOOD, POINTER, STRONG, code_box, paint, safe};
use crate::{pairings, runtime};
use anyhow::{Context, bail};
use children::Child;
use clap::Args;
use goblin_api::{GatewayStatus, GatewaysAnswer, PairingListing, PairingsAnswer, routes};
use goblin_identity::read_pairing_code;
use std::fmt::Display;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// Id of the gateway.
const GATEWAY: &str = "quickstart";

/// How long either process may take to come up.
const START_WITHIN: Duration = Duration::from_secs(20);

/// How often the controller is asked while something is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Commands that show what it is like: a program, and output that comes line by line.
const SAMPLE_PROGRAM: [&str; 2] = ["uname", "-a"];
const SAMPLE_SHELL: &str = "for n in 1 2 3; do echo \"line $n\"; sleep 0.4; done";

/// Flags of `node-goblin quickstart`.
#[derive(Debug, Args)]
#[command(after_help = "\
Everything stays on this machine: the controller listens on the loopback interface, on a port that the system chooses. \
What the gateway runs, it runs as you. Across hosts the same two commands do it: the controller listens on an address that \
the hosts reach (--listen 0.0.0.0:7443 --advertise NAME), and the gateway dials that name.

Examples:
  node-goblin quickstart
  node-goblin quickstart --yes --exit
  node-goblin quickstart --dir ~/goblin-try -- ls -l /

Exit codes: 0, or 1 when a step failed; with --exit and a command that of the command.")]
pub struct QuickstartArguments {
    /// Directory for the state of both, kept afterwards; a temporary one, removed in the end, unless given
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Let the gateway in without asking, when both sides show the same code
    #[arg(long, short)]
    yes: bool,
    /// End both processes after the command instead of waiting for Ctrl-C
    #[arg(long)]
    exit: bool,
    /// Command to run instead of the samples
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    program: Vec<String>,
}

/// Tells the story.
pub fn run(arguments: QuickstartArguments) -> anyhow::Result<ExitCode> {
    let home = Home::new(arguments.dir.as_deref())?;
    // On this thread alone: the children end when it does.
    let told = runtime::single()?.block_on(async {
        let mut interrupts = Interrupts::watch()?;
        let mut cast = Cast::default();
        let told = tell(&arguments, &home, &mut cast, &mut interrupts).await;
        // Whatever happened, both processes end before this one does.
        cast.end().await;
        told
    });
    let removed = home.close();
    if told.as_ref().is_err_and(|error| error.is::<Stopped>()) {
        // The line of a question may stand open.
        terminal::note("\nBoth processes have ended.");
    }
    let code = told?;
    removed?;
    Ok(code)
}

/// Where the state of both lies.
struct Home {
    directory: PathBuf,
    temporary: Option<TempDir>,
}

impl Home {
    fn new(given: Option<&Path>) -> anyhow::Result<Self> {
        let Some(directory) = given else {
            let temporary = tempfile::Builder::new().prefix("node-goblin-").tempdir();
            let temporary = temporary.context("cannot make a temporary directory; name another with --dir")?;
            return Ok(Self {
                directory: temporary.path().to_owned(),
                temporary: Some(temporary),
            });
        };
        let name = directory.display();
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder
            .create(directory)
            .with_context(|| format!("cannot make {name}"))?;
        Ok(Self {
            directory: directory.canonicalize().with_context(|| format!("cannot use {name}"))?,
            temporary: None,
        })
    }

    fn close(self) -> anyhow::Result<()> {
        match self.temporary {
            Some(temporary) => temporary.close().context("cannot remove the temporary directory"),
            None => Ok(()),
        }
    }
}

/// The two processes, as far as they run.
#[derive(Default)]
struct Cast {
    controller: Option<Child>,
    gateway: Option<Child>,
}

impl Cast {
    /// Waits for the end of either, which is a fault; the log says why.
    async fn fault(&mut self) -> anyhow::Error {
        async fn ended(child: Option<&mut Child>) -> anyhow::Error {
            match child {
                Some(child) => child.ended().await,
                None => std::future::pending().await,
            }
        }
        tokio::select! {
            fault = ended(self.controller.as_mut()) => fault,
            fault = ended(self.gateway.as_mut()) => fault,
        }
    }

    /// The gateway ends first, so that the controller has nothing left to wait for.
    async fn end(self) {
        for child in [self.gateway, self.controller].into_iter().flatten() {
            child.end().await;
        }
    }
}

async fn tell(
    arguments: &QuickstartArguments,
    home: &Home,
    cast: &mut Cast,
    interrupts: &mut Interrupts,
) -> anyhow::Result<ExitCode> {
    let program = std::env::args().next().unwrap_or_else(|| "node-goblin".to_owned());
    let place = Place {
        state_dir: Some(home.directory.join("controller")),
    };
    let (controller_dir, gateway_dir) = (home.directory.join("controller"), home.directory.join("gateway"));
    terminal::line(
        "A controller and a gateway on this machine, as two processes. The same two commands work across hosts.",
    )?;

    step(
        1,
        "The controller: operators and programs talk to it, hosts dial in to it.",
    )?;
    let words = [
        "controller",
        "--state-dir",
        &text(&controller_dir)?,
        "--listen",
        "127.0.0.1:0",
        "--http",
        "off",
    ]
    .map(str::to_owned);
    show_command(&program, &words)?;
    let controller = cast
        .controller
        .insert(Child::start("controller", &words, &home.directory)?);
    let ready = interrupts
        .unless_stopped(within(START_WITHIN, "the controller", controller.first_line()))
        .await?;
    let address = ready.strip_prefix("ready tls=").with_context(|| {
        format!(
            "the controller said {:?} where `ready tls=HOST:PORT` was expected",
            safe(&ready)
        )
    })?;
    say(format_args!(
        "It listens on {address}, with a certificate and a key of its own."
    ))?;

    step(
        2,
        "The gateway: the daemon of a host. It dials out; nothing ever connects to it.",
    )?;
    let url = format!("tls://{address}");
    let words = [
        "gateway",
        "--controller",
        &url,
        "--id",
        GATEWAY,
        "--state-dir",
        &text(&gateway_dir)?,
    ]
    .map(str::to_owned);
    show_command(&program, &words)?;
    cast.gateway = Some(Child::start("gateway", &words, &home.directory)?);

    let api = Api::local(&controller_dir);
    let mut told = false;
    loop {
        let arrived = arrived(&api, &gateway_dir);
        let arrived = interrupts
            .unless_stopped(unless_ended(cast, within(START_WITHIN, "the gateway", arrived)))
            .await?;
        let Arrived::Waits(pairing, host_code) = arrived else {
            say("It is paired with this controller from before, and has connected again.")?;
            break;
        };
        if !told {
            say("It has made a key of its own. Nobody knows it yet, so it may do nothing and waits to be let in.")?;
            step(
                3,
                "Pairing: both sides show a code made of both keys. If they agree, nobody stands in between.",
            )?;
            told = true;
        }
        let asked = interrupts.unless_stopped(unless_ended(cast, admit(arguments, &pairing, &host_code)));
        asked.await?;
        match pairings::send_approval(&api, GATEWAY, &pairing.pairing_code).await {
            Ok(_) => {
                let words = ["pairings", "approve", GATEWAY, "--code", &pairing.pairing_code].map(str::to_owned);
                show_command(&program, &with_place(&words, &controller_dir)?)?;
            }
            // It was not asked for in time, and came again.
            Err(error) if error.code().starts_with("pairing_") => {
                say(format_args!("{error}."))?;
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        let ready = within(START_WITHIN, "the gateway", connected(&api));
        interrupts.unless_stopped(unless_ended(cast, ready)).await?;
        say(format_args!(
            "{} Each knows the other's key from now on; no code is needed again.",
            paint(GOOD, "Paired.")
        ))?;
        break;
    }

    step(
        if told { 4 } else { 3 },
        "Commands, run by the gateway, with their output as it is written.",
    )?;
    let orders = match arguments.program.is_empty() {
        false => vec![(arguments.program.clone(), None)],
        true => vec![
            (SAMPLE_PROGRAM.map(str::to_owned).to_vec(), None),
            (Vec::new(), Some(SAMPLE_SHELL.to_owned())),
        ],
    };
    let mut code = 0;
    for (words, shell) in orders {
        let mut shown = vec!["exec".to_owned(), GATEWAY.to_owned()];
        match &shell {
            Some(command) => shown.extend(["--shell".to_owned(), command.clone()]),
            None => shown.extend(std::iter::once("--".to_owned()).chain(words.iter().cloned())),
        }
        show_command(&program, &with_place(&shown, &controller_dir)?)?;
        let order = Order::plain(place.clone(), GATEWAY.to_owned(), words, shell)?;
        let session = Session {
            api: &api,
            order: &order,
            form: Form::Output,
        };
        let ended = session.run(Outputs::spooled(), interrupts).await?;
        code = ended.conclude(&order);
        // Who asked the command to end meant all of it.
        if let Some(interrupt) = ended.asked {
            return Err(Stopped(interrupt).into());
        }
        let style = if code == 0 { GOOD } else { BAD };
        // A terminal has the summary already.
        if terminal::watched() {
            continue;
        }
        say(format_args!("{} {}", paint(FAINT, "exit code"), paint(style, code)))?;
    }
    if arguments.exit {
        terminal::line("\nBoth processes end now.")?;
        return Ok(ExitCode::from(code));
    }
    leave_running(&program, home, &controller_dir)?;
    tokio::select! {
        fault = cast.fault() => Err(fault),
        _ = interrupts.next() => {
            terminal::line("\nBoth processes end now.")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn leave_running(program: &str, home: &Home, controller_dir: &Path) -> anyhow::Result<()> {
    terminal::line("\nNow you, from another terminal:")?;
    for words in [
        ["exec", GATEWAY, "--", "ps", "aux"].as_slice(),
        &["files", GATEWAY, "ls", "/etc", "--depth", "1"],
        &["gateways"],
        &["--help"],
    ] {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let words = match words[0].as_str() {
            "--help" => words,
            _ => with_place(&words, controller_dir)?,
        };
        show_command(program, &words)?;
    }
    let kept = match home.temporary {
        Some(_) => "Then they end, and the directory is removed.",
        None => "Then they end; the directory stays, and the pairing with it.",
    };
    terminal::line(format_args!(
        "\nBoth processes run until Ctrl-C; their logs are in {}. {kept}",
        safe(&home.directory.display().to_string())
    ))?;
    Ok(())
}

/// How the gateway arrived at the controller.
enum Arrived {
    /// It waits to be let in; and the code that its host shows.
    Waits(Box<PairingListing>, String),
    /// It was let in before.
    Ready,
}

/// Waits until both sides know of each other.
async fn arrived(api: &Api, gateway_dir: &Path) -> anyhow::Result<Arrived> {
    let mut looks = looks();
    loop {
        looks.tick().await;
        let answer: PairingsAnswer = api.get(&routes::pairings()).await?;
        let waiting = answer.pairings.into_iter();
        let waiting = waiting
            .filter(|pairing| pairing.live)
            .find(|pairing| pairing.gateway_id == GATEWAY);
        match (waiting, read_pairing_code(gateway_dir)?) {
            // The host writes its code a moment after the controller has it.
            (Some(pairing), Some(host)) if host.code == pairing.pairing_code => {
                return Ok(Arrived::Waits(Box::new(pairing), host.code));
            }
            (Some(pairing), Some(host)) if differ_for_good(api, &pairing, gateway_dir).await? => {
                return Ok(Arrived::Waits(Box::new(pairing), host.code));
            }
            (None, _) if is_ready(api).await? => return Ok(Arrived::Ready),
            _ => {}
        }
    }
}

/// True when the codes still differ after both had time to show those of one connection.
async fn differ_for_good(api: &Api, pairing: &PairingListing, gateway_dir: &Path) -> anyhow::Result<bool> {
    let mut looks = looks();
    for _ in 0..20 {
        looks.tick().await;
        let answer: PairingsAnswer = api.get(&routes::pairings()).await?;
        let same_request = answer
            .pairings
            .iter()
            .any(|now| now.pairing_code == pairing.pairing_code && now.live);
        let host = read_pairing_code(gateway_dir)?;
        if !same_request || host.is_none_or(|host| host.code == pairing.pairing_code) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Shows both codes and decides, or asks.
async fn admit(arguments: &QuickstartArguments, pairing: &PairingListing, host_code: &str) -> anyhow::Result<()> {
    say("The controller shows:")?;
    terminal::line(code_box(&pairing.pairing_code))?;
    say("The host shows:")?;
    terminal::line(code_box(host_code))?;
    if !pairings::same_code(host_code, pairing) {
        bail!("the codes differ, so somebody stands between the two: nothing was approved");
    }
    if !arguments.yes && terminal::can_ask() && !terminal::confirm("   They are the same. Let the gateway in?").await {
        bail!("the gateway was not let in");
    }
    Ok(())
}

/// Waits until the gateway takes commands.
async fn connected(api: &Api) -> anyhow::Result<()> {
    let mut looks = looks();
    loop {
        looks.tick().await;
        if is_ready(api).await? {
            return Ok(());
        }
    }
}

async fn is_ready(api: &Api) -> anyhow::Result<bool> {
    let answer: GatewaysAnswer = api.get(&routes::gateways()).await?;
    let mut gateways = answer.gateways.iter();
    Ok(gateways.any(|gateway| gateway.gateway_id == GATEWAY && gateway.status == GatewayStatus::Ready))
}

fn looks() -> tokio::time::Interval {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

/// Waits for `work`, unless one of the processes ends first.
async fn unless_ended<T>(cast: &mut Cast, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        fault = cast.fault() => Err(fault),
        done = work => done,
    }
}

/// Waits for `work` for so long.
async fn within<T>(span: Duration, who: &str, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let started = Instant::now();
    match timeout(span, work).await {
        Ok(done) => done,
        Err(_) => bail!("{who} was not there after {} s", started.elapsed().as_secs()),
    }
}

fn step(number: u8, title: &str) -> anyhow::Result<()> {
    Ok(terminal::line(format_args!(
        "\n{}",
        paint(STRONG, format_args!("{number}. {title}"))
    ))?)
}

fn say(text: impl Display) -> anyhow::Result<()> {
    Ok(terminal::line(format_args!("   {text}"))?)
}

/// A command line to type.
fn show_command(program: &str, words: &[String]) -> anyhow::Result<()> {
    let line = command_line(&[[program.to_owned()].as_slice(), words].concat());
    say(format_args!("{} {}", paint(FAINT, "$"), paint(POINTER, line)))
}

/// The words of a command for this controller.
fn with_place(words: &[String], controller_dir: &Path) -> anyhow::Result<Vec<String>> {
    let place = ["--state-dir".to_owned(), text(controller_dir)?];
    let at = if words.first().is_some_and(|word| word == "pairings") {
        2
    } else {
        1
    };
    let (before, after) = words.split_at(at.min(words.len()));
    Ok([before, &place, after].concat())
}

fn text(path: &Path) -> anyhow::Result<String> {
    let path = path.to_str();
    path.map(str::to_owned)
        .context("the directory's name is not UTF-8; name another with --dir")
}

#[cfg(test)]
mod tests;
