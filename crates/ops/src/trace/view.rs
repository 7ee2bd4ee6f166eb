//! Live view of an interface, once a second: the connections that carry most, with retransmissions and waits.

use base::print::{RATE, SIZE, significant};
use measure::capture::frame::{Address, Frame};
use measure::track::{Act, Endpoint};
use report::table::{Cell, Column, Table};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Directions shown.
const SHOWN: usize = 10;
/// Width of the terminal that is assumed for the text of a second, columns.
const WIDTH: usize = 110;
/// Directions that are looked at within one second, and pairs of hosts whose least round trip is remembered.
const MOST: usize = 50_000;

/// Counts of one direction within the last second.
struct Tally {
    from: Endpoint,
    to: Endpoint,
    fresh_bytes: u64,
    again: u64,
    in_flight: u64,
    rtt_count: u32,
    rtt_sum_ns: i64,
    rtt_min_ns: i64,
    /// Number of ACKs that their receiver cannot have delayed.
    prompt_count: u32,
    prompt_sum_ns: i64,
}

pub struct View {
    name: String,
    ends: Option<(Endpoint, Endpoint)>,
    /// Direction of the acts that follow, and the end that acts.
    turn: (u32, usize),
    senders: Option<(u32, usize)>,
    second: BTreeMap<(u32, usize), Tally>,
    /// Least round trip so far between two hosts.
    least: BTreeMap<(Address, Address), i64>,
    packets: u64,
    bytes: u64,
}

impl View {
    pub fn new(name: &str) -> View {
        View {
            name: name.to_owned(),
            ends: None,
            turn: (0, 0),
            senders: None,
            second: BTreeMap::new(),
            least: BTreeMap::new(),
            packets: 0,
            bytes: 0,
        }
    }

    pub fn begin(&mut self, frame: Option<&Frame<'_>>) {
        let end = |address, port| Endpoint { address, port };
        self.senders = None;
        self.ends = super::rows::tcp(frame)
            .zip(frame)
            .map(|(tcp, f)| (end(f.src, tcp.src_port), end(f.dst, tcp.dst_port)));
    }

