//! Random links and hosts. Nothing here knows what the analysis makes of them.

use crate::chance::Chance;
use base::record::Direction;
use base::{BitsPerSec, Bytes, Duration};
use link::{DirectionSpec, LinkSpec, RateSpec};
use sim::bufferbloat::{Cross, Hosts, Limits};

/// Speciality of a link or its hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Clean,
    Discipline,
    RandomLoss,
    BurstyLoss,
    Jitter,
    Reordering,
    Drift,
    Framing,
    Policer,
    TokenBucket,
    Steps,
    RandomWalk,
    Cellular,
    ReceiveWindow,
    Application,
    SlowReader,
    Clock,
    CrossTraffic,
    Processor,
    Mixed,
}

/// Families and how often each is drawn.
const WEIGHTS: &[(Family, f64)] = &[
    (Family::Clean, 31.0),
    (Family::Discipline, 18.0),
    (Family::RandomLoss, 6.0),
    (Family::BurstyLoss, 4.0),
    (Family::Jitter, 6.0),
    (Family::Reordering, 4.0),
    (Family::Drift, 5.0),
    (Family::Framing, 3.0),
    (Family::Policer, 3.0),
    (Family::TokenBucket, 4.0),
    (Family::Steps, 3.0),
    (Family::RandomWalk, 3.0),
    (Family::Cellular, 3.0),
    (Family::ReceiveWindow, 4.0),
    (Family::Application, 2.0),
    (Family::SlowReader, 3.0),
    (Family::Clock, 3.0),
    (Family::CrossTraffic, 4.0),
    (Family::Processor, 9.0),
    (Family::Mixed, 12.0),
];

/// Families of which a mixed link has two or three.
const MIXED: [Family; 15] = [
    Family::Discipline,
    Family::RandomLoss,
    Family::BurstyLoss,
    Family::Jitter,
    Family::Reordering,
    Family::Drift,
    Family::Framing,
    Family::Policer,
    Family::TokenBucket,
    Family::Steps,
    Family::RandomWalk,
    Family::Cellular,
    Family::ReceiveWindow,
    Family::Clock,
    Family::CrossTraffic,
];

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Family::Clean => "clean",
            Family::Discipline => "discipline",
            Family::RandomLoss => "random loss",
            Family::BurstyLoss => "bursty loss",
            Family::Jitter => "jitter",
            Family::Reordering => "reordering",
            Family::Drift => "drift",
            Family::Framing => "framing",
            Family::Policer => "policer",
            Family::TokenBucket => "token bucket",
            Family::Steps => "rate steps",
            Family::RandomWalk => "rate walk",
            Family::Cellular => "cellular",
            Family::ReceiveWindow => "receive window",
            Family::Application => "application",
            Family::SlowReader => "slow reader",
            Family::Clock => "clock",
            Family::CrossTraffic => "cross traffic",
            Family::Processor => "processor",
            Family::Mixed => "mixed",
        }
    }

    /// True if such hosts can be made in this kind of draw.
    fn fits(self, kind: Kind) -> bool {
        match kind {
            Kind::Virtual => self != Family::Processor,
            // The program's own load and the machine's one clock; a slow processor limits the load instead.
            Kind::Namespaces => !matches!(
                self,
                Family::Application | Family::SlowReader | Family::Clock
            ),
        }
    }
}

/// One random link with its hosts.
#[derive(Clone, Debug)]
pub struct Draw {
    pub number: u64,
    pub family: Family,
    pub link: LinkSpec,
    pub hosts: Hosts,
    pub cross: Vec<Cross>,
    /// Share of one processor that this host and the server get; all if none.
    pub processor: [Option<f64>; 2],
    /// Segments that leave the loads' senders together.
    pub burst: u64,
    /// Seed of the simulation.
    pub seed: u64,
}

/// Place in which a link is run; it limits the draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Virtual,
    Namespaces,
}

/// The `number`-th draw of a seed.
pub fn draw(seed: u64, number: u64, kind: Kind) -> Draw {
    let name = match kind {
        Kind::Virtual => "virtual",
        Kind::Namespaces => "namespaces",
    };
    let c = &mut Chance::new(seed, &format!("draws/{name}/{number}"));
    let family = loop {
        let family = c.weighted(WEIGHTS);
        if family.fits(kind) {
            break family;
        }
    };
    let mut draw = Draw {
        number,
        family,
        link: plain(c, kind, number),
        hosts: hosts(c),
        cross: Vec::new(),
        processor: [None; 2],
        burst: c.pick(&[1, 1, 2, 4]),
        seed: (seed << 20) ^ number,
    };
    special(c, &mut draw, kind);
    draw
}

