//! Facts of a recording about a path: the hosts on it, and the round trips of each in each phase.

use super::by_size::Sample;
use base::record::Recording;
use std::collections::BTreeMap;

/// Time in which a load fills the queue, or a fifth of its phase if that is shorter, s.
const SETTLE_S: f64 = 3.0;
/// Distance above which rounds and probes of the session are not compared, ns.
const NEAR_NS: i64 = 500_000_000;

/// Name of the idle phase.
pub const IDLE: &str = "idle";

/// A phase, without the time in which its load settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
}

/// Hosts that answer for a hop.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
pub struct Who {
    /// Addresses that answered.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Reason why the path ends here, if it does.
    #[serde(default)]
    pub end: serde_json::Value,
}

impl Who {
    /// True if the server itself answered.
    pub fn is_server(&self) -> bool {
        self.end == "server"
    }
}

/// Named host that is asked too.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub struct Landmark {
    /// Name as the user wrote it.
    pub name: String,
    /// Address that it resolved to.
    pub address: String,
}

/// Round trips of one target in ms by number of the round; none if the answer never came.
pub type Series = BTreeMap<i64, (i64, Option<f64>)>;

/// Contents of a recording on a path.
pub struct Seen {
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// Hops; the first one is hop 1.
    pub hops: Vec<Who>,
    /// Address of the server.
    pub server: Option<String>,
    /// Address of the gateway.
    pub gateway: Option<String>,
    /// Further named hosts.
    pub landmarks: Vec<Landmark>,
    /// Reason why there is no ICMP echo, if there is none.
    pub no_echo: Option<String>,
    /// Details of the events about the budget.
    pub budget: Vec<String>,
    /// Rounds of packets of one size: begin, end, block and bytes.
    pub sized: Vec<(i64, i64, usize, u32)>,
    targets: BTreeMap<String, Series>,
    /// Round trips of the session, by send time.
    session: BTreeMap<i64, f64>,
}

impl Seen {
    /// Reads a recording.
    pub fn of(recording: &Recording) -> Seen {
        let mut seen = Seen {
            phases: phases(recording),
            hops: Vec::new(),
            server: None,
            gateway: None,
            landmarks: Vec::new(),
            no_echo: None,
            budget: Vec::new(),
            sized: sized(recording),
            targets: BTreeMap::new(),
            session: BTreeMap::new(),
        };
        let address = |detail: &str| {
            let json: serde_json::Value = serde_json::from_str(detail).ok()?;
            Some(json.get("address")?.as_str()?.to_string())
        };
        for e in recording.event.iter().filter(|e| &*e.kind == "path") {
            match &*e.subject {
                "server" => seen.server = address(&e.detail),
                "gateway" => seen.gateway = address(&e.detail),
                "no_echo" => seen.no_echo = Some(e.detail.to_string()),
                "landmark" => seen.landmarks.extend(serde_json::from_str(&e.detail).ok()),
                "budget" => seen.budget.push(e.detail.to_string()),
                hop => {
                    let number = hop.strip_prefix("hop").and_then(|n| n.parse().ok());
                    let who = serde_json::from_str(&e.detail).ok();
                    if let (Some(number), Some(who)) = (number, who)
                        && (1..=255).contains(&number)
                    {
                        let len = seen.hops.len().max(number);
                        seen.hops.resize(len, Who::default());
                        seen.hops[number - 1] = who;
                    }
                }
            }
        }
        for d in &recording.delay {
            let ms = d.rtt_ms();
            if let ("udp", Some(ms)) = (&*d.target, ms) {
                seen.session.insert(d.sent_ns, ms);
            }
            let series = seen.targets.entry(d.target.to_string()).or_default();
            series.insert(d.seq, (d.sent_ns, ms));
        }
        seen
    }

