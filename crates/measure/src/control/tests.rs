use super::packets::{CapturedPacket, CapturedPackets, MOST_HEADERS};
use super::seal::{Admitted, ClientEnd, RequestReader, ServerEnd, Transcript};
use super::types::ENDS;
use super::types::FASTEST;
use super::*;
use crate::keys::{Credential, KeyFile, Secret, UserKey, Users};
use base::program::{Fragments, MOST_DATAGRAMS};
use proptest::prelude::*;

const SALT: Salt = [5; SALT_LEN];

/// Credential of the user anna; every byte of the key has this value.
fn anna(key: u8) -> Credential {
    Credential::new("anna", Secret::Key(UserKey([key; 32])))
}

fn users(key: u8) -> Users {
    let line = format!("anna {}", format!("{key:02x}").repeat(32));
    let file = KeyFile::parse(&line).expect("a good line");
    Users::new(&file, [5; 48], None)
}

/// Hello and greeting of a connection: `n` makes its nonces.
fn greeted(n: u8, keyed: bool) -> ([u8; HELLO_LEN], [u8; GREETING_LEN]) {
    let hello = Hello { nonce: [n; 16] };
    let greeting = Greeting {
        key_needed: keyed,
        nonce: [n + 1; 16],
        salt: SALT,
    };
    (hello.encode(), greeting.encode())
}

fn client(n: u8, key: Option<u8>) -> ClientEnd {
    let (hello, greeting) = greeted(n, key.is_some());
    ClientEnd::new(&hello, &greeting, key.map(anna).as_ref()).expect("both or none have a key")
}

/// Feeds bytes as a socket would: never more than are wanted.
fn admit(n: u8, mut bytes: &[u8], key: Option<u8>) -> Result<Option<Admitted>, ControlError> {
    let (hello, greeting) = greeted(n, key.is_some());
    let mut reader = RequestReader::default();
    while !bytes.is_empty() {
        let now = reader.wants().min(bytes.len());
        if let Some(asked) = reader.push(&bytes[..now])? {
            let transcript = Transcript::new(&hello, &greeting);
            let users = key.map(users);
            return asked.admit(&transcript, users.as_ref(), 0).map(Some);
        }
        bytes = &bytes[now..];
    }
    Ok(None)
}

fn read_request(bytes: &[u8], key: Option<u8>) -> Result<Option<Request>, ControlError> {
    admit(7, bytes, key).map(|a| a.map(|a| a.request))
}

fn encode(request: &Request, key: Option<u8>) -> Vec<u8> {
    client(7, key).request(request)
}

/// Both ends after a request.
fn talking(n: u8, key: Option<u8>) -> (ClientEnd, ServerEnd) {
    let mut client = client(n, key);
    let request = client.request(&Request::Info);
    let admitted = admit(n, &request, key).expect("the right key");
    (client, admitted.expect("a whole request").end)
}

fn hear(end: &mut ClientEnd, mut bytes: &[u8]) -> Result<Option<Response>, ControlError> {
    while !bytes.is_empty() {
        let n = end.wants().min(bytes.len());
        if let Some(r) = end.push(&bytes[..n])? {
            return Ok(Some(r));
        }
        bytes = &bytes[n..];
    }
    Ok(None)
}

fn heard(end: &mut ServerEnd, mut bytes: &[u8]) -> Result<Option<Vec<u8>>, ControlError> {
    while !bytes.is_empty() {
        let n = end.wants().min(bytes.len());
        if let Some(frame) = end.push(&bytes[..n])? {
            return Ok(Some(frame));
        }
        bytes = &bytes[n..];
    }
    Ok(None)
}

fn read_response(bytes: &[u8]) -> Result<Option<Response>, ControlError> {
    let mut end = client(7, None);
    let (last, most) = bytes.split_last().expect("something");
    assert_eq!(
        hear(&mut end, most)?,
        None,
        "it took less than belongs to it"
    );
    assert_eq!(end.wants(), 1, "it wanted more than belongs to it");
    end.push(&[*last])
}

