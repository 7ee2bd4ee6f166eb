//! Output of `tailback trace --json`; the table shows a part of it.

use super::expert::{self, Event, Expert};
use super::rows;
use analysis::answer::Finding;
use analysis::passive::Waiting;
use base::record;
use measure::track::{Blame, BurstKind, Cause, Connection, TUNNELS, Totals};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Output of `--json`. Times in UNIX ns, sizes in bytes, rates in bit/s; unknown values are null.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Report<C> {
    pub(super) notes: Vec<String>,
    /// Remarks in the capture file.
    pub(super) comments: Vec<Comment>,
    pub(super) duration_s: f64,
    #[serde(flatten)]
    pub(super) held: Held,
    pub(super) losses: Losses,
    /// Queues on either side of the point of capture, gravest first.
    pub(super) findings: Vec<Finding>,
    /// Waits of packets on their way to and from each host, the longest first.
    pub(super) waits: Vec<Waiting>,
    /// Kinds of problems, gravest first, with the first packet of each.
    pub(super) expert: Vec<Expert>,
    /// Connections, written one by one: all at once would take gigabytes.
    pub(super) connections: C,
    pub(super) udp_conversations: Vec<Conversation>,
}

/// List that is made while it is written.
pub(super) struct Each<F>(pub(super) F);

impl<F, I> Serialize for Each<F>
where
    F: Fn() -> I,
    I: Iterator,
    I::Item: Serialize,
{
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// A remark in a pcapng file.
#[derive(Clone, Serialize, schemars::JsonSchema)]
pub(super) struct Comment {
    /// Number of the packet that it is attached to, from 1; null for a remark on the whole file or an interface.
    pub(super) frame: Option<u64>,
    pub(super) text: String,
}

/// Contents of the capture as a whole; in a recording the event `capture`.
#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub(super) struct Held {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Times of the first and the last packet.
    pub(super) first_ns: Option<i64>,
    pub(super) last_ns: Option<i64>,
    pub(super) tcp: Share,
    pub(super) udp: Share,
    pub(super) other_packets: u64,
    pub(super) cut_packets: u64,
    /// Packets captured too short to hold all of TCP's options.
    #[serde(default)]
    pub(super) cut_options_packets: u64,
    pub(super) first_fragments: u64,
    pub(super) later_fragments: u64,
    /// Connections closed before their end because too many were open at once.
    pub(super) evicted_connections: u64,
    /// Finished connections that are not listed because there were too many.
    pub(super) connections_not_listed: u64,
    /// Packets that are not IP, or have an unknown link layer.
    #[serde(default)]
    pub(super) unread_packets: u64,
    /// Packets without a time.
    #[serde(default)]
    pub(super) untimed_packets: u64,
    /// Packets with a time before that of the packet ahead of them.
    #[serde(default)]
    pub(super) backward_packets: u64,
    #[serde(default)]
    pub(super) backward_most_ms: f64,
    /// Packets of tunnels by kind; their contents are not read.
    #[serde(default)]
    pub(super) tunnelled_packets: BTreeMap<String, u64>,
}

impl Held {
    pub(super) fn duration_s(&self) -> f64 {
        let lasts = self.first_ns.zip(self.last_ns).map_or(0, |(a, b)| b - a);
        seconds(lasts)
    }
}

impl From<&Totals> for Held {
    fn from(t: &Totals) -> Held {
        Held {
            packets: t.packets,
            bytes: t.bytes,
            first_ns: t.first_ns,
            last_ns: t.last_ns,
            tcp: Share {
                packets: t.tcp_packets,
                bytes: t.tcp_bytes,
            },
            udp: Share {
                packets: t.udp_packets,
                bytes: t.udp_bytes,
            },
            other_packets: t.other_packets,
            cut_packets: t.cut_packets,
            cut_options_packets: t.cut_options_packets,
            first_fragments: t.first_fragments,
            later_fragments: t.later_fragments,
            evicted_connections: t.evicted,
            connections_not_listed: t.not_listed,
            unread_packets: t.unread_packets,
            untimed_packets: t.untimed_packets,
            backward_packets: t.backward_packets,
            backward_most_ms: t.backward_most_ns as f64 / 1e6,
            tunnelled_packets: TUNNELS
                .iter()
                .zip(t.tunnelled_packets)
                .filter(|(_, n)| *n > 0)
                .map(|((name, _), n)| ((*name).to_owned(), n))
                .collect(),
        }
    }
}