/// Numbers of the first `count` draws of a seed, or of those of one family.
///
/// # Errors
/// A family that does not exist, or not in this kind of draw.
pub fn numbers(
    seed: u64,
    count: u64,
    kind: Kind,
    family: Option<&str>,
) -> anyhow::Result<Vec<u64>> {
    let name = match family {
        Some(name) if count > 0 => name,
        _ => return Ok((0..count).collect()),
    };
    let known = WEIGHTS.iter().map(|w| w.0).filter(|f| f.fits(kind));
    let names: Vec<&str> = known.map(Family::name).collect();
    anyhow::ensure!(
        names.contains(&name),
        "no family \"{name}\" among these draws; there are {}",
        names.join(", ")
    );
    let all = 0u64..;
    let of_family = all.filter(|n| draw(seed, *n, kind).family.name() == name);
    Ok(of_family.take(count as usize).collect())
}

fn hosts(c: &mut Chance) -> Hosts {
    Hosts {
        ahead_ns: (c.uniform(-1.0, 1.0) * 1e8) as i64,
        drift_ppm: c.uniform(-5.0, 5.0),
        stamp_late: Duration::from_nanos(c.log(2e3, 40e3) as u64),
        limits: [Limits::default(); 2],
    }
}

/// A rate of one direction, bit/s.
fn rate(c: &mut Chance, kind: Kind) -> f64 {
    let (low, high) = match (kind, c.unit()) {
        (_, u) if u < 0.06 => (65e3, 200e3),
        (Kind::Virtual, u) if u < 0.10 => (100e6, 300e6),
        (Kind::Namespaces, _) => (200e3, 60e6),
        _ => (200e3, 100e6),
    };
    c.log(low, high)
}

fn plain(c: &mut Chance, kind: Kind, number: u64) -> LinkSpec {
    let down = rate(c, kind);
    let ratio = c.log(1.0, 20.0);
    let up = match c.unit() {
        u if u < 0.25 => down,
        u if u < 0.33 => (down * ratio).min(100e6),
        _ => down / ratio,
    }
    .max(65e3);
    let rtt_ms = c.log(2.0, 600.0);
    let share = c.uniform(0.3, 0.7);
    let direction = |c: &mut Chance, rate: f64, delay_ms: f64| DirectionSpec {
        queue: drop_tail(c, rate, rtt_ms),
        delay: ms(delay_ms),
        mtu: Bytes::new(1500),
        framing: None,
        policer: None,
        shaper: None,
        drift: None,
        delays: None,
        jitter: None,
        loss: None,
        reorder: None,
        sleep: None,
        duplicate: 0.0,
        rate: RateSpec::Fixed(bps(rate)),
    };
    LinkSpec {
        name: format!("draw-{number}"),
        title: format!("Random link {number}"),
        up: direction(c, up, rtt_ms * share),
        down: direction(c, down, rtt_ms * (1.0 - share)),
    }
}

fn bps(rate: f64) -> BitsPerSec {
    BitsPerSec::new(rate.round() as u64)
}

fn ms(ms: f64) -> Duration {
    Duration::from_nanos((ms * 1e3).round() as u64 * 1000)
}

/// Packets of 1500 bytes in `time_ms` at `rate`.
fn packets_in(rate: f64, time_ms: f64) -> f64 {
    rate * time_ms / 8e3 / 1500.0
}

/// A queue of 0.1 to 60 bandwidth-delay products, no longer than 4 s and no shorter than four packets.
fn queue_packets(c: &mut Chance, rate: f64, rtt_ms: f64) -> u64 {
    let most = packets_in(rate, 4_000.0);
    let wanted = c.log(0.1, 60.0) * packets_in(rate, rtt_ms);
    wanted.min(most).round().max(4.0) as u64
}

fn drop_tail(c: &mut Chance, rate: f64, rtt_ms: f64) -> link::qdisc::registry::QdiscSpec {
    let packets = queue_packets(c, rate, rtt_ms);
    let text = match c.is(0.5) {
        true => format!("fifo:packets={packets}"),
        false => {
            let bytes = packets * 1500 + (c.unit() * 1500.0) as u64;
            format!("fifo:bytes={bytes} B")
        }
    };
    text.parse().expect("a queue of at least two packets")
}

