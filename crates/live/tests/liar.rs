//! Servers that lie to clients over TCP: every answer is well formed or nearly so, its numbers at the ends of their
//! ranges. A client ends with an error or a figure, never with a panic, and in time. Seeds are printed; LIAR_SEED repeats
//! one, LIAR_ROUNDS makes more of them.

use base::record::Direction;
use base::rng::{Rng, Streams};
use base::{BitsPerSec, Bytes, Duration};
use live::clock::Clock;
use live::craft::{self, Plan, Progress, Watch};
use live::errand::Tally;
use live::listeners::Listeners;
use live::load::{Access, Load, LoadPlan, Peer};
use measure::control::listen::{Arrival, Listening, Opened, Place, Transport, Wanted};
use measure::control::{
    Accepted, Detail, Ended, FlowReport, Greeting, HELLO_LEN, LARGEST, LAST_NS, LONGEST, Limits,
    Refusal, Response, Sample, SenderState, ServerInfo, Stamp, Stamps,
};
use rand::RngExt as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

fn seed() -> u64 {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
    let given = std::env::var("LIAR_SEED").ok().and_then(|s| s.parse().ok());
    let seed = given.unwrap_or(fresh);
    eprintln!("LIAR_SEED={seed}");
    seed
}

fn rounds() -> u32 {
    let given = std::env::var("LIAR_ROUNDS")
        .ok()
        .and_then(|s| s.parse().ok());
    given.unwrap_or(60)
}

/// A number up to `most`, mostly at an end.
fn number(rng: &mut Rng, most: u64) -> u64 {
    match rng.random_range(0..5) {
        0 => 0,
        1 => most,
        2 => most - rng.random_range(0..3).min(most),
        3 => (1u64 << rng.random_range(0..63u32)).min(most),
        _ => rng.random_range(0..=most),
    }
}

fn instant(rng: &mut Rng) -> i64 {
    number(rng, LAST_NS as u64) as i64
}

fn span(rng: &mut Rng, most: Duration) -> Duration {
    Duration::from_nanos(number(rng, most.as_nanos()))
}

fn sample(rng: &mut Rng) -> Sample {
    let mut n = || number(rng, LARGEST);
    let detail = Detail::Sender(SenderState {
        cwnd_bytes: n(),
        ssthresh_bytes: Some(n()),
        srtt_ns: Some(n()),
        rttvar_ns: Some(n()),
        min_rtt_ns: Some(n()),
        retransmits: n(),
        delivered_bytes: Some(n()),
        delivery_rate_bps: Some(n()),
        mss_bytes: n(),
    });
    let detail = if rng.random() {
        detail
    } else {
        Detail::Receiver
    };
    Sample {
        at: span(rng, LONGEST),
        bytes: number(rng, LARGEST),
        detail,
    }
}

fn lie(rng: &mut Rng) -> Response {
    let text = "x".repeat(number(rng, 1000) as usize);
    match rng.random_range(0..12) {
        0 => Response::Pong,
        1 => Response::Ready,
        2 => Response::Refused {
            why: Refusal::Busy,
            text,
        },
        3 => Response::Info(ServerInfo {
            release: text,
            congestion: vec!["reno".into()],
            max_flows: rng.random(),
            max_duration: span(rng, LONGEST),
        }),
        4 | 5 => Response::Report(
            (0..rng.random_range(0..6))
                .map(|flow| FlowReport {
                    flow: if rng.random() { flow } else { rng.random() },
                    direction: if rng.random() {
                        Direction::Up
                    } else {
                        Direction::Down
                    },
                    start_ns: instant(rng),
                    ended: Ended::TimeUp,
                    congestion: "cubic".into(),
                    limits: Limits {
                        busy: span(rng, LONGEST),
                        receive_window: span(rng, LONGEST),
                        send_buffer: span(rng, LONGEST),
                        server_ceiling: span(rng, LONGEST),
                    },
                    samples: (0..rng.random_range(0..9)).map(|_| sample(rng)).collect(),
                })
                .collect(),
        ),
        6 => Response::Stamps(Stamps {
            stamps: (0..rng.random_range(0..9))
                .map(|_| Stamp {
                    seq: number(rng, 999_999),
                    at_ns: instant(rng),
                    ecn: rng.random_range(0..4),
                })
                .collect(),
            refused: number(rng, LARGEST),
            overflowed: number(rng, LARGEST),
            fragments: None,
        }),
        7 => Response::Listening(Listening {
            token: rng.random(),
            from: "192.0.2.1:9".parse().expect("an address"),
            duration: span(rng, LONGEST),
            addresses: Vec::new(),
            opened: (0..rng.random_range(0..4))
                .map(|_| Opened::At("127.0.0.1:9".parse().expect("an address")))
                .collect(),
        }),
        8 => Response::Arrivals(vec![Arrival {
            listener: rng.random(),
            len: rng.random(),
            ..Arrival::default()
        }]),
        _ => Response::Accepted(Accepted {
            server_ns: instant(rng),
            duration: span(rng, LONGEST),
            sample: span(rng, Duration::from_secs(60)),
            congestion: text,
            udp_port: rng.random(),
            udp_token: rng.random(),
        }),
    }
}

