//! Load, its server and the traffic beside it on an emulated link, with the kernel's own TCP. Needs root
//! or user namespaces; a skip says why, and TAILBACK_REQUIRE_NETNS=1 turns a skip into a failure.

use base::record::{Delay, Direction, Event, Flow, Row, Status, Traffic};
use base::{BitsPerSec, Duration};
use link::LinkSpec;
use live::clock::Clock;
use live::emulate::{Emulation, FAR_V4, NEAR_V4};
use live::load::{Access, ForeignPlan, ForeignProbe, Load, LoadOutcome, LoadPlan, Peer};
use live::serve::{ServeConfig, Server};
use live::tally::Tally;
use live::traffic::TrafficMonitor;
use std::net::UdpSocket;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

/// 430 ms of drop-tail queue at 0.7 Mbit/s up (Borlaug 2014, section 6.1.3), and a downlink that is out of the way.
const SLOW_UP: &str = r#"
name = "slow-up"
title = "a slow uplink with a large buffer"
[up]
rate = "700 kbit/s"
delay = "9 ms"
queue = "fifo:bytes=37625"
[down]
rate = "8 Mbit/s"
delay = "9 ms"
queue = "fifo:bytes=100kB"
"#;

fn start(toml: &str) -> Option<Emulation> {
    let spec = LinkSpec::parse(toml).expect("a link");
    testkit::line::start(&[spec])
}

fn serve(emulation: &Emulation) -> (Server, Peer) {
    let server = emulation
        .far()
        .run(|| Server::start(ServeConfig::default()))
        .expect("enters")
        .expect("a namespace of its own has free ports");
    let peer = Peer {
        server: (FAR_V4, server.local_addr().port()).into(),
        access: Access::default(),
        patience: Duration::from_secs(10),
    };
    (server, peer)
}

fn plan(peer: &Peer, direction: Direction) -> LoadPlan {
    LoadPlan {
        peer: peer.clone(),
        direction,
        flows: 1,
        first_flow: 0,
        congestion: None,
        duration: Duration::from_secs(20),
        sample: Duration::from_millis(50),
        udp_rate: None,
        tally: Tally::default(),
    }
}

#[derive(Default)]
struct Taken {
    flows: Vec<Flow>,
    delays: Vec<Delay>,
    traffic: Vec<Traffic>,
    events: Vec<Event>,
}

/// Runs `measure` in the near namespace and sorts what it wrote.
fn near(emulation: &Emulation, measure: impl FnOnce(Clock, Sender<Row>) + Send) -> Taken {
    let (rows, taken) = channel();
    emulation
        .near()
        .run(|| measure(Clock::start(), rows))
        .expect("enters");
    let mut t = Taken::default();
    for row in taken {
        match row {
            Row::Flow(r) => t.flows.push(r),
            Row::Delay(r) => t.delays.push(r),
            Row::Traffic(r) => t.traffic.push(r),
            Row::Event(r) => t.events.push(r),
            other => panic!("nobody writes {other:?}"),
        }
    }
    t
}

