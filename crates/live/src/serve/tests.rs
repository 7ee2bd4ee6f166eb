//! Server and load over loopback.

use super::*;
use crate::load::{Access, Load, LoadError, LoadOutcome, LoadPlan, Peer};
use crate::tally::Tally;
use base::record::{Direction, Event, Flow, Row};
use base::{Bytes, Duration};
use measure::control::{ControlError, Ended, Refusal, Request, Response};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

fn config() -> ServeConfig {
    ServeConfig {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        ..ServeConfig::default()
    }
}

/// Key for a test, derived from any text.
fn key_of(text: &str) -> String {
    let mut hex: String = text.bytes().map(|b| format!("{b:02x}")).collect();
    hex.extend(std::iter::repeat_n('0', 64 - hex.len()));
    hex
}

fn keys(text: &str) -> Keys {
    let line = format!("anna {}", key_of(text));
    Keys::Fixed(measure::keys::KeyFile::parse(&line).unwrap())
}

fn anna(text: &str) -> measure::keys::Credential {
    let line = format!("anna {}", key_of(text));
    let file = measure::keys::KeyFile::parse(&line).unwrap();
    file.single().unwrap().0
}

fn peer(server: &Server) -> Peer {
    Peer {
        server: server.local_addr(),
        access: Access::default(),
        patience: Duration::from_secs(5),
    }
}

fn plan(server: &Server, direction: Direction) -> LoadPlan {
    LoadPlan {
        peer: peer(server),
        direction,
        flows: 2,
        first_flow: 10,
        congestion: None,
        duration: Duration::from_secs(10),
        sample: Duration::from_millis(20),
        udp_rate: None,
        tally: Tally::default(),
    }
}

fn run(plan: LoadPlan, ms: u64) -> (LoadOutcome, Vec<Flow>, Vec<Event>) {
    let (rows, taken) = channel();
    let load = Load::start(plan, Clock::start(), rows).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(ms));
    let outcome = load.stop().collect(Duration::from_secs(5));
    let (flows, events) = split(taken);
    (outcome, flows, events)
}

fn split(taken: Receiver<Row>) -> (Vec<Flow>, Vec<Event>) {
    let (mut flows, mut events) = (Vec::new(), Vec::new());
    for row in taken {
        match row {
            Row::Flow(f) => flows.push(f),
            Row::Event(e) => events.push(e),
            other => panic!("a load writes no {other:?}"),
        }
    }
    (flows, events)
}

/// Error of a load that must not start.
fn refusal(plan: LoadPlan) -> LoadError {
    match Load::start(plan, Clock::start(), channel().0) {
        Err(e) => e,
        Ok(_) => panic!("the load began"),
    }
}

#[test]
fn an_upload_is_seen_alike_at_both_ends() {
    let server = Server::start(config()).unwrap();
    let (outcome, flows, events) = run(plan(&server, Direction::Up), 200);
    assert!(outcome.report_error.is_none(), "{:?}", outcome.report_error);
    assert_eq!(
        outcome.flows.iter().map(|f| f.flow).collect::<Vec<_>>(),
        [10, 11]
    );
    for f in &outcome.flows {
        assert!(f.error.is_none(), "{:?}", f.error);
        assert!(f.bytes > 1_000_000, "{f:?}");
        let ours: Vec<&Flow> = flows
            .iter()
            .filter(|r| r.flow == f.flow && r.bytes_acked.is_some())
            .collect();
        let theirs: Vec<&Flow> = flows
            .iter()
            .filter(|r| r.flow == f.flow && r.bytes_received.is_some())
            .collect();
        assert!(
            ours.len() > 4 && theirs.len() > 4,
            "{} and {}",
            ours.len(),
            theirs.len()
        );
        let last = ours.last().unwrap();
        assert!(
            last.mss_bytes.unwrap() > 500 && last.cwnd_bytes.unwrap() >= last.mss_bytes.unwrap()
        );
        assert!(
            (1_000..100_000_000).contains(&last.srtt_ns.unwrap()),
            "{last:?}"
        );
        assert!(last.delivery_rate_bps.unwrap() > 1_000_000, "{last:?}");
        assert!(last.bytes_received.is_none());
        // What the receiver counted cannot be more than was sent, and is at least what was acknowledged,
        // unless the reset at the end overtook it.
        let (acked, received) = (
            last.bytes_acked.unwrap(),
            theirs.last().unwrap().bytes_received.unwrap(),
        );
        assert!(
            received * 10 > acked * 9 && received < acked * 2 + 50_000_000,
            "{acked} {received}"
        );
    }
    assert!(
        events
            .iter()
            .all(|e| &*e.kind == "flow" || &*e.kind == "held_back"),
        "{events:?}"
    );
    assert_eq!(server.stats().flows, 2);
}

