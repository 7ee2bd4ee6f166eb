//! Servers that lie to a session and clients that abuse a reflector, over random draws. Seeds are printed.

use base::record::{Direction, Row};
use base::rng::{Rng, Streams};
use base::{BitsPerSec, Duration, Time};
use measure::control::datagram::Message;
use measure::control::inbox::Inbox;
use measure::control::listen::{
    Answer, Arrival, MOST_ARRIVALS, Order, Place, Transport, Wanted, knock,
};
use measure::control::post::{Author, Post};
use measure::control::seal::{ClientEnd, RequestReader, Transcript};
use measure::control::{
    Accepted, Detail, Ended, FlowReport, FlowSpec, GREETING_LEN, Greeting, HELLO_LEN, Hello,
    Limits, Request, Response, Sample, SenderState, SessionId, Stamp, Stamps,
};
use measure::handshake::Handshake;
use measure::ledger::Slots;
use measure::reflector::{self, Budget, Reflector};
use measure::session::{self, Params, Session};
use measure::wire::{
    Ask, ClientMessage, Grant, History, Key, MAX_LEN, Refusal, Reply, ServerMessage,
};
use rand::RngExt as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The seed of this run, or the one that HOSTILE_SEED names.
fn random(name: &str) -> Rng {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), name);
    let given = std::env::var("HOSTILE_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seed = given.unwrap_or(fresh);
    eprintln!("{name}: HOSTILE_SEED={seed}");
    Streams::new(seed).stream(name)
}

/// A number that is likely to be at the end of some range.
fn extreme(rng: &mut Rng) -> u64 {
    let edge = 1u64 << rng.random_range(0..64u32);
    match rng.random_range(0..6) {
        0 => 0,
        1 => u64::MAX,
        2 => edge,
        3 => edge.wrapping_sub(1),
        4 => u64::MAX - edge,
        _ => rng.random(),
    }
}

/// Rounds of a test by mutation: HOSTILE_ROUNDS of them, or few enough for every build.
fn rounds() -> u64 {
    let given = std::env::var("HOSTILE_ROUNDS")
        .ok()
        .and_then(|s| s.parse().ok());
    given.unwrap_or(40_000)
}

/// Changes a message: bits, bytes, its end, a number put to its extreme, a part said twice.
fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.random_range(0..4) {
        let len = bytes.len();
        let at = rng.random_range(0..len.max(1));
        match rng.random_range(0..7) {
            _ if len == 0 => bytes.push(rng.random()),
            0 => bytes[at] ^= 1 << rng.random_range(0..8u32),
            1 => bytes[at] = rng.random(),
            2 => bytes.truncate(at),
            3 => bytes[at] = [0, 0x7f, 0x80, 0xff][rng.random_range(0..4usize)],
            4 => {
                // LEB128 of something extreme.
                let (mut n, mut number) = (extreme(rng), Vec::new());
                while n >= 0x80 {
                    number.push(n as u8 | 0x80);
                    n >>= 7;
                }
                number.push(n as u8);
                bytes.splice(at..(at + number.len()).min(len), number);
            }
            5 => {
                let part = bytes[at..(at + 9).min(len)].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let edge = extreme(rng).to_be_bytes();
                bytes.splice(at..(at + 8).min(len), edge);
            }
        }
    }
}

fn spec(rng: &mut Rng) -> FlowSpec {
    FlowSpec {
        session: SessionId(rng.random()),
        flow: rng.random(),
        duration: Duration::from_millis(rng.random_range(0..100_000)),
        sample: Duration::from_millis(rng.random_range(0..1_000)),
    }
}

fn address(rng: &mut Rng) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(rng.random::<[u8; 4]>().into()), rng.random())
}

fn wanted(rng: &mut Rng) -> Wanted {
    let transport = if rng.random() {
        Transport::Tcp
    } else {
        Transport::Udp
    };
    let all = [Answer::Nothing, Answer::Mark, Answer::Page, Answer::Names];
    Wanted {
        answer: all[rng.random_range(0..4usize)],
        expect: rng.random(),
        ..Wanted::new(transport, Place::Here, rng.random())
    }
}

