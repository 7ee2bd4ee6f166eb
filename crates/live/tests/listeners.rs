//! Ports that a server opens at a client's request, over loopback.

use base::Duration;
use experiment::ask::Marking;
use live::listeners::Listeners;
use live::load::{Access, LoadError, Peer};
use live::serve::{PortSet, ServeConfig, Server};
use live::tally::Tally;
use measure::control::listen::{Answer, Knocked, Place, Transport, Wanted, knock, mark};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

const SOON: std::time::Duration = std::time::Duration::from_millis(300);

fn server(allow_listen: &str) -> (Server, Peer) {
    let allow_listen = match allow_listen {
        "" => PortSet::default(),
        some => some.parse().expect("ports"),
    };
    let server = Server::start(ServeConfig {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        allow_listen,
        ..ServeConfig::default()
    })
    .expect("it starts");
    let peer = Peer {
        server: server.local_addr(),
        access: Access::default(),
        patience: Duration::from_secs(10),
    };
    (server, peer)
}

fn wanted(transport: Transport, port: u16) -> Wanted {
    Wanted {
        answer: Answer::Mark,
        expect: 8,
        ..Wanted::new(transport, Place::Here, port)
    }
}

fn socket(at: &str) -> UdpSocket {
    let socket = UdpSocket::bind((at, 0)).expect("a socket");
    socket.set_read_timeout(Some(SOON)).expect("a time-out");
    socket
}

#[test]
fn only_who_shows_the_token_is_answered_or_sent_to_and_its_own_is_reported() {
    let (server, peer) = server("any");
    let both = vec![wanted(Transport::Tcp, 0), wanted(Transport::Udp, 0)];
    let open =
        Listeners::open(&peer, both, Duration::from_secs(30), Tally::default()).expect("it opens");
    let (tcp, udp) = (open.at(0).expect("open"), open.at(1).expect("open"));
    let mut buf = [0; 100];

    let stranger = socket("127.0.0.5");
    stranger.send_to(b"a secret", udp).expect("it is sent");
    assert!(stranger.recv(&mut buf).is_err(), "a stranger gets nothing");
    let at = Knocked {
        from: stranger.local_addr().expect("bound"),
        cookie: [0; 16],
    };
    let refused = open.send(1, &at, 100, Marking::default());
    assert!(
        matches!(&refused, Err(LoadError::Refused { text, .. }) if text.contains("has not proven")),
        "{refused:?}"
    );

    let own = socket("127.0.0.1");
    own.set_read_timeout(Some(SOON * 20)).expect("a time-out");
    let payload = knock(open.token(), 0);
    own.send_to(&payload, udp).expect("it is sent");
    let n = own.recv(&mut buf).expect("an answer");
    assert!(n <= payload.len(), "no longer than what asked for it");
    let knocked = open.knocked(&buf[..n]).expect("the server's");
    assert_eq!(knocked.from, own.local_addr().expect("bound"));
    let sent = open
        .send(1, &knocked, 90, Marking::default())
        .expect("it is sent");
    let n = own.recv(&mut buf).expect("it comes");
    assert_eq!(buf[..n], sent[..]);

    let mut call = TcpStream::connect(tcp).expect("a connection");
    call.write_all(open.token()).expect("it is sent");
    let mut said = Vec::new();
    call.read_to_end(&mut said).expect("it is said and over");
    assert_eq!(said, mark(open.token()));

    let all = open.report().expect("a report");
    let seen: Vec<(u32, u32, bool)> = all
        .iter()
        .map(|a| (a.listener, a.len, a.answered))
        .collect();
    assert_eq!(
        seen,
        [(1, 52, true), (0, 8, true)],
        "the stranger's is counted only"
    );
    assert_eq!(all[0].from, own.local_addr().ok());
    assert!(
        all[1].syn.len() >= 40,
        "the first packet's headers: {:?}",
        all[1].syn
    );

    // The ports close with the connection on which they were asked for.
    drop(open);
    let closed = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        TcpStream::connect(tcp).is_err()
    });
    assert!(closed);
    assert_eq!(server.stats().foreign, 1);
    server.stop();
}

#[test]
fn what_cannot_be_opened_says_why() {
    let (strict, peer) = server("");
    let one = vec![wanted(Transport::Tcp, 0)];
    let refused =
        Listeners::open(&peer, one.clone(), Duration::from_secs(5), Tally::default()).err();
    let told = refused.expect("it is refused").to_string();
    assert!(told.contains("--allow-listen"), "{told}");
    strict.stop();

    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let (server, peer) = server(&format!("{port},50000-50999"));
    let mut all = vec![wanted(Transport::Tcp, port)];
    all.push(Wanted::new(Transport::Udp, Place::Elsewhere, 0));
    all.push(Wanted::new(Transport::Udp, Place::Here, 514));
    all.push(Wanted::new(Transport::Udp, Place::Here, 0));
    let open =
        Listeners::open(&peer, all, Duration::from_secs(5), Tally::default()).expect("it answers");
    assert!(open.at(0).expect_err("it is taken").contains("in use"));
    let nowhere = open.at(1).expect_err("there is none");
    assert!(nowhere.contains("no such address"), "{nowhere}");
    let forbidden = open.at(2).expect_err("it is not allowed");
    assert!(forbidden.contains("--allow-listen"), "{forbidden}");
    let free = open.at(3).expect("one that is allowed").port();
    assert!((50_000..51_000).contains(&free), "{free}");
    drop(open);
    server.stop();
}
