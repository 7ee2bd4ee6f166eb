//! Instants, spans, gaps and incidents in words. Figures and their units are in `base::print`.

use analysis::answer::{Discipline, Severity};
use analysis::holes::{Gap, Outage};
use analysis::incidents::{Incident, IncidentKind};
use base::print::number;
use base::record::{Direction, Origin};
use stats::Figure;

/// Formats the start of a run: date and minute in UTC.
pub fn moment(unix_ns: i64) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(unix_ns)) {
        Ok(t) => t.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => "unknown time".into(),
    }
}

/// Formats an instant in a zone, with seconds if it is not a whole minute.
pub fn when(unix_ns: i64, zone: &jiff::tz::TimeZone) -> String {
    let Ok(t) = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)) else {
        return "unknown time".into();
    };
    let form = if unix_ns.rem_euclid(60_000_000_000) == 0 {
        "%Y-%m-%d %H:%M"
    } else {
        "%Y-%m-%d %H:%M:%S"
    };
    t.to_zoned(zone.clone()).strftime(form).to_string()
}

/// Formats a share from 0 to 1 in percent, rounded down, with enough digits to tell three nines from five: 0.999996 is
/// `99.9996`.
pub fn nines(share: f64) -> String {
    let p = share * 100.0;
    let missing = 100.0 - p;
    if missing <= 0.0 {
        return "100".into();
    }
    if p <= 0.0 {
        return "0".into();
    }
    // Two digits of the difference to 100 %, and at least two decimals. The margin absorbs binary rounding of exact
    // tenths.
    let digits = (1.0 - (missing.log10() + 1e-6).floor()).clamp(2.0, 9.0) as usize;
    let scale = 10f64.powi(digits as i32);
    // The margin keeps digits that binary rounding puts just below their value.
    let cut = (p * scale + 1e-6).floor() / scale;
    format!("{cut:.digits$}")
}

/// Returns the reason for a gap in the recording.
pub fn why_gap(g: &Gap) -> &str {
    if g.reason.is_empty() {
        "nothing was recorded"
    } else {
        &g.reason
    }
}

/// Returns the cause of an outage in words.
pub fn cause(o: &Outage) -> &str {
    match (&*o.cause, o.ended) {
        ("", true) => "not known to this host",
        ("", false) => "not known to this host; no answer after it",
        (cause, _) => cause,
    }
}

/// Describes an incident, without its time.
pub fn incident(i: &Incident) -> String {
    let who = &i.subject;
    let long = i.seconds.map_or("unknown".into(), |s| lasting(s.abs()));
    let set = |whose: &str| {
        let way = if i.seconds.is_some_and(|s| s < 0.0) {
            "back"
        } else {
            "forward"
        };
        format!("{whose} was set {way} by {long}")
    };
    match i.kind {
        IncidentKind::ClockSet => set("this host's clock"),
        IncidentKind::FarClockSet => set("the far end's clock"),
        IncidentKind::ClockSteered => {
            format!("a time service steers this host's clock {}", i.detail)
        }
        IncidentKind::HostSlept => format!("this host slept for {long}"),
        IncidentKind::AddressChanged => format!("{who}: addresses were {}", i.detail),
        IncidentKind::ServerBeganAnew => format!("{who}: the server had begun anew"),
        IncidentKind::InterfaceDown => format!("{who} was down for {long}"),
        IncidentKind::NoAddress => format!("{who} had no address for {long}"),
        IncidentKind::NotWatched if i.seconds.is_some() => {
            format!("{who}: the monitor was not running for {long}")
        }
        IncidentKind::NotWatched => format!("{who}: begun again; {}", i.detail),
    }
}

pub fn origin(o: Origin) -> &'static str {
    match o {
        Origin::Measured => "measured",
        Origin::Emulated => "over an emulated link",
        Origin::Simulated => "simulated",
        Origin::Captured => "captured",
        Origin::Imported => "imported",
    }
}

