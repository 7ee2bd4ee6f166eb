//! `tailback serve keys` and a server with keys and TLS, as a user runs them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use testkit::TempDir;

const TAILBACK: &str = env!("CARGO_BIN_EXE_tailback");

struct Scratch(TempDir);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = TempDir::new(name);
        Scratch(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn secret(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("a scratch file");
        set_mode(&path, 0o600);
        path
    }
}

fn set_mode(path: &str, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own file");
}

fn mode(path: &str) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

fn tailback(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(TAILBACK)
        .args(args)
        .env_remove("TAILBACK_KEY")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tailback runs");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[track_caller]
fn done(out: &Output) -> String {
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{err}");
    String::from_utf8(out.stdout.clone()).expect("text")
}

#[track_caller]
fn fails(out: &Output, code: i32, says: &[&str]) {
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{err}");
    for words in says {
        assert!(err.contains(words), "\"{words}\" is missing from:\n{err}");
    }
}

#[test]
fn keys_are_added_listed_and_removed() {
    let scratch = Scratch::new("serve-keys");
    let file = scratch.path("keys");
    let keys = |args: &[&str], input: &str| {
        let args = [&["serve", "keys"], args, &["--keys", &file]].concat();
        tailback(&args, input)
    };
    let first = done(&keys(&["add", "anna"], ""));
    assert_eq!(mode(&file), 0o600);
    let second = done(&keys(&["add", "anna", "--until", "2027-01-31"], ""));
    assert_ne!(first, second, "two keys of one user");
    assert!(first.starts_with("anna ") && first.trim_end().len() == 5 + 64);
    let line = done(&keys(
        &["add", "bert", "--passphrase"],
        "correct horse battery\n",
    ));
    assert_eq!(line, "bert \"correct horse battery\"\n");
    let text = fs::read_to_string(&file).expect("readable");
    assert!(!text.contains("correct horse"), "stored stretched only");
    let list = done(&keys(&["list"], ""));
    let rows: Vec<Vec<&str>> = list
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[1][2..], ["until", "2027-01-31"]);
    assert!(
        !list.contains(&first[10..20]),
        "a fingerprint tells nothing of the key"
    );
    // One of two, then all of a user.
    done(&keys(&["remove", "anna", "--fingerprint", rows[0][1]], ""));
    let text = fs::read_to_string(&file).expect("readable");
    assert!(!text.contains(first.trim()) && text.contains(second.trim()));
    done(&keys(&["remove", "anna"], ""));
    assert_eq!(done(&keys(&["list"], "")).lines().count(), 1);
    fails(&keys(&["remove", "carl"], ""), 2, &["no such key", "bert"]);
    fails(&keys(&["add", "an na"], ""), 2, &["1 to 32 letters"]);
    fails(
        &keys(&["add", "anna", "--until", "soon"], ""),
        2,
        &["until=2027"],
    );
    fails(
        &keys(&["add", "anna", "--passphrase"], "short\n"),
        2,
        &["12 characters"],
    );
    assert_eq!(mode(&file), 0o600);
    set_mode(&file, 0o644);
    fails(&keys(&["list"], ""), 2, &["chmod 600"]);
    let left: Vec<_> = fs::read_dir(&scratch.0).expect("a directory").collect();
    assert_eq!(left.len(), 1, "nothing beside the file");
}

struct Server(Child, String, String);