    /// Phase with this name.
    pub fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|p| p.name == name)
    }

    /// Probes of one target in one phase with their fates, in the order of sending.
    pub fn in_phase(&self, target: &str, phase: &Phase) -> Series {
        let all = self.targets.get(target).into_iter().flatten();
        all.filter(|(_, (sent, _))| (phase.from_ns..phase.to_ns).contains(sent))
            .map(|(seq, v)| (*seq, *v))
            .collect()
    }

    /// Round trips of the packets of several sizes to a hop.
    pub fn by_size(&self, hop: usize) -> Vec<Sample> {
        let series = self.targets.get(&format!("hop{hop}"));
        let rows = series.into_iter().flatten();
        let answered = rows.filter_map(|(_, (sent, ms))| Some((*sent, (*ms)?)));
        let sample = |(sent, ms)| {
            let round = self.sized.iter().find(|r| (r.0..r.1).contains(&sent))?;
            Some(Sample {
                block: round.2,
                bytes: round.3,
                ms,
            })
        };
        answered.filter_map(sample).collect()
    }

    /// Target that stands for the whole path: the session, or without one a kind of probe that the server answers.
    pub fn whole(&self) -> &'static str {
        let any = |target: &str| self.counts(target).1 > 0;
        match (any("udp"), any("icmp")) {
            (true, _) | (false, false) => "udp",
            (false, true) => "icmp",
        }
    }

    /// Round trips of the answered probes of a target in a phase, ms.
    pub fn answered(&self, target: &str, phase: &Phase) -> Vec<f64> {
        let series = self.in_phase(target, phase);
        series.into_values().filter_map(|v| v.1).collect()
    }

    /// Counts of probes sent and answered, discovery included.
    pub fn counts(&self, target: &str) -> (usize, usize) {
        let series = self.targets.get(target);
        let answered = |s: &Series| s.values().filter(|v| v.1.is_some()).count();
        series.map_or((0, 0), |s| (s.len(), answered(s)))
    }

    /// The session's round trip at the moments of a phase's rounds, between its probes before and after.
    pub fn session_at_rounds(&self, phase: &Phase) -> BTreeMap<i64, f64> {
        // All hops of a round are asked within milliseconds of each other.
        let mut rounds: BTreeMap<i64, i64> = BTreeMap::new();
        for hop in 1..=self.hops.len() {
            for (seq, (sent, _)) in self.in_phase(&format!("hop{hop}"), phase) {
                rounds.entry(seq).or_insert(sent);
            }
        }
        let at = |t: i64| {
            let before = self.session.range(..=t).next_back();
            let after = self.session.range(t..).next();
            let near = |(sent, _): &(&i64, &f64)| (*sent - t).abs() <= NEAR_NS;
            match (before.filter(near), after.filter(near)) {
                (Some((a, x)), Some((b, y))) if b > a => {
                    let share = (t - a) as f64 / (b - a) as f64;
                    Some(x * (1.0 - share) + y * share)
                }
                (Some((_, x)), _) | (_, Some((_, x))) => Some(*x),
                (None, None) => None,
            }
        };
        let found = rounds
            .into_iter()
            .filter_map(|(seq, t)| Some((seq, at(t)?)));
        found.collect()
    }

    /// Time of the first probe.
    pub fn began_ns(&self) -> i64 {
        let first = |s: &Series| s.values().map(|v| v.0).min();
        self.targets.values().filter_map(first).min().unwrap_or(0)
    }

    /// Round trips of a target: send time, s since the first probe of all, and ms.
    pub fn course(&self, target: &str) -> Vec<(f64, Option<f64>)> {
        let began = self.began_ns();
        let series = self.targets.get(target).into_iter().flatten();
        let mut all: Vec<_> = series
            .map(|(_, (sent, ms))| ((sent - began) as f64 * 1e-9, *ms))
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }
}

/// Rounds of one size, from the events before each.
fn sized(recording: &Recording) -> Vec<(i64, i64, usize, u32)> {
    #[derive(serde::Deserialize)]
    struct Round {
        block: usize,
        bytes: u32,
    }
    let path = recording.event.iter().filter(|e| &*e.kind == "path");
    let events: Vec<_> = path.filter(|e| e.subject.starts_with("sized")).collect();
    let ends = events.iter().skip(1).map(|e| e.t_ns).chain([i64::MAX]);
    let rounds = events.iter().zip(ends).filter_map(|(e, end)| {
        let Round { block, bytes } = serde_json::from_str(&e.detail).ok()?;
        (block < 1000).then_some((e.t_ns, end, block, bytes))
    });
    // The last round of a run that was cut short has no end.
    rounds.filter(|r| r.1 < i64::MAX).collect()
}

fn phases(recording: &Recording) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    let latest = recording.delay.iter().map(|d| d.sent_ns).max();
    for e in &recording.event {
        match &*e.kind {
            "phase" => phases.push(Phase {
                name: e.subject.to_string(),
                from_ns: e.t_ns,
                // Until it is said to be over: a run may have been cut short.
                to_ns: latest.unwrap_or(e.t_ns) + 1,
            }),
            "phase_end" => {
                if let Some(p) = phases.iter_mut().rev().find(|p| p.name == *e.subject) {
                    p.to_ns = e.t_ns;
                }
            }
            _ => {}
        }
    }
    for p in phases.iter_mut().filter(|p| p.name != IDLE) {
        let whole = (p.to_ns - p.from_ns) as f64;
        p.from_ns += (SETTLE_S * 1e9).min(whole / 5.0) as i64;
    }
    phases
}
