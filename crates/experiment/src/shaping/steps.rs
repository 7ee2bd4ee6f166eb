//! Uploads of one file in three manners, in turn, beside datagrams.

use super::Params;
use super::note::{Manner, ShapingNote};
use crate::ask::{Answer, Ask, Transfer, Transferred};
use crate::course::{Course, OfCourse};
use crate::host::{Counted, Probing, Stopped};
use crate::run::TURN;
use crate::spec::Setting;
use crate::steps::Action;
use base::record::Direction;
use base::{BitsPerSec, Bytes, Duration};

/// Interval of the probes.
const PROBES: Duration = Duration::from_millis(20);
/// Interval of the samples of a transfer.
const SAMPLE: Duration = Duration::from_millis(50);
/// Time on the idle link before the first file, and between two: a queue of seconds drains.
const IDLE: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_secs(1);
/// First upload, with which the rate is looked for; each further one is four times the one before until one takes this long.
const FIRST: Bytes = Bytes::new(50_000);
const LONG_ENOUGH: Duration = Duration::from_millis(1500);
const TRIES: u32 = 9;
/// Shortest file, at the link's rate, that is worth sending.
const SHORTEST: Duration = Duration::from_secs(2);
/// Longest pause in which nothing moves, and longest transfer.
const PATIENCE: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);
/// Least budget: a link of 1 Mbit/s, nine files of two seconds.
const LEAST: Bytes = Bytes::new(3_000_000);

/// # Errors
/// The budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    setting.afford("shaping", LEAST)?;
    let budget = setting.budget;
    let files = params.repeats * Manner::ALL.len() as u64;
    let pauses = params.pause * (params.parts * params.repeats);
    let whole = (params.time * 11 / 10 + REST) * files
        + pauses
        + Duration::from_secs(6 + 2 * params.repeats);
    let course = OfCourse::new(whole, move |course| async move {
        let run = Run {
            course,
            params,
            budget,
        };
        if let Err(why) = run.all().await {
            run.course
                .note(&ShapingNote::Untried { why }, "server")
                .await;
        }
        run.course.act(Action::StopProbes).await;
        Ok(())
    });
    Ok(course.ended_by(|course| async move {
        course.act(Action::StopProbes).await;
        Ok(())
    }))
}

struct Run {
    course: Course,
    params: Params,
    budget: Bytes,
}

/// File on its way.
struct File {
    bytes: Bytes,
    parts: u64,
    pause: Duration,
    limit: Option<BitsPerSec>,
}

impl Run {
    async fn all(&self) -> Result<(), String> {
        self.course.act(Action::Turn(TURN)).await;
        self.course.act(Action::Count(Counted::Interface)).await;
        self.course
            .act(Action::Probe(Probing {
                interval: PROBES,
                shortest: PROBES,
            }))
            .await;
        self.course.stage("the idle link").await;
        let began_ns = self.course.unix_ns();
        self.course.wait(IDLE).await;
        let ended_ns = self.course.unix_ns();
        let idle = ShapingNote::Idle { began_ns, ended_ns };
        self.course.note(&idle, "server").await;
        let mut number = 0;
        let rate = self.rate(&mut number).await?;
        let size = self.size(rate)?;
        let mut rate = None;
        for repeat in 0..self.params.repeats {
            if repeat > 0 {
                self.course.act(Action::LookForOthers(1)).await;
            }
            // The rate comes from the first file, so the first repetition begins with it.
            for i in 0..Manner::ALL.len() {
                let manner = Manner::ALL[(i + repeat as usize) % Manner::ALL.len()];
                self.course.wait(REST).await;
                let name = format!("{} of {}", manner.word(), self.params.repeats);
                self.course.stage(&name).await;
                let file = self.file(manner, size, rate);
                let took = self.send(manner, repeat, &file, &mut number).await?;
                if manner == Manner::Continuous {
                    rate = Some(bps(size, took)?);
                }
            }
        }
        Ok(())
    }

    /// About the rate of the payload, from uploads that grow.
    async fn rate(&self, number: &mut i64) -> Result<BitsPerSec, String> {
        self.course.stage("looking for the rate").await;
        let mut bytes = FIRST;
        for _ in 0..TRIES {
            let spent = self.course.tally() + bytes * 2;
            if spent > self.budget / 3 {
                return Err(format!(
                    "the budget of {:.3} is too small to find this link's rate",
                    self.budget
                ));
            }
            let done = self.part(*number, bytes, None).await?;
            *number += 1;
            if done.took >= LONG_ENOUGH {
                return bps(bytes, done.took);
            }
            bytes = bytes * 4;
        }
        Err("the link is too fast for this test: 3 GB went up within 1.5 s".into())
    }

