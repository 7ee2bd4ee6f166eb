//! The site over loopback: limits and turns as pages meet them, over WebSockets and WebTransport.

use base::Duration;
use live::serve::{Budgets, File, ServeConfig, Server, WebConfig, WebGuests, metrics};
use measure::web::{FromPage, ToPage};
use std::borrow::Cow;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration as Time;
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};

const PATIENCE: Time = Time::from_secs(20);

fn server(budgets: Budgets) -> Server {
    server_for(budgets, WebGuests::default())
}

/// Server that takes these tools' tests, too.
fn server_for(budgets: Budgets, guests: WebGuests) -> Server {
    let file = File {
        path: "/",
        kind: "text/html; charset=utf-8",
        gzip: false,
        body: Cow::Borrowed(b"the page"),
    };
    let config = ServeConfig {
        listen: vec![([127, 0, 0, 1], 0).into()],
        budgets,
        web: Some(WebConfig {
            listen: ([127, 0, 0, 1], 0).into(),
            certificate: None,
            acme: None,
            files: Arc::new([file]),
            keep: None,
            guests,
        }),
        ..ServeConfig::default()
    };
    Server::start(config).expect("loopback")
}

/// Connection to the site from this address of loopback: each is a client of its own.
fn connect(server: &Server, last: u8) -> TcpStream {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0));
    socket.bind(&from.into()).expect("loopback");
    let to: SocketAddr = host(server).parse().expect("an address");
    socket.connect(&to.into()).expect("it listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    socket.into()
}

fn host(server: &Server) -> &str {
    let url = server.web().expect("a site");
    url.trim_start_matches("http://").trim_end_matches('/')
}

