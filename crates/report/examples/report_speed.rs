//! How large a report is and how long it takes: a minute at 100 probes a second, and a million probes.
//! `cargo run --release -p tailback-report --example report_speed`

#[path = "../tests/sample/mod.rs"]
mod sample;

use report::terminal::Style;
use std::time::Instant;

fn main() {
    let style = Style {
        width: 100,
        colour: true,
        unicode: true,
    };
    for (name, (answer, recording)) in [
        ("60 s, 100 probes/s", sample::bloated_adsl()),
        ("50 s, 60 Mbit/s fiber", sample::healthy_fiber()),
        ("15 s, cut short", sample::partial()),
        (
            "1 000 000 probes",
            sample::bloated_adsl_at(1_000.0, 1_000.0),
        ),
    ] {
        let best = |draw: &dyn Fn() -> String| {
            let once = || {
                let start = Instant::now();
                let length = draw().len();
                (start.elapsed(), length)
            };
            let (took, length) = (0..5).map(|_| once()).min().expect("five runs");
            format!("{:>8.2} ms {:>8} bytes", took.as_secs_f64() * 1e3, length)
        };
        println!(
            "{name:<22}  page {}",
            best(&|| report::html::page(&answer, &recording))
        );
        println!(
            "{:<22}  text {}",
            "",
            best(&|| report::terminal::text(&answer, &recording, style))
        );
        println!(
            "{:<22}  svg  {}",
            "",
            best(&|| report::test_plots::rtt_over_time(&answer, &recording).svg())
        );
    }
}
