//! Draws of links behind a gateway.

use crate::chance::Chance;
use std::fmt;
use testkit::networks::house::Modem;

/// Kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Family {
    /// One rate.
    Fixed,
    /// The rate halves while the upload runs.
    Halved,
    /// The rate changes each 100 ms, and its mean each 500 ms.
    Walk,
}

impl Family {
    pub const ALL: [Family; 3] = [Family::Fixed, Family::Halved, Family::Walk];
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Fixed => "rate fixed",
            Family::Halved => "rate halved after 10 s",
            Family::Walk => "rate a random walk in steps of 100 ms",
        })
    }
}

/// Length of an upload, s.
pub const UPLOAD_S: u32 = 20;
/// Time from the begin of the link until its rate halves, s: after the begin of the upload in real time, too.
pub const HALVED_S: f64 = 16.0;
/// Longest time for which a link's rate is drawn, s.
const LONGEST_S: u32 = 60;

/// Link with its load.
pub struct Draw {
    pub seed: u64,
    pub number: u64,
    pub family: Family,
    pub modem: Modem,
    pub flows: usize,
    /// Estimate of the first rate that a train gives, bit/s: within 10 %.
    pub train: f64,
    /// Rates over time, bit/s: median and least.
    pub median: f64,
    pub least: f64,
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Modem {
            delay_ms, buffer, ..
        } = &self.modem;
        write!(
            f,
            "median {:.1} Mbit/s, {delay_ms:.0} ms each way, {} flows, buffer {:.0} kB",
            self.median * 1e-6,
            self.flows,
            buffer * 1e-3
        )
    }
}

/// Link of that number.
pub fn draw(seed: u64, number: u64, family: Family) -> Draw {
    let mut chance = Chance::new(seed, &format!("gateway/{family:?}/{number}"));
    let highest = if family == Family::Walk { 20e6 } else { 100e6 };
    let rate = chance.log(4e6, highest);
    let delay_ms = chance.log(4.0, 25.0);
    let flows = chance.pick(&[1, 1, 2, 4, 16]);
    let buffer = rate / 8.0 * chance.log(0.5, 2.0);
    let steps = match family {
        Family::Fixed => vec![(0, rate)],
        Family::Halved => vec![(0, rate), ((HALVED_S * 1e3) as u32, rate / 2.0)],
        Family::Walk => walk(&mut chance, rate),
    };
    let mut rates: Vec<f64> = steps.iter().map(|s| s.1).collect();
    rates.sort_by(f64::total_cmp);
    let train = steps[0].1 * chance.uniform(0.9, 1.1);
    let text = match steps.as_slice() {
        [(_, rate)] => format!("\"{rate:.0} bit/s\""),
        steps => {
            let step = |(at, rate): &(u32, f64)| {
                format!("{{ at = \"{at} ms\", rate = \"{rate:.0} bit/s\" }}")
            };
            let steps: Vec<String> = steps.iter().map(step).collect();
            format!("{{ steps = [{}] }}", steps.join(", "))
        }
    };
    Draw {
        seed,
        number,
        family,
        flows,
        train,
        median: rates[rates.len() / 2],
        least: rates[0],
        modem: Modem {
            rate: text,
            down: 200e6,
            buffer,
            delay_ms,
        },
    }
}

/// Rates of a cellular link, with their times in ms.
fn walk(chance: &mut Chance, start: f64) -> Vec<(u32, f64)> {
    let mut rate = start;
    let step = |i: u32| {
        if i.is_multiple_of(5) {
            let normal: f64 = (0..12).map(|_| chance.unit()).sum::<f64>() - 6.0;
            rate = (rate * 2f64.powf(0.35 * normal)).clamp(2e6, 30e6);
        }
        (100 * i, rate * chance.uniform(0.85, 1.15))
    };
    (0..10 * LONGEST_S).map(step).collect()
}
