//! Captures that a server makes for a client, over loopback.

use base::Duration;
use live::load::{Access, FarCapture, LoadError, Peer};
use live::serve::{ServeConfig, Server};
use measure::control::packets::CapturedPacket;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

fn server(allow_capture: bool) -> Server {
    Server::start(ServeConfig {
        listen: vec!["0.0.0.0:0".parse().expect("an address")],
        allow_capture,
        ..ServeConfig::default()
    })
    .expect("it starts")
}

/// Server as the client at this loopback address reaches it: its own address is the same.
fn peer(server: &Server, last: u8) -> Peer {
    Peer {
        server: (Ipv4Addr::new(127, 0, 0, last), server.local_addr().port()).into(),
        access: Access::default(),
        patience: Duration::from_secs(10),
    }
}

/// Starts a capture; null if this process may not.
fn start(peer: &Peer) -> Option<FarCapture> {
    match FarCapture::start(peer) {
        Ok(capture) => Some(capture),
        Err(LoadError::Refused { text, .. }) if text.contains("CAP_NET_RAW") => {
            testkit::skip(&text);
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Connection that sends strange bytes and is answered.
fn knock(to: SocketAddr, payload: &[u8]) -> SocketAddr {
    let mut stream = TcpStream::connect(to).expect("it connects");
    let from = stream.local_addr().expect("its address");
    stream.write_all(payload).expect("it is sent");
    let wait = Some(std::time::Duration::from_secs(5));
    stream.set_read_timeout(wait).expect("a time-out");
    let _ = stream.read(&mut [0; 256]);
    from
}

fn ends(p: &CapturedPacket) -> [SocketAddr; 2] {
    let h = &p.headers;
    assert_eq!((h[0], h[9]), (0x45, 6), "IPv4 without options, and TCP");
    let end = |ip: usize, port: usize| {
        let ip: [u8; 4] = h[ip..ip + 4].try_into().expect("four");
        SocketAddr::new(IpAddr::from(ip), u16::from_be_bytes([h[port], h[port + 1]]))
    };
    [end(12, 20), end(16, 22)]
}

#[test]
fn a_client_gets_the_headers_of_its_own_packets_and_nothing_else() {
    let server = server(true);
    let (own, other) = (peer(&server, 1), peer(&server, 9));
    let Some(capture) = start(&own) else { return };
    let secret = b"a payload that stays where it is";
    let mine = knock(own.server, secret);
    knock(other.server, secret);
    let mut packets = Vec::new();
    let missed = capture
        .stop(&mut |p| packets.push(p.clone()))
        .expect("it is told");
    assert_eq!(missed, 0);
    assert!(packets.windows(2).all(|w| w[0].t_ns <= w[1].t_ns));
    let of_mine = packets.iter().filter(|p| ends(p).contains(&mine)).count();
    // Three of the handshake, the payload, its ACK, and what the server says.
    assert!(of_mine >= 5, "{of_mine} of {}", packets.len());
    for p in &packets {
        assert!(ends(p).contains(&own.server), "{:?}", ends(p));
        let tcp = usize::from(p.headers[32] >> 4) * 4;
        assert_eq!(p.headers.len(), 20 + tcp, "headers alone");
        assert!(p.ip_bytes as usize >= p.headers.len());
    }
    let long = packets
        .iter()
        .any(|p| p.ip_bytes as usize == p.headers.len() + secret.len());
    assert!(long, "lengths are those of the whole packets");
}

#[test]
fn a_capture_is_refused_unless_allowed_and_there_is_one_at_a_time() {
    let closed = server(false);
    match FarCapture::start(&peer(&closed, 1)) {
        Err(LoadError::Refused { text, .. }) => assert!(text.contains("--allow-capture"), "{text}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
    let open = server(true);
    let own = peer(&open, 1);
    let Some(first) = start(&own) else { return };
    match FarCapture::start(&peer(&open, 9)) {
        Err(LoadError::Refused { text, .. }) => assert!(text.contains("another client"), "{text}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
    // A client that vanishes frees it.
    drop(first);
    let began = std::time::Instant::now();
    while FarCapture::start(&own).is_err() {
        assert!(
            began.elapsed().as_secs() < 10,
            "the capture of a client that is gone goes on"
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