fn request(rng: &mut Rng) -> Request {
    let spec = spec(rng);
    let direction = if rng.random() {
        Direction::Up
    } else {
        Direction::Down
    };
    let congestion = "cubic".to_owned();
    match rng.random_range(0..8) {
        0 => Request::Info,
        1 => Request::Upload { spec },
        2 => Request::Download { spec, congestion },
        3 => Request::Datagrams {
            spec,
            direction,
            rate: BitsPerSec::new(rng.random_range(0..1_000_000_000)),
            payload_bytes: rng.random(),
        },
        4 => Request::Report {
            session: spec.session,
        },
        5 => Request::Train {
            spec,
            direction,
            program: "9 x 1452, 200@5 ms; pause 5 s; 50 x 200@1 ms dscp=46 ecn=2 df"
                .parse()
                .expect("a program"),
        },
        6 => Request::Listen {
            spec,
            wanted: (0..rng.random_range(0..5)).map(|_| wanted(rng)).collect(),
        },
        _ => Request::Fetch {
            spec,
            congestion,
            bytes: rng.random_range(0..1 << 40),
        },
    }
}

fn response(rng: &mut Rng) -> Response {
    let now = 1_700_000_000_000_000_000 + rng.random_range(0..1_000_000_000i64);
    match rng.random_range(0..5) {
        0 => Response::Accepted(Accepted {
            server_ns: now,
            duration: Duration::from_secs(5),
            sample: Duration::from_millis(50),
            congestion: "reno".into(),
            udp_port: rng.random(),
            udp_token: rng.random(),
        }),
        1 => Response::Refused {
            why: measure::control::Refusal::Busy,
            text: "try again in 5 s".into(),
        },
        2 => Response::Stamps(Stamps {
            stamps: (0..rng.random_range(0..40))
                .map(|seq| Stamp {
                    seq,
                    at_ns: now + seq as i64 * 1_000_000,
                    ecn: rng.random_range(0..4),
                })
                .collect(),
            ..Stamps::default()
        }),
        3 => Response::Report(vec![FlowReport {
            flow: rng.random(),
            direction: Direction::Down,
            start_ns: now,
            ended: Ended::TimeUp,
            congestion: "cubic".into(),
            limits: Limits::default(),
            samples: (0..rng.random_range(0..40))
                .map(|n| Sample {
                    at: Duration::from_millis(n * 50),
                    bytes: n * 100_000,
                    detail: Detail::Sender(SenderState {
                        cwnd_bytes: 14_480,
                        srtt_ns: Some(30_000_000),
                        ..SenderState::default()
                    }),
                })
                .collect(),
        }]),
        _ => Response::Arrivals(vec![Arrival {
            listener: 1,
            from: Some(address(rng)),
            len: rng.random(),
            bytes: vec![7; rng.random_range(0..500usize)],
            syn: vec![0x45; rng.random_range(0..100usize)],
            answered: rng.random(),
            tos: rng.random::<bool>().then(|| rng.random()),
        }]),
    }
}

fn greeted() -> ([u8; HELLO_LEN], [u8; GREETING_LEN]) {
    let greeting = Greeting {
        key_needed: false,
        nonce: [8; 16],
        salt: [0; 16],
    };
    (Hello { nonce: [7; 16] }.encode(), greeting.encode())
}

/// Mutated messages of the control protocol, both ways, as a socket would hand them over. None panics, and a reader never
/// holds more than the longest message.
#[test]
fn mutated_control_messages_are_read_or_refused() {
    let mut rng = random("control");
    let (mut read, mut refused) = (0u64, 0u64);
    for _ in 0..rounds() {
        let (hello, greeting) = greeted();
        let transcript = Transcript::new(&hello, &greeting);
        let mut end = ClientEnd::new(&hello, &greeting, None).expect("no keys");
        let mut bytes = end.request(&request(&mut rng));
        mutate(&mut rng, &mut bytes);
        let mut reader = RequestReader::default();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let n = reader.wants().min(rest.len());
            let (now, later) = rest.split_at(n);
            rest = later;
            match reader.push(now) {
                Ok(None) if n > 0 => continue,
                Ok(Some(asked)) => match asked.admit(&transcript, None, 0) {
                    Ok(_) => read += 1,
                    Err(_) => refused += 1,
                },
                _ => refused += 1,
            }
            break;
        }
        let mut bytes = response(&mut rng).encode();
        mutate(&mut rng, &mut bytes);
        let mut reader = end;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let n = reader.wants().min(rest.len());
            let (now, later) = rest.split_at(n);
            rest = later;
            match reader.push(now) {
                Ok(None) if n > 0 => continue,
                Ok(Some(_)) => read += 1,
                _ => refused += 1,
            }
            break;
        }
    }
    eprintln!("{read} were read, {refused} refused");
    assert!(read > rounds() / 10 && refused > rounds() / 10);
}

