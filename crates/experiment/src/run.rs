//! The one loop that carries an experiment out: it owns the budget of trains, the look at others' traffic, progress,
//! interruption and events. Steps decide, a host obeys.
//!
//! It protects the line and others: what a train costs is counted against the budget before it is sent, and while others
//! use the line nothing begins.

use crate::ask::{Answer, Ask};
use crate::host::{Counted, Ended, Failure, HOLD_OFF_UP, Host, Loaded, Rates, Scouted, Stopped};
use crate::steps::{Action, Part, PartDone, Seen, Stage, Steps, Told, event_at};
use base::program::{Program, Sending, Train};
use base::record::{Recording, Row};
use base::{BitsPerSec, Bytes, Duration, Time};

/// Interval at which the watcher is told of a run.
pub const TICK: Duration = Duration::from_millis(100);
/// Expected length of a run that loads the link: others in the queue hear it.
pub const TURN: Duration = Duration::from_secs(60);
/// A wait is looked at this often: the user may want no more.
const LOOK: Duration = Duration::from_millis(200);
/// Time over which cross traffic is measured.
const WINDOW: Duration = Duration::from_secs(1);
/// The same before a test, which measures beside others if need be.
const WIDE_WINDOW: Duration = Duration::from_secs(2);
/// Time after a load in which the link drains.
const QUIET: Duration = Duration::from_secs(1);
/// Numbers kept free for the trains of a sending that failed.
const SPARE: i64 = 100;

/// Policy towards others on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// Cross traffic is welcome.
    Welcome,
    /// Private line, as an emulated link without added cross traffic: all packets on it are of the run.
    Nobody,
    /// The run waits this long for cross traffic to end, at the begin and before later trains.
    Keep(Duration),
    /// The run waits this long for cross traffic to end, at the begin only.
    KeepAtFirst(Duration),
}

/// Limits of a run.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Number of the first train: those of one recording follow each other.
    pub first_train: i64,
    /// Upper limit on the trains, whole IP packets, both directions together.
    pub budget: Bytes,
    /// Policy towards cross traffic.
    pub others: Others,
    /// True to wait while another client loads the far end's uplink; false to fail at once.
    pub waits: bool,
}

impl Bounds {
    /// No limits but this budget.
    pub fn of(budget: Bytes) -> Bounds {
        Bounds {
            first_train: 0,
            budget,
            others: Others::Welcome,
            waits: true,
        }
    }
}

/// State of a run, for a live display.
#[derive(Clone, Debug, Default)]
pub struct Progress<'a> {
    /// Name of the stage.
    pub stage: &'a str,
    /// Number of the stage, from 1.
    pub number: usize,
    /// Time since the begin of the stage.
    pub elapsed: Duration,
    /// Time that the stage takes; that of draining queues is not in it.
    pub whole: Duration,
    /// Sent so far in all, whole IP packets.
    pub spent: Bytes,
    /// Rate of the uplink, if there is a load.
    pub rate_up: Option<BitsPerSec>,
    /// Rate of the downlink, if there is a load.
    pub rate_down: Option<BitsPerSec>,
    /// Further text for the live view.
    pub note: String,
}

/// Watcher of a run.
pub trait Watch {
    /// Takes the progress of the run.
    fn progress(&mut self, progress: &Progress);

    /// True if the user asked to stop.
    fn interrupted(&mut self) -> bool;

    /// Takes an event of the run.
    fn told(&mut self, told: Told) {
        let _ = told;
    }
}

/// Watcher that ignores the run and never interrupts it.
pub struct Unwatched;

impl Watch for Unwatched {
    fn progress(&mut self, _: &Progress) {}

    fn interrupted(&mut self) -> bool {
        false
    }
}

/// Carries an experiment out to its end and gives its trains.
///
/// # Errors
/// The first thing that made going on pointless; rows up to then were written.
pub fn run<H: Host + ?Sized>(
    steps: &mut dyn Steps,
    bounds: &Bounds,
    host: &mut H,
    watch: &mut dyn Watch,
) -> Result<Vec<Train>, H::Error> {
    let mut run = Run::new(bounds, host, watch);
    run.quiet_line(true)?;
    match run.all(steps) {
        Ok(()) => Ok(run.trains),
        Err(e) => {
            run.close(&mut *steps.ended_early(&e.to_string()));
            Err(e)
        }
    }
}

