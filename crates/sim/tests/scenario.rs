//! Scenarios: repeatable to the byte, on any number of cores; told what is wrong before anything runs.

use base::record::Row;
use sim::batch::{Job, run_all};
use sim::{Draft, Scenario, run};
use std::sync::atomic::AtomicBool;

const MIXED: &str = r#"
duration = "8 s"
warmup = "2 s"
topology = "dumbbell:pairs=6"
[link]
rate = "5 Mbit/s"
delay = "20 ms"
queue = "pie"
loss = "random:probability=0.002"
[[flow]]
kind = "bulk"
count = 2
spread = "1 s"
[[flow]]
kind = "transfers"
size = "50 kB"
[[flow]]
kind = "poisson"
rate = "500 kbit/s"
[[flow]]
kind = "voice"
[[flow]]
kind = "call"
[[flow]]
kind = "probe"
[[flow]]
kind = "web"
http = "1.1"
objects = 8
think = "300 ms"
[[flow]]
kind = "video"
buffer = "20 s"
[[flow]]
kind = "sessions"
gap = "200 ms"
connections = 3
tail = 0.01
[[flow]]
kind = "telnet"
"#;

fn scenario(text: &str) -> Result<Scenario, String> {
    let draft = Draft::new(text).map_err(|e| e.to_string())?;
    draft.finish().map_err(|e| e.to_string())
}

fn rows(seed: u64) -> (Vec<Row>, String) {
    let mut rows = Vec::new();
    let mut take = |row| rows.push(row);
    let outcome = run(
        &scenario(MIXED).unwrap(),
        seed,
        Some(&mut take),
        &mut |_| true,
    )
    .unwrap();
    (rows, format!("{outcome:?}"))
}

#[test]
fn the_same_seed_gives_the_same_rows_and_another_seed_others() {
    let (first, again, other) = (rows(1), rows(1), rows(2));
    assert!(first.0.len() > 1000);
    assert_eq!(first, again);
    assert_ne!(first.0, other.0);
}

#[test]
fn recording_does_not_change_what_happens() {
    let blind = run(&scenario(MIXED).unwrap(), 1, None, &mut |_| true).unwrap();
    assert_eq!(format!("{blind:?}"), rows(1).1);
}

#[test]
fn every_probe_has_a_row_also_one_that_the_line_lost_as_the_queues_were_looked_at() {
    // Sent at whole tenths of a second, at which the queue is sampled too.
    let text = r#"
duration = "100 s"
topology = "linear"
[link]
rate = "10 Mbit/s"
delay = "10 ms"
loss = "random:probability=0.05"
[[flow]]
kind = "probe"
gap = "100 ms"
"#;
    let (mut ok, mut lost) = (0, 0);
    let mut take = |row| match row {
        Row::Delay(d) if d.rtt_ns.is_some() => ok += 1,
        Row::Delay(_) => lost += 1,
        _ => {}
    };
    run(&scenario(text).unwrap(), 1, Some(&mut take), &mut |_| true).unwrap();
    // The last one is on its way as the run ends.
    assert!((999..=1000).contains(&(ok + lost)), "{ok} {lost}");
    assert!((25..=85).contains(&lost), "{lost}");
}

#[test]
fn figures_do_not_depend_on_the_number_of_cores() {
    let scenario = scenario(MIXED).unwrap();
    let jobs: Vec<Job> = (1..=6)
        .map(|seed| Job {
            scenario: scenario.clone().into(),
            seed,
        })
        .collect();
    let on = |threads| run_all(&jobs, threads, &AtomicBool::new(false), &|_| ()).unwrap();
    let one = on(1);
    assert!(one.iter().all(Option::is_some));
    assert_eq!(one, on(2));
    assert_eq!(one, on(5));
}

#[test]
fn what_is_done_when_it_is_stopped_is_kept() {
    let scenario = scenario(MIXED).unwrap();
    let jobs = [1, 2, 3].map(|seed| Job {
        scenario: scenario.clone().into(),
        seed,
    });
    let stop = AtomicBool::new(false);
    let results = run_all(&jobs, 1, &stop, &|share| {
        stop.store(share > 0.5, std::sync::atomic::Ordering::Relaxed);
    })
    .unwrap();
    assert!(results[0].is_some() && results[1].is_none() && results[2].is_none());
}

