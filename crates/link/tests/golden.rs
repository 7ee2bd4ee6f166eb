//! Replays the tables that the independent oracles in `reference/` wrote: the same arrivals and
//! dequeues must have the same outcome, line by line.

use base::rng::Streams;
use base::{Bytes, Ecn, FlowId, Packet, PacketId, Time};
use link::qdisc::registry::{QDISCS, QdiscSpec};
use link::qdisc::{Fate, Fates, Qdisc};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every table: its discipline, its name and its text. Each discipline that is listed has an oracle in `reference/`.
fn tables() -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    for discipline in QDISCS.iter().map(|spec| spec.entry.name) {
        let directory = root().join("crates/link/tests/golden").join(discipline);
        let entries = std::fs::read_dir(&directory)
            .unwrap_or_else(|e| panic!("no table of an oracle for {discipline}: {e}"));
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            found.push((
                discipline.to_string(),
                name,
                std::fs::read_to_string(path).unwrap(),
            ));
        }
    }
    found.sort();
    found
}

/// The table again, with our discipline in the place of the oracle.
fn replay(table: &str) -> String {
    let spec = table
        .lines()
        .find_map(|l| l.strip_prefix("# qdisc "))
        .expect("the header names the qdisc");
    let spec: QdiscSpec = spec.parse().unwrap();
    let mut qdisc = spec.build(&Streams::new(1), "golden");
    let mut fates = Fates::default();
    let mut out = String::new();
    let mut say = |line: String| {
        out.push_str(&line);
        out.push('\n');
    };
    for line in table.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |i: usize| words[i].parse::<u64>().unwrap();
        match words.get(1) {
            _ if line.starts_with('#') => say(line.to_string()),
            Some(&"enqueue") => {
                say(line.to_string());
                let packet = Packet {
                    id: PacketId(number(2)),
                    flow: FlowId(number(3)),
                    len: Bytes::new(number(4)),
                    ecn: Ecn::from_bits(number(5) as u8),
                    dscp: words.get(6).map_or(0, |w| w.parse().unwrap()),
                    enqueued: Time::ZERO,
                };
                qdisc.enqueue(Time::from_nanos(number(0)), packet, &mut fates);
                fates.list.drain(..).for_each(|f| say(told(number(0), f)));
            }
            Some(&"dequeue") => {
                say(line.to_string());
                let now = Time::from_nanos(number(0));
                let packet = qdisc.dequeue(now, &mut fates);
                fates.list.drain(..).for_each(|f| say(told(number(0), f)));
                say(match packet {
                    Some(p) => format!(
                        "{} deliver {} {}",
                        number(0),
                        p.id.0,
                        (now - p.enqueued).as_nanos()
                    ),
                    None => format!("{} empty", number(0)),
                });
            }
            _ => {} // an outcome: ours is compared with it below
        }
    }
    out
}

fn told(t: u64, (packet, fate): (Packet, Fate)) -> String {
    match fate {
        Fate::Dropped(why) => format!("{t} drop {} {}", packet.id.0, why.word()),
        Fate::Marked(_) => {
            assert_eq!(packet.ecn, Ecn::Ce);
            format!("{t} mark {}", packet.id.0)
        }
    }
}

#[test]
fn our_disciplines_do_what_the_oracles_do() {
    let tables = tables();
    assert!(tables.len() >= 7, "only {} tables found", tables.len());
    for (discipline, name, expected) in tables {
        let got = replay(&expected);
        let at = got.lines().zip(expected.lines()).position(|(g, e)| g != e);
        if let Some(i) = at {
            let (g, e) = (
                got.lines().nth(i).unwrap(),
                expected.lines().nth(i).unwrap(),
            );
            panic!(
                "{discipline}/{name}, line {}: the oracle says \"{e}\", we say \"{g}\"",
                i + 1
            );
        }
        assert_eq!(
            got.lines().count(),
            expected.lines().count(),
            "{discipline}/{name}"
        );
    }
}

#[test]
fn a_table_with_one_outcome_changed_is_noticed() {
    let (_, _, table) = tables().into_iter().find(|t| t.1 == "step_load").unwrap();
    let (before, after) = table.rsplit_once(" target_exceeded").unwrap();
    let changed = format!("{before} overlimit{after}");
    assert_eq!(replay(&changed), table);
}

/// The tables are what the oracles write today. Where there is no Python the tables themselves are
/// still replayed, by the test above.
#[test]
fn the_tables_are_what_the_oracles_write() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("no python3 here: the oracles were not run");
        return;
    }
    for (discipline, name, expected) in tables() {
        let script = root().join("reference").join(format!("{discipline}.py"));
        let run = Command::new("python3")
            .arg("-B")
            .arg(&script)
            .arg(&name)
            .output()
            .unwrap();
        assert!(
            run.status.success(),
            "{script:?} {name}: {}",
            String::from_utf8_lossy(&run.stderr)
        );
        let fresh = String::from_utf8(run.stdout).unwrap();
        assert!(
            fresh == expected,
            "{discipline}/{name} is stale: python3 reference/{discipline}.py --write crates/link/tests/golden/{discipline}"
        );
    }
}
