//! Table and sentences of cures.

use super::Answer;
use ::twin::whatif::{Filled, Goal, Tried, WhatIf};
use base::print::SPAN;
use report::table::{Cell, Column, Table, wrapped};
use stats::Figure;

/// Text of the ranked cures for a terminal.
pub(super) fn whatif(answer: &Answer, width: usize) -> String {
    let found = &answer.found;
    let mut out = String::new();
    let mut say = |text: &str| {
        for line in wrapped(text, width) {
            out += &line;
            out.push('\n');
        }
    };
    if let Some(doubt) = &answer.doubt {
        say(&format!("The twin is doubtful: {doubt}"));
    }
    say(&asked(found));
    out.push('\n');
    out += &table(found.goal, &found.tried).text(width);
    out += "\n*: no other cure has both less delay and more goodput.\n\n";
    for line in wrapped(&sentence(&found.tried), width) {
        out += &line;
        out.push('\n');
    }
    out
}

/// Sentence about what was tried.
pub(super) fn asked(found: &WhatIf) -> String {
    let load = match found.load {
        Filled::Up => "an upload",
        Filled::Down => "a download",
        Filled::Both => "an upload and a download",
        Filled::Evening => {
            "the load of an evening (a download, a backup, two video streams, a video call)"
        }
        Filled::Work => {
            "the load of a working day (a video call, a shared screen, a synchronised folder)"
        }
    };
    format!(
        "Cures for {}, under {load}: {} seeds of {} each{}.{}",
        purpose(found.goal),
        found.seeds,
        SPAN.print(found.simulated_s),
        match found.twins {
            1 => String::new(),
            n => format!(", shared among {n} twins that fit alike"),
        },
        match found.moves {
            true =>
                " The rate moves: each seed starts at another time of it, and an interval holds most single runs.",
            false => "",
        }
    )
}

fn purpose(goal: Goal) -> &'static str {
    match goal {
        Goal::Calls => "calls",
        Goal::Gaming => "gaming",
        Goal::Web => "the web",
        Goal::Bulk => "bulk transfers",
        Goal::All => "all uses",
    }
}

/// Table of the cures, narrow enough for a terminal of 80 columns.
pub(super) fn table(goal: Goal, tried: &[Tried]) -> Table {
    let delay = match goal {
        Goal::Gaming => "p99",
        _ => "p95",
    };
    let columns = [
        Column::words("place"),
        Column::of(format!("added {delay}"), "ms"),
        Column::of("call", "R"),
        Column::of("page", "s"),
        Column::of("goodput", "%"),
        Column::words("cure"),
    ];
    let mut table = Table::new("place", columns);
    for t in tried {
        let added = match goal {
            Goal::Gaming => &t.added_p99_ms,
            _ => &t.added_p95_ms,
        };
        let gained = t.goodput_gained.map(|share| 100.0 * share);
        let mut parts = t.cure.split_inclusive(" + ").map(str::trim_end);
        table.row(
            format!("{}{}", t.place, if t.pareto { "*" } else { "" }),
            [
                estimate(added, 1),
                estimate(&t.call, 1),
                estimate(&t.page_s, 2),
                estimate(&gained, 1),
                parts.next().unwrap_or_default().into(),
            ],
        );
        // A cure of several parts goes on below its first one.
        for part in parts {
            let none = || Cell::from("");
            table.row("", [none(), none(), none(), none(), part.into()]);
        }
    }
    table
}

/// Figure with the larger half of its interval, to two digits of the latter and at most this many places.
fn estimate(figure: &Figure, most: i32) -> Cell {
    match figure {
        Figure::CannotTell { cannot_tell } => Cell::CannotTell(cannot_tell.clone()),
        Figure::Is { value, low, high } => {
            let half = (high - value).max(value - low);
            let places = match half > 0.0 && half.is_finite() {
                true if value.abs() < 100.0 => (1 - half.log10().floor() as i32).clamp(0, most),
                true => 0,
                false => 1,
            } as usize;
            Cell::Estimate {
                mean: format!("{value:.places$}"),
                half: match half > 0.0 {
                    true => format!("±{half:.places$}"),
                    false => String::new(),
                },
            }
        }
    }
}

/// Sentence about the best cures.
pub(super) fn sentence(tried: &[Tried]) -> String {
    let good: Vec<&str> = tried
        .iter()
        .filter(|t| t.as_good_as_best)
        .map(|t| t.cure.as_str())
        .collect();
    match &good[..] {
        [] => String::new(),
        [one] => format!("Best: {one}."),
        several => format!(
            "Indistinguishable at the top: {}. More seeds may tell them apart; the simplest of them is as good.",
            several.join("; ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_cures_fits_eighty_columns_in_one_piece() {
        let about = |value: f64, half: f64| Figure::Is {
            value,
            low: value - half,
            high: value + half,
        };
        let tried = |cure: &str| Tried {
            cure: cure.into(),
            place: 12,
            added_p95_ms: about(12_345.6, 234.5),
            added_p99_ms: about(12_345.6, 0.004),
            call: about(47.123, 10.4),
            page_s: about(19.98, 11.7),
            up_bps: about(1e6, 1e3),
            down_bps: about(1e6, 1e3),
            goodput_gained: about(-0.4567, 0.21),
            score: about(1.0, 0.1),
            pareto: true,
            as_good_as_best: true,
        };
        let all = [
            tried("as it is"),
            tried("up.shaper=fq_codel:95% + down.shaper=cake:48.5mbit + sender=bbr"),
        ];
        for goal in Goal::ALL {
            let text = table(goal, &all).text(80);
            // A heading, a row of the first cure, and three of the second.
            assert_eq!(text.lines().count(), 5, "{text}");
            assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        }
    }
}
