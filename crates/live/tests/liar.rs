//! Servers that lie to clients over TCP: every answer is well formed or nearly so, its numbers at the ends of their
//! ranges. A client ends with an error or a figure, never with a panic, and in time. Seeds are printed; LIAR_SEED repeats
//! one, LIAR_ROUNDS makes more of them.

mod lies;

use base::record::Direction;
use base::rng::Streams;
use base::{BitsPerSec, Bytes, Duration};
use live::clock::Clock;
use live::craft::{self, Plan, Progress, Watch};
use live::listeners::Listeners;
use live::load::{Access, Load, LoadPlan, Peer};
use live::tally::Tally;
use measure::control::listen::{Place, Transport, Wanted};
use rand::RngExt as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
        let told = Arc::<AtomicU64>::default();
        let thread = std::thread::spawn(move || {
            for (n, stream) in listener.incoming().flatten().enumerate() {
                if its.load(Ordering::Relaxed) {
                    return;
                }
                let rng = Streams::new(seed).stream(&format!("connection {n}"));
                let told = told.clone();
                std::thread::spawn(move || lies::talk(stream, rng, at.port(), &told));
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
            waits: true,
            others: experiment::Others::Welcome,
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
