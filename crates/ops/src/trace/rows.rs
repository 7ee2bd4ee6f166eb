//! Rows of a recording for a tracked connection.

use super::answer::{BreakTimes, Losses};
use base::record;
use base::record::{Event, Retransmission};
use measure::capture::frame::Frame;
use measure::track::{BurstKind, Cause, Connection, Conversation, Detail, Half};

/// Number of a direction within a recording.
pub fn flow(number: u32, direction: usize) -> i64 {
    2 * i64::from(number) + direction as i64
}

/// Both ends of a direction: the sender, then the other.
pub fn names(c: &Connection, direction: usize) -> (String, String) {
    let (a, b) = (c.a.to_string(), c.b.to_string());
    if direction == 0 { (a, b) } else { (b, a) }
}

fn int(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Quantile in whole units.
fn whole(n: Option<f64>) -> Option<i64> {
    n.map(|n| n.round() as i64)
}

pub fn connection(c: &Connection, direction: usize) -> record::Connection {
    let h = &c.halves[direction];
    let (n, e) = (&h.counts, h.events());
    let (source, destination) = names(c, direction);
    let l = Losses::of(c, direction);
    let timed = h.rtt.count > 0;
    let cause = |cause: Cause| int(e.by_cause[cause as usize]);
    let d = h.detail();
    let limited = d.map(Detail::limited);
    let told = c.windows_told(direction);
    let [data_ages, answer_ages] = d.map_or([None, None], Detail::ages);
    let stamped = |p| whole(d.and_then(|d| d.rtt_by_timestamps.quantile(p)));
    let bursts = |kind: BurstKind| d.map(|d| int(d.bursts.count[kind as usize]));
    record::Connection {
        first_ns: c.first_ns,
        last_ns: c.last_ns,
        flow: flow(c.number, direction),
        source: source.into(),
        destination: destination.into(),
        reset: c.reset,
        copied_packets: int(c.duplicates),
        backward_packets: int(c.backward),
        sent_packets: int(n.packets),
        data_packets: int(n.data_packets),
        data_bytes: int(n.data_bytes),
        unique_bytes: int(n.unique_bytes),
        retransmitted_packets: int(n.retransmitted_packets),
        retransmitted_bytes: int(n.retransmitted_bytes),
        out_of_order_packets: int(e.out_of_order),
        upstream_repair_packets: int(e.upstream_repairs),
        reordered_packets: int(e.reordered),
        again_timeout_packets: cause(Cause::Timeout),
        again_fast_packets: cause(Cause::Fast),
        again_sack_packets: cause(Cause::Sack),
        again_recovery_packets: cause(Cause::Recovery),
        again_tail_probe_packets: cause(Cause::TailProbe),
        again_unknown_packets: cause(Cause::Unknown),
        needless_packets: int(e.needless),
        rtt_samples: int(h.rtt.count),
        rtt_min_ns: timed.then_some(h.rtt.min_ns),
        rtt_mean_ns: h.rtt.mean_ns(),
        rtt_p50_ns: whole(h.rtt_at(0.5)),
        rtt_p95_ns: whole(h.rtt_at(0.95)),
        rtt_p99_ns: whole(h.rtt_at(0.99)),
        rtt_max_ns: timed.then_some(h.rtt.max_ns),
        duplicate_acks: int(e.duplicate_acks),
        triple_duplicate_acks: int(e.triple_duplicate_acks),
        sack_acks: int(e.sack_acks),
        dsacks: int(e.dsacks),
        zero_windows: int(e.zero_windows),
        window_probes: int(e.window_probes),
        keep_alives: int(e.keep_alives),
        acks_of_unseen: int(e.acks_of_unseen),
        outstanding_max_bytes: int(n.outstanding_max),
        in_flight_max_bytes: int(n.in_flight_max),
        initial_window_bytes: h.initial_window().map(int),
        mss_bytes: h.mss.map(i64::from),
        window_scale: h.window_scale.map(i64::from),
        sack_permitted: h.sack_permitted,
        timestamps: h.timestamps,
        silence_max_ns: n.longest_silence_ns,
        ce_packets: int(e.ce),
        ece_packets: int(e.ece),
        missing_bytes: int(h.missing_bytes),
        lost_packets: int(l.lost),
        lost_in_breaks_packets: int(l.in_breaks),
        lost_in_offload_bursts_packets: int(l.in_bursts_of_offload),
        lost_in_ack_bursts_packets: int(l.in_bursts_after_acks),
        lost_in_application_bursts_packets: int(l.in_bursts_of_the_application),
        lost_in_unknown_bursts_packets: int(l.in_bursts_of_unknown_kind),
        lost_otherwise_packets: int(l.neither),
        lost_perhaps_packets: Some(int(l.perhaps_needless)),
        breaks_ns: e.time_in_breaks_ns(),
        rtt_before_ns: d.and_then(|d| d.rtt_before_ns),
        stamped_samples: d.map(|d| int(d.rtt_by_timestamps.count())),
        stamped_p50_ns: stamped(0.5),
        stamped_p95_ns: stamped(0.95),
        stamped_p99_ns: stamped(0.99),
        sender_limited_ns: limited.map(|l| l.sender_ns),
        receiver_limited_ns: limited.filter(|_| told).map(|l| l.receiver_ns),
        network_limited_ns: limited.map(|l| l.network_ns),
        burst_gap_ns: d.map(|d| d.bursts.gap_ns()),
        burst_p50_bytes: d.and_then(|d| whole(d.bursts.sizes.quantile(0.5))),
        burst_p95_bytes: d.and_then(|d| whole(d.bursts.sizes.quantile(0.95))),
        burst_max_bytes: d.map(|d| int(d.bursts.largest)),
        offload_bursts: bursts(BurstKind::Offload),
        ack_bursts: bursts(BurstKind::Acks),
        application_bursts: bursts(BurstKind::Application),
        unknown_bursts: bursts(BurstKind::Unknown),
        bunched_acks: d.map(|d| int(d.bunches.acks)),
        ack_bunches: d.map(|d| int(d.bunches.rows)),
        peak_bps: h.peak_bps(),
        course_ns: d.map(|d| d.course.begin_ns),
        data_clock_error_ns: data_ages.map(|a| a.error_ns),
        answer_clock_error_ns: answer_ages.map(|a| a.error_ns),
        wire_data_packets: Some(int(h.wire_packets())),
        doubled_packets: Some(int(c.doubled)),
        receiver_limited_least_ns: limited.filter(|_| !told).map(|l| l.receiver_ns),
    }
}

/// Intervals in which something happened.
pub fn course(flow: i64, h: &Half) -> impl Iterator<Item = record::Course> + '_ {
    h.detail().into_iter().flat_map(move |d| {
        let c = &d.course;
        let ages = d.ages();
        let begin = |i: usize| c.begin_ns + i as i64 * c.width_ns;
        c.bins.iter().enumerate().filter_map(move |(i, b)| {
            let age = |which: usize| *ages[which].as_ref()?.bins.get(i)?;
            let timed = b.rtt_count > 0;
            let row = record::Course {
                t_ns: begin(i),
                interval_ns: c.width_ns,
                flow,
                fresh_bytes: int(b.fresh_bytes),
                again_bytes: int(b.again_bytes),
                acked_bytes: int(b.acked_bytes),
                in_flight_max_bytes: int(b.in_flight_max),
                rtt_samples: i64::from(b.rtt_count),
                rtt_min_ns: timed.then_some(b.rtt_min_ns),
                rtt_mean_ns: timed.then(|| b.rtt_sum_ns / i64::from(b.rtt_count)),
                rtt_max_ns: timed.then_some(b.rtt_max_ns),
                prompt_samples: Some(i64::from(b.prompt_count)),
                prompt_mean_ns: b.prompt_ns(),
                data_age_ns: age(0),
                answer_age_ns: age(1),
            };
            let aged = row.data_age_ns.is_some() || row.answer_age_ns.is_some();
            let happened = b.fresh_bytes | b.again_bytes | b.acked_bytes | b.in_flight_max;
            (happened > 0 || timed || b.prompt_count > 0 || aged || i == 0).then_some(row)
        })
    })
}