/// Sequences of mutated messages against the state machines that answer them: no source gets more than it sent, and what
/// is kept is bounded.
#[test]
fn mutated_sequences_move_no_state_machine_out_of_its_bounds() {
    let mut rng = random("sequences");
    let victim: SocketAddr = "198.51.100.7:53".parse().expect("an address");
    for _ in 0..rounds() / 400 {
        let client = address(&mut rng);
        let (token, secret) = (rng.random(), rng.random());
        let own: Vec<Wanted> = (0..3).map(|_| wanted(&mut rng)).collect();
        let author: Author = |_, _| vec![b'x'; 200];
        let mut post = Post::new(token, rng.random(), client.ip(), own, author);
        let mut inbox = Inbox::new(client.ip(), rng.random(), secret);
        let (mut spent, mut got, mut now) = (0, 0, 0);
        for _ in 0..400 {
            now += rng.random_range(0..200_000_000i64);
            let from = if rng.random() { client } else { victim };
            let mut bytes = match rng.random_range(0..3) {
                0 => knock(&token, rng.random_range(0..3000)),
                1 => Message::Hello.encode(rng.random()),
                _ => {
                    let (cookie, received) = (rng.random(), extreme(&mut rng));
                    Message::Proof { cookie, received }.encode(rng.random())
                }
            };
            mutate(&mut rng, &mut bytes);
            let answers = [
                post.datagram(rng.random_range(0..4), (from, Some(rng.random())), &bytes),
                inbox.datagram(now, from, &bytes),
            ];
            for answer in answers.into_iter().flatten() {
                assert!(answer.len() <= bytes.len());
                got += if from == victim { answer.len() } else { 0 };
            }
            spent += if from == victim { bytes.len() } else { 0 };
            let _ = inbox.allowance(now, BitsPerSec::new(extreme(&mut rng)));
            let order = Order::Send {
                listener: extreme(&mut rng) as u32,
                to: victim,
                cookie: rng.random(),
                number: extreme(&mut rng) as u32,
                len: extreme(&mut rng) as u32,
                tos: rng.random(),
                hops: rng.random(),
            };
            let mut bytes = order.encode();
            mutate(&mut rng, &mut bytes);
            if let Ok(Order::Send {
                listener,
                to,
                cookie,
                number,
                len,
                ..
            }) = Order::decode(&bytes)
            {
                assert!(post.send(listener, to, &cookie, (number, len)).is_err());
            }
        }
        assert!(got <= spent, "{got} bytes for {spent}");
        assert!(post.arrivals().len() <= MOST_ARRIVALS);
        assert_eq!(inbox.address(), None);
    }
}

/// Mutated datagrams of probes, both ways.
#[test]
fn mutated_probe_datagrams_are_read_or_ignored() {
    let mut rng = random("probes");
    let key = Key::new(b"secret");
    let mut reflector = Reflector::new(Budget::default(), None, [7; 32], b"boot", 0);
    let mut now = Time::from_millis(1);
    for round in 0..rounds() {
        now += Duration::from_micros(rng.random_range(0..500));
        let mut buf = [0u8; MAX_LEN];
        let (token, nonce) = (rng.random(), rng.random());
        let message = match rng.random_range(0..4) {
            0 => ClientMessage::Hello { nonce },
            1 => ClientMessage::Request {
                token,
                seq: rng.random(),
                sent_ns: 0,
            },
            2 => ClientMessage::Train {
                token,
                train: rng.random(),
                index: rng.random(),
                count: rng.random(),
            },
            _ => ClientMessage::Close { token },
        };
        let n = message.encode(&mut buf, rng.random_range(0..300), None);
        let mut bytes = buf[..n].to_vec();
        mutate(&mut rng, &mut bytes);
        let _ = ClientMessage::decode(&bytes, Some(&key));
        reflector.handle_datagram(now, arrival(address(&mut rng)), &bytes);
        let mut answer = [0u8; MAX_LEN];
        while let Some(o) = reflector.poll_transmit(0, &mut answer) {
            assert!(o.len <= bytes.len(), "{} for {}", o.len, bytes.len());
        }
        let n = lie(&mut rng, token, round as u32).encode(&mut buf, 0, None);
        let mut bytes = buf[..n].to_vec();
        mutate(&mut rng, &mut bytes);
        for key in [None, Some(&key)] {
            let _ = ServerMessage::decode(&bytes, key);
        }
        reflector.handle_timeout(now);
    }
    assert_eq!(reflector.sessions(), 0, "nobody has proven anything");
}

