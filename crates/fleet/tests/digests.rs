//! Digests of recordings: a report's figures are those of all probes, each recording counts once, and nothing is left of a point
//! whose owner withdrew.

use base::record::{Delay, Meta, Status};
use base::rng::{Rng, Streams};
use base::sketch::quantile;
use fleet::hub::{Dashboard, Hub};
use fleet::{Manifest, PublicKey, Task};
use ops::points::{Delays, Points, point, run};
use rand::RngExt;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use testkit::TempDir;

const NOON: i64 = 1_795_608_000_000_000_000;
const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400 * SECOND;

fn no_runs(_: &str) -> anyhow::Result<Task> {
    anyhow::bail!("these tests have no plans")
}

/// Round trips of a point that were answered in time, ns, and the number of probes that were not.
#[derive(Default)]
struct Truth {
    rtts: Vec<u64>,
    missed: u64,
    /// Round trips and misses of each hour.
    hours: BTreeMap<i64, (Vec<u64>, u64)>,
}

/// Uploads a recording of an hour with random round trips, and notes them.
fn upload(
    hub: &Hub,
    dir: &TempDir,
    point: &str,
    started_ns: i64,
    rng: &mut Rng,
    truth: &mut Truth,
) {
    let name = format!("watch.{started_ns}.rec");
    let path = std::path::PathBuf::from(dir.at(&name));
    let meta = Meta {
        format: base::record::FORMAT_VERSION,
        verb: "monitor".into(),
        started_ns,
        ended_ns: Some(started_ns + 3600 * SECOND),
        complete: true,
        ..Meta::default()
    };
    let mut writer = store::Writer::create(&path, meta.clone()).expect("it is made");
    let scale = rng.random_range(5e6..50e6);
    for i in 0..360 {
        let sent = Delay::unanswered(started_ns + i * 10 * SECOND, i, "udp".into());
        let hour = truth
            .hours
            .entry(sent.sent_ns / (3600 * SECOND))
            .or_default();
        let rtt = (scale * (1.0 + rng.random_range(0.0f64..3.0).powi(3))) as i64;
        let probe = match rng.random_range(0..100) {
            0..3 => Delay {
                status: Status::Lost,
                ..sent
            },
            3 => Delay {
                status: Status::Late,
                rtt_ns: Some(rtt),
                ..sent
            },
            4 => Delay {
                status: Status::NotSent,
                ..sent
            },
            _ => {
                truth.rtts.push(rtt.unsigned_abs());
                hour.0.push(rtt.unsigned_abs());
                Delay {
                    rtt_ns: Some(rtt),
                    status: Status::Ok,
                    ..sent
                }
            }
        };
        let missed = u64::from(matches!(probe.status, Status::Lost | Status::Late));
        truth.missed += missed;
        hour.1 += missed;
        writer.push(probe).expect("it is written");
    }
    writer.close(meta).expect("it is closed");
    let manifest = Manifest::of(&path, &name, "watch").expect("it is listed");
    for part in &manifest.files {
        let bytes = std::fs::read(path.join(&part.path)).expect("it is there");
        hub.put(point, &name, &part.path, 0, &bytes)
            .expect("it arrives");
    }
    hub.close(point, &manifest).expect("it is stored");
    std::fs::remove_dir_all(&path).expect("it is removed");
}

fn report(hub: &Hub, by: Option<&str>) -> Points {
    hub.digest(&mut ()).expect("digests");
    let measured = hub.measured(("", "")).expect("it is read");
    assert_eq!(measured.left_out, Vec::<String>::new());
    run(&measured.points, by).expect("a report").points
}

