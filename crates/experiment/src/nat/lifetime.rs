//! Lifetime of a silent socket's mapping in boxes on the path.
//!
//! **Method.** Many sockets are silent at once, each for another time; then the server sends to them, and only a
//! mapping that still lives lets that through. Sockets that had asked and were answered once are told from those that
//! had talked for more than two seconds: Linux, for one, remembers the latter four times as long. The interval runs
//! from the longest silence after which a datagram came through to the shortest one beyond it after which none did. A
//! datagram that did not come after a shorter silence was lost. Where one was, one silence without a datagram is no proof:
//! the interval ends at the second.
//!
//! **Source.** RFC 4787, Network Address Translation (NAT) Behavioral Requirements for Unicast UDP, section 4.3.
//!
//! **Units.** s.

use super::super::alert::{Alert, Severity};
use base::print::SPAN;
use base::print::significant;
use stats::Figure;

/// Time from which values are written in minutes, s.
const MINUTES_S: f64 = 180.0;
/// Least lifetime by RFC 4787 section 4.3, REQ-5, s.
const REQUIRED_S: f64 = 120.0;

/// Fate of one silent socket; the silence was between `least_s` and `most_s`.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    /// True if the socket had talked, false if it had asked once.
    pub talked: bool,
    /// Shortest possible length of the silence, s.
    pub least_s: f64,
    /// Longest possible length of the silence, s.
    pub most_s: f64,
    /// True if the server's datagram arrived after it.
    pub arrived: bool,
}

/// Lifetime of a mapping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lives {
    /// The lifetime was not tested.
    Untried,
    Between(f64, f64),
    /// Lower bound: the longest silence that was tried.
    AtLeast(f64),
    /// Upper bound: nothing came even after the shortest silence.
    LessThan(f64),
    /// Unknown: even a datagram that was sent at once did not come.
    Unknown,
}

/// Lifetime from all silences. `comes`: a datagram that the server sends at once to a socket that asked it is let in.
pub fn lives(all: &[Silence], talked: bool, comes: bool) -> Lives {
    let its = || all.iter().filter(|s| s.talked == talked);
    let low = its()
        .filter(|s| s.arrived)
        .map(|s| s.least_s)
        .fold(0.0, f64::max);
    let silent = its().filter(|s| !s.arrived && s.most_s > low);
    let silent: Vec<f64> = silent.map(|s| s.most_s).collect();
    let silent = stats::sorted(&silent);
    let proof = usize::from(lost(all) > 0).min(silent.len().saturating_sub(1));
    let high = silent.get(proof).copied();
    match high {
        _ if its().next().is_none() => Lives::Untried,
        Some(high) if low > 0.0 => Lives::Between(low, high),
        None => Lives::AtLeast(low),
        Some(high) if comes => Lives::LessThan(high),
        Some(_) => Lives::Unknown,
    }
}

/// Number of silences after which nothing came, although a datagram came after longer ones.
pub fn lost(all: &[Silence]) -> usize {
    let longest = |talked| {
        let came = all.iter().filter(|s| s.talked == talked && s.arrived);
        came.map(|s| s.least_s).fold(0.0, f64::max)
    };
    let longest = [longest(false), longest(true)];
    all.iter()
        .filter(|s| !s.arrived && s.most_s <= longest[usize::from(s.talked)])
        .count()
}

fn span(s: f64) -> String {
    if s < MINUTES_S {
        SPAN.print(s)
    } else {
        format!("{} min", significant(s / 60.0, 3))
    }
}

impl Lives {
    /// Lifetime in words.
    pub fn text(self) -> String {
        match self {
            Lives::Untried => "not asked for (lifetime=5min)".into(),
            Lives::Between(low, high) if (low < MINUTES_S) == (high < MINUTES_S) => {
                let high = span(high);
                let unit = high.rsplit(' ').next().unwrap_or_default();
                let low = span(low);
                format!("{} to {high}", low.trim_end_matches(unit).trim_end())
            }
            Lives::Between(low, high) => format!("{} to {}", span(low), span(high)),
            Lives::AtLeast(low) => format!("at least {}, the longest that was tried", span(low)),
            Lives::LessThan(high) => format!("less than {}", span(high)),
            Lives::Unknown => "cannot tell: not even what the server sent at once came".into(),
        }
    }

