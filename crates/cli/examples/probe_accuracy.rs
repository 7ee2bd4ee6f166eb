//! How near every kind of probe comes to the truth of lines that it does not know: docs/book/probe/accuracy.md.
//! `make accuracy` runs it: in virtual time over a grid of lines, then with the kernel's own packets over emulated ones.
//! With `--virtual` it leaves out the second part; a name of a kind does that kind alone.

use analysis::answer::Figure;
use analysis::probe::{Outcome, ProbeSpec};
use base::record::{Direction, Meta, Recording};
use base::units::significant;
use base::{BitsPerSec, Duration};
use link::LinkSpec;
use sim::craft::{Bench, Cross, Hosts};
use std::process::Command;

/// What a figure shall be, and how far off it may be.
struct Truth {
    key: &'static str,
    is: f64,
    by: f64,
}

/// A kind on a line.
struct Case {
    probe: String,
    /// The line's `[up]` table.
    up: String,
    v6: bool,
    /// What others send, as a share of the line's rate.
    others: f64,
    rate: f64,
    /// Links before and behind it, near end first, with `@` for itself: routers stand between.
    chain: &'static str,
    truths: Vec<Truth>,
}

impl Case {
    fn new(probe: impl Into<String>, rate: f64, queue: &str, truths: Vec<Truth>) -> Case {
        Case {
            probe: probe.into(),
            up: format!("rate = \"{rate} bit/s\"\ndelay = \"5 ms\"\nqueue = \"{queue}\""),
            v6: false,
            others: 0.0,
            rate,
            chain: "@",
            truths,
        }
    }

    fn v6(self) -> Case {
        Case { v6: true, ..self }
    }

    fn kind(&self) -> &str {
        self.probe.split(':').next().unwrap_or("")
    }

    fn spec(&self) -> LinkSpec {
        let text = format!(
            "name = \"t\"\ntitle = \"t\"\n[up]\n{}\n[down]\nrate = \"1 Gbit/s\"\ndelay = \"5 ms\"\n",
            self.up
        );
        LinkSpec::parse(&text).expect("a line of ours")
    }

    fn line(&self) -> String {
        let queue = self.up.lines().find_map(|l| l.strip_prefix("queue = "));
        let more: Vec<&str> = self.up.lines().skip(3).collect();
        let mut line = format!(
            "{} Mbit/s, {}",
            significant(self.rate / 1e6, 4),
            queue.unwrap_or("").trim_matches('"')
        );
        for m in more {
            line += &format!(", {}", m.replace(['"', '='], "").replace("  ", " "));
        }
        if self.chain != "@" {
            line = format!("{} with @ = {line}", self.chain.replace(',', " – "));
        }
        if self.v6 {
            line += ", IPv6";
        }
        if self.others > 0.0 {
            line += &format!(", others {} %", (self.others * 100.0).round());
        }
        line
    }
}

fn truth(key: &'static str, is: f64, by: f64) -> Truth {
    Truth { key, is, by }
}

/// Whole IP packets of 1452 bytes of payload.
fn payload(rate: f64, v6: bool) -> f64 {
    rate * 1452.0 / if v6 { 1500.0 } else { 1480.0 }
}

fn sweep(rate: f64, queue: &str, v6: bool) -> Case {
    let is = payload(rate, v6);
    let step = (is / 100.0).max(25e3).min(is / 20.0);
    let case = Case::new("sweep", rate, queue, vec![truth("lossless_bps", is, step)]);
    if v6 { case.v6() } else { case }
}

fn burst(rate: f64, queue: &str, packets: f64, by: f64) -> Case {
    let counts = f64::from(u8::from(queue.contains("packets")));
    let truths = vec![
        truth("queue_packets", packets, by),
        truth("counts_packets", counts, 0.0),
    ];
    Case::new("burst", rate, queue, truths)
}

