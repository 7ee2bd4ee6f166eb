//! Rounds of load, the later ones with a second upload in the middle: what `tailback probe collapse` carries out. Whoever calls
//! it captures the packets meanwhile.
//!
//! Only uploads: of these this host sees the data leave and the ACKs come, so that their round trips are the line's.

use crate::craft::CraftError;
use crate::errand::{Errand, REPORTS_WITHIN, Stage, TICK};
use crate::load::Load;
use crate::traffic::TrafficMonitor;
use base::noted::collapse::{CollapseNote, Round};
use base::record::Direction;
use base::{Bytes, Duration, Time};
use experiment::Stopped;

/// The flows end by themselves, at the latest.
const LONGEST: Duration = Duration::from_secs(3600);
/// From when on the rate of the first round is believed: slow start is over on most lines.
const RATE_AFTER: Duration = Duration::from_secs(2);
/// Rounds that are shorter show no steady state.
const SHORTEST: Duration = Duration::from_secs(6);
/// Share of the budget that rounds are planned with: rates vary.
const MARGIN: f64 = 0.9;

#[derive(Clone, Debug)]
pub struct Plan {
    /// Of whole IP packets, both directions together; each round has its part.
    pub budget: Bytes,
    /// The one that leads to the server where not given.
    pub interface: Option<String>,
    pub rounds: u32,
    pub duration: Duration,
    /// From a round's beginning to that of the second upload, and from its end to the round's.
    pub lead: Duration,
    /// Of the first upload, and of the second.
    pub flows: u32,
    pub second_flows: u32,
    /// From one round to the next.
    pub rest: Duration,
}

/// Makes all rounds. Runs in the calling thread's network namespace.
///
/// # Errors
/// The first thing that made going on pointless; rows up to then were sent.
pub fn run(plan: &Plan, errand: &mut Errand) -> Result<(), CraftError> {
    errand.take_turn(crate::errand::TURN)?;
    let traffic = errand.traffic(plan.interface.as_deref())?;
    let mut run = Run {
        plan,
        errand,
        traffic: &traffic,
        duration: plan.duration,
        lead: plan.lead,
        known: false,
    };
    let result = run.rounds();
    traffic.stop();
    result
}

struct Run<'a, 'b> {
    plan: &'a Plan,
    errand: &'a mut Errand<'b>,
    traffic: &'a TrafficMonitor,
    /// As planned, or shorter by the budget.
    duration: Duration,
    lead: Duration,
    /// Whether the rate has been seen.
    known: bool,
}

impl Run<'_, '_> {
    fn rounds(&mut self) -> Result<(), CraftError> {
        for number in 1..=self.plan.rounds {
            if number > 1 {
                self.rest(number)?;
                self.errand.look_for_others(self.traffic, number as usize)?;
            }
            self.round(number)?;
        }
        Ok(())
    }

    fn note(&self, note: &CollapseNote) {
        self.errand.note(note, "");
    }

    fn tick(
        &mut self,
        name: &str,
        round: u32,
        began: Time,
        whole: Duration,
        note: String,
    ) -> Result<(), CraftError> {
        self.errand.go_on(Stage {
            name,
            number: round as usize,
            elapsed: self.errand.clock.now() - began,
            whole,
            note,
        })?;
        std::thread::sleep(TICK.to_std());
        Ok(())
    }

    fn rest(&mut self, round: u32) -> Result<(), CraftError> {
        let began = self.errand.clock.now();
        while self.errand.clock.now() - began < self.plan.rest {
            let whole = self.plan.rest;
            self.tick("rest", round, began, whole, String::new())?;
        }
        Ok(())
    }

    fn load(&mut self, flows: u32) -> Result<Load, CraftError> {
        self.errand.load(Direction::Up, flows, LONGEST)
    }

