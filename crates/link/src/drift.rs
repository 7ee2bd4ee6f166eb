//! Drift of the base delay: a changing delay, equal for packets that pass at the same time. It models a route
//! change, a satellite, or a loaded path beyond the bottleneck. It is added to the propagation delay. Packets keep their
//! order where it falls.

use crate::impair::standard_normal;
use crate::words::{Entry, worded};
use base::rng::{Rng, Streams, uniform};
use base::spec::{Params as _, params};
use base::{Duration, Time};
use std::ops::Range;

const NO_USUAL: &str = "none: there is no usual one";
const SPANS: Range<&str> = "0".."24 h";

params! {
    #[derive(Clone, Copy, Debug)]
    struct RampParams for "ramp": "added delay that changes at an even pace from one value to another; at once where over is 0 s", [] {
        /// added delay before the change
        from: Duration = "0 s" [SPANS], NO_USUAL;
        /// added delay after the change
        to: Duration = "20 ms" [SPANS], NO_USUAL;
        /// start of the change after the start of the run
        start: Duration = "0 s" [SPANS], NO_USUAL;
        /// duration of the change
        over: Duration = "30 s" [SPANS], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Copy, Debug)]
    struct WaveParams for "wave": "added delay that rises and falls as a sine, from 0 at the start of the run", [] {
        /// largest added delay
        height: Duration = "20 ms" [SPANS], NO_USUAL;
        /// time between two minima of the delay
        period: Duration = "60 s" ["1 ms".."24 h"], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Copy, Debug)]
    struct WalkParams for "walk": "added delay that takes normally distributed steps up and down, reflected at 0 and most", [] {
        /// standard deviation of a step
        sd: Duration = "1 ms" [SPANS], NO_USUAL;
        /// time between steps; the delay changes linearly in between
        step: Duration = "1 s" ["1 ms".."24 h"], NO_USUAL;
        /// largest added delay
        most: Duration = "50 ms" [SPANS], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Debug)]
    struct StepsParams for "steps": "added delay that changes at once at given times, as after a change of route; none before the first", [] {
        /// times of the changes after the start of the run, rising
        at: Vec<Duration> = "10 s; 40 s" [SPANS], NO_USUAL;
        /// added delay after each of the changes
        delay: Vec<Duration> = "30 ms; 0 s" [SPANS], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Copy, Debug)]
    struct SlotsParams for "slots": "added delay that is drawn anew at the start of each slot, any from 0 to most alike, as a satellite network assigns its paths", [
        "Tanveer et al., Making Sense of Constellations: Methodologies for Understanding Starlink's Scheduling Algorithms, CoNEXT 2023",
    ] {
        /// length of a slot
        slot: Duration = "15 s" ["1 ms".."24 h"], "Tanveer 2023: Starlink";
        /// end of the first slot after the start of the run, if it is shorter than the others
        first: Duration = "0 s" [SPANS], NO_USUAL;
        /// largest added delay
        most: Duration = "20 ms" [SPANS], NO_USUAL;
    }
}

/// Laws of drift.
pub const DRIFTS: &[Entry] = &[
    RampParams::ENTRY,
    WaveParams::ENTRY,
    WalkParams::ENTRY,
    StepsParams::ENTRY,
    SlotsParams::ENTRY,
];

worded! {
    /// Drift of the base delay, written as `ramp:to=25ms,over=60s`.
    DriftSpec, "drift", DRIFTS.iter()
}

impl DriftSpec {
    /// Returns the reason why values that are each in range contradict each other.
    pub fn contradiction(&self) -> Option<String> {
        if self.words().entry().name != "steps" {
            return None;
        }
        let StepsParams { at, delay } = self.words().read();
        if at.len() != delay.len() {
            return Some(format!(
                "{} times in at and {} values in delay: give one delay for each time",
                at.len(),
                delay.len()
            ));
        }
        let falls = at.windows(2).find(|two| two[0] >= two[1])?;
        Some(format!("at: {} does not follow {}", falls[1], falls[0]))
    }

    /// Returns the largest added delay: the end of a ramp, the height of a wave, or the limit of the others.
    pub fn reach(&self) -> Duration {
        let w = self.words();
        match w.entry().name {
            "ramp" => w.read::<RampParams>().to,
            "wave" => w.read::<WaveParams>().height,
            "walk" => w.read::<WalkParams>().most,
            "slots" => w.read::<SlotsParams>().most,
            _ => {
                let steps = w.read::<StepsParams>().delay.into_iter();
                steps.max().unwrap_or_default()
            }
        }
    }
}

