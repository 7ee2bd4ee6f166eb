//! Cross traffic on an emulated link: packets of access-link sizes at random instants, of which a probe is not told. It
//! tests an experiment's reaction to cross traffic with the kernel's own packets, as the simulator does in virtual
//! time.

use crate::clock::mono_ns;
use crate::emulate::{EmulateError, Emulation, FAR_V4};
use crate::probe::host;
use base::BitsPerSec;
use base::rng::{Streams, uniform};
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Sizes of whole IP packets with their shares: acknowledgements, medium packets, full packets.
const SIZES: [(usize, f64); 3] = [(40, 0.4), (576, 0.15), (1500, 0.45)];
/// IPv4 and UDP headers.
const HEADERS: usize = 28;
/// Lateness above which a host does not catch up: that would be a burst.
const MOST_BEHIND_NS: i64 = 20_000_000;
/// Interval at which the thread checks if it should stop.
const LOOK_NS: i64 = 50_000_000;

/// Cross traffic from the near end to the far one until it is dropped.
pub struct Others {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Destination of the packets, never read.
    _sink: UdpSocket,
}

impl Others {
    /// # Errors
    /// Errors of the namespaces and the sockets.
    pub fn start(
        emulation: &Emulation,
        rate: BitsPerSec,
        seed: u64,
    ) -> Result<Others, EmulateError> {
        let failed = |source: io::Error| EmulateError::Kernel {
            operation: "open a socket for others' packets".into(),
            source,
        };
        let sink = emulation.far().run(|| UdpSocket::bind((FAR_V4, 0)))?;
        let sink = sink.map_err(failed)?;
        let to = sink.local_addr().map_err(failed)?;
        let from = emulation.near().run(|| -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.connect(to)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })?;
        let from = from.map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let its = stop.clone();
        let thread = emulation
            .near()
            .spawn("others", move || send(&from, rate, seed, &its))?;
        Ok(Others {
            stop,
            thread: Some(thread),
            _sink: sink,
        })
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It does not panic; were it to, the probe's own figures are none the worse.
            let _ = thread.join();
        }
    }
}

fn send(socket: &UdpSocket, rate: BitsPerSec, seed: u64, stop: &AtomicBool) {
    host::wake_exactly(host::PROBES);
    let mut rng = Streams::new(seed).stream("craft/others");
    let mean: f64 = SIZES.iter().map(|(size, share)| *size as f64 * share).sum();
    let mut at = mono_ns();
    while !stop.load(Ordering::Relaxed) {
        let gap = -(1.0 - uniform(&mut rng)).ln() * mean * 8e9 / rate.get().max(1) as f64;
        at += gap as i64;
        let now = mono_ns();
        if now - at > MOST_BEHIND_NS {
            at = now;
        }
        while mono_ns() < at && !stop.load(Ordering::Relaxed) {
            host::sleep_until(at.min(mono_ns() + LOOK_NS));
        }
        let mut left = uniform(&mut rng);
        let drawn = SIZES.iter().find(|(_, share)| {
            left -= share;
            left < 0.0
        });
        let size = drawn.map_or(SIZES[0].0, |d| d.0);
        // A packet that this host refuses is one that others did not send.
        let _ = socket.send(&[0; 1472][..size - HEADERS]);
    }
}
