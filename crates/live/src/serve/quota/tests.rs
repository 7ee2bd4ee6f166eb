use super::connections::{REPORTS, TRAINS_PER_CLIENT};
use super::sessions::SESSIONS_PER_CLIENT;
use super::*;
use crate::serve::uplink::{LINGER_NS, TURN_NS};
use base::record::Direction;
use measure::control::{Ended, FlowSpec};

fn spec(session: u8, flow: u32) -> FlowSpec {
    FlowSpec {
        session: SessionId([session; 16]),
        flow,
        duration: Duration::from_secs(10),
        sample: Duration::from_millis(50),
    }
}

fn new_quota(budgets: Budgets) -> Quota {
    let journal = Journal::new(None, crate::clock::Clock::start());
    Quota::new(budgets, Arc::new(journal))
}

fn quota() -> Quota {
    new_quota(Budgets {
        clients: 2,
        connections_per_client: 2,
        flows_per_client: 1,
        duration: Duration::from_secs(5),
        bytes_per_hour: Bytes::new(1000),
        ..Budgets::default()
    })
}

const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
const C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 3));

/// Opens a connection and makes its request.
fn served(quota: &Quota, from: IpAddr) -> Result<Permit, Refused> {
    let permit = quota.connect(from, None).expect("room to ask");
    quota.serve(&permit).map(|()| permit)
}

#[test]
fn connections_are_counted_for_as_long_as_they_live() {
    let quota = quota();
    let first = served(&quota, A).unwrap();
    let _second = served(&quota, A).unwrap();
    assert!(quota.connect(A, None).is_none());
    let _b = served(&quota, B).unwrap();
    assert!(served(&quota, C).is_err(), "a third client");
    drop(first);
    assert!(served(&quota, A).is_ok());
}

/// Attacker whose addresses hold connections without a request, while one client comes each second.
#[test]
fn who_asks_for_nothing_keeps_nobody_out() {
    let quota = new_quota(Budgets {
        connections: 64,
        ..Budgets::default()
    });
    let ip = |a: u8, b: u8| IpAddr::V4(std::net::Ipv4Addr::new(198, 51, a, b));
    // One network holds all of it: a newcomer from elsewhere gets in at once.
    let mut held: Vec<Permit> = (0..64)
        .map(|n| quota.connect(ip(1, n), None).expect("room"))
        .collect();
    let newcomer = quota.connect(A, None).expect("the heaviest gives way");
    assert!(quota.serve(&newcomer).is_ok());
    // The attacker comes back for that place, and takes it from nobody but itself.
    held.extend(quota.connect(ip(1, 99), None));
    let another = quota.connect(B, None).expect("and still");
    assert!(quota.serve(&another).is_ok());
    drop(held);
    // As many networks as places.
    let spread: Vec<Permit> = (0..60)
        .filter_map(|n| quota.connect(ip(n, 1), None))
        .collect();
    assert!(spread.len() >= 60);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    for _ in 0..20 {
        let newcomer = quota.connect(C, None).expect("the oldest gives way");
        assert!(quota.serve(&newcomer).is_ok());
    }
    let ledger = lock(&quota.ledger);
    assert!(ledger.connections <= 64, "{}", ledger.connections);
}

#[test]
fn the_uplink_belongs_to_one_client_at_a_time_and_others_are_told_for_how_long() {
    let quota = new_quota(Budgets::default());
    let (a, b) = (served(&quota, A).unwrap(), served(&quota, B).unwrap());
    let first = quota
        .flow(&a, &spec(1, 0), Direction::Up, Use::Upload)
        .unwrap();
    let second = quota.flow(&a, &spec(1, 1), Direction::Up, Use::Upload);
    assert!(second.is_ok(), "its own flows load together");
    let (why, text) = quota
        .flow(&b, &spec(2, 0), Direction::Up, Use::Upload)
        .err()
        .unwrap();
    assert_eq!(why, Refusal::Loaded);
    assert!(text.contains("try again in 20 s"), "{text}");
    let light = quota.flow(&b, &spec(2, 0), Direction::Up, Use::Train);
    assert!(light.is_ok(), "probes are shared");
    drop((first, second));
    let after = quota.flow(&b, &spec(2, 1), Direction::Up, Use::Upload);
    assert!(after.is_err(), "a pause between two phases is no end");
    lock(&quota.ledger).uplink.age(0, LINGER_NS);
    assert!(
        quota
            .flow(&b, &spec(2, 2), Direction::Up, Use::Upload)
            .is_ok()
    );
}

#[test]
fn whoever_has_had_ten_minutes_lets_another_have_the_uplink() {
    let quota = new_quota(Budgets::default());
    let (a, b) = (served(&quota, A).unwrap(), served(&quota, B).unwrap());
    let load = |permit, n| {
        quota
            .flow(permit, &spec(n, 0), Direction::Up, Use::Upload)
            .map(drop)
    };
    assert!(load(&a, 1).is_ok());
    lock(&quota.ledger).uplink.age(TURN_NS, 0);
    assert!(load(&a, 2).is_ok(), "nobody waits");
    assert!(load(&b, 3).is_err());
    assert!(load(&a, 4).is_err(), "somebody waits");
    assert!(load(&b, 5).is_ok());
}

