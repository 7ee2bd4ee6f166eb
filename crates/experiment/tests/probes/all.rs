//! All kinds in virtual time over links and networks drawn at random. A failure names the seed.

use super::{figure, over};
use base::noted::Noted;
use base::noted::check::CheckNote;
use base::noted::collapse::CollapseNote;
use base::record::Recording;
use base::rng::{Rng, Streams, uniform};
use base::{Bytes, Duration};
use experiment::{Bounds, PROBES, ProbeSpec, Progress, Setting, Stopped, Watch};
use link::LinkSpec;
use measure::control::listen::Transport;
use sim::bufferbloat::network::{Block, Resolver, Router, Version};
use sim::bufferbloat::{Network, Plan, observe};
use std::net::Ipv4Addr;

/// Parameters that keep a kind short.
pub const SHORT: &[(&str, &str)] = &[
    ("throughput", "throughput:hold=4s,idle=1s,warm_up=3s"),
    ("path", "path:idle=5s,hold=6s"),
    ("tcp", "tcp:size=80kB;400kB,repeats=1"),
    ("nat", "nat:sockets=3,during=300ms"),
    (
        "page",
        "page:url=http://far.example/,iterations=2,loads=2,settle=3s",
    ),
    ("collapse", "collapse:rounds=2,duration=12s,rest=1s"),
    ("radio", "radio:longest=5s"),
    ("quic", "quic:pairs=2,time=5s"),
];

pub struct Drawn {
    pub plan: Plan,
    up: f64,
    down: f64,
    /// Round trip of a small packet on the idle link, ms.
    rtt_ms: f64,
}

fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    (low.ln() + (high / low).ln() * uniform(rng)).exp()
}

pub fn draw(seed: u64) -> Drawn {
    let mut rng = Streams::new(seed).stream("all kinds");
    let up = between(&mut rng, 1e6, 20e6).round();
    let down = between(&mut rng, 2e6, 50e6).round();
    let delay_us = between(&mut rng, 1_000.0, 40_000.0).round();
    let way = |name: &str, rate: f64| {
        let packets = (rate * 0.15 / 12_000.0).max(20.0).round();
        format!(
            "[{name}]\nrate = \"{rate} bit/s\"\ndelay = \"{delay_us} us\"\nqueue = \"fifo:packets={packets}\"\n"
        )
    };
    let text = format!(
        "name = \"t\"\ntitle = \"t\"\n{}{}",
        way("up", up),
        way("down", down)
    );
    let link = LinkSpec::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
    let rtt_ms = 2.0 * delay_us / 1e3 + 100.0 * 8e3 * (1.0 / up + 1.0 / down);
    Drawn {
        plan: Plan {
            network: network(&mut rng),
            ..Plan::new(link, seed)
        },
        up,
        down,
        rtt_ms,
    }
}

fn network(rng: &mut Rng) -> Network {
    let mtu = 1280 + (uniform(rng) * 220.0) as u64;
    let version = Version {
        mtu: Bytes::new(mtu),
        tells_mtu: uniform(rng) < 0.5,
        fragments: uniform(rng) < 0.5,
        ..Version::default()
    };
    let hops = 2 + (uniform(rng) * 4.0) as u8;
    let routers = (1..=hops).map(|hop| Router {
        address: Ipv4Addr::new(10, 0, 0, hop).into(),
        delay: Duration::from_micros(u64::from(hop) * 150),
        // The link is between the first and the second.
        beyond: hop > 1,
        at_most_every: Duration::ZERO,
        silent: false,
        quotes: 8,
    });
    Network {
        v6: (uniform(rng) < 0.7).then_some(version),
        resolvers: vec![Resolver {
            new: Duration::from_millis(10 + (uniform(rng) * 300.0) as u64),
            ..Resolver::default()
        }],
        routers: routers.collect(),
        ..Network::default()
    }
}

#[test]
fn every_kind_runs_to_its_end_and_answers() {
    for seed in 0..4 {
        let drawn = draw(seed);
        for kind in PROBES {
            let name = kind.entry.name;
            let short = SHORT.iter().find(|(kind, _)| *kind == name);
            let spec = short.map_or(name, |(_, spec)| spec);
            let outcome = over(spec, &drawn.plan, Bytes::new(1_000_000_000));
            let at = format!("seed {seed}: {spec}: {}", outcome.says);
            println!("{at}");
            // Without IPv6 there is nothing to compare, and a virtual host has no Wi-Fi.
            let tells = name != "wifi" && (name != "ipv6" || drawn.plan.network.v6.is_some());
            assert_eq!(!outcome.says.starts_with("Cannot tell"), tells, "{at}");
        }
    }
}

