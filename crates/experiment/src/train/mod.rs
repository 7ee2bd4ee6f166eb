//! Fate of a train of datagrams with chosen number, size and rate, or of any program.
//!
//! **Method.** Both ends stamp every datagram, so loss, arrival time, order and marks of each are known. The clocks of
//! the two ends need not agree: a delay is the excess over the train's least.
//!
//! **Source.** A. R. Chandele, "Network Measurement in 2G/3G Cellular Network", Indian Institute of Technology Delhi 2012,
//! section 3.4 (g) and (h): UDP up and down with a number of packets, a rate and a size. Jitter: RFC 3393, the mean
//! difference of successive delays. Reordering: RFC 4737, type-P-reordered.
//!
//! **Units.** Rates are of payload, bit/s; ms.

mod answer;
mod steps;
mod text;

use super::spec::{How, Spec};
use super::trains::{Ways, received_rate_figure, waits};
use base::program::{LARGEST_PAYLOAD, LONGEST, MOST_DATAGRAMS, Program, Step, Train};
use base::record::Direction;
use base::spec::{Params as _, params};
use base::{BitsPerSec, Bytes, Duration};
use stats::Figure;

const CHANDELE: &str = "Chandele 2012, section 3.4 (g)";

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "train": "How are the datagrams of a given train delayed, lost and reordered?", ["A. R. Chandele, Network Measurement in 2G/3G Cellular Network, Indian Institute of Technology Delhi 2012",
            "RFC 3393",
            "RFC 4737",] {
        /// direction; both is one after the other
        direction: Ways = "both", CHANDELE;
        /// number of datagrams
        count: u64 as Packets = "1000" ["2".."1000000"], CHANDELE;
        /// payload of each
        size: Bytes = "1000 B" ["20 B".."65507 B"], CHANDELE;
        /// payload rate; datagrams are evenly spaced
        rate: BitsPerSec = "100 kbit/s" ["1 bit/s".."100 Gbit/s"], CHANDELE;
        /// other train, as a program: 9 x 1452+726@7 ms; pause 5 s; 50 x 200@1 ms dscp=46 ecn=2 df
        send: Option<Program>;
        /// number of trains in each direction
        repeats: u64 = "1" ["1".."1000"];
        /// silence before each, once the queue is empty
        rest: Duration = "1 s" ["0 s".."3600 s"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "the length of the trains, by default 80 s in each direction",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Trains(|w, trains| steps::next(&w.read(), trains)),
    answer: |w, recording| answer::answer(&w.read(), &Train::all_of(recording)),
};

/// Program from the parameters; if they exceed one program, as many datagrams as fit.
fn program(params: &Params) -> Program {
    if let Some(program) = &params.send {
        return program.clone();
    }
    let size = (params.size.get() as u32).min(LARGEST_PAYLOAD);
    let mut step = Step::steady(size, params.rate, Duration::from_secs(1));
    let gap = step.shots[0].gap.as_nanos().max(1);
    step.times = params
        .count
        .clamp(2, MOST_DATAGRAMS)
        .min(LONGEST.as_nanos() / gap)
        .max(1);
    Program::of(step)
}

/// Direction with all of its repeats.
struct Way<'a> {
    direction: Direction,
    trains: Vec<&'a Train>,
}

impl Way<'_> {
    fn sum(&self, of: impl Fn(&Train) -> u64) -> f64 {
        self.trains.iter().map(|t| of(t)).sum::<u64>() as f64
    }

    fn lost(&self) -> Figure {
        stats::share(
            &self
                .trains
                .iter()
                .flat_map(|t| t.losses())
                .collect::<Vec<_>>(),
        )
    }

    /// Mean of the repeats, or the single train's rate with its own interval.
    fn rate(&self) -> Figure {
        match self.trains.as_slice() {
            [one] => received_rate_figure(one, 0.0),
            many => {
                let all: Vec<f64> = many
                    .iter()
                    .filter_map(|t| received_rate_figure(t, 0.0).value())
                    .collect();
                stats::mean_figure(&all)
            }
        }
    }

    fn waits(&self) -> Vec<f64> {
        let each = self.trains.iter().flat_map(|t| waits(t));
        each.map(|w| w.1).collect()
    }

    /// Jitter. Numbers start again with each train, so that none follows the last of the one before.
    fn jitter(&self) -> Figure {
        let delays = self.trains.iter().flat_map(|t| t.delays());
        let ms: Vec<(i64, f64)> = delays.map(|(i, ns)| (i as i64, ns as f64 * 1e-6)).collect();
        stats::jitter(&ms)
    }

    /// Datagrams that arrived after one with a higher number.
    fn reordered(&self) -> u64 {
        let of = |t: &Train| {
            let mut arrived: Vec<(i64, usize)> = t
                .fates
                .iter()
                .enumerate()
                .filter_map(|(i, f)| Some((f.received_ns?, i)))
                .collect();
            arrived.sort_unstable();
            let mut highest = 0;
            let late = |(_, i): &(i64, usize)| {
                let late = *i < highest;
                highest = highest.max(*i);
                late
            };
            arrived.iter().copied().filter(late).count() as u64
        };
        self.trains.iter().map(|t| of(t)).sum()
    }

    /// Longest run of lost datagrams.
    fn longest_loss(&self) -> u64 {
        let of = |t: &Train| {
            let (mut run, mut most) = (0u64, 0);
            for f in t.fates.iter().filter(|f| f.sent_ns.is_some()) {
                run = if f.received_ns.is_some() { 0 } else { run + 1 };
                most = most.max(run);
            }
            most
        };
        self.trains.iter().map(|t| of(t)).max().unwrap_or(0)
    }

    /// Datagrams sent with ECN; those that arrived with a congestion mark; those with the field cleared.
    fn marks(&self) -> (u64, u64, u64) {
        let mut counts = (0, 0, 0);
        for (due, fate) in self.trains.iter().flat_map(|t| t.datagrams()) {
            if let (1 | 2, Some(ecn)) = (due.marking.ecn.bits(), fate.ecn) {
                counts.0 += 1;
                counts.1 += u64::from(ecn == 3);
                counts.2 += u64::from(ecn == 0);
            }
        }
        counts
    }
}