fn spec() -> impl Strategy<Value = FlowSpec> {
    let (longest, sample) = (LONGEST.as_nanos(), LONGEST_SAMPLE.as_nanos());
    (any::<[u8; 16]>(), any::<u32>(), 0..=longest, 0..=sample).prop_map(|(s, flow, d, i)| {
        FlowSpec {
            session: SessionId(s),
            flow,
            duration: Duration::from_nanos(d),
            sample: Duration::from_nanos(i),
        }
    })
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Up), Just(Direction::Down)]
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        Just(Request::Info),
        Just(Request::Ping),
        Just(Request::Ticket),
        (0..=LONGEST.as_nanos()).prop_map(|ns| Request::Turn {
            duration: Duration::from_nanos(ns),
        }),
        spec().prop_map(|spec| Request::Upload { spec }),
        spec().prop_map(|spec| Request::Capture { spec }),
        (spec(), "[a-z]{0,16}")
            .prop_map(|(spec, congestion)| Request::Download { spec, congestion }),
        (spec(), "[a-z]{0,16}", 0..=LARGEST).prop_map(|(spec, congestion, bytes)| {
            Request::Fetch {
                spec,
                congestion,
                bytes,
            }
        }),
        (spec(), direction(), 0..=FASTEST.get(), any::<u16>()).prop_map(
            |(spec, direction, r, payload_bytes)| {
                Request::Datagrams {
                    spec,
                    direction,
                    rate: BitsPerSec::new(r),
                    payload_bytes,
                }
            }
        ),
        any::<[u8; 16]>().prop_map(|s| Request::Report {
            session: SessionId(s)
        }),
        (
            spec(),
            direction(),
            prop::collection::vec((20u32..65_000, 0u64..9_999_999), 1..250)
        )
            .prop_map(|(spec, direction, shots)| Request::Train {
                spec,
                direction,
                program: program(shots),
            }),
    ]
}

fn program(shots: Vec<(u32, u64)>) -> Program {
    let shot = |(payload, gap)| base::program::Shot {
        payload,
        gap: Duration::from_nanos(gap),
    };
    Program::of(base::program::Step::new(
        3,
        shots.into_iter().map(shot).collect(),
    ))
}

fn stamps() -> impl Strategy<Value = Stamps> {
    let stamp = (0..MOST_DATAGRAMS, 0..=LAST_NS, 0u8..4);
    let stamp = stamp.prop_map(|(seq, at_ns, ecn)| Stamp { seq, at_ns, ecn });
    let n = || 0..=LARGEST;
    let fragments = [n(), n(), n(), n()].prop_map(|[whole, first, second, further]| Fragments {
        whole,
        first,
        second,
        further,
    });
    (
        prop::collection::vec(stamp, 0..50),
        [n(), n()],
        prop::option::of(fragments),
    )
        .prop_map(|(stamps, [refused, overflowed], fragments)| Stamps {
            stamps,
            refused,
            overflowed,
            fragments,
        })
}

fn packets() -> impl Strategy<Value = CapturedPackets> {
    let headers = prop::collection::vec(any::<u8>(), 0..=MOST_HEADERS);
    let packet = (0..=LAST_NS, any::<u32>(), any::<bool>(), headers);
    let packet = packet.prop_map(|(t_ns, ip_bytes, outgoing, headers)| CapturedPacket {
        t_ns,
        ip_bytes,
        outgoing,
        headers,
    });
    (
        prop::collection::vec(packet, 0..20),
        any::<bool>(),
        0..=LARGEST,
    )
        .prop_map(|(packets, more, missed)| CapturedPackets {
            packets,
            more,
            missed,
        })
}

