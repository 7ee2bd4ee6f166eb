//! Files that are written from their one source, and the check that they are fresh.

use anyhow::{Context, Result, bail};
use base::record::{Column, FORMAT_VERSION, Kind, Meta, TABLES};
use base::words::{Entry, Unit};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::path::Path;

/// # Errors
/// Where a file cannot be written.
pub fn write(root: &Path) -> Result<()> {
    for (name, text) in files()? {
        let path = root.join(&name);
        std::fs::create_dir_all(path.parent().expect("a file stands in a directory"))
            .and_then(|()| std::fs::write(&path, text))
            .with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

/// # Errors
/// Names every file that differs from what its source gives now.
pub fn check(root: &Path) -> Result<()> {
    let stale = stale(&files()?, &|name| {
        std::fs::read_to_string(root.join(name)).ok()
    });
    if stale.is_empty() {
        return Ok(());
    }
    bail!(
        "not fresh: {}. Run `cargo xtask gen` and commit what it wrote.",
        stale.join(", ")
    )
}

fn stale(files: &[(String, String)], on_disk: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    files
        .iter()
        .filter(|(name, text)| on_disk(name).as_ref() != Some(text))
        .map(|(name, _)| name.clone())
        .collect()
}

fn files() -> Result<Vec<(String, String)>> {
    let answer = schemars::schema_for!(analysis::answer::Answer);
    let statistics = schemars::schema_for!(analysis::statistics::Statistics);
    Ok(vec![
        (
            format!("schema/record.v{FORMAT_VERSION}.json"),
            pretty(&record_schema()?)?,
        ),
        (
            format!("schema/answer.v{}.json", analysis::answer::ANSWER_VERSION),
            pretty(&answer.to_value())?,
        ),
        (
            format!(
                "schema/statistics.v{}.json",
                analysis::statistics::STATISTICS_VERSION
            ),
            pretty(&statistics.to_value())?,
        ),
        (
            format!(
                "schema/comparison.v{}.json",
                analysis::compare::COMPARISON_VERSION
            ),
            pretty(&schemars::schema_for!(analysis::compare::SideBySide).to_value())?,
        ),
        (
            format!(
                "schema/before-after.v{}.json",
                analysis::before_after::VERSION
            ),
            pretty(&schemars::schema_for!(analysis::before_after::BeforeAfter).to_value())?,
        ),
        (
            format!(
                "schema/hidden-queue.v{}.json",
                analysis::hidden_queue::HIDDEN_QUEUE_VERSION
            ),
            pretty(&schemars::schema_for!(analysis::hidden_queue::HiddenQueue).to_value())?,
        ),
        (
            format!("schema/inside.v{}.json", analysis::inside::INSIDE_VERSION),
            pretty(&schemars::schema_for!(analysis::inside::Inside).to_value())?,
        ),
        (
            "crates/report/web/src/schema.ts".into(),
            crate::typescript::page()?,
        ),
        ("docs/reference/record.md".into(), record_page()?),
        ("docs/reference/qdiscs.md".into(), qdiscs_page()?),
        ("docs/reference/controllers.md".into(), controllers_page()?),
        ("docs/reference/links.md".into(), links_page()?),
        ("docs/reference/sources.md".into(), sources_page()?),
        ("docs/reference/models.md".into(), models_page()?),
        ("docs/reference/probes.md".into(), probes_page()?),
        (
            format!("schema/probe.v{}.json", experiment::PROBE_ANSWER_VERSION),
            pretty(&schemars::schema_for!(experiment::ProbeAnswer).to_value())?,
        ),
        (
            format!("schema/twin.v{}.json", twin::answer::TWIN_VERSION),
            pretty(&schemars::schema_for!(twin::Twin).to_value())?,
        ),
        (
            format!("schema/what-if.v{}.json", twin::answer::TWIN_VERSION),
            pretty(&schemars::schema_for!(twin::whatif::WhatIf).to_value())?,
        ),
        (
            format!(
                "schema/monitor-state.v{}.json",
                analysis::monitor_state::STATE_VERSION
            ),
            pretty(&schemars::schema_for!(analysis::monitor_state::MonitorState).to_value())?,
        ),
        (
            format!("schema/proof.v{}.json", twin::answer::TWIN_VERSION),
            pretty(&schemars::schema_for!(twin::prove::Proof).to_value())?,
        ),
    ])
}

fn pretty(value: &Value) -> Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// The names Arrow and JSON have for a kind.
fn type_names(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Int => ("int64", "integer"),
        Kind::Real => ("float64", "number"),
        Kind::Flag => ("bool", "boolean"),
        Kind::Text => ("utf8", "string"),
    }
}

/// A recording as one JSON document: `meta`, and each table as an array of rows.
fn record_schema() -> Result<Value> {
    let mut properties = Map::new();
    let mut meta = schemars::schema_for!(Meta).to_value();
    let definitions = meta
        .as_object_mut()
        .and_then(|m| m.remove("$defs"))
        .unwrap_or(json!({}));
    let checksum = json!({
        "type": "string",
        "pattern": "^crc32:[0-9a-f]{8}$",
        "description": "CRC-32 of the file's text before this member, which is the last. Absent in recordings of earlier releases.",
    });
    if let Some(members) = meta.get_mut("properties").and_then(Value::as_object_mut) {
        members.insert("checksum".into(), checksum);
    }
    properties.insert("meta".into(), meta);
    for table in TABLES {
        let columns: Map<String, Value> = table
            .columns
            .iter()
            .map(|c| (c.name.into(), column_schema(c)))
            .collect();
        let required: Vec<&str> = table
            .columns
            .iter()
            .filter(|c| !c.nullable)
            .map(|c| c.name)
            .collect();
        let rows = json!({"type": "object", "properties": columns, "required": required, "additionalProperties": false});
        let doc = table.doc.trim();
        properties.insert(
            table.name.into(),
            json!({"description": doc, "type": "array", "items": rows}),
        );
    }
    Ok(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("Tailback recording, format version {FORMAT_VERSION}"),
        "description": "meta.json and the tables of a recording. On disk each table is Arrow or Parquet with these columns.",
        "type": "object",
        "properties": properties,
        "required": ["meta"],
        "$defs": definitions,
    }))
}