#[test]
fn both_versions_of_ip_are_told_with_the_largest_packet_of_each() {
    for seed in 0..12 {
        let drawn = draw(seed);
        let outcome = over("ipv6:count=6", &drawn.plan, Bytes::new(1 << 22));
        let at = format!("seed {seed}: {}", outcome.says);
        let (v4, ..) = figure(&outcome, "connect_v4_ms");
        assert!(
            (v4 / drawn.rtt_ms - 1.0).abs() < 0.15,
            "{at}: {v4} ms, truth {}",
            drawn.rtt_ms
        );
        assert_eq!(figure(&outcome, "path_mtu_v4_bytes").0, 1500.0, "{at}");
        if let Some(v6) = &drawn.plan.network.v6 {
            let (mtu, ..) = figure(&outcome, "path_mtu_bytes");
            assert_eq!(mtu, v6.mtu.get() as f64, "{at}");
        }
    }
}

#[test]
fn a_resolvers_own_time_is_told_from_the_links() {
    for seed in 0..12 {
        let drawn = draw(seed);
        let outcome = over("dns:count=6", &drawn.plan, Bytes::new(1 << 22));
        let resolver = drawn.plan.network.resolvers[0];
        let way = drawn.rtt_ms + 2.0 * resolver.farther.as_secs_f64() * 1e3;
        let truth = way + resolver.new.as_secs_f64() * 1e3;
        let (cold, ..) = figure(&outcome, "cold_ms");
        assert!(
            (cold - truth).abs() < 2.0 + 0.05 * truth,
            "seed {seed}: {cold} ms, truth {truth} ms; {}",
            outcome.says
        );
    }
}

#[test]
fn transfers_are_no_faster_than_the_link_and_the_longest_come_near_it() {
    for seed in 0..6 {
        let drawn = draw(seed);
        let outcome = over(
            "tcp:control=cubic,size=2MB,repeats=3",
            &drawn.plan,
            Bytes::new(60_000_000),
        );
        let rates = outcome.figures.iter().filter(|f| f.key.ends_with("_bps"));
        let rates: Vec<f64> = rates.filter_map(|f| f.figure.value()).collect();
        assert!(!rates.is_empty(), "seed {seed}: {}", outcome.says);
        for rate in rates {
            // Payload of a full segment, and slow start.
            assert!(
                rate < drawn.up * 1448.0 / 1500.0 * 1.01 && rate > 0.5 * drawn.up,
                "seed {seed}: {rate} of {}",
                drawn.up
            );
        }
    }
}

#[test]
fn check_does_all_of_its_steps() {
    let drawn = draw(1);
    let outcome = over("check", &drawn.plan, Bytes::new(100_000_000));
    let steps = outcome.tables.iter().find(|t| t.title == "Steps");
    let steps = steps.expect("it has steps");
    for row in &steps.rows {
        println!("{row:?}");
        assert_eq!(row[4], "done", "{row:?}");
    }
    assert_eq!(steps.rows.len(), 8);
    let (down, ..) = figure(&outcome, "link_down_bps");
    assert!(
        (down / drawn.down - 1.0).abs() < 0.05,
        "{down} of {}",
        drawn.down
    );
}

