//! The kind `page` from loads that are made up: the document's own figures must come out of its own means.

use base::noted::Noted;
use base::noted::page::{Loaded, PageEnd, PageLoad, PageNote};
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
            began_ns: t,
            ended_ns: t + 1,
            end: end.clone(),
        });
        r.event.push(note.event(t, URL));
    }
    r
}

fn took(load_ms: f64) -> PageEnd {
    PageEnd::Loaded(Loaded {
        load_ms,
        ..Loaded::default()
    })
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
