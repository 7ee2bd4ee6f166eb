//! Attacks on a server, as a stranger would make them, over loopback. Each test is one abuse and its bound.

use base::record::Direction;
use base::rng::Streams;
use base::{BitsPerSec, Duration};
use live::listeners::Listeners;
use live::load::{Access, Line, LoadError, Peer};
use live::serve::{PortSet, ServeConfig, Server};
use live::tally::Tally;
use measure::control::datagram::Message;
use measure::control::listen::{Answer, Place, TOKEN_LEN, Transport, Wanted};
use measure::control::{FlowSpec, Refusal, Request, Response, SessionId};
use measure::wire::{Ask, ClientMessage, MAX_LEN};
use rand::{Rng as _, RngExt as _};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

fn config() -> ServeConfig {
    ServeConfig {
        listen: vec!["0.0.0.0:0".parse().expect("an address")],
        allow_listen: PortSet::any(),
        ..ServeConfig::default()
    }
}

fn start(config: ServeConfig) -> (Server, Peer) {
    let server = Server::start(config).expect("it starts");
    let peer = Peer {
        server: ([127, 0, 0, 1], server.local_addr().port()).into(),
        access: Access::default(),
        patience: Duration::from_secs(10),
    };
    (server, peer)
}

/// A seed that is printed, so that a failure can be repeated.
fn random(name: &str) -> base::rng::Rng {
    let seed = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64);
    eprintln!("{name}: seed {seed}");
    Streams::new(seed).stream(name)
}

