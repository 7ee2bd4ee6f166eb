//! Recordings with a date, with an interface's counters, and with what a measuring host does wrong; and the two homes of
//! Borlaug 2014 that are made of these.

use base::record::{Delay, Row, Status, Traffic};
use sim::{Draft, Scenario, run};

const SITES: [&str; 2] = [
    include_str!("../../../scenarios/borlaug-2014/sites/rindadalsvegen.toml"),
    include_str!("../../../scenarios/borlaug-2014/sites/tistelvegen.toml"),
];
/// 4 May 2014, 23:59:50 UTC.
const BEGAN_NS: i64 = 1_399_247_990_000_000_000;
const HOME: &str = r#"
duration = "60 s"
began = "2014-05-04T23:59:50Z"
topology = "linear:hops=1"
[sample]
traffic = "1 s"
[link]
rate = "700 kbit/s"
delay = "9 ms"
[reverse]
rate = "8 Mbit/s"
delay = "9 ms"
[[flow]]
kind = "probe"
size = "100 B"
name = "udp"
gap = "100 ms"
[[flow]]
kind = "bulk"
size = "100 kB"
start = "30 s"
"#;

fn scenario(text: &str) -> Scenario {
    Draft::new(text).and_then(|d| d.finish()).unwrap()
}

fn recorded(text: &str) -> (Vec<Delay>, Vec<Traffic>) {
    let (mut delay, mut traffic) = (Vec::new(), Vec::new());
    let mut take = |row| match row {
        Row::Delay(d) => delay.push(d),
        Row::Traffic(t) => traffic.push(t),
        _ => {}
    };
    run(&scenario(text), 1, Some(&mut take), &mut |_| true).unwrap();
    (delay, traffic)
}

#[test]
fn a_recording_is_dated_as_the_scenario_says() {
    let (delay, traffic) = recorded(HOME);
    assert_eq!(delay[0].sent_ns, BEGAN_NS);
    assert_eq!(traffic[0].t_ns, BEGAN_NS + 1_000_000_000);
}

#[test]
fn an_interface_counts_what_was_handed_to_the_link_and_what_came_back() {
    let (delay, traffic) = recorded(HOME);
    assert_eq!(traffic.len(), 60);
    // Ten probes of 100 bytes a second, there and back.
    let idle = &traffic[10];
    assert_eq!((idle.tx_bytes, idle.rx_bytes), (Some(1000), Some(1000)));
    let sent: i64 = traffic.iter().filter_map(|t| t.tx_bytes).sum();
    let probes = delay.len() as i64 * 100;
    // 100 kB in segments of 1448 bytes with 52 of headers, a SYN and the answer to the other end's FIN.
    let transfer = 100_000 + 72 * 52;
    assert!(
        (sent - probes - transfer).abs() < 200,
        "{sent}, {probes} of probes"
    );
}

#[test]
fn what_the_measuring_host_does_wrong_changes_rows_and_nothing_else() {
    let faults = r#"
[[fault]]
kind = "silent"
from = "10 s"
to = "15 s"
[[fault]]
kind = "stale"
by = "200 ms"
from = "20 s"
to = "25 s"
"#;
    let (right, _) = recorded(HOME);
    let (wrong, traffic) = recorded(&format!("{HOME}{faults}"));
    assert_eq!(wrong.len(), right.len() - 50);
    assert_eq!(traffic.len(), 55);
    let mut stale = 0;
    for w in &wrong {
        let r = right.iter().find(|r| r.seq == w.seq).unwrap();
        let late_ns = r.sent_ns - w.sent_ns;
        stale += i64::from(late_ns == 200_000_000);
        assert!(late_ns == 0 || late_ns == 200_000_000);
        assert_eq!(w.rtt_ns.unwrap() - r.rtt_ns.unwrap(), late_ns);
        assert_eq!(w.remote_rx_ns, r.remote_rx_ns);
    }
    assert_eq!(stale, 50);
}

#[test]
fn an_answer_after_ten_seconds_is_late() {
    let outage = HOME.replace(
        "rate = \"700 kbit/s\"",
        "rate = { steps = [{ at = \"0 s\", rate = \"700 kbit/s\" }, { at = \"5 s\", rate = \"0 bit/s\" }, { at = \"20 s\", rate = \"700 kbit/s\" }] }",
    );
    let (delay, _) = recorded(&outage);
    let held = delay
        .iter()
        .filter(|d| d.rtt_ns.is_some_and(|rtt| rtt > 10_000_000_000));
    assert!(held.clone().count() > 40);
    assert!(held.clone().all(|d| d.status == Status::Late));
    assert!(delay.iter().filter(|d| d.status == Status::Late).count() == held.count());
}

#[test]
fn a_fault_that_cannot_be_is_refused() {
    for (fault, told) in [
        (
            "kind = \"stale\"\nfrom = \"1 s\"\nto = \"2 s\"",
            "by = \"100 ms\"",
        ),
        (
            "kind = \"silent\"\nby = \"1 s\"\nfrom = \"1 s\"\nto = \"2 s\"",
            "has no meaning",
        ),
        (
            "kind = \"silent\"\nfrom = \"2 s\"\nto = \"2 s\"",
            "does not lie within",
        ),
        (
            "kind = \"silent\"\nfrom = \"2 s\"\nto = \"2 h\"",
            "does not lie within",
        ),
    ] {
        let draft = Draft::new(&format!("{HOME}[[fault]]\n{fault}\n")).unwrap();
        let why = draft.finish().unwrap_err().to_string();
        assert!(why.contains(told), "{why}");
    }
}

#[test]
fn the_homes_of_borlaug_2014_can_be_run() {
    for (site, probes_a_day) in SITES.into_iter().zip([771_986.0, 770_393.0]) {
        let mut whole = scenario(site);
        let days = whole.duration.as_secs_f64() / 86_400.0;
        whole.duration = base::Duration::from_secs(3600);
        whole.faults.clear();
        let mut probes = 0;
        let mut take = |row| probes += i32::from(matches!(row, Row::Delay(_)));
        whole.flows.retain(|f| f.start < whole.duration);
        run(&whole, whole.seed, Some(&mut take), &mut |_| true).unwrap();
        assert!(days > 15.0);
        // Tables 10 and 19.
        assert!(
            (f64::from(probes) * 24.0 / probes_a_day - 1.0).abs() < 0.002,
            "{probes}"
        );
    }
}
