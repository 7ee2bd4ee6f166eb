//! Notes to the service manager: ready, alive, about to stop.
//!
//! **Source.** systemd, sd_notify(3): datagrams to the Unix socket that `$NOTIFY_SOCKET` names; a leading `@` stands for an
//! abstract address.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Socket of the service manager.
pub struct Manager {
    socket: UnixDatagram,
    to: SocketAddr,
}

impl Manager {
    /// Returns the manager that `$NOTIFY_SOCKET` names; nothing without one.
    pub fn of_environment() -> Option<Manager> {
        let name = std::env::var("NOTIFY_SOCKET").ok()?;
        Manager::named(&name).ok()
    }

    /// Opens the manager's socket.
    ///
    /// # Errors
    /// A name that is no address of a Unix socket.
    pub fn named(name: &str) -> io::Result<Manager> {
        let to = match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(name)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Manager { socket, to })
    }

    /// Tells a state, such as `READY=1`. A manager that does not listen is no failure.
    pub fn tell(&self, state: &str) {
        let _ = self.socket.send_to_addr(state.as_bytes(), &self.to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_arrive_at_both_kinds_of_address() {
        let dir = testkit::TempDir::new("notify");
        let path = dir.at("socket");
        let abstract_name = format!("tailback-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&abstract_name).expect("a name");
        let listeners = [
            (UnixDatagram::bind(&path).expect("bound"), path.clone()),
            (
                UnixDatagram::bind_addr(&address).expect("bound"),
                format!("@{abstract_name}"),
            ),
        ];
        for (listener, name) in listeners {
            let manager = Manager::named(&name).expect("a socket");
            manager.tell("READY=1");
            let mut text = [0; 64];
            let n = listener.recv(&mut text).expect("a datagram");
            assert_eq!(&text[..n], b"READY=1");
        }
    }
}
