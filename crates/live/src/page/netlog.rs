//! Browser's own log of its network: connections that were set up, used or not, names that it looked up, and bytes that
//! passed.
//!
//! The format is that of `net/log/` in Chromium's sources: a line of constants, which name the numbers of the events, then
//! one event a line. Its times are milliseconds of CLOCK_MONOTONIC.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::ops::Add;

/// Connection or lookup in a log.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// A connection of TCP to this address and port, or one of QUIC to this host.
    Opened { to: String },
    /// A name was looked up, and took so long.
    LookedUp { host: String, took_ms: f64 },
}

/// Contents of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// With the time at which it was begun, ms of the monotonic clock.
    pub seen: Vec<(f64, Seen)>,
    pub passed: Passed,
}

/// Whole IP packets of all that the browser did, both directions together. It tells of bytes that its sockets sent and
/// received; how many packets took them is reckoned: full ones, each second one that was received acknowledged, seven to
/// begin and end a connection. Names looked up by the system's own resolver are not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    pub packets: u64,
    pub bytes: u64,
}

impl Add for Passed {
    type Output = Passed;

    fn add(self, other: Passed) -> Passed {
        Passed {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Passed {
    /// Payload of a full packet: 1500 bytes without the headers of IPv4 and of TCP with timestamps.
    const FULL: u64 = 1448;
    /// TCP's header with timestamps.
    const TCP: u64 = 32;

    fn count(&mut self, packets: u64, header: u64, payload: u64) {
        self.packets += packets;
        self.bytes += payload + packets * header;
    }

    /// Packets of an object of this size, if nothing is known of its connection.
    pub fn of_object(bytes: u64) -> Passed {
        let mut passed = Passed::default();
        passed.received(bytes, 20);
        passed
    }

    fn received(&mut self, bytes: u64, ip: u64) {
        let packets = bytes.div_ceil(Passed::FULL);
        self.count(packets + packets.div_ceil(2), ip + Passed::TCP, bytes);
    }
}

#[derive(Deserialize)]
struct Head {
    constants: Constants,
}
#[derive(Deserialize)]
struct Constants {
    #[serde(rename = "logEventTypes")]
    types: BTreeMap<String, u32>,
}
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(rename = "type")]
    kind: u32,
    phase: u32,
    source: Source,
    #[serde(borrow)]
    time: &'a str,
    params: Option<Params>,
}
#[derive(Deserialize)]
struct Source {
    id: u64,
}
#[derive(Deserialize)]
struct Params {
    host: Option<String>,
    remote_address: Option<String>,
    byte_count: Option<u64>,
}

const BEGIN: u32 = 1;
const END: u32 = 2;

/// Reads a log; `None` if its format is unknown. A log that breaks off counts up to there.
pub fn read(log: impl Read) -> Option<Log> {
    let mut lines = BufReader::new(log).lines().map_while(Result::ok);
    let first = lines.next()?;
    let head: Head =
        serde_json::from_str(&format!("{}}}", first.trim_end().trim_end_matches(','))).ok()?;
    let mut reader = Reader::new(&head)?;
    for line in lines {
        // The last event has the end of the list behind it.
        let text = line.trim_end_matches(',');
        let entry = serde_json::from_str::<Entry>(text)
            .or_else(|_| serde_json::from_str(text.trim_end_matches(']')));
        if let Ok(entry) = entry {
            reader.take(entry);
        }
    }
    Some(reader.log)
}

/// Numbers of the events that count, and the events that have begun.
struct Reader {
    connect: u32,
    lookup: u32,
    quic: Option<u32>,
    /// Numbers of bytes sent and received, by TCP and by UDP.
    bytes: [Option<u32>; 4],
    /// Length of the IP header, by socket.
    headers: BTreeMap<u64, u64>,
    begun: BTreeMap<(u32, u64), (f64, Option<String>)>,
    log: Log,
}

impl Reader {
    fn new(head: &Head) -> Option<Reader> {
        let number = |name: &str| head.constants.types.get(name).copied();
        Some(Reader {
            connect: number("TCP_CONNECT")?,
            lookup: number("HOST_RESOLVER_MANAGER_JOB")?,
            quic: number("QUIC_SESSION"),
            bytes: [
                "SOCKET_BYTES_SENT",
                "SOCKET_BYTES_RECEIVED",
                "UDP_BYTES_SENT",
                "UDP_BYTES_RECEIVED",
            ]
            .map(number),
            headers: BTreeMap::new(),
            begun: BTreeMap::new(),
            log: Log::default(),
        })
    }

