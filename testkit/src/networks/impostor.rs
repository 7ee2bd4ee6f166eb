//! Boxes on the way: one that answers in the server's place, a proxy for the web, a forwarder of names.

use domain::base::Message;
use live::emulate::NetNs;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, connect, setsockopt, socket, sockopt,
};
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Mark of a box's own packets, so that no rule hands them back to the box.
const MARK: u32 = 7;
const TICK: Duration = Duration::from_millis(20);
/// A far end that says nothing for so long has no more to say.
const PATIENCE: Duration = Duration::from_secs(3);

pub struct Box {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Box {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a box does not panic");
        }
    }
}

type Work = std::boxed::Box<dyn FnMut() + Send>;

/// Runs these inside, again and again.
fn boxed(ns: &NetNs, works: Vec<Work>) -> Box {
    let stop: Arc<AtomicBool> = Arc::default();
    let start = |mut work: Work| {
        let stop = stop.clone();
        let run = move || {
            while !stop.load(Ordering::Relaxed) {
                work();
            }
        };
        ns.spawn("box", run).expect("enters")
    };
    let threads = works.into_iter().map(start).collect();
    Box { stop, threads }
}

pub(super) fn listener(ns: &NetNs, port: u16) -> TcpListener {
    let bind = || TcpListener::bind(("0.0.0.0", port));
    let listener = ns.run(bind).expect("enters").expect("binds");
    listener.set_nonblocking(true).expect("may not block");
    listener
}

fn datagrams(ns: &NetNs, port: u16) -> UdpSocket {
    // What is redirected comes here, and must be answered from here.
    let bind = || UdpSocket::bind(("127.0.0.1", port));
    let socket = ns.run(bind).expect("enters").expect("binds");
    socket.set_read_timeout(Some(TICK)).expect("a time-out");
    socket
}

/// Serves whoever calls, or waits a little.
fn accept(listener: &TcpListener, serve: impl Fn(&mut TcpStream) -> io::Result<()>) {
    match listener.accept() {
        Ok((mut stream, _)) => {
            stream.set_nonblocking(false).expect("may block");
            stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
            // Whoever hangs up is served.
            let _ = serve(&mut stream);
        }
        Err(_) => std::thread::sleep(TICK),
    }
}

/// Serves each connection of a listener by one function.
pub(super) fn repeated(
    ns: &NetNs,
    listener: TcpListener,
    serve: impl Fn(&mut TcpStream) -> io::Result<()> + Send + 'static,
) -> Box {
    let calls: Work = std::boxed::Box::new(move || accept(&listener, &serve));
    boxed(ns, vec![calls])
}

/// Says the same to everybody, whoever was meant.
pub fn start(ns: &NetNs, port: u16) -> Box {
    let (tcp, udp) = (listener(ns, port), datagrams(ns, port));
    let say = b"it is me, the server";
    let calls: Work = std::boxed::Box::new(move || {
        accept(&tcp, |stream| {
            let mut buf = [0; 100];
            let _ = stream.read(&mut buf)?;
            stream.write_all(say)
        });
    });
    let letters: Work = std::boxed::Box::new(move || {
        let mut buf = [0; 2000];
        if let Ok((_, from)) = udp.recv_from(&mut buf) {
            let _ = udp.send_to(say, from);
        }
    });
    boxed(ns, vec![calls, letters])
}

fn marked(kind: SockType) -> OwnedFd {
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Inet, kind, flags, None).expect("a socket");
    setsockopt(&fd, sockopt::Mark, &MARK).expect("a mark");
    fd
}

/// A proxy for the web: adds a header, closes on what is no HTTP, keeps back what antivirus programs know.
pub fn web(ns: &NetNs, port: u16, far: &'static str) -> Box {
    let tcp = listener(ns, port);
    let far: SocketAddrV4 = far.parse().expect("an address");
    let work: Work = std::boxed::Box::new(move || {
        accept(&tcp, |stream| {
            let mut asked = Vec::new();
            let mut buf = [0; 4096];
            while !asked.windows(4).any(|w| w == b"\r\n\r\n") {
                match stream.read(&mut buf)? {
                    0 => return Ok(()),
                    n => asked.extend_from_slice(&buf[..n]),
                }
            }
            let first = asked.split(|b| *b == b'\r').next().unwrap_or_default();
            if !first.ends_with(b"HTTP/1.1") {
                return Ok(());
            }
            let end = asked.len() - 2;
            asked.splice(end..end, *b"Via: 1.1 box\r\n");
            let fd = marked(SockType::Stream);
            connect(fd.as_raw_fd(), &SockaddrIn::from(far)).map_err(io::Error::from)?;
            let mut server = TcpStream::from(fd);
            server.set_read_timeout(Some(PATIENCE))?;
            server.write_all(&asked)?;
            let mut answer = Vec::new();
            server.read_to_end(&mut answer)?;
            if answer.windows(5).any(|w| w == b"EICAR") {
                answer = b"HTTP/1.1 403 Forbidden\r\n\r\na virus\n".to_vec();
            }
            stream.write_all(&answer)
        });
    });
    boxed(ns, vec![work])
}

/// Hands on queries for names, and nothing else.
pub fn names(ns: &NetNs, port: u16, far: &'static str) -> Box {
    let udp = datagrams(ns, port);
    let far: SocketAddrV4 = far.parse().expect("an address");
    let own = ns.run(|| UdpSocket::from(marked(SockType::Datagram)));
    let own = own.expect("enters");
    own.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let work: Work = std::boxed::Box::new(move || {
        let mut buf = [0; 2000];
        let Ok((n, from)) = udp.recv_from(&mut buf) else {
            return;
        };
        let query = Message::from_octets(&buf[..n]);
        if query.is_ok_and(|q| !q.header().qr() && q.sole_question().is_ok()) {
            let _ = own.send_to(&buf[..n], far);
            if let Ok((n, _)) = own.recv_from(&mut buf) {
                let _ = udp.send_to(&buf[..n], from);
            }
        }
    });
    boxed(ns, vec![work])
}
