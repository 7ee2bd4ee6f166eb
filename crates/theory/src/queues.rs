//! Single queues in equilibrium: backlog and wait.

use crate::model::{
    Example, Measure, Model, OutOfModel, PACKETS, RATES, SURE, TIMES, bps, bytes, output, seconds,
};
use base::spec::{Params as _, params};
use base::{BitsPerSec, Bytes, Duration};

/// Load of a queue, and the mean time of one packet on the link.
struct Load {
    rho: f64,
    service: f64,
}

fn load(rate: BitsPerSec, offered: BitsPerSec, packet: Bytes) -> Load {
    Load {
        rho: bps(offered) / bps(rate),
        service: bytes(packet) * 8.0 / bps(rate),
    }
}

fn stable(rate: BitsPerSec, offered: BitsPerSec, packet: Bytes) -> Result<Load, OutOfModel> {
    let load = load(rate, offered, packet);
    if load.rho < 1.0 {
        return Ok(load);
    }
    Err(OutOfModel(format!(
        "offered is {:.3} times the rate, so the queue grows without end and has no mean. Offer less than the rate; \
         for a buffer of limited size see \"mm1k\"",
        load.rho
    )))
}

/// Load, wait, sojourn and packets in the system, which Little's law ties together.
fn means(load: &Load, wait: f64) -> Vec<Option<f64>> {
    let sojourn = wait + load.service;
    vec![
        Some(load.rho),
        Some(wait),
        Some(sojourn),
        Some(load.rho * sojourn / load.service),
    ]
}

const MEANS: [super::Output; 4] = [
    output("load", Measure::Share, "offered over rate"),
    output("wait", Measure::Time, "mean time in the queue"),
    output(
        "sojourn",
        Measure::Time,
        "the same and the packet's own transmission",
    ),
    output(
        "packets",
        Measure::Number("packets"),
        "mean number there, with the one that is on the link",
    ),
];

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct LittleParams for "little": "Little's law: how much stands in a queue whose packets take this long", ["Little 1961", "Borlaug 2014, (17), (18)"] {
        /// mean throughput
        rate: BitsPerSec [RATES];
        /// mean delay of a packet
        delay: Duration [TIMES];
        /// mean size of a packet
        packet: Bytes = "1500B" [PACKETS], "Ethernet";
    }
}

/// Model of Little's law.
pub static LITTLE: Model = Model {
    entry: LittleParams::ENTRY,
    formula: "L = λ·W",
    limits: "Averages over a time in which nothing remains or goes missing; whatever the distributions.",
    outputs: &[
        output("size", Measure::Size, "what stands there"),
        output("packets", Measure::Number("packets"), "the same in packets"),
    ],
    example: Example {
        given: "rate=2Mbit/s,delay=306ms",
        by_hand: "2 000 000 · 0.306 / 8 = 76 500 bytes, 51 packets of 1500: the SHDSL line of Gao 2012.",
        gives: &[("size", 76_500.0), ("packets", 51.0)],
    },
    doubt: SURE,
    compute: |w| {
        let given: LittleParams = w.read();
        let size = bps(given.rate) * seconds(given.delay) / 8.0;
        Ok(vec![Some(size), Some(size / bytes(given.packet))])
    },
};

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Mm1Params for "mm1": "M/M/1: Poisson arrivals, exponential sizes, a buffer without end", ["Kleinrock, Queueing Systems I, 3.2", "Thombre 2020, (3.2), (3.3)"] {
        /// rate of the link
        rate: BitsPerSec [RATES];
        /// mean rate offered to the link
        offered: BitsPerSec [RATES];
        /// mean size of a packet
        packet: Bytes = "1500B" [PACKETS], "Ethernet";
    }
}

/// Model of the queue M/M/1.
pub static MM1: Model = Model {
    entry: Mm1Params::ENTRY,
    formula: "ρ = λ/μ;  wait = ρ/(μ(1−ρ));  sojourn T = 1/(μ(1−ρ)), exponential, so its quantile p is −T·ln(1−p)",
    limits: "ρ < 1. Traffic of few TCP flows is not Poisson: they fill whatever buffer there is.",
    outputs: &[
        MEANS[0],
        MEANS[1],
        MEANS[2],
        MEANS[3],
        output("p95", Measure::Time, "sojourn that 95 % do not exceed"),
        output("p99", Measure::Time, "sojourn that 99 % do not exceed"),
    ],
    example: Example {
        given: "rate=10Mbit/s,offered=8Mbit/s,packet=1250B",
        by_hand: "service 1250·8/10⁷ = 1 ms, ρ = 0.8; T = 1 ms/0.2 = 5 ms, wait 4 ms, packets 0.8/0.2 = 4; p95 = 5 ms·ln 20 = 14.98 ms.",
        gives: &[
            ("wait", 4e-3),
            ("sojourn", 5e-3),
            ("packets", 4.0),
            ("p95", 14.979e-3),
            ("p99", 23.026e-3),
        ],
    },
    doubt: SURE,
    compute: |w| {
        let given: Mm1Params = w.read();
        let load = stable(given.rate, given.offered, given.packet)?;
        let sojourn = load.service / (1.0 - load.rho);
        let mut values = means(&load, sojourn - load.service);
        values.extend([0.95, 0.99].map(|p: f64| Some(-sojourn * (1.0 - p).ln())));
        Ok(values)
    },
};

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Mm1kParams for "mm1k": "M/M/1/K: the same with room for K packets, and what is lost", ["Kleinrock, Queueing Systems I, 3.6"] {
        /// rate of the link
        rate: BitsPerSec [RATES];
        /// mean rate offered to the link
        offered: BitsPerSec [RATES];
        /// mean size of a packet
        packet: Bytes = "1500B" [PACKETS], "Ethernet";
        /// packets that fit, including the one on the link
        room: u64 as Packets ["1".."1000000"];
    }
}

