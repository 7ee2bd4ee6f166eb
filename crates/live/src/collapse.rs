//! Rounds of load, the later ones with a second upload in the middle: what `tailback probe collapse` carries out. Whoever calls
//! it captures the packets meanwhile.
//!
//! Only uploads: of these this host sees the data leave and the ACKs come, so that their round trips are the line's.

use crate::clock::Clock;
use crate::craft::{CraftError, Progress, Watch};
use crate::load::{Load, LoadPlan, Peer};
use base::noted::Noted;
use base::noted::collapse::{CollapseNote, Round};
use base::record::{Direction, Row};
use base::{Bytes, Duration, Time};
use std::sync::mpsc::Sender;

const TICK: Duration = Duration::from_millis(100);
/// From when on the rate of the first round is believed: slow start is over on most lines.
const RATE_AFTER: Duration = Duration::from_secs(2);
/// Rounds that are shorter show no steady state.
const SHORTEST: Duration = Duration::from_secs(6);
/// The queue that was filled may still drain.
const REPORTS_WITHIN: Duration = Duration::from_secs(10);
/// Share of the budget that rounds are planned with: rates vary.
const MARGIN: f64 = 0.9;

#[derive(Clone, Debug)]
pub struct Plan {
    pub peer: Peer,
    /// Of the payload of all uploads; each round has its part.
    pub budget: Bytes,
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
pub fn run(
    plan: &Plan,
    clock: Clock,
    rows: &Sender<Row>,
    watch: &mut dyn Watch,
) -> Result<(), CraftError> {
    let mut run = Run {
        plan,
        clock,
        rows,
        watch,
        spent: Bytes::ZERO,
        next_flow: 0,
        duration: plan.duration,
        lead: plan.lead,
        known: false,
    };
    for number in 1..=plan.rounds {
        if number > 1 {
            run.rest(number)?;
        }
        run.round(number)?;
    }
    Ok(())
}

struct Run<'a> {
    plan: &'a Plan,
    clock: Clock,
    rows: &'a Sender<Row>,
    watch: &'a mut dyn Watch,
    /// In rounds that are over.
    spent: Bytes,
    next_flow: i64,
    /// As planned, or shorter by the budget.
    duration: Duration,
    lead: Duration,
    /// Whether the rate has been seen.
    known: bool,
}

impl Run<'_> {
    fn note(&self, note: &CollapseNote) {
        // The recorder outlives the run; if it is gone, the run is being torn down.
        let _ = self.rows.send(note.event(self.clock.unix_ns(), "").into());
    }

    fn tick(
        &mut self,
        stage: &str,
        round: u32,
        began: Time,
        whole: Duration,
        moved: Bytes,
        note: String,
    ) -> Result<(), CraftError> {
        self.watch.progress(&Progress {
            stage,
            number: round as usize,
            elapsed: self.clock.now() - began,
            whole,
            spent: self.spent + moved,
            note,
        });
        if self.watch.interrupted() {
            return Err(CraftError::Interrupted);
        }
        std::thread::sleep(TICK.to_std());
        Ok(())
    }

    fn rest(&mut self, round: u32) -> Result<(), CraftError> {
        let began = self.clock.now();
        while self.clock.now() - began < self.plan.rest {
            let whole = self.plan.rest;
            self.tick("rest", round, began, whole, Bytes::ZERO, String::new())?;
        }
        Ok(())
    }

    fn load(&mut self, flows: u32) -> Result<Load, CraftError> {
        let plan = LoadPlan {
            peer: self.plan.peer.clone(),
            direction: Direction::Up,
            flows,
            first_flow: self.next_flow,
            congestion: None,
            duration: Duration::from_secs(3600),
            sample: TICK,
            udp_rate: None,
        };
        self.next_flow += i64::from(flows);
        Ok(Load::start(plan, self.clock, self.rows.clone())?)
    }

    fn round(&mut self, number: u32) -> Result<(), CraftError> {
        let share = Bytes::new(self.plan.budget.get() / u64::from(self.plan.rounds.max(1)));
        let began = self.clock.now();
        let began_ns = self.clock.unix_ns();
        let first = self.load(self.plan.flows)?;
        let mut second: Option<Load> = None;
        let mut times: Option<(i64, i64)> = None;
        // Of a second upload that is over.
        let (mut over, mut moved_by_second) = (None, 0);
        let went = loop {
            let elapsed = self.clock.now() - began;
            if elapsed >= self.duration {
                break Ok(());
            }
            let state = first.progress();
            let beside = second.as_ref().map_or(0, |s| s.progress().bytes);
            let moved = Bytes::new(state.bytes + beside + moved_by_second);
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
                    let from = self.clock.unix_ns();
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
                        moved_by_second = load.progress().bytes;
                        // The far end is asked once the line is free again.
                        over = Some(load.stop());
                    }
                    times = Some((from, self.clock.unix_ns()));
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
            if let Err(e) = self.tick(stage, number, began, whole, moved, note) {
                break Err(e);
            }
        };
        let ended_ns = self.clock.unix_ns();
        let mut moved = first.progress().bytes + moved_by_second;
        let stopped = first.stop();
        if let (Some(load), Some((from, _))) = (second, times) {
            moved += load.progress().bytes;
            times = Some((from, ended_ns));
            over = Some(load.stop());
        }
        stopped.collect(REPORTS_WITHIN);
        if let Some(over) = over {
            over.collect(REPORTS_WITHIN);
        }
        self.spent += Bytes::new(moved);
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
            return Err(CraftError::Budget {
                stage: format!("{rounds} rounds of {SHORTEST} at least"),
                next: Bytes::new(needs as u64),
                spent: self.spent + moved,
                budget: self.plan.budget,
            });
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
