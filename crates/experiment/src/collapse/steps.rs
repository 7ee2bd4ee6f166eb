//! Rounds of load, the later ones with a second upload in the middle, while the packets are captured.
//!
//! Only uploads: of these this host sees the data leave and the ACKs come, so that their round trips are the link's.

use super::Params;
use crate::ask::{Answer, Ask};
use crate::course::{Course, OfCourse};
use crate::host::{Counted, Load, Stopped};
use crate::run::{TICK, TURN};
use crate::spec::Setting;
use crate::steps::{Action, Stage};
use base::noted::collapse::{CollapseNote, Round};
use base::record::Direction;
use base::{BitsPerSec, Bytes, Duration, Time};
use std::cell::RefCell;
use std::rc::Rc;

/// Name of the capture within the recording.
const FILE: &str = "capture/collapse.pcapng";
/// Latest end of the flows, which end by themselves then.
const LONGEST: Duration = Duration::from_secs(3600);
/// Time after which the rate of the first round is believed: slow start is over on most links.
const RATE_AFTER: Duration = Duration::from_secs(2);
/// Shorter rounds show no steady state.
const SHORTEST: Duration = Duration::from_secs(6);
/// Share of the budget that rounds are planned with: rates vary.
const MARGIN: f64 = 0.9;

/// State that the end of a run needs, also of one that ends early.
#[derive(Default)]
struct State {
    captures: bool,
    /// Round in progress, whose end is not known yet.
    round: Option<Round>,
}

type Shared = Rc<RefCell<State>>;

/// # Errors
/// No time of a round is left for the second upload.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    let duration = params.duration;
    let lead = params.lead.unwrap_or(duration / 6);
    if params.rounds >= 2 && lead + lead >= duration {
        return Err(Stopped::Unusable {
            why: format!(
                "with lead={lead} no time of a round of {duration} is left for the second upload: make it less than {}",
                duration / 2
            ),
        });
    }
    let budget = setting.budget;
    let state = Shared::default();
    let ending = state.clone();
    let course = OfCourse::new(Duration::ZERO, move |course| async move {
        let mut run = Run {
            course,
            params,
            budget,
            state,
            duration,
            lead,
            known: false,
        };
        run.all().await?;
        end(&run.course, &run.state).await;
        Ok(())
    });
    Ok(course.ended_by(move |course| async move {
        course.act(Action::StopLoad(None)).await;
        round_over(&course, &ending).await;
        course.act(Action::Collect).await;
        end(&course, &ending).await;
        Ok(())
    }))
}

struct Run {
    course: Course,
    params: Params,
    budget: Bytes,
    state: Shared,
    /// Length of a round and of its parts without the second upload: as planned, or shorter by the budget.
    duration: Duration,
    lead: Duration,
    /// True once the rate has been seen.
    known: bool,
}

/// Round in progress.
struct Now {
    number: u32,
    began: Time,
    /// Tally at its beginning.
    before: Bytes,
    /// Its part of the budget.
    share: Bytes,
}

/// Number of the second upload; the first is 0.
const SECOND: u32 = 1;

impl Run {
    async fn all(&mut self) -> Result<(), Stopped> {
        self.course.ask(Ask::Capture(FILE.into())).await;
        self.state.borrow_mut().captures = true;
        self.course.act(Action::Turn(TURN)).await;
        self.course.act(Action::Count(Counted::Interface)).await;
        for number in 1..=self.params.rounds {
            if number > 1 {
                self.rest(number).await;
                self.course
                    .act(Action::LookForOthers(number as usize))
                    .await;
            }
            self.round(number).await?;
        }
        Ok(())
    }

    async fn tick(
        &self,
        name: &str,
        round: u32,
        elapsed: Duration,
        whole: Duration,
        rate: Option<BitsPerSec>,
    ) {
        let stage = Stage {
            name: name.into(),
            number: round as usize,
            elapsed,
            whole,
            note: rate.map_or_else(String::new, |rate| format!("{rate:.3}")),
            ..Stage::default()
        };
        self.course.act(Action::Show(stage)).await;
        self.course.wait(TICK).await;
    }

    async fn rest(&self, round: u32) {
        let (began, whole) = (self.course.now(), self.params.rest);
        loop {
            let elapsed = self.course.now().saturating_since(began);
            if elapsed >= whole {
                return;
            }
            self.tick("rest", round, elapsed, whole, None).await;
        }
    }

    async fn load(&self, number: u32, flows: u32) {
        let load = Load {
            number,
            direction: Direction::Up,
            flows,
            congestion: None,
            duration: LONGEST,
            sample: TICK,
            datagrams: None,
        };
        self.course.act(Action::Load(load)).await;
    }

