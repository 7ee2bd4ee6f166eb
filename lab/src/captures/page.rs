//! Totals, the list of wrong figures, and the page of the book.

use super::Outcome;
use super::family::{Draw, FAMILIES};
use super::judge::FIGURES;
use super::taken::SNAPLEN;
use crate::draws::judge::{Judged, Verdict};
use crate::draws::page::{Count, HEAD};
use std::collections::BTreeMap;

/// Counts by figure, by the kind of link, and by the place of the capture.
pub fn text(seed: u64, all: &[Outcome]) -> String {
    let of = |wanted: &dyn Fn(&Outcome, &Judged) -> bool| {
        let mut count = Count::default();
        for o in all {
            o.judged
                .iter()
                .filter(|j| wanted(o, j))
                .for_each(|j| count.add(j));
        }
        count
    };
    let mut text = format!("Seed {seed}, {} captures.\n\n{HEAD}", all.len());
    for figure in FIGURES {
        text += &of(&|_, j| j.figure == figure).row(figure);
    }
    text += &of(&|_, _| true).row("all");
    let mut kinds: BTreeMap<String, &dyn Fn(&Outcome) -> bool> = BTreeMap::new();
    kinds.insert("with timestamps".into(), &|o| o.draw.stamped);
    kinds.insert("without timestamps".into(), &|o| !o.draw.stamped);
    kinds.insert("beside the sender or at the bottleneck".into(), &|o| {
        o.draw.point != "d0"
    });
    kinds.insert("segmentation offload".into(), &|o| o.draw.offload.is_some());
    kinds.insert("a part of the transfers".into(), &|o| o.draw.taken.part);
    kinds.insert("packets missed".into(), &|o| o.draw.taken.missed.is_some());
    kinds.insert("96 bytes of each packet or less".into(), &|o| {
        o.draw.taken.kept < SNAPLEN
    });
    kinds.insert("not as Linux".into(), &|o| !o.draw.stack.is_empty());
    kinds.insert("beside the receiver".into(), &|o| o.draw.point == "d0");
    text += &format!("\n{HEAD}");
    for (name, is) in kinds {
        text += &of(&|o, _| is(o)).row(&name);
    }
    for family in FAMILIES {
        text += &of(&|o, _| o.draw.family == family).row(family);
    }
    text += "\nWrong figures:\n\n";
    for (o, j) in judged(all).filter(|(_, j)| j.verdict == Verdict::Wrong) {
        text += &format!(
            "- {}: {}: said {}, true {} ({}, captured at {}{})\n",
            o.draw.number,
            j.figure,
            j.said,
            j.truth,
            o.draw.family,
            o.draw.point,
            remarks(&o.draw)
        );
    }
    text
}

fn remarks(draw: &Draw) -> String {
    let mut remarks = String::new();
    if draw.offload.is_some() {
        remarks += ", offload";
    }
    if !draw.stamped {
        remarks += ", no timestamps";
    }
    if draw.taken.part {
        remarks += &format!(", from {:.1} s", draw.taken.from_s);
    }
    if let Some(missed) = draw.taken.missed {
        remarks += &format!(", {:.2} % missed", 100.0 * missed.share());
    }
    if draw.taken.kept < SNAPLEN {
        remarks += &format!(", {} bytes kept", draw.taken.kept);
    }
    if !draw.stack.is_empty() {
        let stack = draw.stack.join(", ").replace(['"', '\n'], " ");
        remarks += &format!(", {stack}");
    }
    remarks
}

/// Every judged figure, tab-separated.
pub fn list(all: &[Outcome]) -> String {
    let line = |(o, j): (&Outcome, &Judged)| {
        format!(
            "{}\t{}\t{}\t{}\t{}\t{:?}\t{}\t{}\n",
            o.draw.number,
            o.draw.family,
            o.draw.point,
            o.draw.stamped,
            j.figure,
            j.verdict,
            j.said,
            j.truth
        )
    };
    judged(all).map(line).collect()
}

fn judged(all: &[Outcome]) -> impl Iterator<Item = (&Outcome, &Judged)> {
    all.iter()
        .flat_map(|o| o.judged.iter().map(move |j| (o, j)))
}
