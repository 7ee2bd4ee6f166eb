//! Spans, exclusions, limits and services as a person writes them, read into a request for statistics.

use super::Plan;
use crate::statistics::Ask;
use crate::{read_text, threads, times, usage};
use analysis::services;
use analysis::survey::Span;
use base::Duration;
use base::record::Exclusion;
use jiff::tz::TimeZone;
use serde::Deserialize;
use std::path::Path;

/// Reads the times, spans and limits of a plan.
pub(super) fn ask(plan: &Plan) -> anyhow::Result<Ask> {
    let zone = times::zone(plan.zone.as_deref())?;
    let instant = |name: &str, text: &Option<String>| {
        text.as_deref()
            .map(|t| times::instant(name, t, &zone))
            .transpose()
    };
    let (from_ns, to_ns) = (instant("--from", &plan.from)?, instant("--to", &plan.to)?);
    let limits_ns = limits(&plan.limits)?;
    if from_ns.zip(to_ns).is_some_and(|(a, b)| a >= b) {
        return Err(usage("--from is not before --to"));
    }
    Ok(Ask {
        from_ns,
        to_ns,
        window_ns: length("--window", plan.window)?,
        sliding_ns: length("--sliding", plan.sliding)?,
        spans: plan
            .spans
            .iter()
            .map(|s| span(s, &zone))
            .collect::<anyhow::Result<_>>()?,
        exclusions: match &plan.exclude {
            Some(path) => exclusions(path, &zone)?,
            None => Vec::new(),
        },
        limits_ns,
        services: services(&plan.services)?,
        up_bps: plan.rate_up.map(|r| r.get() as f64),
        down_bps: plan.rate_down.map(|r| r.get() as f64),
        target: plan.target.clone(),
        threads: threads(plan.threads),
        zone,
    })
}

fn length(name: &str, d: Option<Duration>) -> anyhow::Result<Option<i64>> {
    match d.map(|d| i64::try_from(d.as_nanos())) {
        None => Ok(None),
        Some(Ok(ns)) if ns > 0 => Ok(Some(ns)),
        Some(_) => Err(usage(format!(
            "{name}: give a time above zero, such as 10min"
        ))),
    }
}

/// Limits of reliability in nanoseconds, sorted; the usual ones if none is given.
fn limits(given: &[f64]) -> anyhow::Result<Vec<i64>> {
    let all = match given {
        [] => &analysis::reliability::LIMITS_MS[..],
        given => given,
    };
    let mut limits_ns = Vec::new();
    for ms in all {
        if !(*ms > 0.0 && *ms <= 1e9) {
            return Err(usage(format!(
                "--limits {ms}: give milliseconds above zero"
            )));
        }
        limits_ns.push((ms * 1e6).round() as i64);
    }
    limits_ns.sort_unstable();
    limits_ns.dedup();
    Ok(limits_ns)
}

fn span(text: &str, zone: &TimeZone) -> anyhow::Result<Span> {
    let parts = text.split_once('=').and_then(|(name, times)| {
        let (from, to) = times.split_once('/')?;
        Some((name.trim(), from.trim(), to.trim()))
    });
    let Some((name, from, to)) = parts.filter(|(name, ..)| !name.is_empty()) else {
        return Err(usage(format!(
            "--span {text}: write NAME=FROM/TO, such as upload=2014-05-16T09:14/2014-05-16T09:40"
        )));
    };
    let (from_ns, to_ns) = (
        times::instant("--span", from, zone)?,
        times::instant("--span", to, zone)?,
    );
    if from_ns >= to_ns {
        return Err(usage(format!("--span {text}: it ends before it begins")));
    }
    Ok(Span {
        name: name.into(),
        from_ns,
        to_ns,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExclusionFile {
    exclude: Vec<ExclusionLine>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExclusionLine {
    from: String,
    to: String,
    reason: String,
}

/// Reads the excluded times of a file; times without a zone are in `zone`.
pub(super) fn exclusions(path: &Path, zone: &TimeZone) -> anyhow::Result<Vec<Exclusion>> {
    let file: ExclusionFile =
        toml::from_str(&read_text(path)?).map_err(|e| usage(format!("{}: {e}", path.display())))?;
    let one = |x: ExclusionLine| {
        let what = path.display().to_string();
        let e = Exclusion {
            from_ns: times::instant(&what, &x.from, zone)?,
            to_ns: times::instant(&what, &x.to, zone)?,
            reason: x.reason,
        };
        if e.from_ns >= e.to_ns {
            return Err(usage(format!(
                "{what}: {} to {}: it ends before it begins",
                x.from, x.to
            )));
        }
        Ok(e)
    };
    file.exclude.into_iter().map(one).collect()
}

fn services(names: &[String]) -> anyhow::Result<Vec<services::Table>> {
    let mut all = Vec::new();
    for name in names {
        let (what, text) = match name.as_str() {
            "built-in" => (name.clone(), services::BUILT_IN.to_owned()),
            path => (path.to_owned(), read_text(Path::new(path))?),
        };
        all.extend(services::read(&text).map_err(|e| usage(format!("{what}: {e}")))?);
    }
    Ok(all)
}
