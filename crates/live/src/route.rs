//! Route to a destination as the kernel chooses it for this process, rules of policy routing included: one RTM_GETROUTE
//! (rtnetlink(7)), which sends nothing to the network.

use nix::net::if_::{if_indextoname, if_nametoindex};
use rtnetlink::packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteVia,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use rtnetlink::sys::{Socket, SocketAddr as Netlink, protocols::NETLINK_ROUTE};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// First step of the path to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub interface: String,
    /// Router that takes the packets; null for a neighbour and for this host itself.
    pub gateway: Option<IpAddr>,
}

/// Looks up the route to an address, from the calling thread's network namespace.
///
/// # Errors
/// No route leads there, or the kernel does not say.
pub fn to(destination: IpAddr) -> io::Result<Route> {
    look_up(question(destination, 0))
}

/// The same by one interface; a neighbour that no route names is none.
///
/// # Errors
/// No such interface, no route by it, or the kernel does not say.
pub fn by(destination: IpAddr, interface: &str) -> io::Result<Route> {
    let mut question = question(destination, if_nametoindex(interface)?);
    // Without it the kernel takes every address behind an interface for a neighbour.
    question.header.flags |= RouteFlags::FibMatch;
    let found = look_up(question)?;
    Ok(Route {
        interface: interface.to_owned(),
        ..found
    })
}

/// The same for packets with this source address.
///
/// # Errors
/// Errors of [`to`].
pub fn from(destination: IpAddr, source: IpAddr) -> io::Result<Route> {
    let mut question = question(destination, 0);
    question.header.source_prefix_length = question.header.destination_prefix_length;
    question
        .attributes
        .push(RouteAttribute::Source(source.into()));
    look_up(question)
}

/// The same for an address with a port, which over IPv6 may name an interface: `[fe80::1%2]:7117`.
///
/// # Errors
/// Errors of [`to`].
pub fn to_socket(destination: SocketAddr) -> io::Result<Route> {
    let scope = match destination {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => v6.scope_id(),
    };
    look_up(question(destination.ip(), scope))
}

fn look_up(question: RouteMessage) -> io::Result<Route> {
    match ask(question)?.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => read(&route),
        NetlinkPayload::Error(e) => Err(e.to_io()),
        _ => Err(io::Error::other("the kernel gives no route")),
    }
}

fn question(ip: IpAddr, interface: u32) -> RouteMessage {
    let ip = ip.to_canonical();
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    (header.address_family, header.destination_prefix_length) = match ip {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    message
        .attributes
        .push(RouteAttribute::Destination(ip.into()));
    if interface != 0 {
        message.attributes.push(RouteAttribute::Oif(interface));
    }
    message
}

fn ask(question: RouteMessage) -> io::Result<NetlinkMessage<RouteNetlinkMessage>> {
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetRoute(question));
    request.header.flags = NLM_F_REQUEST;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    let socket = Socket::new(NETLINK_ROUTE)?;
    // Connected, it hears the kernel alone.
    socket.connect(&Netlink::new(0, 0))?;
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    NetlinkMessage::deserialize(&answer).map_err(io::Error::other)
}

fn read(route: &RouteMessage) -> io::Result<Route> {
    let (mut index, mut gateway) = (None, None);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(i) => index = Some(*i),
            RouteAttribute::Gateway(RouteAddress::Inet(ip)) => gateway = Some((*ip).into()),
            RouteAttribute::Gateway(RouteAddress::Inet6(ip)) => gateway = Some((*ip).into()),
            // RFC 5549: IPv4 through a router that is known by its IPv6 address.
            RouteAttribute::Via(RouteVia::Inet(ip)) => gateway = Some((*ip).into()),
            RouteAttribute::Via(RouteVia::Inet6(ip)) => gateway = Some((*ip).into()),
            // Of several next hops, which only a match of the table shows, the first.
            RouteAttribute::MultiPath(hops) => index = hops.first().map(|hop| hop.interface_index),
            _ => {}
        }
    }
    let index = index.ok_or_else(|| io::Error::other("the route has no interface"))?;
    let interface = if_indextoname(index)?.to_string_lossy().into_owned();
    Ok(Route { interface, gateway })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_sends_to_itself_passes_the_loopback_interface() {
        for ip in ["127.0.0.1", "127.5.6.7", "::ffff:127.0.0.1"] {
            let route = to(ip.parse().unwrap()).unwrap();
            assert_eq!((&*route.interface, route.gateway), ("lo", None), "{ip}");
        }
    }

    #[test]
    fn an_address_without_a_route_is_an_error_of_the_kernel() {
        // IPv6 multicast of an interface that does not exist.
        let nowhere = SocketAddr::V6(std::net::SocketAddrV6::new(
            "fe80::1".parse().unwrap(),
            0,
            0,
            0x7fff_0000,
        ));
        assert!(to_socket(nowhere).unwrap_err().raw_os_error().is_some());
    }
}
