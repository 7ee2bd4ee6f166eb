// Parsers and state machines that read what strangers send, each as a function of bytes, with messages to begin from.
// Shared by `crates/cli/tests/fuzz.rs`, which replays the corpus and mutates on stable Rust, and by `cargo fuzz`.

#[path = "secrets.rs"]
mod secrets;

use base::record::{Direction, lines};
use base::{BitsPerSec, Duration, Time};
use measure::account::Account;
use measure::capture;
use measure::control::datagram::Message;
use measure::control::inbox::Inbox;
use measure::control::listen::{Order, Place, Transport, Wanted, knock};
use measure::control::packets::{CapturedPacket, CapturedPackets};
use measure::control::post::{Author, Post};
use measure::control::seal::{ClientEnd, RequestReader, Transcript};
use measure::control::{
    Accepted, FlowSpec, GREETING_LEN, Greeting, HELLO_LEN, Hello, Refusal, Request, Response,
    SessionId, Stamp, Stamps,
};
use measure::guest::{Asked, Instant, Responder, irtt, stamp};
use measure::keys::Tickets;
use measure::reflector::{Arrival, Budget, Reflector};
use measure::segment::{Form, Seen};
use measure::web::{self, FromPage, ToPage};
use measure::wire::{Ask, ClientMessage, Grant, History, Key, MAX_LEN, Reply, ServerMessage};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;

/// One parser or state machine.
pub struct Target {
    pub name: &'static str,
    /// Must return for any bytes, without a panic and soon.
    pub run: fn(&[u8]),
    /// Messages that are right.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How many times longer one takes than a message of a few bytes.
    pub weight: u64,
}

const fn target(
    name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
    weight: u64,
) -> Target {
    Target {
        name,
        run,
        seeds,
        weight,
    }
}

/// All targets.
pub fn all() -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().chain(secrets::TARGETS)
}

const TARGETS: &[Target] = &[
    target("control_request", control_request, requests, 1),
    target("control_response", control_response, responses, 1),
    target("control_greeting", control_greeting, greetings, 1),
    target("listen_order", listen_order, orders, 1),
    target("load_datagram", load_datagram, load_datagrams, 1),
    target("probe_client", probe_client, client_messages, 1),
    target("probe_server", probe_server, server_messages, 1),
    target("sequence", sequence, sequences, 10),
    target("irtt", irtt_server, irtt_messages, 1),
    target("web_page", web_page, page_messages, 1),
    target("web_saved", web_saved, page_rows, 1),
    target("stamp", stamp_reflector, stamp_packets, 1),
    target("iperf3", iperf3_parameters, iperf3_asked, 2),
    target("quote", quote, quotes, 1),
    target("application", application, applications, 4),
    target("foreign", foreign, foreign_messages, 1),
    target("flows", flows, flow_packets, 4),
    target("dns", dns, dns_messages, 1),
    target("icmp", icmp, icmp_messages, 1),
    target("nl80211", nl80211, nl80211_messages, 1),
    target("pull", pull, pulls, 1),
    target("program", program, programs, 2),
    target("units", units, quantities, 1),
    target("capture", pcap, captures, 10),
    target("link", link_file, links, 5),
    target("scenario", scenario, scenarios, 20),
    target("plan", plan, plans, 2),
    target("histogram", histogram, histograms, 1),
    target("meta", meta, metas, 30),
    target("table", table, tables, 100),
    target("import", import, imports, 300),
];

const NONCE: [u8; 16] = [7; 16];
const CLIENT: &str = "192.0.2.1:5000";

fn iperf3_parameters(bytes: &[u8]) {
    if let Ok(asked) = live::iperf3::Parameters::read(bytes) {
        assert!(asked.up + asked.down > 0 && asked.up.max(asked.down) <= 128);
        assert_eq!(asked.omitted.min(60), asked.omitted);
    }
}

fn iperf3_asked() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"tcp":true,"omit":0,"time":10,"num":0,"blockcount":0,"parallel":1,"len":131072,"pacing_timer":1000,"client_version":"3.12"}"#,
        r#"{"tcp":true,"omit":2,"time":5,"parallel":4,"reverse":true,"congestion":"cubic","bandwidth":20000000,"len":131072}"#,
        r#"{"tcp":1,"num":3000000,"bidirectional":1,"parallel":2}"#,
        r#"{"udp":true,"bandwidth":1048576}"#,
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

