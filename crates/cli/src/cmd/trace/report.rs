//! What `tailback trace --json` prints, and what the table shows a part of.

use super::queues;
use measure::track::{Blame, BurstKind, Cause, Connection, Detail, Half, Totals, Traffic};
use serde::Serialize;

/// What `--json` prints. Times in UNIX ns, sizes in bytes, rates in bit/s; what is not known is null.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) notes: Vec<String>,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) duration_s: f64,
    pub(super) tcp: Share,
    pub(super) udp: Share,
    pub(super) other_packets: u64,
    pub(super) cut_packets: u64,
    pub(super) first_fragments: u64,
    pub(super) later_fragments: u64,
    /// Connections closed before their end because too many were open at once.
    pub(super) evicted_connections: u64,
    /// Finished connections that are not listed because there were too many.
    pub(super) connections_not_listed: u64,
    pub(super) losses: Losses,
    /// Waiting in queues beyond the point of capture, gravest first.
    pub(super) findings: Vec<analysis::answer::Finding>,
    pub(super) connections: Vec<ConnectionReport>,
    pub(super) udp_conversations: Vec<Conversation>,
}

#[derive(Serialize)]
pub(super) struct Share {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

#[derive(Serialize)]
pub(super) struct Conversation {
    pub(super) a: String,
    pub(super) b: String,
    pub(super) first_ns: i64,
    pub(super) duration_s: f64,
    pub(super) packets: [u64; 2],
    pub(super) payload_bytes: [u64; 2],
}

#[derive(Serialize)]
pub(super) struct ConnectionReport {
    pub(super) a: String,
    pub(super) b: String,
    pub(super) first_ns: i64,
    pub(super) duration_s: f64,
    pub(super) reset: bool,
    /// Captured twice and left out.
    pub(super) copies: u64,
    /// Packets that the capture holds out of order of time.
    pub(super) backward: u64,
    pub(super) directions: [Direction; 2],
}

#[derive(Serialize)]
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
    /// By cause; see the book's page on traces.
    pub(super) retransmissions: Vec<(&'static str, u64)>,
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
    pub(super) initial_window_bytes: u64,
    pub(super) mss_bytes: Option<u16>,
    pub(super) window_scale: Option<u8>,
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
    /// Null where fewer than five packets carried data.
    pub(super) detail: Option<DetailReport>,
}

/// What losses are put down to (the thesis's table 6.6.1); see the book's page on traces.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Losses {
    pub(super) data_packets: u64,
    /// Sent again, and not needlessly.
    pub(super) lost: u64,
    pub(super) in_breaks: u64,
    pub(super) in_bursts_of_offload: u64,
    pub(super) in_bursts_after_acks: u64,
    pub(super) in_bursts_of_the_application: u64,
    pub(super) in_bursts_of_unknown_kind: u64,
    pub(super) neither: u64,
    pub(super) time_in_breaks_s: f64,
}

impl Losses {
    pub(super) fn of(h: &Half) -> Losses {
        let e = h.events();
        let mut l = Losses {
            data_packets: h.counts.data_packets,
            time_in_breaks_s: seconds(e.time_in_breaks_ns()),
            ..Losses::default()
        };
        for blame in e.losses() {
            l.lost += 1;
            *match blame {
                Blame::Break => &mut l.in_breaks,
                Blame::Burst(BurstKind::Offload) => &mut l.in_bursts_of_offload,
                Blame::Burst(BurstKind::Acks) => &mut l.in_bursts_after_acks,
                Blame::Burst(BurstKind::Application) => &mut l.in_bursts_of_the_application,
                Blame::Burst(BurstKind::Unknown) => &mut l.in_bursts_of_unknown_kind,
                Blame::Neither => &mut l.neither,
            } += 1;
        }
        l
    }

    pub(super) fn add(&mut self, o: &Losses) {
        self.data_packets += o.data_packets;
        self.lost += o.lost;
        self.in_breaks += o.in_breaks;
        self.in_bursts_of_offload += o.in_bursts_of_offload;
        self.in_bursts_after_acks += o.in_bursts_after_acks;
        self.in_bursts_of_the_application += o.in_bursts_of_the_application;
        self.in_bursts_of_unknown_kind += o.in_bursts_of_unknown_kind;
        self.neither += o.neither;
        self.time_in_breaks_s += o.time_in_breaks_s;
    }
}

