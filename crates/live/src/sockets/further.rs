//! Requests of an experiment beside probes and loads: counters, trains, pages, hops and the rest.

use super::Setup;
use crate::clock::Clock;
use crate::craft;
use crate::ends::Ends;
use crate::error::CraftError;
use crate::host::CpuSampler;
use crate::load::{ForeignPlan, ForeignProbe, Load};
use crate::page::{Around, Browsing};
use crate::path::{self, Tracing};
use crate::tcp::Transfers;
use crate::traffic::TrafficMonitor;
use crate::wifi::Wifi;
use base::Duration;
use base::program::{Sending, Train};
use base::record::Row;
use experiment::ask::{Answer, Ask, Browse};
use experiment::host::{Counted, Fresh, Meanwhile, Passing, Rates};
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

/// Interval at which counters of the interface are read.
const COUNT: Duration = Duration::from_millis(100);
/// Interval at which the processors' load is read.
const PROCESSOR: Duration = Duration::from_secs(1);

/// Counters of an interface and of the processors, once they run.
#[derive(Default)]
pub(crate) struct Counters {
    traffic: Option<TrafficMonitor>,
    processor: Option<CpuSampler>,
}

impl Counters {
    /// Starts rows of a counter, if it does not run. `interface` is by default the one towards `server`.
    ///
    /// # Errors
    /// There are no such counters.
    pub(crate) fn start(
        &mut self,
        what: Counted,
        (interface, server): (Option<&str>, SocketAddr),
        clock: Clock,
        rows: &Sender<Row>,
    ) -> Result<(), CraftError> {
        let rows = rows.clone();
        match what {
            Counted::Interface if self.traffic.is_none() => {
                let traffic = TrafficMonitor::start(interface, server, COUNT, clock, rows)?;
                self.traffic = Some(traffic);
            }
            Counted::Processor if self.processor.is_none() => {
                let processor = CpuSampler::start(PROCESSOR, clock, rows);
                self.processor = Some(processor.map_err(CraftError::socket("start a thread"))?);
            }
            Counted::Interface | Counted::Processor => {}
        }
        Ok(())
    }

    /// Monitor of the interface, if it runs.
    pub(crate) fn traffic(&self) -> Option<&TrafficMonitor> {
        self.traffic.as_ref()
    }
}

/// All that runs beside probes and loads. Dropping it ends it.
#[derive(Default)]
pub(super) struct Further {
    fresh: Option<ForeignProbe>,
    counters: Counters,
    tracing: Tracing,
    browsing: Browsing,
    ends: Ends,
    wifi: Wifi,
}

impl Further {
    pub(super) fn count(&mut self, what: Counted, setup: &Setup<'_>) -> Result<(), CraftError> {
        let towards = (setup.interface.as_deref(), setup.peer.server);
        self.counters.start(what, towards, setup.clock, &setup.rows)
    }

    /// Rates of the interface that is counted.
    pub(super) fn rates(&self, window: Duration) -> Option<Rates> {
        self.counters.traffic()?.idle_rate(window)
    }

    /// Name of the interface that is counted.
    pub(super) fn interface(&self) -> Option<&str> {
        self.counters.traffic().map(TrafficMonitor::interface)
    }

