//! Recordings that tests hand over.

use base::record::{Delay, Meta};
use fleet::Manifest;
use std::path::{Path, PathBuf};

/// Noon of the day on which all recordings begin, UNIX ns.
const NOON: i64 = 1_795_608_000_000_000_000;
const SECOND: i64 = 1_000_000_000;

/// Closed recording with so many probes, a second apart, and its manifest as one of this task.
pub fn recording(dir: &Path, name: &str, task: &str, rows: i64) -> (PathBuf, Manifest) {
    let path = dir.join(name);
    let meta = Meta {
        format: base::record::FORMAT_VERSION,
        verb: "monitor".into(),
        started_ns: NOON,
        ended_ns: Some(NOON + rows * SECOND),
        complete: true,
        ..Meta::default()
    };
    let mut writer = store::Writer::create(&path, meta.clone()).unwrap();
    for i in 0..rows {
        let probe = Delay {
            rtt_ns: Some(i * 1000 % 77),
            ..Delay::unanswered(NOON + i * SECOND, i, "server".into())
        };
        writer.push(probe).unwrap();
    }
    writer.close(meta).unwrap();
    let manifest = Manifest::of(&path, name, task).unwrap();
    (path, manifest)
}
