//! Lies of a server, over TCP and UDP: well formed or nearly so, their numbers at the ends of their ranges.

// Each test uses a part of it.
#![allow(dead_code)]

use base::Duration;
use base::record::Direction;
use base::rng::Rng;
use measure::control::datagram::Message;
use measure::control::listen::{Arrival, Listening, Opened};
use measure::control::seal::{RequestReader, Transcript};
use measure::control::{
    Accepted, Detail, Ended, FlowReport, GREETING_LEN, Greeting, HELLO_LEN, LARGEST, LAST_NS,
    LONGEST, Limits, Refusal, Request, Response, Sample, SenderState, ServerInfo, Stamp, Stamps,
};
use measure::wire::{self, ClientMessage, Grant, History, MAX_LEN, Reply, ServerMessage};
use rand::{Rng as _, RngExt as _};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

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

pub fn lie(rng: &mut Rng) -> Response {
    // Commands of a terminal, and as many letters as it likes.
    let text = format!(
        "\x1b[2J\x1b]0;owned\x07\u{202e}{}",
        "x".repeat(number(rng, 1000) as usize)
    );
    match rng.random_range(0..13) {
        12 => Response::Turn {
            place: number(rng, u64::from(u32::MAX)) as u32,
            after: span(rng, LONGEST),
        },
        0 => Response::Pong,
        1 => Response::Ready,
        2 => Response::Refused {
            why: Refusal::Busy,
            text,
        },
        3 => Response::Info(ServerInfo {
            release: text,
            congestion: vec!["reno".into(), "\x1b[31m".into()],
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

/// No kind of request: the stamps that end a train.
const STAMPS: u8 = 255;

/// The answer that a client expects to a request of this kind, its numbers at their extremes. `port` is one of UDP.
fn fitting(rng: &mut Rng, kind: u8, port: u16) -> Response {
    loop {
        let answer = match (kind, lie(rng)) {
            (_, Response::Accepted(a)) => Response::Accepted(Accepted {
                udp_port: port,
                ..a
            }),
            (_, Response::Turn { after, .. }) if rng.random_range(0..4) > 0 => {
                Response::Turn { place: 0, after }
            }
            (_, other) => other,
        };
        let fits = match (kind, &answer) {
            (0, Response::Info(_)) | (1, Response::Pong) | (5, Response::Report(_)) => true,
            (7, Response::Listening(_)) | (12, Response::Turn { .. }) => true,
            (2..=4 | 6 | 8, Response::Accepted(_)) => true,
            (STAMPS, Response::Stamps(_)) => true,
            (STAMPS, _) => false,
            (0..=8 | 12, _) => false,
            _ => true,
        };
        if fits {
            return answer;
        }
    }
}

/// Ports that a request asks for; zero if it asks for something else.
fn wanted(hello: &[u8; HELLO_LEN], greeting: &[u8; GREETING_LEN], bytes: &[u8]) -> u32 {
    let (mut reader, mut rest) = (RequestReader::default(), bytes);
    while !rest.is_empty() && reader.wants() > 0 {
        let (now, later) = rest.split_at(reader.wants().min(rest.len()));
        rest = later;
        if let Ok(Some(asked)) = reader.push(now) {
            let admitted = asked.admit(&Transcript::new(hello, greeting), None, 0);
            return match admitted.map(|a| a.request) {
                Ok(Request::Listen { wanted, .. }) => wanted.len() as u32,
                _ => 0,
            };
        }
    }
    0
}

/// An address of this host: clients try what they are told.
fn address(rng: &mut Rng) -> IpAddr {
    match rng.random_range(0..5) {
        0 => IpAddr::V4([127, rng.random(), rng.random(), rng.random()].into()),
        1 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        2 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        3 => IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped()),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    }
}

/// Consent to as many ports as were asked for, mostly those of the liar itself.
fn listening(rng: &mut Rng, count: u32, port: u16) -> Response {
    let opened = |rng: &mut Rng| match rng.random_range(0..12) {
        0 => Opened::Not("\x1b[2J\u{202e}".repeat(rng.random_range(0..20))),
        1 => Opened::At((address(rng), rng.random()).into()),
        _ => Opened::At((Ipv4Addr::LOCALHOST, port).into()),
    };
    Response::Listening(Listening {
        token: rng.random(),
        from: (address(rng), rng.random()).into(),
        duration: span(rng, LONGEST),
        addresses: (0..rng.random_range(0..5)).map(|_| address(rng)).collect(),
        opened: (0..count).map(|_| opened(rng)).collect(),
    })
}

/// Arrivals at these ports, from anywhere, of any length.
fn arrivals(rng: &mut Rng, count: u32) -> Response {
    let bytes = |rng: &mut Rng, most: usize| {
        let mut bytes = vec![0; rng.random_range(0..most)];
        rng.fill_bytes(&mut bytes);
        bytes
    };
    let one = |rng: &mut Rng| Arrival {
        listener: match rng.random_range(0..10) {
            0 => rng.random(),
            _ => rng.random_range(0..count),
        },
        from: rng
            .random::<bool>()
            .then(|| (address(rng), rng.random()).into()),
        len: number(rng, u64::from(u32::MAX)) as u32,
        bytes: bytes(rng, 512),
        syn: bytes(rng, 200),
        answered: rng.random(),
        tos: rng.random::<bool>().then(|| rng.random()),
    };
    Response::Arrivals((0..rng.random_range(0..20)).map(|_| one(rng)).collect())
}

/// Says its greeting, mostly what is expected, then one lie for each thing that it hears, some of them with a bit
/// flipped. Counts them.
pub fn talk(mut stream: TcpStream, mut rng: Rng, port: u16, told: &AtomicU64) {
    let greeting = Greeting {
        key_needed: false,
        nonce: [0; 16],
        salt: [0; 16],
    };
    let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(30)));
    let (began, mut buf, mut first) = (Instant::now(), [0; 4096], true);
    let mut hello = [0; HELLO_LEN];
    let _ = stream.read_exact(&mut hello);
    let _ = stream.write_all(&greeting.encode());
    // After its consent to a train, a server says that it is ready, then its stamps. After its consent to ports, it says what
    // has arrived there.
    let (mut train, mut ports) = (0, 0);
    while began.elapsed().as_millis() < if ports > 0 { 5_000 } else { 600 } {
        let heard = match stream.read(&mut buf) {
            Ok(0) => return,
            Ok(n) => n,
            Err(_) => 0,
        };
        let expected = first && heard > 4 && rng.random_range(0..16) > 0;
        first &= heard == 0;
        let follows = train > 0 && rng.random_range(0..8) > 0;
        if ports > 0 && heard == 0 {
            continue;
        }
        let wanted = wanted(&hello, &greeting.encode(), &buf[..heard]);
        let mut bytes = match (expected, follows) {
            (true, _) if wanted > 0 => {
                ports = wanted;
                listening(&mut rng, ports, port).encode()
            }
            _ if ports > 0 => arrivals(&mut rng, ports).encode(),
            (true, _) => fitting(&mut rng, buf[4], port).encode(),
            (_, true) if train == 1 => Response::Ready.encode(),
            (_, true) => fitting(&mut rng, STAMPS, port).encode(),
            _ => lie(&mut rng).encode(),
        };
        if expected && buf[4] == 6 {
            train = 1;
        } else if train > 0 {
            train += 1;
        }
        told.fetch_add(1, Ordering::Relaxed);
        if rng.random_range(0..12) == 0 {
            let at = rng.random_range(0..bytes.len());
            bytes[at] ^= 1 << rng.random_range(0..8u32);
        }
        if stream.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// Answers to a datagram of a load or of a train.
pub fn load_lies(rng: &mut Rng, bytes: &[u8]) -> Vec<Vec<u8>> {
    match Message::decode(bytes) {
        Some((token, Message::Hello)) => {
            let cookie = rng.random();
            vec![Message::Challenge { cookie }.encode(token)]
        }
        Some((token, _)) => (0..rng.random_range(0..20))
            .map(|_| Message::Load(extreme(rng)).encode(token))
            .collect(),
        None => vec![bytes.to_vec()],
    }
}

/// A number at the end of some range.
fn extreme(rng: &mut Rng) -> u64 {
    match rng.random_range(0..4) {
        0 => 0,
        1 => u64::MAX,
        2 => 1 << rng.random_range(0..64u32),
        _ => rng.random(),
    }
}

/// Answers to one datagram of a client: the handshake mostly as it should be, all else at its extremes and many times.
pub fn lies(rng: &mut Rng, message: &ClientMessage) -> Vec<Vec<u8>> {
    let encode = |m: ServerMessage| {
        let mut out = [0; MAX_LEN];
        let n = m.encode(&mut out, 0, None);
        out[..n].to_vec()
    };
    match *message {
        ClientMessage::Hello { nonce } => vec![encode(ServerMessage::Challenge {
            nonce,
            cookie: rng.random(),
            key_needed: rng.random(),
            salt: rng.random(),
        })],
        ClientMessage::Open { nonce, .. } => {
            let lie = rng.random_range(0..8) == 0;
            let grant = Grant {
                token: rng.random(),
                min_interval_ns: if lie { extreme(rng) } else { 1_000_000 },
                duration_s: if lie { extreme(rng) as u32 } else { 0 },
                max_datagram: if lie { extreme(rng) as u16 } else { 1400 },
                origin_unix_ns: if lie { extreme(rng) as i64 } else { 0 },
            };
            vec![encode(ServerMessage::Opened { nonce, grant })]
        }
        ClientMessage::Request { token, seq, .. } => (0..rng.random_range(0..40))
            .map(|_| match rng.random_range(0..100) {
                0 => encode(ServerMessage::Refused {
                    id: token,
                    seq,
                    reason: [
                        wire::Refusal::NoSession,
                        wire::Refusal::Full,
                        wire::Refusal::Rate(extreme(rng)),
                    ][rng.random_range(0..3usize)],
                }),
                1..5 => {
                    let mut noise = vec![0; rng.random_range(0..200)];
                    rng.fill_bytes(&mut noise);
                    noise
                }
                // As an honest server would, so that the session goes on.
                5..60 => {
                    let now = std::time::SystemTime::now()
                        .duration_since(std::time::UNIX_EPOCH)
                        .map_or(0, |d| d.as_nanos() as i64);
                    let reply = Reply {
                        seq,
                        rx_ns: now,
                        hold_ns: 10_000,
                        earlier_seq: seq.wrapping_sub(1),
                        earlier_hold_ns: 10_000,
                        history: History::starting_at(seq),
                        tos: 0,
                        flags: Reply::KERNEL_RX,
                        throttled: 0,
                    };
                    encode(ServerMessage::Reply { token, reply })
                }
                _ => {
                    let reply = Reply {
                        seq: seq.wrapping_add(rng.random_range(0..3)).wrapping_sub(1),
                        rx_ns: extreme(rng) as i64,
                        hold_ns: extreme(rng) as u32,
                        earlier_seq: extreme(rng) as u32,
                        earlier_hold_ns: extreme(rng) as u32,
                        history: History {
                            highest: extreme(rng) as u32,
                            bits: extreme(rng),
                        },
                        tos: rng.random(),
                        flags: rng.random(),
                        throttled: rng.random(),
                    };
                    encode(ServerMessage::Reply { token, reply })
                }
            })
            .collect(),
        _ => Vec::new(),
    }
}
