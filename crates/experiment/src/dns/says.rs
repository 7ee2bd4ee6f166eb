//! Sentences on the findings about resolvers.

use super::super::alert::{Alert, Severity};
use super::{Blame, Handling, Link, Resolver, median, told};
use base::noted::dns::Origin;
use base::print::DELAY;
use stats::Figure;

pub(super) fn says(r: &Resolver, why: Blame, link: &Link) -> String {
    let base = link.base_ms;
    let name = r.called();
    let (cold, warm, way) = (median(&r.cold), median(&r.warm), r.way_ms());
    match why {
        Blame::Silence if r.cold.is_empty() && r.warm.is_empty() => format!(
            "The resolver {name} answers nothing{}; the link reaches our server{}.",
            r.problem
                .as_ref()
                .map_or_else(String::new, |p| format!(": {p}")),
            base.map_or_else(
                || " not either".to_owned(),
                |b| format!(" in {}", DELAY.print(b))
            )
        ),
        Blame::Silence => format!(
            "The resolver {name} leaves {} of {} lookups without a usable answer.",
            r.lost + r.failed,
            r.asked
        ),
        Blame::Losses => format!(
            "Lookups are lost because the link loses packets: {} of {} lookups at {name} have no answer, and {} of {} probes to our server.",
            r.lost,
            r.asked,
            link.lost_at.len(),
            link.sent
        ),
        Blame::Unsure => format!(
            "Cannot tell who loses lookups: {} of {} at {name} have no answer, and {} of {} probes to our server. Ask more often: count=50.",
            r.lost,
            r.asked,
            link.lost_at.len(),
            link.sent
        ),
        Blame::Resolver => format!(
            "Names resolve slowly, and the resolver is to blame: {name} takes {} for a name that it knows, of which the way there and back is {}.",
            told(warm),
            told(way)
        ),
        Blame::Recursion => format!(
            "New names resolve slowly, and the link is not to blame: {name} takes {} for a name that it must ask for itself, {} for one that it knows; the way there and back is {}.",
            told(cold),
            told(warm),
            told(way)
        ),
        Blame::Distance => format!(
            "Names resolve slowly because {name} is far: {} there and back, where our server is {} away.",
            told(way),
            told(base)
        ),
        Blame::Line => format!(
            "Names resolve slowly because the link is: its own round trip of {} is in every lookup, and {name} adds {} to that.",
            told(base),
            told(cold.zip(way).map(|(c, w)| (c - w).max(0.0)))
        ),
        Blame::Unknown => format!(
            "{name} takes {} for a new name and {} for a known one; cannot tell how much of that is the way there, because it answers no TCP connections.",
            told(cold),
            told(warm)
        ),
        Blame::Nobody => format!(
            "Names resolve soon: {name} takes {} for a new name and {} for a known one; the way there and back is {}.",
            told(cold),
            told(warm),
            told(way)
        ),
    }
}

pub(super) fn alert_of(r: &Resolver, why: Blame, link: &Link) -> Option<Alert> {
    let base = link.base_ms;
    let name = r.called();
    let cold = median(&r.cold).unwrap_or(0.0);
    let (severity, what, means) = match why {
        Blame::Silence if r.cold.is_empty() && r.warm.is_empty() => (
            Severity::Serious,
            format!("the resolver {name} does not answer"),
            "Every new name waits for this resolver's time-out, seconds, before another is asked. Take it out of the configuration, or mend it.",
        ),
        Blame::Silence => (
            Severity::Serious,
            format!(
                "the resolver {name} fails {} of {} lookups{}",
                r.lost + r.failed,
                r.asked,
                codes(r)
            ),
            "Pages stall for seconds at random, or do not open. The line is not the cause where other probes get through.",
        ),
        Blame::Resolver => (
            Severity::Warning,
            format!("the resolver {name} is slow even for names that it knows"),
            "Whatever opens a connection waits for it first. Another resolver would cure that; a faster line would not.",
        ),
        Blame::Recursion => (
            if cold > super::SLOW_COLD_MS {
                Severity::Serious
            } else {
                Severity::Warning
            },
            format!(
                "the resolver {name} takes {} for new names",
                DELAY.print(cold)
            ),
            "The first visit to anything begins late; later ones are as fast as ever. Another resolver may cure that; a faster line would not.",
        ),
        Blame::Distance => (
            Severity::Warning,
            format!(
                "the resolver {name} is {} away, our server {}",
                told(r.way_ms()),
                told(base)
            ),
            "Every name waits for a long way that other traffic does not take. A nearer resolver would cure that.",
        ),
        Blame::Line => (
            Severity::Warning,
            format!(
                "the link's own round trip of {} is in every lookup",
                told(base)
            ),
            "No resolver beyond the link can be faster. A caching resolver on this side of it would help with names asked for before.",
        ),
        Blame::Losses => (
            Severity::Serious,
            format!("the link loses {} of {} lookups", r.lost, r.asked),
            "Each lost lookup costs seconds, and pages stall at random. Another resolver would not cure that: the link loses other packets as well.",
        ),
        Blame::Unknown | Blame::Unsure | Blame::Nobody => return None,
    };
    Some(Alert::new(severity, what, means))
}

