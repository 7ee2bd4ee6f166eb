//! A link as the probes of a monitor meet it: one round trip or loss after the other, from a stationary law whose figures
//! a long enough course shows.

use super::family::{Change, Event};
use crate::chance::Chance;
use std::fmt;

/// Delay that varies about each packet.
#[derive(Clone, Copy, Debug)]
pub struct Jitter {
    /// Shape of the gamma distribution: 0.5, or a whole number.
    pub shape: f64,
    pub mean_ms: f64,
    /// Time in which it forgets itself; 0 for none.
    pub memory_s: f64,
    /// True if one packet of a hundred waits a Pareto time (index 1.5) besides.
    pub tail: bool,
}

/// Transfers that come and go, each with a queue that fills and is cut by half.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub on_s: f64,
    pub off_s: f64,
    pub buffer_ms: f64,
    /// Time from one cut to the next.
    pub saw_s: f64,
    /// Loss while it lasts.
    pub loss: f64,
}

/// Losses that come in groups.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    pub good_s: f64,
    pub bad_s: f64,
    /// Loss in a group.
    pub loss: f64,
}

/// Path that is chosen anew, as satellites are.
#[derive(Clone, Copy, Debug)]
pub struct Levels {
    pub each_s: f64,
    pub spread_ms: f64,
}

/// Law of a link.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub base_ms: f64,
    pub jitter: Jitter,
    pub load: Option<Load>,
    pub levels: Option<Levels>,
    pub loss: f64,
    pub bursts: Option<Bursts>,
}

impl Link {
    /// Time that the link takes to show what it can do once.
    pub fn cycle_s(&self) -> f64 {
        let load = self.load.map_or(0.0, |l| l.on_s + l.off_s);
        let bursts = self.bursts.map_or(0.0, |b| b.bad_s + b.good_s);
        let levels = self.levels.map_or(0.0, |l| l.each_s);
        load.max(bursts).max(levels).max(self.jitter.memory_s)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Jitter {
            mean_ms, memory_s, ..
        } = self.jitter;
        write!(f, "base {:.3} ms, jitter {mean_ms:.3} ms", self.base_ms)?;
        if memory_s > 0.0 {
            write!(f, " that lasts {memory_s:.2} s")?;
        }
        if let Some(l) = self.load {
            write!(
                f,
                ", transfers of {:.1} s each {:.1} s, queue {:.1} ms, loss {:.2} %",
                l.on_s,
                l.on_s + l.off_s,
                l.buffer_ms,
                100.0 * l.loss
            )?;
        }
        if let Some(b) = self.bursts {
            write!(
                f,
                ", losses for {:.2} s each {:.1} s",
                b.bad_s,
                b.good_s + b.bad_s
            )?;
        }
        if let Some(l) = self.levels {
            write!(f, ", levels of {:.1} ms each {} s", l.spread_ms, l.each_s)?;
        }
        write!(f, ", loss {:.3} %", 100.0 * self.loss)
    }
}

/// State of something that comes and goes.
struct Turns {
    is_on: bool,
    left_s: f64,
}

impl Turns {
    fn begin(c: &mut Chance, on_s: f64, off_s: f64) -> Turns {
        let is_on = c.is(on_s / (on_s + off_s));
        let left_s = c.exponential(if is_on { on_s } else { off_s });
        Turns { is_on, left_s }
    }
    /// Goes on by a step; true if it is on.
    fn step(&mut self, c: &mut Chance, dt_s: f64, on_s: f64, off_s: f64) -> bool {
        self.left_s -= dt_s;
        while self.left_s < 0.0 {
            self.is_on = !self.is_on;
            self.left_s += c.exponential(if self.is_on { on_s } else { off_s });
        }
        self.is_on
    }
}

/// Fate of a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// Round trip, ms.
    Answered(f64),
    Lost,
    NotSent,
}

/// Course of a link, probe by probe.
pub struct Course {
    link: Link,
    dt_s: f64,
    chance: Chance,
    /// Gaussian terms of the jitter, which remember.
    normal: [f64; 8],
    load: Turns,
    bursts: Turns,
    phase: f64,
    /// Phase of a queue that does not empty.
    queue: f64,
    saw_s: f64,
    level_ms: f64,
    level_left_s: f64,
}

