//! `tailback monitor --web` as its readers see it: a browser's requests, Prometheus, and a stranger. And what
//! `tailback status` tells of the same monitor from outside.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::TempDir;
use testkit::prometheus::{Prometheus, dashboard_shows};

struct Running {
    child: Child,
    /// Address of the page, as host:port, and the query that opens it.
    host: String,
    query: String,
    recording: PathBuf,
    server: Option<live::serve::Server>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

fn start(dir: &Path, more: &[&str]) -> Running {
    let config = live::serve::ServeConfig {
        listen: vec!["127.0.0.1:0".parse().expect("an address")],
        ..Default::default()
    };
    let server = live::serve::Server::start(config).expect("a server");
    let target = server.local_addr().to_string();
    let args = ["monitor", &target, "--interval", "20ms", "-o", "m.rec"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .args(args)
        .args(more)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let stderr = child.stderr.take().expect("a pipe");
    let mut lines = BufReader::new(stderr).lines();
    let url = lines
        .by_ref()
        .map(|l| l.expect("text"))
        .find_map(|l| l.strip_prefix("tailback: page: http://").map(str::to_owned));
    let url = url.expect("the address is printed");
    // The rest is read away, so that the monitor never waits for its log.
    std::thread::spawn(move || lines.for_each(drop));
    let (host, query) = url.split_once('/').expect("a path");
    Running {
        child,
        host: host.to_owned(),
        query: query.to_owned(),
        recording: dir.join("m.rec"),
        server: Some(server),
    }
}

/// Status line, headers and body of an answer.
fn get(running: &Running, path: &str, headers: &str) -> (String, Vec<u8>) {
    let host = running.host.replace("0.0.0.0", "127.0.0.1");
    let mut stream = TcpStream::connect(&host).expect("it listens");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("an answer");
    let end = all
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .expect("headers");
    let body = all.split_off(end + 4);
    (String::from_utf8_lossy(&all).into_owned(), body)
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            began.elapsed() < Duration::from_secs(40),
            "no {what} in 40 s"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn status(recording: &Path, more: &[&str]) -> (i32, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .arg("status")
        .arg(recording)
        .arg("--json")
        .args(more)
        .output()
        .expect("the binary runs");
    let state = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code().expect("a code"), state)
}

#[test]
fn the_page_comes_with_its_state_and_its_metrics_and_is_made_anew() {
    let dir = TempDir::new("monitor-web");
    let mut running = start(&dir, &["--web", "127.0.0.1:0"]);
    let (head, empty) = get(&running, "/", "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(String::from_utf8_lossy(&empty).contains("id=\"live\""));
    let state = |running: &Running| -> Option<Value> {
        let (head, body) = get(running, "/live.json", "");
        head.starts_with("HTTP/1.1 200")
            .then(|| serde_json::from_slice(&body).expect("JSON"))
    };
    let first = until("page", || {
        state(&running).filter(|s| s["page"].as_u64() > Some(0))
    });
    assert_eq!(first["targets"][0]["name"], "udp");
    let page = String::from_utf8(get(&running, "/", "").1).expect("text");
    // The page of the recording, with the live state in it, and allowed to ask its monitor only.
    for part in [
        "id=\"live\"",
        "id=\"curves\"",
        "id=\"targets\"",
        "connect-src 'self'",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("src=\"http"));
    let (head, metrics) = get(&running, "/metrics", "");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let metrics = String::from_utf8(metrics).expect("text");
    assert!(metrics.contains("tailback_rtt_seconds_bucket{target=\"udp\",le=\"+Inf\"}"));
    let proto = "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.9\r\n";
    let (head, body) = get(&running, "/metrics", proto);
    assert!(head.contains("application/vnd.google.protobuf"), "{head}");
    // The length of the first message and its name.
    assert_eq!(&body[2..25], b"\x0a\x15tailback_probes_total", "{body:?}");
    // Seen from outside: it answers, until its server goes.
    let (code, seen) = status(&running.recording, &["--max-silence", "8s"]);
    assert_eq!(code, 0, "{seen}");
    assert_eq!(seen["targets"][0]["is_out"], false);
    let pid = running.child.id().to_string();
    assert!(
        seen["writer"].as_str().expect("a writer").contains(&pid),
        "{seen}"
    );
    let rows = seen["targets"][0]["rows"].as_f64().expect("rows");
    let sent = state(&running).expect("a state")["targets"][0]["sent"]
        .as_f64()
        .expect("sent");
    assert!(
        rows > 50.0 && (sent - rows).abs() < 200.0,
        "{rows} of {sent}"
    );
    drop(running.server.take());
    let out = until("outage", || {
        state(&running).filter(|s| !s["targets"][0]["outage_s"].is_null())
    });
    let silent = out["targets"][0]["outage_s"].as_f64().expect("a time");
    assert!((10.0..20.0).contains(&silent), "{out}");
    let (code, seen) = status(&running.recording, &["--max-silence", "8s"]);
    assert_eq!(
        (code, &seen["targets"][0]["is_out"]),
        (1, &Value::Bool(true)),
        "{seen}"
    );
    let recording = running.recording.clone();
    drop(running);
    let (code, seen) = status(&recording, &["--max-silence", "8s"]);
    assert_eq!((code, &seen["writer"]), (1, &Value::Null), "{seen}");
    assert_eq!(seen["targets"][0]["is_out"], Value::Null);
}

/// A reader who has zoomed in gets each probe of that time, and the bytes beside it, as the recording has them.
#[test]
fn single_probes_of_a_time_are_those_of_the_recording() {
    let dir = TempDir::new("monitor-web-single");
    let running = start(
        &dir,
        &[
            "--web",
            "127.0.0.1:0",
            "--interface",
            "lo",
            "--lost-after",
            "1s",
        ],
    );
    let ask = |path: &str| -> Option<Value> {
        let (head, body) = get(&running, path, "");
        head.starts_with("HTTP/1.1 200")
            .then(|| serde_json::from_slice(&body).expect("JSON"))
    };
    get(&running, "/", "");
    until("page", || {
        ask("/live.json").filter(|s| s["page"].as_u64() > Some(0))
    });
    // The fate of the latest probes is open: three seconds and more are left out of a recording that grows.
    std::thread::sleep(Duration::from_secs(5));
    let now = live::clock::wall_ns() / 1_000_000;
    let (from, to) = (now - 8_000, now - 5_000);
    let path = format!("/probes/{from}/{to}");
    assert_eq!(
        ask(&path),
        Some(Value::Null),
        "the answer comes from memory"
    );
    let found = until("probes", || ask(&path).filter(|v| !v.is_null()));
    assert_eq!(found["reason"], Value::Null, "{found}");
    for wrong in [
        "/probes/",
        "/probes/2/1",
        "/probes/-1/5",
        "/probes/1/9223372036854775807",
        "/probes/a/b",
    ] {
        assert_eq!(ask(wrong), None, "{wrong}");
    }
    let long = format!("/probes/{}/{to}", to - 400_000_000);
    let empty = until("nothing", || {
        ask("/probes/1000/2000").filter(|v| !v.is_null())
    });
    assert!(
        empty["reason"]
            .as_str()
            .is_some_and(|r| r.contains("no probes")),
        "{empty}"
    );
    let all = until("all", || ask(&long).filter(|v| !v.is_null()));
    assert_eq!(all["reason"], Value::Null, "{all}");
    let recording = running.recording.clone();
    drop(running);
    let (_, rows) = (from, store::read(&recording).expect("a recording").delay);
    let inside = |ns: i64| (from * 1_000_000..to * 1_000_000).contains(&ns);
    let mut kept: Vec<_> = rows.iter().filter(|d| inside(d.sent_ns)).collect();
    kept.sort_by_key(|d| d.sent_ns);
    let times = found["probes"]["t_s"].as_array().expect("times");
    let delays = found["probes"]["ms"].as_array().expect("delays");
    assert!(kept.len() > 100, "{} probes in three seconds", kept.len());
    assert_eq!((times.len(), delays.len()), (kept.len(), kept.len()));
    for (i, row) in kept.iter().enumerate() {
        let at_s = (row.sent_ns - from * 1_000_000) as f64 / 1e9;
        assert!((times[i].as_f64().expect("a time") - at_s).abs() < 1e-4);
        let ms = row.rtt_ns.map(|ns| ns as f64 / 1e6);
        assert_eq!(delays[i].is_null(), ms.is_none());
        assert!((delays[i].as_f64().unwrap_or(0.0) - ms.unwrap_or(0.0)).abs() < 1e-3);
    }
    let down = found["bins"]["down_bps"].as_array().expect("rates");
    let busy = down.iter().filter(|v| v.as_f64() > Some(0.0)).count();
    assert!(busy > down.len() / 2, "{busy} of {}", down.len());
}

#[test]
fn an_open_address_needs_the_token_that_was_printed() {
    let dir = TempDir::new("monitor-web-token");
    let running = start(&dir, &["--web", "0.0.0.0:0", "--quiet"]);
    assert!(running.query.starts_with("?token="), "{}", running.query);
    for path in ["/", "/live.json", "/metrics", "/?token=0"] {
        let (head, body) = get(&running, path, "");
        assert!(head.starts_with("HTTP/1.1 401"), "{path}: {head}");
        assert!(body.len() < 200);
    }
    let (head, _) = get(&running, &format!("/{}", running.query), "");
    assert!(
        head.starts_with("HTTP/1.1 200") && head.to_lowercase().contains("set-cookie"),
        "{head}"
    );
}

/// A real Prometheus scrapes both kinds of histograms; its own functions read the median of both.
#[test]
fn prometheus_scrapes_classic_and_native_histograms_and_the_dashboard_shows_them() {
    let dir = TempDir::new("monitor-prometheus");
    let web = ["--web", "127.0.0.1:0", "--interface", "lo", "--quiet"];
    let running = start(&dir, &web);
    let kinds: [(&str, &[&str]); 2] = [
        ("tailback_rtt_seconds_bucket", &[]),
        (
            "tailback_rtt_seconds",
            &["--enable-feature=native-histograms"],
        ),
    ];
    for (metric, options) in kinds {
        let Some(prometheus) = Prometheus::start(&running.host, options) else {
            return;
        };
        let query = format!("histogram_quantile(0.5, rate({metric}[10s]))");
        let median = until("median", || {
            let answer = prometheus.query(&query)?;
            let value = answer["data"]["result"][0]["value"][1].as_str()?;
            value.parse::<f64>().ok().filter(|v| v.is_finite())
        });
        // Both are of a round trip over loopback; buckets of three a decade and of 9 % differ in how well they know it.
        assert!((1e-6..0.01).contains(&median), "{metric}: {median}");
    }
    let dashboard = Path::new("../../packaging/grafana/monitor.json");
    dashboard_shows(dashboard, &running.host, &[]);
}
