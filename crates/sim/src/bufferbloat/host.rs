//! Virtual host of experiments: carries out their steps in virtual time.

use super::crafted::HEADERS;
use super::paced::Paced;
use super::probes::ip_size;
use super::seen::Counters;
use super::transfer::Transfer;
use super::world::{EPOCH_NS, World};
use super::{Outcome, PhaseSeen};
use base::program::{Sending, Train};
use base::record::{Event, Recording, Row};
use base::{BitsPerSec, Bytes, Duration, Time};
use experiment::Stopped;
use experiment::ask::{Answer, Ask};
use experiment::host::{
    Counted, Ended, Fresh, Host, Load, Loaded, Meanwhile, Passing, Probing, Rates, Scouted,
};
use std::collections::{BTreeMap, VecDeque};

/// Time that the last probes get at the end, as in the real prober.
const LAST_PROBES: Duration = Duration::from_millis(200);

/// Time within which answers in flight at the end of a session arrive.
const ANSWERS: Duration = Duration::from_secs(1);

/// Bytes of a load at the latest readings, for a rate over about a second.
#[derive(Default)]
struct Meter(VecDeque<(Time, u64)>);

impl Meter {
    fn rate(&mut self, now: Time, bytes: u64) -> Option<BitsPerSec> {
        while self.0.len() > 1 && now.saturating_since(self.0[1].0) >= Duration::from_secs(1) {
            self.0.pop_front();
        }
        let rate = self.0.front().filter(|(t, _)| now > *t).map(|(t, before)| {
            let seconds = now.saturating_since(*t).as_secs_f64();
            BitsPerSec::new((bytes.saturating_sub(*before) as f64 * 8.0 / seconds) as u64)
        });
        self.0.push_back((now, bytes));
        rate
    }
}

/// Meters of the running loads, by their numbers.
pub(super) type Meters = BTreeMap<u32, (base::record::Direction, LoadMeter)>;

#[derive(Default)]
pub(super) struct LoadMeter(Meter);

/// Link counters at the start of a phase.
pub(super) struct Began {
    before: Counters,
    from: Time,
    warm: Time,
}

impl World {
    /// Ends the run and returns its outcome.
    pub fn finish(mut self) -> Outcome {
        self.stop_session();
        self.rec.meta.complete = true;
        self.rec.meta.ended_ns = Some(Host::unix_ns(&self));
        Outcome {
            recording: self.rec,
            seen: self.seen,
        }
    }

    fn stop_session(&mut self) {
        if self.probing.running() {
            self.advance(self.now + LAST_PROBES);
            self.stop_probes();
        }
    }

    /// Records the link's counters for a phase; the experiment writes its start and end.
    fn watch_phase(&mut self, event: &Event) {
        let Some(phase) = experiment::bufferbloat::Phase::ALL
            .into_iter()
            .find(|p| p.name() == &*event.subject)
        else {
            return;
        };
        match &*event.kind {
            "phase" => {
                self.phase = Some(Began {
                    before: self.counters(),
                    from: self.now,
                    warm: self.now,
                });
            }
            "warmup_end" => {
                if let Some(began) = &mut self.phase {
                    began.warm = self.now;
                }
            }
            "phase_end" => {
                if let Some(began) = self.phase.take() {
                    self.saw(phase.name(), &began);
                }
            }
            _ => {}
        }
    }

    fn saw(&mut self, name: &'static str, began: &Began) {
        let after = self.counters();
        let mut seen = PhaseSeen {
            name,
            from_ns: began.from.as_nanos(),
            warm_ns: began.warm.as_nanos(),
            to_ns: self.now.as_nanos(),
            ..Counters::phase(&began.before, &after)
        };
        for t in self.running() {
            let most = &mut seen.held_back[t.direction as usize];
            *most = most.max(t.held_back());
        }
        self.seen.phases.push(seen);
    }
}

impl Host for World {
    type Error = Stopped;

    fn now(&self) -> Time {
        self.now
    }

    fn unix_ns(&self) -> i64 {
        EPOCH_NS + self.now.as_nanos() as i64
    }

    fn wait(&mut self, time: Duration) -> Result<(), Stopped> {
        self.advance(self.now + time);
        Ok(())
    }

    fn row(&mut self, row: Row) {
        if let Row::Event(event) = &row {
            self.watch_phase(event);
        }
        self.rec.push(row);
    }

    fn so_far(&self, read: &mut dyn FnMut(&Recording)) {
        read(&self.rec);
    }

    fn headers(&self) -> u32 {
        HEADERS
    }

    fn train(
        &mut self,
        sending: &Sending,
        first: i64,
        _: &mut dyn FnMut(Passing) -> bool,
    ) -> Result<Vec<Train>, Stopped> {
        Ok(self.craft(sending, first))
    }

    fn tally(&self) -> Bytes {
        self.own
    }

    /// Does nothing: counters are always on.
    fn count(&mut self, _: Counted) -> Result<(), Stopped> {
        Ok(())
    }

