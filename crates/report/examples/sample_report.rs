//! Writes the report of three made-up runs, of a fortnight and of a capture into a directory: what the browser tests open, and what to look at
//! while working on the page. `cargo run --release -p tailback-report --example sample_report OUTDIR`

#[path = "../tests/sample/mod.rs"]
mod sample;

use analysis::answer::{Answer, Finding, Severity};
use analysis::before_after::{Network, Round};
use analysis::inside::{
    About, FlowSample, FlowSamples, QueueSample, QueueSamples, Samples, inside,
};
use analysis::moments::Moment;
use base::record::{Cause, Direction, Meta, Origin, Status};
use jiff::tz::TimeZone;
use report::packets::{Acked, Again, Mark, Packets, Page, Sent};
use report::plots::{Material, Scope};
use report::terminal::Style;
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(
        std::env::args()
            .nth(1)
            .ok_or("say where to write: sample_report OUTDIR")?,
    );
    std::fs::create_dir_all(&out)?;
    let style = Style {
        width: 100,
        colour: false,
        unicode: true,
    };
    for (name, (answer, recording)) in [
        ("adsl", sample::bloated_adsl()),
        ("fiber", sample::healthy_fiber()),
        ("partial", sample::partial()),
    ] {
        std::fs::write(
            out.join(format!("{name}.txt")),
            report::terminal::text(&answer, &recording, style),
        )?;
        std::fs::write(
            out.join(format!("{name}-rtt.svg")),
            report::test_plots::rtt_over_time(&answer, &recording).svg(),
        )?;
        std::fs::write(
            out.join(format!("{name}-cdf.svg")),
            report::test_plots::cdf(&answer, &recording).svg(),
        )?;
        let page = report::html::page(&answer, &recording);
        std::fs::write(out.join(format!("{name}.html")), page)?;
        println!("{}", report::terminal::line(&answer, style));
    }
    std::fs::write(out.join("capture.html"), capture())?;
    std::fs::write(
        out.join("weeks.html"),
        report::plots::page(&[fortnight()], None),
    )?;
    std::fs::write(out.join("gaps.html"), report::plots::page(&[gaps()], None))?;
    std::fs::write(out.join("networks.html"), networks())?;
    std::fs::write(out.join("film.html"), film()?)?;
    std::fs::write(
        out.join("live.html"),
        report::plots::live_page(&[fortnight()], None),
    )?;
    Ok(())
}

/// Film of a sawtooth of 30 s in a queue, with two transfers.
fn film() -> Result<String, Box<dyn Error>> {
    const MS: i64 = 1_000_000;
    let sample = |k: i64| {
        let packets = (k % 200) / 4;
        QueueSample {
            t_ns: k * 10 * MS,
            backlog_bytes: packets * 1500,
            backlog_packets: packets,
            sojourn_ns: Some(packets * MS),
            drops: k / 200,
            marks: 0,
            delivered_bytes: k * 12_500,
        }
    };
    let window = |k: i64| FlowSample {
        t_ns: k * 10 * MS,
        acked_bytes: Some(k * 6_000),
        cwnd_bytes: Some(20_000 + 150 * (k % 200)),
        ..FlowSample::default()
    };
    let flow = |number: i64, name: &str| FlowSamples {
        number,
        name: Some(name.into()),
        direction: Direction::Up,
        all: (0..3000).map(window).collect(),
    };
    let samples = Samples {
        queues: vec![QueueSamples {
            name: "link".into(),
            all: (0..3000).map(sample).collect(),
        }],
        flows: vec![flow(0, "bulk"), flow(1, "late")],
    };
    let about = About {
        title: "Two transfers in a queue".into(),
        origin: Origin::Simulated,
        complete: true,
    };
    let inside = inside(about, &samples).ok_or("no samples")?;
    Ok(report::film::page(&inside, &samples, &TimeZone::UTC)?)
}

/// Three networks of two media, one with two rounds.
fn networks() -> String {
    let (adsl, fiber) = (sample::bloated_adsl().0, sample::healthy_fiber().0);
    let network = |name: &str, rounds: Vec<Answer>| Network {
        name: name.to_owned(),
        medium: name.split_once('/').map(|(medium, _)| medium.to_owned()),
        rounds: rounds.iter().map(Round::of).collect(),
    };
    let rounds = [
        network("cable/adsl", vec![adsl.clone(), adsl]),
        network("cable/fiber", vec![fiber]),
        network("wireless/partial", vec![sample::partial().0]),
    ];
    let curve =
        |ms: u32| (0..100).map(move |i| (i < 99).then(|| f64::from(ms * (100 + i)) / 100.0));
    let networks = rounds.iter().zip([400, 20, 50]);
    let networks = networks.map(|(n, ms)| (n.name.clone(), curve(ms).collect()));
    let upload = report::compared::Overlay {
        phase: "up".into(),
        networks: networks.collect(),
    };
    report::compared::tests_page(&analysis::before_after::compare(&rounds), &[upload])
}