fn params(token: u64) -> Params {
    Params {
        lost_after: Duration::from_secs(2),
        kept_for: Duration::from_secs(3),
        origin_unix_ns: 1_700_000_000_000_000_000,
        target: "udp".into(),
        keys: None,
        grant: Grant {
            token,
            min_interval_ns: 1_000_000,
            duration_s: 0,
            max_datagram: 1400,
            origin_unix_ns: 0,
        },
        capacity: 1024,
    }
}

/// Any message of a server, its numbers at their extremes, often about probes that exist.
fn lie(rng: &mut Rng, token: u64, sent: u32) -> ServerMessage {
    let id = if rng.random_range(0..8) == 0 {
        rng.random()
    } else {
        token
    };
    let near = |rng: &mut Rng| match rng.random_range(0..3) {
        0 => extreme(rng) as u32,
        _ => sent.wrapping_sub(rng.random_range(0..40)),
    };
    match rng.random_range(0..12) {
        0 => ServerMessage::Challenge {
            nonce: id,
            cookie: rng.random(),
            salt: rng.random(),
            key_needed: rng.random(),
        },
        1 => ServerMessage::Opened {
            nonce: id,
            grant: Grant {
                token: id,
                min_interval_ns: extreme(rng),
                duration_s: extreme(rng) as u32,
                max_datagram: extreme(rng) as u16,
                origin_unix_ns: extreme(rng) as i64,
            },
        },
        2 => ServerMessage::Refused {
            id,
            seq: near(rng),
            // One that ends the session ends the test: those are tried elsewhere.
            reason: Refusal::Rate(extreme(rng)),
        },
        3 => ServerMessage::TrainReply {
            token: id,
            train: extreme(rng) as u16,
            index: extreme(rng) as u8,
            count: extreme(rng) as u8,
            rx_ns: extreme(rng) as i64,
        },
        _ => ServerMessage::Reply {
            token: id,
            reply: Reply {
                seq: near(rng),
                rx_ns: extreme(rng) as i64,
                hold_ns: extreme(rng) as u32,
                earlier_seq: near(rng),
                earlier_hold_ns: extreme(rng) as u32,
                history: History {
                    highest: near(rng),
                    bits: extreme(rng),
                },
                tos: rng.random(),
                flags: rng.random(),
                throttled: extreme(rng) as u16,
            },
        },
    }
}

/// A hundred thousand lies, through the bytes on the wire: no panic, and what is written grows with our probes and not
/// with the server's answers.
#[test]
fn a_lying_server_neither_ends_a_session_nor_fills_a_disk() {
    let mut rng = random("lies");
    let token = rng.random();
    let mut session = Session::new(
        params(token),
        Slots::new(Time::from_millis(1), Duration::from_millis(10), 0),
    );
    let (mut out, mut rows, mut probes, mut lies) = ([0u8; MAX_LEN], 0u64, 0u64, 0);
    for step in 0..20_000u64 {
        let now = Time::from_millis(1 + step);
        while let Some((seq, _)) = session.poll_transmit(now, &mut out) {
            session.handle_sent(seq, now, now + Duration::from_micros(3));
            probes += 1;
        }
        for _ in 0..5 {
            let mut bytes = [0u8; MAX_LEN];
            let n = lie(&mut rng, token, probes as u32).encode(&mut bytes, 0, None);
            lies += 1;
            let Ok(message) = ServerMessage::decode(&bytes[..n], None) else {
                continue;
            };
            let arrival = session::Arrival {
                at: now,
                kernel: rng.random(),
                steady: rng.random_range(0..10) > 0,
                tos: Some(rng.random()),
            };
            session.handle_message(now, arrival, message);
        }
        session.handle_timeout(now);
        while let Some(row) = session.poll_row() {
            if let Row::Delay(d) = &row {
                assert!(d.rtt_ns.is_none_or(|rtt| rtt > 0), "{d:?}");
            }
            rows += 1;
        }
        let _ = session.far_ahead_ns();
        if step % 500 == 0 {
            let claim = (extreme(&mut rng) >> 2) as i64;
            session.expect_same_clock(if rng.random() { claim } else { -claim });
        }
    }
    session.finish();
    assert!(lies >= 100_000 && probes > 1_000);
    assert!(rows <= probes * 5 + 200, "{rows} rows of {probes} probes");
}