    /// Size of the file: the time's worth, or what the budget has for each.
    fn size(&self, rate: BitsPerSec) -> Result<Bytes, String> {
        let files = self.params.repeats * Manner::ALL.len() as u64;
        let left = self.budget.get().saturating_sub(self.course.tally().get());
        // Headers, acknowledgements, probes and what is sent again.
        let each = left * 4 / 5 / files;
        let wanted = (rate.get() as f64 / 8.0 * self.params.time.as_secs_f64()) as u64;
        let size = wanted.min(each);
        if (size as f64) < rate.get() as f64 / 8.0 * SHORTEST.as_secs_f64() {
            return Err(format!(
                "the budget has {} for each of {files} files, which this link of {rate} carries in less than {SHORTEST}; give --budget or repeats=2",
                Bytes::new(size)
            ));
        }
        // Two digits, for people.
        let step = 10u64.pow(size.max(10).ilog10() - 1);
        Ok(Bytes::new(size - size % step))
    }

    fn file(&self, manner: Manner, bytes: Bytes, rate: Option<BitsPerSec>) -> File {
        let whole = File {
            bytes,
            parts: 1,
            pause: Duration::ZERO,
            limit: None,
        };
        match manner {
            Manner::Continuous => whole,
            Manner::Intermittent => File {
                parts: self.params.parts,
                pause: self.params.pause,
                ..whole
            },
            Manner::Shaped => File {
                limit: rate.map(|r| BitsPerSec::new(r.get() * self.params.share / 100)),
                ..whole
            },
        }
    }

    /// Sends a file, and returns the time until all of it was acknowledged.
    async fn send(
        &self,
        manner: Manner,
        repeat: u64,
        file: &File,
        number: &mut i64,
    ) -> Result<Duration, String> {
        let first = *number;
        let mut began_ns = None;
        let mut ended_ns = 0;
        let mut left = file.bytes.get();
        for part in 0..file.parts {
            let bytes = left / (file.parts - part);
            left -= bytes;
            let done = self.part(*number, Bytes::new(bytes), file.limit).await?;
            *number += 1;
            began_ns.get_or_insert(done.began_ns);
            ended_ns = done.began_ns + done.took.as_nanos() as i64;
            if part + 1 < file.parts {
                self.course.wait(file.pause).await;
            }
        }
        let began_ns = began_ns.unwrap_or(ended_ns);
        let sent = ShapingNote::Sent {
            repeat,
            manner,
            size_bytes: file.bytes.get(),
            began_ns,
            ended_ns,
            limit_bps: file.limit.map(BitsPerSec::get),
            flows: (first, *number - 1),
        };
        self.course.note(&sent, "server").await;
        Ok(Duration::from_nanos((ended_ns - began_ns).max(0) as u64))
    }

    async fn part(
        &self,
        number: i64,
        bytes: Bytes,
        pace: Option<BitsPerSec>,
    ) -> Result<Transferred, String> {
        let left = self.budget.get().saturating_sub(self.course.tally().get());
        let transfer = Transfer {
            number,
            direction: Direction::Up,
            congestion: "cubic".into(),
            bytes,
            pace,
            longest: LONGEST,
            sample: SAMPLE,
            patience: PATIENCE,
            most: Bytes::new(left),
        };
        let done = match self.course.ask(Ask::Transfer(transfer)).await {
            Some(Answer::Transferred(done)) => done.map_err(|refused| refused.text)?,
            _ => return Err("this host makes no transfers".into()),
        };
        match &done.failed {
            None => Ok(done),
            Some(why) => Err(format!("an upload did not come to its end: {why:?}")),
        }
    }
}

fn bps(bytes: Bytes, took: Duration) -> Result<BitsPerSec, String> {
    let seconds = took.as_secs_f64();
    if seconds <= 0.0 {
        return Err("an upload took no time".into());
    }
    Ok(BitsPerSec::new((bytes.get() as f64 * 8.0 / seconds) as u64))
}