fn sleep(ms: u64) {
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

/// Payload rate over all samples. A lost packet holds back what came after it until it is sent again,
/// so that shorter windows jump about.
fn mean_bps(samples: &[(i64, i64)]) -> f64 {
    let (from, to) = (samples[0], samples[samples.len() - 1]);
    (to.1 - from.1) as f64 * 8e9 / (to.0 - from.0) as f64
}

#[test]
fn an_upload_fills_the_uplink_and_lets_go_of_it_at_once() {
    testkit::real_time(|| {
        let Some(emulation) = start(SLOW_UP) else {
            return;
        };
        let (server, peer) = serve(&emulation);
        let mut outcome: Option<LoadOutcome> = None;
        let mut stopped_in = std::time::Duration::MAX;
        let taken = near(&emulation, |clock, rows| {
            let tenth = Duration::from_millis(100);
            let monitor = TrafficMonitor::start(None, peer.server, tenth, clock, rows.clone())
                .expect("a route");
            let foreign = ForeignPlan {
                peer: peer.clone(),
                interval: Duration::from_millis(250),
                at_once: 8,
                tally: Tally::default(),
            };
            let foreign = ForeignProbe::start(foreign, clock, rows.clone()).expect("a thread");
            let load =
                Load::start(plan(&peer, Direction::Up), clock, rows).expect("the server is there");
            sleep(6_000);
            let began = Instant::now();
            let stopped = load.stop();
            stopped_in = began.elapsed();
            foreign.stop();
            monitor.stop();
            outcome = Some(stopped.collect(Duration::from_secs(5)));
        });
        let outcome = outcome.expect("it ran");
        assert!(stopped_in.as_millis() < 1000, "{stopped_in:?}");
        assert!(outcome.report_error.is_none(), "{:?}", outcome.report_error);
        assert!(
            outcome.placed_within < Duration::from_millis(30),
            "{}",
            outcome.placed_within
        );

        // Payload is 1448 of 1500 bytes a packet; probes and acknowledgements take a little more.
        let truth = 700_000.0 * 1448.0 / 1500.0;
        let acked: Vec<_> = taken
            .flows
            .iter()
            .filter_map(|r| Some((r.t_ns, r.bytes_acked?)))
            .collect();
        let received: Vec<_> = taken
            .flows
            .iter()
            .filter_map(|r| Some((r.t_ns, r.bytes_received?)))
            .collect();
        for (what, samples) in [("acknowledged", &acked), ("received", &received)] {
            let rate = mean_bps(samples);
            assert!(
                (0.75 * truth..1.02 * truth).contains(&rate),
                "{what}: {rate:.0} of {truth:.0} bit/s"
            );
        }
        let first = &taken.flows[0];
        assert!(first.bytes_acked.is_some_and(|b| b < 3_000), "{first:?}");
        // In the flow's own round-trip time the queue shows: 430 ms, full; a sawtooth of CUBIC below.
        let srtt = taken
            .flows
            .iter()
            .filter_map(|r| r.srtt_ns)
            .max()
            .expect("samples");
        assert!((300_000_000..700_000_000).contains(&srtt), "{srtt}");

        let link: Vec<_> = taken
            .traffic
            .iter()
            .map(|r| r.tx_bytes.expect("no reset"))
            .collect();
        let sent = link.iter().sum::<i64>();
        let acked_last = acked.last().expect("samples").1;
        assert!(
            (acked_last..acked_last * 5 / 4 + 100_000).contains(&sent),
            "{sent} passed, {acked_last} acknowledged"
        );

        let late: Vec<_> = taken
            .delays
            .iter()
            .filter(|d| &*d.target == "tcp-connect" && d.status == Status::Ok)
            .filter_map(|d| d.rtt_ns)
            .collect();
        assert!(late.len() >= 8, "{} connections", late.len());
        let most = *late.iter().max().expect("some");
        assert!((250_000_000..4_000_000_000).contains(&most), "{most}");
        assert!(
            late.iter().all(|ns| *ns >= 18_000_000),
            "less than the path takes"
        );
        assert!(
            taken
                .delays
                .iter()
                .any(|d| &*d.target == "tcp-request" && d.status == Status::Ok)
        );
        server.stop();
        emulation.stop().expect("stops");
    });
}

#[test]
fn a_download_is_seen_by_its_sender_on_our_clock() {
    testkit::real_time(|| {
        let Some(emulation) = start(SLOW_UP) else {
            return;
        };
        let (server, peer) = serve(&emulation);
        let mut outcome: Option<LoadOutcome> = None;
        let taken = near(&emulation, |clock, rows| {
            let load = Load::start(plan(&peer, Direction::Down), clock, rows)
                .expect("the server is there");
            sleep(3_000);
            let rate = load.progress().rate;
            assert!(rate.is_none(), "one reading is no rate: {rate:?}");
            sleep(500);
            let rate = load.progress().rate.expect("two readings").get() as f64;
            assert!((5e6..9e6).contains(&rate), "{rate}");
            outcome = Some(load.stop().collect(Duration::from_secs(5)));
        });
        let outcome = outcome.expect("it ran");
        assert!(outcome.report_error.is_none(), "{:?}", outcome.report_error);
        let truth = 8e6 * 1448.0 / 1500.0;
        let received: Vec<_> = taken
            .flows
            .iter()
            .filter_map(|r| Some((r.t_ns, r.bytes_received?)))
            .collect();
        let rate = mean_bps(&received);
        assert!(
            (0.75 * truth..1.02 * truth).contains(&rate),
            "{rate:.0} of {truth:.0}"
        );
        // What a sender had had acknowledged at a moment, its receiver must have received by then: so the two
        // series check each other's clocks.
        let acked: Vec<_> = taken
            .flows
            .iter()
            .filter_map(|r| Some((r.t_ns, r.bytes_acked?)))
            .collect();
        assert!(acked.len() > 50, "{}", acked.len());
        let slack = outcome.placed_within.as_nanos() as i64 + 5_000_000;
        for (t, bytes) in &acked {
            let after = received.iter().find(|(ours, _)| *ours >= t + slack);
            if let Some((_, have)) = after {
                assert!(
                    bytes <= have,
                    "at {t}: {bytes} acknowledged, {have} received"
                );
            }
            // And it acknowledges within the time that the queue and the path take, but for a hole.
            let before = received
                .iter()
                .rev()
                .find(|(ours, _)| ours + 400_000_000 < *t);
            if let Some((_, had)) = before {
                assert!(
                    *bytes + 200_000 >= *had,
                    "at {t}: {bytes} acknowledged, {had} received long ago"
                );
            }
        }
        server.stop();
        emulation.stop().expect("stops");
    });
}

#[test]
fn others_on_the_link_are_noticed_in_the_namespace() {
    testkit::real_time(|| {
        let Some(emulation) = start(SLOW_UP) else {
            return;
        };
        near(&emulation, |clock, rows| {
            let tenth = Duration::from_millis(100);
            let far = (FAR_V4, 9).into();
            let monitor = TrafficMonitor::start(None, far, tenth, clock, rows).expect("a route");
            assert_ne!(monitor.interface(), "lo");
            sleep(350);
            let quiet = monitor
                .idle_rate(Duration::from_millis(200))
                .expect("watched for long enough");
            assert!(!quiet.others_use_the_link(), "{quiet:?}");
            let other = UdpSocket::bind((NEAR_V4, 0)).expect("binds");
            for _ in 0..20 {
                other.send_to(&[0; 1000], far).expect("sends");
                sleep(20);
            }
            let busy = monitor
                .idle_rate(Duration::from_millis(300))
                .expect("watched");
            assert!(
                busy.up > BitsPerSec::from_kbps(100) && busy.others_use_the_link(),
                "{busy:?}"
            );
            monitor.stop();
        });
        emulation.stop().expect("stops");
    });
}
