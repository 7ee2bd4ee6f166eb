//! Hosts and services of this host's own subnet: addresses to ask, questions by multicast, and what the answers say.
//!
//! **Method.** Hosts: an empty datagram to each address of the subnet makes the kernel ask for its hardware address (ARP,
//! RFC 826). Services: multicast DNS (RFC 6762, one-shot queries of section 5.1) for the types of DNS-SD (RFC 6763,
//! section 9) and then for each type; and SSDP's search for everything (UPnP Device Architecture 1.1, section 1.3.2).
//!
//! **Source.** Chandele 2012, table 3.1.3, test 7.
//!
//! **Limits.** A host that answers neither ARP nor a question is not seen, and one behind a router never. Names and services
//! are what hosts say of themselves.

use base::text::clean;
use domain::base::iana::{Class, Rtype};
use domain::base::{Message, MessageBuilder, Name, ParsedName};
use domain::rdata::AllRecordData;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

/// Prefix of the largest part of a subnet that is asked; the kernel keeps a table entry for each address.
pub const LARGEST_PREFIX: u8 = 24;
/// Question for all types of service.
const TYPES: &str = "_services._dns-sd._udp.local";
/// Greatest numbers of hosts, of services of a host, and of types that are asked for: answers come from strangers.
const MOST_HOSTS: usize = 512;
const MOST_SERVICES: usize = 64;
const MOST_TYPES: usize = 64;
/// Longest name that is kept, in characters.
const LONGEST: usize = 120;

/// Addresses to ask around `own`, without the network's and the broadcast address, and the part of the subnet that they
/// are.
pub fn addresses(own: Ipv4Addr, prefix: u8) -> (Vec<Ipv4Addr>, u8) {
    let prefix = prefix.clamp(LARGEST_PREFIX, 32);
    let mask = u32::MAX.checked_shl(u32::from(32 - prefix)).unwrap_or(0);
    let network = u32::from(own) & mask;
    let last = network | !mask;
    // Point-to-point links have no such addresses (RFC 3021).
    let hosts = if prefix >= 31 {
        network..=last
    } else {
        network + 1..=last - 1
    };
    let others = hosts.filter(|a| *a != u32::from(own)).map(Ipv4Addr::from);
    (others.collect(), prefix)
}

/// Datagram of SSDP that searches for everything; devices answer within two seconds.
pub const SEARCH: &[u8] = b"M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nMAN: \"ssdp:discover\"\r\nMX: 2\r\nST: ssdp:all\r\n\r\n";

/// Host as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Hardware address, such as `52:54:00:12:34:56`.
    pub hardware: Option<String>,
    /// Names that it gives itself.
    pub names: BTreeSet<String>,
    /// Services that it announces, such as `_ipp._tcp` with its port.
    pub services: BTreeSet<String>,
    /// Software that it says it runs (SSDP).
    pub software: Option<String>,
}

/// Hosts so far, and the types of service that were heard of.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    /// Hosts by their addresses.
    pub hosts: BTreeMap<IpAddr, Host>,
    types: BTreeSet<String>,
    asked: BTreeSet<String>,
}

/// Text of a stranger, of bounded length.
fn kept(text: &str) -> String {
    clean(text).chars().take(LONGEST).collect()
}

impl Neighbours {
    /// Host at this address; `None` if there are too many.
    fn host(&mut self, at: IpAddr) -> Option<&mut Host> {
        if self.hosts.len() >= MOST_HOSTS && !self.hosts.contains_key(&at) {
            return None;
        }
        Some(self.hosts.entry(at).or_default())
    }

