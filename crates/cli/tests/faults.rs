//! What a person meets when something is wrong: the message, the exit code, and what is kept.

use std::fs;
use std::io::{BufRead, BufReader};

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::{Program, TempDir};

const TAILBACK: &str = env!("CARGO_BIN_EXE_tailback");

struct Scratch(TempDir);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = TempDir::new(name);
        Scratch(dir)
    }
    /// A file that nobody else may read.
    fn secret(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.file(name, text);
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, mode).expect("our own file");
        path
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a scratch file");
        path.display().to_string()
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

fn tailback(args: &[&str]) -> Output {
    Program::new(TAILBACK).run(args)
}

#[track_caller]
fn assert_ends(out: &Output, code: i32, says: &[&str]) {
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(
        out.status.code(),
        Some(code),
        "{err}\n{}",
        String::from_utf8_lossy(&out.stdout)
    );
    for words in says {
        assert!(err.contains(words), "\"{words}\" is missing from:\n{err}");
    }
}

fn can_emulate() -> bool {
    Program::new(TAILBACK).can_emulate()
}

struct Server(Child, String);

impl Server {
    /// On a free port of loopback.
    fn start(args: &[&str]) -> Server {
        let mut child = Command::new(TAILBACK)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stderr.take().expect("piped"))
            .read_line(&mut line)
            .expect("the server speaks");
        let address = line
            .split_whitespace()
            .nth(2)
            .expect("it says where")
            .trim_end_matches(',')
            .to_string();
        Server(child, address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn wrong_usage_is_answered_with_what_is_known() {
    for (args, says) in [
        (&["test", "--link", "adls"][..], "Did you mean \"adsl\"?"),
        (
            &["test", "--set", "up.queue=codle"],
            "Did you mean \"codel\"?",
        ),
        (&["test", "--set", "up.speed=5"], "up.speed"),
        (&["test", "--phases", "up"], "the first phase must be idle"),
        (
            &["test", "--phases", "idle,sideways"],
            "Known: idle, down, up, both",
        ),
        (&["test", "--congestion", "nosuch"], "Known: "),
        (&["test", "--contract", "fast"], "50mbit/10mbit"),
        (&["test", "--interval", "1 parsec"], "unknown unit"),
        (
            &["test", "--link", "nosuch.toml"],
            "cannot read the link file nosuch.toml",
        ),
        (
            &["test", "--key-file", "/nonexistent"],
            "cannot read the keys in /nonexistent",
        ),
        (&["emulate", "adsl"], "PROGRAM"),
        (&["frobnicate"], "frobnicate"),
    ] {
        assert_ends(&tailback(args), 2, &[says]);
    }
}

#[test]
fn a_plan_is_printed_without_running_it() {
    let out = tailback(&["test", "--print-plan", "--set", "up.rate=2 Mbit/s"]);
    assert_ends(&out, 0, &[]);
    let plan: serde_json::Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
    assert_eq!(plan["link"]["up"]["rate"], "2 Mbit/s");
}

#[test]
fn nobody_there_is_named_and_nothing_is_left_behind() {
    let scratch = Scratch::new("closed");
    let rec = scratch.path("x.rec");
    assert_ends(
        &tailback(&["test", "127.0.0.1:9", "-o", &rec]),
        3,
        &["nothing listens on UDP port 9", "tailback serve"],
    );
    assert!(!PathBuf::from(rec).exists());
    assert_ends(
        &tailback(&["test", "nosuch.invalid"]),
        3,
        &["cannot find \"nosuch.invalid\""],
    );
}

#[test]
fn a_wrong_or_missing_key_is_said_to_be_one() {
    let scratch = Scratch::new("key");
    let (right, wrong) = (
        scratch.secret("right", "anna \"open sesame, please\"\n"),
        scratch.secret("wrong", "anna \"open barley, please\"\n"),
    );
    let server = Server::start(&["--keys", &right]);
    let rec = scratch.path("x.rec");
    assert_ends(
        &tailback(&["test", &server.1, "--key-file", &wrong, "-o", &rec]),
        3,
        &["wrong key"],
    );
    assert_ends(&tailback(&["test", &server.1, "-o", &rec]), 3, &["key"]);
}

#[test]
fn a_port_in_use_is_said_to_be() {
    let server = Server::start(&[]);
    assert_ends(
        &tailback(&["serve", "--listen", &server.1]),
        3,
        &["the port is in use"],
    );
}

#[test]
fn a_filtered_port_is_told_from_a_closed_one() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let scratch = Scratch::new("filtered");
        let far = format!("exec {TAILBACK} serve");
        let rec = scratch.path("x.rec");
        let out = tailback(&[
            "emulate",
            "-q",
            "fiber",
            "--set",
            "up.loss=random:probability=1",
            "--far",
            &far,
            "--",
            TAILBACK,
            "test",
            "far",
            "-o",
            &rec,
        ]);
        assert_ends(&out, 3, &["answered none of", "firewall"]);
    });
}

