//! A server that names a third host as its own address, or as the client's: the client sends nothing there and says why.
//! With `--also` it does, so that the test cannot pass because nothing is ever sent. THIRD_SEED repeats the draws.

use base::Duration;
use base::rng::{Rng, Streams};
use measure::control::listen::{Arrival, KNOCK_LEN, Knocked, Listening, Opened, TOKEN_LEN, knock};
use measure::control::{Greeting, HELLO_LEN, Response};
use rand::RngExt as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const TOKEN: [u8; TOKEN_LEN] = *b"a token!";
/// Number of ports that `nat` asks for, and that `ipv6` asks for.
const ASKED: [(&str, usize); 2] = [("nat:sockets=2,during=0 ms", 3), ("ipv6:count=3", 4)];

/// Listens for anything at all that comes to the third host.
struct Third {
    at: SocketAddr,
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Third {
    /// Binds the same port of the third host and of the server.
    fn start(ip: IpAddr) -> (Third, UdpSocket) {
        loop {
            let udp = UdpSocket::bind((ip, 0)).expect("a port");
            let at = udp.local_addr().expect("bound");
            let own = UdpSocket::bind(("127.0.0.1", at.port()));
            if let (Ok(tcp), Ok(own)) = (TcpListener::bind(at), own) {
                udp.set_nonblocking(true).expect("it can");
                tcp.set_nonblocking(true).expect("it can");
                return (Third { at, udp, tcp }, own);
            }
        }
    }

    fn was_sent_to(&self) -> bool {
        let datagram = self.udp.recv(&mut [0; 2048]).map(drop);
        let call = self.tcp.accept().map(drop);
        [datagram, call]
            .iter()
            .any(|r| !matches!(r, Err(e) if e.kind() == ErrorKind::WouldBlock))
    }
}

/// Answers knocks at the server, and says that they came from the third host.
fn answer_knocks(own: &UdpSocket, third: SocketAddr, stop: &AtomicBool) {
    let soon = std::time::Duration::from_millis(50);
    own.set_read_timeout(Some(soon)).expect("a time-out");
    let knocked = Knocked {
        from: third,
        cookie: [0; 16],
    };
    let mut buf = [0; 4096];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((_, from)) = own.recv_from(&mut buf) {
            let _ = own.send_to(&knocked.encode(&TOKEN), from);
        }
    }
}

/// Opens every port at the third host, and has seen every socket's datagrams come from there.
fn talk(mut stream: TcpStream, third: SocketAddr, ports: usize) {
    let greeting = Greeting {
        key_needed: false,
        nonce: [0; 16],
        salt: [0; 16],
    };
    let mut hello = [0; HELLO_LEN];
    let mut buf = [0; 4096];
    if stream.read_exact(&mut hello).is_err() || stream.write_all(&greeting.encode()).is_err() {
        return;
    }
    let opened = Response::Listening(Listening {
        token: TOKEN,
        from: third,
        duration: Duration::from_secs(60),
        addresses: vec![third.ip()],
        opened: vec![Opened::At(third); ports],
    });
    let seen = |listener: u32, socket: u32| {
        let mut bytes = knock(&TOKEN, KNOCK_LEN);
        bytes[TOKEN_LEN..TOKEN_LEN + 4].copy_from_slice(&socket.to_be_bytes());
        Arrival {
            listener,
            from: Some(third),
            len: KNOCK_LEN as u32,
            bytes,
            syn: Vec::new(),
            answered: true,
            tos: None,
        }
    };
    let sockets = [0, 1, 10, 11, 12, 1000, 1001];
    let all = (0..ports as u32).flat_map(|l| sockets.map(|s| seen(l, s)));
    let arrivals = Response::Arrivals(all.collect());
    let mut next = opened;
    while matches!(stream.read(&mut buf), Ok(n) if n > 0) {
        if stream.write_all(&next.encode()).is_err() {
            return;
        }
        next = arrivals.clone();
    }
}

/// Runs a kind of probe against the liar. Gives what it printed, and whether it sent anything to the third host.
fn run(kind: &str, ports: usize, ip: IpAddr, allowed: bool) -> (String, bool) {
    let (third, own) = Third::start(ip);
    let (at, stop) = (third.at, Arc::<AtomicBool>::default());
    let control = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = control.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for stream in control.incoming().flatten() {
            std::thread::spawn(move || talk(stream, at, ports));
        }
    });
    let its = stop.clone();
    let knocks = std::thread::spawn(move || answer_knocks(&own, at, &its));
    let name = format!("tailback-third-{}-{}", std::process::id(), at.port());
    let dir = std::env::temp_dir().join(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
    command.args(["probe", kind, &server, "--beside-others", "--output"]);
    command.arg(&dir);
    if allowed {
        command.args(["--also", &ip.to_string()]);
    }
    let out = command.output().expect("it runs");
    stop.store(true, Ordering::Relaxed);
    knocks.join().expect("it ends");
    let _ = std::fs::remove_dir_all(&dir);
    let said = [out.stdout, out.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(out.status.success(), "{kind}: {said}");
    (said, third.was_sent_to())
}

/// An address of this host that is not the server's.
fn third_address(rng: &mut Rng) -> IpAddr {
    match rng.random_range(0..4) {
        0 if UdpSocket::bind("[::1]:0").is_ok() => Ipv6Addr::LOCALHOST.into(),
        _ => [127, rng.random_range(1..255), rng.random(), 9].into(),
    }
}

/// Asks at a server that names this third host, which nobody allowed: it gets nothing, and the answer says why.
fn is_not_sent_to(kind: &str, ports: usize, ip: IpAddr) {
    let (said, sent) = run(kind, ports, ip, false);
    assert!(!sent, "{kind} sent to {ip}: {said}");
    // The text is wrapped to the terminal's width.
    let words: Vec<&str> = said.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains(&format!("--also {ip}")), "{kind}: {said}");
}

#[test]
fn nothing_is_sent_to_a_third_host_that_only_the_server_names() {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
    let given = std::env::var("THIRD_SEED")
        .ok()
        .and_then(|s| s.parse().ok());
    let seed: u64 = given.unwrap_or(fresh);
    eprintln!("THIRD_SEED={seed}");
    let mut rng = Streams::new(seed).stream("third hosts");
    let drawn = (0..3)
        .flat_map(|_| ASKED)
        .map(|case| (case, third_address(&mut rng)));
    let drawn: Vec<_> = drawn.collect();
    let other: IpAddr = Ipv6Addr::LOCALHOST.into();
    let allowed = [IpAddr::from([127, 0, 0, 9]), other];
    // Each run waits for answers most of its time.
    std::thread::scope(|s| {
        for ((kind, ports), ip) in drawn {
            s.spawn(move || is_not_sent_to(kind, ports, ip));
        }
        for ((kind, ports), ip) in ASKED.into_iter().zip(allowed) {
            if UdpSocket::bind((ip, 0)).is_err() {
                eprintln!("skipped: this host has no {ip}");
                continue;
            }
            s.spawn(move || {
                let (said, sent) = run(kind, ports, ip, true);
                assert!(sent, "{kind} with --also {ip}: {said}");
            });
        }
    });
}
