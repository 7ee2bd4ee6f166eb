//! Ports that a server opens at a client's request, over loopback.

use base::Duration;
use live::errand::Tally;
use live::listeners::Listeners;
use live::load::{LoadError, Peer};
use live::serve::{ServeConfig, Server};
use measure::control::listen::{Place, Transport, Wanted};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

const SOON: std::time::Duration = std::time::Duration::from_millis(300);

fn server(opens_ports: bool) -> (Server, Peer) {
    let server = Server::start(ServeConfig {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        opens_ports,
        ..ServeConfig::default()
    })
    .expect("it starts");
    let peer = Peer {
        server: server.local_addr(),
        key: None,
        patience: Duration::from_secs(10),
    };
    (server, peer)
}

fn wanted(transport: Transport, port: u16) -> Wanted {
    Wanted {
        answer: b"as agreed".to_vec(),
        expect: 8,
        ..Wanted::new(transport, Place::Here, port)
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(SOON)).expect("a time-out");
    socket
}

#[test]
fn only_who_shows_the_token_is_answered_or_sent_to_and_everything_is_reported() {
    let (server, peer) = server(true);
    let both = vec![wanted(Transport::Tcp, 0), wanted(Transport::Udp, 0)];
    let open =
        Listeners::open(&peer, both, Duration::from_secs(30), Tally::default()).expect("it opens");
    let (tcp, udp) = (open.at(0).expect("open"), open.at(1).expect("open"));
    let mut buf = [0; 100];

    let stranger = socket();
    stranger.send_to(b"who are you?", udp).expect("it is sent");
    assert!(stranger.recv(&mut buf).is_err(), "a stranger gets nothing");
    let refused = open.send(1, stranger.local_addr().expect("bound"), vec![0; 10]);
    assert!(
        matches!(&refused, Err(LoadError::Refused { text, .. }) if text.contains("has not shown the token")),
        "{refused:?}"
    );

    let own = socket();
    own.set_read_timeout(Some(SOON * 20)).expect("a time-out");
    own.send_to(open.token(), udp).expect("it is sent");
    assert_eq!(own.recv(&mut buf).expect("an answer"), 9);
    assert_eq!(&buf[..9], b"as agreed");
    open.send(1, own.local_addr().expect("bound"), b"unasked".to_vec())
        .expect("it is sent");
    assert_eq!(own.recv(&mut buf).expect("it comes"), 7);

    let mut call = TcpStream::connect(tcp).expect("a connection");
    call.write_all(open.token()).expect("it is sent");
    let mut said = Vec::new();
    call.read_to_end(&mut said).expect("it is said and over");
    assert_eq!(said, b"as agreed");

    let all = open.report().expect("a report");
    let seen: Vec<(u32, u32, bool)> = all
        .iter()
        .map(|a| (a.listener, a.len, a.answered))
        .collect();
    assert_eq!(seen, [(1, 12, false), (1, 8, true), (0, 8, true)]);
    assert_eq!(all[1].from, own.local_addr().ok());
    assert!(
        all[2].syn.len() >= 40,
        "the first packet's headers: {:?}",
        all[2].syn
    );

    // The ports close with the connection on which they were asked for.
    drop(open);
    let closed = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        TcpStream::connect(tcp).is_err()
    });
    assert!(closed);
    server.stop();
}

#[test]
fn what_cannot_be_opened_says_why() {
    let (strict, peer) = server(false);
    let one = vec![wanted(Transport::Tcp, 0)];
    let refused =
        Listeners::open(&peer, one.clone(), Duration::from_secs(5), Tally::default()).err();
    let told = refused.expect("it is refused").to_string();
    assert!(told.contains("--one-port"), "{told}");
    strict.stop();

    let (server, peer) = server(true);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let mut both = vec![wanted(Transport::Tcp, port)];
    both.push(Wanted::new(Transport::Udp, Place::Elsewhere, 0));
    let open =
        Listeners::open(&peer, both, Duration::from_secs(5), Tally::default()).expect("it answers");
    assert!(open.at(0).expect_err("it is taken").contains("in use"));
    assert!(
        open.at(1)
            .expect_err("there is none")
            .contains("no such address")
    );
    drop(open);
    server.stop();
}
