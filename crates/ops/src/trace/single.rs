//! Text of one connection: both directions, and every event with the number of its packet.

use super::answer::{ConnectionReport, Direction, seconds};
use super::expert::{Event, events};
use crate::files::counted;
use base::print::{RATE, SIZE, significant};
use measure::track::{Connection, Traffic};
use report::table::{Column, Table};
use std::fmt::Write;

/// Events shown of a direction.
const SHOWN: usize = 500;

/// Finds a connection by its number, or by both ends as they are listed.
pub(super) fn find<'t>(traffic: &'t Traffic, text: &str) -> Option<&'t Connection> {
    let number = text.trim().parse::<u32>().ok();
    let ends: Vec<&str> = text.split('>').map(str::trim).collect();
    traffic.connections.iter().find(|c| {
        let (a, b) = (c.a.to_string(), c.b.to_string());
        number.map_or(ends == [&*a, &*b] || ends == [&*b, &*a], |n| c.number == n)
    })
}

pub(super) fn text(c: &Connection, begin_ns: i64, width: usize) -> String {
    let report = ConnectionReport::of(c);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "Connection {}: {} > {}, begins at {:.6} s, lasts {} s{}",
        report.number,
        report.a,
        report.b,
        seconds(report.first_ns - begin_ns),
        significant(report.duration_s, 4),
        if report.reset { ", reset" } else { "" }
    );
    for (n, what) in [
        (report.copies, "packets were captured twice and count once"),
        (
            report.doubled,
            "packets were delivered twice by the network and count once",
        ),
        (
            report.backward,
            "packets are stamped before the one ahead of them, and count at its time",
        ),
    ] {
        if n > 0 {
            let _ = writeln!(out, "  {n} {what}");
        }
    }
    for d in report.directions.iter().filter(|d| d.packets > 0) {
        direction(&mut out, d);
    }
    let mut all: Vec<(Event, bool)> = Vec::new();
    for (i, h) in c.halves.iter().enumerate() {
        all.extend(events(h).into_iter().map(|e| (e, i == 0)));
    }
    all.sort_by_key(|(e, _)| (e.t_ns, e.frame));
    if all.is_empty() {
        let _ = writeln!(out, "\nNo packet tells of trouble.");
        return out;
    }
    let heads = [
        "packet".into(),
        Column::of("time", "s"),
        Column::words("from"),
    ];
    let rows = all.iter().take(SHOWN).map(|(e, first)| {
        let from = if *first { &report.a } else { &report.b };
        let cells = vec![
            format!("{:.6}", seconds(e.t_ns - begin_ns)),
            format!("{from}: {}", e.says()),
        ];
        (e.frame.map(u64::from), cells)
    });
    let _ = write!(
        out,
        "\n{}",
        Table::new("", heads).numbered().with(rows).text(width)
    );
    if all.len() > SHOWN {
        let _ = writeln!(out, "… and {} more: --json has all", all.len() - SHOWN);
    }
    out
}

fn direction(out: &mut String, d: &Direction) {
    let _ = writeln!(
        out,
        "\n{} > {}: {} packets, {} with data; {} in all, {} once{}",
        d.from,
        d.to,
        d.packets,
        d.data_packets,
        SIZE.print(d.data_bytes as f64),
        SIZE.print(d.unique_bytes as f64),
        d.goodput_bps
            .map_or(String::new(), |r| format!(", {}", RATE.print(r)))
    );
    let _ = writeln!(
        out,
        "  sent again: {}, {}; lost: {}",
        counted(d.retransmitted_packets, "packet"),
        SIZE.print(d.retransmitted_bytes as f64),
        // A SYN that was lost is no packet with data: no share of them.
        match d.losses.data_packets {
            0 => counted(d.losses.lost, "packet"),
            all => format!("{} of {all} data packets on the wire", d.losses.number()),
        }
    );
    if let (Some(least), Some(median), Some(high), Some(most)) =
        (d.rtt_min_ms, d.rtt_p50_ms, d.rtt_p95_ms, d.rtt_max_ms)
    {
        let _ = writeln!(
            out,
            "  RTT: least {least:.3}, median {median:.3}, 95 % {high:.3}, most {most:.3} ms of {}",
            d.rtt_samples
        );
    }
    let known = |n: Option<i64>| n.map_or("not seen".into(), |n| n.to_string());
    let _ = writeln!(
        out,
        "  MSS {}, window scale {}, SACK {}, timestamps {}; {} in flight at most",
        known(d.mss_bytes),
        known(d.window_scale),
        if d.sack_permitted { "yes" } else { "no" },
        if d.timestamps { "yes" } else { "no" },
        SIZE.print(d.in_flight_max_bytes as f64)
    );
    if d.missing_bytes > 0 {
        let _ = writeln!(
            out,
            "  {} are not in the capture",
            SIZE.print(d.missing_bytes as f64)
        );
    }
}