fn detail() -> impl Strategy<Value = Detail> {
    let n = || 0..=LARGEST;
    let o = || prop::option::of(n());
    prop_oneof![
        Just(Detail::Receiver),
        (n(), o(), o(), o(), o(), n(), (o(), o()), n()).prop_map(
            |(c, th, s, v, m, r, (d, del), mss)| {
                Detail::Sender(SenderState {
                    cwnd_bytes: c,
                    ssthresh_bytes: th,
                    srtt_ns: s,
                    rttvar_ns: v,
                    min_rtt_ns: m,
                    retransmits: r,
                    delivered_bytes: del,
                    delivery_rate_bps: d,
                    mss_bytes: mss,
                })
            }
        ),
        (n(), n(), n()).prop_map(|(received, expected, reordered)| {
            Detail::Datagrams(DatagramCount {
                received,
                expected,
                reordered,
            })
        }),
    ]
}

fn span() -> impl Strategy<Value = u64> {
    0..=LONGEST.as_nanos()
}

fn flow() -> impl Strategy<Value = FlowReport> {
    let samples = prop::collection::vec(
        (0..=LARGEST, 0..=LARGEST, detail()).prop_map(|(at, bytes, detail)| Sample {
            at: Duration::from_nanos(at),
            bytes,
            detail,
        }),
        0..20,
    );
    (
        any::<u32>(),
        direction(),
        0..=LAST_NS,
        0..ENDS.len(),
        "[a-z]{0,8}",
        [span(), span(), span()],
        samples,
    )
        .prop_map(
            |(flow, direction, start_ns, e, congestion, l, samples)| FlowReport {
                flow,
                direction,
                start_ns,
                ended: ENDS[e],
                congestion,
                limits: Limits {
                    busy: Duration::from_nanos(l[0]),
                    receive_window: Duration::from_nanos(l[1]),
                    send_buffer: Duration::from_nanos(l[2]),
                    server_ceiling: Duration::from_nanos(l[0]),
                },
                samples,
            },
        )
}

fn response() -> impl Strategy<Value = Response> {
    let times = (0..=LAST_NS, span(), 0..=LONGEST_SAMPLE.as_nanos());
    let accepted = (times, any::<u64>(), "[a-z]{0,8}", any::<u16>()).prop_map(
        |((server_ns, d, s), udp_token, congestion, udp_port)| {
            Response::Accepted(Accepted {
                server_ns,
                duration: Duration::from_nanos(d),
                sample: Duration::from_nanos(s),
                congestion,
                udp_port,
                udp_token,
            })
        },
    );
    let info = (
        "[ -~]{0,9}",
        prop::collection::vec("[a-z]{1,9}", 0..9),
        any::<u32>(),
        span(),
    )
        .prop_map(|(release, congestion, max_flows, d)| {
            Response::Info(ServerInfo {
                release,
                congestion,
                max_flows,
                max_duration: Duration::from_nanos(d),
            })
        });
    prop_oneof![
        Just(Response::Pong),
        any::<([u8; 16], [u8; 32])>().prop_map(|(id, key)| Response::Ticket(Ticket {
            id,
            key: UserKey(key),
        })),
        (any::<u32>(), 0..=LONGEST.as_nanos()).prop_map(|(place, ns)| Response::Turn {
            place,
            after: Duration::from_nanos(ns),
        }),
        accepted,
        (0..REFUSALS.len(), "[ -~äß€]{0,80}").prop_map(|(r, text)| Response::Refused {
            why: REFUSALS[r],
            text
        }),
        info,
        prop::collection::vec(flow(), 0..5).prop_map(Response::Report),
        Just(Response::Ready),
        stamps().prop_map(Response::Stamps),
        packets().prop_map(Response::Packets),
    ]
}

