//! Impairments of a packet on the link after it has left the queue: loss, jitter, reordering, duplication. Each has its
//! own random stream.

use crate::words::{Entry, worded};
use base::rng::{Rng, Streams, uniform};
use base::spec::{Params as _, params};
use base::{Duration, Time};
use std::ops::Range;

const NO_USUAL: &str = "none: there is no usual one";
const SPANS: Range<&str> = "0".."1 h";
const SHARES: Range<&str> = "0".."1";

params! {
    #[derive(Clone, Copy, Debug)]
    struct Uniform for "uniform": "added delay, any from 0 to width alike", [] {
        /// largest added delay
        width: Duration = "1 ms" [SPANS], NO_USUAL;
        /// true if a packet may overtake one that is delayed more; if false, it waits for that one
        overtake: bool = "false", "most access links deliver in order";
    }
}

params! {
    #[derive(Clone, Copy, Debug)]
    struct Normal for "normal": "added delay, normally distributed; what would be negative is 0", [
        "Box and Muller, A Note on the Generation of Random Normal Deviates, 1958",
    ] {
        /// mean of the normal distribution, before negative values become 0
        mean: Duration = "0 s" [SPANS], NO_USUAL;
        /// standard deviation of the normal distribution
        sd: Duration = "1 ms" [SPANS], NO_USUAL;
        /// true if a packet may overtake one that is delayed more; if false, it waits for that one
        overtake: bool = "false", "most access links deliver in order";
    }
}

params! {
    #[derive(Clone, Copy, Debug)]
    struct Weibull for "weibull": "added delay by a Weibull law: mostly little and now and then much where shape is below 1", [
        "Weibull, A Statistical Distribution Function of Wide Applicability, Journal of Applied Mechanics 18, 1951",
        "Weigle, DelayBox: Per-Flow Delay and Loss for ns-2, 2003",
    ] {
        /// shape k of the distribution, whose share above x is exp(-(x/scale)^k)
        shape: f64 = "1" ["0.1".."100"], "1 is the exponential law";
        /// scale of the distribution: 63.2 % of packets are delayed by less
        scale: Duration = "1 ms" [SPANS], NO_USUAL;
        /// true if a packet may overtake one that is delayed more; if false, it waits for that one
        overtake: bool = "false", "most access links deliver in order";
    }
}

/// Laws of jitter.
pub const JITTERS: &[Entry] = &[Uniform::ENTRY, Normal::ENTRY, Weibull::ENTRY];