impl Course {
    pub fn new(link: Link, dt_s: f64, mut chance: Chance) -> Course {
        let normal = std::array::from_fn(|_| gauss(&mut chance));
        let turns = |c: &mut Chance, lengths: Option<(f64, f64)>| match lengths {
            Some((on, off)) => Turns::begin(c, on, off),
            None => Turns {
                is_on: false,
                left_s: f64::INFINITY,
            },
        };
        let load = turns(&mut chance, link.load.map(|l| (l.on_s, l.off_s)));
        let bursts = turns(&mut chance, link.bursts.map(|b| (b.bad_s, b.good_s)));
        Course {
            phase: chance.unit(),
            queue: 0.0,
            saw_s: link.load.map_or(1.0, |l| l.saw_s),
            level_ms: 0.0,
            level_left_s: 0.0,
            link,
            dt_s,
            normal,
            load,
            bursts,
            chance,
        }
    }

    /// Gamma as a sum of squares of normal terms, each of which remembers.
    fn jitter_ms(&mut self) -> f64 {
        let Jitter {
            shape,
            mean_ms,
            memory_s,
            tail,
        } = self.link.jitter;
        let keeps = match memory_s {
            m if m > 0.0 => (-self.dt_s / m).exp(),
            _ => 0.0,
        };
        let terms = (2.0 * shape) as usize;
        let mut sum = 0.0;
        for x in &mut self.normal[..terms] {
            *x = keeps * *x + (1.0 - keeps * keeps).sqrt() * gauss(&mut self.chance);
            sum += *x * *x;
        }
        let mut ms = mean_ms * sum / terms as f64;
        if tail && self.chance.is(0.01) {
            ms += (4.0 * mean_ms * (1.0 - self.chance.unit()).powf(-1.0 / 1.5)).min(9000.0);
        }
        ms
    }

    /// Fate of the next probe, on a link that changes as `change` says.
    pub fn next(&mut self, change: Option<Change>) -> Fate {
        let Link {
            base_ms,
            load,
            levels,
            bursts,
            loss,
            ..
        } = self.link;
        let jitter_ms = self.jitter_ms();
        let mut ms = base_ms + jitter_ms;
        let mut lost = self.chance.is(loss);
        if let Some(l) = load {
            let on = self.load.step(&mut self.chance, self.dt_s, l.on_s, l.off_s);
            self.phase += self.dt_s / self.saw_s;
            if self.phase >= 1.0 {
                // Cuts are not as regular as the probes are: the two would keep step.
                self.phase = self.chance.unit() * (self.dt_s / self.saw_s).min(1.0);
                self.saw_s = l.saw_s * self.chance.uniform(0.5, 1.5);
            }
            if on {
                ms += l.buffer_ms * (0.5 + 0.5 * self.phase);
                lost |= self.chance.is(l.loss);
            }
        }
        if let Some(b) = bursts {
            let on = (self.bursts).step(&mut self.chance, self.dt_s, b.bad_s, b.good_s);
            lost |= on && self.chance.is(b.loss);
        }
        if let Some(l) = levels {
            self.level_left_s -= self.dt_s;
            if self.level_left_s < 0.0 {
                self.level_left_s += l.each_s.max(self.dt_s);
                self.level_ms = self.chance.uniform(0.0, l.spread_ms);
            }
            ms += self.level_ms;
        }
        match change {
            Some(Change::Outage) => return Fate::Lost,
            Some(Change::Gap) => return Fate::NotSent,
            Some(Change::Path {
                ms: by_ms,
                jitter,
                loss,
            }) => {
                ms += by_ms + (jitter - 1.0) * jitter_ms;
                lost |= self.chance.is(loss);
            }
            Some(Change::Queue {
                ms: top_ms,
                cut,
                saw_s,
                loss,
            }) => {
                self.queue = (self.queue + self.dt_s / saw_s).fract();
                ms += top_ms * (cut + (1.0 - cut) * self.queue);
                lost |= self.chance.is(loss);
            }
            None => {}
        }
        if lost { Fate::Lost } else { Fate::Answered(ms) }
    }
}

/// Fates of `probes` probes.
pub fn fates(link: Link, dt_s: f64, chance: Chance, probes: usize, events: &[Event]) -> Vec<Fate> {
    let mut course = Course::new(link, dt_s, chance);
    let change = |i: usize| {
        let at = events.iter().find(|e| (e.from..e.to).contains(&i));
        at.map(|e| e.change)
    };
    (0..probes).map(|i| course.next(change(i))).collect()
}

/// Normal with mean 0 and standard deviation 1 (Box and Muller).
fn gauss(c: &mut Chance) -> f64 {
    let radius = (-2.0 * (1.0 - c.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * c.unit()).cos()
}
