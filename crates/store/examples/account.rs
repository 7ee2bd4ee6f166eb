//! Accounts for every probe of a monitor's recording: `cargo run --release -p tailback-store --example account -- DIR`.
//! Slots expected (from the grid that the monitor states when it begins and ends) against rows recorded and rows
//! reported missing. Exits with 1 where they differ. With two numbers behind, the probes of the first target from the
//! one to the other, in the layout of table 15 of Borlaug 2014.

use std::collections::BTreeMap;
use std::process::ExitCode;

#[derive(Default)]
struct Target {
    /// Of runs that ended: slots from the first to the one after the last.
    expected: u64,
    begun: Option<(u64, u64)>,
    rows: u64,
    missed: u64,
    duplicates: u64,
    statuses: BTreeMap<&'static str, u64>,
    seqs: Vec<u64>,
    largest_rtt_ns: i64,
    late_sends_over_1_ms: u64,
    send_error_ns: Vec<u64>,
}

fn main() -> ExitCode {
    let path = std::env::args()
        .nth(1)
        .expect("the directory of a recording");
    let mut targets: BTreeMap<String, Target> = BTreeMap::new();
    let mut events = Vec::new();
    let (recording, notes) = store::read_noting(&path).expect("a recording");
    for note in notes {
        println!("damaged: {note}");
    }
    for e in &recording.event {
        let number = |key: &str| {
            let (_, after) = e.detail.split_once(&format!("\"{key}\":"))?;
            let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u64>().ok()
        };
        let target = || e.subject.to_string();
        match &*e.kind {
            "target" => {
                let begun = number("first_slot_ns").zip(number("interval_ns"));
                targets.entry(target()).or_default().begun = begun;
            }
            "target_end" => {
                let t = targets.entry(target()).or_default();
                if let (Some((first, interval)), Some(next)) =
                    (t.begun.take(), number("next_slot_ns"))
                {
                    t.expected += (next - first) / interval;
                }
            }
            _ => {
                if let Some(n) = number("slots_missed") {
                    targets.entry(target()).or_default().missed += n;
                }
                events.push(format!("{} {} {}", e.kind, e.subject, e.detail));
            }
        }
    }
    for d in &recording.delay {
        let t = targets.entry(d.target.to_string()).or_default();
        *t.statuses.entry(d.status.word()).or_default() += 1;
        if d.status.word() == "duplicate" {
            t.duplicates += 1;
            continue;
        }
        t.rows += 1;
        t.seqs.push(d.seq.unsigned_abs());
        t.largest_rtt_ns = t.largest_rtt_ns.max(d.rtt_ns.unwrap_or(0));
        if let Some(late) = d.late_send_ns {
            t.late_sends_over_1_ms += u64::from(late > 1_000_000);
            t.send_error_ns.push(late.unsigned_abs());
        }
    }
    let mut numbers = std::env::args()
        .skip(2)
        .filter_map(|n| n.parse::<i64>().ok());
    if let (Some(first), Some(last)) = (numbers.next(), numbers.next()) {
        let clock = |ns: i64| {
            let ms = ns / 1_000_000;
            let (s, m, h) = (ms / 1000 % 60, ms / 60_000 % 60, ms / 3_600_000 % 24);
            format!("{h:02}:{m:02}:{s:02}.{:03}", ms % 1000)
        };
        println!("packet number  sent          answered      RTT [s]     fate");
        let mut shown: Vec<_> = recording
            .delay
            .iter()
            .filter(|d| (first..=last).contains(&d.seq))
            .collect();
        shown.sort_by_key(|d| d.seq);
        for d in shown {
            let rtt = d
                .rtt_ns
                .map_or("-".into(), |ns| format!("{:.6}", ns as f64 / 1e9));
            let answered = d.rtt_ns.map_or("-".into(), |ns| clock(d.sent_ns + ns));
            println!(
                "{:>13}  {}  {answered:<12}  {rtt:>10}  {}",
                d.seq,
                clock(d.sent_ns),
                d.status
            );
        }
    }
    let mut right = true;
    for (name, t) in &mut targets {
        t.seqs.sort_unstable();
        let dense = t.seqs.iter().enumerate().all(|(i, s)| i as u64 == *s);
        let exact = dense && t.expected == t.rows + t.missed;
        right &= exact;
        t.send_error_ns.sort_unstable();
        let quantile = |p: f64| {
            let sorted = &t.send_error_ns;
            let ns = base::sketch::quantile(sorted.len() as u64, p, |k| sorted[k as usize] as f64);
            ns.map_or(0, |ns| (ns / 1e3).round() as i64)
        };
        println!(
            "{name}: expected {} = recorded {} + reported missing {}: {}; every number once: {dense}; duplicates {}; {:?}; largest RTT {} ms; sent off time by {} us (median), {} us (p99)",
            t.expected,
            t.rows,
            t.missed,
            if t.expected == t.rows + t.missed {
                "exact"
            } else {
                "WRONG"
            },
            t.duplicates,
            t.statuses,
            t.largest_rtt_ns / 1_000_000,
            quantile(0.5),
            quantile(0.99),
        );
    }
    println!(
        "traffic rows {}, host rows {}, availability rows {} (up {}, reachable {})",
        recording.traffic.len(),
        recording.host.len(),
        recording.availability.len(),
        recording.availability.iter().filter(|a| a.up).count(),
        recording
            .availability
            .iter()
            .filter(|a| a.reachable == Some(true))
            .count(),
    );
    for e in events {
        println!("event: {e}");
    }
    if right {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    }
}
