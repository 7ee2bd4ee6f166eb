//! Answer of the kind `quic`: sentences, figures, tables and plots from the verdict.

use super::judge::{Judged, Notes, Verdict, judge};
use super::note::{Over, Ran};
use crate::alert::{Alert, Severity};
use crate::answer::{Draw, Figured, Outcome, Plot, Series, Table};
use base::print;
use base::record::{Direction, Recording};
use stats::Figure;

/// Answer from a recording.
pub(super) fn answer(recording: &Recording) -> Outcome {
    let notes = Notes::of(recording);
    let judged = judge(&notes);
    if notes.pairs.is_empty() {
        return Outcome::cannot_tell(match judged.verdict {
            Verdict::Unknown(why) => why,
            _ => "the run ended before a connection did".into(),
        });
    }
    Outcome {
        says: says(&notes, &judged),
        figures: figures(&notes, &judged),
        alerts: alerts(&judged),
        evidence: evidence(&notes, &judged),
        doubts: doubts(&notes, &judged),
        tables: vec![table(&notes)],
        plots: vec![plot(&notes)],
        ..Outcome::default()
    }
}

fn way(notes: &Notes) -> Direction {
    notes.direction.unwrap_or(Direction::Down)
}

fn percent(figure: &Figure) -> String {
    match figure {
        Figure::Is { value, low, high } => format!(
            "{:.0} % ({:.0} to {:.0} %)",
            value * 100.0,
            low * 100.0,
            high * 100.0
        ),
        Figure::CannotTell { .. } => "an unknown share".into(),
    }
}

fn says(notes: &Notes, judged: &Judged) -> String {
    let (way, port) = (way(notes), notes.port.as_ref().map_or(0, |p| p.1));
    let ratio = percent(&judged.ratio);
    match &judged.verdict {
        Verdict::Blocked { refused, plain } => {
            let how = match refused {
                true => "refused",
                false => "blocked: no handshake is answered",
            };
            let other = match plain {
                Some(true) => " Other UDP datagrams to the same server pass.",
                Some(false) => " Other UDP datagrams to the same server do not pass either.",
                None => "",
            };
            format!("QUIC to UDP port {port} is {how}, while TCP works.{other}")
        }
        Verdict::Throttled { after_s, left } => format!(
            "QUIC is throttled {way}: after {after_s:.1} s its rate falls to {:.0} %, and TCP's does not.",
            left * 100.0
        ),
        Verdict::Policed => format!(
            "QUIC is policed {way}: it gets {ratio} of TCP's rate, and loses packets that no queue has dropped."
        ),
        Verdict::Slower => format!("QUIC is slower {way}: it gets {ratio} of TCP's rate."),
        Verdict::Alike => {
            format!("QUIC is treated like TCP {way}: it gets {ratio} of TCP's rate.")
        }
        Verdict::Unknown(why) => format!("Cannot tell: {why}."),
    }
}

fn figures(notes: &Notes, judged: &Judged) -> Vec<Figured> {
    let way = way(notes);
    let (after, left) = match judged.verdict {
        Verdict::Throttled { after_s, left } => {
            (Figure::exactly(after_s * 1e3), Figure::exactly(left))
        }
        _ => {
            let none = || Figure::cannot_tell("QUIC's rate does not fall within a connection");
            (none(), none())
        }
    };
    let lost = judged.lost.map_or_else(
        || Figure::cannot_tell("the sender of QUIC told no losses"),
        Figure::exactly,
    );
    vec![
        Figured::share(
            &format!("quic_of_tcp_{way}"),
            &format!("QUIC's rate {way} in parts of TCP's"),
            judged.ratio.clone(),
        ),
        Figured::rate(
            &format!("quic_{way}_bps"),
            &format!("rate of QUIC {way}, payload"),
            judged.quic_bps.clone(),
        ),
        Figured::rate(
            &format!("tcp_{way}_bps"),
            &format!("rate of TCP {way}, payload"),
            judged.tcp_bps.clone(),
        ),
        Figured::share(
            &format!("quic_lost_{way}"),
            &format!("share of QUIC's packets lost {way}"),
            lost,
        ),
        Figured::time(
            &format!("throttled_after_{way}_ms"),
            &format!("time after which QUIC's rate falls {way}"),
            after,
        ),
        Figured::share(
            &format!("throttled_to_{way}"),
            &format!("rate {way} after the fall in parts of that before"),
            left,
        ),
    ]
}

