//! Entries of disciplines with several queues.

use super::{AnyQdisc, Limits, Spec, limit, parameter};
use crate::qdisc::dualpi2;
use crate::words::{Entry, Unit, Words};

pub(super) const DUALPI2: Spec = Spec {
    entry: Entry {
        name: "dualpi2",
        summary: "a short queue for L4S packets beside a classic one, coupled by one controller",
        sources: &[
            "RFC 9332, Dual-Queue Coupled Active Queue Management (AQM) for Low Latency, Low Loss, and Scalable Throughput (L4S)",
        ],
        parameters: &[
            parameter(
                "target",
                Unit::Duration,
                Some("15 ms"),
                ("1 us", "10 s"),
                "RFC 9332 appendix A.1",
                "delay to hold in the classic queue",
            ),
            parameter(
                "tupdate",
                Unit::Duration,
                Some("15 ms"),
                ("100 us", "10 s"),
                "RFC 9332 appendix A.1",
                "period of the updates",
            ),
            parameter(
                "alpha",
                Unit::Number,
                Some("0.15"),
                ("0", "100"),
                "RFC 9332 appendix A.1",
                "gain on the distance from the target, in Hz",
            ),
            parameter(
                "beta",
                Unit::Number,
                Some("3"),
                ("0", "100"),
                "RFC 9332 appendix A.1",
                "gain on the change of the delay, in Hz",
            ),
            parameter(
                "coupling",
                Unit::Number,
                Some("2"),
                ("0.1", "10"),
                "RFC 9332 section 4.2",
                "how much more often L4S packets are marked than the root of the classic probability",
            ),
            parameter(
                "min_th",
                Unit::Duration,
                Some("800 us"),
                ("0 ms", "1 s"),
                "RFC 9332 appendix A.1",
                "sojourn time from which L4S packets are marked",
            ),
            parameter(
                "range",
                Unit::Duration,
                Some("400 us"),
                ("0 ms", "1 s"),
                "RFC 9332 appendix A.1",
                "over this the marking rises to all packets",
            ),
            parameter(
                "min_len",
                Unit::Packets,
                Some("1"),
                ("0", "100000000"),
                "RFC 9332 appendix A.1",
                "an L4S queue of no more packets is not marked for its own delay",
            ),
            parameter(
                "protection",
                Unit::Count,
                Some("16"),
                ("2", "1000"),
                "RFC 9332 appendix A.1",
                "the classic queue gets one byte in so many while both wait",
            ),
            limit("10000", "Linux dualpi2"),
        ],
    },
    limits: |w| Limits {
        packets: Some(w.count("limit")),
        bytes: None,
    },
    build: |w, _, _| AnyQdisc::DualPi2(Box::new(dualpi2::DualPi2::new(dualpi2_params(w)))),
};

pub(super) fn dualpi2_params(w: &Words) -> dualpi2::Params {
    dualpi2::Params {
        target: w.duration("target"),
        tupdate: w.duration("tupdate"),
        alpha: w.real("alpha"),
        beta: w.real("beta"),
        coupling: w.real("coupling"),
        min_th: w.duration("min_th"),
        range: w.duration("range"),
        min_len: w.count("min_len"),
        protection: w.count("protection"),
        limit: w.count("limit"),
    }
}
