//! `tailback probe page` over emulated lines, at a site of ours (`bench/site/site.mjs`) that counts the connections it takes.

use crate::counted::off;
use crate::doubles::network::rules;
use crate::doubles::site::{self, Http3, Site};
use crate::doubles::{TAILBACK, figure, line, line_of, probe, says, serve};
use live::emulate::FAR_V4;
use serde_json::Value;
use std::process::Command;

/// Whether there is a browser, and Node to serve it pages; says what is missing.
fn can_browse() -> bool {
    let missing = site::missing();
    if !missing.is_empty() {
        testkit::skip(&format!("no {missing:?} here"));
    }
    missing.is_empty()
}

/// Python to serve HTTP/3 with.
fn python() -> Option<String> {
    let found = site::python();
    if found.is_none() {
        testkit::skip("no Python with aioquic here: make deps");
    }
    found
}

fn port(which: &str) -> u16 {
    let kinds = ["http", "h2", "https"];
    let at = kinds.iter().position(|k| *k == which).expect("a kind");
    site::PORT + at as u16
}

fn url(which: &str, path: &str) -> String {
    let scheme = if which == "http" { "http" } else { "https" };
    format!("{scheme}://{FAR_V4}:{}/{path}", port(which))
}

fn table<'a>(answer: &'a Value, title: &str) -> &'a Vec<Value> {
    let tables = answer["tables"].as_array().expect("tables");
    let found = tables
        .iter()
        .find(|t| t["title"].as_str().is_some_and(|t| t.starts_with(title)));
    found.unwrap_or_else(|| panic!("no {title} in {answer}"))["rows"]
        .as_array()
        .expect("rows")
}

/// Figures of the n-th page, from 1.
fn of(answer: &Value, n: usize, key: &str) -> f64 {
    match n {
        1 => figure(answer, key),
        n => figure(answer, &format!("page{n}_{key}")),
    }
}

#[test]
fn pages_of_1_20_and_100_objects_load_over_both_versions_of_http_and_their_connections_are_counted()
{
    testkit::real_time(|| {
        let (true, Some(line)) = (can_browse(), line(5)) else {
            return;
        };
        let (server, site) = (serve(&line), Site::start(&line));
        let kinds = [("http", 6.0, "http/1.1"), ("h2", 1.0, "h2")];
        let mut urls = Vec::new();
        for (which, ..) in kinds {
            urls.extend(["1", "20", "100"].map(|n| url(which, n)));
        }
        let kind = format!(
            "page:url={},iterations=1,loads=2,loaded=0,trust={}",
            urls.join(";"),
            site.trust()
        );
        let before = site.counts(&line);
        let (answer, bytes, packets) = off(&line, &kind);
        assert!(bytes < 0.05 && packets < 0.25, "{bytes} {packets}");
        let after = site.counts(&line);
        let mut n = 0;
        for (which, most, protocol) in kinds {
            let mut opened = 0.0;
            for objects in [1.0, 20.0, 100.0] {
                n += 1;
                assert_eq!(of(&answer, n, "failed"), 0.0, "{answer}");
                assert_eq!(of(&answer, n, "requests"), objects, "{answer}");
                let used = of(&answer, n, "connections_used");
                // A browser opens six connections to a host over HTTP/1.1, and one over HTTP/2.
                assert!((1.0..=most).contains(&used), "{answer}");
                assert!(objects == 1.0 || used == most, "{answer}");
                assert!(of(&answer, n, "connections_opened") >= used, "{answer}");
                assert!(of(&answer, n, "bytes") >= 10_000.0 * objects, "{answer}");
                opened += 2.0 * of(&answer, n, "connections_opened");
            }
            let port = port(which).to_string();
            let took = |counts: &Value| counts[&port].as_f64().expect("a count");
            // The two questions for the counts are connections too; the first is in both counts. So is the one that looks
            // for a log-in page, once for a host.
            let own = if which == "http" { 2.0 } else { 0.0 };
            assert_eq!(opened, took(&after) - took(&before) - own, "{answer}");
            let evidence = answer["evidence"].to_string();
            assert!(
                evidence.contains(&format!("over {protocol} and opens")),
                "{evidence}"
            );
        }
        server.stop();
    });
}

