//! Overload trains: datagrams sent faster than the link carries them, to settle the questions that a TCP load leaves
//! open.
//!
//! **Method.** A TCP load proves a link's rate only while a queue stands, and only its share where others use the link too. So
//! a flood of full-size datagrams is sent at twice the load's rate, doubled until the receiver gets clearly less than was
//! sent; a second flood at 1.4 to 12 times that rate confirms it over a longer time. Small datagrams on a socket of their own
//! run beside each flood. The flood's arrivals give the rate, its delays the ceiling of the queue, and the difference
//! between both streams' delays shows whether flows are kept apart.
//!
//! **Source.** R. S. Prasad, M. Murray, C. Dovrolis, K. Claffy, "Bandwidth estimation: metrics, measurement techniques, and
//! tools", IEEE Network 17 (2003); RFC 9097 (rate from received datagrams under overload); RFC 8290 section 1.3 (sparse
//! flows).
//!
//! **Limits.** A token bucket deeper than the confirming train hides the sustained rate. A link whose rate varies is
//! seen for about a second. Loss behind the bottleneck lowers the received rate by its share.

use crate::bottleneck::{Bottleneck, Scene};
use crate::loss;
use crate::phases;
use crate::trains;
use base::program::{Program, Sending, Shot, Step, Train};
use base::record::{Direction, Recording};
use base::{Bytes, Duration};
use stats::Figure;
use std::ops::Range;

/// Stage name of the trains in a recording.
pub const STAGE: &str = "overload";
/// Floods of one direction.
const MOST_FLOODS: usize = 7;
/// All floods of one direction together last at most this long.
const MOST_SECONDS: f64 = 5.0;
/// Datagrams of one flood.
const MOST_DATAGRAMS: f64 = 12_000.0;
/// Received share of the sent rate above which the link was not overloaded.
const OVERLOADED: f64 = 0.9;
/// Rate of the confirming flood, relative to the rate that the first one found: at least and at most.
const CONFIRM: (f64, f64) = (1.4, 12.0);
/// Rate of the confirming flood up to which it takes three times what the link carries: others who share the link show as the
/// difference between that flood's share and TCP's.
const THREEFOLD_BPS: f64 = 300e6;
/// Packets a second above the link's rate that no CoDel works off within a flood: with an interval of 100 ms it takes 3 s to
/// drop as many.
const EXCESS: f64 = 150.0;
/// Parts of a flood whose rates differ by less have one rate.
const KEEPS: f64 = 0.05;
/// UDP payload of the small datagrams beside a flood.
const SPARSE_PAYLOAD: u32 = 36;
/// Floods above this rate are beyond what a host paces.
const FASTEST_BPS: f64 = 2.5e9;

/// Share of a flood that finds the queue empty, from which the link was idle at times.
const EMPTIES: f64 = 0.05;

/// Number of packets that leave the link during a confirming flood.
const LEAVE: f64 = 60.0;
/// Number of packets below which a ceiling cannot be told from the level that an AQM holds.
const FEW_PACKETS: f64 = 5.0;

/// Wait of a probe at rest: what jitter of the path looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Median, ms.
    pub usual_ms: f64,
    /// 95 % point, ms.
    pub most_ms: f64,
}

impl Noise {
    /// Most that the same jitter adds to packets that follow each other closely and keep their order: each waits for the
    /// slowest before it. The greatest of 100,000 delays of a Weibull distribution through both points.
    pub fn dense_ms(self) -> f64 {
        let usual = self.usual_ms.max(self.most_ms / MOST_UNEVEN);
        if usual <= 0.0 {
            return 0.0;
        }
        // Shape: ln(ln 20 / ln 2) / ln(most / usual).
        let inverse = (self.most_ms / usual).ln() / (20f64.ln() / 2f64.ln()).ln();
        usual * (1e5f64.ln() / 2f64.ln()).powf(inverse)
    }
}

/// Largest ratio of the 95 % point to the median that jitter has; of more, the median is the clock's rounding.
const MOST_UNEVEN: f64 = 12.0;

/// Facts that the first flood is planned from.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Direction of the floods.
    pub direction: Direction,
    /// Rate that the TCP load reached, whole IP packets.
    pub carried_bps: f64,
    /// Size of the load's full packet at the IP layer, and of the IP and UDP headers of a datagram.
    pub packet_bytes: f64,
    /// Bytes of the IP and UDP headers of a datagram.
    pub headers: u32,
}

