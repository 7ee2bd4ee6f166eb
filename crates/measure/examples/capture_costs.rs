//! What reading a capture costs before anything is made of it, in CPU seconds: `capture_costs FILE [ROUNDS]`.
//!
//! Each line does what the one above does and one thing more: the kernel's copy, a look at each record, its headers, and
//! one lookup by both ends. The last is all that `tailback trace` does without printing.

use measure::capture::{Reader, frame};
use measure::track::{Settings, Tracker};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;

type Step = (&'static str, fn(&str) -> u64);

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("capture_costs FILE [ROUNDS]");
    let rounds = args
        .next()
        .map_or(3, |n| n.parse().expect("a number of rounds"));
    let steps: [Step; 5] = [
        ("read", read),
        ("records", records),
        ("headers", headers),
        ("lookup", lookup),
        ("track", track),
    ];
    let mut least = [f64::INFINITY; 5];
    for _ in 0..rounds {
        for ((_, step), least) in steps.iter().zip(&mut least) {
            let before = cpu_s();
            std::hint::black_box(step(&path));
            *least = least.min(cpu_s() - before);
        }
    }
    for ((name, _), s) in steps.iter().zip(least) {
        println!("{name:8} {s:.2} s");
    }
}

/// User and system time of this process so far: fields 14 and 15 of its line in /proc, in hundredths (proc_pid_stat(5)).
fn cpu_s() -> f64 {
    let line = std::fs::read_to_string("/proc/self/stat").expect("this is Linux");
    let after_name = line.rsplit(')').next().expect("the name is in brackets");
    let ticks = |i: usize| -> f64 {
        after_name
            .split_whitespace()
            .nth(i)
            .expect("a field")
            .parse()
            .expect("a number")
    };
    (ticks(11) + ticks(12)) / 100.0
}

fn open(path: &str) -> File {
    File::open(path).expect("the file can be opened")
}

fn read(path: &str) -> u64 {
    let (mut file, mut buffer, mut all) = (open(path), vec![0; 256 << 10], 0);
    loop {
        match file.read(&mut buffer).expect("the file can be read") {
            0 => return all,
            n => all += n as u64,
        }
    }
}

fn each(path: &str, mut take: impl FnMut(&measure::capture::Record<'_>)) {
    let mut reader = Reader::new(open(path)).expect("it is a capture");
    reader.each(|r| take(r)).expect("the file can be read");
}

fn records(path: &str) -> u64 {
    let mut sum = 0u64;
    each(path, |r| {
        sum ^= u64::from(r.original_len) ^ u64::from(r.data.first().copied().unwrap_or(0))
    });
    sum
}

fn headers(path: &str) -> u64 {
    let mut sum = 0u64;
    each(path, |r| {
        if let Some(f) = frame::parse(r) {
            sum ^= u64::from(f.ip_len) ^ tcp_sum(&f);
        }
    });
    sum
}

fn tcp_sum(f: &frame::Frame<'_>) -> u64 {
    match &f.transport {
        frame::Transport::Tcp(t) => u64::from(t.seq) ^ u64::from(t.ack) ^ u64::from(t.payload),
        _ => 0,
    }
}

fn lookup(path: &str) -> u64 {
    let mut seen: HashMap<(frame::Address, frame::Address, u16, u16), u64> = HashMap::new();
    each(path, |r| {
        if let Some(f) = frame::parse(r)
            && let frame::Transport::Tcp(t) = &f.transport
        {
            *seen
                .entry((f.src, f.dst, t.src_port, t.dst_port))
                .or_default() ^= tcp_sum(&f);
        }
    });
    seen.len() as u64
}

fn track(path: &str) -> u64 {
    let mut tracker = Tracker::new(Settings::default());
    each(path, |r| tracker.record(r));
    tracker.finish().connections.len() as u64
}
