//! The tables that `tailback trace` shows in a terminal.

use super::queues;
use super::report::{Losses, seconds};
use base::units::significant;
use base::{BitsPerSec, Bytes};
use measure::track::{Cause, Connection, Events, Half, Traffic};
use std::fmt::Write;

/// A connection and one of its halves.
type Row<'a> = (&'a Connection, usize);

fn half<'a>((c, direction): &Row<'a>) -> &'a Half {
    &c.halves[*direction]
}

fn name((c, direction): &Row<'_>) -> String {
    match direction {
        0 => format!("{} > {}", c.a, c.b),
        _ => format!("{} > {}", c.b, c.a),
    }
}

pub(super) fn text(traffic: &Traffic, notes: Vec<String>, top: usize) -> String {
    let mut out = String::new();
    let t = &traffic.totals;
    let share = |bytes: u64| 100.0 * bytes as f64 / t.bytes.max(1) as f64;
    let lasts = t.first_ns.zip(t.last_ns).map_or(0, |(a, b)| b - a);
    let _ = writeln!(
        out,
        "{} packets, {} in {} s: TCP {:.1} %, UDP {:.1} % of the bytes",
        t.packets,
        bytes(t.bytes),
        significant(seconds(lasts), 4),
        share(t.tcp_bytes),
        share(t.udp_bytes),
    );
    for note in notes {
        let _ = writeln!(out, "! {note}");
    }
    for (n, what) in [
        (
            t.evicted,
            "connections were closed early because too many were open at once",
        ),
        (
            t.not_listed,
            "small connections are not listed because there were too many",
        ),
    ] {
        if n > 0 {
            let _ = writeln!(out, "! {n} {what}");
        }
    }
    let mut rows: Vec<Row> = traffic
        .connections
        .iter()
        .flat_map(|c| [(c, 0), (c, 1)])
        .filter(|r| half(r).counts.data_packets > 0)
        .collect();
    let _ = writeln!(
        out,
        "{} TCP connections, {} UDP conversations; {} directions carried TCP data\n",
        traffic.connections.len(),
        traffic.conversations.len(),
        rows.len()
    );
    let carried = rows.len();
    let order = |r: &Row| {
        (
            std::cmp::Reverse(half(r).counts.unique_bytes),
            r.0.first_ns,
            r.0.number,
            r.1,
        )
    };
    if top < rows.len() {
        rows.select_nth_unstable_by_key(top, order);
        rows.truncate(top);
    }
    rows.sort_by_key(order);
    directions(&mut out, traffic, &rows);
    if carried > top {
        let _ = writeln!(
            out,
            "… and {} more: --top {carried} shows all",
            carried - top
        );
    }
    causes(&mut out, traffic);
    losses(&mut out, traffic);
    limits(&mut out, &rows);
    for f in queues::findings(traffic) {
        let _ = writeln!(out, "\n{}: {}", severity(f.severity), f.says);
        for e in &f.evidence {
            let _ = writeln!(out, "  {e}");
        }
    }
    out
}

fn severity(s: analysis::answer::Severity) -> &'static str {
    use analysis::answer::Severity;
    match s {
        Severity::Bad => "Bad",
        Severity::Warning => "Warning",
        Severity::Note => "Note",
        Severity::Good => "Good",
    }
}

fn directions(out: &mut String, traffic: &Traffic, rows: &[Row]) {
    let begin = traffic.connections.first().map_or(0, |c| c.first_ns);
    let width = rows.iter().map(|r| name(r).len()).max().unwrap_or(0);
    if !rows.is_empty() {
        let _ = writeln!(
            out,
            "{:width$} {:>9} {:>8} {:>9} {:>11} {:>7} {:>6} {:>23} {:>6}",
            "from > to",
            "begin s",
            "lasts s",
            "payload",
            "goodput",
            "again",
            "%",
            "RTT min/median/95 % ms",
            "breaks"
        );
    }
    for r in rows {
        let (c, h) = (r.0, half(r));
        let again = 100.0 * h.counts.retransmitted_packets as f64 / h.counts.data_packets as f64;
        let ms = |ns: u64| ns as f64 / 1e6;
        let rtt = match (h.rtt_at(0.5), h.rtt_at(0.95)) {
            (Some(median), Some(high)) => format!(
                "{:.1}/{:.1}/{:.1}",
                h.rtt.min_ns as f64 / 1e6,
                ms(median),
                ms(high)
            ),
            _ => "not seen".to_string(),
        };
        let lasts = seconds(c.last_ns - c.first_ns);
        let _ = writeln!(
            out,
            "{:width$} {:>9.3} {:>8} {:>9} {:>11} {:>7} {:>6.2} {:>23} {:>6}",
            name(r),
            seconds(c.first_ns - begin),
            significant(lasts, 4),
            bytes(h.counts.unique_bytes),
            if lasts > 0.0 {
                rate(8.0 * h.counts.unique_bytes as f64 / lasts)
            } else {
                "-".into()
            },
            h.counts.retransmitted_packets,
            again,
            rtt,
            h.events().breaks.len(),
        );
    }
}

