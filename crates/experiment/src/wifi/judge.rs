//! Place where packets wait, from samples of the radio and from round trips.
//!
//! **Rules.** A *wait* is a round trip above the smallest of the run. Only those samples count in which the server's wait is
//! long. Packets wait beyond the gateway if its wait is less than 30 % of the server's in the median, and on the Wi-Fi if it
//! is more than 60 %. There they wait in this host's queue if the backlog, at the rate of the last second, takes more than
//! half of the wait, and in the air (with the access point's queue) if it takes less than 30 %. An interval that reaches over
//! a limit is no verdict. A driver that tells no backlog leaves host and air apart unknown.

use super::note::{Phase, Sample, WifiNote};
use base::noted::Noted;
use base::record::{Recording, Status};
use stats::{Figure, quantile_figure};
use std::collections::BTreeMap;

/// Least wait that counts as long, ms, and its factor over the median without load.
const LONG: (f64, f64) = (10.0, 3.0);
/// Least samples with long waits.
const LEAST: usize = 8;
/// Share of the wait below which the gateway is not its place, and above which it is.
const GATEWAY: (f64, f64) = (0.3, 0.6);
/// The same of this host's queue.
const HOST: (f64, f64) = (0.3, 0.5);
/// Samples over which rates and shares are taken.
const SECOND: usize = 10;
/// Retries for a packet, share of a busy channel, and signal in dBm, from which on they explain waits.
const RETRIES: f64 = 0.3;
const BUSY: f64 = 0.6;
const WEAK: f64 = -75.0;

/// Place where packets wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The air, or the access point's queue.
    Air,
    /// Queue of this host.
    Host,
    /// One of both: the driver tells no backlog.
    AirOrHost,
    /// Beyond the gateway.
    Beyond,
    /// No wait is long.
    Nowhere,
    /// The reason why it is unknown.
    Unknown(String),
}

/// Change of access point or channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Time, UNIX ns.
    pub t_ns: i64,
    /// Text of the change: another access point, or another frequency.
    pub what: String,
}

/// Sample with its waits and shares. What is not known is null.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Point {
    /// Wait to the server and back, ms.
    pub server_ms: f64,
    /// Wait to the gateway and back, ms.
    pub gateway_ms: Option<f64>,
    /// Time that the backlog of this host takes, ms.
    pub host_ms: Option<f64>,
    /// Retries for a packet, in the last second.
    pub retries: Option<f64>,
    /// Share of the last second in which others used the channel.
    pub busy: Option<f64>,
    /// Signal, dBm.
    pub signal_dbm: Option<f64>,
}

/// All that a recording shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Place of the wait.
    pub place: Place,
    /// Wait to the server while it is long, ms.
    pub wait_ms: Figure,
    /// Gateway's part of it.
    pub gateway: Figure,
    /// Part of this host's queue.
    pub host: Figure,
    /// Retries for a packet in that time.
    pub retries: Option<f64>,
    /// Share in which others used the channel.
    pub busy: Option<f64>,
    /// Signal, dBm.
    pub signal_dbm: Option<f64>,
    /// True if power save is on; null if the driver does not tell.
    pub power_save: Option<bool>,
    /// Changes of access point and channel.
    pub moved: Vec<Moved>,
    /// Points by phase.
    pub points: BTreeMap<u8, Vec<Point>>,
}

/// Notes of a run.
#[derive(Default)]
pub(super) struct Notes {
    /// Name of the interface.
    pub interface: Option<String>,
    /// Samples of each phase.
    pub phases: Vec<(Phase, Vec<Sample>)>,
    /// Reason why nothing was measured.
    pub untried: Option<String>,
}

impl Notes {
    /// Notes of a recording.
    pub fn of(recording: &Recording) -> Notes {
        let mut notes = Notes::default();
        for (_, note) in WifiNote::all_of(recording) {
            match note {
                WifiNote::Untried { why } => notes.untried = Some(why),
                WifiNote::Interface { name } => notes.interface = Some(name),
                WifiNote::Phase { phase, samples } => notes.phases.push((phase, samples)),
            }
        }
        notes
    }
}

