//! State of this host's Wi-Fi, by generic netlink; [`measure::nl80211`] reads the messages.
//!
//! The kernel answers each question at once, and needs no rights for these.

use crate::load::Peer;
use experiment::ask;
use measure::nl80211::{self, Message, attribute, command};
use rtnetlink::sys::{Socket, SocketAddr};
use std::io;

/// Protocol of generic netlink (linux/netlink.h).
const NETLINK_GENERIC: isize = 16;
/// Datagrams of a list at most: one has up to a few dozen entries.
const MOST: usize = 64;
const NONE: &str = "no Wi-Fi interface: this host has none, or the kernel no nl80211. Run it on the host with the Wi-Fi, not behind it";

/// Connection to the kernel, and the interface that is watched.
#[derive(Default)]
pub(crate) struct Wifi(Option<Open>);

struct Open {
    kernel: Kernel,
    interface: nl80211::Interface,
}

struct Kernel {
    socket: Socket,
    family: u16,
}

impl Wifi {
    /// State of the Wi-Fi interface of this name; by default of the one that leads to the server, or of the only one.
    ///
    /// # Errors
    /// There is none, or it is not connected to an access point.
    pub fn ask(&mut self, name: Option<&str>, peer: &Peer) -> Result<ask::Wifi, String> {
        let open = match &mut self.0 {
            Some(open) => open,
            none => none.insert(Open::new(name, peer)?),
        };
        open.state()
    }
}

impl Open {
    fn new(name: Option<&str>, peer: &Peer) -> Result<Open, String> {
        let kernel = Kernel::open().map_err(|_| NONE.to_owned())?;
        let found = kernel
            .list(command::GET_INTERFACE, None)
            .map_err(|e| format!("the kernel does not list Wi-Fi interfaces: {e}"))?;
        let all = found.iter().filter_map(|a| nl80211::interface(a));
        let clients: Vec<nl80211::Interface> = all.filter(|i| i.is_client).collect();
        let leads = peer.access.outlet.towards(peer.server).ok();
        let wanted = name.map(str::to_owned).or(leads);
        let its = clients.iter().find(|i| Some(&i.name) == wanted.as_ref());
        match (its, name, &clients[..]) {
            (Some(its), _, _) => Ok(Open {
                kernel,
                interface: its.clone(),
            }),
            (None, _, []) => Err(NONE.to_owned()),
            (None, Some(name), _) => Err(format!("{name} is no Wi-Fi interface")),
            (None, None, all) => {
                let names: Vec<&str> = all.iter().map(|i| &*i.name).collect();
                Err(format!(
                    "the route to the server leads through {}, and Wi-Fi is {}: choose it with --interface {}",
                    wanted.unwrap_or_default(),
                    names.join(", "),
                    names[0]
                ))
            }
        }
    }

    fn state(&self) -> Result<ask::Wifi, String> {
        let index = Some(self.interface.index);
        let name = &self.interface.name;
        let list = |command| {
            let found = self.kernel.list(command, index);
            found.map_err(|e| format!("the kernel does not tell the state of {name}: {e}"))
        };
        let stations = list(command::GET_STATION)?;
        let station = stations.iter().find_map(|a| nl80211::station(a));
        let station =
            station.ok_or_else(|| format!("{name} is not connected to an access point"))?;
        // Drivers may keep these to themselves.
        let surveys = list(command::GET_SURVEY).unwrap_or_default();
        let mut surveys = surveys.iter().filter_map(|a| nl80211::survey(a));
        let survey = surveys.rfind(|s| s.is_used);
        let saves = self.kernel.one(command::GET_POWER_SAVE, index);
        let now = self.kernel.one(command::GET_INTERFACE, index);
        let now = now.ok().and_then(|a| nl80211::interface(&a));
        Ok(ask::Wifi {
            interface: name.clone(),
            station,
            mhz: now.and_then(|i| i.mhz).or(survey.map(|s| s.mhz)),
            survey,
            power_save: saves.ok().and_then(|a| nl80211::power_save(&a)),
        })
    }
}

/// Access points of all Wi-Fi interfaces of this host.
pub struct Stations(Kernel);

impl Stations {
    /// # Errors
    /// The kernel has no Wi-Fi.
    pub fn open() -> io::Result<Stations> {
        Ok(Stations(Kernel::open()?))
    }

    /// Each interface that is connected to an access point, by name. Interfaces that the kernel does not tell about are
    /// left out.
    pub fn read(&self) -> Vec<(String, nl80211::Station)> {
        let listed = self.0.list(command::GET_INTERFACE, None);
        let listed = listed.unwrap_or_default();
        let all = listed.iter().filter_map(|a| nl80211::interface(a));
        let station = |i: nl80211::Interface| {
            let found = self.0.list(command::GET_STATION, Some(i.index)).ok()?;
            Some((i.name, found.iter().find_map(|a| nl80211::station(a))?))
        };
        all.filter(|i| i.is_client).filter_map(station).collect()
    }
}

impl Kernel {
    /// # Errors
    /// The kernel has no generic netlink, or no family of Wi-Fi.
    fn open() -> io::Result<Kernel> {
        let socket = Socket::new(NETLINK_GENERIC)?;
        // Connected, it hears the kernel alone.
        socket.connect(&SocketAddr::new(0, 0))?;
        let mut kernel = Kernel { socket, family: 0 };
        let answer = kernel.ask(&nl80211::family_request(), false)?;
        let family = answer.first().and_then(|a| nl80211::family(a));
        kernel.family = family.ok_or(io::ErrorKind::NotFound)?;
        Ok(kernel)
    }

    fn list(&self, command: u8, index: Option<u32>) -> io::Result<Vec<Vec<u8>>> {
        self.ask(&self.request(command, index, true), true)
    }

    fn one(&self, command: u8, index: Option<u32>) -> io::Result<Vec<u8>> {
        let mut all = self.ask(&self.request(command, index, false), false)?;
        all.pop().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn request(&self, command: u8, index: Option<u32>, is_list: bool) -> Vec<u8> {
        let mut attributes = Vec::new();
        if let Some(index) = index {
            nl80211::put(&mut attributes, attribute::IFINDEX, &index.to_ne_bytes());
        }
        nl80211::request(self.family, command, is_list, &attributes)
    }

    /// Asks, and collects the attributes of all answers.
    fn ask(&self, request: &[u8], is_list: bool) -> io::Result<Vec<Vec<u8>>> {
        self.socket.send(request, 0)?;
        let mut all = Vec::new();
        for _ in 0..MOST {
            let (bytes, _) = self.socket.recv_from_full()?;
            for message in nl80211::messages(&bytes) {
                match message {
                    Message::Attributes(attributes) => all.push(attributes.to_vec()),
                    Message::Error(0) | Message::Done => return Ok(all),
                    Message::Error(error) => {
                        return Err(io::Error::from_raw_os_error(error.saturating_neg()));
                    }
                }
            }
            if !is_list {
                break;
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers_for_wifi_or_says_that_it_has_none() {
        match Kernel::open() {
            Ok(kernel) => {
                let listed = kernel.list(command::GET_INTERFACE, None);
                assert!(listed.is_ok(), "{listed:?}");
            }
            Err(e) => assert_eq!(e.kind(), io::ErrorKind::NotFound, "{e}"),
        }
    }
}
