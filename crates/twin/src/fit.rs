//! Fit of a link to a test's recording.
//!
//! **Method.** The analysis gives a first estimate. A load on the estimate is simulated with the recording's own probes,
//! flows and lengths, and read by the same code as the recording. Rate and queue are corrected until both readings agree,
//! so an error of the reading is in both and cancels. Each discipline of the same kind gets its parameter in this way; the
//! one whose runs scatter around the recording is chosen, and those as likely are kept as ties.
//!
//! **Source.** C. Gourieroux, A. Monfort, E. Renault, "Indirect inference", Journal of Applied Econometrics 8 (1993).
//!
//! **Limits.** Only rate, queue and base delay are fitted. A policer, a second bottleneck and cross traffic are not; the
//! check on the held-out load rejects such twins.

use crate::answer::{Compared, Fitted, Named, TWIN_VERSION, Tie, Trust, Twin, Waits};
use crate::candidates::{self, By, Candidate, Scale};
use crate::likeness::{features, likelihood};
use crate::load::{self, Load};
use crate::observe::{Facts, Observed};
use crate::service::{self, Table};
use crate::validate::{self, DIRECTIONS};
use crate::{TwinError, counted, start};
use analysis::answer::{Discipline, QueueIs};
use analysis::bottleneck::Bottleneck;
use analysis::phases::Phase;
use analysis::{discipline, queue, rate};
use base::Duration;
use base::print::SIZE;
use base::record::{Direction, Recording};
use link::{DirectionSpec, LinkSpec, RateSpec};
use sim::batch::in_parallel;
use stats::Figure;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Seeds of a candidate, and of a comparison.
const SEEDS: u64 = 8;
/// Segments that senders may send together.
const BURSTS: [u64; 3] = [1, 2, 4];
/// Corrections of a parameter.
const CORRECTIONS: usize = 5;
/// Log-likelihood below the best up to which a candidate is a tie.
pub(crate) const TIE: f64 = 6.0;
/// The same for disciplines of one family, which differ in details alone.
const TIE_OF_SIBLINGS: f64 = 25.0;
/// Log-likelihood below the best up to which a simpler candidate is preferred.
const AS_GOOD: f64 = 3.0;
/// Share of the time in which a varying rate has to be seen.
const FEWEST_SEEN: f64 = 0.3;
/// Share of the time in which it has to be seen to be replayed: it is higher where it is not seen, and nobody knows how much.
const MOST_SEEN: f64 = 0.8;
/// Shortest steady part of a phase, s.
const SHORTEST_S: f64 = 3.0;

/// Means of a fit.
pub struct Means<'a> {
    /// Threads to use.
    pub threads: usize,
    /// First seed of the runs.
    pub seed: u64,
    /// Set to end the fit early.
    pub stop: &'a AtomicBool,
    /// Receives the share that is done.
    pub progress: &'a (dyn Fn(f64) + Sync),
}

/// One direction of the recording.
pub(crate) struct Side {
    load: Load,
    /// Observations of the recording.
    pub(crate) real: Observed,
    rate: Figure,
    table: Option<Table>,
    /// Service curve of the phase both, if the rate moves and that phase shows it.
    of_both: Option<Table>,
    kind: Discipline,
    in_bytes: bool,
    /// Size of the queue, where the analysis knows it.
    size: Figure,
    evidence: Vec<String>,
}

impl Side {
    /// True if the rate moves, and the phase both does not show how.
    fn unseen(&self) -> bool {
        self.table.is_some() && self.of_both.is_none()
    }
}

pub(crate) struct Work<'a> {
    pub(crate) facts: Facts<'a>,
    means: &'a Means<'a>,
    runs: AtomicU64,
}

