//! A server as a process, strangers who attack it, and what an honest client beside them sees.
//!
//! Over loopback attackers have addresses of 127.0.0.0/8, in a namespace those of 198.18.0.0/15. Each /24 is a network of its
//! own to the server.

use base::program::Program;
use base::record::{Direction, Row, Status};
use base::rng::{Rng, Streams};
use base::{BitsPerSec, Duration};
use live::clock::Clock;
use live::emulate::NetNs;
use live::load::{Access, Peer};
use live::probe::{ProbePlan, Prober};
use measure::control::datagram::Message;
use measure::control::listen::{Place, Transport, Wanted};
use measure::control::seal::ClientEnd;
use measure::control::{FlowSpec, GREETING_LEN, Hello, LONGEST, Request, SessionId};
use measure::wire::{Ask, ClientMessage, MAX_LEN};
use rand::{Rng as _, RngExt as _};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

pub struct Served {
    child: Child,
    pub at: SocketAddr,
}

impl Served {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server at this address: in a namespace, if there is one.
pub fn serve(at: [u8; 4], within: Option<&NetNs>) -> Served {
    let listen = format!("{}:0", std::net::Ipv4Addr::from(at));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
    command
        .args(["serve", "--listen", &listen, "--max-rate", "200mbit"])
        .stderr(Stdio::piped());
    if let Some(ns) = within {
        ns.command(&mut command);
    }
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let port = loop {
        let line = lines.next().expect("it listens").expect("text");
        if let Some((_, rest)) = line.split_once(&listen[..listen.len() - 1]) {
            break rest.split(',').next().expect("a port").to_owned();
        }
    };
    std::thread::spawn(move || lines.for_each(drop));
    let port: u16 = port.parse().expect("a port");
    let at = if at == [0; 4] { [127, 0, 0, 1] } else { at };
    Served {
        child,
        at: (at, port).into(),
    }
}

/// Memory and processor time of a process: bytes resident, its largest so far, and s.
pub fn cost(pid: u32) -> (u64, u64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let kib = |key: &str| -> u64 {
        let line = status.lines().find(|l| l.starts_with(key)).expect(key);
        let word = line.split_whitespace().nth(1).expect("a number");
        word.parse().expect("a number")
    };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let after = stat.rsplit_once(')').expect("a name").1;
    let ticks = |n: usize| -> f64 {
        let word = after.split_whitespace().nth(n).expect("a column");
        word.parse().expect("a number")
    };
    // proc_pid_stat(5): utime and stime are columns 14 and 15, in hundredths of a second.
    let cpu = (ticks(11) + ticks(12)) / 100.0;
    (kib("VmRSS:") << 10, kib("VmHWM:") << 10, cpu)
}

/// One attacker: a server, chance, and when to stop.
pub struct Attacker {
    pub at: SocketAddr,
    pub rng: Rng,
    pub stop: Arc<AtomicBool>,
    pub done: Arc<AtomicU64>,
    /// Address that it keeps.
    pub home: Option<[u8; 4]>,
}

impl Attacker {
    pub fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    pub fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub fn rest(&self, ms: u64) {
        std::thread::sleep(std::time::Duration::from_millis(ms));
    }

    /// An address of the attacker: one of 2,000 networks over loopback, of 512 in a namespace.
    pub fn address(&mut self) -> [u8; 4] {
        if let Some(home) = self.home {
            return home;
        }
        let (c, d) = (self.rng.random(), self.rng.random_range(1..255));
        if self.at.ip().is_loopback() {
            [127, self.rng.random_range(16..24), c, d]
        } else {
            [198, self.rng.random_range(18..20), c, d]
        }
    }

    fn connect(&mut self) -> Option<TcpStream> {
        let ip = self.address();
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).ok()?;
        socket.set_recv_buffer_size(4096).ok()?;
        socket.bind(&SocketAddr::from((ip, 0)).into()).ok()?;
        let patience = std::time::Duration::from_millis(300);
        socket.connect_timeout(&self.at.into(), patience).ok()?;
        socket.set_read_timeout(Some(patience)).ok()?;
        socket.set_write_timeout(Some(patience)).ok()?;
        Some(socket.into())
    }

    /// Connects, hears the greeting and makes a request; reads nothing after that.
    fn request(&mut self, request: &Request) -> Option<TcpStream> {
        self.request_with(request).map(|(stream, _)| stream)
    }

