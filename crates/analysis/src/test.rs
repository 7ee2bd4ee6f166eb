//! The whole answer of `tailback test`, from its recording.

use crate::advice::{self, Need};
use crate::answer::{
    ANSWER_VERSION, Answer, DirectionAnswer, DisciplineGuess, Figure, PhaseAnswer, QueueIs,
};
use crate::bottleneck::{self, Bottleneck};
use crate::clock::{self, ClockFit};
use crate::contract;
use crate::findings::Added;
use crate::phases::{self, Phase};
use crate::{
    answer::Discipline, discipline, findings, grade, instrument, loss, queue, rate, reliability,
    responsiveness, stability, stats,
};
use base::record::{Direction, Recording};

/// What the analysis has to be told; the recording has the rest.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of a probe's IP packet, bytes, where the recording does not say: its share of the link's rate is
    /// the test's own.
    pub probe_ip_bytes: f64,
    /// Limits for reliability, ms.
    pub limits_ms: Vec<f64>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            probe_ip_bytes: 92.0,
            limits_ms: reliability::LIMITS_MS.to_vec(),
        }
    }
}

impl Options {
    /// What the recording itself says comes before what was assumed.
    fn with_facts_of(&self, rec: &Recording) -> Options {
        let told = rec
            .event
            .iter()
            .find(|e| &*e.kind == "probe")
            .and_then(|e| {
                let detail: serde_json::Value = serde_json::from_str(&e.detail).ok()?;
                detail
                    .get("ip_bytes")?
                    .as_f64()
                    .filter(|b| (20.0..=65_535.0).contains(b))
            });
        Options {
            probe_ip_bytes: told.unwrap_or(self.probe_ip_bytes),
            ..self.clone()
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnalysisError {
    #[error(
        "the recording \"{title}\" has no phases of a test (it was made by \"{verb}\", with {probes} probes): run \"tailback test\", or look at it with \"tailback analyse --statistics\" and \"tailback report\""
    )]
    NotATest {
        title: String,
        verb: String,
        probes: usize,
    },
}

/// All that can be said of a test, even of one that broke off.
///
/// # Errors
/// Where the recording holds no phase of a test.
pub fn analyse_test(rec: &Recording, options: &Options) -> Result<Answer, AnalysisError> {
    let list = phases::phases(rec, None);
    let options = &options.with_facts_of(rec);
    if list.is_empty() {
        return Err(AnalysisError::NotATest {
            title: rec.meta.title.clone(),
            verb: rec.meta.verb.clone(),
            probes: rec.delay.len(),
        });
    }
    let base_rtt = phases::base_rtt(rec, &list, i64::MIN);
    let fitted = clock::fit(rec);
    let context = Context {
        rec,
        options,
        clock: fitted.as_ref().ok(),
        base_rtt: &base_rtt,
        list: &list,
    };
    let down = context.direction(Direction::Down);
    let up = context.direction(Direction::Up);
    let added = Added {
        down: context.added(&down, Direction::Down),
        up: context.added(&up, Direction::Up),
    };
    let value = |f: &Figure| f.value().unwrap_or(f64::NEG_INFINITY);
    let (worst, most) = if value(&added.down) > value(&added.up) {
        (Direction::Down, &added.down)
    } else {
        (Direction::Up, &added.up)
    };
    let bloated = |f: &Figure, d: &DirectionAnswer| {
        f.value()
            .is_some_and(|v| findings::is_bloat(v, findings::packet_ms(d)))
    };
    let need = Need {
        down: bloated(&added.down, &down),
        up: bloated(&added.up, &up),
    };
    let worst_is_bloated = match worst {
        Direction::Down => need.down,
        Direction::Up => need.up,
    };
    let first = list
        .iter()
        .map(|p| p.from_ns)
        .min()
        .unwrap_or(rec.meta.started_ns);
    let last = list.iter().map(|p| p.to_ns).max().unwrap_or(first);
    let mut answer = Answer {
        version: ANSWER_VERSION,
        title: rec.meta.title.clone(),
        started_ns: rec.meta.started_ns,
        duration_s: last.saturating_sub(first) as f64 / 1e9,
        complete: rec.meta.complete,
        phases: list.iter().map(|p| context.phase(p)).collect(),
        worst_direction: worst_is_bloated.then_some(worst),
        responsiveness: responsiveness::responsiveness(rec, &list),
        grade: grade::grade(most),
        clock: fitted
            .as_ref()
            .map_or_else(|why| clock::unknown(why), ClockFit::answer),
        instrument: instrument::instrument(rec, base_rtt.value()),
        findings: Vec::new(),
        advice: advice::advice(&need, &down, &up),
        base_rtt_ms: base_rtt.clone(),
        down,
        up,
    };
    let promised = contract::promised(rec);
    answer.findings = findings::findings(&answer, &added, promised.as_ref());
    Ok(answer)
}

struct Context<'a> {
    rec: &'a Recording,
    options: &'a Options,
    clock: Option<&'a ClockFit>,
    base_rtt: &'a Figure,
    list: &'a [Phase],
}