#[test]
fn what_cannot_be_is_said_before_anything_runs() {
    let with = |from: &str, to: &str| scenario(&MIXED.replacen(from, to, 1)).unwrap_err();
    for (from, to, said) in [
        ("\"pie\"", "\"pi3\"", "Did you mean \"pie\"?"),
        (
            "rate = \"5 Mbit/s\"",
            "rate = \"0 bit/s\"",
            "never delivers anything",
        ),
        ("warmup = \"2 s\"", "warmup = \"8 s\"", "leaves nothing"),
        ("warmup =", "warmpu =", "Did you mean \"warmup\"?"),
        (
            "kind = \"voice\"",
            "kind = \"voise\"",
            "Did you mean \"voice\"?",
        ),
        (
            "kind = \"voice\"",
            "kind = \"voice\"\nrate = \"1 Mbit/s\"",
            "rate has no meaning",
        ),
        (
            "kind = \"voice\"",
            "kind = \"bulk\"\ntcp.controller = \"cubik\"",
            "Did you mean \"cubic\"?",
        ),
        ("kind = \"voice\"", "kind = \"cbr\"", "needs a rate"),
        (
            "kind = \"voice\"",
            "kind = \"voice\"\nfrom = \"s1\"\nto = \"s7\"",
            "no host \"s7\"",
        ),
        (
            "kind = \"voice\"",
            "kind = \"voice\"\nfrom = \"s1\"\nto = \"s1\"",
            "begins and ends",
        ),
        ("dumbbell:pairs=6", "dumbbell:pairs=0", "out of range"),
        ("dumbbell:pairs=6", "graph", "[[edge]]"),
        ("dumbbell:pairs=6", "graph", "has no [link]"),
        ("[link]", "[reverse]", "needs a [link]"),
        ("duration = \"8 s\"", "duration = \"0 s\"", "duration"),
        ("count = 2", "count = 99999999999", "at most"),
    ] {
        let error = with(from, to);
        assert!(error.contains(said), "{to}: {error}");
    }
}

#[test]
fn a_graph_is_what_its_edges_say() {
    let text = r#"
duration = "5 s"
topology = "graph"
[[edge]]
between = ["a", "r"]
link = { rate = "10 Mbit/s", delay = "5 ms" }
[[edge]]
between = ["r", "b"]
name = "narrow"
watch = true
link = { rate = "1 Mbit/s", delay = "5 ms" }
[[flow]]
kind = "cbr"
rate = "500 kbit/s"
size = "1250 B"
from = "a"
to = "b"
"#;
    let outcome = run(&scenario(text).unwrap(), 1, None, &mut |_| true).unwrap();
    // 1 ms and 10 ms on the lines, 10 ms of propagation.
    assert!((outcome.flows[0].delay_ms.unwrap() - 21.0).abs() < 1e-6);
    assert_eq!(outcome.links[0].name, "narrow");
    assert!((outcome.links[0].utilisation - 0.5).abs() < 0.01);
    let island = text.replace("[\"r\", \"b\"]", "[\"x\", \"b\"]");
    let error = scenario(&island).unwrap_err();
    assert!(error.contains("no way from \"a\" to \"b\""), "{error}");
}

#[test]
fn a_change_is_shown_with_where_it_comes_from() {
    let mut draft = Draft::new(MIXED).unwrap();
    draft.set("link.queue", "codel", "--set").unwrap();
    draft.set("flow.0.tcp.controller", "reno", "--set").unwrap();
    let shown = draft.describe(&mut |_| Err(String::new())).unwrap();
    for (line, origin) in [
        ("queue = \"codel\"", "--set"),
        ("controller = \"reno\"", "--set"),
        ("rate = \"5 Mbit/s\"", "file"),
        ("sack = true", "default"),
    ] {
        let found = shown.lines().find(|l| l.starts_with(line));
        assert!(
            found.is_some_and(|l| l.ends_with(&format!("# {origin}"))),
            "{line}: {found:?}"
        );
    }
    for part in [
        "\n[reverse]\n",
        "\n[access]\n",
        "rate = \"50 Mbit/s\"",
        "# link.queue = codel: target=5 ms, interval=100 ms, limit=1000, ecn=false",
        "# link: not set: framing, policer",
    ] {
        assert!(shown.contains(part), "{part} is not in\n{shown}");
    }
    // The text is a scenario that does the same.
    let again = Draft::new(&shown).unwrap().finish().unwrap();
    let outcome = |scenario: &Scenario| run(scenario, 1, None, &mut |_| true).unwrap();
    assert_eq!(outcome(&again), outcome(&draft.finish().unwrap()));
    assert!(draft.set("flow.99.count", "2", "--set").is_err());
    let link = draft.finish().unwrap().link.expect("it has one");
    assert_eq!(link.queue.name(), "codel");
}

