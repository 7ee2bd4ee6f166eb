//! `tailback serve --web` as a browser's user sees it: Chromium behind emulated links, beside `tailback test` over the
//! same links, and strangers at the site. WEB_SEED repeats the draws, WEB_COUNT is their number: `make web-draws` writes
//! the table of docs/book/web.md.

use base::rng::Streams;
use live::emulate::{Emulation, FAR_V4};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt as _;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use testkit::{Program, TempDir};

const TAILBACK: &str = env!("CARGO_BIN_EXE_tailback");
const PORT: u16 = 8443;

/// Server in a process of its own.
struct Serving {
    child: Child,
    url: String,
    listen: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

fn serve(line: Option<&Emulation>, more: &[&str]) -> Serving {
    let mut command = Program::new(TAILBACK).command(&["serve", "--user", "root"]);
    command.args(more).stderr(Stdio::piped());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let child = match line {
        Some(line) => line.far().command(&mut command).spawn(),
        None => command.spawn(),
    };
    let mut child = child.expect("the server starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let mut after = |what: &str| {
        let mut told = lines.by_ref().map(|l| l.expect("text"));
        let found = told.find_map(|l| l.split_once(what).map(|(_, rest)| rest.to_owned()));
        found.unwrap_or_else(|| panic!("it says {what}"))
    };
    let listen = after("listening on ");
    let listen = listen.split(',').next().unwrap_or_default().to_owned();
    let url = after("browsers run the test at ");
    // The rest is read away, so that the server never waits for its log.
    std::thread::spawn(move || lines.for_each(drop));
    Serving { child, url, listen }
}

/// False, and says so, where this toolchain has no WebAssembly.
fn is_built() -> bool {
    let is_built = testkit::has_browser_analysis();
    if !is_built {
        eprintln!("skipped: this toolchain has no wasm32-unknown-unknown");
    }
    is_built
}

/// Directory of the page's scripts, with Playwright; says what is missing.
fn web() -> Option<&'static Path> {
    if !is_built() {
        return None;
    }
    let web = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../report/web"));
    let node = Command::new("node").arg("--version").output().is_ok();
    let chromium = ["/usr/bin/chromium", "/usr/bin/google-chrome"];
    let chromium =
        std::env::var_os("CHROMIUM").is_some() || chromium.iter().any(|c| Path::new(c).exists());
    if !node || !chromium || !web.join("node_modules/playwright-core").exists() {
        testkit::skip("no Node.js, Chromium or Playwright here: `make deps assets`");
        return None;
    }
    Some(web)
}

/// Runs the test in a browser in the near end of a line, or on this host.
fn browse(web: &Path, line: Option<&Emulation>, url: &str, options: &[&str]) -> Value {
    let mut command = Command::new("node");
    command
        .arg(web.join("test/browse.mjs"))
        .arg(url)
        .args(options);
    let out = match line {
        Some(line) => line.near().command(&mut command).output(),
        None => command.output(),
    };
    let out = out.expect("node runs");
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{url}: {told}");
    let seen: Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
    assert_eq!(seen["errors"], serde_json::json!([]), "{url}: {seen}");
    seen
}

fn value(figure: &Value) -> Option<f64> {
    figure["value"].as_f64()
}

/// Figure that both clients are compared by, and its name.
type Compared = (&'static str, fn(&Value) -> Option<f64>);

fn phase<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let all = answer["phases"].as_array().expect("phases");
    let found = all.iter().find(|p| p["name"] == name);
    found.unwrap_or(&Value::Null)
}

const DELAYS: [Compared; 3] = [
    ("idle p50", |a| value(&phase(a, "idle")["rtt"]["p50_ms"])),
    ("down p50", |a| value(&phase(a, "down")["rtt"]["p50_ms"])),
    ("down p95", |a| value(&phase(a, "down")["rtt"]["p95_ms"])),
];
/// Delays under an upload are shown and decide nothing: a browser uploads over two connections, `tailback test` over up to
/// four, which fill a long queue sooner and give way in turn.
const SHOWN: [Compared; 2] = [
    ("up p50", |a| value(&phase(a, "up")["rtt"]["p50_ms"])),
    ("up p95", |a| value(&phase(a, "up")["rtt"]["p95_ms"])),
];
const RATES: [Compared; 2] = [
    ("down", |a| value(&a["down"]["goodput_bps"])),
    ("up", |a| value(&a["up"]["goodput_bps"])),
];

