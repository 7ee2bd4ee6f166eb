//! Thread that does one thing at a fixed interval, on deadlines that do not drift, and ends at once when told to.

use crate::clock::mono_ns;
use base::Duration;
use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

/// Ticker; dropping it stops the thread.
pub struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts a ticker. `each` is called after each interval with the monotonic time, until it breaks. An interval
    /// during suspend is left out, so that the next call covers both.
    ///
    /// # Errors
    /// Failure to start the thread.
    pub fn start(
        name: &str,
        interval: Duration,
        mut each: impl FnMut(i64) -> ControlFlow<()> + Send + 'static,
    ) -> io::Result<Ticker> {
        let (stop, stopped) = channel::<()>();
        let step = interval.as_nanos().max(1_000_000) as i64;
        let thread = std::thread::Builder::new()
            .name(name.into())
            .stack_size(256 << 10)
            .spawn(move || {
                let mut due = mono_ns() + step;
                loop {
                    let wait = Duration::from_nanos((due - mono_ns()).max(0) as u64);
                    if stopped.recv_timeout(wait.to_std()) != Err(RecvTimeoutError::Timeout) {
                        break;
                    }
                    let now = mono_ns();
                    if each(now).is_break() {
                        break;
                    }
                    due += ((now - due) / step + 1).max(1) * step;
                }
            })?;
        Ok(Ticker {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop = None;
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_come_until_it_is_stopped_and_never_after() {
        let (tick, ticks) = channel();
        let ticker = Ticker::start("test", Duration::from_millis(5), move |now| {
            match tick.send(now) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })
        .unwrap();
        let first = ticks.recv().unwrap();
        let second = ticks.recv().unwrap();
        assert!(second > first);
        ticker.stop();
        assert!(
            ticks.iter().count() < 1000,
            "the sender is gone, so this ends"
        );
    }

    #[test]
    fn a_long_interval_does_not_hold_up_the_end() {
        let ticker = Ticker::start("test", Duration::from_secs(3600), |_| {
            ControlFlow::Continue(())
        })
        .unwrap();
        let began = mono_ns();
        ticker.stop();
        assert!(mono_ns() - began < 2_000_000_000);
    }
}
