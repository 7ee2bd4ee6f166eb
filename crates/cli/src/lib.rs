//! `tailback`: finds where packets wait on an Internet link. Each verb is one thin file: typed arguments become a
//! validated plan, one library call carries it out, `report` prints the result.

#![forbid(unsafe_code)]
// The small program of a router has all modules and uses few, and elsewhere than on Linux some verbs are missing: the linker
// drops what nobody uses.
#![cfg_attr(not(all(feature = "full", target_os = "linux")), allow(dead_code))]

// Before all other modules, which use its macros.
#[macro_use]
mod say;

mod cmd;
mod console;
mod face;
#[cfg(target_os = "linux")]
mod screen;
#[cfg(not(target_os = "linux"))]
#[path = "no_screen.rs"]
mod screen;
mod status;
mod terminal;
mod watch;

use clap::{CommandFactory, Parser, Subcommand};
pub use cmd::Outcome;
pub use face::{Face, Failure, run};
use std::ffi::OsString;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
const LONG_ABOUT: &str = "Finds where packets wait on an Internet link, says how long and why, and prints the commands that cure it.\n\n\
    Start `tailback serve` on a machine beyond the link, then `tailback test THAT-MACHINE` on this side of it. \
    Without a second machine, `tailback test` tests an emulated link.";
#[cfg(not(target_os = "linux"))]
const LONG_ABOUT: &str = "Finds where packets wait on an Internet link, says how long and why, and prints the commands that cure it.\n\n\
    Start `tailback serve` on a Linux machine beyond the link, then `tailback test THAT-MACHINE` here. Packets are timed by \
    the program, not by the kernel as on Linux; the answer says so. Emulated links and the verbs of a server need Linux.";

#[derive(Parser)]
#[command(
    name = "tailback",
    version,
    about = "Find where packets wait on an Internet link, how long and why, and the cure",
    long_about = LONG_ABOUT,
    after_help = "Exit codes: 0 done, 1 a finding is above the threshold you set, 2 wrong usage, 3 could not measure."
)]
struct Cli {
    /// Show results, warnings and errors only, and no progress
    #[arg(short, long, global = true)]
    quiet: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Test(Box<cmd::test::Args>),
    Probe(Box<cmd::probe::Args>),
    #[cfg(target_os = "linux")]
    Monitor(Box<cmd::monitor::Args>),
    Status(cmd::status::Args),
    #[cfg(target_os = "linux")]
    Mark(cmd::mark::Args),
    #[cfg(target_os = "linux")]
    Serve(Box<cmd::serve::Args>),
    #[cfg(feature = "full")]
    #[command(flatten)]
    More(Box<More>),
}

/// Verbs that the small program of a router does not have.
#[cfg(feature = "full")]
#[derive(Subcommand)]
enum More {
    #[cfg(target_os = "linux")]
    Neighbours(cmd::neighbours::Args),
    #[cfg(target_os = "linux")]
    Load(cmd::load::Args),
    #[cfg(target_os = "linux")]
    Control(cmd::control::Args),
    #[cfg(target_os = "linux")]
    Emulate(cmd::emulate::Args),
    Analyse(cmd::analyse::Args),
    Compare(cmd::compare::Args),
    Report(cmd::report::Args),
    Import(cmd::import::Args),
    Export(cmd::export::Args),
    Twin(cmd::twin::Args),
    Whatif(cmd::whatif::Args),
    #[cfg(target_os = "linux")]
    Prove(cmd::prove::Args),
    Sim(cmd::sim::Args),
    Model(cmd::model::Args),
    Trace(cmd::trace::Args),
    List(cmd::list::Args),
    Run(cmd::run::Args),
    Completions(cmd::completions::Args),
    Man(cmd::completions::ManArgs),
    #[cfg(target_os = "linux")]
    Hub(cmd::hub::Args),
    #[cfg(target_os = "linux")]
    Agent(cmd::agent::Args),
    #[cfg(target_os = "linux")]
    Fleet(cmd::fleet::Args),
    #[cfg(target_os = "linux")]
    Share(cmd::share::Args),
}

impl Verb {
    /// Carries out the verb.
    fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Verb::Test(args) => cmd::test::run(*args),
            Verb::Probe(args) => cmd::probe::run(*args),
            #[cfg(target_os = "linux")]
            Verb::Monitor(args) => cmd::monitor::run(*args),
            Verb::Status(args) => cmd::status::run(args),
            #[cfg(target_os = "linux")]
            Verb::Mark(args) => cmd::mark::run(args),
            #[cfg(target_os = "linux")]
            Verb::Serve(args) => cmd::serve::run(*args),
            #[cfg(feature = "full")]
            Verb::More(verb) => verb.run(),
        }
    }
}

