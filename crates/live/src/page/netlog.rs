//! The browser's own log of its network: which connections came about, used or not, and which names it looked up.
//!
//! The format is that of `net/log/` in Chromium's sources: a line of constants, which name the numbers of the events, then
//! one event a line. Its times are milliseconds of CLOCK_MONOTONIC.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};

/// What a log tells of one connection or lookup.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// A connection of TCP to this address and port, or one of QUIC to this host.
    Opened { to: String },
    /// A name was looked up, and took so long.
    LookedUp { host: String, took_ms: f64 },
}

/// With the time at which it was begun, ms of the monotonic clock.
pub type Log = Vec<(f64, Seen)>;

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
}

const BEGIN: u32 = 1;
const END: u32 = 2;

/// What a log says; none where it is of a kind that is not known. What was not written to its end counts as far as it goes.
pub fn read(log: impl Read) -> Option<Log> {
    let mut lines = BufReader::new(log).lines().map_while(Result::ok);
    let first = lines.next()?;
    let head: Head =
        serde_json::from_str(&format!("{}}}", first.trim_end().trim_end_matches(','))).ok()?;
    let number = |name: &str| head.constants.types.get(name).copied();
    let (connect, lookup) = (number("TCP_CONNECT")?, number("HOST_RESOLVER_MANAGER_JOB")?);
    let quic = number("QUIC_SESSION");
    let mut seen = Log::new();
    let mut begun: BTreeMap<(u32, u64), (f64, Option<String>)> = BTreeMap::new();
    for line in lines {
        // The last one has the end of the list behind it.
        let text = line.trim_end_matches(',');
        let Ok(entry) = serde_json::from_str::<Entry>(text)
            .or_else(|_| serde_json::from_str(text.trim_end_matches(']')))
        else {
            continue;
        };
        let known = [Some(connect), Some(lookup), quic].contains(&Some(entry.kind));
        let (true, Ok(t_ms)) = (known, entry.time.parse::<f64>()) else {
            continue;
        };
        let key = (entry.kind, entry.source.id);
        let params = entry.params;
        match entry.phase {
            BEGIN if Some(entry.kind) == quic => {
                if let Some(host) = params.and_then(|p| p.host) {
                    let to = host_of(&host).to_owned();
                    seen.push((t_ms, Seen::Opened { to }));
                }
            }
            BEGIN => {
                begun.insert(key, (t_ms, params.and_then(|p| p.host)));
            }
            END => {
                let Some((from, host)) = begun.remove(&key) else {
                    continue;
                };
                let what = match host {
                    Some(host) if entry.kind == lookup => Seen::LookedUp {
                        host: host_of(&host).to_owned(),
                        took_ms: t_ms - from,
                    },
                    _ => match params.and_then(|p| p.remote_address) {
                        // One that failed has no address.
                        Some(to) if entry.kind == connect => Seen::Opened { to },
                        _ => continue,
                    },
                };
                seen.push((from, what));
            }
            _ => {}
        }
    }
    Some(seen)
}

/// Of `https://host:port` the host.
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
    for (_, seen) in log.iter().filter(|(t, _)| (from_ms..=to_ms).contains(t)) {
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
    const LOG: &str = r#"{"constants":{"logEventTypes":{"HOST_RESOLVER_MANAGER_JOB":12,"QUIC_SESSION":300,"TCP_CONNECT":51}},
"events": [
{"params":{"host":"http://www.site.test"},"phase":1,"source":{"id":7,"start_time":"100","type":14},"time":"100","type":12},
{"phase":2,"source":{"id":7,"start_time":"100","type":14},"time":"130","type":12},
{"params":{"address_list":["[::1]:80"]},"phase":1,"source":{"id":8,"start_time":"131","type":10},"time":"131","type":51},
{"params":{"net_error":-102},"phase":2,"source":{"id":8,"start_time":"131","type":10},"time":"131","type":51},
{"params":{"address_list":["127.0.0.1:80"]},"phase":1,"source":{"id":9,"start_time":"132","type":10},"time":"132","type":51},
{"params":{"local_address":"127.0.0.1:4","remote_address":"127.0.0.1:80"},"phase":2,"source":{"id":9,"start_time":"132","type":10},"time":"133","type":51},
{"params":{"host":"www.site.test","port":443},"phase":1,"source":{"id":10,"start_time":"140","type":9},"time":"140","type":300},
{"params":{"local_address":"127.0.0.1:5","remote_address":"192.0.2.9:80"},"phase":2,"source":{"id":11,"start_time":"141","type":10},"time":"141","type":51}],
"polledData": [{"spdySessionInfo":[]}]
}
"#;

    #[test]
    fn connections_that_came_about_and_lookups_are_counted_and_failures_are_not() {
        let log = read(LOG.as_bytes()).expect("a log");
        let opened = |to: &str| Seen::Opened { to: to.into() };
        assert_eq!(
            log,
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
        assert_eq!(read(cut.as_bytes()).expect("a log").len(), 1);
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
