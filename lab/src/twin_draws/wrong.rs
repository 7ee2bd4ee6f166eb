//! Wrong twins: a forced discipline, a second bottleneck, a policer, half of the buffer.

use super::{Args, FIXED, drawn, record, with_means};
use crate::draws::family::Draw;
use link::LinkSpec;
use twin::{Trust, Twin, TwinError};

/// Wrong twins of one kind, and how many the check rejected.
pub struct Wrong {
    pub what: &'static str,
    pub tried: u64,
    pub rejected: u64,
    pub doubtful: u64,
    /// Recordings that were refused with a reason.
    pub refused: u64,
}

impl Wrong {
    fn new(what: &'static str) -> Wrong {
        Wrong {
            what,
            tried: 0,
            rejected: 0,
            doubtful: 0,
            refused: 0,
        }
    }

    fn count(&mut self, args: &Args, draw: &Draw, found: Result<Twin, TwinError>) {
        self.tried += 1;
        if args.verbose {
            eprintln!("{}: {:?}", self.what, found.as_ref().map(|t| t.trust));
            if let Ok(twin) = &found
                && twin.trust != Trust::Rejected
            {
                super::fits::tell(draw, twin);
            }
        }
        match found.map(|t| t.trust) {
            Err(_) => self.refused += 1,
            Ok(Trust::Rejected) => self.rejected += 1,
            Ok(Trust::Doubtful) => self.doubtful += 1,
            Ok(Trust::Agrees) => {}
        }
    }
}

/// Tries wrong twins on fixed links.
pub fn caught(args: &Args) -> anyhow::Result<Vec<Wrong>> {
    let draws: Vec<Draw> = drawn(args, FIXED)?.into_iter().take(12).collect();
    let mut all = vec![
        forced(args, &draws, "discipline pie forced on the uplink", |l| {
            l.set("up.queue", "pie").is_ok()
        })?,
        forced(args, &draws, "discipline fq_codel forced on both", |l| {
            l.set("up.queue", "fq_codel").is_ok() && l.set("down.queue", "fq_codel").is_ok()
        })?,
        forced(args, &draws, "half of the downlink's rate", |l| {
            let half = super::mean_bps(&l.down) / 2.0;
            l.set("down.rate", &format!("{half:.0} bit/s")).is_ok()
        })?,
    ];
    let mut second = Wrong::new("second bottleneck behind the first");
    for draw in &draws {
        let rec = record(draw, Some(router(&draw.link)))?;
        second.count(
            args,
            draw,
            with_means(args, draw.number, |m| twin::fit(&rec, m)),
        );
    }
    all.push(second);
    let mut policed = Wrong::new("policer");
    for draw in drawn(args, &["policer"])?.iter().take(12) {
        let rec = record(draw, None)?;
        policed.count(
            args,
            draw,
            with_means(args, draw.number, |m| twin::fit(&rec, m)),
        );
    }
    all.push(policed);
    Ok(all)
}

fn forced(
    args: &Args,
    draws: &[Draw],
    what: &'static str,
    force: impl Fn(&mut LinkSpec) -> bool,
) -> anyhow::Result<Wrong> {
    let mut found = Wrong::new(what);
    for draw in draws {
        let rec = record(draw, None)?;
        let mut link = draw.link.clone();
        anyhow::ensure!(force(&mut link), "{what}: the link takes no such value");
        let checked = with_means(args, draw.number, |m| twin::check(&rec, &link, m));
        found.count(args, draw, checked);
    }
    Ok(found)
}

/// Second bottleneck: fair queueing with CoDel, a little faster than the link, and half of the time slower.
fn router(link: &LinkSpec) -> LinkSpec {
    let mut router = link.clone();
    for side in [&mut router.up, &mut router.down] {
        let bps = super::mean_bps(side);
        side.delay = base::Duration::ZERO;
        side.queue = "fq_codel".parse().expect("fq_codel is in the table");
        let step = |at_s: u64, share: f64| link::Step {
            at: base::Duration::from_secs(at_s),
            rate: base::BitsPerSec::new((bps * share) as u64),
        };
        side.rate = link::RateSpec::Steps {
            steps: vec![step(0, 1.4), step(2, 0.7)],
            repeat: Some(base::Duration::from_secs(4)),
        };
    }
    router
}
