//! Arrows point down only.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::Path;

struct Room {
    name: &'static str,
    /// No clock, sockets, environment or unsafe.
    pure: bool,
    /// Rooms it may use besides `base`; `None` is every room.
    uses: Option<&'static [&'static str]>,
}

const fn pure(name: &'static str, uses: &'static [&'static str]) -> Room {
    Room {
        name,
        pure: true,
        uses: Some(uses),
    }
}

const fn room(name: &'static str, uses: &'static [&'static str]) -> Room {
    Room {
        name,
        pure: false,
        uses: Some(uses),
    }
}

const ROOMS: &[Room] = &[
    pure("base", &[]),
    pure("stats", &[]),
    pure("theory", &["stats"]),
    pure("link", &[]),
    pure("congestion", &[]),
    pure("measure", &[]),
    pure("analysis", &["stats"]),
    pure(
        "experiment",
        &["measure", "stats", "analysis", "congestion"],
    ),
    pure("control", &["stats", "link"]),
    pure(
        "sim",
        &[
            "link",
            "congestion",
            "measure",
            "stats",
            "experiment",
            "control",
        ],
    ),
    pure(
        "twin",
        &[
            "stats",
            "link",
            "congestion",
            "analysis",
            "experiment",
            "sim",
        ],
    ),
    room("live", &["link", "measure", "experiment", "control"]),
    room("store", &[]),
    room("report", &["stats", "analysis", "experiment"]),
    room("browser", &["measure", "analysis", "experiment", "report"]),
    room(
        "ops",
        &[
            "link",
            "congestion",
            "measure",
            "stats",
            "theory",
            "analysis",
            "experiment",
            "sim",
            "twin",
            "live",
            "store",
            "report",
        ],
    ),
    room(
        "fleet",
        &[
            "measure",
            "experiment",
            "ops",
            "live",
            "store",
            "report",
            "twin",
        ],
    ),
    Room {
        name: "python",
        pure: false,
        uses: None,
    },
    Room {
        name: "cli",
        pure: false,
        uses: None,
    },
];

/// True for a room without clock, sockets, environment and unsafe.
pub fn is_pure(name: &str) -> bool {
    ROOMS.iter().any(|r| r.pure && r.name == name)
}

/// Room of a package; none if the package is none of ours. The command itself has the product's name.
fn room_of(package: &str) -> Option<&str> {
    match package {
        "tailback" => Some("cli"),
        other => other.strip_prefix("tailback-"),
    }
}

/// Packages beside the rooms, which nothing shipped depends on: the laboratory, and the tests' helpers.
const NOT_SHIPPED: [&str; 3] = ["lab", "testkit", "xtask"];

/// # Errors
/// Names every forbidden edge and every pure room that does not say so.
pub fn check(root: &Path) -> Result<()> {
    let out = crate::cargo(root)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("cannot run cargo metadata")?;
    if !out.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    let metadata = serde_json::from_slice(&out.stdout).context("cargo metadata is not JSON")?;
    let mut faults = forbidden(&metadata);
    for room in ROOMS.iter().filter(|r| r.pure) {
        let lib = root.join("crates").join(room.name).join("src/lib.rs");
        // A room that is not built yet owes nothing.
        if let Ok(text) = std::fs::read_to_string(&lib) {
            faults.extend(impure(room.name, &text));
        }
    }
    if faults.is_empty() {
        Ok(())
    } else {
        bail!("{}", faults.join("\n"))
    }
}

/// Every normal dependency from one room to another that `ROOMS` does not allow.
fn forbidden(metadata: &Value) -> Vec<String> {
    let mut faults = vec![];
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let Some(from) = package["name"].as_str().and_then(room_of) else {
            continue;
        };
        let Some(room) = ROOMS.iter().find(|r| r.name == from) else {
            faults.push(format!(
                "crates/{from} is a room that xtask/src/layers.rs does not know: add it to ROOMS"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let normal = dependency["kind"].is_null();
            let name = dependency["name"].as_str().unwrap_or_default();
            if normal && NOT_SHIPPED.contains(&name) {
                faults.push(format!(
                    "{from} must not depend on {name}, which is not shipped: [dev-dependencies] may"
                ));
            }
            let Some(to) = dependency["name"].as_str().and_then(room_of) else {
                continue;
            };
            let allowed = to == "base" || room.uses.is_none_or(|uses| uses.contains(&to));
            if normal && !allowed {
                let may = room.uses.unwrap_or_default().join(", ");
                faults.push(format!(
                    "{from} must not depend on {to}: arrows point down only (base, {may})"
                ));
            }
        }
    }
    faults
}

/// The head of a pure room's `lib.rs` denies what is impure.
fn impure(room: &str, lib: &str) -> Vec<String> {
    [
        "#![deny(clippy::disallowed_methods)]",
        "#![forbid(unsafe_code)]",
    ]
    .iter()
    .filter(|attribute| !lib.lines().any(|line| line.trim_end() == **attribute))
    .map(|attribute| {
        format!("{room} is pure: crates/{room}/src/lib.rs must begin with {attribute}")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, uses: &[(&str, Value)]) -> Value {
        let dependencies: Vec<Value> = uses
            .iter()
            .map(|(n, kind)| json!({"name": n, "kind": kind}))
            .collect();
        json!({"name": name, "dependencies": dependencies})
    }

    #[test]
    fn a_forbidden_edge_is_named() {
        let normal = Value::Null;
        let forged = json!({"packages": [
            package("tailback-link", &[("tailback-live", normal.clone()), ("serde", normal.clone())]),
            package("tailback-store", &[("tailback-base", normal.clone()), ("tailback-analysis", normal.clone())]),
            package("tailback-experiment", &[("tailback-analysis", normal.clone())]),
            package("tailback", &[("tailback-live", normal)]),
            // What only tests use points nowhere.
            package("tailback-analysis", &[("tailback-link", json!("dev"))]),
        ]});
        let faults = forbidden(&forged);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(
            faults[0].starts_with("link must not depend on live"),
            "{faults:?}"
        );
        assert!(
            faults[1].starts_with("store must not depend on analysis"),
            "{faults:?}"
        );
    }

    #[test]
    fn what_is_not_shipped_is_for_tests_only() {
        for name in NOT_SHIPPED {
            let forged = json!({"packages": [
                package("tailback-ops", &[(name, Value::Null)]),
                package("tailback", &[(name, json!("dev"))]),
                package("lab", &[(name, Value::Null)]),
            ]});
            let faults = forbidden(&forged);
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(
                faults[0].starts_with(&format!("ops must not depend on {name}")),
                "{faults:?}"
            );
        }
    }

    #[test]
    fn a_room_nobody_placed_is_named() {
        let faults = forbidden(&json!({"packages": [package("tailback-attic", &[])]}));
        assert!(
            faults[0].contains("crates/attic is a room that"),
            "{faults:?}"
        );
    }

    #[test]
    fn a_pure_room_that_does_not_say_so_is_named() {
        assert_eq!(
            impure(
                "link",
                "#![deny(clippy::disallowed_methods)]\n#![forbid(unsafe_code)]\n"
            )
            .len(),
            0
        );
        assert_eq!(impure("link", "// #![forbid(unsafe_code)]\n").len(), 2);
    }

    #[test]
    fn every_edge_of_the_table_points_to_a_room_above_it() {
        for (i, room) in ROOMS.iter().enumerate() {
            for used in room.uses.unwrap_or_default() {
                assert!(
                    ROOMS[..i].iter().any(|r| r.name == *used),
                    "{} uses {used}",
                    room.name
                );
            }
        }
    }
}
