//! `tailback share` against a hub on loopback: consent, refusals, the page, the withdrawal.

use fleet::Invitation;
use fleet::agent::{Client, HubRefuses};
use serde_json::Value;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;
use testkit::{Program, Service, TempDir};

/// Requests for a page until its drawing is given up, and the pause between them.
const REQUESTS: u32 = 600;
const PAUSE: Duration = Duration::from_millis(200);

fn program() -> Program {
    Program::new(env!("CARGO_BIN_EXE_tailback"))
}

/// Starts a hub with these further options; returns it with its address.
fn hub(data: &str, options: &[&str]) -> (Service, String) {
    let args = [&["hub", "--data", data, "--listen", "127.0.0.1:0"], options].concat();
    let mut command = program().command(&args);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    Service::told(child, "hub at ")
}

fn code(data: &str, of: &[&str]) -> String {
    let output = program().run(&[&["hub", "invite", "--data", data], of].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn test(path: &str) {
    let args = [
        "test",
        "--virtual",
        "--link",
        "cable",
        "-q",
        "--output",
        path,
    ];
    let output = program().run(&args);
    assert!(output.status.success(), "{output:?}");
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// HTTP status of a page.
fn status(address: &str, code: &str) -> u16 {
    let (hub, name) = address.split_once("/shared/").unwrap();
    let pin = code.parse::<Invitation>().unwrap().pin;
    let mut client = Client::connect(&hub.parse().unwrap(), pin, None).unwrap();
    let path = format!("/shared/{name}");
    match client.call::<Value>(hyper::Method::GET, &path, None, Vec::new()) {
        Ok(_) => panic!("a page is no JSON"),
        Err(e) => e.downcast_ref::<HubRefuses>().map_or(200, |r| r.status),
    }
}

fn has_stored(data: &str) -> bool {
    let points = std::fs::read_dir(Path::new(data).join("points")).unwrap();
    points.count() > 0
}

#[test]
fn a_shared_recording_has_a_page_until_it_is_withdrawn() {
    let dir = TempDir::new("share");
    let (rec, data) = (dir.at("mine at home.rec"), dir.at("hub"));
    test(&rec);
    let dry = program().json(&["share", &rec, "--dry-run", "--json"]);
    assert_eq!(dry["address"], Value::Null);
    assert!(dry["texts"]["meta.host.kernel"][0].is_string(), "{dry}");
    let (_hub, url) = hub(&data, &["--shared", "50MB"]);
    let code = code(&data, &["--share"]);
    let to = ["share", &rec, "--hub", &url, &code];
    // Without an answer to the question, and with an answer to another text, nothing is sent.
    for consent in [&[][..], &["--consent", "0123"]] {
        let output = program().run(&[&to[..], consent].concat());
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(
            said(&output).contains("nothing was sent"),
            "{}",
            said(&output)
        );
        assert!(!has_stored(&data));
    }
    let told = said(&program().run(&to));
    let version = told.lines().find_map(|l| l.strip_prefix("version "));
    let agreed = [&to[..], &["--consent", version.expect("a version")]].concat();
    let shared = program().json(&[&agreed[..], &["--json"]].concat());
    assert_eq!(shared["files"], dry["files"]);
    let (address, token) = (
        shared["address"].as_str().expect("an address"),
        shared["token"].as_str().expect("a token"),
    );
    let point = format!("share-{}", address.rsplit_once('/').unwrap().1);
    let stored = Path::new(&data).join("points").join(&point);
    assert!(stored.join("shared.rec/meta.json").exists());
    let page = Path::new(&data).join("pages").join(format!("{point}.html"));
    let drawn = (0..REQUESTS).any(|_| {
        assert_eq!(status(address, &code), 200);
        page.exists() || {
            std::thread::sleep(PAUSE);
            false
        }
    });
    assert!(drawn, "the page is not drawn");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("id=\"answer\""), "no report: {html:.300}");
    assert!(
        !html.contains("mine at home"),
        "the sender's own name for it"
    );
    // The code is used; the fleet has no new point; another name has no page.
    let again = program().run(&agreed);
    assert_eq!(again.status.code(), Some(3), "{}", said(&again));
    let fleet = program().json(&["fleet", "status", "--data", &data, "--json"]);
    assert_eq!(fleet["points"].as_array().map(Vec::len), Some(0));
    let (hub, _) = address.split_once("/shared/").unwrap();
    assert_eq!(
        status(&format!("{hub}/shared/{}", "0".repeat(32)), &code),
        404
    );
    // Another's token withdraws nothing.
    let last = if token.ends_with('A') { "E" } else { "A" };
    let half = &token[4..];
    let wrong = format!("tw{last}{last}{half}");
    let refused = program().run(&["share", "--withdraw", address, &wrong]);
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(stored.exists());
    let withdrawn = program().run(&["share", "--withdraw", address, token]);
    assert!(withdrawn.status.success(), "{}", said(&withdrawn));
    assert!(!stored.exists() && !page.exists());
    assert_eq!(status(address, &code), 410);
}

#[test]
fn refused_recordings_leave_nothing_at_the_hub() {
    let dir = TempDir::new("share-refused");
    let (rec, data, off) = (dir.at("a.rec"), dir.at("hub"), dir.at("off"));
    test(&rec);
    let refused = |url: &str, code: &str, words: &str| {
        let version = fleet::share::version_here();
        let output = program().run(&["share", &rec, "--hub", url, code, "--consent", &version]);
        assert!(matches!(output.status.code(), Some(2..)), "{output:?}");
        assert!(said(&output).contains(words), "{}", said(&output));
    };
    let (_off, url) = hub(&off, &[]);
    refused(
        &url,
        &code(&off, &["--share"]),
        "takes no shared recordings",
    );
    let small = dir.at("small");
    let (_small, url) = hub(&small, &["--shared", "50MB", "--shared-each", "10kB"]);
    refused(&url, &code(&small, &["--share"]), "takes at most 10 kB");
    let (_hub, url) = hub(&data, &["--shared", "50MB"]);
    refused(
        &url,
        &code(&data, &["--share"])[1..],
        "copy all 66 characters",
    );
    // A code of another hub, and one for a point.
    refused(
        &url,
        &code(&off, &["--share"]),
        "not the hub of this code or token",
    );
    refused(
        &url,
        &code(&data, &["--name", "village"]),
        "for another purpose",
    );
    assert!([&data, &off, &small].iter().all(|hub| !has_stored(hub)));
    let output = program().run(&["hub", "invite", "--data", &data, "--name", "share-1"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}

#[test]
fn a_recording_that_leads_elsewhere_or_is_damaged_is_not_sent() {
    let dir = TempDir::new("share-damaged");
    let rec = dir.at("a.rec");
    test(&rec);
    let secret = dir.file("secret", "a secret");
    let meta = Path::new(&rec).join("meta.json");
    let kept = std::fs::read(&meta).unwrap();
    std::fs::remove_file(&meta).unwrap();
    std::os::unix::fs::symlink(&secret, &meta).unwrap();
    let output = program().run(&["share", &rec, "--dry-run"]);
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    std::fs::remove_file(&meta).unwrap();
    std::fs::write(&meta, kept).unwrap();
    // Other files of the directory stay here.
    std::fs::copy(&secret, Path::new(&rec).join("delay/notes.txt")).unwrap();
    let dry = program().json(&["share", &rec, "--dry-run", "--json"]);
    assert!(!dry.to_string().contains("notes"), "{dry}");
    let delay = std::fs::read_dir(Path::new(&rec).join("delay")).unwrap();
    let delay = delay.map(|e| e.unwrap().path());
    let parquet = delay.filter(|p| p.extension().is_some_and(|e| e == "parquet"));
    for path in parquet {
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.truncate(bytes.len() / 2);
        std::fs::write(&path, bytes).unwrap();
    }
    let output = program().run(&["share", &rec, "--dry-run"]);
    assert!(
        !output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
}
