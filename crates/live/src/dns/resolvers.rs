//! Which resolvers this host uses, and who stands behind a stub.

use base::noted::dns::Origin;
use std::net::{IpAddr, SocketAddr};

pub const PORT: u16 = 53;
/// What every program here reads (resolv.conf(5)).
const CONFIGURATION: &str = "/etc/resolv.conf";
/// What systemd-resolved asks itself (systemd-resolved.service(8)).
const BEHIND: &str = "/run/systemd/resolve/resolv.conf";
/// Of more than three the C library asks the first three (resolv.conf(5)).
const ASKED: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    pub address: SocketAddr,
    pub origin: Origin,
    /// Who runs it, or what told of it.
    pub name: String,
}

/// Resolvers that anyone may ask, each with who runs it.
pub const PUBLIC: &[(&str, &str)] = &[
    ("1.1.1.1", "Cloudflare"),
    ("8.8.8.8", "Google"),
    ("9.9.9.9", "Quad9"),
];

impl Resolver {
    /// One that a person names, with its port where that is not the usual one. `None` where it is no address.
    pub fn named(text: &str, origin: Origin) -> Option<Resolver> {
        let plain = text.trim_start_matches('[').trim_end_matches(']');
        let address = match text.parse() {
            Ok(whole) => whole,
            Err(_) => SocketAddr::new(plain.parse().ok()?, PORT),
        };
        let known = PUBLIC.iter().find(|(a, _)| *a == plain);
        Some(Resolver {
            address,
            origin,
            name: known.map_or("given", |k| k.1).to_owned(),
        })
    }

    /// As it is written in a recording: the port only where it is not the usual one.
    pub fn text(&self) -> String {
        if self.address.port() == PORT {
            self.address.ip().to_string()
        } else {
            self.address.to_string()
        }
    }
}

/// The resolvers of this host, those behind a stub included.
///
/// # Errors
/// The configuration cannot be read.
pub fn in_use() -> std::io::Result<Vec<Resolver>> {
    let configuration = std::fs::read_to_string(CONFIGURATION)?;
    // Where systemd-resolved does not run there is no such file.
    let behind = std::fs::read_to_string(BEHIND).unwrap_or_default();
    Ok(found(&configuration, &behind))
}

fn servers(text: &str) -> Vec<IpAddr> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("nameserver")).then(|| words.next())?
        })
        // A link-local address may carry the interface that it is on.
        .filter_map(|a| a.split('%').next()?.parse().ok())
        .collect()
}

fn found(configuration: &str, behind: &str) -> Vec<Resolver> {
    let mut all: Vec<Resolver> = servers(configuration)
        .into_iter()
        .take(ASKED)
        .map(|ip| {
            let (origin, name) = match ip {
                IpAddr::V4(v4) if matches!(v4.octets(), [127, 0, 0, 53 | 54]) => {
                    (Origin::Stub, "systemd-resolved, a stub on this host")
                }
                ip if ip.is_loopback() => (Origin::Stub, "a forwarder on this host"),
                _ => (Origin::InUse, CONFIGURATION),
            };
            Resolver {
                address: SocketAddr::new(ip, PORT),
                origin,
                name: name.to_owned(),
            }
        })
        .collect();
    let systemd = all.iter().any(|r| r.name.starts_with("systemd"));
    if systemd {
        for ip in servers(behind) {
            let address = SocketAddr::new(ip, PORT);
            if all.iter().all(|r| r.address != address) {
                all.push(Resolver {
                    address,
                    origin: Origin::BehindStub,
                    name: "behind systemd-resolved".to_owned(),
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(all: &[Resolver]) -> Vec<(String, Origin)> {
        all.iter().map(|r| (r.text(), r.origin)).collect()
    }

    #[test]
    fn resolvers_are_those_that_the_c_library_asks() {
        let all = found(
            "# by hand\nsearch lan\nnameserver 192.0.2.1\nnameserver fe80::1%eth0\n nameserver 192.0.2.3\nnameserver 192.0.2.4\n",
            "nameserver 192.0.2.99\n",
        );
        let expected = ["192.0.2.1", "fe80::1", "192.0.2.3"];
        assert_eq!(
            origins(&all),
            expected.map(|a| (a.to_owned(), Origin::InUse)).to_vec()
        );
    }

    #[test]
    fn a_stub_is_called_one_and_those_behind_it_are_found() {
        let all = found(
            "nameserver 127.0.0.53\noptions edns0 trust-ad\n",
            "nameserver 192.0.2.1\nnameserver 192.0.2.1\n",
        );
        let expected = [
            ("127.0.0.53".to_owned(), Origin::Stub),
            ("192.0.2.1".to_owned(), Origin::BehindStub),
        ];
        assert_eq!(origins(&all), expected);
        assert!(all[0].name.contains("systemd-resolved"));
        // Another forwarder says nothing of whom it asks.
        let all = found("nameserver 127.0.0.1\n", "nameserver 192.0.2.1\n");
        assert_eq!(origins(&all), [("127.0.0.1".to_owned(), Origin::Stub)]);
    }

    #[test]
    fn a_person_names_a_resolver_with_or_without_its_port() {
        let read = |text| Resolver::named(text, Origin::Given).map(|r| (r.text(), r.name));
        assert_eq!(
            read("9.9.9.9"),
            Some(("9.9.9.9".to_owned(), "Quad9".to_owned()))
        );
        assert_eq!(
            read("[2001:db8::1]:5353"),
            Some(("[2001:db8::1]:5353".to_owned(), "given".to_owned()))
        );
        assert_eq!(
            read("2001:db8::1").map(|r| r.0),
            Some("2001:db8::1".to_owned())
        );
        assert_eq!(read("far.example"), None);
    }
}
