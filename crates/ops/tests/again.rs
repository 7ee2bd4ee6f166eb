//! Plans that recordings keep, run again: the second recording equals the first.

use base::record::{Meta, Origin, Recording};
use base::rng::{Streams, uniform};
use ops::{Event, Plan, Progress};
use std::path::{Path, PathBuf};
use testkit::TempDir;

/// Directory of one test, removed at its end.
struct Scratch(TempDir);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(TempDir::new(name))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Keeps what was written.
#[derive(Default)]
struct Watched {
    wrote: Vec<PathBuf>,
    shares: Vec<f64>,
    interruptible: bool,
}

impl Progress for Watched {
    fn tell(&mut self, event: Event<'_>) {
        match event {
            Event::Wrote(path) => self.wrote.push(path.to_owned()),
            Event::Share(share) => self.shares.push(share),
            Event::Interruptible => self.interruptible = true,
            _ => {}
        }
    }
}

/// A link, transfers and a probe, all drawn.
fn scenario(seed: u64) -> String {
    let mut rng = Streams::new(seed).stream("scenario");
    let mut between = |low: f64, high: f64| low + (high - low) * uniform(&mut rng);
    let queues = ["fifo:bytes=30000", "codel", "fq_codel", "pie"];
    let queue = queues[between(0.0, 4.0) as usize % 4];
    format!(
        "title = \"draw {seed}\"\nseed = {seed}\nduration = \"{:.0} s\"\n[link]\nrate = \"{:.0} kbit/s\"\ndelay = \"{:.0} ms\"\nqueue = \"{queue}\"\n\
         [[flow]]\nkind = \"bulk\"\ncount = {:.0}\n[[flow]]\nkind = \"probe\"\n",
        between(2.0, 5.0),
        between(500.0, 5000.0),
        between(1.0, 80.0),
        between(1.0, 4.0),
    )
}

fn rows(path: &Path) -> Recording {
    let recording = store::read(path).unwrap();
    Recording {
        meta: Meta::default(),
        ..recording
    }
}

#[test]
fn a_simulation_is_run_again_from_its_recording_row_by_row() {
    let scratch = Scratch::new("sim");
    for seed in 1..=12u64 {
        println!("seed {seed}");
        let file = scratch.at(&format!("{seed}.toml"));
        std::fs::write(&file, scenario(seed)).unwrap();
        let (first, second) = (
            scratch.at(&format!("{seed}.rec")),
            scratch.at(&format!("{seed}-again.rec")),
        );
        let plan = ops::sim::Plan {
            output: Some(first.clone()),
            set: vec!["link.delay=7 ms".into()],
            ..ops::sim::Plan::of_file(&file).unwrap()
        };
        let mut watched = Watched::default();
        let answer = ops::sim::run(&plan, &mut watched).unwrap();
        assert_eq!(watched.wrote, std::slice::from_ref(&first));
        assert!(watched.interruptible && !watched.shares.is_empty());
        // The scenario's file is gone: the recording is enough.
        std::fs::remove_file(&file).unwrap();
        let mut again = Plan::read(&first).unwrap();
        again.set_output(&second).unwrap();
        let Plan::Sim(again) = again else {
            panic!("a simulation")
        };
        let repeated = ops::sim::run(&again, &mut ()).unwrap();
        assert_eq!(repeated.json(), answer.json());
        assert_eq!(rows(&second), rows(&first), "seed {seed}");
        assert!(!rows(&first).delay.is_empty());
        let meta = |path: &Path| store::read_meta(path).unwrap().plan;
        assert_eq!(meta(&second), meta(&first));
    }
}

#[test]
fn a_plan_is_read_from_a_recording_its_facts_or_a_file() {
    let scratch = Scratch::new("read");
    let file = scratch.at("s.toml");
    std::fs::write(&file, scenario(77)).unwrap();
    let recording = scratch.at("s.rec");
    let plan = ops::sim::Plan {
        output: Some(recording.clone()),
        ..ops::sim::Plan::of_file(&file).unwrap()
    };
    ops::sim::run(&plan, &mut ()).unwrap();
    let of_directory = serde_json::to_value(Plan::read(&recording).unwrap()).unwrap();
    let of_facts = Plan::read(&recording.join("meta.json")).unwrap();
    assert_eq!(serde_json::to_value(of_facts).unwrap(), of_directory);
    let written = scratch.at("plan.json");
    std::fs::write(&written, of_directory.to_string()).unwrap();
    let of_file = Plan::read(&written).unwrap();
    assert_eq!(serde_json::to_value(of_file).unwrap(), of_directory);
}