/// Verdict from a recording.
pub fn judged(recording: &Recording) -> Judged {
    let notes = Notes::of(recording);
    let rtts = recording.delay.iter().filter(|d| &*d.target == "udp");
    let rtts = rtts.filter(|d| d.status == Status::Ok);
    let rtts: Vec<(i64, f64)> = rtts
        .filter_map(|d| Some((d.sent_ns, d.rtt_ns? as f64 * 1e-6)))
        .collect();
    judge(&notes.phases, &rtts)
}

/// Verdict from samples of each phase, and from send times in ns and round trips in ms to the server.
pub fn judge(phases: &[(Phase, Vec<Sample>)], rtts: &[(i64, f64)]) -> Judged {
    let mut rtts = rtts.to_vec();
    rtts.sort_by_key(|r| r.0);
    let least = |all: &mut dyn Iterator<Item = f64>| all.fold(f64::MAX, f64::min);
    let server = least(&mut rtts.iter().map(|r| r.1));
    let samples = || phases.iter().flat_map(|p| &p.1);
    let gateway = least(&mut samples().filter_map(|s| s.gateway_ms));
    let mut points: BTreeMap<u8, Vec<Point>> = BTreeMap::new();
    for (phase, samples) in phases {
        let of = (0..samples.len()).filter_map(|i| point(samples, i, &rtts, (server, gateway)));
        points.entry(*phase as u8).or_default().extend(of);
    }
    let idle = points.get(&(Phase::Idle as u8));
    let idle: Vec<f64> = idle.into_iter().flatten().map(|p| p.server_ms).collect();
    let usual = stats::median(&idle).unwrap_or(0.0);
    let limit = LONG.0.max(usual * LONG.1);
    // Waits without load that are long by themselves count, too.
    let limit = if usual >= LONG.0 { LONG.0 } else { limit };
    let long: Vec<&Point> = points
        .values()
        .flatten()
        .filter(|p| p.server_ms >= limit)
        .collect();
    let part = |of: &dyn Fn(&Point) -> Option<f64>, none: &str| {
        let all: Vec<f64> = long
            .iter()
            .filter_map(|p| Some(of(p)? / p.server_ms))
            .collect();
        match all.len() >= LEAST {
            true => quantile_figure(&all, 0.5),
            false => Figure::cannot_tell(none),
        }
    };
    let gateway = part(&|p| p.gateway_ms, "the gateway answered too few probes");
    let host = part(&|p| p.host_ms, "the driver tells no backlog");
    let middle = |of: &dyn Fn(&Point) -> Option<f64>| {
        let all: Vec<f64> = long.iter().filter_map(|p| of(p)).collect();
        stats::median(&all)
    };
    let waits: Vec<f64> = long.iter().map(|p| p.server_ms).collect();
    let place = match (points.values().flatten().count(), long.len()) {
        (0, _) => Place::Unknown("no sample has a round trip beside it".into()),
        (_, ..LEAST) => Place::Nowhere,
        _ => place(&gateway, &host),
    };
    let power = samples().filter_map(|s| s.power_save).reduce(|a, b| a || b);
    Judged {
        place,
        wait_ms: match waits.len() >= LEAST {
            true => quantile_figure(&waits, 0.5),
            false => Figure::cannot_tell("no wait is long"),
        },
        gateway,
        host,
        retries: middle(&|p| p.retries),
        busy: middle(&|p| p.busy),
        signal_dbm: middle(&|p| p.signal_dbm),
        power_save: power,
        moved: moved(samples()),
        points,
    }
}

fn place(gateway: &Figure, host: &Figure) -> Place {
    let side = |figure: &Figure, (low_limit, high_limit): (f64, f64)| match figure {
        Figure::Is { high, .. } if *high < low_limit => Some(false),
        Figure::Is { low, .. } if *low > high_limit => Some(true),
        _ => None,
    };
    match (side(gateway, GATEWAY), gateway) {
        (Some(false), _) => Place::Beyond,
        (Some(true), _) => match (side(host, HOST), host) {
            (Some(true), _) => Place::Host,
            (Some(false), _) => Place::Air,
            (None, Figure::CannotTell { .. }) => Place::AirOrHost,
            (None, Figure::Is { value, .. }) => Place::Unknown(format!(
                "this host's queue takes {:.0} % of the wait, between both",
                value * 100.0
            )),
        },
        (None, Figure::Is { value, .. }) => Place::Unknown(format!(
            "the gateway's wait is {:.0} % of the server's: packets wait before and behind it",
            value * 100.0
        )),
        (None, Figure::CannotTell { cannot_tell }) => Place::Unknown(cannot_tell.to_string()),
    }
}

