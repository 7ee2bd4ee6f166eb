//! Emulated link for real packets: the kernel's own TCP, real programs, IPv4 and IPv6, through the same [`link::Link`]
//! that the simulator runs.
//!
//! ```text
//!   near ──veth──▶ [ link 1 up ] ▶ [ link 2 up ] ──veth──▶ far
//!        ◀──veth── [ link 1 down ] ◀ [ link 2 down ] ◀──veth──
//! ```
//! With [`Options::routed`] a router of the kernel stands between one link and the next, as on a real path:
//! ```text
//!   near ──▶ [ link 1 ] ──▶ router 1 ──▶ [ link 2 ] ──▶ far
//! ```
//! Near, far and the routers are network namespaces without a name, which vanish with the process: nothing is left
//! behind however it ends. Between them one thread takes each packet from a packet socket, holds it as
//! long as the links say, and puts it back (`docs/decisions/0002-veth-and-packet-sockets.md`).

mod engine;
mod error;
mod frames;
mod header;
mod namespace;
mod offload;
mod port;
mod prepare;
mod routed;
mod run;
pub mod settings;
mod summary;
mod way;
mod wire;

pub use error::EmulateError;
pub use namespace::NetNs;
pub use prepare::prepare;
pub(crate) use prepare::rights_are_confined;
pub use run::{HeldSignals, Outcome, Programs, run_command};
pub use summary::{DirectionSummary, Summary, TRUSTED_LATENESS};
pub use wire::{FAR_V4, FAR_V6, INTERFACE, NEAR_V4, NEAR_V6};

use crate::clock::Clock;
use base::Duration;
use base::record::Row;
use base::rng::Streams;
use engine::Engine;
use header::ETHERNET;
use link::{DirectionSpec, LinkParams, LinkSpec};
use port::Port;
use std::io::PipeWriter;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use way::Way;
use wire::{Bench, End};

/// Options of an emulation; the links are described by their [`LinkSpec`]s.
#[derive(Clone, Debug)]
pub struct Options {
    /// Clock of the run, which also drives rates that change with time.
    pub clock: Clock,
    /// Seed of loss, jitter and other random effects.
    pub seed: u64,
    /// Receiver of samples of the queues, if any.
    pub rows: Option<Sender<Row>>,
    /// Interval of these samples; at least a millisecond.
    pub sample_every: Duration,
    /// True to put routers between the links, so that each link is a hop of its own.
    pub routed: bool,
}

impl Options {
    pub fn new(clock: Clock) -> Options {
        Options {
            clock,
            seed: 1,
            rows: None,
            sample_every: Duration::from_millis(20),
            routed: false,
        }
    }
}

/// Chain of links that exists until it is stopped or dropped.
#[derive(Debug)]
pub struct Emulation {
    /// Legs of the chain: one, or with routers as many as there are links. The one next to the near end is first.
    legs: Vec<Leg>,
}

/// Links without a router between them: one thread carries the packets of all.
#[derive(Debug)]
struct Leg {
    bench: Bench,
    thread: Option<JoinHandle<Result<Summary, EmulateError>>>,
    /// Pipe whose closing ends the thread.
    stop: Option<PipeWriter>,
}

impl Emulation {
    /// Creates the links of `hops`, the one next to the near end first. Packets may be sent at once.
    ///
    /// # Errors
    /// If the system does not allow it, with the missing right; or if a link cannot be as described.
    pub fn start(hops: &[LinkSpec], options: Options) -> Result<Emulation, EmulateError> {
        if hops.is_empty() {
            return Err(EmulateError::NoLink);
        }
        if options.routed && hops.len() > 1 {
            return routed::start(hops, &options);
        }
        let numbered: Vec<_> = hops.iter().enumerate().map(|(i, h)| (i + 1, h)).collect();
        let ends = [
            End::single("near", NEAR_V4, NEAR_V6)?,
            End::single("far", FAR_V4, FAR_V6)?,
        ];
        Ok(Emulation {
            legs: vec![Leg::start(&numbered, hops.len(), &ends, &options)?],
        })
    }

    /// Near end, the user's side: its uploads go through the `up` of each link.
    pub fn near(&self) -> &NetNs {
        &self.legs[0].bench.near
    }

    /// Far end, the network's side.
    pub fn far(&self) -> &NetNs {
        &self.legs[self.legs.len() - 1].bench.far
    }