    /// The same with what reads the answer.
    fn request_with(&mut self, request: &Request) -> Option<(TcpStream, ClientEnd)> {
        let mut stream = self.connect()?;
        let hello = Hello {
            nonce: self.rng.random(),
        }
        .encode();
        stream.write_all(&hello).ok()?;
        let mut greeting = [0; GREETING_LEN];
        stream.read_exact(&mut greeting).ok()?;
        let mut end = ClientEnd::new(&hello, &greeting, None).ok()?;
        stream.write_all(&end.request(request)).ok()?;
        self.count();
        Some((stream, end))
    }

    fn spec(&mut self) -> FlowSpec {
        FlowSpec {
            session: SessionId(self.rng.random()),
            flow: self.rng.random_range(0..4),
            duration: LONGEST,
            sample: Duration::from_millis(5),
        }
    }

    /// Makes requests and keeps so many connections open, unread.
    fn keep(&mut self, most: usize, pause_ms: u64, make: fn(&mut Attacker) -> Request) {
        let mut held: Vec<TcpStream> = Vec::new();
        while self.goes_on() {
            let request = make(self);
            held.extend(self.request(&request));
            if held.len() > most {
                held.remove(0);
            }
            self.rest(pause_ms);
        }
    }
}

fn idle(a: &mut Attacker) {
    let mut held = Vec::new();
    while a.goes_on() {
        held.extend(a.connect());
        a.count();
        if held.len() > 800 {
            held.remove(0);
        }
        a.rest(4);
    }
}

/// Half a header and no more, or numbers at random.
fn half_open(a: &mut Attacker) {
    let mut held = Vec::new();
    while a.goes_on() {
        if let Some(mut stream) = a.connect() {
            let mut bytes = vec![0; a.rng.random_range(1..600)];
            a.rng.fill_bytes(&mut bytes);
            let head = [
                b'T',
                b'B',
                b'K',
                measure::control::VERSION,
                a.rng.random_range(0..14),
            ];
            let n = head.len().min(bytes.len());
            bytes[..n].copy_from_slice(&head[..n]);
            // Some stop within the hello, some within the request.
            if a.rng.random() {
                let nonce = a.rng.random();
                let _ = stream.write_all(&Hello { nonce }.encode());
            }
            let _ = stream.write_all(&bytes);
            a.count();
            held.push(stream);
        }
        if held.len() > 200 {
            held.remove(0);
        }
        a.rest(5);
    }
}

fn unread_reports(a: &mut Attacker) {
    let session = SessionId(a.rng.random());
    a.home = Some(a.address());
    let (mut held, mut round) = (Vec::new(), 0u32);
    while a.goes_on() {
        // Now and then a flow whose samples fill the report.
        let request = match round % 50 {
            0 => Request::Upload {
                spec: FlowSpec {
                    session,
                    ..a.spec()
                },
            },
            _ => Request::Report { session },
        };
        round += 1;
        held.extend(a.request(&request));
        if held.len() > 48 {
            held.remove(1);
        }
        a.rest(20);
    }
}

fn unread_fetches(a: &mut Attacker) {
    a.keep(64, 20, |a| Request::Fetch {
        spec: a.spec(),
        congestion: String::new(),
        bytes: 1 << 40,
    });
}

fn loads_without_receiver(a: &mut Attacker) {
    a.keep(16, 50, |a| Request::Datagrams {
        spec: a.spec(),
        direction: if a.rng.random() {
            Direction::Down
        } else {
            Direction::Up
        },
        rate: BitsPerSec::from_mbps(1000),
        payload_bytes: 1200,
    });
}

fn queue(a: &mut Attacker) {
    a.keep(64, 20, |_| Request::Turn { duration: LONGEST });
}

fn listeners(a: &mut Attacker) {
    a.keep(16, 50, |a| Request::Listen {
        spec: a.spec(),
        wanted: vec![Wanted::new(Transport::Udp, Place::Here, 0); 8],
    });
}

/// Trains with an instant every 60 µs, in both directions; downward ones are shown the way.
fn trains(a: &mut Attacker) {
    open_trains(a, None, 64, 30);
}