fn sizes(rate: f64, mtu: u32, v6: bool, edges: [f64; 2]) -> Case {
    let truths = vec![
        truth("path_mtu_bytes", f64::from(mtu), 0.0),
        truth("first_edge_bytes", edges[0], 0.0),
        truth("second_edge_bytes", edges[1], 0.0),
    ];
    let mut case = Case::new("sizes", rate, "fifo:packets=50", truths);
    case.up += &format!("\nmtu = \"{mtu} B\"");
    if v6 { case.v6() } else { case }
}

fn buffer(rate: f64, bytes: f64) -> Case {
    let ms = bytes * 8e3 / rate;
    let truths = vec![
        truth("queue_ms", ms, 0.1 * ms),
        truth("queue_bytes", bytes, 0.1 * bytes),
    ];
    Case::new("buffer", rate, &format!("fifo:bytes={bytes}"), truths)
}

fn bucket(peak: f64, sustained: f64, bytes: f64) -> Case {
    let queue = format!("tbf:rate={sustained} bit/s,burst={bytes},limit=150");
    let truths = vec![
        truth("peak_bps", peak, 0.05 * peak),
        truth("sustained_bps", sustained, 0.05 * sustained),
        truth("bucket_bytes", bytes, 0.1 * bytes),
    ];
    Case::new("buffer", peak, &queue, truths)
}

fn capacity(rate: f64, others: f64) -> Case {
    let free = rate * (1.0 - others);
    let truths = vec![
        truth("capacity_bps", rate, 0.05 * rate),
        truth("available_bps", free, 0.15 * free),
        truth("sizes_bps", rate, 0.05 * rate),
        truth("chirps_bps", free, 0.15 * free),
        truth("between_bps", free, 0.15 * free),
    ];
    Case {
        others,
        ..Case::new("capacity", rate, "fifo:packets=100", truths)
    }
}

fn radio(idle: f64, wake: f64) -> Case {
    let truths = vec![
        truth("idle_timeout_ms", idle * 1e3, 1e3),
        truth("wake_ms", wake * 1e3, 0.05 * wake * 1e3),
    ];
    let mut case = Case::new("radio", 0.3e6, "fifo:packets=50", truths);
    case.up += &format!("\nsleep = \"radio:idle={idle} s,wake={wake} s\"");
    case
}

/// A slow line in a chain of three, TCP filling it: its queue is full to seven tenths at least.
fn path(chain: &'static str, rate: f64, packets: f64, hop: f64) -> Case {
    let full = packets * 1500.0 * 8e3 / rate;
    let truths = vec![
        truth("queue_hop_up", hop, 0.0),
        truth("queue_up_ms", 0.85 * full, 0.2 * full),
        truth("icmp_favoured_up", 0.0, 0.0),
    ];
    Case {
        chain,
        ..Case::new(
            "path:load=up",
            rate,
            &format!("fifo:packets={packets}"),
            truths,
        )
    }
}

const QUEUES: [&str; 5] = [
    "fifo:packets=20",
    "fifo:bytes=200000",
    "codel",
    "fq_codel",
    "pie",
];
const SHARES: [f64; 5] = [0.0, 0.2, 0.4, 0.6, 0.8];

/// The grid in virtual time.
fn grid() -> Vec<Case> {
    let mut all = Vec::new();
    for rate in [0.2e6, 2e6, 20e6, 100e6] {
        all.extend(QUEUES.map(|queue| sweep(rate, queue, false)));
    }
    for rate in [0.5e6, 5e6, 50e6] {
        let by = if rate > 20e6 { 2.0 } else { 0.0 };
        all.extend([
            burst(rate, "fifo:packets=10", 10.0, by),
            burst(rate, "fifo:packets=200", 200.0, by),
            burst(rate, "fifo:bytes=15000", 10.0, by),
            burst(rate, "fifo:bytes=200000", 135.0, by),
        ]);
    }
    all.extend([
        sizes(2e6, 1500, true, [1452.0, 2888.0]),
        sizes(10e6, 1500, false, [1472.0, 2952.0]),
        sizes(10e6, 1492, true, [1444.0, 2872.0]),
        sizes(10e6, 1420, false, [1392.0, 2792.0]),
        sizes(10e6, 1280, true, [1232.0, 2456.0]),
    ]);
    all.extend(
        [
            (0.7e6, 37_625.0),
            (0.7e6, 200_000.0),
            (2e6, 76_500.0),
            (10e6, 312_500.0),
            (10e6, 30_000.0),
            (50e6, 1_000_000.0),
            (65e3, 24_375.0),
        ]
        .map(|(rate, bytes)| buffer(rate, bytes)),
    );
    all.extend([
        bucket(20e6, 10e6, 1e6),
        bucket(10e6, 2e6, 2e6),
        bucket(50e6, 20e6, 5e6),
    ]);
    for rate in [2e6, 20e6, 100e6] {
        all.extend(SHARES.map(|share| capacity(rate, share)));
    }
    all.extend(
        [(2.0, 0.3), (5.0, 0.6), (10.0, 1.6), (50.0, 2.0)].map(|(idle, wake)| radio(idle, wake)),
    );
    all
}

