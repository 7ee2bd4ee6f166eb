//! Writes the report of three made-up runs and of a fortnight into a directory: what the browser tests open, and what to look at
//! while working on the page. `cargo run --release -p tailback-report --example sample_report OUTDIR`

#[path = "../tests/sample/mod.rs"]
mod sample;

use base::record::Status;
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
            report::svg::rtt_over_time(&answer, &recording),
        )?;
        std::fs::write(
            out.join(format!("{name}-cdf.svg")),
            report::svg::cdf(&answer, &recording),
        )?;
        let page = report::html::page(&answer, &recording);
        std::fs::write(out.join(format!("{name}.html")), page)?;
        println!("{}", report::terminal::line(&answer, style));
    }
    std::fs::write(out.join("weeks.html"), report::plots::page(&fortnight()))?;
    Ok(())
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
    m
}
