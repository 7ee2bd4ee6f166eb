//! A lying far end, in virtual time: each number that it tells stands anywhere in the range that a client admits from a
//! wire. Each kind, and the test, ends in time, with figures that are numbers. Few runs of each in the ordinary tests;
//! LIES=100000 goes on until each has heard so many lies (`make liar-long`). LIAR_SEED repeats a run.
//!
//! Over sockets, where most runs end at the first lie: `crates/cli/tests/liar.rs`.

use super::all::{SHORT, draw};
use base::program::{Sending, Train};
use base::record::{Delay, Direction, Flow, Meta, Recording, Row, Status};
use base::rng::{Rng, Streams, uniform};
use base::{Bytes, Duration, Time};
use experiment::ask::{Answer, Ask, Heard, Refused};
use experiment::bufferbloat::Bufferbloat;
use experiment::host::{
    Counted, Ended, Fresh, Host, Load, Loaded, Meanwhile, Passing, Probing, Rates, Scouted,
};
use experiment::spec::Far;
use experiment::{Bounds, Others, PROBES, ProbeSpec, Setting, Stopped, Unwatched};
use measure::control::listen::Arrival;
use measure::control::{LARGEST, LAST_NS, Refusal};
use sim::bufferbloat::with_host;
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Longest run of a kind in virtual time: an honest `check` takes two minutes.
const LONGEST: Duration = Duration::from_secs(7200);
/// Largest time for which a server can say that it held a probe (`measure::wire`).
const LONGEST_HOLD_NS: u64 = u32::MAX as u64;

/// Chance of lies, and their number so far.
struct Tongue {
    rng: Rng,
    /// Share of the numbers that are lies.
    share: f64,
    told: u64,
}

impl Tongue {
    fn lies(&mut self) -> bool {
        let lies = uniform(&mut self.rng) < self.share;
        self.told += u64::from(lies);
        lies
    }

    fn below(&mut self, most: u64) -> u64 {
        (uniform(&mut self.rng) * most as f64) as u64
    }

    /// A number up to `most`, mostly at an end of the range.
    fn number(&mut self, most: u64) -> u64 {
        match self.below(5) {
            0 => 0,
            1 => most,
            2 => most - self.below(3).min(most),
            3 => (1 << self.below(63)).min(most),
            _ => self.below(most),
        }
    }

    fn instant(&mut self) -> i64 {
        self.number(LAST_NS as u64) as i64
    }

    /// A count of bytes or packets, ns, or a rate.
    fn amount(&mut self) -> Option<i64> {
        Some(self.number(LARGEST) as i64)
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let count = self.below(most);
        (0..count).map(|_| self.below(256) as u8).collect()
    }

    fn address(&mut self) -> IpAddr {
        match self.below(4) {
            0 => Ipv4Addr::new(10, 0, 0, self.below(9) as u8).into(),
            1 => Ipv6Addr::LOCALHOST.into(),
            2 => Ipv4Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::LOCALHOST.into(),
        }
    }

    fn delay(&mut self, row: &mut Delay) {
        if row.remote_rx_ns.is_some() && self.lies() {
            row.remote_rx_ns = Some(self.instant());
            let hold = self.number(LONGEST_HOLD_NS) as i64;
            row.remote_tx_ns = row.remote_rx_ns.map(|rx| rx + hold);
        }
        if let Some(rtt) = row.rtt_ns.filter(|_| self.lies()) {
            // The hold that the server tells is subtracted, and what is left must be positive.
            let hold = self.number(LONGEST_HOLD_NS) as i64;
            row.rtt_ns = Some(rtt - hold).filter(|left| *left > 0);
            if row.rtt_ns.is_none() {
                row.status = Status::Invalid;
            }
        } else if row.rtt_ns.is_none() && self.lies() {
            row.status = [Status::LostUp, Status::LostDown, Status::Lost][self.below(3) as usize];
        }
        if self.lies() {
            (row.ecn, row.dscp) = (Some(self.below(4) as i64), Some(self.below(64) as i64));
        }
    }