/// Fits a twin to a test's recording, and checks it.
///
/// # Errors
/// The recording is of something else, too short, without load, or its load did not fill the link; the user stopped.
pub fn fit(rec: &Recording, means: &Means) -> Result<Twin, TwinError> {
    let facts = Facts::of(rec)?;
    let mut sides = [side(&facts, Direction::Up)?, side(&facts, Direction::Down)?];
    let rates = [0, 1].map(|i| sides[i].rate.value().unwrap_or(1.0));
    let packet = sides[0].real.packet_bytes.max(sides[1].real.packet_bytes);
    let mut twin = start::link(&facts, rates, packet);
    let work = Work {
        facts,
        means,
        runs: AtomicU64::new(0),
    };
    (means.progress)(0.02);
    for d in DIRECTIONS {
        let plain = &candidates::CANDIDATES[0];
        let scale = scale(&sides[d as usize]);
        *of(&mut twin, d) = with_queue(of(&mut twin, d), plain, plain.starts_at(&scale));
    }
    let mut fitted = [None, None];
    work.round(&mut twin, &mut fitted, &sides)?;
    (means.progress)(0.4);
    let burst = work.burst(&twin, &sides)?;
    let bursts = burst != sides[0].load.burst;
    for side in &mut sides {
        side.load.burst = burst;
    }
    // Downloads need the uplink for their ACKs: a second round knows both.
    if bursts || tight(&rates) {
        work.round(&mut twin, &mut fitted, &sides)?;
    }
    (means.progress)(0.8);
    let settled = work.settle(&mut twin, &mut fitted, &sides)?;
    let (compared, waits) = work.compare(&twin, &sides)?;
    let (trust, mut because) = validate::verdict(&compared);
    because.extend(settled);
    because.extend(moving(&sides));
    if compared.iter().any(|c| c.held_out) {
        because.extend(unseen(&sides));
    }
    for (d, f) in fitted.iter_mut().enumerate() {
        if let Some(table) = &sides[d].table {
            // The file starts with the phase; the runs started it later.
            of(&mut twin, DIRECTIONS[d]).rate = table.rate(0.0);
        }
        if let Some(f) = f {
            doubt(f, DIRECTIONS[d], &compared);
        }
    }
    let [up, down] = fitted;
    Ok(Twin {
        version: TWIN_VERSION,
        title: rec.meta.title.clone(),
        base_rtt_ms: work.facts.base_rtt.clone(),
        link: twin,
        controller: sides[0].load.controller.to_string(),
        burst: sides[0].load.burst,
        up,
        down,
        compared,
        trust,
        because,
        runs: work.runs.load(Ordering::Relaxed),
        waits,
    })
}

/// Checks a given link against a recording.
///
/// # Errors
/// The same as of [`fit`].
pub fn check(rec: &Recording, link: &LinkSpec, means: &Means) -> Result<Twin, TwinError> {
    check_with(rec, link, 1, means)
}

/// Checks a given link against a recording; its senders send this many segments together.
///
/// # Errors
/// The same as of [`fit`].
pub fn check_with(
    rec: &Recording,
    link: &LinkSpec,
    burst: u64,
    means: &Means,
) -> Result<Twin, TwinError> {
    let facts = Facts::of(rec)?;
    let mut sides = [side(&facts, Direction::Up)?, side(&facts, Direction::Down)?];
    for side in &mut sides {
        side.load.burst = burst;
        // The given link is judged with its own rates.
        (side.table, side.of_both) = (None, None);
    }
    let work = Work {
        facts,
        means,
        runs: AtomicU64::new(0),
    };
    let (compared, waits) = work.compare(link, &sides)?;
    let (trust, because) = validate::verdict(&compared);
    Ok(Twin {
        version: TWIN_VERSION,
        title: rec.meta.title.clone(),
        base_rtt_ms: work.facts.base_rtt.clone(),
        link: link.clone(),
        controller: sides[0].load.controller.to_string(),
        burst: sides[0].load.burst,
        up: None,
        down: None,
        compared,
        trust,
        because,
        runs: work.runs.load(Ordering::Relaxed),
        waits,
    })
}

/// Sentences about rates that move: a recording does not tell a capacity that moves from traffic of others.
fn moving(sides: &[Side; 2]) -> impl Iterator<Item = String> {
    let moves = DIRECTIONS.map(|d| sides[d as usize].table.is_some().then_some(d));
    moves.into_iter().flatten().map(|d| {
        format!(
            "the rate of the {d}link moves: if others share the link, it is what they left of it"
        )
    })
}

/// Sentences about rates that move and were not seen in the phase both.
fn unseen(sides: &[Side; 2]) -> impl Iterator<Item = String> {
    let unseen = DIRECTIONS.map(|d| sides[d as usize].unseen().then_some(d));
    unseen.into_iter().flatten().map(|d| {
        format!(
            "the queue of the {d}link was empty too often in the phase both to show its capacity there: a difference in that phase may be the capacity's own"
        )
    })
}

