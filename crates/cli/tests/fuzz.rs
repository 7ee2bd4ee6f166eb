//! Replays the corpus of `fuzz/` and mutates messages, for every parser and for sequences of messages. Nothing may panic
//! or take long. `make fuzz-long` makes 10 million messages of each protocol; FUZZ_COUNT sets the number, FUZZ_TARGET
//! picks one target, FUZZ_SEED repeats a run.

#[path = "../../../fuzz/targets.rs"]
mod targets;

use base::rng::{Rng, Streams};
use rand::RngExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use targets::Target;

/// Messages of each target in the ordinary run, divided by its weight.
const COUNT: u64 = 50_000;
/// Longest message.
const LONGEST: usize = 24_000;

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// A number that is likely to be at the end of some range.
fn extreme(rng: &mut Rng) -> u64 {
    let edge = 1u64 << rng.random_range(0..64u32);
    match rng.random_range(0..5) {
        0 => 0,
        1 => u64::MAX,
        2 => edge,
        3 => edge.wrapping_sub(1),
        _ => rng.random(),
    }
}

/// Changes bits, bytes and numbers, cuts, repeats, and joins two messages.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
    for _ in 0..rng.random_range(1..6) {
        let len = bytes.len();
        let at = rng.random_range(0..len.max(1));
        match rng.random_range(0..10) {
            _ if len == 0 => bytes.push(rng.random()),
            0 => bytes[at] ^= 1 << rng.random_range(0..8u32),
            1 => bytes[at] = rng.random(),
            2 => bytes.truncate(at),
            3 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][rng.random_range(0..5usize)],
            4 => {
                let (mut n, mut number) = (extreme(rng), Vec::new());
                while n >= 0x80 {
                    number.push(n as u8 | 0x80);
                    n >>= 7;
                }
                number.push(n as u8);
                bytes.splice(at..(at + number.len()).min(len), number);
            }
            5 => {
                let part = bytes[at..(at + 40).min(len)].to_vec();
                bytes.splice(at..at, part);
            }
            6 => {
                let width = [1, 2, 4, 8][rng.random_range(0..4usize)];
                let edge = extreme(rng);
                let edge = if rng.random() {
                    edge.to_be_bytes()
                } else {
                    edge.to_le_bytes()
                };
                bytes.splice(at..(at + width).min(len), edge[..width].to_vec());
            }
            7 => {
                let other = &seeds[rng.random_range(0..seeds.len())];
                let from = rng.random_range(0..other.len().max(1)).min(other.len());
                bytes.truncate(at);
                bytes.extend(&other[from..]);
            }
            8 => {
                bytes.drain(at..(at + rng.random_range(1..9usize)).min(len));
            }
            // A number as text.
            _ => {
                let digits = match rng.random_range(0..4) {
                    0 => "-1".to_owned(),
                    1 => "1e400".to_owned(),
                    2 => "NaN".to_owned(),
                    _ => extreme(rng).to_string(),
                };
                bytes.splice(at..(at + 2).min(len), digits.bytes());
            }
        }
    }
    bytes.truncate(LONGEST);
}

/// Files of the corpus of a target: messages that have found faults, or show an odd way through the parser.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let dir = targets::repository("fuzz/corpus").join(target.name);
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    paths
        .iter()
        .map(|p| std::fs::read(p).expect("it reads"))
        .collect()
}

/// Runs one message; a panic shows it.
fn run(target: &Target, bytes: &[u8], seed: u64) {
    let began = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
    let took = began.elapsed();
    let shown = || {
        let hex: String = bytes.iter().take(400).map(|b| format!("{b:02x}")).collect();
        if let Some(dir) = std::env::var_os("FUZZ_KEEP") {
            let path = std::path::Path::new(&dir).join(format!("{}-{seed}", target.name));
            let _ = std::fs::write(path, bytes);
        }
        format!(
            "{} with FUZZ_SEED={seed}, {} bytes: {hex}",
            target.name,
            bytes.len()
        )
    };
    assert!(outcome.is_ok(), "panic in {}", shown());
    assert!(took < Duration::from_secs(5), "{took:?} in {}", shown());
}

fn fuzz(target: &Target, seed: u64, count: u64) {
    let mut rng = Streams::new(seed).stream(target.name);
    let mut seeds = (target.seeds)();
    seeds.extend(corpus(target));
    assert!(
        !seeds.is_empty(),
        "{} has nothing to begin from",
        target.name
    );
    let began = Instant::now();
    for bytes in &seeds {
        run(target, bytes, seed);
    }
    for _ in 0..count {
        let mut bytes = seeds[rng.random_range(0..seeds.len())].clone();
        mutate(&mut rng, &mut bytes, &seeds);
        run(target, &bytes, seed);
    }
    let took = began.elapsed().as_secs_f64();
    eprintln!("{}: {count} messages, {took:.1} s, no panic", target.name);
}

#[test]
fn every_target_has_a_corpus() {
    for target in targets::all() {
        assert!(!corpus(target).is_empty(), "fuzz/corpus/{}", target.name);
    }
}

#[test]
fn no_message_brings_a_parser_down() {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
    let seed = from_environment("FUZZ_SEED").unwrap_or(fresh);
    let only = std::env::var("FUZZ_TARGET").ok();
    eprintln!("FUZZ_SEED={seed}");
    for target in targets::all() {
        if only.as_ref().is_some_and(|only| only != target.name) {
            continue;
        }
        let asked = from_environment("FUZZ_COUNT");
        let count = asked.map_or((COUNT / target.weight).max(20), |n: u64| {
            (n / target.weight).max(1)
        });
        fuzz(target, seed, count);
    }
}
