//! Rate of one TCP flow at a given loss rate.

use crate::model::{
    Example, Measure, Model, OutOfModel, PACKETS, SURE, TIMES, bytes, output, seconds,
};
use base::spec::{Params as _, params};
use base::{Bytes, Duration};

/// Payload rate of one window each round trip.
fn rate(mss: Bytes, rtt: Duration, window: f64) -> Option<f64> {
    Some(window * bytes(mss) * 8.0 / seconds(rtt))
}

/// Loss rate up to which losses are apart from each other, and time-outs are rare.
const SELDOM: f64 = 0.02;

/// Doubt about a formula that leaves time-outs out.
fn often(loss: f64) -> Option<String> {
    (loss > SELDOM).then(|| {
        format!(
            "loss = {loss} is above {SELDOM}: losses then meet in one round trip and lead to time-outs, which this formula leaves \
             out, so that the rate is lower; see padhye"
        )
    })
}

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct MathisParams for "mathis": "Reno's throughput from its sawtooth", ["Mathis, Semke, Mahdavi and Ott 1997"] {
        /// payload of a segment
        mss: Bytes = "1448B" [PACKETS], "Ethernet, timestamps";
        /// round trip, with the queue
        rtt: Duration [TIMES];
        /// loss events for each segment sent
        loss: f64 as Probability ["0.000000000001".."1"];
        /// segments by which one ACK lets the window grow as by one: 2 for a receiver that delays ACKs and a sender that
        /// counts them, 1 for a sender that counts bytes, as Linux does
        acked: u64 = "2" ["1".."100"], "RFC 5681 section 4.2";
    }
}

/// Model of Reno's throughput by its sawtooth.
pub static MATHIS: Model = Model {
    entry: MathisParams::ENTRY,
    formula: "window = √(3/(2·b·p));  rate = window·MSS/RTT",
    limits: "One long flow in congestion avoidance, losses apart from each other (p below about 0.02), no time-outs, no limit of a receiver or of the link. In a drop-tail queue p is what the flow makes it: the rate is then that of the link.",
    outputs: &[
        output("window", Measure::Number("segments"), "mean"),
        output("rate", Measure::Rate, "payload"),
    ],
    example: Example {
        given: "mss=1460B,rtt=100ms,loss=0.0001,acked=1",
        by_hand: "√(1.5/0.0001) = 122.47 segments; 122.47·1460·8/0.1 = 14.305 Mbit/s.",
        gives: &[("window", 122.474), ("rate", 14.3050e6)],
    },
    doubt: |w| often(w.read::<MathisParams>().loss),
    compute: |w| {
        let given: MathisParams = w.read();
        let window = (1.5 / (given.acked as f64 * given.loss)).sqrt();
        Ok(vec![Some(window), rate(given.mss, given.rtt, window)])
    },
};

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct PadhyeParams for "padhye": "Reno's throughput with its time-outs and the receiver's window", ["Padhye, Firoiu, Towsley and Kurose 1998, equation (33)",
            "RFC 5348 section 3.1",] {
        /// payload of a segment
        mss: Bytes = "1448B" [PACKETS], "Ethernet, timestamps";
        /// round trip, with the queue
        rtt: Duration [TIMES];
        /// loss events for each segment sent
        loss: f64 as Probability ["0.000000000001".."1"];
        /// segments acknowledged by one ACK
        acked: u64 = "2" ["1".."100"], "RFC 5681 section 4.2";
        /// first time-out
        rto: Duration = "1s" [TIMES], "RFC 6298 section 2";
        /// largest window in segments
        window: u64 = "4294967295" ["1".."4294967295"];
    }
}