impl Server {
    /// On a free port of loopback: its address and its pin.
    fn start(args: &[&str]) -> Server {
        let mut child = Command::new(TAILBACK)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut said = || lines.next().expect("a line").expect("text");
        let first = said();
        let address = first.split([' ', ',']).nth(2).expect("where").to_owned();
        let pin = loop {
            if let Some((_, pin)) = said().split_once("clients: ") {
                break pin.to_owned();
            }
        };
        // Nobody reads on, and the server says little.
        std::thread::spawn(move || lines.for_each(drop));
        Server(child, address, pin)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_client_comes_in_by_its_key_and_knows_the_server_by_its_pin() {
    let scratch = Scratch::new("serve-pin");
    let (file, state) = (scratch.path("keys"), scratch.path("state"));
    let line = done(&tailback(
        &["serve", "keys", "add", "anna", "--keys", &file],
        "",
    ));
    let mine = scratch.secret("anna", &line);
    let start = || Server::start(&["--keys", &file, "--state", &state, "--tls-only"]);
    let server = start();
    let pin = server.2.clone();
    assert_eq!(
        mode(&Path::new(&state).join("tls-key.der").display().to_string()),
        0o600
    );
    let tcp = |key: &str, pin: &str, name: &str| {
        let rec = scratch.path(name);
        let args = [
            "probe",
            "tcp:size=20kB,repeats=1,control=reno",
            "--beside-others",
            &server.1,
            "--key-file",
            key,
            "-o",
            &rec,
        ];
        tailback(&[&args[..], &["--pin", pin]].concat(), "")
    };
    done(&tcp(&mine, &pin, "good.rec"));
    let wrong = format!("sha256:{}", "ab".repeat(32));
    fails(&tcp(&mine, &wrong, "pin.rec"), 3, &[&pin, &wrong]);
    let other = scratch.secret("other", &format!("anna {}\n", "cd".repeat(32)));
    fails(&tcp(&other, &pin, "key.rec"), 3, &["wrong key"]);
    set_mode(&mine, 0o644);
    fails(&tcp(&mine, &pin, "open.rec"), 2, &["chmod 600"]);
    set_mode(&mine, 0o600);
    let (rec, address) = (scratch.path("plain.rec"), &server.1);
    let plain = [
        "probe",
        "tcp:size=20kB,repeats=1,control=reno",
        "--beside-others",
        address,
        "--key-file",
        &mine,
        "-o",
        &rec,
    ];
    fails(&tailback(&plain, ""), 3, &["TLS only", "--pin"]);
    // The pin may stand beside the key. It stays when the server starts again.
    drop(server);
    let server = start();
    assert_eq!(server.2, pin);
    let both = scratch.secret("both", &format!("{} pin={pin}\n", line.trim()));
    let rec = scratch.path("again.rec");
    let args = [
        "probe",
        "tcp:size=20kB,repeats=1,control=reno",
        "--beside-others",
        &server.1,
        "--key-file",
        &both,
        "-o",
        &rec,
    ];
    done(&tailback(&args, ""));
}

/// The monitor's probes are signed by a key that comes inside TLS; a wrong pin is its target's trouble.
#[test]
fn the_monitor_knows_a_server_by_its_pin() {
    let scratch = Scratch::new("monitor-pin");
    let server = Server::start(&["--state", &scratch.path("state")]);
    let monitor = |pin: &str, name: &str| {
        let rec = scratch.path(name);
        let args = [
            "monitor",
            &server.1,
            "--pin",
            pin,
            "-o",
            &rec,
            "--interval",
            "20ms",
            "--duration",
            "4s",
        ];
        let out = tailback(&args, "");
        done(&out);
        let recording = store::read(&rec).expect("it reads");
        let answered = recording.delay.iter().filter(|d| d.rtt_ns.is_some());
        (
            answered.count(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    let (answered, said) = monitor(&server.2, "good.rec");
    assert!(answered > 100, "{answered}: {said}");
    let (answered, said) = monitor(&format!("sha256:{}", "ab".repeat(32)), "wrong.rec");
    assert_eq!(answered, 0, "{said}");
    assert!(said.contains("public key"), "{said}");
}

/// SIGHUP has the key file read again, and the server goes on.
#[test]
fn a_hangup_has_the_key_file_read_again() {
    let scratch = Scratch::new("serve-hangup");
    let file = scratch.secret("keys", &format!("anna {}\n", "11".repeat(32)));
    let mut child = Command::new(TAILBACK)
        .args(["serve", "--listen", "127.0.0.1:0", "--keys", &file])
        .args(["--state", &scratch.path("state"), "--user", "root"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the server starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut until = |what: &str| loop {
        let line = lines.next().expect("a line").expect("text");
        if line.contains(what) {
            break line;
        }
    };
    until("--pin of clients");
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).expect("ours");
    until("keys of 1 user read");
    // What cannot be read is said at once, with what becomes of the keys.
    fs::remove_file(&file).expect("ours");
    let said = until("WARNING");
    assert!(
        said.contains("1 key that the file no longer shows"),
        "{said}"
    );
    assert!(child.try_wait().expect("ours").is_none(), "it serves on");
    child.kill().expect("ours");
    child.wait().expect("ours");
}

#[test]
fn a_fault_in_the_file_of_keys_names_its_line() {
    let scratch = Scratch::new("serve-fault");
    let file = scratch.secret("keys", "# users\n\nanna short\n");
    let out = tailback(&["serve", "--listen", "127.0.0.1:0", "--keys", &file], "");
    fails(&out, 2, &["line 3", "12 characters"]);
}
