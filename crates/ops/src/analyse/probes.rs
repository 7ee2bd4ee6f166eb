//! Recordings of probes: one answer, several side by side, and their plots.

use crate::progress::Observer;
use crate::scan::{self, Source};
use crate::usage;
use base::record::Meta;
use experiment::ProbeAnswer;
use std::path::PathBuf;

/// True if the recording is of a probe.
pub(crate) fn made(from: Source<'_>) -> anyhow::Result<bool> {
    Ok(scan::meta(from)?.verb == "probe")
}

/// Answer of a probe's recording, and the facts about it.
pub(crate) fn answer(from: Source<'_>) -> anyhow::Result<(ProbeAnswer, Meta)> {
    let recording = scan::whole(from)?;
    let answer = experiment::analyse(&recording)?;
    Ok((answer, recording.meta))
}

/// Answers of several recordings of one kind, by name.
pub(crate) fn answers(
    paths: &[PathBuf],
    observer: &dyn Observer,
) -> anyhow::Result<Vec<(String, ProbeAnswer)>> {
    let mut all = Vec::new();
    for path in paths {
        let recording = scan::whole(Source { path, observer })?;
        let spec = experiment::spec_of(&recording)?;
        let answer = experiment::analyse(&recording)?;
        all.push((path.display().to_string(), spec.kind().entry.name, answer));
    }
    if let [(first, kind, _), rest @ ..] = &all[..]
        && let Some((other, its, _)) = rest.iter().find(|r| r.1 != *kind)
    {
        return Err(usage(format!(
            "{first} is of `probe {kind}` and {other} of `probe {its}`: give recordings of one kind"
        )));
    }
    Ok(all
        .into_iter()
        .map(|(name, _, answer)| (name, answer))
        .collect())
}

/// Recordings of one kind as one page, or their plots over the day.
pub(crate) fn draw_all(
    paths: &[PathBuf],
    page: bool,
    observer: &dyn Observer,
) -> anyhow::Result<String> {
    let all = answers(paths, observer)?;
    if page {
        return Ok(report::again::page(&all));
    }
    let plots = report::again::over_the_day(&all);
    if plots.is_empty() {
        return Err(usage(
            "a picture over the day takes more than five recordings, begun in different hours; write .html",
        ));
    }
    Ok(report::probe::pictures("over the day", &plots))
}

/// Page of one recording, or all of its plots, one below the other.
pub(crate) fn draw(from: Source<'_>, page: bool) -> anyhow::Result<String> {
    let recording = scan::whole(from)?;
    let answer = experiment::analyse(&recording)?;
    if page {
        return Ok(report::probe::page(&answer, &recording.meta));
    }
    let plots = &answer.outcome.plots;
    if plots.is_empty() {
        return Err(usage(format!(
            "{}: this probe's answer has no picture; write .html",
            from.display()
        )));
    }
    Ok(report::probe::pictures(&answer.probe, plots))
}
