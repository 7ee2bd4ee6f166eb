//! Twins of links drawn at random, in virtual time, whose truth is known. `SEED` and `DRAWS` choose others.

use base::record::Recording;
use base::rng::{Rng, Streams, uniform};
use link::{DirectionSpec, LinkSpec, RateSpec};
use std::sync::atomic::AtomicBool;
use twin::{Means, Named, Trust, Twin, TwinError};

struct Chance(Rng);

impl Chance {
    fn new(name: &str) -> Chance {
        Chance(Streams::new(seed()).stream(name))
    }
    fn unit(&mut self) -> f64 {
        uniform(&mut self.0)
    }
    fn log(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }
}

fn variable(name: &str, default: u64) -> u64 {
    #[allow(clippy::disallowed_methods)]
    let told = std::env::var(name).ok().and_then(|s| s.parse().ok());
    told.unwrap_or(default)
}

fn seed() -> u64 {
    variable("SEED", 20_261_123)
}

fn means(f: impl FnOnce(&Means) -> Result<Twin, TwinError>) -> Result<Twin, TwinError> {
    f(&Means {
        threads: 2,
        seed: 7,
        stop: &AtomicBool::new(false),
        progress: &|_| {},
    })
}

fn record(link: &LinkSpec, seed: u64) -> Recording {
    let plan = sim::bufferbloat::Plan::new(link.clone(), seed);
    sim::bufferbloat::run(&plan).unwrap().recording
}

fn direction(bps: f64, queue: &str, delay_ms: f64) -> DirectionSpec {
    let mut adsl = LinkSpec::named("adsl").unwrap();
    adsl.set("up.rate", &format!("{bps:.0} bit/s")).unwrap();
    adsl.set("up.queue", queue).unwrap();
    adsl.set("up.delay", &format!("{delay_ms:.3} ms")).unwrap();
    DirectionSpec {
        framing: None,
        mtu: base::Bytes::new(1500),
        ..adsl.up
    }
}

/// A link with a fixed rate and a plain queue in each direction.
fn fixed(c: &mut Chance) -> LinkSpec {
    let down = c.log(1e6, 60e6);
    let up = down / c.log(1.0, 10.0);
    let rtt = c.log(5.0, 120.0);
    let mut side = |bps: f64| {
        let bdp = bps * rtt.max(20.0) / 8e3 / 1500.0;
        let packets = (c.log(0.7, 15.0) * bdp).clamp(8.0, bps * 1.5 / 12e3);
        let queue = match c.unit() < 0.5 {
            true => format!("fifo:packets={packets:.0}"),
            false => format!("fifo:bytes={:.0} B", packets * 1500.0),
        };
        direction(bps, &queue, rtt / 2.0)
    };
    LinkSpec {
        name: "draw".into(),
        title: "Random link".into(),
        up: side(up),
        down: side(down),
    }
}

fn bps(d: &DirectionSpec) -> f64 {
    match d.rate {
        RateSpec::Fixed(r) => r.get() as f64,
        _ => d.params().unwrap().rate.mean().get() as f64,
    }
}

fn limit(d: &DirectionSpec) -> f64 {
    let limits = d.queue.limits();
    let packets = limits.packets.map(|n| n as f64 * 1500.0);
    limits.bytes.map(|b| b.get() as f64).or(packets).unwrap()
}