    fn round(&mut self, number: u32) -> Result<(), CraftError> {
        let share = Bytes::new(self.plan.budget.get() / u64::from(self.plan.rounds.max(1)));
        let began = self.errand.clock.now();
        let began_ns = self.errand.clock.unix_ns();
        let first = self.load(self.plan.flows)?;
        let mut second: Option<Load> = None;
        let mut times: Option<(i64, i64)> = None;
        // Of a second upload that is over.
        let mut over = None;
        let before = self.errand.tally.bytes();
        let went = loop {
            let elapsed = self.errand.clock.now() - began;
            if elapsed >= self.duration {
                break Ok(());
            }
            let state = first.progress();
            let moved = self.errand.spent_since(before);
            if state.alive == 0 {
                self.cut(number, "the upload ended by itself");
                break Ok(());
            }
            if moved >= share {
                let why = format!("it had sent its part of the budget, {share:.3}");
                self.cut(number, &why);
                break Ok(());
            }
            let enough = elapsed >= RATE_AFTER || moved.get() >= share.get() / 4;
            if !self.known
                && enough
                && let Err(e) = self.shorten(elapsed, moved, share)
            {
                break Err(e);
            }
            let inside = elapsed >= self.lead && elapsed + self.lead < self.duration;
            match (&second, times) {
                (None, None) if number > 1 && inside => {
                    // Its handshake goes through the full queue, which takes a while.
                    let from = self.errand.clock.unix_ns();
                    match self.load(self.plan.second_flows) {
                        Ok(load) => {
                            times = Some((from, from));
                            second = Some(load);
                        }
                        Err(e) => break Err(e),
                    }
                }
                (Some(_), Some((from, _))) if !inside => {
                    if let Some(load) = second.take() {
                        // The far end is asked once the line is free again.
                        over = Some(load.stop());
                    }
                    times = Some((from, self.errand.clock.unix_ns()));
                }
                _ => {}
            }
            let (stage, whole) = match second {
                Some(_) => ("two uploads", self.duration),
                None => ("one upload", self.duration),
            };
            let note = match state.rate {
                Some(rate) => format!("{rate:.3}"),
                None => String::new(),
            };
            if let Err(e) = self.tick(stage, number, began, whole, note) {
                break Err(e);
            }
        };
        let ended_ns = self.errand.clock.unix_ns();
        let stopped = first.stop();
        if let (Some(load), Some((from, _))) = (second, times) {
            times = Some((from, ended_ns));
            over = Some(load.stop());
        }
        stopped.collect(REPORTS_WITHIN);
        if let Some(over) = over {
            over.collect(REPORTS_WITHIN);
        }
        self.note(&CollapseNote::Round(Round {
            number,
            began_ns,
            ended_ns,
            second: times,
        }));
        went
    }

    fn cut(&self, round: u32, why: &str) {
        self.note(&CollapseNote::CutShort {
            round,
            why: why.into(),
        });
    }

    /// Makes rounds as short as the budget asks for at the rate that was seen.
    fn shorten(&mut self, elapsed: Duration, moved: Bytes, share: Bytes) -> Result<(), CraftError> {
        self.known = true;
        let bytes_per_s = moved.get() as f64 / elapsed.as_secs_f64();
        let planned_s = self.duration.as_secs_f64();
        let most_s = share.get() as f64 * MARGIN / bytes_per_s;
        if most_s >= planned_s {
            return Ok(());
        }
        if most_s < SHORTEST.as_secs_f64() {
            let rounds = f64::from(self.plan.rounds);
            let needs = bytes_per_s / MARGIN * SHORTEST.as_secs_f64() * rounds;
            return Err(Stopped::Budget {
                stage: format!("{rounds} rounds of {SHORTEST} at least"),
                next: Bytes::new(needs as u64),
                spent: self.errand.tally.bytes(),
                budget: self.plan.budget,
            }
            .into());
        }
        self.duration = Duration::from_secs_f64(most_s);
        self.lead = Duration::from_secs_f64(self.plan.lead.as_secs_f64() * most_s / planned_s);
        self.note(&CollapseNote::Shortened {
            planned_s,
            to_s: most_s,
        });
        Ok(())
    }
}