/// A sample with what the round trips around it and the samples of the last second show.
fn point(
    samples: &[Sample],
    i: usize,
    rtts: &[(i64, f64)],
    (server, gateway): (f64, f64),
) -> Option<Point> {
    let sample = &samples[i];
    let window = sample.t_ns - 200_000_000..sample.t_ns;
    let from = rtts.partition_point(|r| r.0 < window.start);
    let to = rtts.partition_point(|r| r.0 < window.end);
    let near: Vec<f64> = rtts[from..to].iter().map(|r| r.1 - server).collect();
    let before = &samples[i.saturating_sub(SECOND)];
    let same = before.bssid == sample.bssid && i > 0;
    // Counters start anew with each access point.
    let grown = |of: fn(&Sample) -> Option<u64>| {
        let (now, then) = (of(sample)?, of(before)?);
        now.checked_sub(then).filter(|_| same)
    };
    let passed = |of| grown(of).filter(|n| *n > 0).map(|n| n as f64);
    let retries = passed(|s| s.tx_packets).and_then(|n| Some(grown(|s| s.tx_retries)? as f64 / n));
    let busy = passed(|s| s.active_ms).and_then(|active| {
        let own = grown(|s| s.own_ms).unwrap_or(0);
        let others = grown(|s| s.busy_ms)?.saturating_sub(own);
        Some((others as f64 / active).min(1.0))
    });
    let seconds = (sample.t_ns - before.t_ns) as f64 * 1e-9;
    let rate = passed(|s| s.tx_bytes).map(|bytes| bytes / seconds.max(1e-3));
    let host_ms = match (sample.backlog_bytes, rate) {
        (Some(0), _) => Some(0.0),
        (Some(backlog), Some(rate)) => Some(backlog as f64 / rate * 1e3),
        _ => None,
    };
    Some(Point {
        server_ms: stats::median(&near)?,
        gateway_ms: sample.gateway_ms.map(|ms| ms - gateway),
        host_ms,
        retries,
        busy,
        signal_dbm: sample.signal_dbm.map(f64::from),
    })
}

fn moved<'a>(samples: impl Iterator<Item = &'a Sample>) -> Vec<Moved> {
    let mut all = Vec::new();
    let mut before: Option<&Sample> = None;
    for sample in samples {
        if let Some(before) = before {
            let what = match (before.mhz, sample.mhz) {
                _ if before.bssid != sample.bssid => Some(format!(
                    "from access point {} to {}",
                    before.bssid, sample.bssid
                )),
                (Some(a), Some(b)) if a != b => Some(format!("from {a} to {b} MHz")),
                _ => None,
            };
            let t_ns = sample.t_ns;
            all.extend(what.map(|what| Moved { t_ns, what }));
        }
        before = Some(sample);
    }
    all
}

