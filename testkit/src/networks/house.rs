//! House behind a modem: lan – gateway – modem – server, with the kernel's TCP forwarded through an emulated modem whose
//! queue is the truth. `tailback control` runs on the gateway.

use crate::{TempDir, line};
use base::Duration;
use base::record::Row;
use link::rate::Rate;
use live::clock::Clock;
use live::control::inspect;
use live::emulate::{Emulation, FAR_V4, NetNs, Options};
use live::serve::Server;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// Interface of the gateway towards the modem.
pub const WAN: &str = "link1";
/// Queues of the modem and of the provider in the rows of the emulation.
const MODEM: &str = "hop2/up";
const PROVIDER: &str = "hop2/down";
const SECOND: std::time::Duration = std::time::Duration::from_secs(1);
/// Interval between the user's probes, and their size.
const PING: std::time::Duration = std::time::Duration::from_millis(10);
const PING_SIZE: usize = 64;
/// Ports of the upload and of the echo at the far end.
const UPLOAD: u16 = 5001;
const ECHO: u16 = 5002;

/// Modem of a house.
#[derive(Clone, Debug)]
pub struct Modem {
    /// Rate up, as in a link's file: text in quotes, or a table of steps.
    pub rate: String,
    /// Rate down, bit/s.
    pub down: f64,
    /// Buffer up, bytes.
    pub buffer: f64,
    /// Delay of each direction, ms.
    pub delay_ms: f64,
}

impl Modem {
    /// Modem of a fixed rate with one second of buffer.
    pub fn fixed(rate: f64, delay_ms: f64) -> Modem {
        Modem {
            rate: format!("\"{rate:.0} bit/s\""),
            down: 200e6,
            buffer: rate / 8.0,
            delay_ms,
        }
    }
}

/// Upload or download of some TCP flows.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub flows: usize,
    pub seconds: u32,
    /// Address of the far end.
    pub to: IpAddr,
    pub dscp: u8,
    /// True if the far end sends.
    pub down: bool,
}

impl Load {
    /// Best-effort upload over IPv4.
    pub fn new(flows: usize, seconds: u32) -> Load {
        Load {
            flows,
            seconds,
            to: FAR_V4.into(),
            dscp: 0,
            down: false,
        }
    }
}

/// House with its gateway, modem and server.
pub struct House {
    pub line: Emulation,
    /// Rates of the modem and of the provider over the time since the house was built.
    pub rate: Rate,
    down: Rate,
    pub dir: TempDir,
    rows: Receiver<Row>,
    clock: Clock,
    program: PathBuf,
}

/// Waits in a queue, and the use of its link.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Share of the capacity in use after three seconds.
    pub used: f64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    /// Longest wait, the start included.
    pub peak_ms: f64,
}

impl Seen {
    /// Figures of samples (time since the load began in s, wait in ms); the first three seconds count for the peak alone.
    pub fn of(used: f64, samples: &[(f64, f64)]) -> Seen {
        let mut waits: Vec<f64> = samples.iter().filter(|s| s.0 >= 3.0).map(|s| s.1).collect();
        waits.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let i = (waits.len().saturating_sub(1) as f64 * share) as usize;
            waits.get(i).copied().unwrap_or(f64::NAN)
        };
        Seen {
            used,
            p50_ms: at(0.5),
            p95_ms: at(0.95),
            peak_ms: samples.iter().map(|s| s.1).fold(0.0, f64::max),
        }
    }
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Seen {
            used,
            p50_ms,
            p95_ms,
            peak_ms,
        } = self;
        let used = 100.0 * used;
        write!(
            f,
            "use {used:.1} %, p50 {p50_ms:.1} ms, p95 {p95_ms:.1} ms, peak {peak_ms:.0} ms"
        )
    }
}

/// Time that `bytes` wait in front of a link of that rate, from `at` on; at most ten seconds.
pub fn wait_ms(rate: &Rate, at: Duration, bytes: f64) -> f64 {
    if let Rate::Fixed(rate) = rate {
        return bytes * 8e3 / rate.get() as f64;
    }
    let step = Duration::from_millis(5);
    let (mut left, mut from) = (bytes * 8.0, at);
    while from < at + Duration::from_secs(10) {
        let served = rate.mean_between(from, from + step).get() as f64 * step.as_secs_f64();
        if served >= left {
            return (from - at).as_millis_f64() + left / served * step.as_millis_f64();
        }
        (left, from) = (left - served, from + step);
    }
    10_000.0
}

