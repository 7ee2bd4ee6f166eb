//! Answer of `tailback test`, from its recording.

use crate::advice::{self, Need};
use crate::answer::{
    ANSWER_VERSION, Answer, DirectionAnswer, DisciplineGuess, PhaseAnswer, QueueIs,
};
use crate::baseline::{self, Baseline};
use crate::bottleneck::{self, Bottleneck, Scene, drowns, is_vague};
use crate::browser::Withheld;
use crate::clock::{self, ClockFit};
use crate::contract;
use crate::findings::Added;
use crate::phases::{self, Phase};
use crate::thresholds::WORST_MS;
use crate::{
    answer::Discipline, discipline, findings, grade, instrument, loss, overload, queue, rate,
    reliability, responsiveness, stability, thresholds,
};
use base::Bytes;
use base::program::{Sending, Train};
use base::record::{Delay, Direction, Recording};
use stats::{Delays, Figure, Ipdv};

/// Options of the analysis; all else comes from the recording.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of a probe's IP packet, bytes, if the recording does not say: its share of the link's rate is the test's
    /// own.
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
    /// Options after the recording's facts, which override assumptions.
    pub fn with_facts_of(&self, rec: &Recording) -> Options {
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

/// Delays widened by the uncertainty of a base that drifted; a figure that the uncertainty or its interval makes
/// useless becomes unknown.
fn doubted(delays: Delays, doubt_ms: f64) -> Delays {
    let with_doubt = |f: Figure| match f {
        Figure::Is { value, .. } if drowns(doubt_ms, value) => Figure::cannot_tell(format!(
            "the base delay itself moved by {doubt_ms:.1} ms during the test, and the delay under load was {value:.1} ms above it"
        )),
        Figure::Is { value, low, high } if is_vague(value, high) => Figure::cannot_tell(format!(
            "too few probes met the load at its worst: between {low:.1} and {high:.1} ms"
        )),
        Figure::Is { value, low, high } => Figure::Is {
            value,
            low: (low - doubt_ms).max(0.0),
            high: high + doubt_ms,
        },
        none => none,
    };
    Delays {
        p50_ms: with_doubt(delays.p50_ms),
        p95_ms: with_doubt(delays.p95_ms),
        p99_ms: with_doubt(delays.p99_ms),
        ..delays
    }
}

/// Delay that a load would add by filling a queue of known size, if the load of the test did not fill it.
fn of_a_full_queue(size_ms: &Figure, b: &Bottleneck) -> Figure {
    let met = b.held().unwrap_or(0.0);
    size_ms.clone().map(|ms| ms.max(met))
}

/// Reason why a recording has no answer of a test.
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

/// Answers a test, even one that broke off.
///
/// # Errors
/// If the recording holds no phase of a test.
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
    let fitted = clock::fit(rec);
    let baseline = baseline::baseline(rec, &list, fitted.as_ref().ok());
    let still = phases::base_rtt(rec, &list, i64::MIN);
    let base_rtt = drifting(&still, &baseline);
    let context = Context {
        scene: Scene {
            rec,
            clock: fitted.as_ref().ok(),
            base_rtt_ms: still.value(),
            baseline: &baseline,
            probe_ip_bytes: options.probe_ip_bytes,
        },
        options,
        base_rtt: &base_rtt,
        list: &list,
    };
    let (down, added_down) = context.direction(Direction::Down);
    let (up, added_up) = context.direction(Direction::Up);
    let added = Added {
        down: added_down,
        up: added_up,
    };
    let value = |f: &Figure| f.value().unwrap_or(f64::NEG_INFINITY);
    let worst = if value(&added.down) > value(&added.up) {
        Direction::Down
    } else {
        Direction::Up
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
    let phases: Vec<PhaseAnswer> = list.iter().map(|p| context.phase(p)).collect();
    let mut answer = Answer {
        version: ANSWER_VERSION,
        title: rec.meta.title.clone(),
        started_ns: rec.meta.started_ns,
        duration_s: last.saturating_sub(first) as f64 / 1e9,
        complete: rec.meta.complete,
        uses: thresholds::judge(&phases),
        phases,
        worst_direction: worst_is_bloated.then_some(worst),
        responsiveness: responsiveness::responsiveness(rec, &list),
        grade: grade::grade(&added.worst(&context.loaded())),
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

/// Base round trip with the range over which it drifted; unknown where the delays of the idle link scatter too much to
/// show how far below their least it is.
fn drifting(still: &Figure, baseline: &Baseline) -> Figure {
    match (still, baseline.drift_ms()) {
        (Figure::Is { value, low, .. }, _) if *low <= 0.0 => Figure::cannot_tell(format!(
            "it is at most {value:.1} ms: the delays of the idle link scatter too much to show their least"
        )),
        (Figure::Is { value, low, high }, Some((least, most))) => Figure::Is {
            value: *value,
            low: low.min(value + least).max(0.0),
            high: high.max(value + most),
        },
        (still, _) => still.clone(),
    }
}

/// Next overload train that the test needs after the phase that loads `direction` alone, given those sent since. `None`
/// if nothing is open, or if the train would send more than `budget`.
pub fn next_train(
    rec: &Recording,
    direction: Direction,
    trains: &[Train],
    budget: Bytes,
) -> Option<Sending> {
    let list = phases::phases(rec, None);
    let phase = list.iter().find(|p| p.name == direction.word())?;
    let fitted = clock::fit(rec);
    let baseline = baseline::baseline(rec, &list, fitted.as_ref().ok());
    let scene = Scene {
        rec,
        clock: fitted.as_ref().ok(),
        base_rtt_ms: phases::base_rtt(rec, &list, i64::MIN).value(),
        baseline: &baseline,
        probe_ip_bytes: Options::default().with_facts_of(rec).probe_ip_bytes,
    };
    let b = bottleneck::bottleneck(&scene, phase, direction);
    let start = overload::Start::of(&b)?;
    overload::next(&start, trains, budget)
}

struct Context<'a> {
    scene: Scene<'a>,
    options: &'a Options,
    base_rtt: &'a Figure,
    list: &'a [Phase],
}

impl Context<'_> {
    fn named(&self, name: &str) -> Option<&Phase> {
        self.list.iter().find(|p| p.name == name)
    }

    /// Directions that some phase loaded.
    fn loaded(&self) -> Vec<Direction> {
        [Direction::Up, Direction::Down]
            .into_iter()
            .filter(|d| self.list.iter().any(|p| p.loads(*d)))
            .collect()
    }

    fn waits(&self, phase: &Phase, direction: Direction) -> Vec<f64> {
        phases::own_probes(self.scene.rec, phase.steady())
            .into_iter()
            .filter_map(|d| self.scene.wait_ms(d, direction, phase))
            .collect()
    }

    /// 95 % point of the delay that the load adds, without the scatter of the idle link, such as the jitter of a radio;
    /// or the reason why a load that did not fill the link shows no such figure.
    fn added(&self, b: &Bottleneck, kind: Discipline) -> Figure {
        let idle = self
            .named("idle")
            .map(|p| self.waits(p, b.direction))
            .unwrap_or_default();
        let loaded = b.steady(&b.waits);
        let at = |v: &[f64], q| stats::quantile_of_sorted(&stats::sorted(v), q).unwrap_or(0.0);
        let spread = |v: &[f64]| (at(v, 0.95) - at(v, 0.5)).max(0.0);
        // Independent scatters add in squares.
        let scatter = (spread(&loaded).powi(2) - spread(&idle).powi(2))
            .max(0.0)
            .sqrt();
        let centre = (at(&loaded, 0.5) - at(&idle, 0.5)).max(0.0);
        let seen = stats::quantile_figure(&loaded, 0.95);
        let less = at(&loaded, 0.95) - centre - scatter;
        let added = seen.map(|v| (v - less).max(0.0));
        let added = match added {
            Figure::Is { value, low, high } => Figure::Is {
                value,
                low: (low - b.base_doubt_ms).max(0.0),
                high: high + b.base_doubt_ms,
            },
            other => other,
        };
        if let Some(v) = added.value().filter(|v| b.drowns(*v) && *v < WORST_MS) {
            return Figure::cannot_tell(format!(
                "the base delay itself moved by {:.1} ms during the test, and the delay under load was {v:.1} ms above it",
                b.base_doubt_ms
            ));
        }
        match (b.filled(kind), added.value()) {
            (Err(why), Some(v)) if v < WORST_MS => Figure::cannot_tell(why),
            _ => added,
        }
    }

    fn phase(&self, phase: &Phase) -> PhaseAnswer {
        let probes = phases::own_probes(self.scene.rec, phase.steady());
        let rtts: Vec<f64> = probes.iter().filter_map(|d| d.rtt_ms()).collect();
        let mut numbered: Vec<(i64, f64)> = probes
            .iter()
            .filter_map(|d| Some((d.seq, d.rtt_ms()?)))
            .collect();
        numbered.sort_by_key(|(seq, _)| *seq);
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
            .map(|d| self.scene.wait_ms(d, toward, phase))
            .collect();
        let in_flow: Vec<f64> = [Direction::Up, Direction::Down]
            .into_iter()
            .filter(|d| phase.loads(*d))
            .flat_map(|d| phases::flows(self.scene.rec, d, phase.steady()))
            .filter_map(|f| f.srtt_ns.filter(|v| *v > 0).map(|v| v as f64 / 1e6))
            .collect();
        let goodput = |direction: Direction| {
            phase.loads(direction).then(|| {
                match rate::carried(self.scene.rec, direction, phase.steady()) {
                    Some(c) => c.goodput(),
                    None => Figure::cannot_tell("the load was sampled for less than half a second"),
                }
            })
        };
        let settled = stability::stable(self.scene.rec, &phase.name, phase.to_ns);
        let mut answer = PhaseAnswer {
            name: phase.name.clone(),
            from_ns: phase.from_ns,
            to_ns: phase.to_ns,
            stable: settled.stable,
            stability: settled.why,
            rtt: stats::delays(&rtts, lost),
            ipdv: Ipdv::of(&numbered),
            added_up: stats::delays(&self.waits(phase, Direction::Up), no_way),
            added_down: stats::delays(&self.waits(phase, Direction::Down), no_way),
            in_flow_rtt: phase
                .is_loaded()
                .then(|| stats::delays(&in_flow, "the load's sender reported no round-trip times")),
            loss: loss::loss(&probes, &seen),
            goodput_down_bps: goodput(Direction::Down),
            goodput_up_bps: goodput(Direction::Up),
            cross_traffic_bps: self.scene.cross_traffic_bps(phase),
            reliability: reliability::reliability(&probes, &self.options.limits_ms),
        };
        self.withheld(phase).phase(&mut answer);
        answer
    }

    fn withheld(&self, phase: &Phase) -> Withheld {
        Withheld::of(self.scene.rec, phase, self.scene.base_rtt_ms)
    }

    /// Bottleneck of one direction, from the phase that loads it alone, else from the one that loads both.
    fn direction(&self, direction: Direction) -> (DirectionAnswer, Figure) {
        let Some(phase) = self.named(direction.word()).or_else(|| self.named("both")) else {
            let why = format!("no phase loaded direction {direction}");
            let f = || Figure::cannot_tell(why.clone());
            let unloaded = DirectionAnswer {
                goodput_bps: f(),
                link_rate_bps: f(),
                rate_varies: None,
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
            return (unloaded, f());
        };
        let b = bottleneck::bottleneck(&self.scene, phase, direction);
        let guess = discipline::discipline(&b);
        let size = queue::size(&b, guess.is, self.base_rtt);
        let probes: Vec<f64> = phases::own_probes(self.scene.rec, phase.steady())
            .into_iter()
            .filter_map(Delay::rtt_ms)
            .collect();
        let load: Vec<f64> = phases::flows(self.scene.rec, direction, phase.steady())
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
        let mut guess = guess;
        let added = match self.added(&b, guess.is) {
            Figure::CannotTell { cannot_tell }
                if size.is == QueueIs::Size && b.filled(guess.is).is_err() =>
            {
                guess.evidence.push(format!(
                    "{cannot_tell}; a load that fills it waits as long as the queue is"
                ));
                of_a_full_queue(&size.ms, &b)
            }
            added => added,
        };
        let mut answer = DirectionAnswer {
            goodput_bps: b.goodput.clone(),
            link_rate_bps: b.link_rate.clone(),
            rate_varies: b.rate_moves,
            queue_ms: size.ms,
            queue_bytes: size.bytes,
            queue_is: size.is,
            bdp_bytes: size.bdp_bytes,
            factor_too_large: size.factor,
            added: doubted(
                stats::delays(
                    &b.steady(&b.waits),
                    "no delay was measured under load in this direction",
                ),
                b.base_doubt_ms,
            ),
            discipline: guess,
            in_flow_minus_probe_ms,
        };
        let mut added = added;
        self.withheld(phase).direction(&mut answer, &mut added);
        (answer, added)
    }
}