    /// Takes a line of the kernel's table of neighbours, proc_pid_net(5): complete entries of this interface.
    pub fn take_arp(&mut self, line: &str, interface: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, _, flags, hardware, _, device] = words[..] else {
            return;
        };
        let complete =
            u32::from_str_radix(flags.trim_start_matches("0x"), 16).is_ok_and(|f| f & 2 != 0);
        if let (true, true, Ok(at)) = (complete, device == interface, address.parse())
            && let Some(host) = self.host(at)
        {
            host.hardware = Some(kept(hardware));
        }
    }

    /// Next question by multicast DNS, if there is one: first for the types, then for each type once.
    pub fn question(&mut self) -> Option<Vec<u8>> {
        let name = match self.asked.contains(TYPES) {
            false => TYPES.to_owned(),
            true => self.types.difference(&self.asked).next()?.clone(),
        };
        self.asked.insert(name.clone());
        question(&name)
    }

    /// The first question again.
    pub fn first(&self) -> Option<Vec<u8>> {
        question(TYPES)
    }

    /// Takes an answer to an echo.
    pub fn take_echo(&mut self, from: IpAddr) {
        self.host(from);
    }

    /// Takes an answer by multicast DNS.
    pub fn take_mdns(&mut self, from: IpAddr, bytes: &[u8]) {
        let Ok(message) = Message::from_octets(bytes) else {
            return;
        };
        if !message.header().qr() || self.host(from).is_none() {
            return;
        }
        let records = message.iter().filter_map(Result::ok);
        for (record, _) in records.take(4 * MOST_SERVICES) {
            let owner = record.owner().to_string();
            let Ok(Some(record)) = record.to_record::<AllRecordData<_, ParsedName<_>>>() else {
                continue;
            };
            match record.data() {
                AllRecordData::Ptr(ptr) if owner == TYPES && self.types.len() < MOST_TYPES => {
                    self.types.insert(kept(&ptr.ptrdname().to_string()));
                }
                AllRecordData::Ptr(_) if owner == TYPES => {}
                AllRecordData::Ptr(_) => self.serves(from, service(&owner), None),
                AllRecordData::Srv(srv) => self.serves(from, service(&owner), Some(srv.port())),
                AllRecordData::A(a) => self.is_named(a.addr().into(), from, &owner),
                AllRecordData::Aaaa(a) => self.is_named(a.addr().into(), from, &owner),
                _ => {}
            }
        }
    }

    fn serves(&mut self, at: IpAddr, service: &str, port: Option<u16>) {
        let Some(host) = self.host(at) else { return };
        let service = kept(service);
        let whole = port.map(|port| format!("{service} (port {port})"));
        // The port says more than the bare type.
        match whole {
            Some(whole) if host.services.len() < MOST_SERVICES => {
                host.services.remove(&service);
                host.services.insert(whole);
            }
            None if host.services.len() < MOST_SERVICES => {
                let known = |s: &String| s.starts_with(&format!("{service} ("));
                if !host.services.iter().any(known) {
                    host.services.insert(service);
                }
            }
            _ => {}
        }
    }

    /// Takes a name: a host may name itself and nobody else.
    fn is_named(&mut self, address: IpAddr, from: IpAddr, owner: &str) {
        if address == from
            && let Some(host) = self.host(from)
            && host.names.len() < MOST_SERVICES
        {
            host.names.insert(kept(owner));
        }
    }

    /// Takes an answer of SSDP.
    pub fn take_ssdp(&mut self, from: IpAddr, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.lines();
        if !lines.next().is_some_and(|l| l.starts_with("HTTP/1.1 200")) {
            return;
        }
        let Some(host) = self.host(from) else { return };
        for (key, value) in lines.take(64).filter_map(|l| l.split_once(':')) {
            match &*key.trim().to_ascii_lowercase() {
                // The device's own number is no service.
                "st" if !value.trim().starts_with("uuid:")
                    && host.services.len() < MOST_SERVICES =>
                {
                    host.services.insert(kept(value.trim()));
                }
                "server" => host.software = Some(kept(value.trim())),
                _ => {}
            }
        }
    }
}

/// Type of the service in the name of an instance: `_ipp._tcp` of `Printer._ipp._tcp.local`.
fn service(name: &str) -> &str {
    let at = if name.starts_with('_') {
        Some(0)
    } else {
        name.find("._").map(|i| i + 1)
    };
    let service = &name[at.unwrap_or(0)..];
    service.strip_suffix(".local").unwrap_or(service)
}

