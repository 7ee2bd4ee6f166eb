//! Targets that can be monitored.

use base::Duration;
use measure::{control, dns};
use rustls_pki_types::ServerName;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Way to probe a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum TargetKind {
    /// Server (`tailback serve`) at this name, with port if it is not the usual one.
    Server(String),
    /// ICMP echo.
    Icmp(String),
    /// Packet of STAMP (RFC 8762) to a reflector.
    Stamp { host: String, port: u16 },
    /// Time to set up a TCP connection.
    Tcp { host: String, port: u16 },
    /// GET on a fresh connection: time from its start until the first byte.
    Http {
        host: String,
        port: u16,
        path: String,
    },
    /// GET inside TLS, with the time of its handshake.
    Https {
        host: String,
        port: u16,
        path: String,
    },
    /// Query for the address of `name`.
    Dns { name: String, server: String },
}

/// Target of a monitor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Way to probe it.
    pub kind: TargetKind,
    /// Interval between its probes.
    pub interval: Duration,
    /// Interface that its sockets are bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Place in the tree of targets: names of groups, the outer ones first, with strokes between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// Reason why a text is no target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error(
        "\"{text}\" is no target: {why}. Known: SERVER, icmp:HOST, stamp:HOST, tcp:HOST:PORT, http://HOST/PATH, https://HOST/PATH, dns:NAME@SERVER, each with ,TIME for an interval of its own, and GROUP= or GROUP/GROUP= before it for its place in the tree of targets"
    )]
    Unreadable { text: String, why: &'static str },
    #[error("{interval} between probes of {target}: it must be from {least} to 1 h")]
    Interval {
        target: String,
        interval: Duration,
        least: Duration,
    },
}

/// Port of a reflector, unless another one is given.
const STAMP_PORT: u16 = 862;
const LONGEST: Duration = Duration::from_secs(3600);
/// Most names of groups, one inside the other, and the longest one in characters.
const DEEPEST: usize = 8;
const LONGEST_NAME: usize = 40;
/// Default interval for other people's servers: once a second.
const POLITE: Duration = Duration::from_secs(1);

impl Target {
    /// Reads a target as a person writes it, probed each `interval` unless it says another one.
    ///
    /// # Errors
    /// A target that cannot be read, or an interval that cannot be kept.
    pub fn parse(text: &str, interval: Duration) -> Result<Target, TargetError> {
        let unreadable = |why| TargetError::Unreadable {
            text: text.into(),
            why,
        };
        let (group, text) = grouped(text).map_err(unreadable)?;
        let (what, own) = match text.rsplit_once(',') {
            Some((what, time)) => {
                let time = Duration::from_str(time.trim());
                (
                    what,
                    Some(
                        time.map_err(|_| unreadable("after the comma must be a time such as 5 s"))?,
                    ),
                )
            }
            None => (text, None),
        };
        let kind = kind(what).map_err(unreadable)?;
        let least = match kind {
            TargetKind::Server(_) | TargetKind::Icmp(_) | TargetKind::Stamp { .. } => {
                Duration::from_millis(1)
            }
            _ => Duration::from_millis(10),
        };
        let usual = match kind {
            TargetKind::Server(_) | TargetKind::Icmp(_) | TargetKind::Stamp { .. } => interval,
            _ => interval.max(POLITE),
        };
        let target = Target {
            kind,
            interval: own.unwrap_or(usual),
            interface: None,
            group,
        };
        if target.interval < least || target.interval > LONGEST {
            return Err(TargetError::Interval {
                target: target.name(),
                interval: target.interval,
                least,
            });
        }
        Ok(target)
    }

    /// Text of a target without its group.
    pub fn ungrouped(text: &str) -> &str {
        grouped(text).map_or(text, |(_, rest)| rest)
    }

