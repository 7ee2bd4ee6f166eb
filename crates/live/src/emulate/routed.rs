//! Routers between the links, which make a chain of links a path of hops.
//!
//! ```text
//!   near            router 1                      router 2                     far
//!   link0 ═ link 1 ═ link0 link1 ═ link 2 ═ link0 link1 ═ link 3 ═ link0
//!   10.77.0.1        10.77.1.1             10.77.2.1              10.77.0.2
//! ```
//! A router is the kernel of a namespace of its own that forwards, with the limits on its ICMP answers that Linux has
//! when nobody changes them.

use super::wire::{End, INTERFACE, inside, netlink, setting};
use super::{EmulateError, Emulation, FAR_V4, FAR_V6, Leg, NEAR_V4, NEAR_V6, NetNs, Options};
use link::LinkSpec;
use rtnetlink::packet_route::route::RouteScope;
use rtnetlink::{Handle, RouteMessageBuilder};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Interface of a router towards the far end; the one towards the near end is [`INTERFACE`].
const BEHIND: &str = "link1";

/// Addresses of router `i`, counted from 1 at the near end.
fn router(i: usize) -> (Ipv4Addr, Ipv6Addr) {
    let i = i as u16;
    (
        Ipv4Addr::new(10, 77, i as u8, 1),
        Ipv6Addr::new(0xfd77, 0, 0, i, 0, 0, 0, 1),
    )
}

fn alone((v4, v6): (Ipv4Addr, Ipv6Addr)) -> Vec<(IpAddr, u8)> {
    vec![(v4.into(), 32), (v6.into(), 128)]
}

pub(super) fn start(hops: &[LinkSpec], options: &Options) -> Result<Emulation, EmulateError> {
    let end = |ns: &NetNs, interface, addresses| End {
        ns: ns.clone(),
        interface,
        addresses,
    };
    let last = hops.len();
    let mut nodes = vec![NetNs::create("near")?];
    for _ in 1..last {
        nodes.push(NetNs::create("router")?);
    }
    nodes.push(NetNs::create("far")?);
    let mut legs = Vec::new();
    for (i, hop) in hops.iter().enumerate() {
        let near = match i {
            0 => end(&nodes[0], INTERFACE, alone((NEAR_V4, NEAR_V6))),
            // Its one address is that of its other interface.
            _ => end(&nodes[i], BEHIND, Vec::new()),
        };
        let far = match i + 1 == last {
            true => end(&nodes[last], INTERFACE, alone((FAR_V4, FAR_V6))),
            false => end(&nodes[i + 1], INTERFACE, alone(router(i + 1))),
        };
        legs.push(Leg::start(&[(i + 1, hop)], last, &[near, far], options)?);
    }
    let v6 = hops
        .iter()
        .all(|h| h.up.mtu.get().min(h.down.mtu.get()) >= 1280);
    let (first4, first6) = router(1);
    inside(&nodes[0], |net| async move {
        let routes = Routes { net, v6 };
        routes.host(first4, first6, INTERFACE).await?;
        routes.default_through(first4, first6).await
    })?;
    for (i, node) in nodes.iter().enumerate().take(last).skip(1) {
        inside(node, |net| async move {
            let routes = Routes { net, v6 };
            routes.host(NEAR_V4, NEAR_V6, INTERFACE).await?;
            for (v4, v6) in (1..i).map(router) {
                routes.host(v4, v6, INTERFACE).await?;
            }
            routes.default_by(BEHIND).await?;
            setting("ipv4/ip_forward", "1")?;
            setting("ipv6/conf/all/forwarding", "1")
        })?;
    }
    inside(&nodes[last], |net| async move {
        Routes { net, v6 }.default_by(INTERFACE).await
    })?;
    Ok(Emulation { legs })
}

struct Routes {
    net: Handle,
    /// True if every link is large enough for IPv6.
    v6: bool,
}

impl Routes {
    async fn host(&self, v4: Ipv4Addr, v6: Ipv6Addr, interface: &str) -> Result<(), EmulateError> {
        let index = index(interface)?;
        let failed = || netlink(format!("route {v4} and {v6} by {interface}"));
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(v4, 32)
            .scope(RouteScope::Link)
            .output_interface(index);
        let add = self.net.route().add(route.build());
        add.execute().await.map_err(failed())?;
        if self.v6 {
            let route = RouteMessageBuilder::<Ipv6Addr>::new()
                .destination_prefix(v6, 128)
                .output_interface(index);
            let add = self.net.route().add(route.build());
            add.execute().await.map_err(failed())?;
        }
        Ok(())
    }

    async fn default_by(&self, interface: &str) -> Result<(), EmulateError> {
        let index = index(interface)?;
        let failed = || netlink(format!("route everything by {interface}"));
        let route = RouteMessageBuilder::<Ipv4Addr>::new()
            .scope(RouteScope::Link)
            .output_interface(index);
        let add = self.net.route().add(route.build());
        add.execute().await.map_err(failed())?;
        if self.v6 {
            let route = RouteMessageBuilder::<Ipv6Addr>::new().output_interface(index);
            let add = self.net.route().add(route.build());
            add.execute().await.map_err(failed())?;
        }
        Ok(())
    }

    async fn default_through(&self, v4: Ipv4Addr, v6: Ipv6Addr) -> Result<(), EmulateError> {
        let failed = || netlink(format!("route everything through {v4} and {v6}"));
        let route = RouteMessageBuilder::<Ipv4Addr>::new().gateway(v4);
        let add = self.net.route().add(route.build());
        add.execute().await.map_err(failed())?;
        if self.v6 {
            let route = RouteMessageBuilder::<Ipv6Addr>::new().gateway(v6);
            let add = self.net.route().add(route.build());
            add.execute().await.map_err(failed())?;
        }
        Ok(())
    }
}

fn index(interface: &str) -> Result<u32, EmulateError> {
    nix::net::if_::if_nametoindex(interface)
        .map_err(EmulateError::errno(format!("find {interface}")))
}
