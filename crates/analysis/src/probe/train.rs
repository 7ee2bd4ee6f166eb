//! What becomes of a train of datagrams of one's own: so many, so large, so fast, or any program.
//!
//! **Method.** Both ends stamp every datagram, so that what was lost, when the others came, in which order and with which
//! marks is known of each. The clocks of the two ends need not agree: a delay is what exceeds the train's least.
//!
//! **Source.** A. R. Chandele, "Network Measurement in 2G/3G Cellular Network", Indian Institute of Technology Delhi 2012,
//! section 3.4 (g) and (h): UDP up and down with a number of packets, a rate and a size. Jitter: RFC 3393, the mean
//! difference of successive delays. Reordering: RFC 4737, type-P-reordered.
//!
//! **Units.** Rates are of payload, bit/s; ms.

use super::answer::{Draw, Figured, Outcome, Plot, Quantity, Series, Table};
use super::registry::{How, Spec};
use super::trains::Ways;
use super::trains::{SCOUT, of_stage, received_rate_figure, scout, sent_rate, waits};
use base::Bytes;
use base::program::{LARGEST_PAYLOAD, LONGEST, MOST_DATAGRAMS, Program, Sending, Step, Train};
use base::record::Direction;
use base::spec::{Params as _, params};
use base::units::significant;
use base::{BitsPerSec, Duration};
use stats::Figure;

const CHANDELE: &str = "document 002, section 3.4 (g)";

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "train": "What becomes of these datagrams: so many, so large, so fast?", ["A. R. Chandele, Network Measurement in 2G/3G Cellular Network, Indian Institute of Technology Delhi 2012",
            "RFC 3393",
            "RFC 4737",] {
        /// which way to send; both is one after the other
        direction: Ways = "both", CHANDELE;
        /// datagrams
        count: u64 as Packets = "1000" ["2".."1000000"], CHANDELE;
        /// payload of each
        size: Bytes = "1000 B" ["20 B".."65507 B"], CHANDELE;
        /// of payload; they are evenly spaced
        rate: BitsPerSec = "100 kbit/s" ["1 bit/s".."100 Gbit/s"], CHANDELE;
        /// any datagrams in place of these: 9 x 1452+726@7 ms; pause 5 s; 50 x 200@1 ms dscp=46 ecn=2 df
        send: Option<Program>;
        /// how often, each way
        repeats: u64 = "1" ["1".."1000"];
        /// silence before each, once the queue is empty
        rest: Duration = "1 s" ["0 s".."3600 s"];
    }
}

pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "as long as the datagrams take, 80 s each way unless told otherwise",
    beside_others: false,
    how: How::Crafted(|w, trains| next(&w.read(), trains)),
    answer: |w, recording| answer(&w.read(), &Train::all_of(recording)),
};

/// As told; of what does not fit into one program, as many as do.
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

fn stage(direction: Direction, number: u64) -> String {
    format!("{} {number}", direction.word())
}

fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let sent = |name: &str| trains.iter().any(|t| t.facts.stage == name);
    for &direction in params.direction.directions() {
        for number in 1..=params.repeats {
            let stage = stage(direction, number);
            if sent(&stage) {
                continue;
            }
            if !sent(SCOUT) {
                // Shows that the way is open before much is sent.
                return Some(scout(direction, program(params).largest_payload()));
            }
            return Some(Sending {
                stage,
                direction,
                programs: vec![program(params)],
                rest: params.rest,
            });
        }
    }
    None
}

/// One way, all repeats together.
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

    /// Mean of the repeats', or the one's with its own interval.
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

    /// Numbers begin anew with each train, so that none follows the last of the one before.
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

    /// Most datagrams in a row that were lost.
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

    /// Sent with ECN, and arrived with the mark of congestion; with the field cleared.
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

fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let ways: Vec<Way> = params
        .direction
        .directions()
        .iter()
        .map(|&direction| Way {
            direction,
            trains: of_stage(trains, direction.word()).collect(),
        })
        .filter(|w| !w.trains.is_empty())
        .collect();
    if ways.is_empty() {
        return Outcome::cannot_tell("no train was sent");
    }
    let mut out = Outcome {
        says: ways.iter().map(said).collect::<Vec<_>>().join(" "),
        tables: vec![table(&ways)],
        plots: ways.iter().map(plot).collect(),
        ..Outcome::default()
    };
    for w in &ways {
        figures(w, &mut out);
    }
    let asked = params.count;
    let fits = program(params).count();
    if params.send.is_none() && fits < asked {
        out.doubts.push(format!(
            "of {asked} datagrams at that rate {fits} take an hour, which is the longest of one train"
        ));
    }
    if params.send.is_none() {
        let rate = params.rate.get() as f64;
        for w in &ways {
            let left = w.trains.iter().filter_map(|t| sent_rate(t));
            let slowest = left.fold(f64::INFINITY, f64::min);
            if slowest < 0.98 * rate {
                out.doubts.push(format!(
                    "{}: they left at {:.3}, slower than asked: the sending host could not keep up",
                    w.direction.word(),
                    BitsPerSec::new(slowest.round() as u64)
                ));
            }
        }
    }
    out
}

