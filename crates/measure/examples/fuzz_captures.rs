//! Feeds the tracker with damaged captures until the time is up: `fuzz_captures FOLDER SECONDS [SEED [TAILBACK]]`.
//! An input that makes it panic is written to the working directory as `panic-SEED-a.pcap` (and `-b`, of two ends).
//!
//! Of TAILBACK, the program, each hundredth input goes through `trace`, `trace --traffic` and `trace --far` as well, with
//! 2 GB of memory at most: what is made of the packets behind the tracker is fuzzed with them.

#[path = "../tests/captures/hostile/mutate.rs"]
mod mutate;

use mutate::{Chance, mutate, survive, survive_as_ends};

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(folder), Some(seconds)) =
        (args.next(), args.next().and_then(|s| s.parse::<u64>().ok()))
    else {
        panic!("fuzz_captures FOLDER SECONDS [SEED]")
    };
    let first: u64 = args.next().and_then(|s| s.parse().ok()).unwrap_or(1);
    let tailback = args.next();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder can be read") {
        let file =
            std::fs::read(entry.expect("it can be listed").path()).expect("a file can be read");
        if file.len() < 100_000 {
            files.push(file);
        }
    }
    let begin = std::time::Instant::now();
    let mut seed = first;
    let mut found = 0;
    while begin.elapsed().as_secs() < seconds {
        let mut chance = Chance(seed);
        let file = vec![files[chance.next() as usize % files.len()].clone()];
        let (input, other) = (mutate(&mut chance, &files), mutate(&mut chance, &file));
        let run = || {
            survive(&input);
            survive_as_ends(&other, &file[0]);
        };
        let mut failed = std::panic::catch_unwind(run).is_err();
        if let Some(tailback) = tailback.as_ref().filter(|_| seed.is_multiple_of(100)) {
            failed |= !survived_by(tailback, &input, &other);
        }
        if failed {
            std::fs::write(format!("panic-{seed}-a.pcap"), &input).expect("it can be written");
            std::fs::write(format!("panic-{seed}-b.pcap"), &other).expect("it can be written");
            found += 1;
        }
        seed += 1;
    }
    println!(
        "{} inputs from {} files, {found} panics",
        seed - first,
        files.len()
    );
}

/// Whether the program gets through all of it without a panic, a signal or more memory than it may have.
fn survived_by(tailback: &str, input: &[u8], other: &[u8]) -> bool {
    let place = std::env::temp_dir().join(format!("tailback-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("there is a directory for what is temporary");
    let [a, b] = ["a", "b"].map(|name| place.join(name));
    std::fs::write(&a, input).expect("it can be written");
    std::fs::write(&b, other).expect("it can be written");
    let ways = [
        "trace --json \"$1\"",
        "trace --traffic --json \"$1\"",
        "trace --json \"$1\" --far \"$2\"",
    ];
    let all = ways.iter().all(|way| {
        let out = std::process::Command::new("sh")
            .args([
                "-c",
                &format!("ulimit -v 2000000; exec \"$0\" {way}"),
                tailback,
            ])
            .args([&a, &b])
            .output()
            .expect("it can be run");
        let fine = matches!(out.status.code(), Some(0..=3));
        if !fine {
            eprintln!(
                "{way}: {} {}",
                out.status,
                String::from_utf8_lossy(&out.stderr)
            );
        }
        fine
    });
    std::fs::remove_dir_all(&place).expect("it was made here");
    all
}
