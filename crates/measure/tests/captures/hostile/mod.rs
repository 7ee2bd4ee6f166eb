//! Damaged and forged captures: the corpus is kept in `tests/corpus`, and every run damages it anew in the same way.
//! All of it is our own: packets between two namespaces (10.77.0.0/16, fd77::/16; 10.0.0.0/8 built by hand), written in
//! each of the formats that the names say.
//! `cargo run --release -p tailback-measure --example fuzz_captures FOLDER SECONDS` goes on for longer.

mod mutate;

use crate::packets::{MS, T0, Tcp, pcap};
use mutate::{Chance, mutate, survive, survive_as_ends};

fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let entries = std::fs::read_dir(folder).expect("the corpus is there");
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 10, "{paths:?}");
    paths.iter().map(|p| std::fs::read(p).unwrap()).collect()
}

#[test]
fn the_corpus_is_survived_as_it_is() {
    let files = corpus();
    for file in &files {
        survive(file);
        survive_as_ends(file, &files[0]);
    }
}

#[test]
fn a_thousand_damaged_captures_are_survived() {
    let files = corpus();
    for seed in 0..1000 {
        let input = mutate(&mut Chance(seed), &files);
        survive(&input);
        if seed % 4 == 0 {
            survive_as_ends(&input, &files[seed as usize % files.len()]);
        }
    }
}

#[test]
fn times_and_numbers_at_the_edges_of_their_ranges_are_survived() {
    let edges = [0u32, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, u32::MAX];
    let mut packets = Vec::new();
    for (i, seq) in edges.into_iter().enumerate() {
        for (j, ack) in edges.into_iter().enumerate() {
            let t = if j % 2 == 0 {
                T0
            } else {
                i64::from(u32::MAX) * 1_000 * MS
            };
            let p = Tcp::there(seq, ack, [0, 1, 1448][(i + j) % 3]).timestamps(ack, seq);
            packets.push((t, p.clone().ethernet()));
            packets.push((
                t,
                Tcp { back: true, ..p }
                    .sack(&[(ack, seq), (seq, ack)])
                    .ethernet(),
            ));
        }
    }
    survive(&pcap(false, true, 1, 65_535, &packets));
}