/// Reasons in the air for a wait there.
pub(super) fn reasons(judged: &Judged) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some(retries) = judged.retries.filter(|r| *r >= RETRIES) {
        reasons.push(format!("{retries:.1} retries for a packet"));
    }
    if let Some(busy) = judged.busy.filter(|b| *b >= BUSY) {
        reasons.push(format!(
            "others use the channel for {:.0} % of the time",
            busy * 100.0
        ));
    }
    if let Some(dbm) = judged.signal_dbm.filter(|s| *s <= WEAK) {
        reasons.push(format!("a weak signal of {dbm:.0} dBm"));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Rng, Streams, uniform};

    fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
        low + (high - low) * uniform(rng)
    }

    type Series = (Vec<(Phase, Vec<Sample>)>, Vec<(i64, f64)>);

    /// Samples and round trips of a random host whose packets wait at this place.
    fn made(place: &Place, rng: &mut Rng) -> Series {
        let (base, hop) = (between(rng, 5.0, 60.0), between(rng, 0.5, 5.0));
        let (rate, usual) = (between(rng, 5e5, 2e7), between(rng, 20.0, 200.0));
        let of_gateway = match place {
            Place::Beyond => between(rng, 0.0, 0.15),
            _ => between(rng, 0.85, 1.05),
        };
        let of_host = match place {
            Place::Host => between(rng, 0.65, 1.0),
            _ => between(rng, 0.0, 0.15),
        };
        let tells = *place != Place::AirOrHost;
        let (mut phases, mut rtts) = (Vec::new(), Vec::new());
        let (mut t_ns, mut bytes, mut wait) = (1_000_000_000_000_i64, 0.0, usual);
        for phase in [Phase::Idle, Phase::Up] {
            let mut samples = Vec::new();
            for _ in 0..100 {
                let loaded = phase == Phase::Up && *place != Place::Nowhere;
                wait = 0.8 * wait + 0.2 * usual * between(rng, 0.3, 1.7);
                let now = if loaded { wait } else { between(rng, 0.0, 3.0) };
                for k in 0..5 {
                    let noise = between(rng, 0.0, 2.0);
                    rtts.push((t_ns + k * 20_000_000, base + now + noise));
                }
                t_ns += 100_000_000;
                bytes += rate * 0.1 * between(rng, 0.7, 1.3);
                let gateway = hop + now * of_gateway + between(rng, 0.0, 2.0);
                let backlog = now * 1e-3 * of_host * rate * between(rng, 0.8, 1.2);
                samples.push(Sample {
                    t_ns,
                    gateway_ms: (uniform(rng) < 0.8).then_some(gateway),
                    bssid: "02:00:00:00:00:01".into(),
                    tx_bytes: Some(bytes as u64),
                    backlog_bytes: tells.then_some(backlog as u64),
                    ..Sample::default()
                });
            }
            phases.push((phase, samples));
        }
        (phases, rtts)
    }

    #[test]
    fn wifi_places_are_told_in_random_series() {
        let seed = 20_261_126;
        println!("seed {seed}");
        let (mut right, mut wrong, count) = (0, 0, 400);
        for number in 0..count {
            let mut rng = Streams::new(seed ^ number << 20).stream("wifi");
            let places = [
                Place::Air,
                Place::Host,
                Place::AirOrHost,
                Place::Beyond,
                Place::Nowhere,
            ];
            let place = &places[(number % 5) as usize];
            let (phases, rtts) = made(place, &mut rng);
            let found = judge(&phases, &rtts);
            match &found.place {
                known if known == place => right += 1,
                Place::Unknown(why) => println!("draw {number}: {place:?}: {why}"),
                other => {
                    wrong += 1;
                    println!(
                        "draw {number}: {place:?} taken for {other:?}: {:?} {:?}",
                        found.gateway, found.host
                    );
                }
            }
        }
        println!("{right} of {count} right, {wrong} wrong");
        assert!(
            right * 10 >= count * 9 && wrong * 100 <= count,
            "{right}, {wrong}"
        );
    }

    #[test]
    fn roaming_channels_and_power_save_are_events_and_counters_start_anew() {
        let sample = |n: i64, bssid: &str, mhz| Sample {
            t_ns: n * 100_000_000,
            bssid: bssid.into(),
            mhz: Some(mhz),
            tx_packets: Some(if bssid == "b" { 5 } else { 1000 }),
            tx_retries: Some(1),
            power_save: Some(n > 2),
            ..Sample::default()
        };
        let samples = vec![
            sample(1, "a", 5180),
            sample(2, "a", 2412),
            sample(3, "b", 2412),
        ];
        let rtts: Vec<(i64, f64)> = (0..30).map(|n| (n * 10_000_000, 20.0)).collect();
        let found = judge(&[(Phase::Idle, samples)], &rtts);
        let moved: Vec<&str> = found.moved.iter().map(|m| &*m.what).collect();
        assert_eq!(moved, ["from 5180 to 2412 MHz", "from access point a to b"]);
        assert_eq!(found.power_save, Some(true));
        assert!(found.points[&0].iter().all(|p| p.retries.is_none()));
        assert!(judge(&[], &[]).wait_ms.value().is_none());
    }
}