/// Any discipline but drop-tail, with parameters around what fits the link.
fn any_discipline(c: &mut Chance, rate: f64, rtt_ms: f64) -> link::qdisc::registry::QdiscSpec {
    let names: Vec<&str> = link::qdisc::registry::QDISCS
        .iter()
        .map(|s| s.entry.name)
        .filter(|n| *n != "fifo")
        .collect();
    let name = c.pick(&names);
    let target = c.log(3.0, 30.0);
    let interval = target * c.uniform(10.0, 20.0);
    let quantum = c.pick(&[300, 1000, 1514]);
    let bdp = packets_in(rate, rtt_ms.max(20.0));
    let limit = queue_packets(c, rate, rtt_ms.max(20.0)).max(20);
    let text = match name {
        "codel" => format!("codel:target={target:.3}ms,interval={interval:.3}ms"),
        "fq_codel" => {
            format!("fq_codel:target={target:.3}ms,interval={interval:.3}ms,quantum={quantum} B")
        }
        "cake" => format!("cake:target={target:.3}ms,interval={interval:.3}ms"),
        "pie" => format!(
            "pie:variant={},target={:.3}ms",
            c.pick(&["rfc8033", "linux"]),
            target.max(5.0)
        ),
        "fq_pie" => format!("fq_pie:target={:.3}ms,quantum={quantum} B", target.max(5.0)),
        "dualpi2" => format!("dualpi2:target={:.3}ms", target.max(5.0)),
        "red" => {
            let min = (bdp * c.uniform(0.2, 1.0)).round().max(4.0) as u64;
            let limit = min * 9;
            format!("red:min={min},max={},max_p=0.1,limit={limit}", min * 3)
        }
        "pi" => {
            let reference = (bdp * c.uniform(0.3, 1.5)).round().max(10.0) as u64;
            format!("pi:reference={reference},limit={}", reference * 4)
        }
        "blue" => format!("blue:limit={limit}"),
        "sfb" => {
            let bin = (bdp * c.uniform(0.3, 1.0)).round().max(10.0) as u64;
            format!("sfb:bin_size={bin},limit={}", bin * 10)
        }
        "sred" => format!("sred:limit={}", limit.max(30)),
        "prio" | "drr" => {
            let rest = c.pick(&["pie", "fifo", "codel", "fq_codel"]);
            format!("{name}:rest={rest},limit={limit}")
        }
        "tbf" => {
            let own = rate * c.uniform(0.5, 0.95);
            format!(
                "tbf:rate={} bit/s,burst={} B,limit={limit}",
                own.round(),
                (c.log(3e3, 100e3)) as u64
            )
        }
        other => other.to_string(),
    };
    text.parse()
        .unwrap_or_else(|e| panic!("{text}: every discipline of the registry is drawn: {e}"))
}

fn mean_rate(d: &DirectionSpec) -> f64 {
    match &d.rate {
        RateSpec::Fixed(rate) => rate.get() as f64,
        _ => d.params().map_or(1e6, |p| p.rate.mean().get() as f64),
    }
}

/// Both directions of a link.
fn directions(link: &mut LinkSpec) -> [&mut DirectionSpec; 2] {
    [&mut link.up, &mut link.down]
}

/// Changes the plain link into one of its family.
fn special(c: &mut Chance, draw: &mut Draw, kind: Kind) {
    let rtt_ms = draw.link.propagation_rtt().as_millis_f64();
    let families = match draw.family {
        Family::Mixed => mixture(c, kind),
        one => vec![one],
    };
    let kept_queue = [
        Family::Clean,
        Family::Discipline,
        Family::Policer,
        Family::TokenBucket,
    ];
    let other_queue = !families.iter().any(|f| kept_queue.contains(f));
    let any_queue = families.contains(&Family::Discipline);
    for d in directions(&mut draw.link) {
        let rate = mean_rate(d);
        if any_queue || (other_queue && c.is(0.15)) {
            d.queue = any_discipline(c, rate, rtt_ms);
        }
        for family in &families {
            impair(c, *family, d, rate, rtt_ms);
        }
    }
    for family in families {
        surround(c, family, draw, kind, rtt_ms);
    }
}

