//! Writes the report of three made-up runs into a directory: what the browser tests open, and what to look at
//! while working on the page. `cargo run --release -p tailback-report --example sample_report OUTDIR`

#[path = "../tests/sample/mod.rs"]
mod sample;

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
    Ok(())
}
