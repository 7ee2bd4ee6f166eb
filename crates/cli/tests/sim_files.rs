//! `tailback sim` with files: traces that a scenario names, captures that it writes.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};
use testkit::TempDir;

struct Scratch(TempDir);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = TempDir::new(&format!("sim-{name}"));
        Scratch(dir)
    }
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("the scratch directory can be written to");
        path
    }
}

fn sim(scenario: &PathBuf, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tailback"))
        .arg("sim")
        .arg(scenario)
        .args(args)
        .output()
        .expect("tailback runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SCENARIO: &str = r#"
duration = "10 s"
warmup = "2 s"
[link]
rate = RATE
delay = "10 ms"
queue = "fifo:bytes=60000"
[reverse]
rate = RATE
[access]
rate = "1 Gbit/s"
[[flow]]
kind = "bulk"
"#;

/// Goodput and use of the link, in Mbit/s and as a share.
fn figures(scenario: &PathBuf, args: &[&str]) -> (f64, f64) {
    let out = sim(scenario, &[&["--json"], args].concat());
    assert!(out.status.success(), "{}", text(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
    let estimates = &json[0]["estimates"];
    let of = |name: &str| estimates[name]["mean"].as_f64().expect("it is a number");
    (of("bulk.goodput_bps") / 1e6, of("link.utilisation"))
}

#[test]
fn a_trace_of_a_constant_rate_is_as_good_as_the_rate() {
    let dir = Scratch::new("traces");
    std::fs::create_dir(dir.0.join("traces")).unwrap();
    // 1504 bytes a millisecond are 12.032 Mbit/s.
    let millis: Vec<String> = (1..=1000).map(|ms| ms.to_string()).collect();
    dir.file("traces/steady.up", &millis.join("\n"));
    let rows: Vec<String> = (0..20).map(|s| format!("{s},12.032")).collect();
    dir.file(
        "traces/steady.csv",
        &format!("t_s,rate_mbps\n{}", rows.join("\n")),
    );
    let scenario = |name: &str, rate: &str| dir.file(name, &SCENARIO.replace("RATE", rate));
    let (plain, used) = figures(&scenario("plain.toml", "\"12.032 Mbit/s\""), &[]);
    assert!(
        (11.0..11.7).contains(&plain) && used > 0.99,
        "{plain} {used}"
    );
    for (name, rate) in [
        ("mahimahi.toml", "{ trace = \"traces/steady.up\" }"),
        ("table.toml", "{ trace = \"traces/steady.csv\" }"),
        (
            "again.toml",
            "{ trace = \"traces/steady.csv\", repeat = \"20 s\" }",
        ),
    ] {
        let (goodput, used) = figures(&scenario(name, rate), &[]);
        assert!(
            (goodput / plain - 1.0).abs() < 0.005,
            "{name}: {goodput} {plain}"
        );
        assert!((0.99..1.001).contains(&used), "{name}: {used}");
    }
    // Every link may have one, also from the command line.
    let (goodput, _) = figures(
        &scenario("set.toml", "\"20 Mbit/s\""),
        &["--set", "access.rate={ trace = \"traces/steady.up\" }"],
    );
    assert!((goodput / plain - 1.0).abs() < 0.02, "{goodput} {plain}");
}

#[test]
fn a_rate_that_falls_is_averaged_over_the_time_that_counts() {
    let dir = Scratch::new("falls");
    dir.file("falls.csv", "t_ms,rate_kbps\n0,20000\n6000,5000\n");
    let path = dir.file(
        "falls.toml",
        &SCENARIO.replace("RATE", "{ trace = \"falls.csv\" }"),
    );
    let out = sim(&path, &["--json"]);
    let json: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
    // 60 kB wait 96 ms at 5 Mbit/s: what packets met, not what they would have met at the mean rate.
    let longest = json[0]["estimates"]["link.queue_ms.max"]["mean"]
        .as_f64()
        .unwrap();
    assert!((85.0..100.0).contains(&longest), "{longest}");
    // From 2 to 10 s: half of the time 20 Mbit/s, half 5.
    let (goodput, used) = figures(&path, &[]);
    assert!((goodput - 12.5 * 0.96).abs() < 0.5, "{goodput}");
    // What is counted left the line 10 ms before: so much longer it was the faster one.
    assert!((0.95..1.002).contains(&used), "{used}");
}

#[test]
fn a_trace_that_cannot_be_read_is_named_with_its_link_and_line() {
    let dir = Scratch::new("bad-traces");
    dir.file("back.up", "5\n4\n");
    dir.file("back.csv", "t_s,rate_mbps\n1,2\n0,2\n");
    let with = |rate: &str, link: &str| {
        let path = dir.file(
            "x.toml",
            &SCENARIO.replacen("RATE", rate, 1).replace("RATE", link),
        );
        let out = sim(&path, &[]);
        assert_eq!(out.status.code(), Some(2));
        text(&out.stderr)
    };
    let e = with("\"1 Mbit/s\"", "{ trace = \"gone.up\" }");
    assert!(
        e.contains("reverse.rate") && e.contains("gone.up") && e.contains("No such file"),
        "{e}"
    );
    let e = with("{ trace = \"back.up\" }", "\"1 Mbit/s\"");
    assert!(
        e.contains("link.rate") && e.contains("line 2: 4 ms comes after 5 ms"),
        "{e}"
    );
    let e = with("{ trace = \"back.csv\" }", "\"1 Mbit/s\"");
    assert!(e.contains("line 3"), "{e}");
    let e = with("{ trace = \"back.up\", repeat = \"1 s\" }", "\"1 Mbit/s\"");
    assert!(e.contains("repeats by itself"), "{e}");
}

#[test]
fn a_captures_retransmissions_are_those_that_the_table_counts() {
    let dir = Scratch::new("captures");
    let text_of = SCENARIO
        .replace("RATE", "\"6 Mbit/s\"")
        .replace("warmup = \"2 s\"", "");
    let path = dir.file("x.toml", &text_of.replace("bytes=60000", "packets=12"));
    let file = dir.0.join("sender.pcapng");
    let asked = format!("s0={}", file.display());
    let out = sim(&path, &["--json", "--pcap", &asked]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
    let counted = json[0]["estimates"]["bulk.retransmits"]["mean"].as_f64();
    let trace = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .args(["trace", "--json"])
        .arg(&file)
        .output()
        .expect("tailback runs");
    let told: Value = serde_json::from_slice(&trace.stdout).expect("it is JSON");
    let again = &told["connections"][0]["directions"][0]["retransmitted_packets"];
    assert!(counted > Some(5.0));
    assert_eq!(again.as_f64(), counted);
}

/// Names and contents of a directory's files.
fn files(directory: &std::path::Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let path = |e: std::io::Result<std::fs::DirEntry>| e.expect("an entry").path();
    let name = |p: &PathBuf| p.file_name().map(|n| n.to_string_lossy().into_owned());
    let read = |p: PathBuf| Some((name(&p)?, std::fs::read(&p).ok()?));
    entries.map(path).filter_map(read).collect()
}

#[test]
fn kept_runs_are_made_once_and_shards_together_are_the_whole() {
    let dir = Scratch::new("kept");
    let path = dir.file("kept.toml", &SCENARIO.replace("RATE", "\"5 Mbit/s\""));
    let sweep = ["--sweep", "link.queue=fifo;pie", "--seeds", "3"];
    let kept = |name: &str| dir.0.join(name).display().to_string();
    let plain = sim(&path, &[&sweep[..], &["--json"]].concat());
    let whole = kept("whole");
    let first = sim(&path, &[&sweep[..], &["--json", "--keep", &whole]].concat());
    assert_eq!(text(&first.stdout), text(&plain.stdout));
    // A run that is kept is read, and one that was damaged by a crash is made again.
    let before = files(&dir.0.join("whole"));
    assert_eq!(before.len(), 6);
    let name = before.keys().next().expect("a run");
    std::fs::write(dir.0.join("whole").join(name), "{").expect("it can be written");
    let again = sim(&path, &[&sweep[..], &["--json", "--keep", &whole]].concat());
    assert_eq!(text(&again.stdout), text(&plain.stdout));
    assert_eq!(files(&dir.0.join("whole")), before);
    // Shards, each in a directory of its own, as on several machines.
    let mut union = BTreeMap::new();
    for shard in ["1/4", "2/4", "3/4", "4/4"] {
        let name = kept(&shard.replace('/', "-"));
        let out = sim(
            &path,
            &[&sweep[..], &["--keep", &name, "--shard", shard]].concat(),
        );
        assert!(out.status.success(), "{}", text(&out.stderr));
        union.append(&mut files(std::path::Path::new(&name)));
    }
    assert_eq!(union, before);
}

/// Rows of a CSV, by column; the swept values here have neither commas nor quotation marks.
fn csv(path: &PathBuf) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).expect("a file");
    let mut lines = text.lines().map(|l| l.split(',').map(str::to_string));
    let heads: Vec<String> = lines.next().expect("a heading").collect();
    let rows = lines.map(|cells| heads.iter().cloned().zip(cells).collect());
    rows.collect()
}

#[test]
fn the_figures_of_every_run_are_numbers_and_differences_are_of_the_same_seed() {
    let dir = Scratch::new("runs");
    let text_of = SCENARIO.replace("RATE", "\"5 Mbit/s\"") + "spread = \"1 s\"\ncount = 3\n";
    let scenario = dir.file("s.toml", &text_of);
    let (csv_path, parquet) = (dir.0.join("all.csv"), dir.0.join("all.parquet"));
    let sweep = ["--sweep", "link.queue=codel;pie", "--seeds", "4", "--json"];
    let with = |path: &PathBuf| {
        sim(
            &scenario,
            &[&sweep[..], &["--runs", path.to_str().unwrap()]].concat(),
        )
    };
    let out = with(&csv_path);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
    let rows = csv(&csv_path);
    assert_eq!(rows.len(), 8);
    let number =
        |row: &BTreeMap<String, String>, key: &str| row[key].parse::<f64>().expect("a number");
    for (at, row) in rows.iter().enumerate() {
        let run = &json[at / 4]["runs"][at % 4];
        assert_eq!(row["link.queue"], ["codel", "pie"][at / 4]);
        assert_eq!(row["seed"], (1 + at % 4).to_string());
        for (key, of) in [
            ("link.queue_ms.p95", &run["links"][0]["queue_ms"]["p95"]),
            ("bulk.goodput_bps", &run["flows"][0]["goodput_bps"]),
            ("link.drops", &run["links"][0]["drops"]),
        ] {
            assert_eq!(Some(number(row, key)), of.as_f64(), "{key} of {at}");
        }
    }
    assert_eq!(json[0]["differences"], Value::Null);
    let pairs = (0..4).map(|i| {
        number(&rows[4 + i], "link.queue_ms.mean") - number(&rows[i], "link.queue_ms.mean")
    });
    let pairs: Vec<f64> = pairs.collect();
    let mean = pairs.iter().sum::<f64>() / 4.0;
    let sd = (pairs.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 3.0).sqrt();
    // Student's t with three degrees of freedom.
    let half = 3.182_446 * sd / 2.0;
    let shown = &json[1]["differences"]["link.queue_ms.mean"];
    assert!(
        (shown["mean"].as_f64().unwrap() - mean).abs() < 1e-9,
        "{shown} {mean}"
    );
    assert!(
        (shown["half"].as_f64().unwrap() / half - 1.0).abs() < 1e-4,
        "{shown} {half}"
    );
    assert!(with(&parquet).status.success());
    assert!(
        std::fs::read(&parquet)
            .expect("a file")
            .starts_with(b"PAR1")
    );
    let table = sim(
        &scenario,
        &[
            "--sweep",
            "link.queue=codel;pie",
            "--seeds",
            "4",
            "--differences",
        ],
    );
    let table = text(&table.stdout);
    assert!(
        table.contains("Differences from link.queue=codel") && table.contains("pie"),
        "{table}"
    );
    assert!(!table.contains("\ncodel"), "{table}");
    for (args, said) in [
        (&["--runs", "all.txt"][..], ".parquet"),
        (
            &["--runs", "/nowhere/of/this/name/all.csv"][..],
            "/nowhere/of/this/name",
        ),
        (
            &["--sweep", "link.queue=pie", "--differences"][..],
            "--seeds 2",
        ),
    ] {
        let out = sim(&scenario, args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(text(&out.stderr).contains(said), "{}", text(&out.stderr));
    }
}
