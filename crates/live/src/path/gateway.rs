//! The gateway: the router that this host's packets to the server pass first.

use crate::outlet::Outlet;
use crate::route;
use std::net::IpAddr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    pub address: IpAddr,
    pub interface: String,
}

/// Finds the gateway towards a server. `None` if the server is a neighbour, or if no route leads there.
pub fn towards(server: IpAddr, outlet: &Outlet) -> Option<Gateway> {
    let route = match outlet.interface() {
        Some(name) => route::by(server, name),
        None => route::to(server),
    };
    let route = route.ok()?;
    Some(Gateway {
        address: route.gateway?,
        interface: route.interface,
    })
}
