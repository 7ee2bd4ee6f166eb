//! Power cuts of hub and agent at any of their writes: what was not synced is lost, in part or as a whole, in any order.
//! Afterwards both start again, and every recording whose writer had closed it is in the store exactly once.
//!
//! A library below the process writes a log of each change that the real hub and the real agent make. A draw takes a place in the log, keeps
//! what was durable there and a random part of the rest (Pillai et al., All File Systems Are Not Created Equal, OSDI
//! 2014), and lets both recover. TAILBACK_CUTS and TAILBACK_SEED choose number and seed of the draws.

use base::record::{Delay, Meta};
use fleet::Task;
use fleet::agent::{Agent, News, join};
use fleet::hub::{Hub, serve};
use rand::{Rng, RngExt};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use testkit::{TempDir, machine_library};

const NOON: i64 = 1_795_608_000_000_000_000;
const SECOND: i64 = 1_000_000_000;
/// Rows of the recordings; the largest takes more than one piece.
const ROWS: [i64; 6] = [3, 40, 1, 300_000, 500, 7];

fn no_runs(_: &str) -> anyhow::Result<Task> {
    anyhow::bail!("these tests have no plans")
}

fn name(i: usize) -> String {
    format!("watch.{i}.rec")
}

fn rtt(i: usize, row: i64) -> i64 {
    (row + i as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 24 & 0x3fff_ffff
}

fn write_recording(path: &Path, i: usize) {
    let rows = ROWS[i];
    let meta = Meta {
        format: base::record::FORMAT_VERSION,
        verb: "monitor".into(),
        started_ns: NOON,
        ended_ns: Some(NOON + rows * SECOND),
        complete: true,
        ..Meta::default()
    };
    let mut writer = store::Writer::create(path, meta.clone()).unwrap();
    for row in 0..rows {
        let probe = Delay {
            rtt_ns: Some(rtt(i, row)),
            ..Delay::unanswered(NOON + row * SECOND / 100, row, "server".into())
        };
        writer.push(probe).unwrap();
    }
    writer.close(meta).unwrap();
}

/// Hub that serves on a thread until it is dropped.
struct Serving {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Serving {
    fn start(home: &Path, address: SocketAddr) -> Serving {
        let hub = Hub::open(home, no_runs).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = mpsc::channel();
        let asked = stop.clone();
        let thread = std::thread::spawn(move || {
            let ready = &mut |_| ready.send(()).unwrap();
            serve(
                hub,
                address,
                &ops::tell::Ways::default(),
                None,
                ready,
                &|| asked.load(Ordering::Relaxed),
            )
            .unwrap();
        });
        is_ready.recv().unwrap();
        Serving {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(done.is_some_and(|d| d.is_ok()) || std::thread::panicking());
    }
}

/// Lets an agent close and upload what it has, once.
fn upload(home: &Path, said: &mut Vec<String>) {
    let mut agent = Agent::open(home, no_runs).unwrap();
    let news = &mut |news: News<'_>| match news {
        News::Said(text) | News::Failed(text) => said.push(text.into()),
    };
    agent.run(news, &|| true).unwrap();
}

/// Process whose changes are recorded: hub and agent, and one recording after the other.
#[test]
#[ignore = "a part of the other test, which starts it with the recorder"]
fn workload() {
    let root = std::env::var("TAILBACK_ROOT").unwrap();
    let address = std::env::var("TAILBACK_ADDRESS").unwrap().parse().unwrap();
    let root = Path::new(&root);
    let hub = Serving::start(&root.join("hub"), address);
    let mark = |text: String| std::fs::write(root.join("mark"), text).unwrap();
    for i in 0..ROWS.len() {
        let path = root.join("agent/spool").join(name(i));
        write_recording(&path, i);
        mark(format!("closed {i}"));
        let mut said = Vec::new();
        upload(&root.join("agent"), &mut said);
        assert!(!path.exists(), "{said:?}");
        mark(format!("uploaded {i}"));
    }
    drop(hub);
}

/// One change of the disk; files and directories are numbers.
#[derive(Clone, Debug)]
enum Change {
    Create {
        at: (usize, String),
        file: usize,
    },
    Remove {
        at: (usize, String),
    },
    Rename {
        from: (usize, String),
        to: (usize, String),
        file: usize,
    },
    Write {
        file: usize,
        at: usize,
        data: Vec<u8>,
    },
    Truncate {
        file: usize,
        size: usize,
    },
    Sync {
        file: usize,
    },
    Mark(String),
}

/// Disk as a tree of numbered files and directories.
#[derive(Clone, Default)]
struct Disk {
    entries: BTreeMap<(usize, String), usize>,
    directories: BTreeSet<usize>,
    content: BTreeMap<usize, Vec<u8>>,
    /// Machine of each file, `hub` or `agent`.
    machine: BTreeMap<usize, String>,
}

impl Disk {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Create { at, file } => drop(self.entries.insert(at.clone(), *file)),
            Change::Remove { at } => drop(self.entries.remove(at)),
            Change::Rename { from, to, file } => {
                if self.entries.get(from) == Some(file) {
                    self.entries.remove(from);
                }
                self.entries.insert(to.clone(), *file);
            }
            Change::Write { file, at, data } => {
                let content = self.content.entry(*file).or_default();
                let end = at + data.len();
                content.resize(content.len().max(end), 0);
                content[*at..end].copy_from_slice(data);
            }
            Change::Truncate { file, size } => {
                self.content.entry(*file).or_default().resize(*size, 0);
            }
            Change::Sync { .. } | Change::Mark(_) => {}
        }
    }

    /// Number of the directory, and the name within it.
    fn place(&self, path: &str) -> (usize, String) {
        let mut parts: Vec<&str> = path.split('/').collect();
        let name = parts.pop().unwrap().to_owned();
        let directory = parts.iter().fold(0, |directory, part| {
            self.entries[&(directory, (*part).to_owned())]
        });
        (directory, name)
    }

    /// Writes all that can be reached to a real directory.
    fn restore(&self, directory: usize, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        let none = String::new();
        for ((_, name), file) in self
            .entries
            .range((directory, none.clone())..(directory + 1, none))
        {
            let path = to.join(name);
            if self.directories.contains(file) {
                self.restore(*file, &path);
            } else {
                let content = self.content.get(file).map_or(&[][..], |c| c);
                std::fs::write(&path, content).unwrap();
                // Keys among them must be their owner's alone.
                let mode = std::fs::Permissions::from_mode(0o600);
                std::fs::set_permissions(&path, mode).unwrap();
            }
        }
    }

    /// Reads a real directory; `numbers` gets the number of each inode.
    fn read(
        &mut self,
        directory: usize,
        machine: &str,
        path: &Path,
        numbers: &mut BTreeMap<u64, usize>,
    ) {
        for entry in std::fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let file = numbers.len() + 1;
            numbers.insert(entry.metadata().unwrap().ino(), file);
            let machine = if directory == 0 { &name } else { machine };
            self.machine.insert(file, machine.into());
            self.entries.insert((directory, name.clone()), file);
            if entry.file_type().unwrap().is_dir() {
                self.directories.insert(file);
                self.read(file, machine, &entry.path(), numbers);
            } else {
                self.content
                    .insert(file, std::fs::read(entry.path()).unwrap());
            }
        }
    }
}