#[test]
fn a_report_has_the_figures_of_all_probes_and_each_recording_once() {
    let seed = 20_261_124;
    println!("seed {seed}");
    let mut rng = Streams::new(seed).stream("digests");
    let dir = TempDir::new("digests");
    let hub = Hub::open(dir.at("hub").as_ref(), no_runs).expect("a hub");
    let mut truths = Vec::new();
    for number in 0..4u8 {
        let name = format!("p{number}");
        let code = hub.invite(&name).expect("a code");
        hub.enrol(&code.secret, &PublicKey([number + 1; 32]), "v")
            .expect("it joins");
        hub.label(&name, &[format!("provider=isp-{}", number % 2)])
            .expect("a label");
        let mut truth = Truth::default();
        for hour in 0..rng.random_range(1..6) {
            // Some cross midnight, some share a day, some an hour.
            let after = if hour == 3 { 1800 } else { hour * 5 * 3600 };
            let started = NOON + i64::from(number) * DAY + after * SECOND;
            upload(&hub, &dir, &name, started, &mut rng, &mut truth);
            if rng.random_bool(0.5) {
                hub.digest(&mut ()).expect("digests");
            }
        }
        truths.push(truth);
    }
    let found = report(&hub, Some("provider"));
    assert_eq!(
        found,
        report(&hub, Some("provider")),
        "digests are made once"
    );
    let target = &found.targets[0];
    let check = |d: &Delays, of: &[&Truth]| {
        let mut rtts: Vec<u64> = of.iter().flat_map(|t| t.rtts.clone()).collect();
        rtts.sort_unstable();
        let missed: u64 = of.iter().map(|t| t.missed).sum();
        let judged = rtts.len() as u64 + missed;
        assert_eq!(d.probes, judged, "{}", d.name);
        assert!(
            (d.lost_percent - 100.0 * missed as f64 / judged as f64).abs() < 1e-9,
            "{}",
            d.name
        );
        for (p, got) in [(0.5, d.median_ms), (0.95, d.p95_ms), (0.99, d.p99_ms)] {
            let exact = quantile(rtts.len() as u64, p, |k| rtts[k as usize] as f64)
                .expect("there are some")
                / 1e6;
            let got = got.expect("there are some");
            assert!(
                (got - exact).abs() < exact * 0.006,
                "{} {p}: {got} {exact}",
                d.name
            );
        }
    };
    for (number, truth) in truths.iter().enumerate() {
        let its = target
            .points
            .iter()
            .find(|p| p.name == format!("p{number}"));
        check(its.expect("it is in the report"), &[truth]);
    }
    for group in &target.groups {
        let first = usize::from(group.name == "isp-1");
        check(group, &[&truths[first], &truths[first + 2]]);
    }

    for (number, truth) in truths.iter().enumerate() {
        let name = format!("p{number}");
        let all = hub
            .measured_with_hours(&name, ("", ""))
            .expect("it is read");
        let own = all
            .points
            .iter()
            .find(|p| p.name == name)
            .expect("it is there");
        assert_eq!(own.hours.len(), truth.hours.len(), "{name}");
        for (hour, (number, (rtts, missed))) in own.hours.iter().zip(&truth.hours) {
            let at = jiff::Timestamp::from_second(number * 3600).expect("a time");
            let said = format!("{} {:02}", hour.date, hour.hour);
            assert_eq!(said, at.strftime("%Y-%m-%d %H").to_string());
            let judged = rtts.len() as u64 + missed;
            assert_eq!(
                (hour.judged, hour.missed),
                (judged, *missed),
                "{name} {said}"
            );
            let mut rtts = rtts.clone();
            rtts.sort_unstable();
            for p in [0.5, 0.95] {
                let exact = quantile(rtts.len() as u64, p, |k| rtts[k as usize] as f64)
                    .expect("there are some");
                let got = hour.rtts.quantile(p).expect("there are some");
                assert!(
                    (got - exact).abs() < exact * 0.02,
                    "{name} {said} {p}: {got} {exact}"
                );
            }
        }
        let page = point(&all.points, &name, &[]).expect("a page");
        let of_the_day: BTreeSet<u64> = own.hours.iter().map(|h| h.hour).collect();
        // One hour alone is none of the day's; of two, one may have too few probes.
        if of_the_day.len() != 2 {
            let shown = page.page().contains("Hours of the day of udp");
            assert_eq!(shown, of_the_day.len() > 2, "{name}");
        }
    }

    hub.forget("p1").expect("it is forgotten");
    let gone = hub.measured_with_hours("p1", ("", "")).expect("it is read");
    assert!(gone.points.iter().all(|p| p.hours.is_empty()));
    let left = report(&hub, None);
    assert_eq!(left.targets[0].points.len(), 3);
}

