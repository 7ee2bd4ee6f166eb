//! What `tailback trace --json` prints, and what the table shows a part of.

use measure::track::{Cause, Connection, Half, Totals, Traffic};
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
    pub(super) breaks: Vec<Break>,
}

#[derive(Serialize)]
pub(super) struct Break {
    pub(super) begin_ns: i64,
    /// Between the transmissions of the segment that was lost again and again.
    pub(super) waits_s: Vec<f64>,
    pub(super) resumed_ns: Option<i64>,
}

impl Report {
    pub(super) fn new(traffic: Traffic, notes: Vec<String>) -> Report {
        let t: &Totals = &traffic.totals;
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
            connections: traffic
                .connections
                .iter()
                .map(ConnectionReport::new)
                .collect(),
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
        let c = &h.counts;
        let timed = h.rtt.count > 0;
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
            out_of_order: c.out_of_order,
            upstream_repairs: c.upstream_repairs,
            reordered: c.reordered,
            retransmissions: Cause::ALL
                .iter()
                .map(|cause| {
                    let n = h
                        .retransmissions
                        .iter()
                        .filter(|r| r.cause == *cause)
                        .count();
                    (cause.word(), n as u64)
                })
                .collect(),
            needless_retransmissions: h.retransmissions.iter().filter(|r| r.needless).count()
                as u64,
            rtt_samples: h.rtt.count,
            rtt_min_ms: timed.then_some(h.rtt.min_ns as f64 / 1e6),
            rtt_mean_ms: h.rtt.mean_ns().map(|m| m / 1e6),
            rtt_max_ms: timed.then_some(h.rtt.max_ns as f64 / 1e6),
            duplicate_acks: c.duplicate_acks,
            triple_duplicate_acks: c.triple_duplicate_acks,
            sack_acks: c.sack_acks,
            dsacks: c.dsacks,
            zero_windows: c.zero_windows,
            window_probes: c.window_probes,
            keep_alives: c.keep_alives,
            outstanding_max_bytes: c.outstanding_max,
            in_flight_max_bytes: c.in_flight_max,
            initial_window_bytes: c.initial_window,
            mss_bytes: h.mss,
            window_scale: h.window_scale,
            sack_permitted: h.sack_permitted,
            timestamps: h.timestamps,
            longest_silence_ms: c.longest_silence_ns as f64 / 1e6,
            ce_packets: c.ce,
            ece_packets: c.ece,
            missing_bytes: h.missing_bytes(),
            acks_of_unseen: c.acks_of_unseen,
            breaks: h
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
