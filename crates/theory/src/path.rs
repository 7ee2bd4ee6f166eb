//! Reliability of a path: the packets that it delivers in time.

use crate::model::{
    Example, Measure, Model, OutOfModel, RATES, SHARES, SIZES, SURE, TIMES, bps, bytes, output,
    seconds,
};
use base::spec::{Params as _, choices, params};
use base::words::Words;
use base::{BitsPerSec, Bytes, Duration};
use statrs::distribution::{ContinuousCDF, Exp, Gamma, LogNormal, Normal, Weibull};
use statrs::function::gamma::ln_gamma;

choices! {
    /// Distribution of a delay.
    pub(super) enum Law {
        Normal = "normal",
        Lognormal = "lognormal",
        Exponential = "exponential",
        Gamma = "gamma",
        Weibull = "weibull",
    }
}

choices! {
    /// Version of IP.
    pub(super) enum Ip { V4 = "v4", V6 = "v6" }
}

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct DeliveryParams for "delivery": "Timely delivery: the longest a packet can take, and the probability that one of its copies is in time", ["Borlaug 2014, (25)-(27)"] {
        /// delay of the idle path in one direction, as measured
        idle: Duration [TIMES];
        /// rate of the sender's access link
        rate: BitsPerSec [RATES];
        /// buffer in front of the sender's access link
        buffer: Bytes [SIZES];
        /// if given, rate of the receiver's access link
        far_rate: Option<BitsPerSec> [RATES];
        /// if given, buffer in front of the receiver's access link
        far_buffer: Option<Bytes> [SIZES];
        /// probability that a packet is lost
        loss: f64 as Probability [SHARES];
        /// time within which a packet must arrive
        required: Duration [TIMES];
    }
}

/// Model of timely delivery.
pub static DELIVERY: Model = Model {
    entry: DeliveryParams::ENTRY,
    formula: "longest = idle + Σ 8·buffer/rate;  tries = ⌊required/longest⌋;  delivered = 1 − loss^tries",
    limits: "Losses are independent of each other, every other link is free of queues, and the sender repeats a packet when `longest` has passed. Two corrections to Borlaug 2014: (27) adds transmission and processing that the measured `idle` holds already; (26) counts n = ⌊required/longest⌋ + 1 and begins at i = 0, two tries more than end in time. With them it is `as_printed`.",
    outputs: &[
        output("longest", Measure::Time, "every buffer full"),
        output(
            "tries",
            Measure::Number("tries"),
            "copies that are certain to arrive in time if they are not lost",
        ),
        output(
            "delivered",
            Measure::Share,
            "probability that one arrives in time; 0 where none is certain to",
        ),
        output(
            "as_printed",
            Measure::Share,
            "as equation (26) of Borlaug 2014 has it",
        ),
    ],
    example: Example {
        given: "idle=10ms,rate=700kbit/s,buffer=37625B,loss=0.01,required=1s",
        by_hand: "10 ms + 430 ms = 440 ms; two fit into a second: 1 − 0.01² = 0.9999. As printed n = 3, four tries: 1 − 0.01⁴.",
        gives: &[
            ("longest", 0.44),
            ("tries", 2.0),
            ("delivered", 0.9999),
            ("as_printed", 0.999_999_99),
        ],
    },
    doubt: SURE,
    compute: |w| {
        let given: DeliveryParams = w.read();
        let queue = |rate: f64, buffer: f64| buffer * 8.0 / rate;
        let far = match (given.far_rate, given.far_buffer) {
            (Some(rate), Some(buffer)) => queue(bps(rate), bytes(buffer)),
            (None, None) => 0.0,
            _ => {
                return Err(OutOfModel(
                    "far_rate and far_buffer belong together: give both or none".into(),
                ));
            }
        };
        let longest = seconds(given.idle) + queue(bps(given.rate), bytes(given.buffer)) + far;
        let loss = given.loss;
        // A nanosecond of rounding must not cost a try that fits exactly.
        let tries = (seconds(given.required) / longest + 1e-9).floor();
        Ok(vec![
            Some(longest),
            Some(tries),
            Some(1.0 - loss.powf(tries)),
            Some(1.0 - loss.powf(tries + 2.0)),
        ])
    },
};

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct ReliabilityParams for "reliability": "Reliability from a distribution of delay: the probability of arriving within a limit, loss counted", ["Borlaug 2014, (1)"] {
        /// distribution of the delay above the base
        kind: Law = "lognormal";
        /// base delay, which every packet has
        base: Duration = "0ms" ["0ms".."1h"];
        /// mean of the delay above the base
        mean: Duration [TIMES];
        /// if given, standard deviation of the delay above the base; of the exponential it is the mean
        sd: Option<Duration> [TIMES];
        /// probability that a packet is lost
        loss: f64 as Probability = "0" [SHARES];
        /// time within which a packet must arrive
        limit: Duration [TIMES];
    }
}

