//! Table and sentences of cures.

use super::Answer;
use ::twin::whatif::{Filled, Goal, Tried, print, shown};
use base::print::{DELAY, PERCENT, SPAN};
use report::table::{Cell, Column, Table, wrapped};

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
    let load = match found.load {
        Filled::Up => "an upload",
        Filled::Down => "a download",
        Filled::Both => "an upload and a download",
    };
    say(&format!(
        "Cures for {}, under {load}: {} seeds of {} each{}.",
        purpose(found.goal),
        found.seeds,
        SPAN.print(found.simulated_s),
        match found.twins {
            1 => String::new(),
            n => format!(", shared among {n} twins that fit alike"),
        }
    ));
    out.push('\n');
    out += &table(found.goal, &found.tried).text(width);
    out.push('\n');
    for line in wrapped(&sentence(&found.tried), width) {
        out += &line;
        out.push('\n');
    }
    out
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

fn table(goal: Goal, tried: &[Tried]) -> Table {
    let mut columns = vec![
        Column::words("place"),
        Column::words("cure"),
        Column::of("added p95", ""),
        Column::of("call", "R"),
        Column::of("page", ""),
        Column::of("goodput", ""),
        Column::words("Pareto"),
    ];
    if matches!(goal, Goal::Gaming | Goal::All) {
        let head = if goal == Goal::All {
            "cures beaten"
        } else {
            "added p99"
        };
        columns.push(Column::of(head, ""));
    }
    let mut table = Table::new("place", columns);
    for t in tried {
        let gained = t.goodput_gained.map(|share| 100.0 * share);
        let mut cells: Vec<Cell> = vec![
            t.cure.as_str().into(),
            Cell::figure(&t.added_p95_ms, DELAY),
            print(&t.call, None).into(),
            Cell::figure(&t.page_s, SPAN),
            Cell::figure(&gained, PERCENT),
            if t.pareto { "yes" } else { "" }.into(),
        ];
        if matches!(goal, Goal::Gaming | Goal::All) {
            let (figure, unit) = shown(goal, t);
            cells.push(print(&figure, unit).into());
        }
        table.row(t.place.to_string(), cells);
    }
    table
}

/// Sentence about the best cures.
fn sentence(tried: &[Tried]) -> String {
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
