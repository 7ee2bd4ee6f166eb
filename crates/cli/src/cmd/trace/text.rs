//! The tables that `tailback trace` shows in a terminal.

use super::report::{ConnectionReport, Direction, Report, Share, seconds};
use base::units::significant;
use base::{BitsPerSec, Bytes};
use measure::track::Cause;
use std::fmt::Write;

impl Report {
    pub(super) fn text(&self, top: usize) -> String {
        let mut out = String::new();
        let share = |s: &Share| 100.0 * s.bytes as f64 / self.bytes.max(1) as f64;
        let _ = writeln!(
            out,
            "{} packets, {} in {} s: TCP {:.1} %, UDP {:.1} % of the bytes",
            self.packets,
            bytes(self.bytes),
            significant(self.duration_s, 4),
            share(&self.tcp),
            share(&self.udp),
        );
        for note in &self.notes {
            let _ = writeln!(out, "! {note}");
        }
        let mut rows: Vec<(&ConnectionReport, &Direction)> = self
            .connections
            .iter()
            .flat_map(|c| c.directions.iter().map(move |d| (c, d)))
            .filter(|(_, d)| d.data_packets > 0)
            .collect();
        let _ = writeln!(
            out,
            "{} TCP connections, {} UDP conversations; {} directions carried TCP data\n",
            self.connections.len(),
            self.udp_conversations.len(),
            rows.len()
        );
        rows.sort_by_key(|(c, d)| (std::cmp::Reverse(d.unique_bytes), c.first_ns));
        let begin = self
            .connections
            .iter()
            .map(|c| c.first_ns)
            .min()
            .unwrap_or(0);
        let shown = &rows[..rows.len().min(top)];
        let width = shown
            .iter()
            .map(|(_, d)| d.from.len() + d.to.len() + 3)
            .max()
            .unwrap_or(0);
        if !shown.is_empty() {
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
                "RTT min/mean/max ms",
                "breaks"
            );
        }
        for (c, d) in shown {
            let again = 100.0 * d.retransmitted_packets as f64 / d.data_packets as f64;
            let rtt = match (d.rtt_min_ms, d.rtt_mean_ms, d.rtt_max_ms) {
                (Some(min), Some(mean), Some(max)) => format!("{min:.1}/{mean:.1}/{max:.1}"),
                _ => "not seen".to_string(),
            };
            let _ = writeln!(
                out,
                "{:width$} {:>9.3} {:>8} {:>9} {:>11} {:>7} {:>6.2} {:>23} {:>6}",
                format!("{} > {}", d.from, d.to),
                seconds(c.first_ns - begin),
                significant(c.duration_s, 4),
                bytes(d.unique_bytes),
                d.goodput_bps.map_or("-".into(), rate),
                d.retransmitted_packets,
                again,
                rtt,
                d.breaks.len(),
            );
        }
        if rows.len() > top {
            let _ = writeln!(
                out,
                "… and {} more: --top {} shows all",
                rows.len() - top,
                rows.len()
            );
        }
        self.causes(&mut out);
        out
    }

    /// Everything that went wrong, of all connections together.
    fn causes(&self, out: &mut String) {
        let directions = || self.connections.iter().flat_map(|c| &c.directions);
        let sum = |f: &dyn Fn(&Direction) -> u64| directions().map(f).sum::<u64>();
        let again = sum(&|d| d.retransmissions.iter().map(|(_, n)| n).sum());
        if again > 0 {
            let parts: Vec<String> = Cause::ALL
                .iter()
                .enumerate()
                .filter_map(|(i, cause)| {
                    let n = sum(&|d| d.retransmissions[i].1);
                    (n > 0).then(|| format!("{n} {}", words(*cause)))
                })
                .collect();
            let _ = writeln!(out, "\nSent again: {again} packets: {}", parts.join(", "));
            let needless = sum(&|d| d.needless_retransmissions);
            if needless > 0 {
                let _ = writeln!(
                    out,
                    "  {needless} of them had been acknowledged before: needless"
                );
            }
        }
        let (repairs, reordered, filled) = (
            sum(&|d| d.upstream_repairs),
            sum(&|d| d.reordered),
            sum(&|d| d.out_of_order),
        );
        if filled > 0 {
            let _ = writeln!(
                out,
                "Out of order: {filled} packets: {repairs} repairs of losses ahead of the capture, {reordered} overtaken, {} cannot be told",
                filled - repairs - reordered
            );
        }
        let copies: u64 = self.connections.iter().map(|c| c.copies).sum();
        if copies > 0 {
            let _ = writeln!(out, "{copies} packets were captured twice and counted once");
        }
        let unseen = sum(&|d| d.acks_of_unseen);
        if unseen > 0 {
            let _ = writeln!(
                out,
                "{unseen} ACKs are for data that the capture does not hold: it lost packets, the network may not have"
            );
        }
        for d in directions() {
            for b in &d.breaks {
                let waits: Vec<String> = b.waits_s.iter().map(|w| significant(*w, 3)).collect();
                let end = match b.resumed_ns {
                    Some(t) => format!(
                        "went on after {} s",
                        significant(seconds(t - b.begin_ns), 3)
                    ),
                    None => "never went on".to_string(),
                };
                let _ = writeln!(
                    out,
                    "Flow break, {} > {}: waits of {} s, {end}",
                    d.from,
                    d.to,
                    waits.join(", ")
                );
            }
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