#[derive(Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub(super) struct Share {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Serialize, schemars::JsonSchema)]
pub(super) struct Conversation {
    pub(super) a: String,
    pub(super) b: String,
    pub(super) first_ns: i64,
    pub(super) duration_s: f64,
    pub(super) packets: [u64; 2],
    pub(super) payload_bytes: [u64; 2],
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct ConnectionReport {
    pub(super) number: i64,
    pub(super) a: String,
    pub(super) b: String,
    pub(super) first_ns: i64,
    pub(super) duration_s: f64,
    pub(super) reset: bool,
    /// Packets that were captured twice, whose second copy is left out.
    pub(super) copies: u64,
    /// Packets that the network delivered twice, counted once.
    pub(super) doubled: u64,
    /// Packets that are out of time order in the capture.
    pub(super) backward: u64,
    pub(super) directions: [Direction; 2],
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Direction {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) packets: u64,
    pub(super) data_packets: u64,
    pub(super) data_bytes: u64,
    pub(super) unique_bytes: u64,
    /// Unique bytes over the connection's whole duration.
    pub(super) goodput_bps: Option<f64>,
    pub(super) retransmitted_packets: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) out_of_order: u64,
    pub(super) upstream_repairs: u64,
    pub(super) reordered: u64,
    /// Retransmissions by cause; see the book's page on traces.
    pub(super) retransmissions: [(&'static str, u64); 6],
    pub(super) needless_retransmissions: u64,
    pub(super) rtt_samples: u64,
    pub(super) rtt_min_ms: Option<f64>,
    pub(super) rtt_mean_ms: Option<f64>,
    pub(super) rtt_p50_ms: Option<f64>,
    pub(super) rtt_p95_ms: Option<f64>,
    pub(super) rtt_p99_ms: Option<f64>,
    pub(super) rtt_max_ms: Option<f64>,
    pub(super) duplicate_acks: u64,
    pub(super) triple_duplicate_acks: u64,
    pub(super) sack_acks: u64,
    pub(super) dsacks: u64,
    pub(super) zero_windows: u64,
    pub(super) window_probes: u64,
    pub(super) keep_alives: u64,
    pub(super) outstanding_max_bytes: u64,
    pub(super) in_flight_max_bytes: u64,
    /// Null if the connection's begin was not captured.
    pub(super) initial_window_bytes: Option<u64>,
    pub(super) mss_bytes: Option<i64>,
    pub(super) window_scale: Option<i64>,
    pub(super) sack_permitted: bool,
    pub(super) timestamps: bool,
    pub(super) longest_silence_ms: f64,
    pub(super) ce_packets: u64,
    pub(super) ece_packets: u64,
    /// Bytes that were acknowledged or numbered but are not in the capture.
    pub(super) missing_bytes: u64,
    pub(super) acks_of_unseen: u64,
    pub(super) losses: Losses,
    pub(super) breaks: Vec<Break>,
    /// Packets that show problems, in the order of the capture.
    pub(super) events: Vec<Event>,
    /// Null if fewer than five packets carried data.
    pub(super) detail: Option<DetailReport>,
}

/// Causes of losses (the thesis's table 6.6.1); see the book's page on traces.
#[derive(Clone, Copy, Default, Serialize, schemars::JsonSchema)]
pub(super) struct Losses {
    /// Packets with payload as they were on the wire: a super-segment counts as the packets that it is cut into.
    pub(super) data_packets: u64,
    /// Packets among them that were retransmitted, and not needlessly.
    pub(super) lost: u64,
    /// Packets among the lost ones that may have been sent again needlessly: no SACK block of the receiver was captured, so it
    /// could not say so; or others of the same repair were needless, or its ACK was not captured, and nothing shows that it was lost.
    pub(super) perhaps_needless: u64,
    pub(super) in_breaks: u64,
    pub(super) in_bursts_of_offload: u64,
    pub(super) in_bursts_after_acks: u64,
    pub(super) in_bursts_of_the_application: u64,
    pub(super) in_bursts_of_unknown_kind: u64,
    pub(super) neither: u64,
    pub(super) time_in_breaks_s: f64,
}

impl Losses {
    /// Losses of a direction of a connection.
    pub(super) fn of(c: &Connection, direction: usize) -> Losses {
        let h = &c.halves[direction];
        let e = h.events();
        let mut l = Losses {
            data_packets: h.wire_packets(),
            time_in_breaks_s: seconds(e.time_in_breaks_ns()),
            ..Losses::default()
        };
        let is_silent = c.halves[1 - direction].events().sack_acks == 0;
        for loss in e.losses() {
            let packets = h.segments(loss.bytes);
            l.lost += packets;
            if is_silent || loss.doubtful {
                l.perhaps_needless += packets;
            }
            *match loss.blame {
                Blame::Break => &mut l.in_breaks,
                Blame::Burst(BurstKind::Offload) => &mut l.in_bursts_of_offload,
                Blame::Burst(BurstKind::Acks) => &mut l.in_bursts_after_acks,
                Blame::Burst(BurstKind::Application) => &mut l.in_bursts_of_the_application,
                Blame::Burst(BurstKind::Unknown) => &mut l.in_bursts_of_unknown_kind,
                Blame::Neither => &mut l.neither,
            } += packets;
        }
        l
    }

    /// Losses in the form of a recording.
    pub(super) fn recorded(r: &record::Connection) -> Losses {
        Losses {
            data_packets: count(r.wire_data_packets.unwrap_or(r.data_packets)),
            lost: count(r.lost_packets),
            perhaps_needless: count(r.lost_perhaps_packets.unwrap_or(0)),
            in_breaks: count(r.lost_in_breaks_packets),
            in_bursts_of_offload: count(r.lost_in_offload_bursts_packets),
            in_bursts_after_acks: count(r.lost_in_ack_bursts_packets),
            in_bursts_of_the_application: count(r.lost_in_application_bursts_packets),
            in_bursts_of_unknown_kind: count(r.lost_in_unknown_bursts_packets),
            neither: count(r.lost_otherwise_packets),
            time_in_breaks_s: seconds(r.breaks_ns),
        }
    }

    /// Number of losses, in words.
    pub(super) fn number(&self) -> String {
        let number = self.said(|n| n.to_string());
        match self.perhaps_needless {
            1.. if self.perhaps_needless >= self.lost => format!("at most {number}"),
            _ => number,
        }
    }

    /// Least and greatest number of losses as `print` writes them; the greatest alone if all may be needless.
    pub(super) fn said(&self, print: impl Fn(u64) -> String) -> String {
        let [least, most] =
            [self.lost.saturating_sub(self.perhaps_needless), self.lost].map(&print);
        match least == most || self.perhaps_needless >= self.lost {
            true => most,
            false => format!("{least} to {most}"),
        }
    }

    /// Losses by cause, in words.
    pub(super) fn shares(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("flow breaks", self.in_breaks),
            ("bursts of segmentation offload", self.in_bursts_of_offload),
            ("bursts that one ACK released", self.in_bursts_after_acks),
            (
                "bursts of the application",
                self.in_bursts_of_the_application,
            ),
            (
                "bursts of a kind that cannot be told",
                self.in_bursts_of_unknown_kind,
            ),
            ("neither", self.neither),
        ]
        .into_iter()
    }

    pub(super) fn add(&mut self, o: &Losses) {
        self.data_packets += o.data_packets;
        self.lost += o.lost;
        self.perhaps_needless += o.perhaps_needless;
        self.in_breaks += o.in_breaks;
        self.in_bursts_of_offload += o.in_bursts_of_offload;
        self.in_bursts_after_acks += o.in_bursts_after_acks;
        self.in_bursts_of_the_application += o.in_bursts_of_the_application;
        self.in_bursts_of_unknown_kind += o.in_bursts_of_unknown_kind;
        self.neither += o.neither;
        self.time_in_breaks_s += o.time_in_breaks_s;
    }
}

/// Details of directions with more than a handful of data packets.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct DetailReport {
    pub(super) rtt_by_timestamps: Times,
    /// Time in which its application had nothing to send. The time in which the receiver's window was full follows,
    /// then the rest. Those two are null if they cannot be told apart: the handshake was not captured with its options,
    /// which tell the window's scale, or the sender was far from the capture and has no timestamps.
    pub(super) sender_limited_s: f64,
    pub(super) receiver_limited_s: Option<f64>,
    pub(super) network_limited_s: Option<f64>,
    /// Both together, where they cannot be told apart, and the part of it in which the window was full for certain.
    pub(super) receiver_or_network_limited_s: Option<f64>,
    pub(super) receiver_limited_at_least_s: Option<f64>,
    /// Gap below which packets belong to one burst.
    pub(super) burst_gap_us: f64,
    /// Bytes sent at once, single packets included.
    pub(super) burst_p50_bytes: Option<u64>,
    pub(super) burst_p95_bytes: Option<u64>,
    pub(super) burst_max_bytes: u64,
    /// Bursts of more than two segments, by kind.
    pub(super) bursts: [(&'static str, u64); 4],
    /// ACKs for it that came in rows of three and more, in less than a third of the time in which the data was sent.
    pub(super) bunched_acks: u64,
    pub(super) ack_bunches: u64,
    /// Highest rate acknowledged over a tenth of a second or a round trip.
    pub(super) peak_bps: Option<f64>,
    pub(super) course: CourseReport,
}

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Times {
    pub(super) count: u64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p95_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
}

/// Course over time, one entry a bin.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct CourseReport {
    begin_ns: i64,
    interval_ns: i64,
    goodput_bps: Vec<f64>,
    again_bps: Vec<f64>,
    in_flight_max_bytes: Vec<u64>,
    rtt_min_ms: Vec<Option<f64>>,
    rtt_mean_ms: Vec<Option<f64>>,
    rtt_max_ms: Vec<Option<f64>>,
}

impl DetailReport {
    /// Builds the details; `None` if the direction carried too little.
    fn new(r: &record::Connection, course: &[record::Course]) -> Option<DetailReport> {
        let begin_ns = r.course_ns?;
        let width = course.first().map_or(1, |c| c.interval_ns.max(1));
        let rate = |bytes: i64| 8.0 * bytes as f64 / seconds(width);
        let spent = |ns: Option<i64>| seconds(ns.unwrap_or(0));
        let n = |n: Option<i64>| count(n.unwrap_or(0));
        // Intervals in which nothing happened have no row.
        let place = |c: &record::Course| usize::try_from((c.t_ns - begin_ns) / width).unwrap_or(0);
        let length = course.last().map_or(0, |c| place(c) + 1);
        let mut report = CourseReport {
            begin_ns,
            interval_ns: width,
            goodput_bps: vec![0.0; length],
            again_bps: vec![0.0; length],
            in_flight_max_bytes: vec![0; length],
            rtt_min_ms: vec![None; length],
            rtt_mean_ms: vec![None; length],
            rtt_max_ms: vec![None; length],
        };
        for c in course {
            let i = place(c);
            report.goodput_bps[i] = rate(c.fresh_bytes);
            report.again_bps[i] = rate(c.again_bytes);
            report.in_flight_max_bytes[i] = count(c.in_flight_max_bytes);
            report.rtt_min_ms[i] = ms(c.rtt_min_ns);
            report.rtt_mean_ms[i] = ms(c.rtt_mean_ns);
            report.rtt_max_ms[i] = ms(c.rtt_max_ns);
        }
        Some(DetailReport {
            rtt_by_timestamps: Times {
                count: n(r.stamped_samples),
                p50_ms: ms(r.stamped_p50_ns),
                p95_ms: ms(r.stamped_p95_ns),
                p99_ms: ms(r.stamped_p99_ns),
            },
            sender_limited_s: spent(r.sender_limited_ns),
            receiver_limited_s: r.receiver_limited_ns.map(seconds),
            network_limited_s: (r.receiver_limited_ns).map(|_| spent(r.network_limited_ns)),
            receiver_or_network_limited_s: match r.receiver_limited_ns {
                Some(_) => None,
                None => Some(spent(r.receiver_limited_least_ns) + spent(r.network_limited_ns)),
            },
            receiver_limited_at_least_s: r.receiver_limited_least_ns.map(seconds),
            burst_gap_us: r.burst_gap_ns.unwrap_or(0) as f64 / 1e3,
            burst_p50_bytes: r.burst_p50_bytes.map(count),
            burst_p95_bytes: r.burst_p95_bytes.map(count),
            burst_max_bytes: n(r.burst_max_bytes),
            bursts: [
                (BurstKind::Offload, r.offload_bursts),
                (BurstKind::Acks, r.ack_bursts),
                (BurstKind::Application, r.application_bursts),
                (BurstKind::Unknown, r.unknown_bursts),
            ]
            .map(|(kind, bursts)| (kind.word(), n(bursts))),
            bunched_acks: n(r.bunched_acks),
            ack_bunches: n(r.ack_bunches),
            peak_bps: r.peak_bps,
            course: report,
        })
    }
}

#[derive(Clone, Serialize, schemars::JsonSchema)]
pub(super) struct Break {
    pub(super) begin_ns: i64,
    /// Times between the transmissions of the segment that was lost repeatedly.
    pub(super) waits_s: Vec<f64>,
    /// Numbers of these transmissions in the capture, from 1.
    pub(super) frames: Vec<u32>,
    pub(super) resumed_ns: Option<i64>,
}

/// Break of a flow as the event of a recording holds it.
#[derive(Serialize, Deserialize)]
pub(super) struct BreakTimes {
    /// Times of the segment's transmissions, the first one included.
    pub(super) sent_ns: Vec<i64>,
    /// Numbers of these transmissions in the capture, from 1.
    #[serde(default)]
    pub(super) frames: Vec<u32>,
    pub(super) resumed_ns: Option<i64>,
}

impl From<&BreakTimes> for Break {
    fn from(b: &BreakTimes) -> Break {
        Break {
            begin_ns: b.sent_ns.first().copied().unwrap_or(0),
            waits_s: b.sent_ns.windows(2).map(|w| seconds(w[1] - w[0])).collect(),
            frames: b.frames.clone(),
            resumed_ns: b.resumed_ns,
        }
    }
}

impl From<record::Conversation> for Conversation {
    fn from(c: record::Conversation) -> Conversation {
        Conversation {
            a: c.source.to_string(),
            b: c.destination.to_string(),
            first_ns: c.first_ns,
            duration_s: seconds(c.last_ns - c.first_ns),
            packets: [c.sent_packets, c.returned_packets].map(count),
            payload_bytes: [c.sent_bytes, c.returned_bytes].map(count),
        }
    }
}

/// A direction as a recording holds it.
#[derive(Clone)]
pub(super) struct Recorded {
    pub(super) row: Box<record::Connection>,
    pub(super) course: Vec<record::Course>,
    pub(super) breaks: Vec<Break>,
    pub(super) events: Vec<Event>,
}

impl Recorded {
    pub(super) fn of(c: &Connection, direction: usize) -> Recorded {
        let half = &c.halves[direction];
        Recorded {
            row: Box::new(rows::connection(c, direction)),
            course: rows::course(rows::flow(c.number, direction), half).collect(),
            breaks: rows::breaks(half).map(|b| Break::from(&b)).collect(),
            events: expert::events(half),
        }
    }
}

impl ConnectionReport {
    pub(super) fn of(c: &Connection) -> ConnectionReport {
        ConnectionReport::new([0, 1].map(|d| Recorded::of(c, d)))
    }