#[test]
fn reports_and_trains_at_once_are_bounded() {
    let quota = new_quota(Budgets::default());
    let permits: Vec<Permit> = [A, B, C].map(|ip| served(&quota, ip).unwrap()).into();
    let mut held = Vec::new();
    for permit in &permits {
        held.extend((0..10).filter_map(|_| quota.reporting(permit).ok()));
    }
    assert_eq!(held.len() as u32, REPORTS);
    drop(held);
    assert!(quota.reporting(&permits[2]).is_ok());
    let trains: Vec<_> = (0..20)
        .filter_map(|_| quota.train(&permits[0]).ok())
        .collect();
    assert_eq!(trains.len() as u32, TRAINS_PER_CLIENT);
}

#[test]
fn a_session_of_another_client_is_not_joined() {
    let quota = new_quota(Budgets::default());
    let (a, b) = (served(&quota, A).unwrap(), served(&quota, B).unwrap());
    assert!(
        quota
            .flow(&a, &spec(1, 0), Direction::Up, Use::Train)
            .is_ok()
    );
    assert!(
        quota
            .flow(&b, &spec(1, 1), Direction::Up, Use::Train)
            .is_err()
    );
}

#[test]
fn all_addresses_of_a_subscriber_are_one_client() {
    let ip = |s: &str| subscriber(s.parse().unwrap());
    assert!(ip("2001:db8:0:1::7") == ip("2001:db8:0:1:ffff::1"));
    assert!(ip("2001:db8:0:1::7") != ip("2001:db8:0:2::7"));
    assert!(ip("::ffff:192.0.2.1") == ip("192.0.2.1"));
    assert!(ip("192.0.2.1") != ip("192.0.2.2"));
}

#[test]
fn a_flow_is_cut_to_the_longest_and_ends_with_its_bytes() {
    let quota = quota();
    let permit = served(&quota, A).unwrap();
    let mut flow = quota
        .flow(&permit, &spec(1, 0), Direction::Up, Use::Upload)
        .unwrap();
    assert_eq!(flow.duration, Duration::from_secs(5));
    let (why, text) = quota
        .flow(&permit, &spec(1, 1), Direction::Up, Use::Upload)
        .err()
        .unwrap();
    assert_eq!(why, Refusal::Busy, "{text}");
    assert!(flow.spend(600));
    assert!(flow.spend(1000));
    assert!(!flow.spend(1001));
    drop(flow);
    let (why, text) = quota
        .flow(&permit, &spec(1, 1), Direction::Up, Use::Upload)
        .err()
        .unwrap();
    assert_eq!(why, Refusal::Spent, "{text}");
    let flows = quota.session(&SessionId([1; 16])).unwrap();
    assert_eq!(flows.len(), 1);
    assert_eq!(
        lock(&flows[0]).report_mut().ended,
        Ended::Failed,
        "it ended without saying how"
    );
    assert!(quota.session(&SessionId([2; 16])).is_none());
}

#[test]
fn sessions_of_a_client_do_not_pile_up() {
    let quota = quota();
    let permit = served(&quota, A).unwrap();
    for s in 0..=SESSIONS_PER_CLIENT as u8 {
        drop(
            quota
                .flow(&permit, &spec(s, 0), Direction::Up, Use::Upload)
                .unwrap(),
        );
    }
    assert!(
        quota.session(&SessionId([0; 16])).is_none(),
        "the oldest made room"
    );
    assert!(quota.session(&SessionId([1; 16])).is_some());
}

/// Holds and the memory of clients after a crowd has come and gone.
#[test]
fn what_is_counted_is_what_is_there_and_clients_are_forgotten() {
    let quota = new_quota(Budgets::default());
    let ip = |n: u32| IpAddr::V4(std::net::Ipv4Addr::from(0x0a00_0000 + n));
    let (a, also_a) = (served(&quota, A).unwrap(), served(&quota, A).unwrap());
    let b = served(&quota, B).unwrap();
    let waits = quota.connect(C, None).expect("room");
    let counts = || {
        let ledger = lock(&quota.ledger);
        (ledger.connections, ledger.served, ledger.active)
    };
    assert_eq!(counts(), (4, 3, 2));
    drop(a);
    assert_eq!(counts(), (3, 2, 2));
    drop((also_a, waits));
    assert_eq!(counts(), (1, 1, 1));
    for n in 0..3 * CLIENTS_KEPT as u32 {
        drop(quota.connect(ip(n), None));
        // The one that has moved most is the last to be forgotten.
        let moved = u64::from(n == 7) + 1;
        let account = quota.account(ip(n), None);
        account.charge(moved);
    }
    assert!(lock(&quota.ledger).clients.len() <= 2 * CLIENTS_KEPT);
    quota.roll();
    let ledger = lock(&quota.ledger);
    assert_eq!(ledger.clients.len(), CLIENTS_KEPT);
    assert!(ledger.clients.contains_key(&ip(7)));
    assert_eq!(ledger.clients[&B].served, 1);
    drop(ledger);
    quota.dismiss();
    drop(b);
    assert_eq!(counts(), (0, 0, 0));
}