#[test]
fn a_download_brings_the_senders_state_on_our_clock() {
    let server = Server::start(config()).unwrap();
    let (outcome, flows, _) = run(plan(&server, Direction::Down), 200);
    assert!(outcome.report_error.is_none(), "{:?}", outcome.report_error);
    assert!(
        outcome.placed_within < Duration::from_millis(200),
        "{}",
        outcome.placed_within
    );
    for f in &outcome.flows {
        assert!(f.error.is_none() && f.bytes > 1_000_000, "{f:?}");
        let of = |r: &&Flow| r.flow == f.flow && r.direction == Direction::Down;
        let ours: Vec<&Flow> = flows
            .iter()
            .filter(of)
            .filter(|r| r.bytes_received.is_some())
            .collect();
        let theirs: Vec<&Flow> = flows
            .iter()
            .filter(of)
            .filter(|r| r.bytes_acked.is_some())
            .collect();
        assert!(
            ours.len() > 4 && theirs.len() > 4,
            "{} and {}",
            ours.len(),
            theirs.len()
        );
        // One host, one clock: where the samples are on it can be checked.
        let slack = outcome.placed_within.as_nanos() as i64 + 200_000_000;
        assert!((theirs[0].t_ns - ours[0].t_ns).abs() < slack);
        assert!((theirs.last().unwrap().t_ns - ours.last().unwrap().t_ns).abs() < slack);
        // Not one byte more than was sent, the control messages left out.
        assert!(theirs[0].bytes_acked.unwrap() < 50_000_000);
        assert!(
            theirs
                .iter()
                .all(|r| r.cwnd_bytes.unwrap() > 0 && r.bytes_received.is_none())
        );
        assert!(theirs.windows(2).all(|w| w[0].t_ns < w[1].t_ns));
    }
    assert!(
        outcome.reports.iter().all(|r| r.ended == Ended::ByClient),
        "{:?}",
        outcome.reports[0].ended
    );
}

#[test]
fn what_is_used_to_send_is_recorded_and_never_the_hosts_default_unasked() {
    let server = Server::start(config()).unwrap();
    let may = crate::load::CongestionControls::read().allowed;
    let root = nix::unistd::geteuid().is_root();
    let expected = if root || may.iter().any(|c| c == "cubic") {
        "cubic"
    } else {
        "reno"
    };
    for direction in [Direction::Up, Direction::Down] {
        let (outcome, _, events) = run(plan(&server, direction), 20);
        assert!(
            outcome.flows.iter().all(|f| f.congestion == expected),
            "{outcome:?}"
        );
        assert!(
            events.iter().any(|e| e.detail.contains(expected)),
            "{events:?}"
        );
        let reno = LoadPlan {
            congestion: Some("reno".into()),
            ..plan(&server, direction)
        };
        let (outcome, _, _) = run(reno, 20);
        assert!(
            outcome.flows.iter().all(|f| f.congestion == "reno"),
            "{outcome:?}"
        );
    }
}

#[test]
fn an_unknown_congestion_control_is_answered_with_the_known_ones() {
    let server = Server::start(config()).unwrap();
    for direction in [Direction::Up, Direction::Down] {
        let e = refusal(LoadPlan {
            congestion: Some("cubik".into()),
            ..plan(&server, direction)
        });
        let text = e.to_string();
        assert!(
            text.contains("\"cubik\"") && text.contains("reno"),
            "{text}"
        );
    }
}

