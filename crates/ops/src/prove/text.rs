//! Sentences of a proof.

use super::{Answer, Measure, On, Verdict, real};
use base::print::{SIZE, SPAN, number, significant};
use report::table::{Column, Table, wrapped};
use stats::Figure;

/// Unit and name of a measure; values are signed so that more is better.
pub(super) fn unit(measure: Measure) -> (&'static str, &'static str, f64) {
    match measure {
        Measure::Delay => ("95 % point of the added delay", "ms", -1.0),
        Measure::Call => ("call quality", "R", 1.0),
        Measure::Page => ("time to fetch a page", "s", -1.0),
        Measure::Goodput => ("goodput", "% of that without the cure", 1.0),
    }
}

/// Sentence about the difference that a plan can show.
pub(super) fn power(pairs: u64, measure: Measure, difference: f64) -> String {
    let (name, unit, _) = unit(measure);
    format!(
        "{pairs} pairs of blocks show a difference in {name} of {} {unit} with 80 % power. The number of pairs is fixed now.",
        number(difference)
    )
}

/// Description of a run on a real link.
pub(super) fn plan(plan: &real::Plan, blocks: u64, seconds: f64, width: usize) -> String {
    let lines = [
        format!(
            "Nothing has been run. With --go, tailback fills the link to {} in {blocks} blocks of {} and a wash-out of {} each, about {} in all. It sends at most {}.",
            plan.server,
            SPAN.print(plan.block.as_secs_f64()),
            SPAN.print(plan.wash_out.as_secs_f64()),
            SPAN.print(seconds),
            SIZE.print(plan.budget.get() as f64),
        ),
        format!(
            "The first {} blocks are a pilot without the cure. It tells the difference that {} pairs can show.",
            blocks - 2 * plan.pairs,
            plan.pairs
        ),
        format!("On: {}", plan.on),
        format!("Off: {}", plan.off),
        "The command of --off runs first, before each block without the cure, and at the end, also after an error, Ctrl-C or a kill. Other users of the link notice the load.".into(),
    ];
    let mut out = String::new();
    for line in lines.iter().flat_map(|l| wrapped(l, width)) {
        out += &line;
        out.push('\n');
    }
    out
}

/// Text of a proof for a terminal.
pub(super) fn proof(answer: &Answer, width: usize) -> String {
    let mut out = String::new();
    let lines = std::iter::once(verdict(answer)).chain(facts(answer));
    for line in lines.flat_map(|l| wrapped(&l, width)) {
        out += &line;
        out.push('\n');
    }
    out.push('\n');
    out += &table(answer).text(width);
    if let Some(path) = &answer.recordings {
        out += &format!("\nRecordings of the blocks: {}\n", path.display());
    }
    out
}

/// Figures of a proof, and what its blocks were.
pub(super) fn facts(answer: &Answer) -> Vec<String> {
    let p = &answer.proof;
    let (name, unit, sign) = unit(p.measure);
    let mut lines = vec![format!(
        "{name}: {} {unit} without the cure, {} with it; p = {} by flipping signs over {} pairs of blocks.",
        number(sign * p.off),
        number(sign * p.on),
        significant(p.p, 2),
        p.pairs
    )];
    if let Some(difference) = p.detectable {
        lines.push(format!(
            "So many pairs show a difference of {} {unit} with 80 % power.",
            number(difference)
        ));
    }
    lines.push(match answer.on {
        On::VirtualTime => "Simulated TCP in virtual time.".into(),
        On::EmulatedLinks => "This kernel's TCP over emulated links.".into(),
        On::RealLink => "This kernel's TCP over the real link.".into(),
    });
    lines
}

/// Table of the pairs.
pub(super) fn table(answer: &Answer) -> Table {
    let p = &answer.proof;
    let (_, unit, sign) = unit(p.measure);
    let columns = [
        Column::words("pair"),
        Column::of("off", unit),
        Column::of("on", unit),
    ];
    let mut table = Table::new("pair", columns);
    for pair in 0..p.pairs {
        let value = |on: bool| {
            let block = p.blocks.iter().find(|b| b.pair == pair && b.on == on);
            block.map(|b| number(sign * b.value))
        };
        table.row((pair + 1).to_string(), [value(false), value(true)]);
    }
    table
}

pub(super) fn verdict(answer: &Answer) -> String {
    let p = &answer.proof;
    let (_, unit, _) = unit(p.measure);
    let by = match &p.difference {
        Figure::Is { value, low, high } => {
            let (low, high) = match *value < 0.0 {
                true => (-high, -low),
                false => (*low, *high),
            };
            format!(
                "by {} {unit} ({} to {})",
                number(value.abs()),
                number(low),
                number(high)
            )
        }
        Figure::CannotTell { cannot_tell } => format!("(cannot tell by how much: {cannot_tell})"),
    };
    match p.verdict {
        Verdict::Helps => format!("{} helps {by}.", answer.cure),
        Verdict::Harms => format!("{} harms {by}.", answer.cure),
        Verdict::NoDifferenceShown => format!("{}: no difference shown.", answer.cure),
    }
}
