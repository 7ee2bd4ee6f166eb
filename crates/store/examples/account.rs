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

#[derive(Default)]
struct Account {
    targets: BTreeMap<String, Target>,
    /// Events that are neither a target's begin nor its end, as they are printed.
    events: Vec<String>,
}

impl Account {
    fn add_event(&mut self, e: &base::record::Event) {
        let number = |key: &str| {
            let (_, after) = e.detail.split_once(&format!("\"{key}\":"))?;
            let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u64>().ok()
        };
        let of = || e.subject.to_string();
        match &*e.kind {
            "target" => {
                self.targets.entry(of()).or_default().begun =
                    number("first_slot_ns").zip(number("interval_ns"))
            }
            "target_end" => {
                let t = self.targets.entry(of()).or_default();
                if let (Some((first, interval)), Some(next)) =
                    (t.begun.take(), number("next_slot_ns"))
                {
                    t.expected += (next - first) / interval;
                }
            }
            _ => {
                if let Some(n) = number("slots_missed") {
                    self.targets.entry(of()).or_default().missed += n;
                }
                self.events
                    .push(format!("{} {} {}", e.kind, e.subject, e.detail));
            }
        }
    }

    fn add_probe(&mut self, d: &base::record::Delay) {
        let t = self.targets.entry(d.target.to_string()).or_default();
        *t.statuses.entry(d.status.word()).or_default() += 1;
        if d.status.word() == "duplicate" {
            t.duplicates += 1;
            return;
        }
        t.rows += 1;
        t.seqs.push(d.seq.unsigned_abs());
        t.largest_rtt_ns = t.largest_rtt_ns.max(d.rtt_ns.unwrap_or(0));
        if let Some(late) = d.late_send_ns {
            t.late_sends_over_1_ms += u64::from(late > 1_000_000);
            t.send_error_ns.push(late.unsigned_abs());
        }
    }
}

impl Target {
    /// Prints the account; true where every slot is a row or reported missing, and every number is there once.
    fn print(&mut self, name: &str) -> bool {
        self.seqs.sort_unstable();
        let dense = self.seqs.iter().enumerate().all(|(i, s)| i as u64 == *s);
        let exact = self.expected == self.rows + self.missed;
        self.send_error_ns.sort_unstable();
        let quantile = |p: f64| {
            let sorted = &self.send_error_ns;
            let ns = base::sketch::quantile(sorted.len() as u64, p, |k| sorted[k as usize] as f64);
            ns.map_or(0, |ns| (ns / 1e3).round() as i64)
        };
        println!(
            "{name}: expected {} = recorded {} + reported missing {}: {}; every number once: {dense}; duplicates {}; {:?}; largest RTT {} ms; sent off time by {} us (median), {} us (p99)",
            self.expected,
            self.rows,
            self.missed,
            if exact { "exact" } else { "WRONG" },
            self.duplicates,
            self.statuses,
            self.largest_rtt_ns / 1_000_000,
            quantile(0.5),
            quantile(0.99),
        );
        dense && exact
    }
}

/// Prints the probes from one number to another in the layout of table 15 of Borlaug 2014.
fn print_probes(probes: &[base::record::Delay], first: i64, last: i64) {
    let clock = |ns: i64| {
        let ms = ns / 1_000_000;
        let (s, m, h) = (ms / 1000 % 60, ms / 60_000 % 60, ms / 3_600_000 % 24);
        format!("{h:02}:{m:02}:{s:02}.{:03}", ms % 1000)
    };
    println!("packet number  sent          answered      RTT [s]     fate");
    let asked = probes.iter().filter(|d| (first..=last).contains(&d.seq));
    let mut shown: Vec<_> = asked.collect();
    shown.sort_by_key(|d| d.seq);
    for d in shown {
        let rtt = d.rtt_ns;
        let seconds = rtt.map_or("-".into(), |ns| format!("{:.6}", ns as f64 / 1e9));
        let answered = rtt.map_or("-".into(), |ns| clock(d.sent_ns + ns));
        let sent = clock(d.sent_ns);
        println!(
            "{:>13}  {sent}  {answered:<12}  {seconds:>10}  {}",
            d.seq, d.status
        );
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("the directory of a recording");
    let mut numbers = arguments.filter_map(|n| n.parse::<i64>().ok());
    let (recording, notes) = store::read_noting(&path).expect("a recording");
    for note in notes {
        println!("damaged: {note}");
    }
    let mut account = Account::default();
    for e in &recording.event {
        account.add_event(e);
    }
    for d in &recording.delay {
        account.add_probe(d);
    }
    if let (Some(first), Some(last)) = (numbers.next(), numbers.next()) {
        print_probes(&recording.delay, first, last);
    }
    let mut right = true;
    for (name, target) in &mut account.targets {
        right &= target.print(name);
    }
    let availability = &recording.availability;
    println!(
        "traffic rows {}, host rows {}, availability rows {} (up {}, reachable {})",
        recording.traffic.len(),
        recording.host.len(),
        availability.len(),
        availability.iter().filter(|a| a.up).count(),
        availability
            .iter()
            .filter(|a| a.reachable == Some(true))
            .count(),
    );
    for e in account.events {
        println!("event: {e}");
    }
    ExitCode::from(u8::from(!right))
}
