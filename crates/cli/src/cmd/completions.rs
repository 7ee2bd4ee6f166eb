//! `tailback completions` and `tailback man`: files for a shell and for man(1), from the same definition as the help.

use super::print;
use crate::Outcome;
use anyhow::Context;
use clap_complete::Shell;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(
    about = "Print completions for a shell",
    long_about = "Prints a script that completes verbs, options and values of `tailback` in a shell.",
    after_help = "Examples:\n  \
        tailback completions bash \\\n      > /etc/bash_completion.d/tailback\n  \
        tailback completions zsh > ~/.zfunc/_tailback\n  \
        tailback completions fish \\\n      > ~/.config/fish/completions/tailback.fish"
)]
pub struct Args {
    /// Shell that reads the script
    shell: Shell,
}

/// Prints the completions of a command.
pub fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tailback", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(Outcome::Done)
}

#[derive(clap::Args)]
#[command(
    about = "Write man pages of all verbs to a directory",
    long_about = "Writes a page of section 1 for `tailback` and for each of its verbs, such as tailback-monitor.1.",
    after_help = "Example:\n  tailback man /usr/local/share/man/man1"
)]
pub struct ManArgs {
    /// Directory for the pages; it is created if it is missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes the pages of a command and of all its verbs.
pub fn man(args: &ManArgs, command: clap::Command) -> anyhow::Result<Outcome> {
    let dir = &args.directory;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let pages = write_pages(&command, dir)?;
    eprintln!("{pages} pages in {}", dir.display());
    Ok(Outcome::Done)
}

fn write_pages(command: &clap::Command, dir: &Path) -> anyhow::Result<usize> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = dir.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    let mut pages = 1;
    for verb in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        pages += write_pages(verb, dir)?;
    }
    Ok(pages)
}
