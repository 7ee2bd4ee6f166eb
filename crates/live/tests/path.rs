//! The hops of an emulated chain of links with routers between them, by the kernel's own ICMP.

use base::record::{Event, Row, Status};
use base::{Bytes, Duration};
use experiment::{Bounds, ProbeSpec, Setting, Unwatched};
use link::LinkSpec;
use live::clock::Clock;
use live::emulate::{Emulation, FAR_V4, FAR_V6, Options, settings};
use live::load::{Access, Peer};
use live::sockets::{Setup, Sockets};
use std::net::IpAddr;
use std::sync::mpsc;

fn chain() -> Option<Emulation> {
    let text = "name = \"t\"\ntitle = \"t\"\n[up]\nrate = \"100 Mbit/s\"\ndelay = \"3 ms\"\n[down]\nrate = \"100 Mbit/s\"\n";
    let link = LinkSpec::parse(text).expect("a link");
    let options = Options {
        routed: true,
        ..Options::new(Clock::start())
    };
    testkit::line::start_with(&[link.clone(), link.clone(), link], options)
}

/// Without a load, so that the far end needs no server of ours.
fn trace(emulation: &Emulation, to: IpAddr, time: Duration) -> Vec<Row> {
    let probe: ProbeSpec = format!("path:load=none,idle={time},interval=500 ms")
        .parse()
        .expect("a kind");
    let budget = Bytes::new(1);
    let (rows, heard) = mpsc::channel();
    let peer = Peer {
        server: (to, 7117).into(),
        access: Access::default(),
        patience: Duration::from_secs(1),
    };
    let run = || {
        let mut steps = probe.steps(&Setting::of(budget)).expect("it is enough");
        let mut sockets = Sockets::new(Setup::new(peer, Clock::start(), rows));
        let bounds = Bounds::of(budget);
        experiment::run(&mut *steps, &bounds, &mut sockets, &mut Unwatched).map(drop)
    };
    emulation
        .near()
        .run(run)
        .expect("it enters")
        .expect("it runs");
    heard.iter().collect()
}

fn event<'a>(rows: &'a [Row], subject: &str) -> &'a Event {
    let found = rows.iter().find_map(|r| match r {
        Row::Event(e) if &*e.kind == "path" && &*e.subject == subject => Some(e),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no event about {subject}"))
}

/// Sent and answered.
fn counts(rows: &[Row], target: &str) -> (usize, usize) {
    let of_it = rows.iter().filter_map(|r| match r {
        Row::Delay(d) if &*d.target == target => Some(d.status),
        _ => None,
    });
    let all: Vec<Status> = of_it.collect();
    (all.len(), all.iter().filter(|s| **s == Status::Ok).count())
}

#[test]
fn every_hop_is_found_with_its_address_and_the_gateway_by_itself_over_both_families() {
    testkit::real_time(|| {
        let Some(emulation) = chain() else { return };
        for (to, router) in [
            (IpAddr::V4(FAR_V4), ["10.77.1.1", "10.77.2.1"]),
            (IpAddr::V6(FAR_V6), ["fd77:0:0:1::1", "fd77:0:0:2::1"]),
        ] {
            let rows = trace(&emulation, to, Duration::from_secs(5));
            let whole = [router[0], router[1], &to.to_string()].map(String::from);
            for (i, address) in whole.iter().enumerate() {
                let detail = &event(&rows, &format!("hop{}", i + 1)).detail;
                assert!(detail.contains(&format!("[\"{address}\"]")), "{detail}");
            }
            assert!(event(&rows, "hop3").detail.contains("\"server\""));
            assert!(event(&rows, "gateway").detail.contains(router[0]));
            let least = |target: &str| {
                let all = rows.iter().filter_map(|r| match r {
                    Row::Delay(d) if &*d.target == target => d.rtt_ns,
                    _ => None,
                });
                all.min()
                    .unwrap_or_else(|| panic!("{target} did not answer"))
            };
            // 3 ms a link, one way.
            for (hop, ms) in [
                ("hop1", 3),
                ("hop2", 6),
                ("hop3", 9),
                ("echo1", 3),
                ("echo2", 6),
                ("icmp", 9),
            ] {
                let rtt = least(hop);
                assert!(
                    (ms * 1_000_000..ms * 1_000_000 + 2_000_000).contains(&rtt),
                    "{hop}: {rtt} ns"
                );
            }
        }
        emulation.stop().expect("it stops");
    });
}

#[test]
fn a_router_that_limits_its_icmp_loses_nothing_of_what_passes_it() {
    testkit::real_time(|| {
        let Some(emulation) = chain() else { return };
        let second = emulation.routers().nth(1).expect("a second router");
        let limit = || std::fs::write("/proc/sys/net/ipv4/icmp_ratelimit", "4000");
        second
            .run(limit)
            .expect("it enters")
            .expect("it is ours to set");
        let rows = trace(&emulation, FAR_V4.into(), Duration::from_secs(8));
        let (sent, answered) = counts(&rows, "hop2");
        assert!(sent >= 8, "{sent} sent");
        // Six at once, and one in four seconds.
        assert!(
            (4..=10).contains(&answered) && answered < sent,
            "{answered} of {sent}"
        );
        // Echo is not limited.
        let (sent, answered) = counts(&rows, "echo2");
        assert!(answered + 1 >= sent && sent > 0, "{answered} of {sent}");
        emulation.stop().expect("it stops");
    });
}

#[test]
fn the_initial_window_of_connections_behind_a_gateway_is_as_set() {
    testkit::real_time(|| {
        let Some(emulation) = chain() else { return };
        let listener = emulation
            .far()
            .run(|| std::net::TcpListener::bind((FAR_V4, 0)));
        let listener = listener.expect("it enters").expect("it listens");
        let to = listener.local_addr().expect("an address");
        for window in [3u32, 30] {
            let windows = emulation.near().run(|| {
                settings::set_initial_window(FAR_V4.into(), window).expect("a route");
                settings::set_segmentation("link0", window == 3).expect("a feature");
                let stream = std::net::TcpStream::connect(to).expect("it connects");
                live::load::congestion_window(&stream).expect("TCP_INFO")
            });
            assert_eq!(windows.expect("it enters"), u64::from(window));
        }
        emulation.stop().expect("it stops");
    });
}