fn client() -> SocketAddr {
    CLIENT.parse().expect("an address")
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// A responder gets datagrams of one address, 60 bytes each: what it sends is never more than what came.
fn ask(responder: &mut dyn Responder, bytes: &[u8]) {
    let (mut came, mut went) = (0, 0);
    let mut out = [0; MAX_LEN];
    for (n, packet) in (0..).zip(bytes.chunks(60)) {
        let now = Time::from_millis(100 * n);
        let at = Instant {
            wall_ns: 1_000_000 * n as i64,
            mono_ns: n as i64,
        };
        let asked = Asked {
            from: client(),
            at,
            ttl: Some(64),
            tos: 0xb9,
            bytes: packet,
        };
        came += packet.len();
        went += responder
            .answer(now, &asked, at, &mut out)
            .map_or(0, |a| a.len);
        while responder.poll_ended(now).is_some() {}
        assert!(went <= came, "{went} of {came}");
    }
}

fn irtt_server(bytes: &[u8]) {
    let accounts: irtt::Accounts = Box::new(|_| Account::default());
    ask(
        &mut irtt::Server::new(irtt::Budget::default(), [7; 32], accounts),
        bytes,
    );
}

fn irtt_messages() -> Vec<Vec<u8>> {
    let opening = b"\x14\xa7\x5b\x01\x01\x02\x02\x80\x84\xaf\x5f\x03\x80\xb4\x89\x13\x05\x06\x06\x06\x07\x06\x09\x04rand";
    let mut echo = b"\x14\xa7\x5b\x00".to_vec();
    echo.resize(60, 0);
    vec![
        opening.to_vec(),
        echo,
        b"\x14\xa7\x5b\x04\x01\x02\x03\x04\x05\x06\x07\x08".to_vec(),
    ]
}

fn stamp_reflector(bytes: &[u8]) {
    ask(&mut stamp::Reflector::new(862, stamp::Budget::NAMED), bytes);
}

fn stamp_packets() -> Vec<Vec<u8>> {
    let mut packet = vec![0; 44];
    packet.extend([0x80, 4, 0, 4, 40, 0, 0, 0, 0x80, 1, 0, 4, 9, 9, 9, 9]);
    vec![packet]
}

fn quote(bytes: &[u8]) {
    let _ = Seen::read(bytes);
    for from in [
        [192, 0, 2, 1].into(),
        [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
    ] {
        let read = measure::quote::Quote::read(bytes, from);
        let _ = read.map(|quote| (quote.udp(), Seen::read(&quote.rest)));
    }
}

fn quotes() -> Vec<Vec<u8>> {
    let header = |words: usize, protocol: u8| {
        let mut header = vec![0; 4 * words];
        (header[0], header[9]) = (0x40 | words as u8, protocol);
        header
    };
    let udp = [0x13, 0x88, 0x1b, 0xcd, 0, 60, 0, 0];
    let exceeded = [11, 0, 0, 0, 0, 0, 0, 0];
    let v4 = [&header(5, 1)[..], &exceeded, &header(6, 17), &udp].concat();
    let mut v6 = vec![3, 0, 0, 0, 0, 0, 0, 0, 0x6b, 0x90, 0, 0, 0, 8, 17, 1];
    v6.resize(48, 0);
    v6.extend(udp);
    vec![v4, v6]
}

fn application(bytes: &[u8]) {
    use measure::applications::{Initials, hello, read_answer};
    let _ = (hello::in_records(bytes), hello::bare(bytes));
    let _ = read_answer(bytes);
    let mut initials = Initials::default();
    initials.datagram(bytes);
    let _ = hello::bare(&initials.handshake());
    // Two datagrams of one client.
    let (first, second) = bytes.split_at(bytes.len() / 2);
    let mut initials = Initials::default();
    initials.datagram(first);
    initials.datagram(second);
    assert!(initials.handshake().len() <= hello::MOST);
}

/// Configurations of responsiveness servers, and measurements of ndt7.
fn foreign(bytes: &[u8]) {
    for target in [
        "https://192.0.2.1/.well-known/nq",
        "https://[::1]:4043/.well-known/nq",
    ] {
        let target = live::via::Target::parse(target).expect("a target");
        if let Ok(urls) = live::via::Urls::read(&target, bytes) {
            assert!(urls.download.starts_with('/') && urls.upload.starts_with('/'));
        }
    }
    let _ = live::via::Target::parse(&text(bytes));
    let mut retransmits = 0;
    for line in text(bytes).lines() {
        if let Some((at, row)) = live::via::sample(line, 1_000_000_000, &mut retransmits) {
            assert!((0..2_000_000_000).contains(&at) && row.srtt_ns != Some(0));
        }
    }
}

fn foreign_messages() -> Vec<Vec<u8>> {
    let urls = br#"{"version":1,"urls":{"small_https_download_url":"https://192.0.2.1/small","large_https_download_url":"https://192.0.2.1/large","https_upload_url":"https://192.0.2.1/slurp"}}"#;
    let told = br#"{"AppInfo":{"ElapsedTime":1000,"NumBytes":10},"TCPInfo":{"ElapsedTime":250000,"RTT":21000,"RTTVar":500,"MinRTT":20000,"TotalRetrans":3,"SndCwnd":40,"SndMSS":1448}}"#;
    let named = b"https://[2001:db8::1]:4043/.well-known/nq";
    vec![
        urls.to_vec(),
        told.to_vec(),
        named.to_vec(),
        b"iperf3:far.example:5201".to_vec(),
    ]
}

fn applications() -> Vec<Vec<u8>> {
    let mut initials = measure::applications::Initials::default();
    let packet = include_bytes!("corpus/application/rfc9001-0").to_vec();
    let pieces = include_bytes!("corpus/application/version_2_in_pieces-0").to_vec();
    initials.datagram(&packet);
    let hello = initials.handshake();
    let record = [&[22, 3, 1][..], &(hello.len() as u16).to_be_bytes(), &hello].concat();
    let answer = b"\0\x01\x81\x80\0\x01\0\x01\0\0\0\0\x03www\x07example\x03net\0\0\x01\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01";
    vec![packet, pieces, hello, record, answer.to_vec()]
}

/// IP packets of up to 255 bytes, each behind its length.
fn flows(mut bytes: &[u8]) {
    let mut flows = measure::flows::Flows::default();
    let mut count = 0;
    while let Some((packet, rest)) = bytes
        .split_first()
        .and_then(|(n, rest)| rest.split_at_checked(usize::from(*n)))
    {
        let record = capture::Record {
            t_ns: Some(count * 1_000_000),
            link: capture::LinkType::RAW,
            interface: 0,
            original_len: packet.len() as u32,
            data: packet,
        };
        if let Some(frame) = capture::frame::parse(&record) {
            flows.packet(count * 1_000_000, &frame);
        }
        (bytes, count) = (rest, count + 1);
    }
    let found = flows.finish();
    let packets = |f: &measure::flows::Flow| f.directions.iter().map(|d| d.packets).sum::<u64>();
    assert!(found.flows.iter().map(packets).sum::<u64>() <= count as u64);
}

/// A spinning QUIC flow, and an AccECN handshake with a counter and an option.
fn flow_packets() -> Vec<Vec<u8>> {
    let packet = |is_up: bool, protocol: u8, ports: [u16; 2], rest: &[u8]| {
        let total = (24 + rest.len()) as u16;
        let mut p = vec![total as u8, 0x45, 3];
        p.extend(total.to_be_bytes());
        p.extend([
            0,
            0,
            0,
            0,
            64,
            protocol,
            0,
            0,
            10,
            0,
            0,
            1 + u8::from(!is_up),
            10,
            0,
            0,
            1 + u8::from(is_up),
        ]);
        let [a, b] = if is_up { ports } else { [ports[1], ports[0]] };
        p.extend(a.to_be_bytes());
        p.extend(b.to_be_bytes());
        p.extend(rest);
        p
    };
    let spin = |i: u8| {
        let value = if i % 4 < 2 { 0x40 } else { 0x60 };
        packet(i.is_multiple_of(2), 17, [5000, 443], &[0, 9, 0, 0, value])
    };
    let tcp = |is_up, flags: [u8; 2], options: &[u8]| {
        let offset = ((20 + options.len()) as u8 / 4) << 4;
        let head = [
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            1,
            offset | flags[0],
            flags[1],
            1,
            0,
            0,
            0,
            0,
            0,
        ];
        packet(is_up, 6, [5000, 80], &[&head[..], options].concat())
    };
    let option = [172, 11, 0, 0, 9, 0, 0, 7, 0, 0, 5, 1];
    vec![
        (0..60).flat_map(spin).collect(),
        [
            tcp(true, [1, 0xc2], &[]),
            tcp(false, [0, 0x92], &[]),
            tcp(true, [0, 0x90], &[]),
            tcp(true, [1, 0xd0], &option),
        ]
        .concat(),
    ]
}

fn spec() -> FlowSpec {
    FlowSpec {
        session: SessionId([9; 16]),
        flow: 1,
        duration: Duration::from_secs(10),
        sample: Duration::from_millis(50),
    }
}

/// Hands bytes to a reader as a socket would: never more than it wants.
fn feed(bytes: &[u8], wants: &mut dyn FnMut(Option<&[u8]>) -> Option<usize>) {
    let (mut rest, mut next) = (bytes, wants(None));
    while let Some(n) = next.filter(|n| *n > 0 && !rest.is_empty()) {
        let (now, later) = rest.split_at(n.min(rest.len()));
        rest = later;
        next = wants(Some(now));
    }
}

fn greeted() -> ([u8; HELLO_LEN], [u8; GREETING_LEN]) {
    let greeting = Greeting {
        key_needed: false,
        nonce: NONCE,
        salt: [0; 16],
    };
    (Hello { nonce: NONCE }.encode(), greeting.encode())
}

fn end() -> ClientEnd {
    let (hello, greeting) = greeted();
    ClientEnd::new(&hello, &greeting, None).expect("no key is needed")
}

/// The request in `bytes`, where a server reads one.
fn read_request(bytes: &[u8]) -> Option<Request> {
    let (hello, greeting) = greeted();
    let mut reader = RequestReader::default();
    let mut read = None;
    feed(bytes, &mut |now| match now.map(|b| reader.push(b)) {
        None | Some(Ok(None)) => Some(reader.wants()),
        Some(Ok(Some(asked))) => {
            let admitted = asked.admit(&Transcript::new(&hello, &greeting), None, 0);
            read = admitted.ok().map(|a| a.request);
            None
        }
        Some(Err(_)) => None,
    });
    read
}

/// What was read is written again as it was understood.
fn control_request(bytes: &[u8]) {
    if let Some(request) = read_request(bytes) {
        let again = end().request(&request);
        assert_eq!(read_request(&again).as_ref(), Some(&request));
    }
}

fn requests() -> Vec<Vec<u8>> {
    let spec = spec();
    let (direction, congestion) = (Direction::Down, String::from("cubic"));
    let all = [
        Request::Info,
        Request::Ping,
        Request::Ticket,
        Request::Upload { spec },
        Request::Download {
            spec,
            congestion: congestion.clone(),
        },
        Request::Datagrams {
            spec,
            direction,
            rate: BitsPerSec::from_mbps(10),
            payload_bytes: 1200,
        },
        Request::Report {
            session: spec.session,
        },
        Request::Train {
            spec,
            direction,
            program: "9 x 1452, 200@5 ms; pause 5 s; 50 x 200@1 ms dscp=46 ecn=2 df"
                .parse()
                .expect("a program"),
        },
        Request::Turn {
            duration: Duration::from_secs(30),
        },
        Request::Listen {
            spec,
            wanted: vec![Wanted::new(Transport::Udp, Place::Here, 53); 3],
        },
        Request::Fetch {
            spec,
            congestion,
            bytes: 1 << 30,
        },
        Request::Capture { spec },
    ];
    all.iter().map(|r| end().request(r)).collect()
}

fn control_response(bytes: &[u8]) {
    let mut reader = end();
    feed(bytes, &mut |now| match now.map(|b| reader.push(b)) {
        None | Some(Ok(None)) => Some(reader.wants()),
        Some(_) => None,
    });
}

fn responses() -> Vec<Vec<u8>> {
    let now = 1_700_000_000_000_000_000;
    let stamp = |seq| Stamp {
        seq,
        at_ns: now + seq as i64 * 1_000_000,
        ecn: 1,
    };
    let all = [
        Response::Pong,
        Response::Ready,
        Response::Turn {
            place: 2,
            after: Duration::from_secs(40),
        },
        Response::Accepted(Accepted {
            server_ns: now,
            duration: Duration::from_secs(5),
            sample: Duration::from_millis(50),
            congestion: "reno".into(),
            udp_port: 7117,
            udp_token: 9,
        }),
        Response::Refused {
            why: Refusal::Busy,
            text: "try again in 5 s".into(),
        },
        Response::Stamps(Stamps {
            stamps: (0..30).map(stamp).collect(),
            ..Stamps::default()
        }),
        Response::Packets(CapturedPackets {
            packets: vec![CapturedPacket {
                t_ns: now,
                ip_bytes: 1500,
                outgoing: true,
                headers: vec![0x45; 52],
            }],
            more: true,
            missed: 3,
        }),
        Response::Report(Vec::new()),
        Response::Ticket(Tickets::new(b"secret").ticket([3; 16])),
    ];
    all.iter().map(Response::encode).collect()
}

fn control_greeting(bytes: &[u8]) {
    if let Some(first) = bytes.first_chunk() {
        let _ = Greeting::decode(first);
    }
}

fn greetings() -> Vec<Vec<u8>> {
    let one = Greeting {
        key_needed: true,
        nonce: NONCE,
        salt: [3; 16],
    };
    vec![one.encode().to_vec()]
}

fn listen_order(bytes: &[u8]) {
    if let Ok(order) = Order::decode(bytes) {
        assert_eq!(Order::decode(&order.encode()), Ok(order));
    }
}

fn orders() -> Vec<Vec<u8>> {
    let send = Order::Send {
        listener: 1,
        to: client(),
        cookie: [3; 16],
        number: 7,
        len: 600,
        tos: 0xb9,
        hops: 3,
    };
    let segment = Order::Segment {
        listener: 1,
        to: client(),
        form: Form::Handshake(7),
        number: 7,
        tos: 2,
        hops: 3,
    };
    vec![send.encode(), Order::Quotes.encode(), segment.encode()]
}

fn load_datagram(bytes: &[u8]) {
    let mut inbox = Inbox::new(client().ip(), 7, [3; 16]);
    if let Some(answer) = inbox.datagram(1, client(), bytes) {
        assert!(answer.len() <= bytes.len());
    }
    assert_eq!(inbox.address(), None, "nobody has proven anything");
}

fn load_datagrams() -> Vec<Vec<u8>> {
    let (cookie, received) = ([5; 16], 1 << 20);
    vec![
        Message::Hello.encode(7),
        Message::Proof { cookie, received }.encode(7),
        Message::Challenge { cookie }.encode(7),
        Message::Load(9).encode(7),
        knock(&[3; 8], 80),
    ]
}

fn arrival(from: SocketAddr) -> Arrival {
    Arrival {
        from,
        local: None,
        rx_ns: 1_700_000_000_000_000_000,
        kernel: true,
        tos: Some(0),
    }
}

fn reflector() -> Reflector {
    Reflector::new(Budget::default(), None, [7; 32], b"boot", 0)
}

fn probe_client(bytes: &[u8]) {
    thread_local! {
        static ONE: RefCell<(Reflector, u64)> = RefCell::new((reflector(), 0));
    }
    let _ = ClientMessage::decode(bytes, Some(&Key::new(b"secret")));
    ONE.with_borrow_mut(|(reflector, at)| {
        *at += 1;
        let now = Time::from_millis(*at);
        reflector.handle_datagram(now, arrival(client()), bytes);
        let mut out = [0; MAX_LEN];
        while let Some(o) = reflector.poll_transmit(0, &mut out) {
            assert!(o.len <= bytes.len(), "{} for {}", o.len, bytes.len());
        }
        reflector.handle_timeout(now);
    });
}

/// What a page sends: messages of its channel, and queries.
fn web_page(bytes: &[u8]) {
    if let Some(message) = FromPage::decode(bytes) {
        let again = message.encode();
        assert_eq!(FromPage::decode(&again), Some(message));
        assert!(again.len() == bytes.len());
    }
    let _ = ToPage::decode(bytes);
    if let Ok(asked) = web::Asked::read(&text(bytes)) {
        assert!(asked.duration <= web::LONGEST);
    }
}

fn page_messages() -> Vec<Vec<u8>> {
    let lasts = Duration::from_secs(60);
    let query = "session=00112233445566778899aabbccddeeff&flow=3&ms=20000";
    let probes = client_messages();
    let mut all: Vec<Vec<u8>> = probes.iter().map(|m| FromPage::Probe(m).encode()).collect();
    all.push(FromPage::Turn { lasts }.encode());
    all.push(FromPage::Over.encode());
    all.push(query.into());
    all
}

/// Rows of a recording that a page saves.
fn web_saved(bytes: &[u8]) {
    for line in text(bytes).lines() {
        if let Ok(row) = lines::read(line) {
            let mut again = String::new();
            lines::write(&row, &mut again);
            assert_eq!(lines::read(again.trim_end()), Ok(row), "{again}");
        }
    }
}

fn page_rows() -> Vec<Vec<u8>> {
    let delay = "[\"delay\",1790000000000000000,7,\"webtransport\",20000000,null,null,5,9,100,250000,\"ok\",null,null]";
    let flow = "[\"flow\",1790000000000000000,3,\"up\",null,null,1500,null,null,null,null,null,null,null,null]";
    let event = "[\"event\",1790000000000000000,\"phase\",\"up\",\"{}\"]";
    [delay, flow, event, &[delay, event, flow].join("\n")]
        .map(|t| t.as_bytes().to_vec())
        .to_vec()
}

fn encoded(message: &ClientMessage) -> Vec<u8> {
    let mut out = [0; MAX_LEN];
    let n = message.encode(&mut out, 0, None);
    out[..n].to_vec()
}

fn client_messages() -> Vec<Vec<u8>> {
    let (nonce, cookie, token) = (5, [6; 16], 7);
    let ask = Ask {
        interval_ns: 10_000_000,
        duration_s: 0,
        tos: 0,
        boot_proof: 0,
    };
    let all = [
        ClientMessage::Hello { nonce },
        ClientMessage::Open {
            nonce,
            cookie,
            ask,
            user: None,
        },
        ClientMessage::Request {
            token,
            seq: 9,
            sent_ns: 1,
        },
        ClientMessage::Train {
            token,
            train: 1,
            index: 0,
            count: 8,
        },
        ClientMessage::Close { token },
    ];
    all.iter().map(encoded).collect()
}

fn probe_server(bytes: &[u8]) {
    let _ = ServerMessage::decode(bytes, None);
    let _ = ServerMessage::decode(bytes, Some(&Key::new(b"secret")));
}

fn server_messages() -> Vec<Vec<u8>> {
    let token = 7;
    let reply = Reply {
        seq: 3,
        rx_ns: 1_700_000_000_000_000_000,
        hold_ns: 900,
        earlier_hold_ns: 800,
        earlier_seq: 2,
        history: History::starting_at(3),
        tos: 0,
        flags: Reply::KERNEL_RX,
        throttled: 0,
    };
    let grant = Grant {
        token,
        min_interval_ns: 1_000_000,
        duration_s: 0,
        max_datagram: 1400,
        origin_unix_ns: 0,
    };
    let all = [
        ServerMessage::Challenge {
            nonce: 5,
            cookie: [6; 16],
            key_needed: false,
            salt: [3; 16],
        },
        ServerMessage::Opened { nonce: 5, grant },
        ServerMessage::Reply { token, reply },
    ];
    let encode = |m: &ServerMessage| {
        let mut out = [0; MAX_LEN];
        let n = m.encode(&mut out, 0, None);
        out[..n].to_vec()
    };
    all.iter().map(encode).collect()
}

/// Messages one after the other against all that answers at a server. Each begins with a byte that says from whom and to
/// which machine, one for the time that has passed, and one for its length.
fn sequence(bytes: &[u8]) {
    let (own, victim): (SocketAddr, SocketAddr) =
        (client(), "198.51.100.7:53".parse().expect("an address"));
    let author: Author = |_, _| vec![b'x'; 200];
    let wanted = vec![Wanted::new(Transport::Udp, Place::Here, 0); 3];
    let mut post = Post::new([3; 8], [4; 16], own.ip(), wanted, author);
    let mut inbox = Inbox::new(own.ip(), 7, [3; 16]);
    let mut reflector = reflector();
    let (mut now_ns, mut rest) = (1_000_000u64, bytes);
    let (mut spent, mut got) = (0, 0);
    while let [how, passed, len, after @ ..] = rest {
        let (message, later) = after.split_at(usize::from(*len).min(after.len()));
        rest = later;
        now_ns += u64::from(*passed) * 10_000_000;
        let from = if how & 1 == 0 { own } else { victim };
        let answers = match how >> 1 & 3 {
            0 => post
                .datagram(usize::from(how >> 3), (from, Some(*how)), message)
                .map_or(0, |a| a.len()),
            1 => inbox
                .datagram(now_ns as i64, from, message)
                .map_or(0, |a| a.len()),
            2 => {
                let now = Time::ZERO + Duration::from_nanos(now_ns);
                reflector.handle_datagram(now, arrival(from), message);
                reflector.handle_timeout(now);
                let (mut out, mut sum) = ([0; MAX_LEN], 0);
                while let Some(o) = reflector.poll_transmit(0, &mut out) {
                    sum += o.len;
                }
                sum
            }
            _ => {
                control_request(message);
                0
            }
        };
        if from == victim {
            spent += message.len();
            got += answers;
        }
        let _ = inbox.allowance(now_ns as i64, BitsPerSec::from_mbps(100));
    }
    assert!(got <= spent, "{got} bytes for {spent}");
}

fn sequences() -> Vec<Vec<u8>> {
    let machines = [
        (0u8, load_datagrams()),
        (2, load_datagrams()),
        (4, client_messages()),
        (6, requests()),
    ];
    let mut all = Vec::new();
    for from in [0u8, 1] {
        let mut one = Vec::new();
        for (machine, messages) in &machines {
            for m in messages.iter().filter(|m| m.len() < 256) {
                one.extend([machine | from, 3, m.len() as u8]);
                one.extend(m);
            }
        }
        all.push(one);
    }
    all
}

fn dns(bytes: &[u8]) {
    let query = measure::dns::encode(77, "far.example").expect("a name");
    let _ = measure::dns::decode(bytes, &query);
    let _ = measure::dns::encode(77, &text(bytes));
}

fn dns_messages() -> Vec<Vec<u8>> {
    let mut answer = measure::dns::encode(77, "far.example").expect("a name");
    answer[2] |= 0x80;
    vec![answer]
}

fn icmp(bytes: &[u8]) {
    for (v6, header) in [(false, false), (false, true), (true, false)] {
        let _ = measure::icmp::decode(bytes, v6, header, 9);
    }
}

fn icmp_messages() -> Vec<Vec<u8>> {
    let mut out = [0; measure::icmp::LEN];
    measure::icmp::encode(&mut out, false, 3, 9, 5);
    let mut whole = vec![
        0x45, 0, 0, 60, 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
    ];
    whole.extend(out);
    vec![out.to_vec(), whole]
}

fn nl80211(bytes: &[u8]) {
    use measure::nl80211::{Message, family, interface, messages, power_save, station, survey};
    for message in messages(bytes) {
        if let Message::Attributes(a) = message {
            let _ = (family(a), interface(a), power_save(a), survey(a));
            if let Some(station) = station(a) {
                assert!(station.signal_dbm.is_none_or(|dbm| dbm < 0));
            }
        }
    }
}

fn nl80211_messages() -> Vec<Vec<u8>> {
    use measure::nl80211::{attribute, command, put, request, station, survey};
    let (mut rate, mut info, mut of) = (Vec::new(), Vec::new(), Vec::new());
    put(&mut rate, 5, &12_009u32.to_ne_bytes());
    put(&mut info, station::SIGNAL, &[0xc3]);
    put(&mut info, station::TX_BITRATE, &rate);
    put(&mut info, station::TX_BYTES64, &9_000_000u64.to_ne_bytes());
    put(&mut of, attribute::IFINDEX, &3u32.to_ne_bytes());
    put(&mut of, attribute::IFNAME, b"wlan0\0");
    put(&mut of, attribute::MAC, &[2, 0, 0, 0, 0, 1]);
    put(&mut of, attribute::STA_INFO, &info);
    let (mut used, mut channel) = (Vec::new(), Vec::new());
    put(&mut used, survey::FREQUENCY, &5180u32.to_ne_bytes());
    put(&mut used, survey::IN_USE, &[]);
    put(&mut channel, attribute::SURVEY_INFO, &used);
    // An answer has the form of a request.
    let stations = request(28, command::GET_STATION, true, &of);
    let surveys = request(28, command::GET_SURVEY, true, &channel);
    vec![[&stations[..], &surveys].concat(), stations]
}

/// Ports that send for requests: whoever has no cookie gets no more than it sent.
fn pull(bytes: &[u8]) {
    let wanted = vec![Wanted {
        answer: measure::control::listen::Answer::Pull,
        ..Wanted::new(Transport::Udp, Place::Here, 0)
    }];
    let author: Author = |_, _| Vec::new();
    let mut post = Post::new(*b"\x01tokentk", [7; 16], client().ip(), wanted, author);
    let (mut came, mut went) = (0, 0);
    for part in bytes.chunks(60) {
        came += part.len();
        let pulled = post.pull(0, client(), part, 5);
        let answered = post.datagram(0, (client(), None), part);
        went += pulled.map_or(0, |p| p.0.len()) + answered.map_or(0, |a| a.len());
        assert!(went <= came, "{went} of {came}");
    }
}

fn pulls() -> Vec<Vec<u8>> {
    let pull = measure::control::listen::Pull {
        cookie: [9; 16],
        number: 5,
        len: 1200,
        tos: 1,
    };
    vec![pull.encode(b"\x01tokentk"), knock(b"\x01tokentk", 0)]
}

fn program(bytes: &[u8]) {
    let Ok(program) = text(bytes).parse::<base::program::Program>() else {
        return;
    };
    let again: base::program::Program = program.to_string().parse().expect("as it is written");
    assert_eq!(again, program);
    let _ = (
        program.time(),
        program.bytes(28),
        program.datagrams().take(100).count(),
    );
}

fn strings(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|s| s.as_bytes().to_vec()).collect()
}

fn programs() -> Vec<Vec<u8>> {
    strings(&[
        "9 x 1452, 200@5 ms; pause 5 s; 50 x 200@1 ms dscp=46 ecn=2 df",
        "100 x 1200@1ms",
    ])
}

fn units(bytes: &[u8]) {
    let text = text(bytes);
    let _ = text.parse::<BitsPerSec>();
    let _ = text.parse::<base::Bytes>();
    let _ = text.parse::<Duration>();
    let _ = base::text::clean(&text);
    let _ = text.parse::<live::serve::PortSet>();
    let _ = text.parse::<live::serve::Network>();
}

fn quantities() -> Vec<Vec<u8>> {
    strings(&[
        "20mbit",
        "1.5KiB",
        "5 ms",
        "80,443,40000-40999",
        "2001:db8::/32",
    ])
}

fn pcap(bytes: &[u8]) {
    let Ok(mut reader) = capture::Reader::new(bytes) else {
        return;
    };
    let mut tracker = measure::track::Tracker::new(measure::track::Settings::default());
    while let Ok(Some(record)) = reader.next_record() {
        tracker.record(&record);
        // The same bytes as another link layer.
        let other = capture::Record {
            link: capture::LinkType(record.data.len() as u16 % 300),
            ..record
        };
        let _ = capture::frame::parse(&other);
    }
    assert_eq!(reader.offset(), bytes.len() as u64);
    let _ = tracker.finish();
}

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .find(|dir| dir.join("fuzz/targets.rs").is_file())
        .expect("within the repository")
        .join(path)
}

