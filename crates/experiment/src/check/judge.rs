//! Judgement of the steps' findings: faults, and their consequences for a person.

use super::super::alert::{Alert, Severity};
use super::super::buffer as queue;
use super::super::{dns, ipv6, middlebox};
use super::{Finding, Part, State};
use crate::loss;
use analysis::grade;
use analysis::thresholds::{
    ALERT_BUFFER_MS, ALERT_LOSS, LONG_RTT_MS, NOTICEABLE_MS, SERIOUS_BUFFER_MS, SERIOUS_LOSS,
    VERY_LONG_RTT_MS,
};
use base::BitsPerSec;
use base::noted::ipv6::target;
use base::print::DELAY;
use base::record::{Delay, Recording, Status};

/// Ratio of the interval's ends above which a rate varies: a constant rate is known much better.
const VARIES: f64 = 1.2;
/// Losses in a row that are a burst: chance makes shorter runs at the loss above.
const BURST: u64 = 3;
/// Excess of a connection's set-up over twice the round trip that the link does not explain, ms.
const SETUP_MS: f64 = 50.0;
/// Delay of a repeated first packet, ms. RFC 6298 section 2.1: one without an answer is sent again after a second.
const REPEATED_MS: f64 = 1000.0;

/// Reason why a step has no answer.
pub(super) fn why(part: &Part) -> String {
    let own = part.outcome.doubts.first().cloned();
    part.note
        .problem
        .clone()
        .or(own)
        .unwrap_or_else(|| "it brought nothing".into())
}

/// Number of bursts of loss at rest, or of blocked ports; none if that step has no answer.
pub(super) fn count(part: &Part) -> Option<u64> {
    let value = |key: &str| {
        let found = part.outcome.figures.iter().find(|f| f.key == key);
        found.and_then(|f| f.figure.value())
    };
    match part.kind() {
        "rtt" => {
            value("median_ms")?;
            Some(bursts(&part.rows).iter().map(|b| b.1).sum())
        }
        _ => ["silent", "refused", "somebody", "one_way"]
            .iter()
            .map(|key| value(key).map(|n| n as u64))
            .sum(),
    }
}

pub(super) fn findings(part: &Part) -> Vec<Finding> {
    let mut all = match part.kind() {
        "rtt" => rest(part),
        "dns" => names(part),
        "ipv6" => connections(part),
        "ports" => ports(part),
        "middlebox" => boxes(part),
        "nat" => translation(part),
        "buffer" => vec![buffer(part)],
        _ => Vec::new(),
    };
    // Half of a look that found nothing wrong is not a whole one.
    if let Some(problem) = &part.note.problem {
        for f in &mut all {
            if matches!(f.state, State::Fine | State::Note(_)) {
                f.state = State::Unknown(problem.clone());
            }
        }
    }
    all
}

fn probes(rows: &Recording) -> Vec<&Delay> {
    let mut all: Vec<&Delay> = rows.delay.iter().filter(|d| &*d.target == "udp").collect();
    all.sort_by_key(|d| d.seq);
    all
}

/// Lengths of runs of at least [`BURST`] losses, with their counts.
pub(super) fn bursts(rows: &Recording) -> Vec<(u64, u64)> {
    let probes = probes(rows);
    let mut all = loss::loss(&probes, &vec![None; probes.len()]).bursts;
    all.retain(|(length, _)| *length >= BURST);
    all
}

fn rest(part: &Part) -> Vec<Finding> {
    let probes = probes(&part.rows);
    let found = loss::loss(&probes, &vec![None; probes.len()]);
    let median = part.outcome.figures.iter().find(|f| f.key == "median_ms");
    let Some(median) = median.and_then(|f| f.figure.value()) else {
        return ["delay", "loss", "bursts of loss"]
            .map(|what| Finding::unknown(what, why(part)))
            .into();
    };
    let delay = (median > LONG_RTT_MS).then(|| {
        let severity = if median > VERY_LONG_RTT_MS {
            Severity::Serious
        } else {
            Severity::Warning
        };
        Alert::new(
            severity,
            format!("a packet takes {} there and back although the link is at rest", DELAY.print(median)),
            "Talk overlaps in calls, games lag, and every click waits for several such round trips. It is the way itself, not a queue: a nearer server or another kind of line would help.",
        )
    });
    let share = found.lost as f64 / found.sent.max(1) as f64;
    // By more than chance.
    let surely = match &found.percent {
        stats::Figure::Is { low, .. } => low / 100.0 > ALERT_LOSS / 4.0,
        stats::Figure::CannotTell { .. } => false,
    };
    let told = format!("{} of {} lost", found.lost, found.sent);
    let lossy = (share > ALERT_LOSS && surely).then(|| {
        let severity = if share > SERIOUS_LOSS {
            Severity::Serious
        } else {
            Severity::Warning
        };
        Alert::new(
            severity,
            format!("packets are lost although the link is at rest: {told}"),
            "Downloads crawl and calls break up, whoever uses the link. Look at the radio, the cable and the modem before anything else; a faster tariff would not help.",
        )
    });
    let bursts = bursts(&part.rows);
    let longest = bursts.iter().map(|b| b.0).max().unwrap_or(0);
    let often: u64 = bursts.iter().map(|b| b.1).sum();
    let in_bursts = (often > 0).then(|| {
        Alert::new(
            Severity::Warning,
            format!(
                "{often} bursts of loss: up to {longest} packets in a row, {} ms",
                longest * 25
            ),
            "Sound and picture of calls drop out for that long; games freeze. Interference or handovers of a radio do that, and routers that pause.",
        )
    });
    vec![
        Finding::with("delay", DELAY.print(median), delay.into_iter().collect()),
        Finding::with("loss", told, lossy.into_iter().collect()),
        Finding::with(
            "bursts of loss",
            if often == 0 {
                format!("none of {BURST} or more in a row")
            } else {
                format!("{often}, the longest of {longest}")
            },
            in_bursts.into_iter().collect(),
        ),
    ]
}