/// Two or three different families, of which one at most says what the rate and the queue are, one what is
/// lost, and one how the base delay moves.
fn mixture(c: &mut Chance, kind: Kind) -> Vec<Family> {
    let group = |f: Family| match f {
        Family::Discipline
        | Family::Steps
        | Family::RandomWalk
        | Family::Cellular
        | Family::Policer
        | Family::TokenBucket => 0,
        Family::RandomLoss | Family::BurstyLoss => 1,
        // What a probe waited beyond the queue is either the one or the other.
        Family::Jitter | Family::Drift => 2,
        other => 3 + other as usize,
    };
    let mut families: Vec<Family> = Vec::new();
    let count = c.pick(&[2, 2, 3]);
    while families.len() < count {
        let next = c.pick(&MIXED);
        if next.fits(kind) && families.iter().all(|f| group(*f) != group(next)) {
            families.push(next);
        }
    }
    families
}

/// The hosts and the traffic of a family.
fn surround(c: &mut Chance, family: Family, draw: &mut Draw, kind: Kind, rtt_ms: f64) {
    match family {
        Family::ReceiveWindow | Family::Application | Family::SlowReader => {
            limit(c, draw, family, rtt_ms);
        }
        Family::Clock => {
            draw.hosts.ahead_ns = (c.uniform(-1.0, 1.0) * 3.6e12) as i64;
            draw.hosts.drift_ppm = c.uniform(-100.0, 100.0);
        }
        Family::CrossTraffic => cross(c, draw, kind),
        Family::Processor => {
            for end in c.pick(&[&[0usize][..], &[1], &[0, 1]]) {
                draw.processor[*end] = Some(c.log(0.01, 0.3));
            }
        }
        _ => {}
    }
}

/// Traffic beside the test, in bursts or all the time.
fn cross(c: &mut Chance, draw: &mut Draw, kind: Kind) {
    for (direction, d) in [
        (Direction::Up, &draw.link.up),
        (Direction::Down, &draw.link.down),
    ] {
        if !c.is(0.7) {
            continue;
        }
        let always = c.is(0.5);
        let second = |c: &mut Chance| Duration::from_secs_f64(c.log(0.3, 5.0));
        draw.cross.push(Cross {
            direction,
            rate: bps(mean_rate(d) * c.log(0.02, 0.5)),
            on: second(c),
            off: if always { Duration::ZERO } else { second(c) },
            // Two namespaces have no third host.
            here: c.is(0.5) || kind == Kind::Namespaces,
        });
    }
}

/// Impairments of the link and behaviour of its rate.
fn impair(c: &mut Chance, family: Family, d: &mut DirectionSpec, rate: f64, rtt_ms: f64) {
    let parsed = "a value that was drawn within its range";
    match family {
        Family::RandomLoss => {
            let text = format!("random:probability={:.6}", c.log(1e-4, 3e-2));
            d.loss = Some(text.parse().expect(parsed));
        }
        Family::BurstyLoss => {
            let share = c.log(1e-4, 3e-2);
            let r = 1.0 / c.log(2.0, 20.0);
            let text = format!(
                "gilbert_elliott:p={:.8},r={r:.6}",
                share * r / (1.0 - share)
            );
            d.loss = Some(text.parse().expect(parsed));
        }
        Family::Jitter => {
            let width = c.log(0.1, 30.0);
            let overtake = c.is(0.2);
            let text = match c.pick(&["uniform", "normal", "weibull"]) {
                "uniform" => format!("uniform:width={width:.3}ms,overtake={overtake}"),
                "normal" => format!(
                    "normal:mean={:.3}ms,sd={:.3}ms,overtake={overtake}",
                    width / 2.0,
                    width / 4.0
                ),
                _ => format!(
                    "weibull:shape={:.3},scale={:.3}ms,overtake={overtake}",
                    c.log(0.5, 3.0),
                    width / 3.0
                ),
            };
            d.jitter = Some(text.parse().expect(parsed));
        }
        Family::Reordering => {
            let text = format!(
                "late:probability={:.6},delay={:.3}ms",
                c.log(1e-4, 5e-2),
                c.log(0.5, 30.0)
            );
            d.reorder = Some(text.parse().expect(parsed));
        }
        Family::Drift => {
            let height = c.uniform(2.0, 30.0);
            let seconds = c.log(10.0, 90.0);
            let text = match c.pick(&["ramp", "wave", "walk"]) {
                "ramp" => format!(
                    "ramp:to={height:.3}ms,start={:.3}s,over={seconds:.3}s",
                    c.uniform(0.0, 20.0)
                ),
                "wave" => format!("wave:height={height:.3}ms,period={seconds:.3}s"),
                _ => format!("walk:sd={:.3}ms,most={height:.3}ms", c.log(0.2, 3.0)),
            };
            d.drift = Some(text.parse().expect(parsed));
        }
        Family::Framing => {
            let names: Vec<&str> = base::framing::framings().map(|f| f.name).collect();
            d.framing = Some(c.pick(&names).parse().expect(parsed));
        }
        Family::Policer | Family::TokenBucket => bucket(c, family, d, rate, rtt_ms),
        Family::Steps => {
            let high = rate;
            let low = rate * c.uniform(0.3, 0.8);
            let half = c.log(1.0, 15.0);
            d.rate = steps(&[(0.0, high), (half, low)], Some(2.0 * half));
        }
        Family::RandomWalk => {
            let mut at = rate;
            let each = c.log(0.2, 2.0);
            let points: Vec<(f64, f64)> = (0..120)
                .map(|i| {
                    at = (at * c.uniform(0.8, 1.25)).clamp(rate * 0.4, rate * 1.6);
                    (f64::from(i) * each, at)
                })
                .collect();
            d.rate = steps(&points, Some(120.0 * each));
        }
        Family::Cellular => d.rate = cellular(c, rate.clamp(200e3, 60e6)),
        _ => {}
    }
}

