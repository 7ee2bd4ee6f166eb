//! Probes of a recording, one by one.

use crate::scan::{self, Source};
use crate::usage;
use base::record::{Delay, Row, TableId};
use std::collections::BTreeSet;

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