    fn take(&mut self, entry: Entry) {
        if let Some(n) = entry.params.as_ref().and_then(|p| p.byte_count) {
            return self.passed(&entry, n);
        }
        let kind = entry.kind;
        let known = [Some(self.connect), Some(self.lookup), self.quic].contains(&Some(kind));
        let (true, Ok(t_ms)) = (known, entry.time.parse::<f64>()) else {
            return;
        };
        let key = (kind, entry.source.id);
        let params = entry.params;
        match entry.phase {
            BEGIN if Some(kind) == self.quic => {
                if let Some(host) = params.and_then(|p| p.host) {
                    let to = host_of(&host).to_owned();
                    self.log.seen.push((t_ms, Seen::Opened { to }));
                }
            }
            BEGIN => {
                self.begun.insert(key, (t_ms, params.and_then(|p| p.host)));
            }
            END => {
                if let Some((from, host)) = self.begun.remove(&key) {
                    let to = params.and_then(|p| p.remote_address);
                    let seen = self.ended(key, host, to, t_ms - from);
                    self.log.seen.extend(seen.map(|seen| (from, seen)));
                }
            }
            _ => {}
        }
    }

    /// Counts `n` bytes that a socket sent or received.
    fn passed(&mut self, entry: &Entry, n: u64) {
        let ip = self.headers.get(&entry.source.id).copied().unwrap_or(20);
        let kind = Some(entry.kind);
        let passed = &mut self.log.passed;
        let [tcp_out, tcp_in, udp_out, udp_in] = self.bytes;
        if kind == tcp_in {
            passed.received(n, ip);
        } else if kind == tcp_out {
            passed.count(n.div_ceil(Passed::FULL), ip + Passed::TCP, n);
        } else if kind == udp_in || kind == udp_out {
            passed.count(1, ip + 8, n);
        }
    }

    /// Lookup or connection that has ended; a connection that failed has no address and is none.
    fn ended(
        &mut self,
        (kind, socket): (u32, u64),
        host: Option<String>,
        to: Option<String>,
        took_ms: f64,
    ) -> Option<Seen> {
        match (host, to) {
            (Some(host), _) if kind == self.lookup => Some(Seen::LookedUp {
                host: host_of(&host).to_owned(),
                took_ms,
            }),
            (_, Some(to)) if kind == self.connect => {
                let ip = if to.starts_with('[') { 40 } else { 20 };
                self.headers.insert(socket, ip);
                self.log.passed.count(7, ip + Passed::TCP, 0);
                Some(Seen::Opened { to })
            }
            _ => None,
        }
    }
}

/// Host of `https://host:port`.
pub fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(v6),
        None => authority.split(':').next().unwrap_or(authority),
    }
}

