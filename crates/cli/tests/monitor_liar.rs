//! `tailback monitor` with targets that lie, vanish and send nonsense beside an honest one: each is its own event.

#[path = "../../live/tests/lies/mod.rs"]
mod lies;

use base::rng::{Rng, Streams};
use measure::wire::{ClientMessage, MAX_LEN};
use rand::{Rng as _, RngExt as _};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use testkit::TempDir;

/// Liars that run until this is dropped.
struct Liars {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Liars {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a liar does not panic");
        }
    }
}

impl Liars {
    fn udp(&mut self, mut rng: Rng) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let soon = std::time::Duration::from_millis(50);
        socket.set_read_timeout(Some(soon)).expect("a time-out");
        let (at, stop) = (socket.local_addr().expect("bound"), self.stop.clone());
        self.threads.push(std::thread::spawn(move || {
            let mut buf = [0; MAX_LEN];
            while !stop.load(Ordering::Relaxed) {
                let Ok((n, from)) = socket.recv_from(&mut buf) else {
                    continue;
                };
                let answers = match ClientMessage::decode(&buf[..n], None) {
                    Ok(message) => lies::lies(&mut rng, &message),
                    // As a name server: the query with its bits turned.
                    Err(_) => {
                        let mut answer = buf[..n].to_vec();
                        answer[2..n.min(12)]
                            .iter_mut()
                            .for_each(|b| *b = rng.random());
                        vec![answer]
                    }
                };
                for answer in answers {
                    let _ = socket.send_to(&answer, from);
                }
            }
        }));
        at
    }

    /// Noise without end to whoever connects.
    fn tcp(&mut self, mut rng: Rng) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("it can");
        let (at, stop) = (listener.local_addr().expect("bound"), self.stop.clone());
        self.threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let Ok((mut stream, _)) = listener.accept() else {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    continue;
                };
                let soon = std::time::Duration::from_millis(20);
                let _ = stream.set_read_timeout(Some(soon));
                let _ = stream.set_write_timeout(Some(soon));
                let _ = stream.read(&mut [0; 4096]);
                let mut noise = vec![0; rng.random_range(1..200_000)];
                rng.fill_bytes(&mut noise);
                if rng.random() {
                    noise.splice(..noise.len().min(9), *b"HTTP/1.1 ");
                }
                let _ = stream.write_all(&noise);
            }
        }));
        at
    }
}

fn serve() -> live::serve::Server {
    live::serve::Server::start(live::serve::ServeConfig {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        ..Default::default()
    })
    .expect("it serves")
}

/// Probes with an answer, and all, of a target.
fn of(recording: &base::record::Recording, target: &str) -> (usize, usize) {
    let its = recording.delay.iter().filter(|d| &*d.target == target);
    let all = its.clone().count();
    (its.filter(|d| d.rtt_ns.is_some()).count(), all)
}

/// Monitors a server, an honest service and three liars for 6 s; `meanwhile` is called in their midst.
fn monitor(name: &str, server: SocketAddr, meanwhile: impl FnOnce()) -> base::record::Recording {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), name);
    let given = std::env::var("LIAR_SEED").ok().and_then(|s| s.parse().ok());
    let seed: u64 = given.unwrap_or(fresh);
    eprintln!("{name}: LIAR_SEED={seed}");
    let streams = Streams::new(seed);
    let mut liars = Liars {
        stop: Arc::default(),
        threads: Vec::new(),
    };
    let server = match server.port() {
        0 => liars.udp(streams.stream("server")),
        _ => server,
    };
    let names = liars.udp(streams.stream("names"));
    let web = liars.tcp(streams.stream("web"));
    let honest = serve();
    let dir = TempDir::new(&format!("liar-{name}"));
    let good = format!("tcp:{}", honest.local_addr());
    let targets = [
        server.to_string(),
        good.clone(),
        format!("http://{web}/"),
        format!("tcp:{web}"),
        format!("dns:far.example@{names}"),
    ];
    let child = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .arg("monitor")
        .args(&targets)
        .args(["--interval", "50 ms", "--duration", "6 s"])
        .args(["--output", "m.rec", "--quiet"])
        .current_dir(&dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    std::thread::sleep(std::time::Duration::from_secs(3));
    meanwhile();
    let out = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{:?}: {said}", out.status);
    let recording = store::read(dir.join("m.rec")).expect("it reads");
    honest.stop();
    let mut targets: Vec<&str> = recording.delay.iter().map(|d| &*d.target).collect();
    targets.sort_unstable();
    targets.dedup();
    for target in targets {
        let (answered, all) = of(&recording, target);
        eprintln!("{target}: {answered} of {all} answered");
    }
    let tcp = recording
        .delay
        .iter()
        .filter(|d| d.target.ends_with(&good[4..]));
    let all = tcp.clone().count();
    let answered = tcp.filter(|d| d.rtt_ns.is_some()).count();
    assert!(all >= 5, "{all} probes of the honest service");
    assert_eq!(answered, all, "the honest service answered each");
    for d in &recording.delay {
        assert!(
            d.rtt_ns.is_none_or(|ns| (0..60_000_000_000).contains(&ns)),
            "{d:?}"
        );
    }
    recording
}

#[test]
fn a_lying_server_is_its_targets_event_alone() {
    let recording = monitor("lying", ([0, 0, 0, 0], 0).into(), || {});
    // 120 probes in 6 s: what a liar says many times takes no more room.
    assert!(
        recording.delay.len() < 1500,
        "{} rows",
        recording.delay.len()
    );
    assert!(
        recording.event.len() < 500,
        "{} events",
        recording.event.len()
    );
}

#[test]
fn a_server_that_vanishes_is_its_targets_event_alone() {
    let vanishing = serve();
    let at = vanishing.local_addr();
    let recording = monitor("vanishing", at, || vanishing.stop());
    let its = recording.delay.iter().filter(|d| d.rtt_ns.is_some());
    let its = its
        .filter(|d| !d.target.contains(':') || d.target.contains("udp"))
        .count();
    assert!(its > 20, "{its} answers before it vanished");
}