#[test]
fn a_probes_round_trip_is_the_way_there_and_the_way_back() {
    let text = r#"
        duration = "2 s"
        link = { rate = "1 Gbit/s", delay = "30 ms" }
        reverse = { rate = "1 Gbit/s", delay = "10 ms" }
        flow = [{ kind = "probe" }]
    "#;
    let mut delays = Vec::new();
    let mut take = |row| {
        if let Row::Delay(d) = row {
            delays.push(d);
        }
    };
    let all = run(&scenario(text).unwrap(), 1, Some(&mut take), &mut |_| true);
    let mean = all.unwrap().flows[0].rtt_ms.unwrap().mean;
    assert!((40.0..40.1).contains(&mean), "{mean}");
    for d in &delays {
        let (there, back) = (d.owd_up_ns.unwrap(), d.owd_down_ns.unwrap());
        assert_eq!(there + back, d.rtt_ns.unwrap());
        assert!((30_000_000..30_050_000).contains(&there), "{there}");
    }
    assert!(delays.len() > 30);
}

#[test]
fn a_call_that_asks_for_low_delay_gets_it_from_a_queue_that_listens() {
    let text = |dscp: &str| {
        format!(
            r#"
duration = "12 s"
warmup = "2 s"
[link]
rate = "2 Mbit/s"
delay = "10 ms"
queue = "prio:rest=fifo"
[[flow]]
kind = "bulk"
count = 3
[[flow]]
kind = "cbr"
rate = "80 kbit/s"
size = "200 B"
dscp = {dscp}
"#
        )
    };
    let delay = |dscp| {
        let outcome = run(&scenario(&text(dscp)).unwrap(), 1, None, &mut |_| true).unwrap();
        outcome.flows[1].delay_p95_ms.unwrap()
    };
    // 10 ms of propagation, 0.88 ms of access and transmission, at most one packet of 1500 bytes before it.
    assert!(delay("\"ef\"") < 18.0, "{}", delay("\"ef\""));
    assert!(delay("\"cs5\"") > 100.0, "{}", delay("\"cs5\""));
}

#[test]
fn datagrams_that_say_ect_are_marked_and_not_dropped() {
    let text = |ecn: &str| {
        format!(
            r#"
duration = "10 s"
warmup = "2 s"
[link]
rate = "1 Mbit/s"
delay = "10 ms"
queue = "dualpi2"
[[flow]]
kind = "poisson"
rate = "1020 kbit/s"
size = "1250 B"
ecn = "{ecn}"
"#
        )
    };
    let run = |ecn| run(&scenario(&text(ecn)).unwrap(), 1, None, &mut |_| true).unwrap();
    let (l4s, classic, not) = (run("ect1"), run("ect0"), run("not_ect"));
    assert!(l4s.links[0].marks > 100 && classic.links[0].marks > 10);
    assert!(l4s.links[0].marks > 2 * classic.links[0].marks);
    assert!(not.links[0].marks == 0 && not.links[0].drops > 10);
    let tcp = "[[flow]]\nkind = \"bulk\"\necn = \"ect0\"";
    let mixed = MIXED.replacen("[[flow]]\nkind = \"bulk\"", tcp, 1);
    assert!(scenario(&mixed).unwrap_err().contains("tcp.ecn = true"));
}

/// One bulk transfer over a link whose rate counts frames, 1500 bytes of IP each: delivered rate and use of the link.
fn framed(key: &str) -> (f64, f64) {
    let text = format!(
        "duration = \"30 s\"\nwarmup = \"5 s\"\n[link]\nrate = \"8 Mbit/s\"\ndelay = \"10 ms\"\n\
         queue = \"fifo:bytes=60000\"\n{key}\n[[flow]]\nkind = \"bulk\"\n"
    );
    let outcome = run(&scenario(&text).unwrap(), 1, None, &mut |_| true).unwrap();
    (outcome.links[0].delivered_bps, outcome.links[0].utilisation)
}

