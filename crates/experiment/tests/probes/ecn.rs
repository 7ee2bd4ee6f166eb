//! The kind `ecn` over chains of routers, drawn at random, that clear, replace or drop markings. ECN_SEED repeats the draws;
//! `make ecn-draws` prints the table of docs/book/probe/ecn.md.

use base::record::{Direction, Meta, Recording};
use base::rng::{Rng, Streams, uniform};
use base::{Bytes, Duration};
use experiment::ecn::{Fate, Finding, Part, Place, findings};
use experiment::spec::Far;
use experiment::{Bounds, Others, ProbeSpec, Setting};
use link::LinkSpec;
use sim::bufferbloat::network::{Router, Treatment, Version, Which};
use sim::bufferbloat::{Network, Plan, carry_out};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

const DRAWS: u64 = 200;
const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

/// Bits of the TOS byte that are kept and set; null to drop the datagram.
type Rewrite = Option<(u8, u8)>;

/// Treatments as they are seen on the Internet.
const TREATMENTS: &[(&str, Which, Rewrite)] = &[
    ("clears ECN", Which::Every, Some((0xfc, 0))),
    ("clears the TOS byte", Which::Every, Some((0, 0))),
    (
        "ECT(1) becomes ECT(0)",
        Which::Codepoint(1),
        Some((0xfc, 2)),
    ),
    ("ECT becomes CE", Which::Ecn, Some((0xfc, 3))),
    ("clears DSCPs", Which::Every, Some((3, 0))),
    ("clears the precedence", Which::Every, Some((0x1f, 0))),
    ("EF becomes CS1", Which::Dscp(46), Some((3, 8 << 2))),
    ("NQB is cleared", Which::Dscp(45), Some((3, 0))),
    ("all DSCPs become AF11", Which::Dscps, Some((3, 10 << 2))),
    ("unmarked become CS1", Which::Dscp(0), Some((3, 8 << 2))),
    ("drops ECN", Which::Ecn, None),
    ("drops CE", Which::Codepoint(3), None),
    ("drops EF", Which::Dscp(46), None),
    ("drops DSCPs", Which::Dscps, None),
    ("clears ECN of TCP", Which::TcpEcn, Some((0xfc, 0))),
    (
        "clears flags of handshakes",
        Which::Handshakes,
        Some((0, 0)),
    ),
    ("clears AE of handshakes", Which::Handshakes, Some((3, 0))),
    ("drops handshakes with ECN", Which::Handshakes, None),
    ("clears ACE", Which::Ace, Some((0, 0))),
    ("strips AccECN options", Which::AccEcn, Some((0, 0))),
    ("drops AccECN options", Which::AccEcn, None),
];

/// Conditions of the ICMP errors.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Errors {
    /// Every router answers and quotes the whole header; some limit their errors as Linux does.
    Usual,
    /// Routers may be silent, quote too little, or answer every few seconds only.
    Hard,
}

struct Drawn {
    plan: Plan,
    what: String,
}

fn pick(rng: &mut Rng, count: usize) -> usize {
    ((uniform(rng) * count as f64) as usize).min(count - 1)
}

fn router(rng: &mut Rng, hop: usize, errors: Errors) -> Router {
    let hard = errors == Errors::Hard;
    let limit = match pick(rng, 3) {
        0 => 1000,
        1 if hard => 4000,
        _ => 0,
    };
    Router {
        address: Ipv4Addr::new(10, 0, 0, hop as u8).into(),
        delay: Duration::from_micros(hop as u64 * 200),
        beyond: hop > 1,
        at_most_every: Duration::from_millis(limit),
        silent: hard && uniform(rng) < 0.25,
        // RFC 792 asks for eight bytes; RFC 1812 section 4.3.2.3 for as many as fit, which show TCP's flags and options.
        quotes: match pick(rng, 4) {
            0 if hard => 4,
            1 if hard => 8,
            2 if hard => 28,
            _ => 64,
        },
    }
}