/// From 2026-06-01 on, a probe each ten seconds: 20 ms, from 12 to 13 h 200 ms; one of a hundred takes a second in the second
/// week. On the fifth day, from 14 to 16 h, three of ten are lost, and from 16 to 19 h all.
fn fortnight() -> Material {
    const SECOND: i64 = 1_000_000_000;
    let begin = 1_780_272_000 * SECOND;
    let length = 14 * 86_400;
    let mut m = Material::new(
        Scope {
            from_ns: begin,
            to_ns: begin + length * SECOND,
            zone: jiff::tz::TimeZone::UTC,
        },
        "A fortnight",
    );
    for i in 0..length / 10 {
        let (day, hour) = (i / 8640, i % 8640 / 360);
        let wait = match hour {
            12 => 200,
            _ if day >= 7 && i % 100 == 50 => 1000,
            _ => 20,
        };
        let lost = day == 4 && ((16..19).contains(&hour) || (14..16).contains(&hour) && i % 10 < 3);
        let (rtt, status) = if lost {
            (None, Status::Lost)
        } else {
            (Some(wait * 1_000_000 + i * 7919 % 1_000_000), Status::Ok)
        };
        m.probe(begin + i * 10 * SECOND, rtt, status);
        let up = if hour == 12 { 800_000 } else { 8_000 };
        m.traffic(
            begin + (i + 1) * 10 * SECOND,
            10 * SECOND,
            Some(up * 2),
            Some(up),
        );
    }
    let at = |day: i64, hour: i64| begin + (day * 24 + hour) * 3_600 * SECOND;
    m.holes(&[(begin, at(14, 0))], &[(at(4, 16), at(4, 19))]);
    let texts = [
        (at(7, 0), "The router was changed"),
        (at(12, 12), "<b>a call</b>"),
    ];
    m.mark(&texts.map(|(t_ns, text)| Moment::new(t_ns, text).expect("a text")));
    m
}

/// A probe each two seconds for twelve hours, each fourth of 400 ms and the others of 20 to 50 ms, without those from 4 to 5 h and from 8:00:00 to 8:01:30.
fn gaps() -> Material {
    const SECOND: i64 = 1_000_000_000;
    let mut m = Material::new(
        Scope {
            from_ns: 0,
            to_ns: 12 * 3_600 * SECOND,
            zone: jiff::tz::TimeZone::UTC,
        },
        "Two gaps",
    );
    let gaps = [4 * 3_600..5 * 3_600, 8 * 3_600..8 * 3_600 + 90];
    for t in (0..12 * 3_600).step_by(2) {
        if !gaps.iter().any(|g| g.contains(&t)) {
            let rtt_ns = match t % 8 {
                0 => 400_000_000,
                _ => 20_000_000 + t * 7_919_000 % 30_000_000,
            };
            m.probe(t * SECOND, Some(rtt_ns), Status::Ok);
        }
    }
    m
}

/// A capture of two directions: a million packets that fill a queue of 80 ms again and again, and a handful.
fn capture() -> String {
    let finding = Finding {
        severity: Severity::Warning,
        says: "Data towards 192.0.2.2 waits up to 78 ms in a queue beyond the capture.".into(),
        evidence: vec!["delay added beyond the base of 20 ms: median 40 ms".into()],
    };
    report::packets::page(&Page {
        meta: Meta {
            writer: "tailback".into(),
            ..Meta::default()
        },
        title: "home.pcap".into(),
        key: vec![("Packets".into(), "1000020".into())],
        notes: Vec::new(),
        findings: vec![finding],
        tables: vec![
            report::Table::new("Connections", ["From > to", "Payload"])
                .with([("192.0.2.1:40000 > 192.0.2.2:80", vec!["724 MB"])]),
        ],
        ways: vec![
            sawtooth("192.0.2.1:40000 > 192.0.2.2:80", 500_000),
            sawtooth("192.0.2.1:40001 > 192.0.2.2:80", 10),
        ],
        json: "{}".into(),
    })
}

/// So many segments of which every fifty-thousandth is lost and sent again.
fn sawtooth(name: &str, n: u64) -> Packets {
    let mut p = Packets {
        name: name.into(),
        span_s: (0.0, n as f64 / 1e4 + 0.1),
        base_ms: Some(20.0),
        ..Packets::default()
    };
    p.marks.push((0.0, 0, Mark::Syn));
    for i in 0..n {
        let (t_s, from) = (i as f64 / 1e4, i * 1448);
        let queue_ms = (i % 50_000) as f64 * 80.0 / 50_000.0;
        let back = t_s + (20.0 + queue_ms) / 1e3;
        let in_flight = (back - t_s) * 1e4 * 1448.0;
        p.sent.push(Sent {
            t_s,
            from,
            to: from + 1448,
            fresh: 1448,
            in_flight: in_flight as u64,
        });
        p.acked.push(Acked {
            t_s: back,
            to: from,
            room: from + 3_000_000,
        });
        p.rtt.push((back, 20.0 + queue_ms));
        if i % 50_000 == 49_999 {
            let (t_s, to) = (back, from + 1448);
            let cause = Cause::ALL[(i / 50_000) as usize % Cause::ALL.len()];
            let again = Again {
                t_s,
                from,
                to,
                cause,
                needless: i % 100_000 == 99_999,
            };
            p.again.push(again);
            p.sacked.push((t_s, to, to + 20 * 1448));
        }
    }
    p.acked.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
    p.rtt.sort_by(|a, b| a.0.total_cmp(&b.0));
    p
}