#[test]
fn a_transfer_gets_what_the_layers_below_ip_leave() {
    for (framing, wire) in [
        ("pppoe-llcsnap", 33.0 * 53.0),
        ("pppoa-vcmux", 32.0 * 53.0),
        ("ethernet", 1538.0),
        ("pppoe-ptm", 1554.0),
        ("docsis", 1518.0),
    ] {
        let (delivered, used) = framed(&format!("framing = \"{framing}\""));
        let theory = 8e6 * 1500.0 / wire;
        assert!(
            (delivered / theory - 1.0).abs() < 0.003,
            "{framing}: {delivered} for {theory}"
        );
        assert!((used - 1.0).abs() < 0.003, "{framing}: {used}");
    }
}

#[test]
fn buckets_hold_a_transfer_to_their_rate() {
    let (delivered, used) = framed("shaper = \"token_bucket:rate=3 Mbit/s,burst=30 kB\"");
    assert!((delivered / 3e6 - 1.0).abs() < 0.003, "{delivered}");
    assert!((used - 1.0).abs() < 0.003, "{used}");
    // A policer drops instead of queueing, so that TCP stays below its rate.
    let (delivered, _) = framed("policer = \"token_bucket:rate=3 Mbit/s,burst=30 kB\"");
    assert!((1.5e6..3.01e6).contains(&delivered), "{delivered}");
}

fn outcome(text: &str) -> Result<sim::Outcome, String> {
    run(&scenario(text)?, 1, None, &mut |_| true).map_err(|e| e.to_string())
}

#[test]
fn segments_fit_the_smallest_mtu_of_their_path_and_larger_datagrams_are_refused() {
    let line = |mtu: u64, flow: &str| {
        format!(
            "duration = \"20 s\"\ntopology = \"dumbbell\"\n[tcp]\nreceive_window = \"50 kB\"\n[link]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nmtu = \"{mtu} B\"\n\
             [[flow]]\n{flow}\n"
        )
    };
    for (mtu, payload) in [(9000, 1448.0), (1500, 1448.0), (1400, 1348.0), (576, 524.0)] {
        let o = outcome(&line(mtu, "kind = \"bulk\"")).expect("it runs");
        let share = o.flows[0].goodput_bps / o.links[0].delivered_bps;
        let expected = payload / (payload + 52.0);
        assert!(
            (share - expected).abs() < 0.002,
            "{mtu}: {share} for {expected}"
        );
    }
    let flow = "kind = \"cbr\"\nrate = \"1 Mbit/s\"\nsize = \"577 B\"";
    let said = outcome(&line(576, flow)).expect_err("too large");
    assert!(said.contains("577 B") && said.contains("576 B"), "{said}");
    assert!(outcome(&line(577, flow)).is_ok());
}

#[test]
fn no_more_packets_are_lost_than_were_sent() {
    let text = "duration = \"1 s\"\ntopology = \"dumbbell\"\n[link]\nrate = \"5 Mbit/s\"\ndelay = \"10 ms\"\nqueue = \"fifo:packets=20\"\n\
                [[flow]]\nkind = \"bulk\"\ncount = 3000\n";
    let o = outcome(text).expect("it runs");
    let loss = o.flows[0].loss.expect("packets were sent");
    assert!((0.2..1.0).contains(&loss), "{loss}");
    assert!(o.flows[0].delivered.expect("a share") > 0.0);
}

#[test]
fn goodput_of_datagrams_is_their_payload() {
    let text = "duration = \"20 s\"\n[link]\nrate = \"10 Mbit/s\"\n[[flow]]\nkind = \"cbr\"\nrate = \"1 Mbit/s\"\nsize = \"228 B\"\n\
                [[flow]]\nkind = \"bulk\"\nsize = \"1 MB\"\n";
    let o = outcome(text).expect("it runs");
    // 28 bytes of 228 are the headers of IPv4 and UDP; the last packets are in flight at the end.
    let (throughput, goodput) = (
        o.flows[0].throughput_bps.expect("datagrams"),
        o.flows[0].goodput_bps,
    );
    assert!((throughput / 1e6 - 1.0).abs() < 0.001, "{throughput}");
    assert!(
        (goodput / throughput - 200.0 / 228.0).abs() < 1e-9,
        "{goodput}"
    );
    assert_eq!(o.flows[1].throughput_bps, None);
}

