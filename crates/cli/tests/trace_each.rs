//! `tailback trace --each`: captures as repetitions of one measurement.

use serde_json::Value;
use testkit::{Program, TempDir};

const TAILBACK: &str = env!("CARGO_BIN_EXE_tailback");

/// Captures of simulated downloads over a lossy link, one for each seed.
fn captures(dir: &TempDir, flows: &str, seeds: std::ops::Range<u64>) -> Vec<String> {
    let program = Program::new(TAILBACK);
    let one = |seed: u64| {
        let scenario = format!(
            "seed = {seed}\nduration = \"10 s\"\ntopology = \"linear\"\n[link]\nrate = \"{} Mbit/s\"\n\
             delay = \"20 ms\"\nloss = \"random:probability=0.01\"\n[reverse]\nrate = \"10 Mbit/s\"\ndelay = \"20 ms\"\n{flows}",
            1 + seed % 3
        );
        dir.file("one.toml", &scenario);
        let file = dir.at(&format!("{seed}.pcapng"));
        let out = program.run(&[
            "sim",
            &dir.at("one.toml"),
            "--pcap",
            &format!("link={file}"),
        ]);
        assert!(out.status.success(), "{out:?}");
        file
    };
    seeds.map(one).collect()
}

fn trace(args: &[&str]) -> Value {
    Program::new(TAILBACK).json(&[&["trace", "--json"], args].concat())
}

/// Mean and standard deviation of a sample, by their definitions.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    (mean, (squares / (n - 1.0)).sqrt())
}

#[track_caller]
fn agree(spread: &Value, values: &[f64]) {
    let (mean, sd) = moments(values);
    let near = |key: &str, to: f64| {
        let got = spread[key].as_f64().expect("a number");
        assert!(
            (got - to).abs() <= 1e-9 * to.abs().max(1e-9),
            "{key}: {got} for {to} in {spread}"
        );
    };
    assert_eq!(spread["captures"], values.len());
    near("mean", mean);
    near("sd", sd);
    near(
        "least",
        values.iter().copied().fold(f64::INFINITY, f64::min),
    );
    near("most", values.iter().copied().fold(0.0, f64::max));
}

fn figure<'a>(group: &'a Value, key: &str) -> &'a Value {
    let all = group["figures"].as_array().expect("figures");
    let found = all.iter().find(|f| f["key"] == key);
    found.unwrap_or_else(|| panic!("no {key} in {group}"))
}

#[test]
fn means_over_captures_are_those_of_their_own_answers() {
    let dir = TempDir::new("trace-each");
    let files = captures(&dir, "[[flow]]\nkind = \"bulk\"\n", 0..6);
    let (mut goodput, mut lost) = (Vec::new(), Vec::new());
    for file in &files {
        let answer = trace(&[file]);
        let connections = answer["connections"].as_array().expect("connections");
        let directions = connections
            .iter()
            .flat_map(|c| c["directions"].as_array().expect("two"));
        let largest = directions.max_by_key(|d| d["unique_bytes"].as_u64());
        goodput.push(
            largest.expect("one")["goodput_bps"]
                .as_f64()
                .expect("a rate"),
        );
        let losses = &answer["losses"];
        let n = |key: &str| losses[key].as_f64().expect("a count");
        lost.push(100.0 * n("lost") / n("data_packets"));
    }
    // The directory is its captures; what is not one is passed over.
    let all = trace(&["--each", &dir.at("")]);
    assert_eq!(all["groups"].as_array().map(Vec::len), Some(1));
    assert_eq!(all["captures"].as_array().map(Vec::len), Some(6));
    agree(figure(&all["groups"][0], "goodput_bps"), &goodput);
    agree(figure(&all["groups"][0], "lost_percent"), &lost);
    assert!(lost.iter().all(|l| *l > 0.1), "{lost:?}");
}

#[test]
fn laws_of_all_captures_have_one_step() {
    let dir = TempDir::new("trace-each-traffic");
    let web = "[[flow]]\nkind = \"web\"\ncount = 3\n[[flow]]\nkind = \"poisson\"\nrate = \"100 kbit/s\"\nsize = \"200 B\"\n";
    let files = captures(&dir, web, 0..3);
    let args: Vec<&str> = ["--traffic", "--each"]
        .into_iter()
        .chain(files.iter().map(String::as_str))
        .collect();
    let all = trace(&args);
    let step_s = all["step_s"].as_f64().expect("a step");
    let step = format!("{}us", (step_s * 1e6).round());
    for (file, n) in files.iter().zip(0..) {
        let own = trace(&["--traffic", "--step", &step, file]);
        let name = format!("{n}.pcapng");
        let captures = all["captures"].as_array().expect("captures");
        let its = captures
            .iter()
            .find(|c| c["file"] == name.as_str())
            .expect("it is listed");
        let both = &own["classes"][2];
        let fits = both["arrivals"]["fits"].as_array().expect("fits");
        let weibull = fits
            .iter()
            .find(|f| f["family"] == "Weibull")
            .expect("a fit");
        let shape = &weibull["parameters"][0][1]["value"];
        assert_eq!(
            its["figures"]["both_arrivals_shape"], *shape,
            "{file} at {step}"
        );
        assert_eq!(its["figures"]["packets"].as_f64(), both["packets"].as_f64());
    }
}

#[test]
fn directories_without_captures_and_standard_input_are_refused() {
    let dir = TempDir::new("trace-each-none");
    for (args, word) in [
        ([dir.at("")], "no captures"),
        (["-".to_owned()], "one by one"),
    ] {
        let out = Program::new(TAILBACK).run(&["trace", "--each", &args[0]]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(word), "{said}");
    }
}
