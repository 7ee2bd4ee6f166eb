//! The gateway: the router that this host's packets to the server pass first.

use crate::route;
use std::net::IpAddr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    pub address: IpAddr,
    pub interface: String,
}

/// Finds the gateway towards a server. `None` if the server is a neighbour, or if no route leads there.
pub fn towards(server: IpAddr) -> Option<Gateway> {
    let route = route::to(server).ok()?;
    Some(Gateway {
        address: route.gateway?,
        interface: route.interface,
    })
}
