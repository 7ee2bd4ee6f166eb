//! Round trips by QUIC's spin bit: endpoints of `quinn-proto` over simulated links, a capture in the midst of the path.

use base::rng::{Streams, uniform};
use base::{BitsPerSec, Bytes, Duration, Ecn, FlowId, Packet, PacketId, Time};
use bytes::BytesMut;
use link::qdisc::Fates;
use link::rate::Rate;
use link::{Link, LinkParams};
use measure::capture::compose::{self, Outer, Udp};
use measure::capture::{LinkType, Record, frame};
use measure::flows::spin::{RoundTrips, Unknown};
use measure::flows::{Flows, Protocol, Quic};
use quinn_proto as quic;
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

const CLIENT: usize = 0;
const ADDRESSES: [([u8; 4], u16); 2] = [([192, 0, 2, 1], 50_000), ([198, 51, 100, 1], 443)];
const RUN: Duration = Duration::from_secs(8);

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(ADDRESSES[side])
}

/// One path with its load.
#[derive(Clone, Debug)]
struct Draw {
    /// Rates and one-way delays of the two parts of the path, client's part first; up and down alike.
    rates: [u64; 2],
    delays_ms: [f64; 2],
    jitter_ms: f64,
    loss: f64,
    /// Bytes that the application writes each time, and the time between writes.
    writes: Option<(usize, f64)>,
    is_upload: bool,
    /// True if the endpoint may spin.
    may_spin: [bool; 2],
    seed: u64,
}

fn draw(seed: u64, number: u64) -> Draw {
    let c = &mut Streams::new(seed).stream(&format!("spin/{number}"));
    let mut between = |low: f64, high: f64| low * (high / low).powf(uniform(c));
    let rates = [between(2e6, 50e6) as u64, between(20e6, 200e6) as u64];
    let delays_ms = [between(1.0, 30.0), between(2.0, 80.0)];
    let jitter_ms = between(0.05, 3.0);
    let loss = between(1e-4, 0.01);
    let every_ms = between(5.0, 400.0);
    let bytes = between(40.0, 4000.0) as usize;
    Draw {
        rates,
        delays_ms,
        jitter_ms: if uniform(c) < 0.5 { 0.0 } else { jitter_ms },
        loss: if uniform(c) < 0.5 { 0.0 } else { loss },
        writes: (uniform(c) < 0.25).then_some((bytes, every_ms)),
        is_upload: uniform(c) < 0.5,
        may_spin: [uniform(c) < 0.85, uniform(c) < 0.85],
        seed: (seed << 20) ^ number,
    }
}

/// One end: the endpoint, and its connection once there is one.
struct End {
    endpoint: quic::Endpoint,
    connection: Option<(quic::ConnectionHandle, quic::Connection)>,
    stream: Option<quic::StreamId>,
    next_write: Time,
    /// Value of the last short header that arrived, and contradictions of it in what was sent.
    heard: Option<bool>,
    sent: [u64; 2],
}

/// Part of the path in one direction.
struct Hop {
    link: Link,
    /// Bytes in flight by packet.
    held: HashMap<u64, (BytesMut, u8)>,
}

/// Result of a run.
struct Outcome {
    quic: Option<Quic>,
    /// Smoothed round-trip times of the sending endpoint, sampled every 5 ms from 1 s on, ms.
    own_ms: Vec<f64>,
    /// Round trips of the network: the sum of the waits of a packet there and of one back, sampled alike, ms.
    path_ms: Vec<f64>,
    /// True if both endpoints did spin.
    spun: bool,
}

struct World {
    ends: [End; 2],
    /// Hops by direction (up, down) and place (client's, server's).
    hops: [[Hop; 2]; 2],
    flows: Flows,
    /// Records of the capture as a file.
    pcap: Vec<u8>,
    began: Instant,
    now: Time,
    packets: u64,
    /// Time and delay of the packets of each direction, ms.
    waits: [Vec<(f64, f64)>; 2],
    born: HashMap<u64, Time>,
}