    /// Name in the recording, with its interface after a percent sign: our own server is `udp`, as in `tailback test`.
    pub fn name(&self) -> String {
        let name = self.kind_name();
        match &self.interface {
            Some(interface) => format!("{name}%{interface}"),
            None => name,
        }
    }

    fn kind_name(&self) -> String {
        match &self.kind {
            TargetKind::Server(_) => "udp".into(),
            TargetKind::Icmp(host) => format!("icmp:{host}"),
            TargetKind::Stamp { host, port } => match *port {
                STAMP_PORT => format!("stamp:{host}"),
                port => format!("stamp:{host}:{port}"),
            },
            TargetKind::Tcp { host, port } => format!("tcp:{host}:{port}"),
            TargetKind::Http { host, port, path } => match port {
                80 => format!("http://{host}{path}"),
                port => format!("http://{host}:{port}{path}"),
            },
            TargetKind::Https { host, port, path } => match port {
                443 => format!("https://{host}{path}"),
                port => format!("https://{host}:{port}{path}"),
            },
            TargetKind::Dns { name, server } => format!("dns:{name}@{server}"),
        }
    }

    /// Host name to look up, and its port.
    pub fn host(&self) -> (&str, u16) {
        match &self.kind {
            TargetKind::Server(host) => (host, control::DEFAULT_PORT),
            TargetKind::Icmp(host) => (host, 1),
            TargetKind::Stamp { host, port }
            | TargetKind::Tcp { host, port }
            | TargetKind::Http { host, port, .. }
            | TargetKind::Https { host, port, .. } => (host, *port),
            TargetKind::Dns { server, .. } => (server, 53),
        }
    }
}

/// Group of a target, which stands before an equals sign, and the rest. An address may hold such a sign itself.
fn grouped(text: &str) -> Result<(Option<String>, &str), &'static str> {
    let Some((group, rest)) = text
        .split_once('=')
        .filter(|(group, _)| !group.contains([':', '?', '@', ',']))
    else {
        return Ok((None, text));
    };
    let names: Vec<&str> = group.split('/').map(str::trim).collect();
    let is_name = |name: &&str| {
        !name.is_empty()
            && name.chars().count() <= LONGEST_NAME
            && !name.chars().any(char::is_control)
    };
    match names.len() <= DEEPEST && names.iter().all(is_name) {
        true => Ok((Some(names.join("/")), rest.trim_start())),
        false => {
            Err("a group is one to eight names of up to 40 characters, with strokes between them")
        }
    }
}

/// Host and port of `HOST:PORT`, or the fault.
fn host_port(rest: &str, default: Option<u16>) -> Result<(String, u16), &'static str> {
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') || host.ends_with(']') => {
            let port = port.parse().ok().filter(|p| *p > 0);
            (
                host,
                port.ok_or("its port must be a number from 1 to 65535")?,
            )
        }
        _ => (rest, default.ok_or("its port is missing")?),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err("its host is missing");
    }
    Ok((host.into(), port))
}

/// Host, port and path of a web address without its scheme, or the fault.
fn address(rest: &str, port: u16) -> Result<(String, u16, String), &'static str> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = host_port(authority, Some(port))?;
    if path.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("a path has no blanks: write them as %20");
    }
    Ok((host, port, format!("/{path}")))
}