/// The stage as whoever watches hears of it.
fn progress(stage: &Stage, spent: Bytes, tally: Bytes) -> Progress<'_> {
    // A share of bytes, told as one of time: a second for each megabyte.
    let share = |bytes: Bytes| Duration::from_millis(bytes.get() / 1000);
    let (elapsed, whole) = match stage.of_bytes {
        Some(whole) => (share(tally), share(whole)),
        None => (stage.elapsed, stage.whole),
    };
    Progress {
        stage: &stage.name,
        number: stage.number,
        elapsed,
        whole,
        spent: spent + tally,
        rate_up: stage.rate_up,
        rate_down: stage.rate_down,
        note: stage.note.clone(),
    }
}

struct Run<'a, H: ?Sized> {
    bounds: &'a Bounds,
    host: &'a mut H,
    watch: &'a mut dyn Watch,
    trains: Vec<Train>,
    next_train: i64,
    sendings: usize,
    /// Bytes of trains so far.
    spent: Bytes,
    failed: Option<String>,
    scouted: Option<Scouted>,
    loads: Vec<Loaded>,
    ended: Vec<Ended>,
    answer: Option<Answer>,
    /// Outcome of the latest part.
    part: Option<PartDone>,
    /// The whole that this run is a part of.
    outer: Option<Outer>,
    /// The host's tally when the run began.
    before: Bytes,
    /// Stage that was shown last, and when.
    latest: (Time, Stage),
}

/// The whole that a run is a part of.
#[derive(Clone, Copy)]
struct Outer {
    title: &'static str,
    number: usize,
    began: Time,
    whole: Duration,
    /// Bytes of the whole before this part.
    spent: Bytes,
    ends: Time,
    allowed: Duration,
}

impl Outer {
    /// The end of a part whose time is over.
    fn late(outer: Option<&Outer>, now: Time) -> Option<Stopped> {
        let outer = outer.filter(|o| now > o.ends)?;
        let allowed = outer.allowed;
        Some(Stopped::Late { allowed })
    }

    /// Progress of the whole.
    fn progress<'a>(&'a self, now: Time, part: &Progress<'_>) -> Progress<'a> {
        Progress {
            stage: self.title,
            number: self.number,
            elapsed: now.saturating_since(self.began),
            whole: self.whole,
            spent: self.spent + part.spent,
            note: [part.stage, &part.note].join(" "),
            ..*part
        }
    }
}

/// Tells whoever watches of a run, or of the whole that it is a part of.
fn tell(watch: &mut dyn Watch, outer: Option<&Outer>, now: Time, progress: &Progress<'_>) {
    match outer {
        None => watch.progress(progress),
        Some(outer) => watch.progress(&outer.progress(now, progress)),
    }
}