fn tls() -> (quic::ClientConfig, quic::ServerConfig) {
    let made =
        rcgen::generate_simple_self_signed(vec!["video.example".into()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let chain = vec![made.cert.der().clone()];
    let server = quic::ServerConfig::with_single_cert(chain.clone(), key).expect("a server");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(chain[0].clone()).expect("a root");
    let client = quic::ClientConfig::with_root_certificates(Arc::new(roots)).expect("a client");
    (client, server)
}

impl World {
    fn new(draw: &Draw) -> World {
        let (mut client, mut server) = tls();
        let transport = |side: usize| {
            let mut t = quic::TransportConfig::default();
            t.allow_spin(draw.may_spin[side]);
            t.enable_segmentation_offload(false);
            t.mtu_discovery_config(None);
            Arc::new(t)
        };
        client.transport_config(transport(0));
        server.transport_config(transport(1));
        let began = Instant::now();
        let config = Arc::new(quic::EndpointConfig::default());
        let mut random = [[0; 32]; 2];
        for (i, r) in random.iter_mut().enumerate() {
            r[..8].copy_from_slice(&draw.seed.to_le_bytes());
            r[8] = i as u8;
        }
        let [a, b] = random;
        let mut near = quic::Endpoint::new(config.clone(), None, false, Some(a));
        let far = quic::Endpoint::new(config, Some(Arc::new(server)), false, Some(b));
        let connection = near
            .connect(began, client, address(1), "video.example")
            .expect("a connection");
        let end = |endpoint, connection| End {
            endpoint,
            connection,
            stream: None,
            next_write: Time::ZERO,
            heard: None,
            sent: [0; 2],
        };
        let streams = Streams::new(draw.seed);
        let hop = |direction: usize, place: usize| {
            let rate = Rate::Fixed(BitsPerSec::new(draw.rates[place]));
            let delay = Duration::from_secs_f64(draw.delays_ms[place] / 1e3);
            let queue = "fifo:bytes=150000".parse().expect("a queue");
            let mut params = LinkParams::plain(rate, delay, queue);
            if place == 1 && draw.jitter_ms > 0.0 {
                let law = format!("uniform:width={:.3}ms", draw.jitter_ms);
                params.jitter = Some(law.parse().expect("a law"));
            }
            if place == 0 && draw.loss > 0.0 {
                let law = format!("random:probability={}", draw.loss);
                params.loss = Some(law.parse().expect("a law"));
            }
            Hop {
                link: Link::new(&params, &streams, &format!("{direction}/{place}")),
                held: HashMap::new(),
            }
        };
        World {
            ends: [end(near, Some(connection)), end(far, None)],
            hops: [[hop(0, 0), hop(0, 1)], [hop(1, 0), hop(1, 1)]],
            flows: Flows::default(),
            pcap: Vec::new(),
            began,
            now: Time::ZERO,
            packets: 0,
            waits: Default::default(),
            born: HashMap::new(),
        }
    }

    fn instant(&self) -> Instant {
        self.began + std::time::Duration::from_nanos(self.now.as_nanos())
    }

    /// Puts a datagram onto the first or second part of its way.
    fn forward(&mut self, from: usize, is_second: bool, id: u64, data: BytesMut, ecn: u8) {
        let place = if (from == CLIENT) == is_second { 1 } else { 0 };
        let hop = &mut self.hops[from][place];
        let packet = Packet {
            id: PacketId(id),
            flow: FlowId(1),
            len: Bytes::new(28 + data.len() as u64),
            ecn: Ecn::from_bits(ecn),
            dscp: 0,
            enqueued: self.now,
        };
        hop.held.insert(id, (data, ecn));
        hop.link.enqueue(self.now, packet, &mut Fates::default());
    }

    /// Hands arrived packets on: from the first part to the capture and the second, from the second to the end.
    fn deliver(&mut self) {
        for from in 0..2 {
            for is_second in [false, true] {
                let place = if (from == CLIENT) == is_second { 1 } else { 0 };
                while let Some(d) = self.hops[from][place]
                    .link
                    .poll(self.now, &mut Fates::default())
                {
                    let id = d.packet.id.0;
                    let Some((data, ecn)) = self.hops[from][place].held.remove(&id) else {
                        continue;
                    };
                    if is_second {
                        self.arrive(from, id, data, ecn);
                    } else {
                        self.capture(from, &data, ecn);
                        self.forward(from, true, id, data, ecn);
                    }
                }
            }
        }
    }

    fn capture(&mut self, from: usize, data: &[u8], ecn: u8) {
        let ip = |side: usize| Ipv4Addr::from(ADDRESSES[side].0);
        let outer = Outer {
            src_mac: [2; 6],
            dst_mac: [4; 6],
            src: ip(from),
            dst: ip(1 - from),
            id: 0,
            ttl: 60,
            traffic_class: ecn,
        };
        let udp = Udp {
            src_port: ADDRESSES[from].1,
            dst_port: ADDRESSES[1 - from].1,
            head: data,
            payload: data.len() as u32,
        };
        let bytes = compose::udp(&outer, &udp).kept(65_536);
        let t_ns = 1_000_000_000_000 + self.now.as_nanos() as i64;
        let record = Record {
            t_ns: Some(t_ns),
            link: LinkType::ETHERNET,
            interface: 0,
            original_len: bytes.len() as u32,
            data: &bytes,
        };
        self.flows
            .packet(t_ns, &frame::parse(&record).expect("a frame"));
        let [s, ns, len] = [
            t_ns / 1_000_000_000,
            t_ns % 1_000_000_000,
            bytes.len() as i64,
        ]
        .map(|n| (n as u32).to_le_bytes());
        self.pcap.extend([&s[..], &ns, &len, &len, &bytes].concat());
    }

    fn arrive(&mut self, from: usize, id: u64, data: BytesMut, ecn: u8) {
        if let Some(born) = self.born.remove(&id) {
            let ms = |t: Time| t.as_nanos() as f64 / 1e6;
            self.waits[from].push((ms(born), ms(self.now) - ms(born)));
        }
        let now = self.instant();
        let end = &mut self.ends[1 - from];
        if data[0] & 0xc0 == 0x40 {
            end.heard = Some(data[0] & 0x20 != 0);
        }
        let ecn = quic::EcnCodepoint::from_bits(ecn);
        let mut answer = Vec::new();
        match end
            .endpoint
            .handle(now, address(from), None, ecn, data, &mut answer)
        {
            Some(quic::DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, c)) = &mut end.connection {
                    c.handle_event(event);
                }
            }
            Some(quic::DatagramEvent::NewConnection(incoming)) => {
                let made = end.endpoint.accept(incoming, now, &mut answer, None);
                end.connection = Some(made.unwrap_or_else(|e| panic!("{}", e.cause)));
            }
            _ => {}
        }
    }

    /// Lets one end read, write and send.
    fn drive(&mut self, side: usize, draw: &Draw) {
        let now = self.instant();
        let is_sender = draw.is_upload == (side == CLIENT);
        let mut out = Vec::new();
        let end = &mut self.ends[side];
        let Some((handle, c)) = &mut end.connection else {
            return;
        };
        if c.poll_timeout().is_some_and(|t| t <= now) {
            c.handle_timeout(now);
        }
        while let Some(event) = c.poll_endpoint_events() {
            if let Some(event) = end.endpoint.handle_event(*handle, event) {
                c.handle_event(event);
            }
        }
        while let Some(event) = c.poll() {
            if let quic::Event::ConnectionLost { reason } = event {
                panic!("lost: {reason}");
            }
        }
        while let Some(id) = c.streams().accept(quic::Dir::Uni) {
            end.stream = Some(id);
        }
        if is_sender && !c.is_handshaking() {
            let id = *end
                .stream
                .get_or_insert_with(|| c.streams().open(quic::Dir::Uni).expect("a stream"));
            let chunk = [7; 4096];
            match draw.writes {
                None => while c.send_stream(id).write(&chunk).is_ok() {},
                Some((bytes, every_ms)) if self.now >= end.next_write => {
                    let _ = c.send_stream(id).write(&chunk[..bytes.min(4096)]);
                    end.next_write = self.now + Duration::from_secs_f64(every_ms / 1e3);
                }
                Some(_) => {}
            }
        } else if let Some(id) = end.stream
            && let Ok(mut chunks) = c.recv_stream(id).read(true)
        {
            while let Ok(Some(_)) = chunks.next(usize::MAX) {}
            let _ = chunks.finalize();
        }
        let mut buffer = Vec::new();
        while let Some(t) = c.poll_transmit(now, 1, &mut buffer) {
            let data = BytesMut::from(&buffer[..t.size]);
            buffer.clear();
            if data[0] & 0xc0 == 0x40
                && let Some(heard) = end.heard
            {
                let is_right = (data[0] & 0x20 != 0) == (heard ^ (side == CLIENT));
                end.sent[usize::from(is_right)] += 1;
            }
            out.push((data, t.ecn.map_or(0, |e| e as u8)));
        }
        for (data, ecn) in out {
            self.packets += 1;
            self.born.insert(self.packets, self.now);
            self.forward(side, false, self.packets, data, ecn);
        }
    }

    fn next(&self, draw: &Draw) -> Time {
        let links = self
            .hops
            .iter()
            .flatten()
            .filter_map(|h| h.link.next_wakeup());
        let writes = self
            .ends
            .iter()
            .filter(|_| draw.writes.is_some())
            .map(|e| e.next_write);
        links
            .chain(writes.filter(|t| *t > self.now))
            .min()
            .unwrap_or(Time::MAX)
    }

    fn timer(&mut self) -> Time {
        let began = self.began;
        let due = self
            .ends
            .iter_mut()
            .filter_map(|e| e.connection.as_mut()?.1.poll_timeout());
        due.map(|t| Time::from_nanos(t.saturating_duration_since(began).as_nanos() as u64))
            .min()
            .unwrap_or(Time::MAX)
    }
}

