//! `tailback monitor` as a service sees it: it outlasts its terminal, ends cleanly, and goes on where it was.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::TempDir;

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

/// A monitor that is there before its server has an outage at its begin, and is right.
fn wait_for_server(address: &str) {
    let began = Instant::now();
    while let Err(e) = std::net::TcpStream::connect(address) {
        assert!(began.elapsed() < Duration::from_secs(20), "{address}: {e}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ended(mut child: Child) -> i32 {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    child.wait().unwrap().code().unwrap()
}

#[test]
fn it_outlasts_its_terminal_and_is_gone_on_with_by_the_next_start() {
    let dir = TempDir::new("monitor");
    let (server, address) = server();
    let target = address.to_string();
    let path = dir.join("m.rec");
    let args = [
        "monitor",
        &target,
        "--interval",
        "20 ms",
        "--output",
        "m.rec",
        "--quiet",
    ];

    let first = tailback(&dir, &args);
    wait_for_rows(&path, 5);
    kill(Pid::from_raw(first.id() as i32), Signal::SIGHUP).unwrap();
    wait_for_rows(&path, 50);
    assert_eq!(ended(first), 0);
    assert!(store::read_meta(&path).unwrap().complete);

    // Killed: what it wrote stays, and is gone on with.
    let mut second = tailback(&dir, &args);
    wait_for_rows(&path, 120);
    second.kill().unwrap();
    second.wait().unwrap();
    let before = store::read(&path).unwrap().delay.len();
    let third = tailback(&dir, &args);
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

/// `timeout` sends its signal to the process and to its group: the process gets it twice, and its recording was left open.
#[test]
fn a_signal_that_comes_twice_at_once_still_closes_the_recording() {
    let dir = TempDir::new("twice");
    let (server, address) = server();
    let target = address.to_string();
    for (n, signal) in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGINT]
        .into_iter()
        .enumerate()
    {
        let name = format!("{n}.rec");
        let args = [
            "monitor",
            &target,
            "--interval",
            "20 ms",
            "--output",
            &name,
            "-q",
        ];
        let mut child = tailback(&dir, &args);
        wait_for_rows(&dir.join(&name), 5);
        for _ in 0..2 {
            kill(Pid::from_raw(child.id() as i32), signal).unwrap();
            std::thread::sleep(Duration::from_millis(5 * n as u64));
        }
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
        assert!(
            store::read_meta(dir.join(&name)).unwrap().complete,
            "{signal}"
        );
    }
    server.stop();
}

#[test]
fn another_plan_begins_a_sibling() {
    let dir = TempDir::new("sibling");
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
        assert!(tailback(&dir, &args).wait().unwrap().success());
    }
    server.stop();
    let runs = |name: &str| {
        let recording = store::read(dir.join(name)).unwrap();
        recording.event.iter().filter(|e| &*e.kind == "run").count()
    };
    assert_eq!((runs("m.rec"), runs("m-2.rec")), (2, 1));
}

#[test]
fn a_target_that_cannot_be_found_leaves_nothing_behind() {
    let dir = TempDir::new("nobody");
    let mut child = tailback(&dir, &["monitor", "icmp:no-such-host.invalid", "-q"]);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    let mut child = tailback(&dir, &["monitor", "https://fa r/", "-q"]);
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

/// Two monitors on one recording both wrote: 103 rows with 72 numbers.
#[test]
fn a_second_monitor_of_the_same_recording_is_refused_and_told_who_writes() {
    let dir = TempDir::new("monitor-twice");
    let (server, address) = server();
    let target = address.to_string();
    let path = dir.join("m.rec");
    let args = [
        "monitor",
        &target,
        "--interval",
        "20 ms",
        "-o",
        "m.rec",
        "-q",
    ];
    let first = tailback(&dir, &args);
    wait_for_rows(&path, 5);
    // If it is let in, it ends all the same, and the test fails.
    let second = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .args(args)
        .args(["--duration", "10 s"])
        .current_dir(&dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success(), "{said}");
    assert!(
        said.contains(&format!("process {} on ", first.id())),
        "{said}"
    );
    wait_for_rows(&path, 50);
    assert_eq!(ended(first), 0);
    server.stop();
    let recording = store::read(&path).unwrap();
    let seqs: std::collections::BTreeSet<i64> = recording.delay.iter().map(|d| d.seq).collect();
    assert_eq!(seqs.len(), recording.delay.len());
    assert!(!path.join("lock").exists());
}

/// A day of traffic that began in the middle of a minute was thinned for ever, and only SIGKILL ended it.
#[test]
fn a_monitor_that_must_make_room_ends_when_it_is_told_to() {
    let dir = TempDir::new("monitor-room");
    let (server, address) = server();
    let target = address.to_string();
    let path = dir.join("m.rec");
    let args = [
        "monitor",
        &target,
        "--interval",
        "20 ms",
        "-o",
        "m.rec",
        "-q",
    ];
    let first = tailback(&dir, &args);
    wait_for_rows(&path, 5);
    assert_eq!(ended(first), 0);
    let meta = store::read_meta(&path).unwrap();
    let mut writer = store::Options::default()
        .resume(&path, meta.clone())
        .unwrap();
    // 2026-01-02 03:04:05.678.
    let begin = 1_767_323_045_678_000_000;
    for i in 1..40_000 {
        let traffic = base::record::Traffic {
            t_ns: begin + i * 100_000_000,
            interval_ns: 100_000_000,
            interface: "wan".into(),
            rx_bytes: Some(i * 7919 % 10_007),
            tx_bytes: Some(i),
        };
        writer.write(traffic.into()).unwrap();
    }
    writer.close(meta).unwrap();
    let limited = [&args[..], &["--max-size", "1 B"]].concat();
    let second = tailback(&dir, &limited);
    let began = Instant::now();
    while path.join("traffic/2026-01-02.parquet").exists() {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "no room was made"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    wait_for_rows(&path, 30);
    let told = Instant::now();
    assert_eq!(ended(second), 0);
    assert!(
        told.elapsed() < Duration::from_secs(8),
        "{:?}",
        told.elapsed()
    );
    server.stop();
    let recording = store::read(&path).unwrap();
    let steps: Vec<_> = recording
        .event
        .iter()
        .filter(|e| &*e.kind == "disk")
        .collect();
    assert!(
        (2..6).contains(&steps.len()) && steps.iter().any(|e| e.detail.ends_with("is gone")),
        "{steps:?}"
    );
}

/// A server that goes away: the command runs once, and the file of metrics is whole and counts what the recording has.
#[test]
fn an_outage_runs_the_command_and_the_metrics_can_be_read() {
    let dir = TempDir::new("monitor-alert");
    let (server, address) = server();
    let target = address.to_string();
    let alert = "echo $TAILBACK_TARGET $TAILBACK_STATE $TAILBACK_SECONDS >> alerts";
    let args = ["monitor", &target, "--quiet", "-o", "m.rec"];
    let more = [
        "--interval",
        "50 ms",
        "--on-outage",
        alert,
        "--metrics",
        "m.prom",
    ];
    let child = tailback(&dir, &[&args[..], &more[..]].concat());
    wait_for_rows(&dir.join("m.rec"), 40);
    drop(server);
    let gone = Instant::now();
    let alerts = || std::fs::read_to_string(dir.join("alerts")).unwrap_or_default();
    while alerts().is_empty() {
        assert!(gone.elapsed() < Duration::from_secs(30), "no alert");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(gone.elapsed() > Duration::from_secs(8), "too early");
    std::thread::sleep(Duration::from_secs(2));
    let metrics = std::fs::read_to_string(dir.join("m.prom")).unwrap();
    assert_eq!(ended(child), 0);
    let said = alerts();
    assert!(
        said.starts_with("udp down 1") && said.lines().count() == 1,
        "{said}"
    );
    let value = |start: &str| -> f64 {
        let line = metrics.lines().find(|l| l.starts_with(start));
        let line = line.unwrap_or_else(|| panic!("{start}:\n{metrics}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    for line in metrics.lines().filter(|l| !l.starts_with('#')) {
        let (name, number) = line.rsplit_once(' ').unwrap();
        assert!(
            name.starts_with("tailback_") && name.ends_with('}'),
            "{line}"
        );
        assert!(number.parse::<f64>().is_ok_and(|v| v >= 0.0), "{line}");
    }
    let answered = value("tailback_probes_total{target=\"udp\",fate=\"answered\"}");
    assert!(answered >= 40.0);
    assert_eq!(
        value("tailback_rtt_seconds_count{target=\"udp\"}"),
        answered
    );
    assert_eq!(
        value("tailback_rtt_seconds_bucket{target=\"udp\",le=\"+Inf\"}"),
        answered
    );
    let kept = store::read(dir.join("m.rec")).unwrap();
    let kept = kept.delay.iter().filter(|d| d.rtt_ns.is_some()).count();
    assert_eq!(answered, kept as f64);
}

/// Alerts that reached an operator: bodies of the webhook, letters, states for the service manager.
struct Told {
    posts: Arc<Mutex<Vec<String>>>,
    webhook: String,
    manager: UnixDatagram,
}

impl Told {
    /// Listens for posts and states. A stand-in for sendmail writes letters to `letters`.
    fn listen(dir: &TempDir) -> Told {
        let sendmail = dir.file(
            "sendmail",
            "#!/bin/sh\necho \"$*\" >> letters; cat >> letters\n",
        );
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(sendmail, executable).expect("a program");
        let manager = UnixDatagram::bind(dir.join("manager")).expect("a socket");
        manager.set_nonblocking(true).expect("a socket");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let webhook = format!("http://{}/alerts", listener.local_addr().expect("a port"));
        let posts = Arc::new(Mutex::new(Vec::new()));
        let kept = posts.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let body = posted(&mut stream.expect("a connection"));
                kept.lock().expect("nobody panicked").push(body);
            }
        });
        Told {
            posts,
            webhook,
            manager,
        }
    }

    fn posts(&self) -> Vec<String> {
        self.posts.lock().expect("nobody panicked").clone()
    }

    /// States that have come since the last call.
    fn states(&self) -> Vec<String> {
        let mut buffer = [0; 256];
        let next = || {
            let n = self.manager.recv(&mut buffer).ok()?;
            Some(String::from_utf8_lossy(&buffer[..n]).into_owned())
        };
        std::iter::from_fn(next).collect()
    }
}

/// Body of a POST, which is answered.
fn posted(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    loop {
        let n = stream.read(&mut buffer).expect("a request");
        text += std::str::from_utf8(&buffer[..n]).expect("text");
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|l| l.strip_prefix("Content-Length: "));
        if body.len() >= length.expect("a length").parse().expect("a number") {
            stream
                .write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
                .expect("answered");
            return body.to_owned();
        }
    }
}

/// An outage and its end reach the webhook and the mailbox, once each; the service manager hears that the monitor lives.
#[test]
fn an_outage_is_posted_and_mailed_and_the_service_manager_is_told_of_each_second() {
    if Command::new("curl").arg("--version").output().is_err() {
        testkit::skip("no curl");
        return;
    }
    let dir = TempDir::new("monitor-told");
    let told = Told::listen(&dir);
    let (server, address) = server();
    let path = format!(
        "{}:{}",
        dir.display(),
        std::env::var("PATH").expect("a path")
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_tailback"));
    child
        .args([
            "monitor",
            &address.to_string(),
            "--quiet",
            "-o",
            "m.rec",
            "--interval",
            "50ms",
        ])
        .args([
            "--alert-after",
            "3s",
            "--webhook",
            &told.webhook,
            "--mail",
            "noc@example.org",
        ])
        .current_dir(&dir)
        .env("PATH", path)
        .env("NOTIFY_SOCKET", dir.join("manager"))
        .stdin(Stdio::null());
    let child = Killed(child.spawn().expect("the binary runs"));
    wait_for_rows(&dir.join("m.rec"), 40);
    drop(server);
    let wait_for = |posts: usize| {
        let began = Instant::now();
        while told.posts().len() < posts {
            assert!(
                began.elapsed() < Duration::from_secs(40),
                "{:?}",
                told.posts()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    wait_for(1);
    let config = live::serve::ServeConfig {
        listen: vec![address],
        ..Default::default()
    };
    let server = live::serve::Server::start(config).expect("a server");
    wait_for(2);
    std::thread::sleep(Duration::from_secs(2));
    let alive = told.states();
    kill(Pid::from_raw(child.0.id() as i32), Signal::SIGTERM).expect("it runs");
    let began = Instant::now();
    let mut last = Vec::new();
    while last.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(20));
        last = told.states();
        last.retain(|s| s != "WATCHDOG=1");
        std::thread::sleep(Duration::from_millis(50));
    }
    server.stop();
    assert_eq!(last, ["STOPPING=1"]);
    assert_eq!(alive[0], "READY=1");
    let beats = alive.iter().filter(|s| *s == "WATCHDOG=1").count();
    // Three seconds of silence, three of answers and two of peace are eight at least.
    assert!(beats >= 8, "{alive:?}");
    let posts: Vec<serde_json::Value> = told
        .posts()
        .iter()
        .map(|p| serde_json::from_str(p).expect("JSON"))
        .collect();
    let states: Vec<&str> = posts.iter().filter_map(|p| p["state"].as_str()).collect();
    assert_eq!(states, ["down", "up"], "{posts:?}");
    assert!(
        posts
            .iter()
            .all(|p| p["target"] == "udp" && p["host"].is_string()),
        "{posts:?}"
    );
    assert!(posts[0]["silent_s"].as_f64() >= Some(3.0), "{posts:?}");
    let letters = std::fs::read_to_string(dir.join("letters")).expect("letters");
    assert_eq!(
        letters.matches("-i -- noc@example.org").count(),
        2,
        "{letters}"
    );
    assert!(
        letters.contains("udp is down") && letters.contains("udp is up"),
        "{letters}"
    );
}

/// Child that is killed at the end, even if it is stopped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Rows of lost probes come minutes late: `analyse`, `status` and `report` said "no outage" of a target that was out.
#[test]
fn a_recording_that_is_still_written_has_the_outage_that_lasts() {
    let dir = TempDir::new("monitor-open");
    let port = |l: std::net::TcpListener| l.local_addr().unwrap().port();
    let free = port(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let target = format!("127.0.0.1:{free}");
    let server = Killed(tailback(&dir, &["serve", "--listen", &target, "--quiet"]));
    wait_for_server(&target);
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other_target = format!("tcp:127.0.0.1:{}", other.local_addr().unwrap().port());
    let args = ["monitor", &target, &other_target, "--quiet", "-o", "m.rec"];
    let more = ["--interval", "50 ms", "--lost-after", "2 s"];
    let monitor = tailback(&dir, &[&args[..], &more[..]].concat());
    let path = dir.join("m.rec");
    wait_for_rows(&path, 100);
    kill(Pid::from_raw(server.0.id() as i32), Signal::SIGSTOP).unwrap();
    std::thread::sleep(Duration::from_secs(12));

    let program = testkit::Program::new(env!("CARGO_BIN_EXE_tailback")).within(&dir);
    let open = program.json(&["analyse", "m.rec", "--json"]);
    let state = program.json(&["status", "m.rec", "--json"]);
    let text = program.run(&["analyse", "m.rec"]).stdout;
    let text = String::from_utf8(text).unwrap().replace('\n', " ");
    assert!(
        program
            .run(&["report", "m.rec", "-o", "m.html"])
            .status
            .success()
    );
    let page = std::fs::read_to_string(dir.join("m.html")).unwrap();
    assert_eq!(ended(monitor), 0);
    drop(server);

    let of = |all: &serde_json::Value, name: &str| {
        let targets = all["targets"].as_array().unwrap().iter();
        targets
            .clone()
            .find(|t| t["target"] == name)
            .unwrap()
            .clone()
    };
    let udp = of(&open, "udp");
    let outages = udp["outages"].as_array().unwrap();
    assert_eq!(
        (outages.len(), &outages[0]["ended"]),
        (1, &false.into()),
        "{udp}"
    );
    assert_eq!(udp["gaps"], serde_json::json!([]));
    assert_eq!(of(&open, &other_target)["outages"], serde_json::json!([]));
    assert!(of(&state, "udp")["loss"].as_f64().unwrap() > 0.1, "{state}");
    for part in ["No answer at the end: udp.", "its last 4 s are left out"] {
        assert!(text.contains(part), "{part}: {text}");
        assert!(page.contains(part), "{part}");
    }
    // The same figures as the closed recording has for the same time. A probe about the cut may be on either side of it:
    // the time of one without a row is that of its slot. What a stalled host did not send is neither sent nor lost.
    let cut = open["unsettled"]["from_ns"].as_i64().unwrap();
    let closed = store::read(&path).unwrap();
    let rows = || {
        closed
            .delay
            .iter()
            .filter(|d| &*d.target == "udp" && d.sent_ns < cut)
            .filter(|d| d.status != base::record::Status::NotSent)
    };
    let lost = rows().filter(|d| d.rtt_ns.is_none()).count() as i64;
    let count = |key: &str| udp["whole"][key].as_i64().unwrap();
    assert!((count("sent") - rows().count() as i64).abs() <= 1, "{udp}");
    assert!(
        lost > 100 && (count("lost") - lost).abs() <= 1,
        "{lost}: {udp}"
    );
    assert!(closed.meta.complete);
    assert_eq!(
        program.json(&["analyse", "m.rec", "--json"])["unsettled"],
        serde_json::Value::Null
    );
}

/// Calls of read() of a process so far.
fn reads(id: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/io")).expect("its counts");
    let line = text.lines().find_map(|l| l.strip_prefix("syscr: "));
    line.expect("a count").parse().expect("a number")
}

#[test]
fn a_terminal_that_is_gone_ends_the_screen_and_the_monitor_measures_on() {
    let dir = TempDir::new("terminal-gone");
    let recording = dir.join("m.rec");
    let ends = nix::pty::openpty(None, None).expect("a terminal");
    let slave = std::fs::File::from(ends.slave);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tailback"));
    command
        .args(["monitor", "icmp:127.0.0.1", "--interval", "100ms", "-o"])
        .arg(&recording)
        .stdin(slave.try_clone().expect("a descriptor"))
        .stdout(slave.try_clone().expect("a descriptor"))
        .stderr(slave);
    let mut child = Killed(command.spawn().expect("the program runs"));
    drop(command);
    let mut master = std::fs::File::from(ends.master);
    let mut seen = Vec::new();
    // Its screen stands once it has drawn a target's row.
    while !String::from_utf8_lossy(&seen).contains("127.0.0.1") {
        let mut part = [0; 4096];
        let n = std::io::Read::read(&mut master, &mut part).expect("it draws");
        seen.extend_from_slice(&part[..n]);
    }
    drop(master);
    let second = std::time::Duration::from_secs(1);
    std::thread::sleep(second);
    let before = reads(child.0.id());
    std::thread::sleep(second);
    let after = reads(child.0.id());
    assert!(
        after - before < 1000,
        "{} reads in a second",
        after - before
    );
    assert!(
        child.0.try_wait().expect("its state").is_none(),
        "it still measures"
    );
}

/// A passive monitor sends nothing, and its recording has figures, plots and a page.
#[test]
fn an_interface_is_watched_without_a_target() {
    testkit::real_time_beside(|| {
        let dir = TempDir::new("passive");
        let run = |args: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
            command.args(args).current_dir(&*dir).output().unwrap()
        };
        let refused = run(&["monitor", "--interface", "no-such-0", "-o", "t.rec", "-q"]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(said.contains("no-such-0") && said.contains("lo"), "{said}");
        assert!(!dir.join("t.rec").exists());

        let args = ["monitor", "--interface", "lo", "-o", "t.rec", "-q"];
        let child = tailback(&dir, &args);
        let path = dir.join("t.rec");
        let began = Instant::now();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let rows = || store::read(&path).map_or(0, |r| r.traffic.len());
        let mut sent = 0u64;
        while rows() < 12 {
            assert!(began.elapsed() < Duration::from_secs(20), "no rows");
            // A port that nobody listens to: only the interface counts it.
            let _ = sender.send_to(&[0; 1000], "127.0.0.1:9");
            sent += u64::from(rows() > 0) * 1000;
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(ended(child), 0);
        let recording = store::read(&path).unwrap();
        assert!(recording.delay.is_empty() && recording.meta.complete);
        let json = run(&["analyse", "t.rec", "--json"]);
        let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        let lo = &json["interfaces"][0];
        assert_eq!(lo["interface"], "lo");
        let bytes = lo["whole"]["down"]["bytes"].as_f64().unwrap();
        assert!(bytes + 5_000.0 >= sent as f64, "{bytes} of {sent}");
        assert_eq!(lo["whole"]["unknown_s"], 0.0);
        let text = run(&["analyse", "t.rec"]);
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        assert!(
            text.contains("lo down") && text.contains("Monitoring lo"),
            "{text}"
        );
        for file in ["page.html", "rtt.svg"] {
            let out = run(&["report", "t.rec", "-o", file]);
            assert!(
                out.status.success(),
                "{}",
                String::from_utf8_lossy(&out.stderr)
            );
        }
        assert_eq!(run(&["status", "t.rec"]).status.code(), Some(0));
    });
}
