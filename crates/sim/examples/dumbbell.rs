//! The speed scenario without the scenario file: what a profiler should look at.
//! `cargo run --release -p tailback-sim --example dumbbell [SECONDS] [FLOWS] [MBIT_S]`, with a rate of its own without
//! losses

use base::rng::Streams;
use base::{BitsPerSec, Bytes, Duration, Time};
use link::LinkParams;
use link::rate::Rate;
use sim::network::{Blind, Network};
use sim::tcp::Settings;

fn line(rate: u64, delay_ms: u64, packets: u64) -> LinkParams {
    LinkParams::plain(
        Rate::fixed(BitsPerSec::from_mbps(rate)).expect("above zero"),
        Duration::from_millis(delay_ms),
        format!("fifo:packets={packets}").parse().expect("fifo"),
    )
}

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>());
    let mut arg = |default| args.next().and_then(Result::ok).unwrap_or(default);
    let (seconds, flows, own) = (arg(60), arg(10), arg(0));
    let (mbps, queue, window) = match own {
        0 => (100, 1000, 1_000_000),
        own => (own, 25 * own, (own * 21_250 / flows).max(2000)),
    };
    let streams = Streams::new(1);
    let mut network = Network::default();
    let there = network.add_link(&line(mbps, 50, queue), &streams, "there");
    let back = network.add_link(&line(mbps, 50, 1_000_000), &streams, "back");
    network.watch(there);
    let settings = Settings {
        mss: Bytes::new(1000),
        header: Bytes::new(40),
        delayed_ack: false,
        receive_window: Bytes::new(window),
        ..Settings::default()
    };
    for i in 0..flows {
        let mut add = |name: &str| {
            network.add_link(
                &line(mbps.max(1000), 5, 1_000_000),
                &streams,
                &format!("{name}/{i}"),
            )
        };
        let (a, b, c, d) = (add("out"), add("in"), add("home"), add("away"));
        network.connect(
            &settings,
            &[a, there, b],
            &[c, back, d],
            Time::from_millis(1000 * i / flows),
            u64::MAX,
            &streams,
        );
    }
    network.run_until(Time::from_secs(seconds), &mut Blind);
    let segments: u64 = network
        .connections
        .iter()
        .map(|c| c.receiver.received() / 1000)
        .sum();
    let stats = network.link_stats(there);
    println!(
        "{segments} segments, {:.2} Mbit/s, queue {:.1} ms, dropped {:.3} %, {} events",
        segments as f64 * 8e-3 / seconds as f64,
        network
            .sojourn(there)
            .and_then(sim::summary::Summary::mean)
            .unwrap_or(0.0)
            / 1e6,
        100.0 * stats.dropped_total().packets as f64 / stats.offered.packets as f64,
        network.events()
    );
    for c in &network.connections {
        println!("{:?} {:?}", c.sender.stats(), c.sender.controller());
    }
}
