//! Entries of disciplines that drop or mark arriving packets by chance.

use super::{AnyQdisc, Limits, Spec, ecn, limit, parameter, switch};
use crate::qdisc::{blue, pi, pie, red, sfb};
use crate::words::{Entry, Unit, Value, Words};
use base::Duration;
use rand::Rng as _;

pub(super) const PIE: Spec = Spec {
    entry: Entry {
        name: "pie",
        summary: "proportional integral controller, enhanced: drops by chance so that the delay stays at a target",
        sources: &[
            "RFC 8033, Proportional Integral Controller Enhanced (PIE): A Lightweight Control Scheme to Address the Bufferbloat Problem",
            "Pan et al., PIE: A Lightweight Control Scheme to Address the Bufferbloat Problem, IEEE HPSR 2013",
        ],
        parameters: &[
            parameter(
                "variant",
                Unit::Choice(&["rfc8033", "2013", "linux"]),
                Some("rfc8033"),
                ("rfc8033", "linux"),
                "RFC 8033; the paper; Linux",
                "the RFC, the paper of 2013 with its values for all that is not given, or what Linux makes of the RFC",
            ),
            parameter(
                "target",
                Unit::Duration,
                None,
                ("1 us", "10 s"),
                "RFC 8033 section 4.2",
                "delay to hold; 15 ms, in the variant of 2013 20 ms",
            ),
            parameter(
                "tupdate",
                Unit::Duration,
                None,
                ("100 us", "10 s"),
                "RFC 8033 section 4.2",
                "period of the updates; 15 ms, in the variant of 2013 30 ms",
            ),
            parameter(
                "alpha",
                Unit::Number,
                Some("0.125"),
                ("0", "100"),
                "RFC 8033 section 4.2",
                "gain on the distance from the target, in Hz",
            ),
            parameter(
                "beta",
                Unit::Number,
                Some("1.25"),
                ("0", "100"),
                "RFC 8033 section 4.2",
                "gain on the change of the delay, in Hz",
            ),
            parameter(
                "burst",
                Unit::Duration,
                None,
                ("0 ms", "10 s"),
                "RFC 8033 section 4.4",
                "how long a burst passes untouched; 150 ms, in the variant of 2013 100 ms",
            ),
            parameter(
                "estimate",
                Unit::Choice(&["sojourn", "drain_rate"]),
                None,
                ("sojourn", "drain_rate"),
                "RFC 8033 section 4.3",
                "where the delay comes from: sojourn times, or backlog and rate of departures; sojourn, in the variant of 2013 drain_rate",
            ),
            parameter(
                "threshold",
                Unit::Bytes,
                None,
                ("1 B", "1 GB"),
                "RFC 8033 section 5.2",
                "bytes of a measurement of the drain rate; 16384, in the variant of 2013 10 kB",
            ),
            parameter(
                "derandomize",
                Unit::Switch,
                None,
                ("false", "true"),
                "RFC 8033 section 5.4",
                "keep drops from coming too close or too far apart; true, in the variant of 2013 false",
            ),
            ecn("false", "RFC 8033 section 5.1"),
            parameter(
                "mark_limit",
                Unit::Probability,
                Some("0.1"),
                ("0", "1"),
                "RFC 8033 section 5.1",
                "probability from which ECN-capable packets are dropped too",
            ),
            limit("1000", "Linux pie"),
            parameter(
                "bytes",
                Unit::Bytes,
                None,
                ("1 B", "1000 GB"),
                "RFC 7567 section 1",
                "most bytes waiting; no limit in bytes where it is not given",
            ),
        ],
    },
    limits: |w| Limits {
        packets: Some(w.count("limit")),
        bytes: w.bytes_if_set("bytes"),
    },
    build: |w, streams, name| {
        let early_drop = streams.stream(&format!("link/{name}/pie/early_drop"));
        AnyQdisc::Pie(Box::new(pie::Pie::new(pie_params(w), early_drop)))
    },
};