#[test]
fn a_server_that_vanishes_leaves_what_was_measured() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let scratch = Scratch::new("vanish");
        let (rec, far) = (
            scratch.path("x.rec"),
            format!("exec timeout 11 {TAILBACK} serve"),
        );
        let out = tailback(&[
            "emulate", "-q", "adsl", "--far", &far, "--", TAILBACK, "test", "far", "--phases",
            "idle,up", "-o", &rec,
        ]);
        assert_ends(&out, 3, &["the test ended early", "Recording: "]);
        let out = tailback(&["analyse", &rec, "--json"]);
        assert_ends(&out, 0, &[]);
        let answer: serde_json::Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
        assert_eq!(answer["complete"], false);
        let base = answer["base_rtt_ms"]["value"]
            .as_f64()
            .expect("the idle phase was whole");
        assert!((17.0..21.0).contains(&base), "{base}");
    });
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let scratch = Scratch::new("interrupt");
        let rec = scratch.path("x.rec");
        let child = Command::new(TAILBACK)
            .args(["test", "--plain", "-o", &rec])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("tailback runs");
        std::thread::sleep(Duration::from_secs(8));
        let pid = nix::unistd::Pid::from_raw(child.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).expect("it still runs");
        let asked = Instant::now();
        let out = child.wait_with_output().expect("it ends");
        assert!(
            asked.elapsed() < Duration::from_secs(5),
            "it took {:?} to end",
            asked.elapsed()
        );
        assert_ends(&out, 3, &["interrupted", "Recording: "]);
        assert!(
            String::from_utf8_lossy(&out.stdout).contains("RTT"),
            "what was measured is told"
        );
        assert_ends(&tailback(&["analyse", &rec]), 0, &[]);
    });
}

#[test]
fn a_full_disk_ends_the_run_and_keeps_its_figures() {
    testkit::real_time_beside(|| {
        if !can_emulate() {
            return;
        }
        let scratch = Scratch::new("full");
        let disk = scratch.path("disk");
        fs::create_dir(&disk).expect("a mount point");
        // The size is chosen so that the idle phase fits and the load's samples do not.
        let script = format!(
            "mount -t tmpfs -o size=120k tmpfs {disk} && exec {TAILBACK} test --plain -o {disk}/x.rec"
        );
        let out = Command::new("unshare")
            .args(["-Urm", "sh", "-c", &script])
            .output()
            .expect("unshare runs");
        assert_ends(&out, 3, &["the disk is full", "x.rec"]);
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(
            text.contains("RTT"),
            "the figures are told all the same:\n{text}"
        );
    });
}

#[test]
fn a_trace_is_read_from_beside_its_link_and_a_missing_one_is_named() {
    let scratch = Scratch::new("trace");
    let link = |trace: &str| {
        let text = format!(
            "name = \"t\"\ntitle = \"t\"\n[up]\nrate = {{ trace = \"{trace}\" }}\n[down]\nrate = \"1 Mbit/s\"\n"
        );
        scratch.file("link.toml", &text)
    };
    scratch.file("up.trace", "1\n2\n3\n");
    let plan = tailback(&["test", "--link", &link("up.trace"), "--print-plan"]);
    assert_ends(&plan, 0, &[]);
    let plan: serde_json::Value = serde_json::from_slice(&plan.stdout).expect("it is JSON");
    assert_eq!(
        plan["link"]["up"]["rate"]["opportunities_ms"],
        serde_json::json!([1, 2, 3])
    );
    let missing = tailback(&["test", "--link", &link("none.trace"), "--print-plan"]);
    assert_ends(&missing, 2, &["none.trace"]);
    scratch.file("up.trace", "1\n3\n2\n");
    assert_ends(
        &tailback(&["test", "--link", &link("up.trace"), "--print-plan"]),
        2,
        &["line 3"],
    );
}
