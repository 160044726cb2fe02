//! The operator's commands on an installed host: configure it, connect it, look at it, take it apart.
//!
//! They work on files and on the service manager alone. They must never know the wire, nor hold the daemon's lock while
//! it runs.

mod account;
mod address;
mod configure;
mod connect;
mod doctor;
mod env_file;
mod hint;
mod layout;
mod observation;
mod output;
mod pairing_code;
mod settings;
mod status;
mod systemctl;
mod uninstall;
mod unpair;

use clap::Subcommand;
use layout::Layout;
use std::process::ExitCode;
use systemctl::ServiceManager;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Tell this host's service its controller and its own id.
    Configure(configure::ConfigureArguments),
    /// Start this host's service, now and at every boot, and show the code to approve.
    Connect,
    /// Say what this host's service is doing.
    Status(status::StatusArguments),
    /// Print the code that an operator of the controller has to compare.
    PairingCode(pairing_code::PairingCodeArguments),
    /// Stop this host's service and forget its controller.
    Unpair,
    /// Remove the program and the service; configuration, account and state stay.
    Uninstall,
    /// Look for what keeps this host from its controller, and say what to do.
    Doctor(doctor::DoctorArguments),
}

/// Runs one of them.
pub fn run(command: HostCommand) -> anyhow::Result<ExitCode> {
    let layout = Layout::from_environment()?;
    let manager = ServiceManager::from_environment();
    match command {
        HostCommand::Configure(arguments) => configure::run(&layout, &arguments),
        HostCommand::Connect => connect::run(&layout, &manager),
        HostCommand::Status(arguments) => status::run(&layout, &manager, &arguments),
        HostCommand::PairingCode(arguments) => pairing_code::run(&layout, &arguments),
        HostCommand::Unpair => unpair::run(&layout, &manager),
        HostCommand::Uninstall => uninstall::run(&layout),
        HostCommand::Doctor(arguments) => doctor::run(&layout, &manager, &arguments),
    }
}