fn draw(seed: u64, number: u64, errors: Errors) -> Drawn {
    let mut rng = Streams::new(seed ^ number << 20).stream("ecn");
    let count = 1 + pick(&mut rng, 6);
    let mut what = format!("{count} routers");
    let treatments = (0..pick(&mut rng, 4)).map(|_| {
        let (name, which, rewrite) = TREATMENTS[pick(&mut rng, TREATMENTS.len())];
        let treatment = Treatment {
            router: 1 + pick(&mut rng, count),
            direction: DIRECTIONS[pick(&mut rng, 2)],
            leaving: uniform(&mut rng) < 0.5,
            which,
            rewrite,
        };
        what += &format!(
            "; router {} {name} {:?}{}",
            treatment.router,
            treatment.direction,
            if treatment.leaving { ", leaving" } else { "" }
        );
        treatment
    });
    let treatments: Vec<Treatment> = treatments.collect();
    let network = Network {
        routers: (1..=count)
            .map(|hop| router(&mut rng, hop, errors))
            .collect(),
        treatments,
        v6: (uniform(&mut rng) < 0.3).then(Version::default),
        loss: [0.0, 0.002, 0.02][pick(&mut rng, 3)],
        ..Network::default()
    };
    let (rate, delay) = (1 + pick(&mut rng, 100), 1 + pick(&mut rng, 80));
    let text = format!(
        "name = \"t\"\ntitle = \"t\"\n[up]\nrate = \"{rate} Mbit/s\"\ndelay = \"{delay} ms\"\n[down]\nrate = \"{rate} Mbit/s\"\ndelay = \"{delay} ms\"\n"
    );
    let link = LinkSpec::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
    Drawn {
        plan: Plan {
            network,
            ..Plan::new(link, seed ^ number)
        },
        what,
    }
}

fn run(plan: &Plan) -> Recording {
    let spec: ProbeSpec = "ecn".parse().expect("a kind");
    let budget = Bytes::new(100_000_000);
    let setting = Setting {
        budget,
        far: Far::Virtual,
    };
    let mut steps = spec.steps(&setting).expect("it is enough");
    let bounds = Bounds {
        others: Others::Keep(Duration::ZERO),
        ..Bounds::of(budget)
    };
    let outcome = carry_out(plan, &mut *steps, &bounds, "probe").expect("it runs");
    Recording {
        meta: Meta {
            plan: serde_json::json!({ "probe": spec }),
            ..outcome.recording.meta
        },
        ..outcome.recording
    }
}

/// Bits that a marking is about.
fn field(part: Part, sent: u8) -> u8 {
    match sent {
        _ if part != Part::Udp => 0xff,
        0 => 0xff,
        1..=3 => 3,
        _ => 0xfc,
    }
}

