//! After how much silence a radio goes to sleep, and how long it takes to wake up.
//!
//! **Method.** A few datagrams wake the line and show its delay when awake; then silence; then a few more. What the first
//! to arrive of these is later than one of the awake line would have been is what waking took. Silences grow by a factor
//! of two up to the longest; where waking takes longer after one than after the next shorter, the time between them is
//! halved until it is no more than a step. Both ends of it are then tried once more.
//!
//! **Source.** A. R. Chandele, "Network Measurement in 2G/3G Cellular Network", Indian Institute of Technology Delhi 2012,
//! section 6.8 (10 s and 1.6 s, 50 s and 2 s); F. Qian et al., "Characterizing Radio Resource Allocation for 3G
//! Networks", IMC 2010.
//!
//! **Deviations.** One-way delays rather than round trips: of a direction alone.
//!
//! **Units.** s for silences, ms for waking.
//!
//! **Validated against.** Virtual and emulated links whose transmitters sleep: docs/book/probe/radio.md.

use super::answer::{Draw, Figured, Outcome, Plot, Quantity, Series, Table};
use super::registry::{How, Spec};
use super::trains::{of_stage, seconds};
use base::Duration;
use base::program::{Program, Sending, Shot, Step, Train};
use base::record::Direction;
use base::spec::{Params as _, params};
use base::units::significant;
use stats::Figure;

/// Name of the stage; its argument is the silence in ms.
const STAGE: &str = "silence";
/// Datagrams before and after each silence: 3.5 s of them, longer than radios take to wake up.
const EACH: u64 = 14;
const APART: Duration = Duration::from_millis(250);
const PAYLOAD: u32 = 40;
/// The shortest silence, s.
const SHORTEST: f64 = 0.5;
/// Waking that takes less than this is not told from other delays, ms.
const LEAST_MS: f64 = 50.0;
/// Silences that are tried in all, at most.
const MOST: usize = 40;
/// Of one silence: lost ones are tried again, but not for ever.
const TRIES: usize = 3;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "radio": "After how much silence does this line's radio sleep, and how long does it take to wake up?", ["A. R. Chandele, Network Measurement in 2G/3G Cellular Network, Indian Institute of Technology Delhi 2012",
            "F. Qian et al., Characterizing Radio Resource Allocation for 3G Networks, IMC 2010",] {
        /// which way the datagram goes that wakes the radio
        direction: Direction = "up";
        /// longest silence to try
        longest: Duration = "60 s" ["1 s".."1800 s"];
        /// how exactly to find when it sleeps
        step: Duration = "1 s" ["50 ms".."60 s"];
    }
}

pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "three minutes where nothing sleeps, five to nine where something does; 40 kB",
    beside_others: false,
    how: How::Crafted(|w, trains| next(&w.read(), trains)),
    answer: |w, recording| answer(&w.read(), &Train::all_of(recording)),
};

/// A silence and what waking took after it, ms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Woken {
    silence_s: f64,
    ms: f64,
}

/// From one silence to the next longer one waking takes longer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Jump {
    /// The longest silence before it and the shortest behind it, s.
    from_s: f64,
    to_s: f64,
    by_ms: f64,
}

fn silence_of(train: &Train) -> Option<f64> {
    let ms: f64 = train.facts.stage.split(' ').nth(1)?.parse().ok()?;
    Some(ms * 1e-3)
}

/// The steps of a train's program are the datagrams before the silence and those after it.
fn woken(train: &Train) -> Option<Woken> {
    let base = train.delays().map(|d| d.1).min()?;
    let after = train.fates.get(EACH as usize..)?;
    let first = after.first()?;
    // A first one that is lost says nothing where the radio was awake; where it slept all come at once.
    first.received_ns?;
    let came = after.iter().filter_map(|f| f.received_ns).min()?;
    Some(Woken {
        silence_s: silence_of(train)?,
        ms: (came - first.sent_ns? - base) as f64 * 1e-6,
    })
}