pub(super) fn pie_params(w: &Words) -> pie::Params {
    let variant = match w.choice("variant") {
        "2013" => pie::Variant::Paper2013,
        "linux" => pie::Variant::Linux,
        _ => pie::Variant::Rfc8033,
    };
    let default = pie::Params::of(variant);
    pie::Params {
        variant,
        target: duration_or(w, "target", default.target),
        tupdate: duration_or(w, "tupdate", default.tupdate),
        alpha: w.real("alpha"),
        beta: w.real("beta"),
        burst: duration_or(w, "burst", default.burst),
        estimate: match w.get("estimate") {
            Some(Value::Choice("sojourn")) => pie::Estimate::Sojourn,
            Some(_) => pie::Estimate::DrainRate,
            None => default.estimate,
        },
        threshold: w.bytes_if_set("threshold").unwrap_or(default.threshold),
        derandomize: switch_or(w, "derandomize", default.derandomize),
        ecn: w.switch("ecn"),
        mark_limit: w.real("mark_limit"),
        limit: w.count("limit"),
        bytes: w.bytes_if_set("bytes"),
    }
}

fn duration_or(w: &Words, key: &str, otherwise: Duration) -> Duration {
    match w.get(key) {
        Some(Value::Duration(d)) => d,
        _ => otherwise,
    }
}

fn switch_or(w: &Words, key: &str, otherwise: bool) -> bool {
    match w.get(key) {
        Some(Value::Switch(s)) => s,
        _ => otherwise,
    }
}

pub(super) const RED: Spec = Spec {
    entry: Entry {
        name: "red",
        summary: "random early detection: drops by chance as the average queue grows",
        sources: &[
            "Floyd, Jacobson, Random Early Detection Gateways for Congestion Avoidance, 1993",
            "Floyd, Gummadi, Shenker, Adaptive RED, 2001",
        ],
        parameters: &[
            parameter(
                "variant",
                Unit::Choice(&["floyd", "ns2"]),
                Some("floyd"),
                ("floyd", "ns2"),
                "Floyd 1993; ns-2.35",
                "the papers', or ns-2's with its values for all that is not given",
            ),
            parameter(
                "min",
                Unit::Packets,
                Some("5"),
                ("1", "100000000"),
                "Floyd 1993 section 8",
                "average from which packets are dropped",
            ),
            parameter(
                "max",
                Unit::Packets,
                Some("15"),
                ("1", "100000000"),
                "Floyd 1993 section 8",
                "average at which the probability reaches max_p; all is dropped from here, with gentle from twice this",
            ),
            parameter(
                "max_p",
                Unit::Probability,
                Some("0.1"),
                ("0.0001", "1"),
                "ns-2",
                "probability at max",
            ),
            parameter(
                "weight",
                Unit::Probability,
                Some("0.002"),
                ("0.00001", "1"),
                "Floyd 1993 section 6",
                "weight of one arrival in the average",
            ),
            switch(
                "gentle",
                "true",
                "Floyd 2000",
                "let the probability rise to 1 between max and twice max",
            ),
            switch(
                "adaptive",
                "false",
                "Floyd 2001",
                "move max_p so that the average stays midway",
            ),
            parameter(
                "wait",
                Unit::Switch,
                None,
                ("false", "true"),
                "ns-2",
                "keep drops at least 1/p packets apart; false, in the variant ns2 true",
            ),
            parameter(
                "queue_in_bytes",
                Unit::Switch,
                None,
                ("false", "true"),
                "ns-2",
                "measure the queue in bytes, as packets of the mean size; false, in the variant ns2 true",
            ),
            parameter(
                "drop_in_bytes",
                Unit::Switch,
                None,
                ("false", "true"),
                "ns-2",
                "drop large packets more often than small ones; false, in the variant ns2 true",
            ),
            parameter(
                "mean",
                Unit::Bytes,
                Some("500 B"),
                ("1 B", "1 MB"),
                "ns-2",
                "a packet's size where bytes count",
            ),
            parameter(
                "slot",
                Unit::Duration,
                Some("400 us"),
                ("1 ns", "10 s"),
                "Floyd 1993 section 4",
                "time of a small packet on the line, for the average of an idle line",
            ),
            ecn("false", "RFC 3168 section 7"),
            limit("1000", "Linux red"),
        ],
    },
    limits: |w| {
        let p = red_params(w);
        Limits {
            packets: (!p.queue_in_bytes).then_some(p.limit),
            bytes: p.queue_in_bytes.then(|| p.limit_bytes()),
        }
    },
    build: |w, streams, name| {
        let early_drop = streams.stream(&format!("link/{name}/red/early_drop"));
        AnyQdisc::Red(Box::new(red::Red::new(red_params(w), early_drop)))
    },
};