    async fn round(&mut self, number: u32) -> Result<(), Stopped> {
        let now = Now {
            number,
            share: Bytes::new(self.budget.get() / u64::from(self.params.rounds.max(1))),
            began: self.course.now(),
            before: self.course.tally(),
        };
        let began_ns = self.course.unix_ns();
        self.state.borrow_mut().round = Some(Round {
            number,
            began_ns,
            ended_ns: began_ns,
            second: None,
        });
        self.load(0, self.params.flows).await;
        let went = self.filled(&now).await;
        self.course.act(Action::StopLoad(None)).await;
        round_over(&self.course, &self.state).await;
        self.course.act(Action::Collect).await;
        went
    }

    /// The round's loads, until its time or its part of the budget is over.
    async fn filled(&mut self, now: &Now) -> Result<(), Stopped> {
        let (mut beside, mut was_beside) = (false, false);
        loop {
            let elapsed = self.course.now().saturating_since(now.began);
            if elapsed >= self.duration {
                return Ok(());
            }
            let moved = self.course.tally() - now.before;
            let load = self.course.load(0);
            if load.is_some_and(|l| l.alive == 0) {
                self.cut(now.number, "the upload ended by itself".into())
                    .await;
                return Ok(());
            }
            if moved >= now.share {
                let why = format!("it had sent its part of the budget, {:.3}", now.share);
                self.cut(now.number, why).await;
                return Ok(());
            }
            let enough = elapsed >= RATE_AFTER || moved.get() >= now.share.get() / 4;
            if !self.known && enough {
                self.shorten(elapsed, moved, now.share).await?;
            }
            let inside = elapsed >= self.lead && elapsed + self.lead < self.duration;
            if now.number > 1 && inside && !was_beside {
                // Its handshake goes through the full queue, which takes a while.
                let from = self.course.unix_ns();
                self.load(SECOND, self.params.second).await;
                (beside, was_beside) = (true, true);
                self.second(from, from);
            } else if beside && !inside {
                self.course.act(Action::StopLoad(Some(SECOND))).await;
                self.second_until(self.course.unix_ns());
                beside = false;
            }
            let name = if beside { "two uploads" } else { "one upload" };
            let rate = load.and_then(|l| l.rate);
            self.tick(name, now.number, elapsed, self.duration, rate)
                .await;
            if beside {
                self.second_until(self.course.unix_ns());
            }
        }
    }

    fn second(&self, from: i64, to: i64) {
        if let Some(round) = &mut self.state.borrow_mut().round {
            round.second = Some((from, to));
        }
    }

    fn second_until(&self, now: i64) {
        let round = &mut self.state.borrow_mut().round;
        if let Some((_, to)) = round.as_mut().and_then(|r| r.second.as_mut()) {
            *to = now;
        }
    }

    async fn cut(&self, round: u32, why: String) {
        let note = CollapseNote::CutShort { round, why };
        self.course.note(&note, "").await;
    }

    /// Makes rounds as short as the budget asks for at the rate that was seen.
    async fn shorten(
        &mut self,
        elapsed: Duration,
        moved: Bytes,
        share: Bytes,
    ) -> Result<(), Stopped> {
        self.known = true;
        let bytes_per_s = moved.get() as f64 / elapsed.as_secs_f64();
        let planned_s = self.duration.as_secs_f64();
        let most_s = share.get() as f64 * MARGIN / bytes_per_s;
        if most_s >= planned_s {
            return Ok(());
        }
        if most_s < SHORTEST.as_secs_f64() {
            let rounds = f64::from(self.params.rounds);
            let needs = bytes_per_s / MARGIN * SHORTEST.as_secs_f64() * rounds;
            return Err(Stopped::Budget {
                stage: format!("{rounds} rounds of {SHORTEST} at least"),
                next: Bytes::new(needs as u64),
                spent: self.course.tally(),
                budget: self.budget,
            });
        }
        self.duration = Duration::from_secs_f64(most_s);
        self.lead = Duration::from_secs_f64(self.lead.as_secs_f64() * most_s / planned_s);
        let note = CollapseNote::Shortened {
            planned_s,
            to_s: most_s,
        };
        self.course.note(&note, "").await;
        Ok(())
    }
}

/// Describes the round in progress, which ends now.
async fn round_over(course: &Course, state: &Shared) {
    let round = state.borrow_mut().round.take();
    if let Some(round) = round {
        let round = Round {
            ended_ns: course.unix_ns(),
            ..round
        };
        course.note(&CollapseNote::Round(round), "").await;
    }
}

/// Ends the capture and describes it.
async fn end(course: &Course, state: &Shared) {
    if !std::mem::take(&mut state.borrow_mut().captures) {
        return;
    }
    let captured = course.ask(Ask::StopCapture).await;
    if let Some(Answer::Captured {
        written: true,
        packets,
        missed,
    }) = captured
    {
        let note = CollapseNote::Captured {
            file: FILE.into(),
            packets,
            missed,
        };
        course.note(&note, "").await;
    }
}