/// What is kept of directions with more than a handful of data packets.
#[derive(Serialize)]
pub(super) struct DetailReport {
    pub(super) rtt_by_timestamps: Times,
    /// Time in which its application had nothing to send, in which the receiver's window was full, and the rest.
    pub(super) sender_limited_s: f64,
    pub(super) receiver_limited_s: f64,
    pub(super) network_limited_s: f64,
    /// Packets closer together than this are one burst.
    pub(super) burst_gap_us: f64,
    /// Bytes let go at once, single packets included.
    pub(super) burst_p50_bytes: Option<u64>,
    pub(super) burst_p95_bytes: Option<u64>,
    pub(super) burst_max_bytes: u64,
    /// Bursts of more than two segments, by kind.
    pub(super) bursts: Vec<(&'static str, u64)>,
    /// ACKs for it that came in rows of three and more, in less than a third of the time in which the data was sent.
    pub(super) bunched_acks: u64,
    pub(super) ack_bunches: u64,
    /// Highest rate acknowledged over a tenth of a second or a round trip.
    pub(super) peak_bps: Option<f64>,
    pub(super) course: CourseReport,
}

#[derive(Serialize)]
pub(super) struct Times {
    pub(super) count: u64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p95_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
}

impl Times {
    fn of(q: &measure::track::Quantiles) -> Times {
        let at = |p| q.at(p).map(|ns| ns as f64 / 1e6);
        Times {
            count: q.count(),
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
        }
    }
}

/// Course over time, one entry a bin.
#[derive(Serialize)]
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
    fn new(h: &Half, d: &Detail) -> DetailReport {
        let limited = d.limited();
        let rtt = h.rtt.mean_ns().unwrap_or(0.0) as i64;
        let c = &d.course;
        let rate = |bytes: u64| 8.0 * bytes as f64 / seconds(c.width_ns);
        let ms = |ns: i64, n: u32| (n > 0).then_some(ns as f64 / 1e6);
        DetailReport {
            rtt_by_timestamps: Times::of(&d.rtt_by_timestamps),
            sender_limited_s: seconds(limited.sender_ns),
            receiver_limited_s: seconds(limited.receiver_ns),
            network_limited_s: seconds(limited.network_ns),
            burst_gap_us: d.bursts.gap_ns() as f64 / 1e3,
            burst_p50_bytes: d.bursts.sizes.at(0.5),
            burst_p95_bytes: d.bursts.sizes.at(0.95),
            burst_max_bytes: d.bursts.largest,
            bursts: BurstKind::ALL
                .iter()
                .map(|k| (k.word(), d.bursts.count[*k as usize]))
                .collect(),
            bunched_acks: d.bunches.acks,
            ack_bunches: d.bunches.rows,
            peak_bps: d.peak_bps(rtt),
            course: CourseReport {
                begin_ns: c.begin_ns,
                interval_ns: c.width_ns,
                goodput_bps: c.bins.iter().map(|b| rate(b.fresh_bytes)).collect(),
                again_bps: c.bins.iter().map(|b| rate(b.again_bytes)).collect(),
                in_flight_max_bytes: c.bins.iter().map(|b| b.in_flight_max).collect(),
                rtt_min_ms: c
                    .bins
                    .iter()
                    .map(|b| ms(b.rtt_min_ns, b.rtt_count))
                    .collect(),
                rtt_mean_ms: c
                    .bins
                    .iter()
                    .map(|b| ms(b.rtt_sum_ns / i64::from(b.rtt_count.max(1)), b.rtt_count))
                    .collect(),
                rtt_max_ms: c
                    .bins
                    .iter()
                    .map(|b| ms(b.rtt_max_ns, b.rtt_count))
                    .collect(),
            },
        }
    }
}

#[derive(Serialize)]
pub(super) struct Break {
    pub(super) begin_ns: i64,
    /// Between the transmissions of the segment that was lost again and again.
    pub(super) waits_s: Vec<f64>,
    pub(super) resumed_ns: Option<i64>,
}

