//! A whole test in virtual time: the page's part is played here, the far end by the reflector of the server.

use base::{Duration, Time};
use browser::probes::{Open, Probes};
use browser::test::{Setup, Test};
use measure::reflector::{Arrival, Budget, Reflector};
use measure::web::{FromPage, Sampled, ToPage};
use serde_json::Value;
use std::collections::BTreeMap;

const ORIGIN_NS: i64 = 1_790_000_000_000_000_000;
/// The far clock is ahead by this much.
const AHEAD_NS: i64 = 3_000_000_000;
const DELAY: Duration = Duration::from_millis(10);
/// Wait in the full queue, each way.
const QUEUE: Duration = Duration::from_millis(100);
const DOWN_BYTES_PER_MS: u64 = 1000;
const UP_BYTES_PER_MS: u64 = 250;

/// The scripts, played here: carries orders out, and carries messages with the delay of a link.
struct Page {
    probes: Probes,
    test: Test,
    reflector: Reflector,
    /// Messages on their way, by the time of their arrival: to the page, or to the server.
    flying: BTreeMap<(Time, usize), (bool, Vec<u8>)>,
    number: usize,
    /// Bytes of the running flows, by number; true for downloads.
    flows: BTreeMap<i64, (bool, u64)>,
    loads: BTreeMap<u64, Vec<i64>>,
}

fn arrival(now: Time) -> Arrival {
    Arrival {
        from: "192.0.2.1:5000".parse().expect("an address"),
        local: None,
        rx_ns: ORIGIN_NS + AHEAD_NS + now.as_nanos() as i64,
        kernel: false,
        tos: None,
    }
}

impl Page {
    fn new() -> Page {
        let open = Open {
            nonce: 7,
            origin_ns: ORIGIN_NS,
            target: "webtransport".into(),
            interval_ms: 100.0,
        };
        let setup = Setup {
            origin_ns: ORIGIN_NS,
            target: "webtransport".into(),
            title: "virtual".into(),
            browser: "none".into(),
            server: "far".into(),
        };
        Page {
            probes: Probes::new(Time::ZERO, open),
            test: Test::new(Time::ZERO, setup),
            reflector: Reflector::new(Budget::default(), None, [7; 32], b"boot", 0),
            flying: BTreeMap::new(),
            number: 0,
            flows: BTreeMap::new(),
            loads: BTreeMap::new(),
        }
    }

    fn is_loaded(&self, down: bool) -> bool {
        self.flows.values().any(|(d, _)| *d == down)
    }

    fn fly(&mut self, now: Time, to_page: bool, message: Vec<u8>) {
        let queue = if self.is_loaded(to_page) {
            QUEUE
        } else {
            Duration::ZERO
        };
        self.number += 1;
        self.flying
            .insert((now + DELAY + queue, self.number), (to_page, message));
    }

    fn carry(&mut self, now: Time) {
        while let Some(message) = self.probes.wake(now) {
            self.probes.sent(now, now);
            self.fly(now, false, message);
        }
        while self
            .flying
            .first_key_value()
            .is_some_and(|((at, _), _)| *at <= now)
        {
            let Some((_, (to_page, message))) = self.flying.pop_first() else {
                return;
            };
            if to_page {
                self.probes.heard(now, &message);
                continue;
            }
            let Some(FromPage::Probe(probe)) = FromPage::decode(&message) else {
                continue;
            };
            self.reflector.handle_datagram(now, arrival(now), probe);
            let mut out = [0; measure::wire::MAX_LEN];
            while let Some(o) = self.reflector.poll_transmit(arrival(now).rx_ns, &mut out) {
                self.fly(now, true, ToPage::Probe(&out[..o.len]).encode());
            }
        }
    }

    fn load(&mut self, now: Time) {
        for (flow, (down, bytes)) in self.flows.clone() {
            if down {
                self.test.received(now, flow, bytes);
            } else {
                let sampled = Sampled {
                    flow: flow as u32,
                    at_ns: arrival(now).rx_ns,
                    bytes,
                    ended: false,
                };
                self.probes.heard(now, &ToPage::Sampled(sampled).encode());
            }
        }
        let rows = self.probes.rows();
        self.test.rows(now, &rows).expect("rows of ours");
    }