proptest! {
    #[test]
    fn every_request_reads_back_the_same(r in request(), key in any::<Option<u8>>()) {
        prop_assert_eq!(read_request(&encode(&r, key), key), Ok(Some(r)));
    }

    #[test]
    fn every_response_reads_back_the_same(r in response()) {
        prop_assert_eq!(read_response(&r.encode()), Ok(Some(r)));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..13) {
        let _ = read_request(&bytes, None);
        let mut framed = MAGIC.to_vec();
        framed.extend([VERSION, kind, 0, 0, bytes.len() as u8]);
        framed.extend(&bytes);
        let _ = read_request(&framed, None);
        let _ = Response::parse(kind, &bytes);
    }

    #[test]
    fn a_signed_message_with_any_bit_changed_is_not_taken(
        r in request(), answer in response(), frame in prop::collection::vec(any::<u8>(), 0..seal::MOST_FRAME),
        at in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let flip = |bytes: &mut Vec<u8>| {
            let i = at.index(bytes.len());
            bytes[i] ^= 1 << bit;
        };
        let mut bytes = encode(&r, Some(1));
        flip(&mut bytes);
        prop_assert!(!matches!(read_request(&bytes, Some(1)), Ok(Some(_))));

        let (mut client, mut server) = talking(7, Some(1));
        let mut bytes = server.response(&answer);
        flip(&mut bytes);
        // An attacker who strips the signature from a refusal only refuses as well.
        let taken = hear(&mut client, &bytes);
        prop_assert!(matches!(taken, Err(_) | Ok(None | Some(Response::Refused { .. }))), "{taken:?}");

        let mut bytes = client.frame(&frame);
        flip(&mut bytes);
        prop_assert!(!matches!(heard(&mut server, &bytes), Ok(Some(_))));
    }

    /// Every message of a connection, sent again, out of order, back to its author, or to another connection.
    #[test]
    fn no_message_is_taken_twice_out_of_turn_by_its_author_or_elsewhere(
        answers in prop::collection::vec(response(), 2..6), pick in any::<prop::sample::Index>(), other in 9u8..200,
    ) {
        let (mut client, mut server) = talking(7, Some(1));
        let said: Vec<Vec<u8>> = answers.iter().map(|a| server.response(a)).collect();
        let i = pick.index(said.len());
        for (answer, bytes) in answers.iter().zip(&said).take(i) {
            prop_assert_eq!(hear(&mut client, bytes), Ok(Some(answer.clone())));
        }
        let out_of_turn = said.iter().enumerate().filter(|(n, _)| *n != i);
        for (_, bytes) in out_of_turn {
            let (mut elsewhere, _) = talking(other, Some(1));
            prop_assert_eq!(hear(&mut elsewhere, bytes), Err(ControlError::Unsigned));
            let (mut fresh, mut again) = talking(7, Some(1));
            for a in &answers[..i] {
                let bytes = again.response(a);
                prop_assert_eq!(hear(&mut fresh, &bytes), Ok(Some(a.clone())));
            }
            prop_assert_eq!(hear(&mut fresh, bytes), Err(ControlError::Unsigned));
        }
        prop_assert_eq!(hear(&mut client, &said[i]), Ok(Some(answers[i].clone())));
        let frames = [client.frame(b"one"), client.frame(b"two")];
        prop_assert_eq!(heard(&mut server, &frames[0]), Ok(Some(b"one".to_vec())));
        prop_assert_eq!(heard(&mut server, &frames[0]), Err(ControlError::Unsigned), "a replay");
        let (_, mut server) = talking(7, Some(1));
        prop_assert_eq!(heard(&mut server, &frames[1]), Err(ControlError::Unsigned), "out of turn");
        let (_, mut server) = talking(other, Some(1));
        prop_assert_eq!(heard(&mut server, &frames[0]), Err(ControlError::Unsigned), "elsewhere");
        // A reflection: the client's message, as if the server had sent it.
        let mut echo = frames[0].clone();
        echo[0] |= 0x80;
        let (mut client, _) = talking(7, Some(1));
        prop_assert!(!matches!(hear(&mut client, &echo), Ok(Some(_))));
    }
}

