//! Recordings made by strangers: links, devices and pipes in them, and integers that no recording can hold.

#![cfg(unix)]

mod common;

use base::record::{Row, TableId};
use common::{NOON, Scratch, meta, row};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use store::{Writer, disk, read_meta, read_noting};

fn made(dir: &Scratch, rows: impl IntoIterator<Item = Row>) -> std::path::PathBuf {
    let path = dir.join("r.rec");
    let mut w = Writer::create(&path, meta()).unwrap();
    for row in rows {
        w.write(row).unwrap();
    }
    w.close(meta()).unwrap();
    path
}

#[test]
fn no_write_follows_a_link() {
    let dir = Scratch::new("links");
    let victim = dir.join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let untouched = || assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    // The target itself, and the names under which temporary files stood before.
    for name in ["report.html", "report.part", "report.html.tmp"] {
        symlink(&victim, dir.join(name)).unwrap();
    }
    let page = dir.join("report.html");
    disk::write_whole(&page, b"page").unwrap();
    untouched();
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "page");
    assert!(!page.symlink_metadata().unwrap().is_symlink());
    symlink(&victim, dir.join("delay.csv")).unwrap();
    disk::create_new(&dir.join("delay.csv")).unwrap();
    untouched();
    use store::disk::{Disk as _, RealDisk};
    assert!(RealDisk.open(&dir.join("report.part")).is_err());
    RealDisk.create(&dir.join("report.part")).unwrap();
    untouched();
    // Two temporary files at once have two names, and their directory is left as it was.
    let (_, a) = disk::create_temporary(&page, ".svg").unwrap();
    let (_, b) = disk::create_temporary(&page, ".svg").unwrap();
    assert!(a != b && a.parent() == page.parent());
    assert!(disk::write_whole(Path::new("/nowhere/x"), b"").is_err());
}

#[test]
fn a_recording_is_readable_for_its_owner_and_group_alone() {
    let dir = Scratch::new("mode");
    let path = made(&dir, [row(TableId::Delay, NOON, 0)]);
    let mode = |p: &Path| p.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path) & 0o007, 0);
    for file in ["meta.json", "delay/2026-11-21.parquet"] {
        assert_eq!(mode(&path.join(file)) & 0o137, 0, "{file}");
    }
}

#[test]
fn links_devices_and_pipes_are_not_read() {
    let dir = Scratch::new("devices");
    let path = made(&dir, [row(TableId::Delay, NOON, 0)]);
    let table = path.join("delay/2026-11-21.parquet");
    let kept = dir.join("kept");
    std::fs::rename(&table, &kept).unwrap();
    symlink(&kept, &table).unwrap();
    let (recording, notes) = read_noting(&path).unwrap();
    assert_eq!(recording.delay.len(), 0);
    assert!(notes[0].why.contains("it is a link"), "{notes:?}");
    // One that never ends, and one that never begins.
    for (n, made) in ["ln -sf /dev/zero", "mkfifo"].into_iter().enumerate() {
        let name = path.join("meta.json");
        std::fs::remove_file(&name).unwrap();
        let line = format!("{made} {}", name.display());
        let done = std::process::Command::new("sh")
            .args(["-c", &line])
            .status();
        assert!(done.unwrap().success());
        assert!(read_meta(&path).is_err(), "{n}");
    }
}

/// Every integer of every table in turn is put out of its range.
#[test]
fn rows_with_impossible_integers_are_left_out_and_said() {
    for &table in TableId::ALL {
        for column in table.spec().columns {
            if column.kind != base::record::Kind::Int {
                continue;
            }
            for extreme in [i64::MIN, i64::MAX] {
                let dir = Scratch::new("integers");
                let path = dir.join("r.rec");
                let mut w = Writer::create(&path, meta()).unwrap();
                w.write(row(table, NOON, 0)).unwrap();
                let one = Some((column.name, extreme));
                w.write(common::row_with(table, NOON + 1, 1, one)).unwrap();
                if w.close(meta()).is_err() {
                    // A time that has no day has no file.
                    continue;
                }
                let (recording, notes) = read_noting(&path).unwrap();
                let said = format!("{}.{} = {extreme}", table.spec().name, column.name);
                assert_eq!(common::of(&recording, table).len(), 1, "{said}");
                assert!(
                    notes
                        .iter()
                        .any(|n| n.why.contains("no recording can hold")),
                    "{said}: {notes:?}"
                );
            }
        }
    }
}