impl Start {
    /// Plan for what the load of `b` leaves open; `None` where it carried nothing.
    pub fn of(b: &Bottleneck) -> Option<Start> {
        let full = b.packet_bytes;
        // A segment with IPv6's header of 40 bytes leaves 20 fewer for the payload of a datagram of the same size.
        let v6 = b.header_bytes >= 60.0;
        Some(Start {
            direction: b.direction,
            carried_bps: b.carried_bps.filter(|r| *r > 0.0)?,
            packet_bytes: full.clamp(200.0, 9_000.0),
            headers: if v6 { 48 } else { 28 },
        })
    }
}

/// Waits with their sending times: ns, ms.
type Waits = Vec<(i64, f64)>;

/// Flood of full-size datagrams, with the small datagrams beside it.
struct Flood<'a> {
    train: &'a Train,
    beside: Option<&'a Train>,
}

/// Evidence of the floods of one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Overload {
    /// Rate of an overloaded link, whole IP packets, small datagrams and probes included; otherwise the reason why it is unknown.
    pub rate_bps: Figure,
    /// Highest rate that arrived, whole IP packets: the link carries at least this.
    pub at_least_bps: f64,
    /// True if a flood of the confirming length kept one rate.
    pub confirmed: bool,
    /// Level at which the flood's wait stayed while the excess was lost, ms.
    pub plateau_ms: Option<Figure>,
    /// Share of small packets among those that arrived of the longest overloaded flood.
    pub small_share: f64,
    /// Longest wait that nine successive datagrams exceeded, of a long flood those of its second half, ms.
    pub reached_ms: f64,
    /// True if small datagrams passed the flood in a queue of their own.
    pub apart: Option<bool>,
    /// Median waits of the flood and of the small datagrams while the flood waited, ms.
    pub side_by_side_ms: Option<(f64, f64)>,
    /// True if the excess was lost although nothing waited.
    pub polices: bool,
    /// Share of the longest overloaded flood that was lost.
    pub lost: f64,
    /// Rate at which the longest overloaded flood was sent, whole IP packets.
    pub sent_bps: f64,
    /// Share of the longest overloaded flood that three later datagrams overtook.
    pub overtaken: f64,
    /// Greatest share by which a later flood came out of the link faster than an earlier one, beyond the rounding of
    /// whole packets. A token bucket makes later floods slower; only a rate that varies makes them faster.
    pub rises: f64,
}

/// Gaps from which pauses show, and the least usual one, ms: jitter and hosts make shorter ones uneven.
const FEWEST_GAPS: usize = 20;
const EVEN_MS: f64 = 10.0;
/// Mean gap in terms of the median where a link pauses.
const PAUSES: Range<f64> = 1.05..1.6;

fn is_flood(t: &Train) -> bool {
    t.facts.program.largest_payload() > 4 * SPARSE_PAYLOAD
}

fn floods(trains: &[Train], direction: Direction) -> Vec<Flood<'_>> {
    let own: Vec<&Train> = trains::of_stage(trains, STAGE)
        .filter(|t| t.facts.direction == direction)
        .collect();
    own.iter()
        .enumerate()
        .filter(|(_, t)| is_flood(t))
        .map(|(i, train)| Flood {
            train,
            beside: own.get(i + 1).filter(|t| !is_flood(t)).copied(),
        })
        .collect()
}

