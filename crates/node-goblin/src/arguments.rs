//! The command line.

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::Path;

/// The name under which the program is the gateway.
const SECOND_NAME: &str = "burrow-host-gateway";

/// What `--version` says: version, commit, day.
const LONG_VERSION: &str = env!("NODE_GOBLIN_LONG_VERSION");

/// Runs work on other hosts, for agents and automation.
#[derive(Debug, Parser)]
#[command(name = "node-goblin", version, long_version = LONG_VERSION, max_term_width = 100)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one, and clap can't flatten a box")]
pub enum Command {
    /// Try it all in one go: a controller and a gateway on this machine, paired, and a command run.
    Quickstart(crate::quickstart::QuickstartArguments),
    /// Run the daemon of this host: over standard streams, or out to a controller.
    Gateway(crate::gateway::GatewayArguments),
    /// Run the controller: gateways dial in to it, and operators and programs work through it.
    Controller(crate::controller::ControllerArguments),
    /// Run a command on a host, as if it ran here.
    Exec(crate::exec::ExecArguments),
    /// Read, write, list and search files of a host.
    Files(crate::files::FilesArguments),
    /// Show the gateways that the controller knows.
    Gateways(crate::gateways::GatewaysArguments),
    /// Show, approve or reject hosts that wait to be let in.
    Pairings(crate::pairings::PairingsArguments),
    /// Ask an operation to end.
    Cancel(crate::cancel::CancelArguments),
    /// Write manual pages and shell completions.
    #[command(hide = true)]
    Documents(crate::documents::DocumentsArguments),
    /// An operator's command on this host.
    #[command(flatten)]
    Host(crate::host::HostCommand),
}

/// Inserts `gateway` where the program was called by its second name without a command.
pub fn with_second_name(mut words: Vec<OsString>) -> Vec<OsString> {
    let called = words.first().map(Path::new).and_then(Path::file_name);
    let commanded = words.get(1).is_some_and(|word| {
        let word = word.to_string_lossy();
        !word.starts_with('-') || matches!(word.as_ref(), "-h" | "--help" | "-V" | "--version")
    });
    if called == Some(SECOND_NAME.as_ref()) && !commanded {
        words.insert(1, "gateway".into());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_says_what_it_ends_with_and_shows_an_example() {
        for command in Arguments::command()
            .get_subcommands_mut()
            .filter(|command| !command.is_hide_set())
        {
            let name = command.get_name().to_owned();
            let help = command.render_help().to_string();
            let of_the_host = matches!(
                name.as_str(),
                "gateway" | "configure" | "connect" | "status" | "pairing-code" | "unpair" | "uninstall" | "doctor"
            );
            assert!(of_the_host || help.contains("Exit codes: "), "{name}");
            assert!(of_the_host || help.contains("Example"), "{name}");
        }
    }

    #[test]
    fn a_controller_needs_no_flag() {
        assert!(Arguments::try_parse_from(["node-goblin", "controller"]).is_ok());
        let listening = |address| Arguments::try_parse_from(["node-goblin", "controller", "--listen", address]).is_ok();
        assert!(listening("0.0.0.0:0") && listening("[::1]:7443"));
        assert!(!listening("7443") && !listening("::1:7443"));
        let http = |address| Arguments::try_parse_from(["node-goblin", "controller", "--http", address]).is_ok();
        assert!(http("off") && http("[::]:0") && !http("7480") && !http(""));
        let given =
            |words: &[&str]| Arguments::try_parse_from([&["node-goblin", "controller"], words].concat()).is_ok();
        assert!(given(&["--http-cert", "c", "--http-key", "k"]) && !given(&["--http-cert", "c"]));
        assert!(given(&["--http-tls", "on"]) && !given(&["--http-tls", "maybe"]));
        let waiting = |span| Arguments::try_parse_from(["node-goblin", "controller", "--auth-timeout", span]).is_ok();
        assert!(waiting("90") && waiting("5m") && !waiting("0"));
    }

    #[test]
    fn the_second_name_is_the_gateway() {
        let words = |text: &str| with_second_name(text.split(' ').map(Into::into).collect());
        assert_eq!(words("/opt/x/burrow-host-gateway")[1..], ["gateway"]);
        assert_eq!(
            words("burrow-host-gateway --state-dir /x")[1..],
            ["gateway", "--state-dir", "/x"]
        );
        assert_eq!(words("burrow-host-gateway gateway")[1..], ["gateway"]);
        assert_eq!(words("burrow-host-gateway --version")[1..], ["--version"]);
        assert_eq!(words("node-goblin --state-dir")[1..], ["--state-dir"]);
    }
}