params! {
    #[derive(Clone, Copy, Debug)]
    struct Random for "random": "each packet alike, independent of the others", [] {
        /// share of packets lost
        probability: f64 as Probability = "0.01" [SHARES], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct GilbertElliott for "gilbert_elliott": "bursts: a good and a bad state that alternate, with a loss probability each", [
        "Gilbert, Capacity of a Burst-Noise Channel, Bell System Technical Journal 39, 1960",
        "Elliott, Estimates of Error Rates for Codes on Burst-Noise Channels, Bell System Technical Journal 42, 1963",
    ] {
        /// probability per packet to change from good to bad
        p: f64 as Probability = "0.01" [SHARES], NO_USUAL;
        /// probability per packet to change from bad to good
        r: f64 as Probability = "0.25" [SHARES], NO_USUAL;
        /// share of packets lost in the good state
        good: f64 as Probability = "0" [SHARES], NO_USUAL;
        /// share of packets lost in the bad state
        bad: f64 as Probability = "1" [SHARES], NO_USUAL;
    }
}

params! {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Outage for "outage": "every packet for a while, as while a link is down or a radio changes its cell; none at other times", [] {
        /// start of the first outage after the start of the run
        start: Duration = "10 s" [SPANS], NO_USUAL;
        /// length of an outage
        lasts: Duration = "2 s" [SPANS], NO_USUAL;
        /// time from the start of an outage to the start of the next; with 0 s there is one alone
        every: Duration = "0 s" [SPANS], NO_USUAL;
    }
}

impl Outage {
    fn covers(&self, at: Time) -> bool {
        let first = Time::ZERO + self.start;
        if at < first {
            return false;
        }
        let since = at.saturating_since(first);
        let since = match self.every.is_zero() {
            true => since,
            false => Duration::from_nanos(since.as_nanos() % self.every.as_nanos()),
        };
        since < self.lasts
    }
}

/// Laws of loss.
pub const LOSSES: &[Entry] = &[Random::ENTRY, GilbertElliott::ENTRY, Outage::ENTRY];

params! {
    #[derive(Clone, Copy, Debug)]
    struct Late for "late": "some packets are held back and overtaken by those behind them", [] {
        /// share of packets held back
        probability: f64 as Probability = "0.01" [SHARES], NO_USUAL;
        /// additional delay of these packets
        delay: Duration = "5 ms" [SPANS], NO_USUAL;
    }
}

/// Laws of reordering.
pub const REORDERS: &[Entry] = &[Late::ENTRY];

params! {
    #[derive(Clone, Copy, Debug)]
    struct Radio for "radio": "a radio that sleeps when nothing has been sent for a while, and wakes up for the next packet", [
        "Qian et al., Characterizing Radio Resource Allocation for 3G Networks, IMC 2010",
    ] {
        /// idle time after which the radio sleeps
        idle: Duration = "10 s" [SPANS], NO_USUAL;
        /// wake-up time; packets wait in the queue meanwhile
        wake: Duration = "1.6 s" [SPANS], NO_USUAL;
    }
}

/// Laws of sleep.
pub const SLEEPS: &[Entry] = &[Radio::ENTRY];

worded! {
    /// Jitter, written as `normal:sd=2ms`.
    JitterSpec, "jitter", JITTERS.iter()
}
worded! {
    /// Loss on the link, written as `random:probability=0.01` or `gilbert_elliott:p=0.01,r=0.25`.
    LossSpec, "loss", LOSSES.iter()
}
worded! {
    /// Sleep of a radio transmitter, written as `radio:idle=10s,wake=1.6s`.
    SleepSpec, "sleep", SLEEPS.iter()
}
worded! {
    /// Reordering, written as `late:probability=0.01,delay=5ms`.
    ReorderSpec, "reorder", REORDERS.iter()
}

/// Jitter: delay of one packet in addition to the propagation delay, independent of other packets'.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    law: JitterLaw,
    pub(crate) may_overtake: bool,
    rng: Rng,
}

#[derive(Clone, Copy, Debug)]
enum JitterLaw {
    Uniform { width_ns: f64 },
    Normal { mean_ns: f64, sd_ns: f64 },
    Weibull { shape: f64, scale_ns: f64 },
}

impl Jitter {
    pub(crate) fn new(spec: &JitterSpec, streams: &Streams, name: &str) -> Jitter {
        let w = spec.words();
        let ns = |d: Duration| d.as_nanos() as f64;
        let (law, may_overtake) = match w.entry().name {
            "uniform" => {
                let p: Uniform = w.read();
                let width_ns = ns(p.width);
                (JitterLaw::Uniform { width_ns }, p.overtake)
            }
            "normal" => {
                let p: Normal = w.read();
                let (mean_ns, sd_ns) = (ns(p.mean), ns(p.sd));
                (JitterLaw::Normal { mean_ns, sd_ns }, p.overtake)
            }
            _ => {
                let p: Weibull = w.read();
                let (shape, scale_ns) = (p.shape, ns(p.scale));
                (JitterLaw::Weibull { shape, scale_ns }, p.overtake)
            }
        };
        Jitter {
            law,
            may_overtake,
            rng: streams.stream(&format!("link/{name}/jitter")),
        }
    }

    pub(crate) fn draw(&mut self) -> Duration {
        let ns = match self.law {
            JitterLaw::Uniform { width_ns } => width_ns * uniform(&mut self.rng),
            JitterLaw::Normal { mean_ns, sd_ns } => {
                mean_ns + sd_ns * standard_normal(&mut self.rng)
            }
            // Inverse of the distribution function.
            JitterLaw::Weibull { shape, scale_ns } => {
                scale_ns * (-(1.0 - uniform(&mut self.rng)).ln()).powf(1.0 / shape)
            }
        };
        // One draw in 10^16 from a long-tailed distribution would exceed any run.
        Duration::from_nanos(ns.round().clamp(0.0, LONGEST_NS) as u64)
    }
}