#[test]
fn the_wrong_key_no_key_and_another_connection_are_told_apart() {
    let signed = encode(&Request::Info, Some(1));
    assert_eq!(read_request(&signed, Some(1)), Ok(Some(Request::Info)));
    assert_eq!(read_request(&signed, Some(2)), Err(ControlError::WrongKey));
    let plain = encode(&Request::Info, None);
    assert_eq!(read_request(&plain, Some(1)), Err(ControlError::KeyNeeded));
    let elsewhere = admit(8, &signed, Some(1)).map(|_| ());
    assert_eq!(elsewhere, Err(ControlError::WrongKey));
    assert_eq!(read_request(&signed, None), Err(ControlError::NoKeyThere));
    // Another user's name with the same key is as wrong as any.
    let (hello, greeting) = greeted(7, true);
    let bert = Credential::new("bert", Secret::Key(UserKey([1; 32])));
    let mut end = ClientEnd::new(&hello, &greeting, Some(&bert)).expect("keys at both ends");
    let bytes = end.request(&Request::Info);
    assert_eq!(read_request(&bytes, Some(1)), Err(ControlError::WrongKey));
}

#[test]
fn a_client_with_a_key_takes_no_plain_answer() {
    let (hello, greeting) = greeted(7, false);
    let downgraded = ClientEnd::new(&hello, &greeting, Some(&anna(1))).map(|_| ());
    assert_eq!(downgraded, Err(ControlError::NoKeyThere));
    let (hello, greeting) = greeted(7, true);
    let keyless = ClientEnd::new(&hello, &greeting, None).map(|_| ());
    assert_eq!(keyless, Err(ControlError::KeyNeeded));
    let refused = |why| Response::Refused {
        why,
        text: String::new(),
    };
    for answer in [
        Response::Pong,
        Response::Ready,
        Response::Report(Vec::new()),
        refused(Refusal::Spent),
        refused(Refusal::UnknownSession),
    ] {
        let (mut end, _) = talking(7, Some(1));
        let taken = hear(&mut end, &answer.encode());
        assert_eq!(taken, Err(ControlError::Unsigned), "{answer:?}");
    }
    // Only a server that does not know who asks cannot sign.
    let (mut end, _) = talking(7, Some(1));
    let taken = hear(&mut end, &refused(Refusal::WrongKey).encode());
    assert_eq!(taken, Ok(Some(refused(Refusal::WrongKey))));
}

