//! `tailback model` as a person uses it.

use std::process::{Command, Output};
use testkit::TempDir;

fn tailback(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tailback"))
        .args(args)
        .env("COLUMNS", "80")
        .output()
        .unwrap()
}

fn said(args: &[&str]) -> String {
    let output = tailback(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = tailback(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_adsl_line_of_the_thesis_is_reckoned_and_every_model_is_listed_and_explained() {
    let text = said(&[
        "model",
        "bdp",
        "rate=700kbit/s",
        "rtt=19ms",
        "buffer=37625B",
    ]);
    for figure in ["1.663 kB", "13300 bit", "430 ms", "22.63 times"] {
        assert!(text.contains(figure), "{figure} in:\n{text}");
    }
    let listed = said(&["model"]);
    assert!(listed.lines().count() >= 17, "{listed}");
    // A summary may take several lines.
    for line in listed.lines().filter(|l| !l.starts_with(' ')) {
        let name = line.split_whitespace().next().unwrap();
        let page = said(&["model", name]);
        assert!(page.contains("Holds for:") && page.contains("Example: tailback model"));
        let wide = page
            .lines()
            .filter(|l| !l.starts_with("Example") && !l.starts_with("  "))
            .find(|l| l.chars().count() > 80);
        assert_eq!(wide, None);
    }
}

#[test]
fn json_is_in_base_units_and_a_plot_is_drawn() {
    let text = said(&[
        "model",
        "mm1",
        "rate=10Mbit/s",
        "offered=8Mbit/s",
        "packet=1250B",
        "--json",
    ]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let sojourn = &json["figures"][2];
    assert_eq!(
        (&sojourn["name"], &sojourn["unit"]),
        (&"sojourn".into(), &"s".into())
    );
    assert!((sojourn["value"].as_f64().unwrap() - 5e-3).abs() < 1e-12);

    let dir = TempDir::new("model");
    let file = dir.join("mm1.svg");
    let to = file.to_str().unwrap();
    // The curve ends where the queue is no longer stable.
    said(&[
        "model",
        "mm1",
        "rate=10Mbit/s",
        "--plot",
        "offered=1Mbit/s..12Mbit/s",
        "--show",
        "sojourn,p99",
        "-o",
        to,
    ]);
    let svg = std::fs::read_to_string(file).unwrap();
    assert!(svg.contains("sojourn") && svg.contains("offered, Mbit/s"));
}

#[test]
fn what_cannot_be_reckoned_says_why_and_what_to_try() {
    let cases: &[(&[&str], &str)] = &[
        (&["model", "bdb"], "Did you mean \"bdp\"?"),
        (&["model", "bdp", "rate=1Mbit/s"], "needs rtt, for example"),
        (
            &["model", "bdp", "rate=1", "rtt=1ms"],
            "write a number and a unit",
        ),
        (&["model", "bdp", "rate=0bit/s", "rtt=1ms"], "out of range"),
        (&["model", "bdp", "rtt"], "key=value"),
        (
            &["model", "mm1", "rate=1Mbit/s", "offered=2Mbit/s"],
            "grows without end",
        ),
        (
            &[
                "model",
                "mm1",
                "rate=1Mbit/s",
                "--plot",
                "offered",
                "-o",
                "x.svg",
            ],
            "such as rtt=10ms..200ms",
        ),
        (
            &[
                "model",
                "mm1",
                "rate=1Mbit/s",
                "--plot",
                "offered=2Mbit/s..3Mbit/s",
                "-o",
                "x.svg",
            ],
            "grows without end",
        ),
        (
            &[
                "model",
                "mm1",
                "rate=1Mbit/s",
                "--plot",
                "offered=1kbit/s..2kbit/s",
                "--show",
                "p9",
                "-o",
                "x.svg",
            ],
            "Did you mean",
        ),
        (
            &[
                "model",
                "mm1",
                "rate=1Mbit/s",
                "--plot",
                "offered=1kbit/s..2kbit/s",
                "-o",
                "x.png",
            ],
            "end the name in .svg",
        ),
    ];
    for (args, part) in cases {
        let error = refused(args);
        assert!(error.contains(part), "{args:?} said: {error}");
    }
}

#[test]
fn a_capture_becomes_the_traffic_of_a_model_with_the_load_that_it_had() {
    let dir = TempDir::new("model-cap");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_string();
    let scenario = "duration = \"20 s\"\ntopology = \"linear\"\n\
        link = { rate = \"10 Mbit/s\", delay = \"5 ms\" }\n\
        [[flow]]\nkind = \"transfers\"\nsize = \"40 kB\"\nthink = \"50 ms\"\n\
        [[flow]]\nkind = \"poisson\"\nrate = \"1 Mbit/s\"\nsize = \"300 B\"\n";
    std::fs::write(path("mix.toml"), scenario).unwrap();
    let pcap = format!("link={}", path("mix.pcapng"));
    said(&["sim", &path("mix.toml"), "--pcap", &pcap]);
    let traffic = said(&["trace", "--traffic", "--json", &path("mix.pcapng")]);
    std::fs::write(path("mix.json"), &traffic).unwrap();
    let fits: serde_json::Value = serde_json::from_str(&traffic).unwrap();
    let bytes = |class: usize| fits["classes"][class]["bytes"].as_f64().unwrap();
    let carried = (bytes(0) + bytes(1)) * 8.0 / fits["span_s"].as_f64().unwrap() / 20e6;
    assert!(carried > 0.05, "{carried}");
    for name in ["mixture", "tagged"] {
        let ask = |file: &str| {
            let args = ["model", name, "--traffic", file, "rate=20Mbit/s", "--json"];
            serde_json::from_str::<serde_json::Value>(&said(&args)).unwrap()
        };
        let model = ask(&path("mix.pcapng"));
        assert_eq!(model, ask(&path("mix.json")));
        let load = model["figures"][0]["value"].as_f64().unwrap();
        // The tagged flow's own datagrams come on top, one in 3.4 slots.
        let own = if name == "tagged" { 0.2936 } else { 0.0 };
        assert!(
            (load - own - carried).abs() < 0.02 * (carried + own),
            "{name}: {load} {carried}"
        );
    }
    let own_unit = [
        "model",
        "mixture",
        "--traffic",
        &path("mix.json"),
        "unit=1ms",
    ];
    assert!(refused(&own_unit).contains("--step"));
    let other = ["model", "mm1", "--traffic", &path("mix.pcapng")];
    assert!(refused(&other).contains("mixture and tagged have"));
    let neither = ["model", "mixture", "--traffic", &path("mix.toml")];
    assert!(refused(&neither).contains("not a capture"));
}
