//! Runs a program behind a link: `emulate LINK… [--far PROGRAM [ARGUMENT…]] -- PROGRAM [ARGUMENT…]`,
//! where LINK is the name of one that comes with Tailback, or TOML. For benchmarks and tests; people
//! have `tailback emulate`.

use live::clock::Clock;
use live::emulate::{self, HeldSignals, Options, Programs};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(3)
        }
    }
}

fn run() -> Result<u8, Box<dyn std::error::Error>> {
    emulate::prepare()?;
    let mut hops = Vec::new();
    let (mut near, mut far): (Option<Vec<OsString>>, Option<Vec<OsString>>) = (None, None);
    for argument in std::env::args_os().skip(1) {
        match (&mut near, &mut far) {
            (Some(near), _) => near.push(argument),
            (None, _) if argument == "--" => near = Some(Vec::new()),
            (None, Some(far)) => far.push(argument),
            (None, None) if argument == "--far" => far = Some(Vec::new()),
            (None, None) => {
                let text = argument.to_string_lossy();
                let toml = text.contains('=');
                hops.push(if toml {
                    link::LinkSpec::parse(&text)?
                } else {
                    link::LinkSpec::named(&text)?
                });
            }
        }
    }
    let programs = Programs {
        near: near.unwrap_or_default(),
        far,
        apart: false,
    };
    let outcome = emulate::run_command(
        &hops,
        &programs,
        Options::new(Clock::start()),
        &HeldSignals::hold()?,
    )?;
    eprintln!("{}", outcome.summary);
    if let Some(doubt) = outcome.summary.doubt() {
        eprintln!("warning: {doubt}");
    }
    Ok(outcome.code.clamp(0, 255) as u8)
}
