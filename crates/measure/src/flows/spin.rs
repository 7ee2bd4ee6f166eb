//! Round trips of a QUIC connection by its spin bit, seen at one place of the path in both directions.
//!
//! The client sends the inverse of the bit that it received last, the server sends it back. Each value therefore runs once
//! around the path: the time from one change in the client's packets to the next is a round trip. It is the sum of the
//! server's side (client's change to server's change) and of the client's side.
//!
//! **Source.** RFC 9000 section 17.4 (the bit), RFC 9312 section 3.8 (observers).
//!
//! **Interval.** A side that sent its last packet with the old value `gap` before the change could have answered up to `gap`
//! earlier. So a sample has an upper end, the time between changes, and a lower end, that time less both gaps. The
//! median is that of the upper ends, as endpoints that are clocked by ACKs answer at once; it is weighted by time. Its interval
//! adds the order statistics of a 95 % interval of a median.
//!
//! **Validity.** A change that the other side did not cause is contrary. Endpoints that disable the bit send random values
//! (contrary changes, or changes that come a packet or more too late) or constant ones (no changes).
//!
//! **Limits.** The time an endpoint waits before it sends is part of the round trip. Packet numbers are encrypted, so
//! that losses cannot be seen.

/// Number of the client and of the server.
pub const CLIENT: usize = 0;
const SERVER: usize = 1;
/// Samples that are kept; beyond it every second one is dropped.
const MOST_SAMPLES: usize = 4096;
/// Samples that a median needs.
const FEWEST: usize = 8;
/// Contrary packets in a row after which their value counts.
const INSIST: u8 = 16;
/// Share of contrary packets, and of late changes, up to which the bit counts as spun.
const CONTRARY: f64 = 0.02;
const LATE: f64 = 0.1;
/// Widest interval as a share of the median.
const WIDEST: f64 = 0.25;
/// Packets for each change from which on random values show as contrary ones.
const DENSE: u64 = 4;

/// Median with the interval that holds it, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Median {
    /// Median time between changes.
    pub ns: i64,
    /// Lower end of the interval.
    pub low_ns: i64,
    /// Upper end of the interval.
    pub high_ns: i64,
}

/// Round trips of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrips {
    /// Number of round trips.
    pub count: u64,
    /// Whole round trip.
    pub rtt: Median,
    /// Part from the capture to the client and back.
    pub client: Median,
    /// Part from the capture to the server and back.
    pub server: Median,
}

/// Reason why there are no round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Packets of one direction are missing.
    OneDirection,
    /// The bit never changed.
    Constant,
    /// The bit changed without cause.
    Random,
    /// Too few round trips.
    Few(u64),
    /// The median's interval is too wide.
    Sparse,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unknown::OneDirection => f.write_str("only one direction was captured"),
            Unknown::Constant => f.write_str("the spin bit never changes: an endpoint disables it"),
            Unknown::Random => f.write_str(
                "the spin bit changes without cause: an endpoint sends random values, or packets are too sparse to see causes",
            ),
            Unknown::Few(n) => write!(f, "only {n} round trips, {FEWEST} are needed"),
            Unknown::Sparse => f.write_str(
                "packets are sparse, lost or late: the median is not known to a quarter of its size",
            ),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    t_ns: i64,
    /// Time by which the change may have been possible earlier, ns.
    slack_ns: i64,
}

#[derive(Clone, Debug, Default)]
struct Side {
    value: Option<bool>,
    last_ns: i64,
    packets: u64,
    changes: u64,
    contrary: u64,
    insists: u8,
    edge: Option<Edge>,
}

/// Parts of a round trip and their slacks, by side, ns.
#[derive(Clone, Copy, Debug)]
struct Sample {
    part_ns: [i64; 2],
    slack_ns: [i64; 2],
}

/// Observer of a connection's spin bit.
#[derive(Clone, Debug, Default)]
pub struct Spin {
    sides: [Side; 2],
    samples: Vec<Sample>,
    count: u64,
    /// One of so many samples is kept, as a power of two.
    thinned: u32,
    now_ns: i64,
}

impl Spin {
    /// Takes a packet with a short header from the client (0) or the server (1).
    pub fn packet(&mut self, side: usize, t_ns: i64, value: bool) {
        let t_ns = t_ns.max(self.now_ns);
        self.now_ns = t_ns;
        let [me, peer] = match side {
            CLIENT => [CLIENT, SERVER],
            _ => [SERVER, CLIENT],
        };
        let (cause, cause_value) = (self.sides[peer].edge, self.sides[peer].value);
        let s = &mut self.sides[me];
        s.packets += 1;
        let gap_ns = t_ns - std::mem::replace(&mut s.last_ns, t_ns);
        let Some(own) = s.value else {
            s.value = Some(value);
            return;
        };
        if own == value {
            s.insists = 0;
            return;
        }
        // RFC 9000 section 17.4: the client inverts the server's value, the server repeats the client's.
        if cause_value.map(|v| v ^ (me == CLIENT)) != Some(value) {
            s.contrary += 1;
            s.insists += 1;
            if s.insists >= INSIST {
                (s.value, s.insists, s.edge) = (Some(value), 0, None);
            }
            return;
        }
        (s.value, s.insists) = (Some(value), 0);
        s.changes += 1;
        let waited_ns = cause.map_or(0, |c| t_ns - c.t_ns);
        let edge = Edge {
            t_ns,
            slack_ns: gap_ns.min(waited_ns),
        };
        let before = s.edge.replace(edge);
        if let (CLIENT, Some(before), Some(answer)) = (me, before, cause)
            && before.t_ns <= answer.t_ns
        {
            self.sample(Sample {
                part_ns: [t_ns - answer.t_ns, answer.t_ns - before.t_ns],
                slack_ns: [edge.slack_ns, answer.slack_ns],
            });
        }
    }