/// Withdraws the name of a discipline whose runs do not look like the recording.
fn doubt(f: &mut Fitted, direction: Direction, compared: &[Compared]) {
    let unlike = compared
        .iter()
        .filter(|c| c.direction == direction && c.trust != Trust::Agrees)
        .map(|c| c.phase.as_str());
    let unlike: Vec<&str> = unlike.collect();
    if unlike.is_empty() {
        return;
    }
    f.kind = Discipline::CannotTell;
    f.discipline = Named::CannotTell {
        cannot_tell: format!(
            "no known discipline explains the phase {}",
            unlike.join(" and the phase ")
        ),
    };
}

/// Service curves of the phase both, where the rate moves and they were seen.
pub(crate) fn of_both(sides: &[Side; 2]) -> [Option<&Table>; 2] {
    [0, 1].map(|d| sides[d].of_both.as_ref())
}

/// Waits behind a comparison.
fn shown(compared: &Compared, real: &Observed, runs: &[Observed]) -> Waits {
    Waits {
        phase: compared.phase.clone(),
        held_out: compared.held_out,
        direction: compared.direction,
        link: real.waits.clone(),
        twin: runs.first().map_or_else(Vec::new, |run| run.waits.clone()),
        link_steady: real.steady.clone(),
        twin_steady: runs.iter().flat_map(|r| r.steady.iter().copied()).collect(),
    }
}

/// True if the ACKs of a download may fill the uplink, or the other way round.
fn tight(rates: &[f64; 2]) -> bool {
    let ratio = rates[1] / rates[0].max(1.0);
    !(1.0 / 12.0..=12.0).contains(&ratio)
}

pub(crate) fn of(link: &mut LinkSpec, direction: Direction) -> &mut DirectionSpec {
    match direction {
        Direction::Up => &mut link.up,
        Direction::Down => &mut link.down,
    }
}

fn with_queue(spec: &DirectionSpec, candidate: &Candidate, x: f64) -> DirectionSpec {
    DirectionSpec {
        queue: candidate.queue(x),
        ..spec.clone()
    }
}

/// Reads one direction from the phase that loads it alone.
fn side(facts: &Facts, direction: Direction) -> Result<Side, TwinError> {
    let phase = facts.phase(direction.word());
    let phase = phase.ok_or(TwinError::NoLoad { direction })?;
    let seconds = phase.to_ns.saturating_sub(phase.warm_ns) as f64 / 1e9;
    if seconds < SHORTEST_S {
        return Err(TwinError::TooShort { direction, seconds });
    }
    let b = facts.bottleneck(phase, direction);
    if b.steady(&b.waits).len() < 20 {
        return Err(TwinError::NoWaits { direction });
    }
    let guess = discipline::discipline(&b);
    let size = queue::size(&b, guess.is, &facts.base_rtt);
    let (rate, table) = rate_of(facts, &b, direction)?;
    if guess.is == Discipline::Policer {
        return Err(TwinError::Policer { direction });
    }
    let load = Load::of(facts, phase, rate.value().unwrap_or(1e6));
    let both = facts.phase("both").filter(|_| table.is_some());
    let of_both = both.and_then(|p| service::table(facts, &facts.bottleneck(p, direction)));
    Ok(Side {
        of_both: of_both.filter(|t| t.seen() >= MOST_SEEN),
        real: facts.observed(&load.part_of(phase), direction),
        load,
        size: match size.is {
            QueueIs::Size => size.bytes,
            _ => Figure::cannot_tell("the load never met the end of a buffer"),
        },
        kind: guess.is,
        in_bytes: counted::in_bytes(facts.rec, direction),
        evidence: guess.evidence,
        rate,
        table,
    })
}

/// Rate of a direction, and its service curve if it varies.
fn rate_of(
    facts: &Facts,
    b: &Bottleneck,
    direction: Direction,
) -> Result<(Figure, Option<Table>), TwinError> {
    let moves = b.rate_moves.is_some_and(|m| m > rate::STEADY);
    if moves
        && let Some(table) = service::table(facts, b)
        && table.seen() >= FEWEST_SEEN
    {
        return Ok((Figure::exactly(table.mean_bps()), Some(table)));
    }
    match &b.link_rate {
        Figure::CannotTell { cannot_tell } => Err(TwinError::NotFilled {
            direction,
            why: cannot_tell.clone(),
        }),
        known => Ok((known.clone(), None)),
    }
}