/// Model of the queue M/M/1/K.
pub static MM1K: Model = Model {
    entry: Mm1kParams::ENTRY,
    formula: "loss = (1−ρ)ρᴷ/(1−ρᴷ⁺¹), at ρ = 1: 1/(K+1);  N = Σ n·ρⁿ/Σ ρⁿ, n = 0…K;  sojourn = N/(λ(1−loss))",
    limits: "Poisson arrivals that do not answer to loss, exponential sizes, room counted in packets.",
    outputs: &[
        MEANS[0],
        output("loss", Measure::Share, "packets that find no room"),
        output(
            "sojourn",
            Measure::Time,
            "mean time there of those that find room",
        ),
        output("packets", Measure::Number("packets"), "mean number there"),
        output("carried", Measure::Rate, "what passes"),
    ],
    example: Example {
        given: "rate=1Mbit/s,offered=1Mbit/s,packet=1250B,room=4",
        by_hand: "ρ = 1: each of the five states 0…4 is as likely, so loss 1/5, N = 2; service 10 ms, λ = 100/s, 80/s get in: sojourn 2/80 = 25 ms.",
        gives: &[
            ("loss", 0.2),
            ("packets", 2.0),
            ("sojourn", 25e-3),
            ("carried", 0.8e6),
        ],
    },
    doubt: SURE,
    compute: |w| {
        let given: Mm1kParams = w.read();
        let load = load(given.rate, given.offered, given.packet);
        let room = given.room;
        // Weights relative to the largest, so that no power of a large load overflows.
        let (mut total, mut number, mut full) = (0.0, 0.0, 0.0);
        for n in 0..=room {
            let most = if load.rho > 1.0 { room as f64 } else { 0.0 };
            full = ((n as f64 - most) * load.rho.ln()).exp();
            total += full;
            number += n as f64 * full;
        }
        let (loss, number) = (full / total, number / total);
        let carried = bps(given.offered) * (1.0 - loss);
        Ok(vec![
            Some(load.rho),
            Some(loss),
            Some(number * load.service / (load.rho * (1.0 - loss))),
            Some(number),
            Some(carried),
        ])
    },
};

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Md1Params for "md1": "M/D/1: Poisson arrivals, packets of one size", ["Kleinrock, Queueing Systems I, 5.6"] {
        /// rate of the link
        rate: BitsPerSec [RATES];
        /// mean rate offered to the link
        offered: BitsPerSec [RATES];
        /// mean size of a packet
        packet: Bytes = "1500B" [PACKETS], "Ethernet";
    }
}

/// Model of the queue M/D/1.
pub static MD1: Model = Model {
    entry: Md1Params::ENTRY,
    formula: "wait = ρ/(2μ(1−ρ))",
    limits: "ρ < 1; half of what M/M/1 waits. Many independent voice flows come near to it.",
    outputs: &MEANS,
    example: Example {
        given: "rate=10Mbit/s,offered=8Mbit/s,packet=1250B",
        by_hand: "service 1 ms, ρ = 0.8: 0.8 ms/(2·0.2) = 2 ms; sojourn 3 ms; packets 0.8·3 = 2.4.",
        gives: &[("wait", 2e-3), ("sojourn", 3e-3), ("packets", 2.4)],
    },
    doubt: SURE,
    compute: |w| {
        let given: Md1Params = w.read();
        pollaczek(&stable(given.rate, given.offered, given.packet)?, 0.0)
    },
};

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Mg1Params for "mg1": "M/G/1: Poisson arrivals, sizes of any distribution", ["Pollaczek and Khinchine; Kleinrock, Queueing Systems I, 5.6"] {
        /// rate of the link
        rate: BitsPerSec [RATES];
        /// mean rate offered to the link
        offered: BitsPerSec [RATES];
        /// mean size of a packet
        packet: Bytes = "1500B" [PACKETS], "Ethernet";
        /// squared coefficient of variation of the sizes: variance over squared mean (0 fixed, 1 exponential)
        scv: f64 ["0".."1000000"];
    }
}

