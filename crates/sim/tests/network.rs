//! The network knows ahead what comes out of plain links; nothing may come of that but speed.

use base::rng::{Streams, uniform};
use base::{BitsPerSec, Bytes, Duration, Ecn, Packet, Time};
use link::rate::Rate;
use link::{Express, Link, LinkParams};
use sim::network::{Blind, Happening, Network, Observer};
use sim::segment::Segment;
use sim::source::{Law, Pattern, Source};
use sim::summary::Summary;
use sim::tcp::Settings;

/// Everything that an observer is told.
#[derive(Default)]
struct Diary {
    lines: Vec<(Time, String)>,
}

impl Observer for Diary {
    fn packet(&mut self, now: Time, what: Happening, packet: &Packet, segment: &Segment) {
        let (flow, len, ecn) = (packet.flow, packet.len, packet.ecn);
        let text = format!("{what:?} {flow:?} {len:?} {ecn:?} {segment:?}");
        self.lines.push((now, text));
    }
    fn answer(&mut self, now: Time, flow: usize, probe: &Segment, _ecn: Ecn) {
        self.lines.push((now, format!("answer {flow} {probe:?}")));
    }
    fn done(&mut self, now: Time, application: usize, what: &sim::source::Done) {
        self.lines
            .push((now, format!("done {application} {what:?}")));
    }
}

/// How a network is looked at.
#[derive(Clone, Copy, PartialEq)]
enum Look {
    /// No link knows anything ahead.
    Plodding,
    /// Plain links know ahead what comes out of them, and every packet is seen.
    Seeing,
    /// The same, and none is.
    Blind,
}

struct History {
    lines: Vec<(Time, String)>,
    figures: Vec<String>,
    /// Of each link's backlog; none where it was not looked at.
    samples: Vec<Summary>,
}

/// How often the backlog of links is looked at.
const SAMPLED: Duration = Duration::from_millis(10);

