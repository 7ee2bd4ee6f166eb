//! `tailback-lab`: the laboratory of the source tree. It makes published figures again, and judges the program over links
//! whose truth is known. Nothing here is shipped.

#![forbid(unsafe_code)]

mod accuracy;
mod asked;
mod captures;
mod chance;
mod console;
mod cores;
mod draws;
mod gateway;
mod monitors;
mod reproduce;
mod twin_draws;
mod which_queue;

use anyhow::Context;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "tailback-lab",
    about = "Make published figures again, and judge Tailback over links whose truth is known"
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Reproduce(reproduce::verb::Args),
    Draws(draws::Args),
    ProbeDraws(accuracy::DrawArgs),
    CaptureDraws(captures::Args),
    MonitorDraws(monitors::Args),
    Accuracy(accuracy::Args),
    TwinDraws(twin_draws::Args),
    WhichQueue(which_queue::Args),
    Cross(draws::hosts::Args),
    Gateway(gateway::Args),
}

fn main() -> ExitCode {
    match run(Cli::parse().verb) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("tailback-lab: {error:#}");
            ExitCode::from(if error.is::<ops::Usage>() { 2 } else { 3 })
        }
    }
}

/// Runs a verb; returns false if figures do not agree as they should.
fn run(verb: Verb) -> anyhow::Result<bool> {
    match verb {
        Verb::Reproduce(args) => return reproduce::verb::run(args),
        Verb::Draws(args) => draws::run(&args)?,
        Verb::ProbeDraws(args) => accuracy::draws(&args)?,
        Verb::CaptureDraws(args) => captures::run(&args)?,
        Verb::MonitorDraws(args) => monitors::run(&args)?,
        Verb::Accuracy(args) => {
            live::emulate::prepare()
                .context("the lines with the kernel's own packets need namespaces")?;
            accuracy::run(&args)?;
        }
        Verb::TwinDraws(args) => twin_draws::run(&args)?,
        Verb::WhichQueue(args) => which_queue::run(&args),
        Verb::Cross(args) => draws::hosts::run(&args)?,
        Verb::Gateway(args) => {
            live::emulate::prepare().context("gateways need namespaces")?;
            gateway::run(&args)?;
        }
    }
    Ok(true)
}

/// Returns the program `tailback` beside this one.
///
/// # Errors
/// A program that is not built.
fn program() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe()?;
    let folders = here.ancestors().skip(1).take(2);
    let found = folders
        .map(|dir| dir.join("tailback"))
        .find(|p| Path::is_file(p));
    found.context("no program \"tailback\" beside this one: build it first with `make build`")
}
