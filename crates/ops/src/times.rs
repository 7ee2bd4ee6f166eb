//! Times as people write and read them.

use crate::usage;
use analysis::survey::Span;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Time zone with this name, or this host's.
pub fn zone(name: Option<&str>) -> anyhow::Result<TimeZone> {
    match name {
        Some(name) => TimeZone::get(name).map_err(|e| {
            usage(format!(
                "--zone {name}: {e}. Give a name such as Europe/Oslo or UTC"
            ))
        }),
        None => Ok(TimeZone::system()),
    }
}

/// Reads an instant with its zone, or a civil time in `zone`; `what` names the argument in errors.
pub fn instant(what: &str, text: &str, zone: &TimeZone) -> anyhow::Result<i64> {
    let stamp: Option<Timestamp> = text.parse().ok();
    let civil = || {
        let time: DateTime = text.parse().ok()?;
        Some(time.to_zoned(zone.clone()).ok()?.timestamp())
    };
    stamp
        .or_else(civil)
        .and_then(|t| i64::try_from(t.as_nanosecond()).ok())
        .ok_or_else(|| {
            usage(format!(
                "{what} {text}: no time. Write 2026-05-16T09:17 (in --zone) or 2026-05-16T07:17:00Z"
            ))
        })
}

pub fn stamp(t_ns: i64) -> String {
    Timestamp::from_nanosecond(i128::from(t_ns))
        .map_or_else(|_| t_ns.to_string(), |t| t.to_string())
}

/// Days of `zone` that hold the span, midnight to midnight.
pub fn days(from_ns: i64, to_ns: i64, zone: &TimeZone) -> anyhow::Result<Vec<Span>> {
    let at = |t: i64| -> anyhow::Result<jiff::Zoned> {
        Ok(Timestamp::from_nanosecond(i128::from(t))?.to_zoned(zone.clone()))
    };
    let ns = |z: &jiff::Zoned| i64::try_from(z.timestamp().as_nanosecond());
    let mut days = Vec::new();
    let mut begin = at(from_ns)?.start_of_day()?;
    while ns(&begin)? < to_ns {
        // 26 hours after midnight it is the next day, whatever the clocks did.
        let next = begin
            .checked_add(SignedDuration::from_hours(26))?
            .start_of_day()?;
        days.push(Span {
            name: begin.date().to_string(),
            from_ns: ns(&begin)?,
            to_ns: ns(&next)?,
        });
        begin = next;
    }
    Ok(days)
}

/// Windows of this length that touch the span, counted from each midnight.
pub fn windows(
    days: &[Span],
    length_ns: i64,
    (from_ns, to_ns): (i64, i64),
    zone: &TimeZone,
) -> Vec<Span> {
    let one = |day: &Span| {
        let (from, to) = (day.from_ns.max(from_ns), day.to_ns.min(to_ns));
        let begin = day.from_ns;
        let first = (from - begin).div_euclid(length_ns);
        let end = day.to_ns;
        (first..)
            .map(move |k| {
                (
                    begin + k * length_ns,
                    (begin + (k + 1) * length_ns).min(end),
                )
            })
            .take_while(move |(from, _)| *from < to)
            .map(|(from_ns, to_ns)| Span {
                name: report::when(from_ns, zone),
                from_ns,
                to_ns,
            })
            .collect::<Vec<_>>()
    };
    days.iter().flat_map(one).collect()
}