/// The next flood of one direction after those in `trains`, or `None` where nothing more can be learnt within `budget`.
pub fn next(start: &Start, trains: &[Train], budget: Bytes) -> Option<Sending> {
    let floods = floods(trains, start.direction);
    let spent: u64 = trains
        .iter()
        .map(|t| t.facts.program.bytes(t.facts.headers).get())
        .sum();
    let seconds: f64 = floods
        .iter()
        .map(|f| f.train.facts.program.time().as_secs_f64())
        .sum();
    if floods.len() >= MOST_FLOODS || seconds >= MOST_SECONDS || start.carried_bps <= 0.0 {
        return None;
    }
    let (rate, least_s, packets, overload) = match floods.last() {
        None => (2.0 * start.carried_bps, 0.15, 40.0, 1.0),
        Some(last) => {
            let seen = last.seen();
            if seen.host_limited {
                return None;
            }
            match seen.overloaded {
                Some(_) if last.confirms() => return None,
                Some(bps) => {
                    let overload = confirming(bps, start.packet_bytes);
                    (overload * bps, 0.8, 150.0, overload)
                }
                None => (2.0 * seen.sent_bps, 0.15, 40.0, 1.0),
            }
        }
    };
    let rate = rate.min(FASTEST_BPS);
    let packet_s = start.packet_bytes * 8.0 / rate;
    let longest = 2.0;
    // Enough packets that leave the link, however many are sent.
    let leave_s = LEAVE * start.packet_bytes * 8.0 / rate * overload;
    let time = (packets * packet_s)
        .max(leave_s)
        .clamp(least_s, longest)
        .min(MOST_DATAGRAMS * packet_s);
    let sending = sending(start, rate, time, floods.len() + 1)?;
    let bytes: u64 = sending
        .programs
        .iter()
        .map(|p| p.bytes(start.headers).get())
        .sum();
    (spent.saturating_add(bytes) <= budget.get()).then_some(sending)
}

/// Overload of the confirming flood. On a slow link it has to be large for an AQM not to keep up with it.
fn confirming(bps: f64, packet_bytes: f64) -> f64 {
    let packets = bps / (packet_bytes * 8.0);
    let threefold = (THREEFOLD_BPS / bps.max(1.0)).clamp(CONFIRM.0, 3.0);
    (1.0 + 1.2 * EXCESS / packets.max(1e-3)).clamp(threefold, CONFIRM.1)
}

fn sending(start: &Start, rate: f64, seconds: f64, number: usize) -> Option<Sending> {
    let packet_s = start.packet_bytes * 8.0 / rate;
    let count = ((seconds / packet_s) as u64).max(20);
    let payload = (start.packet_bytes as u32).checked_sub(start.headers)?;
    let gap = Duration::from_nanos((packet_s * 1e9) as u64);
    let flood = Program::new(vec![Step::new(count, vec![Shot { payload, gap }])]).ok()?;
    // In a queue that counts packets a small datagram takes the place of a full one: at most one of twenty.
    let every = (20.0 * packet_s).max(0.005);
    let beside = Step::new(
        ((count as f64 * packet_s / every) as u64).max(3),
        vec![Shot {
            payload: SPARSE_PAYLOAD,
            gap: Duration::from_nanos((every * 1e9) as u64),
        }],
    );
    Some(Sending {
        stage: format!("{STAGE} {} {number}", start.direction),
        direction: start.direction,
        programs: vec![flood, Program::new(vec![beside]).ok()?],
        rest: if number == 1 {
            Duration::ZERO
        } else {
            Duration::from_millis(200)
        },
    })
}

/// Rates of one flood.
struct Seen {
    sent_bps: f64,
    /// Rate out of the link where more went in.
    overloaded: Option<f64>,
    /// True if the sender could not keep its pace, or the receiving host lost datagrams.
    host_limited: bool,
}