impl Report {
    /// Everything, of the connections chosen.
    pub(super) fn new<'a>(
        traffic: &'a Traffic,
        notes: Vec<String>,
        connections: impl Iterator<Item = &'a Connection>,
    ) -> Report {
        let t: &Totals = &traffic.totals;
        let mut losses = Losses::default();
        for c in &traffic.connections {
            c.halves.iter().for_each(|h| losses.add(&Losses::of(h)));
        }
        Report {
            notes,
            packets: t.packets,
            bytes: t.bytes,
            duration_s: t
                .first_ns
                .zip(t.last_ns)
                .map_or(0.0, |(a, b)| seconds(b - a)),
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
            first_fragments: t.first_fragments,
            later_fragments: t.later_fragments,
            evicted_connections: t.evicted,
            connections_not_listed: t.not_listed,
            losses,
            findings: queues::findings(traffic),
            connections: connections.map(ConnectionReport::new).collect(),
            udp_conversations: traffic
                .conversations
                .iter()
                .map(|c| Conversation {
                    a: c.a.to_string(),
                    b: c.b.to_string(),
                    first_ns: c.first_ns,
                    duration_s: seconds(c.last_ns - c.first_ns),
                    packets: c.packets,
                    payload_bytes: c.bytes,
                })
                .collect(),
        }
    }
}

impl ConnectionReport {
    fn new(c: &Connection) -> ConnectionReport {
        let duration = c.last_ns - c.first_ns;
        let [there, back] = &c.halves;
        ConnectionReport {
            a: c.a.to_string(),
            b: c.b.to_string(),
            first_ns: c.first_ns,
            duration_s: seconds(duration),
            reset: c.reset,
            copies: c.duplicates,
            backward: c.backward,
            directions: [
                Direction::new(there, c.a.to_string(), c.b.to_string(), duration),
                Direction::new(back, c.b.to_string(), c.a.to_string(), duration),
            ],
        }
    }
}

impl Direction {
    fn new(h: &Half, from: String, to: String, duration: i64) -> Direction {
        let (c, e) = (&h.counts, h.events());
        let timed = h.rtt.count > 0;
        let rtt_at = |p| h.rtt_at(p).map(|ns| ns as f64 / 1e6);
        Direction {
            from,
            to,
            packets: c.packets,
            data_packets: c.data_packets,
            data_bytes: c.data_bytes,
            unique_bytes: c.unique_bytes,
            goodput_bps: (duration > 0).then(|| 8.0 * c.unique_bytes as f64 / seconds(duration)),
            retransmitted_packets: c.retransmitted_packets,
            retransmitted_bytes: c.retransmitted_bytes,
            out_of_order: e.out_of_order,
            upstream_repairs: e.upstream_repairs,
            reordered: e.reordered,
            retransmissions: Cause::ALL
                .iter()
                .map(|cause| (cause.word(), e.by_cause[*cause as usize]))
                .collect(),
            needless_retransmissions: e.needless,
            rtt_samples: h.rtt.count,
            rtt_min_ms: timed.then_some(h.rtt.min_ns as f64 / 1e6),
            rtt_mean_ms: h.rtt.mean_ns().map(|m| m / 1e6),
            rtt_max_ms: timed.then_some(h.rtt.max_ns as f64 / 1e6),
            rtt_p50_ms: rtt_at(0.5),
            rtt_p95_ms: rtt_at(0.95),
            rtt_p99_ms: rtt_at(0.99),
            duplicate_acks: e.duplicate_acks,
            triple_duplicate_acks: e.triple_duplicate_acks,
            sack_acks: e.sack_acks,
            dsacks: e.dsacks,
            zero_windows: e.zero_windows,
            window_probes: e.window_probes,
            keep_alives: e.keep_alives,
            outstanding_max_bytes: c.outstanding_max,
            in_flight_max_bytes: c.in_flight_max,
            initial_window_bytes: c.initial_window,
            mss_bytes: h.mss,
            window_scale: h.window_scale,
            sack_permitted: h.sack_permitted,
            timestamps: h.timestamps,
            longest_silence_ms: c.longest_silence_ns as f64 / 1e6,
            ce_packets: e.ce,
            ece_packets: e.ece,
            missing_bytes: h.missing_bytes,
            acks_of_unseen: e.acks_of_unseen,
            losses: Losses::of(h),
            detail: h.detail().map(|d| DetailReport::new(h, d)),
            breaks: e
                .breaks
                .iter()
                .map(|b| Break {
                    begin_ns: b.sent_ns[0],
                    waits_s: b.sent_ns.windows(2).map(|w| seconds(w[1] - w[0])).collect(),
                    resumed_ns: b.resumed_ns,
                })
                .collect(),
        }
    }
}

pub(super) fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}