/// Connections that were opened to any of these, lookups of these hosts, and the longest of those, between two moments.
pub fn within(
    log: &Log,
    from_ms: f64,
    to_ms: f64,
    remotes: &BTreeSet<String>,
    hosts: &BTreeSet<String>,
) -> (u32, u32, Option<f64>) {
    let (mut opened, mut lookups, mut longest) = (0, 0, None::<f64>);
    let during = |(t, _): &&(f64, Seen)| (from_ms..=to_ms).contains(t);
    for (_, seen) in log.seen.iter().filter(during) {
        match seen {
            Seen::Opened { to } if remotes.contains(to) || hosts.contains(to) => opened += 1,
            Seen::LookedUp { host, took_ms } if hosts.contains(host) => {
                lookups += 1;
                longest = Some(longest.map_or(*took_ms, |l| l.max(*took_ms)));
            }
            _ => {}
        }
    }
    (opened, lookups, longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Chromium 156 writes it, all but what is read left out.
    const LOG: &str = r#"{"constants":{"logEventTypes":{"HOST_RESOLVER_MANAGER_JOB":12,"QUIC_SESSION":300,"TCP_CONNECT":51,"SOCKET_BYTES_SENT":84,"SOCKET_BYTES_RECEIVED":86,"UDP_BYTES_SENT":99}},
"events": [
{"params":{"host":"http://www.site.test"},"phase":1,"source":{"id":7,"start_time":"100","type":14},"time":"100","type":12},
{"phase":2,"source":{"id":7,"start_time":"100","type":14},"time":"130","type":12},
{"params":{"address_list":["[::1]:80"]},"phase":1,"source":{"id":8,"start_time":"131","type":10},"time":"131","type":51},
{"params":{"net_error":-102},"phase":2,"source":{"id":8,"start_time":"131","type":10},"time":"131","type":51},
{"params":{"address_list":["127.0.0.1:80"]},"phase":1,"source":{"id":9,"start_time":"132","type":10},"time":"132","type":51},
{"params":{"local_address":"127.0.0.1:4","remote_address":"127.0.0.1:80"},"phase":2,"source":{"id":9,"start_time":"132","type":10},"time":"133","type":51},
{"params":{"byte_count":37},"phase":0,"source":{"id":7,"start_time":"100","type":24},"time":"101","type":99},
{"params":{"byte_count":500},"phase":0,"source":{"id":9,"start_time":"132","type":10},"time":"134","type":84},
{"params":{"byte_count":3000},"phase":0,"source":{"id":9,"start_time":"132","type":10},"time":"135","type":86},
{"params":{"host":"www.site.test","port":443},"phase":1,"source":{"id":10,"start_time":"140","type":9},"time":"140","type":300},
{"params":{"local_address":"127.0.0.1:5","remote_address":"192.0.2.9:80"},"phase":2,"source":{"id":11,"start_time":"141","type":10},"time":"141","type":51}],
"polledData": [{"spdySessionInfo":[]}]
}
"#;

    #[test]
    fn connections_that_came_about_and_lookups_are_counted_and_failures_are_not() {
        let log = read(LOG.as_bytes()).expect("a log");
        let opened = |to: &str| Seen::Opened { to: to.into() };
        // A datagram; seven packets of the connection; one out; three in, and two acknowledgements.
        let passed = Passed {
            packets: 1 + 7 + 1 + 5,
            bytes: (37 + 28) + 7 * 52 + (500 + 52) + (3000 + 5 * 52),
        };
        assert_eq!(log.passed, passed);
        assert_eq!(
            log.seen,
            [
                (
                    100.0,
                    Seen::LookedUp {
                        host: "www.site.test".into(),
                        took_ms: 30.0
                    }
                ),
                (132.0, opened("127.0.0.1:80")),
                (140.0, opened("www.site.test")),
            ]
        );
        let remotes = BTreeSet::from(["127.0.0.1:80".to_owned()]);
        let hosts = BTreeSet::from(["www.site.test".to_owned()]);
        assert_eq!(
            within(&log, 99.0, 150.0, &remotes, &hosts),
            (2, 1, Some(30.0))
        );
        assert_eq!(
            within(&log, 101.0, 139.0, &remotes, &hosts),
            (1, 0, None),
            "only what began meanwhile"
        );
        assert_eq!(
            within(&log, 99.0, 150.0, &BTreeSet::new(), &BTreeSet::new()),
            (0, 0, None),
            "the browser's own connections are not the page's"
        );
    }

    #[test]
    fn a_log_that_was_cut_counts_as_far_as_it_goes_and_one_of_another_kind_not_at_all() {
        let cut = &LOG[..LOG.find("\"remote_address\"").expect("it is there")];
        assert_eq!(read(cut.as_bytes()).expect("a log").seen.len(), 1);
        assert_eq!(read(&b"{}"[..]), None);
        assert_eq!(read(&b""[..]), None);
    }

    #[test]
    fn hosts_are_read_from_addresses_of_every_shape() {
        for (url, host) in [
            ("https://a.test/b:c", "a.test"),
            ("http://u:p@a.test:80/", "a.test"),
            ("http://[::1]:80/x", "::1"),
            ("a.test", "a.test"),
            ("https://a.test?x", "a.test"),
        ] {
            assert_eq!(host_of(url), host);
        }
    }
}