fn scale(side: &Side) -> Scale {
    let real = &side.real;
    Scale {
        bps: side.rate.value().unwrap_or(1e6),
        packet_bytes: real.packet_bytes,
        top_ms: level(real, By::Top, side.load.warm)
            .unwrap_or(1.0)
            .max(real.packet_ms),
        median_ms: real.quantile(0.5).unwrap_or(1.0).max(0.2),
        in_flow_ms: stats::median(&real.in_flow).unwrap_or(1.0).max(0.2),
    }
}

/// Observation that a parameter is fitted to, ms. The start of a load overshoots and fills a queue that it may never fill
/// again, so the top is that of the warm-up or of the steady part, whichever is higher.
fn level(o: &Observed, by: By, warm: Duration) -> Option<f64> {
    match by {
        By::Top => [o.quantile(0.985), o.first_peak(warm)]
            .into_iter()
            .flatten()
            .reduce(f64::max),
        By::Median => o.quantile(0.5),
        By::InFlow => stats::median(&o.in_flow),
    }
}

impl Work<'_> {
    /// Runs a load over a link and reads one direction of it.
    fn observe(
        &self,
        link: &LinkSpec,
        load: &Load,
        directions: &[Direction],
        seed: u64,
    ) -> Result<Vec<Observed>, TwinError> {
        if self.means.stop.load(Ordering::Relaxed) {
            return Err(TwinError::Stopped);
        }
        self.runs.fetch_add(1, Ordering::Relaxed);
        let rec = load::run(link, load, seed)?;
        let facts = Facts::of(&rec)?;
        let phase = facts.phase(&load.name).ok_or(TwinError::NoIdle)?;
        Ok(directions
            .iter()
            .map(|d| facts.observed(phase, *d))
            .collect())
    }

    /// Fits rate and discipline of both directions, the downlink first.
    fn round(
        &self,
        twin: &mut LinkSpec,
        fitted: &mut [Option<Fitted>; 2],
        sides: &[Side; 2],
    ) -> Result<(), TwinError> {
        for d in [1, 0] {
            let direction = DIRECTIONS[d];
            self.rate(twin, &sides[d], direction)?;
            let (spec, found) = self.choose(twin, &sides[d], direction)?;
            *of(twin, direction) = spec;
            fitted[d] = Some(found);
        }
        Ok(())
    }

    /// Segments that leave the senders together: those that explain the phases of one direction best. Bursts show in how
    /// much a short queue lets through.
    fn burst(&self, twin: &LinkSpec, sides: &[Side; 2]) -> Result<u64, TwinError> {
        let jobs: Vec<(u64, usize, u64)> = BURSTS
            .iter()
            .flat_map(|b| (0..2).flat_map(move |d| (0..SEEDS).map(move |s| (*b, d, s))))
            .collect();
        let seen = in_parallel(&jobs, self.means.threads, &|_, (burst, d, seed)| {
            let load = Load {
                burst: *burst,
                ..sides[*d].load.clone()
            };
            let seed = self.means.seed + 50 + seed;
            let all = self.observe(twin, &load, &[DIRECTIONS[*d]], seed)?;
            Ok(features(&all[0], load.warm))
        });
        let seen: Vec<_> = seen.into_iter().collect::<Result<_, TwinError>>()?;
        let real = [0, 1].map(|d| features(&sides[d].real, sides[d].load.warm));
        let likely: Vec<f64> = seen
            .chunks(2 * SEEDS as usize)
            .map(|runs| {
                let (up, down) = runs.split_at(SEEDS as usize);
                likelihood(&real[0], up).0 + likelihood(&real[1], down).0
            })
            .collect();
        let best = (0..BURSTS.len())
            .max_by(|a, b| likely[*a].total_cmp(&likely[*b]))
            .unwrap_or(0);
        // The simplest within a tie.
        Ok(match likely[best] - likely[0] > AS_GOOD {
            true => BURSTS[best],
            false => BURSTS[0],
        })
    }

    fn one(
        &self,
        link: &LinkSpec,
        side: &Side,
        direction: Direction,
        seed: u64,
    ) -> Result<Observed, TwinError> {
        let mut all = self.observe(link, &side.load, &[direction], self.means.seed + seed)?;
        Ok(all.remove(0))
    }

    /// Corrects the rate of a direction: the same reading has to come from link and twin.
    fn rate(
        &self,
        twin: &mut LinkSpec,
        side: &Side,
        direction: Direction,
    ) -> Result<(), TwinError> {
        if let Some(table) = &side.table {
            of(twin, direction).rate = table.rate(side.load.starts().as_secs_f64());
            return Ok(());
        }
        let plain = &candidates::CANDIDATES[0];
        let mut bps = side.rate.value().unwrap_or(1e6);
        let (low, high) = match side.rate.widened(0.003) {
            Figure::Is { low, high, .. } => (low, high),
            Figure::CannotTell { .. } => return Ok(()),
        };
        let x = plain.starts_at(&scale(side));
        for _ in 0..2 {
            let mut tried = twin.clone();
            *of(&mut tried, direction) = with_queue(of(&mut tried, direction), plain, x);
            of(&mut tried, direction).rate = start::fixed(bps);
            let seen = self.one(&tried, side, direction, 1)?;
            let (Some(real), Some(twins)) = (side.real.link_bps, seen.link_bps) else {
                break;
            };
            bps = (bps * (real / twins).clamp(0.9, 1.1)).clamp(low, high);
        }
        of(twin, direction).rate = start::fixed(bps);
        Ok(())
    }

    /// Parameter of a candidate with which the twin shows the recording's level.
    fn correct(
        &self,
        twin: &LinkSpec,
        side: &Side,
        direction: Direction,
        candidate: &Candidate,
    ) -> Result<(f64, f64), TwinError> {
        let scale = scale(side);
        let mut x = candidate.starts_at(&scale);
        let warm = side.load.warm;
        let Some(wanted) = level(&side.real, candidate.by, warm) else {
            return Ok((x, f64::INFINITY));
        };
        let slack = 0.2 * side.real.packet_ms + 0.1;
        let mut best = (x, f64::INFINITY);
        for i in 0..CORRECTIONS {
            let mut tried = twin.clone();
            *of(&mut tried, direction) = with_queue(of(&mut tried, direction), candidate, x);
            let seen = self.one(&tried, side, direction, 2 + i as u64 % 2)?;
            let got = level(&seen, candidate.by, warm).unwrap_or(0.0);
            let error = ((wanted + slack) / (got + slack)).ln();
            if error.abs() < best.1 {
                best = (x, error.abs());
            }
            if (wanted - got).abs() < 0.1 * slack + 0.001 * wanted {
                break;
            }
            let next = match candidate.by {
                // The level of a full queue is its size at the link's rate.
                By::Top if candidate.counted == "bytes" => x + (wanted - got) * scale.bps / 8e3,
                By::Top if candidate.counted == "packets" => {
                    x + (wanted - got) * scale.bps / 8e3 / scale.packet_bytes
                }
                _ => x * error.clamp(-1.2, 1.2).exp(),
            };
            x = candidate.bounded(next);
        }
        Ok(best)
    }

    /// Discipline of a direction with its parameter, and what can be said of it.
    fn choose(
        &self,
        twin: &LinkSpec,
        side: &Side,
        direction: Direction,
    ) -> Result<(DirectionSpec, Fitted), TwinError> {
        let mut list = candidates::of_kind(side.kind);
        list.retain(|c| !(side.in_bytes && c.counted == "packets" && c.name == "fifo"));
        let corrected = in_parallel(&list, self.means.threads, &|_, c| {
            self.correct(twin, side, direction, c)
        });
        let corrected: Vec<(f64, f64)> = corrected.into_iter().collect::<Result<_, _>>()?;
        let nearest = corrected.iter().map(|c| c.1).fold(f64::INFINITY, f64::min);
        let hopeless = |error: f64| error > 0.4 && error > nearest + 0.3;
        let kept: Vec<(&Candidate, f64)> = list
            .iter()
            .zip(&corrected)
            .filter(|(_, (_, error))| !hopeless(*error))
            .map(|(c, (x, _))| (*c, *x))
            .collect();
        let jobs: Vec<(usize, u64)> = (0..kept.len())
            .flat_map(|i| (0..SEEDS).map(move |s| (i, s)))
            .collect();
        let seen = in_parallel(&jobs, self.means.threads, &|_, (i, seed)| {
            let (candidate, x) = kept[*i];
            let mut tried = twin.clone();
            *of(&mut tried, direction) = with_queue(of(&mut tried, direction), candidate, x);
            self.one(&tried, side, direction, 10 + seed)
        });
        let seen: Vec<Observed> = seen.into_iter().collect::<Result<_, _>>()?;
        let warm = side.load.warm;
        let real = features(&side.real, warm);
        let mut ranked: Vec<(f64, usize)> = (0..kept.len())
            .map(|i| {
                let runs = &seen[i * SEEDS as usize..(i + 1) * SEEDS as usize];
                let runs: Vec<_> = runs.iter().map(|o| features(o, warm)).collect();
                (likelihood(&real, &runs).0, i)
            })
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let best = ranked.first().map_or(0.0, |r| r.0);
        // The simplest of those that are as good stands first in the table.
        let chosen = ranked.iter().filter(|r| best - r.0 <= AS_GOOD);
        let chosen = chosen.map(|r| r.1).min().unwrap_or(0);
        let (candidate, x) = kept[chosen];
        let ties: Vec<(&Candidate, Tie)> = ranked
            .iter()
            .filter(|(l, i)| {
                let siblings = kept[*i].0.is_sibling_of(candidate);
                best - l <= if siblings { TIE_OF_SIBLINGS } else { TIE }
            })
            .map(|(l, i)| {
                let (c, x) = kept[*i];
                let tie = Tie {
                    name: c.label(),
                    queue: c.queue(x).to_string(),
                    behind: best - l,
                };
                (c, tie)
            })
            .collect();
        let runs = &seen[chosen * SEEDS as usize..(chosen + 1) * SEEDS as usize];
        let mut current = twin.clone();
        let spec = with_queue(of(&mut current, direction), candidate, x);
        let fitted = self.fitted(side, &spec, candidate, ties, runs);
        Ok((spec, fitted))
    }

    fn fitted(
        &self,
        side: &Side,
        spec: &DirectionSpec,
        candidate: &Candidate,
        ties: Vec<(&Candidate, Tie)>,
        runs: &[Observed],
    ) -> Fitted {
        let bps = match &spec.rate {
            RateSpec::Fixed(r) => r.get() as f64,
            _ => side.rate.value().unwrap_or(0.0),
        };
        let rate_bps = match &side.rate {
            Figure::Is { low, high, .. } => Figure::Is {
                value: bps,
                low: low.min(bps),
                high: high.max(bps),
            },
            unknown => unknown.clone(),
        };
        let same = ties
            .iter()
            .all(|t| t.0.name == candidate.name && t.0.kind == candidate.kind);
        let by_a_law = candidate.kind != Discipline::DropTail;
        let discipline = if same && by_a_law && side.table.is_some() {
            Named::CannotTell {
                cannot_tell:
                    "the rate moves, and the drops of a law look like the traffic of others".into(),
            }
        } else if same {
            Named::Is(candidate.name.into())
        } else {
            let mut names: Vec<&str> = ties.iter().map(|t| t.1.name.as_str()).collect();
            names.dedup();
            Named::CannotTell {
                cannot_tell: format!("the recording fits {} alike", names.join(", ")),
            }
        };
        let kind = match ties.iter().all(|t| t.0.kind == candidate.kind) {
            true => candidate.kind,
            false => Discipline::CannotTell,
        };
        Fitted {
            buffer_bytes: buffer(side, spec, candidate, kind, bps, runs),
            rate_bps,
            rate_seen: side.table.as_ref().map(Table::seen),
            discipline,
            kind,
            ties: ties.into_iter().map(|t| t.1).collect(),
            evidence: side.evidence.clone(),
        }
    }

    pub(crate) fn load_of_both(&self, both: &Phase, sides: &[Side; 2]) -> Load {
        let fastest = sides.iter().filter_map(|s| s.rate.value());
        Load {
            burst: sides[0].load.burst,
            ..Load::of(&self.facts, both, fastest.fold(1e3, f64::max))
        }
    }

    /// Compares the recording with the twin, in all loaded phases.
    fn compare(
        &self,
        twin: &LinkSpec,
        sides: &[Side; 2],
    ) -> Result<(Vec<Compared>, Vec<Waits>), TwinError> {
        let (mut all, mut waits) = (Vec::new(), Vec::new());
        let mut add = |found: Option<Compared>, real: &Observed, runs: &[Observed]| {
            if let Some(compared) = found {
                waits.push(shown(&compared, real, runs));
                all.push(compared);
            }
        };
        for d in DIRECTIONS {
            let side = &sides[d as usize];
            let own = DIRECTIONS.map(|o| side.table.as_ref().filter(|_| o == d));
            let runs = self.repeat(twin, &side.load, &[d], own)?;
            let runs: Vec<Observed> = runs.into_iter().flatten().collect();
            let found = validate::compare(d.word(), false, &side.real, &runs);
            add(found, &side.real, &runs);
        }
        (self.means.progress)(0.9);
        let Some(both) = self.facts.phase("both") else {
            return Ok((all, waits));
        };
        if !self.facts.one_way() || both.to_ns.saturating_sub(both.warm_ns) < 3_000_000_000 {
            return Ok((all, waits));
        }
        let load = self.load_of_both(both, sides);
        let of = |runs: &[Vec<Observed>], d: Direction| -> Vec<Observed> {
            runs.iter().map(|r| r[d as usize].clone()).collect()
        };
        let another = self.repeat(twin, &load, &DIRECTIONS, [None; 2])?;
        let shown = of_both(sides);
        let replayed = match shown.iter().any(Option::is_some) {
            true => Some(self.repeat(twin, &load, &DIRECTIONS, shown)?),
            false => None,
        };
        let unseen = DIRECTIONS.map(|d| sides[d as usize].unseen());
        for d in DIRECTIONS {
            let real = self.facts.observed(&load.part_of(both), d);
            let compare = |runs: &[Observed]| validate::compare("both", true, &real, runs);
            let another = of(&another, d);
            let replayed = replayed.as_deref().filter(|_| !unseen[d as usize]);
            let replayed = replayed.map(|runs| of(runs, d));
            let found = compare(&another);
            let found = found.map(|c| {
                c.with(
                    replayed.as_deref().and_then(compare),
                    unseen.contains(&true),
                )
            });
            add(found, &real, replayed.as_deref().unwrap_or(&another));
        }
        (self.means.progress)(1.0);
        Ok((all, waits))
    }

    /// Repeats a load with fresh seeds. Rates are those of these tables, from the start of the load on. Without one, a
    /// rate that moves starts at a time of its own in each run: the capacity of another minute is another one.
    pub(crate) fn repeat(
        &self,
        twin: &LinkSpec,
        load: &Load,
        directions: &[Direction],
        tables: [Option<&Table>; 2],
    ) -> Result<Vec<Vec<Observed>>, TwinError> {
        let seeds: Vec<u64> = (0..SEEDS).map(|s| self.means.seed + 100 + s).collect();
        let runs = in_parallel(&seeds, self.means.threads, &|_, seed| {
            let mut link = service::at_another_time(twin, *seed);
            for d in DIRECTIONS {
                if let Some(table) = tables[d as usize] {
                    of(&mut link, d).rate = table.rate(load.starts().as_secs_f64());
                }
            }
            self.observe(&link, load, directions, *seed)
        });
        runs.into_iter().collect()
    }
}

