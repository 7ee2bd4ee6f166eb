//! Digests of recordings: a report's figures are those of all probes, each recording counts once, and nothing is left of a point
//! whose owner withdrew.

use base::record::{Delay, Meta, Status};
use base::rng::{Rng, Streams};
use base::sketch::quantile;
use fleet::hub::Hub;
use fleet::{Manifest, PublicKey, Task};
use ops::points::{Delays, Points, run};
use rand::RngExt;
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
                Delay {
                    rtt_ns: Some(rtt),
                    status: Status::Ok,
                    ..sent
                }
            }
        };
        truth.missed += u64::from(matches!(probe.status, Status::Lost | Status::Late));
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
            // Some cross midnight, some share a day.
            let started = NOON + i64::from(number) * DAY + hour * 5 * 3600 * SECOND;
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

    hub.forget("p1").expect("it is forgotten");
    let left = report(&hub, None);
    assert_eq!(left.targets[0].points.len(), 3);
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
