//! Traffic of an interface, from the kernel's counters: the cross traffic of a measurement.
//!
//! The counters are read from `/proc/thread-self/net/dev`, which follows the network namespace of the thread that opens
//! it; `/sys/class/net` would show the namespace that its mount belongs to.

use crate::clock::{Clock, mono_ns};
use crate::route;
use crate::ticker::Ticker;
use base::record::{Counter, Event, Row, Text, Traffic};
use base::{BitsPerSec, Duration};
use nix::net::if_::if_nametoindex;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

pub use experiment::host::{HOLD_OFF_DOWN, HOLD_OFF_UP, Rates};

/// Time that [`TrafficMonitor::idle_rate`] can look back.
const REMEMBERED: Duration = Duration::from_secs(60);
const COUNTERS: &str = "/proc/thread-self/net/dev";

#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    #[error("no interface \"{name}\" here. There are: {}", .known.join(", "))]
    NoInterface { name: String, known: Vec<String> },
    #[error("no route to {server}: {source}. `ip route get {}` says more; or name the interface", .server.ip())]
    NoRoute {
        server: SocketAddr,
        source: io::Error,
    },
    #[error("cannot read the interface counters in {COUNTERS}: {0}")]
    Counters(#[source] io::Error),
    #[error("cannot start the thread of the traffic monitor: {0}")]
    Thread(#[source] io::Error),
}

/// Bytes and packets since the interface came up, link-layer headers included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub bytes: u64,
    pub packets: u64,
}

/// Counters of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Received by this host.
    pub rx: Passed,
    /// Sent by this host.
    pub tx: Passed,
}

/// Names of the interfaces here.
pub(crate) fn interfaces() -> io::Result<Vec<String>> {
    let text = std::fs::read_to_string(COUNTERS)?;
    Ok(parse(&text).map(|(name, _)| name.to_owned()).collect())
}

/// Counters of each interface, in the kernel's order.
fn parse(text: &str) -> impl Iterator<Item = (&str, Counters)> {
    // Two lines of headings; then `name: rx_bytes …8 columns… tx_bytes …`, proc_pid_net(5).
    text.lines().skip(2).filter_map(|line| {
        let (name, numbers) = line.rsplit_once(':')?;
        let mut columns = numbers.split_ascii_whitespace();
        let mut number = |skipped: usize| columns.nth(skipped)?.parse().ok();
        let rx = Passed {
            bytes: number(0)?,
            packets: number(0)?,
        };
        let tx = Passed {
            bytes: number(6)?,
            packets: number(0)?,
        };
        Some((name.trim(), Counters { rx, tx }))
    })
}

/// Checks that there is an interface of this name.
///
/// # Errors
/// `NoInterface` with the known ones.
pub(crate) fn known(name: &str) -> Result<(), TrafficError> {
    let known = interfaces().map_err(TrafficError::Counters)?;
    match known.iter().any(|k| k == name) {
        true => Ok(()),
        false => Err(TrafficError::NoInterface {
            name: name.to_owned(),
            known,
        }),
    }
}

/// Bytes counted in between. Bytes that went back although packets did not have wrapped, if the counter has 32 bits and
/// the step is one that such an interface can make. Otherwise the counters were reset, and the bytes are unknown.
fn counted(before: Passed, after: Passed, interval: Duration) -> Option<u64> {
    // A reset sets both back; both wrap in one interval only by chance.
    if after.packets < before.packets {
        return None;
    }
    if after.bytes >= before.bytes {
        return Some(after.bytes - before.bytes);
    }
    let wrapped = (after.bytes + (1 << 32)).checked_sub(before.bytes)?;
    // 10 Gbit/s are 1.25 bytes a nanosecond; nothing as fast has counters of 32 bits.
    let most = interval.as_nanos().saturating_mul(5) / 4;
    (before.bytes <= u64::from(u32::MAX) && wrapped <= most).then_some(wrapped)
}

/// Index of an interface in the network namespace of the calling thread; 0 if there is none.
fn index_of(interface: &str) -> u32 {
    if_nametoindex(interface).unwrap_or(0)
}

/// Interface that packets to `server` leave by.
///
/// # Errors
/// There is no route, or the source address belongs to no interface.
pub fn interface_towards(server: SocketAddr) -> Result<String, TrafficError> {
    route::to_socket(server)
        .map(|route| route.interface)
        .map_err(|source| TrafficError::NoRoute { server, source })
}

#[derive(Clone, Copy)]
struct Interval {
    length: Duration,
    rx: Option<u64>,
    tx: Option<u64>,
}

#[derive(Default)]
struct Recent(VecDeque<Interval>);

