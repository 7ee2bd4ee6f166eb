//! Quantiles of a run against the sorted delays of its packets, over random scenarios.

use base::rng::{Rng, Streams, uniform};
use base::sketch::quantile;
use base::{Ecn, Packet, Time};
use sim::network::{Happening, Network, Observer};
use sim::plan::{End, build};
use sim::segment::Segment;
use sim::{Draft, Scenario, run};
use std::collections::BTreeMap;

/// Delays of all packets with payload, by flow, and RTTs of probes, ns.
#[derive(Default)]
struct Delays {
    from: Time,
    one_way: BTreeMap<u64, Vec<u64>>,
    rtt: BTreeMap<usize, Vec<u64>>,
}

impl Observer for Delays {
    fn packet(&mut self, now: Time, what: Happening, packet: &Packet, segment: &Segment) {
        if what == Happening::Received && now > self.from {
            let delay = now.saturating_since(segment.sent).as_nanos();
            self.one_way.entry(packet.flow.0).or_default().push(delay);
        }
    }
    fn answer(&mut self, now: Time, flow: usize, probe: &Segment, _ecn: Ecn) {
        if now > self.from {
            let rtt = now.saturating_since(probe.sent).as_nanos();
            self.rtt.entry(flow).or_default().push(rtt);
        }
    }
}

/// Draws a scenario: a long path, and flows that make its queue wait now and then.
fn draw(rng: &mut Rng) -> String {
    let mut between = |low: u64, high: u64| low + (uniform(rng) * (high - low) as f64) as u64;
    let queues = [
        "fifo:packets=50",
        "codel",
        "fq_codel",
        "pie",
        "red:limit=100",
    ];
    let queue = queues[between(0, 5) as usize];
    let (rate, delay) = (between(2_000, 20_000), between(1, 200));
    let (load, size) = (between(rate / 10, rate / 2), between(100, 1500));
    let gap = between(1, 20);
    format!(
        "duration = \"40 s\"\nwarmup = \"{warmup} s\"\n[link]\nrate = \"{rate} kbit/s\"\ndelay = \"{delay} ms\"\nqueue = \"{queue}\"\n\
         [[flow]]\nkind = \"bulk\"\n[[flow]]\nkind = \"poisson\"\nrate = \"{load} kbit/s\"\nsize = \"{size} B\"\n\
         [[flow]]\nkind = \"probe\"\ngap = \"{gap} ms\"\n",
        warmup = between(0, 10),
    )
}

/// 95 % point of sorted values, ms, and the smallest of them: no less than the delay of the idle path.
fn sorted(mut values: Vec<u64>, p: f64) -> (f64, f64) {
    values.sort_unstable();
    let exact = quantile(values.len() as u64, p, |k| values[k as usize] as f64);
    (exact.unwrap() / 1e6, values[0] as f64 / 1e6)
}

fn flow(network: &Network, end: End) -> u64 {
    match end {
        End::Tcp(i) => network.connections[network.host(i).channels()[0]].flow().0,
        End::Datagrams(i) => network.datagrams[i].flows().0.0,
    }
}

#[test]
fn quantiles_of_delays_are_right_to_a_thousandth_of_the_wait() {
    let (mut compared, mut long) = (0, 0);
    for seed in 0..20 {
        let text = draw(&mut Streams::new(seed).stream("scenario"));
        let scenario: Scenario = Draft::new(&text).unwrap().finish().unwrap();
        let outcome = run(&scenario, seed, None, &mut |_| true).unwrap();
        let mut plan = build(&scenario, seed).unwrap();
        let mut delays = Delays {
            from: Time::ZERO + scenario.warmup,
            ..Delays::default()
        };
        plan.network
            .run_until(Time::ZERO + scenario.duration, &mut delays);
        let mut near = |what: &str, got: f64, values: Vec<u64>, p: f64| {
            long += usize::from(values.len() > sim::summary::EXACT);
            let (exact, idle) = sorted(values, p);
            assert!(
                (got - exact).abs() <= 0.001 * (exact - idle) + 2e-6,
                "seed {seed}, {what}: {got} ms for {exact} ms, {idle} ms while idle\n{text}"
            );
            compared += 1;
        };
        for (instance, figures) in plan.flows.iter().zip(&outcome.flows) {
            let all = delays.one_way.remove(&flow(&plan.network, instance.end));
            let p95 = figures.delay_p95_ms.unwrap();
            near(&figures.name, p95, all.unwrap(), 0.95);
            if let (End::Datagrams(i), Some(rtt)) = (instance.end, figures.rtt_ms) {
                let all = delays.rtt.remove(&i).unwrap();
                for (p, got) in [(0.5, rtt.p50), (0.95, rtt.p95), (0.99, rtt.p99)] {
                    near("rtt", got, all.clone(), p);
                }
            }
        }
    }
    assert!(
        compared > 100 && long > 20,
        "{compared} compared, {long} of them long"
    );
}
