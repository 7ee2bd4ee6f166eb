//! Set-up of an emulation: three namespaces, two veth pairs between them, addresses, and the kernel settings that keep
//! packets on the wire unchanged and an idle wire silent.
//!
//! ```text
//!   near                    (emulator's own)                     far
//!   link0 10.77.0.1  ─veth─  near ═ emulator ═ far  ─veth─  link0 10.77.0.2
//!         fd77::1                                                  fd77::2
//! ```
//! Both ends called `link0` have the same hardware address and resolve none: each frame is addressed
//! to its sender's own address, which is the receiver's too. So a frame crosses unchanged, whatever
//! IP address it is for, and no ARP or neighbour discovery ever waits in the queue under test. At the
//! emulator's ends it is somebody else's frame, which the kernel there leaves alone.

use super::{EmulateError, NetNs};
use rtnetlink::{Handle, LinkUnspec, LinkVeth};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub const NEAR_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub const FAR_V4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
pub const NEAR_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
pub const FAR_V6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);
/// Interface of near and of far.
pub const INTERFACE: &str = "link0";

/// Local unicast address; the last bytes spell "TB".
const HARDWARE: [u8; 6] = [0x02, 0, 0, 0, 0x54, 0x42];

/// Kernel settings of near and far. The key is below /proc/sys/net.
const END_SETTINGS: &[(&str, &str)] = &[
    ("ipv6/conf/all/disable_ipv6", "0"),
    ("ipv6/conf/default/disable_ipv6", "0"),
    // An idle link is silent: no duplicate detection, no link-local address, nobody asked for a router.
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    ("ipv6/conf/default/addr_gen_mode", "1"),
    ("ipv6/conf/default/router_solicitations", "0"),
    // What one connection learned of the path must not help the next one.
    ("ipv4/tcp_no_metrics_save", "1"),
    // Enough for a large window over a fast long path with a deep queue; memory is used only as it fills.
    ("ipv4/tcp_rmem", "4096 131072 134217728"),
    ("ipv4/tcp_wmem", "4096 131072 134217728"),
];

/// End of a veth pair, with its settings.
pub(super) struct End {
    pub ns: NetNs,
    pub interface: &'static str,
    /// Addresses with the length of their prefixes.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl End {
    /// Near and far end of a link without routers.
    pub(super) fn single(
        name: &'static str,
        v4: Ipv4Addr,
        v6: Ipv6Addr,
    ) -> Result<End, EmulateError> {
        Ok(End {
            ns: NetNs::create(name)?,
            interface: INTERFACE,
            addresses: vec![(v4.into(), 24), (v6.into(), 64)],
        })
    }
}

#[derive(Debug)]
pub(super) struct Bench {
    pub near: NetNs,
    pub middle: NetNs,
    pub far: NetNs,
    /// Names of the interfaces of near and far.
    pub interfaces: [&'static str; 2],
}

impl Bench {
    pub(super) fn build(near: &End, far: &End, mtu: u32) -> Result<Bench, EmulateError> {
        let bench = Bench {
            near: near.ns.clone(),
            middle: NetNs::create("middle")?,
            far: far.ns.clone(),
            interfaces: [near.interface, far.interface],
        };
        inside(&bench.middle, |_| async {
            setting("ipv6/conf/all/disable_ipv6", "1")?;
            setting("ipv6/conf/default/disable_ipv6", "1")
        })?;
        bench.end(near, "near", mtu)?;
        bench.end(far, "far", mtu)?;
        inside(&bench.middle, |net| async move {
            for name in ["near", "far"] {
                let up = LinkUnspec::new_with_name(name)
                    .mtu(mtu)
                    .arp(false)
                    .up()
                    .build();
                net.link().set(up).execute().await.map_err(netlink(format!(
                    "set up the emulator's interface \"{name}\""
                )))?;
            }
            Ok(())
        })?;
        Ok(bench)
    }

