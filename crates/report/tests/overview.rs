//! Statistics of several targets on one screen.

use analysis::series::{Cuts, Outline, Plan, Probe, Series};
use analysis::statistics::{STATISTICS_VERSION, Statistics, TargetStatistics};
use analysis::survey::{Request, target};
use base::record::{Origin, Status};
use base::rng::{Streams, uniform};
use report::plots::{Material, Scope, page};
use report::terminal::{Style, overview, statistics};

const S: i64 = 1_000_000_000;
const PROBES: i64 = 3_000;

/// Five minutes of a probe each 100 ms: answered within `ms`, but not within these spans of seconds.
fn probed(name: &str, ms: &mut dyn FnMut() -> f64, outages: &[(i64, i64)]) -> TargetStatistics {
    let gone = |t: i64| outages.iter().any(|(a, b)| (a * S..b * S).contains(&t));
    let rows: Vec<Probe> = (0..PROBES)
        .map(|i| {
            let sent_ns = i * S / 10;
            let lost = gone(sent_ns);
            Probe {
                sent_ns,
                rtt_ns: (!lost).then(|| (ms() * 1e6) as i64),
                status: if lost { Status::Lost } else { Status::Ok },
            }
        })
        .collect();
    let mut outline = Outline::default();
    rows.iter().for_each(|p| outline.add(p.sent_ns));
    let limits_ns: Vec<i64> = analysis::reliability::LIMITS_MS
        .iter()
        .map(|ms| (ms * 1e6) as i64)
        .collect();
    let cuts = Cuts {
        days: vec![0, 86_400 * S],
        limits_ns: limits_ns.clone(),
        ..Cuts::default()
    };
    let mut series = Series::new(Plan::new(&outline, cuts).expect("there are probes"));
    rows.iter().for_each(|p| series.add(*p));
    series.finish(1);
    let request = Request {
        limits_ns,
        sliding_ns: 30 * S,
        ..Request::default()
    };
    target(name, &series, &request)
}

fn of(targets: Vec<TargetStatistics>) -> Statistics {
    Statistics {
        version: STATISTICS_VERSION,
        title: "Home".into(),
        origin: Origin::Measured,
        complete: true,
        from_ns: 0,
        to_ns: PROBES * S / 10,
        unsettled: None,
        excluded: Vec::new(),
        incidents: Vec::new(),
        moments: Vec::new(),
        targets,
        host: None,
        modem: None,
        radios: Vec::new(),
        interfaces: Vec::new(),
        uplinks: Vec::new(),
    }
}

fn style(width: usize) -> Style {
    Style {
        width,
        colour: false,
        unicode: true,
    }
}

/// Random homes: five targets of five minutes fit a screen, every target is on it, and the longest outage is told. All
/// tables of the same recording took hundreds of lines.
#[test]
fn five_targets_take_at_most_sixty_lines() {
    let utc = jiff::tz::TimeZone::UTC;
    for seed in 0..20 {
        let mut rng = Streams::new(seed).stream("home");
        let mut draw = |most: f64| uniform(&mut rng) * most;
        let names = [
            "udp",
            "icmp:192.0.2.1",
            "tcp:192.0.2.1:443",
            "http://192.0.2.1/",
            "dns:a@192.0.2.53",
        ];
        let mut longest = 0;
        let mut targets = Vec::new();
        for name in names {
            let outages: Vec<(i64, i64)> = (0..draw(4.0) as i64)
                .map(|i| (60 * i + 20, 60 * i + 25 + draw(30.0) as i64))
                .collect();
            longest = outages.iter().map(|(a, b)| b - a).fold(longest, i64::max);
            let base = 5.0 + draw(300.0);
            targets.push(probed(name, &mut || base + draw(5.0), &outages));
        }
        let s = of(targets);
        for width in [60, 80, 120] {
            let text = overview(&s, style(width), &utc);
            assert!(text.lines().count() <= 60, "seed {seed}, {width}:\n{text}");
            assert!(
                text.lines().all(|l| l.chars().count() <= width),
                "{width}:\n{text}"
            );
            for name in names {
                assert!(text.contains(name), "{name}:\n{text}");
            }
            if longest > 0 {
                let told = format!("the longest {longest}");
                let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(joined.contains(&told), "seed {seed}: {told}:\n{text}");
            } else {
                assert!(text.contains("No outage"), "{text}");
            }
        }
        let all = statistics(&s, style(80), &utc).lines().count();
        assert!(all > 90, "{all}");
    }
}

/// The page of a monitor showed one target of five, and no outage.
#[test]
fn the_page_has_all_targets_their_outages_and_plots() {
    let scope = Scope {
        from_ns: 0,
        to_ns: PROBES * S / 10,
        zone: jiff::tz::TimeZone::UTC,
    };
    let names = ["udp", "icmp:192.0.2.1", "tcp:<b>:443"];
    let mut materials = Vec::new();
    let mut targets = Vec::new();
    for (i, name) in names.into_iter().enumerate() {
        let gone = [(100 + 20 * i as i64, 110 + 20 * i as i64)];
        targets.push(probed(name, &mut || 20.0 + i as f64, &gone));
        let mut m = Material::new(scope.clone(), "Home");
        m.target = name.into();
        for t in 0..PROBES {
            let lost = (gone[0].0 * S..gone[0].1 * S).contains(&(t * S / 10));
            let status = if lost { Status::Lost } else { Status::Ok };
            m.probe(t * S / 10, (!lost).then_some(20_000_000), status);
        }
        materials.push(m);
    }
    let html = page(&materials, Some(&of(targets)));
    for part in [
        "Plots of icmp:192.0.2.1",
        "Plots of tcp:&lt;b&gt;:443",
        "1970-01-01 00:01:40",
        "1970-01-01 00:02<",
        "1970-01-01 00:02:20",
        "not known to this host",
        "3 outages, the longest 10 s",
        "IPDV",
    ] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("tcp:<b>"), "a name is text");
    assert_eq!(
        html.matches("role=\"img\" aria-label=\"Home: smoke\"")
            .count(),
        3
    );
}

/// A target that gives each answer 120 ms later than the one before, and back: calls fail by their delay variation, and
/// the sentence says so.
#[test]
fn the_sentence_names_the_uses_that_fail() {
    let mut late = false;
    let mut swings = || {
        late = !late;
        if late { 20.0 } else { 150.0 }
    };
    let s = of(vec![probed("udp", &mut swings, &[])]);
    let text = overview(&s, style(200), &jiff::tz::TimeZone::UTC);
    assert!(
        text.contains("Delay or loss to udp is too much for: calls, games."),
        "{text}"
    );
    assert!(
        text.contains("calls: 95 % point of the IPDV in the whole recording: 130 ms, limit 100 ms"),
        "{text}"
    );
    let calm = of(vec![probed("udp", &mut || 20.0, &[])]);
    let text = overview(&calm, style(200), &jiff::tz::TimeZone::UTC);
    assert!(
        text.contains("No outage of 1 s or more. Delay and loss to udp suit all uses."),
        "{text}"
    );
}