/// Files of a directory of the repository with one of these endings, small ones only.
fn files(dir: &str, endings: &[&str]) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(repository(dir)) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    let fits = |p: &&PathBuf| endings.iter().any(|e| p.to_string_lossy().ends_with(e));
    let read = paths
        .iter()
        .filter(fits)
        .filter_map(|p| std::fs::read(p).ok());
    read.filter(|bytes| bytes.len() < 20_000).collect()
}

fn captures() -> Vec<Vec<u8>> {
    files("crates/measure/tests/corpus", &[".pcap", ".pcapng"])
}

fn link_file(bytes: &[u8]) {
    let _ = link::LinkSpec::parse(&text(bytes));
}

fn links() -> Vec<Vec<u8>> {
    let spec = link::LinkSpec::named("adsl").expect("it is known");
    vec![toml::to_string(&spec).unwrap_or_default().into_bytes()]
}

fn scenario(bytes: &[u8]) {
    if let Ok(draft) = sim::Draft::new(&text(bytes)) {
        let _ = draft.finish();
    }
}

fn scenarios() -> Vec<Vec<u8>> {
    files("scenarios", &[".toml"])
}

fn plan(bytes: &[u8]) {
    let _ = serde_json::from_slice::<experiment::bufferbloat::Plan>(bytes);
}