/// Entry of the recorder's log; `machine.c` says what it means.
struct Entry {
    what: u8,
    inode: u64,
    number: usize,
    /// First text or data, and second text.
    one: Vec<u8>,
    two: Vec<u8>,
}

fn entries(mut log: &[u8]) -> Vec<Entry> {
    let mut take = |n: usize| -> Vec<u8> {
        let (head, tail) = log.split_at(n.min(log.len()));
        log = tail;
        head.to_vec()
    };
    let mut all = Vec::new();
    while let Some(what) = take(1).pop() {
        let mut number = || u64::from_le_bytes(take(8).try_into().unwrap());
        let (inode, at, one, two) = (number(), number(), number(), number());
        all.push(Entry {
            what,
            inode,
            number: at as usize,
            one: take(one as usize),
            two: take(two as usize),
        });
    }
    all
}

impl Entry {
    /// Path that the entry names.
    fn path(&self) -> &str {
        std::str::from_utf8(&self.one).unwrap()
    }

    /// Change that it stands for, given the disk until now and the numbers of inodes. None for a change of the directory
    /// above both machines.
    fn change(&self, disk: &mut Disk, numbers: &mut BTreeMap<u64, usize>) -> Option<Change> {
        let known = numbers.get(&self.inode).copied();
        Some(match self.what {
            b'C' | b'D' | b'L' => {
                let file = match self.what {
                    b'L' => known?,
                    _ => disk.machine.len() + 1,
                };
                numbers.insert(self.inode, file);
                disk.machine.insert(file, machine_of(self.path()));
                if self.what == b'D' {
                    disk.directories.insert(file);
                }
                let at = disk.place(self.path());
                Change::Create { at, file }
            }
            b'U' => Change::Remove {
                at: disk.place(self.path()),
            },
            b'R' => {
                let from = disk.place(self.path());
                Change::Rename {
                    file: disk.entries[&from],
                    from,
                    to: disk.place(std::str::from_utf8(&self.two).unwrap()),
                }
            }
            b'W' if disk.machine[&known?] == "mark" => Change::Mark(self.path().into()),
            b'W' => Change::Write {
                file: known?,
                at: self.number,
                data: self.one.clone(),
            },
            b'T' => Change::Truncate {
                file: known?,
                size: self.number,
            },
            b'S' => Change::Sync { file: known? },
            other => panic!("an entry of kind {other}"),
        })
    }
}

