//! What stands at the far end of test networks: small servers that behave in one known way each, and this program
//! run from the near end.

pub mod impostor;
pub mod lines;
pub mod network;
pub mod planted;
pub mod resolver;
pub mod site;

pub use lines::serve;
use live::clock::Clock;
use live::emulate::{EmulateError, Emulation, FAR_V4, Options};
use serde_json::Value;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

pub const TAILBACK: &str = env!("CARGO_BIN_EXE_tailback");

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
    let spec = format!("name = \"test\"\ntitle = \"test\"\n[up]\n{up}\n[down]\n{down}\n");
    match lines::start(&spec, Options::new(Clock::start())) {
        Ok(emulation) => Some(emulation),
        Err(e @ (EmulateError::NotAllowed { .. } | EmulateError::Kernel { .. })) => {
            assert!(
                std::env::var_os("TAILBACK_REQUIRE_NETNS").is_none(),
                "namespaces are required here: {e}"
            );
            eprintln!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Runs `tailback probe KIND` at the near end against the far one; gives its answer and what it wrote.
pub fn probe(line: &Emulation, kind: &str) -> (Value, Output) {
    // Tests of one program run at once.
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let name = format!("tailback-doubles-{}-{run}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    let mut command = Command::new(TAILBACK);
    command
        .args(["probe", kind, &FAR_V4.to_string()])
        .args(planted::ALSO)
        .args(["--json", "-o"])
        .arg(&dir);
    let out = line
        .near()
        .command(&mut command)
        .output()
        .expect("tailback runs");
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{kind}: {told}");
    let answer = serde_json::from_slice(&out.stdout).expect("it is JSON");
    let again = Command::new(TAILBACK)
        .args(["analyse", "--json"])
        .arg(&dir)
        .output()
        .expect("tailback runs");
    let again: Value = serde_json::from_slice(&again.stdout).expect("it is JSON");
    assert_eq!(again, answer, "the recording says the same");
    let page = std::fs::read_to_string(dir.join("report.html")).expect("a page");
    assert!(page.contains("<h1>"), "{page}");
    std::fs::remove_dir_all(&dir).expect("the recording can go");
    (answer, out)
}

pub fn figure(answer: &Value, key: &str) -> f64 {
    let figures = answer["figures"].as_array().expect("figures");
    let found = figures.iter().find(|f| f["key"] == key);
    found.unwrap_or_else(|| panic!("no {key} in {answer}"))["figure"]["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("no value of {key} in {answer}"))
}

/// The one sentence that answers the question.
pub fn says(answer: &Value) -> &str {
    answer["says"].as_str().expect("a sentence")
}
