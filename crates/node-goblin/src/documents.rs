//! `documents`: manual pages and shell completions, made from the command line's own description when the packages are
//! made. Not for operators, so no help names it.

use crate::arguments::Arguments;
use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Words of `documents`.
#[derive(Debug, Args)]
pub struct DocumentsArguments {
    /// Where `man/` and `completions/` are written
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(arguments: &DocumentsArguments) -> anyhow::Result<ExitCode> {
    write(&arguments.directory).with_context(|| format!("cannot write below {}", arguments.directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn write(directory: &Path) -> anyhow::Result<()> {
    let (man, completions) = (directory.join("man"), directory.join("completions"));
    std::fs::create_dir_all(&man)?;
    std::fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(Arguments::command().disable_help_subcommand(true), &man)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Arguments::command(), "node-goblin", &completions)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_every_shell_its_completions() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        for command in Arguments::command()
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
        {
            let page = folder.path().join(format!("man/node-goblin-{}.1", command.get_name()));
            let text = std::fs::read_to_string(&page).unwrap();
            assert!(
                text.starts_with(".ie") && text.contains(".SH NAME"),
                "{}",
                page.display()
            );
        }
        assert!(!folder.path().join("man/node-goblin-documents.1").exists());
        for name in ["node-goblin.bash", "_node-goblin", "node-goblin.fish"] {
            let text = std::fs::read_to_string(folder.path().join("completions").join(name)).unwrap();
            assert!(text.contains("pairing-code") && text.contains("long"), "{name}");
        }
    }
}
