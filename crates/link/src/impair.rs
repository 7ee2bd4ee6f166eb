//! What happens to a packet on the line after it has left the queue: it is lost, delayed a little more
//! or less, overtaken, or doubled. Each consumer of chance has its own random stream.

use crate::words::{Entry, Parameter, Unit, worded};
use base::rng::{Rng, Streams, uniform};
use base::{Duration, Time};

const fn probability(
    name: &'static str,
    default: Option<&'static str>,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit: Unit::Probability,
        default,
        min: "0",
        max: "1",
        section: "none: there is no usual one",
        doc,
    }
}

const fn span(name: &'static str, default: &'static str, doc: &'static str) -> Parameter {
    Parameter {
        name,
        unit: Unit::Duration,
        default: Some(default),
        min: "0",
        max: "1 h",
        section: "none: there is no usual one",
        doc,
    }
}

const OVERTAKE: Parameter = Parameter {
    name: "overtake",
    unit: Unit::Switch,
    default: Some("false"),
    min: "false",
    max: "true",
    section: "most access links deliver in order",
    doc: "whether a packet may overtake one that is delayed more; if not, it waits for that one",
};

pub const JITTERS: &[Entry] = &[
    Entry {
        name: "uniform",
        summary: "added delay, any from 0 to width alike",
        sources: &[],
        parameters: &[span("width", "1 ms", "largest added delay"), OVERTAKE],
    },
    Entry {
        name: "normal",
        summary: "added delay, normally distributed; what would be negative is 0",
        sources: &["Box and Muller, A Note on the Generation of Random Normal Deviates, 1958"],
        parameters: &[
            span(
                "mean",
                "0 s",
                "mean of the normal distribution, before negative values become 0",
            ),
            span("sd", "1 ms", "its standard deviation"),
            OVERTAKE,
        ],
    },
    Entry {
        name: "weibull",
        summary: "added delay by a Weibull law: mostly little and now and then much where shape is below 1",
        sources: &[
            "Weibull, A Statistical Distribution Function of Wide Applicability, Journal of Applied Mechanics 18, 1951",
            "Weigle, DelayBox: Per-Flow Delay and Loss for ns-2, 2003",
        ],
        parameters: &[
            Parameter {
                name: "shape",
                unit: Unit::Number,
                default: Some("1"),
                min: "0.1",
                max: "100",
                section: "1 is the exponential law",
                doc: "shape k of the law, whose share above x is exp(-(x/scale)^k)",
            },
            span(
                "scale",
                "1 ms",
                "scale of the law: 63.2 % of packets are delayed by less",
            ),
            OVERTAKE,
        ],
    },
];

pub const LOSSES: &[Entry] = &[
    Entry {
        name: "random",
        summary: "each packet alike, independent of the others",
        sources: &[],
        parameters: &[probability(
            "probability",
            Some("0.01"),
            "share of packets lost",
        )],
    },
    Entry {
        name: "gilbert_elliott",
        summary: "bursts: a good and a bad state that alternate, with a loss probability each",
        sources: &[
            "Gilbert, Capacity of a Burst-Noise Channel, Bell System Technical Journal 39, 1960",
            "Elliott, Estimates of Error Rates for Codes on Burst-Noise Channels, Bell System Technical Journal 42, 1963",
        ],
        parameters: &[
            probability(
                "p",
                Some("0.01"),
                "chance at each packet to go from good to bad",
            ),
            probability(
                "r",
                Some("0.25"),
                "chance at each packet to go from bad to good",
            ),
            probability("good", Some("0"), "share lost in the good state"),
            probability("bad", Some("1"), "share lost in the bad state"),
        ],
    },
];

pub const REORDERS: &[Entry] = &[Entry {
    name: "late",
    summary: "some packets are held back and overtaken by those behind them",
    sources: &[],
    parameters: &[
        probability("probability", Some("0.01"), "share of packets held back"),
        span("delay", "5 ms", "how much longer they take"),
    ],
}];

pub const SLEEPS: &[Entry] = &[Entry {
    name: "radio",
    summary: "a radio that sleeps when nothing has been sent for a while, and wakes up for the next packet",
    sources: &["Qian et al., Characterizing Radio Resource Allocation for 3G Networks, IMC 2010"],
    parameters: &[
        span(
            "idle",
            "10 s",
            "how long nothing was sent when it goes to sleep",
        ),
        span(
            "wake",
            "1.6 s",
            "how long it takes to wake up; packets wait in the queue meanwhile",
        ),
    ],
}];

worded! {
    /// Jitter, written as `normal:sd=2ms`.
    JitterSpec, "jitter", JITTERS.iter()
}
worded! {
    /// Loss on the line, written as `random:probability=0.01` or `gilbert_elliott:p=0.01,r=0.25`.
    LossSpec, "loss", LOSSES.iter()
}
worded! {
    /// Sleep of a radio, written as `radio:idle=10s,wake=1.6s`.
    SleepSpec, "sleep", SLEEPS.iter()
}
worded! {
    /// Reordering, written as `late:probability=0.01,delay=5ms`.
    ReorderSpec, "reorder", REORDERS.iter()
}

