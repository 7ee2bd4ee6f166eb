//! Every operation on the disk is made to fail once, and from there on; the power is cut before every one of them; the
//! disk fills up at every size. The recording reads each time, with everything that was flushed.

mod common;

use base::record::{Meta, Row, TableId};
use common::{NOON, Scratch, meta, of, row};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use store::disk::{Disk, Output, RealDisk};
use store::{Options, StoreError, Writer, read};

const HALF_SECOND: i64 = 500_000_000;

/// What may go wrong, and what a power cut would leave. The real files are written all along; beside them this keeps
/// what the disk has been asked to make durable, and nothing else.
#[derive(Default)]
struct State {
    operations: u64,
    /// The operation that fails, from 1.
    fail_at: Option<u64>,
    /// Whether all later ones fail too.
    for_good: bool,
    error: Option<io::ErrorKind>,
    /// Whether files say that they are durable and are not.
    never_syncs: bool,
    /// Bytes that all files together may hold.
    room: Option<usize>,
    /// File number to its contents, as written and as durable.
    contents: Vec<(Vec<u8>, Vec<u8>)>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    dirs: BTreeSet<PathBuf>,
    durable_dirs: BTreeSet<PathBuf>,
}

impl State {
    fn operation(&mut self) -> io::Result<()> {
        self.operations += 1;
        let hit = self
            .fail_at
            .is_some_and(|n| self.operations == n || (self.for_good && self.operations > n));
        if hit {
            Err(self.error.unwrap_or(io::ErrorKind::Other).into())
        } else {
            Ok(())
        }
    }

    fn used(&self) -> usize {
        self.names.values().map(|&n| self.contents[n].0.len()).sum()
    }

    /// What is on the disk after the power came back, into `to`; `from` is the directory that the test worked in.
    fn after_power_cut(&self, from: &Path, to: &Path) {
        let moved = |p: &Path| to.join(p.strip_prefix(from).unwrap());
        std::fs::create_dir(to).unwrap();
        let reachable = |p: &Path| {
            p.ancestors()
                .skip(1)
                .take_while(|a| *a != from)
                .all(|a| self.durable_dirs.contains(a))
        };
        for dir in self.durable_dirs.iter().filter(|d| reachable(d)) {
            std::fs::create_dir(moved(dir)).unwrap();
        }
        for (path, &n) in self.durable_names.iter().filter(|(p, _)| reachable(p)) {
            std::fs::write(moved(path), &self.contents[n].1).unwrap();
        }
    }
}

#[derive(Clone, Default)]
struct TestDisk(Arc<Mutex<State>>);

impl TestDisk {
    fn with(change: impl FnOnce(&mut State)) -> TestDisk {
        let disk = TestDisk::default();
        change(&mut disk.0.lock().unwrap());
        disk
    }
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

struct TestOutput {
    state: Arc<Mutex<State>>,
    number: usize,
    real: Box<dyn Output>,
}

impl Disk for TestDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut s = self.state();
        s.operation()?;
        RealDisk.create_dir(path)?;
        s.dirs.insert(path.to_owned());
        Ok(())
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut s = self.state();
        s.operation()?;
        RealDisk.remove_dir(path)?;
        s.dirs.remove(path);
        Ok(())
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        let mut s = self.state();
        s.operation()?;
        let number = s.contents.len();
        s.contents.push(Default::default());
        s.names.insert(path.to_owned(), number);
        Ok(Box::new(TestOutput {
            state: self.0.clone(),
            number,
            real: RealDisk.create(path)?,
        }))
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn Output>> {
        let mut s = self.state();
        s.operation()?;
        let number = s.names[path];
        Ok(Box::new(TestOutput {
            state: self.0.clone(),
            number,
            real: RealDisk.open(path)?,
        }))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut s = self.state();
        s.operation()?;
        RealDisk.rename(from, to)?;
        let number = s.names.remove(from).unwrap();
        s.names.insert(to.to_owned(), number);
        Ok(())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut s = self.state();
        s.operation()?;
        RealDisk.remove(path)?;
        s.names.remove(path);
        Ok(())
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut s = self.state();
        s.operation()?;
        let here = |p: &Path| p.parent() == Some(path);
        let names: Vec<_> = s
            .names
            .iter()
            .filter(|(p, _)| here(p))
            .map(|(p, n)| (p.clone(), *n))
            .collect();
        s.durable_names.retain(|p, _| !here(p));
        s.durable_names.extend(names);
        let dirs: Vec<_> = s.dirs.iter().filter(|p| here(p)).cloned().collect();
        s.durable_dirs.retain(|p| !here(p));
        s.durable_dirs.extend(dirs);
        Ok(())
    }
}

