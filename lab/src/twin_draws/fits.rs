//! Fits of many links, each compared with the truth.

use super::{Args, drawn, mean_bps, with_means};
use crate::draws::family::Draw;
use crate::draws::truth::{DirectionTruth, in_virtual_time, truth};
use analysis::answer::Discipline;
use base::Duration;
use base::record::Recording;
use link::{DirectionSpec, RateSpec};
use twin::{Fitted, Named, Trust, Twin};

/// Figures of the fits of a group of links.
#[derive(Default)]
pub struct Fits {
    pub links: u64,
    /// Links that the twin refused, with the reason.
    pub refused: Vec<String>,
    pub agrees: u64,
    pub doubtful: u64,
    pub rejected: u64,
    /// Relative errors of fixed rates.
    pub rates: Vec<f64>,
    /// Relative errors of varying rates in windows of 100 ms, root of the mean square.
    pub tables: Vec<f64>,
    /// Relative errors of buffers, and the number of intervals that hold the truth.
    pub buffers: Vec<f64>,
    pub buffers_held: u64,
    /// Relative errors of the 95 % point of waits on the held-out load, and W1 / p95.
    pub p95s: Vec<f64>,
    pub w1s: Vec<f64>,
    /// The same with the capacity of that phase, where it moves.
    pub replayed_p95s: Vec<f64>,
    pub replayed_w1s: Vec<f64>,
    /// Relative errors of the 95 % point's mean over seeds, twin against link, on the held-out load.
    pub means: Vec<f64>,
    /// Relative errors of the recording's own 95 % point, a single run of the link, against that mean.
    pub chances: Vec<f64>,
    /// The same of a twin with a constant rate.
    pub constant_p95s: Vec<f64>,
    pub constant_w1s: Vec<f64>,
    /// Distance of link and twin over that of two twins.
    pub scores: Vec<f64>,
    pub named: u64,
    pub untold: u64,
    /// Disciplines that were named wrongly.
    pub misnamed: Vec<String>,
    /// Processor time of the fits and simulated runs.
    pub took_s: f64,
    pub runs: u64,
}

/// Fits all links of these families.
pub fn fits(args: &Args, families: &[&str]) -> anyhow::Result<Fits> {
    let mut all = Fits::default();
    for draw in drawn(args, families)? {
        let outcome = sim::bufferbloat::run(&crate::draws::virtual_time::plan(&draw))?;
        let truth = truth(&draw, in_virtual_time(&draw, &outcome.seen));
        let rec = outcome.recording;
        all.links += 1;
        let began = super::processor_s();
        let found = with_means(args, draw.number, |m| twin::fit(&rec, m));
        all.took_s += super::processor_s() - began;
        match found {
            Err(e) => all.refused.push(e.to_string()),
            Ok(twin) => {
                if args.verbose {
                    tell(&draw, &twin);
                }
                all.add(&draw, &rec, &twin);
                all.name(&truth.up, &draw.link.up, &twin.up);
                all.name(&truth.down, &draw.link.down, &twin.down);
                all.against_link(args, &draw, &rec, &twin);
                all.beside(args, &draw, &rec, &twin);
            }
        }
    }
    Ok(all)
}

impl Fits {
    fn add(&mut self, draw: &Draw, rec: &Recording, twin: &Twin) {
        self.runs += twin.runs;
        match twin.trust {
            Trust::Agrees => self.agrees += 1,
            Trust::Doubtful => self.doubtful += 1,
            Trust::Rejected => self.rejected += 1,
        }
        for c in twin.compared.iter().filter(|c| c.held_out) {
            self.p95s.push(c.p95_error.abs());
            self.w1s.push(c.w1_ms / c.link_ms[1].max(0.1));
            self.scores.push(c.score);
            if let Some(r) = &c.replayed {
                self.replayed_p95s.push(r.p95_error.abs());
                self.replayed_w1s.push(r.w1_ms / c.link_ms[1].max(0.1));
            }
        }
        let pairs = [
            ("up", &draw.link.up, &twin.link.up, &twin.up),
            ("down", &draw.link.down, &twin.link.down, &twin.down),
        ];
        for (name, truth, spec, fitted) in pairs {
            let Some(fitted) = fitted else { continue };
            self.direction(name, truth, spec, fitted, rec);
        }
    }