#[test]
fn the_hmac_is_the_one_of_rfc_4231() {
    // RFC 4231 section 4.3, test case 2.
    let key = crate::wire::Key::new(b"Jefe");
    let tag = key.mac(&[b"what do ya want ", b"for nothing?"]);
    assert_eq!(
        crate::keys::hex(&tag),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}

#[test]
fn a_message_that_announces_too_much_is_refused_before_it_is_read() {
    assert_eq!(
        hear(&mut client(7, None), &[3, 0xff, 0xff, 0xff, 0xff]),
        Err(ControlError::TooLong {
            bytes: u32::MAX as usize,
            limit: MAX_RESPONSE_BODY
        })
    );
    let mut header = MAGIC.to_vec();
    header.extend([VERSION, 0, 0, 0xff, 0xff]);
    assert_eq!(
        RequestReader::default().push(&header).map(|_| ()),
        Err(ControlError::TooLong {
            bytes: 0xffff,
            limit: MAX_REQUEST_BODY
        })
    );
    // A report of 2^60 samples in a few bytes.
    let mut w = Writer::default();
    w.number(1);
    w.flow(&FlowReport {
        flow: 0,
        direction: Direction::Up,
        start_ns: 0,
        ended: Ended::TimeUp,
        congestion: String::new(),
        limits: Limits::default(),
        samples: Vec::new(),
    });
    w.0.pop();
    w.number(1 << 60);
    assert!(matches!(
        Response::parse(4, &w.0),
        Err(ControlError::Malformed { .. })
    ));
}

#[test]
fn another_service_and_another_version_are_told_apart() {
    let mut ssh = [0; GREETING_LEN];
    ssh[..21].copy_from_slice(b"SSH-2.0-OpenSSH_9.2p1");
    assert_eq!(Greeting::decode(&ssh), Err(ControlError::NotTailback));
    let greeting = Greeting {
        key_needed: true,
        nonce: [7; 16],
        salt: SALT,
    };
    let mut bytes = greeting.encode();
    assert_eq!(Greeting::decode(&bytes), Ok(greeting));
    bytes[3] = 9;
    assert_eq!(
        Greeting::decode(&bytes),
        Err(ControlError::Version { theirs: 9 })
    );
}

#[test]
fn a_report_is_small_enough_for_a_slow_line() {
    // 30 s at 20 samples a second, as a bulk flow on 700 kbit/s looks.
    let samples = (0..600u64)
        .map(|i| Sample {
            at: Duration::from_nanos(i * 50_000_000 + i * 7919 % 90_000),
            bytes: i * 4344,
            detail: Detail::Sender(SenderState {
                cwnd_bytes: 40_000 + i % 7 * 1448,
                ssthresh_bytes: Some(28_960),
                srtt_ns: Some(430_000_000 + i * 104_729 % 9_000_000 * 1000),
                rttvar_ns: Some(9_000_000 + i * 7919 % 900_000 * 1000),
                min_rtt_ns: Some(19_000_000),
                retransmits: i / 50,
                delivered_bytes: Some(i * 4344),
                delivery_rate_bps: Some(690_000 + i * 31 % 9_000),
                mss_bytes: 1448,
            }),
        })
        .collect();
    let report = Response::Report(vec![FlowReport {
        flow: 0,
        direction: Direction::Down,
        start_ns: 1_700_000_000_000_000_000,
        ended: Ended::TimeUp,
        congestion: "cubic".into(),
        limits: Limits::default(),
        samples,
    }]);
    let bytes = report.encode().len();
    assert!(bytes < 600 * 32, "{bytes} bytes for 600 samples");
}

#[test]
fn the_longest_program_is_a_request_like_any_other() {
    let shots = vec![(65_507u32, 3_599_999_999_999u64); base::program::MOST_SHOTS];
    let text = shots
        .iter()
        .map(|(p, g)| format!("{p}@{g} ns"))
        .collect::<Vec<_>>()
        .join(", ")
        .len();
    assert!(text < MAX_PROGRAM, "{text}");
    let program = program(vec![(65_507, 1_333_333); base::program::MOST_SHOTS]);
    let r = Request::Train {
        spec: FlowSpec {
            session: SessionId([1; 16]),
            flow: 0,
            duration: Duration::ZERO,
            sample: Duration::ZERO,
        },
        direction: Direction::Up,
        program,
    };
    assert_eq!(read_request(&encode(&r, None), None), Ok(Some(r)));
}

#[test]
fn a_stamp_of_an_even_train_costs_six_bytes() {
    let stamps = (0..1000).map(|i| Stamp {
        seq: i,
        at_ns: 1_700_000_000_000_000_000 + 6_000_000 * i as i64,
        ecn: 2,
    });
    let bytes = Response::Stamps(Stamps {
        stamps: stamps.collect(),
        ..Stamps::default()
    })
    .encode()
    .len();
    assert!(bytes < 6_000, "{bytes}");
}

#[test]
fn ports_that_are_asked_for_and_what_came_to_them_read_as_written() {
    use crate::quote::Quote;
    use listen::{Answer, Arrival, Listening, Opened, Order, Place, Quoted, Transport, Wanted};
    let at: std::net::SocketAddr = "192.0.2.1:80".parse().expect("an address");
    let there: std::net::SocketAddr = "[2001:db8::1]:53".parse().expect("an address");
    let wanted = vec![
        Wanted {
            expect: 7,
            answer: Answer::Eicar,
            ..Wanted::new(Transport::Tcp, Place::Here, 80)
        },
        Wanted::new(Transport::Udp, Place::Elsewhere, 0),
    ];
    let request = Request::Listen {
        spec: FlowSpec {
            session: SessionId([1; 16]),
            flow: 0,
            duration: Duration::from_secs(3),
            sample: Duration::ZERO,
        },
        wanted,
    };
    let bytes = encode(&request, None);
    assert_eq!(read_request(&bytes, None), Ok(Some(request)));
    let listening = Response::Listening(Listening {
        token: [7; listen::TOKEN_LEN],
        from: at,
        duration: Duration::from_secs(3),
        addresses: vec![at.ip(), there.ip()],
        opened: vec![Opened::At(there), Opened::Not("in use".into())],
    });
    let arrivals = Response::Arrivals(vec![
        Arrival {
            listener: 1,
            from: Some(there),
            len: 3000,
            bytes: vec![9; listen::MOST_BYTES],
            syn: vec![0x45; 60],
            answered: true,
            tos: Some(0xb9),
        },
        Arrival::default(),
    ]);
    let quote = Quote {
        from: there.ip(),
        exceeded: true,
        to: at.ip(),
        tos: 0xb9,
        protocol: crate::quote::UDP,
        rest: vec![9; crate::quote::MOST_REST],
    };
    let quoted = Response::Quotes(Quoted {
        closed: Some("not permitted".into()),
        quotes: vec![quote; listen::MOST_QUOTES],
    });
    for response in [listening, arrivals, quoted] {
        assert_eq!(read_response(&response.encode()), Ok(Some(response)));
    }
    for order in [
        Order::Report,
        Order::Send {
            listener: 1,
            to: at,
            cookie: [9; listen::COOKIE_LEN],
            number: 1023,
            len: 3000,
            tos: 0xb9,
            hops: 3,
        },
        Order::Quotes,
        Order::Segment {
            listener: 1,
            to: at,
            form: crate::segment::Form::Option(2),
            number: 1023,
            tos: 3,
            hops: 3,
        },
    ] {
        let bytes = order.encode();
        for cut in 0..bytes.len() {
            assert!(Order::decode(&bytes[..cut]).is_err());
        }
        assert_eq!(Order::decode(&bytes), Ok(order));
    }
    assert!(Order::decode(&[0xff, 0xff, 1]).is_err());
}

/// A server or a client that lies: every number of every message is set to its extremes. Each is an error or a value
/// that arithmetic on a week of nanoseconds does not overflow.
#[test]
fn numbers_out_of_their_range_are_refused_where_they_are_read() {
    let lie = |kind: u8, numbers: &[u64], rest: &[u8]| {
        let mut w = Writer::default();
        numbers.iter().for_each(|n| w.number(*n));
        w.0.extend_from_slice(rest);
        Response::parse(kind, &w.0)
    };
    for extreme in [u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1] {
        for at in 0..3 {
            let mut numbers = [2, 2, 2];
            numbers[at] = extreme;
            // No congestion control, port 7, token 7.
            let read = lie(1, &numbers, &[0, 7, 7]);
            assert!(
                matches!(read, Err(ControlError::Malformed { .. })),
                "{read:?}"
            );
        }
        let read = lie(6, &[extreme, 0], &[0, 0]);
        assert!(
            matches!(read, Err(ControlError::Malformed { .. })),
            "{read:?}"
        );
        let read = lie(6, &[0, 0, 0, 1, extreme, 0], &[]);
        assert!(
            matches!(read, Err(ControlError::Malformed { .. })),
            "{read:?}"
        );
        let mut request = Writer::default();
        request.0.extend_from_slice(&[1; 16]);
        for n in [7, 1_000_000, extreme] {
            request.number(n);
        }
        let read = Request::parse(2, &request.0);
        assert!(
            matches!(read, Err(ControlError::Malformed { .. })),
            "{read:?}"
        );
    }
}

#[test]
fn texts_of_the_far_end_cannot_command_a_terminal() {
    let mut w = Writer::default();
    w.0.push(0);
    w.text("\x1b]0;owned\x07 \x1b[2Jgone\u{202e}\u{9b}31m\r\nline");
    let Ok(Response::Refused { text, .. }) = Response::parse(2, &w.0) else {
        panic!("it is a refusal")
    };
    assert!(
        text.chars().all(|c| !c.is_control() && c != '\u{202e}'),
        "{text:?}"
    );
    assert!(text.contains("owned") && text.contains("line"), "{text:?}");
}