    /// Connection from the data of its first end and of its second.
    pub(super) fn new(halves: [Recorded; 2]) -> ConnectionReport {
        let r = &halves[0].row;
        ConnectionReport {
            number: r.flow / 2,
            a: r.source.to_string(),
            b: r.destination.to_string(),
            first_ns: r.first_ns,
            duration_s: seconds(r.last_ns - r.first_ns),
            reset: r.reset,
            copies: count(r.copied_packets),
            doubled: count(r.doubled_packets.unwrap_or(0)),
            backward: count(r.backward_packets),
            directions: halves.map(Direction::new),
        }
    }
}

impl Direction {
    pub(super) fn of(c: &Connection, direction: usize) -> Direction {
        Direction::new(Recorded::of(c, direction))
    }

    fn new(half: Recorded) -> Direction {
        let r = &*half.row;
        let duration = r.last_ns - r.first_ns;
        let bits = 8.0 * r.unique_bytes as f64;
        Direction {
            from: r.source.to_string(),
            to: r.destination.to_string(),
            packets: count(r.sent_packets),
            data_packets: count(r.data_packets),
            data_bytes: count(r.data_bytes),
            unique_bytes: count(r.unique_bytes),
            goodput_bps: (duration > 0).then(|| bits / seconds(duration)),
            retransmitted_packets: count(r.retransmitted_packets),
            retransmitted_bytes: count(r.retransmitted_bytes),
            out_of_order: count(r.out_of_order_packets),
            upstream_repairs: count(r.upstream_repair_packets),
            reordered: count(r.reordered_packets),
            retransmissions: again(r).map(|(cause, n)| (cause.word(), count(n))),
            needless_retransmissions: count(r.needless_packets),
            rtt_samples: count(r.rtt_samples),
            rtt_min_ms: ms(r.rtt_min_ns),
            rtt_mean_ms: r.rtt_mean_ns.map(|m| m / 1e6),
            rtt_p50_ms: ms(r.rtt_p50_ns),
            rtt_p95_ms: ms(r.rtt_p95_ns),
            rtt_p99_ms: ms(r.rtt_p99_ns),
            rtt_max_ms: ms(r.rtt_max_ns),
            duplicate_acks: count(r.duplicate_acks),
            triple_duplicate_acks: count(r.triple_duplicate_acks),
            sack_acks: count(r.sack_acks),
            dsacks: count(r.dsacks),
            zero_windows: count(r.zero_windows),
            window_probes: count(r.window_probes),
            keep_alives: count(r.keep_alives),
            outstanding_max_bytes: count(r.outstanding_max_bytes),
            in_flight_max_bytes: count(r.in_flight_max_bytes),
            initial_window_bytes: r.initial_window_bytes.map(count),
            mss_bytes: r.mss_bytes,
            window_scale: r.window_scale,
            sack_permitted: r.sack_permitted,
            timestamps: r.timestamps,
            longest_silence_ms: r.silence_max_ns as f64 / 1e6,
            ce_packets: count(r.ce_packets),
            ece_packets: count(r.ece_packets),
            missing_bytes: count(r.missing_bytes),
            acks_of_unseen: count(r.acks_of_unseen),
            losses: Losses::recorded(r),
            detail: DetailReport::new(r, &half.course),
            breaks: half.breaks,
            events: half.events,
        }
    }
}

/// Retransmissions by cause.
pub(super) fn again(r: &record::Connection) -> [(Cause, i64); 6] {
    let n = [
        r.again_timeout_packets,
        r.again_fast_packets,
        r.again_sack_packets,
        r.again_recovery_packets,
        r.again_tail_probe_packets,
        r.again_unknown_packets,
    ];
    std::array::from_fn(|i| (Cause::ALL[i], n[i]))
}

fn count(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

fn ms(ns: Option<i64>) -> Option<f64> {
    ns.map(|ns| ns as f64 / 1e6)
}

pub(super) fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_that_may_be_needless_are_a_range() {
        let said = |lost, perhaps_needless| {
            let losses = Losses {
                lost,
                perhaps_needless,
                ..Losses::default()
            };
            losses.number()
        };
        assert_eq!(said(76, 0), "76");
        assert_eq!(said(76, 6), "70 to 76");
        assert_eq!(said(5, 5), "at most 5");
        assert_eq!(said(0, 0), "0");
    }
}