/// Says its greeting, then one lie for each thing that it hears, some of them with a bit flipped.
fn talk(mut stream: TcpStream, mut rng: Rng) {
    let greeting = Greeting {
        key_needed: false,
        nonce: [0; 16],
        salt: [0; 16],
    };
    let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(30)));
    let (began, mut buf) = (Instant::now(), [0; 4096]);
    let _ = stream.read(&mut buf[..HELLO_LEN]);
    let _ = stream.write_all(&greeting.encode());
    while began.elapsed().as_millis() < 600 {
        if matches!(stream.read(&mut buf), Ok(0)) {
            return;
        }
        let mut bytes = lie(&mut rng).encode();
        if rng.random_range(0..4) == 0 {
            let at = rng.random_range(0..bytes.len());
            bytes[at] ^= 1 << rng.random_range(0..8u32);
        }
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

struct Liar {
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Liar {
    fn start(seed: u64) -> Liar {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("bound");
        let stop = Arc::new(AtomicBool::new(false));
        let its = stop.clone();
        let thread = std::thread::spawn(move || {
            for (n, stream) in listener.incoming().flatten().enumerate() {
                if its.load(Ordering::Relaxed) {
                    return;
                }
                let rng = Streams::new(seed).stream(&format!("connection {n}"));
                std::thread::spawn(move || talk(stream, rng));
            }
        });
        Liar {
            at,
            stop,
            thread: Some(thread),
        }
    }

    fn peer(&self) -> Peer {
        Peer {
            server: self.at,
            access: Access::default(),
            patience: Duration::from_millis(700),
        }
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.at);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn loads_from_a_liar_end_with_an_error_or_a_figure() {
    let seed = seed();
    let mut rng = Streams::new(seed).stream("loads");
    for round in 0..rounds() {
        let liar = Liar::start(seed.wrapping_add(u64::from(round)));
        let plan = LoadPlan {
            peer: liar.peer(),
            direction: if rng.random() {
                Direction::Up
            } else {
                Direction::Down
            },
            flows: rng.random_range(1..4),
            first_flow: 0,
            congestion: None,
            duration: Duration::from_millis(300),
            sample: Duration::from_millis(20),
            udp_rate: rng.random::<bool>().then_some(BitsPerSec::from_mbps(2)),
            tally: Tally::default(),
        };
        let (rows, taken) = channel();
        let began = Instant::now();
        if let Ok(load) = Load::start(plan, Clock::start(), rows) {
            std::thread::sleep(std::time::Duration::from_millis(60));
            let _ = load.progress();
            let outcome = load.stop().collect(Duration::from_millis(500));
            let _ = format!("{outcome:?}");
        }
        assert!(
            began.elapsed().as_secs() < 10,
            "round {round}: {:?}",
            began.elapsed()
        );
        assert!(taken.try_iter().count() < 10_000);
    }
}

struct Calm;

impl Watch for Calm {
    fn progress(&mut self, _: &Progress) {}
    fn interrupted(&mut self) -> bool {
        false
    }
}

#[test]
fn trains_and_ports_of_a_liar_end_with_an_error_or_a_figure() {
    let seed = seed();
    for round in 0..rounds() / 3 {
        let liar = Liar::start(seed.wrapping_mul(3).wrapping_add(u64::from(round)));
        let wanted = vec![Wanted::new(Transport::Udp, Place::Here, 0)];
        let opened = Listeners::open(
            &liar.peer(),
            wanted,
            Duration::from_secs(1),
            Tally::default(),
        );
        if let Ok(open) = opened {
            let _ = open.at(0);
            let _ = open.knocked(&[0; 52]);
        }
        let plan = Plan {
            peer: liar.peer(),
            first_train: 0,
            budget: Bytes::new(1_000_000),
            interface: None,
            hold_off: None,
            waits: true,
            beside_others: true,
        };
        let (rows, _taken) = channel();
        let direction = if round % 2 == 0 {
            Direction::Up
        } else {
            Direction::Down
        };
        let sending = base::program::Sending {
            stage: "t".into(),
            direction,
            rest: Duration::ZERO,
            programs: vec!["3 x 100@1 ms".parse().expect("a program")],
        };
        let mut next = |trains: &[base::program::Train]| trains.is_empty().then(|| sending.clone());
        let began = Instant::now();
        let _ = craft::run(&plan, &mut next, Clock::start(), &rows, &mut Calm);
        assert!(
            began.elapsed().as_secs() < 20,
            "round {round}: {:?}",
            began.elapsed()
        );
    }
}