fn names(part: &Part) -> Vec<Finding> {
    let verdicts = dns::verdicts(&part.rows);
    // Before a reason that is a consequence, the step's own.
    let because = |own: String| part.note.problem.clone().unwrap_or(own);
    let names = match verdicts.names {
        Err(own) => Finding::unknown("lookups of names", because(own)),
        Ok(alerts) => {
            let cold = part.outcome.figures.iter().find(|f| f.key == "cold_ms");
            let cold = cold.and_then(|f| f.figure.value());
            let found = cold.map_or("no answer".into(), |v| {
                format!("{} for a new one", DELAY.print(v))
            });
            Finding::with("lookups of names", found, alerts)
        }
    };
    let signatures = match verdicts.signatures {
        Err(own) => Finding::unknown("signatures of names (DNSSEC)", because(own)),
        Ok((word, alerts)) => Finding::with("signatures of names (DNSSEC)", word, alerts),
    };
    let what = "types of records";
    let types = match verdicts.types {
        Err(own) => Finding::unknown(what, because(own)),
        Ok((found, alerts)) => Finding::with(what, found, alerts),
    };
    let what = "signatures of the root servers";
    let roots = match verdicts.roots {
        None => Finding {
            what: what.into(),
            found: String::new(),
            state: State::NotAsked("with check:roots=true: they are 13 servers that are not ours"),
        },
        Some((found, alerts)) => Finding::with(what, found, alerts),
    };
    vec![names, signatures, types, roots]
}

/// Connections over one version of IP: set-up times of successful ones, ms, and the number of attempts.
fn setups(rows: &Recording, version: u8) -> (Vec<f64>, usize) {
    let name = target("tcp", version);
    let tried: Vec<&Delay> = rows.delay.iter().filter(|d| *d.target == *name).collect();
    let made = tried
        .iter()
        .filter(|d| d.status == Status::Ok)
        .filter_map(|d| Some(d.rtt_ns? as f64 * 1e-6))
        .collect();
    (made, tried.len())
}

fn connections(part: &Part) -> Vec<Finding> {
    let value = |key: &str| {
        let found = part.outcome.figures.iter().find(|f| f.key == key);
        found.and_then(|f| f.figure.value())
    };
    let mut all = Vec::new();
    let versions = [
        (4, "connect_v4_ms", "udp_v4_ms"),
        (6, "connect_v6_ms", "udp_v6_ms"),
    ];
    for (version, connect, datagram) in versions {
        let what = format!("set-up of connections over IPv{version}");
        let (made, tried) = setups(&part.rows, version);
        if tried == 0 {
            // No IPv6 is a finding of its own.
            if version == 4 && value("connect_v6_ms").is_none() {
                all.push(Finding::unknown(what, why(part)));
            }
            continue;
        }
        let Some(took) = value(connect) else {
            all.push(Finding::unknown(
                what,
                format!("none of {tried} connections came about"),
            ));
            continue;
        };
        all.push(setup(&what, took, value(datagram), &made, tried));
    }
    let (says, alert) = ipv6::reached(&part.rows);
    all.push(match says.strip_prefix("Cannot tell: ") {
        _ if part.outcome.figures.is_empty() => Finding::unknown("IPv6", why(part)),
        Some(why) => Finding::unknown("IPv6", why.trim_end_matches('.')),
        None => Finding::with("IPv6", says, alert.into_iter().collect()),
    });
    for (way, text, alert) in ipv6::pieces(&part.rows) {
        let what = format!("datagrams in pieces over IPv6, {way}");
        all.push(match text.strip_prefix("cannot tell: ") {
            Some(why) => Finding::unknown(what, why),
            None => Finding::with(&what, text, alert.into_iter().collect()),
        });
    }
    for version in [4, 6] {
        let what = format!("largest packet of IPv{version}");
        let (figure, text, alert) = ipv6::path_mtu(&part.rows, version);
        all.extend(match (text, figure) {
            (Some(text), _) => Some(Finding::with(&what, text, alert.into_iter().collect())),
            (None, stats::Figure::CannotTell { cannot_tell }) if version == 4 => {
                let why = part.note.problem.clone().unwrap_or(cannot_tell);
                Some(Finding::unknown(what, why))
            }
            _ => None,
        });
    }
    all
}

