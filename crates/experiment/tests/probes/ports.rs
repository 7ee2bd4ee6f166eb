//! The kind `ports` on ways that block ports at random. A failure names the seed.

use super::figure;
use super::nat::{Way, run};
use base::rng::{Streams, uniform};
use measure::control::listen::Transport;
use sim::bufferbloat::network::Block;
use std::collections::BTreeMap;

const TCP: [u16; 6] = [22, 25, 80, 443, 993, 5060];
const UDP: [u16; 4] = [53, 123, 443, 51_820];
const BLOCKS: [(Block, &str); 5] = [
    (Block::Silent, "silent"),
    (Block::Refused, "refused"),
    (Block::Somebody, "somebody"),
    (Block::AnswerLost, "one_way"),
    (Block::InUse, "untried"),
];

#[test]
fn blocks_drawn_at_random_are_counted_by_their_kind() {
    for seed in 0..40 {
        let mut rng = Streams::new(seed).stream("blocks");
        let mut ports = BTreeMap::new();
        let tcp = TCP.map(|p| (Transport::Tcp, p));
        for port in tcp.into_iter().chain(UDP.map(|p| (Transport::Udp, p))) {
            let which = (uniform(&mut rng) * 10.0) as usize;
            if let Some((block, _)) = BLOCKS.get(which) {
                ports.insert(port, *block);
            }
        }
        let list = |all: &[u16]| {
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            all.join(";")
        };
        let spec = format!("ports:tcp={},udp={}", list(&TCP), list(&UDP));
        let way = Way {
            ports: ports.clone(),
            ..Way::default()
        };
        let outcome = run(&spec, way);
        let open = TCP.len() + UDP.len() - ports.len();
        assert_eq!(figure(&outcome, "open").0 as usize, open, "seed {seed}");
        for (block, key) in BLOCKS {
            let blocked = ports.values().filter(|b| **b == block).count();
            let found = figure(&outcome, key).0 as usize;
            assert_eq!(found, blocked, "seed {seed}: {key}: {}", outcome.says);
        }
    }
}

/// Open ports behind a link that loses a fifth to half of the packets each way: few are called blocked.
#[test]
fn losses_are_no_block() {
    let list = |all: &[u16]| {
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        all.join(";")
    };
    let spec = format!("ports:tcp={},udp={}", list(&TCP), list(&UDP));
    let (mut blocked, mut untold, mut tried) = (0.0, 0.0, 0.0);
    for seed in 0..60 {
        let mut rng = Streams::new(seed).stream("losses");
        let way = Way {
            loss: 0.2 + 0.3 * uniform(&mut rng),
            seed,
            ..Way::default()
        };
        let outcome = run(&spec, way);
        let of = |key: &str| figure(&outcome, key).0;
        blocked += ["silent", "refused", "somebody", "one_way"]
            .map(of)
            .iter()
            .sum::<f64>();
        untold += of("untried");
        tried += (TCP.len() + UDP.len()) as f64;
    }
    println!("of {tried} open ports: {blocked} blocked, {untold} cannot be told");
    assert!(blocked <= 0.02 * tried, "{blocked} of {tried}");
    assert!(untold > 0.0);
}

#[test]
fn more_ports_than_can_be_tried_are_refused_with_the_limit() {
    let many: Vec<String> = (1..=300).map(|p| p.to_string()).collect();
    let spec: experiment::ProbeSpec = format!("ports:tcp={}", many.join(";"))
        .parse()
        .expect("a spec");
    let budget = base::Bytes::new(1 << 30);
    let refused = spec.steps(&experiment::Setting::of(budget)).err();
    assert!(refused.is_some_and(|e| e.to_string().contains("at most 256")));
}
