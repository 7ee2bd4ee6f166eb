//! Page of a proof: every block, and the verdict.

use super::text::{facts, table, unit, verdict};
use super::{Answer, On};
use report::plot::{Axis, Draw, PlotSpec, Series};
use report::sheet::{Section, Sheet};

/// Page of a proof.
pub(super) fn page(answer: &Answer) -> Sheet {
    Sheet {
        about: "proof of a cure".into(),
        title: answer.cure.clone(),
        says: verdict(answer),
        sections: vec![Section {
            heading: "Blocks with and without the cure".into(),
            says: facts(answer),
            plots: vec![plot(answer)],
            table: Some(table(answer)),
            note: match answer.on {
                On::RealLink => {
                    "The order within each pair was drawn at random; the whole link was switched."
                }
                On::EmulatedLinks | On::VirtualTime => {
                    "The order within each pair was drawn at random."
                }
            }
            .into(),
        }],
    }
}

/// Value of each block, pair by pair.
fn plot(answer: &Answer) -> PlotSpec {
    let p = &answer.proof;
    let (name, unit, sign) = unit(p.measure);
    let of = |on: bool| {
        let blocks = p.blocks.iter().filter(|b| b.on == on);
        let mut points: Vec<_> = blocks
            .map(|b| ((b.pair + 1) as f64, Some(sign * b.value)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    };
    let lines = PlotSpec::lines(
        "Blocks with and without the cure",
        Axis::even("pair of blocks", 0.5, p.pairs as f64 + 0.5),
        format!("{name}, {unit}"),
        vec![
            Series::numbered("without", Draw::Marks, 4, of(false)),
            Series::numbered("with", Draw::Marks, 0, of(true)),
        ],
    );
    PlotSpec {
        untitled: true,
        ..lines
    }
}
