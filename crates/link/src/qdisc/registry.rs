//! The one table of queue disciplines. The command line, the reference page, the property tests and
//! the benchmarks loop over it: a discipline is tested and timed from the moment it is listed.

mod classes;
mod fair;
mod random;

use super::{
    Backlog, Fates, Qdisc, blue, cake, codel, drr, dualpi2, fifo, fq_codel, fq_pie, pi, pie, prio,
    red, sfb, tbf,
};
use crate::words::{Entry, Parameter, Unit, Words, worded};
use base::rng::Streams;
use base::{Bytes, Packet, Time};
use rand::Rng as _;

/// One discipline: what it is called, what it can be told, and how it is made.
pub struct Spec {
    pub entry: Entry,
    /// The most it lets wait, from its parameters.
    pub limits: fn(&Words) -> Limits,
    /// `name` is where the discipline stands, such as `up`: its random streams are named after it.
    build: fn(&Words, &Streams, &str) -> AnyQdisc,
}

/// The most that may wait in a discipline; `None` where it does not count that way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub packets: Option<u64>,
    pub bytes: Option<Bytes>,
}

/// A parameter on few lines; `bounds` are from and to.
const fn parameter(
    name: &'static str,
    unit: Unit,
    default: Option<&'static str>,
    bounds: (&'static str, &'static str),
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    Parameter {
        name,
        unit,
        default,
        min: bounds.0,
        max: bounds.1,
        section,
        doc,
    }
}

/// Most packets waiting.
const fn limit(default: &'static str, section: &'static str) -> Parameter {
    parameter(
        "limit",
        Unit::Packets,
        Some(default),
        ("1", "100000000"),
        section,
        "most packets waiting",
    )
}

const fn switch(
    name: &'static str,
    default: &'static str,
    section: &'static str,
    doc: &'static str,
) -> Parameter {
    let bounds = ("false", "true");
    parameter(name, Unit::Switch, Some(default), bounds, section, doc)
}

/// Whether ECN-capable packets are marked instead of dropped.
const fn ecn(default: &'static str, section: &'static str) -> Parameter {
    let doc = "mark ECN-capable packets instead of dropping them";
    switch("ecn", default, section, doc)
}

const TARGET: Parameter = Parameter {
    name: "target",
    unit: Unit::Duration,
    default: Some("5 ms"),
    min: "1 us",
    max: "10 s",
    section: "RFC 8289 section 4.4",
    doc: "acceptable standing delay",
};
const INTERVAL: Parameter = Parameter {
    name: "interval",
    unit: Unit::Duration,
    default: Some("100 ms"),
    min: "10 us",
    max: "100 s",
    section: "RFC 8289 section 4.3",
    doc: "about a worst-case round trip",
};
const QUANTUM: Parameter = Parameter {
    name: "quantum",
    unit: Unit::Bytes,
    default: Some("1514 B"),
    min: "64 B",
    max: "1 MB",
    section: "RFC 8290 section 5.2.4",
    doc: "bytes that a queue may send in its turn",
};
const FLOWS: Parameter = Parameter {
    name: "flows",
    unit: Unit::Count,
    default: Some("1024"),
    min: "1",
    max: "65536",
    section: "RFC 8290 section 5.2.5",
    doc: "number of queues that flows are hashed to",
};