    fn sample(&mut self, sample: Sample) {
        if self.count.is_multiple_of(1 << self.thinned) {
            self.samples.push(sample);
        }
        self.count += 1;
        if self.samples.len() >= MOST_SAMPLES {
            let mut is_kept = false;
            self.samples.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.thinned += 1;
        }
    }

    /// Packets with a short header, both directions.
    pub fn packets(&self) -> u64 {
        self.sides.iter().map(|s| s.packets).sum()
    }

    /// Evaluates the connection.
    ///
    /// # Errors
    /// The reason why its round trips are unknown.
    pub fn round_trips(&self) -> Result<RoundTrips, Unknown> {
        if self.sides.iter().any(|s| s.packets == 0) {
            return Err(Unknown::OneDirection);
        }
        let contrary = |s: &Side| s.contrary > 2 && s.contrary as f64 > CONTRARY * s.packets as f64;
        if self.sides.iter().any(contrary) || (0..2).any(|side| self.is_late(side)) {
            return Err(Unknown::Random);
        }
        let changes = self.sides.each_ref().map(|s| s.changes);
        if changes == [0, 0] && self.sides.iter().all(|s| s.packets >= FEWEST as u64) {
            return Err(Unknown::Constant);
        }
        if self.samples.len() < FEWEST {
            return Err(Unknown::Few(self.count));
        }
        let rtt = self.median(|parts| parts[0] + parts[1]);
        if (rtt.high_ns - rtt.low_ns) as f64 > WIDEST * rtt.ns as f64 {
            return Err(Unknown::Sparse);
        }
        Ok(RoundTrips {
            count: self.count,
            rtt,
            client: self.median(|parts| parts[CLIENT]),
            server: self.median(|parts| parts[SERVER]),
        })
    }

    /// True if a side with few packets often kept the old value after it must have known the new one, as random values do.
    fn is_late(&self, side: usize) -> bool {
        let s = &self.sides[side];
        if s.packets >= DENSE * s.changes || self.samples.len() < FEWEST {
            return false;
        }
        let quartile = |of: &dyn Fn(&Sample) -> i64| {
            let mut all: Vec<i64> = self.samples.iter().map(of).collect();
            all.sort_unstable();
            all[all.len() / 4]
        };
        let usual_ns = quartile(&|x| x.part_ns[side]);
        let latest_ns = 2 * usual_ns + quartile(&|x| x.part_ns[0] + x.part_ns[1]) / 4;
        let kept = |x: &&Sample| x.part_ns[side] - x.slack_ns[side] > latest_ns;
        let late = self.samples.iter().filter(kept).count();
        late as f64 > LATE * self.samples.len() as f64
    }

    /// Median of one part of each round trip, weighted by the round trip's shortest length.
    fn median(&self, of: impl Fn([i64; 2]) -> i64) -> Median {
        let ends = |x: &Sample| {
            let low: [i64; 2] = std::array::from_fn(|i| x.part_ns[i] - x.slack_ns[i]);
            (of(low), of(x.part_ns), (low[0] + low[1]).max(1))
        };
        let all: Vec<(i64, i64, i64)> = self.samples.iter().map(ends).collect();
        // Ranks of a median's 95 % interval: half ± 1.96 / (2 √n).
        let beside = (0.98 / (all.len() as f64).sqrt()).min(0.5);
        let at = |p: f64, value: &dyn Fn(&(i64, i64, i64)) -> i64| {
            weighted(all.iter().map(|x| (value(x), x.2)).collect(), p)
        };
        Median {
            ns: at(0.5, &|x| x.1),
            low_ns: at(0.5 - beside, &|x| x.0),
            high_ns: at(0.5 + beside, &|x| x.1),
        }
    }
}

/// Smallest value below which this share of the weight lies.
fn weighted(mut all: Vec<(i64, i64)>, share: f64) -> i64 {
    all.sort_unstable();
    let whole: f64 = all.iter().map(|x| x.1 as f64).sum();
    let mut sum = 0.0;
    for (value, weight) in &all {
        sum += *weight as f64;
        if sum >= share * whole {
            return *value;
        }
    }
    all.last().map_or(0, |x| x.0)
}