#[test]
fn a_page_waits_in_the_queue_that_an_upload_fills_and_the_tables_are_those_of_the_document() {
    testkit::real_time(|| {
        let way = |rate: &str| {
            format!("rate = \"{rate}\"\nqueue = \"fifo:bytes=128kB\"\ndelay = \"10 ms\"")
        };
        let (true, Some(line)) = (can_browse(), line_of(&way("4 Mbit/s"), &way("20 Mbit/s")))
        else {
            return;
        };
        let (server, _site) = (serve(&line), Site::start(&line));
        let url = url("http", "20");
        let kind = format!("page:url={url},iterations=3,loads=2,settle=3 s");
        let (answer, bytes, _) = off(&line, &kind);
        assert!(bytes < 0.03, "{bytes}");
        // The queue holds 256 ms. A page takes two round trips at least, and CUBIC leaves it half full at least.
        assert!(figure(&answer, "loaded_ms") > 256.0, "{answer}");
        let means = table(&answer, "Total load means");
        let own = table(&answer, "Ratio over own iteration");
        let extremes = table(&answer, "Minimum, maximum");
        for (rows, columns) in [(means, 4), (own, 4), (extremes, 4)] {
            let cells = rows[0].as_array().expect("cells");
            assert_eq!((rows.len(), cells.len()), (1, columns), "{answer}");
            assert_eq!(cells[0], url.as_str());
            for c in &cells[1..] {
                let value: f64 = c.as_str().and_then(|t| t.parse().ok()).expect("a number");
                assert!(value > 0.0, "{answer}");
            }
        }
        assert_eq!(figure(&answer, "failed"), 0.0, "{answer}");
        let evidence = answer["evidence"].to_string();
        assert!(evidence.contains("round trip to the server"), "{evidence}");
        server.stop();
    });
}

#[test]
fn loads_that_do_not_succeed_are_counted_by_their_reason_and_in_no_mean() {
    testkit::real_time(|| {
        let (true, Some(line)) = (can_browse(), line(5)) else {
            return;
        };
        let (server, _site) = (serve(&line), Site::start(&line));
        let paths = [
            "1",
            "slow",
            "moved",
            "script",
            "missing",
            "throttled?bytes=300000&ms=2700",
            "part",
        ];
        let urls = paths.map(|p| url("http", p));
        let nobody = format!("http://{FAR_V4}:8999/");
        // Its certificate is nobody's, and no key was named.
        let stranger = url("https", "1");
        let kind = format!(
            "page:url={};{nobody};{stranger},iterations=1,loads=1,loaded=0,patience=7 s",
            urls.join(";")
        );
        let (answer, _) = probe(&line, &kind);
        let counts: Vec<Vec<&str>> = table(&answer, "Loads")
            .iter()
            .map(|r| {
                r.as_array().expect("cells")[1..]
                    .iter()
                    .map(|c| c.as_str().expect("a text"))
                    .collect()
            })
            .collect();
        // All, loaded, failed, timed out, redirected.
        let (good, failed) = (vec!["1", "1", "0", "0", "0"], vec!["1", "0", "1", "0", "0"]);
        let late = vec!["1", "0", "0", "1", "0"];
        let moved = vec!["1", "0", "0", "0", "1"];
        assert_eq!(
            counts,
            [
                &good, &late, &moved, &moved, &failed, &good, &good, &failed, &failed
            ]
            .map(Vec::clone),
            "{answer}"
        );
        for row in &table(&answer, "Total load means")[1..5] {
            assert_eq!(row[1], "–", "{answer}");
        }
        let doubts = answer["doubts"].to_string();
        for reason in [
            "HTTP 302 leads to",
            "the page itself leads to",
            "HTTP 404",
            "not there in time",
            "some object failed",
        ] {
            assert!(doubts.contains(reason), "{reason}: {doubts}");
        }
        assert!(
            says(&answer).contains("ERR_CERT_AUTHORITY_INVALID"),
            "{}",
            says(&answer)
        );
        assert!(of(&answer, 6, "long_flow_share") < 0.5, "{answer}");
        server.stop();
    });
}