/// Drift at run time.
#[derive(Clone, Debug)]
pub(crate) enum Drift {
    Ramp {
        from: f64,
        to: f64,
        start: u64,
        over: u64,
    },
    Wave {
        height: f64,
        period: u64,
    },
    Walk(Walk),
    /// Times with the delay from then on.
    Steps(Vec<(u64, f64)>),
    Slots(Slots),
}

/// Delays of slots, known for the current one.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    slot: u64,
    /// Time before the start of the run at which the first slot began.
    before: u64,
    most: f64,
    /// Number of the slot whose delay was drawn last.
    number: u64,
    delay: f64,
    rng: Rng,
}

/// Random walk, known from one step to the next.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    sd: f64,
    step: u64,
    most: f64,
    /// Number of the current step, and the delay at its start and end.
    number: u64,
    begin: f64,
    end: f64,
    rng: Rng,
}

impl Drift {
    pub(crate) fn new(spec: &DriftSpec, streams: &Streams, name: &str) -> Drift {
        let w = spec.words();
        let ns = |d: Duration| d.as_nanos();
        match w.entry().name {
            "ramp" => {
                let p: RampParams = w.read();
                Drift::Ramp {
                    from: ns(p.from) as f64,
                    to: ns(p.to) as f64,
                    start: ns(p.start),
                    over: ns(p.over),
                }
            }
            "wave" => {
                let p: WaveParams = w.read();
                Drift::Wave {
                    height: ns(p.height) as f64,
                    period: ns(p.period),
                }
            }
            "steps" => {
                let p: StepsParams = w.read();
                let delays = p.delay.into_iter().map(|d| ns(d) as f64);
                Drift::Steps(p.at.into_iter().map(ns).zip(delays).collect())
            }
            "slots" => {
                let p: SlotsParams = w.read();
                let mut slots = Slots {
                    slot: ns(p.slot),
                    before: (ns(p.slot) - ns(p.first) % ns(p.slot)) % ns(p.slot),
                    most: ns(p.most) as f64,
                    number: 0,
                    delay: 0.0,
                    rng: streams.stream(&format!("link/{name}/drift")),
                };
                slots.delay = slots.most * uniform(&mut slots.rng);
                Drift::Slots(slots)
            }
            _ => {
                let p: WalkParams = w.read();
                let mut walk = Walk {
                    sd: ns(p.sd) as f64,
                    step: ns(p.step),
                    most: ns(p.most) as f64,
                    number: 0,
                    begin: 0.0,
                    end: 0.0,
                    rng: streams.stream(&format!("link/{name}/drift")),
                };
                walk.end = walk.next();
                Drift::Walk(walk)
            }
        }
    }

    /// Returns the added delay at time `at`; times must not go back.
    pub(crate) fn at(&mut self, at: Time) -> Duration {
        let at = at.as_nanos();
        let ns = match self {
            Drift::Ramp {
                from,
                to,
                start,
                over,
            } => {
                let gone = at.saturating_sub(*start);
                let share = match *over {
                    _ if at < *start => 0.0,
                    over if gone >= over => 1.0,
                    over => gone as f64 / over as f64,
                };
                *from + (*to - *from) * share
            }
            Drift::Wave { height, period } => {
                let phase = (at % *period) as f64 / *period as f64;
                *height * (1.0 - (std::f64::consts::TAU * phase).cos()) / 2.0
            }
            Drift::Walk(walk) => walk.at(at),
            Drift::Steps(steps) => {
                let passed = steps.partition_point(|(from, _)| *from <= at);
                passed.checked_sub(1).map_or(0.0, |last| steps[last].1)
            }
            Drift::Slots(slots) => slots.at(at),
        };
        Duration::from_nanos(ns.round().max(0.0) as u64)
    }
}

impl Slots {
    fn at(&mut self, at: u64) -> f64 {
        while self.number < at.saturating_add(self.before) / self.slot {
            self.delay = self.most * uniform(&mut self.rng);
            self.number += 1;
        }
        self.delay
    }
}

impl Walk {
    /// Returns the delay at the end of the step after the one that ends at `self.end`.
    fn next(&mut self) -> f64 {
        if self.most <= 0.0 {
            return 0.0;
        }
        // Reflection at both ends: the unfolded walk repeats after twice the range.
        let unfolded = self.end + self.sd * standard_normal(&mut self.rng);
        let folded = unfolded.rem_euclid(2.0 * self.most);
        folded.min(2.0 * self.most - folded)
    }

