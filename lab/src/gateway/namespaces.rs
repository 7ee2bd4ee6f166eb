//! Runs over network namespaces: kernel TCP forwarded through an emulated modem, `tailback control` or a rival on the
//! gateway. Waits are those of a user's probes, one each 10 ms, above the RTT before the load.

use super::autorate::Autorate;
use super::family::{Draw, Family, HALVED_S, UPLOAD_S};
use super::{Figures, OURS, above_ms};
use anyhow::Context;
use live::emulate::NetNs;
use std::process::Child;
use testkit::networks::house::{House, Seen, WAN, end};
use testkit::networks::network::sh;

/// Time from the begin of a link until its upload begins, s.
const BEGIN_S: f64 = 6.0;
/// Share of the capacity of a fixed cap.
const CAP: f64 = 0.85;

/// Control of the gateway in one run.
enum Control {
    Off,
    /// TBF of that rate.
    Cap(f64),
    Autorate,
    Ours(&'static str),
}

/// Figures of a link under each control.
///
/// # Errors
/// A host that allows no namespaces, or a program that is not built.
pub fn figures(draw: &Draw) -> anyhow::Result<Vec<Figures>> {
    let mut controls = vec![
        ("off", Control::Off),
        ("TBF at 85 % of the median", Control::Cap(CAP * draw.median)),
        ("TBF at 85 % of the least", Control::Cap(CAP * draw.least)),
        ("cake-autorate's law on TBF", Control::Autorate),
    ];
    controls.extend(OURS.map(|law| (law, Control::Ours(law))));
    controls
        .into_iter()
        .map(|(name, control)| figures_of(draw, name, &control))
        .collect()
}

fn figures_of(draw: &Draw, name: &'static str, control: &Control) -> anyhow::Result<Figures> {
    let program = crate::program()?;
    let house = House::build(&program, &draw.modem).context("no network namespaces here")?;
    let server = house.serve();
    let mut autorate = None;
    let mut ours = None;
    match control {
        Control::Off => {}
        Control::Cap(rate) => sh(house.gateway(), &tbf("add", *rate)),
        Control::Autorate => {
            let law = Autorate::new(0.2 * draw.median, CAP * draw.median, 2.0 * draw.median);
            sh(house.gateway(), &tbf("add", law.rate()));
            autorate = Some(law);
        }
        Control::Ours(law) => ours = Some(house.start(&["--apply", "--law", law])),
    }
    let before = ours.as_ref().map(cpu_s);
    std::thread::sleep(std::time::Duration::from_secs_f64(
        (BEGIN_S - 0.5 - house.age().as_secs_f64()).max(0.0),
    ));
    let began_s = house.age().as_secs_f64() + 0.5;
    let (gateway, mut sent) = (house.gateway(), SentBytes::default());
    let mut each = |at_s: f64, rtt_ms: f64| {
        if let Some(law) = &mut autorate
            && let Some(rate) = law.sample(at_s, rtt_ms, sent.rate(gateway, at_s))
        {
            sh(gateway, &tbf("change", rate));
        }
    };
    let (seen, pings) = house.upload_with(draw.flows, UPLOAD_S, &mut each);
    let cost = ours.as_ref().zip(before).map(|(run, before)| {
        let span_s = house.age().as_secs_f64() - began_s + 0.5;
        ((cpu_s(run) - before) / span_s, memory_mb(run))
    });
    if let Some(run) = ours {
        end(run, nix::sys::signal::Signal::SIGTERM);
    }
    server.stop();
    let idle = pings.iter().filter(|p| p.0 < 0.0).map(|p| p.1);
    let base = idle.fold(f64::INFINITY, f64::min);
    let waits: Vec<(f64, f64)> = (pings.iter())
        .filter(|p| (0.0..f64::from(UPLOAD_S)).contains(&p.0))
        .map(|p| (p.0, (p.1 - base).max(0.0)))
        .collect();
    let halved = draw.family == Family::Halved;
    Ok(Figures {
        control: name,
        seen: Seen::of(seen.used, &waits),
        above_ms: halved.then(|| above_ms(&waits, HALVED_S - began_s)),
        cost,
    })
}

/// Command that adds or changes a token bucket with 30 ms of buffer.
fn tbf(verb: &str, rate: f64) -> String {
    // A millisecond of line time, and at least two packets.
    let burst = (rate / 8e3).max(3100.0);
    let limit = (0.03 * rate / 8.0).max(10_000.0);
    format!(
        "tc qdisc {verb} dev {WAN} root tbf rate {rate:.0}bit burst {burst:.0} limit {limit:.0}"
    )
}

/// Counter of the WAN interface, read at intervals.
#[derive(Default)]
struct SentBytes {
    last: Option<(f64, f64)>,
    rate: f64,
}

impl SentBytes {
    /// Rate of the last fifth of a second, bit/s.
    fn rate(&mut self, gateway: &NetNs, now_s: f64) -> f64 {
        if self.last.is_none_or(|l| now_s - l.0 >= 0.2) {
            let read = || {
                let table = std::fs::read_to_string("/proc/thread-self/net/dev").ok()?;
                let line = table.lines().find(|l| l.trim().starts_with(WAN))?;
                line.split_whitespace().nth(9)?.parse::<f64>().ok()
            };
            let bytes = gateway.run(read).ok().flatten().unwrap_or_default();
            if let Some((at_s, before)) = self.last {
                self.rate = (bytes - before) * 8.0 / (now_s - at_s);
            }
            self.last = Some((now_s, bytes));
        }
        self.rate
    }
}

/// Processor time of a run so far, s.
fn cpu_s(run: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/schedstat", run.id()));
    let threads = std::fs::read_dir(format!("/proc/{}/task", run.id()));
    let of = |text: &str| {
        let ns = text
            .split_whitespace()
            .next()
            .and_then(|n| n.parse::<f64>().ok());
        ns.unwrap_or(0.0) * 1e-9
    };
    match threads {
        Ok(threads) => threads
            .flatten()
            .filter_map(|t| std::fs::read_to_string(t.path().join("schedstat")).ok())
            .map(|text| of(&text))
            .sum(),
        Err(_) => stat.map_or(0.0, |s| of(&s)),
    }
}

/// Resident memory of a run, MB.
fn memory_mb(run: &Child) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", run.id()));
    let line = status.unwrap_or_default();
    let rss = line.lines().find(|l| l.starts_with("VmRSS"));
    let kb = rss.and_then(|l| l.split_whitespace().nth(1)?.parse::<f64>().ok());
    kb.unwrap_or(f64::NAN) / 1e3
}