fn plans() -> Vec<Vec<u8>> {
    vec![serde_json::to_vec(&experiment::bufferbloat::Plan::default()).expect("plain data")]
}

fn histogram(bytes: &[u8]) {
    let _ = base::histogram::Histogram::from_base64(&text(bytes));
}

fn histograms() -> Vec<Vec<u8>> {
    let mut one = base::histogram::Histogram::new();
    for n in 0..100 {
        one.record_ms(f64::from(n));
    }
    vec![one.to_base64().into_bytes()]
}

/// A directory of this process for files that are to be read.
fn scratch() -> PathBuf {
    thread_local! {
        static DIR: PathBuf = {
            let id = std::thread::current().id();
            let name = format!("tailback-fuzz-{}-{id:?}", std::process::id());
            std::env::temp_dir().join(name.replace(['(', ')'], ""))
        };
    }
    DIR.with(Clone::clone)
}

/// Puts bytes into a recording as this file of it, and reads it.
fn within_recording(file: &str, bytes: &[u8]) {
    let dir = scratch().join("r.rec");
    let path = dir.join(file);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("it is ours");
    let meta = dir.join("meta.json");
    if file != "meta.json" && !meta.exists() {
        let good = repository("data/records/v1/closed.rec/meta.json");
        std::fs::copy(good, &meta).expect("a recording of the repository");
    }
    std::fs::write(&path, bytes).expect("it is ours");
    let _ = store::read_noting(&dir);
    std::fs::remove_file(&path).expect("it is ours");
}