/// Buffer of a direction, or the reason why it does not show.
fn buffer(
    side: &Side,
    spec: &DirectionSpec,
    candidate: &Candidate,
    kind: Discipline,
    bps: f64,
    runs: &[Observed],
) -> Figure {
    if kind != Discipline::DropTail {
        return match &side.size {
            Figure::CannotTell { .. } if kind == Discipline::CannotTell => Figure::cannot_tell(
                "the discipline is unknown, and only some have an end that the load meets",
            ),
            Figure::CannotTell { .. } => Figure::cannot_tell(format!(
                "the queue is kept short by {}: its end was never met",
                candidate.label()
            )),
            known => known.clone(),
        };
    }
    let limits = spec.queue.limits();
    let packets = limits.packets.map(|n| n as f64 * side.real.packet_bytes);
    let Some(value) = limits.bytes.map(|b| b.get() as f64).or(packets) else {
        return Figure::cannot_tell("the queue has no limit");
    };
    if side.real.again == 0.0 && side.real.lost == 0.0 {
        return Figure::cannot_tell(format!(
            "the load never met its end: at least {}",
            SIZE.print(value)
        ));
    }
    // The level scatters between seeds, and no queue is known better than the packet that did not fit.
    let levels: Vec<f64> = runs
        .iter()
        .filter_map(|o| level(o, By::Top, side.load.warm))
        .collect();
    let scatter_ms = stats::moments(&levels).map_or(0.0, |m| 2.0 * m.sd);
    let half = (scatter_ms * bps / 8e3).hypot(side.real.packet_bytes) + 0.003 * value;
    Figure::Is {
        value,
        low: (value - half).max(0.0),
        high: value + half,
    }
}

/// True if a twin may answer questions.
pub fn usable(twin: &Twin) -> bool {
    twin.trust != Trust::Rejected
}