    fn browse(
        &mut self,
        browse: &Browse,
        (setup, loads): (&Setup<'_>, &[(u32, Load)]),
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Answer, CraftError> {
        let mut around = Around {
            clock: setup.clock,
            tally: &setup.tally,
            is_stuck: &mut |stuck| {
                let mut states = loads.iter().map(|(_, load)| load.progress());
                states.any(|s| s.alive == 0 || s.still_for >= stuck)
            },
            going_on,
        };
        Ok(self.browsing.ask(browse, &mut around)?)
    }

    pub(super) fn ask(
        &mut self,
        ask: &Ask,
        setup: &mut Setup<'_>,
        loads: &[(u32, Load)],
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Answer, CraftError> {
        match ask {
            // A browser chooses its own route.
            Ask::Browse(_) if setup.peer.access.outlet.interface().is_some() => {
                let what = "load pages through one interface (--interface)";
                return Err(experiment::Stopped::Cannot { what }.into());
            }
            Ask::Browse(browse) => return self.browse(browse, (setup, loads), going_on),
            Ask::Capture(file) => return capture(setup, file),
            Ask::StopCapture => return captured(setup),
            _ => {}
        }
        let Setup {
            peer,
            clock,
            rows,
            tally,
            ..
        } = &*setup;
        let transfers = Transfers {
            peer,
            clock: *clock,
            rows,
            tally,
        };
        let server = peer.server.ip().to_canonical();
        let line = path::Line {
            server,
            outlet: &peer.access.outlet,
            clock: *clock,
            rows,
            tally,
        };
        match ask {
            Ask::Controls(direction) => Ok(Answer::Controls(transfers.controls(*direction))),
            Ask::Sender(direction, sender) => {
                transfers.sender(setup.far, *direction, *sender)?;
                Ok(Answer::Done)
            }
            Ask::Transfer(transfer) => {
                let transferred = transfers.carry_out(transfer, going_on)?;
                Ok(Answer::Transferred(transferred))
            }
            Ask::Wifi => {
                let interface = setup.interface.as_deref();
                Ok(Answer::Wifi(self.wifi.ask(interface, peer)))
            }
            Ask::Quic(load) => {
                let mut goes_on = || {
                    going_on(Meanwhile {
                        now: clock.now(),
                        tally: tally.bytes(),
                    })
                };
                let ran = self.ends.quic(load, (peer, tally), &mut goes_on)?;
                Ok(Answer::Quic(ran))
            }
            Ask::Trace(trace) => self.tracing.ask(trace, &line),
            Ask::Gateway => {
                let gateway = path::towards(server, &peer.access.outlet);
                Ok(Answer::Gateway(gateway.map(|g| (g.address, g.interface))))
            }
            other => self.ends.ask(other, (peer, *clock), tally),
        }
    }

    pub(super) fn fresh(
        &mut self,
        fresh: Option<Fresh>,
        setup: &Setup<'_>,
    ) -> Result<(), CraftError> {
        self.fresh = None;
        let Some(Fresh { interval, at_once }) = fresh else {
            return Ok(());
        };
        let plan = ForeignPlan {
            peer: setup.peer.clone(),
            interval,
            at_once,
            tally: setup.tally.clone(),
        };
        let started = ForeignProbe::start(plan, setup.clock, setup.rows.clone());
        let started = started.map_err(CraftError::socket("start a thread"))?;
        self.fresh = Some(started);
        Ok(())
    }
}

pub(super) fn train(
    setup: &Setup<'_>,
    sending: &Sending,
    first: i64,
    passing: &mut dyn FnMut(Passing) -> bool,
) -> Result<Vec<Train>, CraftError> {
    craft::train((&setup.peer, setup.clock), sending, first, passing)
}

fn capture(setup: &mut Setup<'_>, file: &str) -> Result<Answer, CraftError> {
    let server = setup.peer.server;
    let interface = match &setup.interface {
        Some(name) => name.clone(),
        None => setup.peer.access.outlet.towards(server)?,
    };
    let capture = setup.capture.as_mut().ok_or_else(no_capture)?;
    let started = capture.start(&interface, server, file);
    started.map_err(|why| experiment::Stopped::Unusable { why })?;
    Ok(Answer::Done)
}

fn captured(setup: &mut Setup<'_>) -> Result<Answer, CraftError> {
    let capture = setup.capture.as_mut().ok_or_else(no_capture)?;
    let stopped = capture.stop();
    let captured = stopped.map_err(|why| experiment::Stopped::Unusable { why })?;
    Ok(Answer::Captured {
        written: true,
        packets: captured.packets,
        missed: captured.missed,
    })
}

fn no_capture() -> experiment::Stopped {
    experiment::Stopped::Cannot {
        what: "capture packets",
    }
}
