//! Statistics as one CSV for programs: a row a figure, plain numbers, instants as RFC 3339 in UTC.

use analysis::radio::Measure;
use analysis::statistics::{Statistics, Summary, TargetStatistics};
use stats::Figure;
use std::fmt::Write;

/// Names of the columns. `from` and `to` bound the span or event; `low` and `high` are the ends of the 95 %
/// interval; `note` is the reason why a figure is unknown, or the cause of an event.
const HEADS: &str = "target,span,from,to,figure,unit,value,low,high,note";

/// Rows of one span.
struct Rows<'o> {
    out: &'o mut String,
    /// First four cells of each row.
    place: String,
}

/// Returns all figures, outages, gaps, incidents and verdicts.
pub fn csv(s: &Statistics) -> String {
    let mut out = format!("{HEADS}\n");
    for t in &s.targets {
        let loaded = t.loaded.iter().filter_map(|l| l.summary.as_ref());
        let spans = std::iter::once(&t.whole).chain(loaded);
        let spans = spans.chain(&t.phases).chain(&t.spans);
        for span in spans.chain(&t.days).chain(&t.windows) {
            figures(&mut out, t, span);
        }
        let bounds = (t.whole.from_ns, t.whole.to_ns);
        let mut rows = Rows::of(&mut out, &t.target, "whole", bounds);
        rows.figure("availability", "", &t.availability);
        stability(&mut out, t, bounds);
        for o in &t.outages {
            let mut row = Rows::of(&mut out, &t.target, "outage", (o.from_ns, o.to_ns));
            row.plain(
                "outage",
                "s",
                Some((o.to_ns - o.from_ns) as f64 / 1e9),
                &o.cause,
            );
        }
        for g in &t.gaps {
            let mut row = Rows::of(&mut out, &t.target, "gap", (g.from_ns, g.to_ns));
            row.plain(
                "gap",
                "s",
                Some((g.to_ns - g.from_ns) as f64 / 1e9),
                &g.reason,
            );
        }
        for u in &t.uses {
            let mut row = Rows::of(&mut out, &t.target, "use", bounds);
            row.plain(
                &format!("{} {}", u.name, crate::tables::can(u.can)),
                "",
                None,
                &u.because,
            );
        }
        for v in &t.services {
            for j in &v.spans {
                let mut row = Rows::of(&mut out, &t.target, &j.span, bounds);
                row.figure(&format!("{}: {}", v.table, v.service), "", &j.share);
            }
        }
    }
    host(&mut out, s);
    for i in &s.incidents {
        let mut row = Rows::of(&mut out, &i.subject, "incident", (i.from_ns, i.to_ns));
        row.plain("incident", "s", i.seconds, &crate::words::incident(i));
    }
    for m in &s.moments {
        let mut row = Rows::of(&mut out, "", "moment", (m.t_ns, m.t_ns));
        row.plain("moment", "", None, &m.text);
    }
    out
}

/// Writes the load of the measuring host. Traffic stands at the name of its interface.
fn host(out: &mut String, s: &Statistics) {
    let bounds = (s.from_ns, s.to_ns);
    if let Some(h) = &s.host {
        let mut rows = Rows::of(out, "", "whole", bounds);
        let parts = [
            ("cpu", h.cpu),
            ("cpu_user", h.cpu_user),
            ("cpu_system", h.cpu_system),
            ("cpu_interrupt", h.cpu_interrupt),
            ("cpu_wait", h.cpu_wait),
        ];
        for (name, shares) in parts {
            let Some(s) = shares else { continue };
            let points = [
                ("mean", s.mean),
                ("p50", s.p50),
                ("p95", s.p95),
                ("max", s.most),
            ];
            for (point, v) in points {
                rows.plain(&format!("{name}_{point}"), "", Some(v), "");
            }
        }
        rows.plain("busy", "s", Some(h.busy_s), "");
        for t in &h.seconds {
            let mut rows = Rows::of(out, &t.target, "whole", bounds);
            for (name, n) in [
                ("bad_seconds", t.bad),
                ("bad_seconds_host_busy", t.bad_busy),
                ("other_seconds", t.others),
                ("other_seconds_host_busy", t.others_busy),
            ] {
                rows.plain(name, "", Some(n as f64), "");
            }
        }
    }
    modem(out, s);
    radios(out, s);
    for i in &s.interfaces {
        let mut rows = Rows::of(out, &i.interface, "whole", bounds);
        for (direction, r) in [("down", &i.whole.down), ("up", &i.whole.up)] {
            let points = [
                ("mean", r.mean_bps),
                ("p95", r.p95_bps),
                ("max", r.most_bps),
            ];
            for (point, v) in points {
                rows.plain(&format!("rate_{direction}_{point}"), "bit/s", v, "");
            }
        }
    }
}

/// Writes the state of the radios.
fn radios(out: &mut String, s: &Statistics) {
    for r in &s.radios {
        let mut rows = Rows::of(out, &r.interface, "whole", (s.from_ns, s.to_ns));
        if let Some(signal) = &r.signal {
            let (name, unit) = match signal.measure {
                Measure::Rsrp => ("radio_rsrp", "dBm"),
                Measure::Rssi => ("radio_rssi", "dBm"),
                Measure::Quality => ("radio_quality", "%"),
            };
            for (point, v) in [
                ("min", signal.least),
                ("p25", signal.p25),
                ("p50", signal.p50),
                ("max", signal.most),
            ] {
                rows.plain(&format!("{name}_{point}"), unit, Some(v), "");
            }
        }
        let handovers = r.handovers.map(|n| n as f64);
        rows.plain("radio_cells", "", Some(r.cells as f64), "");
        rows.plain("radio_handovers", "", handovers, "");
    }
}

