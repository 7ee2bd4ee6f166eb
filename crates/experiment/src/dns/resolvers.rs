//! The resolvers to ask: those that the user names, or those that this host uses, with the upstream resolvers of a stub.

use super::Params;
use crate::ask::{Configured, Trouble};
use crate::host::Stopped;
use base::noted::dns::Origin;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

const PORT: u16 = 53;
/// Name of the configuration that every program reads (resolv.conf(5)).
const CONFIGURATION: &str = "/etc/resolv.conf";
/// Number of resolvers that the C library asks (resolv.conf(5)).
const ASKED: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolver {
    pub address: SocketAddr,
    pub origin: Origin,
    /// Its operator, or the source that lists it.
    pub name: String,
}

/// IPv4 addresses of a.root-servers.net to m.root-servers.net.
///
/// Source: the root hints file of IANA, <https://www.iana.org/domains/root/files>, as a resolver begins with (RFC 9609,
/// Initializing a DNS Resolver with Priming Queries, section 2).
const ROOTS: [[u8; 4]; 13] = [
    [198, 41, 0, 4],
    [170, 247, 170, 2],
    [192, 33, 4, 12],
    [199, 7, 91, 13],
    [192, 203, 230, 10],
    [192, 5, 5, 241],
    [192, 112, 36, 4],
    [198, 97, 190, 53],
    [192, 36, 148, 17],
    [192, 58, 128, 30],
    [193, 0, 14, 129],
    [199, 7, 83, 42],
    [202, 12, 27, 33],
];

/// Resolvers that anyone may ask, each with its operator.
const PUBLIC: &[(&str, &str)] = &[
    ("1.1.1.1", "Cloudflare"),
    ("8.8.8.8", "Google"),
    ("9.9.9.9", "Quad9"),
];

impl Resolver {
    /// Resolver that a person names, with its port unless that is 53. Returns null if the text is no address.
    fn named(text: &str, origin: Origin) -> Option<Resolver> {
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

    /// Address as recordings write it, with its port unless that is 53.
    pub fn text(&self) -> String {
        if self.address.port() == PORT {
            self.address.ip().to_string()
        } else {
            self.address.to_string()
        }
    }
}

/// The resolvers that a run asks, each once. `configured` is this host's own configuration, if the user names none.
pub(super) fn chosen(
    params: &Params,
    configured: Option<Result<Configured, Trouble>>,
) -> Result<Vec<Resolver>, Stopped> {
    let mut resolvers = named(&params.resolvers, Origin::Given);
    if let Some(configured) = configured {
        let configured = configured.map_err(|e| Stopped::Unusable {
            why: format!(
                "cannot read {CONFIGURATION}, where this host's resolvers stand: {}. Name them with dns:resolvers=ADDRESS;ADDRESS",
                e.text
            ),
        })?;
        resolvers.extend(found(&configured.resolv_conf, &configured.behind));
    }
    if resolvers.is_empty() {
        return Err(Stopped::Unusable {
            why: format!("{CONFIGURATION} names no resolver: give one with dns:resolvers=ADDRESS"),
        });
    }
    resolvers.extend(named(&params.others, Origin::Alternative));
    if params.public {
        let known = PUBLIC.iter().map(|(address, _)| *address);
        resolvers.extend(known.filter_map(|a| Resolver::named(a, Origin::Alternative)));
    }
    // A resolver in use is no alternative to itself.
    let mut once: Vec<Resolver> = Vec::new();
    for r in resolvers {
        if once.iter().all(|o| o.address != r.address) {
            once.push(r);
        }
    }
    Ok(once)
}

/// Root servers that the user names, or the thirteen if the user wants them asked.
pub(super) fn root_servers(params: &Params) -> Vec<Resolver> {
    let roots = named(&params.rootservers, Origin::Given);
    if !roots.is_empty() || !params.roots {
        return roots;
    }
    let letters = b'a'..=b'm';
    let thirteen = ROOTS.iter().zip(letters);
    thirteen
        .map(|(address, letter)| Resolver {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::from(*address)), PORT),
            origin: Origin::Given,
            name: format!("{}.root-servers.net", char::from(letter)),
        })
        .collect()
}

fn named(texts: &[Arc<str>], origin: Origin) -> Vec<Resolver> {
    let texts = texts.iter();
    texts.filter_map(|t| Resolver::named(t, origin)).collect()
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
