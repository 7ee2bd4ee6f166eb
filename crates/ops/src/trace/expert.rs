//! Expert list: kinds of problems by severity, each with its first packet; and all events of a direction.

use super::answer::{BreakTimes, again, seconds};
use super::rows;
use analysis::answer::Severity;
use base::print::significant;
use base::record;
use measure::track::{Connection, Half, Mark, MarkKind, Reordering, Retransmission};
use serde::Serialize;
use std::collections::BTreeMap;

/// Kinds of problems, gravest first.
const KINDS: [(&str, Severity, &str); 19] = [
    ("flow_break", Severity::Bad, "flow breaks"),
    ("timeout", Severity::Warning, "sent again after a time-out"),
    ("zero_window", Severity::Warning, "closed windows offered"),
    (
        "window_probe",
        Severity::Warning,
        "probes of a closed window",
    ),
    (
        "ack_of_unseen",
        Severity::Warning,
        "ACKs of data that the capture does not hold",
    ),
    ("other_syn", Severity::Warning, "second answers to one SYN"),
    (
        "unknown",
        Severity::Warning,
        "sent again for no reason that shows",
    ),
    (
        "fast",
        Severity::Note,
        "sent again after three duplicate ACKs",
    ),
    ("sack", Severity::Note, "sent again after SACK"),
    ("recovery", Severity::Note, "sent again in a recovery"),
    ("tail_probe", Severity::Note, "tail loss probes"),
    (
        "triple_duplicate_ack",
        Severity::Note,
        "third duplicate ACKs",
    ),
    (
        "upstream_repair",
        Severity::Note,
        "repairs of losses ahead of the capture",
    ),
    ("reordered", Severity::Note, "packets that were overtaken"),
    (
        "out_of_order",
        Severity::Note,
        "packets out of order, for no reason that shows",
    ),
    (
        "doubled",
        Severity::Note,
        "packets that the network delivered twice",
    ),
    ("needless", Severity::Note, "sent again needlessly"),
    ("keep_alive", Severity::Note, "keep-alives"),
    ("reset", Severity::Note, "connections reset"),
];

/// Kind of problem, counted over the whole capture.
#[derive(Clone, Serialize, schemars::JsonSchema)]
pub(super) struct Expert {
    pub(super) severity: Severity,
    pub(super) kind: &'static str,
    #[serde(skip)]
    pub(super) says: &'static str,
    pub(super) count: u64,
    /// Directions that it occurred in; for resets, connections.
    pub(super) directions: u64,
    /// Number of the first packet in the capture, from 1, and of its connection.
    pub(super) first_frame: Option<u32>,
    pub(super) first_connection: i64,
}