    fn direction(
        &mut self,
        name: &str,
        truth: &DirectionSpec,
        spec: &DirectionSpec,
        fitted: &Fitted,
        rec: &Recording,
    ) {
        match (&truth.rate, &spec.rate) {
            (RateSpec::Fixed(_), RateSpec::Fixed(_)) => {
                self.rates
                    .push((mean_bps(spec) / mean_bps(truth) - 1.0).abs());
            }
            (_, RateSpec::Fixed(_)) | (RateSpec::Fixed(_), _) => {}
            _ => self.tables.extend(rate_error(rec, name, truth, spec)),
        }
        if truth.queue.name() == "fifo"
            && let stats::Figure::Is { value, low, high } = fitted.buffer_bytes
        {
            let limits = truth.queue.limits();
            let packets = limits.packets.map(|n| n as f64 * 1500.0);
            if let Some(real) = limits.bytes.map(|b| b.get() as f64).or(packets) {
                self.buffers.push((value / real - 1.0).abs());
                self.buffers_held += u64::from((low..=high).contains(&real));
            }
        }
    }

    /// Judges the name of a discipline.
    fn name(&mut self, truth: &DirectionTruth, spec: &DirectionSpec, fitted: &Option<Fitted>) {
        let saw = &truth.saw;
        let by_its_end = saw.dropped_full > 0 && saw.dropped_full >= 9 * saw.dropped_by_law;
        match fitted.as_ref().map(|f| &f.discipline) {
            None | Some(Named::CannotTell { .. }) => self.untold += 1,
            Some(Named::Is(is)) if is == truth_name(spec) => self.named += 1,
            // The law never acted: its queue was one with tail drop.
            Some(Named::Is(is)) if is == "fifo" && by_its_end => self.named += 1,
            Some(Named::Is(is)) => self.misnamed.push(format!(
                "{is} for {}, which dropped {} packets at its end and {} before",
                spec.queue, saw.dropped_full, saw.dropped_by_law
            )),
        }
    }

    /// Compares the twin's held-out delay with that of the true link, both over several seeds. A recording is one run of
    /// the link, so chance is part of its difference from the twin.
    fn against_link(&mut self, args: &Args, draw: &Draw, rec: &Recording, twin: &Twin) {
        let truth = with_means(args, draw.number + 1_000_000, |m| {
            twin::check_with(rec, &draw.link, draw.burst, m)
        });
        for t in truth.iter().flat_map(|t| &t.compared) {
            let same = |c: &&twin::Compared| c.held_out && c.direction == t.direction;
            if let Some(c) = twin.compared.iter().find(same).filter(|_| t.held_out) {
                // Packets' times and the hosts' noise below which no error is one.
                let real = t.twin_ms[1].max(1.0);
                self.means.push((c.twin_ms[1] - t.twin_ms[1]).abs() / real);
                self.chances
                    .push((t.link_ms[1] - t.twin_ms[1]).abs() / real);
                if args.verbose {
                    eprintln!(
                        "  both {}: p95 of the link over seeds {:.1} ms, of the twin {:.1} ms",
                        t.direction, t.twin_ms[1], c.twin_ms[1]
                    );
                }
            }
        }
    }

