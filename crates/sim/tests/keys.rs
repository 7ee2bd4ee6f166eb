//! The book's page of scenarios names every key, with the default that it has.

use sim::flow::Common;
use sim::scenario::{Sample, Tcp};
use sim::source::COMMON;
use sim::source::registry::SOURCES;
use sim::topology::TOPOLOGIES;
use sim::{Draft, Scenario};
use std::collections::BTreeMap;
use toml::Table;

const PAGE: &str = include_str!("../../../docs/book/sim.md");

const LEAST: &str = r#"
duration = "1 s"
link = { rate = "1 Mbit/s" }
flow = [{ kind = "bulk" }]
"#;

/// By key: what its row says is its default.
fn rows() -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    for line in PAGE.lines().filter(|l| l.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        for key in cells[1].split(", ") {
            rows.insert(key.trim_matches('`').to_string(), cells[2].to_string());
        }
    }
    rows
}

/// Every default of the page, written into a file, changes nothing.
fn same<T>(rows: &BTreeMap<String, String>, prefix: &str, of: &T)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let defaults = Table::try_from(of).unwrap();
    for key in defaults.keys() {
        let said = &rows[&format!("{prefix}{key}")];
        let Ok(given) = toml::from_str::<Table>(&format!("{key} = {said}")) else {
            panic!("{key}: the page says {said}");
        };
        let mut table = defaults.clone();
        table.extend(given);
        let read: T = table.try_into().unwrap();
        assert_eq!(read, *of, "{key}: the page says {said}");
    }
}

/// The keys that serde knows of a struct, from what it says of one that it does not know.
fn known<T: serde::de::DeserializeOwned + std::fmt::Debug>() -> Vec<String> {
    let error = toml::from_str::<T>("nothing_of_that_name = 1").unwrap_err();
    let words = error.message().split('`').skip(3).step_by(2);
    words.map(str::to_string).collect()
}

#[test]
fn the_page_of_scenarios_says_every_key_and_its_default() {
    let rows = rows();
    for key in known::<Scenario>() {
        assert!(rows.contains_key(&key), "{key} is not on the page");
    }
    for (prefix, keys) in [("sample.", known::<Sample>()), ("tcp.", known::<Tcp>())] {
        for key in keys {
            let key = format!("{prefix}{key}");
            assert!(rows.contains_key(&key), "{key} is not on the page");
        }
    }
    same(&rows, "sample.", &Sample::default());
    same(&rows, "tcp.", &Tcp::default());
    same(&rows, "", &toml::from_str::<Common>("").unwrap());
    let read = |text: &str| Draft::new(text).unwrap().finish().unwrap();
    for key in ["title", "seed", "warmup", "topology"] {
        let text = format!("{key} = {}\n{LEAST}", rows[key]);
        assert_eq!(read(&text), read(LEAST), "{key}");
    }
    for name in COMMON {
        assert!(rows.contains_key(name), "{name} is not on the page");
    }
    for entry in SOURCES.iter().map(|s| &s.entry).chain(TOPOLOGIES) {
        assert!(
            rows.contains_key(entry.name),
            "{} is not on the page",
            entry.name
        );
    }
}

/// Tables of the page whose rows have examples: the key, and the TOML lines of its example.
fn examples() -> Vec<(String, Vec<String>)> {
    let rows = PAGE.lines().filter(|l| l.starts_with("| `"));
    let cells = rows.map(|l| l.split(" | ").map(|c| c.trim_matches(['|', ' '])).collect());
    let four = cells.filter(|cells: &Vec<&str>| cells.len() == 4);
    let example = |cells: Vec<&str>| {
        let lines = cells[3].trim_matches('`').split("; ").map(str::to_string);
        (cells[0].replace('`', ""), lines.collect())
    };
    four.map(example).collect()
}

#[test]
fn every_example_of_the_page_is_a_scenario() {
    let mut tried = 0;
    for (key, lines) in examples() {
        let own = |line: &String| line.split(" = ").next().unwrap_or("").to_string();
        if key == "document" {
            continue;
        }
        let of_flow =
            COMMON.contains(&key.as_str()) || ["kind", "from, to"].contains(&key.as_str());
        // The key `tcp` is one of scenarios and one of flows; its example is right for both.
        let of_flow = of_flow && key != "tcp";
        let example: Table =
            toml::from_str(&lines.join("\n")).unwrap_or_else(|e| panic!("{key}: {e}"));
        assert!(
            lines.iter().any(|line| key.contains(&own(line))),
            "{key}: {lines:?}"
        );
        let mut table: Table = toml::from_str(LEAST).unwrap();
        if example.contains_key("edge") {
            table.remove("link");
        }
        match of_flow {
            true => table["flow"][0].as_table_mut().unwrap().extend(example),
            false => table.extend(example),
        }
        let text = toml::to_string(&table).unwrap();
        let read = Draft::new(&text).and_then(|draft| draft.finish());
        let scenario = read.unwrap_or_else(|e| panic!("{key}: {lines:?}: {e}"));
        let least = Draft::new(LEAST).unwrap().finish().unwrap();
        assert_ne!(scenario, least, "{key}: {lines:?} changes nothing");
        tried += 1;
    }
    assert!(tried > 50, "{tried} examples");
}
