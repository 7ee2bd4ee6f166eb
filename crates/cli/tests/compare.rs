//! `tailback compare` through the binary, on tests in virtual time: a cure is told, and chance is not.

use base::record::{Recording, Row};
use link::LinkSpec;
use serde_json::Value;
use std::path::Path;
use testkit::{Program, TempDir};

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

/// Test of an ADSL link with these queues, in virtual time.
fn test(path: &Path, queue: &str, seed: u64) {
    let mut spec = LinkSpec::named("adsl").expect("a preset");
    for key in ["up.queue", "down.queue"] {
        if !queue.is_empty() {
            spec.set(key, queue).expect("a queue");
        }
    }
    let outcome = sim::bufferbloat::run(&sim::bufferbloat::Plan::new(spec, seed));
    save(path, outcome.expect("a run").recording);
}

fn save(path: &Path, recording: Recording) {
    let mut writer = store::Writer::create(path, recording.meta.clone()).expect("a recording");
    let rows = recording.delay.into_iter().map(Row::Delay);
    let rows = rows.chain(recording.traffic.into_iter().map(Row::Traffic));
    let rows = rows.chain(recording.flow.into_iter().map(Row::Flow));
    let rows = rows.chain(recording.queue.into_iter().map(Row::Queue));
    let rows = rows.chain(recording.datagram.into_iter().map(Row::Datagram));
    let rows = rows.chain(recording.host.into_iter().map(Row::HostLoad));
    let rows = rows.chain(recording.event.into_iter().map(Row::Event));
    for row in rows {
        writer.write(row).expect("a row");
    }
    writer.close(recording.meta).expect("closed");
}

/// Changes of the figures by their keys.
fn changes(found: &Value) -> Vec<(String, String)> {
    let rows = found["rows"].as_array().expect("rows");
    let change = |row: &Value| {
        let text = |v: &Value| v.as_str().expect("text").to_owned();
        (text(&row["key"]), text(&row["changes"][0]["is"]))
    };
    rows.iter().map(change).collect()
}

/// Two networks of each medium tell the media apart; one network of a medium tells nothing of it.
#[test]
fn media_are_compared_by_the_spread_between_their_networks() {
    let dir = TempDir::new("media");
    for (name, queue, seed) in [
        ("p1.rec", "", 1),
        ("p2.rec", "", 2),
        ("c1.rec", "fq_codel", 3),
        ("c2.rec", "fq_codel", 4),
    ] {
        test(&dir.join(name), queue, seed);
    }
    let program = program().within(&dir);
    let plain = ["compare", "--json", "plain/one=p1.rec", "plain/two=p2.rec"];
    let both = [&plain[..], &["cured/one=c1.rec", "cured/two=c2.rec"]].concat();
    let found = program.json(&both);
    let media = &found["media"];
    assert_eq!(media["tests"][1]["name"], "cured");
    assert_eq!(media["tests"][1]["networks"], 2);
    let added = ("added_up_p95_ms".to_owned(), "better".to_owned());
    assert!(changes(media).contains(&added), "{media}");
    let mean = |f: &Value| f["figures"][0]["value"].as_f64().expect("a figure");
    let ours = found["rows"][0]["figures"].as_array().expect("figures");
    let of = |i: usize| ours[i]["value"].as_f64().expect("a figure");
    assert!((mean(&media["rows"][0]) - (of(0) + of(1)) / 2.0).abs() < 1e-9);
    let alone = program.json(&[&plain[..], &["cured/one=c1.rec"]].concat());
    let told = changes(&alone["media"]);
    assert!(told.iter().all(|(_, is)| is == "cannot_tell"), "{told:?}");
    // Without media there is no such table.
    let none = program.json(&["compare", "p1.rec", "c1.rec", "--json"]);
    assert_eq!(none.get("media"), None);
}