pub fn retransmissions(flow: i64, h: &Half) -> impl Iterator<Item = Retransmission> + '_ {
    h.events()
        .retransmissions
        .iter()
        .map(move |r| Retransmission {
            t_ns: r.t_ns,
            flow,
            before_ns: r.before_ns,
            position_bytes: int(r.position),
            size_bytes: int(r.bytes),
            cause: match r.cause {
                Cause::Timeout => record::Cause::Timeout,
                Cause::Fast => record::Cause::Fast,
                Cause::Sack => record::Cause::Sack,
                Cause::Recovery => record::Cause::Recovery,
                Cause::TailProbe => record::Cause::TailProbe,
                Cause::Unknown => record::Cause::Unknown,
            },
            needless: r.needless,
            frame: numbered(r.frame),
            before_frame: numbered(r.before_frame),
            burst: r.burst.map(|b| match b {
                BurstKind::Offload => record::Burst::Offload,
                BurstKind::Acks => record::Burst::Acks,
                BurstKind::Application => record::Burst::Application,
                BurstKind::Unknown => record::Burst::Unknown,
            }),
        })
}

/// Number of a packet, if it has one.
fn numbered(frame: u32) -> Option<i64> {
    (frame > 0).then_some(i64::from(frame))
}

pub fn breaks(h: &Half) -> impl Iterator<Item = BreakTimes> + '_ {
    h.events().breaks.iter().map(|b| BreakTimes {
        sent_ns: b.sent_ns.clone(),
        frames: b.frames.clone(),
        resumed_ns: b.resumed_ns,
    })
}

