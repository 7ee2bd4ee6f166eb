//! Interface that a client's sockets are bound to (SO_BINDTODEVICE, socket(7)), such as one of several modems: packets
//! leave by it alone, and answers that arrive by another one are not heard. The kernel takes the source address from the
//! route by that interface. Names are still looked up by the host's own resolvers.

use crate::route;
use crate::traffic::{self, TrafficError};
use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;

/// Interface, or the kernel's choice by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlet(Option<Arc<str>>);

#[derive(Debug, thiserror::Error)]
pub enum OutletError {
    #[error(transparent)]
    Interface(#[from] TrafficError),
    #[error(
        "no route to {server} leaves by {interface}: {source}. Add one beside the others, such as `ip route add default via ROUTER dev {interface} metric 500`"
    )]
    NoRoute {
        interface: String,
        server: IpAddr,
        source: io::Error,
    },
}

impl Outlet {
    pub fn of(interface: Option<&str>) -> Outlet {
        Outlet(interface.map(Arc::from))
    }

    /// Chooses this outlet, or the one of an interface if this is the kernel's choice.
    pub(crate) fn or(&self, interface: Option<&str>) -> Outlet {
        Outlet(self.0.clone().or_else(|| interface.map(Arc::from)))
    }

    pub fn interface(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Number of the interface, which changes if it is made anew, as when a modem is plugged in again; 0 without one.
    pub(crate) fn index(&self) -> u32 {
        let index = self.interface().map(nix::net::if_::if_nametoindex);
        index.and_then(Result::ok).unwrap_or(0)
    }

    /// Checks that packets to `server` can leave by the interface. Returns a doubt if the kernel would discard the answers.
    ///
    /// # Errors
    /// No such interface, or no route by it.
    pub fn check(&self, server: IpAddr) -> Result<Option<String>, OutletError> {
        let Some(name) = self.interface() else {
            return Ok(None);
        };
        traffic::known(name)?;
        let (server, no_route) = (server.to_canonical(), |source| OutletError::NoRoute {
            interface: name.into(),
            server,
            source,
        });
        route::by(server, name).map_err(no_route)?;
        let local = self.local_towards((server, 9).into());
        let back = local.and_then(|local| route::from(server, local).ok());
        let strict = ["all", name].iter().any(|of| {
            let file = format!("/proc/sys/net/ipv4/conf/{of}/rp_filter");
            std::fs::read_to_string(file).is_ok_and(|text| text.trim() == "1")
        });
        let elsewhere = back.filter(|b| strict && server.is_ipv4() && b.interface != name);
        Ok(elsewhere.map(|b| {
            format!(
                "the kernel discards answers that arrive by {name}, because its own route to {server} leaves by {} and rp_filter is strict: set net.ipv4.conf.{name}.rp_filter and .all.rp_filter to 2, or add a rule of routing for the source address of {name}",
                b.interface
            )
        }))
    }

    /// Binds a socket to the interface.
    ///
    /// # Errors
    /// The interface is gone, or the kernel (before Linux 5.7) lets root alone do it.
    pub(crate) fn bind(&self, socket: &impl AsFd) -> io::Result<()> {
        match self.interface() {
            Some(name) => SockRef::from(socket).bind_device(Some(name.as_bytes())),
            None => Ok(()),
        }
    }

    /// Opens a UDP socket that talks to one address only.
    ///
    /// # Errors
    /// The kernel gives none, or no route leads there.
    pub(crate) fn socket_to(&self, at: SocketAddr) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(at), Type::DGRAM, None)?;
        self.bind(&socket)?;
        socket.connect(&at.into())?;
        Ok(socket.into())
    }

    /// Connects by TCP, within a runtime.
    ///
    /// # Errors
    /// Errors of the connection.
    pub(crate) async fn connect(&self, to: SocketAddr) -> io::Result<tokio::net::TcpStream> {
        let socket = match to.is_ipv4() {
            true => tokio::net::TcpSocket::new_v4(),
            false => tokio::net::TcpSocket::new_v6(),
        }?;
        self.bind(&socket)?;
        socket.connect(to).await
    }

    /// Local address of packets to `remote`; `None` without a route.
    pub(crate) fn local_towards(&self, remote: SocketAddr) -> Option<IpAddr> {
        Some(self.socket_to(remote).ok()?.local_addr().ok()?.ip())
    }

    /// Interface that packets to `server` leave by.
    ///
    /// # Errors
    /// There is no route.
    pub(crate) fn towards(&self, server: SocketAddr) -> Result<String, TrafficError> {
        match self.interface() {
            Some(name) => Ok(name.into()),
            None => traffic::interface_towards(server),
        }
    }
}