    /// A sample of a flow, if it is the far end's.
    fn flow(&mut self, row: &mut Flow) {
        let sender = row.cwnd_bytes.is_some();
        let far = sender == (row.direction == Direction::Down);
        if !far || !self.lies() {
            return;
        }
        row.t_ns += self.number(1 << 40) as i64 - (1 << 39);
        if !sender {
            row.bytes_received = self.amount();
            return;
        }
        row.bytes_acked = self.amount();
        row.delivered_bytes = self.amount();
        row.cwnd_bytes = self.amount();
        row.ssthresh_bytes = self.amount();
        row.srtt_ns = self.amount();
        row.rttvar_ns = self.amount();
        row.min_rtt_ns = self.amount();
        row.retransmits = self.amount();
        row.delivery_rate_bps = self.amount();
        row.mss_bytes = self.amount();
    }

    /// Stamps of the far end: anywhere, but together no longer than the train took, as `live::craft` demands.
    fn train(&mut self, train: &mut Train, took: Duration) {
        let (first, took) = (self.instant(), took.as_nanos());
        let whole = self.lies();
        let down = train.facts.direction == Direction::Down;
        for fate in &mut train.fates {
            if !whole && !self.lies() {
                continue;
            }
            self.told += u64::from(whole);
            let at = match whole {
                true => Some(first.saturating_add(self.below(took) as i64)),
                false => None,
            };
            match (down, at) {
                (true, Some(at)) => fate.sent_ns = fate.sent_ns.map(|_| at),
                (true, None) => fate.sent_ns = None,
                (false, at) => fate.received_ns = fate.sent_ns.and(at),
            }
            if fate.sent_ns.is_none() {
                fate.received_ns = None;
            }
            fate.ecn = fate.received_ns.map(|_| self.below(4) as u8);
        }
        if self.lies() {
            let count = self.number(LARGEST);
            match down {
                true => train.facts.refused = count,
                false => train.facts.overflowed = count,
            }
        }
        let theirs = match down {
            true => &mut train.facts.fragments_sent,
            false => &mut train.facts.fragments_received,
        };
        if let Some(theirs) = theirs
            && self.lies()
        {
            theirs.whole = self.number(LARGEST);
            theirs.first = self.number(LARGEST);
            theirs.second = self.number(LARGEST);
            theirs.further = self.number(LARGEST);
        }
    }

    fn arrival(&mut self, honest: &Arrival) -> Arrival {
        Arrival {
            listener: match self.below(8) {
                0 => self.number(u64::from(u32::MAX)) as u32,
                _ => honest.listener,
            },
            from: (self.below(4) > 0).then(|| (self.address(), self.below(65_536) as u16).into()),
            len: self.number(u64::from(u32::MAX)) as u32,
            bytes: self.bytes(512),
            syn: self.bytes(200),
            answered: self.below(2) > 0,
            tos: (self.below(2) > 0).then(|| self.below(256) as u8),
        }
    }

    fn heard(&mut self, heard: &mut Heard) {
        match self.below(3) {
            0 => heard.bytes = self.bytes(1500),
            1 => {
                let at = self.below(heard.bytes.len().max(1) as u64) as usize;
                let bit = 1 << self.below(8);
                heard.bytes.get_mut(at).into_iter().for_each(|b| *b ^= bit);
            }
            _ => heard.from = (self.address(), self.below(65_536) as u16).into(),
        }
        heard.tos = Some(self.below(256) as u8);
    }

