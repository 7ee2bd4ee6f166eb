//! The prober and the reflector over the loopback interface.

use base::record::{Delay, Row, Status};
use base::{Bytes, Duration};
use live::clock::Clock;
use live::load::Access;
use live::probe::{ProbeError, ProbePlan, Prober};
use live::serve::udp::{self, ServeSummary};
use measure::keys::{Credential, KeyFile, Secret, Users};
use measure::reflector::Budget;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

struct Far {
    addr: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<ServeSummary>>,
}

impl Far {
    fn start(listen: &str, key: Option<&str>) -> Far {
        Far::with(listen, key, Budget::default())
    }

    fn with(listen: &str, key: Option<&str>, budget: Budget) -> Far {
        let socket = UdpSocket::bind(listen).unwrap();
        let addr = socket.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let clock = Clock::start();
        let users = key.map(|key| {
            let file = KeyFile::parse(&format!("anna {key}")).unwrap();
            Arc::new(Users::new(&file, [7; 48], None))
        });
        let reflector = udp::reflector(budget, users, clock).unwrap();
        let flag = stop.clone();
        let thread = std::thread::spawn(move || {
            udp::run(&socket, reflector, clock, &[], None, &flag).unwrap()
        });
        Far {
            addr,
            stop,
            thread: Some(thread),
        }
    }

    fn stop(&mut self) -> ServeSummary {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}

fn anna(passphrase: &str) -> Credential {
    Credential::new("anna", Secret::Passphrase(passphrase.into()))
}

fn with_key(key: Option<Credential>) -> Access {
    Access {
        key,
        ..Access::default()
    }
}

fn plan(server: SocketAddr) -> ProbePlan {
    ProbePlan {
        patience: Duration::from_millis(1_200),
        ..ProbePlan::new(server)
    }
}

fn delays(rows: &mpsc::Receiver<Row>) -> Vec<Delay> {
    let all = rows.try_iter().filter_map(|row| match row {
        Row::Delay(d) => Some(d),
        _ => None,
    });
    all.collect()
}

fn sleep_ms(ms: u64) {
    std::thread::sleep(std::time::Duration::from_millis(ms));
}

fn refused(plan: ProbePlan) -> ProbeError {
    let (rows, _inbox) = mpsc::channel();
    match Prober::start(plan, Clock::start(), rows) {
        Ok(_) => panic!("a session where there should be none"),
        Err(e) => e,
    }
}

/// Probes for half a second and checks everything that does not depend on how busy this machine is.
fn probe_and_check(server: SocketAddr, key: Option<&str>, tos: u8) -> Vec<Delay> {
    let clock = Clock::start();
    let began = clock.unix_ns();
    let (rows, inbox) = mpsc::channel();
    let plan = ProbePlan {
        access: with_key(key.map(anna)),
        tos,
        ..plan(server)
    };
    let prober = Prober::start(plan, clock, rows).unwrap();
    sleep_ms(500);
    prober.health().unwrap();
    let summary = prober.stop();
    let all: Vec<Row> = inbox.try_iter().collect();
    // Both ends are on this kernel, and found out.
    assert!(
        all.iter()
            .any(|r| matches!(r, Row::Event(e) if &*e.kind == "clock" && &*e.subject == "same"))
    );
    let delays: Vec<Delay> = all
        .into_iter()
        .filter_map(|r| if let Row::Delay(d) = r { Some(d) } else { None })
        .collect();
    let slots: Vec<i64> = delays
        .iter()
        .filter(|d| d.status != Status::Duplicate)
        .map(|d| d.seq)
        .collect();
    let mut sorted = slots.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        (0..slots.len() as i64).collect::<Vec<_>>(),
        "one row a slot"
    );
    assert_eq!(
        slots.len() as u64,
        summary.session.sent + summary.session.missed_slots
    );
    assert!(summary.session.received > 5, "{summary:?}");
    assert_eq!(
        summary.session.received, summary.session.sent,
        "{summary:?}"
    );
    for d in delays.iter().filter(|d| d.status == Status::Ok) {
        let rtt = d.rtt_ns.unwrap();
        assert!(
            rtt > 0 && d.sent_ns >= began && d.sent_ns <= clock.unix_ns(),
            "{d:?}"
        );
        assert!(d.remote_tx_ns.unwrap() >= d.remote_rx_ns.unwrap(), "{d:?}");
        assert!(d.host_ns.unwrap() > 0, "{d:?}");
        assert_eq!(
            (d.dscp, d.ecn),
            (Some(i64::from(tos >> 2)), Some(i64::from(tos & 3))),
            "{d:?}"
        );
    }
    let stamped = summary.session.received
        - summary
            .session
            .without_rx_stamp
            .min(summary.session.received);
    assert!(
        stamped * 10 >= summary.session.received * 9,
        "kernel receive times: {summary:?}"
    );
    assert!(
        summary.session.without_tx_stamp * 10 <= summary.session.sent,
        "kernel transmit times: {summary:?}"
    );
    delays
}