/// Delay that a packet gets on top of the propagation delay, independent of other packets'.
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
        let ns = |key| w.duration(key).as_nanos() as f64;
        let law = match w.entry().name {
            "uniform" => JitterLaw::Uniform {
                width_ns: ns("width"),
            },
            "normal" => JitterLaw::Normal {
                mean_ns: ns("mean"),
                sd_ns: ns("sd"),
            },
            _ => JitterLaw::Weibull {
                shape: w.real("shape"),
                scale_ns: ns("scale"),
            },
        };
        Jitter {
            law,
            may_overtake: w.switch("overtake"),
            rng: streams.stream(&format!("link/{name}/jitter")),
        }
    }

    pub(crate) fn draw(&mut self) -> Duration {
        let ns = match self.law {
            JitterLaw::Uniform { width_ns } => width_ns * uniform(&mut self.rng),
            JitterLaw::Normal { mean_ns, sd_ns } => {
                mean_ns + sd_ns * standard_normal(&mut self.rng)
            }
            // The inverse of the law's distribution function.
            JitterLaw::Weibull { shape, scale_ns } => {
                scale_ns * (-(1.0 - uniform(&mut self.rng)).ln()).powf(1.0 / shape)
            }
        };
        // One draw in 10^16 of a law with a long tail would outlast the program.
        Duration::from_nanos(ns.round().clamp(0.0, LONGEST_NS) as u64)
    }
}

/// An hour, the largest that a parameter may be: no packet is delayed by more.
const LONGEST_NS: f64 = 3.6e12;

/// Box and Muller 1958; one of the pair is used, so that each packet takes the same number of draws.
pub(crate) fn standard_normal(rng: &mut Rng) -> f64 {
    let u1 = 1.0 - uniform(rng);
    let u2 = uniform(rng);
    (-2.0 * u1.ln()).sqrt() * (std::f64::consts::TAU * u2).cos()
}

/// Sleep of a radio.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sleep {
    idle: Duration,
    wake: Duration,
    /// When its last packet had left; none before the first.
    last: Option<Time>,
}

impl Sleep {
    pub(crate) fn new(spec: &SleepSpec) -> Sleep {
        Sleep {
            idle: spec.words().duration("idle"),
            wake: spec.words().duration("wake"),
            last: None,
        }
    }

    /// How long a packet that could be sent at `at` waits for the radio.
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

/// Loss on the line.
#[derive(Clone, Debug)]
pub(crate) enum Loss {
    Random {
        probability: f64,
        rng: Rng,
    },
    GilbertElliott {
        p: f64,
        r: f64,
        good: f64,
        bad: f64,
        is_bad: bool,
        state: Rng,
        drop: Rng,
    },
}

impl Loss {
    pub(crate) fn new(spec: &LossSpec, streams: &Streams, name: &str) -> Loss {
        let w = spec.words();
        match w.entry().name {
            "random" => Loss::Random {
                probability: w.real("probability"),
                rng: streams.stream(&format!("link/{name}/loss")),
            },
            _ => Loss::GilbertElliott {
                p: w.real("p"),
                r: w.real("r"),
                good: w.real("good"),
                bad: w.real("bad"),
                is_bad: false,
                state: streams.stream(&format!("link/{name}/loss/state")),
                drop: streams.stream(&format!("link/{name}/loss")),
            },
        }
    }

    /// Whether the next packet is lost.
    pub(crate) fn draw(&mut self) -> bool {
        match self {
            Loss::Random { probability, rng } => uniform(rng) < *probability,
            Loss::GilbertElliott {
                p,
                r,
                good,
                bad,
                is_bad,
                state,
                drop,
            } => {
                let change = if *is_bad { *r } else { *p };
                *is_bad ^= uniform(state) < change;
                uniform(drop) < if *is_bad { *bad } else { *good }
            }
        }
    }
}

/// Holding some packets back.
#[derive(Clone, Debug)]
pub(crate) struct Reorder {
    probability: f64,
    delay: Duration,
    rng: Rng,
}

impl Reorder {
    pub(crate) fn new(spec: &ReorderSpec, streams: &Streams, name: &str) -> Reorder {
        let w = spec.words();
        Reorder {
            probability: w.real("probability"),
            delay: w.duration("delay"),
            rng: streams.stream(&format!("link/{name}/reorder")),
        }
    }

    /// How much longer the next packet takes, if it is held back.
    pub(crate) fn draw(&mut self) -> Option<Duration> {
        (uniform(&mut self.rng) < self.probability).then_some(self.delay)
    }
}

/// Doubling some packets.
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
