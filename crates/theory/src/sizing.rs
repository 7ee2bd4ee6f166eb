//! Recommended sizes of buffers, and the delay that they add.

use crate::model::{
    Example, Measure, Model, OutOfModel, PACKETS, RATES, SIZES, SURE, TIMES, bps, bytes, output,
    seconds,
};
use base::spec::{Params as _, params};
use base::words::Words;
use base::{BitsPerSec, Bytes, Duration};
use stats::normal_cdf;

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct BdpParams for "bdp": "Bandwidth-delay product: what one flow needs in flight, and in the buffer, to fill the link", ["Villamizar and Song 1994",
            "Borlaug 2014, (6), (7), (12)",
            "how many times too large: Borlaug 2014, section 6.1.1",] {
        /// rate of the bottleneck
        rate: BitsPerSec [RATES];
        /// round trip of the idle path
        rtt: Duration [TIMES];
        /// size of a packet
        packet: Bytes = "1500B" [PACKETS], "Ethernet";
        /// if given, size to compare: its multiple of the product, and the delay that it adds
        buffer: Option<Bytes> [SIZES];
    }
}

/// Model of the bandwidth-delay product.
pub static BDP: Model = Model {
    entry: BdpParams::ENTRY,
    formula: "BDP = rate · rtt / 8;  delay of a full buffer = 8 · buffer / rate;  factor = buffer / BDP",
    limits: "One long flow of a TCP that halves its window on loss (CUBIC, which keeps 0.7, needs 0.43 of it). Shared by n flows that are not in step, less is enough: see `sizing`.",
    outputs: &[
        output("bdp", Measure::Size, "the product"),
        output("bits", Measure::Number("bit"), "the same in bits"),
        output("packets", Measure::Number("packets"), "the same in packets"),
        output(
            "delay",
            Measure::Time,
            "what the buffer that is given adds when it is full",
        ),
        output(
            "factor",
            Measure::Number("times"),
            "the buffer that is given, in products",
        ),
    ],
    example: Example {
        given: "rate=700kbit/s,rtt=19ms,buffer=37625B",
        by_hand: "700 000 bit/s · 0.019 s = 13 300 bit = 1662.5 bytes; 37 625 · 8 / 700 000 = 0.43 s; 37 625 / 1662.5 = 22.63. The ADSL uplink of Borlaug 2014.",
        gives: &[
            ("bits", 13_300.0),
            ("bdp", 1662.5),
            ("delay", 0.43),
            ("factor", 22.632),
        ],
    },
    doubt: SURE,
    compute: |w| {
        let given: BdpParams = w.read();
        let bdp = bps(given.rate) * seconds(given.rtt) / 8.0;
        let buffer = given.buffer.map(|b| b.get() as f64);
        Ok(vec![
            Some(bdp),
            Some(bdp * 8.0),
            Some(bdp / bytes(given.packet)),
            buffer.map(|b| b * 8.0 / bps(given.rate)),
            buffer.map(|b| b / bdp),
        ])
    },
};

/// Number of flows from which their windows are independent of each other.
const MANY: u64 = 500;

/// Doubt about a formula for flows that are not in step.
fn few(flows: u64) -> Option<String> {
    (flows < MANY).then(|| {
        format!(
            "flows = {flows} is below about {MANY}: so few flows fall into step, and the buffer they need is nearer to that of one \
             flow, the whole product"
        )
    })
}

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct SizingParams for "sizing": "The rules for buffer sizes beside each other, each with the delay that a full buffer adds", ["Borlaug 2014, (7), (10)-(13), (22)-(24)",
            "Appenzeller, Keslassy and McKeown 2004",
            "Enachescu et al. 2006, theorem 1",
            "Beheshti et al.: 20 packets",] {
        /// rate of the link
        rate: BitsPerSec [RATES];
        /// mean round trip of the flows
        rtt: Duration [TIMES];
        /// number of concurrent long flows
        flows: u64 = "1" ["1".."1000000000"];
        /// greatest acceptable delay; with an AQM its target
        delay: Duration = "20ms" [TIMES], "PIE 2013: 20 ms";
        /// size of a packet
        packet: Bytes = "1500B" [PACKETS], "Ethernet";
        /// largest window of a flow in packets, for the rule of tiny buffers
        window: u64 = "64" ["2".."1000000000"], "64 kB";
        /// offered load, for the rule of tiny buffers
        load: f64 as Probability = "0.75" ["0.01".."0.99"];
        /// share of the offered load that must be carried, for the rule of tiny buffers
        utilisation: f64 as Probability = "0.9" ["0.01".."0.999999"];
    }
}