fn bytes(rng: &mut base::rng::Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn socket(at: &str) -> UdpSocket {
    let socket = UdpSocket::bind((at, 0)).expect("a socket");
    let soon = std::time::Duration::from_millis(300);
    socket.set_read_timeout(Some(soon)).expect("a time-out");
    socket
}

/// Bytes of payload that arrive until nothing has come for a while, or for at most so long.
fn drain(socket: &UdpSocket, most: std::time::Duration) -> u64 {
    let (began, mut buf, mut total) = (Instant::now(), [0; 65_536], 0);
    while began.elapsed() < most {
        match socket.recv(&mut buf) {
            Ok(n) => total += n as u64,
            Err(_) => break,
        }
    }
    total
}

fn spec(seconds: u64) -> FlowSpec {
    FlowSpec {
        session: SessionId([9; 16]),
        flow: 0,
        duration: Duration::from_secs(seconds),
        sample: Duration::from_millis(50),
    }
}

fn ask(peer: &Peer, request: &Request) -> (Line, Response) {
    let stream = peer.connect(None).expect("a connection");
    let (response, _) = peer
        .ask(&stream, request, &AtomicBool::new(false))
        .expect("an answer");
    (stream, response)
}

/// One datagram of an attacker, of any kind that the server knows, with what it can know: every token that TCP gave.
fn forged(rng: &mut base::rng::Rng, load: u64, listen: &[u8; TOKEN_LEN]) -> Vec<u8> {
    let mut out = [0; MAX_LEN];
    let (nonce, len) = (rng.random(), rng.random_range(0..MAX_LEN));
    let probe = |message: ClientMessage, out: &mut [u8; MAX_LEN]| {
        let n = message.encode(out, len, None);
        out[..n].to_vec()
    };
    let cookie = rng.random();
    let mut made = match rng.random_range(0..8) {
        0 => probe(ClientMessage::Hello { nonce }, &mut out),
        1 => {
            let ask = Ask {
                interval_ns: 1_000_000,
                duration_s: 0,
                tos: 0,
                boot_proof: 0,
            };
            probe(
                ClientMessage::Open {
                    nonce,
                    cookie,
                    ask,
                    user: None,
                },
                &mut out,
            )
        }
        2 => probe(
            ClientMessage::Request {
                token: nonce,
                seq: 1,
                sent_ns: 0,
            },
            &mut out,
        ),
        3 => probe(
            ClientMessage::Train {
                token: nonce,
                train: 1,
                index: 0,
                count: 1,
            },
            &mut out,
        ),
        4 => Message::Hello.encode(load),
        5 => {
            let received = nonce;
            Message::Proof { cookie, received }.encode(load)
        }
        6 => {
            let mut knock = listen.to_vec();
            knock.resize(len.max(TOKEN_LEN), 0);
            knock
        }
        _ => bytes(rng, len),
    };
    // Some are cut, some have a bit flipped.
    match rng.random_range(0..4) {
        0 if !made.is_empty() => made.truncate(rng.random_range(1..=made.len())),
        1 if !made.is_empty() => {
            let at = rng.random_range(0..made.len());
            made[at] ^= 1 << rng.random_range(0..8u32);
        }
        _ => {}
    }
    made
}

/// The attacker has a session with every token in it, and names victims as the source of its datagrams. What victims get
/// is never more than was spent on them, at the usual port and at every port that was opened.
#[test]
fn no_victim_gets_more_bytes_than_were_forged_in_its_name() {
    let (server, peer) = start(config());
    let mut rng = random("forged");
    let wanted = [Answer::Mark, Answer::Page, Answer::Eicar, Answer::Names].map(|answer| Wanted {
        answer,
        ..Wanted::new(Transport::Udp, Place::Here, 0)
    });
    let count = wanted.len();
    let posts = Listeners::open(
        &peer,
        wanted.to_vec(),
        Duration::from_secs(60),
        Tally::default(),
    )
    .expect("it opens");
    let (_control, response) = ask(
        &peer,
        &Request::Datagrams {
            spec: spec(60),
            direction: Direction::Down,
            rate: BitsPerSec::from_mbps(100),
            payload_bytes: 1200,
        },
    );
    let Response::Accepted(accepted) = response else {
        panic!("{response:?}")
    };
    let mut ports = vec![peer.server];
    ports.extend((0..count).map(|i| posts.at(i).expect("open")));
    for port in ports {
        // The client's own address with a port of somebody else behind the same translator, and a stranger's.
        for victim in ["127.0.0.1", "127.0.0.77"] {
            let victim = socket(victim);
            let (mut sent, mut got) = (0, 0);
            for i in 0..400 {
                let datagram = forged(&mut rng, accepted.udp_token, posts.token());
                sent += victim.send_to(&datagram, port).expect("sent") as u64;
                if i % 200 == 199 {
                    got += drain(&victim, std::time::Duration::from_secs(5));
                }
            }
            assert!(got <= sent, "{port}: {got} bytes in return for {sent}");
        }
    }
    server.stop();
}

#[test]
fn datagrams_stop_a_second_after_the_receiver_has_vanished() {
    let (server, peer) = start(config());
    let (_control, response) = ask(
        &peer,
        &Request::Datagrams {
            spec: spec(60),
            direction: Direction::Down,
            rate: BitsPerSec::from_mbps(5),
            payload_bytes: 1200,
        },
    );
    let Response::Accepted(accepted) = response else {
        panic!("{response:?}")
    };
    let (token, mut buf) = (accepted.udp_token, [0; 2000]);
    let client = socket("127.0.0.1");
    client
        .send_to(&Message::Hello.encode(token), peer.server)
        .expect("sent");
    let n = client.recv(&mut buf).expect("a challenge");
    let Some((_, Message::Challenge { cookie })) = Message::decode(&buf[..n]) else {
        panic!("no challenge")
    };
    let received = 0;
    let proof = Message::Proof { cookie, received }.encode(token);
    client.send_to(&proof, peer.server).expect("sent");
    let began = Instant::now();
    // It never proves again, and its TCP connection stays open, as of a host that has lost its line.
    let got = drain(&client, std::time::Duration::from_secs(5));
    let lasted = began.elapsed().as_secs_f64() - 0.3;
    assert!((0.8..1.5).contains(&lasted), "{lasted} s");
    assert!(got > 100_000 && got < 1_200_000, "{got} bytes");
    server.stop();
}

/// A client that proves itself and claims an endless rate gets at first no more than the first rate.
#[test]
fn a_path_that_has_shown_nothing_is_not_flooded() {
    let (server, peer) = start(config());
    let (_control, response) = ask(
        &peer,
        &Request::Datagrams {
            spec: spec(60),
            direction: Direction::Down,
            rate: BitsPerSec::from_mbps(10_000),
            payload_bytes: 1200,
        },
    );
    let Response::Accepted(accepted) = response else {
        panic!("{response:?}")
    };
    let (token, mut buf) = (accepted.udp_token, [0; 2000]);
    let client = socket("127.0.0.1");
    let hello = Message::Hello.encode(token);
    client.send_to(&hello, peer.server).expect("sent");
    let n = client.recv(&mut buf).expect("a challenge");
    let Some((_, Message::Challenge { cookie })) = Message::decode(&buf[..n]) else {
        panic!("no challenge")
    };
    // A receiver of 2 Mbit/s that is honest about it.
    let began = Instant::now();
    let (mut got, mut next) = (0u64, 0.0);
    client
        .set_read_timeout(Some(std::time::Duration::from_millis(20)))
        .expect("a time-out");
    while began.elapsed().as_secs_f64() < 3.0 {
        let t = began.elapsed().as_secs_f64();
        if t >= next {
            next += 0.1;
            let received = (t * 250_000.0) as u64;
            let proof = Message::Proof { cookie, received }.encode(token);
            client.send_to(&proof, peer.server).expect("sent");
        }
        got += client.recv(&mut buf).map_or(0, |n| n as u64);
    }
    let mbps = got as f64 * 8.0 / 3.0 / 1e6;
    assert!(
        mbps < 11.0,
        "{mbps} Mbit/s of 10 Gbit/s that were asked for"
    );
    server.stop();
}

/// Pages of this process that are in memory, bytes; the server is a part of it.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("it is there");
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .expect("a column")
        .parse()
        .expect("a number");
    pages * 4096
}