fn column_schema(c: &Column) -> Value {
    let (arrow, json_type) = type_names(c.kind);
    let mut schema = json!({"description": c.doc.trim()});
    schema["type"] = if c.nullable {
        json!([json_type, "null"])
    } else {
        json!(json_type)
    };
    if !c.words.is_empty() {
        schema["enum"] = json!(c.words);
    }
    schema["x-arrow-type"] = json!(arrow);
    schema
}

const GENERATED: &str =
    "<!-- Generated by `cargo xtask gen`: edit the source, not this page. -->\n";

fn record_page() -> Result<String> {
    let mut out = format!(
        "{GENERATED}# The recording, format version {FORMAT_VERSION}

A recording is a directory that any tool of the Arrow ecosystem can open without us:

```
home.rec/
  meta.json                  how it came about: schema/record.v{FORMAT_VERSION}.json, `meta`
  lock                       while it is written: process, host and time of its one writer
  delay/2026-11-21.parquet   one directory a table, one file a day (midnight of the host)
```

- While it is written, a table's file is `DAY.arrows`: an Arrow IPC stream without an end marker, readable up to its
  last whole batch. Closing turns each into `DAY.parquet` (zstd) and removes it after that; where both are there, they
  hold the same rows and the Parquet file counts. Files that end in `.tmp` are not whole: leave them aside.
- Rows are on disk, synced, half a second after they came. A kill or a power cut costs less than the last second.
- The last member of `meta.json`, `checksum`, is the CRC-32 of the text before it. If it does not fit, `analyse` and `report`
  say that the file was damaged or changed.
- Times are UNIX nanoseconds that advance with the monotonic clock: a step of the wall clock never bends a delay.
- What is not known is null, never zero. The unit is the end of a column's name.
- In Python: `pyarrow.parquet.read_table(\"home.rec/delay\")`, `pyarrow.ipc.open_stream(\"….arrows\")`. In DuckDB:
  `select * from 'home.rec/delay/*.parquet'`. Each column's meaning is in its field's metadata, `description`.
"
    );
    for table in TABLES {
        write!(
            out,
            "\n## {}\n\n{} Placed in time by `{}`.\n\n",
            table.name,
            table.doc.trim(),
            table.time
        )?;
        out += "| column | type | null | meaning |\n|---|---|---|---|\n";
        for c in table.columns {
            let words: Vec<String> = c.words.iter().map(|w| format!("`{w}`")).collect();
            let words = if words.is_empty() {
                String::new()
            } else {
                format!(" One of {}.", words.join(", "))
            };
            let (kind, null) = (type_names(c.kind).0, if c.nullable { "yes" } else { "" });
            writeln!(
                out,
                "| `{}` | {kind} | {null} | {}{words} |",
                c.name,
                cell(c.doc)
            )?;
        }
    }
    Ok(out)
}

