//! Reports over the recordings of many points: the digest of each recording, and the comparison of the points.

use crate::analyse;
use crate::progress::Shared;
use crate::scan::{self, Source};
use crate::{Progress, usage};
use analysis::before_after::Round;
use analysis::points::{Rtts, compare, distributions};
use base::record::{Status, TableId, Text};
use report::terminal::Style;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use analysis::points::{Day, Delays, Point, Points};

/// Digest of a recording: all that a report keeps of it.
#[derive(Default)]
pub struct Digest {
    /// Days of a monitor's probes.
    pub days: Vec<Day>,
    /// A test's figures.
    pub round: Option<Round>,
}

const DAY_NS: i64 = 86_400_000_000_000;

/// Makes the digest of a recording. Experiments leave nothing.
///
/// # Errors
/// A recording that cannot be read, or whose probes were thinned.
pub fn digest(path: &Path, progress: &mut dyn Progress) -> anyhow::Result<Digest> {
    let shared = Shared::new(progress);
    let from = Source {
        path,
        observer: &shared,
    };
    let mut digest = Digest::default();
    match &*scan::meta(from)?.verb {
        "test" => digest.round = Some(Round::of(&analyse::test(from)?.0)),
        "monitor" => digest.days = days(from)?,
        _ => {}
    }
    Ok(digest)
}

/// Days of the probes to each target.
fn days(from: Source<'_>) -> anyhow::Result<Vec<Day>> {
    let mut is_thinned = false;
    scan::scan(from, TableId::Distribution, &["t_ns"], &mut |rows| {
        is_thinned |= !rows.is_empty();
    })?;
    anyhow::ensure!(!is_thinned, "its oldest probes were thinned");
    let mut all: BTreeMap<(Text, i64), Day> = BTreeMap::new();
    scan::probes(from, |target, sent_ns, rtt_ns, status| {
        let missed = match status {
            Status::Ok => false,
            Status::Late | Status::Lost | Status::LostUp | Status::LostDown => true,
            Status::Duplicate | Status::Invalid | Status::NotSent => return,
        };
        let key = (target.clone(), sent_ns.div_euclid(DAY_NS));
        let day = all.entry(key).or_default();
        day.judged += 1;
        day.missed += u64::from(missed);
        if let (false, Some(rtt)) = (missed, rtt_ns) {
            day.rtts.add(rtt.unsigned_abs());
        }
    })?;
    let named = all.into_iter().map(|((target, number), day)| Day {
        target: target.to_string(),
        date: date(number.saturating_mul(DAY_NS)),
        ..day
    });
    Ok(named.collect())
}

/// Date (UTC) of a time, UNIX ns.
pub fn date(t_ns: i64) -> String {
    let at = jiff::Timestamp::from_nanosecond(i128::from(t_ns));
    let day = |t: jiff::Timestamp| t.to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
    at.map_or_else(|_| "unknown".into(), day)
}

/// Points side by side, with the page about them.
pub struct Answer {
    pub points: Points,
    page: String,
}

/// Compares points, and groups of points with the same value of a label.
///
/// # Errors
/// Nothing was measured; no point has the label.
pub fn run(points: &[Point], by: Option<&str>) -> anyhow::Result<Answer> {
    if points
        .iter()
        .all(|p| p.days.is_empty() && p.rounds.is_empty())
    {
        return Err(usage("no point has measured anything in these days"));
    }
    if let Some(label) = by
        && !points.iter().any(|p| p.labels.contains_key(label))
    {
        let known: BTreeSet<&str> = points
            .iter()
            .flat_map(|p| p.labels.keys())
            .map(|k| &**k)
            .collect();
        let known: Vec<&str> = known.into_iter().collect();
        let known = match known.is_empty() {
            true => "none has any".to_owned(),
            false => format!("there are {}", known.join(", ")),
        };
        return Err(usage(format!(
            "--by {label}: no point has this label; {known} (tailback fleet label)"
        )));
    }
    let found = compare(points, by);
    let drawn = found
        .targets
        .iter()
        .map(|t| distributions(points, &t.target, by))
        .collect::<Vec<_>>();
    Ok(Answer {
        page: report::points::page(&found, &drawn),
        points: found,
    })
}

impl Answer {
    /// Text for a terminal.
    pub fn text(&self, style: Style) -> String {
        report::points::text(&self.points, style)
    }

    /// Page, complete without a script.
    pub fn page(&self) -> &str {
        &self.page
    }
}

/// Round trips of a day as steps: value and count, ns.
pub fn steps(rtts: &Rtts) -> Vec<(u64, u64)> {
    rtts.counts().collect()
}

/// Round trips of such steps.
pub fn of_steps(steps: &[(u64, u64)]) -> Rtts {
    let mut rtts = Rtts::default();
    steps
        .iter()
        .for_each(|(value, count)| rtts.add_many(*value, *count));
    rtts
}