#[test]
fn pages_over_quic_beside_tcp_come_over_what_the_site_counts() {
    testkit::real_time(|| {
        let (true, Some(python), Some(line)) = (can_browse(), python(), line(15)) else {
            return;
        };
        let (server, site) = (serve(&line), Site::announcing(&line));
        let http3 = Http3::start(&line, &python);
        let kind = format!(
            "page:url={},http=both,iterations=1,loads=3,loaded=0,trust={}",
            url("h2", "20"),
            site.trust()
        );
        let before = site.counts(&line);
        let (answer, bytes, _) = off(&line, &kind);
        assert!(bytes < 0.1, "{bytes}: {answer}");
        let after = site.counts(&line);
        let (connections, answers) = http3.stop();
        for over in ["tcp", "quic"] {
            let of = |key: &str| figure(&answer, &format!("{over}_{key}"));
            assert_eq!((of("failed"), of("requests")), (0.0, 20.0), "{answer}");
            assert_eq!(of("connections_used"), 1.0, "{answer}");
            // Two round trips at least, of 30 ms each.
            assert!(of("idle_ms") > 60.0, "{answer}");
        }
        assert!(figure(&answer, "quic_by_tcp_idle") > 0.0, "{answer}");
        assert_eq!((connections, answers), (3, 3 * 20), "{answer}");
        let port = port("h2").to_string();
        let took = |counts: &Value| counts[&port].as_f64().expect("a count");
        let opened = 3.0 * figure(&answer, "tcp_connections_opened");
        assert_eq!(took(&after) - took(&before), opened, "{answer}");
        for protocol in ["h2", "h3"] {
            let told = answer["evidence"].to_string();
            assert!(
                told.contains(&format!("over {protocol} and opens")),
                "{told}"
            );
        }
        server.stop();
    });
}

#[test]
fn quic_that_is_filtered_or_not_spoken_is_a_verdict_and_never_a_load_over_tcp() {
    testkit::real_time(|| {
        let (true, Some(line)) = (can_browse(), line(5)) else {
            return;
        };
        let (server, site) = (serve(&line), Site::announcing(&line));
        let port = port("h2");
        let table =
            format!("chain in {{ type filter hook input priority 0; udp dport {port} drop; }}");
        rules(line.far(), &table);
        let kind = |http: &str| {
            format!(
                "page:url={},http={http},iterations=1,loads=2,loaded=0,trust={}",
                url("h2", "1"),
                site.trust()
            )
        };
        let (answer, _) = probe(&line, &kind("both"));
        let told = says(&answer);
        assert!(told.contains("HTTP/3 fails and h2 works"), "{told}");
        assert!(told.contains("UDP is filtered"), "{told}");
        assert_eq!(figure(&answer, "quic_failed"), 2.0, "{answer}");
        assert_eq!(figure(&answer, "tcp_failed"), 0.0, "{answer}");

        let (answer, _) = probe(&line, &kind("quic"));
        assert_eq!(figure(&answer, "failed"), 2.0, "{answer}");
        assert!(says(&answer).starts_with("Cannot tell"), "{answer}");

        let (answer, _) = probe(&line, &kind("tcp"));
        assert_eq!(figure(&answer, "failed"), 0.0, "{answer}");
        server.stop();
    });
}

#[test]
fn without_a_browser_it_says_what_to_install() {
    testkit::real_time(|| {
        let Some(line) = line(1) else { return };
        let server = serve(&line);
        let mut command = Command::new(TAILBACK);
        command
            .args(["probe", "page:url=http://far/", &FAR_V4.to_string()])
            .current_dir(std::env::temp_dir())
            .env("PATH", "/nowhere");
        let out = line.near().command(&mut command).output().expect("it runs");
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && told.contains("apt install chromium"),
            "{told}"
        );
        server.stop();
    });
}