/// Text inside a table of Markdown.
fn cell(text: &str) -> String {
    text.trim().replace('|', "\\|")
}

fn qdiscs_page() -> Result<String> {
    let mut out = format!(
        "{GENERATED}# Queue disciplines

Named as `codel:target=5ms,interval=100ms` on the command line and in a link's file; `tailback list qdiscs` prints this
table too.
"
    );
    for spec in link::qdisc::registry::QDISCS {
        entry(&mut out, &spec.entry)?;
    }
    Ok(out)
}

fn controllers_page() -> Result<String> {
    let mut out = format!(
        "{GENERATED}# Congestion controllers

Named as `cubic:hystart=off` in a scenario; `tailback list controllers` prints this table too. What the controllers are
told, and what the endpoint does itself, stands on the page of the crate `congestion`.
"
    );
    for spec in congestion::registry::CONTROLLERS {
        entry(&mut out, &spec.entry)?;
    }
    Ok(out)
}

fn probes_page() -> Result<String> {
    let mut out = format!(
        "{GENERATED}# Probes

Named as `sweep:size=1000,mode=full` after `tailback probe`; `tailback list probes` prints this table too.
"
    );
    for spec in experiment::PROBES {
        entry(&mut out, &spec.entry)?;
        write!(out, "\nTakes {}.\n", spec.takes)?;
    }
    Ok(out)
}

fn sources_page() -> Result<String> {
    let mut out = format!(
        "{GENERATED}# Sources

What a simulated host sends: `kind = \"web\"` in a scenario's `[[flow]]`, with the source's own keys beside it; `tailback
list sources` prints this table too.
"
    );
    for spec in sim::source::registry::SOURCES {
        entry(&mut out, &spec.entry)?;
    }
    Ok(out)
}

fn entry(out: &mut String, e: &Entry) -> Result<()> {
    let stop = if e.summary.ends_with('?') { "" } else { "." };
    write!(out, "\n## {}\n\n{}{stop}\n\n", e.name, e.summary)?;
    if !e.sources.is_empty() {
        write!(out, "Source: {}.\n\n", e.sources.join("; "))?;
    }
    *out += "| parameter | unit | default | from | to | meaning | after |\n|---|---|---|---|---|---|---|\n";
    for p in e.parameters {
        let unit = p.unit;
        let default = p.default.unwrap_or("not set");
        let (doc, after) = (cell(p.doc), cell(p.section));
        let (from, to) = match p.unit {
            Unit::Choice(_)
            | Unit::Address
            | Unit::Name
            | Unit::Url
            | Unit::Text
            | Unit::Program
            | Unit::List(Unit::Address | Unit::Url) => ("", ""),
            _ => (p.min, p.max),
        };
        writeln!(
            out,
            "| `{}` | {unit} | {default} | {from} | {to} | {doc} | {after} |",
            p.name
        )?;
    }
    Ok(())
}

