//! `tailback serve` as operators run it: its rights, its log, its counters.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use testkit::TempDir;
use testkit::prometheus::{dashboard_shows, serve_text};

struct Served {
    child: Child,
    address: String,
    /// Address for the clients of other tools.
    guest: Option<String>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server on a free port of loopback and waits until it listens.
fn serve(args: &[&str]) -> Served {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut addresses = Vec::new();
    loop {
        let line = lines.next().expect("it listens").expect("text");
        if let Some(rest) = line.strip_prefix("listening on ") {
            addresses.push(rest.split(',').next().expect("an address").to_owned());
        } else if line.starts_with("public key") {
            break;
        }
    }
    let mut addresses = addresses.into_iter();
    let address = addresses.next().expect("an address");
    let guest = addresses.next();
    // A pipe that nobody reads would end the server's words, not the server.
    std::thread::spawn(move || lines.for_each(drop));
    Served {
        child,
        address,
        guest,
    }
}

/// A script learns the port and the public key without reading sentences.
#[test]
fn a_server_tells_its_addresses_as_json() {
    struct Ended(Child);
    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--irtt",
        "127.0.0.1:0",
        "--json",
    ]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = Ended(child.expect("it starts"));
    let out = child.0.stdout.take().expect("piped");
    let mut values = serde_json::Deserializer::from_reader(out).into_iter::<serde_json::Value>();
    let started = values.next().expect("a document").expect("JSON");
    let schema = std::fs::read_to_string(repository("schema/server.v1.json")).expect("a schema");
    let schema = serde_json::from_str(&schema).expect("a schema is JSON");
    assert_eq!(
        testkit::schema::breach(&schema, &started),
        None,
        "{started}"
    );
    let address = started["listen"][0].as_str().expect("an address");
    std::net::TcpStream::connect(address).expect("it serves there");
    assert_eq!(started["guests"][0]["protocol"], "irtt");
    assert!(
        started["pin"]
            .as_str()
            .is_some_and(|pin| pin.starts_with("sha256:"))
    );
}

fn status(pid: u32, key: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = text.lines().find(|l| l.starts_with(key)).expect(key);
    let values = line.split_whitespace().skip(1);
    values.map(str::to_owned).collect()
}

/// All threads, not only the first one: some C libraries change the user of one alone.
fn threads(pid: u32, key: &str) -> Vec<Vec<String>> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let ids = tasks.map(|t| t.expect("a thread").file_name());
    let ids = ids.map(|name| name.to_string_lossy().parse().expect("a number"));
    ids.map(|id: u32| {
        let path = format!("/proc/{pid}/task/{id}/status");
        let text = std::fs::read_to_string(path).expect("it runs");
        let line = text.lines().find(|l| l.starts_with(key)).expect(key);
        line.split_whitespace().skip(1).map(str::to_owned).collect()
    })
    .collect()
}

#[test]
fn a_server_started_as_root_keeps_no_rights() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not root: there are no rights to give up");
        return;
    }
    let served = serve(&[]);
    let pid = served.child.id();
    for (key, wanted) in [("Uid:", "65534"), ("Gid:", "65534")] {
        for ids in threads(pid, key) {
            assert!(ids.iter().all(|id| id == wanted), "{key} {ids:?}");
        }
    }
    for key in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
        for caps in threads(pid, key) {
            assert_eq!(caps, ["0000000000000000"], "{key}");
        }
    }
    assert_eq!(status(pid, "Groups:"), ["65534"]);
    assert_eq!(status(pid, "NoNewPrivs:"), ["1"]);
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let core = limits
        .lines()
        .find(|l| l.starts_with("Max core"))
        .expect("a line");
    assert!(core.split_whitespace().any(|w| w == "0"), "{core}");
    drop(served);
    // A port below 1024 needs one right, and keeps no other.
    let served = serve(&["--allow-listen", "80"]);
    for caps in threads(served.child.id(), "CapEff:") {
        assert!(
            caps == ["0000000000000400"] || caps == ["0000000000000000"],
            "{caps:?}"
        );
    }
}

/// A client that asks for nothing that the server knows.
fn nonsense(address: &str) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(address).expect("it serves");
    let patience = Some(Duration::from_secs(5));
    stream.set_read_timeout(patience).expect("a time-out");
    let request = b"GET / HTTP/1.0\r\nHost: far.example\r\n\r\n";
    stream.write_all(request).expect("sent");
    let mut greeting = [0; measure::control::GREETING_LEN];
    stream.read_exact(&mut greeting).expect("a greeting");
    stream
}

