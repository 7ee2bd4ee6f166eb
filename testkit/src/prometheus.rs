//! A real Prometheus that scrapes what a test gives it, and answers the queries of a Grafana dashboard.

use crate::{Service, TempDir, skip};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time until every query has an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Prometheus that scrapes one address each second.
pub struct Prometheus {
    port: u16,
    _process: Service,
    _directory: TempDir,
}

impl Prometheus {
    /// Starts it with further options; `None`, and says so, where it is not installed.
    ///
    /// # Panics
    /// If it cannot be started although it is installed.
    pub fn start(scraped: &str, options: &[&str]) -> Option<Prometheus> {
        if Command::new("prometheus")
            .arg("--version")
            .output()
            .is_err()
        {
            skip("no prometheus: `make deps` installs it");
            return None;
        }
        let directory = TempDir::new("prometheus");
        let config = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: tailback\n    static_configs: [{{targets: ['{scraped}']}}]\n"
        );
        let config = directory.file("prometheus.yml", config);
        let free = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr());
        let port = free.expect("a free port").port();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={config}"))
            .arg(format!("--storage.tsdb.path={}", directory.at("data")))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Some(Prometheus {
            port,
            _process: Service(command.spawn().expect("prometheus runs")),
            _directory: directory,
        })
    }

    /// Answer to a query; `None` until there is one.
    pub fn query(&self, query: &str) -> Option<Value> {
        let mut encoded = String::new();
        for byte in query.bytes() {
            let _ = match byte.is_ascii_alphanumeric() {
                true => write!(encoded, "{}", char::from(byte)),
                false => write!(encoded, "%{byte:02X}"),
            };
        }
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let request =
            format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
    }
}

/// Address of a server that answers every request with this text, as long as the test runs.
///
/// # Panics
/// If no port can be had.
pub fn serve_text(text: String) -> String {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for mut stream in socket.incoming().flatten() {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let length = text.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
            );
        }
    });
    address
}

/// Checks that every query of a dashboard brings figures; those of the metrics in `absent` need only be understood.
///
/// # Panics
/// If one does not within a minute.
#[track_caller]
pub fn dashboard_shows(dashboard: &Path, scraped: &str, absent: &[&str]) {
    let Some(prometheus) = Prometheus::start(scraped, &[]) else {
        return;
    };
    let text = std::fs::read_to_string(dashboard).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels
        .iter()
        .flat_map(|p| p["targets"].as_array().expect("targets"));
    let queries = targets.map(|t| t["expr"].as_str().expect("a query"));
    // As Grafana puts in the values of its variables.
    let filled = |q: &str| {
        let q = q.replace("$__rate_interval", "10s");
        ["$point", "$target", "$interface"]
            .iter()
            .fold(q, |q, name| q.replace(name, ".*"))
    };
    let mut left: Vec<String> = queries.map(filled).collect();
    assert!(!left.is_empty());
    let began = Instant::now();
    let mut last = Value::Null;
    while !left.is_empty() {
        left.retain(|query| {
            let Some(answer) = prometheus.query(query) else {
                return true;
            };
            let shows = answer["data"]["result"]
                .as_array()
                .is_some_and(|r| !r.is_empty());
            let may_be_empty =
                answer["status"] == "success" && absent.iter().any(|name| query.contains(name));
            last = answer;
            !(shows || may_be_empty)
        });
        assert!(began.elapsed() < PATIENCE, "nothing for {left:#?}: {last}");
        std::thread::sleep(Duration::from_millis(300));
    }
}
