//! Answer from all trains.

use super::{Jump, Known, Params, STAGE, woken};
use crate::answer::{Draw, Figured, Outcome, Plot, Series, Table};
use crate::trains::{CLOCK, of_stage};
use base::print::significant;
use base::program::Train;
use base::record::Direction;
use stats::Figure;

pub(super) fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let known = Known::of(trains);
    let Some((longest, _)) = known.by_silence.last() else {
        return Outcome::cannot_tell("no datagram came after a silence");
    };
    let jumps = known.jumps();
    let largest = jumps.iter().max_by(|a, b| a.by_ms.total_cmp(&b.by_ms));
    let way = params.direction;
    let mut out = Outcome::default();
    match largest {
        None => still(&known, *longest, way, &mut out),
        Some(jump) => sleeps(&known, &jumps, jump, way, &mut out),
    }
    out.evidence.push(format!(
        "{} silences; less than {} ms is not told from how delays vary.",
        known.by_silence.iter().map(|k| k.1.len()).sum::<usize>(),
        significant(known.least_ms, 2)
    ));
    let failed = of_stage(trains, STAGE)
        .filter(|t| woken(t).is_none())
        .count();
    if failed > 0 {
        out.doubts.push(format!(
            "after {failed} silences the first datagram was lost; they were tried again"
        ));
    }
    out.plots.push(plot(&known));
    out.tables.push(table(&known));
    out
}

/// Answer of a link on which nothing sleeps.
fn still(known: &Known, longest: f64, way: Direction, out: &mut Outcome) {
    let most = known
        .by_silence
        .iter()
        .flat_map(|k| &k.1)
        .fold(0.0f64, |a, b| a.max(*b));
    out.says = format!(
        "Nothing sleeps: after up to {} s of silence the first datagram {way} takes {} ms longer at most.",
        significant(longest, 3),
        significant(most.max(0.0), 2)
    );
    let why = format!("nothing sleeps within {} s", significant(longest, 3));
    out.figures = vec![
        Figured::time(
            "idle_timeout_ms",
            "it sleeps after",
            Figure::cannot_tell(why.clone()),
        ),
        Figured::time("wake_ms", "waking takes", Figure::cannot_tell(why)),
    ];
}

/// Answer of a link with a radio that sleeps.
fn sleeps(known: &Known, jumps: &[Jump], jump: &Jump, way: Direction, out: &mut Outcome) {
    let until = jumps.iter().map(|j| j.from_s).find(|s| *s >= jump.to_s);
    let behind = |s: f64| s >= jump.to_s && until.is_none_or(|u| s <= u);
    let of_level = known.by_silence.iter().filter(|(s, _)| behind(*s));
    // The two hosts' clocks drift apart while nothing is sent.
    let longest_s = of_level.clone().fold(0.0f64, |a, (s, _)| a.max(*s));
    let drift_ms = CLOCK * longest_s * 1e3;
    let of_level: Vec<f64> = of_level.flat_map(|(_, all)| all.iter().copied()).collect();
    let wake = match &of_level[..] {
        [one] => Figure::exactly(*one),
        all => stats::mean_figure(all),
    };
    let wake = match wake {
        Figure::Is { value, low, high } => Figure::Is {
            value,
            low: low - drift_ms,
            high: high + drift_ms,
        },
        unknown => unknown,
    };
    let after = Figure::Is {
        value: (jump.from_s + jump.to_s) / 2.0 * 1e3,
        low: jump.from_s * 1e3,
        high: jump.to_s * 1e3,
    };
    out.says = format!(
        "After {} to {} s of silence the radio sleeps, and the next datagram {way} waits {} s for it to wake up.",
        significant(jump.from_s, 3),
        significant(jump.to_s, 3),
        significant(wake.value().unwrap_or(jump.by_ms) * 1e-3, 3)
    );
    out.figures = vec![
        Figured::time("idle_timeout_ms", "it sleeps after", after),
        Figured::time("wake_ms", "waking takes", wake),
    ];
    out.advice.push(format!(
        "Whoever clicks after more than {} s waits that much longer: what must answer at once sends something more often than that, at the price of the battery.",
        significant(jump.from_s, 3)
    ));
    for other in jumps.iter().filter(|j| *j != jump) {
        out.evidence.push(format!(
            "Between {} and {} s of silence waking grows by {} ms: another state of the radio.",
            significant(other.from_s, 3),
            significant(other.to_s, 3),
            significant(other.by_ms, 3)
        ));
    }
}

fn plot(known: &Known) -> Plot {
    let points = known
        .by_silence
        .iter()
        .flat_map(|(s, all)| all.iter().map(|ms| (*s, Some(*ms))));
    Plot::new(
        "What the first datagram takes longer, by the silence before it",
        ("silence, s", "ms"),
        vec![Series::new("", Draw::Marks, points.collect())],
    )
}

fn table(known: &Known) -> Table {
    Table {
        title: "Silences".into(),
        columns: ["silence, s", "first datagram later by, ms"]
            .map(String::from)
            .to_vec(),
        rows: known
            .by_silence
            .iter()
            .map(|(s, all)| {
                let each: Vec<String> = all.iter().map(|ms| significant(ms.max(0.0), 3)).collect();
                vec![significant(*s, 4), each.join(", ")]
            })
            .collect(),
    }
}