#[test]
fn fixed_links_have_their_rate_their_buffer_and_the_held_out_delay() {
    let count = variable("DRAWS", 6);
    let mut c = Chance::new("fixed");
    let (mut rates, mut buffers, mut p95s) = (vec![], vec![], vec![]);
    let (mut refused, mut rejected) = (0u64, 0u64);
    for n in 0..count {
        let link = fixed(&mut c);
        let rec = record(&link, n);
        let twin = match means(|m| twin::fit(&rec, m)) {
            Ok(twin) => twin,
            Err(e) => {
                println!("{n}: {e}");
                refused += 1;
                continue;
            }
        };
        for (truth, spec, f) in [
            (&link.up, &twin.link.up, &twin.up),
            (&link.down, &twin.link.down, &twin.down),
        ] {
            let f = f.as_ref().unwrap();
            let rate = bps(spec) / bps(truth) - 1.0;
            let buffer = f.buffer_bytes.value().map(|b| b / limit(truth) - 1.0);
            println!(
                "{n}: {:.3} Mbit/s {} | rate {:+.2} % buffer {:?} % | {} | ties {:?}",
                bps(truth) / 1e6,
                truth.queue,
                100.0 * rate,
                buffer.map(|b| (1e4 * b).round() / 100.0),
                spec.queue,
                f.ties
                    .iter()
                    .map(|t| format!("{} {:.1}", t.queue, t.behind))
                    .collect::<Vec<_>>()
            );
            rates.push(rate.abs());
            buffers.extend(buffer.map(f64::abs));
            let class_right = match &f.discipline {
                Named::Is(name) => name == "fifo",
                Named::CannotTell { .. } => true,
            };
            assert!(class_right, "{n}: {:?} of {}", f.discipline, truth.queue);
        }
        for c in &twin.compared {
            println!(
                "   {} {} p95 {:.1} / {:.1} ms ({:+.1} %), rate {:?}, w1 {:.2} floor {:.2} {:?}",
                c.phase,
                c.direction,
                c.link_ms[1],
                c.twin_ms[1],
                100.0 * c.p95_error,
                c.rate_error.map(|e| (1e4 * e).round() / 100.0),
                c.w1_ms,
                c.floor_ms,
                c.trust
            );
            if c.held_out {
                p95s.push(c.p95_error.abs());
            }
        }
        println!("   {:?} after {} runs", twin.trust, twin.runs);
        rejected += u64::from(twin.trust == Trust::Rejected);
    }
    let median = |v: &[f64]| 100.0 * stats::median(v).unwrap_or(f64::NAN);
    let most = |v: &[f64]| 100.0 * v.iter().copied().fold(0.0, f64::max);
    println!(
        "seed {}: {count} links, {refused} refused, {rejected} rejected; median and most: rate {:.2} {:.2} %, buffer {:.2} {:.2} %, held-out p95 {:.2} {:.2} %",
        seed(),
        median(&rates),
        most(&rates),
        median(&buffers),
        most(&buffers),
        median(&p95s),
        most(&p95s)
    );
    assert!(median(&rates) <= 1.0 && median(&buffers) <= 2.0 && median(&p95s) <= 5.0);
}

/// A discipline with parameters around what fits the link.
fn discipline(c: &mut Chance, name: &str, bps: f64, rtt_ms: f64) -> String {
    let bdp = (bps * rtt_ms.max(20.0) / 12e6).max(6.0);
    let target = c.log(4.0, 25.0);
    match name {
        "codel" | "fq_codel" | "cake" => {
            format!(
                "{name}:target={target:.3}ms,interval={:.3}ms",
                target * 15.0
            )
        }
        "pie" | "fq_pie" | "dualpi2" => format!("{name}:target={:.3}ms", target.max(8.0)),
        "red" => {
            let min = (bdp * (0.3 + 0.7 * c.unit())).round().max(5.0);
            format!(
                "red:min={min},max={},max_p=0.1,limit={}",
                3.0 * min,
                9.0 * min
            )
        }
        "pi" => {
            let reference = (bdp * (0.3 + c.unit())).round().max(10.0);
            format!("pi:reference={reference},limit={}", 4.0 * reference)
        }
        "blue" => format!("blue:limit={:.0}", (2.0 * bdp).max(20.0)),
        "sfb" => {
            let bin = (bdp * (0.3 + 0.7 * c.unit())).round().max(10.0);
            format!("sfb:bin_size={bin},limit={}", 10.0 * bin)
        }
        "fifo" => format!("fifo:packets={:.0}", (3.0 * bdp).max(10.0)),
        other => other.to_string(),
    }
}

