//! Two ends for a terminal of 80 columns.

use super::answer::{EndsAnswer, FragmentsAnswer, WayAnswer};
use base::print::significant;
use report::table::Table;
use stats::Figure;
use std::fmt::Write;

pub fn text(a: &EndsAnswer, top: usize, width: usize) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} packets at the near end, {} at the far end\n{} flows at both, {} at the near end only, {} at the far end only",
        a.near_packets,
        a.far_packets,
        a.flows.len(),
        a.near_only_flows,
        a.far_only_flows
    );
    for n in &a.notes {
        let _ = writeln!(out, "! {n}");
    }
    for (n, end) in [
        (a.near_captured_twice, "near"),
        (a.far_captured_twice, "far"),
    ] {
        if n > 0 {
            let _ = writeln!(
                out,
                "! {n} packets came twice at the {end} end and count once"
            );
        }
    }
    if a.outside_packets > 0 {
        let _ = writeln!(
            out,
            "! {} packets are from before the other capture began or after it ended",
            a.outside_packets
        );
    }
    if a.flows.is_empty() {
        let _ = writeln!(
            out,
            "\nNothing was seen at both ends: are these captures of the same traffic at one time?"
        );
        return out;
    }
    clock(a, &mut out);
    let _ = write!(out, "\n{}", table(a).text(width));
    if a.up.repeated_after_arrival + a.down.repeated_after_arrival > 0 {
        let _ = writeln!(
            out,
            "(sent again after arrival: lost beyond the other end, its ACK lost, or needless)"
        );
    }
    for (name, way) in [("near to far", &a.up), ("far to near", &a.down)] {
        if let Some(f) = &way.fragments {
            fragments(name, f, &mut out);
        }
    }
    flows(a, top, &mut out);
    out
}

fn ms(v: f64) -> String {
    // Below a hundredth no two clocks agree.
    let text = if v.abs() < 10.0 {
        format!("{v:.3}")
    } else {
        significant(v, 5)
    };
    format!("{text} ms")
}

fn clock(a: &EndsAnswer, out: &mut String) {
    let c = &a.clock;
    match (&c.offset_ms, c.base_round_trip_ms) {
        (Figure::Is { value, low, high }, Some(base)) => {
            let _ = writeln!(
                out,
                "\nClocks: the far one is {} ahead ({} to {}: how the base\n  round trip of {} divides cannot be told; waits do not need it)",
                ms(*value),
                ms(*low),
                ms(*high),
                ms(base)
            );
        }
        (Figure::CannotTell { cannot_tell }, _) => {
            let _ = writeln!(out, "\nClocks: the offset cannot be told: {cannot_tell}");
        }
        _ => {}
    }
    if let Figure::Is { value, low, high } = &c.drift_ppm {
        let _ = writeln!(
            out,
            "  it gains {value:.2} ppm ({low:.2} to {high:.2}); waits are known to {}",
            ms(c.uncertainty_ms.unwrap_or(0.0))
        );
    }
    if let Some(bend) = c.bend_ms.filter(|b| *b > 1.0) {
        let _ = writeln!(
            out,
            "  A queue hardly ever emptied. If both directions did wait all the time, another\n  drift is possible, and waits are off by up to {}",
            ms(bend)
        );
    }
    if c.uneven {
        let _ = writeln!(
            out,
            "! the clocks did not run evenly: one was set while the captures ran. Waits are\n  bent by as much as is stated; losses and order are not"
        );
    }
}

