//! Disciplines that a twin is tried with, each with the one parameter that is fitted to the recording.

use analysis::answer::Discipline;
use link::qdisc::registry::QdiscSpec;

/// Observation that a parameter is fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Level of the full queue, which waits reach again and again.
    Top,
    /// Median of the probes' waits.
    Median,
    /// Median of the waits of the load's own packets.
    InFlow,
}

/// Scale of a link's queue, from which parameters start.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Rate of the link, bit/s.
    pub bps: f64,
    /// Full packet, bytes.
    pub packet_bytes: f64,
    /// Level of the full queue, ms.
    pub top_ms: f64,
    /// Median wait of the probes, ms.
    pub median_ms: f64,
    /// Median wait of the load's own packets, ms.
    pub in_flow_ms: f64,
}

impl Scale {
    fn packets(&self, ms: f64) -> f64 {
        ms * self.bps / 8e3 / self.packet_bytes
    }
}

/// Discipline that a twin is tried with.
pub struct Candidate {
    /// Name in the table of disciplines.
    pub name: &'static str,
    /// Unit in which a plain queue is counted; empty for others.
    pub counted: &'static str,
    /// Kind, as the analysis tells it.
    pub kind: Discipline,
    /// Observation that its parameter is fitted to.
    pub by: By,
    start: fn(&Scale) -> f64,
    range: (f64, f64),
    text: fn(f64) -> String,
}

/// All candidates, the simplest first. SRED is none: with the few flows of a test its law drops about one packet in ten
/// thousand, so that it is drop-tail.
pub const CANDIDATES: &[Candidate] = &[
    Candidate {
        name: "fifo",
        counted: "bytes",
        kind: Discipline::DropTail,
        by: By::Top,
        start: |s| s.top_ms * s.bps / 8e3,
        range: (1500.0, 1e10),
        text: |x| format!("fifo:bytes={x:.0} B"),
    },
    // A limit of whole full packets has no room for a small one beside them.
    Candidate {
        name: "fifo",
        counted: "bytes",
        kind: Discipline::DropTail,
        by: By::Top,
        start: |s| s.top_ms * s.bps / 8e3,
        range: (1500.0, 1e10),
        text: |x| {
            format!(
                "fifo:bytes={:.0} B",
                (x / 1500.0 + 0.5).floor().max(1.0) * 1500.0
            )
        },
    },
    Candidate {
        name: "fifo",
        counted: "packets",
        kind: Discipline::DropTail,
        by: By::Top,
        start: |s| s.packets(s.top_ms),
        range: (1.0, 1e7),
        text: |x| format!("fifo:packets={x:.0}"),
    },
    Candidate {
        name: "codel",
        counted: "",
        kind: Discipline::Aqm,
        by: By::Median,
        start: |_| 5.0,
        range: (0.5, 200.0),
        text: |x| format!("codel:{}", paced(x)),
    },
    Candidate {
        name: "pie",
        counted: "",
        kind: Discipline::Aqm,
        by: By::Median,
        start: |s| s.median_ms.clamp(2.0, 100.0),
        range: (0.5, 500.0),
        text: |x| format!("pie:target={x:.3}ms"),
    },
    Candidate {
        name: "red",
        counted: "",
        kind: Discipline::Aqm,
        by: By::Median,
        start: |s| s.packets(s.median_ms) / 1.5,
        range: (2.0, 1e6),
        text: |x| {
            let min = x.round().max(2.0);
            format!(
                "red:min={min},max={},max_p=0.1,limit={}",
                3.0 * min,
                9.0 * min
            )
        },
    },
    Candidate {
        name: "pi",
        counted: "",
        kind: Discipline::Aqm,
        by: By::Median,
        start: |s| s.packets(s.median_ms),
        range: (2.0, 1e6),
        text: |x| {
            let reference = x.round().max(2.0);
            format!("pi:reference={reference},limit={}", 4.0 * reference)
        },
    },
    Candidate {
        name: "blue",
        counted: "",
        kind: Discipline::Aqm,
        by: By::Top,
        start: |s| s.packets(s.top_ms),
        range: (4.0, 1e6),
        text: |x| format!("blue:limit={:.0}", x.max(4.0)),
    },
    Candidate {
        name: "dualpi2",
        counted: "",
        kind: Discipline::Aqm,
        by: By::Median,
        start: |s| s.median_ms.clamp(2.0, 100.0),
        range: (0.5, 500.0),
        text: |x| format!("dualpi2:target={x:.3}ms"),
    },
    Candidate {
        name: "sfb",
        counted: "",
        kind: Discipline::Aqm,
        by: By::Median,
        start: |s| s.packets(s.median_ms),
        range: (2.0, 1e5),
        text: |x| {
            let bin = x.round().max(2.0);
            format!("sfb:bin_size={bin},limit={}", 10.0 * bin)
        },
    },
    Candidate {
        name: "fq_codel",
        counted: "",
        kind: Discipline::FairQueueingAqm,
        by: By::InFlow,
        start: |_| 5.0,
        range: (0.5, 200.0),
        text: |x| format!("fq_codel:{}", paced(x)),
    },
    Candidate {
        name: "cake",
        counted: "",
        kind: Discipline::FairQueueingAqm,
        by: By::InFlow,
        start: |_| 5.0,
        range: (0.5, 200.0),
        text: |x| format!("cake:{}", paced(x)),
    },
    Candidate {
        name: "fq_pie",
        counted: "",
        kind: Discipline::FairQueueingAqm,
        by: By::InFlow,
        start: |_| 15.0,
        range: (0.5, 500.0),
        text: |x| format!("fq_pie:target={x:.3}ms"),
    },
    Candidate {
        name: "fq_codel",
        counted: "packets",
        kind: Discipline::FairQueueing,
        by: By::InFlow,
        start: |s| s.packets(s.in_flow_ms),
        range: (4.0, 1e6),
        text: |x| format!("fq_codel:target=9 s,interval=90 s,limit={:.0}", x.max(4.0)),
    },
];

