//! The hub against a hostile sender of a shared recording: limits, names and damage.

mod common;

use common::recording;
use fleet::hub::{Hub, IntakeError, Sharing};
use fleet::{Manifest, PublicKey, Task, Verdict};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::path::Path;
use testkit::TempDir;

const NAME: &str = "shared.rec";

fn no_runs(_: &str) -> anyhow::Result<Task> {
    anyhow::bail!("these tests have no plans")
}

/// New hub within these limits.
fn hub(dir: &Path, all: u64, each: u64) -> Hub {
    let hub = Hub::open(&dir.join("hub"), no_runs).unwrap();
    hub.with_sharing(Some(Sharing { all, each }))
}

/// Point of a new shared recording.
fn point(hub: &Hub, key: u8) -> String {
    let code = hub.invite_share().unwrap();
    let joined = hub.enrol(&code.secret, &PublicKey([key; 32]), "v").unwrap();
    joined.expect("the code is good")
}

/// Sends each file; `flipped` is a byte and bit of one that is sent wrong.
fn send(
    hub: &Hub,
    point: &str,
    (from, manifest): (&Path, &Manifest),
    flipped: Option<(usize, usize, u8)>,
) -> Result<(), IntakeError> {
    for (i, part) in manifest.files.iter().enumerate() {
        let mut bytes = std::fs::read(from.join(&part.path)).unwrap();
        if let Some((file, at, bit)) = flipped
            && file == i
        {
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
        }
        hub.put(point, NAME, &part.path, 0, &bytes)?;
    }
    Ok(())
}

#[test]
fn a_code_takes_one_recording_of_one_name() {
    let dir = TempDir::new("share-one");
    let (path, manifest) = recording(&dir, NAME, "shared", 200);
    let hub = hub(&dir, 1 << 20, 1 << 20);
    let point = point(&hub, 7);
    assert!(point.starts_with("share-") && point.len() == 38, "{point}");
    let other = hub.put(&point, "other.rec", "meta.json", 0, b"x");
    assert!(matches!(other, Err(IntakeError::Recording(_))), "{other:?}");
    for trick in [
        "../meta.json",
        "delay/../meta.json",
        "report.html",
        "/meta.json",
    ] {
        let put = hub.put(&point, NAME, trick, 0, b"x");
        assert!(matches!(put, Err(IntakeError::Part(_))), "{trick}: {put:?}");
    }
    send(&hub, &point, (&path, &manifest), None).unwrap();
    let receipt = hub.close(&point, &manifest).unwrap();
    assert_eq!(receipt.verdict, Verdict::Stored);
    let more = hub.put(&point, NAME, "delay/2026-11-27-999.parquet", 0, b"x");
    assert!(matches!(more, Err(IntakeError::Taken)), "{more:?}");
    // No point of the fleet, and no digest in its reports.
    assert!(hub.status().unwrap().points.is_empty());
    hub.digest(&mut ()).unwrap();
    assert!(hub.measured(("", "")).unwrap().points.is_empty());
    // Off: nothing more is taken, and withdrawing still works.
    let hub = hub.with_sharing(None);
    let off = hub.put(&point, NAME, "meta.json", 9999, b"x");
    assert!(off.is_err());
    hub.forget(&point).unwrap();
    assert!(!hub.recordings(&point).exists());
}

#[test]
fn each_limit_holds_and_an_unfinished_transfer_counts() {
    let dir = TempDir::new("share-limits");
    let (path, manifest) = recording(&dir, NAME, "shared", 2000);
    let bytes = manifest.all_bytes();
    let small = hub(&dir.join("small"), 1 << 30, bytes - 1);
    let sender = point(&small, 7);
    let sent = send(&small, &sender, (&path, &manifest), None);
    assert!(matches!(sent, Err(IntakeError::Share { .. })), "{sent:?}");
    let room = hub(&dir.join("room"), bytes + bytes / 2, bytes);
    let (first, second) = (point(&room, 8), point(&room, 9));
    send(&room, &first, (&path, &manifest), None).unwrap();
    let sent = send(&room, &second, (&path, &manifest), None);
    assert!(matches!(sent, Err(IntakeError::Quota { .. })), "{sent:?}");
    room.close(&first, &manifest).unwrap();
    let sent = send(&room, &second, (&path, &manifest), None);
    assert!(matches!(sent, Err(IntakeError::Quota { .. })), "{sent:?}");
    room.forget(&first).unwrap();
    send(&room, &second, (&path, &manifest), None).unwrap();
    let mut long = manifest.clone();
    long.rows.insert("delay".into(), 5_000_001);
    let closed = room.close(&second, &long);
    assert!(
        matches!(closed, Err(IntakeError::Rows { .. })),
        "{closed:?}"
    );
    assert_eq!(
        room.close(&second, &manifest).unwrap().verdict,
        Verdict::Stored
    );
}

#[test]
fn a_flipped_bit_anywhere_leads_to_quarantine() {
    const SEED: u64 = 20_261_127;
    println!("seed {SEED}");
    let mut rng = StdRng::seed_from_u64(SEED);
    let dir = TempDir::new("share-flipped");
    let (path, manifest) = recording(&dir, NAME, "shared", 100);
    let hub = hub(&dir, 1 << 30, 1 << 20);
    for draw in 0..30 {
        let point = point(&hub, draw);
        let file = rng.random_range(0..manifest.files.len());
        let flipped = (file, rng.random_range(0..1 << 20), rng.random_range(0..8));
        send(&hub, &point, (&path, &manifest), Some(flipped)).unwrap();
        let receipt = hub.close(&point, &manifest).unwrap();
        assert_eq!(receipt.verdict, Verdict::Quarantined, "{flipped:?}");
        assert!(!hub.recordings(&point).join(NAME).exists());
    }
}
