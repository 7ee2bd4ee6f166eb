//! Monitors of drawn links: what each probe meets, and what happens to the link meanwhile.

use super::course::{Bursts, Jitter, Levels, Link, Load};
use crate::chance::Chance;

/// Kinds of links.
pub const FAMILIES: [&str; 6] = [
    "plain",
    "memory",
    "busy",
    "losses in groups",
    "levels",
    "long tail",
];

/// Stretch of time in which the link is not as usual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// No probe is answered.
    Outage,
    /// Another path: so many ms longer or shorter, with so much times the jitter, and so much more loss.
    Path { ms: f64, jitter: f64, loss: f64 },
    /// A queue that does not empty. It grows to `ms` in `saw_s`, and is then cut to a share of that.
    Queue {
        ms: f64,
        cut: f64,
        saw_s: f64,
        loss: f64,
    },
    /// The host sends nothing.
    Gap,
}

/// Change with its slots.
#[derive(Clone, Debug)]
pub struct Event {
    pub change: Change,
    pub from: usize,
    pub to: usize,
}

/// Drawn monitor.
pub struct Draw {
    pub number: u64,
    /// Kind of the link.
    pub family: &'static str,
    pub interval_s: f64,
    /// Probes of the recording.
    pub probes: usize,
    pub link: Link,
    /// Probes of a window, and those of a span with its begin.
    pub window: usize,
    pub span: (usize, usize),
    /// Changes in order, apart from each other; empty where figures are judged.
    pub events: Vec<Event>,
}

impl Draw {
    /// Description in a line.
    pub fn told(&self) -> String {
        format!(
            "{} probes, each {} s; {}",
            self.probes, self.interval_s, self.link
        )
    }
}

/// The drawn monitor `number` of `seed`.
pub fn draw(seed: u64, number: u64) -> Draw {
    let mut c = Chance::new(seed, &format!("monitor {number}"));
    let interval_s = c.weighted(&[(0.1, 4.0), (0.01, 1.0), (1.0, 3.0), (5.0, 1.0)]);
    let changes = c.is(0.4);
    let least = if changes { 2400.0 } else { 120.0 };
    let probes = (c.log(least, 86_400.0) / interval_s).clamp(300.0, 200_000.0) as usize;
    let seconds = probes as f64 * interval_s;
    let family = c.pick(&FAMILIES);
    let base_ms = c.log(2.0, 300.0);
    let jitter = Jitter {
        shape: c.pick(&[0.5, 1.0, 2.0, 4.0]),
        mean_ms: c.log(0.02, 0.1 * base_ms + 2.0),
        memory_s: 0.0,
        tail: false,
    };
    let mut link = Link {
        base_ms,
        jitter,
        load: None,
        levels: None,
        loss: if c.is(0.5) { c.log(1e-4, 0.02) } else { 0.0 },
        bursts: None,
    };
    match family {
        "memory" => link.jitter.memory_s = c.log(0.1, (seconds / 20.0).min(60.0)),
        "busy" => {
            let cycle_s = c.log(5.0, if changes { 60.0 } else { seconds / 8.0 });
            let share = c.uniform(0.01, 0.8);
            link.load = Some(Load {
                on_s: share * cycle_s,
                off_s: (1.0 - share) * cycle_s,
                buffer_ms: c.log(10.0, 1500.0),
                saw_s: c.log(0.2, 8.0),
                loss: if c.is(0.6) { c.log(1e-3, 0.1) } else { 0.0 },
            });
        }
        "losses in groups" => {
            // Groups end before they are outages.
            let group_s = c.log(1.0, 5.0) * interval_s;
            link.bursts = Some(Bursts {
                good_s: c.log(20.0 * interval_s, seconds / 8.0),
                bad_s: group_s,
                loss: c.uniform(0.3, 0.9),
            });
        }
        "levels" => {
            link.levels = Some(Levels {
                each_s: c.pick(&[1.0, 15.0]),
                spread_ms: c.log(1.0, 40.0),
            });
        }
        "long tail" => link.jitter.tail = true,
        _ => {}
    }
    let events = if changes {
        events(&mut c, probes, interval_s, base_ms)
    } else {
        Vec::new()
    };
    Draw {
        number,
        family,
        interval_s,
        probes,
        link,
        window: c
            .uniform(probes as f64 / 80.0, probes as f64 / 5.0)
            .max(20.0) as usize,
        span: (
            c.uniform(0.0, 0.6 * probes as f64) as usize,
            c.log(20.0, 0.3 * probes as f64) as usize,
        ),
        events,
    }
}

/// One to four changes, each in a part of the recording of its own, whose first and last tenth have none.
fn events(c: &mut Chance, probes: usize, interval_s: f64, base_ms: f64) -> Vec<Event> {
    // Stretches that are to be told apart lie ten minutes apart.
    let room = (probes as f64 * interval_s / 3600.0).clamp(1.0, 4.0);
    let count = 1 + (c.unit() * room) as usize;
    let part = probes as f64 * 0.8 / count as f64;
    let one = |i: usize| {
        let change = c.weighted(&[(0, 4.0), (1, 2.0), (2, 1.0), (3, 2.0)]);
        // A path or a queue that is to be found lasts ten minutes, and less than a third of the recording.
        let (least_s, most_s) = match change {
            0 | 3 => (0.5, 600.0),
            _ => (600.0, 0.3 * probes as f64 * interval_s),
        };
        let length_s = c
            .log(least_s, most_s.max(least_s * 1.01))
            .min(0.8 * part * interval_s);
        let from = probes as f64 * 0.1 + part * (i as f64 + c.uniform(0.05, 0.15));
        let step_ms = c.log(0.15, 2.0) * base_ms + 2.0;
        let change = match change {
            0 => Change::Outage,
            1 => Change::Path {
                ms: match c.is(0.3) {
                    true => -c.uniform(0.2, 0.6) * base_ms,
                    false => step_ms,
                },
                jitter: if c.is(0.4) { c.log(0.5, 3.0) } else { 1.0 },
                loss: if c.is(0.2) { c.log(5e-4, 0.01) } else { 0.0 },
            },
            2 => Change::Queue {
                ms: step_ms + 20.0,
                cut: c.pick(&[0.5, 0.7, 0.85, 0.97]),
                saw_s: c.log(0.3, 20.0),
                loss: if c.is(0.7) { c.log(5e-4, 0.03) } else { 0.0 },
            },
            _ => Change::Gap,
        };
        Event {
            change,
            from: from as usize,
            to: (from + length_s / interval_s).ceil() as usize,
        }
    };
    (0..count).map(one).collect()
}