    fn answer(&mut self, answer: &mut Answer) {
        if !self.lies() {
            return;
        }
        match answer {
            Answer::Ports(ports) => {
                for at in &mut ports.at {
                    *at = match self.below(3) {
                        0 => Err("\u{1b}[2J".into()),
                        _ => Ok((self.address(), self.below(65_536) as u16).into()),
                    };
                }
                ports.from = (self.address(), self.below(65_536) as u16).into();
            }
            Answer::Arrivals(all) => {
                *all = all.iter().map(|a| self.arrival(a)).collect();
                let more = all.first().cloned().into_iter().cycle();
                all.extend(more.take(self.below(20) as usize));
            }
            Answer::Ordered(bytes) => *bytes = self.bytes(1500),
            Answer::Heard(Ok(heard)) => self.heard(heard),
            Answer::Knocked(all) => {
                for tried in all {
                    tried.back = experiment::ask::Back::Bytes(self.bytes(600));
                }
            }
            Answer::Quic(ran) => {
                // What was delivered is counted here; the rest is told.
                (ran.sent, ran.lost) = (Some(self.number(u64::MAX)), Some(self.number(u64::MAX)));
                ran.wait = Some(Duration::from_nanos(self.number(LAST_NS as u64)));
            }
            Answer::Controls(controls) => *controls = Some(vec!["\u{1b}[31m".into(); 3]),
            Answer::Quotes(Ok(quotes)) => {
                for quote in quotes {
                    quote.tos = self.below(256) as u8;
                    quote.to = self.address();
                    quote.rest = self.bytes(64);
                }
            }
            Answer::Transferred(done) => match (self.below(3), done.as_mut()) {
                (0, Ok(_)) => {
                    *done = Err(Refused {
                        why: Refusal::Busy,
                        text: "\u{1b}[2J".into(),
                    });
                }
                (_, Ok(done)) => {
                    done.window = Some(self.number(LARGEST));
                    done.retransmits = Some(self.number(LARGEST));
                    done.mss = Some(self.number(LARGEST));
                    done.congestion = "\u{1b}[31m".into();
                }
                _ => {}
            },
            _ => self.told -= 1,
        }
    }
}

/// A host in virtual time, whose far end lies.
struct Liar<'a> {
    inner: &'a mut dyn Host<Error = Stopped>,
    tongue: RefCell<Tongue>,
    /// Rows as they are shown to the steps, and later to the analysis.
    shown: RefCell<Recording>,
    /// Bytes of trains so far.
    trains: u64,
}

impl Liar<'_> {
    /// Takes over the rows that are new, with lies among them.
    fn mirror(&self) {
        let mut shown = self.shown.borrow_mut();
        let mut tongue = self.tongue.borrow_mut();
        self.inner
            .so_far(&mut |honest| mirror(honest, &mut shown, &mut tongue));
    }
}

fn mirror(honest: &Recording, shown: &mut Recording, tongue: &mut Tongue) {
    let delays = honest.delay[shown.delay.len()..].iter().cloned();
    shown.delay.extend(delays.map(|mut row| {
        tongue.delay(&mut row);
        row
    }));
    let flows = honest.flow[shown.flow.len()..].iter().cloned();
    shown.flow.extend(flows.map(|mut row| {
        tongue.flow(&mut row);
        row
    }));
    // Of this end, or with the lies in them already.
    macro_rules! as_they_are {
        ($($table:ident)*) => {
            $(shown.$table.extend_from_slice(&honest.$table[shown.$table.len()..]);)*
        };
    }
    as_they_are!(traffic counter queue datagram connection segment retransmission course event);
    shown.meta = honest.meta.clone();
}