/// Kind of target, or the fault of the text.
fn kind(what: &str) -> Result<TargetKind, &'static str> {
    Ok(if let Some(host) = what.strip_prefix("icmp:") {
        TargetKind::Icmp(host_port(host, Some(1)).map(|_| host.to_owned())?)
    } else if let Some(rest) = what.strip_prefix("stamp:") {
        let (host, port) = host_port(rest, Some(STAMP_PORT))?;
        TargetKind::Stamp { host, port }
    } else if let Some(rest) = what.strip_prefix("tcp:") {
        let (host, port) = host_port(rest, None)?;
        TargetKind::Tcp { host, port }
    } else if let Some(rest) = what.strip_prefix("http://") {
        let (host, port, path) = address(rest, 80)?;
        TargetKind::Http { host, port, path }
    } else if let Some(rest) = what.strip_prefix("https://") {
        let (host, port, path) = address(rest, 443)?;
        if ServerName::try_from(&*host).is_err() {
            return Err("no certificate can be for such a host");
        }
        TargetKind::Https { host, port, path }
    } else if let Some(rest) = what.strip_prefix("dns:") {
        let (name, server) = rest.rsplit_once('@').ok_or("write dns:NAME@SERVER")?;
        if dns::encode(0, name).is_none() {
            return Err("no such name can be asked for");
        }
        let (name, server) = (name.to_owned(), server.to_owned());
        TargetKind::Dns { name, server }
    } else if what.is_empty() {
        return Err("it is empty");
    } else {
        TargetKind::Server(what.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Target, String> {
        Target::parse(text, Duration::from_millis(100)).map_err(|e| e.to_string())
    }

    #[test]
    fn targets_are_read_as_people_write_them() {
        for (text, name, ms) in [
            ("far.example", "udp", 100),
            ("far.example:7000,1 s", "udp", 1000),
            ("fd77::2", "udp", 100),
            ("icmp:192.0.2.1", "icmp:192.0.2.1", 100),
            ("icmp:far,1ms", "icmp:far", 1),
            ("stamp:far,1 s", "stamp:far", 1000),
            ("stamp:[fd77::2]:8620", "stamp:fd77::2:8620", 100),
            ("tcp:far:443", "tcp:far:443", 1000),
            ("tcp:[fd77::2]:443,50 ms", "tcp:fd77::2:443", 50),
            ("http://far", "http://far/", 1000),
            ("https://far", "https://far/", 1000),
            ("https://192.0.2.1:8443/a", "https://192.0.2.1:8443/a", 1000),
            ("http://far:8080/a/b?c=1", "http://far:8080/a/b?c=1", 1000),
            (
                "dns:example.org@192.0.2.53",
                "dns:example.org@192.0.2.53",
                1000,
            ),
        ] {
            let t = parse(text).unwrap();
            assert_eq!(
                (t.name().as_str(), t.interval),
                (name, Duration::from_millis(ms)),
                "{text}"
            );
        }
    }

    #[test]
    fn groups_stand_before_an_equals_sign_and_addresses_keep_theirs() {
        for (text, group, name) in [
            (
                "Home/Gateway=icmp:192.0.2.1,1 s",
                Some("Home/Gateway"),
                "icmp:192.0.2.1",
            ),
            ("Provider = far.example", Some("Provider"), "udp"),
            ("http://far/?a=b", None, "http://far/?a=b"),
            ("W=http://far/?a=b", Some("W"), "http://far/?a=b"),
        ] {
            let target = parse(text).unwrap();
            assert_eq!(
                (target.group.as_deref(), &*target.name()),
                (group, name),
                "{text}"
            );
        }
        let deep = "a/".repeat(9) + "b=far";
        for text in ["=far", "a//b=far", "a/\u{7}=far", &deep] {
            assert!(parse(text).unwrap_err().contains("a group is"), "{text}");
        }
    }

    #[test]
    fn a_target_that_cannot_be_probed_says_why() {
        for (text, part) in [
            ("https://fa r/", "no certificate"),
            ("tcp:far", "port is missing"),
            ("tcp:far:x", "1 to 65535"),
            ("dns:example.org", "dns:NAME@SERVER"),
            ("dns:a..b@far", "no such name"),
            ("far,soon", "a time such as 5 s"),
            ("icmp:far,100 us", "from 1 ms to 1 h"),
            ("tcp:far:1,1ms", "from 10 ms to 1 h"),
            ("far,2 h", "from 1 ms to 1 h"),
            ("http://far/a b", "%20"),
        ] {
            let e = parse(text).unwrap_err();
            assert!(e.contains(part), "{text}: {e}");
        }
    }
}