#[test]
fn unknown_verbs_and_keys_of_a_plan_are_refused_as_usage() {
    let scratch = Scratch::new("refused");
    let file = scratch.at("plan.json");
    for text in [
        "{\"verb\":\"fly\",\"plan\":{}}",
        "{\"verb\":\"sim\",\"plan\":{\"scenario\":\"\",\"wings\":2}}",
        "{\"verb\":\"analyse\",\"plan\":{\"recordings\":[],\"wings\":2}}",
        "{\"verb\":\"analyse\"}",
        "{\"plan\":{}}",
        "[]",
        "",
    ] {
        std::fs::write(&file, text).unwrap();
        let refused = Plan::read(&file).unwrap_err();
        assert!(refused.is::<ops::Usage>(), "{text}: {refused:#}");
    }
    let meta = Meta {
        verb: "serve".into(),
        ..Meta::default()
    };
    assert!(Plan::of_recording(&meta).unwrap_err().is::<ops::Usage>());
}

#[test]
fn a_monitor_keeps_its_targets_and_intervals() {
    let mut rng = Streams::new(5).stream("targets");
    for draw in 0..50u32 {
        let interval = base::Duration::from_millis(1 + (uniform(&mut rng) * 5000.0) as u64);
        let names = [
            format!("icmp:192.0.2.{}", draw % 200 + 1),
            format!("tcp:192.0.2.7:{},{}ms", 1000 + draw, 20 + draw),
        ];
        let monitor = experiment::monitor::MonitorPlan {
            targets: ops::monitor::targets(&names, interval).unwrap(),
            only_v4: draw % 2 == 0,
            ..experiment::monitor::MonitorPlan::default()
        };
        let meta = Meta {
            origin: Origin::Measured,
            verb: "monitor".into(),
            title: "at home".into(),
            plan: serde_json::to_value(&monitor).unwrap(),
            ..Meta::default()
        };
        let Plan::Monitor(plan) = Plan::of_recording(&meta).unwrap() else {
            panic!("a monitor")
        };
        assert_eq!(plan.monitor, monitor);
        assert_eq!(plan.title.as_deref(), Some("at home"));
        ops::monitor::check(&plan).unwrap();
    }
}

/// A preset with a drawn rate and queue.
fn link(rng: &mut impl FnMut() -> f64) -> link::LinkSpec {
    let presets = link::PRESETS;
    let preset = presets[(rng() * presets.len() as f64) as usize % presets.len()].name;
    let mut link = link::LinkSpec::named(preset).unwrap();
    let rate = format!("{} kbit/s", 100 + (rng() * 50_000.0) as u64);
    link.set("up.rate", &rate).unwrap();
    link.set(
        "up.queue",
        ["codel", "fifo", "pie"][(rng() * 3.0) as usize % 3],
    )
    .unwrap();
    link
}

#[test]
fn a_test_keeps_its_plan_its_link_and_its_contract() {
    let mut stream = Streams::new(6).stream("tests");
    let mut rng = || uniform(&mut stream);
    for draw in 0..60 {
        let contract = (draw % 3 == 0).then(|| ops::test::Contract {
            down: base::BitsPerSec::from_mbps(1 + (rng() * 99.0) as u64),
            up: base::BitsPerSec::from_mbps(1 + (rng() * 9.0) as u64),
        });
        let emulated = draw % 2 == 0;
        let plan = ops::test::Plan {
            test: experiment::bufferbloat::Plan {
                server: if emulated { "embedded" } else { "far.example" }.into(),
                budget: base::Bytes::new((rng() * 1e9) as u64),
                ..experiment::bufferbloat::Plan::default()
            },
            virtual_seed: (emulated && rng() < 0.5).then_some(draw),
            link: emulated.then(|| link(&mut rng)),
            via: (draw % 4 == 1).then(|| ops::test::Via {
                target: format!("iperf3:far.example:{}", 1 + draw),
                ca: (draw % 8 == 1).then(|| "ca.pem".into()),
            }),
            capture: draw % 3 == 0,
            contract,
            title: Some(format!("draw {draw}")),
            output: None,
            ipv4: false,
            ipv6: false,
            log_in: ops::LogIn::default(),
            load_from: None,
        };
        let meta = ops::test::meta(&plan, live::clock::Clock::start()).unwrap();
        let Plan::Test(again) = Plan::of_recording(&meta).unwrap() else {
            panic!("a test")
        };
        assert_eq!(*again, plan, "draw {draw}");
    }
}

