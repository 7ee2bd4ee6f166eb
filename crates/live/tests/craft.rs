//! Crafted trains over an emulated line, with the kernel's own UDP and fragments. Needs root or user namespaces; a
//! skip says why, and TAILBACK_REQUIRE_NETNS=1 turns a skip into a failure.

use base::program::{Program, Sending, Train};
use base::record::{Direction, Recording, Row};
use base::{Bytes, Duration};
use link::LinkSpec;
use live::CraftError;
use live::clock::Clock;
use live::craft::{self, Plan, Progress, Watch};
use live::emulate::{Emulation, FAR_V4, FAR_V6};
use live::load::{Access, Peer};
use live::serve::{ServeConfig, Server};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::channel;

/// The queue of Gao 2012: 50 packets of any size and one in transmission.
const LINE: &str = r#"
name = "line"
title = "2 Mbit/s, 50 packets"
[up]
rate = "2 Mbit/s"
delay = "1 ms"
queue = "fifo:packets=50"
[down]
rate = "4 Mbit/s"
delay = "1 ms"
queue = "fifo:packets=20"
"#;

struct Calm;

impl Watch for Calm {
    fn progress(&mut self, _: &Progress) {}
    fn interrupted(&mut self) -> bool {
        false
    }
}

fn start() -> Option<Emulation> {
    let spec = LinkSpec::parse(LINE).expect("a link");
    testkit::line::start(&[spec])
}

fn serve(emulation: &Emulation) -> Server {
    emulation
        .far()
        .run(|| Server::start(ServeConfig::default()))
        .expect("enters")
        .expect("a namespace of its own has free ports")
}

fn plan(server: SocketAddr) -> Plan {
    Plan {
        peer: Peer {
            server,
            access: Access::default(),
            patience: Duration::from_secs(10),
        },
        first_train: 0,
        budget: Bytes::new(2_000_000),
        interface: None,
        waits: true,
        others: experiment::Others::Keep(Duration::ZERO),
    }
}

fn sending(direction: Direction, programs: &[&str]) -> Sending {
    Sending {
        stage: "t".into(),
        direction,
        programs: programs
            .iter()
            .map(|p| p.parse::<Program>().expect("a program"))
            .collect(),
        rest: Duration::from_millis(500),
    }
}

/// Sends each in turn; gives the trains, and the same as read back from the rows.
fn send(
    emulation: &Emulation,
    plan: &Plan,
    sendings: &[Sending],
) -> (Result<Vec<Train>, CraftError>, Vec<Train>) {
    let (rows, taken) = channel();
    let result = emulation
        .near()
        .run(|| {
            let mut left = sendings.iter().cloned();
            craft::run(plan, &mut |_| left.next(), Clock::start(), &rows, &mut Calm)
        })
        .expect("enters");
    drop(rows);
    let mut recording = Recording::default();
    taken.iter().for_each(|row: Row| recording.push(row));
    (result, Train::all_of(&recording))
}

fn first_lost(train: &Train) -> Option<usize> {
    train.fates.iter().position(|f| f.received_ns.is_none())
}

#[test]
fn a_burst_is_cut_where_the_queue_ends_whatever_its_size_and_direction() {
    testkit::real_time(|| {
        let Some(emulation) = start() else { return };
        let server = serve(&emulation);
        let plan = plan((FAR_V4, server.local_addr().port()).into());
        let up = Direction::Up;
        let sendings = [
            sending(up, &["60 x 50"]),
            sending(up, &["60 x 1452"]),
            sending(Direction::Down, &["30 x 500"]),
            sending(up, &["25 x 1000", "25 x 1000"]),
        ];
        let (trains, read_back) = send(&emulation, &plan, &sendings);
        let trains = trains.expect("it runs");
        assert_eq!(trains, read_back, "the recording holds all of it");
        // Of small ones some leave while the rest still comes.
        let small = first_lost(&trains[0]).expect("some are lost");
        assert!((51..=54).contains(&small), "{small}");
        assert_eq!(first_lost(&trains[1]), Some(51));
        let down = first_lost(&trains[2]).expect("some are lost");
        assert!((21..=22).contains(&down), "{down}");
        assert_eq!(trains.len(), 5, "two at once");
        assert_eq!(
            (first_lost(&trains[3]), first_lost(&trains[4])),
            (None, None)
        );
        // 1480 bytes at 2 Mbit/s take 5.92 ms: what comes out of a queue is spaced by the line.
        let gaps: Vec<i64> = trains[1].fates[..51]
            .windows(2)
            .map(|w| w[1].received_ns.unwrap() - w[0].received_ns.unwrap())
            .collect();
        let mean = gaps.iter().sum::<i64>() as f64 / gaps.len() as f64;
        assert!((5.8e6..6.05e6).contains(&mean), "{mean}");
        server.stop();
    });
}

