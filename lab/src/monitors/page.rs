//! Totals, the list of wrong figures, and the page of the book.

use super::Outcome;
use super::family::FAMILIES;
use super::judge::FIGURES;
use crate::draws::judge::{Judged, Verdict};
use crate::draws::page::{Count, HEAD};

/// Counts by figure, and by the kind of link.
pub fn text(seed: u64, all: &[Outcome]) -> String {
    let of = |wanted: &dyn Fn(&Outcome, &Judged) -> bool| {
        let mut count = Count::default();
        for (_, j) in judged(all).filter(|(o, j)| wanted(o, j)) {
            count.add(j);
        }
        count
    };
    let mut text = format!("Seed {seed}, {} monitors.\n\n{HEAD}", all.len());
    for figure in FIGURES {
        text += &of(&|_, j| j.figure == figure).row(figure);
    }
    text += &of(&|_, _| true).row("all");
    text += &format!("\n{HEAD}");
    for family in FAMILIES {
        text += &of(&|o, _| o.draw.family == family).row(family);
    }
    text += "\nWrong figures:\n\n";
    for (o, j) in judged(all).filter(|(_, j)| j.verdict == Verdict::Wrong) {
        text += &format!(
            "- {}: {}: said {}, true {} ({}, {})\n",
            o.draw.number,
            j.figure,
            j.said,
            j.truth,
            o.draw.family,
            o.draw.told()
        );
    }
    text
}

/// Every judged figure, tab-separated.
pub fn list(all: &[Outcome]) -> String {
    let line = |(o, j): (&Outcome, &Judged)| {
        format!(
            "{}\t{}\t{}\t{:?}\t{:?}\t{}\t{}\n",
            o.draw.number, o.draw.family, j.figure, j.verdict, j.covered, j.said, j.truth
        )
    };
    judged(all).map(line).collect()
}

fn judged(all: &[Outcome]) -> impl Iterator<Item = (&Outcome, &Judged)> {
    all.iter()
        .flat_map(|o| o.judged.iter().map(move |j| (o, j)))
}