/// True fate, and the hops between which it happens, counted from the sender.
fn truth(
    network: &Network,
    (direction, part): (Direction, Part),
    sent: u8,
) -> (Fate, Option<(u8, u8)>) {
    let count = network.routers.len();
    // The TOS byte and the value of the part, which are one of datagrams and of the IP header of segments.
    let in_ip = matches!(part, Part::Udp | Part::TcpEcn);
    let (mut value, mut place) = (sent, None);
    for hop in 1..=count {
        let router = match direction {
            Direction::Up => hop,
            Direction::Down => count + 1 - hop,
        };
        for leaving in [false, true] {
            let here = match leaving {
                false => (hop as u8 - 1, hop as u8),
                true => (hop as u8, hop as u8 + 1),
            };
            for t in &network.treatments {
                let tos = if in_ip { value } else { 0 };
                let (has, rewrites) = match t.which {
                    Which::Every => (true, in_ip),
                    Which::Ecn => (tos & 3 > 0, in_ip),
                    Which::Codepoint(c) => (tos & 3 == c, in_ip),
                    Which::Dscps => (tos > 3, in_ip),
                    Which::Dscp(d) => (tos >> 2 == d, in_ip),
                    Which::TcpEcn => (part == Part::TcpEcn && tos & 3 > 0, true),
                    Which::Handshakes => (part == Part::Handshake && value > 0, true),
                    Which::Ace => (part == Part::Ace && value > 0, true),
                    Which::AccEcn => (part == Part::AccEcn && value > 0, true),
                };
                if !has || (t.router, t.direction, t.leaving) != (router, direction, leaving) {
                    continue;
                }
                let Some((keep, set)) = t.rewrite else {
                    return (Fate::Lost, Some(here));
                };
                if !rewrites {
                    continue;
                }
                let new = value & keep | set;
                // Of segments, the codepoint alone is judged.
                let judged = |v: u8| if part == Part::TcpEcn { v & 3 } else { v };
                let same = |v: u8| (judged(v) ^ sent) & field(part, sent) == 0;
                if !same(new) && same(value) {
                    place = Some(here);
                }
                value = new;
            }
        }
    }
    if part == Part::TcpEcn {
        value &= 3;
    }
    match value & field(part, sent) {
        same if same == sent => (Fate::Kept, None),
        other => (Fate::Changed(other), place),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Judged {
    Right,
    CannotTell,
    Wrong,
}

fn judge(finding: &Finding, network: &Network) -> Judged {
    let (fate, place) = truth(network, (finding.direction, finding.part), finding.tos);
    if matches!(finding.fate, Fate::Unknown(_)) {
        return Judged::CannotTell;
    }
    if finding.fate != fate {
        return Judged::Wrong;
    }
    match (&finding.place, place) {
        (None, None) => Judged::Right,
        (Some(Place::Unknown(why)), Some(_)) if !why.is_empty() => Judged::CannotTell,
        (Some(Place::Between { after, by }), Some(truth)) => match by {
            Some(by) if (*after, *by) == truth => Judged::Right,
            by if *after <= truth.0 && by.is_none_or(|by| truth.1 <= by) => Judged::CannotTell,
            _ => Judged::Wrong,
        },
        _ => Judged::Wrong,
    }
}

/// Counts of right, cannot tell and wrong.
#[derive(Default)]
struct Score([usize; 3]);

impl Score {
    fn note(&mut self, judged: Judged) {
        self.0[judged as usize] += 1;
    }

    fn share(&self, of: Judged) -> f64 {
        self.0[of as usize] as f64 / self.0.iter().sum::<usize>().max(1) as f64
    }

    fn row(&self, what: &str) -> String {
        let [right, unknown, wrong] = [Judged::Right, Judged::CannotTell, Judged::Wrong]
            .map(|j| format!("{:.1} %", self.share(j) * 100.0));
        let all: usize = self.0.iter().sum();
        format!("| {what} | {all} | {right} | {unknown} | {wrong} |")
    }
}

/// Judges draws: of draws as a whole, of markings that are changed or lost, and of those that are kept.
fn draws(seed: u64, errors: Errors) -> [Score; 3] {
    let mut scores: [Score; 3] = Default::default();
    for number in 0..DRAWS {
        let drawn = draw(seed, number, errors);
        let all = findings(&run(&drawn.plan));
        let network = &drawn.plan.network;
        let lost = |d: &Direction| truth(network, (*d, Part::Udp), 0).0 == Fate::Lost;
        if DIRECTIONS.iter().any(lost) {
            // Not even unmarked datagrams pass.
            assert!(all.is_empty(), "draw {number}: {}", drawn.what);
            scores[0].note(Judged::CannotTell);
            continue;
        }
        let families = 1 + usize::from(network.v6.is_some());
        assert_eq!(all.len(), 57 * families, "draw {number}: {}", drawn.what);
        let mut worst = Judged::Right;
        for finding in &all {
            let judged = judge(finding, network);
            let kept =
                truth(network, (finding.direction, finding.part), finding.tos).0 == Fate::Kept;
            scores[1 + usize::from(kept)].note(judged);
            worst = worst.max(judged);
            if judged == Judged::Wrong || judged == Judged::CannotTell && errors == Errors::Usual {
                println!(
                    "ECN_SEED={seed}, draw {number}: {}: {judged:?}: {finding:?}; truth {:?}",
                    drawn.what,
                    truth(network, (finding.direction, finding.part), finding.tos)
                );
            }
        }
        scores[0].note(worst);
    }
    scores
}

fn seed() -> u64 {
    let given = std::env::var("ECN_SEED").ok();
    let seed = given.map_or(20_261_124, |s| s.parse().expect("ECN_SEED is a number"));
    println!("ECN_SEED={seed}");
    seed
}

fn print(title: &str, scores: &[Score; 3]) {
    println!("| {title} | judged | right | cannot tell | wrong |\n|---|---|---|---|---|");
    let names = ["draws", "markings changed or dropped", "markings kept"];
    for (name, score) in names.iter().zip(scores) {
        println!("{}", score.row(name));
    }
}

#[test]
fn ecn_changes_and_losses_are_placed_at_their_hop_and_direction() {
    let scores = draws(seed(), Errors::Usual);
    print("every router answers", &scores);
    for score in &scores {
        assert!(score.share(Judged::Right) >= 0.95, "{:?}", score.0);
        assert!(score.share(Judged::Wrong) <= 0.01, "{:?}", score.0);
    }
}

#[test]
fn ecn_hops_that_answer_little_make_the_answer_vague_and_not_wrong() {
    let scores = draws(seed(), Errors::Hard);
    print("silent routers, short quotes, limits", &scores);
    for score in &scores {
        assert!(score.share(Judged::Wrong) <= 0.01, "{:?}", score.0);
    }
}

/// A chain of three routers, the second of which treats all markings in this way.
fn chain(which: Which, rewrite: Option<(u8, u8)>) -> Plan {
    let mut rng = Streams::new(1).stream("chain");
    let plan = draw(1, 1, Errors::Usual).plan;
    let treatment = Treatment {
        router: 2,
        direction: Direction::Up,
        leaving: true,
        which,
        rewrite,
    };
    Plan {
        network: Network {
            routers: (1..=3)
                .map(|hop| router(&mut rng, hop, Errors::Usual))
                .collect(),
            treatments: vec![treatment],
            loss: 0.0,
            v6: None,
            ..plan.network
        },
        ..plan
    }
}

fn answer(plan: &Plan) -> experiment::Outcome {
    let answer = experiment::analyse(&run(plan)).expect("it is of a probe");
    answer.outcome
}

#[test]
fn ecn_cleared_by_the_second_router_is_an_interval_of_hops_and_an_alert() {
    let outcome = answer(&chain(Which::Every, Some((0xfc, 0))));
    assert_eq!(super::figure(&outcome, "up_v4_ecn_kept").0, 0.0);
    assert_eq!(super::figure(&outcome, "up_v4_dscp_kept").0, 1.0);
    assert_eq!(super::figure(&outcome, "down_v4_ecn_kept").0, 1.0);
    assert_eq!(super::figure(&outcome, "up_v4_ecn_hop"), (3.0, 2.0, 3.0));
    assert!(
        outcome
            .alerts
            .iter()
            .any(|a| a.what.contains("ECN is cleared"))
    );
}

#[test]
fn ecn_without_icmp_errors_has_a_fate_and_a_reason_in_place_of_the_hop() {
    let mut plan = chain(Which::Ecn, None);
    plan.network
        .routers
        .iter_mut()
        .for_each(|r| r.silent = true);
    let outcome = answer(&plan);
    assert_eq!(super::figure(&outcome, "up_v4_ecn_kept").0, 0.0);
    assert_eq!(outcome.figure("up_v4_ecn_hop").value(), None);
    assert!(
        outcome
            .doubts
            .iter()
            .any(|d| d.contains("ICMP may be filtered"))
    );
    // Quotes without the UDP header.
    let mut plan = chain(Which::Ecn, None);
    plan.network.routers.iter_mut().for_each(|r| r.quotes = 4);
    let outcome = answer(&plan);
    assert_eq!(outcome.figure("up_v4_ecn_hop").value(), None);
    assert!(
        outcome
            .doubts
            .iter()
            .any(|d| d.contains("quote too little"))
    );
}

/// The draws are not about a few treatments only.
#[test]
fn ecn_draws_hold_every_treatment() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for number in 0..DRAWS {
        let what = draw(seed(), number, Errors::Usual).what;
        for (name, ..) in TREATMENTS {
            *seen.entry(name).or_default() += usize::from(what.contains(name));
        }
    }
    assert!(seen.values().all(|n| *n > 0), "{seen:?}");
}