impl Recent {
    fn push(&mut self, i: Interval) {
        self.0.push_back(i);
        let mut kept: Duration = self.0.iter().map(|i| i.length).sum();
        while kept > REMEMBERED && self.0.len() > 1 {
            kept = kept.saturating_sub(self.0.pop_front().map_or(Duration::ZERO, |i| i.length));
        }
    }

    fn rates(&self, window: Duration) -> Option<Rates> {
        let (mut time, mut rx, mut tx) = (Duration::ZERO, 0, 0);
        for i in self.0.iter().rev() {
            rx += i.rx?;
            tx += i.tx?;
            time += i.length;
            if time >= window {
                let rate = |bytes: u64| {
                    BitsPerSec::new((f64::from(8u8) * bytes as f64 / time.as_secs_f64()) as u64)
                };
                return Some(Rates {
                    down: rate(rx),
                    up: rate(tx),
                });
            }
        }
        None
    }
}

/// Writer of a row an interval. Dropping it stops it.
pub struct TrafficMonitor {
    interface: Text,
    recent: Arc<Mutex<Recent>>,
    ticker: Ticker,
}

/// Reader of one interface's counters, kept open.
pub(crate) struct Reader {
    file: File,
    text: Vec<u8>,
    interface: Text,
}

impl Reader {
    /// Opens the counters of the calling thread's network namespace. The interface need not exist yet.
    pub fn open(interface: &str) -> io::Result<Reader> {
        Ok(Reader::of(File::open(COUNTERS)?, interface))
    }

    /// Reads the counters of a file in the kernel's form.
    fn of(file: File, interface: &str) -> Reader {
        Reader {
            file,
            text: Vec::new(),
            interface: interface.into(),
        }
    }

    /// Counters now; `None` while there is no such interface.
    pub fn read(&mut self) -> io::Result<Option<Counters>> {
        self.text.clear();
        let mut piece = [0; 4096];
        // The kernel gives whole lines, a page of them at a time.
        loop {
            match self.file.read_at(&mut piece, self.text.len() as u64)? {
                0 => return Ok(None),
                n => self.text.extend_from_slice(&piece[..n]),
            }
            let text = String::from_utf8_lossy(&self.text);
            let found = parse(&text).find(|(name, _)| *name == &*self.interface);
            if let Some((_, counters)) = found {
                return Ok(Some(counters));
            }
        }
    }

    /// Row with the counters now; none while there is no such interface.
    pub fn row(&mut self, clock: Clock) -> Option<Counter> {
        let counters = self.read().ok().flatten()?;
        Some(Counter {
            t_ns: clock.unix_ns(),
            interface: self.interface.clone(),
            rx_bytes: counters.rx.bytes.cast_signed(),
            tx_bytes: counters.tx.bytes.cast_signed(),
        })
    }
}

/// Sampler of one interface's counters that writes a row on request.
pub(crate) struct Sampler {
    reader: Reader,
    pub clock: Clock,
    rows: Sender<Row>,
    recent: Arc<Mutex<Recent>>,
    before: Option<Counters>,
    /// Index of the interface, which changes if it is made anew.
    index: u32,
    at: i64,
    gone: bool,
}

impl TrafficMonitor {
    /// Watches `interface`, in the network namespace of the calling thread; without one, the one by which packets to
    /// `server` leave.
    ///
    /// # Errors
    /// An unknown interface, or no route to the server.
    pub fn start(
        interface: Option<&str>,
        server: SocketAddr,
        interval: Duration,
        clock: Clock,
        rows: Sender<Row>,
    ) -> Result<TrafficMonitor, TrafficError> {
        let name = match interface {
            Some(name) => name.to_string(),
            None => interface_towards(server)?,
        };
        let mut sampler = Sampler::new(&name, clock, rows).map_err(TrafficError::Counters)?;
        known(&name)?;
        let recent = sampler.recent.clone();
        let interface = sampler.interface().clone();
        let ticker = Ticker::start("traffic", interval, move |_| sampler.sample())
            .map_err(TrafficError::Thread)?;
        Ok(TrafficMonitor {
            interface,
            recent,
            ticker,
        })
    }

    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Mean rates over the last `window`, up to a minute; null until that long has been watched without a reset. Call
    /// it while the measurement itself sends nothing.
    pub fn idle_rate(&self, window: Duration) -> Option<Rates> {
        self.recent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .rates(window)
    }

    pub fn stop(self) {
        self.ticker.stop();
    }
}

impl Sampler {
    /// Creates a sampler. The interface need not exist yet.
    pub fn new(interface: &str, clock: Clock, rows: Sender<Row>) -> io::Result<Sampler> {
        Sampler::of(Reader::open(interface)?, clock, rows)
    }

