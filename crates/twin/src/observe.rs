//! Observations that a twin has to reproduce: waits, rates and losses of one direction in one phase of a test. The same
//! code reads the recording of the link and those of its twins, so an error of the reading is in both and cancels.

use crate::TwinError;
use analysis::baseline::{self, Baseline};
use analysis::bottleneck::{Bottleneck, Scene, bottleneck};
use analysis::clock::{self, ClockFit};
use analysis::phases::{self, Phase};
use analysis::{Options, rate};
use base::Duration;
use base::record::{Counter, Delay, Direction, Flow, Recording, Status};
use stats::Figure;
use std::collections::BTreeMap;

/// Facts that all phases of a recording share.
pub struct Facts<'a> {
    /// Recording of a test.
    pub rec: &'a Recording,
    /// Its phases.
    pub list: Vec<Phase>,
    /// Base round trip.
    pub base_rtt: Figure,
    clock: Option<ClockFit>,
    baseline: Baseline,
    counters: Vec<Counter>,
    probe_bytes: f64,
}

/// One direction in one phase.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Direction that was observed.
    pub direction: Direction,
    /// Waits of the probes: seconds since the phase began, and the wait in ms.
    pub waits: Vec<(f64, f64)>,
    /// Waits after the warm-up, ms.
    pub steady: Vec<f64>,
    /// Waits of the load's own packets after the warm-up, ms.
    pub in_flow: Vec<f64>,
    /// Rate of the load and the probes in whole IP packets, bit/s; none if this direction was not loaded.
    pub carried_bps: Option<f64>,
    /// Rate of the full link, bit/s; none if the load alone does not tell it.
    pub link_bps: Option<f64>,
    /// Probes sent after the warm-up, and those lost in this direction.
    pub sent: f64,
    /// Probes lost in this direction after the warm-up.
    pub lost: f64,
    /// Segments of the load, and those sent again.
    pub segments: f64,
    /// Segments sent again.
    pub again: f64,
    /// Full packet of the load, bytes.
    pub packet_bytes: f64,
    /// Time of a full packet, ms.
    pub packet_ms: f64,
}

impl<'a> Facts<'a> {
    /// Reads the facts of a test's recording.
    ///
    /// # Errors
    /// The recording is of something else, has no idle phase, or too few answered probes.
    pub fn of(rec: &'a Recording) -> Result<Facts<'a>, TwinError> {
        let list = phases::phases(rec, None);
        if list.is_empty() {
            return Err(TwinError::NotATest {
                title: rec.meta.title.clone(),
                verb: rec.meta.verb.clone(),
            });
        }
        let idle = list.iter().find(|p| p.name == "idle");
        let idle = idle.ok_or(TwinError::NoIdle)?;
        let answered = phases::own_probes(rec, idle.steady());
        let answered = answered.iter().filter(|d| d.status.is_answered()).count();
        if answered < FEWEST_IDLE {
            return Err(TwinError::FewProbes { answered });
        }
        let clock = clock::fit(rec).ok();
        let baseline = baseline::baseline(rec, &list, clock.as_ref());
        let mut counters = rec.counter.clone();
        counters.sort_by_key(|c| c.t_ns);
        Ok(Facts {
            rec,
            counters,
            base_rtt: phases::base_rtt(rec, &list, i64::MIN),
            clock,
            baseline,
            probe_bytes: Options::default().with_facts_of(rec).probe_ip_bytes,
            list,
        })
    }

    /// Counters of the interface at each probe, in order; none if the recording has none.
    pub fn counters(&self) -> &[Counter] {
        &self.counters
    }

    /// Phase of this name.
    pub fn phase(&self, name: &str) -> Option<&Phase> {
        self.list.iter().find(|p| p.name == name)
    }

    /// True if waits are known in each direction, and not of round trips alone.
    pub fn one_way(&self) -> bool {
        self.clock.is_some()
    }

    /// Size of a probe's IP packet, bytes.
    pub fn probe_bytes(&self) -> f64 {
        self.probe_bytes
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            rec: self.rec,
            clock: self.clock.as_ref(),
            base_rtt_ms: self.base_rtt.value(),
            baseline: &self.baseline,
            probe_ip_bytes: self.probe_bytes,
        }
    }