fn meta(bytes: &[u8]) {
    within_recording("meta.json", bytes);
}

fn metas() -> Vec<Vec<u8>> {
    files("data/records/v1/closed.rec", &["meta.json"])
}

fn table(bytes: &[u8]) {
    let sealed = bytes.starts_with(b"PAR1");
    let ending = if sealed { "parquet" } else { "arrows" };
    within_recording(&format!("event/2026-11-21.{ending}"), bytes);
}

fn tables() -> Vec<Vec<u8>> {
    let mut all = files("data/records/v1/closed.rec/event", &[".parquet"]);
    all.extend(files("data/records/v1/crashed.rec/event", &[".arrows"]));
    all
}

/// The first byte says as which format.
fn import(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let dir = scratch();
    let out = dir.join("import.rec");
    std::fs::create_dir_all(&dir).expect("it is ours");
    let file = dir.join("import.txt");
    std::fs::write(&file, rest).expect("it is ours");
    let formats = store::import::Format::ALL;
    let format = formats[usize::from(*first) % formats.len()];
    let settings = store::import::Settings {
        zone: jiff::tz::TimeZone::UTC,
        start_ns: 1_700_000_000_000_000_000,
        interval_ns: None,
        rate_unit: 1.0,
    };
    let writer = store::Writer::create(&out, base::record::Meta::default()).expect("it is ours");
    let _ = store::import::import(&[(file, format)], &settings, writer);
    std::fs::remove_dir_all(&out).expect("it is ours");
}

