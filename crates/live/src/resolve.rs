//! Addresses of servers, from their names as a person writes them.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    #[error("cannot find \"{name}\": {source}. Check the spelling, or give the address itself")]
    Unknown {
        name: String,
        source: std::io::Error,
    },
    #[error("\"{name}\" has no IPv{version} address; it has {has}. Leave out -{version}")]
    NoSuchFamily {
        name: String,
        version: u8,
        has: String,
    },
    #[error("\"{name}\": the port after the colon must be a number from 1 to 65535")]
    BadPort { name: String },
}

/// Address of `far.example`, `far.example:7000`, `192.0.2.1`, `2001:db8::1` or `[2001:db8::1]:7000`.
///
/// # Errors
/// An unknown name, or one without an address of the requested family.
pub fn server(
    name: &str,
    default_port: u16,
    only_v4: bool,
    only_v6: bool,
) -> Result<SocketAddr, ResolveError> {
    host(name, default_port, only_v4, only_v6).map(|(chosen, _)| chosen)
}

/// The same address, and all addresses that the name has.
///
/// # Errors
/// Errors of [`server`].
pub fn host(
    name: &str,
    default_port: u16,
    only_v4: bool,
    only_v6: bool,
) -> Result<(SocketAddr, Vec<IpAddr>), ResolveError> {
    let (host, port) = split(name, default_port)?;
    let found: Vec<SocketAddr> = (host.as_str(), port)
        .to_socket_addrs()
        .map_err(|source| ResolveError::Unknown {
            name: name.into(),
            source,
        })?
        .collect();
    let wanted = |a: &&SocketAddr| !(only_v4 && a.is_ipv6() || only_v6 && a.is_ipv4());
    let chosen = found
        .iter()
        .find(wanted)
        .copied()
        .ok_or_else(|| ResolveError::NoSuchFamily {
            name: name.into(),
            version: if only_v4 { 4 } else { 6 },
            has: found
                .iter()
                .map(|a| a.ip().to_string())
                .collect::<Vec<_>>()
                .join(", "),
        })?;
    Ok((chosen, found.iter().map(SocketAddr::ip).collect()))
}

/// Name or address in the text of a server, without its port.
pub fn name(server: &str) -> String {
    split(server, 1).map_or_else(|_| server.to_owned(), |(host, _)| host)
}

fn split(name: &str, default_port: u16) -> Result<(String, u16), ResolveError> {
    let port = |text: &str| {
        text.parse()
            .ok()
            .filter(|p| *p > 0)
            .ok_or_else(|| ResolveError::BadPort { name: name.into() })
    };
    if let Some(rest) = name.strip_prefix('[') {
        return match rest.split_once(']') {
            Some((host, "")) => Ok((host.into(), default_port)),
            Some((host, tail)) if tail.starts_with(':') => Ok((host.into(), port(&tail[1..])?)),
            _ => Err(ResolveError::BadPort { name: name.into() }),
        };
    }
    match name.split_once(':') {
        // More than one colon without brackets is an IPv6 address.
        Some((_, rest)) if rest.contains(':') => Ok((name.into(), default_port)),
        Some((host, tail)) => Ok((host.into(), port(tail)?)),
        None => Ok((name.into(), default_port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_ways_people_write_a_server() {
        let read = |s: &str| split(s, 7117).map_err(|e| e.to_string());
        assert_eq!(read("far.example"), Ok(("far.example".into(), 7117)));
        assert_eq!(read("far.example:99"), Ok(("far.example".into(), 99)));
        assert_eq!(read("2001:db8::1"), Ok(("2001:db8::1".into(), 7117)));
        assert_eq!(read("[2001:db8::1]:99"), Ok(("2001:db8::1".into(), 99)));
        assert!(read("far.example:http").unwrap_err().contains("1 to 65535"));
    }

    #[test]
    fn says_which_family_a_name_lacks() {
        let e = server("127.0.0.1", 7117, false, true).unwrap_err();
        assert!(
            e.to_string().contains("no IPv6 address; it has 127.0.0.1"),
            "{e}"
        );
    }
}