/// Stops a run once a stage has been shown.
struct StopsAt(&'static str, bool);

impl Watch for StopsAt {
    fn progress(&mut self, progress: &Progress) {
        self.1 |= progress.stage == self.0;
    }

    fn interrupted(&mut self) -> bool {
        self.1
    }
}

/// Gives the recording of a kind that is interrupted at a stage.
fn interrupted(spec: &str, stage: &'static str) -> Recording {
    let spec: ProbeSpec = spec.parse().expect("a kind");
    let budget = Bytes::new(100_000_000);
    let mut steps = spec.steps(&Setting::of(budget)).expect("it is enough");
    let (bounds, plan) = (Bounds::of(budget), draw(3).plan);
    let (outcome, went) =
        observe(&plan, &mut *steps, &bounds, &mut StopsAt(stage, false)).expect("a link");
    assert_eq!(went, Err(Stopped::Interrupted));
    outcome.recording
}

/// A run that was interrupted under load had no hops, and so no answer.
#[test]
fn hops_are_described_and_loads_ended_although_the_run_is_interrupted() {
    let recording = interrupted("path:idle=5s", "up");
    let hops = recording
        .event
        .iter()
        .filter(|e| e.subject.starts_with("hop"));
    let routers = draw(3).plan.network.routers.len();
    assert_eq!(hops.count(), routers + 1);
    let events = |kind: &str| recording.event.iter().filter(|e| &*e.kind == kind).count();
    assert_eq!(events("phase"), events("phase_end"));
}

#[test]
fn a_round_and_its_packets_are_kept_although_the_run_is_interrupted() {
    let recording = interrupted("collapse:rounds=2,duration=12s,rest=1s", "two uploads");
    let notes: Vec<CollapseNote> = CollapseNote::all_of(&recording).map(|n| n.1).collect();
    let rounds = notes.iter().filter_map(|n| match n {
        CollapseNote::Round(round) => Some(round.second.is_some()),
        _ => None,
    });
    assert_eq!(rounds.collect::<Vec<_>>(), [false, true]);
    assert!(
        recording.connection.len() >= 2,
        "{}",
        recording.connection.len()
    );
}

#[test]
fn an_interrupted_check_notes_the_step_and_does_no_more() {
    let recording = interrupted("check", "ports");
    let notes: Vec<CheckNote> = CheckNote::all_of(&recording).map(|n| n.1).collect();
    assert_eq!(notes.len(), 4);
    assert_eq!(notes[3].problem.as_deref(), Some("interrupted"));
}

/// Without an end of its own, a step would take the time of all that follow.
#[test]
fn a_step_of_check_that_takes_too_long_is_ended_and_the_others_follow() {
    let mut plan = draw(1).plan;
    // Each lookup waits for its patience, and each connection for its timeout.
    for resolver in &mut plan.network.resolvers {
        resolver.silent = true;
    }
    for port in 1..=65_535 {
        plan.network
            .ports
            .insert((Transport::Tcp, port), Block::Silent);
        plan.network
            .ports
            .insert((Transport::Udp, port), Block::Silent);
    }
    let outcome = over("check", &plan, Bytes::new(100_000_000));
    let steps = outcome.tables.iter().find(|t| t.title == "Steps");
    let steps = steps.expect("it has steps");
    assert_eq!(steps.rows.len(), 8);
    let took: f64 = steps
        .rows
        .iter()
        .map(|r| r[2].parse::<f64>().expect("s"))
        .sum();
    assert!(took < 112.0, "{took} s: {:?}", steps.rows);
    let late = |row: &&Vec<String>| row[4].starts_with("it took longer than");
    assert!(steps.rows.iter().any(|r| late(&r)), "{:?}", steps.rows);
}

#[test]
fn packets_wait_on_the_hop_behind_the_first_router() {
    for seed in 0..4 {
        let drawn = draw(seed);
        let outcome = over("path:idle=10s", &drawn.plan, Bytes::new(400_000_000));
        for way in ["up", "down"] {
            let (hop, ..) = figure(&outcome, &format!("queue_hop_{way}"));
            assert_eq!(hop, 2.0, "seed {seed}, {way}: {}", outcome.says);
        }
    }
}

#[test]
fn middleboxes_are_found_and_a_clean_path_has_none() {
    let boxes = |block: Option<Block>| {
        let mut plan = draw(2).plan;
        plan.network.v4 = Version::default();
        plan.network
            .ports
            .extend(block.map(|block| ((Transport::Tcp, 80), block)));
        let outcome = over("middlebox", &plan, Bytes::new(1 << 20));
        println!("{block:?}: {}", outcome.says);
        figure(&outcome, "boxes").0
    };
    assert_eq!(boxes(None), 0.0);
    for block in [
        Block::Silent,
        Block::Refused,
        Block::AnswerLost,
        Block::Somebody,
        Block::Changed,
        Block::Reads,
    ] {
        assert!(boxes(Some(block)) >= 1.0, "{block:?}");
    }
}
