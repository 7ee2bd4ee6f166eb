use super::{bench, figure, probe};
use base::BitsPerSec;
use experiment::Outcome;
use sim::craft::Hosts;

const SHDSL: &str = "rate = \"2035 kbit/s\"\ndelay = \"1.36 ms\"\nqueue = \"fifo:packets=50\"";

/// 100 Mbit/s towards the line, as the document's hosts have.
fn hosts() -> Hosts {
    Hosts {
        v6: true,
        access: BitsPerSec::from_mbps(100),
        ..Hosts::default()
    }
}

fn run(words: &str) -> Outcome {
    probe(words, &mut bench(SHDSL, hosts()))
}

/// The shares of A and B that arrived at the document's highest rate.
fn shares(outcome: &Outcome, table: usize) -> (f64, f64) {
    let share = |text: &str| {
        let (got, sent) = text.split_once(" of ").expect("counts");
        got.parse::<f64>().unwrap() / sent.parse::<f64>().unwrap()
    };
    let row = &outcome.tables[table].rows[0];
    (share(&row[1]), share(&row[2]))
}

/// Figure 4.3: of 10 000 each at 3.2 Mbit/s, 9 994 and 2 297 arrive in pairs, 6 077 and 6 140 evenly spaced.
#[test]
fn figure_4_3_pairs_lose_their_second_and_even_spacing_loses_alike() {
    let outcome = run("spacing:count=4000");
    let (a, b) = shares(&outcome, 0);
    assert!(a > 0.995, "A {a}");
    assert!((b - 0.2297).abs() < 0.03, "B {b}");
    let (a, b) = shares(&outcome, 1);
    assert!((a + b - 1.2217).abs() < 0.03, "both {a} {b}");
    assert!(outcome.says.contains("Spacing decides"), "{}", outcome.says);
    // At 1.8 Mbit/s nothing is lost, however it is spaced.
    for table in &outcome.tables {
        assert_eq!(table.rows[7][1..3], ["4000 of 4000", "4000 of 4000"]);
    }
}

/// Figures 4.4 to 4.6: whatever the sizes, the first of a pair is the one that gets through.
#[test]
fn figures_4_4_to_4_6_the_first_gets_through_whatever_the_sizes() {
    for (a, b) in [(1452, 726), (1452, 363), (726, 1452)] {
        let outcome = run(&format!("spacing:a={a},b={b},count=2000"));
        for row in &outcome.tables[0].rows[..6] {
            let got = |i: usize| row[i].split(' ').next().unwrap().parse::<u32>().unwrap();
            assert!(got(1) > got(2), "{a} {b}: {row:?}");
        }
        let (first, ..) = figure(&outcome, "pairs_first_lost");
        let (second, ..) = figure(&outcome, "pairs_second_lost");
        assert!(second > 2.0 * first, "{a} {b}: {first} {second}");
    }
}

#[test]
fn where_others_keep_the_queue_moving_the_answer_says_what_it_saw() {
    // CoDel drops from the front, at any time: neither half is favoured much.
    let up = "rate = \"2035 kbit/s\"\nqueue = \"codel\"";
    let outcome = probe("spacing:count=1000", &mut bench(up, hosts()));
    let (first, ..) = figure(&outcome, "pairs_first_lost");
    assert!(first > 0.05, "{}", outcome.says);
}