#[test]
fn probes_come_back_with_kernel_times_over_ipv4_and_ipv6() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let mut far = Far::start(listen, None);
        probe_and_check(far.addr, None, 0);
        let served = far.stop();
        assert!(
            served.reflector.without_tx_stamp * 10 <= served.reflector.answered,
            "{served:?}"
        );
        assert_eq!(served.reflector.opened, 1);
    }
}

#[test]
fn counters_of_the_interface_are_read_only_while_asked_for() {
    let mut far = Far::start("127.0.0.1:0", None);
    let (rows, inbox) = mpsc::channel();
    let plan = ProbePlan {
        interface: Some("lo".into()),
        ..plan(far.addr)
    };
    let prober = Prober::start(plan, Clock::start(), rows).unwrap();
    let next = || {
        let patience = std::time::Duration::from_secs(20);
        inbox.recv_timeout(patience).expect("rows go on")
    };
    let mut probes = 0;
    while probes < 20 {
        match next() {
            Row::Delay(_) => probes += 1,
            Row::Counter(c) => panic!("nobody asked for {c:?}"),
            _ => {}
        }
    }
    prober.count(true);
    let mut counted = Vec::new();
    while counted.len() < 20 {
        if let Row::Counter(c) = next() {
            counted.push(c);
        }
    }
    prober.stop();
    far.stop();
    assert!(counted.iter().all(|c| &*c.interface == "lo"));
    // Each probe passes the loopback interface on its way.
    assert!(counted.windows(2).all(|w| w[1].tx_bytes > w[0].tx_bytes));
    assert!(counted.windows(2).all(|w| w[1].t_ns > w[0].t_ns));
}

#[test]
fn a_server_on_all_addresses_answers_ipv4_clients_with_key_and_marks() {
    let far = Far::start("[::]:0", Some("open-sesame-open"));
    for address in ["127.0.0.1", "127.0.0.5", "::1"] {
        let server = SocketAddr::new(address.parse().unwrap(), far.addr.port());
        // DSCP EF, ECT(0).
        probe_and_check(server, Some("open-sesame-open"), 46 << 2 | 2);
    }
}

#[test]
fn a_wrong_key_is_called_a_wrong_key() {
    let far = Far::start("127.0.0.1:0", Some("the-right-words"));
    let wrong = |key: Option<&str>| {
        refused(ProbePlan {
            access: with_key(key.map(anna)),
            ..plan(far.addr)
        })
    };
    assert!(matches!(
        wrong(Some("the-wrong-words")),
        ProbeError::WrongKey { .. }
    ));
    assert!(matches!(wrong(None), ProbeError::KeyNeeded { .. }));
    let open = Far::start("127.0.0.1:0", None);
    let error = refused(ProbePlan {
        access: with_key(Some(anna("any at all, but long"))),
        ..plan(open.addr)
    });
    assert!(matches!(error, ProbeError::NoKeyThere { .. }), "{error}");
}