/// Name of a count of packets, and its access.
type Count = (&'static str, fn(&WayAnswer) -> u64);

/// Returns the figures of both directions; rows without any figure are left out.
fn table(a: &EndsAnswer) -> Table {
    let mut table = Table::new("", ["", "near to far", "far to near"]);
    let mut row = |name: &str, cell: &dyn Fn(&WayAnswer) -> String| {
        let cells = [cell(&a.up), cell(&a.down)];
        if cells.iter().any(|c| c != "0" && !c.is_empty()) {
            table.row(name, cells);
        }
    };
    let counts: [Count; 3] = [
        ("packets sent", |w| w.sent),
        ("arrived", |w| w.arrived),
        ("lost between the captures", |w| w.lost),
    ];
    for (name, of) in counts {
        row(name, &|w| of(w).to_string());
    }
    row("  share", &|w| match &w.lost_share {
        Some(Figure::Is { value, low, high }) if w.lost > 0 => format!(
            "{} % ({}–{})",
            significant(100.0 * value, 2),
            significant(100.0 * low, 2),
            significant(100.0 * high, 2)
        ),
        _ => String::new(),
    });
    row("not captured downstream", &|w| w.not_captured.to_string());
    row("seen downstream only", &|w| w.downstream_only.to_string());
    row("duplicated", &|w| w.duplicated.to_string());
    row("reordered", &|w| match w.reordered {
        0 => "0".into(),
        n => format!("{n} (by up to {})", w.reordering_extent),
    });
    let counts: [Count; 3] = [
        ("TCP sent again after a loss here", |w| {
            w.repeated_after_loss
        }),
        ("TCP sent again after arrival", |w| w.repeated_after_arrival),
        ("told apart by order and delay", |w| w.ambiguous),
    ];
    for (name, of) in counts {
        row(name, &|w| of(w).to_string());
    }
    let wait = |f: &Option<Figure>| f.as_ref().and_then(Figure::value).map_or(String::new(), ms);
    row("wait beyond the quickest, median", &|w| {
        wait(&w.wait_p50_ms)
    });
    row("  95 %", &|w| wait(&w.wait_p95_ms));
    row("  99 %", &|w| wait(&w.wait_p99_ms));
    row("  largest", &|w| w.wait_max_ms.map_or(String::new(), ms));
    table
}

fn fragments(name: &str, f: &FragmentsAnswer, out: &mut String) {
    let _ = writeln!(
        out,
        "\nFragmented datagrams, {name}: {} sent, {} whole ({} %)",
        f.datagrams,
        f.whole,
        significant(100.0 * f.whole as f64 / f.datagrams as f64, 3)
    );
    for (i, which) in ["first", "second", "later"].iter().enumerate() {
        if f.sent[i] > 0 {
            let lost = f.sent[i] - f.arrived[i];
            let _ = writeln!(
                out,
                "  {which:<7} fragments: {} sent, {} arrived, {} % lost",
                f.sent[i],
                f.arrived[i],
                significant(100.0 * lost as f64 / f.sent[i] as f64, 3)
            );
        }
    }
    let _ = writeln!(
        out,
        "  lost the first only: {}, the second only: {}, both: {}",
        f.lost_first_only, f.lost_second_only, f.lost_both
    );
}

fn flows(a: &EndsAnswer, top: usize, out: &mut String) {
    let mut rows: Vec<_> = a.flows.iter().collect();
    rows.sort_by_key(|f| std::cmp::Reverse(f.up.sent + f.down.sent));
    let _ = writeln!(out, "\nFlows, the largest first");
    for f in rows.iter().take(top) {
        let protocol = match f.protocol {
            6 => "TCP".to_string(),
            17 => "UDP".to_string(),
            1 | 58 => "ICMP".to_string(),
            n => format!("protocol {n}"),
        };
        let pieces = if f.fragments { " in fragments" } else { "" };
        let _ = writeln!(out, "{protocol}{pieces} {} > {}", f.from, f.to);
        if let (Some(from), Some(to)) = (&f.far_from, &f.far_to) {
            let _ = writeln!(out, "  at the far end {from} > {to}: addresses translated");
        }
        for (name, d) in [("near to far", &f.up), ("far to near", &f.down)] {
            if d.sent == 0 {
                continue;
            }
            let _ = writeln!(
                out,
                "  {name}: {} of {} lost{}",
                d.lost,
                d.sent,
                if d.reordered > 0 {
                    format!(", {} reordered", d.reordered)
                } else {
                    String::new()
                }
            );
            for change in &d.changes {
                let _ = writeln!(out, "    {change}");
            }
        }
    }
    if rows.len() > top {
        let _ = writeln!(
            out,
            "… and {} more: --top {} shows all",
            rows.len() - top,
            rows.len()
        );
    }
}
