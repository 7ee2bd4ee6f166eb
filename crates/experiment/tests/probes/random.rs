//! Kinds over links drawn at random: rate, delay, queue, noise of the stamps. A failure names the seed.

use super::{bench, probe};
use base::Duration;
use base::rng::{Rng, Streams, uniform};
use sim::craft::Hosts;
use stats::Figure;

/// A link as it was drawn.
struct Drawn {
    up: String,
    rate: f64,
    /// Capacity of the queue in full packets, bytes.
    bytes: f64,
    counts_packets: bool,
    hosts: Hosts,
}

fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    (low.ln() + (high / low).ln() * uniform(rng)).exp()
}

fn draw(seed: u64) -> Drawn {
    let mut rng = Streams::new(seed).stream("random links");
    let rate = between(&mut rng, 0.5e6, 150e6).round();
    let delay_us = between(&mut rng, 500.0, 80_000.0) as u64;
    let ms = between(&mut rng, 20.0, 600.0);
    let packets = (rate * ms / 1e3 / 8.0 / 1500.0)
        .clamp(10.0, 5_000.0)
        .round();
    let counts_packets = uniform(&mut rng) < 0.5;
    let queue = match counts_packets {
        true => format!("fifo:packets={packets}"),
        false => format!("fifo:bytes={}", packets * 1500.0),
    };
    Drawn {
        up: format!("rate = \"{rate} bit/s\"\ndelay = \"{delay_us} us\"\nqueue = \"{queue}\""),
        rate,
        bytes: packets * 1500.0,
        counts_packets,
        hosts: Hosts {
            v6: uniform(&mut rng) < 0.5,
            stamp_late: Duration::from_nanos(between(&mut rng, 1e3, 100e3) as u64),
            drift_ppm: 100.0 * uniform(&mut rng) - 50.0,
            seed,
            ..Hosts::default()
        },
    }
}

/// Counts of figures that are further off than allowed, and of intervals that hold the truth.
#[derive(Default)]
struct Score {
    told: usize,
    held: usize,
    off: Vec<String>,
}

impl Score {
    fn note(&mut self, at: &str, figure: &Figure, truth: f64, by: f64) {
        let Figure::Is { value, low, high } = figure else {
            return;
        };
        self.told += 1;
        // A millionth is rounding.
        let holds = low * (1.0 - 1e-6) <= truth && truth <= high * (1.0 + 1e-6);
        self.held += usize::from(holds);
        let error = 100.0 * (value / truth - 1.0);
        let line =
            format!("{at}: {value:.0} ({low:.0} to {high:.0}), truth {truth:.0}: {error:+.2} %");
        println!("{line}");
        if error.abs() > 100.0 * by {
            self.off.push(line);
        }
    }

    /// Told right whenever it is told, mostly told, and 95 % intervals that hold the truth in nine of ten runs at least.
    fn close(&self, what: &str) {
        let Score { told, held, off } = self;
        println!("{what}: told {told} of 40, {held} intervals hold the truth");
        assert!(off.is_empty(), "{what}: {off:#?}");
        assert!(
            *told >= 34 && 10 * held >= 9 * told,
            "{what}: told {told}, held {held}"
        );
    }
}

/// Pairs alone read up to 8 % low where the stamps were late by a part of a packet's time.
#[test]
fn what_an_idle_link_carries_is_told_right_or_not_at_all() {
    let [mut carries, mut free] = [(); 2].map(|()| Score::default());
    for seed in 0..40 {
        let Drawn {
            up, rate, hosts, ..
        } = draw(seed);
        let outcome = probe("capacity", &mut bench(&up, hosts));
        let at = format!("seed {seed}, {up:?}, stamps {}", hosts.stamp_late);
        carries.note(&at, outcome.figure("capacity_bps"), rate, 0.02);
        free.note(
            &format!("free, {at}"),
            outcome.figure("available_bps"),
            rate,
            0.02,
        );
    }
    carries.close("carries");
    free.close("free");
}

/// The interval in bytes dropped the uncertainty of the rate, and a dozen packets in a stretch made a token bucket.
#[test]
fn a_queue_is_told_in_bytes_and_packets_whatever_it_counts() {
    let [mut bytes, mut rates, mut packets] = [(); 3].map(|()| Score::default());
    for seed in 100..140 {
        let Drawn {
            up,
            rate,
            bytes: holds,
            counts_packets,
            hosts,
        } = draw(seed);
        let outcome = probe("buffer", &mut bench(&up, hosts));
        let at = format!("seed {seed}, {up:?}");
        assert!(
            outcome.figures.iter().all(|f| f.key != "bucket_bytes"),
            "{at}: a token bucket where there is none"
        );
        // Full packets as the probe sends them.
        let packet = if hosts.v6 { 1500.0 } else { 1480.0 };
        let (most, truth) = match counts_packets {
            true => (holds / 1500.0, holds / 1500.0 * packet),
            false => ((holds / packet).floor(), holds),
        };
        packets.note(
            &at,
            outcome.figure("queue_packets"),
            most,
            0.02 + 1.01 / most,
        );
        bytes.note(
            &at,
            outcome.figure("queue_bytes"),
            truth,
            0.02 + packet / truth,
        );
        rates.note(&at, outcome.figure("link_bps"), rate, 0.01);
    }
    for (what, score) in [("bytes", bytes), ("rates", rates), ("packets", packets)] {
        score.close(what);
    }
}