/// Eight upward trains of one client, which nobody sends; those that the server ends are opened again.
pub fn upward_trains(a: &mut Attacker) {
    a.home = Some(a.address());
    open_trains(a, Some(Direction::Up), 8, 250);
}

fn open_trains(a: &mut Attacker, direction: Option<Direction>, most: usize, pause_ms: u64) {
    let program: Program = "20000 x 100@60us".parse().expect("a program");
    let mut held = Vec::new();
    while a.goes_on() {
        let request = Request::Train {
            spec: a.spec(),
            direction: direction.unwrap_or(match a.rng.random() {
                true => Direction::Down,
                false => Direction::Up,
            }),
            program: program.clone(),
        };
        if let Some((mut stream, mut reader)) = a.request_with(&request) {
            let mut answer = [0; 64];
            let n = stream.read(&mut answer).unwrap_or(0);
            let mut at = 0;
            while at < n {
                let wants = reader.wants().clamp(1, n - at);
                match reader.push(&answer[at..at + wants]) {
                    Ok(None) => at += wants,
                    Ok(Some(measure::control::Response::Accepted(accepted))) => {
                        show(&stream, a.at, accepted.udp_token);
                        break;
                    }
                    _ => break,
                }
            }
            held.push(stream);
        }
        if held.len() > most {
            held.remove(0);
        }
        a.rest(pause_ms);
    }
}

/// Proves the address of a train, so that it begins.
fn show(stream: &TcpStream, to: SocketAddr, token: u64) {
    let Ok(local) = stream.local_addr() else {
        return;
    };
    let Ok(socket) = UdpSocket::bind((local.ip(), 0)) else {
        return;
    };
    let soon = std::time::Duration::from_millis(100);
    let _ = socket.set_read_timeout(Some(soon));
    let _ = socket.send_to(&Message::Hello.encode(token), to);
    let mut buf = [0; 200];
    if let Ok(n) = socket.recv(&mut buf)
        && let Some((_, Message::Challenge { cookie })) = Message::decode(&buf[..n])
    {
        let received = 0;
        let _ = socket.send_to(&Message::Proof { cookie, received }.encode(token), to);
    }
}

/// Datagrams of every kind from many addresses, cut and changed, 8,000 a second.
fn flood(a: &mut Attacker) {
    let mut out = [0; MAX_LEN];
    while a.goes_on() {
        let ip = a.address();
        let Ok(socket) = UdpSocket::bind(SocketAddr::from((ip, 0))) else {
            continue;
        };
        for _ in 0..40 {
            let len = a.rng.random_range(0..MAX_LEN);
            let nonce = a.rng.random();
            let message = match a.rng.random_range(0..4) {
                0 | 1 => ClientMessage::Hello { nonce },
                2 => {
                    let ask = Ask {
                        interval_ns: a.rng.random(),
                        duration_s: a.rng.random(),
                        tos: a.rng.random(),
                        boot_proof: a.rng.random(),
                    };
                    let cookie = a.rng.random();
                    ClientMessage::Open {
                        nonce,
                        cookie,
                        ask,
                        user: None,
                    }
                }
                _ => ClientMessage::Request {
                    token: nonce,
                    seq: a.rng.random(),
                    sent_ns: a.rng.random(),
                },
            };
            let n = message.encode(&mut out, len, None);
            let at = a.rng.random_range(0..n);
            out[at] ^= 1 << a.rng.random_range(0..10u32).min(7);
            let _ = socket.send_to(&out[..n], a.at);
            a.count();
        }
        a.rest(5);
    }
}

/// Sessions of probes that are opened and left, from many networks.
fn sessions(a: &mut Attacker) {
    let mut out = [0; MAX_LEN];
    while a.goes_on() {
        let ip = a.address();
        let Ok(socket) = UdpSocket::bind(SocketAddr::from((ip, 0))) else {
            continue;
        };
        let soon = std::time::Duration::from_millis(50);
        let _ = socket.set_read_timeout(Some(soon));
        let nonce = a.rng.random();
        let n = ClientMessage::Hello { nonce }.encode(&mut out, 0, None);
        let _ = socket.send_to(&out[..n], a.at);
        let mut buf = [0; MAX_LEN];
        let Ok(n) = socket.recv(&mut buf) else {
            continue;
        };
        let Ok(measure::wire::ServerMessage::Challenge { cookie, .. }) =
            measure::wire::ServerMessage::decode(&buf[..n], None)
        else {
            continue;
        };
        let ask = Ask {
            interval_ns: 3_600_000_000_000,
            duration_s: 0,
            tos: 0,
            boot_proof: 0,
        };
        let n = ClientMessage::Open {
            nonce,
            cookie,
            ask,
            user: None,
        }
        .encode(&mut out, 0, None);
        let _ = socket.send_to(&out[..n], a.at);
        a.count();
        a.rest(2);
    }
}

