//! Kinds of probe on random links in virtual time: docs/book/probe/random.md. They send crafted trains, fill the line, or ask about
//! the network around it. Intervals that miss the truth are listed on standard error.

use crate::accuracy::around;
use crate::accuracy::bench;
use crate::accuracy::cell::{At, Cell, Is, On, Truth, between, near, seen, share};
use crate::accuracy::cells::loads;
use crate::accuracy::line::Line;
use crate::accuracy::rows::{self, Said, Within};
use crate::accuracy::simulated;
use crate::chance::Chance;
use crate::cores;
use sim::bufferbloat::Network;
use stats::Figure;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds that are drawn, beside those that ask about the surroundings.
const KINDS: [&str; 14] = [
    "train",
    "sweep",
    "burst",
    "spacing",
    "envelope",
    "sizes",
    "buffer",
    "bucket",
    "capacity",
    "rtt",
    "radio",
    "tcp",
    "collapse",
    "throughput",
];
/// An interval that reaches farther than this share of the value to one side says too little to be right by it.
const REACH: f64 = 0.25;

/// Time that both hosts take for a probe.
const HOSTS_MS: f64 = 0.025;
/// A file of which several windows are on their way.
const TCP: &str = "tcp:control=cubic,repeats=2";
/// Bits of a probe of `rtt` with its headers.
const DATAGRAM_BITS: f64 = 8.0 * 80.0;

/// One random cell, and its impairment.
struct Drawn {
    number: u64,
    cell: Cell,
    impaired: &'static str,
}

/// Payload bits of 1452 bytes in whole IPv4 packets at `rate`.
fn payload(rate: f64) -> f64 {
    rate * 1452.0 / 1480.0
}

