//! Simulations without probes say what their queues and transfers say; those with probes and counted bytes, what a gateway could know.

use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::TempDir;

/// A full line, watched from inside.
const FULL: &str = r#"
duration = "20 s"
topology = "linear:hops=1"
sample = { traffic = "100 ms" }
link = { rate = "1 Mbit/s", delay = "10 ms", queue = "fifo:packets=30" }
reverse = { rate = "10 Mbit/s", delay = "10 ms" }
[[flow]]
kind = "bulk"
start = "2 s"
"#;

const PROBE: &str = "[[flow]]\nkind = \"probe\"\ngap = \"50 ms\"\n";

struct Scratch(TempDir);

impl Scratch {
    /// With a recording of this scenario in it.
    fn with(name: &str, scenario: &str) -> Scratch {
        let dir = TempDir::new(&format!("inside-{name}"));
        let scratch = Scratch(dir);
        let file = scratch.path("s.toml");
        std::fs::write(&file, scenario).expect("a scenario");
        let (code, _, error) = run(&["sim", &text(&file), "-o", &text(&scratch.path("r.rec"))]);
        assert_eq!(code, Some(0), "{error}");
        scratch
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
    fn recording(&self) -> String {
        text(&self.path("r.rec"))
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .args(args)
        .output()
        .expect("tailback runs");
    let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), words(&out.stdout), words(&out.stderr))
}

#[test]
fn a_simulation_without_probes_tells_of_its_queues_and_transfers() {
    let scratch = Scratch::with("plain", FULL);
    let (code, json, error) = run(&["analyse", &scratch.recording(), "--json"]);
    assert_eq!(code, Some(0), "{error}");
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    // 30 packets of 1500 bytes at 1 Mbit/s are 360 ms.
    let most = answer["queues"][0]["wait_max_ms"]["value"]
        .as_f64()
        .unwrap();
    assert!((most - 360.0).abs() < 15.0, "{most}");
    let rate = answer["flows"][0]["throughput_bps"]["value"].as_f64();
    assert!((900e3..980e3).contains(&rate.unwrap()), "{rate:?}");
    assert!(answer["queues"][0]["drops"].as_i64().unwrap() > 0);
    let (_, shown, _) = run(&["analyse", &scratch.recording()]);
    for part in ["Queues", "Transfers", "Cannot tell"] {
        assert!(shown.contains(part), "{shown}");
    }
    // What only probes can answer is still refused.
    let (code, _, error) = run(&["analyse", &scratch.recording(), "--window", "5s"]);
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("holds no probes"), "{error}");
}

#[test]
fn its_report_draws_waits_throughput_and_round_trips() {
    let scratch = Scratch::with("drawn", FULL);
    let draw = |args: &[&str], name: &str| {
        let file = scratch.path(name);
        let recording = scratch.recording();
        let mut all = vec!["report", &recording];
        all.extend(args);
        let to = text(&file);
        all.extend(["-o", &to]);
        let (code, _, error) = run(&all);
        assert_eq!(code, Some(0), "{error}");
        std::fs::read_to_string(file).unwrap()
    };
    let page = draw(&[], "r.html");
    for part in [
        "How long packets waited",
        "Throughput",
        "Round trips",
        "Cannot tell",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(draw(&["--plot", "queue"], "q.svg").contains("waiting time, ms"));
    assert!(draw(&["--plot", "throughput"], "t.svg").contains("payload, "));
    assert!(draw(&[], "r.svg").contains("round trip, ms"));
}

#[test]
fn a_hidden_queue_is_followed_and_its_truth_stands_beside() {
    let scratch = Scratch::with("hidden", &format!("{FULL}{PROBE}"));
    let recording = scratch.recording();
    let args = [
        "analyse",
        &recording,
        "--hidden-queue",
        "--json",
        "--rate-up",
        "1 Mbit/s",
    ];
    let (code, json, error) = run(&args);
    assert_eq!(code, Some(0), "{error}");
    let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
    let of = |law: usize, figure: &str| {
        let truth = &answer["laws"][law]["beside_truth"];
        truth[figure]["value"].as_f64().unwrap()
    };
    // Half a packet of 12 ms is on the wire, and a packet that was dropped is counted until the next measurement.
    assert!(of(1, "median_ms").abs() < 20.0, "{json}");
    assert!(of(0, "median_ms") < -100.0, "{json}");
    let bare = Scratch::with(
        "bare",
        &FULL.replace("sample = { traffic = \"100 ms\" }", ""),
    );
    let (code, _, error) = run(&["analyse", &bare.recording(), "--hidden-queue"]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("[sample] traffic"), "{error}");
}

#[test]
fn windows_drops_and_marks_are_drawn_with_the_names_of_the_flows() {
    let named = format!(
        "{FULL}name = \"big\"\ncount = 2\n[[flow]]\nkind = \"bulk\"\nname = \"late\"\nstart = \"9 s\"\n{PROBE}"
    );
    let scratch = Scratch::with("windows", &named);
    let drawn = |plot: &str| {
        let output = text(&scratch.path(&format!("{plot}.svg")));
        let (code, _, error) = run(&[
            "report",
            &scratch.recording(),
            "--plot",
            plot,
            "-o",
            &output,
        ]);
        assert_eq!(code, Some(0), "{plot}: {error}");
        std::fs::read_to_string(output).expect("a plot")
    };
    let windows = drawn("window");
    for name in ["big 1 upload", "big 2 upload", "late upload", "window, kB"] {
        assert!(windows.contains(name), "{name}");
    }
    let phase = drawn("phase");
    assert!(phase.contains("windows of all transfers, kB") && phase.contains("last"));
    let film = text(&scratch.path("film.html"));
    let (code, _, error) = run(&[
        "report",
        &scratch.recording(),
        "--plot",
        "film",
        "-o",
        &film,
    ]);
    assert_eq!(code, Some(0), "{error}");
    let page = std::fs::read_to_string(film).expect("a page");
    let json = page.split("id=\"film-data\"").nth(1).expect("data");
    let (_, json) = json.split_once('>').expect("the end of the tag");
    let json = json.split("</script>").next().expect("an end");
    let film: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let frames = film["frames"].as_u64().expect("a number") as usize;
    let column = |v: &serde_json::Value| v.as_array().expect("a column").clone();
    let queue = &film["queues"][0];
    for key in ["packets", "kb", "wait_ms", "drops", "marks"] {
        assert_eq!(column(&queue[key]).len(), frames, "{key}");
    }
    assert_eq!(column(&film["flows"][0]["window_kb"]).len(), frames);
    let drops = column(&queue["drops"]);
    assert!(drops.windows(2).all(|w| w[0].as_u64() <= w[1].as_u64()));
    let (code, _, error) = run(&[
        "report",
        &scratch.recording(),
        "--plot",
        "film",
        "-o",
        "x.svg",
    ]);
    assert_eq!(code, Some(2), "{error}");
    let signals = drawn("signals");
    assert!(signals.contains("Drops and marks") && signals.contains("drops"));
    // A queue without drops and marks has no such plot, and the reason is said.
    let idle = FULL.replace("kind = \"bulk\"", "kind = \"bulk\"\nsize = \"5 kB\"");
    let idle = Scratch::with("idle", &idle);
    let output = text(&idle.path("none.svg"));
    let (code, _, error) = run(&[
        "report",
        &idle.recording(),
        "--plot",
        "signals",
        "-o",
        &output,
    ]);
    assert_ne!(code, Some(0));
    assert!(error.contains("no packet was dropped or marked"), "{error}");
}
