//! Servers that lie: each ends in a clear error or in an answer, within its time, and never in a panic.

use crate::servers::{self, Speaks};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::{Program, TempDir};

/// Longest time of a run whose server lies.
const WITHIN: Duration = Duration::from_secs(75);

/// Server of one lie on this host, for as long as the test runs. Connections get numbers from 0.
fn lie(tell: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("listens");
    let address = listener.local_addr().expect("an address");
    let tell = Arc::new(tell);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let tell = tell.clone();
            std::thread::spawn(move || tell(stream, number));
        }
    });
    address
}

/// Reads the head of a request.
fn head(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(b"\r\n\r\n") && read.len() < 10_000 {
        match stream.read(&mut byte) {
            Ok(1) => read.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// Answers a request with these bytes, and waits for the end of the connection.
fn answers(bytes: impl Into<Vec<u8>>) -> SocketAddr {
    let bytes = bytes.into();
    lie(move |mut stream, _| {
        head(&mut stream);
        let _ = stream.write_all(&bytes);
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

/// Runs a test against a liar; gives its exit status and what it wrote for people.
fn told(target: &str, more: &[&str]) -> (Option<i32>, String) {
    let dir = TempDir::new("via-hostile");
    let recording = dir.at("via.rec");
    let mut args = vec![
        "test", "--via", target, "--plain", "--full", "-o", &recording,
    ];
    args.extend(more);
    if !more.contains(&"--budget") {
        args.extend(["--budget", "30MB"]);
    }
    let began = Instant::now();
    let out = Program::new(env!("CARGO_BIN_EXE_tailback")).run(&args);
    assert!(began.elapsed() < WITHIN, "{target}: {:?}", began.elapsed());
    let told = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(!told.contains("panicked"), "{target}: {told}");
    assert!(!told.contains('\u{1b}'), "{target}: {told:?}");
    (out.status.code(), told)
}

/// Expects that a test of this target fails with this reason.
fn refused(what: &str, target: &str, expected: &str) {
    let (code, told) = told(target, &[]);
    assert!(code.is_some_and(|c| c > 0), "{what}: {told}");
    assert!(told.contains(expected), "{what}: {told}");
}

#[test]
fn a_web_server_that_offers_no_load_is_refused_before_anything_is_measured() {
    testkit::real_time_beside(|| {
        let closed = TcpListener::bind(("127.0.0.1", 0))
            .and_then(|l| l.local_addr())
            .expect("an address");
        let long = format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(500_000));
        let huge = format!("HTTP/1.1 200 OK\r\n\r\n[{}", "1,".repeat(500_000));
        let config = |text: &str| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
                text.len()
            )
        };
        let elsewhere = r#"{"version":1,"urls":{"large_download_url":"http://198.51.100.7/x","upload_url":"http://198.51.100.7/y"}}"#;
        let cases: Vec<(&str, SocketAddr, &str, &str)> = vec![
            ("closed", closed, "/f", "no connection to"),
            (
                "control characters",
                answers("HTTP/1.1 302 Found\r\nLocation: http://portal.example/\u{1b}[2J\r\n\r\n"),
                "/f",
                "no answer",
            ),
            (
                "redirect",
                answers("HTTP/1.1 307 T\r\nLocation: https://portal.example/login\r\n\r\n"),
                "/f",
                "it redirects to https://portal.example/login",
            ),
            (
                "busy",
                answers("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
                "/f",
                "try again later",
            ),
            (
                "missing",
                answers("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
                "/f",
                "404",
            ),
            (
                "small",
                answers("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"),
                "/f",
                "too few to load a link",
            ),
            (
                "garbage",
                answers("SSH-2.0-OpenSSH\r\n\r\n"),
                "/f",
                "no answer",
            ),
            ("headers", answers(long), "/f", "no answer"),
            ("hang-up", lie(|_, _| ()), "/f", "no answer"),
            (
                "silence",
                lie(|mut s, _| {
                    let _ = s.read_to_end(&mut Vec::new());
                }),
                "/f",
                "nothing for 10 s",
            ),
            (
                "no JSON",
                answers(config("<html>")),
                "/.well-known/nq",
                "no configuration of a responsiveness server",
            ),
            (
                "version",
                answers(config(&elsewhere.replace(":1,", ":2,"))),
                "/.well-known/nq",
                "version 2",
            ),
            (
                "elsewhere",
                answers(config(elsewhere)),
                "/.well-known/nq",
                "only the server that you named is used",
            ),
            (
                "huge",
                answers(huge),
                "/.well-known/nq",
                "a broken configuration",
            ),
        ];
        std::thread::scope(|all| {
            for (what, address, path, expected) in &cases {
                all.spawn(move || refused(what, &format!("http://{address}{path}"), expected));
            }
        });
    });
}

#[test]
fn a_certificate_of_somebody_else_is_refused() {
    testkit::real_time_beside(|| {
        let own = servers::trust(&["127.0.0.1"], &[b"h2", b"http/1.1"]);
        let other = servers::trust(&["far.example"], &[b"http/1.1"]);
        let dir = TempDir::new("via-trust");
        let authority = dir.file("other.pem", &other.authority);
        let local = || SocketAddr::from(([127, 0, 0, 1], 0));
        let unknown = servers::start(local(), Speaks::Web, Some(own.server));
        let misnamed = servers::start(local(), Speaks::Web, Some(other.server));
        let plain = answers("HTTP/1.1 200 OK\r\n\r\n");
        let https = |a: SocketAddr| format!("https://{a}/large");
        refused(
            "unknown authority",
            &https(unknown.address),
            "captive portal or a proxy",
        );
        let (code, said) = told(&https(misnamed.address), &["--via-ca", &authority]);
        assert!(
            code != Some(0) && said.contains("no TLS with 127.0.0.1"),
            "{said}"
        );
        refused("no TLS", &https(plain), "no TLS with 127.0.0.1");
        let nothing = dir.file("empty.pem", "");
        let (code, said) = told(&https(unknown.address), &["--via-ca", &nothing]);
        assert!(
            code != Some(0) && said.contains("no certificate in PEM form"),
            "{said}"
        );
    });
}

#[test]
fn a_server_that_breaks_off_leaves_what_was_measured() {
    testkit::real_time_beside(|| {
        let file = "HTTP/1.1 200 OK\r\nContent-Length: 900000000\r\n\r\n";
        // The first connection is the look at the file; later ones carry a megabyte and are reset.
        let resets = lie(move |mut stream, _| {
            head(&mut stream);
            let _ = stream.write_all(file.as_bytes());
            for _ in 0..16 {
                let _ = stream.write_all(&[7; 65_536]);
                std::thread::sleep(Duration::from_millis(100));
            }
            let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        });
        let busy_later = lie(move |mut stream, number| {
            head(&mut stream);
            let answer = match number {
                0 => file,
                _ => "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
            };
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let stalls = lie(move |mut stream, _| {
            head(&mut stream);
            let _ = stream.write_all(file.as_bytes());
            let _ = stream.read_to_end(&mut Vec::new());
        });
        std::thread::scope(|all| {
            for (what, address, expected) in [
                ("resets", resets, "Download"),
                ("busy", busy_later, "try again later"),
                ("stalls", stalls, "nothing moved for 15 s"),
            ] {
                all.spawn(move || {
                    let (_, said) = told(&format!("http://{address}/f"), &[]);
                    // The round trip at rest was measured before, and the recording is named.
                    assert!(said.contains("RTT p50, ms"), "{what}: {said}");
                    assert!(said.contains("via.rec"), "{what}: {said}");
                    assert!(said.contains(expected), "{what}: {said}");
                });
            }
        });
    });
}

#[test]
fn an_upload_that_is_refused_is_a_fault_of_its_phase() {
    testkit::real_time_beside(|| {
        let refuses = lie(move |mut stream, _| {
            let asked = head(&mut stream);
            let own = stream.local_addr().expect("an address");
            let answer = if asked.starts_with("GET") {
                let text = format!(
                    r#"{{"version":1,"urls":{{"large_download_url":"http://{own}/l","upload_url":"http://{own}/u"}}}}"#
                );
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}",
                    text.len()
                )
            } else {
                "HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    .into()
            };
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let target = format!("http://{refuses}/.well-known/nq");
        let (_, said) = told(&target, &["--phases", "idle,up"]);
        assert!(said.contains("it answers 413 Payload Too Large"), "{said}");
    });
}

#[test]
fn a_server_of_iperf3_that_lies_is_told_apart_from_a_slow_one() {
    testkit::real_time_beside(|| {
        let says = |bytes: &'static [u8]| {
            lie(move |mut stream, _| {
                let _ = stream.read(&mut [0; 37]);
                let _ = stream.write_all(bytes);
                let _ = stream.read_to_end(&mut Vec::new());
            })
        };
        let cases: Vec<(&str, SocketAddr, &str)> = vec![
            ("busy", says(&[255]), "takes one at a time"),
            (
                "error",
                says(&[9, 254, 0, 0, 0, 122, 0, 0, 0, 2]),
                "error 122 of iperf3",
            ),
            ("stopped", says(&[9, 11]), "its operator has stopped it"),
            ("other states", says(&[1, 2, 3]), "is it an iperf3 server?"),
            (
                "web server",
                says(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
                "is it an iperf3 server?",
            ),
            ("hang-up", lie(|_, _| ()), "then failed with"),
            ("silence", says(&[]), "then failed with the next state"),
        ];
        std::thread::scope(|all| {
            for (what, address, expected) in &cases {
                all.spawn(move || {
                    let (code, said) = told(&format!("iperf3:{address}"), &[]);
                    // Without the right to ping there is no probe for iperf3, which is an error too.
                    let no_ping = said.contains("no probe can measure the delay");
                    assert!(code.is_some_and(|c| c > 0), "{what}: {said}");
                    assert!(no_ping || said.contains(expected), "{what}: {said}");
                });
            }
        });
    });
}

#[test]
fn an_iperf3_server_whose_results_are_endless_ends_the_run_and_not_the_answer() {
    testkit::real_time_beside(|| {
        // A whole test up to the results, which claim four gigabytes.
        let address = lie(|mut stream, _| {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(40)));
            let mut cookie = [0; 37];
            if stream.read_exact(&mut cookie).is_err() {
                return;
            }
            // Streams and control connections begin alike: who says nothing more is a stream.
            let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
            let _ = stream.write_all(&[9]);
            let mut length = [0; 4];
            if stream.read_exact(&mut length).is_err() || u32::from_be_bytes(length) > 4096 {
                let _ = stream.set_read_timeout(None);
                while stream.read(&mut [0; 65_536]).is_ok_and(|n| n > 0) {}
                return;
            }
            let mut parameters = vec![0; u32::from_be_bytes(length) as usize];
            let _ = stream.read_exact(&mut parameters);
            let _ = stream.write_all(&[10]);
            std::thread::sleep(Duration::from_millis(500));
            let _ = stream.write_all(&[1, 2]);
            let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
            let _ = stream.read(&mut [0]);
            let _ = stream.write_all(&[13, 255, 255, 255, 255]);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let (_, said) = told(
            &format!("iperf3:{address}"),
            &["--phases", "idle,up", "--budget", "8MB"],
        );
        let no_ping = said.contains("no probe can measure the delay");
        assert!(no_ping || said.contains("RTT p50, ms"), "{said}");
    });
}

#[test]
fn a_liar_of_ndt7_is_refused_or_measured_no_further() {
    testkit::real_time_beside(|| {
        let upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: wrong\r\n\r\n";
        let cases: Vec<(&str, SocketAddr, &str)> = vec![
            (
                "no ndt7",
                answers("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
                "404",
            ),
            ("wrong proof", answers(upgrade), "no WebSocket of ndt7"),
            ("hang-up", lie(|_, _| ()), "no WebSocket of ndt7"),
            ("garbage", answers(vec![0; 4096]), "no WebSocket of ndt7"),
        ];
        std::thread::scope(|all| {
            for (what, address, expected) in &cases {
                all.spawn(move || {
                    let (_, said) =
                        told(&format!("ndt7:ws://{address}"), &["--phases", "idle,down"]);
                    assert!(said.contains(expected), "{what}: {said}");
                });
            }
        });
    });
}
