//! The path to the server, hop by hop, as the steps of experiments ask for it: a tracer, and the thread that sends its
//! rounds.

mod gateway;
mod tracer;

pub use gateway::{Gateway, towards};

use crate::clock::Clock;
use crate::error::CraftError;
use crate::outlet::Outlet;
use crate::tally::Tally;
use base::record::Row;
use base::{Duration, Time};
use experiment::ask::{Answer, Path, Trace};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tracer::Tracer;

/// Interval at which a round is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Destination of a tracer's probes and of its rows.
pub(crate) struct Line<'a> {
    pub server: IpAddr,
    pub outlet: &'a Outlet,
    pub clock: Clock,
    pub rows: &'a Sender<Row>,
    pub tally: &'a Tally,
}

/// Tracer, before its rounds and while a thread sends them. Dropping it ends the thread.
#[derive(Default)]
pub(crate) enum Tracing {
    #[default]
    None,
    Still(Box<Tracer>),
    On(Rounds),
}

impl Tracing {
    /// # Errors
    /// There is no socket or no thread; this host refuses to send.
    pub fn ask(&mut self, ask: &Trace, line: &Line) -> Result<Answer, CraftError> {
        match (ask, std::mem::take(self)) {
            (Trace::Open(tracing), _) => {
                let Line {
                    clock, rows, tally, ..
                } = line;
                let (rows, tally) = ((*rows).clone(), (*tally).clone());
                let tracer = Tracer::open(
                    (line.server, line.outlet),
                    tracing.hops,
                    *clock,
                    rows,
                    tally,
                );
                let mut tracer = tracer.map_err(CraftError::socket("trace the route"))?;
                tracer.echoes_within = tracing.echoes_within;
                tracer.landmarks.clone_from(&tracing.landmarks);
                *self = Tracing::Still(Box::new(tracer));
                Ok(Answer::Done)
            }
            (
                Trace::Round {
                    hops,
                    bytes,
                    within,
                },
                Tracing::Still(mut tracer),
            ) => {
                let sent = tracer.round(*hops, *bytes);
                tracer.listen(*within, true);
                let path = tracer.path(None);
                *self = Tracing::Still(tracer);
                sent.map_err(CraftError::socket("send towards the hops"))?;
                Ok(Answer::Path(path))
            }
            (Trace::On(interval), Tracing::Still(tracer)) => {
                let rounds = Rounds::start(*tracer, *interval, line.clock);
                *self = Tracing::On(rounds.map_err(CraftError::socket("start a thread"))?);
                Ok(Answer::Done)
            }
            (Trace::Latest, tracing) => {
                let latest = match &tracing {
                    Tracing::On(rounds) => rounds.latest(),
                    Tracing::Still(_) | Tracing::None => None,
                };
                *self = tracing;
                Ok(Answer::RoundTrip(latest))
            }
            (Trace::End, Tracing::Still(tracer)) => Ok(Answer::Path(ended(*tracer, Ok(())))),
            (Trace::End, Tracing::On(rounds)) => {
                let (tracer, failed) = rounds.stop();
                Ok(Answer::Path(ended(tracer, failed)))
            }
            (_, tracing) => {
                *self = tracing;
                let what = "trace hops without a tracer, or twice";
                Err(experiment::Stopped::Cannot { what }.into())
            }
        }
    }
}

fn ended(tracer: Tracer, failed: Failed) -> Path {
    let path = tracer.path(failed.err().map(|e| e.to_string()));
    tracer.finish();
    path
}

type Failed = Result<(), io::Error>;

/// The thread that sends a round an interval.
pub(crate) struct Rounds {
    stop: Arc<AtomicBool>,
    latest: Arc<Mutex<Option<(Time, Duration)>>>,
    thread: Option<JoinHandle<(Tracer, Failed)>>,
}

impl Rounds {
    fn start(mut tracer: Tracer, interval: Duration, clock: Clock) -> io::Result<Rounds> {
        let stop = Arc::new(AtomicBool::new(false));
        let latest = Arc::new(Mutex::new(None));
        let (its_stop, its_latest) = (stop.clone(), latest.clone());
        let thread = std::thread::Builder::new()
            .name("path".into())
            .stack_size(256 << 10)
            .spawn(move || {
                crate::probe::host::wake_exactly(crate::probe::host::PROBES);
                let mut due = clock.now();
                while !its_stop.load(Ordering::Relaxed) {
                    let hops = tracer.known();
                    if let Err(e) = tracer.round(hops, None) {
                        return (tracer, Err(e));
                    }
                    let half = due + interval / 2;
                    tracer.listen(half.saturating_since(clock.now()), false);
                    tracer.echo_round();
                    // Whoever is late leaves out rounds rather than sending two at once.
                    due = (due + interval).max(clock.now());
                    while clock.now() < due && !its_stop.load(Ordering::Relaxed) {
                        tracer.listen(due.saturating_since(clock.now()).min(TICK), false);
                        *its_latest.lock().unwrap_or_else(PoisonError::into_inner) =
                            tracer.farthest_round_trip();
                    }
                }
                (tracer, Ok(()))
            })?;
        Ok(Rounds {
            stop,
            latest,
            thread: Some(thread),
        })
    }

    /// Round trip to the farthest hop that answered of late, and when it ended.
    fn latest(&self) -> Option<(Time, Duration)> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(mut self) -> (Tracer, Failed) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self
            .thread
            .take()
            .expect("it is taken here or when dropped");
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Rounds {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; the run is over.
            let _ = thread.join();
        }
    }
}