#[test]
fn fragments_of_ipv6_are_counted_at_both_ends_and_what_must_stay_whole_is_refused() {
    testkit::real_time(|| {
        let Some(emulation) = start() else { return };
        let server = serve(&emulation);
        let plan = plan((FAR_V6, server.local_addr().port()).into());
        let up = Direction::Up;
        let sendings = [
            sending(up, &["40 x 1453"]),
            sending(up, &["5 x 1453 df"]),
            sending(up, &["5 x 1452 df dscp=46 ecn=1"]),
            sending(Direction::Down, &["5 x 2889"]),
        ];
        let (trains, _) = send(&emulation, &plan, &sendings);
        let trains = trains.expect("it runs");
        let cut = &trains[0];
        // 51 places for 80 fragments that come in pairs: 25 pairs and one first half at least.
        let arrived = cut.sent() - cut.lost();
        assert!((25..=27).contains(&arrived), "{arrived}");
        let sent = cut.facts.fragments_sent;
        let got = cut.facts.fragments_received;
        if let (Some(sent), Some(got)) = (sent, got) {
            assert_eq!((sent.whole, sent.first, sent.second), (0, 40, 40));
            assert!(got.second >= arrived && got.first >= got.second, "{got:?}");
            assert!((51..=54).contains(&(got.first + got.second)), "{got:?}");
            let down = trains[3].facts.fragments_received.expect("it may watch");
            assert_eq!((down.first, down.second, down.further), (5, 5, 5));
        }
        assert_eq!((trains[1].facts.refused, trains[1].sent()), (5, 0));
        assert_eq!((trains[2].facts.refused, trains[2].lost()), (0, 0));
        assert!(
            trains[2].fates.iter().all(|f| f.ecn == Some(1)),
            "ECN is seen"
        );
        server.stop();
    });
}

#[test]
fn what_exceeds_the_budget_is_not_sent_and_others_on_the_line_are_not_disturbed() {
    testkit::real_time(|| {
        let Some(emulation) = start() else { return };
        let server = serve(&emulation);
        let far: SocketAddr = (FAR_V4, server.local_addr().port()).into();
        let too_much = sending(Direction::Up, &["2000 x 1452@1 ms"]);
        let (result, trains) = send(&emulation, &plan(far), std::slice::from_ref(&too_much));
        let e = result.expect_err("2.96 MB of 2 MB").to_string();
        assert!(e.contains("--budget") && e.contains("2.96 MB"), "{e}");
        assert!(trains.is_empty());
        // 1 Mbit/s of somebody else's.
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                emulation.near().run(|| {
                    let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        let _ = socket.send_to(&[0; 1250], (FAR_V4, 9));
                        std::thread::sleep(std::time::Duration::from_millis(10));
                    }
                })
            });
            let (result, trains) = send(
                &emulation,
                &plan(far),
                &[sending(Direction::Up, &["5 x 50"])],
            );
            let e = result.expect_err("others use the link").to_string();
            assert!(e.contains("others use the link"), "{e}");
            assert!(trains.is_empty());
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        server.stop();
    });
}