    fn at(&mut self, at: u64) -> f64 {
        while self.number < at / self.step {
            self.begin = self.end;
            self.end = self.next();
            self.number += 1;
        }
        let share = at.saturating_sub(self.number * self.step) as f64 / self.step as f64;
        self.begin + (self.end - self.begin) * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(text: &str, seed: u64) -> Drift {
        Drift::new(&text.parse().unwrap(), &Streams::new(seed), "up")
    }

    #[test]
    fn ramps_and_waves_are_those_drawn_by_hand() {
        let ms = |text: &str, at_ms| {
            drift(text, 1)
                .at(Time::from_millis(at_ms))
                .as_nanos()
                .div_ceil(1000)
        };
        let ramp = "ramp:from=5ms,to=25ms,start=10s,over=20s";
        assert_eq!(
            [0, 9_999, 10_000, 15_000, 20_000, 30_000, 90_000].map(|t| ms(ramp, t)),
            [5_000, 5_000, 5_000, 10_000, 15_000, 25_000, 25_000]
        );
        let falls = "ramp:from=20ms,to=0ms,start=1s,over=0s";
        assert_eq!([999, 1_000].map(|t| ms(falls, t)), [20_000, 0]);
        let wave = "wave:height=8ms,period=4s";
        assert_eq!(
            [0, 1_000, 2_000, 3_000, 4_000].map(|t| ms(wave, t)),
            [0, 4_000, 8_000, 4_000, 0]
        );
    }

    #[test]
    fn steps_and_slots_change_at_their_times_and_at_no_other() {
        let ms =
            |drift: &mut Drift, at_ms| drift.at(Time::from_millis(at_ms)).as_nanos() as f64 / 1e6;
        let mut steps = drift("steps:at=10s;20s;25s,delay=30ms;5ms;0s", 1);
        let times = [0, 9_999, 10_000, 19_999, 20_000, 24_999, 25_000, 1_000_000];
        let delays = times.map(|at| ms(&mut steps, at));
        assert_eq!(delays, [0.0, 0.0, 30.0, 30.0, 5.0, 5.0, 0.0, 0.0]);
        for (text, first) in [
            ("slots:most=40ms", 15_000),
            ("slots:most=40ms,first=12s", 12_000),
        ] {
            let mut values = Vec::new();
            for seed in 0..20 {
                let mut slots = drift(text, seed);
                let all: Vec<f64> = (0..6_000).map(|i| ms(&mut slots, 100 * i)).collect();
                for (i, two) in all.windows(2).enumerate() {
                    let boundary = (100 * (i + 1) + 15_000 - first) % 15_000 == 0;
                    assert_eq!(two[0] != two[1], boundary, "{text}, seed {seed}: {i}");
                }
                values.extend(all.iter().step_by(150).copied());
            }
            // 800 values, any from 0 to 40 ms alike: mean 20, with a standard error of 11.5/28.
            assert!(values.iter().all(|v| (0.0..=40.0).contains(v)));
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            assert!((mean - 20.0).abs() < 1.7, "{text}: {mean}");
        }
        let said = |text: &str| text.parse::<DriftSpec>().unwrap().contradiction();
        assert_eq!(said("steps:at=1s;2s,delay=1ms;2ms"), None);
        assert!(said("steps:at=1s;2s,delay=1ms").is_some());
        assert!(said("steps:at=2s;2s,delay=1ms;2ms").is_some());
        assert_eq!(said("wave"), None);
    }

    #[test]
    fn a_walk_stays_within_its_range_and_spreads_over_all_of_it() {
        for seed in 0..20 {
            let mut walk = drift("walk:sd=5ms,step=100ms,most=30ms", seed);
            let values: Vec<f64> = (0..200_000)
                .map(|i| walk.at(Time::from_millis(10 * i)).as_nanos() as f64 / 1e6)
                .collect();
            assert!(values.iter().all(|v| (0.0..=30.0).contains(v)), "{seed}");
            // A reflected walk is uniform in the long run: mean 15, from 20,000 steps that are independent after about
            // 15.
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            assert!((mean - 15.0).abs() < 2.0, "seed {seed}: {mean}");
            let jump = values.windows(2).map(|w| (w[1] - w[0]).abs());
            assert!(jump.fold(0.0, f64::max) < 3.5, "seed {seed}: it jumps");
        }
    }

    #[test]
    fn a_walk_is_the_same_however_often_it_is_asked() {
        let text = "walk:sd=2ms,step=1s,most=40ms";
        let (mut often, mut seldom) = (drift(text, 9), drift(text, 9));
        for s in 0..1_000 {
            let value = often.at(Time::from_millis(100 * s));
            if s % 97 == 0 {
                assert_eq!(value, seldom.at(Time::from_millis(100 * s)));
            }
        }
    }
}