/// The emulated lines, which take their time.
fn emulated() -> Vec<Case> {
    let shdsl = 2.035e6;
    let fifty = "fifo:packets=50";
    let rtt = |bytes: f64| 10.0 + bytes * 8e3 / shdsl + bytes * 8e3 / 1e9;
    let mut all = vec![
        Case::new("rtt", shdsl, fifty, vec![truth("mean_ms", rtt(80.0), 0.05)]),
        sweep(shdsl, fifty, true),
        sweep(20e6, "fifo:bytes=200000", false),
        sweep(20e6, "codel", false),
        burst(shdsl, fifty, 50.0, 0.0),
        burst(5e6, "fifo:bytes=50000", 33.0, 0.0),
        burst(20e6, "fifo:packets=200", 200.0, 2.0),
        sizes(20e6, 1492, false, [1464.0, 2936.0]),
        buffer(0.7e6, 37_625.0),
        buffer(10e6, 312_500.0),
        bucket(20e6, 10e6, 1e6),
    ];
    all.extend(SHARES.map(|share| capacity(20e6, share)));
    all.extend([0.0, 0.5].map(|share| capacity(2e6, share)));
    all.extend([
        path("@,fiber,fiber", 2e6, 50.0, 1.0),
        path("fiber,@,fiber", 2e6, 50.0, 2.0),
        path("fiber,fiber,@", 2e6, 50.0, 3.0),
        path("fiber,@,fiber", 20e6, 50.0, 2.0),
        path("fiber,@,fiber", 2e6, 50.0, 2.0).v6(),
        radio(10.0, 1.6),
    ]);
    all
}

/// Key, figure.
type Said = Vec<(String, Figure)>;

fn in_virtual_time(case: &Case) -> Said {
    let hosts = Hosts {
        v6: case.v6,
        stamp_late: Duration::from_micros(10),
        ..Hosts::default()
    };
    let mut bench = Bench::new(&case.spec(), hosts).expect("a bench");
    if case.others > 0.0 {
        let rate = BitsPerSec::new((case.others * case.rate) as u64);
        bench.share_with(Direction::Up, Cross { rate });
    }
    let spec: ProbeSpec = case.probe.parse().expect("a kind of ours");
    let trains = bench.run(|trains| spec.next(trains));
    let mut recording = Recording {
        meta: Meta {
            verb: "probe".into(),
            plan: serde_json::json!({ "probe": spec }),
            ..Meta::default()
        },
        ..Recording::default()
    };
    for train in trains {
        let (datagrams, event) = train.rows(0);
        recording.datagram.extend(datagrams);
        recording.event.push(event);
    }
    let answer = analysis::probe::analyse(&recording).expect("it is of a probe");
    let Outcome { figures, .. } = answer.outcome;
    figures.into_iter().map(|f| (f.key, f.figure)).collect()
}