    /// Compares the recording with a twin whose rate is constant, if the fitted one's is not.
    fn beside(&mut self, args: &Args, draw: &Draw, rec: &Recording, twin: &Twin) {
        let mut constant = twin.link.clone();
        let mut varied = false;
        for side in [&mut constant.up, &mut constant.down] {
            if !matches!(side.rate, RateSpec::Fixed(_)) {
                let mean = base::BitsPerSec::new(mean_bps(side) as u64);
                side.rate = RateSpec::Fixed(mean);
                varied = true;
            }
        }
        if !varied {
            return;
        }
        let checked = with_means(args, draw.number, |m| twin::check(rec, &constant, m));
        for c in checked.iter().flat_map(|t| &t.compared) {
            if c.held_out {
                self.constant_p95s.push(c.p95_error.abs());
                self.constant_w1s.push(c.w1_ms / c.link_ms[1].max(0.1));
            }
        }
    }
}

/// Discipline that unmarked packets meet.
fn truth_name(truth: &DirectionSpec) -> &str {
    let text = truth.queue.to_string();
    let rest = text.split("rest=").nth(1);
    let rest = rest.map(|r| r.split(',').next().unwrap_or(r).to_owned());
    match (truth.queue.name(), rest.as_deref()) {
        // A token bucket in front of a plain queue is one at its rate.
        ("tbf", _) => "fifo",
        ("prio" | "drr", Some("fifo")) => "fifo",
        ("prio" | "drr", Some("codel")) => "codel",
        ("prio" | "drr", Some("fq_codel")) => "fq_codel",
        ("prio" | "drr", _) => "pie",
        (name, _) => name,
    }
}

/// Relative error of the table's rates in the steady part of its phase, in windows of 100 ms.
fn rate_error(
    rec: &Recording,
    phase: &str,
    truth: &DirectionSpec,
    spec: &DirectionSpec,
) -> Option<f64> {
    let list = analysis::phases::phases(rec, None);
    let phase = list.iter().find(|p| p.name == phase)?;
    let (truth, spec) = (truth.params().ok()?.rate, spec.params().ok()?.rate);
    let since = |t: i64| Duration::from_nanos((t - sim::bufferbloat::EPOCH_NS).max(0) as u64);
    let (from, to) = (since(phase.from_ns), since(phase.to_ns));
    let window = Duration::from_millis(100);
    let mut at = since(phase.warm_ns);
    let (mut sum, mut count) = (0.0, 0.0f64);
    while at + window < to {
        let own = at.saturating_sub(from);
        let real = truth.mean_between(at, at + window).get() as f64;
        let seen = spec.mean_between(own, own + window).get() as f64;
        if real > 0.0 {
            sum += (seen / real - 1.0).powi(2);
            count += 1.0;
        }
        at += window;
    }
    Some((sum / count.max(1.0)).sqrt())
}

/// Prints a fit beside its link.
pub fn tell(draw: &Draw, twin: &Twin) {
    eprintln!(
        "draw {}: {}",
        draw.number,
        crate::draws::results::describe(draw)
    );
    for (name, f) in [("up", &twin.up), ("down", &twin.down)] {
        let Some(f) = f else { continue };
        let kind: Discipline = f.kind;
        eprintln!(
            "  {name}: {:?} {kind:?} {:?}, buffer {:?}, ties {:.1?}",
            f.rate_bps.value(),
            f.discipline,
            f.buffer_bytes.value(),
            f.ties
                .iter()
                .map(|t| (&t.queue, t.behind))
                .collect::<Vec<_>>()
        );
    }
    for c in &twin.compared {
        eprintln!(
            "  {} {}: link {:.1?}, twin {:.1?} ms, p95 from {:.1?}, rate {:.1?} %, W1 {:.2} over {:.2}, {:?}",
            c.phase,
            c.direction,
            c.link_ms,
            c.twin_ms,
            c.twin_p95_range_ms,
            c.rate_error.map(|e| 100.0 * e),
            c.w1_ms,
            c.floor_ms,
            c.trust
        );
        if let Some(r) = &c.replayed {
            eprintln!(
                "    with its own capacity: twin {:.1?} ms, rate {:.1?} %, W1 {:.2} over {:.2}",
                r.twin_ms,
                r.rate_error.map(|e| 100.0 * e),
                r.w1_ms,
                r.floor_ms
            );
        }
    }
}
