//! Sentences and tables of a twin.

use ::twin::{Compared, Fitted, Named, Replayed, Trust, Twin};
use base::print::{DELAY, PERCENT, RATE, SIZE, number};
use report::table::{Cell, Column, Table, wrapped};
use std::path::Path;

/// Text of a twin for a terminal.
pub(super) fn twin(twin: &Twin, wrote: Option<&Path>, width: usize) -> String {
    let mut out = String::new();
    let mut say = |text: &str| {
        for line in wrapped(text, width) {
            out += &line;
            out.push('\n');
        }
    };
    say(&format!("{}: {}", twin.title, verdict(twin)));
    for why in &twin.because {
        say(&format!("- {why}"));
    }
    out.push('\n');
    let fitted = [("up", &twin.up), ("down", &twin.down)];
    if fitted.iter().any(|(_, f)| f.is_some()) {
        out += &directions(twin).text(width);
        out.push('\n');
        for (name, f) in fitted {
            let Some(f) = f else { continue };
            for line in wrapped(&queue(name, f), width) {
                out += &line;
                out.push('\n');
            }
        }
        out.push('\n');
    }
    out += &compared(&twin.compared).text(width);
    if let Some(path) = wrote {
        out += &format!(
            "\nThe twin is a link file, for --link {p}.\nAsk it: tailback whatif {p}\n",
            p = path.display()
        );
    }
    out
}

pub(super) fn verdict(twin: &Twin) -> &'static str {
    match twin.trust {
        Trust::Agrees => {
            "the twin agrees with the link, also under a load that it was not fitted to"
        }
        Trust::Doubtful => "the twin agrees with the link in part only",
        Trust::Rejected => "the twin is not this link; do not ask it about cures",
    }
}

pub(super) fn directions(twin: &Twin) -> Table {
    let mut table = Table::new(
        "direction",
        ["", "rate", "buffer", "base RTT", "jitter", "loss at rest"],
    );
    let pair = [
        ("up", &twin.up, &twin.link.up),
        ("down", &twin.down, &twin.link.down),
    ];
    for (name, fitted, spec) in pair {
        let Some(f) = fitted else { continue };
        let law = |text: Option<String>| Cell::from(text);
        table.row(
            name,
            [
                Cell::figure(&f.rate_bps, RATE),
                Cell::figure(&f.buffer_bytes, SIZE),
                Cell::figure(&twin.base_rtt_ms, DELAY),
                law(spec.jitter.as_ref().map(ToString::to_string)),
                law(spec.loss.as_ref().map(ToString::to_string)),
            ],
        );
    }
    table.without_empty_columns()
}

pub(super) fn queue(name: &str, f: &Fitted) -> String {
    let seen = f.rate_seen.map_or(String::new(), |share| {
        format!(
            " The rate varies; it was seen in {} of the time and is bridged in the rest.",
            PERCENT.print(100.0 * share)
        )
    });
    match &f.discipline {
        Named::Is(name_of) => {
            let mut counted: Vec<&str> = f.ties.iter().map(|t| t.name.as_str()).collect();
            counted.sort_unstable();
            counted.dedup();
            let counted = match counted.len() {
                0 | 1 => String::new(),
                _ => format!(" ({} fit alike)", counted.join(", ")),
            };
            format!("{name}: the queue is {name_of}{counted}.{seen}")
        }
        Named::CannotTell { cannot_tell } => {
            format!("{name}: cannot tell the queue: {cannot_tell}.{seen}")
        }
    }
}

pub(super) fn compared(all: &[Compared]) -> Table {
    let mut table = Table::new(
        "phase",
        [
            Column::words("phase"),
            Column::of("link p50", "ms"),
            Column::of("twin p50", "ms"),
            Column::of("link p95", "ms"),
            Column::of("twin p95", "ms"),
            Column::of("p95 error", "%"),
            Column::of("rate error", "%"),
            Column::of("distance", "ms"),
            Column::of("floor", "ms"),
            Column::words(""),
        ],
    );
    for c in all {
        let held = if c.held_out { ", held out" } else { "" };
        let trust = match c.trust {
            Trust::Agrees => "agrees",
            Trust::Doubtful => "differs",
            Trust::Rejected => "another link",
        };
        let label = format!("{}: {}", c.phase, c.direction);
        let mut row = |label: String, twin: Replayed, trust: &str| {
            let signed = |share: f64| format!("{:+.1}", 100.0 * share);
            let cells: [Cell; 9] = [
                number(c.link_ms[0]).into(),
                number(twin.twin_ms[0]).into(),
                number(c.link_ms[1]).into(),
                number(twin.twin_ms[1]).into(),
                signed(twin.p95_error).into(),
                twin.rate_error.map(signed).into(),
                number(twin.w1_ms).into(),
                number(twin.floor_ms).into(),
                trust.into(),
            ];
            table.row(label, cells);
        };
        let decides = if c.replayed.is_none() { trust } else { "" };
        row(format!("{label}{held}"), c.clone().into(), decides);
        if let Some(replayed) = &c.replayed {
            row(format!("{label}, its capacity"), replayed.clone(), trust);
        }
    }
    table
}