pub(super) fn red_params(w: &Words) -> red::Params {
    let variant = match w.choice("variant") {
        "ns2" => red::Variant::Ns2,
        _ => red::Variant::Floyd,
    };
    let default = red::Params::of(variant);
    red::Params {
        variant,
        min: w.count("min"),
        max: w.count("max"),
        max_p: w.real("max_p"),
        weight: w.real("weight"),
        gentle: w.switch("gentle"),
        adaptive: w.switch("adaptive"),
        wait: switch_or(w, "wait", default.wait),
        queue_in_bytes: switch_or(w, "queue_in_bytes", default.queue_in_bytes),
        drop_in_bytes: switch_or(w, "drop_in_bytes", default.drop_in_bytes),
        mean: w.bytes("mean"),
        slot: w.duration("slot"),
        ecn: w.switch("ecn"),
        limit: w.count("limit"),
    }
}

pub(super) const PI: Spec = Spec {
    entry: Entry {
        name: "pi",
        summary: "proportional integral controller: drops by chance so that the queue keeps a length",
        sources: &[
            "Hollot, Misra, Towsley, Gong, On Designing Improved Controllers for AQM Routers Supporting TCP Flows, 2001",
        ],
        parameters: &[
            parameter(
                "a",
                Unit::Number,
                Some("0.00001822"),
                ("0", "1"),
                "Hollot 2001 section IV",
                "gain on the distance from the reference, per packet",
            ),
            parameter(
                "b",
                Unit::Number,
                Some("0.00001816"),
                ("0", "1"),
                "Hollot 2001 section IV",
                "gain on the distance one update before, per packet; less than a",
            ),
            parameter(
                "reference",
                Unit::Packets,
                Some("50"),
                ("0", "100000000"),
                "ns-2",
                "length to hold",
            ),
            parameter(
                "tupdate",
                Unit::Duration,
                Some("6250 us"),
                ("100 us", "10 s"),
                "Hollot 2001 section IV",
                "period of the updates",
            ),
            ecn("false", "Hollot 2001 section V"),
            limit("800", "Hollot 2001 section V"),
        ],
    },
    limits: |w| Limits {
        packets: Some(w.count("limit")),
        bytes: None,
    },
    build: |w, streams, name| {
        let early_drop = streams.stream(&format!("link/{name}/pi/early_drop"));
        AnyQdisc::Pi(Box::new(pi::Pi::new(pi_params(w), early_drop)))
    },
};

pub(super) fn pi_params(w: &Words) -> pi::Params {
    pi::Params {
        a: w.real("a"),
        b: w.real("b"),
        reference: w.count("reference"),
        tupdate: w.duration("tupdate"),
        ecn: w.switch("ecn"),
        limit: w.count("limit"),
    }
}