fn draw(seed: u64, number: u64) -> Drawn {
    let c = &mut Chance::new(seed, &format!("probes/{number}"));
    let kind = match c.is(0.35) {
        true => c.pick(&around::KINDS),
        false => c.pick(&KINDS),
    };
    if around::KINDS.contains(&kind) {
        let (cell, impaired) = around::draw(c, kind);
        return Drawn {
            number,
            cell,
            impaired,
        };
    }
    if let "tcp" | "collapse" = kind {
        return loaded(c, number, kind);
    }
    let rate = c.log(100e3, 100e6).round();
    let packets = c.log(5.0, 400.0).round();
    let delay_ms = (c.log(1.0, 200.0) * 1e3).round() / 1e3;
    let queue = format!("fifo:packets={packets}");
    let impairment = Impairment::draw(c);
    let arrives = 1.0 - impairment.loss;
    let line = |queue: &str| Line::up(rate, queue);
    let step = (payload(rate) / 100.0).max(25e3).min(payload(rate) / 20.0);
    let told;
    let (probe, line, truths): (&str, Line, Vec<Truth>) = match kind {
        "train" => {
            let truths;
            (told, truths) = train(c, rate, packets, &impairment);
            (&*told, line(&queue), truths)
        }
        "sweep" => (
            kind,
            line(&queue),
            vec![near(&["lossless_bps"], payload(rate), step)],
        ),
        "burst" => (
            kind,
            line(&queue),
            vec![
                near(&["queue_packets"], packets, (0.01 * packets).max(1.0)),
                near(&["counts_packets"], 1.0, 0.0),
            ],
        ),
        "spacing" => {
            let lost = 2.0 - 2.0 / 1.624;
            (
                "spacing:count=4000",
                line(&queue),
                vec![
                    near(&["pairs_first_lost"], 1.0 - arrives, 0.02),
                    near(&["pairs_second_lost"], 1.0 - (1.0 - lost) * arrives, 0.02),
                    within(&["plateau_bps"], payload(rate), 0.01, &impairment),
                ],
            )
        }
        "envelope" => (
            kind,
            line(&queue),
            vec![
                near(&["lossless_bps"], payload(rate), step),
                near(&["path_mtu_bytes"], 1500.0, 0.0),
            ],
        ),
        "sizes" => {
            let mtu = c.uniform(1280.0, 1500.0).round();
            (
                kind,
                line(&queue).with("mtu", format!("{mtu} B")),
                vec![
                    near(&["path_mtu_bytes"], mtu, 0.0),
                    near(&["first_edge_bytes"], mtu - 28.0, 0.0),
                ],
            )
        }
        "buffer" => {
            let bytes = (packets * 1500.0 + c.uniform(0.0, 1500.0)).round();
            let by = (0.1 * bytes).max(1500.0);
            (
                kind,
                line(&format!("fifo:bytes={bytes}")),
                vec![
                    share(&["link_bps"], rate, 0.05),
                    near(&["queue_ms"], bytes * 8e3 / rate, by * 8e3 / rate),
                    near(&["queue_bytes"], bytes, by),
                ],
            )
        }
        "bucket" => bucket(c, rate, packets),
        "radio" => {
            let (idle_s, wake_s) = (
                c.log(1.0, 50.0).round(),
                (1e3 * c.log(0.1, 3.0)).round() / 1e3,
            );
            (
                kind,
                line(&queue).with("sleep", format!("radio:idle={idle_s} s,wake={wake_s} s")),
                vec![
                    near(&["idle_timeout_ms"], idle_s * 1e3, 1e3),
                    share(&["wake_ms"], wake_s * 1e3, 0.05),
                ],
            )
        }
        "rtt" => {
            let least = 2.0 * delay_ms + DATAGRAM_BITS * (1e3 / rate + 1e-6);
            let median = least + impairment.median_ms + HOSTS_MS;
            (
                "rtt:count=400",
                line(&queue),
                vec![
                    near(&["median_ms"], median, 0.1 * impairment.median_ms + 0.1),
                    near(&["lost"], 1.0 - arrives, 0.01),
                ],
            )
        }
        "throughput" => (
            kind,
            line(&queue),
            vec![within(&["up_datagrams_bps"], rate, 0.03, &impairment)],
        ),
        _ => {
            let others = c.pick(&[0.0, 0.0, 1.0]) * c.uniform(0.02, 0.85);
            let free = rate * (1.0 - others);
            (
                kind,
                line(&queue).others(others),
                vec![
                    share(&["capacity_bps"], rate, 0.05),
                    share(&["available_bps"], free, 0.15),
                    share(&["pairs_bps"], rate, 0.05),
                    share(&["sizes_bps"], rate, 0.05),
                    share(&["chirps_bps"], free, 0.15),
                    share(&["between_bps"], free, 0.15),
                ],
            )
        }
    };
    let line = line.delay(delay_ms);
    let line = match &impairment.setting {
        Some((key, value)) => line.with(key, value),
        None => line,
    };
    Drawn {
        number,
        cell: Cell {
            probe: probe.into(),
            on: match kind {
                "rtt" | "throughput" => On::Simulated(line),
                _ => On::Bench(line),
            },
            truths,
        },
        impaired: impairment.name,
    }
}

/// Truth about what comes out of a full queue, within this share: of losses before it nothing is seen. While a base delay drifts, less or more comes
/// out than the link takes, and no interval shall hold its rate.
fn within(key: &'static [&'static str; 1], value: f64, by: f64, impairment: &Impairment) -> Truth {
    match impairment.name {
        "drift" => seen(key, Box::new(move |_| Ok(value)), by, 0.0),
        _ => share(key, value, by),
    }
}

/// A kind that fills the line with TCP. What the simulator's queue did is the truth.
fn loaded(c: &mut Chance, number: u64, kind: &str) -> Drawn {
    let rate = c.log(300e3, 30e6).round();
    let delay_ms = (c.log(1.0, 60.0) * 1e3).round() / 1e3;
    let queue = match c.pick(&["fifo", "fifo", "codel", "pie", "fq_codel"]) {
        // A second at most: rounds last for some.
        "fifo" => format!("fifo:packets={}", c.log(8.0, rate / 12e3).round()),
        aqm => aqm.to_owned(),
    };
    let line = Line::up(rate, queue).delay(delay_ms);
    let cell = match kind {
        "tcp" => Cell {
            // What was carried and dropped needs the queue's counters.
            truths: vec![loads::round_trip(line.clone())],
            ..Cell::link(TCP, line, Vec::new())
        },
        _ => {
            let mut cell = loads::collapse(line);
            // Beside a second upload, the queue's samples are of both. The simulator's least round trip is of a packet
            // with data.
            cell.truths.truncate(1);
            cell
        }
    };
    Drawn {
        number,
        cell: cell.simulated(),
        impaired: "none",
    }
}