fn run(draw: &Draw) -> Outcome {
    let mut world = World::new(draw);
    let sender = usize::from(!draw.is_upload);
    let (mut own_ms, mut sample) = (Vec::new(), Time::from_millis(1000));
    while world.now < Time::ZERO + RUN {
        world.deliver();
        world.drive(0, draw);
        world.drive(1, draw);
        if world.now >= sample {
            sample += Duration::from_millis(5);
            if let Some((_, c)) = &world.ends[sender].connection {
                own_ms.push(c.rtt().as_secs_f64() * 1e3);
            }
        }
        let next = world.next(draw).min(world.timer()).min(sample);
        world.now = next.max(world.now + Duration::from_nanos(1000));
    }
    if let Ok(file) = std::env::var("SPIN_CAPTURE") {
        // Magic number of nanoseconds, version 2.4, no zone, 64 KiB, Ethernet.
        let head = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 65_536, 1]
            .map(u32::to_le_bytes)
            .concat();
        std::fs::write(file, [head, world.pcap].concat()).expect("the capture is written");
    }
    let path_ms = path(&world.waits);
    let spun = world
        .ends
        .iter()
        .all(|e| e.sent[0] as f64 <= 0.25 * e.sent[1] as f64 + 2.0);
    let flow = world.flows.finish().flows.pop();
    let quic = flow.and_then(|f| match f.protocol {
        Protocol::Quic(q) => Some(*q),
        _ => None,
    });
    Outcome {
        quic,
        own_ms,
        path_ms,
        spun,
    }
}