/// Model of Reno's throughput with time-outs.
pub static PADHYE: Model = Model {
    entry: PadhyeParams::ENTRY,
    formula: "B = min(W/RTT, 1/(RTT·√(2bp/3) + T₀·min(1, 3√(3bp/8))·p·(1 + 32p²))) segments/s",
    limits: "One long flow; once a segment of a round is lost, so are those after it in that round, which is what a drop-tail queue does.",
    outputs: &[
        output(
            "segments",
            Measure::Number("segments/s"),
            "sent each second",
        ),
        output("rate", Measure::Rate, "payload"),
        output(
            "waiting",
            Measure::Share,
            "of the time that the formula gives to time-outs; 0 where the window limits",
        ),
    ],
    example: Example {
        given: "mss=1460B,rtt=100ms,loss=0.01,acked=2,rto=1s",
        by_hand: "0.1·√(0.04/3) = 0.011547; 3·√(0.0075) = 0.259808, ·0.01·1.0032 = 0.0026064; 1/0.0141534 = 70.654/s; ·1460·8 = 825 240 bit/s.",
        gives: &[
            ("segments", 70.654),
            ("rate", 825_240.0),
            ("waiting", 0.18415),
        ],
    },
    doubt: |w| {
        let PadhyeParams { rtt, rto, .. } = w.read();
        (rto < rtt).then(|| {
            format!("rto = {rto} is below rtt = {rtt}: every segment would time out before its ACK")
        })
    },
    compute: |w| {
        let given: PadhyeParams = w.read();
        let (p, b, rtt) = (given.loss, given.acked as f64, seconds(given.rtt));
        let sending = rtt * (2.0 * b * p / 3.0).sqrt();
        let waiting = seconds(given.rto)
            * (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0)
            * p
            * (1.0 + 32.0 * p * p);
        let free = 1.0 / (sending + waiting);
        let most = given.window as f64 / rtt;
        let segments = free.min(most);
        Ok(vec![
            Some(segments),
            Some(segments * bytes(given.mss) * 8.0),
            Some(if free <= most { waiting * free } else { 0.0 }),
        ])
    },
};

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct CubicParams for "cubic": "CUBIC's throughput", ["RFC 9438 section 5.2"] {
        /// payload of a segment
        mss: Bytes = "1448B" [PACKETS], "Ethernet, timestamps";
        /// round trip, with the queue
        rtt: Duration [TIMES];
        /// loss events for each segment sent
        loss: f64 as Probability ["0.000000000001".."1"];
        /// share of the window that is left after a loss
        beta: f64 as Probability = "0.7" ["0.01".."0.99"], "RFC 9438 section 4.6";
        /// steepness of the cubic, segments/s³
        c: f64 = "0.4" ["0.000001".."1000"], "RFC 9438 section 5.1";
    }
}

/// Model of CUBIC's throughput.
pub static CUBIC: Model = Model {
    entry: CubicParams::ENTRY,
    formula: "cubic = (C(3+β)/(4(1−β)))^¼·RTT^¾/p^¾;  reno = √(3/(2p));  window = the larger",
    limits: "As of `mathis`, an ACK for each segment; loss comes evenly, every 1/p segments.",
    outputs: &[
        output("window", Measure::Number("segments"), "mean"),
        output("rate", Measure::Rate, "payload"),
        output(
            "reno",
            Measure::Number("segments"),
            "window of Reno on this path; where it is the larger, CUBIC is as friendly",
        ),
    ],
    example: Example {
        given: "mss=1500B,rtt=100ms,loss=0.0001",
        by_hand: "(0.4·3.7/1.2)^¼ = 1.0538; 0.1^¾ = 0.177828; 0.0001^¾ = 0.001: 187.4, the 187 of the RFC's table 1; Reno √15 000 = 122.5.",
        gives: &[("window", 187.397), ("rate", 22.4876e6), ("reno", 122.474)],
    },
    doubt: |w| often(w.read::<CubicParams>().loss),
    compute: |w| {
        let given: CubicParams = w.read();
        let (p, beta) = (given.loss, given.beta);
        let steepness = (given.c * (3.0 + beta) / (4.0 * (1.0 - beta))).powf(0.25);
        let cubic = steepness * (seconds(given.rtt) / p).powf(0.75);
        let reno = (1.5 / p).sqrt();
        let window = cubic.max(reno);
        Ok(vec![
            Some(window),
            rate(given.mss, given.rtt, window),
            Some(reno),
        ])
    },
};

params! {
    required;
    #[derive(Clone, Copy, Debug)]
    pub(super) struct CubicWindowParams for "cubic-window": "CUBIC's window after a loss", ["RFC 9438 section 4.2", "Borlaug 2014, (8), (9)"] {
        /// window at the loss, in segments
        before: u64 ["1".."1000000000"];
        /// time since the loss
        after: Duration ["0ms".."1h"];
        /// share of the window that is left after a loss
        beta: f64 as Probability = "0.7" ["0.01".."0.99"], "RFC 9438 section 4.6";
        /// steepness of the cubic, segments/s³
        c: f64 = "0.4" ["0.000001".."1000"], "RFC 9438 section 5.1";
    }
}

/// Model of CUBIC's window after a loss.
pub static CUBIC_WINDOW: Model = Model {
    entry: CubicWindowParams::ENTRY,
    formula: "W(t) = C(t − K)³ + W_max;  K = ∛(W_max(1 − β)/C)",
    limits: "Beyond the Reno-friendly region and with more than a round trip between samples. β is what remains, as in the RFC; in equation (9) of Borlaug 2014 it is what is taken away.",
    outputs: &[
        output("window", Measure::Number("segments"), "then"),
        output("back", Measure::Time, "K: when it is again what it was"),
    ],
    example: Example {
        given: "before=100,after=0ms",
        by_hand: "K = ∛(100·0.3/0.4) = ∛75 = 4.217 s; W(0) = 100 − 0.4·75 = 70.",
        gives: &[("window", 70.0), ("back", 4.21716)],
    },
    doubt: SURE,
    compute: |w| {
        let given: CubicWindowParams = w.read();
        let before = given.before as f64;
        let back = (before * (1.0 - given.beta) / given.c).cbrt();
        let window = given.c * (seconds(given.after) - back).powi(3) + before;
        Ok::<_, OutOfModel>(vec![Some(window), Some(back)])
    },
};