/// A train below the line's rate or above it, and its truth: what the line carries while it lasts, the queue's fill, and the
/// packet in transmission arrive. Its intervals are of the train, which timers of the host shift by microseconds: they are not
/// judged.
fn train(c: &mut Chance, rate: f64, packets: f64, impairment: &Impairment) -> (String, Vec<Truth>) {
    let size = c.uniform(60.0, 1472.0).round();
    let packet = size + 28.0;
    // Not near the line's rate, where a packet more or less decides.
    let (least, greatest) = c.pick(&[(0.1, 0.9), (1.1, 5.0)]);
    let times = c.log(least, greatest);
    let packet_ms = packet * 8e3 / rate;
    let (seconds, most) = (c.log(1.0, 20.0), 20_000.0);
    let count = (seconds * times * 1e3 / packet_ms)
        .clamp(100.0, most)
        .round();
    let payload = (times * rate * size / packet).round();
    let lasts_ms = count * packet_ms / times;
    let fill = packets.min(count * (1.0 - 1.0 / times).max(0.0));
    let taken = (lasts_ms / packet_ms + fill + 1.0).min(count);
    let arrives = 1.0 - impairment.loss;
    let carried = payload.min(rate * size / packet) * arrives;
    let mut truths = vec![near(&["up_lost"], 1.0 - arrives * taken / count, 0.01)];
    // Of a short train, a packet that comes late is much of the time.
    if lasts_ms >= 1e3 || impairment.median_ms == 0.0 && impairment.name != "reordering" {
        // A base delay that drifts stretches the train.
        let by = carried * (0.02 + 2.0 * impairment.median_ms / lasts_ms);
        truths.push(between(&["up_received_bps"], carried - by, carried + by));
    }
    if let "none" | "random loss" = impairment.name {
        // The k-th that arrives has waited for those that came before it and had not left.
        let p95 = (0.95 * taken * (1.0 - 1.0 / times).max(0.0)).min(fill) * packet_ms;
        let by = 2.0 * packet_ms + 0.3;
        truths.push(between(&["up_wait_p95_ms"], (p95 - by).max(0.0), p95 + by));
    }
    let probe = format!("train:direction=up,count={count},size={size},rate={payload} bit/s");
    (probe, truths)
}

/// A token bucket in front of a short queue, and its truth.
fn bucket(c: &mut Chance, rate: f64, packets: f64) -> (&'static str, Line, Vec<Truth>) {
    let peak = (rate * c.log(1.5, 8.0)).round().min(400e6);
    let bytes = (c.log(0.3, 3.0) * peak / 8.0).round().min(4e6);
    let queue = format!("tbf:rate={rate} bit/s,burst={bytes},limit={packets}");
    (
        "buffer",
        Line::up(peak, queue),
        vec![
            share(&["peak_bps"], peak, 0.05),
            share(&["sustained_bps"], rate, 0.05),
            share(&["bucket_bytes"], bytes, 0.1),
        ],
    )
}