pub const QDISCS: &[Spec] = &[
    Spec {
        entry: Entry {
            name: "fifo",
            summary: "first in, first out; refuses what does not fit (drop-tail)",
            sources: &[
                "RFC 7567, IETF Recommendations Regarding Active Queue Management, section 1",
            ],
            parameters: &[
                Parameter {
                    name: "packets",
                    unit: Unit::Packets,
                    default: None,
                    min: "1",
                    max: "100000000",
                    section: "Linux pfifo: 1000",
                    doc: "most packets waiting; 1000 where neither packets nor bytes is given",
                },
                Parameter {
                    name: "bytes",
                    unit: Unit::Bytes,
                    default: None,
                    min: "1 B",
                    max: "1000 GB",
                    section: "RFC 7567 section 1",
                    doc: "most bytes waiting; no limit in bytes where it is not given",
                },
            ],
        },
        limits: |w| {
            let p = fifo_params(w);
            Limits {
                packets: p.packets,
                bytes: p.bytes,
            }
        },
        build: |w, _, _| AnyQdisc::Fifo(fifo::Fifo::new(fifo_params(w))),
    },
    Spec {
        entry: Entry {
            name: "codel",
            summary: "controlled delay: drops or marks at the head once the delay has stood above a target",
            sources: &["RFC 8289, Controlled Delay Active Queue Management"],
            parameters: &[
                TARGET,
                INTERVAL,
                Parameter {
                    name: "limit",
                    unit: Unit::Packets,
                    default: Some("1000"),
                    min: "1",
                    max: "100000000",
                    section: "Linux codel",
                    doc: "most packets waiting",
                },
                Parameter {
                    name: "ecn",
                    unit: Unit::Switch,
                    default: Some("false"),
                    min: "false",
                    max: "true",
                    section: "RFC 8289 section 5",
                    doc: "mark ECN-capable packets instead of dropping them",
                },
                Parameter {
                    name: "mtu",
                    unit: Unit::Bytes,
                    default: Some("1500 B"),
                    min: "0",
                    max: "1 MB",
                    section: "RFC 8289 section 5.3",
                    doc: "a backlog of this or less is never acted upon",
                },
            ],
        },
        limits: |w| Limits {
            packets: Some(w.count("limit")),
            bytes: None,
        },
        build: |w, _, _| AnyQdisc::Codel(codel::Codel::new(codel_params(w))),
    },
    Spec {
        entry: Entry {
            name: "fq_codel",
            summary: "a queue with CoDel for each flow, served in turn by bytes, new flows first",
            sources: &[
                "RFC 8290, The Flow Queue CoDel Packet Scheduler and Active Queue Management Algorithm",
                "RFC 8289, Controlled Delay Active Queue Management",
            ],
            parameters: &[
                TARGET,
                INTERVAL,
                Parameter {
                    name: "limit",
                    unit: Unit::Packets,
                    default: Some("10240"),
                    min: "1",
                    max: "100000000",
                    section: "RFC 8290 section 5.2.3",
                    doc: "most packets waiting in all queues together",
                },
                QUANTUM,
                FLOWS,
                Parameter {
                    name: "ecn",
                    unit: Unit::Switch,
                    default: Some("true"),
                    min: "false",
                    max: "true",
                    section: "RFC 8290 section 5.2.6",
                    doc: "mark ECN-capable packets instead of dropping them",
                },
                Parameter {
                    name: "memory",
                    unit: Unit::Bytes,
                    default: Some("32 MiB"),
                    min: "1 kB",
                    max: "1000 GB",
                    section: "Linux fq_codel",
                    doc: "most bytes waiting in all queues together",
                },
            ],
        },
        limits: |w| Limits {
            packets: Some(w.count("limit")),
            bytes: Some(w.bytes("memory")),
        },
        build: |w, streams, name| {
            let perturbation = streams
                .stream(&format!("link/{name}/fq_codel/perturbation"))
                .next_u64();
            AnyQdisc::FqCodel(Box::new(fq_codel::FqCodel::new(
                fq_codel_params(w),
                perturbation,
            )))
        },
    },
    random::PIE,
    random::RED,
    fair::DUALPI2,
    classes::PRIO,
    classes::DRR,
    random::PI,
    random::BLUE,
    fair::FQ_PIE,
    fair::CAKE,
    classes::TBF,
    random::SFB,
];

fn fifo_params(w: &Words) -> fifo::Params {
    match (w.count_if_set("packets"), w.bytes_if_set("bytes")) {
        (None, None) => fifo::Params::default(),
        (packets, bytes) => fifo::Params { packets, bytes },
    }
}

