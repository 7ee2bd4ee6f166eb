//! Probes of a recording, one by one.

use crate::scan::{self, Source};
use crate::usage;
use base::record::{Delay, Row, Status, TableId};
use std::collections::{BTreeMap, BTreeSet};

/// Targets of a recording.
pub(super) fn targets(from: Source<'_>) -> anyhow::Result<BTreeSet<String>> {
    let (mut targets, mut words) = (BTreeSet::new(), Vec::new());
    scan::scan(from, TableId::Delay, &["target"], &mut |rows| {
        rows.words("target", &mut words);
    })?;
    targets.extend(words.iter().map(|w| w.to_string()));
    if targets.is_empty() {
        return Err(usage(format!("{} has no probes", from.path.display())));
    }
    Ok(targets)
}

/// The target to write: the one that is named, or the only one.
pub(super) fn one_target(from: Source<'_>, named: Option<&str>) -> anyhow::Result<String> {
    let targets = targets(from)?;
    let known = || targets.iter().cloned().collect::<Vec<_>>().join(", ");
    match named {
        Some(name) if targets.contains(name) => Ok(name.to_owned()),
        Some(name) => Err(usage(format!(
            "no target is called {name:?}; there are: {}",
            known()
        ))),
        None if targets.len() == 1 => Ok(targets.first().cloned().unwrap_or_default()),
        None => Err(usage(format!(
            "the recording has {} targets, and the format has room for one: give --target, one of {}",
            targets.len(),
            known()
        ))),
    }
}

/// The target that is named, if one is: the others are left out then.
pub(super) fn only(from: Source<'_>, named: Option<&str>) -> anyhow::Result<Option<String>> {
    named.map(|name| one_target(from, Some(name))).transpose()
}

/// Hands the probes over in the order of the recording.
pub(super) fn each(from: Source<'_>, f: &mut dyn FnMut(&Delay)) -> anyhow::Result<()> {
    scan::each_row(from, TableId::Delay, &mut |row| {
        if let Row::Delay(delay) = row {
            f(&delay);
        }
    })?;
    Ok(())
}

/// Limits of a group of probes.
pub(super) struct Group {
    /// Greatest number of probes.
    pub most: usize,
    /// Longest time between the first and the last probe, ns.
    pub span_ns: i64,
}

/// Hands over the probes of each target, or of one, in groups. Returns the numbers of probes that were handed over, and of those
/// that were not: never sent, or with an answer that cannot be trusted.
pub(super) fn groups(
    from: Source<'_>,
    target: Option<&str>,
    limits: &Group,
    f: &mut dyn FnMut(&str, &[Delay]) -> anyhow::Result<()>,
) -> anyhow::Result<(u64, u64)> {
    let wanted = only(from, target)?;
    let mut open: BTreeMap<String, Vec<Delay>> = BTreeMap::new();
    let (mut count, mut others, mut failed) = (0, 0, None);
    each(from, &mut |delay| {
        if failed.is_some() || wanted.as_ref().is_some_and(|w| *w != *delay.target) {
            return;
        }
        if !tells(delay) {
            others += 1;
            return;
        }
        count += 1;
        let group = open.entry(delay.target.to_string()).or_default();
        let span = group
            .first()
            .map_or(0, |first| delay.sent_ns.saturating_sub(first.sent_ns));
        if group.len() >= limits.most || !(0..limits.span_ns).contains(&span) {
            failed = f(&delay.target, group).err();
            group.clear();
        }
        group.push(delay.clone());
    })?;
    failed.map_or(Ok(()), Err)?;
    for (target, group) in open {
        f(&target, &group)?;
    }
    Ok((count, others))
}

/// Words about the probes that [`groups`] did not hand over.
pub(super) fn left(others: u64) -> Vec<String> {
    let left = (others > 0)
        .then(|| format!("{others} probes that were not sent or whose answer cannot be trusted"));
    left.into_iter().collect()
}

/// True if a probe was sent, and its answer, if there is one, tells a round trip.
fn tells(delay: &Delay) -> bool {
    match delay.status {
        Status::Ok | Status::Duplicate => delay.rtt_ns.is_some(),
        Status::Late | Status::Lost | Status::LostUp | Status::LostDown => true,
        Status::Invalid | Status::NotSent => false,
    }
}
