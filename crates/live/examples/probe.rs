//! A reflector or a prober by itself, for `bench/probe.py`:
//! `probe serve ADDR:PORT` and `probe ADDR:PORT INTERVAL_US COUNT [INTERFACE]`: with an interface, its counters are read at
//! each probe.

use base::Duration;
use base::record::{Row, Status};
use live::clock::Clock;
use live::probe::{ProbePlan, Prober};
use live::serve::udp;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["serve", addr] => serve(addr.parse()?),
        [addr, interval_us, count, ref interface @ ..] if interface.len() < 2 => probe(
            addr.parse()?,
            interval_us.parse()?,
            count.parse()?,
            interface.first().copied(),
        ),
        _ => Err(
            "usage: probe serve ADDR:PORT | probe ADDR:PORT INTERVAL_US COUNT [INTERFACE]".into(),
        ),
    }
}

fn serve(addr: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let clock = Clock::start();
    let socket = UdpSocket::bind(addr)?;
    let reflector = udp::reflector(Default::default(), None, clock)?;
    udp::run(
        &socket,
        reflector,
        clock,
        &[],
        None,
        &AtomicBool::new(false),
    )?;
    Ok(())
}

fn probe(
    server: SocketAddr,
    interval_us: u64,
    count: u64,
    interface: Option<&str>,
) -> Result<(), Box<dyn std::error::Error>> {
    let interval = Duration::from_micros(interval_us);
    let plan = ProbePlan {
        interval,
        shortest_interval: interval,
        interface: interface.map(Into::into),
        ..ProbePlan::new(server)
    };
    let clock = Clock::start();
    let (rows, inbox) = mpsc::channel();
    let prober = Prober::start(plan, clock, rows)?;
    prober.count(true);
    let mut rtts = Vec::new();
    let mut late = Vec::new();
    let mut host = Vec::new();
    let mut gaps = Vec::new();
    let mut previous: Option<(i64, i64)> = None;
    let mut take = || {
        for row in inbox.try_iter() {
            if let Row::Delay(d) = row {
                rtts.extend(d.rtt_ns.filter(|_| d.status == Status::Ok));
                late.extend(d.late_send_ns);
                host.extend(d.host_ns);
                if let Some((seq, sent_ns)) = previous
                    && d.seq == seq + 1
                    && d.status != Status::NotSent
                {
                    gaps.push((d.sent_ns - sent_ns - interval.as_nanos() as i64).abs());
                }
                previous = (d.status != Status::NotSent).then_some((d.seq, d.sent_ns));
            }
        }
    };
    let until = clock.now() + interval * count;
    while clock.now() < until {
        let rest = until.saturating_since(clock.now());
        std::thread::sleep(rest.min(Duration::from_millis(250)).to_std());
        take();
    }
    let summary = prober.stop();
    take();
    let of = |values: &mut Vec<i64>, q: f64| {
        values.sort_unstable();
        let at = ((values.len() as f64 * q) as usize).min(values.len().saturating_sub(1));
        values.get(at).map_or(f64::NAN, |&ns| ns as f64 / 1e3)
    };
    let s = summary.session;
    println!(
        "sent {} received {} missed_slots {}",
        s.sent, s.received, s.missed_slots
    );
    println!(
        "rtt_us p50 {:.1} p99 {:.1} max {:.1}",
        of(&mut rtts, 0.5),
        of(&mut rtts, 0.99),
        of(&mut rtts, 1.0)
    );
    println!(
        "late_us p50 {:.1} p99 {:.1} max {:.1}",
        of(&mut late, 0.5),
        of(&mut late, 0.99),
        of(&mut late, 1.0)
    );
    println!(
        "host_us p50 {:.1} p99 {:.1}",
        of(&mut host, 0.5),
        of(&mut host, 0.99)
    );
    println!(
        "cpu_ms_per_1000 {:.1} syscalls_per_probe {:.2} realtime {}",
        summary.cpu.as_millis_f64() * 1e3 / s.sent as f64,
        summary.system_calls as f64 / s.sent as f64,
        summary.realtime
    );
    println!("largest_memory_kb {}", largest_memory_kb()?);
    println!("{summary:?}");
    Ok(())
}

/// Peak resident memory of this process.
fn largest_memory_kb() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:"))
        .ok_or("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