#[cfg(feature = "full")]
impl More {
    /// Carries out the verb.
    fn run(self) -> anyhow::Result<Outcome> {
        match self {
            #[cfg(target_os = "linux")]
            More::Neighbours(args) => cmd::neighbours::run(args),
            #[cfg(target_os = "linux")]
            More::Load(args) => cmd::load::run(args),
            #[cfg(target_os = "linux")]
            More::Control(args) => cmd::control::run(args),
            #[cfg(target_os = "linux")]
            More::Emulate(args) => cmd::emulate::run(args),
            More::Analyse(args) => cmd::analyse::run(args),
            More::Compare(args) => cmd::compare::run(args),
            More::Report(args) => cmd::report::run(args),
            More::Import(args) => cmd::import::run(args),
            More::Export(args) => cmd::export::run(args),
            More::Twin(args) => cmd::twin::run(args),
            More::Whatif(args) => cmd::whatif::run(args),
            #[cfg(target_os = "linux")]
            More::Prove(args) => cmd::prove::run(args),
            More::Sim(args) => cmd::sim::run(args),
            More::Model(args) => cmd::model::run(args),
            More::Trace(args) => cmd::trace::run(args),
            More::List(args) => cmd::list::run(args),
            More::Run(args) => cmd::run::run(args),
            More::Completions(args) => cmd::completions::run(&args, Cli::command()),
            More::Man(args) => cmd::completions::man(&args, Cli::command()),
            #[cfg(target_os = "linux")]
            More::Hub(args) => cmd::hub::run(args),
            #[cfg(target_os = "linux")]
            More::Agent(args) => cmd::agent::run(args),
            #[cfg(target_os = "linux")]
            More::Fleet(args) => cmd::fleet::run(args),
            #[cfg(target_os = "linux")]
            More::Share(args) => cmd::share::run(args),
        }
    }
}

/// Definition of the command line: every verb with its arguments.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Verbs that other systems than Linux do not have: they measure, emulate, or stand on those that do.
const LINUX: [&str; 12] = [
    "agent",
    "control",
    "emulate",
    "fleet",
    "hub",
    "load",
    "mark",
    "monitor",
    "neighbours",
    "prove",
    "serve",
    "share",
];

/// Reads a command line without the program's name.
///
/// # Errors
/// Wrong arguments, and a verb that this system does not have.
fn parse(arguments: Vec<OsString>) -> Result<Cli, clap::Error> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let words = std::iter::once("tailback".into()).chain(arguments);
    Cli::try_parse_from(words).map_err(|e| match e.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(verb)) if LINUX.contains(&verb.as_str()) => Cli::command().error(
            ErrorKind::InvalidSubcommand,
            format!("`tailback {verb}` needs Linux"),
        ),
        _ => e,
    })
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    ExitCode::from(exit_code(std::env::args_os().skip(1).collect()))
}

/// Runs a command line without the program's name on this process's terminal, and returns its exit code.
pub fn exit_code(arguments: Vec<OsString>) -> u8 {
    let cli = match parse(arguments) {
        Ok(cli) => cli,
        Err(e) => return usage(&e),
    };
    console::set_quiet(cli.quiet);
    match cli.verb.run() {
        Ok(Outcome::Done) => 0,
        Ok(Outcome::Above) => 1,
        Ok(Outcome::CouldNotMeasure) => 3,
        Ok(Outcome::Child(code)) => code,
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            eprintln!("tailback: {}", told(&error));
            if ops::is_usage(&error) { 2 } else { 3 }
        }
    }
}

/// Prints the requested help, or the error in the arguments.
fn usage(e: &clap::Error) -> u8 {
    use std::io::IsTerminal;
    let terminal = match e.use_stderr() {
        true => std::io::stderr().is_terminal(),
        false => std::io::stdout().is_terminal(),
    };
    let plain = terminal::is_dumb() || std::env::var_os("NO_COLOR").is_some();
    let text = match terminal && !plain {
        true => e.render().ansi().to_string(),
        false => e.render().to_string(),
    };
    match e.use_stderr() {
        true => say::error(&text),
        // A reader that has seen enough is no failure.
        false => drop(say::print(&text)),
    }
    e.exit_code() as u8
}

/// True for a broken pipe: a reader that stops early, such as `head`, is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|e| e.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Error and its causes in one line, without causes that the message above them already contains.
fn told(error: &anyhow::Error) -> String {
    error
        .chain()
        .map(ToString::to_string)
        .fold(String::new(), |told, cause| match told.as_str() {
            "" => cause,
            _ if told.contains(&cause) => told,
            _ => format!("{told}: {cause}"),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn verbs_that_need_linux_are_verbs() {
        let command = command();
        let verbs: Vec<&str> = command.get_subcommands().map(|c| c.get_name()).collect();
        let missing = LINUX.iter().find(|v| !verbs.contains(v));
        assert_eq!(missing, None, "{verbs:?}");
    }

    #[test]
    #[cfg(not(target_os = "linux"))]
    fn verbs_that_need_linux_say_so() {
        for verb in LINUX {
            let told = parse(vec![verb.into()])
                .err()
                .expect("an error")
                .to_string();
            assert!(told.contains("needs Linux"), "{told}");
        }
    }
}