    /// ms.
    pub fn figure(self) -> Figure {
        match self {
            Lives::Between(low, high) => Figure::Is {
                value: (low + high) / 2.0 * 1e3,
                low: low * 1e3,
                high: high * 1e3,
            },
            Lives::LessThan(high) => Figure::Is {
                value: high / 2.0 * 1e3,
                low: 0.0,
                high: high * 1e3,
            },
            other => Figure::cannot_tell(other.text().trim_start_matches("cannot tell: ")),
        }
    }

    /// True if it is certainly shorter than RFC 4787 allows.
    fn too_short(self) -> bool {
        matches!(self, Lives::Between(_, high) | Lives::LessThan(high) if high < REQUIRED_S)
    }

    /// Silence that is safe, s.
    pub fn safe_s(self) -> Option<f64> {
        match self {
            Lives::Between(low, _) => Some(low),
            _ => None,
        }
    }
}

/// Alert on the lifetimes of a socket that asked once and of one that talked.
pub fn alert(once: Lives, talked: Lives) -> Option<Alert> {
    if talked.too_short() {
        return Some(Alert::new(
            Severity::Warning,
            format!("a silent socket is forgotten after {}", talked.text()),
            "Two minutes are the least that is allowed (RFC 4787, REQ-5). Telephones, VPNs and whatever else waits to be called must send something more often than that, or hear nothing any more.",
        ));
    }
    once.too_short().then(|| {
        Alert::new(
            Severity::Note,
            format!(
                "a socket that asked only once is forgotten after {}",
                once.text()
            ),
            "An answer that takes longer does not come in. Two minutes are the least that is allowed (RFC 4787, REQ-5); what talks on is remembered longer, as with Linux.",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(silences: &[(f64, bool)]) -> Vec<Silence> {
        silences
            .iter()
            .map(|(s, arrived)| Silence {
                talked: true,
                least_s: s - 0.05,
                most_s: s + 0.05,
                arrived: *arrived,
            })
            .collect()
    }

    #[test]
    fn the_interval_is_from_the_longest_that_lived_to_the_shortest_that_did_not() {
        let all = seen(&[(10.0, true), (20.0, true), (30.0, false), (40.0, false)]);
        assert_eq!(lives(&all, true, true), Lives::Between(19.95, 30.05));
        assert_eq!(Lives::Between(19.5, 30.3).text(), "19.5 to 30.3 s");
        assert_eq!(Lives::Between(170.0, 190.0).text(), "170 s to 3.17 min");
        assert_eq!(lives(&all, false, true), Lives::Untried);
        // What is lost on the line is not forgotten.
        let all = seen(&[(10.0, true), (20.0, false), (30.0, true), (40.0, false)]);
        assert_eq!(lives(&all, true, true), Lives::Between(29.95, 40.05));
        assert_eq!(lost(&all), 1);
        // Nor does one silence more tell what is forgotten.
        let more = seen(&[(50.0, false), (60.0, false)]);
        let all = [all, more].concat();
        assert_eq!(lives(&all, true, true), Lives::Between(29.95, 50.05));
    }

    #[test]
    fn what_outlives_all_silences_or_none_has_a_bound_and_no_number() {
        let all = seen(&[(10.0, true), (20.0, false), (30.0, true)]);
        assert_eq!(lives(&all, true, true), Lives::AtLeast(29.95));
        let all = seen(&[(10.0, false), (20.0, false)]);
        assert_eq!(lives(&all, true, true), Lives::LessThan(10.05));
        assert_eq!(lives(&all, true, false), Lives::Unknown);
        assert!(alert(Lives::Untried, Lives::LessThan(10.0)).is_some());
        assert!(alert(Lives::AtLeast(30.0), Lives::AtLeast(30.0)).is_none());
        assert!(alert(Lives::Between(110.0, 130.0), Lives::AtLeast(300.0)).is_none());
    }
}
