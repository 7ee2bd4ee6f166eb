//! The page as text; `web/test` opens it in a browser.

mod sample;

use analysis::answer::Answer;
use base::record::{Meta, Recording, Status};
use report::html::page;
use report::plots::{self, Material, Scope};
use stats::Figure;

/// What stands between the tags of the script element with this id.
fn embedded<'a>(page: &'a str, id: &str) -> &'a str {
    let open = format!("<script type=\"application/json\" id=\"{id}\">");
    page.split_once(&open)
        .and_then(|(_, rest)| rest.split_once("</script>"))
        .expect("the element is there")
        .0
}

/// Ways in which a page could load or ask for something.
const WAYS_OUT: [&str; 14] = [
    "connect-src",
    "src=",
    "@import",
    "url(",
    "<link",
    "<iframe",
    "srcset",
    "fetch(",
    "XMLHttpRequest",
    "WebSocket",
    "WebTransport",
    "EventSource",
    "sendBeacon",
    "import(",
];

/// A page of ten probes that is not of a test.
fn weeks() -> Material {
    let scope = Scope {
        from_ns: 0,
        to_ns: 10_000_000_000,
        zone: jiff::tz::TimeZone::UTC,
    };
    let mut weeks = Material::new(scope, "Ten seconds");
    (0..10).for_each(|i| weeks.probe(i * 1_000_000_000, Some(20_000_000), Status::Ok));
    weeks
}

#[test]
fn nothing_in_a_page_of_a_file_points_to_another_place() {
    let (answer, recording) = sample::bloated_adsl();
    let capture = report::packets::page(&report::packets::Page {
        meta: Meta::default(),
        title: "home.pcap".into(),
        key: Vec::new(),
        notes: Vec::new(),
        findings: Vec::new(),
        tables: Vec::new(),
        ways: Vec::new(),
        json: "{}".into(),
    });
    for page in [
        page(&answer, &recording),
        plots::page(&[weeks()], None),
        capture,
    ] {
        for address in page
            .split("http")
            .skip(1)
            .filter(|a| a.starts_with("://") || a.starts_with("s://"))
        {
            assert!(
                address.starts_with("://www.w3.org/2000/svg"),
                "an address: http{}",
                address.chars().take(60).collect::<String>()
            );
        }
        for way_out in WAYS_OUT {
            assert!(!page.contains(way_out), "{way_out}");
        }
        assert!(page.contains("default-src 'none'"));
    }
}

#[test]
fn only_the_page_of_a_running_monitor_asks_for_news() {
    for page in [plots::live_page(&[weeks()], None), plots::empty_live_page()] {
        let found: Vec<&str> = WAYS_OUT.into_iter().filter(|w| page.contains(w)).collect();
        assert_eq!(found, ["connect-src", "fetch("]);
        assert!(page.contains("default-src 'none'; connect-src 'self'"));
    }
}

#[test]
fn a_title_stays_text_in_html_and_in_json() {
    let (answer, recording) = sample::partial();
    let page = page(&answer, &recording);
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("Cable &lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;friends&quot;"));
    let json = embedded(&page, "answer");
    assert_eq!(
        json.replace("\\u003c", "<"),
        serde_json::to_string(&answer).expect("an answer is plain data")
    );
    let back: Answer = serde_json::from_str(json).expect("it parses");
    assert_eq!(back.title, answer.title);
}

#[test]
fn every_reason_for_not_telling_is_in_the_page_and_no_figure_is_made_up() {
    let (mut answer, recording) = sample::partial();
    answer.phases[1].rtt.p99_ms = Figure::cannot_tell("too few probes for a 99th percentile");
    let page = page(&answer, &recording);
    for reason in [
        "the server stopped answering 6 s into the download",
        "too few probes for a 99th percentile",
        "15 s are too short to see the clocks drift apart",
    ] {
        assert!(page.contains(reason), "{reason}");
    }
    assert!(page.contains("The run did not go to its planned end"));
    assert!(!page.contains("NaN"));
}

#[test]
fn a_minute_fits_into_half_a_megabyte_and_a_million_probes_into_one() {
    let (answer, recording) = sample::bloated_adsl();
    assert_eq!(recording.delay.len(), 6_000);
    let minute = page(&answer, &recording).len();
    assert!(minute < 500_000, "{minute}");
    let (answer, mut recording) = sample::bloated_adsl_at(1_000.0, 1_000.0);
    assert_eq!(recording.delay.len(), 1_000_000);
    recording.delay[400_000].rtt_ns = Some(1_234_567_000);
    recording.delay[400_000].status = base::record::Status::Ok;
    let page = page(&answer, &recording);
    assert!(page.len() < 1_000_000, "{}", page.len());
    assert!(page.contains(
        "1000000 probes are drawn as the smallest and the largest of each of 6000 steps of time."
    ));
    let curves: serde_json::Value =
        serde_json::from_str(embedded(&page, "curves")).expect("it parses");
    let drawn = curves["probes"]["ms"].as_array().expect("a list");
    assert!(drawn.len() <= 12_000);
    assert!(
        drawn.iter().any(|v| v.as_f64() == Some(1234.567)),
        "the peak was lost"
    );
}

#[test]
fn a_healthy_line_is_praised_and_gets_no_advice() {
    let (answer, recording) = sample::healthy_fiber();
    let page = page(&answer, &recording);
    assert!(
        page.contains("This line stays quick under load")
            && page.contains("aria-label=\"Grade A+\"")
    );
    assert!(!page.contains("What to set"));
}

#[test]
fn an_answer_without_a_recording_still_makes_a_page() {
    let (answer, _) = sample::bloated_adsl();
    let page = page(&answer, &Recording::default());
    assert!(page.contains("430 ms") && page.contains("This recording holds no probes to draw."));
    assert!(!page.contains("NaN"));
}