/// Model of the queue M/G/1.
pub static MG1: Model = Model {
    entry: Mg1Params::ENTRY,
    formula: "wait = ρ(1+c²)/(2μ(1−ρ))",
    limits: "ρ < 1, finite variance: Pareto sizes of index 2 or less have none, and then the mean does not settle.",
    outputs: &MEANS,
    example: Example {
        given: "rate=10Mbit/s,offered=5Mbit/s,packet=1250B,scv=3",
        by_hand: "service 1 ms, ρ = 0.5: 0.5 ms·4/(2·0.5) = 2 ms.",
        gives: &[("wait", 2e-3), ("sojourn", 3e-3), ("packets", 1.5)],
    },
    doubt: SURE,
    compute: |w| {
        let given: Mg1Params = w.read();
        pollaczek(&stable(given.rate, given.offered, given.packet)?, given.scv)
    },
};

fn pollaczek(load: &Load, scv: f64) -> Result<Vec<Option<f64>>, OutOfModel> {
    let wait = load.rho * load.service * (1.0 + scv) / (2.0 * (1.0 - load.rho));
    Ok(means(load, wait))
}

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Gg1Params for "gg1": "G/G/1: bounds and an approximation for any independent arrivals and sizes", ["Kingman 1962",
            "Marshall 1968",
            "Krämer and Langenbach-Belz 1976",
            "Thombre 2020, (4.10)",] {
        /// rate of the link
        rate: BitsPerSec [RATES];
        /// mean rate offered to the link
        offered: BitsPerSec [RATES];
        /// mean size of a packet
        packet: Bytes = "1500B" [PACKETS], "Ethernet";
        /// squared coefficient of variation of the times between arrivals
        arrivals: f64 ["0".."1000000"];
        /// squared coefficient of variation of the sizes
        sizes: f64 ["0".."1000000"];
    }
}

/// Model of the queue G/G/1.
pub static GG1: Model = Model {
    entry: Gg1Params::ENTRY,
    formula: "wait ≤ λ(σₐ² + σₛ²)/(2(1−ρ));  wait ≥ (λ²σₛ² + ρ(ρ−2))/(2λ(1−ρ));  between them ρ(cₐ²+cₛ²)/(2μ(1−ρ))·g",
    limits: "ρ < 1; times between arrivals and sizes independent of each other and of their past, which self-similar traffic is not. σₐ and σₛ are of *times* between arrivals and of service; where Thombre 2020 puts deviations of byte rates into its (4.10) the units do not come out as a time.",
    outputs: &[
        MEANS[0],
        output(
            "at_most",
            Measure::Time,
            "Kingman's upper bound of the mean wait, near to it when ρ nears 1",
        ),
        output("at_least", Measure::Time, "Marshall's lower bound"),
        output(
            "about",
            Measure::Time,
            "Krämer and Langenbach-Belz's approximation; exact for Poisson arrivals",
        ),
    ],
    example: Example {
        given: "rate=10Mbit/s,offered=8Mbit/s,packet=1250B,arrivals=1,sizes=0",
        by_hand: "λ = 800/s, σₐ = 1.25 ms, σₛ = 0: 800·1.5625·10⁻⁶/(0.4) = 3.125 ms at most; at least (0.8·(−1.2))/(…) < 0, so 0; M/D/1 says 2 ms.",
        gives: &[("at_most", 3.125e-3), ("about", 2e-3), ("at_least", 0.0)],
    },
    doubt: SURE,
    compute: |w| {
        let given: Gg1Params = w.read();
        let Load { rho, service } = stable(given.rate, given.offered, given.packet)?;
        let (arrivals, sizes) = (given.arrivals, given.sizes);
        let between = service / rho;
        let spread = arrivals * between * between + sizes * service * service;
        let most = spread / (2.0 * between * (1.0 - rho));
        let least =
            ((sizes * rho * rho + rho * (rho - 2.0)) * between / (2.0 * (1.0 - rho))).max(0.0);
        let both = arrivals + sizes;
        let correction = if both == 0.0 {
            0.0
        } else if arrivals <= 1.0 {
            -2.0 * (1.0 - rho) * (1.0 - arrivals).powi(2) / (3.0 * rho * both)
        } else {
            -(1.0 - rho) * (arrivals - 1.0) / (arrivals + 4.0 * sizes)
        };
        let about = rho * service * both / (2.0 * (1.0 - rho)) * correction.exp();
        Ok(vec![Some(rho), Some(most), Some(least), Some(about)])
    },
};