    /// Evidence on the bottleneck of a direction in a phase.
    pub fn bottleneck(&self, phase: &Phase, direction: Direction) -> Bottleneck {
        bottleneck(&self.scene(), phase, direction)
    }

    /// Waits of the probes at rest in a direction, ms.
    pub fn at_rest(&self, direction: Direction) -> Vec<f64> {
        let scene = self.scene();
        let idle = self.list.iter().filter(|p| p.name == "idle");
        idle.flat_map(|p| {
            let probes = phases::own_probes(self.rec, p.steady());
            probes
                .into_iter()
                .filter_map(|d| scene.wait_ms(d, direction, p))
                .collect::<Vec<_>>()
        })
        .collect()
    }

    /// Fates of the probes of a direction while it was not loaded, in order: true if lost in this direction.
    pub fn lost_at_rest(&self, direction: Direction) -> Vec<bool> {
        let resting = self.list.iter().filter(|p| !p.loads(direction));
        resting
            .flat_map(|p| phases::own_probes(self.rec, p.steady()))
            .filter(|d| d.status.was_sent())
            .map(|d| lost_share(d, direction) > 0.5)
            .collect()
    }

    /// Observations of a direction in a phase.
    pub fn observed(&self, phase: &Phase, direction: Direction) -> Observed {
        self.of_bottleneck(&self.bottleneck(phase, direction))
    }

    /// Observations that some evidence holds.
    pub fn of_bottleneck(&self, b: &Bottleneck) -> Observed {
        let (phase, direction) = (&b.phase, b.direction);
        let since = |t: i64| t.saturating_sub(phase.from_ns) as f64 / 1e9;
        let probes = phases::own_probes(self.rec, phase.steady());
        let sent = probes.iter().filter(|d| d.status.was_sent()).count() as f64;
        let lost = probes.iter().map(|d| lost_share(d, direction)).sum();
        let rows = phases::flows(self.rec, direction, phase.whole());
        let (segments, again) = segments(&rows, self.rec, phase);
        Observed {
            direction,
            waits: b.waits.iter().map(|(t, w)| (since(*t), *w)).collect(),
            steady: b.steady(&b.waits),
            in_flow: b.steady(&b.in_flow),
            carried_bps: b.carried_bps,
            link_bps: b.link_rate.value(),
            sent,
            lost,
            segments,
            again,
            packet_bytes: b.packet_bytes,
            packet_ms: b.packet_ms,
        }
    }
}

/// Fewest answered probes at rest that show the base of a link.
const FEWEST_IDLE: usize = 10;

/// Share with which a probe was lost in a direction: a half if the direction is unknown.
fn lost_share(d: &Delay, direction: Direction) -> f64 {
    match (d.status, direction) {
        (Status::LostUp, Direction::Up) | (Status::LostDown, Direction::Down) => 1.0,
        (Status::Lost, _) => 0.5,
        _ => 0.0,
    }
}

/// Segments that the senders of these rows delivered in the phase, and those that they sent again.
fn segments(rows: &[&Flow], rec: &Recording, phase: &Phase) -> (f64, f64) {
    let mut ends: BTreeMap<i64, [(i64, i64); 2]> = BTreeMap::new();
    for f in rows {
        let bytes = f.delivered_bytes.or(f.bytes_acked);
        if let Some(now) = bytes.zip(f.retransmits) {
            ends.entry(f.flow).or_insert([now; 2])[1] = now;
        }
    }
    let direction = rows.first().map_or(Direction::Up, |f| f.direction);
    let mss = rate::mss(rec, direction, phase.whole());
    let mut sum = (0.0, 0.0);
    for [(bytes, again), (bytes_now, again_now)] in ends.into_values() {
        sum.0 += bytes_now.saturating_sub(bytes).max(0) as f64 / mss;
        sum.1 += again_now.saturating_sub(again).max(0) as f64;
    }
    sum
}

impl Observed {
    /// Quantile of the steady waits, ms.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        stats::quantile(&self.steady, p)
    }

    /// Highest wait of the warm-up that is no single outlier, ms.
    pub fn first_peak(&self, warm: Duration) -> Option<f64> {
        let first: Vec<f64> = self
            .waits
            .iter()
            .filter(|w| w.0 < warm.as_secs_f64())
            .map(|w| w.1)
            .collect();
        stats::quantile(&first, 0.98)
    }
}
