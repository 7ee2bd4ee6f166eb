//! A page over QUIC beside the same page over TCP: which is faster, and if one of them fails, why.

use super::{Site, is_slowed, one, reasons};
use crate::answer::{Figured, Outcome, Quantity, Table};
use base::noted::page::{Loaded, PageEnd};
use base::print::{DELAY, significant};
use stats::Figure;

/// Ratio of the load times over QUIC and over TCP, of pairs of loads: the geometric mean with its interval. Both loads of a
/// pair follow each other, so that a change of the link over time meets both alike.
fn quic_by_tcp((tcp, quic): (&Site, &Site), beside: bool) -> Figure {
    let time = |site: &Site, iteration: u32, number: u32| {
        let mut these = site.loads.iter();
        let load = these.find(|l| l.iteration == iteration && l.number == number)?;
        match &load.end {
            PageEnd::Loaded(l) if l.load_ms > 0.0 => Some(l.load_ms),
            _ => None,
        }
    };
    let pairs = tcp.loads.iter().filter(|l| l.loaded == beside);
    let logs = pairs.filter_map(|l| {
        let (t, q) = (
            time(tcp, l.iteration, l.number)?,
            time(quic, l.iteration, l.number)?,
        );
        Some((q / t).ln())
    });
    let logs: Vec<f64> = logs.collect();
    if logs.len() < 2 {
        return Figure::cannot_tell("fewer than two pairs of loads succeeded");
    }
    match stats::mean_figure(&logs) {
        Figure::Is { value, low, high } => Figure::Is {
            value: value.exp(),
            low: low.exp(),
            high: high.exp(),
        },
        none => none,
    }
}

/// Figures, evidence and doubts of a page over both transports; gives the sentence.
pub(super) fn both(
    sites: (&Site, &Site),
    (key, many): (&str, bool),
    outcome: &mut Outcome,
) -> String {
    let (tcp, quic) = sites;
    let of = |site: &Site| match many {
        true => site.name.clone(),
        false => format!("over {}", site.over.named()),
    };
    let over_tcp = one(tcp, (&format!("{key}tcp_"), &of(tcp)), outcome);
    let over_quic = one(quic, (&format!("{key}quic_"), &of(quic)), outcome);
    for (site, times) in [(tcp, &over_tcp), (quic, &over_quic)] {
        if is_slowed(times, outcome) {
            let ratio = super::ratio(&times.0, &times.1).value().unwrap_or(f64::NAN);
            outcome.evidence.push(format!(
                "{} takes {} times as long under load",
                site.name,
                significant(ratio, 2)
            ));
        }
    }
    let beside = tcp.loads.iter().chain(&quic.loads).any(|l| l.loaded);
    let (idle, loaded) = (quic_by_tcp(sites, false), quic_by_tcp(sites, true));
    let mut ratios = vec![("quic_by_tcp_idle", "QUIC by TCP, time to load, idle", &idle)];
    if beside {
        let name = "QUIC by TCP, time to load, under load";
        ratios.push(("quic_by_tcp_loaded", name, &loaded));
    }
    for (name, what, figure) in ratios {
        let what = match many {
            true => format!("{what}, {}", tcp.url),
            false => what.to_owned(),
        };
        let key = format!("{key}{name}");
        outcome
            .figures
            .push(Figured::new(&key, &what, Quantity::Count, figure.clone()));
    }
    let good = |site: &Site| site.count(|e| matches!(e, PageEnd::Loaded(_))) > 0;
    match (good(tcp), good(quic)) {
        (true, true) => compared(
            sites,
            [
                (over_tcp.0, over_quic.0, idle),
                (over_tcp.1, over_quic.1, loaded),
            ],
        ),
        (true, false) => no_quic(sites, outcome),
        (false, true) => format!(
            "HTTP/3 works and HTTP over TCP fails: no load of {} over TCP succeeded; {}.",
            tcp.url,
            reasons(tcp)
        ),
        (false, false) => format!(
            "Cannot tell: no load of {} succeeded; over TCP {}; over QUIC {}.",
            tcp.url,
            reasons(tcp),
            reasons(quic)
        ),
    }
}

