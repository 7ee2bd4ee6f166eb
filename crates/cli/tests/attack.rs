//! All attacks on a server at once, beside one honest client: over loopback, and as strangers in a network of their own. A
//! few seconds in the ordinary run; `make attack` makes it sixty and prints the figures. ATTACK_SECONDS sets the length,
//! ATTACK_SEED repeats one.

mod attackers;

use attackers::{ATTACKS, Attackers, cost, gets_in, p99_ms, probe, serve, upward_trains};
use base::rng::Streams;
use live::emulate::{Emulation, FAR_V4, INTERFACE, NetNs};
use measure::control::datagram::Message;
use measure::wire::{Ask, ClientMessage, MAX_LEN};
use rand::RngExt as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use testkit::networks::network;

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn seed() -> u64 {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
    let seed = from_environment("ATTACK_SEED").unwrap_or(fresh);
    eprintln!("ATTACK_SEED={seed}");
    seed
}

#[test]
fn all_attacks_at_once_cost_little_and_harm_no_honest_client() {
    let _place = testkit::alone();
    let seconds: f64 = from_environment("ATTACK_SECONDS").unwrap_or(6.0);
    let seed = seed();
    let served = serve([0; 4], None);
    let (at, pid) = (served.at, served.pid());
    let quiet = probe(at, (seconds / 4.0).clamp(2.0, 10.0));
    let before = cost(pid).2;
    let attackers = Attackers::start(ATTACKS, at, seed, None);
    let began = Instant::now();
    let honest = std::thread::spawn(move || probe(at, seconds));
    let (mut slowest, mut resident) = (0.0f64, 0);
    while began.elapsed().as_secs_f64() < seconds {
        slowest = slowest.max(gets_in(at));
        resident = resident.max(cost(pid).0);
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let took = began.elapsed().as_secs_f64();
    let (_, most, after) = cost(pid);
    let honest = honest.join().expect("it is served");
    attackers.stop();
    let lost = honest.iter().filter(|r| r.is_none()).count();
    let loss = lost as f64 / honest.len().max(1) as f64;
    let cores = (after - before) / took;
    let (calm, under) = (p99_ms(&quiet), p99_ms(&honest));
    eprintln!(
        "{took:.0} s: {:.1} MB resident at most ({:.1} MB ever), {cores:.2} cores; honest client: {lost} of {} probes lost ({:.3} %), \
         p99 {under:.3} ms ({calm:.3} ms before), in within {slowest:.2} s",
        resident as f64 / 1e6,
        most as f64 / 1e6,
        honest.len(),
        100.0 * loss,
    );
    assert!(
        honest.len() as f64 > 50.0 * seconds,
        "{} probes",
        honest.len()
    );
    assert!(most < 64_000_000, "{most} bytes");
    assert!(cores < 0.5, "{cores} cores");
    assert!(loss <= 0.001, "{loss}");
    assert!(slowest < 2.0, "{slowest} s");
    // A busy host wakes both ends late; the long run is made on a quiet one.
    if seconds >= 60.0 {
        assert!(under < calm + 1.0, "{under} ms, {calm} ms before");
    }
}

/// 64 upward trains that nobody sends, while others' traffic passes the server's interface: the server looks at each packet
/// once, however many trains there are.
#[test]
fn upward_trains_alone_cost_little() {
    let _place = testkit::beside();
    let seconds = from_environment("ATTACK_SECONDS")
        .unwrap_or(6.0f64)
        .min(20.0);
    let served = serve([0; 4], None);
    let (at, pid, seed) = (served.at, served.pid(), seed());
    let stop = Arc::new(AtomicBool::new(false));
    let (its, passed) = (stop.clone(), Arc::<AtomicU64>::default());
    let count = passed.clone();
    let others = std::thread::spawn(move || {
        let to = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let from = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let to = to.local_addr().expect("bound");
        while !its.load(Ordering::Relaxed) {
            for _ in 0..20 {
                let _ = from.send_to(&[0; 1200], to);
            }
            count.fetch_add(20, Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    });
    let measure = || {
        let (began, before) = (Instant::now(), cost(pid).2);
        std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
        (cost(pid).2 - before) / began.elapsed().as_secs_f64()
    };
    let without = measure();
    // Eight clients with 64 trains in all; the server takes 16.
    let attacks: Vec<_> = (0..8)
        .map(|_| {
            (
                "upward trains",
                upward_trains as fn(&mut attackers::Attacker),
            )
        })
        .collect();
    let attackers = Attackers::start(&attacks, at, seed, None);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let with = measure();
    let got_in = gets_in(at);
    attackers.stop();
    stop.store(true, Ordering::Relaxed);
    others.join().expect("no panic");
    let rate = passed.load(Ordering::Relaxed) as f64 / (2.0 * seconds + 1.0);
    eprintln!(
        "upward trains beside {rate:.0} datagrams a second: {:.3} CPU-s a minute, {:.3} without them, in within {got_in:.2} s",
        60.0 * with,
        60.0 * without
    );
    assert!(with < 0.1, "{with} cores");
    assert!(got_in < 2.0, "{got_in} s");
}

/// A link between two namespaces: strangers with addresses of 198.18.0.0/15 at the near end, a server at the far one.
fn network() -> Option<Emulation> {
    let direction = "rate = \"1 Gbit/s\"\nqueue = \"fifo:bytes=10MB\"\ndelay = \"1 ms\"";
    let network = testkit::line::start(&[testkit::line::spec(direction, direction)])?;
    // Linux answers for every address of the block, and the far end sends all of them back over the link.
    network::sh(network.near(), "ip route add local 198.18.0.0/15 dev lo");
    for ns in [network.near(), network.far()] {
        network::sh(ns, &format!("ip route replace default dev {INTERFACE}"));
    }
    Some(network)
}

/// Strangers with addresses of 512 networks that really answer. An honest client of another network gets in, and loses nothing.
#[test]
fn strangers_of_many_networks_keep_nobody_out() {
    let _place = testkit::alone();
    let Some(network) = network() else {
        return;
    };
    let seconds: f64 = from_environment("ATTACK_SECONDS").unwrap_or(6.0);
    let served = serve(FAR_V4.octets(), Some(network.far()));
    let (at, pid) = (served.at, served.pid());
    let attackers = Attackers::start(ATTACKS, at, seed(), Some(network.near()));
    std::thread::sleep(std::time::Duration::from_secs(1));
    let (began, before) = (Instant::now(), cost(pid).2);
    let honest = network.near().spawn("honest", move || probe(at, seconds));
    let mut slowest = 0.0f64;
    while began.elapsed().as_secs_f64() < seconds {
        slowest = slowest.max(network.near().run(|| gets_in(at)).expect("it enters"));
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let took = began.elapsed().as_secs_f64();
    let honest = honest.expect("a thread").join().expect("it is served");
    let (_, most, after) = cost(pid);
    attackers.stop();
    let lost = honest.iter().filter(|r| r.is_none()).count();
    let cores = (after - before) / took;
    eprintln!(
        "512 networks, {took:.0} s: {:.1} MB, {cores:.2} cores; honest client: {lost} of {} probes lost, in within {slowest:.2} s",
        most as f64 / 1e6,
        honest.len()
    );
    assert!(honest.len() as f64 > 50.0 * seconds, "{}", honest.len());
    assert!(most < 64_000_000, "{most} bytes");
    assert!(cores < 0.5, "{cores} cores");
    assert!(lost as f64 <= 0.001 * honest.len() as f64, "{lost} lost");
    assert!(slowest < 2.0, "{slowest} s");
}

/// An IPv4 packet with a UDP datagram. The kernel fills in the header's checksum; UDP's is left out.
fn forged(from: Ipv4Addr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let SocketAddr::V4(to) = to else {
        panic!("IPv4 only");
    };
    let len = (28 + payload.len()) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(len.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.ip().octets());
    for word in [4000, to.port(), len - 20, 0] {
        packet.extend(word.to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// Bytes that an interface of a namespace has received and sent.
fn traffic(ns: &NetNs) -> (u64, u64) {
    let text = ns.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"));
    let text = text.expect("it enters").expect("the kernel tells");
    let line = text.lines().find_map(|l| l.trim().strip_prefix(INTERFACE));
    let line = line
        .and_then(|l| l.strip_prefix(':'))
        .expect("the interface");
    let words: Vec<u64> = line
        .split_whitespace()
        .filter_map(|w| w.parse().ok())
        .collect();
    (words[0], words[8])
}

/// Datagrams with forged sources, through a raw socket: whoever they name gets no more bytes than were sent in its name.
#[test]
fn forged_sources_get_no_more_than_was_sent() {
    let _place = testkit::beside();
    use socket2::{Domain, Protocol, Socket, Type};
    let Some(network) = network() else {
        return;
    };
    let served = serve(FAR_V4.octets(), Some(network.far()));
    let at = served.at;
    let mut rng = Streams::new(seed()).stream("forged");
    let raw = network.near().run(|| {
        // IPPROTO_RAW: the header of IP is ours.
        let raw = Protocol::from(nix::libc::IPPROTO_RAW);
        Socket::new(Domain::IPV4, Type::from(nix::libc::SOCK_RAW), Some(raw))
    });
    let raw = raw.expect("it enters").expect("a raw socket");
    let honest = network.near().spawn("honest", move || gets_in(at));
    honest.expect("a thread").join().expect("it is served");
    // Neighbours that do not answer make no traffic of their own on a point-to-point link.
    let (got, sent) = traffic(network.near());
    let (mut out, mut told) = ([0; MAX_LEN], 0u64);
    for n in 0..20_000u32 {
        let (nonce, cookie) = (rng.random(), rng.random());
        let len = rng.random_range(0..1_300);
        let ask = Ask {
            interval_ns: 1_000_000,
            duration_s: 0,
            tos: 0,
            boot_proof: 0,
        };
        let message = match rng.random_range(0..4) {
            0 => ClientMessage::Hello { nonce },
            1 => ClientMessage::Open {
                nonce,
                cookie,
                ask,
                user: None,
            },
            2 => ClientMessage::Request {
                token: nonce,
                seq: n,
                sent_ns: 0,
            },
            _ => ClientMessage::Train {
                token: nonce,
                train: 1,
                index: 0,
                count: 8,
            },
        };
        let payload = match rng.random_range(0..5) {
            0 => Message::Hello.encode(nonce),
            1 => Message::Proof {
                cookie,
                received: 0,
            }
            .encode(nonce),
            _ => {
                let n = message.encode(&mut out, len, None);
                out[..n].to_vec()
            }
        };
        let from = Ipv4Addr::new(203, 0, 113, rng.random());
        let packet = forged(from, at, &payload);
        told += u64::from(
            raw.send_to(&packet, &SocketAddr::from((at.ip(), 0)).into())
                .is_ok(),
        );
        if n % 20 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let (got, sent) = (
        traffic(network.near()).0 - got,
        traffic(network.near()).1 - sent,
    );
    eprintln!(
        "{told} datagrams with forged sources: {sent} bytes sent, {got} came back, {:.3}",
        got as f64 / sent as f64
    );
    assert!(told > 19_000, "{told}");
    assert!(got > 100_000, "the server answers at all: {got}");
    assert!(got <= sent, "{got} bytes for {sent}");
    assert!(network.near().run(|| gets_in(at)).expect("it enters") < 2.0);
}