fn setup(what: &str, took: f64, datagram: Option<f64>, made: &[f64], tried: usize) -> Finding {
    let mut alerts = Vec::new();
    let repeated = made.iter().filter(|ms| **ms > REPEATED_MS).count() + (tried - made.len());
    if repeated > 0 && repeated * 10 > tried {
        alerts.push(Alert::new(
            Severity::Warning,
            format!("{repeated} of {tried} connections took a second and more to begin, or never did"),
            "The first packet of a connection is lost or held back, and is sent again only after a second: pages open at once or with a long pause, at random.",
        ));
    }
    let found = match datagram {
        None => DELAY.print(took),
        Some(round) => format!(
            "{}; a datagram takes {}",
            DELAY.print(took),
            DELAY.print(round)
        ),
    };
    if datagram.is_some_and(|round| took > 2.0 * round + SETUP_MS) {
        alerts.push(Alert::new(
            Severity::Warning,
            format!("it takes {} to begin a connection, where a datagram is there and back in {}", DELAY.print(took), DELAY.print(datagram.unwrap_or(0.0))),
            "Everything on the web begins late. Something on the way looks at connections before it lets them begin (a proxy, a firewall), or the server is overloaded.",
        ));
    }
    Finding::with(what, found, alerts)
}

fn ports(part: &Part) -> Vec<Finding> {
    let o = &part.outcome;
    let count = |key: &str| {
        let found = o.figures.iter().find(|f| f.key == key);
        found.and_then(|f| f.figure.value()).unwrap_or(0.0)
    };
    let tried: f64 = ["open", "silent", "refused", "somebody", "one_way"]
        .map(count)
        .iter()
        .sum();
    if tried == 0.0 {
        let why = match o.says.strip_prefix("Cannot tell: ") {
            Some(own) if part.note.problem.is_none() => own.trim_end_matches('.').to_owned(),
            _ => why(part),
        };
        return vec![Finding::unknown("blocked ports", why)];
    }
    let mut all = vec![Finding::with(
        "blocked ports",
        format!("{} of {tried} can be reached", count("open")),
        o.alerts.clone(),
    )];
    if count("untried") > 0.0 {
        all.push(Finding::unknown(
            "ports that were not tried",
            o.doubts.first().cloned().unwrap_or_default(),
        ));
    }
    all
}

fn boxes(part: &Part) -> Vec<Finding> {
    let found = middlebox::found(&part.rows);
    if found.is_empty() {
        let all = ["datagrams in pieces", "boxes on the way"];
        return all.map(|what| Finding::unknown(what, why(part))).into();
    }
    let mut all: Vec<Finding> = found
        .into_iter()
        .filter(|(name, _)| *name != middlebox::VIRUSES)
        .map(|(name, found)| {
            let what = match name.strip_prefix("that blocks ") {
                Some(pieces) => pieces.to_owned(),
                None => format!("a box {name}"),
            };
            match &found {
                middlebox::Found::Absent if what.starts_with("datagrams") => {
                    Finding::fine(what, "arrive")
                }
                middlebox::Found::Absent => Finding::fine(what, found.word()),
                middlebox::Found::Unknown(why) => Finding::unknown(what, why.clone()),
                middlebox::Found::Present(text) => {
                    let alert = middlebox::alert_of(name, &found);
                    Finding::with(&what, text.clone(), vec![alert])
                }
            }
        })
        .collect();
    // What table 4 has comes first.
    all.sort_by_key(|f| !f.what.starts_with("datagrams"));
    all
}

fn translation(part: &Part) -> Vec<Finding> {
    let o = &part.outcome;
    let what = "translation of addresses";
    if o.figures.is_empty() && o.alerts.is_empty() {
        return vec![Finding::unknown(what, why(part))];
    }
    let mut all = vec![Finding::with(what, o.says.clone(), o.alerts.clone())];
    for row in o.tables.iter().flat_map(|t| &t.rows) {
        if let [property, found, ..] = &row[..]
            && let Some(why) = found.strip_prefix("cannot tell: ")
        {
            all.push(Finding::unknown(format!("{property} on the way"), why));
        }
    }
    all
}