#[test]
fn a_cure_is_better_and_the_same_link_again_is_not() {
    let dir = TempDir::new("compare");
    for (name, queue, seed) in [
        ("a.rec", "", 1),
        ("again.rec", "", 2),
        ("cured.rec", "fq_codel", 3),
    ] {
        test(&dir.join(name), queue, seed);
    }
    let program = program().within(&dir);
    let cured = program.json(&["compare", "a.rec", "cured.rec", "--json"]);
    let found = changes(&cured);
    for key in ["added_up_p95_ms", "added_down_p95_ms", "rpm"] {
        let is = found
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, is)| is.as_str());
        assert_eq!(is, Some("better"), "{key}: {found:?}");
    }
    assert_eq!(cured["tests"][0]["grade"], "F");
    assert!(
        ["A+", "A"].iter().any(|g| cured["tests"][1]["grade"] == *g),
        "{cured}"
    );
    let again = program.json(&["compare", "a.rec", "again.rec", "--json"]);
    let worse = changes(&again);
    let differ = worse
        .iter()
        .filter(|(_, is)| is == "better" || is == "worse")
        .count();
    assert!(differ <= 1, "the same link twice: {worse:?}");
    // The text says the same.
    let out = program
        .command(&["compare", "a.rec", "cured.rec"])
        .env("COLUMNS", "80")
        .output();
    let text = String::from_utf8(out.expect("it runs").stdout).expect("text");
    assert!(text.starts_with("Grade F → A"), "{text}");
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        joined.contains("upload adds, 95 %") && joined.contains("(better)"),
        "{text}"
    );
    let wide: Vec<&str> = text.lines().filter(|l| l.chars().count() > 80).collect();
    assert_eq!(wide, Vec::<&str>::new());
    // Three of them.
    let out = program.run(&["compare", "a.rec", "again.rec", "cured.rec"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("again.rec: Grade F → F"), "{text}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let dir = TempDir::new("compare-refused");
    let program = program().within(&dir);
    for (args, word) in [
        (&["compare", "a.rec"][..], "2 values required"),
        (&["compare", "gone.rec", "gone.rec"], "gone.rec"),
    ] {
        let out = program.run(args);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(word), "{args:?}: {told}");
    }
}

/// Three networks, two of them with rounds: one table and one page, whose intervals come from the rounds.
#[test]
fn networks_with_rounds_share_one_table_and_one_page() {
    let dir = TempDir::new("compare-rounds");
    for (name, queue, seed) in [
        ("a1.rec", "", 11),
        ("a2.rec", "", 12),
        ("a3.rec", "", 13),
        ("b1.rec", "", 21),
        ("b2.rec", "", 22),
        ("b3.rec", "", 23),
        ("cured.rec", "fq_codel", 31),
    ] {
        test(&dir.join(name), queue, seed);
    }
    let program = program().within(&dir);
    let networks = [
        "a=a1.rec,a2.rec,a3.rec",
        "b=b1.rec,b2.rec,b3.rec",
        "cured.rec",
    ];
    let args = [&["compare"], &networks[..], &["--json", "-o", "n.html"]].concat();
    let found = program.json(&args);
    let rounds = |i: usize| found["tests"][i]["rounds"].as_u64();
    assert_eq!([0, 1, 2].map(rounds), [Some(3), Some(3), Some(1)]);
    let row = &found["rows"][0];
    assert_eq!(row["key"], "added_up_p95_ms");
    let each = |name: &str| {
        let one = program.json(&["analyse", name, "--json"]);
        one["up"]["added"]["p95_ms"]["value"]
            .as_f64()
            .expect("a figure")
    };
    let all = ["a1.rec", "a2.rec", "a3.rec"].map(each);
    let mean = all.iter().sum::<f64>() / 3.0;
    let sd = (all.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    let figure = |key: &str| row["figures"][0][key].as_f64().expect("a figure");
    assert!((figure("value") - mean).abs() < 1e-9, "{row}");
    // Student's quantile for two degrees of freedom is 4.303.
    let half = (figure("high") - figure("low")) / 2.0;
    assert!(
        (half / (4.303 * sd / 3f64.sqrt()) - 1.0).abs() < 1e-3,
        "{row}"
    );
    assert_eq!(row["changes"][0]["is"], "same", "{row}");
    assert_eq!(row["changes"][1]["is"], "better", "{row}");
    let page = std::fs::read_to_string(dir.join("n.html")).expect("a page");
    for part in [
        "3 networks side by side, 7 runs",
        "Change from a",
        "<h2>Upload</h2>",
        "fetches nothing",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(page.matches("<figure").count(), 4, "a plot a phase");
    let out = program.command(&[&["compare"], &networks[..]].concat());
    let (status, text) = testkit::in_terminal(out, 80, 24);
    assert!(status.success() && text.contains("Change from a"), "{text}");
    assert!(
        text.lines().all(|l| l.trim_end().chars().count() <= 80),
        "{text}"
    );
    // Rounds of recordings that are no tests are refused.
    let out = program.run(&["compare", "x=gone.rec,gone.rec", "a1.rec"]);
    assert_eq!(out.status.code(), Some(2));
}