/// Everything that went wrong, of all connections together.
fn causes(out: &mut String, traffic: &Traffic) {
    let sum = |f: &dyn Fn(&Events) -> u64| {
        let halves = traffic.connections.iter().flat_map(|c| &c.halves);
        halves.map(|h| f(h.events())).sum::<u64>()
    };
    let again = sum(&|e| e.by_cause.iter().sum());
    if again > 0 {
        let parts: Vec<String> = Cause::ALL
            .iter()
            .filter_map(|cause| {
                let n = sum(&|e| e.by_cause[*cause as usize]);
                (n > 0).then(|| format!("{n} {}", words(*cause)))
            })
            .collect();
        let _ = writeln!(out, "\nSent again: {again} packets: {}", parts.join(", "));
        let needless = sum(&|e| e.needless);
        if needless > 0 {
            let _ = writeln!(out, "  {needless} of them had arrived before: needless");
        }
    }
    let (repairs, reordered, filled) = (
        sum(&|e| e.upstream_repairs),
        sum(&|e| e.reordered),
        sum(&|e| e.out_of_order),
    );
    if filled > 0 {
        let _ = writeln!(
            out,
            "Out of order: {filled} packets: {repairs} repairs of losses ahead of the capture, {reordered} overtaken, {} cannot be told",
            filled - repairs - reordered
        );
    }
    let copies: u64 = traffic.connections.iter().map(|c| c.duplicates).sum();
    if copies > 0 {
        let _ = writeln!(out, "{copies} packets were captured twice and counted once");
    }
    let unseen = sum(&|e| e.acks_of_unseen);
    if unseen > 0 {
        let _ = writeln!(
            out,
            "{unseen} ACKs are for data that the capture does not hold: it lost packets, the network may not have"
        );
    }
    for r in traffic.connections.iter().flat_map(|c| [(c, 0), (c, 1)]) {
        for b in &half(&r).events().breaks {
            let waits: Vec<String> = b
                .sent_ns
                .windows(2)
                .map(|w| significant(seconds(w[1] - w[0]), 3))
                .collect();
            let end = match b.resumed_ns {
                Some(t) => format!(
                    "went on after {} s",
                    significant(seconds(t - b.sent_ns[0]), 3)
                ),
                None => "never went on".to_string(),
            };
            let _ = writeln!(
                out,
                "Flow break, {}: waits of {} s, {end}",
                name(&r),
                waits.join(", ")
            );
        }
    }
}

/// What the losses are put down to: the thesis's table 6.6.1.
fn losses(out: &mut String, traffic: &Traffic) {
    let mut all = Losses::default();
    for h in traffic.connections.iter().flat_map(|c| &c.halves) {
        all.add(&Losses::of(h));
    }
    if all.lost == 0 {
        return;
    }
    let of_lost = |n: u64| 100.0 * n as f64 / all.lost as f64;
    let _ = writeln!(
        out,
        "\nLost: {} of {} data packets ({:.2} %). Put down to",
        all.lost,
        all.data_packets,
        100.0 * all.lost as f64 / all.data_packets.max(1) as f64
    );
    for (what, n) in [
        ("flow breaks", all.in_breaks),
        ("bursts of segmentation offload", all.in_bursts_of_offload),
        ("bursts that one ACK released", all.in_bursts_after_acks),
        (
            "bursts of the application",
            all.in_bursts_of_the_application,
        ),
        (
            "bursts of a kind that cannot be told",
            all.in_bursts_of_unknown_kind,
        ),
        ("neither", all.neither),
    ] {
        if n > 0 {
            let _ = writeln!(out, "  {:5.1} %  {what}", of_lost(n));
        }
    }
    if all.time_in_breaks_s > 0.0 {
        let _ = writeln!(
            out,
            "  {} s were spent in flow breaks",
            significant(all.time_in_breaks_s, 3)
        );
    }
}

/// What the largest directions waited for, and how their packets came.
fn limits(out: &mut String, rows: &[Row]) {
    let mut first = true;
    for r in rows.iter().take(5) {
        let h = half(r);
        let Some(d) = h.detail() else { continue };
        let l = d.limited();
        let all = (l.sender_ns + l.receiver_ns + l.network_ns).max(1) as f64;
        let percent = |ns: i64| 100.0 * ns as f64 / all;
        if std::mem::take(&mut first) {
            let _ = writeln!(out, "\nWhat the largest waited for");
        }
        let _ = writeln!(
            out,
            "  {}: its application {:.0} %, the receiver's window {:.0} %, the network {:.0} % of the time",
            name(r),
            percent(l.sender_ns),
            percent(l.receiver_ns),
            percent(l.network_ns)
        );
        let bursts: u64 = d.bursts.count.iter().sum();
        if bursts > 0 {
            let _ = writeln!(
                out,
                "    {bursts} bursts of more than two segments (up to {}): {} of offload, {} released by one ACK, {} of the application, {} cannot be told",
                bytes(d.bursts.largest),
                d.bursts.count[0],
                d.bursts.count[1],
                d.bursts.count[2],
                d.bursts.count[3]
            );
        }
        if d.bunches.acks > 0 {
            let _ = writeln!(
                out,
                "    {} ACKs came in {} bunches, closer together than the data that they acknowledge was sent",
                d.bunches.acks, d.bunches.rows
            );
        }
    }
}

fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::Timeout => "after a time-out",
        Cause::Fast => "after three duplicate ACKs",
        Cause::Sack => "after SACK",
        Cause::Recovery => "in the recovery that followed",
        Cause::TailProbe => "as tail loss probes",
        Cause::Unknown => "for no reason that shows",
    }
}

fn bytes(n: u64) -> String {
    format!("{:.3}", Bytes::new(n))
}

fn rate(bps: f64) -> String {
    format!("{:.3}", BitsPerSec::new(bps.round() as u64))
}