/// Largest delay of a packet, 1 h in ns, which is also the largest parameter.
const LONGEST_NS: f64 = 3.6e12;

/// Draws a standard normal number (Box and Muller 1958). Only one of the pair is used, so that each packet takes the
/// same number of draws.
pub(crate) fn standard_normal(rng: &mut Rng) -> f64 {
    let u1 = 1.0 - uniform(rng);
    let u2 = uniform(rng);
    (-2.0 * u1.ln()).sqrt() * (std::f64::consts::TAU * u2).cos()
}

/// Sleep of a radio transmitter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sleep {
    idle: Duration,
    wake: Duration,
    /// Departure time of the last packet; none before the first.
    last: Option<Time>,
}

impl Sleep {
    pub(crate) fn new(spec: &SleepSpec) -> Sleep {
        let Radio { idle, wake } = spec.words().read();
        Sleep {
            idle,
            wake,
            last: None,
        }
    }

    /// Returns how long a packet that is ready at `at` waits for the radio.
    pub(crate) fn wait(&self, at: Time) -> Duration {
        match self.last {
            Some(last) if at.saturating_since(last) <= self.idle => Duration::ZERO,
            _ => self.wake,
        }
    }

    pub(crate) fn sent(&mut self, at: Time) {
        self.last = Some(at);
    }
}

/// Loss on the link.
#[derive(Clone, Debug)]
pub(crate) enum Loss {
    Random {
        probability: f64,
        rng: Rng,
    },
    GilbertElliott {
        law: GilbertElliott,
        is_bad: bool,
        state: Rng,
        drop: Rng,
    },
    Outage(Outage),
}

impl Loss {
    pub(crate) fn new(spec: &LossSpec, streams: &Streams, name: &str) -> Loss {
        let w = spec.words();
        match w.entry().name {
            "random" => Loss::Random {
                probability: w.read::<Random>().probability,
                rng: streams.stream(&format!("link/{name}/loss")),
            },
            "outage" => Loss::Outage(w.read()),
            _ => Loss::GilbertElliott {
                law: w.read(),
                is_bad: false,
                state: streams.stream(&format!("link/{name}/loss/state")),
                drop: streams.stream(&format!("link/{name}/loss")),
            },
        }
    }

    /// True if the packet that leaves the transmitter at `at` is lost.
    pub(crate) fn draw(&mut self, at: Time) -> bool {
        match self {
            Loss::Outage(outage) => outage.covers(at),
            Loss::Random { probability, rng } => uniform(rng) < *probability,
            Loss::GilbertElliott {
                law,
                is_bad,
                state,
                drop,
            } => {
                let change = if *is_bad { law.r } else { law.p };
                *is_bad ^= uniform(state) < change;
                uniform(drop) < if *is_bad { law.bad } else { law.good }
            }
        }
    }
}

/// Reordering: some packets are held back.
#[derive(Clone, Debug)]
pub(crate) struct Reorder {
    probability: f64,
    delay: Duration,
    rng: Rng,
}

impl Reorder {
    pub(crate) fn new(spec: &ReorderSpec, streams: &Streams, name: &str) -> Reorder {
        let Late { probability, delay } = spec.words().read();
        Reorder {
            probability,
            delay,
            rng: streams.stream(&format!("link/{name}/reorder")),
        }
    }

    /// Returns the additional delay of the next packet if it is held back.
    pub(crate) fn draw(&mut self) -> Option<Duration> {
        (uniform(&mut self.rng) < self.probability).then_some(self.delay)
    }
}

/// Duplication of some packets.
#[derive(Clone, Debug)]
pub(crate) struct Duplicate {
    probability: f64,
    rng: Rng,
}

impl Duplicate {
    pub(crate) fn new(probability: f64, streams: &Streams, name: &str) -> Duplicate {
        Duplicate {
            probability,
            rng: streams.stream(&format!("link/{name}/duplicate")),
        }
    }

    pub(crate) fn draw(&mut self) -> bool {
        uniform(&mut self.rng) < self.probability
    }
}