impl House {
    /// House with that modem, whose gateway runs `program`; `None` if the host allows no namespaces.
    pub fn build(program: &Path, modem: &Modem) -> Option<House> {
        let Modem {
            rate,
            down,
            buffer,
            delay_ms,
        } = modem;
        let lan = "rate = \"1 Gbit/s\"\nqueue = \"fifo:bytes=10MB\"\ndelay = \"0 ms\"";
        let table = |rate: &str, bytes: f64| {
            format!(
                "rate = {rate}\nqueue = \"fifo:bytes={bytes:.0}\"\ndelay = \"{delay_ms:.1} ms\""
            )
        };
        let down = table(&format!("\"{down:.0} bit/s\""), down / 8.0 * 0.2);
        let hops = [
            line::spec(lan, lan),
            line::spec(&table(rate, *buffer), &down),
        ];
        let clock = Clock::start();
        let (tell, rows) = channel();
        let options = Options {
            rows: Some(tell),
            sample_every: Duration::from_millis(5),
            routed: true,
            ..Options::new(clock)
        };
        let rate = hops[1].up.params().expect("a link").rate;
        let down = hops[1].down.params().expect("a link").rate;
        let line = line::start_with(&hops, options)?;
        Some(House {
            line,
            rate,
            down,
            rows,
            clock,
            program: program.to_owned(),
            dir: TempDir::new("control"),
        })
    }

    /// Network namespace of the gateway.
    pub fn gateway(&self) -> &NetNs {
        self.line.routers().next().expect("one router")
    }

    /// Time since the house was built.
    pub fn age(&self) -> Duration {
        self.clock.now().saturating_since(base::Time::ZERO)
    }

    /// Starts the server beyond the modem.
    pub fn serve(&self) -> Server {
        line::serve(&self.line)
    }

    /// `tailback control` with these arguments, at the gateway.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("control")
            .args(args)
            .env_remove("TAILBACK_KEY")
            .current_dir(&*self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.gateway().command(&mut command);
        command
    }

    /// Output of `tailback control` with these arguments.
    pub fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("it runs")
    }

    /// Starts a run, and waits until it holds the interface and answers.
    ///
    /// # Panics
    /// If there is no run within 10 s.
    pub fn start(&self, more: &[&str]) -> Child {
        let far = FAR_V4.to_string();
        let mut args = vec!["run", "--wan", WAN, "--server", &far, "-o", "c.rec"];
        args.extend(more);
        let child = self.command(&args).spawn().expect("it starts");
        let began = Instant::now();
        while !self.output(&["status", "--wan", WAN]).status.success() {
            assert!(began.elapsed() < 10 * SECOND, "no run within 10 s");
            std::thread::sleep(SECOND / 20);
        }
        child
    }

    /// Programs at the gateway's egress and ingress.
    pub fn programs(&self) -> Vec<String> {
        let place = self.gateway().run(|| inspect(WAN));
        let place = place.expect("it enters").expect("it may look");
        place.programs.into_iter().chain(place.ingress).collect()
    }

    /// Uploads over kernel TCP and returns the waits in the modem's queue.
    pub fn upload(&self, flows: usize, seconds: u32) -> Seen {
        self.uploaded(&Load::new(flows, seconds)).0
    }

    /// Uploads in another way, and returns the waits in the modem's queue.
    pub fn upload_as(&self, load: &Load) -> Seen {
        self.uploaded(load).0
    }

    /// Uploads over kernel TCP. Returns what the modem saw, and the user's probes from half a second before the upload on:
    /// time since the begin of the upload in seconds, and RTT in ms. `each` is told of every probe, with the time since
    /// the first.
    pub fn upload_with(
        &self,
        flows: usize,
        seconds: u32,
        each: &mut (dyn FnMut(f64, f64) + Send),
    ) -> (Seen, Vec<(f64, f64)>) {
        let over = AtomicBool::new(false);
        std::thread::scope(|s| {
            let echo = self.line.far().run(|| UdpSocket::bind((FAR_V4, ECHO)));
            let echo = echo.expect("it enters").expect("a port");
            let over = &over;
            s.spawn(move || echoes(&echo, over));
            let near = self.line.near();
            let pings = s.spawn(move || near.run(|| pings(over, each)).expect("it enters"));
            std::thread::sleep(SECOND / 2);
            let (seen, began) = self.uploaded(&Load::new(flows, seconds));
            over.store(true, Ordering::Relaxed);
            let pings = pings.join().expect("it pings");
            let since = |at: Instant| match at.checked_duration_since(began) {
                Some(since) => since.as_secs_f64(),
                None => -began.duration_since(at).as_secs_f64(),
            };
            (seen, pings.into_iter().map(|p| (since(p.0), p.1)).collect())
        })
    }

    fn uploaded(&self, load: &Load) -> (Seen, Instant) {
        let Load {
            flows,
            seconds,
            to,
            down,
            ..
        } = *load;
        let listener = self.line.far().run(|| TcpListener::bind((to, UPLOAD)));
        let listener = listener.expect("it enters").expect("a port");
        std::thread::scope(|s| {
            s.spawn(|| {
                for stream in listener.incoming().take(flows) {
                    let stream = stream.expect("a connection");
                    s.spawn(move || match down {
                        true => fill(stream, seconds),
                        false => drain(stream),
                    });
                }
            });
            let (began, began_ns) = (Instant::now(), self.clock.unix_ns());
            let near = self.line.near();
            let senders: Vec<_> = (0..flows)
                .map(|_| s.spawn(move || near.run(|| take_part(load)).expect("it enters")))
                .collect();
            senders
                .into_iter()
                .for_each(|t| t.join().expect("it sends"));
            let end_ns = began_ns + i64::from(seconds) * 1_000_000_000;
            let queue = match down {
                true => (PROVIDER, &self.down),
                false => (MODEM, &self.rate),
            };
            (self.seen(queue, began_ns, end_ns), began)
        })
    }

    fn seen(&self, (name, rate): (&str, &Rate), from_ns: i64, to_ns: i64) -> Seen {
        let zero_ns = self
            .clock
            .from_mono_ns(self.clock.mono_of(base::Time::ZERO));
        let at = |t_ns: i64| Duration::from_nanos((t_ns - zero_ns).max(0) as u64);
        let rows: Vec<_> = self
            .rows
            .try_iter()
            .filter_map(|row| match row {
                Row::Queue(q) if &*q.queue == name => Some(q),
                _ => None,
            })
            .filter(|q| (from_ns..to_ns).contains(&q.t_ns))
            .collect();
        let samples: Vec<(f64, f64)> = rows
            .iter()
            .map(|q| {
                let wait = wait_ms(rate, at(q.t_ns), q.backlog_bytes as f64);
                ((q.t_ns - from_ns) as f64 * 1e-9, wait)
            })
            .collect();
        let mut after = rows.iter().filter(|q| q.t_ns >= from_ns + 3_000_000_000);
        let (first, last) = (after.next(), after.next_back());
        let used = first.zip(last).map_or(f64::NAN, |(first, last)| {
            let capacity = rate.mean_between(at(first.t_ns), at(last.t_ns)).get() as f64;
            let span_s = (last.t_ns - first.t_ns) as f64 * 1e-9;
            (last.delivered_bytes - first.delivered_bytes) as f64 * 8.0 / span_s / capacity
        });
        Seen::of(used, &samples)
    }
}

