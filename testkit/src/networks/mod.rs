//! The far end of test networks: small servers that behave in one known way each, and the program run from the near end.

pub mod house;
pub mod impostor;
pub mod network;
pub mod planted;
pub mod portal;
pub mod resolver;
pub mod site;

pub use crate::answer::{figure, says};
pub use crate::line::serve;

use crate::{Program, TempDir, line};
use live::emulate::{Emulation, FAR_V4};
use serde_json::Value;
use std::process::Output;

/// A line of 100 Mbit/s with `delay_ms` each way, or nothing where this system does not allow one.
pub fn line(delay_ms: u32) -> Option<Emulation> {
    let way = ("100 Mbit/s", "fifo:bytes=1MB");
    line_with(delay_ms, way, way)
}

/// The same of a rate and a queue up, and of a rate and a queue down.
pub fn line_with(delay_ms: u32, up: (&str, &str), down: (&str, &str)) -> Option<Emulation> {
    let [up, down] = [up, down].map(|(rate, queue)| {
        format!("rate = \"{rate}\"\nqueue = \"{queue}\"\ndelay = \"{delay_ms} ms\"")
    });
    line_of(&up, &down)
}

/// A line whose directions are these tables of a link's file.
pub fn line_of(up: &str, down: &str) -> Option<Emulation> {
    line::start(&[line::spec(up, down)])
}

/// Runs `tailback probe KIND` at the near end against the far one; gives its answer and what it wrote.
///
/// # Panics
/// If the probe fails, or its recording gives another answer.
pub fn probe(program: &Program, line: &Emulation, kind: &str) -> (Value, Output) {
    let dir = TempDir::new("doubles");
    let recording = dir.at("probe.rec");
    let far = FAR_V4.to_string();
    let mut command = program.command(&["probe", kind, &far, "--json", "-o", &recording]);
    command.args(planted::ALSO);
    let out = line.near().command(&mut command).output();
    let out = out.expect("tailback runs");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{kind}: {told}");
    let answer = serde_json::from_slice(&out.stdout).expect("it is JSON");
    let again = program.json(&["analyse", "--json", &recording]);
    assert_eq!(again, answer, "the recording says the same");
    let page = dir.join("probe.rec/report.html");
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("<h1>"), "{page}");
    (answer, out)
}