impl Output for TestOutput {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut s = self.state.lock().unwrap();
        let mut result = s.operation();
        // A write that fails has usually done part of its work.
        let mut part = if result.is_ok() {
            bytes.len()
        } else {
            bytes.len() / 2
        };
        let at = offset as usize;
        if let Some(room) = s.room {
            let free = room - s.used() + s.contents[self.number].0.len().saturating_sub(at);
            if free < part {
                part = free;
                result = Err(io::ErrorKind::StorageFull.into());
            }
        }
        let contents = &mut s.contents[self.number].0;
        contents.resize(contents.len().max(at + part), 0);
        contents[at..at + part].copy_from_slice(&bytes[..part]);
        self.real.write_at(&bytes[..part], offset)?;
        result
    }
    fn sync(&mut self) -> io::Result<()> {
        let mut s = self.state.lock().unwrap();
        s.operation()?;
        if !s.never_syncs {
            let file = &mut s.contents[self.number];
            file.1 = file.0.clone();
        }
        Ok(())
    }
}

const TABLES: [TableId; 3] = [TableId::Delay, TableId::Flow, TableId::Event];

/// The `step`th rows of the script: one of each table, some of them of the day before.
fn rows_of(step: i64) -> Vec<Row> {
    let t_ns = NOON + step * HALF_SECOND - if step % 2 == 1 { 86_400_000_000_000 } else { 0 };
    TABLES.iter().map(|&t| row(t, t_ns, step)).collect()
}

/// Rows as they are read: day by day.
fn in_order(steps: &[i64], table: TableId) -> Vec<Row> {
    let mut rows: Vec<Row> = steps
        .iter()
        .flat_map(|&s| rows_of(s))
        .filter(|r| r.table() == table)
        .collect();
    rows.sort_by_key(|r| r.time_ns() < NOON - 1);
    rows.sort_by_key(|r| r.time_ns() >= NOON - 1);
    rows
}

struct Run {
    created: bool,
    /// Steps after which a flush said that all is well.
    flushed: Vec<i64>,
    operations_before_close: u64,
    /// Whether closing said so too.
    closed: Result<(), StoreError>,
}

/// Records six steps, with a flush after each, and closes. Goes on after errors, as a caller may.
fn run(disk: &TestDisk, path: &Path) -> Run {
    let nothing = |e| Run {
        created: false,
        flushed: vec![],
        operations_before_close: 0,
        closed: Err(e),
    };
    let mut w: Writer = match Options::default().create_on(Box::new(disk.clone()), path, meta()) {
        Ok(w) => w,
        Err(e) => return nothing(e),
    };
    let mut flushed = vec![];
    for step in 0..6 {
        for r in rows_of(step) {
            // An error from a flush that was due comes again from the flush below.
            let _ = w.write(r);
        }
        if w.flush().is_ok() {
            flushed = (0..=step).collect();
        }
    }
    let operations_before_close = disk.state().operations;
    let closed = w
        .close(Meta {
            complete: true,
            ended_ns: Some(NOON + 1),
            ..meta()
        })
        .map(drop);
    Run {
        created: true,
        flushed,
        operations_before_close,
        closed,
    }
}

/// Every flushed row is there once and in order; rows beyond those are the next ones.
fn check(path: &Path, run: &Run, context: &str) {
    let recording = read(path).unwrap_or_else(|e| panic!("{context}: {e}"));
    let all: Vec<i64> = (0..6).collect();
    for table in TABLES {
        let (got, least, most) = (
            of(&recording, table),
            in_order(&run.flushed, table),
            in_order(&all, table),
        );
        for r in &least {
            assert!(
                got.contains(r),
                "{context}: {} lost a flushed row",
                table.spec().name
            );
        }
        let kept: Vec<Row> = most.into_iter().filter(|r| got.contains(r)).collect();
        assert_eq!(
            got,
            kept,
            "{context}: {} has rows twice or out of order",
            table.spec().name
        );
        if run.closed.is_ok() {
            assert_eq!(got.len(), 6, "{context}: close said that all is well");
        }
    }
    if run.closed.is_ok() {
        assert!(recording.meta.complete, "{context}");
    }
}

/// Calls `one(n)` for n = 1, 2, … until it reports that the fault lay beyond the run's last operation.
fn until_beyond(mut one: impl FnMut(u64) -> bool) {
    let runs = (1..).find(|&n| one(n)).unwrap();
    assert!(
        runs > 60,
        "the script has only {runs} operations: is the disk's seam still in use?"
    );
}