/// Round trips of the network at regular times from 1 s on: the wait of the first packet up from then, and of the first
/// packet down after its arrival.
fn path([up, down]: &[Vec<(f64, f64)>; 2]) -> Vec<f64> {
    let sorted = |w: &Vec<(f64, f64)>| {
        let mut w = w.clone();
        w.sort_by(|a, b| a.0.total_cmp(&b.0));
        w
    };
    let (up, down) = (sorted(up), sorted(down));
    let at = |w: &[(f64, f64)], t: f64| w.get(w.partition_point(|x| x.0 < t)).copied();
    let times = (0..).map(|i| 1000.0 + 5.0 * f64::from(i));
    times
        .map_while(|t| {
            let there = at(&up, t)?;
            Some(there.1 + at(&down, there.0 + there.1)?.1)
        })
        .collect()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Sums of draws.
#[derive(Default)]
struct Sums {
    told: u32,
    near: u32,
    held: u32,
    invented: u32,
    random: u32,
    recognised: u32,
    missed: u32,
}

fn judge(number: u64, draw: &Draw, sums: &mut Sums) {
    let outcome = run(draw);
    let (own, path) = (median(outcome.own_ms), median(outcome.path_ms));
    let q = outcome.quic.expect("QUIC is recognised");
    assert_eq!(
        (q.version, q.name.as_deref()),
        (Some(1), Some("video.example")),
        "{draw:?}"
    );
    sums.random += u32::from(!outcome.spun);
    let told = match &q.round_trips {
        Ok(RoundTrips { rtt, .. }) => {
            let [ms, low, high] = [rtt.ns, rtt.low_ns, rtt.high_ns].map(|ns| ns as f64 / 1e6);
            sums.invented += u32::from(!outcome.spun);
            if outcome.spun {
                sums.told += 1;
                sums.near += u32::from((ms - own).abs() <= (0.03 * own).max(1.0));
                sums.held += u32::from((low..=high).contains(&path));
            }
            format!("{ms:.2} ({low:.2} to {high:.2})")
        }
        Err(why) => {
            sums.missed += u32::from(outcome.spun);
            sums.recognised += u32::from(!outcome.spun && !matches!(why, Unknown::Few(_)));
            why.to_string()
        }
    };
    println!(
        "| {number} | {:.0} | {:.0} + {:.0} | {:.1} | {:.2} | {} | {} | {own:.2} | {path:.2} | {told} |",
        draw.rates[0] as f64 / 1e6,
        draw.delays_ms[0],
        draw.delays_ms[1],
        draw.jitter_ms,
        100.0 * draw.loss,
        draw.writes
            .map_or("bulk".into(), |(b, ms)| format!("{b} B / {ms:.0} ms")),
        if outcome.spun { "yes" } else { "no" },
    );
}

/// Number in the environment, or this one.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(otherwise)
}