impl Flood<'_> {
    fn ip_scale(&self) -> f64 {
        let payload = f64::from(self.train.facts.program.largest_payload());
        (payload + f64::from(self.train.facts.headers)) / payload
    }

    fn planned_bps(&self) -> f64 {
        let program = &self.train.facts.program;
        program.bytes(self.train.facts.headers).get() as f64 * 8.0
            / program.time().as_secs_f64().max(1e-9)
    }

    /// True if this flood is long enough, and overloads the link strongly enough, to confirm a rate.
    fn confirms(&self) -> bool {
        let program = &self.train.facts.program;
        let long = program.time() >= Duration::from_millis(790)
            || self.train.fates.len() as f64 >= MOST_DATAGRAMS * 0.9;
        let size = f64::from(program.largest_payload() + self.train.facts.headers);
        let strong = |bps| self.planned_bps() >= 0.8 * confirming(bps, size) * bps;
        long && self.seen().overloaded.is_none_or(strong)
    }

    fn seen(&self) -> Seen {
        let scale = self.ip_scale();
        let sent_bps = trains::sent_rate(self.train).unwrap_or(0.0) * scale;
        let received = trains::received_rate(self.train, 0.0).unwrap_or(0.0) * scale;
        let (sent, lost) = (self.train.sent() as f64, self.train.lost() as f64);
        let grew = trains::overloads(self.train, received.max(1.0));
        let dropped = lost > 3.0 + 0.06 * sent;
        let facts = &self.train.facts;
        let host_limited = sent_bps < 0.8 * self.planned_bps()
            || facts.overflowed as f64 > 0.01 * sent
            || facts.refused as f64 > 0.01 * sent;
        let overloaded = (received > 0.0
            && received < OVERLOADED * sent_bps
            && (grew || dropped)
            && facts.overflowed == 0)
            .then_some(received);
        Seen {
            sent_bps,
            overloaded,
            host_limited,
        }
    }

    /// Waits of the flood and of the small datagrams, ms, each with its sending time, above the smallest delay of either.
    fn waits(&self, packet_ms: f64) -> (Waits, Waits) {
        let delays = |t: &Train| -> Vec<(i64, i64)> {
            t.fates
                .iter()
                .filter_map(|f| Some((f.sent_ns?, f.received_ns? - f.sent_ns?)))
                .collect()
        };
        let (flood, beside) = (
            delays(self.train),
            self.beside.map(delays).unwrap_or_default(),
        );
        let least = |v: &[(i64, i64)]| v.iter().map(|d| d.1).min();
        let above = |v: Vec<(i64, i64)>, least: Option<i64>| {
            v.into_iter()
                .map(|(t, d)| (t, d.saturating_sub(least.unwrap_or(d)) as f64 / 1e6))
                .collect()
        };
        // A small datagram takes less time on the link than a full one: each stream has a base of its own. If the flood filled
        // a short queue before the second small one, that base has the queue in it: it is at most that of the flood, less
        // the time that a full packet takes longer.
        let size = |t: &Train| f64::from(t.facts.program.largest_payload() + t.facts.headers);
        let a = least(&flood);
        let b = self.beside.and_then(|small| {
            let longer_ms = packet_ms * (1.0 - size(small) / size(self.train)).max(0.0);
            let bound = a.map(|a| a.saturating_sub((longer_ms * 1e6) as i64));
            least(&beside).into_iter().chain(bound).min()
        });
        (above(flood, a), above(beside, b))
    }

    fn first_lost(&self) -> Option<i64> {
        self.train
            .fates
            .iter()
            .find(|f| f.sent_ns.is_some() && f.received_ns.is_none())?
            .sent_ns
    }

    fn seconds(&self) -> f64 {
        self.train.facts.program.time().as_secs_f64().max(1e-3)
    }

    /// Rate of the small datagrams that arrived, whole IP packets.
    fn beside_bps(&self) -> f64 {
        self.beside.map_or(0.0, |t| {
            let bytes = f64::from(SPARSE_PAYLOAD + t.facts.headers);
            (t.sent() - t.lost()) as f64 * bytes * 8.0 / self.seconds()
        })
    }

    /// Probes of the test that crossed the link beside this flood. A download leaves on the server's clock, so its time is that of its event.
    fn probes(&self, scene: &Scene) -> f64 {
        let length = (self.seconds() * 1e9) as i64;
        let from = match self.train.facts.direction {
            Direction::Up => self.train.began_ns().unwrap_or(0),
            Direction::Down => self.event_ns(scene.rec).saturating_sub(length),
        };
        let probes = phases::own_probes(scene.rec, from..from.saturating_add(length));
        loss::crossed(&probes, self.train.facts.direction)
    }

    /// Time of the event that ends this train, on this host's clock.
    fn event_ns(&self, rec: &Recording) -> i64 {
        let number = self.train.number.to_string();
        rec.event
            .iter()
            .find(|e| &*e.kind == "train" && *e.subject == *number)
            .map_or(0, |e| e.t_ns)
    }

    /// Rate of the test's own probes beside this flood, whole IP packets.
    fn probe_bps(&self, scene: &Scene) -> f64 {
        self.probes(scene) * scene.probe_ip_bytes * 8.0 / self.seconds()
    }

    /// Share of small packets among those that arrived.
    fn small_share(&self, scene: &Scene) -> f64 {
        let small = self.beside.map_or(0.0, |t| (t.sent() - t.lost()) as f64) + self.probes(scene);
        let full = (self.train.sent() - self.train.lost()) as f64;
        small / (small + full).max(1.0)
    }

    /// True if the excess was lost although nothing waited.
    fn polices(&self, waits: &[(i64, f64)], packet_ms: f64, noise: Noise) -> bool {
        if self.first_lost().is_none() {
            return false;
        }
        // The first half may pass a faster line as a burst and wait there.
        let at: Vec<f64> = waits[waits.len() / 2..].iter().map(|w| w.1).collect();
        let q = |p| stats::quantile_of_sorted(&stats::sorted(&at), p).unwrap_or(f64::INFINITY);
        let lost = self.train.lost() as f64 / self.train.sent().max(1) as f64;
        at.len() >= 50
            && lost > 0.1
            && q(0.5) < 0.7 * packet_ms + noise.usual_ms + 0.1
            && q(0.9) < 1.2 * packet_ms + noise.most_ms + 0.2
            && noise.most_ms < 3.0 * packet_ms + 2.0
    }

    /// True if the flood found the queue empty now and then, although it waited there at other times: a law that drops so
    /// much of it leaves the link idle.
    fn empties(&self, waits: &[(i64, f64)], packet_ms: f64, noise: Noise) -> bool {
        let late: Vec<f64> = waits[waits.len() / 2..].iter().map(|w| w.1).collect();
        let free_ms = 0.7 * packet_ms + noise.usual_ms + 0.1;
        let free = late.iter().filter(|w| **w < free_ms).count();
        let usual = stats::quantile_of_sorted(&stats::sorted(&late), 0.5).unwrap_or(0.0);
        late.len() >= 50 && usual > 2.0 * free_ms && free as f64 >= EMPTIES * late.len() as f64
    }

    /// True if both halves of the overloaded part arrived at one rate: no token bucket was being emptied.
    fn keeps_its_rate(&self) -> bool {
        let all = trains::arrivals(self.train);
        let rate = |w: &[(i64, f64)]| {
            let time = (w.last()?.0 - w.first()?.0) as f64;
            (time > 0.0).then(|| {
                w.get(1..)
                    .unwrap_or_default()
                    .iter()
                    .map(|a| a.1)
                    .sum::<f64>()
                    / time
            })
        };
        let third = all.len() / 3;
        let (middle, end) = (&all[third..2 * third], &all[2 * third..]);
        match (rate(middle), rate(end)) {
            (Some(a), Some(b)) => (a - b).abs() <= KEEPS * a.max(b) + a.max(b) * 2.0 / third as f64,
            _ => false,
        }
    }

    /// True if the link had nothing to send between some packets that arrived: a law dropped so much of the flood that it
    /// left the link idle. Most packets then follow each other in the time of one on the link, and the mean gap is longer.
    /// Gaps do not tell if packets come in bunches, or faster than jitter is.
    fn pauses(&self) -> bool {
        let all = trains::arrivals(self.train);
        let gaps: Vec<f64> = (all.windows(2))
            .map(|w| (w[1].0 - w[0].0) as f64 / 1e6)
            .collect();
        let (Some(usual), Some(m)) = (stats::median(&gaps), stats::moments(&gaps)) else {
            return false;
        };
        gaps.len() >= FEWEST_GAPS && usual > EVEN_MS && PAUSES.contains(&(m.mean / usual))
    }

    /// Rate over the overloaded part: from the first sign of a queue or a loss to the last arrival.
    fn rate(&self, packet_ms: f64) -> Figure {
        let began = self.train.began_ns().unwrap_or(0);
        let (waits, _) = self.waits(packet_ms);
        let queued = waits
            .iter()
            .find(|w| w.1 > 3.0 * packet_ms + 0.2)
            .map(|w| w.0);
        let lost = self.first_lost();
        let from = queued.into_iter().chain(lost).min().unwrap_or(began);
        let first = self
            .train
            .fates
            .iter()
            .find(|f| f.sent_ns.is_some_and(|s| s >= from) && f.received_ns.is_some());
        let from = first.and_then(|f| f.received_ns).unwrap_or(i64::MIN);
        let mut arrivals: Vec<(i64, f64)> = trains::arrivals(self.train)
            .into_iter()
            .filter(|a| a.0 >= from)
            .collect();
        let scale = self.ip_scale();
        let rate = |w: &[(i64, f64)]| {
            let time = (w[w.len() - 1].0 - w[0].0) as f64;
            (time > 0.0).then(|| w[1..].iter().map(|a| a.1).sum::<f64>() * 8e9 / time * scale)
        };
        // A bucket of tokens lets the beginning pass at the rate of the line before it.
        let third = arrivals.len() / 3;
        if third >= 10
            && let (Some(first), Some(rest)) = (rate(&arrivals[..third]), rate(&arrivals[third..]))
            && first > (1.0 + KEEPS + 2.0 / third as f64) * rest
        {
            arrivals.drain(..third);
        }
        let Some(value) = (arrivals.len() >= 10).then(|| rate(&arrivals)).flatten() else {
            return Figure::cannot_tell("too few datagrams of the overload trains arrived");
        };
        let each = (arrivals.len() / 12).max(3);
        let parts: Vec<f64> = arrivals
            .windows(each + 1)
            .step_by(each)
            .filter_map(rate)
            .collect();
        // Arrival times are read by a host: two packets' time over the whole is the least that is unknown.
        let least = value * 2.0 / arrivals.len() as f64;
        let half = match stats::mean_figure(&parts) {
            Figure::Is { low, high, .. } => (0.5 * (high - low)).max(least),
            Figure::CannotTell { .. } => least,
        };
        Figure::Is {
            value,
            low: (value - half).max(0.0),
            high: value + half,
        }
    }
}

