//! Settings that a probe may change at a near end of ours: TCP's initial window, and segments of many packets. They
//! concern the calling thread's whole network namespace, so only namespaces of an [`Emulation`](super::Emulation) are
//! the place for them.

use super::EmulateError;
use super::offload;
use super::wire::{here, netlink};
use crate::outlet::Outlet;
use crate::path;
use crate::traffic::interface_towards;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMetric, RouteScope};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Sets the initial window of connections to that address, in packets (`ip route replace … initcwnd`).
///
/// # Errors
/// If the kernel refuses the route.
pub fn set_initial_window(to: IpAddr, packets: u32) -> Result<(), EmulateError> {
    let gateway = path::towards(to, &Outlet::default()).map(|g| g.address);
    let interface =
        interface_towards(SocketAddr::new(to, 1)).map_err(|e| EmulateError::Kernel {
            operation: format!("find the interface towards {to}"),
            source: std::io::Error::other(e.to_string()),
        })?;
    let index = nix::net::if_::if_nametoindex(interface.as_str())
        .map_err(EmulateError::errno(format!("find {interface}")))?;
    let metric = RouteAttribute::Metrics(vec![RouteMetric::InitCwnd(packets)]);
    let mut route = match (to.to_canonical(), gateway) {
        (IpAddr::V4(to), Some(IpAddr::V4(gateway))) => RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(to, 32)
            .gateway(gateway)
            .build(),
        (IpAddr::V4(to), _) => RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(to, 32)
            .scope(RouteScope::Link)
            .output_interface(index)
            .build(),
        (IpAddr::V6(to), Some(IpAddr::V6(gateway))) => RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(to, 128)
            .gateway(gateway)
            .build(),
        (IpAddr::V6(to), _) => RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(to, 128)
            .output_interface(index)
            .build(),
    };
    route.attributes.push(metric);
    let failed = netlink(format!("route {to} with an initial window of {packets}"));
    here(|net| async move {
        net.route()
            .add(route)
            .replace()
            .execute()
            .await
            .map_err(failed)
    })
}

/// Switches segments of many packets, which the kernel cuts just before the interface (GSO), on or off.
///
/// # Errors
/// If the driver rejects the ethtool request.
pub fn set_segmentation(interface: &str, on: bool) -> Result<(), EmulateError> {
    offload::set_generic(interface, on)
}