    /// Routers between the links, the one next to the near end first; none without [`Options::routed`].
    pub fn routers(&self) -> impl Iterator<Item = &NetNs> {
        self.legs[1..].iter().map(|leg| &leg.bench.near)
    }

    /// Removes the links. Packets in them are lost, as when a cable is pulled.
    ///
    /// # Errors
    /// If the emulation ended before it was asked to.
    pub fn stop(self) -> Result<Summary, EmulateError> {
        let mut whole: Option<Summary> = None;
        for leg in self.legs {
            let summary = leg.stop()?;
            whole = Some(match whole {
                Some(before) => before.followed_by(summary),
                None => summary,
            });
        }
        whole.ok_or(EmulateError::NoLink)
    }
}

impl Leg {
    /// Starts the links `hops` with their numbers among all `of` links, between two ends.
    fn start(
        hops: &[(usize, &LinkSpec)],
        of: usize,
        ends: &[End; 2],
        options: &Options,
    ) -> Result<Leg, EmulateError> {
        let mtu = hops
            .iter()
            .flat_map(|(_, h)| [h.up.mtu, h.down.mtu])
            .min()
            .ok_or(EmulateError::NoLink)?
            .get() as u32;
        let longest = mtu as usize + ETHERNET;
        let chain = |direction: fn(&LinkSpec) -> &DirectionSpec| -> Result<Vec<(usize, LinkParams)>, EmulateError> {
            hops.iter().map(|(i, hop)| Ok((*i, direction(hop).params()?))).collect()
        };
        let (up, mut down) = (chain(|h| &h.up)?, chain(|h| &h.down)?);
        down.reverse();
        let streams = Streams::new(options.seed);
        let way = |direction: &str, chain: &[_]| Way::new(direction, chain, of, &streams, longest);
        let ways = [way("up", &up), way("down", &down)];

        let bench = Bench::build(&ends[0], &ends[1], mtu)?;
        let (stopped, stop) = std::io::pipe().map_err(EmulateError::kernel("make a pipe"))?;
        let engine = (options.clock, options.rows.clone(), options.sample_every);
        // The ports are opened by the thread that uses them, in the namespace it was started in.
        let (tell, ready) = mpsc::channel();
        let thread = bench.middle.spawn("emulator", move || {
            let ports = match Port::open("near", mtu)
                .and_then(|near| Ok([near, Port::open("far", mtu)?]))
            {
                Ok(ports) => ports,
                Err(e) => {
                    // Its receiver waits for exactly one message.
                    let _ = tell.send(Err(e));
                    return Err(EmulateError::ThreadDied {
                        reason: "it could not open its ports".into(),
                    });
                }
            };
            let (clock, rows, sample_every) = engine;
            let engine = Engine {
                clock,
                ways,
                ports,
                rows,
                sample_every: sample_every.max(Duration::from_millis(1)),
            };
            let _ = tell.send(Ok(()));
            engine.run(&stopped)
        })?;
        let mut leg = Leg {
            bench,
            thread: Some(thread),
            stop: Some(stop),
        };
        match ready.recv() {
            Ok(opened) => opened?,
            // It panicked: joining it says why.
            Err(_) => drop(leg.finish()?),
        }
        Ok(leg)
    }

    fn stop(mut self) -> Result<Summary, EmulateError> {
        let mut summary = self.finish()?;
        // What the kernel could not hand from one end of a veth pair to the other.
        let [near, far] = self.bench.interfaces;
        for (direction, from, interface, to) in [
            (&mut summary.up, &self.bench.near, near, "far"),
            (&mut summary.down, &self.bench.far, far, "near"),
        ] {
            let before = wire::interface_losses(from, interface)?.unwrap_or(0);
            let behind = wire::interface_losses(&self.bench.middle, to)?.unwrap_or(0);
            direction.host_lost_packets += before + behind;
        }
        Ok(summary)
    }

    fn finish(&mut self) -> Result<Summary, EmulateError> {
        self.stop = None;
        let died = |reason: &str| EmulateError::ThreadDied {
            reason: reason.to_string(),
        };
        let thread = self
            .thread
            .take()
            .ok_or_else(|| died("it was stopped before"))?;
        thread.join().unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            Err(died(text.unwrap_or("no reason given")))
        })
    }
}

impl Drop for Leg {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Whoever wants to know how it went stops the emulation.
            let _ = self.finish();
        }
    }
}