impl Host for Liar<'_> {
    type Error = Stopped;

    fn now(&self) -> Time {
        self.inner.now()
    }

    fn unix_ns(&self) -> i64 {
        self.inner.unix_ns()
    }

    fn wait(&mut self, time: Duration) -> Result<(), Stopped> {
        let allowed = LONGEST;
        if self.now() > Time::ZERO + allowed {
            return Err(Stopped::Late { allowed });
        }
        self.inner.wait(time)
    }

    fn row(&mut self, row: Row) {
        self.inner.row(row);
    }

    fn so_far(&self, read: &mut dyn FnMut(&Recording)) {
        self.mirror();
        read(&self.shown.borrow());
    }

    fn headers(&self) -> u32 {
        self.inner.headers()
    }

    fn train(
        &mut self,
        sending: &Sending,
        first: i64,
        passing: &mut dyn FnMut(Passing) -> bool,
    ) -> Result<Vec<Train>, Stopped> {
        let began = self.now();
        let mut trains = self.inner.train(sending, first, passing)?;
        let took = self.now().saturating_since(began);
        let programs = sending.programs.iter();
        self.trains += programs.map(|p| p.bytes(self.headers()).get()).sum::<u64>();
        let tongue = self.tongue.get_mut();
        trains.iter_mut().for_each(|t| tongue.train(t, took));
        Ok(trains)
    }

    fn reset(&mut self) {
        self.inner.reset();
    }

    fn tally(&self) -> Bytes {
        self.inner.tally()
    }

    fn count(&mut self, what: Counted) -> Result<(), Stopped> {
        self.inner.count(what)
    }

    fn rates(&self, window: Duration) -> Option<Rates> {
        self.inner.rates(window)
    }

    fn interface(&self) -> String {
        self.inner.interface()
    }

    fn probe(&mut self, probing: Probing) -> Result<(), Stopped> {
        self.inner.probe(probing)
    }

    fn probe_size(&self) -> Bytes {
        self.inner.probe_size()
    }

    fn stop_probes(&mut self) {
        self.inner.stop_probes();
    }

    fn scout(&mut self, count: u8, size: Bytes) -> Result<Option<Scouted>, Stopped> {
        let mut scouted = self.inner.scout(count, size)?;
        let tongue = self.tongue.get_mut();
        if let Some(scouted) = &mut scouted
            && tongue.lies()
        {
            // One uplink packet a nanosecond is the most that stamps can say.
            scouted.up = base::BitsPerSec::new(tongue.number(1 << 44).max(1));
        }
        Ok(scouted)
    }

    fn load(&mut self, load: &Load) -> Result<(), Stopped> {
        self.inner.load(load)
    }

    fn loads(&mut self) -> Vec<Loaded> {
        self.inner.loads()
    }

    fn stop_load(&mut self, number: Option<u32>) {
        self.inner.stop_load(number);
    }

    fn collect(&mut self) -> Vec<Ended> {
        let mut ended = self.inner.collect();
        let tongue = self.tongue.get_mut();
        for load in &mut ended {
            if tongue.lies() {
                load.faults.push("\u{1b}[2J".into());
                load.sent = Some(tongue.number(LARGEST));
                load.received = Some(tongue.number(LARGEST));
            }
        }
        ended
    }

    fn ask(
        &mut self,
        ask: &Ask,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Answer, Stopped> {
        let mut answer = self.inner.ask(ask, going_on)?;
        self.tongue.get_mut().answer(&mut answer);
        Ok(answer)
    }

    fn fresh(&mut self, fresh: Option<Fresh>) -> Result<(), Stopped> {
        self.inner.fresh(fresh)
    }
}