#[test]
fn a_discipline_is_named_rightly_or_not_at_all() {
    let rounds = variable("DRAWS", 1);
    let mut c = Chance::new("disciplines");
    let (mut named, mut untold, mut refused, mut wrong) = (0, 0, 0, Vec::new());
    let names = [
        "fifo", "codel", "pie", "red", "dualpi2", "fq_codel", "cake", "fq_pie", "pi", "blue", "sfb",
    ];
    for n in 0..rounds * names.len() as u64 {
        let name = names[n as usize % names.len()];
        let (down, rtt) = (c.log(2e6, 40e6), c.log(8.0, 80.0));
        let up = down / c.log(1.0, 5.0);
        let mut side = |bps: f64| {
            let queue = discipline(&mut c, name, bps, rtt);
            direction(bps, &queue, rtt / 2.0)
        };
        let link = LinkSpec {
            name: "draw".into(),
            title: format!("Random link with {name}"),
            up: side(up),
            down: side(down),
        };
        let twin = match means(|m| twin::fit(&record(&link, n), m)) {
            Ok(twin) => twin,
            Err(e) => {
                println!("{n} {name}: {e}");
                refused += 1;
                continue;
            }
        };
        for (truth, f) in [(&link.up, &twin.up), (&link.down, &twin.down)] {
            let f = f.as_ref().unwrap();
            let ties: Vec<String> = f
                .ties
                .iter()
                .map(|t| format!("{} {:.1}", t.queue, t.behind))
                .collect();
            println!(
                "{n} {:.2} Mbit/s {}: {:?} {ties:?}",
                bps(truth) / 1e6,
                truth.queue,
                f.discipline
            );
            match &f.discipline {
                Named::Is(is) if is == name => named += 1,
                Named::Is(is) => wrong.push(format!("{n}: {is} for {}", truth.queue)),
                Named::CannotTell { .. } => untold += 1,
            }
        }
        println!("   {:?} {:?}", twin.trust, twin.because);
    }
    println!(
        "seed {}: {named} named rightly, {untold} cannot tell, {refused} links refused, wrong: {wrong:#?}",
        seed()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A rate in levels of half a second that fades every 20 ms, as on LTE; or in slots of 15 s, as of satellites.
fn moving(c: &mut Chance, mean: f64, satellite: bool) -> RateSpec {
    let (slot_s, hold) = if satellite { (0.1, 150) } else { (0.02, 25) };
    let (mut level, mut fade) = (0.0, 0.0);
    let steps = (0..(90.0 / slot_s) as u64).map(|i| {
        if i % hold == 0 {
            level = 0.6 * (c.unit() - 0.5) + 0.5 * level;
        }
        let swing = if satellite { 0.05 } else { 0.25 };
        fade = 0.8 * fade + swing * (c.unit() - 0.5);
        link::Step {
            at: base::Duration::from_nanos((i as f64 * slot_s * 1e9) as u64),
            rate: base::BitsPerSec::new((mean * f64::exp(level + fade)) as u64),
        }
    });
    RateSpec::Steps {
        steps: steps.collect(),
        repeat: Some(base::Duration::from_secs(90)),
    }
}

/// Relative error of the table's rates in the steady part of its phase, in windows of 100 ms.
fn rate_error(
    rec: &Recording,
    phase: &str,
    truth: &DirectionSpec,
    twin: &DirectionSpec,
) -> Option<f64> {
    if matches!(twin.rate, RateSpec::Fixed(_)) {
        return None;
    }
    let list = analysis::phases::phases(rec, None);
    let phase = list.iter().find(|p| p.name == phase)?;
    let (truth, twin) = (truth.params().unwrap().rate, twin.params().unwrap().rate);
    let since = |t: i64| base::Duration::from_nanos((t - sim::bufferbloat::EPOCH_NS) as u64);
    let (from, warm, to) = (
        since(phase.from_ns),
        since(phase.warm_ns),
        since(phase.to_ns),
    );
    let window = base::Duration::from_millis(100);
    let mut at = warm;
    let (mut sum, mut count) = (0.0, 0.0);
    while at + window < to {
        let own = at.saturating_sub(from);
        let real = truth.mean_between(at, at + window).get() as f64;
        let seen = twin.mean_between(own, own + window).get() as f64;
        sum += (seen / real - 1.0).powi(2);
        count += 1.0;
        at += window;
    }
    Some((sum / f64::max(count, 1.0)).sqrt())
}

#[test]
fn a_rate_that_moves_is_followed() {
    let count = variable("DRAWS", 2);
    let mut c = Chance::new("moving");
    let (mut errors, mut distances, mut refused) = (vec![], vec![], 0);
    let (mut rmses, mut replayed) = (vec![], vec![]);
    for n in 0..2 * count {
        let satellite = n % 2 == 1;
        let (down, rtt) = (c.log(6e6, 40e6), c.log(20.0, 80.0));
        let up = down / c.log(1.0, 4.0);
        let mut side = |mean: f64| {
            let packets = (mean * rtt / 12e6 * c.log(1.5, 6.0)).max(30.0);
            let mut d = direction(mean, &format!("fifo:packets={packets:.0}"), rtt / 2.0);
            d.rate = moving(&mut c, mean, satellite);
            d
        };
        let link = LinkSpec {
            name: "draw".into(),
            title: "Random radio link".into(),
            up: side(up),
            down: side(down),
        };
        let rec = record(&link, n);
        let twin = match means(|m| twin::fit(&rec, m)) {
            Ok(twin) => twin,
            Err(e) => {
                println!("{n}: {e}");
                refused += 1;
                continue;
            }
        };
        let pairs = [
            ("up", &link.up, &twin.link.up),
            ("down", &link.down, &twin.link.down),
        ];
        for (name, truth, spec) in pairs {
            if let Some(rmse) = rate_error(&rec, name, truth, spec) {
                println!("   {name}: rate RMSE at 100 ms {:.2} %", 100.0 * rmse);
                rmses.push(rmse);
            }
        }
        for (truth, f) in [(&link.up, &twin.up), (&link.down, &twin.down)] {
            let f = f.as_ref().unwrap();
            println!(
                "{n} satellite {satellite} {}: rate {:?} seen {:?} buffer {:?} {:?} {:?}",
                truth.queue,
                f.rate_bps.value(),
                f.rate_seen,
                f.buffer_bytes.value().map(|b| b / limit(truth) - 1.0),
                f.discipline,
                f.ties.len()
            );
            if let (Some(_), Named::Is(name)) = (f.rate_seen, &f.discipline) {
                assert_eq!(name, "fifo", "a rate that moves names no law");
            }
        }
        for c in &twin.compared {
            println!(
                "   {} {} p95 {:.1} / {:.1} ms ({:+.1} %) range {:?}, w1/p95 {:.3} floor {:.2} {:?}",
                c.phase,
                c.direction,
                c.link_ms[1],
                c.twin_ms[1],
                100.0 * c.p95_error,
                c.twin_p95_range_ms,
                c.w1_ms / c.link_ms[1],
                c.floor_ms,
                c.trust
            );
            if let Some(r) = &c.replayed {
                println!("      with its capacity {:+.1} %", 100.0 * r.p95_error);
                replayed.push(r.p95_error.abs());
            }
            if c.held_out {
                errors.push(c.p95_error.abs());
                distances.push(c.w1_ms / c.link_ms[1]);
            }
        }
    }
    println!(
        "seed {}: {refused} refused; rate RMSE at 100 ms {:?} %, held-out p95 {:?} %, W1/p95 {:?}",
        seed(),
        stats::median(&rmses).map(|e| 100.0 * e),
        stats::median(&errors).map(|e| 100.0 * e),
        stats::median(&distances)
    );
    // The capacity of another minute is another one; with that of its own, the twin's delays are the link's.
    let median =
        stats::median(&replayed).expect("some draw shows its capacity while both are loaded");
    println!(
        "with the capacity of the held-out phase: p95 {:.1} %",
        100.0 * median
    );
    assert!(median <= 0.12, "{replayed:?}");
}

#[test]
fn a_given_link_is_judged_with_its_own_rates() {
    let mut c = Chance::new("own rates");
    let mut side = |mean: f64| {
        let mut d = direction(mean, "fifo:packets=120", 15.0);
        d.rate = moving(&mut c, mean, false);
        d
    };
    let link = LinkSpec {
        name: "draw".into(),
        title: "Random radio link".into(),
        up: side(6e6),
        down: side(12e6),
    };
    let rec = record(&link, 1);
    let right = means(|m| twin::check(&rec, &link, m)).unwrap();
    assert_ne!(right.trust, Trust::Rejected, "{:?}", right.because);
    let mut slow = link.clone();
    slow.down.rate = moving(&mut Chance::new("other rates"), 5e6, false);
    let wrong = means(|m| twin::check(&rec, &slow, m)).unwrap();
    assert_eq!(wrong.trust, Trust::Rejected, "{:?}", wrong.because);
}

#[test]
fn a_wrong_twin_is_rejected_and_a_wrong_recording_refused_with_advice() {
    let mut c = Chance::new("wrong");
    let mut link = fixed(&mut c);
    (link.up, link.down) = (
        direction(2e6, "fifo:packets=60", 15.0),
        direction(20e6, "fifo:packets=300", 15.0),
    );
    let rec = record(&link, 1);
    // With both directions loaded, the waits of two runs of one link differ by chance more than most.
    let agrees = (1..=12).filter(|seed| {
        let rec = record(&link, *seed);
        means(|m| twin::check(&rec, &link, m)).unwrap().trust == Trust::Agrees
    });
    let agrees = agrees.count();
    assert!(
        agrees >= 10,
        "{agrees} of 12 recordings agree with their own link"
    );
    for (key, value) in [
        ("up.queue", "pie"),
        ("down.queue", "fq_codel"),
        ("up.queue", "fifo:packets=120"),
        ("down.rate", "10 Mbit/s"),
    ] {
        let mut wrong = link.clone();
        wrong.set(key, value).unwrap();
        let found = means(|m| twin::check(&rec, &wrong, m)).unwrap();
        assert_eq!(found.trust, Trust::Rejected, "{key}={value}");
    }
    let why = |rec: &Recording| means(|m| twin::fit(rec, m)).unwrap_err().to_string();
    assert!(why(&Recording::default()).contains("needs a recording of `tailback test`"));
    let mut cut = rec.clone();
    cut.event.retain(|e| &*e.subject != "up");
    assert!(
        why(&cut).contains("no phase loads the uplink alone"),
        "{}",
        why(&cut)
    );
    let mut silent = rec.clone();
    silent.delay.clear();
    assert!(why(&silent).contains("0 probes were answered"));
    let mut unloaded = rec.clone();
    unloaded.flow.clear();
    assert!(
        why(&unloaded).contains("did not show the rate"),
        "{}",
        why(&unloaded)
    );
}