/// Sentences on both transports, idle and under load: time over TCP, over QUIC, and their ratio.
fn compared((tcp, quic): (&Site, &Site), parts: [(Figure, Figure, Figure); 2]) -> String {
    let mut said = Vec::new();
    for (at, (over_tcp, over_quic, ratio)) in
        ["on the idle link", "under load"].into_iter().zip(parts)
    {
        let (Some(t), Some(q)) = (over_tcp.value(), over_quic.value()) else {
            continue;
        };
        let verdict = match &ratio {
            Figure::Is { value, low, high } => {
                let times = format!(
                    "{} times as long ({} to {})",
                    significant(*value, 3),
                    significant(*low, 3),
                    significant(*high, 3)
                );
                match (*low > 1.0, *high < 1.0) {
                    (true, _) => format!("QUIC is slower, {times}"),
                    (_, true) => format!("QUIC is faster, {times}"),
                    _ => format!("no difference beyond chance, {times}"),
                }
            }
            Figure::CannotTell { cannot_tell: why } => {
                format!("cannot tell which is faster: {why}")
            }
        };
        let (t, q) = (DELAY.print(t), DELAY.print(q));
        said.push(match said.is_empty() {
            true => format!(
                "{} takes {t} to load over TCP ({}) and {q} over QUIC ({}) {at}: {verdict}.",
                tcp.url,
                protocol(tcp),
                protocol(quic)
            ),
            false => format!("{t} and {q} {at}: {verdict}."),
        });
    }
    match said.is_empty() {
        true => format!(
            "Cannot tell: no load of {} over TCP and none over QUIC share their conditions.",
            tcp.url
        ),
        false => said.join(" "),
    }
}

/// First load that succeeded.
fn first<'a>(site: &Site<'a>) -> Option<&'a Loaded> {
    site.good(false).next().or_else(|| site.good(true).next())
}

/// Protocol of a page, in the words of the browser.
fn protocol<'a>(site: &Site<'a>) -> &'a str {
    first(site).map_or("unknown", |l| &l.main_protocol)
}

/// Sentence on a page that loads over TCP and not over QUIC, with what its site says of HTTP/3.
fn no_quic((tcp, quic): (&Site, &Site), outcome: &mut Outcome) -> String {
    let announced = first(tcp).map_or("", |l| &l.alt_svc);
    let why = reasons(quic);
    let cause = if why.contains("CERT") {
        "The browser does not trust the site's certificate for QUIC"
    } else if announces(announced) {
        "The site announces HTTP/3, so its UDP is filtered on the path or at the site"
    } else {
        "The site does not announce HTTP/3: it may not speak it, or UDP is filtered"
    };
    if !announced.is_empty() {
        let says = format!("{} announces {announced:?} (Alt-Svc)", tcp.url);
        outcome.evidence.push(says);
    }
    outcome.advice.push(
        "`tailback probe quic` tells whether this link carries QUIC to your own server".into(),
    );
    format!(
        "HTTP/3 fails and {} works: no load of {} over QUIC succeeded; {why}. {cause}.",
        protocol(tcp),
        tcp.url
    )
}

/// True if a server's `Alt-Svc` header offers HTTP/3 (RFC 9114 section 3.1.1).
fn announces(alt_svc: &str) -> bool {
    alt_svc.split(',').any(|one| one.trim().starts_with("h3"))
}

/// Load times of all pages over both transports; nothing if each has one.
pub(super) fn table(pages: &[&[Site]]) -> Option<Table> {
    let time = |site: &Site, beside| match site.mean(beside).value() {
        Some(ms) => format!("{ms:.0}"),
        None => "–".into(),
    };
    let ratio = |sites, beside| match quic_by_tcp(sites, beside) {
        Figure::Is { value, low, high } => format!("{value:.2} ({low:.2} to {high:.2})"),
        Figure::CannotTell { .. } => "–".into(),
    };
    let rows = pages.iter().filter_map(|page| match page {
        [tcp, quic] => Some(vec![
            tcp.url.to_owned(),
            time(tcp, false),
            time(quic, false),
            ratio((tcp, quic), false),
            time(tcp, true),
            time(quic, true),
            ratio((tcp, quic), true),
        ]),
        _ => None,
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| {
        Table::new(
            "QUIC beside TCP, ms, and the ratio of their times",
            [
                "Name",
                "TCP, idle",
                "QUIC, idle",
                "ratio",
                "TCP, under load",
                "QUIC, under load",
                "ratio",
            ],
            rows,
        )
    })
}