/// An honest client beside an attack: how long a small request takes, from the connection to the answer.
fn honest(peer: &Peer) -> f64 {
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

fn connect_from(ip: [u8; 4], to: std::net::SocketAddr) -> Option<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).ok()?;
    socket
        .bind(&std::net::SocketAddr::from((ip, 0)).into())
        .ok()?;
    let patience = std::time::Duration::from_millis(500);
    socket.connect_timeout(&to.into(), patience).ok()?;
    Some(socket.into())
}

/// Numbers that made a server store 100 MB a second, or end: each is refused, and memory stays where it was.
#[test]
fn impossible_numbers_are_refused_before_they_cost_anything() {
    let (server, peer) = start(config());
    let before = resident();
    let spans = [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 1 << 62];
    for extreme in spans.map(Duration::from_nanos) {
        let plain = spec(5);
        for spec in [
            FlowSpec {
                sample: extreme,
                ..plain
            },
            FlowSpec {
                duration: extreme,
                ..plain
            },
        ] {
            let stream = peer.connect(None).expect("a connection");
            let request = Request::Download {
                spec,
                congestion: String::new(),
            };
            let e = peer.ask(&stream, &request, &AtomicBool::new(false));
            let e = e.expect_err("it is refused");
            assert!(
                matches!(
                    e,
                    LoadError::Refused {
                        why: Refusal::Malformed,
                        ..
                    }
                ),
                "{e}"
            );
        }
    }
    assert!(honest(&peer) < 2.0);
    let grown = resident().saturating_sub(before);
    assert!(grown < 20 << 20, "{grown} bytes");
    server.stop();
}

/// Clients that ask and do not read, at once: reports, and transfers.
#[test]
fn answers_that_nobody_reads_are_bounded() {
    let (server, peer) = start(config());
    // A session with flows that have many samples.
    let mut flows = Vec::new();
    for flow in 0..8 {
        let request = Request::Upload {
            spec: FlowSpec {
                flow,
                sample: Duration::from_millis(5),
                ..spec(20)
            },
        };
        flows.push(ask(&peer, &request).0);
    }
    let before = resident();
    let stop = AtomicBool::new(false);
    let mut unread = Vec::new();
    for i in 0..48 {
        let request = match i % 2 {
            0 => Request::Report {
                session: SessionId([9; 16]),
            },
            _ => Request::Fetch {
                spec: FlowSpec {
                    session: SessionId([i as u8; 16]),
                    ..spec(20)
                },
                congestion: String::new(),
                bytes: 1 << 30,
            },
        };
        let Ok(stream) = peer.connect(None) else {
            continue;
        };
        let small = 4096usize;
        let _ = socket2::SockRef::from(&stream).set_recv_buffer_size(small);
        // The head of the answer, and nothing after it.
        let _ = peer.ask(&stream, &request, &stop);
        unread.push(stream);
    }
    std::thread::sleep(std::time::Duration::from_secs(2));
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{} MB", grown >> 20);
    assert!(honest(&peer) < 2.0);
    drop((unread, flows));
    server.stop();
}