/// Longest wait that nine successive datagrams exceed: single ones may be held back on the way.
fn reached(waits: &[(i64, f64)]) -> f64 {
    let least = |w: &[(i64, f64)]| w.iter().map(|w| w.1).fold(f64::INFINITY, f64::min);
    waits.windows(9).map(least).fold(0.0, f64::max)
}

impl Overload {
    /// Floods that did not overload the link.
    fn none(why: &str, at_least_bps: f64) -> Self {
        Overload {
            rate_bps: Figure::cannot_tell(why),
            at_least_bps,
            confirmed: false,
            plateau_ms: None,
            small_share: 0.0,
            reached_ms: 0.0,
            apart: None,
            side_by_side_ms: None,
            polices: false,
            lost: 0.0,
            sent_bps: 0.0,
            overtaken: 0.0,
            rises: 0.0,
        }
    }
}

/// True if the small datagrams did not wait in the queue of the flood; see [`Overload::side_by_side_ms`].
fn kept_apart((load, small): (f64, f64), packet_ms: f64) -> Option<bool> {
    // A short queue that bursts fill and empty again looks like two.
    let long = load >= FEW_PACKETS * packet_ms;
    if long && small <= 0.4 * load && small <= 1.6 * packet_ms + 1.5 {
        Some(true)
    } else if small >= 0.6 * load {
        Some(false)
    } else {
        None
    }
}

