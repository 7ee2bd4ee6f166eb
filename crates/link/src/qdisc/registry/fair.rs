//! Entries of disciplines with several queues.

use super::{
    AnyQdisc, FLOWS, INTERVAL, Limits, QUANTUM, Spec, TARGET, ecn, limit, parameter, switch,
};
use crate::qdisc::{cake, dualpi2, fq_pie};
use crate::words::{Entry, Unit, Words};
use rand::Rng as _;

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
                Some("16 ms"),
                ("100 us", "10 s"),
                "RFC 9332 appendix A.1",
                "period of the updates",
            ),
            parameter(
                "alpha",
                Unit::Number,
                Some("0.16"),
                ("0", "100"),
                "RFC 9332 appendix A.1",
                "gain on the distance from the target, in Hz",
            ),
            parameter(
                "beta",
                Unit::Number,
                Some("3.2"),
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
            switch(
                "random",
                "false",
                "RFC 9332 appendix A.1; Linux",
                "decide by chance, as Linux does, and not by counting",
            ),
            limit("10000", "Linux dualpi2"),
        ],
    },
    limits: |w| Limits {
        packets: Some(w.count("limit")),
        bytes: None,
    },
    build: |w, streams, name| {
        let decide = streams.stream(&format!("link/{name}/dualpi2/decide"));
        AnyQdisc::DualPi2(Box::new(dualpi2::DualPi2::new(dualpi2_params(w), decide)))
    },
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
        random: w.switch("random"),
        limit: w.count("limit"),
    }
}

const MEMORY: (&str, &str) = ("1 kB", "1000 GB");

pub(super) const FQ_PIE: Spec = Spec {
    entry: Entry {
        name: "fq_pie",
        summary: "a queue with PIE for each flow, served in turn by bytes, new flows first",
        sources: &[
            "Ramakrishnan et al., FQ-PIE Queue Discipline in the Linux Kernel, 2019",
            "RFC 8033, Proportional Integral Controller Enhanced (PIE): A Lightweight Control Scheme to Address the Bufferbloat Problem",
        ],
        parameters: &[
            parameter(
                "target",
                Unit::Duration,
                Some("15 ms"),
                ("1 us", "10 s"),
                "RFC 8033 section 4.2",
                "delay to hold in each queue",
            ),
            parameter(
                "tupdate",
                Unit::Duration,
                Some("15 ms"),
                ("100 us", "10 s"),
                "RFC 8033 section 4.2",
                "period of the updates",
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
            QUANTUM,
            FLOWS,
            ecn("false", "Linux fq_pie"),
            parameter(
                "mark_limit",
                Unit::Probability,
                Some("0.1"),
                ("0", "1"),
                "RFC 8033 section 5.1",
                "probability from which ECN-capable packets are dropped too",
            ),
            limit("10240", "Linux fq_pie"),
            parameter(
                "memory",
                Unit::Bytes,
                Some("32 MiB"),
                MEMORY,
                "Linux fq_pie",
                "most bytes waiting in all queues together",
            ),
        ],
    },
    limits: |w| Limits {
        packets: Some(w.count("limit")),
        bytes: Some(w.bytes("memory")),
    },
    build: |w, streams, name| {
        let stream = |purpose| streams.stream(&format!("link/{name}/fq_pie/{purpose}"));
        AnyQdisc::FqPie(Box::new(fq_pie::FqPie::new(
            fq_pie_params(w),
            stream("perturbation").next_u64(),
            stream("early_drop"),
        )))
    },
};

pub(super) fn fq_pie_params(w: &Words) -> fq_pie::Params {
    fq_pie::Params {
        target: w.duration("target"),
        tupdate: w.duration("tupdate"),
        alpha: w.real("alpha"),
        beta: w.real("beta"),
        quantum: w.bytes("quantum"),
        flows: w.count("flows") as u32,
        ecn: w.switch("ecn"),
        mark_limit: w.real("mark_limit"),
        limit: w.count("limit"),
        memory: w.bytes("memory"),
    }
}

pub(super) const CAKE: Spec = Spec {
    entry: Entry {
        name: "cake",
        summary: "CAKE's core: a queue with COBALT (CoDel and BLUE) for each flow, flows kept apart",
        sources: &[
            "Hoiland-Jorgensen, Taht, Morton, Piece of CAKE: A Comprehensive Queue Management Solution for Home Gateways, 2018",
            "Palmei et al., Design and Evaluation of COBALT Queue Discipline, 2019",
        ],
        parameters: &[
            TARGET,
            INTERVAL,
            parameter(
                "increment",
                Unit::Probability,
                Some("0.00390625"),
                ("0", "1"),
                "Linux cake: 1/256",
                "BLUE's step upwards, on overflow",
            ),
            parameter(
                "decrement",
                Unit::Probability,
                Some("0.000244140625"),
                ("0", "1"),
                "Linux cake: 1/4096",
                "BLUE's step downwards, as a flow runs empty",
            ),
            QUANTUM,
            FLOWS,
            ecn("true", "Piece of CAKE"),
            parameter(
                "memory",
                Unit::Bytes,
                Some("4 MB"),
                MEMORY,
                "Linux cake",
                "most bytes waiting in all queues together",
            ),
        ],
    },
    limits: |w| Limits {
        packets: None,
        bytes: Some(w.bytes("memory")),
    },
    build: |w, streams, name| {
        let stream = |purpose| streams.stream(&format!("link/{name}/cake/{purpose}"));
        AnyQdisc::Cake(Box::new(cake::Cake::new(
            cake_params(w),
            stream("perturbation").next_u64(),
            stream("blue"),
        )))
    },
};

pub(super) fn cake_params(w: &Words) -> cake::Params {
    cake::Params {
        target: w.duration("target"),
        interval: w.duration("interval"),
        increment: w.real("increment"),
        decrement: w.real("decrement"),
        quantum: w.bytes("quantum"),
        flows: w.count("flows") as u32,
        ecn: w.switch("ecn"),
        memory: w.bytes("memory"),
    }
}
