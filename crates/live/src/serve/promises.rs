//! Rates of UDP load and of trains that were promised to clients. Datagrams do not slow down for others, so they are
//! admitted by their rate and refused if the sum would exceed the operator's limit.

use super::lock;
use super::quota::Refused;
use base::program::Program;
use base::{BitsPerSec, Bytes, Duration};
use measure::control::Refusal;
use std::sync::Mutex;

/// Largest backlog that a train may build up at `--max-rate`, as time.
const BACKLOG: Duration = Duration::from_millis(250);
/// Smallest backlog that is always allowed: a short train at a low limit.
const ALWAYS: Bytes = Bytes::new(64 << 10);

/// Sum of the promised rates, and its limit.
#[derive(Debug)]
pub struct Promises {
    most: BitsPerSec,
    ceiling: Option<BitsPerSec>,
    promised: Mutex<u64>,
}

/// Promise, kept until this is dropped.
#[derive(Debug)]
pub struct Promise<'a> {
    promised: &'a Mutex<u64>,
    rate: u64,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        let mut promised = lock(self.promised);
        *promised = promised.saturating_sub(self.rate);
    }
}

impl Promises {
    /// Creates an account. `most`: limit of all UDP load. `ceiling`: limit of everything (`--max-rate`).
    pub fn new(most: BitsPerSec, ceiling: Option<BitsPerSec>) -> Promises {
        Promises {
            most: ceiling.map_or(most, |c| c.min(most)),
            ceiling,
            promised: Mutex::new(0),
        }
    }

    /// Promises a rate of whole IP packets.
    ///
    /// # Errors
    /// The sum would exceed the limit.
    pub fn rate(&self, rate: BitsPerSec, what: &str) -> Result<Promise<'_>, Refused> {
        let mut promised = lock(&self.promised);
        let sum = promised.saturating_add(rate.get());
        if sum > self.most.get() {
            let left = BitsPerSec::new(self.most.get().saturating_sub(*promised));
            let text = format!(
                "{what} of {rate:.3} is more than this server grants now: {left:.3} of {:.3} are left for UDP. Ask for less, or use TCP",
                self.most
            );
            return Err((Refusal::Spent, text));
        }
        *promised = sum;
        Ok(Promise {
            promised: &self.promised,
            rate: rate.get(),
        })
    }

    /// Promises the mean rate of a program, whose datagrams have `headers` bytes before their payload.
    ///
    /// # Errors
    /// The sum would exceed the limit, or its bursts are larger than the server's rate limit allows.
    pub fn train(&self, program: &Program, headers: u32) -> Result<Promise<'_>, Refused> {
        if let Some(ceiling) = self.ceiling {
            let most = ceiling.bytes_in_floor(BACKLOG).max(ALWAYS);
            let backlog = backlog(program, headers, ceiling);
            if backlog > most {
                let text = format!(
                    "the program has bursts of {backlog:.3} above the server's rate limit of {ceiling:.3}, and {most:.3} are allowed: send fewer or smaller datagrams"
                );
                return Err((Refusal::Spent, text));
            }
        }
        let over = program.time().max(Duration::from_secs(1));
        let bits = u128::from(program.bytes(headers).get()) * 8_000_000_000;
        let mean = bits / u128::from(over.as_nanos());
        let mean = BitsPerSec::new(u64::try_from(mean).unwrap_or(u64::MAX));
        self.rate(mean, "a train")
    }
}

/// Largest backlog that the program builds up in a queue that is served at `rate`.
fn backlog(program: &Program, headers: u32, rate: BitsPerSec) -> Bytes {
    let (mut level, mut most, mut before) = (0u64, 0u64, Duration::ZERO);
    for due in program.datagrams() {
        let served = rate.bytes_in_floor(due.at.saturating_sub(before)).get();
        before = due.at;
        level = level.saturating_sub(served) + u64::from(due.payload) + u64::from(headers);
        most = most.max(level);
    }
    Bytes::new(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_add_up_to_the_limit_and_end_with_their_flow() {
        let mbps = BitsPerSec::from_mbps;
        let promises = Promises::new(mbps(100), None);
        let first = promises.rate(mbps(60), "UDP load").expect("there is room");
        let (why, text) = promises.rate(mbps(50), "UDP load").expect_err("too much");
        assert_eq!(why, Refusal::Spent);
        assert!(text.contains("40 Mbit/s of 100 Mbit/s"), "{text}");
        assert!(promises.rate(mbps(40), "UDP load").is_ok());
        drop(first);
        assert!(promises.rate(mbps(100), "UDP load").is_ok());
        let under = Promises::new(mbps(100), Some(mbps(20)));
        assert!(under.rate(mbps(21), "UDP load").is_err());
    }

    #[test]
    fn trains_are_admitted_by_their_mean_and_by_their_bursts() {
        let program = |text: &str| text.parse::<Program>().expect(text);
        let open = Promises::new(BitsPerSec::from_mbps(10_000), None);
        assert!(open.train(&program("2000 x 1400@10us"), 28).is_ok());
        let limited = Promises::new(
            BitsPerSec::from_mbps(10_000),
            Some(BitsPerSec::from_mbps(1)),
        );
        assert!(limited.train(&program("40 x 1400@10us"), 28).is_ok());
        let (_, text) = limited
            .train(&program("2000 x 1400@10us"), 28)
            .expect_err("2.8 MB at once");
        assert!(text.contains("bursts"), "{text}");
        let long = program("20000 x 1400@10ms");
        assert!(limited.train(&long, 28).is_err(), "1.1 Mbit/s for minutes");
    }
}