/// Evidence of all floods of `direction`, or `None` where there was none.
pub fn read(scene: &Scene, direction: Direction, noise: Noise) -> Option<Overload> {
    let rec = scene.rec;
    if rec.datagram.is_empty() {
        return None;
    }
    let trains = Train::all_of(rec);
    let floods = floods(&trains, direction);
    if floods.is_empty() {
        return None;
    }
    // A token bucket lets a short flood pass at more than the link's rate.
    let at_least_bps = floods
        .iter()
        .filter(|f| f.confirms())
        .filter_map(|f| Some(trains::received_rate(f.train, 0.5)? * f.ip_scale()))
        .fold(0.0, f64::max);
    let full: Vec<(&Flood, f64)> = floods
        .iter()
        .filter_map(|f| Some((f, f.seen().overloaded?)))
        .collect();
    let Some((last, bps)) = full
        .iter()
        .max_by_key(|(f, _)| f.train.facts.program.time())
        .copied()
    else {
        let why = if floods.last().is_some_and(|f| f.seen().host_limited) {
            "this host or the server could not send datagrams faster than the link carries them"
        } else {
            "no train of datagrams overloaded the link"
        };
        return Some(Overload::none(why, at_least_bps));
    };
    let packet_bits =
        f64::from(last.train.facts.program.largest_payload() + last.train.facts.headers) * 8.0;
    let packet_ms = packet_bits * 1e3 / bps;
    let beside_bps = last.beside_bps() + last.probe_bps(scene);
    let rate_bps = last.rate(packet_ms).map(|bps| bps + beside_bps);
    let (flood, beside) = last.waits(packet_ms);
    let lost = last.train.lost() as f64 / last.train.sent().max(1) as f64;
    // The first half may pass a policer as a burst, and wait for the line behind it.
    let late = if flood.len() >= 100 {
        flood.len() / 2
    } else {
        0
    };
    let reached_ms = (reached(&flood[late..]) - noise.usual_ms).max(0.0);
    let polices = last.polices(&flood, packet_ms, noise);
    let small_share = last.small_share(scene);
    let plateau_ms = plateau(last, &flood, packet_ms, noise, small_share);

    let side_by_side_ms = side_by_side(&flood, &beside, packet_ms, reached_ms);
    Some(Overload {
        confirmed: last.confirms()
            && last.keeps_its_rate()
            && !last.pauses()
            && !last.empties(&flood, packet_ms, noise),
        rate_bps,
        at_least_bps,
        plateau_ms,
        small_share,
        reached_ms,
        apart: side_by_side_ms.and_then(|waits| kept_apart(waits, packet_ms)),
        side_by_side_ms,
        polices,
        lost,
        sent_bps: last.seen().sent_bps,
        overtaken: overtaken(last.train),
        rises: rises(&full),
    })
}