/// Compares a browser's answer with that of `tailback test`; gives rows of the table and what is too far off. A figure that
/// the browser withholds is no fault, nor is an upper point of a run that the browser itself doubts.
fn judge(about: &str, browser: &Value, native: &Value) -> (Vec<String>, Vec<String>) {
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    let doubts = browser["instrument"]["doubts"].as_array();
    let doubted = doubts.is_some_and(|d| !d.is_empty());
    let mut compare =
        |(name, of): Compared, unit: &str, size: f64, allowed: &dyn Fn(f64) -> f64| {
            let (told, truth) = (of(browser).map(|v| v / size), of(native).map(|v| v / size));
            let shown = |v: Option<f64>| v.map_or("cannot tell".to_owned(), |v| format!("{v:.1}"));
            rows.push(format!(
                "| {about} | {name}, {unit} | {} | {}{} |",
                shown(truth),
                shown(told),
                if doubted { ", doubted" } else { "" }
            ));
            if let (Some(told), Some(truth)) = (told, truth)
                && (told - truth).abs() > allowed(truth)
                && !(doubted && name.ends_with("p95"))
            {
                faults.push(format!(
                    "{about} {name}: {told:.1} and not {truth:.1} {unit}"
                ));
            }
        };
    for delay in DELAYS {
        compare(delay, "ms", 1.0, &|ms| (0.05 * ms).max(15.0));
    }
    for delay in SHOWN {
        compare(delay, "ms", 1.0, &|_| f64::INFINITY);
    }
    for rate in RATES {
        compare(rate, "Mbit/s", 1e6, &|mbit| 0.1 * mbit);
    }
    (rows, faults)
}

/// The answer of `tailback test` over the same line.
fn native(line: &Emulation, server: &str) -> Value {
    let dir = TempDir::new("web-native");
    let recording = dir.at("native.rec");
    let args = ["test", server, "--json", "--plain", "-o", &recording];
    let mut command = Program::new(TAILBACK).command(&args);
    let out = line.near().command(&mut command).output().expect("it runs");
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{told}");
    serde_json::from_slice(&out.stdout).expect("it is JSON")
}

/// Server at the far end. A browser uploads by the congestion control of its host, `tailback test` by CUBIC, or by Reno where
/// that is not allowed: here both do the same.
fn far_server(line: &Emulation, more: &[&str]) -> Serving {
    let choose = |name| std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", name);
    let chosen = line
        .near()
        .run(|| choose("cubic").or_else(|_| choose("reno")));
    chosen.expect("enters").expect("one of the two");
    let (listen, web) = (format!("{FAR_V4}:7117"), format!("{FAR_V4}:{PORT}"));
    serve(
        Some(line),
        &[&["--listen", &listen, "--web", &web], more].concat(),
    )
}

/// One draw: rates of 2 to 50 Mbit/s and queues of 60 to 250 ms, evenly by their logarithms.
fn drawn(rng: &mut impl rand::Rng) -> (u32, [(String, String); 2]) {
    let mut direction = || {
        let bps = 2e6 * 25f64.powf(rng.random::<f64>());
        let bytes = bps / 8.0 * 0.06 * 4.2f64.powf(rng.random::<f64>());
        (format!("{bps:.0} bit/s"), format!("fifo:bytes={bytes:.0}"))
    };
    let directions = [direction(), direction()];
    (rng.random_range(5..25), directions)
}

#[test]
fn a_browser_says_what_tailback_test_says_over_random_links() {
    testkit::real_time(|| {
        let Some(web) = web() else { return };
        let given = std::env::var("WEB_SEED").ok();
        let seed = given.map_or_else(rand::random, |s| s.parse().expect("a number"));
        let count: u32 = std::env::var("WEB_COUNT").map_or(1, |n| n.parse().expect("a number"));
        println!("WEB_SEED={seed}");
        let mut rng = Streams::new(seed).stream("web");
        let (mut rows, mut faults) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (delay_ms, [up, down]) = drawn(&mut rng);
            let way = |(rate, queue): &(String, String)| (rate.clone(), queue.clone());
            let (up, down) = (way(&up), way(&down));
            let line = testkit::networks::line_with(delay_ms, (&up.0, &up.1), (&down.0, &down.1));
            let Some(line) = line else { return };
            let dir = TempDir::new("web");
            let kept = dir.at("kept");
            let server = far_server(&line, &["--web-keep", &kept]);
            let seen = browse(web, Some(&line), &server.url, &["save"]);
            assert_eq!(seen["isolated"], true, "{seen}");
            assert!(seen["canvases"].as_u64() >= Some(2), "{seen}");
            let answer = &seen["answer"];
            let clock = answer["clock"]["trust"].as_str().unwrap_or_default();
            assert!(!clock.contains("unknown"), "{clock}");
            saved_says_the_same(Path::new(&kept), answer);
            let native = native(&line, &server.listen);
            let (its_rows, its_faults) = judge(&format!("{number}"), answer, &native);
            rows.extend(its_rows);
            faults.extend(its_faults);
        }
        rows.iter().for_each(|row| println!("{row}"));
        assert!(faults.is_empty(), "WEB_SEED={seed}: {faults:#?}");
    });
}

