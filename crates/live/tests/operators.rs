//! Limits, log and queue of a server, over loopback.

use base::program::Program;
use base::record::{Direction, Row};
use base::{BitsPerSec, Duration};
use live::clock::Clock;
use live::load::{Access, Line, Load, LoadError, LoadOutcome, LoadPlan, Peer};
use live::serve::journal::Happened;
use live::serve::{ServeConfig, Server};
use live::tally::Tally;
use measure::control::datagram::Header;
use measure::control::{FlowSpec, Refusal, Request, Response, SessionId};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Instant;

fn start(config: ServeConfig) -> (Server, Peer) {
    let server = Server::start(ServeConfig {
        listen: vec!["0.0.0.0:0".parse().expect("an address")],
        ..config
    })
    .expect("it starts");
    let peer = Peer {
        server: ([127, 0, 0, 1], server.local_addr().port()).into(),
        access: Access::default(),
        patience: Duration::from_secs(10),
    };
    (server, peer)
}

fn load(peer: &Peer, direction: Direction, udp_rate: Option<BitsPerSec>) -> LoadPlan {
    LoadPlan {
        peer: peer.clone(),
        direction,
        flows: 2,
        first_flow: 0,
        congestion: None,
        duration: Duration::from_secs(20),
        sample: Duration::from_millis(20),
        udp_rate,
        tally: Tally::default(),
    }
}

/// Runs a load for so long; gives its outcome, its rows and how long it ran, s.
fn run(plan: LoadPlan, ms: u64) -> Result<(LoadOutcome, Vec<Row>, f64), LoadError> {
    let (rows, taken) = channel();
    let began = Instant::now();
    let load = Load::start(plan, Clock::start(), rows)?;
    std::thread::sleep(std::time::Duration::from_millis(ms));
    let stopped = load.stop();
    let took = began.elapsed().as_secs_f64();
    let outcome = stopped.collect(Duration::from_secs(3));
    Ok((outcome, taken.try_iter().collect(), took))
}

#[test]
fn load_stays_at_the_rate_limit_and_its_recording_says_what_held_it_back() {
    let limit = BitsPerSec::from_mbps(40);
    let (server, peer) = start(ServeConfig {
        max_rate: Some(limit),
        ..ServeConfig::default()
    });
    for direction in [Direction::Down, Direction::Up] {
        let (outcome, rows, took) = run(load(&peer, direction, None), 2000).expect("it runs");
        let moved: u64 = match direction {
            Direction::Down => outcome.flows.iter().map(|f| f.bytes).sum(),
            // What its sender still holds has not been asked for.
            Direction::Up => {
                let last =
                    |r: &measure::control::FlowReport| r.samples.last().map_or(0, |s| s.bytes);
                outcome.reports.iter().map(last).sum()
            }
        };
        let share = moved as f64 * 8.0 / took / limit.get() as f64;
        assert!((0.8..1.1).contains(&share), "{direction:?}: {share}");
        let held = rows.iter().any(|r| {
            matches!(r, Row::Event(e) if &*e.kind == "held_back" && e.detail.contains("server ceiling"))
        });
        assert!(held, "{direction:?}");
    }
    server.stop();
}

#[test]
fn udp_above_the_limit_is_refused_and_within_it_keeps_its_rate() {
    let (server, peer) = start(ServeConfig {
        max_udp_rate: BitsPerSec::from_mbps(20),
        ..ServeConfig::default()
    });
    let fast = load(&peer, Direction::Down, Some(BitsPerSec::from_mbps(50)));
    let e = run(fast, 100).expect_err("50 of 20 Mbit/s");
    assert!(
        matches!(
            e,
            LoadError::Refused {
                why: Refusal::Spent,
                ..
            }
        ),
        "{e}"
    );
    let slow = load(&peer, Direction::Down, Some(BitsPerSec::from_mbps(10)));
    let (outcome, _, took) = run(slow, 1000).expect("it runs");
    let bits = outcome.flows.iter().map(|f| f.bytes).sum::<u64>() as f64 * 8.0;
    let mbps = bits / took / 1e6;
    assert!((6.0..10.5).contains(&mbps), "{mbps} Mbit/s");
    server.stop();
}

fn spec() -> FlowSpec {
    FlowSpec {
        session: SessionId([7; 16]),
        flow: 0,
        duration: Duration::from_secs(60),
        sample: Duration::from_millis(50),
    }
}

fn ask(peer: &Peer, request: &Request) -> Result<(Line, Response), LoadError> {
    let stream = peer.connect(None)?;
    let (response, _) = peer.ask(&stream, request, &AtomicBool::new(false))?;
    Ok((stream, response))
}