#[test]
fn the_log_is_json_and_the_counters_are_prometheus_text() {
    let dir = TempDir::new("serve");
    let metrics = dir.join("tailback.prom");
    let metrics_arg = metrics.to_str().expect("text");
    // The user that it becomes could not write there.
    let args = ["--user", "root", "--log", "json", "--metrics", metrics_arg];
    let mut served = serve(&args);
    let mut log = BufReader::new(served.child.stdout.take().expect("piped")).lines();
    let _stream = nonsense(&served.address);
    let line = log.next().expect("a line").expect("text");
    let entry: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(entry["client"], "127.0.0.1", "{line}");
    assert!(
        entry["event"].is_string() && entry["time_ns"].is_i64(),
        "{line}"
    );
    let began = Instant::now();
    let text = loop {
        if let Ok(text) = std::fs::read_to_string(&metrics) {
            break text;
        }
        assert!(began.elapsed().as_secs() < 10, "no counters");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(
        text.contains("# TYPE tailback_connections_total counter"),
        "{text}"
    );
    drop(served);
    // What sessions alone bring is not there yet.
    let absent = ["session", "refused", "user_bytes", "max_rate"];
    let dashboard = repository("packaging/grafana/serve.json");
    dashboard_shows(&dashboard, &serve_text(text), &absent);
}

/// A reader that stands still must not stop the service.
#[test]
fn a_log_that_nobody_reads_delays_no_client() {
    let served = serve(&["--log", "json"]);
    let began = Instant::now();
    for n in 0..400 {
        let _stream = nonsense(&served.address);
        assert!(began.elapsed().as_secs() < 60, "{n} connections");
    }
    drop(served);
}

/// Path of a file of the repository.
fn repository(path: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

#[test]
fn the_book_lists_every_counter() {
    let page = std::fs::read_to_string(repository("docs/book/serve.md")).expect("the page");
    for (name, kind, help) in live::serve::metrics::METRICS {
        let row = format!("| `{name}` | {kind} | {help} |");
        assert!(page.contains(&row), "{row}");
    }
}

/// Exposure of the units as systemd reckons it; 2.0 of 10 at most.
#[test]
fn the_units_are_confined() {
    let dir = TempDir::new("units");
    for name in [
        "tailback-serve.service",
        "tailback-monitor@.service",
        "tailback-control@.service",
    ] {
        // An instance of a template has to have a name.
        let unit = dir.join(name.replace('@', "@home"));
        std::fs::copy(repository("packaging").join(name), &unit).expect("the unit");
        let asked = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold=20"])
            .arg(&unit)
            .output();
        match asked {
            Err(e) => eprintln!("systemd-analyze is not here ({e}): nothing was checked"),
            Ok(told) => assert!(told.status.success(), "{name}: {told:?}"),
        }
    }
}

#[test]
fn a_stamp_packet_comes_back_with_the_times_of_the_server() {
    let served = serve(&["--stamp", "127.0.0.1:0"]);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a socket");
    let guest = served.guest.as_deref().expect("a port for STAMP");
    socket.connect(guest).expect("loopback");
    let mut packet = [0; 60];
    packet[..14].copy_from_slice(&[0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 1]);
    socket.send(&packet).expect("loopback");
    let mut answer = [0; 100];
    assert_eq!(socket.recv(&mut answer).expect("an answer"), 60);
    assert_eq!(answer[24..38], packet[..14]);
    let seconds = |at: usize| {
        let bytes = answer[at..at + 8].try_into().expect("eight bytes");
        u64::from_be_bytes(bytes) as f64 / 2f64.powi(32) - 2_208_988_800.0
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    let (came, went) = (seconds(16), seconds(4));
    assert!(came <= went && went <= now.as_secs_f64(), "{came} {went}");
    assert!(now.as_secs_f64() - came < 5.0, "{came}");
    assert_eq!(answer[40], 64, "the TTL of loopback");
}

#[test]
fn guests_without_keys_need_a_network_where_users_have_keys() {
    let dir = TempDir::new("guests-keys");
    let keys = dir.at("keys");
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tailback"));
        command.args(args).output().expect("it starts")
    };
    let made = run(&["serve", "keys", "add", "anna", "--keys", &keys]);
    assert!(made.status.success(), "{made:?}");
    let refused = run(&["serve", "--keys", &keys, "--irtt", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(
        told.contains("--irtt") && told.contains("--allow"),
        "{told}"
    );
}