fn imports() -> Vec<Vec<u8>> {
    let ping = "PING far.example (192.0.2.1) 56(84) bytes of data.\n64 bytes from 192.0.2.1: icmp_seq=1 ttl=64 time=12.3 ms\n\
        64 bytes from 192.0.2.1: icmp_seq=3 ttl=64 time=11 ms\n\n--- far.example ping statistics ---\n";
    let dstat = "\"pcp-dstat\",\n\"Host:\",\"a\",,,,\"User:\",\"b\"\n\"epoch\",\"net/total\",\n\"epoch\",\"recv\",\"send\"\n1700000000,100,200\n";
    let flent = r#"{"version":4,"x_values":[0.0,0.2],"results":{"Ping (ms) ICMP":[1.0,null]},"metadata":{"T0":"2026-11-01T00:00:00Z"},"raw_values":{}}"#;
    let irtt = r#"{"version":{},"config":{},"stats":{},"round_trips":[{"seqno":0,"lost":"false","timestamps":{},"delay":{"rtt":1000}}]}"#;
    let texts = [
        ping,
        dstat,
        flent,
        irtt,
        "far : [0], 64 bytes, 12.3 ms (12.3 avg, 0% loss)\n",
    ];
    let formats = store::import::Format::ALL.len() as u8;
    let each = |text: &str| {
        (0..formats)
            .map(move |f| [&[f], text.as_bytes()].concat())
            .collect::<Vec<_>>()
    };
    texts.iter().flat_map(|text| each(text)).collect()
}