#[test]
fn who_sends_faster_than_granted_is_stopped() {
    let (log, entries) = std::sync::mpsc::sync_channel(100);
    let (server, peer) = start(ServeConfig {
        log: Some(log),
        ..ServeConfig::default()
    });
    let request = Request::Datagrams {
        spec: spec(),
        direction: Direction::Up,
        rate: BitsPerSec::from_mbps(1),
        payload_bytes: 1200,
    };
    let (stream, response) = ask(&peer, &request).expect("it is granted");
    let Response::Accepted(accepted) = response else {
        panic!("{response:?}")
    };
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let began = Instant::now();
    let mut seq = 0;
    let ended = loop {
        assert!(began.elapsed().as_secs() < 10, "20 Mbit/s of 1 go on");
        let mut datagram = vec![0; 1200];
        let token = accepted.udp_token;
        let header = Header { token, seq }.encode();
        datagram[..header.len()].copy_from_slice(&header);
        let _ = socket.send_to(&datagram, peer.server);
        seq += 1;
        std::thread::sleep(std::time::Duration::from_micros(450));
        if let Ok(entry) = entries.try_recv()
            && entry.event == Happened::Session
        {
            break entry;
        }
    };
    assert_eq!((ended.what, ended.why), ("datagrams", "too_fast"));
    let said = peer.hear(&stream, i64::MAX / 2, &AtomicBool::new(false));
    let told = said.expect_err("a reason").to_string();
    assert!(told.contains("faster than it was granted"), "{told}");
    server.stop();
}

#[test]
fn trains_above_the_rate_limit_are_refused_with_the_reason() {
    let (server, peer) = start(ServeConfig {
        max_rate: Some(BitsPerSec::from_mbps(2)),
        ..ServeConfig::default()
    });
    let train = |text: &str| Request::Train {
        spec: spec(),
        direction: Direction::Down,
        program: text.parse::<Program>().expect("a program"),
    };
    let e = ask(&peer, &train("5000 x 1400@10us")).expect_err("7 MB at once");
    assert!(
        matches!(
            e,
            LoadError::Refused {
                why: Refusal::Spent,
                ..
            }
        ),
        "{e}"
    );
    assert!(ask(&peer, &train("40 x 1400@1ms")).is_ok());
    server.stop();
}

#[test]
fn the_log_has_each_session_and_each_refusal_with_its_reason() {
    let (log, entries) = std::sync::mpsc::sync_channel(100);
    let (server, peer) = start(ServeConfig {
        log: Some(log),
        ..ServeConfig::default()
    });
    let plan = LoadPlan {
        flows: 1,
        ..load(&peer, Direction::Down, None)
    };
    let (outcome, _, _) = run(plan, 200).expect("it runs");
    let report = Request::Report {
        session: SessionId([0; 16]),
    };
    assert!(ask(&peer, &report).is_err());
    server.stop();
    let entries: Vec<_> = entries.try_iter().collect();
    let session = entries.iter().find(|e| e.event == Happened::Session);
    let session = session.expect("the download");
    assert_eq!((session.what, session.why), ("download", "by_client"));
    assert!(session.bytes >= outcome.flows[0].bytes / 2, "{session:?}");
    assert!(session.client.is_some_and(|c| c.is_loopback()) && session.time_ns > 0);
    let refused = entries.iter().find(|e| e.event == Happened::Refused);
    assert_eq!(refused.expect("the report").why, "unknown_session");
}

fn connect_from(ip: [u8; 4], to: SocketAddr) -> Line {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    socket
        .bind(&SocketAddr::from((ip, 0)).into())
        .expect("an address of loopback");
    socket.connect(&to.into()).expect("it connects");
    Line::new(TcpStream::from(socket), None).expect("a plain line")
}

/// Asks for the uplink from this address; gives the connection and the place.
fn turn(peer: &Peer, ip: [u8; 4]) -> (Line, u32) {
    let stream = connect_from(ip, peer.server);
    let request = Request::Turn {
        duration: Duration::from_secs(30),
    };
    let answer = peer.ask(&stream, &request, &AtomicBool::new(false));
    match answer.expect("an answer").0 {
        Response::Turn { place, .. } => (stream, place),
        other => panic!("{other:?}"),
    }
}

fn place_now(peer: &Peer, stream: &Line, wanted: u32) {
    let began = Instant::now();
    loop {
        let until = i64::MAX / 2;
        let heard = peer.hear(stream, until, &AtomicBool::new(false));
        match heard.expect("a place each second") {
            Response::Turn { place, .. } if place == wanted => return,
            Response::Turn { .. } => {}
            other => panic!("{other:?}"),
        }
        assert!(began.elapsed().as_secs() < 10, "never place {wanted}");
    }
}

#[test]
fn clients_wait_for_the_uplink_in_their_order_and_those_that_vanish_make_room() {
    let (server, peer) = start(ServeConfig::default());
    let (first, place) = turn(&peer, [127, 1, 0, 1]);
    assert_eq!(place, 0);
    let (second, place) = turn(&peer, [127, 2, 0, 1]);
    assert_eq!(place, 1);
    let (third, place) = turn(&peer, [127, 3, 0, 1]);
    assert_eq!(place, 2);
    let (fourth, place) = turn(&peer, [127, 4, 0, 1]);
    assert_eq!(place, 3);
    let stream = connect_from([127, 9, 0, 1], peer.server);
    let upload = Request::Upload { spec: spec() };
    let refused = peer.ask(&stream, &upload, &AtomicBool::new(false));
    let Err(LoadError::Refused { why, text, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(why, Refusal::Loaded);
    assert!(text.contains("try again in"), "{text}");
    drop(third);
    place_now(&peer, &fourth, 2);
    drop(first);
    place_now(&peer, &second, 0);
    place_now(&peer, &fourth, 1);
    drop(second);
    place_now(&peer, &fourth, 0);
    server.stop();
}