    fn of(reader: Reader, clock: Clock, rows: Sender<Row>) -> io::Result<Sampler> {
        let mut sampler = Sampler {
            reader,
            clock,
            rows,
            recent: Arc::default(),
            before: None,
            index: 0,
            at: mono_ns(),
            gone: false,
        };
        sampler.index = index_of(sampler.interface());
        sampler.before = sampler.reader.read()?;
        Ok(sampler)
    }

    pub fn interface(&self) -> &Text {
        &self.reader.interface
    }

    /// Mean rates over the last second.
    pub fn rates(&self) -> Option<Rates> {
        let recent = self.recent.lock();
        recent
            .unwrap_or_else(PoisonError::into_inner)
            .rates(Duration::from_secs(1))
    }

    pub fn sample(&mut self) -> ControlFlow<()> {
        let after = self.reader.read().ok().flatten();
        let now = mono_ns();
        let length = Duration::from_nanos((now - self.at).max(0) as u64);
        let index = index_of(self.interface());
        let is_same = index == std::mem::replace(&mut self.index, index);
        let both = self.before.zip(after).filter(|_| is_same);
        let i = Interval {
            length,
            rx: both.and_then(|(b, a)| counted(b.rx, a.rx, length)),
            tx: both.and_then(|(b, a)| counted(b.tx, a.tx, length)),
        };
        self.recent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(i);
        if after.is_none() != std::mem::replace(&mut self.gone, after.is_none()) {
            let detail = if self.gone {
                "the interface is gone"
            } else {
                "the interface is back"
            };
            let _ = self.rows.send(Row::Event(Event {
                t_ns: self.clock.from_mono_ns(now),
                kind: "fault".into(),
                subject: self.interface().clone(),
                detail: detail.into(),
            }));
        }
        let int = |b: Option<u64>| b.and_then(|b| i64::try_from(b).ok());
        let row = Traffic {
            t_ns: self.clock.from_mono_ns(now),
            interval_ns: now - self.at,
            interface: self.interface().clone(),
            rx_bytes: int(i.rx),
            tx_bytes: int(i.tx),
        };
        self.before = after;
        self.at = now;
        match self.rows.send(Row::Traffic(row)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::sync::mpsc::channel;

    const TENTH: Duration = Duration::from_millis(100);

    #[test]
    fn counters_are_found_in_the_kernels_table() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
            face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
            lo:    3193      29    0    0    0     0          0         0     3194      29    0    0    0     0       0          0\n\
            veth:1: 296277007 10975    0    0    0     0          0         0   18446744073709551615    7511    0    0    0     0       0          0\n";
        let passed = |(bytes, packets)| Passed { bytes, packets };
        let counters = |name: &'static str, rx, tx| {
            let (rx, tx) = (passed(rx), passed(tx));
            (name, Counters { rx, tx })
        };
        let all: Vec<_> = parse(text).collect();
        assert_eq!(
            all,
            [
                counters("lo", (3193, 29), (3194, 29)),
                counters("veth:1", (296_277_007, 10975), (u64::MAX, 7511)),
            ]
        );
    }

    #[test]
    fn a_wrap_is_counted_through_and_a_reset_is_unknown() {
        let passed = |bytes, packets| Passed { bytes, packets };
        let counted = |before, after| {
            let (before, after) = (passed(before, 9), passed(after, 10));
            super::counted(before, after, TENTH)
        };
        assert_eq!(counted(5, 12), Some(7));
        let edge = u64::from(u32::MAX) - 99;
        assert_eq!(counted(edge, 50), Some(150), "32 bits wrapped");
        assert_eq!(counted(3_000_000_000, 50), None, "1.3 GB in 0.1 s: a reset");
        assert_eq!(counted(1 << 40, 50), None, "no counter of 32 bits");
        assert_eq!(counted(u64::MAX, 50), None);
        // Close below the edge, only the packets tell a reset from a wrap.
        let reset = super::counted(passed(edge, 3_000_000), passed(50, 1), TENTH);
        assert_eq!(reset, None);
        let busy = super::counted(passed(100, 7), passed(5_000, 5), TENTH);
        assert_eq!(busy, None, "more bytes since the reset than before it");
    }

