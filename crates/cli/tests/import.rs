//! `tailback import` and what `tailback report` draws of it, as a user runs them.

use std::path::Path;
use std::process::{Command, Output};
use testkit::TempDir;

fn tailback(dir: &Path, line: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_tailback");
    let mut command = Command::new(program);
    command
        .current_dir(dir)
        .env("TZ", "UTC")
        .args(line.split(' '));
    command.output().unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout)
}

/// Two hours of the delay monitor's probes, each second, with a loss each hundred, and their traffic.
fn weeks(dir: &Path) {
    let (mut delay, mut dropped, mut traffic) = (String::new(), String::new(), String::new());
    for i in 0..7200 {
        let at = |s: i64, ms: i64| {
            format!(
                "2014-05-04 {:02}:{:02}:{:02}:{ms}",
                10 + s / 3600,
                s / 60 % 60,
                s % 60
            )
        };
        if i % 100 == 50 {
            dropped += &format!("{i},{},-1,-1,-1,\n", at(i, 5));
        } else {
            delay += &format!(
                "{i},{},{},0.0{}0000,{},20\n",
                at(i, 5),
                at(i, 25 + i % 9),
                20 + i % 9,
                20 + i % 9
            );
        }
        if i % 10 == 9 {
            traffic += &format!("10.000000,{}.0000,800.0000, {}\n", i % 600, at(i, 0));
        }
    }
    std::fs::write(dir.join("delay.csv"), delay).unwrap();
    std::fs::write(dir.join("dropped.csv"), dropped).unwrap();
    std::fs::write(dir.join("traffic.csv"), traffic).unwrap();
}

#[test]
fn every_plot_is_drawn_of_an_imported_recording() {
    let dir = TempDir::new("plots");
    weeks(&dir);
    let out = tailback(
        &dir,
        "import delay.csv dropped.csv traffic.csv -o home.rec --zone UTC --title home",
    );
    assert!(out.status.success(), "{}", said(&out));
    assert!(
        said(&out).contains("delay.csv: delay, 7128 rows"),
        "{}",
        said(&out)
    );
    assert!(said(&out).contains("× time stamp with milliseconds that lack leading zeros"));
    for plot in [
        "rtt",
        "cdf",
        "smoothed",
        "bounds",
        "smoke",
        "daily",
        "heat",
        "availability",
    ] {
        let out = tailback(
            &dir,
            &format!("report home.rec --plot {plot} -o {plot}.svg"),
        );
        assert!(out.status.success(), "{plot}: {}", said(&out));
        let svg = std::fs::read_to_string(dir.join(format!("{plot}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{plot}");
        assert!(svg.contains("2014-05-04") && !svg.contains("NaN"), "{plot}");
    }
    let smoke = std::fs::read_to_string(dir.join("smoke.svg")).unwrap();
    assert!(
        smoke.contains("lost 1 % of 7200"),
        "what was sent is what is counted"
    );
    let close = tailback(
        &dir,
        "report home.rec --from 2014-05-04T10:10 --to 2014-05-04T10:20 -o close.svg",
    );
    assert!(close.status.success(), "{}", said(&close));
    let close = std::fs::read_to_string(dir.join("close.svg")).unwrap();
    assert_eq!(
        close.matches("v220").count(),
        6,
        "six losses in ten minutes, each marked"
    );
    let page = tailback(&dir, "report home.rec");
    assert!(page.status.success(), "{}", said(&page));
    let html = std::fs::read_to_string(dir.join("home.rec/report.html")).unwrap();
    assert!(html.contains("By weekday and hour") && html.contains("id=\"curves\""));
}

#[test]
fn what_cannot_be_drawn_or_imported_says_why() {
    let dir = TempDir::new("refused");
    weeks(&dir);
    let refused = |line: &str, code: i32, words: &[&str]| {
        let out = tailback(&dir, line);
        assert_eq!(out.status.code(), Some(code), "{line}: {}", said(&out));
        for word in words {
            assert!(said(&out).contains(word), "{line}: {}", said(&out));
        }
    };
    std::fs::write(dir.join("letter.txt"), "Dear Sir or Madam\n").unwrap();
    refused(
        "import letter.txt",
        2,
        &["Dear Sir", "Known: delay, dropped"],
    );
    refused(
        "import delay.csv --format dropped -o x.rec",
        3,
        &["nothing to import", "7128 lines left out", "line 1:"],
    );
    assert!(
        !dir.join("x.rec").exists(),
        "what holds nothing is not kept"
    );
    assert!(tailback(&dir, "import delay.csv -o y.rec").status.success());
    refused(
        "report y.rec --plot daily -o a.svg",
        3,
        &["no traffic was counted"],
    );
    refused(
        "report y.rec --target icmp -o a.svg",
        2,
        &["no target \"icmp\"", "udp"],
    );
    refused(
        "report y.rec --from yesterday -o a.svg",
        2,
        &["--from yesterday: no time"],
    );
    refused(
        "report y.rec --from 2020-01-01T00:00 -o a.svg",
        2,
        &["the recording goes from 2014-05-04T"],
    );
    refused("report y.rec -o a.gif", 2, &[".html, .svg, .pdf or .png"]);
}