fn alerts(judged: &Judged) -> Vec<Alert> {
    let alert = |severity, title: &str, means: &str| vec![Alert::new(severity, title, means)];
    match judged.verdict {
        Verdict::Blocked { .. } => alert(
            Severity::Warning,
            "QUIC is blocked",
            "Browsers fall back to TCP after a delay; programs that need QUIC or other UDP on this port do not work.",
        ),
        Verdict::Throttled { .. } => alert(
            Severity::Warning,
            "QUIC is throttled after seconds",
            "Short downloads look fast; videos and large downloads over HTTP/3 are slow.",
        ),
        Verdict::Policed => alert(
            Severity::Warning,
            "QUIC is policed",
            "Most web traffic is QUIC: it gets less than TCP, and its lost packets are sent again.",
        ),
        _ => Vec::new(),
    }
}

fn evidence(notes: &Notes, judged: &Judged) -> Vec<String> {
    let mut lines = Vec::new();
    let made = notes
        .over(Over::Quic)
        .filter(|r| r.handshake_ms.is_some())
        .count();
    lines.push(format!(
        "{made} of {} QUIC handshakes succeeded, and {} TCP connections were made, in random order.",
        notes.over(Over::Quic).count(),
        notes.over(Over::Tcp).count()
    ));
    if let Some(lost) = judged.lost {
        let waits: Vec<f64> = notes.over(Over::Quic).filter_map(|r| r.wait_ms).collect();
        let wait = waits.iter().sum::<f64>() / waits.len().max(1) as f64;
        lines.push(format!(
            "QUIC lost {:.2} % of its packets; its round trip was {} above the smallest in the mean.",
            lost * 100.0,
            print::DELAY.print(wait)
        ));
    }
    if let Some((sent, answered)) = notes.plain {
        lines.push(format!(
            "{answered} of {sent} single UDP datagrams to another port were answered."
        ));
    }
    lines
}

fn doubts(notes: &Notes, judged: &Judged) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some((wanted, opened, Some(why))) = &notes.port {
        doubts.push(format!(
            "UDP port {wanted} was not tried but {opened}: {why}. Start the server with --allow-listen {wanted}"
        ));
    }
    if let Some(why) = &notes.untried {
        doubts.push(why.clone());
    }
    if let Verdict::Slower = judged.verdict {
        doubts.push(
            "QUIC runs in this program and TCP in the kernel: on a fast link a slow processor looks the same".into(),
        );
    }
    let failed = |r: &Ran| Some((r.handshake_ms?, r.failed.clone()?)).map(|f| f.1);
    let all = notes.over(Over::Quic).chain(notes.over(Over::Tcp));
    doubts.extend(
        all.filter_map(failed)
            .map(|why| format!("a connection ended early: {why}")),
    );
    doubts
}

fn table(notes: &Notes) -> Table {
    let mut rows = Vec::new();
    for (pair, all) in &notes.pairs {
        for (name, ran) in std::iter::zip(["TCP", "QUIC"], all) {
            let Some(ran) = ran else { continue };
            let time = ran.bins.len() as f64 * 0.1;
            let bps = ran.bins.iter().sum::<u64>() as f64 * 8.0 / time.max(0.1);
            let lost = match (ran.lost, ran.sent) {
                (Some(lost), Some(sent)) => {
                    format!("{:.2} %", lost as f64 * 100.0 / sent.max(1) as f64)
                }
                _ => "–".into(),
            };
            rows.push(vec![
                format!("{}", pair + 1),
                name.into(),
                match ran.handshake_ms {
                    Some(_) => print::RATE.print(bps),
                    None => "no connection".into(),
                },
                lost,
                ran.wait_ms.map_or("–".into(), |ms| print::DELAY.print(ms)),
            ]);
        }
    }
    let titles = ["pair", "transport", "rate", "lost", "mean wait"];
    Table::new("Connections", titles, rows)
}

/// Mean rate over the time of a connection, by transport.
fn plot(notes: &Notes) -> Plot {
    let series = [(Over::Tcp, "TCP"), (Over::Quic, "QUIC")].map(|(over, name)| {
        let all: Vec<&Ran> = notes.over(over).collect();
        let most = all.iter().map(|r| r.bins.len()).max().unwrap_or(0);
        let mean = |bin: usize| {
            let its: Vec<u64> = all
                .iter()
                .filter_map(|r| r.bins.get(bin))
                .copied()
                .collect();
            its.iter().sum::<u64>() as f64 * 80e-6 / its.len().max(1) as f64
        };
        let points = (0..most).map(|bin| ((bin as f64 + 0.5) * 0.1, Some(mean(bin))));
        Series::new(name, Draw::Line, points.collect())
    });
    let axes = ("time in the connection, s", "mean rate, Mbit/s");
    Plot::new(
        format!("QUIC beside TCP, {}", way(notes)),
        axes,
        series.into(),
    )
}