    /// Creates one end: its veth pair, of which the other half goes to the middle under the name `other`.
    fn end(&self, end: &End, other: &'static str, mtu: u32) -> Result<(), EmulateError> {
        let (name, middle, interface) = (end.ns.name(), self.middle.raw(), end.interface);
        inside(&end.ns, |net| async move {
            for (key, value) in END_SETTINGS {
                setting(key, value)?;
            }
            // So that `ping` works without privileges; only the user's own group is known in a user namespace.
            // A comfort: a container that forbids it still carries packets.
            let gid = nix::unistd::getegid();
            let _ = setting("ipv4/ping_group_range", &format!("{gid}\t{gid}"));
            let lo = LinkUnspec::new_with_name("lo").up().build();
            net.link()
                .set(lo)
                .execute()
                .await
                .map_err(netlink(format!("set up lo in \"{name}\"")))?;
            let pair = LinkVeth::new(interface, other)
                .address(HARDWARE.to_vec())
                .mtu(mtu)
                .arp(false)
                .build();
            net.link()
                .add(pair)
                .execute()
                .await
                .map_err(netlink(format!(
                    "make a veth pair in \"{name}\" (the kernel needs CONFIG_VETH)"
                )))?;
            let give = LinkUnspec::new_with_name(other).setns_by_fd(middle).build();
            net.link()
                .set(give)
                .execute()
                .await
                .map_err(netlink(format!(
                    "hand one end of the veth pair of \"{name}\" to the emulator"
                )))?;
            super::offload::switch_off(interface)?;
            let index = nix::net::if_::if_nametoindex(interface).map_err(EmulateError::errno(
                format!("find {interface} in \"{name}\""),
            ))?;
            for &(address, length) in &end.addresses {
                // RFC 8200 section 5: a link of IPv6 carries 1280 bytes. The kernel refuses it on less.
                if address.is_ipv6() && mtu < 1280 {
                    continue;
                }
                net.address()
                    .add(index, address, length)
                    .execute()
                    .await
                    .map_err(netlink(format!(
                        "give {interface} in \"{name}\" the address {address}/{length}"
                    )))?;
            }
            let up = LinkUnspec::new_with_name(interface).arp(false).up().build();
            net.link()
                .set(up)
                .execute()
                .await
                .map_err(netlink(format!("set up {interface} in \"{name}\"")))
        })
    }
}

/// Packets that the kernel's interface of that name in `ns` could not hand to its peer: a fault of the host, not of the
/// link. Null if the kernel does not say.
pub(super) fn interface_losses(ns: &NetNs, interface: &str) -> Result<Option<u64>, EmulateError> {
    let table = ns
        .run(|| fs::read_to_string("/proc/thread-self/net/dev"))?
        .map_err(EmulateError::kernel(format!(
            "read the interface counters of \"{}\"",
            ns.name()
        )))?;
    Ok(losses_in(&table, interface))
}

/// Sum of dropped packets. The table is /proc/net/dev: 8 columns of receiving, then 8 of sending, of which the fourth
/// counts drops.
fn losses_in(table: &str, interface: &str) -> Option<u64> {
    let (_, counters) = table
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == interface)?;
    counters.split_whitespace().nth(11)?.parse().ok()
}

/// Runs one piece of netlink work on a thread of its own inside `ns`.
pub(super) fn inside<T, F>(
    ns: &NetNs,
    work: impl FnOnce(Handle) -> F + Send,
) -> Result<T, EmulateError>
where
    T: Send,
    F: Future<Output = Result<T, EmulateError>>,
{
    ns.run(|| here(work))?
}

/// Runs one piece of netlink work in the calling thread's network namespace.
pub(super) fn here<T, F>(work: impl FnOnce(Handle) -> F) -> Result<T, EmulateError>
where
    F: Future<Output = Result<T, EmulateError>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(EmulateError::kernel(
            "start the runtime that speaks netlink",
        ))?;
    runtime.block_on(async {
        let (connection, handle, _) =
            rtnetlink::new_connection().map_err(EmulateError::kernel("open netlink"))?;
        tokio::spawn(connection);
        work(handle).await
    })
}

pub(super) fn netlink(operation: String) -> impl FnOnce(rtnetlink::Error) -> EmulateError {
    move |e| {
        let source = match &e {
            rtnetlink::Error::NetlinkError(message) => message.to_io(),
            other => io::Error::other(other.to_string()),
        };
        EmulateError::Kernel { operation, source }
    }
}

/// Writes a setting of the calling thread's network namespace. A container may forbid writing a setting that has the
/// wanted value already.
pub(super) fn setting(key: &str, value: &str) -> Result<(), EmulateError> {
    let path = format!("/proc/sys/net/{key}");
    fs::write(&path, value)
        .or_else(|e| {
            let is: Vec<String> = fs::read_to_string(&path)?
                .split_whitespace()
                .map(str::to_string)
                .collect();
            if is.iter().map(String::as_str).eq(value.split_whitespace()) {
                Ok(())
            } else {
                Err(e)
            }
        })
        .map_err(EmulateError::kernel(format!("set {path} to \"{value}\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_the_drops_of_sending_on_the_interface_asked_for() {
        let table = "Inter-|   Receive                                                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
             lo:       9       9    9    9    0     0          0         0        9       9    9    9    0     0       0          0\n \
             link0:  1000      10    0    3    0     0          0         0     2000      20    0    4    0     0       0          0\n";
        assert_eq!(losses_in(table, "link0"), Some(4));
        assert_eq!(losses_in(table, "link"), None);
    }
}
