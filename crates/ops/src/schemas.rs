//! JSON schemas of the answers whose types live in this room; `cargo xtask gen` writes those of the rooms below.

use schemars::{Schema, schema_for};

/// Name and schema of each answer's JSON, version 1.
pub fn all() -> Vec<(&'static str, Schema)> {
    let mut all = vec![
        (
            "counted-traffic",
            schema_for!(analysis::counted::CountedTraffic),
        ),
        ("import", schema_for!(crate::import::Document)),
        ("list", schema_for!(crate::list::Listing)),
        ("fleet-point", schema_for!(crate::points::OverDays)),
        ("fleet-report", schema_for!(crate::points::Points)),
        ("export", schema_for!(crate::export::Exported)),
        ("model", schema_for!(crate::model::Document)),
        (
            "calculation",
            schema_for!(crate::model::calculation::Calculated),
        ),
        (
            "patterns",
            schema_for!(Vec<crate::analyse::patterns::RecordingPatterns>),
        ),
        ("paths", schema_for!(Vec<experiment::routes::Routes>)),
        ("report", schema_for!(crate::report::Answer)),
        ("sim", schema_for!(Vec<crate::sim::PointFigures<'static>>)),
    ];
    all.extend(crate::trace::schemas());
    #[cfg(target_os = "linux")]
    all.extend(of_this_host());
    all
}

/// Answers of the verbs that need Linux.
#[cfg(target_os = "linux")]
fn of_this_host() -> Vec<(&'static str, Schema)> {
    vec![
        ("control-place", schema_for!(crate::control::Place)),
        ("control-run", schema_for!(crate::control::Answer)),
        ("control-status", schema_for!(live::control::Status)),
        ("emulation", schema_for!(crate::emulate::Answer)),
        ("mark", schema_for!(crate::mark::Marks)),
        ("neighbours", schema_for!(crate::neighbours::Answer)),
        ("server", schema_for!(crate::serve::Started)),
    ]
}
