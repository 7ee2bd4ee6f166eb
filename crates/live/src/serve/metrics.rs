//! Counters of a server in the text format of Prometheus.
//!
//! **Source.** Prometheus documentation, "Exposition formats", text-based format 0.0.4.

use super::ServerStats;
use std::fmt::Write;

/// Metric: its name after `tailback_`, its type, its help.
pub type Metric = (&'static str, &'static str, &'static str);

/// All metrics, in the order of the text.
pub const METRICS: &[Metric] = &[
    ("connections_total", "counter", "TCP connections accepted"),
    ("refused_total", "counter", "Requests refused, by reason"),
    (
        "sessions_total",
        "counter",
        "Sessions that ended, by kind and end",
    ),
    (
        "session_bytes_total",
        "counter",
        "Payload bytes of the sessions that ended, by kind",
    ),
    (
        "moved_bytes_total",
        "counter",
        "Bytes of load, trains and probes moved so far, both directions combined",
    ),
    (
        "foreign_total",
        "counter",
        "Datagrams and connections of strangers at ports that were open for clients",
    ),
    (
        "log_left_out_total",
        "counter",
        "Log entries left out because there were too many",
    ),
    ("connections", "gauge", "Open TCP connections"),
    ("clients", "gauge", "Clients being served"),
    ("flows", "gauge", "Flows that run"),
    ("uplink_taken", "gauge", "1 if a client has the uplink"),
    (
        "uplink_waiting",
        "gauge",
        "Clients that wait for the uplink",
    ),
    ("probe_sessions", "gauge", "Open sessions of UDP probes"),
    ("probes_answered_total", "counter", "Probes answered"),
    (
        "probes_refused_total",
        "counter",
        "Datagrams answered with a refusal",
    ),
    (
        "probes_ignored_total",
        "counter",
        "Datagrams dropped: foreign, too short, or beyond the budget for strangers",
    ),
    (
        "probes_throttled_total",
        "counter",
        "Probes beyond the rate of their session",
    ),
    (
        "probes_replayed_total",
        "counter",
        "Probes of users with a key that had come before",
    ),
    (
        "guest_answered_total",
        "counter",
        "Datagrams of other tools' clients answered, or tests of iperf3 that ended well, by protocol",
    ),
    (
        "guest_ignored_total",
        "counter",
        "Datagrams at the ports for other tools that were dropped: foreign, too short, or of no session; tests of iperf3 whose client hung up",
    ),
    (
        "guest_throttled_total",
        "counter",
        "Datagrams of other tools' clients beyond a budget, or tests of iperf3 refused, by protocol",
    ),
    (
        "guest_sessions",
        "gauge",
        "Open sessions, or tests, of other tools' clients, by protocol",
    ),
    (
        "web_pages_total",
        "counter",
        "Pages of the site for browsers that were sent",
    ),
    (
        "web_channels_total",
        "counter",
        "Channels of probes that browsers opened, by transport",
    ),
    (
        "web_saved_total",
        "counter",
        "Recordings that users of the site saved",
    ),
    (
        "wrong_keys_total",
        "counter",
        "Requests with a key that nobody has, over TCP and UDP",
    ),
    (
        "tls_handshakes_total",
        "counter",
        "TLS handshakes that have begun",
    ),
    (
        "user_bytes",
        "gauge",
        "Bytes of a user in the current hour, both directions combined",
    ),
    (
        "key_file_faulty",
        "gauge",
        "1 while the key file has a fault: keys that it no longer shows end five minutes after the first",
    ),
    (
        "probes_shed_total",
        "counter",
        "Datagrams dropped because of --max-rate",
    ),
    (
        "max_rate_bits_per_second",
        "gauge",
        "Rate limit (--max-rate), 0 if there is none",
    ),
];

/// Text of all metrics.
pub fn render(stats: &ServerStats) -> String {
    let mut out = String::new();
    for (name, kind, help) in METRICS {
        let _ = writeln!(out, "# HELP tailback_{name} {help}");
        let _ = writeln!(out, "# TYPE tailback_{name} {kind}");
        let mut one = |labels: &str, value: u64| {
            let _ = writeln!(out, "tailback_{name}{labels} {value}");
        };
        let (h, p) = (&stats.holds, &stats.probes);
        let value = match *name {
            "connections_total" => stats.connections,
            "refused_total" => {
                for ((_, why), (n, _)) in counts(stats, "refused") {
                    one(&format!("{{reason=\"{why}\"}}"), n);
                }
                continue;
            }
            "sessions_total" => {
                for ((what, why), (n, _)) in counts(stats, "session") {
                    one(&format!("{{kind=\"{what}\",end=\"{why}\"}}"), n);
                }
                continue;
            }
            "session_bytes_total" => {
                let mut of: std::collections::BTreeMap<&str, u64> = Default::default();
                for ((what, _), (_, bytes)) in counts(stats, "session") {
                    *of.entry(what).or_default() += bytes;
                }
                for (what, bytes) in of {
                    one(&format!("{{kind=\"{what}\"}}"), bytes);
                }
                continue;
            }
            "moved_bytes_total" => stats.moved_bytes,
            "foreign_total" => stats.foreign,
            "log_left_out_total" => stats.log_left_out,
            "connections" => h.connections as u64,
            "clients" => h.clients as u64,
            "flows" => u64::from(h.flows),
            "uplink_taken" => u64::from(h.uplink_taken),
            "uplink_waiting" => h.waiting as u64,
            "probe_sessions" => p.sessions as u64,
            "probes_answered_total" => p.stats.answered,
            "probes_refused_total" => p.stats.refused,
            "probes_ignored_total" => p.stats.ignored,
            "probes_throttled_total" => p.stats.throttled,
            "probes_replayed_total" => p.stats.replayed,
            name if name.starts_with("guest_") => {
                for (protocol, counts) in &stats.guests {
                    let value = guest(name, counts);
                    one(&format!("{{protocol=\"{}\"}}", protocol.name()), value);
                }
                continue;
            }
            name if name.starts_with("web_") => {
                let Some(web) = stats.web else { continue };
                match name {
                    "web_pages_total" => web.pages,
                    "web_saved_total" => web.saved,
                    _ => {
                        one("{transport=\"webtransport\"}", web.webtransport);
                        one("{transport=\"websocket\"}", web.websocket);
                        continue;
                    }
                }
            }
            "wrong_keys_total" => stats.wrong_keys + p.stats.wrong_keys,
            "tls_handshakes_total" => stats.tls_handshakes,
            "user_bytes" => {
                for (name, bytes) in &stats.users {
                    one(&format!("{{user=\"{name}\"}}"), *bytes);
                }
                continue;
            }
            "key_file_faulty" => u64::from(stats.key_file_faulty),
            "probes_shed_total" => p.shed,
            "max_rate_bits_per_second" => stats.max_rate.map_or(0, |r| r.get()),
            other => unreachable!("{other} has a value"),
        };
        one("", value);
    }
    out
}

fn guest(name: &str, counts: &measure::guest::Counts) -> u64 {
    match name {
        "guest_answered_total" => counts.answered,
        "guest_ignored_total" => counts.ignored,
        "guest_throttled_total" => counts.throttled,
        _ => counts.sessions as u64,
    }
}

type Count = ((&'static str, &'static str), (u64, u64));

fn counts<'a>(stats: &'a ServerStats, event: &'a str) -> impl Iterator<Item = Count> + 'a {
    let its = stats.counts.iter().filter(move |((e, ..), _)| *e == event);
    its.map(|((_, what, why), n)| ((*what, *why), *n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_its_help_its_type_and_a_value() {
        let mut stats = ServerStats::default();
        stats.counts.insert(("refused", "request", "busy"), (3, 0));
        stats
            .counts
            .insert(("session", "upload", "time_up"), (2, 500));
        stats
            .counts
            .insert(("session", "upload", "budget"), (1, 700));
        let text = render(&stats);
        for line in [
            "# TYPE tailback_refused_total counter",
            "tailback_refused_total{reason=\"busy\"} 3",
            "tailback_sessions_total{kind=\"upload\",end=\"time_up\"} 2",
            "tailback_session_bytes_total{kind=\"upload\"} 1200",
            "tailback_connections 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        for (name, kind, _) in METRICS {
            assert!(text.contains(&format!("# TYPE tailback_{name} {kind}\n")));
            assert_eq!(*kind == "counter", name.ends_with("_total"), "{name}");
        }
    }
}
