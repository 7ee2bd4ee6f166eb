//! Strangers who connect and say nothing, or half a message, at the ports that anybody may reach over TLS: the page of
//! `serve --web` and the hub. They keep nobody out.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::{Program, TempDir};
use tokio_rustls::rustls::{ClientConnection, StreamOwned, pki_types::ServerName};

struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server; its port follows `before` in what it says.
fn serving(args: &[&str], before: &str) -> (Serving, SocketAddr) {
    let mut command = Program::new(env!("CARGO_BIN_EXE_tailback")).command(args);
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut lines = lines.map_while(Result::ok);
    let port = |line: String| -> Option<u16> {
        let after = line.split_once(before)?.1;
        let digits = after
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(after.len());
        after[..digits].parse().ok()
    };
    let port = lines.find_map(port).expect("the address");
    std::thread::spawn(move || lines.for_each(drop));
    (Serving(child), ([127, 0, 0, 1], port).into())
}

/// Connections from four networks, every second with the beginning of a message of TLS.
fn silent(at: SocketAddr, count: u8) -> Vec<TcpStream> {
    let connect = |n: u8| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        socket.bind(&SocketAddr::from(([127, 9, n % 4, n], 0)).into())?;
        socket.connect_timeout(&at.into(), Duration::from_secs(1))?;
        let mut stream = TcpStream::from(socket);
        stream.write_all(&[22, 3, 1, 2, 0, 1][..usize::from(n % 2) * 6])?;
        Ok::<_, std::io::Error>(stream)
    };
    (1..=count).filter_map(|n| connect(n).ok()).collect()
}

/// First line of the answer to a request over TLS.
fn asks(at: SocketAddr) -> std::io::Result<String> {
    let config = Arc::new(live::pipe::unchecked()?);
    let name = ServerName::try_from("tailback.invalid").expect("a name");
    let tls = ClientConnection::new(config, name).map_err(std::io::Error::other)?;
    let stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut stream = StreamOwned::new(tls, stream);
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"
    )?;
    let mut line = [0; 12];
    stream.read_exact(&mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn answers_beside_silence(at: SocketAddr, answer: &str) {
    let held = silent(at, 200);
    assert!(held.len() > 150, "{}", held.len());
    for _ in 0..5 {
        let began = Instant::now();
        let heard = asks(at).expect("it answers");
        assert_eq!(heard, answer);
        let took = began.elapsed().as_secs_f64();
        assert!(took < 2.0, "{took} s");
    }
    drop(held);
}

#[test]
fn the_page_answers_beside_connections_that_say_nothing() {
    let _place = testkit::beside();
    let listen = ["serve", "--listen", "127.0.0.1:0"];
    let web = ["--user", "root", "--web", "0.0.0.0:0"];
    let before = "browsers run the test at https://0.0.0.0:";
    let (_server, at) = serving(&[&listen[..], &web].concat(), before);
    answers_beside_silence(at, "HTTP/1.1 200");
}

#[test]
fn the_hub_answers_beside_connections_that_say_nothing() {
    let _place = testkit::beside();
    let dir = TempDir::new("silence-hub");
    let data = dir.at("hub");
    let args = ["hub", "--data", &data, "--listen", "127.0.0.1:0"];
    let (_hub, at) = serving(&args, "hub at https://127.0.0.1:");
    answers_beside_silence(at, "HTTP/1.1 404");
}