fn links_page() -> Result<String> {
    let mut out = format!(
        "{GENERATED}# Links

The links that come with the program: `tailback test --link adsl`, `tailback emulate adsl -- CMD`. A file of your own has
the same form. Each direction, `[up]` and `[down]`, may have these keys:

| key | meaning |
|---|---|
"
    );
    for (key, doc) in link::DIRECTION_KEYS {
        writeln!(out, "| `{key}` | {} |", cell(doc))?;
    }
    out += "
Packets pass in this order: `policer`, `queue`, the transmitter (`sleep`, `shaper`, `framing`, `rate`), then on the line `loss`,
`delay`, `drift`, `jitter`, `reorder` and `duplicate`. Only the transmitter counts frames. Limits of queues, the policer and every
figure of a recording count IP packets.
";
    for laws in link::laws() {
        write!(out, "\n# Values of `{}`\n", laws.key)?;
        let mut before: Vec<&str> = Vec::new();
        for e in laws.entries {
            let keys: Vec<&str> = e.parameters.iter().map(|p| p.name).collect();
            if keys == before {
                write!(
                    out,
                    "\n## {}\n\n{}. Parameters as above.\n",
                    e.name, e.summary
                )?;
            } else {
                entry(&mut out, e)?;
            }
            before = keys;
        }
    }
    out += "\n# Links that come with the program\n";
    for preset in link::PRESETS {
        write!(
            out,
            "\n## {}\n\n```toml\n{}\n```\n",
            preset.name,
            preset.toml.trim_end()
        )?;
    }
    Ok(out)
}

fn models_page() -> Result<String> {
    let mut out = format!(
        "{GENERATED}# Models

Formulas that `tailback model NAME KEY=VALUE …` reckons with; `tailback model NAME` explains one, and `--plot KEY=LOW..HIGH`
draws it. Every example is a test: what the program says agrees with what is reckoned by hand.
"
    );
    for model in theory::MODELS {
        entry(&mut out, &model.entry)?;
        write!(
            out,
            "\nFormula: {}\n\nHolds for: {}\n\n| figure | unit | meaning |\n|---|---|---|\n",
            model.formula, model.limits
        )?;
        for o in model.outputs {
            let unit = o.measure.word();
            writeln!(out, "| `{}` | {unit} | {} |", o.name, cell(o.doc))?;
        }
        let given = model.example.given.replace(',', " ");
        write!(
            out,
            "\nExample: `tailback model {} {given}`. {}\n",
            model.entry.name, model.example.by_hand
        )?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_or_is_missing_is_named() {
        let files = [
            ("a".to_owned(), "1".to_owned()),
            ("b".into(), "2".into()),
            ("c".into(), "3".into()),
        ];
        let on_disk = |name: &str| match name {
            "a" => Some("1".to_owned()),
            "b" => Some("old".to_owned()),
            _ => None,
        };
        assert_eq!(stale(&files, &on_disk), ["b", "c"]);
    }

    #[test]
    fn every_table_and_discipline_is_described() {
        let all: String = files().unwrap().into_iter().map(|(_, text)| text).collect();
        for table in TABLES {
            assert!(all.contains(&format!("\n## {}\n", table.name)));
        }
        for spec in link::qdisc::registry::QDISCS {
            assert!(all.contains(&format!("\n## {}\n", spec.entry.name)));
        }
        for model in theory::MODELS {
            assert!(all.contains(&format!("\n## {}\n", model.entry.name)));
        }
        for spec in congestion::registry::CONTROLLERS {
            assert!(all.contains(&format!("\n## {}\n", spec.entry.name)));
        }
    }
}
