//! The kind `page` from loads that are made up: the document's own figures must come out of its own means.

use base::noted::Noted;
use base::noted::page::{HttpOver, Loaded, PageEnd, PageLoad, PageNote};
use base::record::{Meta, Recording};
use experiment::{Outcome, analyse};

const URL: &str = "http://www.usm.example/";

/// A recording of loads: iteration, whether beside a load, and how it ended.
fn recording(words: &str, loads: &[(u32, bool, PageEnd)]) -> Recording {
    let mut r = Recording {
        meta: Meta {
            verb: "probe".into(),
            plan: serde_json::json!({ "probe": words }),
            ..Meta::default()
        },
        ..Recording::default()
    };
    for (i, (iteration, loaded, end)) in loads.iter().enumerate() {
        let t = i as i64 * 1_000_000_000;
        let note = PageNote::Load(PageLoad {
            iteration: *iteration,
            number: 1,
            loaded: *loaded,
            over: HttpOver::Any,
            began_ns: t,
            ended_ns: t + 1,
            end: end.clone(),
        });
        r.event.push(note.event(t, URL));
    }
    r
}

fn took(load_ms: f64) -> PageEnd {
    PageEnd::Loaded(Box::new(Loaded {
        load_ms,
        ..Loaded::default()
    }))
}

fn outcome(words: &str, loads: &[(u32, bool, PageEnd)]) -> Outcome {
    analyse(&recording(words, loads))
        .expect("it is of a probe")
        .outcome
}

fn row(o: &Outcome, title: &str) -> Vec<String> {
    let table = o.tables.iter().find(|t| t.title.starts_with(title));
    table.unwrap_or_else(|| panic!("no {title}")).rows[0][1..].to_vec()
}

/// Catalán 2014, tables 5 and 9, of three of its networks.
#[test]
fn the_documents_means_give_its_minima_maxima_and_ratios() {
    for (means, min, max, ratio) in [
        (
            [3415.1, 20932.3, 4490.5, 4170.1, 4087.1],
            "3415.1",
            "20932.3",
            "612.93374",
        ),
        (
            [1654.8, 3053.6, 1718.0, 1877.4, 1666.8],
            "1654.8",
            "3053.6",
            "184.52985",
        ),
        (
            [2806.5, 70423.3, 2865.9, 2757.6, 2964.5],
            "2757.6",
            "70423.3",
            "2553.78953",
        ),
    ] {
        // Two loads each, a tenth below and a tenth above the mean.
        let loads: Vec<_> = (1..=5)
            .zip(means)
            .flat_map(|(i, m)| [(i, i == 2, took(0.9 * m)), (i, i == 2, took(1.1 * m))])
            .collect();
        let o = outcome("page", &loads);
        assert_eq!(row(&o, "Minimum, maximum"), [min, max, ratio]);
        let printed = means.map(|m| format!("{m:.2}"));
        assert_eq!(row(&o, "Total load means"), printed);
        assert_eq!(row(&o, "Ratio over own iteration"), ["122.22222"; 5]);
        let loaded = o.figure("loaded_ms").value().expect("a mean");
        assert!((loaded - means[1]).abs() < 1e-6);
    }
}

#[test]
fn what_did_not_load_is_in_no_mean_and_is_told() {
    let moved = PageEnd::Redirected {
        to: "https://www.usm.example/".into(),
        status: Some(301),
    };
    let failed = PageEnd::Failed { why: "gone".into() };
    let loads = [
        (1, false, took(1000.0)),
        (1, false, PageEnd::TimedOut),
        (1, false, moved),
        (2, true, failed),
        (3, false, took(3000.0)),
    ];
    let o = outcome("page:iterations=3", &loads);
    assert_eq!(o.figure("idle_ms").value(), Some(2000.0));
    assert_eq!(o.figure("loaded_ms").value(), None);
    assert_eq!(o.figure("failed").value(), Some(3.0));
    assert_eq!(row(&o, "Total load means"), ["1000.00", "–", "3000.00"]);
    assert_eq!(
        row(&o, "Minimum, maximum"),
        ["1000.0", "3000.0", "300.00000"]
    );
    assert!(o.says.contains("does not load under load"), "{}", o.says);
    let doubt = &o.doubts[0];
    for told in [
        "3 of 5",
        "HTTP 301 leads to https://www.usm.example/",
        "gone",
        "not there in time",
    ] {
        assert!(doubt.contains(told), "{doubt}");
    }
}

#[test]
fn a_difference_that_may_be_chance_is_not_called_slower() {
    let spread = [(1, 500.0), (1, 1500.0), (1, 1000.0)];
    let mut loads: Vec<_> = spread.map(|(i, ms)| (i, false, took(ms))).to_vec();
    loads.extend([900.0, 4000.0].map(|ms| (2, true, took(ms))));
    let o = outcome("page:iterations=2", &loads);
    assert!(o.says.contains("too few loads to tell"), "{}", o.says);
    assert!(o.advice.is_empty());

    let mut loads: Vec<_> = [990.0, 1010.0, 1000.0, 1000.0]
        .map(|ms| (1, false, took(ms)))
        .to_vec();
    loads.extend([4000.0, 4100.0, 3900.0, 4000.0].map(|ms| (2, true, took(ms))));
    let o = outcome("page:iterations=2", &loads);
    assert!(o.says.contains("4 times as long"), "{}", o.says);
    assert_eq!(o.advice.len(), 1);
}