/// Writes the state of the modem.
fn modem(out: &mut String, s: &Statistics) {
    let Some(m) = &s.modem else { return };
    let mut rows = Rows::of(out, "", "whole", (s.from_ns, s.to_ns));
    for (name, unit, course) in [
        ("modem_rate_down", "bit/s", &m.rate_down_bps),
        ("modem_rate_up", "bit/s", &m.rate_up_bps),
        ("modem_margin_down", "dB", &m.margin_down_db),
        ("modem_margin_up", "dB", &m.margin_up_db),
        ("modem_attenuation_down", "dB", &m.attenuation_down_db),
        ("modem_attenuation_up", "dB", &m.attenuation_up_db),
    ] {
        let Some(c) = course else { continue };
        let points = [
            ("min", c.least),
            ("mean", c.mean),
            ("max", c.most),
            ("last", c.last),
        ];
        for (point, v) in points {
            rows.plain(&format!("{name}_{point}"), unit, Some(v), "");
        }
    }
    for (name, errors) in [
        ("modem_crc_down", &m.crc_down),
        ("modem_crc_up", &m.crc_up),
        ("modem_fec_down", &m.fec_down),
        ("modem_fec_up", &m.fec_up),
    ] {
        let Some(e) = errors else { continue };
        rows.plain(name, "", Some(e.counted as f64), "");
        rows.plain(&format!("{name}_per_hour"), "", e.per_hour, "");
    }
}

/// Writes the stability of the whole and of each day.
fn stability(out: &mut String, t: &TargetStatistics, bounds: (i64, i64)) {
    let Some(r) = &t.stability else {
        return;
    };
    let mut rows = Rows::of(out, &t.target, "whole", bounds);
    for (name, n) in [
        ("hours", r.hours),
        ("broken_hours", r.broken_hours),
        ("days_probed", r.days),
        ("bad_days", r.bad_days),
        ("judged_hours", r.judged_hours),
        ("lossy_hours", r.lossy_hours),
    ] {
        rows.plain(name, "", Some(n as f64), "");
    }
    rows.plain("down", "s", Some(r.down_s), "");
    rows.figure("loss_while_connected", "%", &r.loss_percent);
    for (name, e) in [
        ("rtt_p50_variation", &r.median),
        ("rtt_p95_variation", &r.p95),
    ] {
        rows.figure(name, "%", &e.variation_percent);
    }
    for d in &r.each_day {
        let mut rows = Rows::of(out, &t.target, &d.name, (d.from_ns, d.to_ns));
        rows.plain("breaks", "", Some(d.breaks as f64), "");
        rows.plain("down", "s", Some(d.down_s), "");
        rows.plain("broken_hours", "", Some(d.broken_hours as f64), "");
        rows.plain("loss_while_connected", "%", d.loss_percent, "");
    }
}

fn figures(out: &mut String, t: &TargetStatistics, s: &Summary) {
    let mut rows = Rows::of(out, &t.target, &s.name, (s.from_ns, s.to_ns));
    let counts = [
        ("sent", s.sent),
        ("lost", s.lost),
        ("late", s.late),
        ("duplicates", s.duplicates),
        ("invalid", s.invalid),
        ("not_sent", s.not_sent),
        ("cut_off", s.cut_off),
    ];
    for (name, n) in counts {
        rows.plain(name, "", Some(n as f64), "");
    }
    rows.figure("loss", "%", &s.loss_percent);
    let r = &s.rtt;
    rows.figure("rtt_mean", "ms", &r.mean_ms);
    for (name, v) in [
        ("rtt_min", r.min_ms),
        ("rtt_max", r.max_ms),
        ("rtt_sd", r.sd_ms),
    ] {
        rows.plain(name, "ms", v, "");
    }
    for p in &r.points {
        rows.figure(&format!("rtt_p{}", p.share * 100.0), "ms", &p.ms);
    }
    rows.plain("ipdv_pairs", "", Some(s.ipdv.pairs as f64), "");
    rows.figure("ipdv_mean", "ms", &s.ipdv.mean_ms);
    rows.figure("ipdv_p95", "ms", &s.ipdv.p95_ms);
    for r in &s.reliability {
        rows.figure(&format!("within_{}ms", r.limit_ms), "", &r.share);
    }
}

impl Rows<'_> {
    fn of<'o>(out: &'o mut String, target: &str, span: &str, bounds: (i64, i64)) -> Rows<'o> {
        let (from, to) = (instant(bounds.0), instant(bounds.1));
        let place = format!("{},{},{from},{to}", quoted(target), quoted(span));
        Rows { out, place }
    }

    fn figure(&mut self, name: &str, unit: &str, figure: &Figure) {
        let cells = match figure {
            Figure::Is { value, low, high } => format!("{value},{low},{high},"),
            Figure::CannotTell { cannot_tell } => format!(",,,{}", quoted(cannot_tell)),
        };
        self.row(name, unit, &cells);
    }

    /// Writes a number without an interval, and what is said of it.
    fn plain(&mut self, name: &str, unit: &str, value: Option<f64>, said: &str) {
        let value = value.map_or(String::new(), |v| v.to_string());
        self.row(name, unit, &format!("{value},,,{}", quoted(said)));
    }

    fn row(&mut self, name: &str, unit: &str, cells: &str) {
        let _ = writeln!(self.out, "{},{},{unit},{cells}", self.place, quoted(name));
    }
}

fn instant(unix_ns: i64) -> String {
    let at = jiff::Timestamp::from_nanosecond(i128::from(unix_ns));
    at.map_or(String::new(), |t| t.to_string())
}

/// Cell as RFC 4180 asks.
fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