/// Impairment of the uplink; a good third of the links has one.
struct Impairment {
    name: &'static str,
    /// Key and value in the link's `[up]` table.
    setting: Option<(&'static str, String)>,
    /// Share of packets that the link loses.
    loss: f64,
    /// Delay that half of the packets have less of.
    median_ms: f64,
}

impl Impairment {
    fn draw(c: &mut Chance) -> Impairment {
        let mut median_ms = 0.0;
        let (name, key, value, loss) = match c.unit() {
            u if u < 0.64 => {
                return Impairment {
                    name: "none",
                    setting: None,
                    loss: 0.0,
                    median_ms: 0.0,
                };
            }
            u if u < 0.76 => {
                let width = c.log(0.1, 10.0);
                median_ms = width / 2.0;
                let text = format!("uniform:width={width:.3}ms,overtake=false");
                ("jitter", "jitter", text, 0.0)
            }
            u if u < 0.86 => {
                let p = c.log(1e-4, 1e-2);
                (
                    "random loss",
                    "loss",
                    format!("random:probability={p:.6}"),
                    p,
                )
            }
            u if u < 0.93 => {
                let (p, delay) = (c.log(1e-4, 2e-2), c.log(0.5, 10.0));
                let text = format!("late:probability={p:.6},delay={delay:.3}ms");
                ("reordering", "reorder", text, 0.0)
            }
            _ => {
                let (height, period) = (c.uniform(1.0, 20.0), c.log(10.0, 90.0));
                median_ms = height / 2.0;
                let text = format!("wave:height={height:.3}ms,period={period:.3}s");
                ("drift", "drift", text, 0.0)
            }
        };
        Impairment {
            name,
            setting: Some((key, value)),
            loss,
            median_ms,
        }
    }
}

/// A cell and what was said of it.
type Done = (Drawn, Result<Said, String>);

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    right: u64,
    untold: u64,
    wrong: u64,
    intervals: u64,
    hold: u64,
}

impl Tally {
    fn add(&mut self, one: Tally) {
        self.right += one.right;
        self.untold += one.untold;
        self.wrong += one.wrong;
        self.intervals += one.intervals;
        self.hold += one.hold;
    }

    fn row(&self, name: &str) -> String {
        let of = self.right + self.untold + self.wrong;
        let percent = |n: u64, of: u64| format!("{:.1} %", 100.0 * n as f64 / of.max(1) as f64);
        let hold = match self.intervals {
            0 => String::new(),
            n => format!("{} of {n}", percent(self.hold, n)),
        };
        format!(
            "| {name} | {of} | {} | {} | {} | {hold} |",
            percent(self.right, of),
            percent(self.untold, of),
            percent(self.wrong, of)
        )
    }
}

/// Runs the draws and prints the page; names of kinds do those alone.
pub fn page(seed: u64, count: u64, kinds: &[String]) {
    let done = run(seed, count, kinds);
    print!("{}", include_str!("random.md"));
    print(seed, &done);
}

fn run(seed: u64, count: u64, kinds: &[String]) -> Vec<Done> {
    let drawn = (0..count).map(|number| draw(seed, number));
    let asked = |d: &Drawn| kinds.is_empty() || kinds.iter().any(|k| k == d.cell.kind());
    let drawn: Vec<Drawn> = drawn.filter(asked).collect();
    let began = AtomicU64::new(0);
    let numbers: Vec<u64> = (0..drawn.len() as u64).collect();
    let said = cores::each(&numbers, |at| {
        let drawn = &drawn[at as usize];
        eprint!(
            "\r{} of {}",
            began.fetch_add(1, Ordering::Relaxed) + 1,
            numbers.len()
        );
        let probe = &drawn.cell.probe;
        match &drawn.cell.on {
            On::Bench(line) => bench::run(probe, line),
            On::Simulated(line) => simulated::run(probe, line, Network::default(), drawn.number),
            On::Around(line, network) => {
                simulated::run(probe, line, Network::clone(network), drawn.number)
            }
            _ => Err("it needs the kernel".into()),
        }
    });
    eprintln!();
    drawn.into_iter().zip(said).collect()
}

/// Counts of a page.
#[derive(Default)]
struct Counted {
    by_figure: BTreeMap<String, Tally>,
    by_impairment: BTreeMap<String, Tally>,
    all: Tally,
    wrong: Vec<String>,
}

fn count(done: &[Done]) -> Counted {
    let mut counted = Counted::default();
    for (drawn, said) in done {
        for truth in &drawn.cell.truths {
            let mut one = Tally::default();
            let told = match said {
                Ok(said) => judge(truth, said, &mut one),
                Err(why) => {
                    one.wrong = 1;
                    why.clone()
                }
            };
            let name = format!("{} {}", drawn.cell.kind(), rows::name(&truth.at));
            let place = drawn.cell.place();
            if one.hold < one.intervals {
                eprintln!("{}: {name} on {place}: {told}", drawn.number);
            }
            if one.wrong > 0 {
                let line = format!("- {}: {name} on {place}: {told}", drawn.number);
                counted.wrong.push(line);
            }
            let impaired = drawn.impaired.to_owned();
            for tally in [
                counted.by_figure.entry(name).or_default(),
                counted.by_impairment.entry(impaired).or_default(),
                &mut counted.all,
            ] {
                tally.add(one);
            }
        }
    }
    counted
}