/// Share of the datagrams that arrived after three that were sent later: TCP takes a packet for lost from three on
/// (RFC 5681; 3-reordering of RFC 4737).
fn overtaken(train: &Train) -> f64 {
    let arrived: Vec<i64> = train.fates.iter().filter_map(|f| f.received_ns).collect();
    after_three_later(&arrived) as f64 / arrived.len().max(1) as f64
}

/// Number of arrivals, in the order of sending, that came after three that were sent later.
fn after_three_later(arrived: &[i64]) -> usize {
    // Earliest arrivals of those sent later, in order.
    let mut earliest = [i64::MAX; 3];
    let late = arrived.iter().rev().filter(|received| {
        let is_late = **received > earliest[2];
        if **received < earliest[2] {
            earliest[2] = **received;
            earliest.sort_unstable();
        }
        is_late
    });
    late.count()
}

/// Most by which a later flood of `full` came out of the link faster than an earlier one; see [`Overload::rises`].
fn rises(full: &[(&Flood, f64)]) -> f64 {
    let came = |f: &Flood| (f.train.sent() - f.train.lost()).max(1) as f64;
    let mut most = 0.0f64;
    for (j, (later, b)) in full.iter().enumerate() {
        for (earlier, a) in &full[..j] {
            let counting = 2.0 / came(later) + 2.0 / came(earlier);
            most = most.max(b / a - 1.0 - counting);
        }
    }
    most
}

/// The level at which the wait stayed while the excess was lost: the ceiling of a queue that drops what does not fit.
fn plateau(
    flood: &Flood,
    waits: &[(i64, f64)],
    packet_ms: f64,
    noise: Noise,
    small_share: f64,
) -> Option<Figure> {
    let first_lost = flood.first_lost()?;
    let last_sent = flood.train.fates.iter().rev().find_map(|f| f.sent_ns)?;
    let at: Vec<f64> = waits
        .iter()
        .filter(|w| w.0 >= first_lost)
        .map(|w| w.1)
        .collect();
    // At a ceiling every packet of the excess is lost; a discipline that drops less lets the queue grow on.
    let sent = flood
        .train
        .fates
        .iter()
        .filter(|f| f.sent_ns.is_some_and(|s| s >= first_lost))
        .count();
    let share = 1.0 - at.len() as f64 / sent.max(1) as f64;
    let seen = flood.seen();
    let excess = 1.0 - seen.overloaded? / seen.sent_bps;
    if at.len() < 10 || last_sent - first_lost < 40_000_000 || share < 0.6 * excess {
        return None;
    }
    let s = stats::sorted(&at);
    let q = |p| stats::quantile_of_sorted(&s, p).unwrap_or(0.0);
    let (low, middle, high) = (q(0.1), q(0.5), q(0.9));
    let scatter = (noise.most_ms - noise.usual_ms).max(0.0);
    let flat =
        high - low <= (1.6 + 12.0 * small_share) * packet_ms + 0.04 * middle + 2.0 * scatter + 0.3;
    // The second half lies no lower and no higher than the first: an AQM is still moving.
    let half = at.len() / 2;
    let median = |v: &[f64]| stats::quantile_of_sorted(&stats::sorted(v), 0.5).unwrap_or(0.0);
    let drift = (median(&at[..half]) - median(&at[half..])).abs();
    let steady = drift <= packet_ms.max(0.04 * middle) + 0.5 * scatter + 0.3;
    let level = middle - noise.usual_ms + 0.5 * packet_ms;
    // Lower than a few packets, an AQM holds a queue as flat as a small buffer does, unless the excess is beyond it.
    let excess_pps =
        (seen.sent_bps - seen.overloaded?) / (packet_ms * seen.overloaded? / 1e3).max(1.0);
    let fewest = if excess_pps >= EXCESS {
        1.5
    } else {
        FEW_PACKETS
    };
    if !flat || !steady || level < fewest * packet_ms || level < 4.0 * (noise.usual_ms + scatter) {
        return None;
    }
    Some(in_full_packets(
        level,
        packet_ms + 0.003 * level + scatter / 2.0,
        small_share,
    ))
}