#[test]
fn a_closed_port_and_a_silent_one_are_told_apart() {
    let closed = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    assert!(matches!(
        refused(plan(closed)),
        ProbeError::PortClosed { .. }
    ));
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let error = refused(plan(mute.local_addr().unwrap()));
    assert!(
        matches!(error, ProbeError::Silent { sent: 2.., .. }),
        "{error}"
    );
}

#[test]
fn a_budget_that_does_not_allow_the_interval_is_named() {
    let budget = Budget {
        min_interval: Duration::from_millis(50),
        ..Budget::default()
    };
    let far = Far::with("127.0.0.1:0", None, budget);
    let error = refused(plan(far.addr));
    let ProbeError::TooFast { allowed, asked, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (allowed, asked),
        (Duration::from_millis(50), Duration::from_millis(10))
    );
}

#[test]
fn a_server_that_goes_away_is_noticed_and_what_was_measured_is_kept() {
    let mut far = Far::start("127.0.0.1:0", None);
    let (rows, inbox) = mpsc::channel();
    let prober = Prober::start(plan(far.addr), Clock::start(), rows).unwrap();
    sleep_ms(200);
    prober.health().unwrap();
    far.stop();
    let mut waited = 0;
    while prober.health().is_ok() && waited < 5_000 {
        sleep_ms(50);
        waited += 50;
    }
    assert!(
        matches!(prober.health(), Err(ProbeError::PortClosed { .. })),
        "{:?}",
        prober.health()
    );
    prober.stop();
    let all: Vec<Row> = inbox.try_iter().collect();
    assert!(all.iter().any(|r| matches!(r, Row::Event(e) if &*e.kind == "fault" && e.detail.contains("nothing listens"))));
    assert!(
        all.iter()
            .any(|r| matches!(r, Row::Delay(d) if d.status == Status::Ok))
    );
}

#[test]
fn a_server_that_was_restarted_does_not_know_the_session() {
    let mut far = Far::start("127.0.0.1:0", None);
    let (rows, _inbox) = mpsc::channel();
    let prober = Prober::start(plan(far.addr), Clock::start(), rows).unwrap();
    sleep_ms(100);
    far.stop();
    let again = Far::start(&far.addr.to_string(), None);
    let mut waited = 0;
    while !matches!(prober.health(), Err(ProbeError::SessionLost { .. })) && waited < 5_000 {
        sleep_ms(50);
        waited += 50;
    }
    assert!(
        matches!(prober.health(), Err(ProbeError::SessionLost { .. })),
        "{:?}",
        prober.health()
    );
    drop((prober, again));
}

#[test]
fn the_interval_changes_while_probing_and_rows_are_fresh_at_long_ones() {
    let far = Far::start("127.0.0.1:0", None);
    let (rows, inbox) = mpsc::channel();
    let prober = Prober::start(plan(far.addr), Clock::start(), rows).unwrap();
    sleep_ms(200);
    let slow = Duration::from_millis(800);
    assert_eq!(prober.set_interval(slow), slow);
    sleep_ms(1_900);
    let before = delays(&inbox);
    let last = before.last().expect("rows of the first two seconds");
    assert!(
        Clock::start().unix_ns() - last.sent_ns < 1_800_000_000,
        "the last row is old"
    );
    assert_eq!(
        prober.set_interval(Duration::from_nanos(1)),
        Budget::default().min_interval
    );
    prober.stop();
}

#[test]
fn a_train_over_a_fast_path_gives_two_rates() {
    let far = Far::start("127.0.0.1:0", None);
    let (rows, _inbox) = mpsc::channel();
    let prober = Prober::start(plan(far.addr), Clock::start(), rows).unwrap();
    let estimate = prober
        .train(8, Bytes::new(1_200))
        .unwrap()
        .expect("eight datagrams over loopback");
    assert!(
        estimate.up.get() > 1_000_000 && estimate.down.get() > 1_000_000,
        "{estimate:?}"
    );
}