/// Idle connections from 40 networks, more than there are places. Honest clients get in, and memory is bounded.
#[test]
fn connections_that_ask_for_nothing_keep_nobody_out() {
    let (server, peer) = start(config());
    let before = resident();
    let mut idle: Vec<TcpStream> = Vec::new();
    for round in 0..16u8 {
        for network in 0..40u8 {
            idle.extend(connect_from([127, 9, network, 1 + round], peer.server));
        }
        if round % 4 == 3 {
            let took = honest(&peer);
            assert!(took < 2.0, "{took} s with {} idle connections", idle.len());
        }
    }
    assert!(idle.len() > 600, "{}", idle.len());
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{} MB", grown >> 20);
    server.stop();
}

/// Trains with an instant every 60 µs, as many as the server takes: only one waits awake, and all leave room for others.
#[test]
fn trains_of_strangers_leave_room_for_others() {
    use base::program::Program;
    let (server, peer) = start(config());
    let program: Program = "20000 x 100@60us".parse().expect("a program");
    assert!(program.time() > Duration::from_secs(1));
    let mut held = Vec::new();
    let mut refused = 0;
    for flow in 0..20 {
        let request = Request::Train {
            spec: FlowSpec {
                flow,
                session: SessionId([flow as u8; 16]),
                ..spec(20)
            },
            direction: Direction::Down,
            program: program.clone(),
        };
        let stream = peer.connect(None).expect("a connection");
        match peer.ask(&stream, &request, &AtomicBool::new(false)) {
            Ok((Response::Accepted(accepted), _)) => held.push((stream, accepted)),
            Ok(other) => panic!("{other:?}"),
            Err(e) => {
                assert!(
                    matches!(
                        e,
                        LoadError::Refused {
                            why: Refusal::Busy,
                            ..
                        }
                    ),
                    "{e}"
                );
                refused += 1;
            }
        }
    }
    assert_eq!((held.len(), refused), (8, 12));
    // All begin at once, and nobody reads them.
    let sockets: Vec<UdpSocket> = held
        .iter()
        .map(|(_, accepted)| {
            let client = socket("127.0.0.1");
            client.connect(peer.server).expect("connected");
            let mut buf = [0; 2000];
            client
                .send(&Message::Hello.encode(accepted.udp_token))
                .expect("sent");
            let n = client.recv(&mut buf).expect("a challenge");
            let Some((_, Message::Challenge { cookie })) = Message::decode(&buf[..n]) else {
                panic!("no challenge")
            };
            let received = 0;
            let proof = Message::Proof { cookie, received };
            client
                .send(&proof.encode(accepted.udp_token))
                .expect("sent");
            client
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let took = honest(&peer);
    assert!(took < 2.0, "{took} s");
    drop((sockets, held));
    server.stop();
}

/// Who is not in an allowed network gets a reason over TCP and nothing over UDP.
#[test]
fn other_networks_than_the_allowed_are_not_served() {
    let (server, peer) = start(ServeConfig {
        allow: vec!["127.5.0.0/16".parse().expect("a network")],
        ..config()
    });
    let stream = peer.connect(None).expect("a connection");
    let refused = peer.ask(&stream, &Request::Info, &AtomicBool::new(false));
    let e = refused.expect_err("it is refused");
    assert!(
        matches!(
            e,
            LoadError::Refused {
                why: Refusal::Forbidden,
                ..
            }
        ),
        "{e}"
    );
    let hello = |from: &str| {
        let socket = socket(from);
        let mut out = [0; MAX_LEN];
        let n = ClientMessage::Hello { nonce: 7 }.encode(&mut out, 0, None);
        socket.send_to(&out[..n], peer.server).expect("sent");
        socket.recv(&mut out).is_ok()
    };
    assert!(!hello("127.0.0.1"));
    assert!(hello("127.5.0.1"));
    server.stop();
}
