//! Entries of disciplines that sort packets into classes.

use super::{AnyQdisc, Limits, QdiscSpec, Spec, limit, parameter};
use crate::qdisc::{drr, prio, tbf};
use crate::words::{Entry, Parameter, Unit, Words};

const FROM_DSCP: Parameter = parameter(
    "from_dscp",
    Unit::Count,
    Some("46"),
    ("0", "63"),
    "RFC 3246 section 2.7",
    "packets with this DSCP or a greater one are the first class; 46 is expedited forwarding",
);
const FIRST_LIMIT: Parameter = parameter(
    "first_limit",
    Unit::Packets,
    Some("50"),
    ("1", "100000000"),
    "half a second of a call",
    "most packets of the first class waiting",
);
const REST: Parameter = parameter(
    "rest",
    Unit::Choice(&["pie", "fifo", "codel", "fq_codel", "red", "dualpi2"]),
    Some("pie"),
    ("pie", "dualpi2"),
    "RFC 8033",
    "discipline for all others, with its defaults",
);
const LIMIT: Parameter = parameter(
    "limit",
    Unit::Packets,
    Some("1000"),
    ("1", "100000000"),
    "Linux pie",
    "most packets of all others waiting",
);

pub(super) const PRIO: Spec = Spec {
    entry: Entry {
        name: "prio",
        summary: "strict priority: packets that ask for low delay by their DSCP go first, the rest as another discipline",
        sources: &["RFC 3246, An Expedited Forwarding PHB (Per-Hop Behavior)"],
        parameters: &[FROM_DSCP, FIRST_LIMIT, REST, LIMIT],
    },
    limits,
    build: |w, streams, name| {
        let rest = rest(w).build(streams, name);
        AnyQdisc::Prio(Box::new(prio::Prio::new(prio_params(w), rest)))
    },
};

pub(super) const DRR: Spec = Spec {
    entry: Entry {
        name: "drr",
        summary: "two classes by DSCP that take turns by bytes, the first in a short queue, the rest as another discipline",
        sources: &["Shreedhar, Varghese, Efficient Fair Queuing Using Deficit Round-Robin, 1996"],
        parameters: &[
            FROM_DSCP,
            FIRST_LIMIT,
            quantum(
                "first_quantum",
                "bytes that the first class may send in its turn",
            ),
            quantum("quantum", "bytes that all others may send in their turn"),
            REST,
            LIMIT,
        ],
    },
    limits,
    build: |w, streams, name| {
        let rest = rest(w).build(streams, name);
        AnyQdisc::Drr(Box::new(drr::Drr::new(drr_params(w), rest)))
    },
};

const fn quantum(name: &'static str, doc: &'static str) -> Parameter {
    let section = "Shreedhar 1996 section 3";
    parameter(
        name,
        Unit::Bytes,
        Some("1514 B"),
        ("64 B", "1 MB"),
        section,
        doc,
    )
}

pub(super) const TBF: Spec = Spec {
    entry: Entry {
        name: "tbf",
        summary: "token bucket: lets packets leave at a rate of its own, with bursts as large as the bucket",
        sources: &[
            "RFC 2697, A Single Rate Three Color Marker",
            "RFC 2475, An Architecture for Differentiated Services",
        ],
        parameters: &[
            parameter(
                "rate",
                Unit::Rate,
                Some("10 Mbit/s"),
                ("1 kbit/s", "100000 Gbit/s"),
                "ours",
                "rate of whole IP packets",
            ),
            parameter(
                "burst",
                Unit::Bytes,
                Some("3028 B"),
                ("1 B", "1 GB"),
                "RFC 2697 section 3",
                "size of the bucket",
            ),
            limit("1000", "Linux pfifo"),
        ],
    },
    limits: |w| Limits {
        packets: Some(w.count("limit")),
        bytes: None,
    },
    build: |w, _, _| AnyQdisc::Tbf(Box::new(tbf::Tbf::new(tbf_params(w)))),
};

pub(super) fn tbf_params(w: &Words) -> tbf::Params {
    tbf::Params {
        rate: w.rate("rate"),
        burst: w.bytes("burst"),
        limit: w.count("limit"),
    }
}

pub(super) fn prio_params(w: &Words) -> prio::Params {
    prio::Params {
        from_dscp: w.count("from_dscp") as u8,
        first_limit: w.count("first_limit"),
    }
}

pub(super) fn drr_params(w: &Words) -> drr::Params {
    drr::Params {
        from_dscp: w.count("from_dscp") as u8,
        first_limit: w.count("first_limit"),
        first_quantum: w.bytes("first_quantum"),
        quantum: w.bytes("quantum"),
    }
}

fn rest(w: &Words) -> QdiscSpec {
    let name = w.choice("rest");
    let key = if name == "fifo" { "packets" } else { "limit" };
    format!("{name}:{key}={}", w.count("limit"))
        .parse()
        .expect("each of the choices has a limit of this range")
}

fn limits(w: &Words) -> Limits {
    let rest = rest(w).limits();
    Limits {
        packets: rest.packets.map(|rest| rest + w.count("first_limit")),
        bytes: None,
    }
}