pub(super) const BLUE: Spec = Spec {
    entry: Entry {
        name: "blue",
        summary: "drops by chance, more often after each overflow, less often after each idle time",
        sources: &["Feng, Shin, Kandlur, Saha, The BLUE Active Queue Management Algorithms, 2002"],
        parameters: &[
            parameter(
                "increment",
                Unit::Probability,
                Some("0.02"),
                ("0.00001", "1"),
                "Feng 2002 table I",
                "step upwards, on loss",
            ),
            parameter(
                "decrement",
                Unit::Probability,
                Some("0.002"),
                ("0.00001", "1"),
                "Feng 2002 table I",
                "step downwards, on idleness",
            ),
            parameter(
                "freeze",
                Unit::Duration,
                Some("100 ms"),
                ("0 ms", "100 s"),
                "Feng 2002 table I",
                "least time between two steps",
            ),
            parameter(
                "length",
                Unit::Packets,
                None,
                ("0", "100000000"),
                "Feng 2002 section III",
                "a longer queue counts as loss; only loss counts where it is not given",
            ),
            ecn("false", "Feng 2002 section III"),
            limit("100", "ours"),
        ],
    },
    limits: |w| Limits {
        packets: Some(w.count("limit")),
        bytes: None,
    },
    build: |w, streams, name| {
        let early_drop = streams.stream(&format!("link/{name}/blue/early_drop"));
        AnyQdisc::Blue(Box::new(blue::Blue::new(blue_params(w), early_drop)))
    },
};

pub(super) fn blue_params(w: &Words) -> blue::Params {
    blue::Params {
        increment: w.real("increment"),
        decrement: w.real("decrement"),
        freeze: w.duration("freeze"),
        length: w.count_if_set("length"),
        ecn: w.switch("ecn"),
        limit: w.count("limit"),
    }
}

pub(super) const SFB: Spec = Spec {
    entry: Entry {
        name: "sfb",
        summary: "stochastic fair BLUE: bins of flows with a BLUE each; flows that do not respond are held down",
        sources: &[
            "Feng, Kandlur, Saha, Shin, Stochastic Fair Blue: A Queue Management Algorithm for Enforcing Fairness, 2001",
        ],
        parameters: &[
            parameter(
                "levels",
                Unit::Count,
                Some("2"),
                ("1", "8"),
                "Feng 2001 section III",
                "hash functions, and so bins of each flow",
            ),
            parameter(
                "bins",
                Unit::Count,
                Some("23"),
                ("1", "65536"),
                "Feng 2001 section III",
                "bins a level",
            ),
            parameter(
                "bin_size",
                Unit::Packets,
                Some("13"),
                ("1", "100000000"),
                "Feng 2001 section III",
                "packets that a bin may hold before its probability rises",
            ),
            parameter(
                "increment",
                Unit::Probability,
                Some("0.0005"),
                ("0", "1"),
                "Linux sfb",
                "step upwards, as a packet finds a bin too full",
            ),
            parameter(
                "decrement",
                Unit::Probability,
                Some("0.00005"),
                ("0", "1"),
                "Linux sfb",
                "step downwards, as a packet finds a bin empty",
            ),
            parameter(
                "penalty",
                Unit::Duration,
                Some("100 ms"),
                ("0 ms", "100 s"),
                "Linux sfb: 10 a second",
                "time between two packets of flows that do not respond",
            ),
            ecn("false", "Feng 2001 section III"),
            limit("1000", "Linux sfb"),
        ],
    },
    limits: |w| Limits {
        packets: Some(w.count("limit")),
        bytes: None,
    },
    build: |w, streams, name| {
        let stream = |purpose| streams.stream(&format!("link/{name}/sfb/{purpose}"));
        let mut perturbation = stream("perturbation");
        AnyQdisc::Sfb(Box::new(sfb::Sfb::new(
            sfb_params(w),
            std::array::from_fn(|_| perturbation.next_u64()),
            stream("early_drop"),
        )))
    },
};

pub(super) fn sfb_params(w: &Words) -> sfb::Params {
    sfb::Params {
        levels: w.count("levels") as u32,
        bins: w.count("bins") as u32,
        bin_size: w.count("bin_size"),
        increment: w.real("increment"),
        decrement: w.real("decrement"),
        penalty: w.duration("penalty"),
        ecn: w.switch("ecn"),
        limit: w.count("limit"),
    }
}