/// Model of reliability from a distribution of delay.
pub static RELIABILITY: Model = Model {
    entry: ReliabilityParams::ENTRY,
    formula: "R = (1 − loss)·F(limit − base), F matched to mean and deviation",
    limits: "Real delay has several humps and long tails: use a recording (`tailback analyse`) where there is one. The figure is for packets taken at random over the whole time; while the link is loaded it is another one.",
    outputs: &[
        output("reliability", Measure::Share, "of the packets sent"),
        output("nines", Measure::Number("nines"), "−log₁₀(1 − R)"),
        output(
            "shape",
            Measure::Number("(shape)"),
            "of the matched distribution: k of gamma and Weibull, σ of the log-normal",
        ),
    ],
    example: Example {
        given: "kind=exponential,base=20ms,mean=30ms,loss=0.001,limit=200ms",
        by_hand: "1 − e^(−180/30) = 1 − e⁻⁶ = 0.997521; times 0.999 = 0.996524; −log₁₀(0.003476) = 2.459.",
        gives: &[("reliability", 0.996_524), ("nines", 2.4589)],
    },
    doubt: SURE,
    compute: reliability,
};

fn reliability(w: &Words) -> Result<Vec<Option<f64>>, OutOfModel> {
    let given: ReliabilityParams = w.read();
    let kind = given.kind;
    let word = kind.word();
    let mean = seconds(given.mean);
    let sd = given.sd.map(seconds);
    let sd = match (kind, sd) {
        (Law::Exponential, None) => mean,
        (Law::Exponential, Some(sd)) if (sd - mean).abs() > 1e-9 => {
            return Err(OutOfModel(
                "the exponential distribution has its mean for standard deviation: leave sd out, or take gamma or weibull"
                    .into(),
            ));
        }
        (_, Some(sd)) => sd,
        (_, None) => {
            return Err(OutOfModel(format!(
                "kind={word} needs sd, for example sd=10ms"
            )));
        }
    };
    let above = seconds(given.limit) - seconds(given.base);
    let bad = |e: &dyn std::fmt::Display| OutOfModel(format!("mean and sd fit no {word}: {e}"));
    let (within, shape) = match kind {
        Law::Normal => (Normal::new(mean, sd).map_err(|e| bad(&e))?.cdf(above), None),
        Law::Exponential => (Exp::new(1.0 / mean).map_err(|e| bad(&e))?.cdf(above), None),
        Law::Gamma => {
            let shape = (mean / sd).powi(2);
            let gamma = Gamma::new(shape, shape / mean).map_err(|e| bad(&e))?;
            (gamma.cdf(above), Some(shape))
        }
        Law::Lognormal => {
            let variance = (sd / mean).powi(2).ln_1p();
            let normal = LogNormal::new(mean.ln() - variance / 2.0, variance.sqrt());
            (
                normal.map_err(|e| bad(&e))?.cdf(above),
                Some(variance.sqrt()),
            )
        }
        Law::Weibull => {
            let shape = weibull_shape(sd / mean)
                .ok_or_else(|| bad(&"sd over mean must be from 0.01 to 1000"))?;
            let scale = mean / ln_gamma(1.0 + 1.0 / shape).exp();
            let weibull = Weibull::new(shape, scale).map_err(|e| bad(&e))?;
            (weibull.cdf(above), Some(shape))
        }
    };
    let within = if above <= 0.0 && kind != Law::Normal {
        0.0
    } else {
        within
    };
    let reliability = (1.0 - given.loss) * within;
    Ok(vec![
        Some(reliability),
        (reliability < 1.0).then(|| -(1.0 - reliability).log10()),
        shape,
    ])
}