fn machine_of(path: &str) -> String {
    path.split('/').next().unwrap_or_default().to_owned()
}

/// Machine and change of each entry of the recorder's log, and the disk after all of them. `disk` is the state before.
fn read_log(
    log: &[u8],
    disk: &Disk,
    mut numbers: BTreeMap<u64, usize>,
) -> (Vec<(String, Change)>, Disk) {
    let mut end = disk.clone();
    let mut changes = Vec::new();
    for entry in entries(log) {
        let Some(change) = entry.change(&mut end, &mut numbers) else {
            continue;
        };
        let machine = match entry.what {
            b'W' | b'T' | b'S' => end.machine[&numbers[&entry.inode]].clone(),
            _ => machine_of(entry.path()),
        };
        end.apply(&change);
        changes.push((machine, change));
    }
    (changes, end)
}

/// Files or directories whose sync makes a change durable.
fn carriers(change: &Change) -> Vec<usize> {
    match change {
        Change::Create { at, .. } | Change::Remove { at } => vec![at.0],
        Change::Rename { from, to, .. } => vec![from.0, to.0],
        Change::Write { file, .. } | Change::Truncate { file, .. } => vec![*file],
        Change::Sync { .. } | Change::Mark(_) => Vec::new(),
    }
}

/// Disk after a power cut of the named machines: durable changes, and some of the others.
fn cut(disk: &Disk, changes: &[(String, Change)], off: &[&str], rng: &mut impl Rng) -> Disk {
    let share = *[0.0, 0.1, 0.5, 0.9, 1.0]
        .get(rng.random_range(0..5usize))
        .unwrap();
    // A journal keeps changes of directories in their order; other file systems need not.
    let ordered = rng.random::<bool>();
    let mut synced = BTreeSet::new();
    let mut durable = vec![false; changes.len()];
    for (i, (_, change)) in changes.iter().enumerate().rev() {
        if let Change::Sync { file } = change {
            synced.insert(*file);
        }
        durable[i] = carriers(change).iter().any(|file| synced.contains(file));
    }
    let last_durable = durable.iter().rposition(|d| *d).unwrap_or(0);
    let journal = rng.random_range(last_durable.min(changes.len())..=changes.len());
    let mut after = disk.clone();
    for (i, (machine, change)) in changes.iter().enumerate() {
        let is_data = matches!(change, Change::Write { .. } | Change::Truncate { .. });
        let lost = off.contains(&&**machine)
            && !durable[i]
            && match ordered && !is_data {
                true => i >= journal,
                false => rng.random::<f64>() >= share,
            };
        if lost {
            continue;
        }
        match change {
            // A write that was under way may be there in part.
            Change::Write { file, at, data }
                if off.contains(&&**machine) && !durable[i] && rng.random_range(0..4) == 0 =>
            {
                let data = data[..rng.random_range(0..=data.len())].to_vec();
                after.apply(&Change::Write {
                    file: *file,
                    at: *at,
                    data,
                });
            }
            change => after.apply(change),
        }
    }
    after
}

/// Compares store, ledger and the agent's sums after the recovery.
fn check(root: &Path, must: usize, draw: &str) {
    let hub = Hub::open(&root.join("hub"), no_runs).unwrap();
    assert_eq!(hub.settle().unwrap(), Vec::<String>::new(), "{draw}");
    let status = hub.status().unwrap();
    let point = &status.points[0];
    assert_eq!(point.quarantined, 0, "{draw}");
    assert_eq!(point.rows_outstanding, Some(0), "{draw}");
    let mut rows = 0;
    let stored: BTreeSet<String> = std::fs::read_dir(hub.recordings("p"))
        .map(|all| {
            all.map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect()
        })
        .unwrap_or_default();
    assert_eq!(stored.len() as u64, point.recordings, "{draw}");
    for (i, expected) in ROWS.iter().enumerate() {
        if !stored.contains(&name(i)) {
            assert!(i >= must, "{draw}: recording {i} is lost");
            continue;
        }
        let delay = store::read(hub.recordings("p").join(name(i)))
            .unwrap()
            .delay;
        assert!(
            i >= must || delay.len() as i64 == *expected,
            "{draw}: {i} has {} rows",
            delay.len()
        );
        for (row, probe) in delay.iter().enumerate() {
            assert_eq!(
                probe.rtt_ns,
                Some(rtt(i, row as i64)),
                "{draw}: {i}, row {row}"
            );
        }
        rows += delay.len() as u64;
    }
    assert_eq!(rows, point.rows, "{draw}");
    let spool = std::fs::read_dir(root.join("agent/spool")).unwrap().count();
    assert_eq!(spool, 0, "{draw}");
}