fn codes(r: &Resolver) -> String {
    if r.failures.is_empty() {
        String::new()
    } else {
        format!(" ({})", r.failures.join(", "))
    }
}

pub(super) fn alert_of_handling(r: &Resolver) -> Option<Alert> {
    let name = r.called();
    let (severity, what, means) = match r.handling {
        Handling::Checks | Handling::Unknown(_) => return None,
        Handling::HandsOn => (
            Severity::Note,
            format!("{name} does not check signatures (DNSSEC)"),
            "A forged answer that reaches the resolver reaches you. A resolver that checks would hold it back.",
        ),
        Handling::Strips => (
            Severity::Warning,
            format!("{name} strips signatures (DNSSEC)"),
            "Programs that check signatures themselves cannot work through it.",
        ),
        Handling::Fails => (
            Severity::Serious,
            format!("{name} fails for names that are signed well"),
            "Many names do not resolve at all. Its clock may be wrong, or something before it cuts large answers.",
        ),
    };
    Some(Alert::new(severity, what, means))
}

pub(super) fn evidence(resolvers: &[Resolver], link: &Link) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(base) = link.base_ms {
        lines.push(format!(
            "the link's smallest round trip to our server was {}",
            DELAY.print(base)
        ));
    }
    if !link.lost_at.is_empty() {
        lines.push(format!(
            "{} of {} probes to our server were lost meanwhile",
            link.lost_at.len(),
            link.sent
        ));
    }
    for r in resolvers {
        if r.asked == 0 {
            continue;
        }
        let mut line = format!(
            "{}: {} lookups, {} unanswered; medians {} new and {} known; least of {} connections {}",
            r.called(),
            r.asked,
            r.lost,
            told(median(&r.cold)),
            told(median(&r.warm)),
            r.way.len(),
            told(r.way_ms())
        );
        if let Handling::Unknown(why) = r.handling {
            line += &format!("; what it does about signatures cannot be told: {why}");
        }
        if let Some(after) = r.given_up {
            line += &format!("; left alone after {after} in a row without an answer");
        }
        lines.push(line);
    }
    lines
}

/// Resolver that answers new names sooner than the first one, by more than chance.
fn sooner<'a, 'b>(all: &'a [Resolver<'b>], than: &Resolver) -> Option<&'a Resolver<'b>> {
    let bounds = |r: &Resolver| match Resolver::figure(&r.cold) {
        Figure::Is { value, low, high } => Some((value, low, high)),
        Figure::CannotTell { .. } => None,
    };
    let mine = bounds(than);
    all.iter()
        .filter(|r| r.origin == Origin::Alternative && r.lost == 0 && r.failed == 0)
        .filter(|r| match (bounds(r), mine) {
            (Some((_, _, high)), Some((_, low, _))) => high < low,
            (found, None) => found.is_some(),
            (None, _) => false,
        })
        .min_by(|a, b| {
            let of = |r: &Resolver| median(&r.cold).unwrap_or(f64::INFINITY);
            of(a).total_cmp(&of(b))
        })
}

pub(super) fn advice(all: &[Resolver], first: &Resolver, why: Blame) -> Vec<String> {
    let mut lines = Vec::new();
    let better = sooner(all, first);
    if let Some(r) = better {
        let name = if r.name == "given" {
            String::new()
        } else {
            format!(" ({})", r.name)
        };
        lines.push(format!(
            "{}{name} answers new names in {}, {} in {}: name it in the router or in this host's network settings.",
            r.address, told(median(&r.cold)), first.address, told(median(&first.cold))
        ));
    }
    let compared = all.iter().any(|r| r.origin == Origin::Alternative);
    let slow = matches!(
        why,
        Blame::Resolver | Blame::Recursion | Blame::Distance | Blame::Silence
    );
    match (slow, compared, better) {
        (true, false, _) => lines.push(
            "See whether another resolver is faster: `tailback probe dns:public=true SERVER`, or others=ADDRESS.".into(),
        ),
        (true, true, None) => lines.push("None of those compared is faster for certain.".into()),
        _ => {}
    }
    lines
}
