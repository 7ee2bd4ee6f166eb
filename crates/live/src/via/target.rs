//! Servers of other people, as a person writes them: `https://HOST/.well-known/nq`, `ndt7:HOST`, `https://HOST/FILE`,
//! `iperf3:HOST[:PORT]`.

use super::ViaError;
use base::record::Direction;
use hyper::http::Uri;
use std::fmt;

/// Path of the configuration of a responsiveness server (draft-ietf-ippm-responsiveness, section 7).
const CONFIG: &str = "/.well-known/nq";
const IPERF3_PORT: u16 = 5201;
/// Longest text of a target, and of a path on a server.
const LONGEST: usize = 2048;
/// Domains of the servers of M-Lab.
const M_LAB: &str = "measurement-lab.org";

/// Protocol of a foreign server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Server of iperf3.
    Iperf3,
    /// Large file on a web server.
    File,
    /// Responsiveness server, as Apple's networkQuality uses.
    Responsiveness,
    /// Server of ndt7, as M-Lab runs.
    Ndt7,
}

/// Foreign server, and the protocol that it speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    text: String,
    pub kind: Kind,
    /// Name or address.
    pub host: String,
    pub port: u16,
    /// True if the load travels inside TLS.
    pub tls: bool,
    /// Path and query of the file or of the configuration.
    pub path: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Target {
    /// Reads a target.
    ///
    /// # Errors
    /// Says how to write one.
    pub fn parse(text: &str) -> Result<Target, ViaError> {
        let unreadable = |why: &'static str| ViaError::Unreadable {
            text: base::text::clean(text).chars().take(200).collect(),
            why,
        };
        if text.len() > LONGEST || text.chars().any(char::is_control) {
            return Err(unreadable("it is too long, or has control characters"));
        }
        let found = if let Some(rest) = text.strip_prefix("iperf3:") {
            plain(rest)
        } else if let Some(rest) = text.strip_prefix("ndt7:") {
            match rest.contains("://") {
                true => web(rest, ["wss", "ws"]),
                false => web(&format!("wss://{rest}/"), ["wss", "ws"]),
            }
            .map(|t| Target {
                kind: Kind::Ndt7,
                ..t
            })
        } else {
            web(text, ["https", "http"])
        };
        let found = found.map_err(unreadable)?;
        Ok(Target {
            text: text.into(),
            ..found
        })
    }

    /// Name or address with the port, as [`crate::resolve::server`] reads it.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Directions that the server can load.
    pub fn directions(&self) -> &'static [Direction] {
        match self.kind {
            Kind::File => &[Direction::Down],
            _ => &[Direction::Down, Direction::Up],
        }
    }

    /// True if the server can load both directions at once.
    pub fn loads_both(&self) -> bool {
        self.kind == Kind::Responsiveness
    }

    /// True if a fresh TCP connection to the port disturbs nobody. A server of iperf3 takes one for the begin of a test.
    pub fn takes_handshakes(&self) -> bool {
        self.kind != Kind::Iperf3
    }

    /// Sentence on the operator of the server and on the privacy of a test.
    pub fn notice(&self) -> String {
        let host = &self.host;
        let m_lab = host == M_LAB || host.ends_with(&format!(".{M_LAB}"));
        match self.kind {
            Kind::Ndt7 if m_lab => format!(
                "This test uses {host}, a server of M-Lab, which publishes the results with your IP address: see https://www.measurementlab.net/privacy/"
            ),
            _ => format!(
                "This test uses {host}. Its operator sees your IP address and the traffic of the test; ask there for the privacy policy."
            ),
        }
    }
}

/// Target of `HOST[:PORT]`.
fn plain(rest: &str) -> Result<Target, &'static str> {
    let bad = "after iperf3: must be HOST or HOST:PORT";
    let authority =
        match rest.contains(':') && !rest.starts_with('[') && rest.matches(':').count() > 1 {
            true => format!("[{rest}]"),
            false => rest.to_owned(),
        };
    let uri: Uri = format!("http://{authority}/").parse().map_err(|_| bad)?;
    let host = host(&uri)
        .filter(|_| !rest.contains(['/', '?', '@']))
        .ok_or(bad)?;
    Ok(Target {
        text: String::new(),
        kind: Kind::Iperf3,
        host,
        port: port(&uri, IPERF3_PORT)?,
        tls: false,
        path: String::new(),
    })
}