/// As a user runs it: the binary beside this example.
fn with_the_kernel(case: &Case) -> Result<Said, String> {
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    let binary = here
        .ancestors()
        .nth(2)
        .map(|dir| dir.join("tailback"))
        .ok_or("this example is not where cargo puts it")?;
    let scratch = std::env::temp_dir().join(format!("tailback-accuracy-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(|e| e.to_string())?;
    let line = scratch.join("line.toml");
    let text = toml::to_string(&case.spec()).map_err(|e| e.to_string())?;
    std::fs::write(&line, text).map_err(|e| e.to_string())?;
    let mut command = Command::new(&binary);
    command
        .args(["probe", &case.probe, "--json", "--budget", "1 GB", "--link"])
        .arg(case.chain.replace('@', &line.to_string_lossy()))
        .arg("--output")
        .arg(scratch.join("probe.rec"));
    if case.v6 {
        command.arg("-6");
    }
    if case.others > 0.0 {
        command.arg("--others");
        command.arg(format!("{} bit/s", (case.others * case.rate) as u64));
    }
    let out = command
        .output()
        .map_err(|e| format!("{}: {e}", binary.display()));
    std::fs::remove_dir_all(&scratch).map_err(|e| e.to_string())?;
    let out = out?;
    let answer: serde_json::Value = serde_json::from_slice(&out.stdout).map_err(|_| {
        let told = String::from_utf8_lossy(&out.stderr);
        told.lines().last().unwrap_or("it said nothing").to_string()
    })?;
    let figures = answer["figures"].as_array().ok_or("no figures")?;
    Ok(figures
        .iter()
        .filter_map(|f| {
            let figure = serde_json::from_value(f["figure"].clone()).ok()?;
            Some((f["key"].as_str()?.to_string(), figure))
        })
        .collect())
}

/// In the unit that its key ends with.
fn shown(key: &str, v: f64) -> String {
    match key {
        k if k.ends_with("_bps") => significant(v / 1e6, 4),
        _ => significant(v, 4),
    }
}

fn unit(key: &str) -> &'static str {
    match key {
        k if k.ends_with("_bps") => "Mbit/s",
        k if k.ends_with("_ms") => "ms",
        k if k.ends_with("_bytes") => "bytes",
        _ => "",
    }
}

fn rows(case: &Case, said: &Said) {
    for t in &case.truths {
        let found = said.iter().find(|(key, _)| key == t.key).map(|s| &s.1);
        let (text, holds, off) = match found {
            Some(Figure::Is { value, low, high }) => (
                format!(
                    "{} ({}–{})",
                    shown(t.key, *value),
                    shown(t.key, *low),
                    shown(t.key, *high)
                ),
                if (*value - t.is).abs() <= t.by + 1e-9 {
                    "yes"
                } else {
                    "**no**"
                },
                match t.is {
                    0.0 => String::new(),
                    is => format!("{} %", significant((value / is - 1.0) * 100.0, 2)),
                },
            ),
            Some(Figure::CannotTell { cannot_tell }) => {
                (format!("cannot tell: {cannot_tell}"), "–", String::new())
            }
            None => ("not said".into(), "**no**", String::new()),
        };
        println!(
            "| {} | {} | {} | {} {} | {text} | {off} | {holds} |",
            case.kind(),
            case.line(),
            t.key.rsplit_once('_').map_or(t.key, |k| k.0),
            shown(t.key, t.is),
            unit(t.key),
        );
    }
}

const HEAD: &str = "| kind | line | figure | truth | said (interval) | off | within |\n|---|---|---|---|---|---|---|";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let only = args.iter().find(|a| !a.starts_with('-'));
    let asked = |c: &Case| only.is_none_or(|k| k == c.kind());
    print!("{}", include_str!("probe_accuracy.md"));
    println!("\n## In virtual time\n\n{HEAD}");
    for case in grid().iter().filter(|c| asked(c)) {
        rows(case, &in_virtual_time(case));
    }
    if args.iter().any(|a| a == "--virtual") {
        return;
    }
    println!("\n## With the kernel's own packets\n\n{HEAD}");
    for case in emulated().iter().filter(|c| asked(c)) {
        eprintln!("{}: {}", case.probe, case.line());
        match with_the_kernel(case) {
            Ok(said) => rows(case, &said),
            Err(why) => println!(
                "| {} | {} | | | {why} | | **no** |",
                case.kind(),
                case.line()
            ),
        }
    }
}