/// Collector of problems.
#[derive(Default)]
pub(super) struct Experts(BTreeMap<&'static str, Expert>);

impl Experts {
    fn add(&mut self, kind: &'static str, count: u64, connection: i64, frame: Option<u32>) {
        let Some((kind, severity, says)) = KINDS.iter().find(|k| k.0 == kind).copied() else {
            return;
        };
        if count == 0 {
            return;
        }
        let e = self.0.entry(kind).or_insert(Expert {
            severity,
            kind,
            says,
            count: 0,
            directions: 0,
            first_frame: None,
            first_connection: connection,
        });
        e.count += count;
        e.directions += 1;
        let earlier = frame.is_some_and(|f| e.first_frame.is_none_or(|first| f < first));
        if earlier {
            (e.first_frame, e.first_connection) = (frame, connection);
        }
    }

    pub(super) fn connection(&mut self, c: &Connection) {
        for (i, h) in c.halves.iter().enumerate() {
            // Most directions have nothing to tell.
            if h.events().is_quiet() {
                let reset = u64::from(c.reset && i == 0);
                self.add("reset", reset, i64::from(c.number), None);
                continue;
            }
            self.direction(&rows::connection(c, i), &events(h));
        }
    }

    /// Adds a direction with its events.
    pub(super) fn direction(&mut self, r: &record::Connection, events: &[Event]) {
        let n = |n: i64| u64::try_from(n).unwrap_or(0);
        let number = r.flow / 2;
        let mut seen: BTreeMap<&'static str, (u64, Option<u32>)> = BTreeMap::new();
        for event in events {
            let needless = event.needless == Some(true);
            for kind in [Some(event.kind), needless.then_some("needless")] {
                let Some(kind) = kind else { continue };
                let (count, first) = seen.entry(kind).or_default();
                *count += 1;
                *first = first.or(event.frame);
            }
        }
        let counted = |kind| seen.get(kind).map_or(0, |s| s.0);
        let whole = |count: i64| if r.flow % 2 == 0 { n(count) } else { 0 };
        let unknown = r.out_of_order_packets - r.upstream_repair_packets - r.reordered_packets;
        let counts = [
            ("flow_break", counted("flow_break")),
            ("zero_window", n(r.zero_windows)),
            ("window_probe", n(r.window_probes)),
            ("ack_of_unseen", n(r.acks_of_unseen)),
            ("other_syn", counted("other_syn")),
            ("triple_duplicate_ack", n(r.triple_duplicate_acks)),
            ("upstream_repair", n(r.upstream_repair_packets)),
            ("reordered", n(r.reordered_packets)),
            ("out_of_order", n(unknown)),
            ("doubled", counted("doubled")),
            ("needless", n(r.needless_packets)),
            ("keep_alive", n(r.keep_alives)),
            ("reset", whole(i64::from(r.reset))),
        ];
        let causes = again(r).map(|(cause, count)| (cause.word(), n(count)));
        for (kind, count) in counts.into_iter().chain(causes) {
            let first = seen.get(kind).and_then(|s| s.1);
            self.add(kind, count, number, first);
        }
    }

    /// Problems, gravest first.
    pub(super) fn list(&self) -> Vec<Expert> {
        let known = KINDS.iter().filter_map(|(kind, ..)| self.0.get(kind));
        known.cloned().collect()
    }
}

/// Packet that shows a problem.
#[derive(Clone, Serialize, schemars::JsonSchema)]
pub(super) struct Event {
    /// Number of the packet in the capture, from 1, as in Wireshark.
    pub(super) frame: Option<u32>,
    pub(super) t_ns: i64,
    pub(super) severity: Severity,
    pub(super) kind: &'static str,
    /// Position of a retransmission in its direction. Its bytes that were seen before, and the time and the packet of
    /// that, follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before_frame: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) needless: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) burst: Option<&'static str>,
}

fn numbered(frame: u32) -> Option<u32> {
    (frame > 0).then_some(frame)
}

impl Event {
    fn plain(frame: u32, t_ns: i64, kind: &'static str) -> Event {
        let known = KINDS.iter().find(|k| k.0 == kind);
        Event {
            frame: numbered(frame),
            t_ns,
            severity: known.map_or(Severity::Note, |k| k.1),
            kind,
            position: None,
            bytes: None,
            before_frame: None,
            before_ns: None,
            needless: None,
            burst: None,
        }
    }

    fn marked(m: &Mark) -> Event {
        Event::plain(m.frame, m.t_ns, mark_word(m.kind))
    }

    /// Event from the form that a recording holds; `None` for a kind that this version does not know.
    pub(super) fn of_mark(t_ns: i64, frame: u32, kind: &str) -> Option<Event> {
        let known = KINDS.iter().find(|k| k.0 == kind)?;
        Some(Event::plain(frame, t_ns, known.0))
    }

    pub(super) fn of_row(r: &record::Retransmission) -> Event {
        let number = |n: Option<i64>| n.and_then(|n| u32::try_from(n).ok());
        let size = |n: i64| u64::try_from(n).ok();
        Event {
            position: size(r.position_bytes),
            bytes: size(r.size_bytes),
            before_frame: number(r.before_frame),
            before_ns: r.before_ns,
            needless: Some(r.needless),
            burst: r.burst.map(record::Burst::word),
            ..Event::plain(number(r.frame).unwrap_or(0), r.t_ns, r.cause.word())
        }
    }

    fn again(r: &Retransmission) -> Event {
        Event {
            position: Some(r.position),
            bytes: Some(r.bytes),
            before_frame: numbered(r.before_frame),
            before_ns: r.before_ns,
            needless: Some(r.needless),
            burst: r.burst.map(measure::track::BurstKind::word),
            ..Event::plain(r.frame, r.t_ns, r.cause.word())
        }
    }

    pub(super) fn broken(b: &BreakTimes) -> Event {
        let frame = b.frames.first().copied().unwrap_or(0);
        Event::plain(frame, b.sent_ns.first().copied().unwrap_or(0), "flow_break")
    }

    /// Sentence for a reader of the packet.
    pub(super) fn says(&self) -> String {
        let what = match self.kind {
            "flow_break" => "last packet before a flow break",
            "timeout" => "sent again after a time-out",
            "fast" => "sent again after three duplicate ACKs",
            "sack" => "sent again after SACK told of later data",
            "recovery" => "sent again in a recovery",
            "tail_probe" => "sent again as a tail loss probe",
            "unknown" => "sent again for no reason that shows",
            "triple_duplicate_ack" => "third duplicate ACK",
            "zero_window" => "offers no window",
            "window_probe" => "asks whether the closed window has opened",
            "keep_alive" => "asks whether the other end lives",
            "ack_of_unseen" => "acknowledges data that the capture does not hold",
            "other_syn" => "second answer to one SYN, with another sequence number",
            "upstream_repair" => "repairs a loss ahead of the capture",
            "reordered" => "was overtaken on its way",
            "out_of_order" => "out of order: repaired ahead of the capture or overtaken",
            _ => "delivered a second time by the network",
        };
        let mut says = what.to_owned();
        if let (Some(bytes), Some(position)) = (self.bytes, self.position) {
            says += &format!(", {bytes} bytes from byte {position}");
        }
        if let (Some(frame), Some(before)) = (self.before_frame, self.before_ns) {
            let ago = significant(seconds(self.t_ns - before), 3);
            says += &format!(", sent {ago} s before in packet {frame}");
        }
        if let Some(burst) = self.burst {
            let burst = match burst {
                "offload" => "segmentation offload",
                "acks" => "one ACK",
                "application" => "the application",
                _ => "a kind that cannot be told",
            };
            says += &format!(", within a burst of {burst}");
        }
        if self.needless == Some(true) {
            says += "; needless, it had arrived";
        }
        says
    }
}

/// All events of a direction in the order of the capture.
pub(super) fn events(h: &Half) -> Vec<Event> {
    let e = h.events();
    let breaks: Vec<BreakTimes> = rows::breaks(h).collect();
    let mut all: Vec<Event> = e.retransmissions.iter().map(Event::again).collect();
    all.extend(e.marks.iter().map(Event::marked));
    all.extend(breaks.iter().map(Event::broken));
    in_order(&mut all);
    all
}

/// Puts events into the order of the capture.
pub(super) fn in_order(all: &mut [Event]) {
    all.sort_by_key(|e| (e.t_ns, e.frame, e.kind, e.position));
}

/// Word of a mark's kind.
pub(super) fn mark_word(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::OutOfOrder(Reordering::Repair) => "upstream_repair",
        MarkKind::OutOfOrder(Reordering::Reordered) => "reordered",
        MarkKind::OutOfOrder(Reordering::Unknown) => "out_of_order",
        MarkKind::TripleDuplicate => "triple_duplicate_ack",
        MarkKind::ZeroWindow => "zero_window",
        MarkKind::WindowProbe => "window_probe",
        MarkKind::KeepAlive => "keep_alive",
        MarkKind::AckOfUnseen => "ack_of_unseen",
        MarkKind::OtherSyn => "other_syn",
        MarkKind::Doubled => "doubled",
    }
}
