//! Traffic by application: tables and JSON.

use base::print::{SIZE, SPAN, significant};
use measure::applications::{Found, Sum};
use report::table::{Cell, Column, Table};
use serde::Serialize;
use stats::{Figure, survival_quantile};
use std::fmt::Write;

/// Rows of each table; --json has all.
const SHOWN: usize = 15;

/// Traffic by application, as `--json` prints it.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Applications {
    /// Services by the server's port, those with the most bytes first.
    services: Vec<Service>,
    /// Servers by name, those with the most bytes first.
    servers: Vec<Server>,
    /// Bytes of servers without a name.
    nameless_bytes: u64,
    nameless_sessions: u64,
    /// Packets of sessions beyond the million that are watched.
    unwatched_packets: u64,
    /// Handshakes that the capture holds in part only.
    cut_handshakes: u64,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Service {
    name: String,
    #[serde(flatten)]
    sessions: Sessions,
}

#[derive(Serialize, schemars::JsonSchema)]
struct Server {
    name: String,
    /// Places in which the name was read: TLS, QUIC, DNS.
    via: Vec<&'static str>,
    #[serde(flatten)]
    sessions: Sessions,
}

/// Sessions of a service or server.
#[derive(Serialize, schemars::JsonSchema)]
struct Sessions {
    sessions: u64,
    packets: u64,
    bytes: u64,
    share_of_bytes: f64,
    /// Length that half of the sessions reach; sessions that the capture cut count as at least so long.
    length_median_s: Figure,
    /// Length that one session in twenty reaches.
    length_p95_s: Figure,
}

impl Sessions {
    fn new(sum: &Sum, all_bytes: u64) -> Sessions {
        let lengths: Vec<(f64, bool)> = sum
            .lengths
            .iter()
            .map(|l| (l.ns as f64 / 1e9, l.is_whole))
            .collect();
        Sessions {
            sessions: sum.sessions,
            packets: sum.packets,
            bytes: sum.bytes,
            share_of_bytes: sum.bytes as f64 / all_bytes.max(1) as f64,
            length_median_s: survival_quantile(&lengths, 0.5),
            length_p95_s: survival_quantile(&lengths, 0.95),
        }
    }

    fn cells(&self) -> [Cell; 5] {
        [
            self.sessions.to_string().into(),
            SIZE.print(self.bytes as f64).into(),
            significant(100.0 * self.share_of_bytes, 3).into(),
            Cell::figure(&self.length_median_s, SPAN),
            Cell::printed(&self.length_p95_s, |s| SPAN.print(s)),
        ]
    }
}

impl Applications {
    pub(super) fn new(found: &Found) -> Applications {
        let all: u64 = found.services.values().map(|s| s.bytes).sum();
        let mut services: Vec<Service> = found
            .services
            .iter()
            .map(|(name, sum)| Service {
                name: name.clone(),
                sessions: Sessions::new(sum, all),
            })
            .collect();
        services.sort_by_key(|s| std::cmp::Reverse(s.sessions.bytes));
        let mut servers: Vec<Server> = found
            .servers
            .iter()
            .map(|(name, (sum, via))| Server {
                name: name.clone(),
                via: via.iter().map(|v| v.word()).collect(),
                sessions: Sessions::new(sum, all),
            })
            .collect();
        servers.sort_by_key(|s| std::cmp::Reverse(s.sessions.bytes));
        Applications {
            services,
            servers,
            nameless_bytes: found.nameless.bytes,
            nameless_sessions: found.nameless.sessions,
            unwatched_packets: found.unwatched_packets,
            cut_handshakes: found.cut_handshakes,
        }
    }

    /// Notes for the head of the answer.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let note = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
        [
            note(
                self.unwatched_packets,
                "packets belong to sessions beyond the million that are watched at once",
            ),
            note(
                self.cut_handshakes,
                "handshakes are cut, so that their servers' names are unknown: capture whole packets (tcpdump -s 0, --snaplen 2048)",
            ),
        ]
        .into_iter()
        .flatten()
    }

    pub(super) fn text(&self, out: &mut String, width: usize) {
        if self.services.is_empty() {
            return;
        }
        let _ = writeln!(out, "\nTraffic by service, and the lengths of its sessions");
        let heads = ["sessions", "bytes", "%", "median length", "95 %"];
        let columns = |first| std::iter::once(first).chain(heads).map(Column::from);
        let mut table = Table::new("", columns("service"));
        for s in self.services.iter().take(SHOWN) {
            table.row(s.name.clone(), s.sessions.cells());
        }
        *out += &table.text(width);
        more(self.services.len(), out);
        if self.servers.is_empty() {
            return;
        }
        let _ = writeln!(out, "\nServers by name");
        let mut table = Table::new(
            "",
            ["server", "name from", "sessions", "bytes", "%"].map(Column::from),
        );
        for s in self.servers.iter().take(SHOWN) {
            let [sessions, bytes, share, ..] = s.sessions.cells();
            table.row(
                s.name.clone(),
                [s.via.join(", ").into(), sessions, bytes, share],
            );
        }
        let all: u64 = self.services.iter().map(|s| s.sessions.bytes).sum();
        let share = 100.0 * self.nameless_bytes as f64 / all.max(1) as f64;
        table.row(
            "without a name",
            [
                Cell::Absent,
                self.nameless_sessions.to_string().into(),
                SIZE.print(self.nameless_bytes as f64).into(),
                significant(share, 3).into(),
            ],
        );
        *out += &table.text(width);
        more(self.servers.len(), out);
    }
}

fn more(rows: usize, out: &mut String) {
    if rows > SHOWN {
        let _ = writeln!(out, "  … and {} more rows: --json has all", rows - SHOWN);
    }
}
