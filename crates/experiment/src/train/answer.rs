//! Answer from all trains.

use super::text::{plot, said, table};
use super::{Params, Way, program};
use crate::answer::{Figured, Outcome, Quantity};
use crate::trains::{of_stage, sent_rate};
use base::BitsPerSec;
use base::program::Train;
use stats::Figure;

pub(super) fn answer(params: &Params, trains: &[Train]) -> Outcome {
    let ways: Vec<Way> = params
        .direction
        .directions()
        .iter()
        .map(|&direction| Way {
            direction,
            trains: of_stage(trains, direction.word()).collect(),
        })
        .filter(|w| !w.trains.is_empty())
        .collect();
    if ways.is_empty() {
        return Outcome::cannot_tell("no train was sent");
    }
    let mut out = Outcome {
        says: ways.iter().map(said).collect::<Vec<_>>().join(" "),
        tables: vec![table(&ways)],
        plots: ways.iter().map(plot).collect(),
        ..Outcome::default()
    };
    for w in &ways {
        figures(w, &mut out);
    }
    let asked = params.count;
    let fits = program(params).count();
    if params.send.is_none() && fits < asked {
        out.doubts.push(format!(
            "of {asked} datagrams at that rate {fits} take an hour, which is the longest of one train"
        ));
    }
    if params.send.is_none() {
        let rate = params.rate.get() as f64;
        for w in &ways {
            let left = w.trains.iter().filter_map(|t| sent_rate(t));
            let slowest = left.fold(f64::INFINITY, f64::min);
            if slowest < 0.98 * rate {
                out.doubts.push(format!(
                    "{}: they left at {:.3}, slower than asked: the sending host could not keep up",
                    w.direction.word(),
                    BitsPerSec::new(slowest.round() as u64)
                ));
            }
        }
    }
    out
}

fn figures(way: &Way, out: &mut Outcome) {
    let word = way.direction.word();
    let waits = stats::delays(&way.waits(), "no datagram arrived");
    let mut put = |key: &str, name: &str, unit, figure| {
        let (key, name) = (format!("{word}_{key}"), format!("{word}: {name}"));
        out.figures.push(Figured::new(&key, &name, unit, figure));
    };
    put("lost", "lost", Quantity::Share, way.lost());
    put("received_bps", "arrived at", Quantity::Rate, way.rate());
    put(
        "wait_ms",
        "delay above the least, median",
        Quantity::Time,
        waits.p50_ms,
    );
    put(
        "wait_p95_ms",
        "95 % wait no longer than",
        Quantity::Time,
        waits.p95_ms,
    );
    put("jitter_ms", "jitter", Quantity::Time, way.jitter());
    put(
        "reordered",
        "overtaken by later ones",
        Quantity::Count,
        Figure::exactly(way.reordered() as f64),
    );
    put(
        "longest_loss",
        "most in a row that were lost",
        Quantity::Count,
        Figure::exactly(way.longest_loss() as f64),
    );
    let (able, marked, cleared) = way.marks();
    if able > 0 {
        put(
            "marked",
            "marked with congestion (ECN CE)",
            Quantity::Share,
            stats::wilson(marked as f64, able as f64),
        );
        if cleared > 0 {
            out.evidence.push(format!(
                "{word}: {cleared} of {able} datagrams that could be marked (ECN) arrived with the field cleared: something on the way does not let it pass"
            ));
        }
    }
    if let Some(train) = way.trains.first() {
        let repeats = match way.trains.len() {
            1 => String::new(),
            n => format!(", {n} times"),
        };
        let program = &train.facts.program;
        out.evidence.push(format!("{word}: {program}{repeats}"));
    }
}
