//! Entries of disciplines that drop or mark arriving packets by chance.

use super::{AnyQdisc, Limits, Spec, ecn, limit, parameter};
use crate::qdisc::pie;
use crate::words::{Entry, Unit, Value, Words};
use base::Duration;

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
                Unit::Choice(&["rfc8033", "2013"]),
                Some("rfc8033"),
                ("rfc8033", "2013"),
                "RFC 8033; the paper",
                "the RFC, or the paper of 2013 with its values for all that is not given",
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
        derandomize: match w.get("derandomize") {
            Some(Value::Switch(s)) => s,
            _ => default.derandomize,
        },
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