/// Shape whose standard deviation is `cv` means: it falls as the shape grows.
fn weibull_shape(cv: f64) -> Option<f64> {
    let cv_of = |shape: f64| {
        let ratio = ln_gamma(1.0 + 2.0 / shape) - 2.0 * ln_gamma(1.0 + 1.0 / shape);
        ratio.exp_m1().sqrt()
    };
    let (mut low, mut high) = (0.1, 150.0);
    if !(cv_of(high)..=cv_of(low)).contains(&cv) {
        return None;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if cv_of(middle) > cv {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct RedundancyParams for "redundancy": "Availability of two links together, either of which is enough", ["Borlaug 2014, sections 2.3.3, 6.4"] {
        /// availability of one link
        first: f64 as Probability [SHARES];
        /// availability of the other link
        second: f64 as Probability [SHARES];
        /// share of the better link's outages in which the other fails from the same cause: one duct, one power supply
        common: f64 as Probability = "0" [SHARES];
    }
}

/// Model of two redundant links.
pub static REDUNDANCY: Model = Model {
    entry: RedundancyParams::ENTRY,
    formula: "down = common·u + (1 − common)·u·v, u the smaller and v the larger unavailability",
    limits: "Apart from the common cause they fail independently, and changing over takes no time.",
    outputs: &[
        output("availability", Measure::Share, "of the two together"),
        output(
            "nines",
            Measure::Number("nines"),
            "−log₁₀ of the unavailability",
        ),
        output("down", Measure::Time, "outage in a year of 365.25 days"),
    ],
    example: Example {
        given: "first=0.997,second=0.997",
        by_hand: "0.003² = 9·10⁻⁶: 99.9991 %, five nines; 9·10⁻⁶ · 31 557 600 s = 284.0 s.",
        gives: &[
            ("availability", 0.999_991),
            ("nines", 5.0458),
            ("down", 284.018),
        ],
    },
    doubt: SURE,
    compute: |w| {
        let given: RedundancyParams = w.read();
        let (a, b) = (1.0 - given.first, 1.0 - given.second);
        let common = given.common;
        let down = common * a.min(b) + (1.0 - common) * a * b;
        Ok(vec![
            Some(1.0 - down),
            (down > 0.0).then(|| -down.log10()),
            Some(down * 31_557_600.0),
        ])
    },
};

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct FragmentsParams for "fragments": "Throughput of fragmented datagrams beyond the capacity: every fragment must get through", ["Gao 2012, section 3.5", "RFC 791", "RFC 8200 section 4.5"] {
        /// rate at which datagrams are sent
        offered: BitsPerSec [RATES];
        /// rate that the link carries, counted in the same way as the sent rate
        capacity: BitsPerSec [RATES];
        /// payload of a datagram
        datagram: Bytes ["1B".."65507B"];
        /// largest IP packet of the link
        mtu: Bytes = "1500B" ["68B".."65535B"], "Ethernet";
        /// version of IP
        ip: Ip = "v4";
    }
}

/// Model of fragmented datagrams beyond the capacity.
pub static FRAGMENTS: Model = Model {
    entry: FragmentsParams::ENTRY,
    formula: "k = ⌈(datagram + 8)/⌊(mtu − headers)/8⌋·8⌉, 1 where it fits whole;  beyond the capacity throughput = b·(B/b)ᵏ, for two fragments B²/b",
    limits: "Fragments are dropped independently of each other. A drop-tail queue on which they arrive back to back drops the second more often than the first, and then less is lost than this says.",
    outputs: &[
        output(
            "fragments",
            Measure::Number("fragments"),
            "of each datagram",
        ),
        output("delivered", Measure::Share, "datagrams that arrive whole"),
        output("throughput", Measure::Rate, "of whole datagrams"),
    ],
    example: Example {
        given: "offered=4Mbit/s,capacity=2Mbit/s,datagram=1470B,mtu=1480B",
        by_hand: "1478 bytes of UDP into (1480 − 20) = 1460 → 1456 a fragment: two; B²/b = 4/4 = 1 Mbit/s.",
        gives: &[("fragments", 2.0), ("delivered", 0.25), ("throughput", 1e6)],
    },
    doubt: SURE,
    compute: |w| {
        let given: FragmentsParams = w.read();
        let (offered, capacity) = (bps(given.offered), bps(given.capacity));
        let v6 = given.ip == Ip::V6;
        let (header, fragment_header) = if v6 { (40, 8) } else { (20, 0) };
        let (udp, mtu) = (given.datagram.get() + 8, given.mtu.get());
        if v6 && mtu < 1280 {
            return Err(OutOfModel(format!(
                "mtu={mtu}B: IPv6 asks for at least 1280 (RFC 8200 section 5)"
            )));
        }
        let fragments = if udp + header <= mtu {
            1
        } else {
            // All but the last carry a multiple of eight bytes.
            udp.div_ceil((mtu - header - fragment_header) / 8 * 8)
        };
        let through = (capacity / offered).min(1.0);
        let delivered = through.powi(i32::try_from(fragments).unwrap_or(i32::MAX));
        Ok(vec![
            Some(fragments as f64),
            Some(delivered),
            Some(offered * delivered),
        ])
    },
};

#[cfg(test)]
mod tests {
    use super::super::tests::figure;
    use super::*;

    #[test]
    fn a_weibull_shape_is_found_from_its_own_moments() {
        for shape in [0.2, 0.5, 0.806, 1.0, 1.7, 5.0] {
            let one: f64 = ln_gamma(1.0 + 1.0 / shape);
            let cv = (ln_gamma(1.0 + 2.0 / shape) - 2.0 * one).exp_m1().sqrt();
            let found = weibull_shape(cv).unwrap();
            assert!((found / shape - 1.0).abs() < 1e-9, "{shape}: {found}");
        }
        assert_eq!(weibull_shape(1e9), None);
    }

    #[test]
    fn every_kind_with_the_same_moments_is_the_exponential_where_that_is_one_of_them() {
        for kind in ["gamma", "weibull"] {
            let text = format!("reliability:kind={kind},mean=30ms,sd=30ms,limit=90ms");
            let expected = 1.0 - (-3.0f64).exp();
            let got = figure(&text, "reliability");
            assert!((got - expected).abs() < 1e-6, "{kind}: {got}");
        }
        // Median of the log-normal: mean/√(1+cv²).
        let at_median = figure(
            "reliability:mean=50ms,sd=50ms,limit=35.355339ms",
            "reliability",
        );
        assert!((at_median - 0.5).abs() < 1e-6, "{at_median}");
        assert_eq!(
            figure(
                "reliability:base=50ms,mean=5ms,sd=5ms,limit=20ms",
                "reliability"
            ),
            0.0
        );
    }

    #[test]
    fn fragments_are_counted_as_the_kernel_cuts_them() {
        let n = |text: &str| {
            figure(
                &format!("fragments:offered=1Mbit/s,capacity=1Mbit/s,{text}"),
                "fragments",
            )
        };
        assert_eq!(n("datagram=1472B"), 1.0);
        assert_eq!(n("datagram=1473B"), 2.0);
        // 1480 a fragment: 2960 - 8 is the last that needs two.
        assert_eq!(n("datagram=2952B"), 2.0);
        assert_eq!(n("datagram=2953B"), 3.0);
        assert_eq!(n("datagram=1452B,ip=v6"), 1.0);
        assert_eq!(n("datagram=1453B,ip=v6"), 2.0);
        // 1448 a fragment over IPv6: 2896 - 8 = 2888, the second threshold of Gao 2012.
        assert_eq!(n("datagram=2888B,ip=v6"), 2.0);
        assert_eq!(n("datagram=2889B,ip=v6"), 3.0);
    }
}