#[test]
fn keys_must_fit_and_the_message_says_which_fault_it_is() {
    let server = Server::start(ServeConfig {
        keys: Some(keys("right")),
        ..config()
    })
    .unwrap();
    let with = |key: Option<&str>| {
        let mut p = plan(&server, Direction::Up);
        p.peer.access.key = key.map(anna);
        p
    };
    assert!(matches!(
        refusal(with(Some("wrong"))),
        LoadError::WrongKey { .. }
    ));
    assert!(matches!(refusal(with(None)), LoadError::KeyNeeded { .. }));
    let (outcome, _, _) = run(with(Some("right")), 20);
    assert!(outcome.report_error.is_none() && outcome.flows.iter().all(|f| f.error.is_none()));
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let e = Server::start(ServeConfig {
        listen: vec![addr],
        ..config()
    })
    .err()
    .unwrap();
    assert!(
        e.to_string().contains(&addr.to_string()) && e.to_string().contains("in use"),
        "{e}"
    );
    // TCP must be free at the port that UDP takes.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = UdpSocket::bind(free.local_addr().unwrap()).unwrap();
    drop(free);
    let e = Server::start(ServeConfig {
        listen: vec![taken.local_addr().unwrap()],
        ..config()
    })
    .err()
    .unwrap();
    assert!(
        matches!(
            e,
            ServeError::InUse {
                protocol: "UDP",
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn both_families_are_served_by_one_socket() {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let server = Server::start(ServeConfig {
        listen: vec![any],
        ..config()
    })
    .unwrap();
    let port = server.local_addr().port();
    let stop = AtomicBool::new(false);
    for ip in ["127.0.0.1", "::1"] {
        let there = Peer {
            server: SocketAddr::new(ip.parse().unwrap(), port),
            ..peer(&server)
        };
        let stream = match there.connect(None) {
            Ok(s) => s,
            // A host without IPv6 has nothing to reach there.
            Err(e) if server.local_addr().is_ipv4() && ip == "::1" => {
                assert!(matches!(e, LoadError::Unreachable { .. }));
                continue;
            }
            Err(e) => panic!("{e}"),
        };
        let (answer, _) = there.ask(&stream, &Request::Ping, &stop).unwrap();
        assert_eq!(answer, Response::Pong);
    }
}

#[test]
fn nobody_there_is_said_at_once() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = Server::start(config()).unwrap();
    let mut p = plan(&server, Direction::Down);
    p.peer.server = closed;
    let e = refusal(p);
    assert!(matches!(e, LoadError::Unreachable { .. }), "{e}");
}

#[test]
fn another_service_is_told_from_a_tailback() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = other.local_addr().unwrap();
    let talker = std::thread::spawn(move || {
        let (mut s, _) = other.accept().unwrap();
        s.write_all(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n").unwrap();
    });
    let there = Peer {
        server: addr,
        access: Access::default(),
        patience: Duration::from_secs(2),
    };
    let stream = there.connect(None).unwrap();
    let e = there
        .ask(&stream, &Request::Info, &AtomicBool::new(false))
        .unwrap_err();
    assert!(
        matches!(
            e,
            LoadError::Protocol {
                error: ControlError::NotTailback,
                ..
            }
        ),
        "{e}"
    );
    talker.join().unwrap();
}

#[test]
fn what_was_measured_is_kept_when_the_server_goes_away() {
    for direction in [Direction::Down, Direction::Up] {
        let server = Server::start(config()).unwrap();
        let (rows, taken) = channel();
        let load = Load::start(plan(&server, direction), Clock::start(), rows).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(load.progress().alive, 2);
        server.stop();
        let began = Instant::now();
        while load.progress().alive > 0 {
            assert!(began.elapsed().as_secs() < 5, "the load has not noticed");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let outcome = load.stop().collect(Duration::from_secs(1));
        for f in &outcome.flows {
            assert!(matches!(f.error, Some(LoadError::Vanished { .. })), "{f:?}");
            assert!(f.bytes > 0);
        }
        assert!(matches!(
            outcome.report_error,
            Some(LoadError::Unreachable { .. })
        ));
        let (flows, events) = split(taken);
        assert!(flows.len() > 4);
        assert!(
            events.iter().filter(|e| &*e.kind == "fault").count() >= 2,
            "{events:?}"
        );
    }
}

#[test]
fn budgets_are_kept_and_their_refusals_explained() {
    let server = Server::start(ServeConfig {
        budgets: Budgets {
            flows_per_client: 2,
            bytes_per_hour: Bytes::new(20_000_000),
            ..Budgets::default()
        },
        ..config()
    })
    .unwrap();
    // Three are wanted, two are had.
    let three = LoadPlan {
        flows: 3,
        ..plan(&server, Direction::Down)
    };
    let (rows, taken) = channel();
    let load = Load::start(three, Clock::start(), rows).unwrap();
    let began = Instant::now();
    while load.progress().alive > 0 {
        assert!(began.elapsed().as_secs() < 5, "20 MB never ended");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let outcome = load.stop().collect(Duration::from_secs(1));
    let refused = |f: &&crate::load::FlowOutcome| {
        matches!(
            f.error,
            Some(LoadError::Refused {
                why: Refusal::Busy,
                ..
            })
        )
    };
    assert_eq!(
        outcome.flows.iter().filter(refused).count(),
        1,
        "{outcome:?}"
    );
    assert!(
        outcome.reports.iter().any(|r| r.ended == Ended::Budget),
        "{outcome:?}"
    );
    assert!(
        split(taken)
            .1
            .iter()
            .any(|e| e.detail.contains("use fewer flows"))
    );
    // The hour's bytes are gone.
    let e = refusal(plan(&server, Direction::Up));
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
}

#[test]
fn an_upload_that_uses_up_its_budget_is_told_so() {
    let server = Server::start(ServeConfig {
        budgets: Budgets {
            bytes_per_hour: Bytes::new(10_000_000),
            ..Budgets::default()
        },
        ..config()
    })
    .unwrap();
    let (rows, _taken) = channel();
    let load = Load::start(plan(&server, Direction::Up), Clock::start(), rows).unwrap();
    let began = Instant::now();
    while load.progress().alive > 0 {
        assert!(began.elapsed().as_secs() < 5, "10 MB never ended");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let outcome = load.stop().collect(Duration::from_secs(2));
    let told = |f: &crate::load::FlowOutcome| {
        matches!(
            f.error,
            Some(LoadError::Refused {
                why: Refusal::Spent,
                ..
            })
        )
    };
    assert!(outcome.flows.iter().all(told), "{outcome:?}");
}

#[test]
fn clients_that_say_nothing_do_not_keep_others_out_nor_the_server_from_stopping() {
    let server = Server::start(ServeConfig {
        budgets: Budgets {
            connections_per_client: 8,
            ..Budgets::default()
        },
        ..config()
    })
    .unwrap();
    let mut silent: Vec<TcpStream> = (0..7)
        .map(|_| TcpStream::connect(server.local_addr()).unwrap())
        .collect();
    // One that begins a request and never ends it.
    silent[0].write_all(b"TBK").unwrap();
    let there = peer(&server);
    let stop = AtomicBool::new(false);
    let ask = || {
        there
            .connect(None)
            .and_then(|s| there.ask(&s, &Request::Ping, &stop))
            .map(|(r, _)| r)
    };
    assert_eq!(ask().unwrap(), Response::Pong);
    // However many more there are: who has been silent for longest gives way.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    for _ in 0..5 {
        silent.push(TcpStream::connect(server.local_addr()).unwrap());
        assert_eq!(ask().unwrap(), Response::Pong);
    }
    let began = Instant::now();
    server.stop();
    assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
    let mut rest = Vec::new();
    silent[0]
        .set_read_timeout(Some(std::time::Duration::from_secs(1)))
        .unwrap();
    let _ = silent[0].read_to_end(&mut rest);
    assert_eq!(rest.len(), 0, "nothing for free");
}

#[test]
fn a_load_stops_at_once_though_much_is_queued() {
    let server = Server::start(config()).unwrap();
    // A receiver that never reads: everything stays queued.
    let sink = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut p = plan(&server, Direction::Up);
    p.peer.server = sink.local_addr().unwrap();
    let accepted = std::thread::spawn(move || {
        let mut held = Vec::new();
        for _ in 0..2 {
            let (mut s, _) = sink.accept().unwrap();
            let greeting = measure::control::Greeting {
                key_needed: false,
                nonce: [0; 16],
                salt: [0; 16],
            };
            s.write_all(&greeting.encode()).unwrap();
            let accepted = measure::control::Accepted {
                server_ns: 0,
                duration: Duration::from_secs(10),
                sample: Duration::from_millis(50),
                congestion: String::new(),
                udp_port: 0,
                udp_token: 0,
            };
            s.write_all(&Response::Accepted(accepted).encode()).unwrap();
            held.push(s);
        }
        held
    });
    let (rows, taken) = channel();
    let load = Load::start(p, Clock::start(), rows).unwrap();
    let held = accepted.join().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let began = Instant::now();
    let stopped = load.stop();
    assert!(began.elapsed().as_millis() < 1000, "{:?}", began.elapsed());
    drop(held);
    // Nobody is left to report, yet what this end knows is told: its receiver took nothing.
    let outcome = stopped.collect(Duration::from_millis(100));
    assert!(outcome.report_error.is_some());
    let (_, events) = split(taken);
    let held_back = events.iter().filter(|e| &*e.kind == "held_back");
    assert_eq!(
        held_back
            .filter(|e| e.detail.contains("receive window"))
            .count(),
        2,
        "{events:?}"
    );
}

#[test]
fn datagrams_keep_their_rate_and_are_counted_at_both_ends() {
    let server = Server::start(config()).unwrap();
    for direction in [Direction::Up, Direction::Down] {
        let plan = LoadPlan {
            // 1 200 bytes of payload are 1 228 on the wire: 1 000 a second in two flows.
            udp_rate: Some(base::BitsPerSec::new(9_824_000)),
            tally: Tally::default(),
            ..plan(&server, direction)
        };
        let (outcome, flows, events) = run(plan, 400);
        assert!(outcome.report_error.is_none(), "{:?}", outcome.report_error);
        for f in &outcome.flows {
            assert!(f.error.is_none(), "{f:?}");
            let d = f.datagrams.unwrap();
            let (sent, received) = (d.sent.unwrap(), d.received.unwrap());
            // On a busy host the schedule shifts rather than bursts: never too many, seldom too few.
            assert!((50..=450).contains(&sent), "{direction}: {d:?}");
            assert!(received > 40 && received <= sent, "{direction}: {d:?}");
            assert_eq!(d.reordered, Some(0));
            assert_eq!(d.lost, Some(sent - received));
            let rows = flows.iter().filter(|r| r.flow == f.flow);
            let most = rows.filter_map(|r| r.bytes_received).max().unwrap();
            assert_eq!(most, received as i64 * 1200, "{direction}");
        }
        assert_eq!(events.iter().filter(|e| &*e.kind == "datagrams").count(), 2);
    }
}

#[test]
fn a_source_that_tcp_has_not_let_in_gets_no_datagram() {
    use measure::control::datagram::Message;
    let server = Server::start(ServeConfig {
        listen: vec!["0.0.0.0:0".parse().unwrap()],
        ..config()
    })
    .unwrap();
    let port = server.local_addr().port();
    let there = Peer {
        server: ([127, 0, 0, 1], port).into(),
        ..peer(&server)
    };
    let stream = there.connect(None).unwrap();
    let request = Request::Datagrams {
        spec: measure::control::FlowSpec {
            session: measure::control::SessionId([1; 16]),
            flow: 0,
            duration: Duration::from_secs(5),
            sample: Duration::from_millis(20),
        },
        direction: Direction::Down,
        rate: base::BitsPerSec::from_mbps(1),
        payload_bytes: 500,
    };
    let (answer, _) = there
        .ask(&stream, &request, &AtomicBool::new(false))
        .unwrap();
    let Response::Accepted(accepted) = answer else {
        panic!("{answer:?}")
    };
    let gets = |from: &str, token: u64, proves: bool| {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket
            .set_read_timeout(Some(std::time::Duration::from_millis(150)))
            .unwrap();
        let hello = Message::Hello.encode(token);
        socket.send_to(&hello, ("127.0.0.1", port)).unwrap();
        let mut buf = [0; 2000];
        let n = socket.recv(&mut buf).ok()?;
        assert!(n <= hello.len(), "{n} bytes in return for {}", hello.len());
        let Some((_, Message::Challenge { cookie })) = Message::decode(&buf[..n]) else {
            panic!("no challenge")
        };
        if proves {
            let received = 0;
            let proof = Message::Proof { cookie, received }.encode(token);
            socket.send_to(&proof, ("127.0.0.1", port)).unwrap();
        }
        let came = socket.recv(&mut buf).is_ok();
        came.then_some(socket)
    };
    assert!(
        gets("127.0.0.1", accepted.udp_token ^ 1, true).is_none(),
        "a guessed token"
    );
    assert!(
        gets("127.0.0.2", accepted.udp_token, true).is_none(),
        "another address than that of the TCP connection"
    );
    assert!(
        gets("127.0.0.1", accepted.udp_token, false).is_none(),
        "a port that has not returned its cookie"
    );
    let socket = gets("127.0.0.1", accepted.udp_token, true).expect("it was let in");

    // Nor does one that has hung up, long before the flow's time is over.
    crate::load::kernel::close_abruptly(&stream);
    drop(stream);
    let began = Instant::now();
    // Four milliseconds apart while they come.
    while socket.recv_from(&mut [0; 2000]).is_ok() {
        assert!(
            began.elapsed().as_secs() < 3,
            "datagrams still come although nobody is connected"
        );
    }

    let refused = Request::Datagrams {
        spec: measure::control::FlowSpec {
            session: measure::control::SessionId([1; 16]),
            flow: 1,
            duration: Duration::from_secs(5),
            sample: Duration::from_millis(20),
        },
        direction: Direction::Down,
        rate: base::BitsPerSec::ZERO,
        payload_bytes: 9000,
    };
    let stream = there.connect(None).unwrap();
    let e = there
        .ask(&stream, &refused, &AtomicBool::new(false))
        .unwrap_err();
    assert!(e.to_string().contains("9000"), "{e}");
}

#[test]
fn fresh_connections_are_timed_and_none_is_sent_when_too_many_wait() {
    use crate::load::{ForeignPlan, ForeignProbe};
    use base::record::{Delay, Status};
    let probe = |server: SocketAddr, key: Option<&str>, ms: u64, patience: u64| {
        let (rows, taken) = channel();
        let plan = ForeignPlan {
            peer: Peer {
                server,
                access: Access {
                    key: key.map(anna),
                    ..Access::default()
                },
                patience: Duration::from_millis(patience),
            },
            interval: Duration::from_millis(10),
            at_once: 2,
            tally: Tally::default(),
        };
        let probe = ForeignProbe::start(plan, Clock::start(), rows).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(ms));
        probe.stop();
        let (mut delays, mut events) = (Vec::<Delay>::new(), 0);
        for row in taken {
            match row {
                Row::Delay(d) => delays.push(d),
                Row::Event(_) => events += 1,
                other => panic!("{other:?}"),
            }
        }
        (delays, events)
    };
    let count = |rows: &[Delay], target: &str, status| {
        rows.iter()
            .filter(|d| &*d.target == target && d.status == status)
            .count()
    };
    let server = Server::start(ServeConfig {
        keys: Some(keys("k")),
        ..config()
    })
    .unwrap();
    let (rows, events) = probe(server.local_addr(), Some("k"), 300, 100);
    assert_eq!(events, 0);
    assert!(
        count(&rows, "tcp-connect", Status::Ok) > 3 && count(&rows, "tcp-request", Status::Ok) > 3,
        "{rows:?}"
    );
    assert!(rows.iter().filter_map(|d| d.rtt_ns).all(|ns| ns > 0));
    // A key that does not fit is said once, not with every probe.
    let (rows, events) = probe(server.local_addr(), Some("x"), 2_600, 1_200);
    assert_eq!((count(&rows, "tcp-request", Status::Ok), events), (0, 1));
    assert!(count(&rows, "tcp-request", Status::Lost) >= 3);
    // One that takes connections and says nothing: two wait until their time is over, the others are not sent.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (rows, _) = probe(silent.local_addr().unwrap(), None, 350, 100);
    let (lost, unsent) = (
        count(&rows, "tcp-request", Status::Lost),
        count(&rows, "tcp-connect", Status::NotSent),
    );
    assert!(
        (2..=8).contains(&lost) && unsent > 5,
        "{lost} lost, {unsent} not sent"
    );
}