/// Alert about a buffer that holds more than a link needs.
fn too_large(
    severity: Severity,
    way: base::record::Direction,
    found: &str,
    at_least: &str,
    held: f64,
) -> Alert {
    let load = if way == base::record::Direction::Up {
        "an upload (a backup, a picture sent, a video call)"
    } else {
        "a download"
    };
    Alert::new(
        severity,
        format!("the buffer {way} is too large: it holds {found}"),
        format!(
            "While {load} lasts, everything else on the link waits {at_least}{} each time: calls break up, games lag, pages take seconds. A queue discipline that keeps delay short (fq_codel, cake) on the router, set to a little below the rate of the link, cures it; a faster link alone does not.",
            DELAY.print(held)
        ),
    )
}

fn buffer(part: &Part) -> Finding {
    let way = part.spec.words().read::<crate::buffer::Params>().direction;
    let what = format!("buffer {way}");
    let value = |key: &str| {
        let found = part.outcome.figures.iter().find(|f| f.key == key);
        found.and_then(|f| f.figure.value())
    };
    let (Some(held), Some(rate)) = (value("queue_ms"), value("link_bps")) else {
        return Finding::unknown(what, why(part));
    };
    let full = !part
        .outcome
        .doubts
        .iter()
        .any(|d| d.contains("not seen full"));
    let at_least = if full { "" } else { "at least " };
    let bps = |v: f64| BitsPerSec::new(v.round() as u64);
    let range = part.outcome.figures.iter().find(|f| f.key == "link_bps");
    let varies = match range.map(|f| &f.figure) {
        Some(stats::Figure::Is { low, high, .. }) if *high > VARIES * low => format!(
            " (it varies, {:.3} to {:.3}: at less it holds longer)",
            bps(*low),
            bps(*high)
        ),
        _ => String::new(),
    };
    let found = format!(
        "{at_least}{} in front of {:.3}{varies}",
        DELAY.print(held),
        bps(rate)
    );
    // A flood that never yields fills what TCP does not.
    let mut figures = part.outcome.figures.iter();
    let early = figures.find(|f| f.key == "lost_early");
    if held > ALERT_BUFFER_MS && early.is_some_and(|f| queue::is_managed(&f.figure)) {
        return Finding::unknown(
            what,
            format!(
                "the queue drops before it is full, as one that is managed (AQM) does: a flood that never yields makes it hold {found}, and what uploads and downloads make of it `tailback test` finds"
            ),
        );
    }
    let severity = match held {
        v if v >= SERIOUS_BUFFER_MS => Some(Severity::Serious),
        v if v > ALERT_BUFFER_MS => Some(Severity::Warning),
        // What else it holds was not seen.
        _ if !full => {
            return Finding::unknown(
                what,
                format!("it was not seen full: it holds {found}, and may hold more"),
            );
        }
        // The same limit as that of `tailback test`.
        _ if held > NOTICEABLE_MS => {
            return Finding {
                what,
                found,
                state: State::Note(format!(
                    "more than {}: a load that fills it delays calls and games, which is grade {}; `tailback test` measures it",
                    DELAY.print(NOTICEABLE_MS),
                    grade::letter(held)
                )),
            };
        }
        _ => None,
    };
    let alert = severity.map(|severity| too_large(severity, way, &found, at_least, held));
    Finding::with(&what, found, alert.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Figured, Outcome};
    use base::noted::check::CheckNote;
    use base::rng::{Streams, uniform};
    use stats::Figure;

    /// `test` gave a grade C to the 98 ms that `check` called fine: whatever the buffer, a grade below A is no "fine" here.
    #[test]
    fn a_buffer_that_costs_a_grade_is_not_fine() {
        for seed in 0..1_000 {
            let mut rng = Streams::new(seed).stream("check");
            let held_ms = 10f64.powf(uniform(&mut rng) * 3.5);
            let figured = |key: &str, value: f64| Figured::rate(key, key, Figure::exactly(value));
            let part = Part {
                title: "buffer up".into(),
                note: CheckNote {
                    probe: "buffer:direction=up".into(),
                    began_ns: 0,
                    ended_ns: 1,
                    problem: None,
                    bytes: 0,
                },
                spec: "buffer:direction=up".parse().expect("a kind"),
                rows: Recording::default(),
                outcome: Outcome {
                    figures: vec![figured("queue_ms", held_ms), figured("link_bps", 1e6)],
                    ..Outcome::default()
                },
            };
            let is_good = ["A+", "A"].contains(&grade::letter(held_ms));
            let is_fine = matches!(buffer(&part).state, State::Fine);
            assert_eq!(is_fine, is_good, "seed {seed}: {held_ms} ms");
        }
    }
}