/// Hub and agent that have met, their changes while they work, and the address.
fn recorded(dir: &TempDir) -> (Disk, Vec<(String, Change)>, SocketAddr) {
    let library = machine_library(dir);
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let root = dir.join("root");
    let invitation = Hub::open(&root.join("hub"), no_runs)
        .unwrap()
        .invite("p")
        .unwrap();
    let hub = Serving::start(&root.join("hub"), address);
    let url = format!("https://{address}").parse().unwrap();
    join(&root.join("agent"), &url, &invitation, &mut |_| {}, &|| {
        false
    })
    .unwrap();
    upload(&root.join("agent"), &mut Vec::new());
    drop(hub);
    std::fs::write(root.join("mark"), "").unwrap();
    let (mut disk, mut numbers) = (Disk::default(), BTreeMap::new());
    disk.read(0, "", &root, &mut numbers);
    let worked = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "workload"])
        .env("LD_PRELOAD", &library)
        .env("TAILBACK_LOG", dir.at("log"))
        .env("TAILBACK_ROOT", &root)
        .env("TAILBACK_ADDRESS", address.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&worked.stdout);
    assert!(
        worked.status.success() && said.contains("1 passed"),
        "{said}"
    );
    let log = std::fs::read(dir.join("log")).unwrap();
    let (changes, end) = read_log(&log, &disk, numbers);
    // The log is whole: replaying it without loss gives what is there.
    let replayed = dir.join("replayed");
    end.restore(0, &replayed);
    let differs = Command::new("diff")
        .arg("-rq")
        .args(["-x", "mark", "-x", "*-shm"])
        .arg(&root)
        .arg(&replayed)
        .output()
        .unwrap();
    assert!(
        differs.status.success(),
        "{}",
        String::from_utf8_lossy(&differs.stdout)
    );
    disk.directories = end.directories;
    (disk, changes, address)
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |n| n.parse().expect("a number"))
}

#[test]
fn no_power_cut_loses_or_doubles_a_recording() {
    let (seed, cuts) = (
        number("TAILBACK_SEED", 20_261_128),
        number("TAILBACK_CUTS", 40),
    );
    let mut rng = base::rng::Streams::new(seed).stream("cuts");
    let dir = TempDir::new("power-cut");
    let (disk, changes, address) = recorded(&dir);
    println!("seed {seed}, {cuts} cuts of {} changes", changes.len());
    let is_other = |change: &Change| !matches!(change, Change::Write { .. });
    let places = changes.iter().enumerate().filter(|(_, (_, c))| is_other(c));
    let others: Vec<usize> = places.map(|(i, _)| i).collect();
    let mut off_count = BTreeMap::new();
    for draw in 0..cuts {
        // Most changes are pieces of the largest recording; half of the cuts are beside another kind of change.
        let at = match rng.random::<bool>() {
            true => rng.random_range(0..=changes.len()),
            false => others[rng.random_range(0..others.len())] + rng.random_range(0..2),
        };
        let off = [&["hub"][..], &["agent"], &["hub", "agent"]][rng.random_range(0..3)];
        *off_count.entry(off).or_insert(0) += 1;
        let after = cut(&disk, &changes[..at], off, &mut rng);
        let mut marks = changes[..at].iter().filter_map(|(_, c)| match c {
            Change::Mark(text) => text.strip_prefix("closed "),
            _ => None,
        });
        let must = marks
            .next_back()
            .map_or(0, |i| i.parse::<usize>().unwrap() + 1);
        let draw = format!("seed {seed}, draw {draw}: power of {off:?} cut after change {at}");
        let root = dir.join("cut");
        after.restore(0, &root);
        let mut said = Vec::new();
        let hub = Serving::start(&root.join("hub"), address);
        for _ in 0..6 {
            upload(&root.join("agent"), &mut said);
        }
        drop(hub);
        let result = std::panic::catch_unwind(|| check(&root, must, &draw));
        if let Err(panic) = result {
            eprintln!("{draw}: {said:#?}\nkept in {}", root.display());
            std::panic::resume_unwind(panic);
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
    println!("{off_count:?}");
}