/// By how much delays vary while the line is awake, ms: from the least to the ninth decile, before the silence.
fn noise(train: &Train) -> Option<f64> {
    let base = train.delays().map(|d| d.1).min()?;
    let awake = train.fates.get(..EACH as usize)?.iter();
    let late = awake.filter_map(|f| Some((f.received_ns? - f.sent_ns? - base) as f64 * 1e-6));
    let late: Vec<f64> = late.collect();
    // The first of all may have woken the radio itself, and those behind it have waited for that.
    let last = stats::sorted(&late[late.len() * 3 / 4..]);
    stats::quantile_of_sorted(&last, 0.9)
}

/// What is known: medians of waking by silence, in ascending order, and what is too little to tell.
struct Known {
    by_silence: Vec<(f64, Vec<f64>)>,
    least_ms: f64,
}

impl Known {
    fn of(trains: &[Train]) -> Known {
        let ours = of_stage(trains, STAGE);
        let noise = ours.clone().filter_map(noise).fold(0.0, f64::max);
        let mut by_silence: Vec<(f64, Vec<f64>)> = Vec::new();
        for w in ours.filter_map(woken) {
            match by_silence.iter_mut().find(|(s, _)| *s == w.silence_s) {
                Some((_, all)) => all.push(w.ms),
                None => by_silence.push((w.silence_s, vec![w.ms])),
            }
        }
        by_silence.sort_by(|a, b| a.0.total_cmp(&b.0));
        Known {
            by_silence,
            least_ms: LEAST_MS.max(3.0 * noise),
        }
    }

    fn jumps(&self) -> Vec<Jump> {
        let median =
            |all: &[f64]| stats::quantile_of_sorted(&stats::sorted(all), 0.5).unwrap_or(0.0);
        let mut jumps = Vec::new();
        // Without silence nothing sleeps.
        let (mut from_s, mut level) = (0.0, 0.0);
        for (s, all) in &self.by_silence {
            let ms = median(all);
            if ms > level + self.least_ms.max(0.2 * level) {
                jumps.push(Jump {
                    from_s,
                    to_s: *s,
                    by_ms: ms - level,
                });
                level = ms;
            }
            from_s = *s;
        }
        jumps
    }

    fn times(&self, silence_s: f64) -> usize {
        let found = self.by_silence.iter().find(|(s, _)| *s == silence_s);
        found.map_or(0, |(_, all)| all.len())
    }
}

fn next(params: &Params, trains: &[Train]) -> Option<Sending> {
    let longest = params.longest.as_secs_f64();
    let step = params.step.as_secs_f64();
    let tried: Vec<f64> = of_stage(trains, STAGE).filter_map(silence_of).collect();
    let sending = |silence_s: f64| {
        let shots = || {
            vec![Shot {
                payload: PAYLOAD,
                gap: APART,
            }]
        };
        let silence = seconds(silence_s);
        let steps = vec![
            Step::new(EACH, shots()).then_pause(silence),
            Step::new(EACH, shots()),
        ];
        Some(Sending {
            stage: format!("{STAGE} {}", silence.as_nanos() / 1_000_000),
            direction: params.direction,
            programs: vec![Program::new(steps).expect("two short steps")],
            rest: Duration::ZERO,
        })
    };
    if tried.len() >= MOST {
        return None;
    }
    // What came to nothing is tried again.
    if let Some(last) = tried.last() {
        let again = tried.iter().filter(|s| *s == last).count();
        let failed = of_stage(trains, STAGE)
            .last()
            .is_some_and(|t| woken(t).is_none());
        if failed {
            return if again < TRIES { sending(*last) } else { None };
        }
    }
    let mut ladder = SHORTEST;
    while ladder < longest {
        if !tried.contains(&rounded(ladder)) {
            return sending(ladder);
        }
        ladder *= 2.0;
    }
    if !tried.contains(&rounded(longest)) {
        return sending(longest);
    }
    let known = Known::of(trains);
    for jump in known.jumps() {
        if jump.to_s - jump.from_s > step {
            return sending((jump.from_s + jump.to_s) / 2.0);
        }
        for edge in [jump.from_s, jump.to_s] {
            if edge > 0.0 && known.times(edge) < 2 {
                return sending(edge);
            }
        }
    }
    None
}

/// As it is written into a train's stage, in whole milliseconds.
fn rounded(s: f64) -> f64 {
    (s * 1e3).round() * 1e-3
}

fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let known = Known::of(trains);
    let Some((longest, _)) = known.by_silence.last() else {
        return Outcome::cannot_tell("no datagram came after a silence");
    };
    let jumps = known.jumps();
    let largest = jumps.iter().max_by(|a, b| a.by_ms.total_cmp(&b.by_ms));
    let way = params.direction;
    let mut out = Outcome::default();
    match largest {
        None => {
            let most = known
                .by_silence
                .iter()
                .flat_map(|k| &k.1)
                .fold(0.0f64, |a, b| a.max(*b));
            out.says = format!(
                "Nothing sleeps: after up to {} s of silence the first datagram {way} takes {} ms longer at most.",
                significant(*longest, 3),
                significant(most.max(0.0), 2)
            );
            let why = format!("nothing sleeps within {} s", significant(*longest, 3));
            out.figures = vec![
                Figured::new(
                    "idle_timeout_ms",
                    "it sleeps after",
                    Quantity::Time,
                    Figure::cannot_tell(why.clone()),
                ),
                Figured::new(
                    "wake_ms",
                    "waking takes",
                    Quantity::Time,
                    Figure::cannot_tell(why),
                ),
            ];
        }
        Some(jump) => {
            let until = jumps.iter().map(|j| j.from_s).find(|s| *s >= jump.to_s);
            let behind = |s: f64| s >= jump.to_s && until.is_none_or(|u| s <= u);
            let of_level: Vec<f64> = known
                .by_silence
                .iter()
                .filter(|(s, _)| behind(*s))
                .flat_map(|(_, all)| all.iter().copied())
                .collect();
            let wake = match &of_level[..] {
                [one] => Figure::exactly(*one),
                all => stats::mean_figure(all),
            };
            let after = Figure::Is {
                value: (jump.from_s + jump.to_s) / 2.0 * 1e3,
                low: jump.from_s * 1e3,
                high: jump.to_s * 1e3,
            };
            out.says = format!(
                "After {} to {} s of silence the radio sleeps, and the next datagram {way} waits {} s for it to wake up.",
                significant(jump.from_s, 3),
                significant(jump.to_s, 3),
                significant(wake.value().unwrap_or(jump.by_ms) * 1e-3, 3)
            );
            out.figures = vec![
                Figured::new("idle_timeout_ms", "it sleeps after", Quantity::Time, after),
                Figured::new("wake_ms", "waking takes", Quantity::Time, wake),
            ];
            out.advice.push(format!(
                "Whoever clicks after more than {} s waits that much longer: what must answer at once sends something more often than that, at the price of the battery.",
                significant(jump.from_s, 3)
            ));
            for other in jumps.iter().filter(|j| *j != jump) {
                out.evidence.push(format!(
                    "Between {} and {} s of silence waking grows by {} ms: another state of the radio.",
                    significant(other.from_s, 3),
                    significant(other.to_s, 3),
                    significant(other.by_ms, 3)
                ));
            }
        }
    }
    out.evidence.push(format!(
        "{} silences; less than {} ms is not told from how delays vary.",
        known.by_silence.iter().map(|k| k.1.len()).sum::<usize>(),
        significant(known.least_ms, 2)
    ));
    let failed = of_stage(trains, STAGE)
        .filter(|t| woken(t).is_none())
        .count();
    if failed > 0 {
        out.doubts.push(format!(
            "after {failed} silences the first datagram was lost; they were tried again"
        ));
    }
    let points = known
        .by_silence
        .iter()
        .flat_map(|(s, all)| all.iter().map(|ms| (*s, Some(*ms))));
    out.plots.push(Plot {
        title: "What the first datagram takes longer, by the silence before it".into(),
        x: "silence, s".into(),
        y: "ms".into(),
        series: vec![Series {
            name: String::new(),
            draw: Draw::Marks,
            points: points.collect(),
        }],
    });
    out.tables.push(Table {
        title: "Silences".into(),
        columns: ["silence, s", "first datagram later by, ms"]
            .map(String::from)
            .to_vec(),
        rows: known
            .by_silence
            .iter()
            .map(|(s, all)| {
                let each: Vec<String> = all.iter().map(|ms| significant(ms.max(0.0), 3)).collect();
                vec![significant(*s, 4), each.join(", ")]
            })
            .collect(),
    });
    out
}
