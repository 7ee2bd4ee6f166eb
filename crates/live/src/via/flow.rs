//! Samples of one flow of a load, from the kernel's view of its connection.

use crate::clock::{Clock, mono_ns};
use crate::load::fill;
use crate::load::flow::Meter;
use crate::load::kernel::TcpInfo;
use crate::load::pump::Unsent;
use crate::tally::{Followed, Tally};
use base::Duration;
use base::record::{Direction, Flow as Sample, Row};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// Time without progress after which a flow has lost its far end.
pub(super) const VANISHED_AFTER: Duration = Duration::from_secs(15);

/// Flow of a load, and the receivers of its samples.
#[derive(Clone)]
pub(super) struct Flow {
    /// Number of the flow within the recording.
    pub number: i64,
    pub direction: Direction,
    pub clock: Clock,
    pub rows: Sender<Row>,
    pub meter: Arc<Meter>,
    pub stop: Arc<AtomicBool>,
    pub tally: Tally,
    /// Time between two samples.
    pub sample: Duration,
    /// Monotonic time of the end.
    pub until: i64,
    /// Congestion control of an upload.
    pub congestion: Option<String>,
}

impl Flow {
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Sampler of a connection of the flow, whose earlier connections have carried `kept` bytes.
    ///
    /// # Errors
    /// A socket that is not connected.
    pub fn sampler(&self, stream: TcpStream, kept: u64) -> std::io::Result<Sampler<'_>> {
        let followed = self.tally.follow(stream.peer_addr()?);
        let mut sampler = Sampler {
            flow: self,
            stream,
            before: 0,
            kept,
            delivered: 0,
            followed,
            unsent: Unsent::default(),
            bytes: kept,
            moved: mono_ns(),
        };
        // Handshakes and requests before the load are no payload.
        let info = TcpInfo::read(&sampler.stream)?;
        sampler.before = sampler.count(&info).unwrap_or(0);
        Ok(sampler)
    }
}

/// Sampler of one connection.
pub(super) struct Sampler<'f> {
    flow: &'f Flow,
    stream: TcpStream,
    before: u64,
    kept: u64,
    delivered: u64,
    followed: Followed,
    unsent: Unsent,
    bytes: u64,
    moved: i64,
}

impl Sampler<'_> {
    fn count(&self, info: &TcpInfo) -> Option<u64> {
        match self.flow.direction {
            Direction::Up => info.bytes_acked(),
            Direction::Down => info.bytes_received(),
        }
    }

    /// Payload of the flow so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time since the latest progress.
    pub fn still_for(&self) -> Duration {
        Duration::from_nanos((mono_ns() - self.moved).max(0) as u64)
    }

    /// Takes a sample; breaks if nobody records any more.
    pub fn sample(&mut self) -> ControlFlow<()> {
        match TcpInfo::read_after(&self.stream, &mut self.delivered) {
            Ok(info) => self.take(mono_ns(), &info),
            Err(_) => ControlFlow::Continue(()),
        }
    }

    /// Takes a sample that was read at the monotonic time `now`.
    pub fn take(&mut self, now: i64, info: &TcpInfo) -> ControlFlow<()> {
        self.followed.count(info);
        let flow = self.flow;
        let mut row = Sample::about(flow.clock.from_mono_ns(now), flow.number, flow.direction);
        let own = self.count(info).map(|b| b.saturating_sub(self.before));
        let bytes = own.map(|b| b.saturating_add(self.kept));
        let int = |v: u64| i64::try_from(v).ok();
        match flow.direction {
            Direction::Up => {
                fill(&mut row, &info.sender());
                row.bytes_acked = bytes.and_then(int);
                self.unsent.follow(&self.stream, info);
            }
            Direction::Down => {
                row.bytes_received = bytes.and_then(int);
                row.mss_bytes = info.received_mss().and_then(int);
            }
        }
        if let Some(bytes) = bytes {
            if bytes != self.bytes {
                self.moved = now;
            }
            self.bytes = bytes;
            flow.meter.set(now, bytes);
        }
        match flow.rows.send(Row::Flow(row)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}