/// All that can be seen of a network: what it tells, and every figure now and then.
fn history(seed: u64, look: Look) -> History {
    let streams = Streams::new(seed);
    let mut rng = streams.stream("topology");
    let mut draw = |n: u64| (uniform(&mut rng) * n as f64) as u64;
    let (mut network, mut plain) = (Network::default(), Vec::new());
    let links: Vec<usize> = (0..3 + draw(10))
        .map(|i| {
            let queue = match draw(10) {
                0 => "codel".to_string(),
                1 => "red".to_string(),
                2 => format!("fifo:bytes={}", 1500 + draw(20_000)),
                n if n < 6 => format!("fifo:packets={}", 1 + draw(4)),
                _ => "fifo".to_string(),
            };
            // Few different rates and delays, so that many things happen at the same instant.
            let rate = Rate::fixed(BitsPerSec::from_kbps(800 << draw(5))).unwrap();
            let delay = Duration::from_millis(draw(4) * 5);
            let params = LinkParams {
                loss: (draw(12) == 0).then(|| "random:probability=0.02".parse().unwrap()),
                duplicate: if draw(12) == 0 { 0.02 } else { 0.0 },
                ..LinkParams::plain(rate, delay, queue.parse().unwrap())
            };
            plain.push(Express::<u32>::of(&params).is_some());
            let name = format!("link/{i}");
            let link = if look != Look::Plodding {
                network.add_link(&params, &streams, &name)
            } else {
                network.add_ready_link(Link::new(&params, &streams, &name))
            };
            if draw(2) == 0 {
                network.watch(link);
            }
            link
        })
        .collect();
    let route = |draw: &mut dyn FnMut(u64) -> u64| -> Vec<usize> {
        let from = draw(links.len() as u64) as usize;
        let hops = 1 + draw(5) as usize;
        // Neighbours in the row follow each other: many a link is fed by one other alone.
        let step = 1 + draw(2) as usize;
        (0..hops)
            .map(|i| links[(from + i * step) % links.len()])
            .collect()
    };
    for i in 0..1 + draw(4) {
        let settings = Settings {
            mss: Bytes::new(960),
            header: Bytes::new(40),
            delayed_ack: draw(2) == 0,
            pacing: draw(3) == 0,
            ecn: draw(3) == 0,
            receive_window: Bytes::new(20_000 + draw(200_000)),
            ..Settings::default()
        };
        let (there, back) = (route(&mut draw), route(&mut draw));
        let bytes = if draw(3) == 0 { 100_000 } else { u64::MAX };
        let start = Time::from_millis(i * draw(3) * 100);
        network.connect(&settings, &there, &back, start, bytes, &streams);
    }
    for i in 0..draw(4) {
        let pattern = Pattern {
            gap_s: if draw(2) == 0 {
                Law::Constant(0.01)
            } else {
                Law::Exponential(0.01)
            },
            echo: draw(2) == 0,
            ..Pattern::constant(Bytes::new(1000), Duration::ZERO)
        };
        let name = format!("source/{i}");
        let source = Source::new(pattern, Time::ZERO, Time::MAX, &streams, &name);
        let (there, back) = (route(&mut draw), route(&mut draw));
        network.add_source(source, &there, &back);
    }
    let (mut diary, mut figures) = (Diary::default(), Vec::new());
    let rate = BitsPerSec::from_mbps(1);
    let mut samples = vec![Summary::default(); links.len()];
    let mut sampled = Time::ZERO;
    for link in &links {
        let plain = look != Look::Plodding && plain[*link];
        if plain && network.sojourn(*link).is_some() {
            network.sample(*link, SAMPLED, Time::ZERO, rate);
        }
    }
    for step in 1..=40 {
        let now = Time::from_nanos(step * 73_123_457 + draw(1000));
        match look {
            Look::Blind => network.run_until(now, &mut Blind),
            Look::Seeing => network.run_until(now, &mut diary),
            Look::Plodding => {
                while sampled <= now {
                    network.run_until(sampled, &mut diary);
                    // To look at others changes when their packets are dropped.
                    let plain = links.iter().zip(&plain).zip(&mut samples);
                    for ((link, _), samples) in plain.filter(|((_, plain), _)| **plain) {
                        network.refresh(*link, &mut diary);
                        let backlog = network.link_stats(*link).backlog.bytes;
                        samples.add_span(backlog.serialization_delay_ceil(rate));
                    }
                    sampled += SAMPLED;
                }
                network.run_until(now, &mut diary);
            }
        }
        for link in &links {
            network.refresh(*link, &mut diary);
            let sojourn = network.sojourn(*link).cloned();
            figures.push(format!("{:?} {sojourn:?}", network.link_stats(*link)));
        }
        for c in &network.connections {
            let (sender, receiver) = (&c.sender, &c.receiver);
            figures.push(format!(
                "{} {:?} {:?} {} {} {:?}",
                sender.acknowledged(),
                sender.stats(),
                sender.controller(),
                receiver.received(),
                receiver.duplicates(),
                c.delay
            ));
        }
        for d in &network.datagrams {
            figures.push(format!(
                "{} {} {} {:?} {:?}",
                d.sent, d.received, d.lost, d.delay, d.rtt
            ));
        }
        figures.push(format!("{} under way", network.under_way()));
        if step == 10 {
            network.begin_measurement();
        }
    }
    for (link, samples) in links.iter().zip(&mut samples) {
        if let Some(taken) = network.backlog(*link) {
            samples.clone_from(taken);
        }
    }
    // At one instant there is no order that means anything.
    diary.lines.sort();
    History {
        lines: diary.lines,
        figures,
        samples,
    }
}

#[test]
fn what_is_known_ahead_of_plain_links_changes_nothing_that_can_be_seen() {
    let (mut seen, mut sampled) = (0, 0);
    for seed in 0..50 {
        let all = history(seed, Look::Plodding);
        let seeing = history(seed, Look::Seeing);
        let blind = history(seed, Look::Blind);
        let other = seeing.lines.iter().zip(&all.lines).find(|(a, b)| a != b);
        assert_eq!(other, None, "seed {seed}");
        assert_eq!(seeing.lines.len(), all.lines.len(), "seed {seed}");
        for ahead in [&seeing, &blind] {
            let other = ahead.figures.iter().zip(&all.figures);
            let other = other.enumerate().find(|(_, (a, b))| a != b);
            assert_eq!(other, None, "seed {seed}");
            for (link, (own, other)) in ahead.samples.iter().zip(&all.samples).enumerate() {
                if own.count() > 0 {
                    assert_eq!(own, other, "seed {seed}, link {link}");
                    sampled += 1;
                }
            }
        }
        seen += all.lines.len();
    }
    assert!(seen > 100_000, "{seen} lines prove little");
    assert!(sampled > 200, "{sampled} links prove little");
}
