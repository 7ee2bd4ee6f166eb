//! Links with more than a twin has: token buckets, policers, cross traffic, grants, two bottlenecks. A twin of one of them is
//! right, or it says that it cannot tell.
//!
//! **Method.** A twin that agrees with its own recording is checked again on two fresh tests of the true link: more flows, and
//! another congestion controller. It is wrong if one of them rejects it and not the true link.

use super::{Args, drawn, record, with_means};
use crate::chance::Chance;
use crate::draws::family::Draw;
use base::record::Recording;
use link::{LinkSpec, RateSpec};
use twin::{Trust, Twin};

/// Twins of one family.
#[derive(Default)]
pub struct Beyond {
    pub what: &'static str,
    pub links: u64,
    /// Twins that agree with their recording and with both other loads.
    pub right: u64,
    /// Links that were refused, and twins that are doubtful or rejected by their own recording.
    pub untold: u64,
    /// Twins that agree with their recording, and that another load rejects.
    pub wrong: u64,
}

/// Change of a draw into a link with more than a twin has; `None` for a family of the draws.
type Change = fn(&mut Chance, &mut Draw) -> Option<LinkSpec>;

const FAMILIES: &[(&str, &str, Change)] = &[
    ("clean, for comparison", "clean", |_, _| None),
    ("token bucket", "token bucket", |_, _| None),
    ("policer", "policer", |_, _| None),
    ("cross traffic", "cross traffic", |_, _| None),
    ("grants: the uplink sends in bunches", "clean", granted),
    ("two bottlenecks in series", "clean", two),
];

/// Most links of a family.
const LINKS: usize = 12;
/// Flows of the second test, and controller of the third.
const FLOWS: u32 = 12;
const CONTROLLER: &str = "newreno";

/// Judges the twins of all families.
pub fn beyond(args: &Args) -> anyhow::Result<Vec<Beyond>> {
    let mut all = Vec::new();
    for (what, family, change) in FAMILIES {
        let mut found = Beyond {
            what,
            ..Beyond::default()
        };
        for mut draw in drawn(args, &[*family])?.into_iter().take(LINKS) {
            let mut c = Chance::new(args.seed, &format!("beyond/{what}/{}", draw.number));
            let router = change(&mut c, &mut draw);
            found.judge(args, &draw, router.as_ref())?;
        }
        all.push(found);
    }
    Ok(all)
}

impl Beyond {
    fn judge(&mut self, args: &Args, draw: &Draw, router: Option<&LinkSpec>) -> anyhow::Result<()> {
        self.links += 1;
        let rec = record(draw, router.cloned())?;
        let found = with_means(args, draw.number, |m| twin::fit(&rec, m));
        let Some(twin) = found.as_ref().ok().filter(|t| t.trust == Trust::Agrees) else {
            if args.verbose {
                eprintln!("{}: {:?}", self.what, found.map(|t| t.trust));
            }
            self.untold += 1;
            return Ok(());
        };
        let mut wrong = false;
        for other in others(draw, router)? {
            let alike: Vec<_> = twin.alike(4).into_iter().map(|l| (l, twin.burst)).collect();
            let checked = nearest(args, draw, &alike, &other);
            let rejected =
                |t: &Option<Twin>| t.as_ref().is_some_and(|t| t.trust == Trust::Rejected);
            // A test may be so rare a run of its link that the link itself is rejected. A link with cross traffic or a
            // router is no link file.
            let by_chance = rejected(&checked)
                && router.is_none()
                && draw.cross.is_empty()
                && rejected(&nearest(
                    args,
                    draw,
                    &[(draw.link.clone(), draw.burst)],
                    &other,
                ));
            wrong |= rejected(&checked) && !by_chance;
            if args.verbose {
                tell(self.what, draw, twin, checked.as_ref(), by_chance);
            }
        }
        match wrong {
            true => self.wrong += 1,
            false => self.right += 1,
        }
        Ok(())
    }
}

/// Check against another recording of the links that a twin is: those of its ties and of its buffer's interval, each with
/// the segments that its senders send together.
fn nearest(args: &Args, draw: &Draw, alike: &[(LinkSpec, u64)], rec: &Recording) -> Option<Twin> {
    let checked = alike.iter().filter_map(|(link, burst)| {
        let seed = draw.number + 2_000_000;
        with_means(args, seed, |m| twin::check_with(rec, link, *burst, m)).ok()
    });
    checked.min_by_key(|t| t.trust)
}

/// Fresh tests of the same link: more flows, and another controller.
fn others(draw: &Draw, router: Option<&LinkSpec>) -> anyhow::Result<[Recording; 2]> {
    let plan = |seed: u64| sim::bufferbloat::Plan {
        router: router.cloned(),
        seed: draw.seed ^ (seed << 50),
        ..crate::draws::virtual_time::plan(draw)
    };
    let (mut more, mut other) = (plan(1), plan(2));
    more.test.flows = Some(FLOWS);
    other.test.congestion = Some(CONTROLLER.into());
    other.tcp.controller = std::sync::Arc::new(CONTROLLER.parse()?);
    let run = |plan| anyhow::Ok(sim::bufferbloat::run(&plan)?.recording);
    Ok([run(more)?, run(other)?])
}

fn tell(what: &str, draw: &Draw, twin: &Twin, checked: Option<&Twin>, by_chance: bool) {
    let trust = checked.map(|t| t.trust);
    eprintln!("{what}: its own recording agrees, another load: {trust:?}, by chance: {by_chance}");
    if trust == Some(Trust::Rejected) {
        super::fits::tell(draw, twin);
        let because = checked.iter().flat_map(|t| &t.because);
        because.for_each(|line| eprintln!("  - {line}"));
    }
}

/// Bunches of opportunities in the uplink, as a radio with grants or a cable modem has them.
fn granted(c: &mut Chance, draw: &mut Draw) -> Option<LinkSpec> {
    let bps = super::mean_bps(&draw.link.up).clamp(500e3, 60e6);
    let period_ms = c.log(4.0, 40.0).round();
    let each = (bps * period_ms / 12e6).round().max(1.0) as usize;
    let grants = (1..=(20_000.0 / period_ms) as u64).map(|i| i * period_ms as u64);
    draw.link.up.rate = RateSpec::Opportunities(
        grants
            .flat_map(|ms| std::iter::repeat_n(ms, each))
            .collect(),
    );
    None
}

/// Router with a queue of its own, slower or faster than the link in each direction.
fn two(c: &mut Chance, draw: &mut Draw) -> Option<LinkSpec> {
    let mut router = draw.link.clone();
    for side in [&mut router.up, &mut router.down] {
        let bps = super::mean_bps(side) * c.uniform(0.7, 1.3);
        side.delay = base::Duration::ZERO;
        let packets = c.log(10.0, 400.0).round();
        let queues = ["fifo:packets", "fq_codel:limit", "pie:limit"];
        let queue = format!("{}={packets}", c.pick(&queues));
        side.queue = queue.parse().expect("a limit within the range");
        side.rate = RateSpec::Fixed(base::BitsPerSec::new(bps as u64));
    }
    Some(router)
}