#[test]
fn draws() {
    let (seed, count) = (number("SPIN_SEED", 1), number("SPIN_COUNT", 12));
    println!("\nseed {seed}\n");
    println!(
        "| draw | Mbit/s | ms, each direction | jitter, ms | loss, % | load | spun | endpoint, ms | path, ms | spin bit, ms |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    let mut sums = Sums::default();
    (1..=count).for_each(|n| judge(n, &draw(seed, n), &mut sums));
    println!(
        "\n{} of {count} connections spun. A median was given for {}, and it is within 1 ms or 3 % of the endpoint's own in {}; \
         its interval holds the path's median in {}. {} of them got \"cannot tell\". {} connections sent random values: {} were \
         recognised, {} got a number.",
        sums.told + sums.missed,
        sums.told,
        sums.near,
        sums.held,
        sums.missed,
        sums.random,
        sums.recognised,
        sums.invented
    );
    assert_eq!(sums.invented, 0, "a number of random values");
    assert!(
        f64::from(sums.near) >= 0.9 * f64::from(sums.told),
        "seed {seed}"
    );
    assert!(
        f64::from(sums.held) >= 0.9 * f64::from(sums.told),
        "seed {seed}"
    );
}

/// Flows of a capture at a receiver.
fn flows_of(text: &str, host: &str, seed: u64) -> Vec<measure::flows::Flow> {
    let scenario = sim::Draft::new(text).unwrap().finish().unwrap();
    let point = sim::capture::find(&scenario, host).unwrap();
    let file = sim::capture::run(&scenario, seed, 128, vec![(point, Vec::new())], &mut |_| {
        true
    })
    .unwrap();
    let mut reader = measure::capture::Reader::new(&file[0][..]).unwrap();
    let mut flows = Flows::default();
    while let Some(record) = reader.next_record().unwrap() {
        if let (Some(t), Some(f)) = (record.t_ns, frame::parse(&record)) {
            flows.packet(t, &f);
        }
    }
    flows.finish().flows
}

#[test]
fn a_receiver_reports_as_many_marks_as_arrive() {
    use measure::flows::feedback::Agreed;
    for seed in 1..=10 {
        println!("seed {seed}");
        let c = &mut Streams::new(seed).stream("marks");
        let rate = 2.0 + 20.0 * uniform(c);
        let text = format!(
            "duration = \"8 s\"\n[link]\nrate = \"{rate:.2} Mbit/s\"\ndelay = \"10 ms\"\nqueue = \"dualpi2\"\n[tcp]\necn = true\n\
             [[flow]]\nkind = \"bulk\"\ntcp = {{ controller = \"prague\" }}\n"
        );
        let flows = flows_of(&text, "d0", seed);
        let [flow] = &flows[..] else {
            panic!("{flows:?}")
        };
        let Protocol::Tcp(feedback) = &flow.protocol else {
            panic!("TCP")
        };
        assert_eq!(feedback.agreed(), Agreed::Accurate);
        let [up, down] = &flow.directions;
        let marked = up.ecn[3];
        let [none, reported] = feedback.reported();
        assert!(marked > 20 && up.ecn[1] > 100, "{up:?}");
        assert_eq!((none.ace_marks, down.ecn[3]), (0, 0));
        // The last packets may not have been acknowledged when the capture ended.
        assert!(
            (marked.saturating_sub(8)..=marked).contains(&reported.ace_marks),
            "{marked} {reported:?}"
        );

        let classic = text
            .replace("queue = \"dualpi2\"", "queue = \"codel:ecn=true\"")
            .replace("prague", "cubic");
        let flows = flows_of(&classic, "d0", seed);
        let Protocol::Tcp(feedback) = &flows[0].protocol else {
            panic!("TCP")
        };
        let [_, reported] = feedback.reported();
        assert_eq!(feedback.agreed(), Agreed::Classic);
        assert!(
            reported.ece_packets >= flows[0].directions[0].ecn[3],
            "{reported:?}"
        );
    }
}