impl<'a, H: Host + ?Sized> Run<'a, H> {
    fn new(bounds: &'a Bounds, host: &'a mut H, watch: &'a mut dyn Watch) -> Run<'a, H> {
        Run {
            bounds,
            host,
            watch,
            trains: Vec::new(),
            next_train: bounds.first_train,
            sendings: 0,
            spent: Bytes::ZERO,
            failed: None,
            scouted: None,
            loads: Vec::new(),
            ended: Vec::new(),
            answer: None,
            part: None,
            outer: None,
            before: Bytes::ZERO,
            latest: (Time::ZERO, Stage::default()),
        }
    }

    /// Bytes of everything but trains.
    fn tally(&self) -> Bytes {
        self.host.tally() - self.before
    }

    /// Carries a part out, within its time and its budget.
    fn carry(&mut self, part: &Part) -> PartDone {
        let bounds = Bounds {
            first_train: part.first_train,
            budget: part.budget,
            ..self.bounds.clone()
        };
        self.host.reset();
        let spent = self.spent + self.tally();
        let before = self.host.tally();
        let now = self.host.now();
        let mut run = Run::new(&bounds, &mut *self.host, &mut *self.watch);
        run.before = before;
        run.outer = Some(Outer {
            title: part.title,
            number: part.number,
            began: part.began,
            whole: part.whole,
            spent,
            ends: now + part.at_most,
            allowed: part.at_most,
        });
        let mut steps = part.steps.borrow_mut();
        let went = match run.quiet_line(true) {
            Ok(()) => run.all(&mut **steps),
            Err(e) => Err(e),
        };
        if let Err(e) = &went {
            run.close(&mut *steps.ended_early(&e.to_string()));
        }
        let done = PartDone {
            interrupted: went.as_ref().is_err_and(Failure::interrupted),
            problem: went.err().map(|e| e.to_string()),
            trains: run.spent,
            tally: run.tally(),
        };
        self.host.reset();
        self.spent += done.trains;
        done
    }

    fn all(&mut self, steps: &mut dyn Steps) -> Result<(), H::Error> {
        loop {
            let action = self.next(steps);
            if action == Action::Done {
                return Ok(());
            }
            self.perform(steps, action)?;
        }
    }

    /// Closes a run that has ended early. The error that ended it is the one to tell, so that others are dropped.
    fn close(&mut self, closing: &mut dyn Steps) {
        loop {
            match self.next(closing) {
                Action::Done | Action::End(_) => return,
                action => drop(self.perform(closing, action)),
            }
        }
    }

    fn next(&mut self, steps: &mut dyn Steps) -> Action {
        let host = &*self.host;
        let tally = self.tally();
        steps.next(&Seen {
            now: host.now(),
            unix_ns: host.unix_ns(),
            trains: &self.trains,
            failed: self.failed.as_deref(),
            scouted: self.scouted,
            loads: &self.loads,
            ended: &self.ended,
            answer: self.answer.as_ref(),
            part: self.part.as_ref(),
            tally,
            probe_size: host.probe_size(),
            probe_target: host.probe_target(),
            headers: host.headers(),
            rows: &|read: &mut dyn FnMut(&Recording)| host.so_far(read),
        })
    }

    fn perform(&mut self, steps: &mut dyn Steps, action: Action) -> Result<(), H::Error> {
        self.answer = None;
        match action {
            Action::Send(sending) => self.sending(steps, &sending)?,
            Action::TrySend(sending) => self.try_sending(steps, &sending)?,
            Action::Wait(time) => self.wait(time)?,
            Action::Count(what) => self.host.count(what)?,
            Action::Turn(lasts) => self.turn(lasts)?,
            Action::Probe(probing) => self.host.probe(probing)?,
            Action::StopProbes => self.host.stop_probes(),
            Action::Scout(count, size) => self.scouted = self.host.scout(count, size)?,
            Action::Load(load) => self.host.load(&load)?,
            Action::StopLoad(number) => {
                self.host.stop_load(number);
                self.loads
                    .retain(|l| number.is_some_and(|number| l.number != number));
            }
            Action::Collect => self.ended = self.host.collect(),
            Action::Ask(ask) => self.answer = Some(self.ask(&ask)?),
            Action::Carry(part) => self.part = Some(self.carry(&part)),
            Action::Fresh(fresh) => self.host.fresh(fresh)?,
            Action::LookForOthers(number) => self.look_for_others(number)?,
            Action::Event(kind, subject, detail) => self.event(kind, &subject, &detail),
            Action::Row(row) => self.host.row(row),
            Action::Show(stage) => {
                self.show(&stage);
                self.latest = (self.host.now(), stage);
                self.go_on()?;
            }
            Action::Tell(told) => self.watch.told(told),
            Action::End(why) => return Err(why.into()),
            Action::Done => {}
        }
        Ok(())
    }

    fn event(&mut self, kind: &str, subject: &str, detail: &str) {
        let event = event_at(self.host.unix_ns(), kind, subject, detail);
        self.host.row(Row::Event(event));
    }

    /// Tells how far it is.
    fn show(&mut self, stage: &Stage) {
        let (tally, now) = (self.tally(), self.host.now());
        let progress = progress(stage, self.spent, tally);
        tell(self.watch, self.outer.as_ref(), now, &progress);
    }

    /// Puts a question to the host, and tells of the latest stage meanwhile.
    fn ask(&mut self, ask: &Ask) -> Result<Answer, H::Error> {
        let (watch, spent, before) = (&mut *self.watch, self.spent, self.before);
        let ((since, latest), outer) = (&self.latest, self.outer.as_ref());
        let (mut interrupted, mut late) = (false, None);
        let answer = self.host.ask(ask, &mut |meanwhile| {
            let stage = Stage {
                elapsed: latest.elapsed + meanwhile.now.saturating_since(*since),
                ..latest.clone()
            };
            let progress = progress(&stage, spent, meanwhile.tally - before);
            tell(watch, outer, meanwhile.now, &progress);
            interrupted |= watch.interrupted();
            late = Outer::late(outer, meanwhile.now);
            !interrupted && late.is_none()
        });
        match (interrupted, late) {
            (true, _) => Err(Stopped::Interrupted.into()),
            (_, Some(late)) => Err(late.into()),
            _ => answer,
        }
    }

    fn go_on(&mut self) -> Result<(), H::Error> {
        if self.watch.interrupted() {
            return Err(Stopped::Interrupted.into());
        }
        match Outer::late(self.outer.as_ref(), self.host.now()) {
            Some(late) => Err(late.into()),
            None => Ok(()),
        }
    }

    fn wait(&mut self, time: Duration) -> Result<(), H::Error> {
        let mut left = time;
        while left > Duration::ZERO {
            let part = left.min(LOOK);
            self.host.wait(part)?;
            left = left.saturating_sub(part);
            self.go_on()?;
        }
        self.loads = self.host.loads();
        Ok(())
    }

    /// Lets a tick pass, told as a stage.
    fn idle(&mut self, time: Duration, stage: &Stage) -> Result<(), H::Error> {
        self.host.wait(time.min(TICK))?;
        self.show(stage);
        self.go_on()
    }

    fn turn(&mut self, lasts: Duration) -> Result<(), H::Error> {
        let (waits, spent) = (self.bounds.waits, self.spent + self.tally());
        let (watch, mut waited) = (&mut *self.watch, Duration::ZERO);
        let (outer, began) = (self.outer.as_ref(), self.host.now());
        let mut interrupted = false;
        let turn = self.host.turn(lasts, &mut |after, note| {
            let progress = Progress {
                stage: "queue",
                elapsed: waited,
                whole: waited + after,
                spent,
                note,
                ..Progress::default()
            };
            tell(watch, outer, began + waited, &progress);
            waited += Duration::from_secs(1);
            interrupted = watch.interrupted();
            waits && !interrupted && Outer::late(outer, began + waited).is_none()
        });
        match turn {
            Err(_) if interrupted => Err(Stopped::Interrupted.into()),
            other => other,
        }
    }

    /// Sees that nobody else uses the line, or waits for it.
    fn quiet_line(&mut self, first: bool) -> Result<(), H::Error> {
        let (longest, window) = match self.bounds.others {
            Others::Welcome => return Ok(()),
            Others::Nobody if first => (Duration::ZERO, WINDOW),
            Others::Nobody => return Ok(()),
            Others::Keep(longest) => (longest, WINDOW),
            Others::KeepAtFirst(longest) if first => (longest, WIDE_WINDOW),
            Others::KeepAtFirst(_) => return Ok(()),
        };
        if first {
            self.host.count(Counted::Interface)?;
        }
        let alone = self.bounds.others == Others::Nobody;
        let began = self.host.now();
        loop {
            let waited = self.host.now().saturating_since(began);
            let seen = self.host.rates(window);
            let busy = seen.filter(|r| !alone && r.others_use_the_link());
            if seen.is_some() && busy.is_none() {
                return Ok(());
            }
            if let Some(rates) = busy.filter(|_| waited >= longest) {
                return Err(self.others(rates, waited).into());
            }
            self.idle(TICK, &self.waiting(busy, waited, longest))?;
        }
    }

    /// Text for a person while cross traffic is measured.
    fn waiting(&self, busy: Option<Rates>, waited: Duration, longest: Duration) -> Stage {
        let at_first = matches!(self.bounds.others, Others::KeepAtFirst(_));
        Stage {
            name: match at_first {
                true => "hold off".into(),
                false => "looking for others on the link".into(),
            },
            number: self.sendings,
            elapsed: waited,
            whole: longest,
            rate_up: busy.filter(|_| at_first).map(|r| r.up),
            rate_down: busy.filter(|_| at_first).map(|r| r.down),
            note: match busy {
                Some(_) if at_first => "others use the link".into(),
                _ => String::new(),
            },
            ..Stage::default()
        }
    }

    fn others(&mut self, Rates { down, up }: Rates, waited: Duration) -> Stopped {
        if let Others::KeepAtFirst(_) = self.bounds.others {
            return Stopped::LineBusy { waited, down, up };
        }
        let detail = format!("{down:.3} down, {up:.3} up while nothing was sent");
        let interface = self.host.interface();
        self.event("cross_traffic", &interface, &detail);
        Stopped::Others { down, up }
    }

    fn try_sending(&mut self, steps: &mut dyn Steps, sending: &Sending) -> Result<(), H::Error> {
        self.failed = None;
        match self.sending(steps, sending) {
            Err(e) if !e.interrupted() => {
                self.next_train += SPARE;
                self.failed = Some(e.to_string());
                Ok(())
            }
            other => other,
        }
    }

    fn sending(&mut self, steps: &mut dyn Steps, sending: &Sending) -> Result<(), H::Error> {
        let headers = self.host.headers();
        let bytes = sending.programs.iter().map(|p| p.bytes(headers).get());
        let next = Bytes::new(bytes.sum());
        if self.spent + next > self.bounds.budget {
            return Err(Stopped::Budget {
                stage: sending.stage.clone(),
                next,
                spent: self.spent,
                budget: self.bounds.budget,
            }
            .into());
        }
        self.sendings += 1;
        self.rest(steps, sending)?;
        let trains = self.carry_out(steps, sending)?;
        self.spent += next;
        for train in trains {
            let (datagrams, event) = train.rows(self.host.unix_ns());
            for row in datagrams {
                self.host.row(row.into());
            }
            self.host.row(event.into());
            self.trains.push(train);
            self.next_train += 1;
        }
        Ok(())
    }

    /// Silence before a sending.
    fn rest(&mut self, steps: &mut dyn Steps, sending: &Sending) -> Result<(), H::Error> {
        let began = self.host.now();
        loop {
            let rested = self.host.now().saturating_since(began);
            if rested >= sending.rest {
                break;
            }
            let stage = Stage {
                name: sending.stage.clone(),
                number: self.sendings,
                elapsed: rested,
                whole: sending.rest,
                ..Stage::default()
            };
            let left = sending.rest.saturating_sub(rested);
            self.idle(left, &steps.shown(sending, stage))?;
        }
        // What our own stamps needed is over by then.
        let busy = self.host.rates(WINDOW).filter(Rates::others_use_the_link);
        if sending.rest >= WINDOW + WINDOW && busy.is_some() {
            return self.quiet_line(false);
        }
        Ok(())
    }

    fn carry_out(
        &mut self,
        steps: &mut dyn Steps,
        sending: &Sending,
    ) -> Result<Vec<Train>, H::Error> {
        let longest = sending.programs.iter().map(Program::time).max();
        let whole = sending.rest + longest.unwrap_or_default();
        let tally = self.tally();
        let (watch, number, spent) = (&mut *self.watch, self.sendings, self.spent);
        let (outer, began) = (self.outer.as_ref(), self.host.now());
        let mut late = None;
        let trains = self.host.train(sending, self.next_train, &mut |passing| {
            let stage = Stage {
                name: sending.stage.clone(),
                number,
                elapsed: sending.rest + passing.elapsed,
                whole,
                note: format!("{} datagrams", passing.datagrams),
                ..Stage::default()
            };
            let stage = steps.shown(sending, stage);
            let now = began + passing.elapsed;
            tell(watch, outer, now, &progress(&stage, spent, tally));
            late = Outer::late(outer, now);
            !watch.interrupted() && late.is_none()
        });
        match late {
            Some(late) if trains.is_err() => Err(late.into()),
            _ => trains,
        }
    }

    /// Ends a run while others use the line (Borlaug 2014, section 3.5.1).
    fn look_for_others(&mut self, number: usize) -> Result<(), H::Error> {
        if !matches!(self.bounds.others, Others::Keep(_)) {
            return Ok(());
        }
        let (began, whole) = (self.host.now(), QUIET + WINDOW);
        let mut before = self.tally();
        loop {
            let elapsed = self.host.now().saturating_since(began);
            if elapsed >= whole {
                break;
            }
            if elapsed < QUIET {
                before = self.tally();
            }
            let stage = Stage {
                name: "looking for others on the link".into(),
                number,
                elapsed,
                whole,
                ..Stage::default()
            };
            self.idle(whole.saturating_sub(elapsed), &stage)?;
        }
        let Some(rates) = self.host.rates(WINDOW) else {
            return Ok(());
        };
        // Probes of ours, both ways, in hardly more than the window; the interface counts link headers too.
        let own = (self.tally() - before) * 8 * 5 / 4;
        let Rates { down, up } = rates;
        if rates.others_use_the_link() && down.get() + up.get() > own.get() + HOLD_OFF_UP.get() {
            let detail = format!("{down:.3} down, {up:.3} up between two loads");
            let interface = self.host.interface();
            self.event("cross_traffic", &interface, &detail);
            return Err(Stopped::Others { down, up }.into());
        }
        Ok(())
    }
}
