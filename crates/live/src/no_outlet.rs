//! Interface of a client's sockets on systems other than Linux: the one that the system chooses.

use crate::traffic::TrafficError;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// Interface that the user has named; it cannot be used here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlet(Option<Arc<str>>);

impl Outlet {
    pub fn of(interface: Option<&str>) -> Outlet {
        Outlet(interface.map(Arc::from))
    }

    pub fn interface(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// # Errors
    /// An interface was named.
    pub fn check(&self, _: IpAddr) -> Result<Option<String>, TrafficError> {
        match self.interface() {
            Some(name) => Err(TrafficError::NeedsLinux(name.into())),
            None => Ok(None),
        }
    }

    /// Leaves the socket as it is.
    pub(crate) fn bind<S>(&self, _: &S) -> io::Result<()> {
        Ok(())
    }

    /// Opens a UDP socket that talks to one address only.
    ///
    /// # Errors
    /// The system gives none, or no route leads there.
    pub(crate) fn socket_to(&self, at: SocketAddr) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, None)?;
        socket.connect(&at.into())?;
        Ok(socket.into())
    }
}