    pub fn passed(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    pub fn turn(&mut self, connection: u32, direction: usize) {
        self.turn = (connection, direction);
        self.senders.get_or_insert(self.turn);
    }

    pub fn act(&mut self, act: Act) {
        let Some((src, dst)) = self.ends else { return };
        if self.second.len() >= MOST && !self.second.contains_key(&self.turn) {
            return;
        }
        let sent = self.senders == Some(self.turn);
        let (from, to) = if sent { (src, dst) } else { (dst, src) };
        let tally = self.second.entry(self.turn).or_insert(Tally {
            from,
            to,
            fresh_bytes: 0,
            again: 0,
            in_flight: 0,
            rtt_count: 0,
            rtt_sum_ns: 0,
            rtt_min_ns: i64::MAX,
            prompt_count: 0,
            prompt_sum_ns: 0,
        });
        match act {
            Act::Sent {
                bytes,
                fresh,
                in_flight,
                ..
            } => {
                tally.fresh_bytes += fresh;
                tally.again += u64::from(fresh < bytes);
                tally.in_flight = tally.in_flight.max(in_flight);
            }
            Act::RoundTrip { rtt, prompt, .. } => {
                tally.rtt_count += 1;
                tally.rtt_sum_ns = tally.rtt_sum_ns.saturating_add(rtt);
                tally.rtt_min_ns = tally.rtt_min_ns.min(rtt);
                if prompt {
                    tally.prompt_count += 1;
                    tally.prompt_sum_ns = tally.prompt_sum_ns.saturating_add(rtt);
                }
            }
            Act::Acknowledged { .. } => {}
        }
    }

    /// Ends the second and returns its text.
    pub fn end_second(&mut self, since_ns: i64, live: usize, dropped: u64) -> String {
        let text = self.text(since_ns, live, dropped);
        self.second.clear();
        (self.packets, self.bytes) = (0, 0);
        text
    }

    fn text(&mut self, since_ns: i64, live: usize, dropped: u64) -> String {
        for t in self.second.values().filter(|t| t.rtt_count > 0) {
            if self.least.len() >= MOST {
                self.least.clear();
            }
            let hosts = (t.from.address, t.to.address);
            let least = self.least.entry(hosts).or_insert(t.rtt_min_ns);
            *least = t.rtt_min_ns.min(*least);
        }
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{}: {} s, {} packets/s, {}, {live} connections open, {dropped} packets missed",
            self.name,
            since_ns / 1_000_000_000,
            self.packets,
            RATE.print(8.0 * self.bytes as f64)
        );
        let mut rows: Vec<((u32, usize), &Tally)> = self
            .second
            .iter()
            .filter(|(_, t)| t.fresh_bytes + t.again > 0)
            .map(|(k, t)| (*k, t))
            .collect();
        rows.sort_by_key(|((number, direction), t)| {
            (std::cmp::Reverse(t.fresh_bytes), *number, *direction)
        });
        rows.truncate(SHOWN);
        if rows.is_empty() {
            return out;
        }
        let heads = [
            "#".into(),
            Column::words("from > to"),
            "goodput".into(),
            "again".into(),
            "in flight".into(),
            Column::of("RTT", "ms"),
            Column::of("queue", "ms"),
        ];
        let ms = |ns: i64| significant(ns as f64 / 1e6, 3);
        let rows = rows.into_iter().map(|((number, _), t)| {
            let mean = t.rtt_sum_ns / i64::from(t.rtt_count.max(1));
            let least = self.least.get(&(t.from.address, t.to.address));
            let prompt = t.prompt_sum_ns / i64::from(t.prompt_count.max(1));
            let known = least.filter(|_| t.prompt_count > 0);
            let cells: Vec<Cell> = vec![
                format!("{} > {}", t.from, t.to).into(),
                RATE.print(8.0 * t.fresh_bytes as f64).into(),
                t.again.into(),
                SIZE.print(t.in_flight as f64).into(),
                (t.rtt_count > 0).then(|| ms(mean)).into(),
                known.map(|l| ms((prompt - l).max(0))).into(),
            ];
            (u64::from(number), cells)
        });
        out + &Table::new("", heads).numbered().with(rows).text(WIDTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(last: u8, port: u16) -> Endpoint {
        let mut address = [0; 16];
        address[10..].copy_from_slice(&[0xff, 0xff, 192, 0, 2, last]);
        Endpoint { address, port }
    }

    fn packet(view: &mut View, fresh: u64, rtt: i64) {
        view.ends = Some((end(1, 40_000), end(2, 80)));
        view.senders = None;
        view.turn(3, 0);
        view.act(Act::Sent {
            t: 0,
            position: 0,
            bytes: 1000,
            fresh,
            in_flight: 30_000,
        });
        // Its acknowledgement comes from the other end.
        view.ends = Some((end(2, 80), end(1, 40_000)));
        view.senders = None;
        view.turn(3, 1);
        view.turn(3, 0);
        view.act(Act::RoundTrip {
            sent: 0,
            rtt,
            prompt: true,
        });
        view.passed(1040);
    }

    #[test]
    fn a_second_shows_goodput_repetitions_and_the_wait_beyond_the_least_round_trip() {
        let mut view = View::new("eth0");
        packet(&mut view, 1000, 20_000_000);
        view.end_second(1_000_000_000, 1, 0);
        packet(&mut view, 1000, 50_000_000);
        packet(&mut view, 0, 50_000_000);
        let text = view.text(2_000_000_000, 1, 7);
        assert!(text.starts_with("eth0: 2 s, 2 packets/s, "), "{text}");
        assert!(text.contains("7 packets missed"), "{text}");
        let row = text.lines().nth(2).unwrap();
        let row: Vec<&str> = row.split_whitespace().collect();
        let tail = ["1", "30", "kB", "50", "30"];
        assert_eq!(row[..4], ["3", "192.0.2.1:40000", ">", "192.0.2.2:80"]);
        assert_eq!(row[4..6], ["8", "kbit/s"], "{text}");
        assert_eq!(row[6..], tail, "{text}");
    }

    #[test]
    fn a_second_without_packets_is_one_line() {
        let mut view = View::new("eth0");
        assert_eq!(view.text(1_000_000_000, 0, 0).lines().count(), 1);
    }
}
