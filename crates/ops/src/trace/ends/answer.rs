//! JSON of two captures of one path.

use super::Ends;
use measure::ends::{Direction, FlowPair, Fragments, LostWhy, Syn, Way};
use serde::Serialize;
use stats::Figure;

/// Times are UNIX ns on the named clock, delays are in ms; an unknown value is null or gives the reason.
#[derive(Serialize, schemars::JsonSchema)]
pub struct EndsAnswer {
    pub notes: Vec<String>,
    pub near_packets: usize,
    pub far_packets: usize,
    pub near_captured_twice: u64,
    pub far_captured_twice: u64,
    pub near_only_flows: usize,
    pub far_only_flows: usize,
    /// Packets from before the other capture began or after it ended.
    pub outside_packets: u64,
    pub clock: Clock,
    pub up: WayAnswer,
    pub down: WayAnswer,
    pub flows: Vec<FlowAnswer>,
    pub lost: Vec<LostAnswer>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub struct Clock {
    /// Far clock minus near clock at the begin.
    pub offset_ms: Figure,
    pub drift_ppm: Figure,
    /// Sum of the quickest packet's delay up and the quickest packet's delay down.
    pub base_round_trip_ms: Option<f64>,
    /// Uncertainty of a wait.
    pub uncertainty_ms: Option<f64>,
    /// Further uncertainty if neither direction was free of waits for long, so that another drift is possible.
    pub bend_ms: Option<f64>,
    pub uneven: bool,
}

/// All flows together, in one direction.
#[derive(Serialize, Default, schemars::JsonSchema)]
pub struct WayAnswer {
    pub sent: u64,
    pub arrived: u64,
    pub lost: u64,
    pub lost_share: Option<Figure>,
    pub not_captured: u64,
    pub downstream_only: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub reordering_extent: u64,
    pub ambiguous: u64,
    pub repeated_after_loss: u64,
    pub repeated_after_arrival: u64,
    pub cut_or_joined: u64,
    /// Wait beyond the quickest packet of this direction.
    pub wait_p50_ms: Option<Figure>,
    pub wait_p95_ms: Option<Figure>,
    pub wait_p99_ms: Option<Figure>,
    pub wait_max_ms: Option<f64>,
    pub fragments: Option<FragmentsAnswer>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub struct FragmentsAnswer {
    pub datagrams: u64,
    pub whole: u64,
    /// Counts of first, second and later fragments.
    pub sent: [u64; 3],
    pub arrived: [u64; 3],
    pub lost_first_only: u64,
    pub lost_second_only: u64,
    pub lost_both: u64,
}

#[derive(Serialize, schemars::JsonSchema)]
pub struct FlowAnswer {
    pub protocol: u8,
    pub fragments: bool,
    /// Sender at the near end.
    pub from: String,
    pub to: String,
    /// Sender as seen at the far end, if it was changed on the path.
    pub far_from: Option<String>,
    pub far_to: Option<String>,
    pub up: DirectionAnswer,
    pub down: DirectionAnswer,
}

#[derive(Serialize, schemars::JsonSchema)]
pub struct DirectionAnswer {
    pub sent: u64,
    pub arrived: u64,
    pub lost: u64,
    pub not_captured: u64,
    pub downstream_only: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub ambiguous: u64,
    pub repeated_after_loss: u64,
    pub repeated_after_arrival: u64,
    /// Changes to packets, in words.
    pub changes: Vec<String>,
}

#[derive(Serialize, schemars::JsonSchema)]
pub struct LostAnswer {
    /// Time on the clock of the end that saw it: near for `up`, far for `down`.
    pub t_ns: i64,
    /// Number of the packet in the capture that saw it, from 1, as in Wireshark.
    pub frame: u32,
    pub way: &'static str,
    /// Number of the flow in `flows`.
    pub flow: u32,
    pub ip_bytes: u32,
    pub seq: u32,
    /// Reason: `lost`, or `not_captured` if the receiver had it.
    pub why: &'static str,
}

impl EndsAnswer {
    pub fn new(ends: &Ends) -> EndsAnswer {
        let m = &ends.matched;
        let clock = match &ends.clocks {
            Ok(c) => Clock {
                offset_ms: c.offset_ns().map(|v| v / 1e6),
                drift_ppm: c.drift_ppm(),
                base_round_trip_ms: c.base_round_trip_ns().map(|v| v / 1e6),
                uncertainty_ms: Some(c.uncertainty_ns() / 1e6),
                bend_ms: Some(c.bend_ns() / 1e6),
                uneven: c.uneven(),
            },
            Err(why) => Clock {
                offset_ms: Figure::cannot_tell(why),
                drift_ppm: Figure::cannot_tell(why),
                base_round_trip_ms: None,
                uncertainty_ms: None,
                bend_ms: None,
                uneven: false,
            },
        };
        EndsAnswer {
            notes: ends.notes.clone(),
            near_packets: ends.near_packets,
            far_packets: ends.far_packets,
            near_captured_twice: m.near_copies,
            far_captured_twice: m.far_copies,
            near_only_flows: m.near_only_flows,
            far_only_flows: m.far_only_flows,
            outside_packets: m.outside,
            clock,
            up: WayAnswer::new(ends, Way::Up),
            down: WayAnswer::new(ends, Way::Down),
            flows: m.flows.iter().map(FlowAnswer::new).collect(),
            lost: m
                .lost
                .iter()
                .map(|l| LostAnswer {
                    t_ns: l.t_ns,
                    frame: l.frame,
                    way: match l.way {
                        Way::Up => "up",
                        Way::Down => "down",
                    },
                    flow: l.flow,
                    ip_bytes: l.bytes,
                    seq: l.seq,
                    why: match l.why {
                        LostWhy::Here => "lost",
                        LostWhy::NotCaptured => "not_captured",
                    },
                })
                .collect(),
        }
    }
}

impl WayAnswer {
    fn new(ends: &Ends, way: Way) -> WayAnswer {
        let mut a = WayAnswer::default();
        for d in ends.matched.flows.iter().map(|f| f.way(way)) {
            a.sent += d.sent;
            a.arrived += d.arrived;
            a.lost += d.lost;
            a.not_captured += d.not_captured;
            a.downstream_only += d.downstream_only;
            a.duplicated += d.duplicated;
            a.reordered += d.reordered;
            a.reordering_extent = a.reordering_extent.max(d.reordering_extent);
            a.ambiguous += d.ambiguous;
            a.repeated_after_loss += d.repeated_after_loss;
            a.repeated_after_arrival += d.repeated_after_arrival;
            a.cut_or_joined += d.changes.cut_or_joined;
        }
        // What the downstream capture missed says nothing about the path.
        let judged = a.arrived + a.lost;
        a.lost_share = (judged > 0).then(|| stats::wilson(a.lost as f64, judged as f64));
        if let Ok(clocks) = &ends.clocks {
            let waits: Vec<f64> = ends
                .seen
                .iter()
                .filter(|s| s.up == (way == Way::Up))
                .map(|s| clocks.wait_ns(s).max(0.0) / 1e6)
                .collect();
            if !waits.is_empty() {
                a.wait_p50_ms = Some(stats::quantile_figure(&waits, 0.50));
                a.wait_p95_ms = Some(stats::quantile_figure(&waits, 0.95));
                a.wait_p99_ms = Some(stats::quantile_figure(&waits, 0.99));
                a.wait_max_ms = waits.iter().copied().reduce(f64::max);
            }
        }
        let f = &ends.matched.fragments[usize::from(way == Way::Down)];
        a.fragments = (f.datagrams > 0).then(|| FragmentsAnswer::new(f));
        a
    }
}

impl FragmentsAnswer {
    fn new(f: &Fragments) -> FragmentsAnswer {
        FragmentsAnswer {
            datagrams: f.datagrams,
            whole: f.whole,
            sent: f.sent,
            arrived: f.arrived,
            lost_first_only: f.lost_first_only,
            lost_second_only: f.lost_second_only,
            lost_both: f.lost_both,
        }
    }
}

impl FlowAnswer {
    fn new(f: &FlowPair) -> FlowAnswer {
        let changed = f.addresses_changed();
        FlowAnswer {
            protocol: f.protocol,
            fragments: f.pieces,
            from: f.near.0.to_string(),
            to: f.near.1.to_string(),
            far_from: changed.then(|| f.far.0.to_string()),
            far_to: changed.then(|| f.far.1.to_string()),
            up: DirectionAnswer::new(&f.up),
            down: DirectionAnswer::new(&f.down),
        }
    }
}

impl DirectionAnswer {
    fn new(d: &Direction) -> DirectionAnswer {
        DirectionAnswer {
            sent: d.sent,
            arrived: d.arrived,
            lost: d.lost,
            not_captured: d.not_captured,
            downstream_only: d.downstream_only,
            duplicated: d.duplicated,
            reordered: d.reordered,
            ambiguous: d.ambiguous,
            repeated_after_loss: d.repeated_after_loss,
            repeated_after_arrival: d.repeated_after_arrival,
            changes: changes(d),
        }
    }
}

/// Changes that the path made to the headers.
fn changes(d: &Direction) -> Vec<String> {
    let c = &d.changes;
    let mut out = Vec::new();
    let mut hops: Vec<(&i16, &u64)> = c.hops.iter().collect();
    hops.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    if let Some((most, _)) = hops.first() {
        if **most != 0 {
            out.push(format!("TTL {most} smaller"));
        }
        if hops.len() > 1 {
            out.push(format!(
                "TTL differs by {} values: the route changes",
                hops.len()
            ));
        }
    }
    let mut counted = |n: u64, what: &str| {
        if n > 0 {
            out.push(format!("{what} in {n} packets"));
        }
    };
    counted(c.ecn_marked, "congestion experienced set");
    counted(c.ecn_cleared, "ECN capability cleared");
    counted(c.dscp_changed, "DSCP changed");
    counted(c.identification_changed, "IP identification rewritten");
    counted(c.timestamp_changed, "TCP timestamp rewritten");
    counted(c.cut_or_joined, "segments cut or joined");
    if c.sequence_shift != 0 {
        out.push("sequence numbers rewritten".into());
    }
    if let Some((a, b)) = c.syn {
        out.extend(syn(a, b));
    }
    out
}

fn syn(a: Syn, b: Syn) -> Vec<String> {
    let mut out = Vec::new();
    if a.mss != b.mss {
        let word = |m: Option<u16>| m.map_or("none".to_string(), |m| m.to_string());
        out.push(format!("MSS {} became {}", word(a.mss), word(b.mss)));
    }
    if a.window_scale != b.window_scale {
        let word = |w: Option<u8>| w.map_or("none".to_string(), |w| w.to_string());
        out.push(format!(
            "window scale {} became {}",
            word(a.window_scale),
            word(b.window_scale)
        ));
    }
    for (name, before, after) in [
        ("SACK", a.sack_permitted, b.sack_permitted),
        ("timestamps", a.timestamps, b.timestamps),
    ] {
        if before != after {
            let what = if before { "taken out" } else { "put in" };
            out.push(format!("{name} {what}"));
        }
    }
    out
}