    fn obey(&mut self, now: Time, order: &Value) {
        if let Some(ms) = order["probe"].as_f64() {
            self.probes.set_interval(ms);
        }
        if let Some(load) = order["load"].as_object() {
            let first = load["first_flow"].as_i64().expect("a number");
            let flows: Vec<i64> =
                (first..first + load["flows"].as_i64().expect("a number")).collect();
            let down = load["down"] == true;
            self.flows.extend(flows.iter().map(|f| (*f, (down, 0))));
            self.loads
                .insert(load["number"].as_u64().expect("a number"), flows);
        }
        if let Some(number) = order.get("stop") {
            let its = |n: &u64| number.is_null() || number.as_u64() == Some(*n);
            for (_, flows) in self.loads.extract_if(.., |n, _| its(n)) {
                for flow in flows {
                    self.flows.remove(&flow);
                    self.test.ended(now, flow, "");
                }
            }
        }
    }
}

fn value(figure: &Value) -> f64 {
    figure["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("{figure}"))
}

#[test]
fn a_page_that_obeys_gets_the_answer_of_its_link() {
    let mut page = Page::new();
    let mut step = Time::ZERO;
    let mut over = None;
    for ms in 0..180_000u64 {
        let now = Time::from_millis(ms);
        page.carry(now);
        for (down, bytes) in page.flows.values_mut() {
            *bytes += if *down {
                DOWN_BYTES_PER_MS
            } else {
                UP_BYTES_PER_MS
            };
        }
        if ms % 50 == 0 {
            page.load(now);
        }
        if now >= step && page.probes.is_open() == Ok(true) {
            let orders = serde_json::to_value(page.test.step(now)).expect("plain data");
            for order in orders["orders"].as_array().expect("orders") {
                page.obey(now, order);
            }
            if orders["done"] == true {
                over = Some(ms);
                break;
            }
            step = now + Duration::from_millis(orders["wait_ms"].as_f64().unwrap_or(0.0) as u64);
        }
    }
    let over = over.expect("the test ends");
    assert!((20_000..120_000).contains(&over), "{over} ms");
    let now = Time::from_millis(over);
    page.probes.close();
    page.load(now);
    let html = page.test.report(now, true).expect("a test");
    let json = html.split_once("id=\"answer\">").expect("the answer").1;
    let json = json.split_once("</script>").expect("its end").0;
    let answer: Value = serde_json::from_str(json).expect("it is JSON");
    let phases = answer["phases"].as_array().expect("phases");
    let p50 = |name: &str| {
        let phase = phases.iter().find(|p| p["name"] == name);
        value(&phase.expect(name)["rtt"]["p50_ms"])
    };
    // The page of this test looks each millisecond.
    for (name, ms) in [
        ("idle", 20.0),
        ("down", 120.0),
        ("up", 120.0),
        ("both", 220.0),
    ] {
        assert!(
            (p50(name) - ms).abs() <= 2.0,
            "{name}: {} and not {ms}",
            p50(name)
        );
    }
    for (direction, bytes) in [("down", DOWN_BYTES_PER_MS), ("up", UP_BYTES_PER_MS)] {
        let bps = value(&answer[direction]["goodput_bps"]);
        // Each flow has its own rate here, and there are two or four.
        let of = |flows: f64| (bps / (bytes as f64 * 8e3 * flows) - 1.0).abs() < 0.02;
        assert!(of(2.0) || of(4.0), "{direction}: {bps}");
        let added = value(&answer[direction]["added"]["p50_ms"]);
        assert!((added - 100.0).abs() < 3.0, "{direction}: {added}");
    }
    assert_eq!(answer["grade"]["letter"], "C");
    // The saved recording is the same: facts, then rows.
    let saved = page.test.saved();
    let rows: Vec<&str> = saved.lines().skip(1).collect();
    assert!(rows.len() > 1000, "{}", rows.len());
    rows.iter()
        .for_each(|l| drop(base::record::lines::read(l).expect(l)));
}

#[test]
fn a_test_that_a_user_stops_says_so_and_a_server_that_is_silent_ends_it() {
    let mut page = Page::new();
    for ms in 0..3000u64 {
        let now = Time::from_millis(ms);
        page.carry(now);
        if ms % 50 == 0 {
            page.load(now);
        }
        if ms % 200 == 0 && page.probes.is_open() == Ok(true) {
            page.test.step(now);
        }
    }
    page.test.stop("enough");
    let now = Time::from_millis(3000);
    let mut orders = serde_json::to_value(page.test.step(now)).expect("plain data");
    for _ in 0..20 {
        if orders["done"] == true {
            break;
        }
        orders = serde_json::to_value(page.test.step(now)).expect("plain data");
    }
    assert_eq!(orders["done"], true, "{orders}");
    let html = page.test.report(now, false).expect("an idle phase");
    assert!(html.contains("Doubts about this run"));
    let mut probes = Page::new().probes;
    for ms in 0..11_000 {
        while probes.wake(Time::from_millis(ms)).is_some() {}
    }
    assert!(probes.is_open().is_err_and(|why| why.contains("Silent")));
}