/// Status and body that the dashboard answers to the holder of a token; a page that is still being drawn is waited for.
fn ask(dashboard: &Dashboard, path: &str, token: &str) -> (u16, String) {
    for _ in 0..300 {
        let mut stream = TcpStream::connect(dashboard.address()).expect("it listens");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("it is asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        if !answer.contains("Drawing …") {
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            let status = head.split(' ').nth(1).expect("a status");
            return (status.parse().expect("a number"), body.to_owned());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{path} is not drawn within 30 s")
}

/// Two providers' points on one hub: a reader of one of them finds no name of the other's points on any page, whatever
/// the path says, and loses a point whose label changes.
#[test]
fn a_reader_of_one_label_sees_no_other_point() {
    let dir = TempDir::new("readers");
    let data = std::path::PathBuf::from(dir.at("hub"));
    let hub = Hub::open(&data, no_runs).expect("a hub");
    let mut rng = Streams::new(2).stream("readers");
    for number in 0..4u8 {
        let name = format!("quarry-{number}");
        let code = hub.invite(&name).expect("a code");
        hub.enrol(&code.secret, &PublicKey([number + 1; 32]), "v")
            .expect("it joins");
        hub.label(&name, &[format!("provider=isp-{}", number % 2)])
            .expect("a label");
        upload(&hub, &dir, &name, NOON, &mut rng, &mut Truth::default());
    }
    hub.digest(&mut ()).expect("digests");
    let token = |name: &str, only| {
        let reader = hub.add_reader(name, only).expect("a reader");
        reader.token.expect("a token")
    };
    assert!(hub.add_reader("anna", Some("provider")).is_err());
    assert!(hub.add_reader("anna", Some("provider=")).is_err());
    let (anna, all) = (token("anna", Some("provider=isp-0")), token("otto", None));
    let listen = "127.0.0.1:0".parse().expect("an address");
    let dashboard = Dashboard::start(&data, no_runs, listen, Some("0123".into()), hub.push())
        .expect("a dashboard");
    let names = |path: &str, token: &str| -> Vec<usize> {
        let (status, body) = ask(&dashboard, path, token);
        assert_eq!(status, 200, "{path}: {body}");
        (0..4)
            .filter(|n| body.contains(&format!("quarry-{n}")))
            .collect()
    };
    for path in ["/", "/report", "/report/provider"] {
        assert_eq!(names(path, &all), [0, 1, 2, 3], "{path}");
        assert_eq!(names(path, &anna), [0, 2], "{path}");
        assert_eq!(names(path, "0123"), [0, 1, 2, 3], "{path}");
    }
    for path in ["/p/quarry-0", "/p/quarry-0/watch"] {
        let (_, body) = ask(&dashboard, path, &anna);
        assert!(body.contains("svg"), "{path}: {body}");
    }
    for path in ["/p/quarry-1", "/p/quarry-1/watch", "/p/nowhere"] {
        let (_, body) = ask(&dashboard, path, &anna);
        assert!(
            body.contains("there is no point") && !body.contains("svg"),
            "{path}: {body}"
        );
    }
    for path in ["/live/quarry-0", "/live/quarry-0/0"] {
        assert_eq!(ask(&dashboard, path, &anna).0, 200, "{path}");
    }
    for path in [
        "/live/quarry-1",
        "/live/quarry-1/0",
        "/live/nowhere",
        "/live/quarry-0/x",
        "/live/quarry-0/-1",
    ] {
        assert_eq!(ask(&dashboard, path, &anna).0, 404, "{path}");
    }
    assert_eq!(ask(&dashboard, "/metrics", &anna).0, 404);
    assert_eq!(ask(&dashboard, "/metrics", &all).0, 200);

    hub.label("quarry-0", &["provider=isp-1".into()])
        .expect("a label");
    let until = Instant::now() + Duration::from_secs(30);
    while ask(&dashboard, "/p/quarry-0", &anna).1.contains("svg") {
        assert!(
            Instant::now() < until,
            "the page of a point that changed its label stays"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    // A new token without a scope shows all again, and the old one holds no longer.
    let wide = token("anna", None);
    assert_eq!(ask(&dashboard, "/", &anna).0, 401);
    assert_eq!(names("/", &wide), [0, 1, 2, 3]);
}

/// Probes of 70 days: the hours of the newest 62 stay, and all days.
#[test]
fn hours_of_old_days_are_forgotten_and_days_are_not() {
    let dir = TempDir::new("hours");
    let hub = Hub::open(dir.at("hub").as_ref(), no_runs).expect("a hub");
    let code = hub.invite("p").expect("a code");
    hub.enrol(&code.secret, &PublicKey([1; 32]), "v")
        .expect("it joins");
    let mut rng = Streams::new(1).stream("hours");
    // The newest one comes first, as after weeks without a hub.
    for day in (0..70).rev() {
        let started = NOON + day * DAY;
        upload(&hub, &dir, "p", started, &mut rng, &mut Truth::default());
        hub.digest(&mut ()).expect("digests");
    }
    let all = hub.measured_with_hours("p", ("", "")).expect("it is read");
    let own = &all.points[0];
    assert_eq!(own.days.len(), 70);
    let kept: Vec<&String> = own.hours.iter().map(|h| &h.date).collect();
    let newest: Vec<&String> = own.days[8..].iter().map(|d| &d.date).collect();
    assert_eq!(kept, newest);
}

#[test]
fn labels_and_groups_that_cannot_be_are_refused() {
    let dir = TempDir::new("labels");
    let hub = Hub::open(dir.at("hub").as_ref(), no_runs).expect("a hub");
    let code = hub.invite("p").expect("a code");
    hub.enrol(&code.secret, &PublicKey([1; 32]), "v")
        .expect("it joins");
    for (label, words) in [
        ("provider", "KEY=VALUE"),
        ("Provider=x", "lower-case"),
        ("down=fast", "20 Mbit/s"),
        ("note=a\u{1b}[2J", "printable"),
    ] {
        let said = hub
            .label("p", &[label.into()])
            .expect_err(label)
            .to_string();
        assert!(said.contains(words), "{label}: {said}");
    }
    assert!(hub.label("q", &["a=b".into()]).is_err());
    let empty = hub.measured(("", "")).expect("it is read");
    assert!(run(&empty.points, None).is_err());
}