    /// An interface of 32 or 64 bits, read from a file in the kernel's form, is reset at random times. Each row holds the
    /// bytes that passed, or none across a reset.
    #[test]
    fn rows_hold_what_passed_through_wraps_and_resets() {
        let dir = testkit::TempDir::new("counters");
        let (mut wraps, mut resets) = (0, 0);
        for seed in 0..40 {
            let mut rng = base::rng::Streams::new(seed).stream("counters");
            let mut draw = |most: f64| (base::rng::uniform(&mut rng) * most) as u64;
            let bits32 = draw(2.0) == 0;
            // Below the edge, so that wraps are many.
            let mut bytes = if bits32 {
                (1 << 32) - 1 - draw(1e6)
            } else {
                draw(1e15)
            };
            let mut packets = 1_000 + bytes / 1500;
            let path = dir.join(format!("{seed}"));
            let write = |bytes: u64, packets: u64| {
                let shown = if bits32 { bytes & 0xffff_ffff } else { bytes };
                let text = format!(
                    "a\nb\n  eth0: {shown} {packets} 0 0 0 0 0 0 {shown} {packets} 0 0 0 0 0 0\n"
                );
                std::fs::write(&path, text).unwrap();
            };
            write(bytes, packets);
            let (rows, taken) = channel();
            let reader = Reader::of(File::open(&path).unwrap(), "eth0");
            let mut sampler = Sampler::of(reader, Clock::start(), rows).unwrap();
            for _ in 0..60 {
                let passed = draw(1e6);
                // A reset with more packets since than before it has another interface index, which a file has not.
                let expected = match draw(8.0) {
                    0 if packets > 700 => {
                        resets += 1;
                        (bytes, packets) = (passed, passed / 1500);
                        None
                    }
                    _ => {
                        wraps += u64::from(bits32 && (bytes & 0xffff_ffff) + passed > 0xffff_ffff);
                        bytes += passed;
                        packets += passed / 1500;
                        Some(passed as i64)
                    }
                };
                write(bytes, packets);
                sampler.at -= 100_000_000;
                assert!(sampler.sample().is_continue());
                let Row::Traffic(row) = taken.recv().unwrap() else {
                    panic!("another row")
                };
                assert_eq!(
                    (row.rx_bytes, row.tx_bytes),
                    (expected, expected),
                    "seed {seed}"
                );
            }
        }
        assert!(wraps > 10 && resets > 200, "{wraps} wraps, {resets} resets");
    }

    #[test]
    fn rates_are_known_only_where_all_of_the_window_is() {
        let mut recent = Recent::default();
        let i = |rx, tx| Interval {
            length: TENTH,
            rx,
            tx,
        };
        for _ in 0..9 {
            recent.push(i(Some(1000), Some(100)));
        }
        assert_eq!(
            recent.rates(Duration::from_secs(1)),
            None,
            "not watched for long enough"
        );
        recent.push(i(Some(1000), Some(100)));
        let rates = recent.rates(Duration::from_secs(1)).unwrap();
        assert_eq!((rates.down.get(), rates.up.get()), (80_000, 8_000));
        assert!(rates.others_use_the_link());
        assert!(
            !Rates {
                down: HOLD_OFF_DOWN,
                up: HOLD_OFF_UP
            }
            .others_use_the_link()
        );
        recent.push(i(None, Some(100)));
        assert_eq!(recent.rates(Duration::from_secs(1)), None, "a reset in it");
        for _ in 0..2000 {
            recent.push(i(Some(0), Some(0)));
        }
        assert!(recent.0.len() <= 601, "{}", recent.0.len());
    }

    #[test]
    fn the_loopback_interface_is_watched_with_what_passes_it() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = sink.local_addr().unwrap();
        assert_eq!(interface_towards(server).unwrap(), "lo");
        let (rows, taken) = channel();
        let monitor = TrafficMonitor::start(
            None,
            server,
            Duration::from_millis(20),
            Clock::start(),
            rows,
        )
        .unwrap();
        assert_eq!(monitor.interface(), "lo");
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..50 {
            sender.send_to(&[0; 1000], server).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        monitor.stop();
        let rows: Vec<Traffic> = taken
            .iter()
            .map(|r| match r {
                Row::Traffic(t) => t,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(rows.iter().map(|r| r.rx_bytes.unwrap()).sum::<i64>() >= 50_000);
        assert!(rows.iter().all(|r| r.interval_ns > 0));
        assert!(
            rows.windows(2)
                .all(|w| w[1].t_ns - w[1].interval_ns == w[0].t_ns),
            "no time is left out"
        );
    }

    #[test]
    fn an_unknown_interface_is_answered_with_the_known_ones() {
        let server = "127.0.0.1:7117".parse().unwrap();
        let e = TrafficMonitor::start(Some("wlan99"), server, TENTH, Clock::start(), channel().0)
            .err()
            .unwrap();
        assert!(
            e.to_string().contains("\"wlan99\"") && e.to_string().contains("lo"),
            "{e}"
        );
    }
}