#[test]
fn a_link_whose_delay_steps_and_that_fails_for_a_while_does_so_at_those_times() {
    let text = "duration = \"20 s\"\n[link]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n\
                drift = \"steps:at=4s;12s,delay=30ms;5ms\"\nloss = \"outage:start=6s,lasts=1s,every=8s\"\n\
                [reverse]\nrate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n[[flow]]\nkind = \"probe\"\ngap = \"100 ms\"\n";
    let scenario = scenario(text).unwrap();
    let began_ns = sim::run::began_ns(&scenario);
    let mut probes = Vec::new();
    let mut take = |row| {
        if let Row::Delay(row) = row {
            let at_ms = (row.sent_ns - began_ns) / 1_000_000;
            probes.push((at_ms, row.rtt_ns.map(|ns| ns / 1_000_000)));
        }
    };
    run(&scenario, 1, Some(&mut take), &mut |_| true).unwrap();
    let (mut lost, mut answered) = (0, 0);
    for (at_ms, rtt_ms) in probes {
        let added = match at_ms {
            0..4_000 => 0,
            4_000..12_000 => 30,
            _ => 5,
        };
        let is_down = (6_000..7_000).contains(&at_ms) || (14_000..15_000).contains(&at_ms);
        let expected = (!is_down).then_some(20 + added);
        assert_eq!(rtt_ms, expected, "at {at_ms} ms");
        lost += u32::from(is_down);
        answered += u32::from(!is_down);
    }
    assert!(
        lost == 20 && answered > 170,
        "{lost} lost, {answered} answered"
    );
    let said = scenario_error("drift = \"steps:at=4s;3s,delay=30ms;5ms\"");
    assert!(said.contains("at: 3 s does not follow 4 s"), "{said}");
}

fn scenario_error(key: &str) -> String {
    let text = format!(
        "duration = \"20 s\"\n[link]\nrate = \"10 Mbit/s\"\n{key}\n[[flow]]\nkind = \"bulk\"\n"
    );
    scenario(&text).expect_err("a contradiction")
}

/// Two ways between routers r and q: over x 10 ms, over y 30 ms.
const TWO_WAYS: &str = "duration = \"10 s\"\ntopology = \"graph\"\n\
    [[edge]]\nbetween = [\"a\", \"r\"]\nlink = { rate = \"1 Gbit/s\" }\n\
    [[edge]]\nbetween = [\"r\", \"x\"]\nwatch = true\nlink = { rate = \"100 Mbit/s\", delay = \"10 ms\" }\n\
    [[edge]]\nbetween = [\"x\", \"q\"]\nlink = { rate = \"1 Gbit/s\" }\n\
    [[edge]]\nbetween = [\"r\", \"y\"]\nlink = { rate = \"100 Mbit/s\", delay = \"30 ms\" }\n\
    [[edge]]\nbetween = [\"y\", \"q\"]\nlink = { rate = \"1 Gbit/s\" }\n\
    [[edge]]\nbetween = [\"q\", \"b\"]\nlink = { rate = \"1 Gbit/s\" }\n";

fn over_two_ways(flow: &str) -> Result<sim::Outcome, sim::ScenarioError> {
    let text = format!("{TWO_WAYS}[[flow]]\nfrom = \"a\"\nto = \"b\"\n{flow}");
    sim::run(&Draft::new(&text)?.finish()?, 1, None, &mut |_| true)
}