/// Runs a kind, or the test, beside a liar. Gives the number of lies, and what was made of them.
fn run(name: &str, seed: u64) -> (u64, String) {
    let budget = Bytes::new(300_000_000);
    let bounds = Bounds {
        others: Others::Nobody,
        ..Bounds::of(budget)
    };
    let plan = draw(seed % 16).plan;
    let mut rng = Streams::new(seed).stream("share of lies");
    let share = [0.003, 0.03, 0.3, 1.0][(uniform(&mut rng) * 4.0) as usize];
    let short = SHORT.iter().find(|(kind, _)| *kind == name);
    let spec: Option<ProbeSpec> = (name != "test").then(|| {
        short
            .map_or(name, |(_, spec)| spec)
            .parse()
            .expect("a kind")
    });
    let setting = Setting {
        budget,
        far: Far::Virtual,
    };
    let mut steps = match &spec {
        Some(spec) => spec.steps(&setting).expect("it is enough"),
        None => Box::new(Bufferbloat::new(plan.test.clone())),
    };
    let lied = with_host(&plan, |inner| {
        let mut liar = Liar {
            inner,
            tongue: RefCell::new(Tongue {
                rng: Streams::new(seed).stream(name),
                share,
                told: 0,
            }),
            shown: RefCell::default(),
            trains: 0,
        };
        let went = experiment::run(&mut *steps, &bounds, &mut liar, &mut Unwatched);
        liar.mirror();
        let spent = liar.tally().get() + liar.trains;
        assert!(spent < budget.get() * 2, "{name} has spent {spent} bytes");
        (liar.tongue.into_inner(), liar.shown.into_inner(), went)
    });
    let (honest, (mut tongue, mut shown, went)) = lied.expect("a link");
    // Rows that came with the end of the session.
    mirror(&honest.recording, &mut shown, &mut tongue);
    shown.meta = Meta {
        plan: match &spec {
            Some(spec) => serde_json::json!({ "probe": spec }),
            None => honest.recording.meta.plan,
        },
        ..honest.recording.meta
    };
    let s = (shown.meta.ended_ns.unwrap_or(0) - sim::bufferbloat::EPOCH_NS) / 1_000_000_000;
    let said = judged(spec.is_some(), &shown, went.err());
    (tongue.told, format!("{s} s: {said}"))
}

/// Gives the text of an answer, all of whose figures are numbers.
fn judged(probe: bool, shown: &Recording, ended: Option<Stopped>) -> String {
    let ended = ended.map_or(String::new(), |e| format!(" (ended: {e})"));
    let (says, json) = if probe {
        let answer = experiment::analyse(shown).expect("it is of a probe");
        let json = serde_json::to_value(&answer).expect("it is plain data");
        for figured in &answer.outcome.figures {
            if let stats::Figure::Is { value, low, high } = figured.figure {
                let all = [value, low, high];
                assert!(all.iter().all(|v| v.is_finite()), "{} {all:?}", figured.key);
            }
        }
        (answer.outcome.says, json)
    } else {
        match analysis::analyse_test(shown, &analysis::Options::default()) {
            Ok(answer) => {
                let json = serde_json::to_value(&answer).expect("it is plain data");
                ("an answer".to_owned(), json)
            }
            Err(e) => (e.to_string(), serde_json::Value::Null),
        }
    };
    assert!(!says.is_empty() && json.to_string().len() < 100_000_000);
    format!("{says}{ended}")
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn lies_bring_no_kind_down() {
    let seed = from_environment("LIAR_SEED").unwrap_or(1);
    let wanted = from_environment("LIES").unwrap_or(1);
    let only = std::env::var("LIAR_VERB").ok();
    let kinds = PROBES.iter().map(|s| s.entry.name).chain(["test"]);
    // Without Wi-Fi, as in virtual time, it asks the far end nothing.
    let kinds = kinds.filter(|name| *name != "wifi");
    let mut failed = Vec::new();
    for name in kinds.filter(|name| only.as_ref().is_none_or(|o| o == name)) {
        let (mut told, mut runs) = (0, 0u64);
        let began = std::time::Instant::now();
        while told < wanted || runs < 2 {
            let its = seed.wrapping_add(runs);
            let went = catch_unwind(AssertUnwindSafe(|| run(name, its)));
            runs += 1;
            match went {
                Ok((lies, said)) => {
                    told += lies;
                    if wanted == 1 {
                        println!("{name}, seed {its}, {lies} lies: {said}");
                    }
                }
                Err(_) => failed.push(format!("LIAR_VERB={name} LIAR_SEED={its}")),
            }
            assert!(failed.len() < 10, "{failed:?}");
        }
        let s = began.elapsed().as_secs_f64();
        eprintln!("{name}: {told} lies in {runs} runs, {s:.1} s");
    }
    assert!(failed.is_empty(), "{failed:?}");
}
