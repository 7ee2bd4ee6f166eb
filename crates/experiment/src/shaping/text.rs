//! Answer of the kind `shaping`: sentences, figures, tables and plots from the verdict.

use super::answer::{Judged, Sent, Verdict, Way, judge, sent};
use super::note::Manner;
use crate::answer::{Draw, Figured, Outcome, Plot, Series, Table};
use base::Bytes;
use base::print::{DELAY, RATE, significant};
use base::record::Recording;
use stats::Figure;

/// Answer from a recording.
pub(super) fn answer(recording: &Recording) -> Outcome {
    let (files, untried) = sent(recording);
    let judged = judge(&files, untried);
    if judged.ways.is_empty() {
        let why = judged.untried.unwrap_or_else(|| "no file was sent".into());
        return Outcome::cannot_tell(why);
    }
    Outcome {
        says: says(&judged),
        figures: figures(&judged),
        evidence: evidence(&judged),
        doubts: judged.untried.clone().into_iter().collect(),
        tables: vec![table(&judged)],
        plots: plots(&files, recording),
        ..Outcome::default()
    }
}

fn time(figure: &Figure) -> String {
    figure
        .value()
        .map_or("an unknown time".into(), |ms| DELAY.print(ms))
}

fn says(judged: &Judged) -> String {
    let size = judged
        .size
        .map_or(String::new(), |b| format!(" of {}", Bytes::new(b)));
    let way = |manner| judged.ways.get(&manner);
    let times = |w: &Way| {
        let times = w.ratio.value().map(|r| significant(r, 3));
        times.map_or(String::new(), |r| format!(" takes {r} times as long, and"))
    };
    let limit = judged.limit.map_or(String::new(), |bps| {
        format!(" at {}", RATE.print(bps as f64))
    });
    let verdict = match &judged.verdict {
        Verdict::Helps => "Sending below the link's rate keeps the queue short.",
        Verdict::DoesNotHelp => {
            "Sending below the link's rate shortens the wait of others by less than half."
        }
        Verdict::NoQueue => "The queue is short even without a limit.",
        Verdict::Unknown(why) => return format!("Cannot tell: {why}."),
    };
    let mut said = verdict.to_owned();
    if let Some(free) = way(Manner::Continuous) {
        let seconds = free.time.value().map_or("?".into(), |s| significant(s, 3));
        said += &format!(
            " A file{size} takes {seconds} s without a limit, and others wait {} longer than on the idle link (95 %).",
            time(&free.wait)
        );
    }
    if let Some(shaped) = way(Manner::Shaped) {
        said += &format!(
            " Shaped{limit} it{} others wait {}.",
            times(shaped),
            time(&shaped.wait)
        );
    }
    if let Some(parts) = way(Manner::Intermittent) {
        said += &format!(
            " In parts with pauses it{} others wait {}.",
            times(parts),
            time(&parts.wait)
        );
    }
    said
}

fn figures(judged: &Judged) -> Vec<Figured> {
    let mut all = Vec::new();
    for (manner, way) in &judged.ways {
        let word = manner.word();
        all.push(Figured::time(
            &format!("{word}_wait_ms"),
            &format!("wait of others beside the file, 95 %, {word}"),
            way.wait.clone(),
        ));
        all.push(Figured::time(
            &format!("{word}_file_ms"),
            &format!("time of the file, {word}"),
            way.time.clone().map(|s| s * 1e3),
        ));
        all.push(Figured::share(
            &format!("{word}_lost"),
            &format!("datagrams of others that were lost, {word}"),
            way.lost.clone(),
        ));
        if *manner != Manner::Continuous {
            all.push(Figured::count(
                &format!("{word}_ratio"),
                &format!("time of the file against that without a limit, {word}"),
                way.ratio.clone(),
            ));
        }
    }
    all
}

fn evidence(judged: &Judged) -> Vec<String> {
    let mut all = Vec::new();
    if judged.unshaped > 0 {
        all.push(format!(
            "{} shaped files were faster than their limit",
            judged.unshaped
        ));
    }
    if let Some(bps) = judged.limit {
        all.push(format!(
            "Shaped files left this host segment by segment, at {} of payload.",
            RATE.print(bps as f64)
        ));
    }
    all
}

fn table(judged: &Judged) -> Table {
    let cell = |figure: &Figure, digits| match figure {
        Figure::Is { value, low, high } => {
            let [value, low, high] = [*value, *low, *high].map(|v| significant(v, digits));
            format!("{value} ({low} to {high})")
        }
        Figure::CannotTell { .. } => "–".into(),
    };
    let rows = judged.ways.iter().map(|(manner, way)| {
        vec![
            manner.word().to_owned(),
            cell(&way.time, 3),
            cell(&way.ratio, 3),
            cell(&way.wait, 3),
            way.lost
                .value()
                .map_or("–".into(), |l| significant(l * 100.0, 2)),
        ]
    });
    Table {
        title: "Time of the file, and wait of others (95 %), means with 95 % intervals".into(),
        columns: ["file", "s", "times", "others wait, ms", "lost, %"]
            .map(String::from)
            .to_vec(),
        rows: rows.collect(),
    }
}

/// Figure 23 of the source: traffic and delay of one repetition.
fn plots(files: &[Sent], recording: &Recording) -> Vec<Plot> {
    let of_first = || files.iter().filter(|f| f.repeat == 0);
    let waits = of_first().map(|f| {
        let at = |(t, ms): &(i64, f64)| ((t - f.began_ns) as f64 * 1e-9, Some(*ms));
        Series::new(
            f.manner.word(),
            Draw::Line,
            f.waits.iter().map(at).collect(),
        )
    });
    let traffic = of_first().map(|f| {
        let (mut before, mut flow, mut points) = (0, i64::MIN, Vec::new());
        let rows = recording.flow.iter();
        for row in rows.filter(|r| (f.flows.0..=f.flows.1).contains(&r.flow)) {
            let Some(acked) = row.bytes_acked else {
                continue;
            };
            let last = points
                .last()
                .map_or(0.0, |p: &(f64, Option<f64>)| p.1.unwrap_or(0.0));
            if row.flow != flow {
                // Each part counts from zero.
                before = (last * 1e6) as i64;
                flow = row.flow;
            }
            let seconds = (row.t_ns - f.began_ns) as f64 * 1e-9;
            points.push((seconds, Some((before + acked) as f64 * 1e-6)));
        }
        Series::new(f.manner.word(), Draw::Line, points)
    });
    vec![
        Plot::new(
            "Acknowledged payload of the first repetition",
            ("s since it began", "MB"),
            traffic.collect(),
        ),
        Plot::new(
            "Wait of others in the first repetition",
            ("s since it began", "ms"),
            waits.collect(),
        ),
    ]
}