/// Formats a length of time in seconds, in its two largest units: `154 s`, `3 h 53 min`, `20 d 8 h`.
pub fn lasting(seconds: f64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)];
    // Up to 12 min are printed in seconds if they are not whole minutes.
    if seconds < 180.0 || (seconds < 720.0 && seconds % 60.0 != 0.0) {
        return format!("{} s", number(seconds));
    }
    // Precision: minutes from 1 h on, hours from 1 d on.
    let to = match seconds {
        s if s >= 86_400.0 - 30.0 => 3600,
        s if s >= 3600.0 - 0.5 => 60,
        _ => 1,
    };
    let mut left = (seconds / to as f64).round() as u64 * to;
    let mut parts = Vec::new();
    for (unit, size) in UNITS {
        if left >= size {
            parts.push(format!("{} {unit}", left / size));
            left %= size;
        }
    }
    parts.join(" ")
}

/// Returns the reason why a figure cannot be measured; empty if it can.
pub fn reason(figure: &Figure) -> &str {
    match figure {
        Figure::CannotTell { cannot_tell } => cannot_tell,
        Figure::Is { .. } => "",
    }
}

pub fn direction(d: Direction) -> &'static str {
    match d {
        Direction::Up => "upload",
        Direction::Down => "download",
    }
}

/// Returns the phase's name as a heading.
pub fn phase(name: &str) -> &str {
    match name {
        "idle" => "Idle",
        "down" => "Download",
        "up" => "Upload",
        "both" => "Both",
        other => other,
    }
}

pub fn discipline(d: Discipline) -> &'static str {
    match d {
        Discipline::DropTail => "drop-tail",
        Discipline::Aqm => "active queue management (AQM)",
        Discipline::FairQueueing => "fair queueing",
        Discipline::FairQueueingAqm => "fair queueing with AQM",
        Discipline::Policer => "policer (no queue)",
        Discipline::CannotTell => "cannot tell",
    }
}

/// Returns the word for a severity, which is its style class in a page.
pub fn severity(s: Severity) -> &'static str {
    match s {
        Severity::Bad => "bad",
        Severity::Warning => "warning",
        Severity::Note => "note",
        Severity::Good => "good",
    }
}

/// Replaces control characters, among them the first byte of escape sequences, by spaces, so that text cannot control a
/// terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Converts to ASCII for terminals without Unicode.
pub fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => out.push(c),
            '×' | '⨯' => out.push('x'),
            'µ' | 'μ' => out.push('u'),
            '–' | '—' | '−' | '‑' => out.push('-'),
            '…' => out.push_str("..."),
            '≥' => out.push_str(">="),
            '≤' => out.push_str("<="),
            '≈' => out.push('~'),
            '→' => out.push_str("->"),
            '±' => out.push_str("+-"),
            '·' => out.push('*'),
            '’' | '‘' => out.push('\''),
            '“' | '”' => out.push('"'),
            '\u{a0}' | '\u{202f}' | '\u{2009}' => out.push(' '),
            _ => out.push('?'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_to_the_minute() {
        assert_eq!(moment(1_792_000_000_000_000_000), "2026-10-14 17:46 UTC");
    }

    #[test]
    fn lengths_of_time_have_the_units_people_use() {
        let told = [
            0.5,
            154.0,
            160.0,
            600.0,
            605.0,
            1800.0,
            1803.0,
            14_000.0,
            86_399.9,
            1_757_040.0,
        ];
        let expected = [
            "0.5 s",
            "154 s",
            "160 s",
            "10 min",
            "605 s",
            "30 min",
            "30 min 3 s",
            "3 h 53 min",
            "1 d",
            "20 d 8 h",
        ];
        assert_eq!(told.map(lasting), expected);
    }

    #[test]
    fn nines_are_told_apart_and_never_rounded_up() {
        assert_eq!(nines(0.999996), "99.99960");
        assert_eq!(nines(0.97654), "97.65");
        assert_eq!(nines(0.1541), "15.41");
        assert_eq!(nines(0.0), "0");
        assert_eq!(nines(1.0), "100");
        assert_eq!(nines(0.99999), "99.9990");
        assert_eq!(nines(0.999999999), "99.99999990");
    }

    #[test]
    fn foreign_text_can_neither_steer_the_terminal_nor_leave_ascii() {
        assert_eq!(printable("a\u{1b}[2Jb\n"), "a [2Jb ");
        assert!(ascii("22× µs ≥ 5 – né").is_ascii());
        assert_eq!(ascii("22× ≥ 5 µs"), "22x >= 5 us");
    }
}
