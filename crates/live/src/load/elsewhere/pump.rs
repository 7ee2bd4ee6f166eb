//! Pump on systems other than Linux: it asks the socket at short intervals.

use super::kernel::TcpInfo;
pub use super::payload::{End, Payload};
use crate::clock::mono_ns;
use base::Duration;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// Wait while a socket takes nothing, or has nothing.
const PAUSE: std::time::Duration = std::time::Duration::from_micros(500);

/// Flow at one end.
pub struct Pump<'a> {
    pub socket: &'a TcpStream,
    /// Monotonic time of the end.
    pub until: i64,
    pub sample: Duration,
    /// Longest time without progress.
    pub patience: Duration,
    pub stop: &'a AtomicBool,
}

impl Pump<'_> {
    /// Moves bytes by `step` until the end; `on_sample` gets the monotonic time and the bytes so far.
    fn run(
        &self,
        step: &mut dyn FnMut(u64) -> io::Result<usize>,
        on_sample: &mut dyn FnMut(i64, u64) -> ControlFlow<()>,
    ) -> End {
        if let Err(e) = self.socket.set_nonblocking(true) {
            return End::Failed(e);
        }
        let interval = self.sample.as_nanos().max(1_000_000) as i64;
        let mut due = mono_ns();
        let (mut moved, mut total) = (due, 0u64);
        let end = loop {
            let now = mono_ns();
            if self.stop.load(Ordering::Relaxed) {
                break End::Stopped;
            }
            if now >= self.until {
                break End::TimeUp;
            }
            if now - moved > self.patience.as_nanos() as i64 {
                break End::Stalled;
            }
            if now >= due {
                due += ((now - due) / interval + 1) * interval;
                if on_sample(now, total).is_break() {
                    break End::Enough;
                }
            }
            match step(total) {
                Ok(0) => break End::PeerClosed,
                Ok(n) => (total, moved) = (total + n as u64, now),
                Err(e) => match e.kind() {
                    io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe => break End::PeerClosed,
                    _ => break End::Failed(e),
                },
            }
        };
        let _ = on_sample(mono_ns(), total);
        // The far end's last words are read next.
        let _ = self.socket.set_nonblocking(false);
        end
    }

    /// Sends until the end; `on_sample` gets the monotonic time, the bytes that the socket has taken, and what the system
    /// tells of the connection.
    pub fn send(
        &self,
        payload: &Payload,
        on_sample: &mut dyn FnMut(i64, u64, &TcpInfo) -> ControlFlow<()>,
    ) -> End {
        let mut socket = self.socket;
        let mut step = |total| socket.write(payload.chunk(total as usize));
        self.run(&mut step, &mut |now, taken| on_sample(now, taken, &TcpInfo))
    }

    /// Discards received bytes; `on_sample` gets the monotonic time and the bytes so far.
    pub fn receive(&self, on_sample: &mut dyn FnMut(i64, u64) -> ControlFlow<()>) -> End {
        let mut socket = self.socket;
        let mut nowhere = vec![0u8; 256 << 10];
        self.run(&mut |_| socket.read(&mut nowhere), on_sample)
    }
}