/// Target with CoDel's interval: the default, or fifteen times a longer target (RFC 8289 section 4.3: 5 to 10 %).
fn paced(target_ms: f64) -> String {
    format!(
        "target={target_ms:.3}ms,interval={:.3}ms",
        (15.0 * target_ms).max(100.0)
    )
}

impl Candidate {
    /// Value of the parameter to start from.
    pub fn starts_at(&self, scale: &Scale) -> f64 {
        self.bounded((self.start)(scale))
    }

    /// The parameter within its range.
    pub fn bounded(&self, x: f64) -> f64 {
        x.clamp(self.range.0, self.range.1)
    }

    /// Discipline with this value.
    pub fn queue(&self, x: f64) -> QdiscSpec {
        (self.text)(self.bounded(x))
            .parse()
            .expect("a value within the range of its candidate")
    }

    /// True if both are fair queueing with CoDel's law, whose variants differ in details.
    pub fn is_sibling_of(&self, other: &Candidate) -> bool {
        let family = |c: &Candidate| matches!(c.name, "fq_codel" | "cake");
        family(self) && family(other)
    }

    /// Name for people, with the unit of a plain queue's size.
    pub fn label(&self) -> String {
        match (self.kind, self.counted) {
            (Discipline::FairQueueing, _) => "fair queueing with tail drop".into(),
            (_, "") => self.name.into(),
            (_, counted) => format!("{} counted in {counted}", self.name),
        }
    }
}

/// Candidates that a verdict of the analysis leaves.
pub fn of_kind(kind: Discipline) -> Vec<&'static Candidate> {
    let all = CANDIDATES.iter();
    match kind {
        Discipline::CannotTell => all.collect(),
        // The limit of a queue of its own and its law show alike as long as the load is short.
        Discipline::FairQueueing | Discipline::FairQueueingAqm => all
            .filter(|c| {
                matches!(
                    c.kind,
                    Discipline::FairQueueing | Discipline::FairQueueingAqm
                )
            })
            .collect(),
        Discipline::Policer => Vec::new(),
        kind => all.filter(|c| c.kind == kind).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_is_a_discipline_of_the_table_over_its_whole_range() {
        for c in CANDIDATES {
            for x in [0.0, c.range.0, 7.3, 50.0, c.range.1, 1e12] {
                let spec = c.queue(x);
                assert_eq!(spec.name(), c.name);
                assert_eq!(spec.contradiction(), None);
            }
        }
    }
}