/// Bytes of a response, up to its end.
fn get(server: &Server, last: u8, path: &str) -> Vec<u8> {
    let mut stream = connect(server, last);
    let host = host(server);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

fn starts(bytes: &[u8], with: &str) -> bool {
    let said = String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned();
    assert!(said.starts_with(with), "{with}: {said}");
    true
}

fn session(byte: &str) -> String {
    format!("session={}", byte.repeat(16))
}

fn channel(server: &Server, last: u8, byte: &str) -> WebSocket<TcpStream> {
    let url = format!("ws://{}/channel?{}", host(server), session(byte));
    let stream = connect(server, last);
    tungstenite::client(url, stream).expect("a channel").0
}

/// Answer to a question for the turn.
fn turn(channel: &mut WebSocket<TcpStream>) -> Option<u16> {
    let lasts = Duration::from_secs(30);
    let question = FromPage::Turn { lasts }.encode();
    channel.send(Message::binary(question)).expect("sent");
    let Ok(Message::Binary(bytes)) = channel.read() else {
        return None;
    };
    match ToPage::decode(&bytes) {
        Some(ToPage::Turn { place, .. }) => Some(place),
        _ => None,
    }
}

#[test]
fn one_page_loads_at_a_time_within_its_bytes() {
    let most = 3_000_000;
    let server = server(Budgets {
        bytes_per_hour: base::Bytes::new(most),
        ..Budgets::default()
    });
    let (mut one, mut two) = (channel(&server, 1, "aa"), channel(&server, 2, "bb"));
    assert_eq!(turn(&mut one), Some(0));
    assert_eq!(turn(&mut two), Some(1), "the other waits");
    let load = |byte: &str| format!("/down?{}&flow=1&ms=20000", session(byte));
    starts(&get(&server, 2, &load("bb")), "HTTP/1.1 429");
    starts(&get(&server, 3, &load("cc")), "HTTP/1.1 403");
    let bytes = get(&server, 1, &load("aa"));
    starts(&bytes, "HTTP/1.1 200");
    let moved = bytes.len() as u64;
    assert!(
        (most / 2..most + (1 << 20)).contains(&moved),
        "{moved} of {most}"
    );
    // Whoever has spent its bytes gets no more, not even the page.
    starts(&get(&server, 1, &load("aa")), "HTTP/1.1 429");
    starts(&get(&server, 1, "/"), "HTTP/1.1 429");
    starts(&get(&server, 2, "/"), "HTTP/1.1 200");
    let over = FromPage::Over.encode();
    one.send(Message::binary(over)).expect("sent");
    let came = (0..50).any(|_| {
        std::thread::sleep(Time::from_millis(100));
        turn(&mut two) == Some(0)
    });
    assert!(came, "the turn passes on");
    let counts = server.stats().web.expect("a site");
    assert_eq!((counts.websocket, counts.webtransport), (2, 0));
    let text = metrics::render(&server.stats());
    assert!(
        text.contains("tailback_web_channels_total{transport=\"websocket\"} 2"),
        "{text}"
    );
}

/// Request of another tool for a test of ndt7.
fn ndt7(server: &Server, last: u8, test: &str) -> tungstenite::Result<WebSocket<TcpStream>> {
    use tungstenite::client::IntoClientRequest;
    let url = format!("ws://{}/ndt/v7/{test}", host(server));
    let mut request = url.into_client_request().expect("an address");
    let protocol = "net.measurementlab.ndt.v7".parse().expect("a name");
    request
        .headers_mut()
        .insert("Sec-WebSocket-Protocol", protocol);
    match tungstenite::client(request, connect(server, last)) {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::HandshakeError::Failure(e)) => Err(e),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn other_tools_have_their_tests_only_where_the_operator_lets_them_and_one_at_a_time() {
    let closed = server(Budgets::default());
    for path in [
        "/.well-known/nq",
        "/nq/small",
        "/nq/large",
        "/ndt/v7/download",
    ] {
        starts(&get(&closed, 1, path), "HTTP/1.1 404");
    }
    let open = WebGuests {
        rpm: true,
        ndt7: true,
    };
    let most = 3_000_000;
    let server = server_for(
        Budgets {
            bytes_per_hour: base::Bytes::new(most),
            ..Budgets::default()
        },
        open,
    );
    let told = get(&server, 1, "/.well-known/nq");
    starts(&told, "HTTP/1.1 200");
    let told = String::from_utf8(told).expect("text");
    assert!(
        told.contains(&format!("\"http://{}/nq/large\"", host(&server))),
        "{told}"
    );
    starts(&get(&server, 1, "/nq/small"), "HTTP/1.1 200");
    starts(&get(&server, 1, "/ndt/v7/download"), "HTTP/1.1 426");
    // A page of another site makes nobody load.
    let mut stream = connect(&server, 1);
    let request = format!(
        "GET /nq/large HTTP/1.1\r\nHost: {}\r\nOrigin: http://other.example\r\nConnection: close\r\n\r\n",
        host(&server)
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    starts(&bytes, "HTTP/1.1 403");

    let flows = server.stats().flows;
    let mut running = ndt7(&server, 2, "download").expect("a test");
    assert_eq!(server.stats().flows, flows + 1, "one test is one flow");
    assert!(
        matches!(running.read(), Ok(Message::Text(_))),
        "a measurement first"
    );
    let refused = ndt7(&server, 3, "upload").expect_err("one at a time");
    let tungstenite::Error::Http(answer) = refused else {
        panic!("{refused}");
    };
    assert_eq!(answer.status(), 429);
    starts(&get(&server, 3, "/nq/large"), "HTTP/1.1 429");
    // Its bytes end the test.
    let mut moved = 0;
    while let Ok(message) = running.read() {
        moved += message.len() as u64;
    }
    assert!(
        (most / 2..most + (1 << 20)).contains(&moved),
        "{moved} of {most}"
    );
}

#[test]
fn an_upload_is_counted_told_and_stopped() {
    let server = server(Budgets::default());
    let mut page = channel(&server, 1, "aa");
    assert_eq!(turn(&mut page), Some(0));
    let url = format!(
        "ws://{}/up?{}&flow=5&ms=20000",
        host(&server),
        session("aa")
    );
    let mut load = tungstenite::client(url, connect(&server, 1))
        .expect("an upload")
        .0;
    for _ in 0..10 {
        load.send(Message::binary(vec![7; 10_000])).expect("sent");
    }
    let mut sampled = |wanted: &dyn Fn(&measure::web::Sampled) -> bool| {
        (0..400).any(|_| match page.read() {
            Ok(Message::Binary(bytes)) => match ToPage::decode(&bytes) {
                Some(ToPage::Sampled(s)) => s.flow == 5 && wanted(&s),
                _ => false,
            },
            _ => false,
        })
    };
    assert!(sampled(&|s| s.bytes == 100_000 && !s.ended));
    let mut stop = connect(&server, 1);
    let path = format!("/stop?{}&flow=5", session("aa"));
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        host(&server)
    );
    stop.write_all(request.as_bytes()).expect("sent");
    assert!(sampled(&|s| s.ended && s.bytes >= 100_000));
}

#[test]
fn webtransport_serves_the_site_s_own_page_and_no_other() {
    use wtransport::endpoint::ConnectOptions;
    use wtransport::tls::Sha256Digest;
    let server = server(Budgets::default());
    let settings = get(&server, 1, "/settings.json");
    let settings = String::from_utf8(settings).expect("text");
    let json = settings.split_once("\r\n\r\n").expect("a head").1;
    let settings: serde_json::Value = serde_json::from_str(json).expect("it is JSON");
    let hash: Vec<u8> = serde_json::from_value(settings["certificate"].clone()).expect("a hash");
    let hash: [u8; 32] = hash.try_into().expect("SHA-256");
    let url = format!("https://{}/channel?{}", host(&server), session("dd"));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let open = |origin: Option<String>| {
            let config = wtransport::ClientConfig::builder()
                .with_bind_default()
                .with_server_certificate_hashes([Sha256Digest::new(hash)])
                .build();
            let mut options = ConnectOptions::builder(url.clone());
            if let Some(origin) = origin {
                options = options.add_header("origin", origin);
            }
            let endpoint = wtransport::Endpoint::client(config).expect("a socket");
            async move { (endpoint.connect(options.build()).await, endpoint) }
        };
        for origin in [None, Some("https://evil.example".to_owned())] {
            assert!(open(origin.clone()).await.0.is_err(), "{origin:?}");
        }
        let (connection, _endpoint) = open(Some(format!("https://{}", host(&server)))).await;
        let connection = connection.expect("the site's own page");
        let lasts = Duration::from_secs(30);
        let mut place = None;
        // A datagram may be lost even here.
        for _ in 0..20 {
            let question = FromPage::Turn { lasts }.encode();
            connection.send_datagram(question).expect("it fits");
            let answer = tokio::time::timeout(Time::from_secs(1), connection.receive_datagram());
            if let Ok(Ok(datagram)) = answer.await {
                place = ToPage::decode(&datagram).map(|m| m.encode());
                break;
            }
        }
        let first = ToPage::Turn {
            place: 0,
            after: Duration::ZERO,
        };
        assert_eq!(place, Some(first.encode()));
    });
    assert_eq!(server.stats().web.map(|w| w.webtransport), Some(1));
}