impl Context<'_> {
    fn named(&self, name: &str) -> Option<&Phase> {
        self.list.iter().find(|p| p.name == name)
    }

    fn bottleneck(&self, phase: &Phase, direction: Direction) -> Bottleneck {
        bottleneck::bottleneck(
            self.rec,
            phase,
            direction,
            self.clock,
            self.base_rtt.value(),
            self.options.probe_ip_bytes,
        )
    }

    fn waits(&self, phase: &Phase, direction: Direction) -> Vec<f64> {
        let wait = |d| bottleneck::wait_ms(d, self.clock, direction, phase, self.base_rtt.value());
        phases::probes(self.rec, "udp", phase.steady())
            .into_iter()
            .filter_map(wait)
            .collect()
    }

    fn idle_median(&self, direction: Direction) -> f64 {
        let waits = self
            .named("idle")
            .map(|p| self.waits(p, direction))
            .unwrap_or_default();
        stats::quantile_of_sorted(&stats::sorted(&waits), 0.5).unwrap_or(0.0)
    }

    /// 95 % point of the delay that the load adds: without what an idle link adds of its own, such as the
    /// jitter of a radio. A load that did not fill the line shows no more than that it was too small.
    fn added(&self, d: &DirectionAnswer, direction: Direction) -> Figure {
        let idle = self.idle_median(direction);
        let added = d.added.p95_ms.map(|v| (v - idle).max(0.0));
        match (&d.link_rate_bps, added.value()) {
            (Figure::CannotTell { cannot_tell }, Some(v)) if !findings::is_bloat(v, 0.0) => {
                Figure::cannot_tell(cannot_tell.clone())
            }
            _ => added,
        }
    }

    fn phase(&self, phase: &Phase) -> PhaseAnswer {
        let probes = phases::probes(self.rec, "udp", phase.steady());
        let rtts: Vec<f64> = probes.iter().filter_map(|d| phases::rtt_ms(d)).collect();
        let lost = if probes.is_empty() {
            "no probe was sent in this phase"
        } else {
            "no probe was answered in this phase"
        };
        let no_way = "one-way delays are unknown in this phase";
        let toward = if phase.loads(Direction::Up) {
            Direction::Up
        } else {
            Direction::Down
        };
        let seen: Vec<Option<f64>> = probes
            .iter()
            .map(|d| bottleneck::wait_ms(d, self.clock, toward, phase, self.base_rtt.value()))
            .collect();
        let in_flow: Vec<f64> = [Direction::Up, Direction::Down]
            .into_iter()
            .filter(|d| phase.loads(*d))
            .flat_map(|d| phases::flows(self.rec, d, phase.steady()))
            .filter_map(|f| f.srtt_ns.filter(|v| *v > 0).map(|v| v as f64 / 1e6))
            .collect();
        let goodput = |direction: Direction| {
            phase.loads(direction).then(|| {
                match rate::carried(self.rec, direction, phase.steady()) {
                    Some(c) => c.goodput(),
                    None => Figure::cannot_tell("the load was sampled for less than half a second"),
                }
            })
        };
        let settled = stability::stable(self.rec, &phase.name, phase.to_ns);
        PhaseAnswer {
            name: phase.name.clone(),
            from_ns: phase.from_ns,
            to_ns: phase.to_ns,
            stable: settled.stable,
            stability: settled.why,
            rtt: stats::delays(&rtts, lost),
            added_up: stats::delays(&self.waits(phase, Direction::Up), no_way),
            added_down: stats::delays(&self.waits(phase, Direction::Down), no_way),
            in_flow_rtt: phase
                .is_loaded()
                .then(|| stats::delays(&in_flow, "the load's sender reported no round-trip times")),
            loss: loss::loss(&probes, &seen),
            goodput_down_bps: goodput(Direction::Down),
            goodput_up_bps: goodput(Direction::Up),
            cross_traffic_bps: instrument::cross_traffic_bps(
                self.rec,
                phase,
                self.options.probe_ip_bytes,
            ),
            reliability: reliability::reliability(&probes, &self.options.limits_ms),
        }
    }

    /// The bottleneck of one direction, from the phase that loads it alone, else from the one that loads both.
    fn direction(&self, direction: Direction) -> DirectionAnswer {
        let Some(phase) = self.named(direction.word()).or_else(|| self.named("both")) else {
            let why = format!("no phase loaded direction {direction}");
            let f = || Figure::cannot_tell(why.clone());
            return DirectionAnswer {
                goodput_bps: f(),
                link_rate_bps: f(),
                queue_ms: f(),
                queue_bytes: f(),
                queue_is: QueueIs::AtLeast,
                bdp_bytes: f(),
                factor_too_large: f(),
                added: stats::delays(&[], &why),
                discipline: DisciplineGuess {
                    is: Discipline::CannotTell,
                    evidence: vec![why.clone()],
                    would_settle: Some("a test that loads this direction".into()),
                },
                in_flow_minus_probe_ms: f(),
            };
        };
        let b = self.bottleneck(phase, direction);
        let guess = discipline::discipline(&b);
        let size = queue::size(&b, guess.is, self.base_rtt);
        let probes: Vec<f64> = phases::probes(self.rec, "udp", phase.steady())
            .into_iter()
            .filter_map(phases::rtt_ms)
            .collect();
        let load: Vec<f64> = phases::flows(self.rec, direction, phase.steady())
            .into_iter()
            .filter_map(|f| f.srtt_ns.filter(|v| *v > 0).map(|v| v as f64 / 1e6))
            .collect();
        let in_flow_minus_probe_ms = match (
            stats::quantile_figure(&load, 0.5),
            stats::quantile_figure(&probes, 0.5),
        ) {
            (
                Figure::Is {
                    value: l,
                    low: ll,
                    high: lh,
                },
                Figure::Is {
                    value: p,
                    low: pl,
                    high: ph,
                },
            ) => {
                // Independent errors add in squares.
                let (below, above) = ((l - ll).hypot(ph - p), (lh - l).hypot(p - pl));
                Figure::Is {
                    value: l - p,
                    low: l - p - below,
                    high: l - p + above,
                }
            }
            _ => Figure::cannot_tell(
                "the load's sender reported no round-trip times, or no probe was answered",
            ),
        };
        DirectionAnswer {
            goodput_bps: b.goodput.clone(),
            link_rate_bps: b.link_rate.clone(),
            queue_ms: size.ms,
            queue_bytes: size.bytes,
            queue_is: size.is,
            bdp_bytes: size.bdp_bytes,
            factor_too_large: size.factor,
            added: stats::delays(
                &b.steady(&b.waits),
                "no delay was measured under load in this direction",
            ),
            discipline: guess,
            in_flow_minus_probe_ms,
        }
    }
}