/// Name and work.
pub type Attack = (&'static str, fn(&mut Attacker));

pub const ATTACKS: &[Attack] = &[
    ("idle connections", idle),
    ("half requests", half_open),
    ("unread reports", unread_reports),
    ("unread fetches", unread_fetches),
    ("UDP load without a receiver", loads_without_receiver),
    ("the queue for the uplink", queue),
    ("ports for strangers", listeners),
    ("trains", trains),
    ("a flood of datagrams", flood),
    ("a flood of datagrams", flood),
    ("probe sessions left open", sessions),
];

/// Round trips of an honest client, ns; lost probes are null.
pub fn probe(at: SocketAddr, seconds: f64) -> Vec<Option<i64>> {
    let (rows, taken) = mpsc::channel();
    let plan = ProbePlan {
        lost_after: Duration::from_secs(2),
        patience: Duration::from_secs(10),
        ..ProbePlan::new(at)
    };
    let prober = Prober::start(plan, Clock::start(), rows).expect("it gets in");
    std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
    prober.stop();
    let delays = taken.try_iter().filter_map(|row| match row {
        Row::Delay(d) if matches!(d.status, Status::Ok | Status::Lost) => Some(d.rtt_ns),
        _ => None,
    });
    delays.collect()
}

pub fn p99_ms(samples: &[Option<i64>]) -> f64 {
    let mut known: Vec<i64> = samples.iter().flatten().copied().collect();
    known.sort_unstable();
    let at = (known.len() * 99 / 100).min(known.len().saturating_sub(1));
    known.get(at).map_or(f64::NAN, |ns| *ns as f64 / 1e6)
}

/// Time until an honest client has its answer over TCP, s.
pub fn gets_in(at: SocketAddr) -> f64 {
    let peer = Peer {
        server: at,
        access: Access::default(),
        patience: Duration::from_secs(10),
    };
    let began = Instant::now();
    loop {
        let asked = peer
            .connect(None)
            .and_then(|stream| peer.ask(&stream, &Request::Info, &AtomicBool::new(false)));
        let took = began.elapsed().as_secs_f64();
        if asked.is_ok() || took > 10.0 {
            return took;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Attackers that go on until told to stop.
pub struct Attackers {
    stop: Arc<AtomicBool>,
    running: Vec<(&'static str, Arc<AtomicU64>, JoinHandle<()>)>,
}

impl Attackers {
    /// Starts an attacker for each attack: in a namespace, if there is one.
    pub fn start(
        attacks: &[Attack],
        at: SocketAddr,
        seed: u64,
        within: Option<&NetNs>,
    ) -> Attackers {
        let stop = Arc::<AtomicBool>::default();
        let start = |(n, (name, attack)): (usize, &Attack)| {
            let done = Arc::<AtomicU64>::default();
            let mut attacker = Attacker {
                at,
                rng: Streams::new(seed).stream(&format!("{name} {n}")),
                stop: stop.clone(),
                done: done.clone(),
                home: None,
            };
            let (attack, work) = (*attack, move |attack: fn(&mut Attacker)| {
                attack(&mut attacker)
            });
            let mut work = work;
            let thread = match within {
                Some(ns) => ns
                    .spawn("attacker", move || work(attack))
                    .expect("a thread"),
                None => std::thread::spawn(move || work(attack)),
            };
            (*name, done, thread)
        };
        let running = attacks.iter().enumerate().map(start).collect();
        Attackers { stop, running }
    }

    /// Stops them and tells how often each has done its work.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        for (name, done, thread) in self.running {
            assert!(thread.join().is_ok(), "{name}");
            let done = done.load(Ordering::Relaxed);
            eprintln!("{name}: {done}");
            assert!(done > 0, "{name} did nothing");
        }
    }
}
