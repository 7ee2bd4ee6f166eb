//! Notes of the experiment `l4s`.

use crate::flows::{PACKET, Passed, Ran};
use base::noted::Noted;
use base::sketch::Sketch;
use base::{Duration, Time};
use serde::{Deserialize, Serialize};

/// Sketch of waits in ns, to 1.6 %.
pub(super) type Waits = Sketch<5>;

/// Width of the bins of [`FlowSeen::bins`], ms.
pub(super) const BIN_MS: u64 = 100;

/// Phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Prague alone.
    Alone,
    /// CUBIC alone.
    Classic,
    /// Both, with a few unmarked datagrams.
    Together,
}

/// Datagrams of one codepoint from end to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Codepoint {
    /// TOS byte at departure.
    pub tos: u8,
    /// Datagrams sent.
    pub sent: u32,
    /// TOS byte at arrival with counts; null if the server's kernel does not tell.
    pub arrived: Vec<(Option<u8>, u32)>,
}

/// A flow in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSeen {
    /// Name: `l4s`, `classic` or `sparse`.
    pub name: String,
    /// TOS byte at departure.
    pub tos: u8,
    /// Datagrams sent.
    pub sent: u32,
    /// Datagrams that arrived at the server.
    pub arrived: u32,
    /// Datagrams that came back.
    pub returned: u32,
    /// Datagrams that count as lost.
    pub lost: u32,
    /// Datagrams that left this host more than 2 ms late.
    pub late: u32,
    /// Send time of the first marked datagram since the begin of the phase, ns.
    pub first_mark_ns: Option<u64>,
    /// Send time of the first lost datagram since the begin of the phase, ns.
    pub first_loss_ns: Option<u64>,
    /// Rate of whole IP packets after the start of the phase, bit/s.
    pub rate_bps: f64,
    /// Waits of unmarked datagrams, ns with counts; of a phase with several flows after its start only.
    pub unmarked: Vec<(u64, u64)>,
    /// Waits of datagrams that were marked with CE on the way.
    pub marked: Vec<(u64, u64)>,
    /// Mean wait in ms, and marks, of each 100 ms of the phase; null if nothing was sent.
    pub bins: Vec<Option<(f32, u32)>>,
}

/// Notes of a run of `l4s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum L4sNote {
    /// Reason why nothing, or not all, was tried.
    Untried {
        /// Reason in words.
        why: String,
    },
    /// Datagrams of each codepoint on the idle link.
    Codepoints {
        /// Codepoints in the order of their values.
        all: Vec<Codepoint>,
    },
    /// A phase.
    Phase {
        /// Which one.
        phase: Phase,
        /// Length, ns.
        lasted_ns: u64,
        /// Smallest round trip of the run, above which waits are counted, ns.
        base_ns: u64,
        /// Flows.
        flows: Vec<FlowSeen>,
    },
}

impl Noted for L4sNote {
    const KIND: &'static str = "l4s";
}

fn counts(waits: &Waits) -> Vec<(u64, u64)> {
    waits.counts().collect()
}

/// Sketch of stored counts.
pub(super) fn sketch(counts: &[(u64, u64)]) -> Waits {
    let mut all = Waits::default();
    for (value, times) in counts {
        all.add_many(*value, *times);
    }
    all
}

impl L4sNote {
    /// Note of a phase. Rates, and in a phase of several flows waits, count after its first `start`.
    pub(super) fn phase(phase: Phase, ran: &Ran, base: Duration, start: Duration) -> L4sNote {
        L4sNote::Phase {
            phase,
            lasted_ns: ran.lasted.as_nanos(),
            base_ns: base.as_nanos(),
            flows: ran
                .flows
                .iter()
                .map(|f| seen(f, ran, base, start))
                .collect(),
        }
    }
}

fn seen(flow: &Passed, ran: &Ran, base: Duration, start: Duration) -> FlowSeen {
    let since = |t: Time| t.saturating_since(ran.began);
    let (mut marked, mut unmarked) = (Waits::default(), Waits::default());
    let mut bins: Vec<(f64, u32, u32)> = Vec::new();
    let mut counted = 0u64;
    for sample in &flow.samples {
        let (at, wait) = (since(sample.sent), sample.rtt.saturating_sub(base));
        if at >= start || ran.flows.len() == 1 {
            let its = if sample.ce {
                &mut marked
            } else {
                &mut unmarked
            };
            its.add_span(wait);
        }
        counted += u64::from(at >= start);
        let bin = (at.as_nanos() / (BIN_MS * 1_000_000)) as usize;
        if bins.len() <= bin {
            bins.resize(bin + 1, (0.0, 0, 0));
        }
        let (sum, count, marks) = &mut bins[bin];
        *sum += wait.as_secs_f64() * 1e3;
        *count += 1;
        *marks += u32::from(sample.ce);
    }
    let first = |times: &mut dyn Iterator<Item = Time>| times.min().map(|t| since(t).as_nanos());
    let time = ran.lasted.saturating_sub(start).as_secs_f64();
    FlowSeen {
        name: flow.name.clone(),
        tos: flow.tos,
        sent: flow.sent,
        arrived: flow.arrived,
        returned: flow.samples.len() as u32,
        lost: flow.lost.len() as u32,
        late: flow.late,
        first_mark_ns: first(&mut flow.samples.iter().filter(|s| s.ce).map(|s| s.sent)),
        first_loss_ns: first(&mut flow.lost.iter().copied()),
        rate_bps: (counted * PACKET * 8) as f64 / time.max(1e-3),
        unmarked: counts(&unmarked),
        marked: counts(&marked),
        bins: bins
            .into_iter()
            .map(|(sum, n, marks)| (n > 0).then(|| ((sum / f64::from(n)) as f32, marks)))
            .collect(),
    }
}
