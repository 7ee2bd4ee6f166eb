//! Feeds the tracker with damaged captures until the time is up: `fuzz_captures FOLDER SECONDS [SEED]`.
//! An input that makes it panic is written to the working directory as `panic-SEED.pcap`.

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
        if std::panic::catch_unwind(run).is_err() {
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