fn codel_params(w: &Words) -> codel::Params {
    codel::Params {
        target: w.duration("target"),
        interval: w.duration("interval"),
        limit: w.count("limit"),
        ecn: w.switch("ecn"),
        mtu: w.bytes("mtu"),
    }
}

fn fq_codel_params(w: &Words) -> fq_codel::Params {
    fq_codel::Params {
        target: w.duration("target"),
        interval: w.duration("interval"),
        limit: w.count("limit"),
        quantum: w.bytes("quantum"),
        flows: w.count("flows") as u32,
        ecn: w.switch("ecn"),
        memory: w.bytes("memory"),
    }
}

worded! {
    /// A discipline with its parameters, written as `codel:target=5ms,interval=100ms`.
    QdiscSpec, "qdisc", QDISCS.iter().map(|s| &s.entry)
}

impl QdiscSpec {
    pub fn name(&self) -> &'static str {
        self.words().entry().name
    }
    pub fn limits(&self) -> Limits {
        (self.spec().limits)(self.words())
    }
    /// `name` is where the discipline stands, such as `up`: its random streams are named after it.
    pub fn build(&self, streams: &Streams, name: &str) -> AnyQdisc {
        (self.spec().build)(self.words(), streams, name)
    }
    /// Of values that are in range each by itself, why they cannot be together.
    pub fn contradiction(&self) -> Option<String> {
        if self.name() != "red" {
            return None;
        }
        let red::Params { min, max, .. } = random::red_params(self.words());
        (min >= max).then(|| format!("min = {min} is not below max = {max}"))
    }
    fn spec(&self) -> &'static Spec {
        QDISCS
            .iter()
            .find(|s| s.entry.name == self.name())
            .expect("it was read from this table")
    }
}

/// Any discipline, without a virtual call for ours; `Custom` is the plug for others.
pub enum AnyQdisc {
    Fifo(fifo::Fifo),
    Codel(codel::Codel),
    FqCodel(Box<fq_codel::FqCodel>),
    Pie(Box<pie::Pie>),
    Red(Box<red::Red>),
    DualPi2(Box<dualpi2::DualPi2>),
    Prio(Box<prio::Prio>),
    Drr(Box<drr::Drr>),
    Pi(Box<pi::Pi>),
    Blue(Box<blue::Blue>),
    FqPie(Box<fq_pie::FqPie>),
    Cake(Box<cake::Cake>),
    Tbf(Box<tbf::Tbf>),
    Sfb(Box<sfb::Sfb>),
    Custom(Box<dyn Qdisc + Send>),
}

macro_rules! each {
    ($any:expr, $q:ident => $call:expr) => {
        match $any {
            AnyQdisc::Fifo($q) => $call,
            AnyQdisc::Codel($q) => $call,
            AnyQdisc::FqCodel($q) => $call,
            AnyQdisc::Pie($q) => $call,
            AnyQdisc::Red($q) => $call,
            AnyQdisc::DualPi2($q) => $call,
            AnyQdisc::Prio($q) => $call,
            AnyQdisc::Drr($q) => $call,
            AnyQdisc::Pi($q) => $call,
            AnyQdisc::Blue($q) => $call,
            AnyQdisc::FqPie($q) => $call,
            AnyQdisc::Cake($q) => $call,
            AnyQdisc::Tbf($q) => $call,
            AnyQdisc::Sfb($q) => $call,
            AnyQdisc::Custom($q) => $call,
        }
    };
}