/// Kind of the event of a flow break: its subject is the number of the direction, its detail [`BreakTimes`] as JSON.
pub const FLOW_BREAK: &str = "flow_break";
/// Kind of the event of a packet that shows a problem: its subject is the number of the direction, its detail
/// [`MarkRow`] as JSON.
pub const MARK: &str = "mark";
/// Kind of the event of a remark in the file: its subject is the packet's number, or empty, its detail the text.
pub const COMMENT: &str = "comment";
/// Kind of the event on the contents of the capture: [`super::answer::Held`] as JSON.
pub const CAPTURE: &str = "capture";
/// Kind of the event of a note on the capture for readers of the figures.
pub const DAMAGE: &str = "damage";

pub fn event(t_ns: i64, kind: &str, subject: String, detail: String) -> Event {
    Event {
        t_ns,
        kind: kind.into(),
        subject: subject.into(),
        detail: detail.into(),
    }
}

/// Packet that shows a problem, as the event of a recording holds it.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct MarkRow {
    pub frame: u32,
    pub kind: String,
}

pub fn marks(flow: i64, h: &Half) -> impl Iterator<Item = Event> + '_ {
    h.events().marks.iter().map(move |m| {
        let row = MarkRow {
            frame: m.frame,
            kind: super::expert::mark_word(m.kind).to_owned(),
        };
        let detail = serde_json::to_string(&row).expect("a word and a number are plain data");
        event(m.t_ns, MARK, flow.to_string(), detail)
    })
}

pub fn break_event(flow: i64, b: &BreakTimes) -> Event {
    let detail = serde_json::to_string(b).expect("times are plain data");
    let begin = b.sent_ns.first().copied().unwrap_or(0);
    event(begin, FLOW_BREAK, flow.to_string(), detail)
}

pub fn conversation(c: &Conversation) -> record::Conversation {
    record::Conversation {
        first_ns: c.first_ns,
        last_ns: c.last_ns,
        source: c.a.to_string().into(),
        destination: c.b.to_string().into(),
        sent_packets: int(c.packets[0]),
        returned_packets: int(c.packets[1]),
        sent_bytes: int(c.bytes[0]),
        returned_bytes: int(c.bytes[1]),
    }
}

/// TCP header of a frame, if it was captured whole.
pub fn tcp<'f>(frame: Option<&'f Frame<'_>>) -> Option<&'f measure::capture::frame::Tcp<'f>> {
    match &frame?.transport {
        measure::capture::frame::Transport::Tcp(tcp) => Some(tcp),
        _ => None,
    }
}