/// A policer or a shaper of the drawn rate on a faster line, or a discipline that shapes.
fn bucket(c: &mut Chance, family: Family, d: &mut DirectionSpec, rate: f64, rtt_ms: f64) {
    let parsed = "a bucket of at least two packets";
    let depth = (c.log(0.02, 0.5) * rate / 8.0).clamp(3_028.0, 2e6) as u64;
    let rate_text = format!("rate={} bit/s,burst={depth} B", rate.round());
    let bucket = format!("token_bucket:{rate_text}");
    match family {
        Family::Policer => d.policer = Some(bucket.parse().expect(parsed)),
        _ if c.is(0.5) => d.shaper = Some(bucket.parse().expect(parsed)),
        _ => {
            let limit = queue_packets(c, rate, rtt_ms);
            d.queue = format!("tbf:{rate_text},limit={limit}")
                .parse()
                .expect(parsed);
        }
    }
    d.rate = RateSpec::Fixed(bps((rate * c.log(2.0, 10.0)).min(1e9)));
}

fn steps(points: &[(f64, f64)], repeat_s: Option<f64>) -> RateSpec {
    RateSpec::Steps {
        steps: points
            .iter()
            .map(|(at, rate)| link_step(*at, *rate))
            .collect(),
        repeat: repeat_s.map(|s| ms(s * 1e3)),
    }
}

fn link_step(at_s: f64, rate: f64) -> link::Step {
    link::Step {
        at: ms(at_s * 1e3),
        rate: bps(rate),
    }
}

/// Delivery opportunities of a fading channel: a rate that moves every 20 ms around its mean, over 60 s.
fn cellular(c: &mut Chance, rate: f64) -> RateSpec {
    let mut millis = Vec::new();
    let (mut level, mut owed) = (0.0, 0.0);
    for slot in 0..3000u64 {
        level = 0.97 * level + c.uniform(-0.16, 0.16);
        let now = rate * f64::exp(level.clamp(-1.2, 0.9));
        for i in 0..20 {
            owed += now / 8.0 / 1000.0 / 1504.0;
            while owed >= 1.0 {
                owed -= 1.0;
                millis.push(slot * 20 + i + 1);
            }
        }
    }
    if millis.last() != Some(&60_000) {
        millis.push(60_000);
    }
    RateSpec::Opportunities(millis)
}

/// Hosts that keep the load from filling the link, in one direction or both.
fn limit(c: &mut Chance, draw: &mut Draw, family: Family, rtt_ms: f64) {
    let which = c.pick(&[&[0usize][..], &[1], &[0, 1]]);
    for &d in which {
        let spec = if d == 0 {
            &draw.link.up
        } else {
            &draw.link.down
        };
        let rate = mean_rate(spec);
        let bdp = rate * rtt_ms / 8e3;
        let limits = &mut draw.hosts.limits[d];
        match family {
            Family::ReceiveWindow => {
                let flows = if rate < 10e6 { 2.0 } else { 4.0 };
                let window = (bdp * c.log(0.1, 3.0) / flows).max(2_896.0);
                limits.receive_window = Some(Bytes::new(window as u64));
            }
            Family::Application => limits.application = Some(bps(rate * c.uniform(0.2, 0.9))),
            _ => {
                limits.reader = Some(bps(rate * c.uniform(0.2, 0.9)));
                limits.receive_window = Some(Bytes::new(c.log(64e3, 6e6) as u64));
            }
        }
    }
}
