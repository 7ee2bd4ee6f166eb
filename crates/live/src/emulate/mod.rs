//! An emulated link for real packets: the kernel's own TCP, real programs, IPv4 and IPv6, through the
//! same [`link::Link`] that the simulator runs.
//!
//! ```text
//!   near ──veth──▶ [ link 1 up ] ▶ [ link 2 up ] ──veth──▶ far
//!        ◀──veth── [ link 1 down ] ◀ [ link 2 down ] ◀──veth──
//! ```
//! Near and far are network namespaces without a name, which vanish with the process: nothing is left
//! behind however it ends. Between them one thread takes each packet from a packet socket, holds it as
//! long as the links say, and puts it back (`docs/decisions/0002-veth-and-packet-sockets.md`).

mod engine;
mod error;
mod frames;
mod header;
mod keeper;
mod namespace;
mod offload;
mod port;
mod prepare;
mod run;
mod summary;
mod way;
mod wire;

pub use error::EmulateError;
pub use namespace::NetNs;
pub use prepare::prepare;
pub use run::{Outcome, Programs, run_command};
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
use wire::Bench;

/// How an emulation is run; what the link is, its [`LinkSpec`]s say.
#[derive(Clone, Debug)]
pub struct Options {
    /// The clock of the run, to which rates that change with time are tied too.
    pub clock: Clock,
    /// For loss, jitter and the like.
    pub seed: u64,
    /// Where the state of the queues is written, if anywhere.
    pub rows: Option<Sender<Row>>,
    /// How often; at most a thousand times a second.
    pub sample_every: Duration,
}

impl Options {
    pub fn new(clock: Clock) -> Options {
        Options {
            clock,
            seed: 1,
            rows: None,
            sample_every: Duration::from_millis(20),
        }
    }
}

/// A link that stands until it is stopped or dropped.
#[derive(Debug)]
pub struct Emulation {
    bench: Bench,
    thread: Option<JoinHandle<Result<Summary, EmulateError>>>,
    /// Closing it ends the thread.
    stop: Option<PipeWriter>,
}

impl Emulation {
    /// Puts up the links of `hops`, the one next to the near end first. Packets may be sent at once.
    ///
    /// # Errors
    /// Where the system does not allow it, saying what is missing; or a link cannot be as described.
    pub fn start(hops: &[LinkSpec], options: Options) -> Result<Emulation, EmulateError> {
        let mtu = hops
            .iter()
            .flat_map(|h| [h.up.mtu, h.down.mtu])
            .min()
            .ok_or(EmulateError::NoLink)?
            .get() as u32;
        let longest = mtu as usize + ETHERNET;
        let chain = |direction: fn(&LinkSpec) -> &DirectionSpec| -> Result<Vec<(usize, LinkParams)>, EmulateError> {
            hops.iter().enumerate().map(|(i, hop)| Ok((i + 1, direction(hop).params()?))).collect()
        };
        let (up, mut down) = (chain(|h| &h.up)?, chain(|h| &h.down)?);
        down.reverse();
        let streams = Streams::new(options.seed);
        let way = |direction: &str, chain: &[_]| {
            Way::new(direction, chain, hops.len(), &streams, longest)
        };
        let ways = [way("up", &up), way("down", &down)];

        let bench = Bench::build(mtu)?;
        let (stopped, stop) = std::io::pipe().map_err(EmulateError::kernel("make a pipe"))?;
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
            let engine = Engine {
                clock: options.clock,
                ways,
                ports,
                rows: options.rows,
                sample_every: options.sample_every.max(Duration::from_millis(1)),
            };
            let _ = tell.send(Ok(()));
            engine.run(&stopped)
        })?;
        let mut emulation = Emulation {
            bench,
            thread: Some(thread),
            stop: Some(stop),
        };
        match ready.recv() {
            Ok(opened) => opened?,
            // It panicked: joining it says why.
            Err(_) => drop(emulation.finish()?),
        }
        Ok(emulation)
    }

    /// The user's side: its uploads go through the `up` of each link.
    pub fn near(&self) -> &NetNs {
        &self.bench.near
    }

    /// The network's side.
    pub fn far(&self) -> &NetNs {
        &self.bench.far
    }

    /// Takes the link down. Packets in it are lost, as when a cable is pulled.
    ///
    /// # Errors
    /// Where the emulation ended before it was asked to.
    pub fn stop(mut self) -> Result<Summary, EmulateError> {
        let mut summary = self.finish()?;
        // What the kernel could not hand from one end of a veth pair to the other.
        for (direction, from, to) in [
            (&mut summary.up, &self.bench.near, &self.bench.far),
            (&mut summary.down, &self.bench.far, &self.bench.near),
        ] {
            let before = wire::interface_losses(from, INTERFACE)?.unwrap_or(0);
            let behind = wire::interface_losses(&self.bench.middle, to.name())?.unwrap_or(0);
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

impl Drop for Emulation {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // Whoever wants to know how it went calls `stop`.
            let _ = self.finish();
        }
    }
}