/// Target of a URL whose scheme is one of `schemes`; the first is inside TLS.
fn web(url: &str, schemes: [&str; 2]) -> Result<Target, &'static str> {
    let uri: Uri = url.parse().map_err(|_| "it is no URL")?;
    let tls = match uri.scheme_str() {
        Some(s) if s == schemes[0] => true,
        Some(s) if s == schemes[1] => false,
        _ => return Err("its kind is not known"),
    };
    if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
        return Err("a URL with a user's name is not supported");
    }
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    Ok(Target {
        text: String::new(),
        kind: match uri.path() {
            CONFIG => Kind::Responsiveness,
            _ => Kind::File,
        },
        host: host(&uri).ok_or("its host is missing")?,
        port: port(&uri, if tls { 443 } else { 80 })?,
        tls,
        path: path.into(),
    })
}

/// Host of a URL, an IPv6 address without its brackets.
pub(super) fn host(uri: &Uri) -> Option<String> {
    let host = uri.host()?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| host.to_ascii_lowercase())
}

fn port(uri: &Uri, usual: u16) -> Result<u16, &'static str> {
    // `port_u16` is also none for a number that is no port.
    let written = uri.authority().and_then(|a| {
        let after = a
            .as_str()
            .rsplit_once(']')
            .map_or(a.as_str(), |(_, after)| after);
        after.split_once(':').map(|(_, port)| port)
    });
    match written {
        None => Ok(usual),
        Some(text) => text
            .parse()
            .ok()
            .filter(|p| *p > 0)
            .ok_or("its port must be from 1 to 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_people_write_them() {
        let read = |text: &str| {
            let t = Target::parse(text).unwrap_or_else(|e| panic!("{e}"));
            (t.kind, t.host, t.port, t.tls, t.path)
        };
        let of = |kind, host: &str, port, tls, path: &str| {
            (kind, host.to_owned(), port, tls, path.to_owned())
        };
        for (text, expected) in [
            (
                "iperf3:far.example",
                of(Kind::Iperf3, "far.example", 5201, false, ""),
            ),
            (
                "iperf3:192.0.2.1:99",
                of(Kind::Iperf3, "192.0.2.1", 99, false, ""),
            ),
            (
                "iperf3:2001:db8::1",
                of(Kind::Iperf3, "2001:db8::1", 5201, false, ""),
            ),
            (
                "iperf3:[2001:db8::1]:99",
                of(Kind::Iperf3, "2001:db8::1", 99, false, ""),
            ),
            (
                "https://Far.Example/.well-known/nq",
                of(Kind::Responsiveness, "far.example", 443, true, CONFIG),
            ),
            (
                "https://far.example:8443/a/b.iso?x=1",
                of(Kind::File, "far.example", 8443, true, "/a/b.iso?x=1"),
            ),
            (
                "http://[2001:db8::1]/f",
                of(Kind::File, "2001:db8::1", 80, false, "/f"),
            ),
            (
                "ndt7:far.example",
                of(Kind::Ndt7, "far.example", 443, true, "/"),
            ),
            (
                "ndt7:ws://192.0.2.1:8080",
                of(Kind::Ndt7, "192.0.2.1", 8080, false, "/"),
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused_with_what_to_write() {
        for text in [
            "far.example",
            "iperf3:",
            "iperf3:a/b",
            "iperf3:h:0",
            "iperf3:h:70000",
            "ftp://h/f",
            "https://",
            "https://u@h/f",
            "ndt7:",
            "ndt7:https://h",
            "https://h:99999/f",
            "https://h/\u{1b}[2J",
            "",
        ] {
            let e = Target::parse(text).expect_err(text).to_string();
            assert!(e.contains("iperf3:HOST[:PORT]"), "{text}: {e}");
            assert!(!e.contains('\u{1b}'), "{e:?}");
        }
    }

    #[test]
    fn the_publisher_of_results_is_named_only_for_its_own_servers() {
        let notice = |t: &str| Target::parse(t).map(|t| t.notice()).unwrap_or_default();
        assert!(notice("ndt7:ndt-iupui-mlab1-lga0t.measurement-lab.org").contains("publishes"));
        for other in [
            "ndt7:far.example",
            "ndt7:notmeasurement-lab.org",
            "https://x.measurement-lab.org/f",
        ] {
            assert!(notice(other).contains("privacy policy"), "{other}");
        }
    }
}
