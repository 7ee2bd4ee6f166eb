//! Sleep of a radio: the silence after which it sleeps, and the time that it takes to wake up.
//!
//! **Method.** A few datagrams wake the link and show its delay when awake; then silence; then a few more. The wake-up
//! time is the excess of the first arrival over one of the awake link. Silences grow by a factor of two up to the
//! longest. If waking takes longer after one than after the next shorter, the time between them is halved until it is
//! no more than a step. Both ends of it are then tried once more.
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

mod answer;
mod steps;

use super::spec::{How, Spec};
use super::trains::of_stage;
use base::Duration;
use base::program::Train;
use base::record::Direction;
use base::spec::{Params as _, params};

/// Name of the stage; its argument is the silence in ms.
const STAGE: &str = "silence";

/// Datagrams before and after each silence: 3.5 s of them, longer than radios take to wake up.
const EACH: u64 = 14;

/// Shortest silence, s.
const SHORTEST: f64 = 0.5;

/// Wake-up time below which it cannot be told from other delays, ms.
const LEAST_MS: f64 = 50.0;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "radio": "After how much silence does this link's radio sleep, and how long does it take to wake up?", ["A. R. Chandele, Network Measurement in 2G/3G Cellular Network, Indian Institute of Technology Delhi 2012",
            "F. Qian et al., Characterizing Radio Resource Allocation for 3G Networks, IMC 2010",] {
        /// direction of the datagram that wakes the radio
        direction: Direction = "up";
        /// longest silence
        longest: Duration = "60 s" ["1 s".."1800 s"];
        /// precision of the silence after which it sleeps
        step: Duration = "1 s" ["50 ms".."60 s"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "three minutes if no radio sleeps, five to nine if one does; 40 kB",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Trains(|w, trains| steps::next(&w.read(), trains)),
    answer: |w, recording| answer::answer(&w.read(), &Train::all_of(recording)),
};

/// Silence, and the wake-up time after it, ms.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Woken {
    silence_s: f64,
    ms: f64,
}

/// Increase of the wake-up time from one silence to the next longer one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Jump {
    /// Longest silence before it and shortest behind it, s.
    from_s: f64,
    to_s: f64,
    by_ms: f64,
}

fn silence_of(train: &Train) -> Option<f64> {
    let ms: f64 = train.facts.stage.split(' ').nth(1)?.parse().ok()?;
    Some(ms * 1e-3)
}

/// Wake-up time of a train: its program has datagrams before the silence and after it.
fn woken(train: &Train) -> Option<Woken> {
    let awake_ns = stats::median(&awake(train))?;
    let after = train.fates.get(EACH as usize..)?;
    let first = after.first()?;
    // A first one that is lost says nothing where the radio was awake; where it slept all come at once.
    first.received_ns?;
    let came = after.iter().filter_map(|f| f.received_ns).min()?;
    Some(Woken {
        silence_s: silence_of(train)?,
        ms: ((came - first.sent_ns?) as f64 - awake_ns) * 1e-6,
    })
}

/// Delays before the silence while the radio is awake, ns.
fn awake(train: &Train) -> Vec<f64> {
    let before = train.fates.iter().take(EACH as usize);
    let delays = before.filter_map(|f| Some((f.received_ns? - f.sent_ns?) as f64));
    let mut delays: Vec<f64> = delays.collect();
    // The first of all may have woken the radio itself, and those behind it have waited for that.
    delays.split_off(delays.len() * 3 / 4)
}

/// Variation of delays while the link is awake, ms: from the least of the train to the ninth decile before the silence.
fn noise(train: &Train) -> Option<f64> {
    let base = train.delays().map(|d| d.1).min()?;
    let late = stats::quantile(&awake(train), 0.9)?;
    Some((late - base as f64) * 1e-6)
}

/// Medians of the wake-up time by silence, in ascending order, and silences with too few values.
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