fn arrival(from: SocketAddr) -> reflector::Arrival {
    reflector::Arrival {
        from,
        local: None,
        rx_ns: 1_700_000_000_000_000_000,
        kernel: true,
        tos: Some(0),
    }
}

/// Opens a session from there, if the reflector lets it.
fn open(reflector: &mut Reflector, now: Time, from: SocketAddr, interval_ns: u64) -> Option<Grant> {
    let ask = Ask {
        interval_ns,
        duration_s: 0,
        tos: 0,
        boot_proof: 0,
    };
    let nonce = u64::from(from.port()) << 32 | 7;
    let mut handshake = Handshake::new(now, nonce, ask, None, Duration::from_secs(1));
    let mut out = [0u8; MAX_LEN];
    while let Some(at) = handshake.next_wakeup() {
        handshake.handle_timeout(at);
        while let Some(len) = handshake.poll_transmit(at, &mut out) {
            reflector.handle_datagram(at, arrival(from), &out[..len]);
            let mut answer = [0u8; MAX_LEN];
            while let Some(o) = reflector.poll_transmit(0, &mut answer) {
                handshake.handle_datagram(at, &answer[..o.len]);
            }
        }
    }
    handshake.outcome()?.ok()
}

/// Sessions of the longest interval from 64 networks, 16 each, fill the table. Others still get in, and those that probe
/// keep their place beside an attacker who opens more.
#[test]
fn a_table_full_of_silent_sessions_keeps_nobody_out() {
    let mut rng = random("table");
    let mut reflector = Reflector::new(Budget::default(), None, [7; 32], b"boot", 0);
    let hour = 3_600_000_000_000;
    let mut now = Time::from_millis(1);
    let mut opened = 0;
    for host in 0..64u8 {
        for port in 0..16 {
            let from = (Ipv4Addr::new(198, 51, 100, host), 1000 + port).into();
            opened += u32::from(open(&mut reflector, now, from, hour).is_some());
            now += Duration::from_millis(1);
        }
    }
    assert_eq!((opened, reflector.sessions()), (1024, 1024));
    let honest: SocketAddr = "192.0.2.1:5000".parse().expect("an address");
    let grant = open(&mut reflector, now, honest, 10_000_000).expect("it gets in");
    // The attacker goes on, from there and from networks of its own; the honest client probes meanwhile.
    for seq in 0..2_000u32 {
        now += Duration::from_millis(10);
        let network = rng.random_range(0..4u8);
        let from = SocketAddr::new(
            IpAddr::V4(Ipv4Addr::new(198, 51, 100 + network, rng.random())),
            rng.random_range(1..u16::MAX),
        );
        open(&mut reflector, now, from, hour);
        let mut out = [0u8; MAX_LEN];
        let request = ClientMessage::Request {
            token: grant.token,
            seq,
            sent_ns: 0,
        };
        let n = request.encode(&mut out, 0, None);
        reflector.handle_datagram(now, arrival(honest), &out[..n]);
        let mut answer = [0u8; MAX_LEN];
        let o = reflector.poll_transmit(0, &mut answer).expect("an answer");
        let message = ServerMessage::decode(&answer[..o.len], None);
        assert!(
            matches!(message, Ok(ServerMessage::Reply { .. })),
            "{seq}: {message:?}"
        );
        assert!(reflector.sessions() <= 1024);
    }
    let late: SocketAddr = "203.0.113.9:5000".parse().expect("an address");
    assert!(open(&mut reflector, now, late, 10_000_000).is_some());
}
