//! Admission of TCP connections that one thread serves together.

use super::networks;
use super::quota::Permit;
use super::shared::{FULL, NOT_ALLOWED, Shared};
use measure::control::Refusal;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Interval of the looks at the server's end.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Connection with its place.
pub(super) struct Admitted {
    pub stream: TcpStream,
    /// Second handle, by which a connection without a request is closed for a newcomer.
    pub socket: Arc<std::net::TcpStream>,
    pub permit: Permit,
    pub from: SocketAddr,
}

/// Hands on each connection that has a place, until the server stops.
///
/// # Errors
/// A listener that cannot be used.
pub(super) async fn accept(
    listener: std::net::TcpListener,
    shared: &Shared,
    serve: impl Fn(Admitted),
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    while !shared.stop.load(Ordering::Relaxed) {
        match timeout(LOOK, listener.accept()).await {
            Ok(Ok((stream, from))) => admit(stream, from, shared).into_iter().for_each(&serve),
            // Without descriptors, it would fail again at once.
            Ok(Err(_)) => sleep(LOOK).await,
            Err(_) => {}
        }
    }
    Ok(())
}

fn admit(stream: TcpStream, from: SocketAddr, shared: &Shared) -> Option<Admitted> {
    shared.counters.connections.fetch_add(1, Ordering::Relaxed);
    if !networks::allows(&shared.allow, from.ip()) {
        shared.refused(from.ip(), Refusal::Forbidden, NOT_ALLOWED);
        return None;
    }
    let (stream, socket) = copied(stream).ok()?;
    let socket = Arc::new(socket);
    let Some(permit) = shared.quota.connect(from.ip(), Some(socket.clone())) else {
        shared.refused(from.ip(), Refusal::Busy, FULL);
        return None;
    };
    Some(Admitted {
        stream,
        socket,
        permit,
        from,
    })
}

fn copied(stream: TcpStream) -> io::Result<(TcpStream, std::net::TcpStream)> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let copy = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, copy))
}
