//! Plots of a recording's packets.

use super::answer::seconds;
use super::recorded::{self, Loaded};
use crate::scan::{self, Source};
use crate::{usage, write_file};
use base::print::{SIZE, SPAN, significant};
use base::record::{Row, TableId};
use report::packets::{Acked, Again, Mark, Packets, Page, Plot, Sent};
use std::collections::BTreeMap;
use std::path::Path;
use store::Columns;

/// Greatest number of directions whose packets are in a page.
const WAYS: usize = 8;
/// Greatest number of directions in its table.
const LISTED: usize = 50;

/// Time range of the plots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    /// Begin, UNIX ns; by default that of the recording.
    pub from_ns: Option<i64>,
    pub to_ns: Option<i64>,
}

/// Directions to draw, with their indexes in `loaded.directions`: both of the named connection, or of the largest.
fn chosen(loaded: &Loaded, connection: Option<&str>) -> anyhow::Result<usize> {
    let order = loaded.order();
    let first = |wanted: &dyn Fn(usize) -> bool| order.iter().copied().find(|i| wanted(*i));
    let found = match connection {
        None => first(&|_| true),
        Some(text) => match text.parse::<i64>() {
            Ok(number) => first(&|i| loaded.directions[i].row.flow / 2 == number),
            Err(_) => {
                let Some((from, to)) = text.split_once('>') else {
                    return Err(usage(format!(
                        "--connection {text}: give its number, or both ends as they are listed, such as '192.0.2.1:40000>198.51.100.7:80'"
                    )));
                };
                let (from, to) = (from.trim(), to.trim());
                first(&|i| {
                    let r = &loaded.directions[i].row;
                    (&*r.source, &*r.destination) == (from, to)
                })
            }
        },
    };
    found.ok_or_else(|| match connection {
        None => anyhow::anyhow!("no TCP connection carried data: there is nothing to draw"),
        Some(text) => usage(format!(
            "--connection {text}: no direction of that number or name carried data. `tailback analyse` lists them"
        )),
    })
}

/// Reads the packets of these directions.
fn packets(
    from: Source<'_>,
    loaded: &Loaded,
    ways: &[usize],
    span: Span,
) -> anyhow::Result<Vec<Packets>> {
    let mut all: Vec<Packets> = ways.iter().map(|i| heading(loaded, *i, span)).collect();
    // Which of them a flow belongs to: its own packets, and the ACKs that come back.
    let rows = ways.iter().map(|i| &loaded.directions[*i].row);
    let own: BTreeMap<i64, usize> = rows.clone().map(|r| r.flow).zip(0..).collect();
    let first: Vec<i64> = rows.map(|r| r.first_ns).collect();
    let columns = [
        "t_ns",
        "flow",
        "flags",
        "position_bytes",
        "size_bytes",
        "fresh_bytes",
        "in_flight_bytes",
        "acked_bytes",
        "window_bytes",
        "rtt_ns",
        "sack_from_bytes",
        "sack_to_bytes",
    ];
    scan::scan(from, TableId::Segment, &columns, &mut |rows| {
        let flows = rows.ints("flow");
        let c = Segments::of(rows);
        for row in 0..rows.len() {
            let flow = flows.get(row).unwrap_or(-1);
            if let Some(k) = own.get(&flow) {
                c.sent(row, first[*k], &mut all[*k]);
            }
            if let Some(k) = own.get(&(flow ^ 1)) {
                c.acked(row, first[*k], &mut all[*k]);
            }
        }
    })?;
    scan::each_row(from, TableId::Retransmission, &mut |row| {
        let Row::Retransmission(r) = row else { return };
        if let Some(k) = own.get(&r.flow) {
            let size = r.size_bytes.max(0) as u64;
            let from = r.position_bytes.max(0) as u64;
            all[*k].again.push(Again {
                t_s: seconds(r.t_ns - first[*k]),
                from,
                to: from + size,
                cause: r.cause,
                needless: r.needless,
            });
        }
    })?;
    for p in &mut all {
        p.again.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    }
    Ok(all)
}

/// Name, span and base delay of a direction, without its packets.
fn heading(loaded: &Loaded, i: usize, span: Span) -> Packets {
    let r = &loaded.directions[i].row;
    let since = |t: i64| seconds(t - r.first_ns);
    let host = |end: &str| end.rsplit_once(':').map(|e| e.0.to_owned());
    let base = loaded.directions.iter().filter(|d| {
        host(&d.row.source) == host(&r.source) && host(&d.row.destination) == host(&r.destination)
    });
    let base = base.filter_map(|d| d.row.rtt_min_ns).min();
    let to = span.to_ns.map_or(since(r.last_ns), since);
    Packets {
        name: format!("{} > {}", r.source, r.destination),
        span_s: (span.from_ns.map_or(0.0, since).max(0.0), to.max(1e-6)),
        base_ms: base.map(|ns| ns as f64 / 1e6),
        ..Packets::default()
    }
}

struct Segments<'b> {
    t: store::Ints<'b>,
    flags: store::Ints<'b>,
    position: store::Ints<'b>,
    size: store::Ints<'b>,
    fresh: store::Ints<'b>,
    in_flight: store::Ints<'b>,
    acked: store::Ints<'b>,
    window: store::Ints<'b>,
    rtt: store::Ints<'b>,
    sack_from: store::Ints<'b>,
    sack_to: store::Ints<'b>,
}

