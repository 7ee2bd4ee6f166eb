//! `tailback`: finds where packets wait on an Internet link. Each verb is one thin file: typed arguments become a
//! validated plan, one library call carries it out, `report` prints the result.

#![forbid(unsafe_code)]

// Before all other modules, which use its macros.
#[macro_use]
mod say;

mod cmd;
mod console;
mod face;
mod screen;
mod status;
mod terminal;
mod watch;

use clap::{CommandFactory, Parser, Subcommand};
pub use cmd::Outcome;
pub use face::{Face, Failure, run};
use std::ffi::OsString;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "tailback",
    version,
    about = "Find where packets wait on an Internet link, how long and why, and the cure",
    long_about = "Finds where packets wait on an Internet link, says how long and why, and prints the commands that cure it.\n\n\
        Start `tailback serve` on a machine beyond the link, then `tailback test THAT-MACHINE` on this side of it. \
        Without a second machine, `tailback test` tests an emulated link.",
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
    Monitor(Box<cmd::monitor::Args>),
    Status(cmd::status::Args),
    Mark(cmd::mark::Args),
    #[cfg(feature = "full")]
    Neighbours(cmd::neighbours::Args),
    Serve(Box<cmd::serve::Args>),
    #[cfg(feature = "full")]
    Load(cmd::load::Args),
    #[cfg(feature = "full")]
    Control(cmd::control::Args),
    #[cfg(feature = "full")]
    Emulate(cmd::emulate::Args),
    #[cfg(feature = "full")]
    Analyse(cmd::analyse::Args),
    Compare(cmd::compare::Args),
    #[cfg(feature = "full")]
    Report(cmd::report::Args),
    #[cfg(feature = "full")]
    Import(cmd::import::Args),
    #[cfg(feature = "full")]
    Export(cmd::export::Args),
    #[cfg(feature = "full")]
    Twin(cmd::twin::Args),
    #[cfg(feature = "full")]
    Whatif(cmd::whatif::Args),
    #[cfg(feature = "full")]
    Prove(cmd::prove::Args),
    #[cfg(feature = "full")]
    Sim(cmd::sim::Args),
    #[cfg(feature = "full")]
    Model(cmd::model::Args),
    #[cfg(feature = "full")]
    Trace(cmd::trace::Args),
    #[cfg(feature = "full")]
    List(cmd::list::Args),
    #[cfg(feature = "full")]
    Run(cmd::run::Args),
    #[cfg(feature = "full")]
    Completions(cmd::completions::Args),
    #[cfg(feature = "full")]
    Man(cmd::completions::ManArgs),
    #[cfg(feature = "full")]
    Hub(cmd::hub::Args),
    #[cfg(feature = "full")]
    Agent(cmd::agent::Args),
    #[cfg(feature = "full")]
    Fleet(cmd::fleet::Args),
    #[cfg(feature = "full")]
    Share(cmd::share::Args),
}

impl Verb {
    /// Carries out the verb.
    fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Verb::Test(args) => cmd::test::run(*args),
            Verb::Probe(args) => cmd::probe::run(*args),
            Verb::Monitor(args) => cmd::monitor::run(*args),
            Verb::Status(args) => cmd::status::run(args),
            #[cfg(feature = "full")]
            Verb::Neighbours(args) => cmd::neighbours::run(args),
            Verb::Mark(args) => cmd::mark::run(args),
            #[cfg(feature = "full")]
            Verb::Load(args) => cmd::load::run(args),
            Verb::Serve(args) => cmd::serve::run(*args),
            #[cfg(feature = "full")]
            Verb::Control(args) => cmd::control::run(args),
            #[cfg(feature = "full")]
            Verb::Emulate(args) => cmd::emulate::run(args),
            #[cfg(feature = "full")]
            Verb::Analyse(args) => cmd::analyse::run(args),
            Verb::Compare(args) => cmd::compare::run(args),
            #[cfg(feature = "full")]
            Verb::Report(args) => cmd::report::run(args),
            #[cfg(feature = "full")]
            Verb::Import(args) => cmd::import::run(args),
            #[cfg(feature = "full")]
            Verb::Export(args) => cmd::export::run(args),
            #[cfg(feature = "full")]
            Verb::Twin(args) => cmd::twin::run(args),
            #[cfg(feature = "full")]
            Verb::Whatif(args) => cmd::whatif::run(args),
            #[cfg(feature = "full")]
            Verb::Prove(args) => cmd::prove::run(args),
            #[cfg(feature = "full")]
            Verb::Sim(args) => cmd::sim::run(args),
            #[cfg(feature = "full")]
            Verb::Model(args) => cmd::model::run(args),
            #[cfg(feature = "full")]
            Verb::Trace(args) => cmd::trace::run(args),
            #[cfg(feature = "full")]
            Verb::List(args) => cmd::list::run(args),
            #[cfg(feature = "full")]
            Verb::Run(args) => cmd::run::run(args),
            #[cfg(feature = "full")]
            Verb::Completions(args) => cmd::completions::run(&args, Cli::command()),
            #[cfg(feature = "full")]
            Verb::Man(args) => cmd::completions::man(&args, Cli::command()),
            #[cfg(feature = "full")]
            Verb::Hub(args) => cmd::hub::run(args),
            #[cfg(feature = "full")]
            Verb::Agent(args) => cmd::agent::run(args),
            #[cfg(feature = "full")]
            Verb::Fleet(args) => cmd::fleet::run(args),
            #[cfg(feature = "full")]
            Verb::Share(args) => cmd::share::run(args),
        }
    }
}

/// Definition of the command line: every verb with its arguments.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    ExitCode::from(exit_code(std::env::args_os().skip(1).collect()))
}

/// Runs a command line without the program's name on this process's terminal, and returns its exit code.
pub fn exit_code(arguments: Vec<OsString>) -> u8 {
    let words = std::iter::once("tailback".into()).chain(arguments);
    let cli = match Cli::try_parse_from(words) {
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