/// Model of the rules for buffer sizes.
pub static SIZING: Model = Model {
    entry: SizingParams::ENTRY,
    formula: "product: rtt·C;  small: rtt·C/√n, delay rtt/√n (22);  delay rule: D·C (23), (24);  tiny: log(W²/(2(1−θ))) / log(1/ρ) packets;  20 packets",
    limits: "small: more than about 500 flows that are not in step; fewer count as one. tiny and 20 packets: paced senders, or access links much slower than this one, and some of the rate given up. delay rule: says nothing about how full the link is; with an AQM it is the target, not a limit, and bursts may pass it.",
    outputs: &[
        output("product", Measure::Size, "rate times round trip"),
        output("product_delay", Measure::Time, "that buffer full"),
        output("small", Measure::Size, "the product over √n"),
        output("small_delay", Measure::Time, "that buffer full"),
        output(
            "delay_rule",
            Measure::Size,
            "what holds the delay that is wanted",
        ),
        output("tiny", Measure::Size, "logarithmic in the window"),
        output("tiny_delay", Measure::Time, "that buffer full"),
        output("twenty", Measure::Size, "20 packets"),
        output("twenty_delay", Measure::Time, "that buffer full"),
    ],
    example: Example {
        given: "rate=10Gbit/s,rtt=250ms,flows=50000",
        by_hand: "10¹⁰ · 0.25 / 8 = 312.5 MB; √50 000 = 223.6, so 312.5 MB / 223.6 = 1.3975 MB and 250 ms / 223.6 = 1.118 ms; 10¹⁰ · 0.02 / 8 = 25 MB; log(64²/0.2)/log(1/0.75) = 9.927/0.28768 = 34.51 packets = 51.76 kB.",
        gives: &[
            ("product", 312.5e6),
            ("small", 1.39754e6),
            ("small_delay", 1.11803e-3),
            ("delay_rule", 25e6),
            ("tiny", 51_761.0),
            ("twenty", 30_000.0),
        ],
    },
    doubt: |w| few(w.read::<SizingParams>().flows).filter(|_| w.read::<SizingParams>().flows > 1),
    compute: |w| {
        let given: SizingParams = w.read();
        let rate = bps(given.rate);
        let delay = |size: f64| Some(size * 8.0 / rate);
        let packet = bytes(given.packet);
        let product = rate * seconds(given.rtt) / 8.0;
        let small = product / (given.flows as f64).sqrt();
        let window = given.window as f64;
        let lost = 2.0 * (1.0 - given.utilisation);
        // A logarithm below one packet means that one is enough.
        let tiny = ((window * window / lost).ln() / (1.0 / given.load).ln()).max(1.0) * packet;
        let twenty = 20.0 * packet;
        Ok(vec![
            Some(product),
            delay(product),
            Some(small),
            delay(small),
            Some(rate * seconds(given.delay) / 8.0),
            Some(tiny),
            delay(tiny),
            Some(twenty),
            delay(twenty),
        ])
    },
};

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct OccupancyParams for "occupancy": "How full a buffer is that many long TCP flows share: near normal", ["Appenzeller, Keslassy and McKeown 2004, section 3",
            "Borlaug 2014, (14), (15)",] {
        /// rate of the link
        rate: BitsPerSec [RATES];
        /// mean round trip of the flows without the queue
        rtt: Duration [TIMES];
        /// number of concurrent long flows
        flows: u64 ["1".."1000000000"];
        /// size of the buffer
        buffer: Bytes [SIZES];
    }
}

/// Model of the occupancy of a buffer.
pub static OCCUPANCY: Model = Model {
    entry: OccupancyParams::ENTRY,
    formula: "Q = ΣWᵢ − rtt·C, normal with mean B/2 and σ = (rtt·C + B) / (3√3·√n), cut at 0 and B; the link is full at least erf(3√3·B·√n / (2√2·(rtt·C + B))) of the time",
    limits: "Windows are sawteeth between 2/3 and 4/3 of their mean and independent of each other (more than about 500 flows, different round trips). Few flows fall into step, and the queue then swings over the whole buffer.",
    outputs: &[
        output("mean", Measure::Size, "mean occupancy"),
        output("sd", Measure::Size, "its standard deviation before the cut"),
        output(
            "mean_delay",
            Measure::Time,
            "what a packet waits on average",
        ),
        output(
            "p95_delay",
            Measure::Time,
            "what 95 % of the packets wait at most",
        ),
        output(
            "utilisation",
            Measure::Share,
            "at least this share of the time the link is busy",
        ),
    ],
    example: Example {
        given: "rate=2.5Gbit/s,rtt=80ms,flows=10000,buffer=250kB",
        by_hand: "rtt·C = 25 MB and √n = 100, so B = rtt·C/√n; σ = 25.25 MB/(5.19615·100) = 48.594 kB; erf(1.83712·0.25·100/25.25) = erf(1.81893) = 0.98990, the 98.99 % of the paper's table.",
        gives: &[
            ("mean", 125_000.0),
            ("sd", 48_594.0),
            ("mean_delay", 0.4e-3),
            ("utilisation", 0.98990),
        ],
    },
    doubt: |w| few(w.read::<OccupancyParams>().flows),
    compute: occupancy,
};

fn occupancy(w: &Words) -> Result<Vec<Option<f64>>, OutOfModel> {
    let given: OccupancyParams = w.read();
    let rate = bps(given.rate);
    let buffer = bytes(given.buffer);
    let product = rate * seconds(given.rtt) / 8.0;
    let sd = (product + buffer) / (3.0 * 3f64.sqrt() * (given.flows as f64).sqrt());
    let mean = buffer / 2.0;
    // Of the normal what lies within the buffer; what lies outside stands at its two ends.
    let z = mean / sd;
    let within = normal_cdf(z) - normal_cdf(-z);
    let p95 = quantile_within(0.95, &|q| normal_cdf((q - mean) / sd), buffer);
    Ok(vec![
        Some(mean),
        Some(sd),
        Some(mean * 8.0 / rate),
        Some(p95 * 8.0 / rate),
        Some(within),
    ])
}

/// `p`-quantile of a distribution on 0 to `top`.
fn quantile_within(p: f64, cdf: &dyn Fn(f64) -> f64, top: f64) -> f64 {
    if cdf(0.0) >= p {
        return 0.0;
    }
    if cdf(top) < p {
        return top;
    }
    let (mut low, mut high) = (0.0, top);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}