/// Opens a connection to the far end, and sends or receives.
fn take_part(load: &Load) {
    let stream = TcpStream::connect((load.to, UPLOAD)).expect("it answers");
    let tos = i32::from(load.dscp) << 2;
    let marked = match load.to {
        IpAddr::V4(_) => setsockopt(&stream, sockopt::Ipv4Tos, &tos),
        IpAddr::V6(_) => setsockopt(&stream, sockopt::Ipv6TClass, &tos),
    };
    marked.expect("it can");
    match load.down {
        true => drain(stream),
        false => fill(stream, load.seconds),
    }
}

fn drain(mut stream: TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
}

/// Sends as fast as CUBIC allows.
fn fill(mut stream: TcpStream, seconds: u32) {
    stream.set_write_timeout(Some(SECOND)).expect("it can");
    // Its queue grows until a packet is lost.
    setsockopt(&stream, sockopt::TcpCongestion, &"cubic".into()).expect("the kernel has it");
    let end = Instant::now() + seconds * SECOND;
    let data = vec![0; 1 << 16];
    while Instant::now() < end {
        // A full queue takes nothing for a while.
        let _ = stream.write(&data);
    }
    let now = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let _ = setsockopt(&stream, sockopt::Linger, &now);
}

fn echoes(socket: &UdpSocket, over: &AtomicBool) {
    socket.set_read_timeout(Some(SECOND / 10)).expect("it can");
    let mut buffer = [0; PING_SIZE];
    while !over.load(Ordering::Relaxed) {
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..len], from);
        }
    }
}

/// Probes of a user: one each 10 ms, with the time at which it left and its RTT in ms.
fn pings(over: &AtomicBool, each: &mut (dyn FnMut(f64, f64) + Send)) -> Vec<(Instant, f64)> {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port");
    socket.connect((FAR_V4, ECHO)).expect("a route");
    socket.set_nonblocking(true).expect("it can");
    let (began, mut next) = (Instant::now(), Instant::now());
    let mut all = Vec::new();
    let mut buffer = [0; PING_SIZE];
    while !over.load(Ordering::Relaxed) {
        if Instant::now() >= next {
            let at = began.elapsed().as_nanos() as u64;
            buffer[..8].copy_from_slice(&at.to_be_bytes());
            let _ = socket.send(&buffer);
            next += PING;
        }
        while let Ok(8..) = socket.recv(&mut buffer) {
            let sent = u64::from_be_bytes(buffer[..8].try_into().expect("eight bytes"));
            let sent = std::time::Duration::from_nanos(sent);
            let rtt_ms = began.elapsed().saturating_sub(sent).as_secs_f64() * 1e3;
            all.push((began + sent, rtt_ms));
            each(sent.as_secs_f64(), rtt_ms);
        }
        std::thread::sleep(SECOND / 2000);
    }
    all
}

/// Ends a run by that signal, and returns its output.
///
/// # Panics
/// If it does not run.
pub fn end(mut child: Child, signal: Signal) -> Output {
    kill(Pid::from_raw(child.id() as i32), signal).expect("it runs");
    child.wait().expect("it ends");
    child.wait_with_output().expect("it has ended")
}