impl Qdisc for AnyQdisc {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        each!(self, q => q.enqueue(now, packet, fates))
    }
    fn dequeue(&mut self, now: Time, fates: &mut Fates) -> Option<Packet> {
        each!(self, q => q.dequeue(now, fates))
    }
    fn backlog(&self) -> Backlog {
        each!(self, q => q.backlog())
    }
    fn next_wakeup(&self) -> Option<Time> {
        each!(self, q => q.next_wakeup())
    }
    fn probability(&self) -> Option<f64> {
        each!(self, q => q.probability())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<QdiscSpec, String> {
        text.parse()
            .map_err(|e: crate::words::WordsError| e.to_string())
    }

    #[test]
    fn the_table_states_the_defaults_that_the_disciplines_have() {
        assert_eq!(
            fifo_params(read("fifo").unwrap().words()),
            fifo::Params::default()
        );
        assert_eq!(
            codel_params(read("codel").unwrap().words()),
            codel::Params::default()
        );
        assert_eq!(
            fq_codel_params(read("fq_codel").unwrap().words()),
            fq_codel::Params::default()
        );
        assert_eq!(
            random::red_params(read("red").unwrap().words()),
            red::Params::default()
        );
        assert_eq!(
            fair::dualpi2_params(read("dualpi2").unwrap().words()),
            dualpi2::Params::default()
        );
        assert_eq!(
            classes::prio_params(read("prio").unwrap().words()),
            prio::Params::default()
        );
        assert_eq!(
            classes::drr_params(read("drr").unwrap().words()),
            drr::Params::default()
        );
        assert_eq!(
            random::pi_params(read("pi").unwrap().words()),
            pi::Params::default()
        );
        assert_eq!(
            random::blue_params(read("blue").unwrap().words()),
            blue::Params::default()
        );
        assert_eq!(
            fair::fq_pie_params(read("fq_pie").unwrap().words()),
            fq_pie::Params::default()
        );
        assert_eq!(
            fair::cake_params(read("cake").unwrap().words()),
            cake::Params::default()
        );
        assert_eq!(
            classes::tbf_params(read("tbf").unwrap().words()),
            tbf::Params::default()
        );
        assert_eq!(
            random::sfb_params(read("sfb").unwrap().words()),
            sfb::Params::default()
        );
        assert_eq!(
            random::pie_params(read("pie").unwrap().words()),
            pie::Params::default()
        );
        assert_eq!(
            random::pie_params(read("pie:variant=2013").unwrap().words()),
            pie::Params::of(pie::Variant::Paper2013)
        );
    }

    #[test]
    fn what_people_write_is_read_and_printed_shortly() {
        for (text, printed) in [
            ("fifo", "fifo"),
            ("fifo:packets=51", "fifo:packets=51"),
            ("fifo:bytes=37625", "fifo:bytes=37.625 kB"),
            ("codel:target=5ms,interval=100ms", "codel"),
            (
                " codel : target = 15 ms , ecn = yes ",
                "codel:target=15 ms,ecn=true",
            ),
        ] {
            let spec = read(text).unwrap();
            assert_eq!(spec.to_string(), printed);
            assert_eq!(read(printed).unwrap(), spec);
        }
        assert_eq!(
            read("fifo:bytes=37625 B").unwrap().limits(),
            Limits {
                packets: None,
                bytes: Some(Bytes::new(37_625))
            }
        );
    }

    #[test]
    fn a_wrong_word_is_answered_with_the_known_ones_and_the_nearest() {
        let known: Vec<&str> = QDISCS.iter().map(|s| s.entry.name).collect();
        assert_eq!(
            read("codle").unwrap_err(),
            format!(
                "no qdisc \"codle\". Known: {}. Did you mean \"codel\"?",
                known.join(", ")
            )
        );
        assert_eq!(
            read("codel:traget=5ms").unwrap_err(),
            "qdisc \"codel\" has no parameter \"traget\". Known: target, interval, limit, ecn, mtu. Did you mean \"target\"?"
        );
        assert_eq!(
            read("codel:target=5").unwrap_err().split(':').next(),
            Some("qdisc \"codel\"")
        );
        assert!(
            read("codel:target=0ns")
                .unwrap_err()
                .contains("out of range: from 1 us to 10 s")
        );
        assert!(read("fifo:packets=0").unwrap_err().contains("out of range"));
        assert!(
            read("codel:ecn")
                .unwrap_err()
                .contains("not of the form key=value")
        );
        assert!(
            read("codel:target=1ms,target=2ms")
                .unwrap_err()
                .contains("given twice")
        );
        assert!(read("").unwrap_err().starts_with("no qdisc \"\""));
    }
}
