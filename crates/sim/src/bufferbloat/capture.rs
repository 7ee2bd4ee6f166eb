//! Capture of the uploads' packets in virtual time, as rows: what `live` and the analysis of captures make of a real one.
//!
//! **Deviations.** Only uploads, seen at the near host; causes of retransmissions are unknown.

use super::network::{FAR, NEAR};
use super::world::World;
use base::Time;
use base::record::{Connection, Segment as SegmentRow};
use std::collections::BTreeMap;

const PORT: u16 = 7_117;
const FIRST_PORT: u16 = 45_000;
/// Flag ACK of TCP.
const ACK: i64 = 16;

/// Upload whose packets are captured.
#[derive(Default)]
struct Captured {
    first_ns: i64,
    last_ns: i64,
    packets: i64,
    data_packets: i64,
    data_bytes: i64,
    unique_bytes: i64,
    again_packets: i64,
    /// End of each segment in flight: when it left, and true if it has left again.
    flying: BTreeMap<u64, (Time, bool)>,
    highest: u64,
    rtts: Vec<i64>,
}

/// Uploads by the number of their transfer.
#[derive(Default)]
pub(super) struct Capture {
    uploads: BTreeMap<usize, Captured>,
    packets: u64,
}

impl World {
    /// Starts the capture.
    pub fn start_capture(&mut self) {
        self.capture = Some(Capture::default());
    }

    /// A segment of an upload leaves the near host.
    pub fn capture_data(&mut self, i: usize, seq: u64, len: u32) {
        let (now, now_ns) = (self.now, self.unix_ns());
        let Some(capture) = &mut self.capture else {
            return;
        };
        capture.packets += 1;
        let captured = capture.uploads.entry(i).or_insert_with(|| Captured {
            first_ns: now_ns,
            ..Captured::default()
        });
        captured.last_ns = now_ns;
        captured.packets += 1;
        if len == 0 {
            return;
        }
        let end = seq + u64::from(len);
        captured.data_packets += 1;
        captured.data_bytes += i64::from(len);
        let again = end <= captured.highest;
        captured.again_packets += i64::from(again);
        if !again {
            captured.unique_bytes += (end - captured.highest.max(seq)) as i64;
            captured.highest = end;
        }
        captured.flying.insert(end, (now, again));
    }

    /// An ACK of an upload reaches the near host. Karn's rule: only segments that left once have a round trip.
    pub fn capture_ack(&mut self, i: usize, ack: u64) {
        let (now, now_ns) = (self.now, self.unix_ns());
        let Some(capture) = &mut self.capture else {
            return;
        };
        capture.packets += 1;
        let Some(captured) = capture.uploads.get_mut(&i) else {
            return;
        };
        captured.last_ns = now_ns;
        let rest = captured.flying.split_off(&(ack + 1));
        let acked = std::mem::replace(&mut captured.flying, rest);
        let latest = acked.last_key_value().map(|(_, sent)| *sent);
        let rtt = latest.filter(|(_, again)| !again);
        let rtt = rtt.map(|(left, _)| now.saturating_since(left).as_nanos() as i64);
        captured.rtts.extend(rtt);
        self.rec.segment.push(SegmentRow {
            t_ns: now_ns,
            flow: 2 * i as i64 + 1,
            flags: ACK,
            position_bytes: None,
            size_bytes: 0,
            fresh_bytes: None,
            in_flight_bytes: None,
            acked_bytes: Some(ack as i64),
            window_bytes: None,
            rtt_ns: rtt,
            sack_from_bytes: None,
            sack_to_bytes: None,
        });
    }

    /// Ends the capture, writes its connections and gives the number of packets.
    pub fn stop_capture(&mut self) -> u64 {
        let Some(capture) = self.capture.take() else {
            return 0;
        };
        for (i, captured) in &capture.uploads {
            let row = connection(*i, captured);
            self.rec.connection.push(row);
        }
        capture.packets
    }
}

fn connection(i: usize, c: &Captured) -> Connection {
    let mut sorted = c.rtts.clone();
    sorted.sort_unstable();
    let at = |share: f64| {
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied()
    };
    let near = format!("{NEAR}:{}", FIRST_PORT + i as u16);
    let far = format!("{}:{PORT}", FAR[0]);
    Connection {
        first_ns: c.first_ns,
        last_ns: c.last_ns,
        flow: 2 * i as i64,
        source: near.as_str().into(),
        destination: far.as_str().into(),
        reset: true,
        copied_packets: 0,
        backward_packets: 0,
        sent_packets: c.packets,
        data_packets: c.data_packets,
        data_bytes: c.data_bytes,
        unique_bytes: c.unique_bytes,
        retransmitted_packets: c.again_packets,
        retransmitted_bytes: c.data_bytes - c.unique_bytes,
        out_of_order_packets: 0,
        upstream_repair_packets: 0,
        reordered_packets: 0,
        again_timeout_packets: 0,
        again_fast_packets: 0,
        again_sack_packets: 0,
        again_recovery_packets: 0,
        again_tail_probe_packets: 0,
        again_unknown_packets: c.again_packets,
        needless_packets: 0,
        rtt_samples: c.rtts.len() as i64,
        rtt_min_ns: sorted.first().copied(),
        rtt_mean_ns: None,
        rtt_p50_ns: at(0.5),
        rtt_p95_ns: at(0.95),
        rtt_p99_ns: at(0.99),
        rtt_max_ns: sorted.last().copied(),
        duplicate_acks: 0,
        triple_duplicate_acks: 0,
        sack_acks: 0,
        dsacks: 0,
        zero_windows: 0,
        window_probes: 0,
        keep_alives: 0,
        acks_of_unseen: 0,
        outstanding_max_bytes: 0,
        in_flight_max_bytes: 0,
        initial_window_bytes: None,
        mss_bytes: None,
        window_scale: None,
        sack_permitted: true,
        timestamps: true,
        silence_max_ns: 0,
        ce_packets: 0,
        ece_packets: 0,
        missing_bytes: 0,
        lost_packets: c.again_packets,
        lost_in_breaks_packets: 0,
        lost_in_offload_bursts_packets: 0,
        lost_in_ack_bursts_packets: 0,
        lost_in_application_bursts_packets: 0,
        lost_in_unknown_bursts_packets: c.again_packets,
        lost_otherwise_packets: 0,
        lost_perhaps_packets: Some(0),
        breaks_ns: 0,
        rtt_before_ns: None,
        stamped_samples: None,
        stamped_p50_ns: None,
        stamped_p95_ns: None,
        stamped_p99_ns: None,
        sender_limited_ns: None,
        receiver_limited_ns: None,
        network_limited_ns: None,
        burst_gap_ns: None,
        burst_p50_bytes: None,
        burst_p95_bytes: None,
        burst_max_bytes: None,
        offload_bursts: None,
        ack_bursts: None,
        application_bursts: None,
        unknown_bursts: None,
        bunched_acks: None,
        ack_bunches: None,
        peak_bps: None,
        course_ns: None,
        data_clock_error_ns: None,
        answer_clock_error_ns: None,
        wire_data_packets: None,
        doubled_packets: None,
        receiver_limited_least_ns: None,
    }
}