#[test]
fn packets_take_the_way_that_they_are_told_and_another_later() {
    let rtt = |routes: &str| {
        let all = over_two_ways(&format!("kind = \"probe\"\nroutes = {routes}")).unwrap();
        all.flows[0].rtt_ms.unwrap()
    };
    let shortest = rtt("[]");
    assert!((shortest.mean - 20.0).abs() < 0.1, "{shortest:?}");
    let manual = rtt("[{ via = [\"y\"] }]");
    assert!((manual.mean - 60.0).abs() < 0.1, "{manual:?}");
    // Half of the time each; datagrams in flight stay on their way.
    let moved = rtt("[{ via = [\"x\"] }, { at = \"5 s\", via = [\"y\"] }]");
    assert!((moved.mean - 40.0).abs() < 0.5, "{moved:?}");
    assert!(
        (moved.p50 - 20.0).abs() < 0.1 && (moved.p95 - 60.0).abs() < 0.1,
        "{moved:?}"
    );
    let there_and_back = rtt("[{ at = \"4 s\", via = [\"y\"] }, { at = \"6 s\" }]");
    assert!(
        (there_and_back.mean - 28.0).abs() < 0.5,
        "{there_and_back:?}"
    );
}

#[test]
fn a_transfer_goes_on_over_its_new_way_and_nothing_is_lost() {
    let routes = "routes = [{ via = [\"y\"] }, { at = \"4 s\", via = [\"x\"] }, { at = \"7 s\", via = [\"y\"] }]";
    for kind in ["bulk", "web\"\nhttp = \"1.1\"\nthink = \"50 ms"] {
        let text = format!("kind = \"{kind}\"\n{routes}\ntcp = {{ receive_window = \"256 kB\" }}");
        let all = over_two_ways(&text).unwrap();
        // A recording, for which every packet is looked at in time order, changes nothing.
        let scenario = format!("{TWO_WAYS}[[flow]]\nfrom = \"a\"\nto = \"b\"\n{text}");
        let scenario = Draft::new(&scenario).unwrap().finish().unwrap();
        let recorded = sim::run(&scenario, 1, Some(&mut |_| ()), &mut |_| true).unwrap();
        assert_eq!(
            sim::batch::figures(&all),
            sim::batch::figures(&recorded),
            "{kind}"
        );
        let flow = &all.flows[0];
        assert_eq!(flow.timeouts, 0, "{kind}: {flow:?}");
        // The shorter way overtakes once: what looks lost then is not, and the window is given back.
        assert!(flow.retransmits < 200, "{kind}: {flow:?}");
        assert!(
            all.links[0].delivered_bps > 1e5,
            "{kind}: nothing took the watched way"
        );
        if kind == "bulk" {
            // 256 kB a round trip: 60 ms for seven seconds, 20 ms for three.
            let expected = 256e3 * 8.0 * (7.0 / 0.060 + 3.0 / 0.0215) / 10.0;
            assert!(
                (flow.goodput_bps / expected - 1.0).abs() < 0.1,
                "{} for {expected}",
                flow.goodput_bps
            );
        }
    }
}

#[test]
fn routes_that_cannot_be_are_refused() {
    let refused = |routes: &str| {
        let result = over_two_ways(&format!("kind = \"probe\"\nroutes = {routes}"));
        result.expect_err("it is refused").to_string()
    };
    assert!(refused("[{ via = [\"z\"] }]").contains("no node \"z\""));
    let order = refused("[{ at = \"5 s\", via = [\"y\"] }, { at = \"5 s\" }]");
    let back = refused("[{ at = \"5 s\", via = [\"y\"] }, { via = [\"x\"] }]");
    assert!(back.contains("must be later than the one before"), "{back}");
    assert!(
        order.contains("must be later than the one before"),
        "{order}"
    );
}

#[test]
fn a_burst_that_a_shaper_lets_through_waits_for_the_line() {
    // 150 Mbit/s for 50 ms meet 100 Mbit/s; the bucket holds it all. The last packet waits 25 ms.
    let all = sim::run(
        &Draft::new(
            "duration = \"50 ms\"\ntopology = \"linear\"\nsample = { queue = \"1 ms\" }\n\
             [link]\nrate = \"100 Mbit/s\"\nshaper = \"token_bucket:rate=20 Mbit/s,burst=2 MB\"\nqueue = \"fifo:packets=10000\"\n\
             [[flow]]\nkind = \"cbr\"\nrate = \"150 Mbit/s\"",
        )
        .unwrap()
        .finish()
        .unwrap(),
        1,
        None,
        &mut |_| true,
    )
    .unwrap();
    let queue = all.links[0].queue_ms;
    assert!((queue.mean - 12.5).abs() < 1.0, "{queue:?}");
}