#[test]
fn a_probe_keeps_its_kind_its_links_and_its_limits() {
    let mut stream = Streams::new(7).stream("probes");
    let mut rng = || uniform(&mut stream);
    for (draw, spec) in experiment::PROBES.iter().cycle().take(63).enumerate() {
        let links: Vec<_> = (0..draw % 3).map(|_| link(&mut rng)).collect();
        let plan = ops::probe::Plan {
            probe: spec.entry.name.parse().unwrap(),
            server: links.is_empty().then(|| "far.example:2112".to_owned()),
            virtual_seed: (links.len() == 1 && draw % 2 == 0).then_some(draw as u64),
            links,
            others: (draw % 4 == 1).then(|| base::BitsPerSec::from_mbps(3)),
            budget: base::Bytes::new(1 + (rng() * 1e9) as u64),
            interface: None,
            hold_off: (draw % 5 == 0).then(|| base::Duration::from_secs(30)),
            waits: true,
            beside_others: draw % 2 == 0,
            also: (0..draw % 3)
                .map(|n| std::net::Ipv4Addr::from(n as u32).into())
                .collect(),
            ipv4: false,
            ipv6: false,
            title: Some("asked".into()),
            output: None,
            log_in: ops::LogIn::default(),
        };
        let meta = Meta {
            verb: "probe".into(),
            title: "asked".into(),
            plan: plan.recorded().unwrap(),
            ..Meta::default()
        };
        let again = serde_json::to_value(Plan::of_recording(&meta).unwrap()).unwrap();
        let expected = Plan::Probe(Box::new(plan));
        assert_eq!(
            again,
            serde_json::to_value(expected).unwrap(),
            "draw {draw}"
        );
    }
}

#[test]
fn an_answer_over_several_threads_is_told_to_one_progress() {
    let scratch = Scratch::new("threads");
    let file = scratch.at("s.toml");
    std::fs::write(&file, scenario(3)).unwrap();
    let plan = ops::sim::Plan {
        seeds: 6,
        threads: Some(3),
        ..ops::sim::Plan::of_file(&file).unwrap()
    };
    let mut watched = Watched::default();
    let several = ops::sim::run(&plan, &mut watched).unwrap();
    assert!(watched.shares.iter().all(|s| (0.0..=1.0).contains(s)));
    let alone = ops::sim::Plan {
        threads: Some(1),
        ..plan
    };
    let one = ops::sim::run(&alone, &mut ()).unwrap();
    assert_eq!(several.json(), one.json());
    assert!(several.ended_early().is_none());
}

/// Stops at the first share.
struct Impatient;

impl Progress for Impatient {
    fn tell(&mut self, _event: Event<'_>) {}

    fn interrupted(&mut self) -> bool {
        true
    }
}

#[test]
fn an_interrupted_simulation_says_which_runs_are_missing() {
    let scratch = Scratch::new("stopped");
    let file = scratch.at("s.toml");
    std::fs::write(&file, scenario(9)).unwrap();
    let plan = ops::sim::Plan {
        seeds: 8,
        threads: Some(1),
        ..ops::sim::Plan::of_file(&file).unwrap()
    };
    let answer = ops::sim::run(&plan, &mut Impatient).unwrap();
    let told = answer.ended_early().expect("eight runs were not to be had");
    assert!(told.contains("of 8 runs"), "{told}");
}