/// One load over TCP and one over QUIC for each of these, as numbers of one iteration; the first half is idle.
fn pairs(loads: &[(PageEnd, PageEnd)]) -> Outcome {
    let mut r = recording("page:http=both,iterations=2", &[]);
    for (i, (tcp, quic)) in loads.iter().enumerate() {
        let beside = i >= loads.len() / 2;
        for (over, end) in [(HttpOver::Tcp, tcp), (HttpOver::Quic, quic)] {
            let note = PageNote::Load(PageLoad {
                iteration: 1 + u32::from(beside),
                number: i as u32,
                loaded: beside,
                over,
                began_ns: 0,
                ended_ns: 1,
                end: end.clone(),
            });
            r.event.push(note.event(0, URL));
        }
    }
    analyse(&r).expect("it is of a probe").outcome
}

fn came(load_ms: f64, protocol: &str, alt_svc: &str) -> PageEnd {
    PageEnd::Loaded(Box::new(Loaded {
        load_ms,
        main_protocol: protocol.into(),
        by_protocol: [(protocol.to_owned(), 1)].into(),
        alt_svc: alt_svc.into(),
        ..Loaded::default()
    }))
}

#[test]
fn both_transports_are_compared_pair_by_pair() {
    // The link changes by a factor of nine, and the ratio stays.
    let idle = [100.0, 900.0, 300.0, 500.0].map(|t| (t, 0.8 * t));
    let loaded = [1000.0, 4000.0, 2000.0, 3000.0].map(|t| (t, 2.0 * t));
    let loads: Vec<_> = idle
        .into_iter()
        .chain(loaded)
        .map(|(t, q)| (came(t, "h2", ""), came(q, "h3", "")))
        .collect();
    let o = pairs(&loads);
    for (key, value) in [("quic_by_tcp_idle", 0.8), ("quic_by_tcp_loaded", 2.0)] {
        let figure = o.figure(key).value().expect("a ratio");
        assert!((figure - value).abs() < 1e-6, "{key}: {figure}");
    }
    assert_eq!(o.figure("tcp_idle_ms").value(), Some(450.0));
    assert_eq!(o.figure("quic_loaded_ms").value(), Some(5000.0));
    assert!(o.says.contains("QUIC is faster, 0.8 times"), "{}", o.says);
    assert!(o.says.contains("QUIC is slower, 2 times"), "{}", o.says);

    let even = [
        (100.0, 120.0),
        (120.0, 100.0),
        (110.0, 110.0),
        (100.0, 100.0),
    ];
    let loads = even.map(|(t, q)| (came(t, "h2", ""), came(q, "h3", "")));
    let o = pairs(&loads);
    assert!(o.says.contains("no difference beyond chance"), "{}", o.says);
}

#[test]
fn a_page_that_fails_over_one_transport_alone_has_its_verdict() {
    let gone = PageEnd::Failed {
        why: "net::ERR_QUIC_PROTOCOL_ERROR".into(),
    };
    let told = |alt_svc: &str| {
        pairs(&[
            (came(100.0, "h2", alt_svc), gone.clone()),
            (came(200.0, "h2", alt_svc), gone.clone()),
        ])
    };
    let announced = told("h3=\":443\"; ma=3600");
    for part in [
        "HTTP/3 fails and h2 works",
        "ERR_QUIC_PROTOCOL_ERROR",
        "UDP is filtered on the path",
    ] {
        assert!(announced.says.contains(part), "{}", announced.says);
    }
    assert_eq!(announced.figure("quic_failed").value(), Some(2.0));
    assert!(announced.figure("quic_by_tcp_idle").value().is_none());
    let silent = told("");
    assert!(
        silent.says.contains("does not announce HTTP/3"),
        "{}",
        silent.says
    );
    let o = pairs(&[
        (gone.clone(), came(100.0, "h3", "")),
        (gone.clone(), came(100.0, "h3", "")),
    ]);
    assert!(
        o.says.contains("HTTP/3 works and HTTP over TCP fails"),
        "{}",
        o.says
    );
    let o = pairs(&[(gone.clone(), gone.clone()), (gone.clone(), gone)]);
    assert!(o.says.starts_with("Cannot tell"), "{}", o.says);
}

/// Ten pages whose loads take 100 to 1000 ms, and k times as long under load; one more never loads.
#[test]
fn many_pages_are_told_of_as_a_set() {
    for k in [1.0, 3.0] {
        let mut r = recording("page:url=http://0.example/", &[]);
        for page in 0..11u32 {
            for number in 0..4i64 {
                let t = i64::from(page) * 100 + number;
                let ms = f64::from(page + 1) * 100.0 * (1.0 + 0.001 * number as f64);
                let loaded = number >= 2;
                let note = PageNote::Load(PageLoad {
                    iteration: 1 + u32::from(loaded),
                    number: number as u32,
                    loaded,
                    over: HttpOver::Any,
                    began_ns: t,
                    ended_ns: t + 1,
                    end: match page {
                        10 => PageEnd::TimedOut,
                        _ => took(if loaded { ms * k } else { ms }),
                    },
                });
                r.event
                    .push(note.event(t, &format!("http://{page}.example/")));
            }
        }
        let o = analyse(&r).expect("it is of a probe").outcome;
        let times = o.figure("pages_ratio").value().expect("ten pages");
        assert!((times - k).abs() < 0.01 * k, "{times}");
        let middle = o.figure("pages_idle_ms").value().expect("ten pages");
        assert!((500.0..=605.0).contains(&middle), "{middle}");
        assert!(o.says.starts_with("Of 11 pages 10 loaded"), "{}", o.says);
        assert!(
            o.says.contains("no load of http://10.example/"),
            "{}",
            o.says
        );
        assert!(!o.says.contains("http://3.example/"), "{}", o.says);
    }
}
