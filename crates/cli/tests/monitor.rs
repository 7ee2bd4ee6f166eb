//! `tailback monitor` as a service sees it: it outlasts its terminal, ends cleanly, and goes on where it was.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn tailback(dir: &Path, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tailback"))
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("tailback-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn server() -> (live::serve::Server, SocketAddr) {
    let config = live::serve::ServeConfig {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        ..Default::default()
    };
    let server = live::serve::Server::start(config).unwrap();
    let address = server.local_addr();
    (server, address)
}

/// Until the recording has that many rows of delay on disk.
fn wait_for_rows(path: &Path, n: usize) {
    let began = Instant::now();
    while store::read(path).map_or(0, |r| r.delay.len()) < n {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "no {n} rows in 20 s"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn ended(mut child: Child) -> i32 {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    child.wait().unwrap().code().unwrap()
}

#[test]
fn it_outlasts_its_terminal_and_is_gone_on_with_by_the_next_start() {
    let dir = Scratch::new("monitor");
    let (server, address) = server();
    let target = address.to_string();
    let path = dir.0.join("m.rec");
    let args = [
        "monitor",
        &target,
        "--interval",
        "20 ms",
        "--output",
        "m.rec",
        "--quiet",
    ];

    let first = tailback(&dir.0, &args);
    wait_for_rows(&path, 5);
    kill(Pid::from_raw(first.id() as i32), Signal::SIGHUP).unwrap();
    wait_for_rows(&path, 50);
    assert_eq!(ended(first), 0);
    assert!(store::read_meta(&path).unwrap().complete);

    // Killed: what it wrote stays, and is gone on with.
    let mut second = tailback(&dir.0, &args);
    wait_for_rows(&path, 120);
    second.kill().unwrap();
    second.wait().unwrap();
    let before = store::read(&path).unwrap().delay.len();
    let third = tailback(&dir.0, &args);
    wait_for_rows(&path, before + 30);
    assert_eq!(ended(third), 0);
    server.stop();

    let recording = store::read(&path).unwrap();
    assert!(recording.meta.complete);
    let mut seqs = BTreeMap::new();
    for d in &recording.delay {
        *seqs.entry(d.seq).or_insert(0) += 1;
    }
    assert!(seqs.values().all(|n| *n == 1), "each number is used once");
    let runs = recording.event.iter().filter(|e| &*e.kind == "run");
    assert_eq!(runs.count(), 3);
    assert!(!recording.traffic.is_empty() && !recording.host.is_empty());
}

#[test]
fn another_plan_begins_a_sibling() {
    let dir = Scratch::new("sibling");
    let (server, address) = server();
    let target = address.to_string();
    for interval in ["20 ms", "30 ms", "20 ms"] {
        let args = [
            "monitor",
            &target,
            "--interval",
            interval,
            "--duration",
            "1 s",
            "--output",
            "m.rec",
            "-q",
        ];
        assert!(tailback(&dir.0, &args).wait().unwrap().success());
    }
    server.stop();
    let runs = |name: &str| {
        let recording = store::read(dir.0.join(name)).unwrap();
        recording.event.iter().filter(|e| &*e.kind == "run").count()
    };
    assert_eq!((runs("m.rec"), runs("m-2.rec")), (2, 1));
}

#[test]
fn a_target_that_cannot_be_found_leaves_nothing_behind() {
    let dir = Scratch::new("nobody");
    let mut child = tailback(&dir.0, &["monitor", "icmp:no-such-host.invalid", "-q"]);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(std::fs::read_dir(&dir.0).unwrap().count(), 0);
    let mut child = tailback(&dir.0, &["monitor", "https://fa r/", "-q"]);
    assert_eq!(child.wait().unwrap().code(), Some(2));
}