    fn rates(&self, window: Duration) -> Option<Rates> {
        let (mut time, mut rx, mut tx) = (Duration::ZERO, 0u64, 0u64);
        for row in self.rec.traffic.iter().rev() {
            if row.t_ns - row.interval_ns < self.watched_from_ns {
                return None;
            }
            rx += row.rx_bytes? as u64;
            tx += row.tx_bytes? as u64;
            time += Duration::from_nanos(row.interval_ns.max(0) as u64);
            if time >= window {
                let rate =
                    |bytes: u64| BitsPerSec::new((bytes as f64 * 8.0 / time.as_secs_f64()) as u64);
                return Some(Rates {
                    down: rate(rx),
                    up: rate(tx),
                });
            }
        }
        None
    }

    fn interface(&self) -> String {
        "near".into()
    }

    fn probe(&mut self, probing: Probing) -> Result<(), Stopped> {
        self.probing.interval = probing.interval;
        if !self.probing.running() {
            self.start_probes();
        }
        Ok(())
    }

    fn probe_size(&self) -> Bytes {
        ip_size()
    }

    fn stop_probes(&mut self) {
        self.probing.halt();
        let until = self.now + ANSWERS;
        while self.probing.waits() && self.now < until {
            self.advance(self.now + Duration::from_millis(10));
        }
        self.stop_probes();
    }

    fn scout(&mut self, count: u8, size: Bytes) -> Result<Option<Scouted>, Stopped> {
        let rates = self.train(usize::from(count), size.get());
        Ok(rates.map(|(up, down)| Scouted { up, down }))
    }

    fn load(&mut self, load: &Load) -> Result<(), Stopped> {
        let meter = (load.direction, LoadMeter::default());
        self.meters.insert(load.number, meter);
        if let Some(rate) = load.datagrams {
            self.start_paced(load.number, load.direction, rate);
            return Ok(());
        }
        for _ in 0..load.flows {
            self.start_flow(load.number, load.direction, load.flows);
        }
        Ok(())
    }

    fn loads(&mut self) -> Vec<Loaded> {
        let now = self.now;
        let mut meters = std::mem::take(&mut self.meters);
        let loads = meters.iter_mut().map(|(&number, (direction, meter))| {
            let its = self
                .running()
                .iter()
                .filter(|t| t.load == number && t.running);
            let paced = self.paced.iter().find(|p| p.load == number);
            let bytes: u64 = its.clone().map(Transfer::bytes_moved).sum();
            let bytes = bytes + paced.map_or(0, Paced::bytes_moved);
            Loaded {
                number,
                direction: *direction,
                bytes: Bytes::new(bytes),
                rate: meter.0.rate(now, bytes),
                alive: its.count() as u32 + u32::from(paced.is_some()),
                still_for: Duration::ZERO,
            }
        });
        let loads = loads.collect();
        self.meters = meters;
        loads
    }

    fn stop_load(&mut self, number: Option<u32>) {
        self.stop_flows(number);
        self.stop_paced(number);
        self.meters
            .retain(|load, _| number.is_some_and(|number| *load != number));
    }

    fn collect(&mut self) -> Vec<Ended> {
        self.collect_flows();
        self.collect_paced()
    }

    fn reset(&mut self) {
        if self.probing.running() {
            Host::stop_probes(self);
        }
        self.stop_fresh();
        Host::stop_load(self, None);
        self.collect_flows();
        self.collect_paced();
        self.close_sockets();
        self.close_ports();
        self.tracer = None;
        self.watched_from_ns = World::unix_ns(self);
    }

    fn ask(
        &mut self,
        ask: &Ask,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Answer, Stopped> {
        self.answer_to(ask, going_on)
    }

    fn fresh(&mut self, fresh: Option<Fresh>) -> Result<(), Stopped> {
        match fresh {
            Some(fresh) => self.start_fresh(fresh.interval),
            None => self.stop_fresh(),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Plan, Who, run};
    use base::record::Direction;
    use link::LinkSpec;

    #[test]
    fn an_adsl_link_is_filled_and_its_queue_seen_full() {
        let plan = Plan::new(LinkSpec::named("adsl").unwrap(), 1);
        let outcome = run(&plan).unwrap();
        let up = outcome.seen.phase("up").unwrap();
        let seconds = (up.to_ns - up.from_ns) as f64 / 1e9;
        let rate = up.delivered_bytes[0] as f64 * 8.0 / seconds;
        assert!((rate / 700e3 - 1.0).abs() < 0.05, "{rate}");
        let most = outcome
            .seen
            .waits(Direction::Up, Who::Load, up.warm_ns..up.to_ns)
            .map(|w| w.sojourn_ns)
            .max()
            .unwrap();
        // 430 ms of queue, for a packet of 17 ms.
        assert!((400e6..447e6).contains(&(most as f64)), "{most}");
        assert_eq!(run(&plan).unwrap().recording, outcome.recording);
    }
}