/// The recording that the user saved gives the answer that the browser showed.
fn saved_says_the_same(kept: &Path, shown: &Value) {
    let entries = std::fs::read_dir(kept).expect("a directory");
    let saved: Vec<_> = entries.map(|e| e.expect("an entry").path()).collect();
    assert_eq!(saved.len(), 1, "{saved:?}");
    let again = Program::new(TAILBACK).json(&["analyse", "--json", &saved[0].to_string_lossy()]);
    for (name, of) in DELAYS.into_iter().chain(RATES) {
        let (a, b) = (of(&again), of(shown));
        let near = a
            .zip(b)
            .is_none_or(|(a, b)| (a - b).abs() <= 1e-6 * b.abs());
        assert!(
            near && a.is_some() == b.is_some(),
            "{name}: {a:?} and not {b:?}"
        );
    }
    assert_eq!(again["grade"]["letter"], shown["grade"]["letter"]);
}

/// Without datagrams the middle of the delays stands, and what TCP bends is withheld.
#[test]
fn a_browser_without_webtransport_says_what_it_cannot_tell() {
    testkit::real_time(|| {
        let Some(web) = web() else { return };
        let way = ("8 Mbit/s", "fifo:bytes=100kB");
        let Some(line) = testkit::networks::line_with(10, way, way) else {
            return;
        };
        let server = far_server(&line, &[]);
        let seen = browse(web, Some(&line), &server.url, &["socket"]);
        let answer = &seen["answer"];
        let up = phase(answer, "up");
        let why = up["rtt"]["p95_ms"]["cannot_tell"].as_str();
        assert!(why.is_some_and(|why| why.contains("no datagrams")), "{up}");
        let why = up["loss"]["percent"]["cannot_tell"].as_str();
        assert!(why.is_some_and(|why| why.contains("no datagrams")), "{up}");
        // 100 kB at 8 Mbit/s are 100 ms, and the path takes 20.
        let p50 = value(&up["rtt"]["p50_ms"]).expect("the median stands");
        assert!((70.0..140.0).contains(&p50), "{p50}");
        assert_eq!(answer["grade"]["letter"], "?");
    });
}

fn ask(host: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(host).expect("it listens");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn get(host: &str, path: &str, headers: &str) -> String {
    ask(
        host,
        &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n"),
    )
}

#[test]
fn strangers_at_the_site_get_no_load_and_save_nothing() {
    if !is_built() {
        return;
    }
    let dir = TempDir::new("web-strangers");
    let kept = dir.at("kept");
    let args = [
        "--listen",
        "127.0.0.1:0",
        "--web",
        "127.0.0.1:0",
        "--web-keep",
        &kept,
    ];
    let server = serve(None, &args);
    let host = server
        .url
        .trim_start_matches("http://")
        .trim_end_matches('/');
    let page = get(host, "/", "");
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("Start the test"),
        "{page}"
    );
    let settings = get(host, "/settings.json", "");
    assert!(
        settings.contains("\"keep\":true") && settings.contains("\"certificate\":["),
        "{settings}"
    );
    let session = "session=00112233445566778899aabbccddeeff";
    for (path, headers, status) in [
        ("/nothing", "", "404"),
        ("/settings.json", "Origin: https://evil.example\r\n", "403"),
        ("/settings.json", "Sec-Fetch-Site: cross-site\r\n", "403"),
        ("/down?flow=1", "", "400"),
        ("/down?session=7", "", "400"),
        // A load needs an open channel.
        (&format!("/down?{session}&flow=1&ms=1000"), "", "403"),
        (&format!("/channel?{session}"), "", "426"),
    ] {
        let text = get(host, path, headers);
        assert!(
            text.starts_with(&format!("HTTP/1.1 {status}")),
            "{path} {headers}: {text}"
        );
    }
    let foreign = "GET /settings.json HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert!(ask(host, foreign).starts_with("HTTP/1.1 403"));
    for body in ["", "{}\n", "{}\n[\"delay\"]\n"] {
        let n = body.len();
        let post = format!(
            "POST /save HTTP/1.1\r\nHost: {host}\r\nContent-Length: {n}\r\nConnection: close\r\n\r\n{body}"
        );
        let text = ask(host, &post);
        assert!(text.starts_with("HTTP/1.1 400"), "{body}: {text}");
    }
    assert_eq!(std::fs::read_dir(&kept).expect("made").count(), 0);
}