/// A queue's level had it been full of full-size packets: a queue that counts packets holds less where `small_share` of
/// them are small, one that counts bytes does not.
pub(crate) fn in_full_packets(level_ms: f64, doubt_ms: f64, small_share: f64) -> Figure {
    let most = level_ms / (1.0 - small_share.clamp(0.0, 0.5));
    Figure::Is {
        value: 0.5 * (level_ms + most),
        low: (level_ms - doubt_ms).max(0.0),
        high: most + doubt_ms,
    }
}

/// Median waits of the flood and of the small datagrams, ms, over the time in which the flood waited at least half of
/// the most that it reached.
fn side_by_side(
    flood: &[(i64, f64)],
    beside: &[(i64, f64)],
    packet_ms: f64,
    reached_ms: f64,
) -> Option<(f64, f64)> {
    let least = (0.5 * reached_ms).max(2.2 * packet_ms + 0.5);
    let range = (
        flood.iter().find(|w| w.1 >= least)?.0,
        flood.iter().rev().find(|w| w.1 >= least)?.0,
    );
    let within = |v: &[(i64, f64)]| -> Vec<f64> {
        v.iter()
            .filter(|w| (range.0..=range.1).contains(&w.0))
            .map(|w| w.1)
            .collect()
    };
    let (load, small) = (within(flood), within(beside));
    let median = |v: &[f64]| stats::quantile_of_sorted(&stats::sorted(v), 0.5);
    (small.len() >= 5)
        .then(|| Some((median(&load)?, median(&small)?)))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    #[test]
    fn the_most_of_dense_packets_is_that_of_drawn_delays_of_any_unevenness() {
        const DRAWS: usize = 100_000;
        let mut rng = Streams::new(20_261_129).stream("jitter");
        let mut ratios = Vec::new();
        for _ in 0..40 {
            let (shape, scale) = (
                0.6 + 2.4 * uniform(&mut rng),
                10.0 * uniform(&mut rng) + 0.01,
            );
            let delays =
                (0..DRAWS).map(|_| scale * (-(1.0 - uniform(&mut rng)).ln()).powf(1.0 / shape));
            let sorted = stats::sorted(&delays.collect::<Vec<_>>());
            let at = |q| stats::quantile_of_sorted(&sorted, q).expect("there are some");
            let noise = Noise {
                usual_ms: at(0.5),
                most_ms: at(0.95),
            };
            let ratio = noise.dense_ms() / sorted[DRAWS - 1];
            // The greatest of so many has an exponent of 11.5, and in 999 of 1000 cases one of 9.5 to 18.5.
            assert!(
                (0.45..1.4).contains(&ratio),
                "shape {shape}, scale {scale}: {ratio}"
            );
            ratios.push(ratio);
        }
        let median = stats::median(&ratios).expect("there are some");
        assert!((0.85..1.1).contains(&median), "{median}");
        assert_eq!(Noise::default().dense_ms(), 0.0);
    }

    #[test]
    fn datagrams_are_overtaken_by_three_or_not_as_counted_one_by_one() {
        let mut rng = Streams::new(20_261_129).stream("order");
        for _ in 0..300 {
            let count = (1.0 + 60.0 * uniform(&mut rng)) as i64;
            let jitter = 12.0 * uniform(&mut rng);
            let arrived: Vec<i64> = (0..count)
                .map(|sent| sent + (jitter * uniform(&mut rng)) as i64)
                .collect();
            let one_by_one = arrived.iter().enumerate().filter(|(i, received)| {
                let later = arrived[i + 1..].iter();
                later.filter(|other| other < received).count() >= 3
            });
            assert_eq!(
                after_three_later(&arrived),
                one_by_one.count(),
                "{arrived:?}"
            );
        }
    }
}