impl<'b> Segments<'b> {
    fn of(rows: &Columns<'b>) -> Segments<'b> {
        Segments {
            t: rows.ints("t_ns"),
            flags: rows.ints("flags"),
            position: rows.ints("position_bytes"),
            size: rows.ints("size_bytes"),
            fresh: rows.ints("fresh_bytes"),
            in_flight: rows.ints("in_flight_bytes"),
            acked: rows.ints("acked_bytes"),
            window: rows.ints("window_bytes"),
            rtt: rows.ints("rtt_ns"),
            sack_from: rows.ints("sack_from_bytes"),
            sack_to: rows.ints("sack_to_bytes"),
        }
    }

    /// Adds what the packet's sender did.
    fn sent(&self, row: usize, first_ns: i64, p: &mut Packets) {
        let known = |n: Option<i64>| n.unwrap_or(0).max(0) as u64;
        let t_s = seconds(self.t.get(row).unwrap_or(0) - first_ns);
        let flags = self.flags.get(row).unwrap_or(0);
        let top = p.sent.last().map_or(0, |s| s.to);
        let from = self.position.get(row).map(|n| n.max(0) as u64);
        // A SYN takes a place before its data, and a FIN one behind.
        let from_data = from.unwrap_or(top) + u64::from(flags & 2 != 0);
        let to = from_data + known(self.size.get(row));
        for (bit, mark) in [(2, Mark::Syn), (1, Mark::Fin), (4, Mark::Reset)] {
            if flags & bit != 0 {
                p.marks.push((t_s, to, mark));
            }
        }
        if from.is_some() && to > from_data {
            p.sent.push(Sent {
                t_s,
                from: from_data,
                to,
                fresh: known(self.fresh.get(row)),
                in_flight: known(self.in_flight.get(row)),
            });
        }
    }

    /// Adds what the other end acknowledged.
    fn acked(&self, row: usize, first_ns: i64, p: &mut Packets) {
        let Some(to) = self.acked.get(row) else {
            return;
        };
        let t_s = seconds(self.t.get(row).unwrap_or(0) - first_ns);
        let to = to.max(0) as u64;
        let room = to + self.window.get(row).unwrap_or(0).max(0) as u64;
        p.acked.push(Acked { t_s, to, room });
        if let Some(rtt) = self.rtt.get(row) {
            p.rtt.push((t_s, rtt as f64 / 1e6));
        }
        if let (Some(from), Some(to)) = (self.sack_from.get(row), self.sack_to.get(row)) {
            p.sacked.push((t_s, from.max(0) as u64, to.max(0) as u64));
        }
    }
}

/// Plot of one direction, as SVG.
pub(crate) fn svg(
    from: Source<'_>,
    plot: Plot,
    connection: Option<&str>,
    span: Span,
) -> anyhow::Result<String> {
    let loaded = recorded::load(from)?;
    let way = chosen(&loaded, connection)?;
    let all = packets(from, &loaded, &[way], span)?;
    let spec = plot.spec(&all[0]).map_err(anyhow::Error::msg)?;
    Ok(spec.svg())
}

/// Every plot of one direction into a directory.
pub(super) fn all(
    from: Source<'_>,
    directory: &Path,
    connection: Option<&str>,
) -> anyhow::Result<()> {
    let loaded = recorded::load(from)?;
    let way = chosen(&loaded, connection)?;
    let packets = packets(from, &loaded, &[way], Span::default())?;
    std::fs::create_dir_all(directory)
        .map_err(|e| anyhow::anyhow!("cannot create {}: {e}", directory.display()))?;
    for plot in Plot::ALL {
        if let Ok(spec) = plot.spec(&packets[0]) {
            write_file(&directory.join(format!("{}.svg", plot.word())), &spec.svg())?;
        }
    }
    Ok(())
}

/// The interactive page of a recording.
pub(crate) fn page(
    from: Source<'_>,
    connection: Option<&str>,
    span: Span,
) -> anyhow::Result<String> {
    let loaded = recorded::load(from)?;
    let order = loaded.order();
    let ways: Vec<usize> = match connection {
        Some(_) => vec![chosen(&loaded, connection)?],
        None => order.iter().copied().take(WAYS).collect(),
    };
    let ways = packets(from, &loaded, &ways, span)?;
    let meta = scan::meta(from)?;
    let held = &loaded.held;
    let share = |bytes: u64| 100.0 * bytes as f64 / held.bytes.max(1) as f64;
    let sums = loaded.sums();
    let key = [
        ("Packets", held.packets.to_string()),
        ("Bytes", SIZE.print(held.bytes as f64)),
        ("Lasts", SPAN.print(held.duration_s())),
        (
            "TCP, of the bytes",
            format!("{} %", significant(share(held.tcp.bytes), 3)),
        ),
        ("TCP connections", (loaded.directions.len() / 2).to_string()),
        ("Sent again", sums.again().to_string()),
    ];
    let title = if meta.title.trim().is_empty() {
        from.display().to_string()
    } else {
        meta.title.clone()
    };
    let findings = super::queues::findings(&super::queues::of_recorded(&loaded.directions));
    let notes = loaded.notes.clone();
    Ok(report::packets::page(&Page {
        meta,
        title,
        key: key.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        notes,
        findings,
        tables: loaded.tables(LISTED),
        ways,
        json: {
            let mut json = Vec::new();
            loaded.json(&mut json, false)?;
            String::from_utf8(json)?
        },
    }))
}