fn said(way: &Way) -> String {
    let (sent, lost) = (way.sum(Train::sent), way.sum(Train::lost));
    let rate = way.rate().value();
    let rate = rate.map_or_else(String::new, |bps| {
        format!(" at {:.3}", BitsPerSec::new(bps.round() as u64))
    });
    let waits = stats::sorted(&way.waits());
    let waited = stats::quantile_of_sorted(&waits, 0.95);
    let waited = waited.map_or_else(String::new, |ms| {
        format!(
            "; 95 % of them took up to {} ms longer than the fastest",
            significant(ms, 3)
        )
    });
    format!(
        "Of {sent} datagrams {} {} arrived{rate}, {lost} were lost{waited}.",
        way.direction.word(),
        sent - lost
    )
}

fn figures(way: &Way, out: &mut Outcome) {
    let word = way.direction.word();
    let waits = stats::delays(&way.waits(), "no datagram arrived");
    let mut put = |key: &str, name: &str, unit, figure| {
        let (key, name) = (format!("{word}_{key}"), format!("{word}: {name}"));
        out.figures.push(Figured::new(&key, &name, unit, figure));
    };
    put("lost", "lost", Quantity::Share, way.lost());
    put("received_bps", "arrived at", Quantity::Rate, way.rate());
    put(
        "wait_ms",
        "delay above the least, median",
        Quantity::Time,
        waits.p50_ms,
    );
    put(
        "wait_p95_ms",
        "95 % wait no longer than",
        Quantity::Time,
        waits.p95_ms,
    );
    put("jitter_ms", "jitter", Quantity::Time, way.jitter());
    put(
        "reordered",
        "overtaken by later ones",
        Quantity::Count,
        Figure::exactly(way.reordered() as f64),
    );
    put(
        "longest_loss",
        "most in a row that were lost",
        Quantity::Count,
        Figure::exactly(way.longest_loss() as f64),
    );
    let (able, marked, cleared) = way.marks();
    if able > 0 {
        put(
            "marked",
            "marked with congestion (ECN CE)",
            Quantity::Share,
            stats::wilson(marked as f64, able as f64),
        );
        if cleared > 0 {
            out.evidence.push(format!(
                "{word}: {cleared} of {able} datagrams that could be marked (ECN) arrived with the field cleared: something on the way does not let it pass"
            ));
        }
    }
    if let Some(train) = way.trains.first() {
        let repeats = match way.trains.len() {
            1 => String::new(),
            n => format!(", {n} times"),
        };
        let program = &train.facts.program;
        out.evidence.push(format!("{word}: {program}{repeats}"));
    }
}

/// By the datagrams' sizes, which fare differently on some lines.
fn table(ways: &[Way]) -> Table {
    let mut rows = Vec::new();
    for w in ways {
        let mut sizes: Vec<u32> = w
            .trains
            .iter()
            .flat_map(|t| t.facts.program.steps())
            .flat_map(|s| s.shots.iter().map(|shot| shot.payload))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            let (mut sent, mut came) = (0u64, 0u64);
            let of_size = w.trains.iter().flat_map(|t| t.datagrams());
            for (_, fate) in of_size.filter(|(due, _)| due.payload == size) {
                sent += u64::from(fate.sent_ns.is_some());
                came += u64::from(fate.received_ns.is_some());
            }
            let share = stats::wilson((sent - came.min(sent)) as f64, sent as f64);
            rows.push(vec![
                w.direction.word().to_owned(),
                size.to_string(),
                sent.to_string(),
                came.to_string(),
                share
                    .value()
                    .map_or("–".into(), |v| significant(v * 100.0, 3)),
            ]);
        }
    }
    Table {
        title: "By size of payload".into(),
        columns: ["way", "bytes", "sent", "arrived", "lost, %"]
            .map(String::from)
            .to_vec(),
        rows,
    }
}

/// Of the first repeat.
fn plot(way: &Way) -> Plot {
    let train = way.trains.first();
    let lost = train.map_or_else(Vec::new, |t| {
        let began = t.began_ns().unwrap_or(0);
        let gone = t.fates.iter().filter(|f| f.received_ns.is_none());
        gone.filter_map(|f| Some(((f.sent_ns? - began) as f64 * 1e-9, Some(0.0))))
            .collect()
    });
    let came = train.map_or_else(Vec::new, |t| {
        waits(t).into_iter().map(|(s, ms)| (s, Some(ms))).collect()
    });
    let mut series = vec![Series {
        name: "arrived".into(),
        draw: Draw::Dots,
        points: came,
    }];
    if !lost.is_empty() {
        series.push(Series {
            name: "lost".into(),
            draw: Draw::Marks,
            points: lost,
        });
    }
    Plot {
        title: format!("Delay above the least, {}", way.direction.word()),
        x: "s since the first left".into(),
        y: "ms".into(),
        series,
    }
}
