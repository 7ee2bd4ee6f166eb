//! The one helper of developers and CI: `cargo xtask check | gen | layers | cites | sample | test`.

#![forbid(unsafe_code)]

mod additions;
mod book;
mod circles;
mod cites;
mod gallery;
mod generate;
mod kinds;
mod layers;
mod soundness;
mod sources;
mod suite;
mod tidy;
mod typescript;

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: cargo xtask VERB
  check    everything below that can fail: layers, cites, that generated files are fresh, that unsafe code
           stands in one folder, that the gallery has a page for every scenario of a published work, that sources are cited by name, that the book lists
           every page and has no dead link, that docs/contrib names every file to touch for an addition,
           that a kind of probe is its folder and one line, and that
           doc comments begin well and public items of pure rooms have them, but for the counts in xtask/tidy.txt
  gen      write schema/ and docs/reference/ anew from their sources
  layers   no room depends on one it must not, pure rooms say that they are, and no files of different folders of a room
           import each other in a circle, but for those in xtask/circles.txt
  cites    list each RFC that is cited, with its title
  sample   write data/records/ of the present format version anew
  test     build all tests and run them, several binaries at once; words choose binaries: `test cli/networks sim/`";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<()> {
    let root = root();
    match words.first().map(String::as_str) {
        Some("check") => {
            layers::check(&root)?;
            circles::check(&root)?;
            soundness::check(&root)?;
            cites::check(&root)?;
            gallery::check(&root)?;
            kinds::check(&root)?;
            book::check(&root)?;
            sources::check(&root)?;
            additions::check(&root)?;
            tidy::check(&root)?;
            generate::check(&root)
        }
        Some("gen") => {
            circles::shrink(&root)?;
            tidy::shrink(&root)?;
            generate::write(&root)
        }
        Some("layers") => {
            layers::check(&root)?;
            circles::check(&root)
        }
        Some("cites") => {
            print!("{}", cites::check(&root)?);
            Ok(())
        }
        Some("sample") => sample(&root),
        Some("test") => suite::run(&root, &words[1..]),
        _ => bail!(USAGE),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask stands in the workspace")
        .to_owned()
}

/// The store writes the sample itself, in a process of its own: xtask stays cheap to build.
fn sample(root: &Path) -> Result<()> {
    let status = cargo(root)
        .args([
            "run",
            "--release",
            "--quiet",
            "--package",
            "tailback-store",
            "--example",
            "sample",
        ])
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the sample was not written");
    }
    Ok(())
}

fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root);
    cargo
}