#[test]
fn whichever_operation_fails_the_recording_reads_with_all_that_was_flushed() {
    for (for_good, error) in [
        (false, io::ErrorKind::StorageFull),
        (true, io::ErrorKind::StorageFull),
        (false, io::ErrorKind::Other),
        (true, io::ErrorKind::Other),
    ] {
        until_beyond(|n| {
            let dir = Scratch::new("fault");
            let path = dir.join("r.rec");
            let disk = TestDisk::with(|s| {
                (s.fail_at, s.for_good, s.error) = (Some(n), for_good, Some(error))
            });
            let run = run(&disk, &path);
            let context = format!("operation {n} fails with {error}, for good: {for_good}");
            match &run.closed {
                Err(StoreError::DiskFull { .. }) => {
                    assert_eq!(error, io::ErrorKind::StorageFull, "{context}")
                }
                Err(e) => assert!(
                    error == io::ErrorKind::Other && matches!(e, StoreError::Io { .. }),
                    "{context}: {e}"
                ),
                Ok(()) => {}
            }
            if run.created {
                check(&path, &run, &context);
            } else if !for_good {
                assert!(
                    !path.exists(),
                    "{context}: a recording that could not be begun left its directory"
                );
            }
            disk.state().operations < n
        });
    }
}

#[test]
fn a_fault_that_passes_before_closing_costs_nothing() {
    let mut passed = 0;
    until_beyond(|n| {
        let dir = Scratch::new("passes");
        let path = dir.join("r.rec");
        let disk =
            TestDisk::with(|s| (s.fail_at, s.error) = (Some(n), Some(io::ErrorKind::StorageFull)));
        let run = run(&disk, &path);
        if run.created && n <= run.operations_before_close {
            passed += 1;
            assert!(run.closed.is_ok(), "operation {n}: {:?}", run.closed);
            check(&path, &run, &format!("operation {n}"));
        }
        disk.state().operations < n
    });
    assert!(
        passed > 20,
        "only {passed} operations between beginning and closing"
    );
}

#[test]
fn whenever_the_power_goes_the_disk_has_all_that_was_flushed() {
    until_beyond(|n| {
        let dir = Scratch::new("power");
        let worked = dir.join("before");
        std::fs::create_dir(&worked).unwrap();
        let disk = TestDisk::with(|s| (s.fail_at, s.for_good) = (Some(n), true));
        let run = run(&disk, &worked.join("r.rec"));
        let after = dir.join("after");
        disk.state().after_power_cut(&worked, &after);
        if run.created {
            check(
                &after.join("r.rec"),
                &run,
                &format!("power goes before operation {n}"),
            );
        }
        disk.state().operations < n
    });
}

#[test]
fn the_alarm_for_power_cuts_rings_when_nothing_is_synced() {
    let dir = Scratch::new("canary");
    let worked = dir.join("before");
    std::fs::create_dir(&worked).unwrap();
    let disk = TestDisk::with(|s| s.never_syncs = true);
    let mut w = Options::default()
        .create_on(Box::new(disk.clone()), worked.join("r.rec"), meta())
        .unwrap();
    w.write(row(TableId::Delay, NOON, 0)).unwrap();
    w.flush().unwrap();
    let after = dir.join("after");
    disk.state().after_power_cut(&worked, &after);
    let (recording, notes) = store::read_noting(after.join("r.rec")).unwrap();
    assert!(recording.delay.is_empty());
    assert!(notes.iter().any(|n| n.file.ends_with("meta.json")));
}

#[test]
fn a_disk_that_fills_up_keeps_what_was_saved_and_says_how_much() {
    let enough = 200_000;
    let mut full = 0;
    for room in (400..enough).step_by(997) {
        let dir = Scratch::new("full");
        let path = dir.join("r.rec");
        let disk = TestDisk::with(|s| s.room = Some(room));
        let run = run(&disk, &path);
        let context = format!("room for {room} bytes");
        if let Err(e) = &run.closed {
            full += 1;
            assert!(matches!(e, StoreError::DiskFull { .. }), "{context}: {e}");
            assert!(
                e.to_string().starts_with("the disk is full: cannot write "),
                "{context}: {e}"
            );
        }
        if run.created {
            check(&path, &run, &context);
        }
        if room + 997 >= enough {
            assert!(run.closed.is_ok(), "{context}: {:?}", run.closed);
        }
    }
    assert!(full > 20, "the disk was full in {full} runs only");
}

#[test]
fn a_full_disk_bounds_what_waits_in_memory() {
    let dir = Scratch::new("bounded");
    let disk = TestDisk::with(|s| s.room = Some(2_000));
    let mut w = Options::default()
        .create_on(Box::new(disk), dir.join("r.rec"), meta())
        .unwrap();
    let refused = (0..300_000)
        .filter(|&i| w.write(row(TableId::HostLoad, NOON, i)).is_err())
        .count();
    assert_eq!(refused, 300_000 - 2 * 65_536);
    let said = w.flush().unwrap_err().to_string().replace('\\', "/");
    assert!(
        said.contains("host/2026-11-21.arrows (0 of its rows are saved"),
        "{said}"
    );
}