fn question(name: &str) -> Option<Vec<u8>> {
    let name: Name<Vec<u8>> = name.parse().ok()?;
    let mut message = MessageBuilder::new_vec().question();
    // RFC 6762 section 5.4: the upper bit asks for an answer to this host alone.
    message
        .push((&name, Rtype::PTR, Class::from_int(0x8001)))
        .ok()?;
    Some(message.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::base::iana::Rcode;
    use domain::base::record::Ttl;
    use domain::rdata::{A, Ptr, Srv};

    fn name(text: &str) -> Name<Vec<u8>> {
        text.parse().expect("a name")
    }

    fn answer(
        question: &[u8],
        fill: impl FnOnce(&mut domain::base::message_builder::AnswerBuilder<Vec<u8>>),
    ) -> Vec<u8> {
        let asked = Message::from_octets(question).expect("a message");
        let mut builder = MessageBuilder::new_vec()
            .start_answer(&asked, Rcode::NOERROR)
            .expect("room");
        fill(&mut builder);
        builder.finish()
    }

    #[test]
    fn only_the_own_subnet_is_asked_and_at_most_a_part_of_256_addresses() {
        let own = Ipv4Addr::new(10, 1, 2, 3);
        let (few, prefix) = addresses(own, 29);
        assert_eq!((few.len(), prefix), (5, 29));
        assert!(!few.contains(&own) && !few.contains(&Ipv4Addr::new(10, 1, 2, 7)));
        let (many, prefix) = addresses(own, 8);
        assert_eq!((many.len(), prefix), (253, 24));
        assert!(many.iter().all(|a| a.octets()[..3] == [10, 1, 2]));
        assert_eq!(addresses(own, 31).0, [Ipv4Addr::new(10, 1, 2, 2)]);
        assert!(addresses(own, 32).0.is_empty());
    }

    #[test]
    fn types_are_asked_for_once_and_services_have_names_and_ports() {
        let mut found = Neighbours::default();
        let printer: IpAddr = [10, 1, 2, 7].into();
        let first = found.question().expect("a question");
        assert_eq!(found.question(), None);
        let types = answer(&first, |b| {
            let data = Ptr::new(name("_ipp._tcp.local"));
            b.push((name(TYPES), Class::IN, Ttl::from_secs(10), data))
                .expect("room");
        });
        found.take_mdns(printer, &types);
        let second = found.question().expect("one for the type");
        assert_eq!(found.question(), None);
        let instance = "Laser._ipp._tcp.local";
        let about = answer(&second, |b| {
            let ttl = Ttl::from_secs(10);
            let data = Ptr::new(name(instance));
            b.push((name("_ipp._tcp.local"), Class::IN, ttl, data))
                .expect("room");
            let data = Srv::new(0, 0, 631, name("laser.local"));
            b.push((name(instance), Class::IN, ttl, data))
                .expect("room");
            b.push((
                name("laser.local"),
                Class::IN,
                ttl,
                A::new([10, 1, 2, 7].into()),
            ))
            .expect("room");
            // Nobody names another host.
            b.push((
                name("router.local"),
                Class::IN,
                ttl,
                A::new([10, 1, 2, 1].into()),
            ))
            .expect("room");
        });
        found.take_mdns(printer, &about);
        let host = &found.hosts[&printer];
        assert_eq!(Vec::from_iter(&host.services), ["_ipp._tcp (port 631)"]);
        assert_eq!(Vec::from_iter(&host.names), ["laser.local"]);
        assert_eq!(found.hosts.len(), 1);
        // A question, noise, and a cut answer are no services.
        for bytes in [&second[..], b"noise", &about[..about.len() / 2]] {
            found.take_mdns(printer, bytes);
        }
        assert_eq!(found.hosts[&printer].services.len(), 1);
    }

    #[test]
    fn the_kernels_table_and_ssdp_are_read() {
        let mut found = Neighbours::default();
        let line = |ip: &str, flags: &str, device: &str| {
            format!("{ip:<17}0x1         {flags}         52:54:00:12:34:56     *        {device}")
        };
        found.take_arp(&line("10.1.2.7", "0x2", "lan0"), "lan0");
        found.take_arp(&line("10.1.2.8", "0x0", "lan0"), "lan0");
        found.take_arp(&line("10.9.2.9", "0x2", "wan0"), "lan0");
        found.take_arp(
            "IP address       HW type     Flags       HW address            Mask     Device",
            "lan0",
        );
        let media: IpAddr = [10, 1, 2, 9].into();
        let says = b"HTTP/1.1 200 OK\r\nST: urn:schemas-upnp-org:device:MediaServer:1\r\nSERVER: Box/1 UPnP/1.0\r\nUSN: uuid:1\r\n\r\n";
        found.take_ssdp(media, says);
        found.take_ssdp([10, 1, 2, 10].into(), b"NOTIFY * HTTP/1.1\r\nST: x\r\n\r\n");
        let at: Vec<String> = found.hosts.keys().map(ToString::to_string).collect();
        assert_eq!(at, ["10.1.2.7", "10.1.2.9"]);
        assert_eq!(
            found.hosts[&media].software.as_deref(),
            Some("Box/1 UPnP/1.0")
        );
    }
}