fn print(seed: u64, done: &[Done]) {
    let counted = count(done);
    println!("Seed {seed}, {} links.\n", done.len());
    for (title, of) in [
        ("figure", &counted.by_figure),
        ("impairment", &counted.by_impairment),
    ] {
        println!(
            "By {title}:\n\n| {title} | judged | right | cannot tell | wrong | 95 % intervals that hold the truth |"
        );
        println!("|---|---|---|---|---|---|");
        for (name, tally) in of {
            println!("{}", tally.row(name));
        }
        println!("{}\n", counted.all.row("all"));
    }
    println!("Wrong figures:\n\n{}", counted.wrong.join("\n"));
}

/// Counts one figure; returns it in words.
fn judge(truth: &Truth, said: &Said, tally: &mut Tally) -> String {
    if !matches!(truth.at, At::Figures(_)) {
        let judged = rows::judge(truth, said);
        match judged.within {
            Within::Yes => tally.right = 1,
            Within::Untold => tally.untold = 1,
            // An answer without the row says nothing wrong.
            Within::No if judged.said == rows::NOT_SAID => tally.untold = 1,
            Within::No => tally.wrong = 1,
        }
        return format!("truth {}, said {}", judged.truth, judged.said);
    }
    let number = match rows::number_of(truth, said) {
        Ok(number) => number,
        // An answer without the figure says nothing wrong.
        Err(why) => {
            tally.untold = 1;
            return why;
        }
    };
    let key = match &truth.at {
        At::Figures(keys) => keys[0],
        _ => "",
    };
    match &number.said {
        Figure::CannotTell { .. } => tally.untold = 1,
        Figure::Is { value, low, high } => {
            let is = number.truth.unwrap_or(*value);
            let slack = 1e-6 * is.abs();
            let holds = (low - slack..=high + slack).contains(&is);
            // What a queue's samples say of others' packets is no exact truth.
            if !matches!(truth.is, Is::Seen { .. }) {
                tally.intervals = 1;
                tally.hold = u64::from(holds);
            }
            let near = (number.low..=number.high).contains(value);
            let tells = (high - value).max(value - low) <= REACH * value.abs();
            match near || (holds && tells) {
                true => tally.right = 1,
                // An interval that holds the truth and reaches far says little, and nothing wrong.
                false if holds => tally.untold = 1,
                false => tally.wrong = 1,
            }
        }
    }
    let is = number.truth.map_or(String::new(), |v| {
        format!("truth {}, ", rows::with_unit(key, v, v))
    });
    format!("{is}said {}", rows::told(key, &Ok(number.said)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_on_random_links_are_right_and_their_intervals_hold_the_truth() {
        let counted = count(&run(2026, 150, &[]));
        let all = counted.all;
        let judged = all.right + all.untold + all.wrong;
        assert!(all.wrong * 67 <= judged, "{:#?}", counted.wrong);
        assert!(all.hold * 100 >= all.intervals * 94, "{all:?}");
        assert!(all.right * 100 >= judged * 90, "{all:?}");
    }

    #[test]
    fn a_seed_draws_every_kind_with_and_without_impairment() {
        let drawn: Vec<Drawn> = (0..600).map(|n| draw(3, n)).collect();
        let kinds = KINDS.iter().filter(|k| **k != "bucket");
        for kind in kinds.chain(&around::KINDS) {
            let of = || drawn.iter().filter(|d| d.cell.kind() == *kind);
            assert!(of().any(|d| d.impaired == "none"), "{kind}");
            // What fills the line with TCP has the queue for its truth.
            let clean = ["tcp", "collapse"].contains(kind);
            assert!(clean || of().any(|d| d.impaired != "none"), "{kind}");
        }
    }
}
