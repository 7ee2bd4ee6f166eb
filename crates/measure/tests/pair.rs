//! A session and a reflector stepped together in virtual time over a path that loses, delays, reorders
//! and duplicates as it is told.

use base::record::{Delay, Row, Status};
use base::{Duration, Time};
use measure::handshake::{Failure, Handshake};
use measure::keys::{Credential, KeyFile, Secret, SessionKeys, UserKey, Users};
use measure::ledger::Slots;
use measure::reflector::{self, Budget, Reflector};
use measure::session::{self, Params, Session};
use measure::wire::{Ask, ClientMessage, Grant, MAX_LEN, Refusal, ServerMessage, datagram_len};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

/// UNIX time of the run's zero on the near clock, and by how much the far clock is ahead.
const ORIGIN: i64 = 1_700_000_000_000_000_000;
const FAR_AHEAD: i64 = 3_600_000_000_000;
/// What the hosts add: near program to kernel, far kernel to program and back.
const NEAR_SEND: Duration = Duration::from_micros(7);
const FAR_HOLD: Duration = Duration::from_micros(30);
const FAR_SEND: Duration = Duration::from_micros(5);

/// What the path does to one datagram: each copy's delay; no copy, and it is lost.
type Fate = Vec<Duration>;

enum Flight {
    /// Time at which the far kernel has it, and its bytes.
    Up(Time, Vec<u8>),
    Down(Vec<u8>),
}

#[derive(Default, Clone, Copy, Debug, PartialEq)]
struct Truth {
    arrived_up: u32,
    arrived_down: u32,
    /// Fastest copy's way there and back.
    rtt: Option<Duration>,
}

struct Pair {
    session: Session,
    reflector: Reflector,
    in_flight: BTreeMap<(Time, u64), Flight>,
    order: u64,
    up: VecDeque<Fate>,
    down: VecDeque<Fate>,
    truth: BTreeMap<i64, Truth>,
    /// Time that each request spent on its way up, by its number; the latest copy's.
    ups: BTreeMap<u32, Duration>,
    rows: Vec<Row>,
    /// Whether the near wall clock ran through since the datagrams before.
    steady: bool,
    /// Probes before which somebody uses up the session's budget.
    throttle: std::ops::Range<u32>,
    /// Time in which the far program stands still: probes wait in its socket.
    stopped: std::ops::Range<Time>,
}

fn client() -> SocketAddr {
    "192.0.2.7:4000".parse().unwrap()
}

fn arrival(from: SocketAddr, rx_ns: i64) -> reflector::Arrival {
    reflector::Arrival {
        from,
        local: None,
        rx_ns,
        kernel: true,
        tos: Some(0),
    }
}

fn new_reflector(budget: Budget, key: Option<u8>) -> Reflector {
    let users = key.map(|key| Arc::new(users(key)));
    Reflector::new(budget, users, [7; 32], b"boot of the far end", 1)
}

/// The user anna with a key that has this byte all over.
fn users(key: u8) -> Users {
    let line = format!("anna {}", format!("{key:02x}").repeat(32));
    let file = KeyFile::parse(&line).expect("a good line");
    Users::new(&file, [5; 48], None)
}

fn anna(key: u8) -> Credential {
    Credential::new("anna", Secret::Key(UserKey([key; 32])))
}

fn ask(interval: Duration) -> Ask {
    Ask {
        interval_ns: interval.as_nanos(),
        duration_s: 0,
        tos: 0,
        boot_proof: 0,
    }
}

/// Everything the reflector has to say now.
fn answers(reflector: &mut Reflector) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut out = [0u8; MAX_LEN];
    std::iter::from_fn(|| {
        reflector
            .poll_transmit(0, &mut out)
            .map(|o| (o.to, out[..o.len].to_vec()))
    })
    .collect()
}

/// Shakes hands over a path without loss or delay.
fn shake(
    reflector: &mut Reflector,
    from: SocketAddr,
    key: Option<u8>,
    ask: Ask,
) -> Result<Grant, Failure> {
    shake_with(reflector, from, key.map(anna), ask).map(|(grant, _)| grant)
}

fn shake_with(
    reflector: &mut Reflector,
    from: SocketAddr,
    key: Option<Credential>,
    ask: Ask,
) -> Result<(Grant, Option<SessionKeys>), Failure> {
    let mut handshake = Handshake::new(Time::ZERO, 42, ask, key, Duration::from_secs(5));
    let mut out = [0u8; MAX_LEN];
    while let Some(now) = handshake.next_wakeup() {
        handshake.handle_timeout(now);
        reflector.handle_timeout(now);
        for (_, bytes) in answers(reflector) {
            handshake.handle_datagram(now, &bytes);
        }
        while let Some(len) = handshake.poll_transmit(now, &mut out) {
            reflector.handle_datagram(now, arrival(from, 0), &out[..len]);
            for (_, bytes) in answers(reflector) {
                handshake.handle_datagram(now, &bytes);
            }
        }
    }
    handshake
        .outcome()
        .expect("no wake-up is left only when all is said")
        .map(|grant| (grant, handshake.keys()))
}

impl Pair {
    fn new(interval: Duration, lost_after: Duration) -> Pair {
        Pair::keeping(interval, lost_after, lost_after * 3 / 2)
    }

    fn keeping(interval: Duration, lost_after: Duration, kept_for: Duration) -> Pair {
        let mut reflector = new_reflector(Budget::default(), None);
        let grant = shake(&mut reflector, client(), None, ask(interval)).unwrap();
        let target = "udp".into();
        let params = Params {
            lost_after,
            kept_for,
            origin_unix_ns: ORIGIN,
            target,
            keys: None,
            grant,
            capacity: 4096,
        };
        Pair {
            session: Session::new(params, Slots::new(Time::from_millis(1), interval, 0)),
            reflector,
            in_flight: BTreeMap::new(),
            order: 0,
            up: VecDeque::new(),
            down: VecDeque::new(),
            truth: BTreeMap::new(),
            ups: BTreeMap::new(),
            rows: Vec::new(),
            steady: true,
            throttle: 0..0,
            stopped: Time::ZERO..Time::ZERO,
        }
    }

    fn launch(&mut self, at: Time, flight: Flight) {
        self.order += 1;
        self.in_flight.insert((at, self.order), flight);
    }

    /// Runs until `end`; probes leave until `last_send`.
    fn run(&mut self, last_send: Time, end: Time) {
        let base = vec![Duration::from_millis(20)];
        let mut out = [0u8; MAX_LEN];
        loop {
            let flight = self.in_flight.keys().next().map(|&(t, _)| t);
            let timer = self
                .session
                .next_wakeup()
                .filter(|&t| t <= last_send || self.session.next_slot() != Some(t));
            let Some(now) = [flight, timer, self.reflector.next_wakeup()]
                .into_iter()
                .flatten()
                .min()
                .filter(|&t| t <= end)
            else {
                return;
            };
            self.session.handle_timeout(now);
            self.reflector.handle_timeout(now);
            if now <= last_send {
                while let Some((seq, len)) = self.session.poll_transmit(now, &mut out) {
                    self.session.handle_sent(seq, now, now + NEAR_SEND);
                    self.session.handle_tx_stamp(seq, now + NEAR_SEND);
                    self.truth.insert(seq as i64, Truth::default());
                    for delay in self.up.pop_front().unwrap_or_else(|| base.clone()) {
                        self.ups.insert(seq as u32, delay);
                        let there = now + NEAR_SEND + delay;
                        let read = match self.stopped.contains(&there) {
                            true => self.stopped.end,
                            false => there,
                        };
                        self.launch(read, Flight::Up(there, out[..len].to_vec()));
                    }
                }
            }
            while let Some(entry) = self.in_flight.first_entry().filter(|e| e.key().0 <= now) {
                match entry.remove() {
                    Flight::Up(there, bytes) => self.arrive_up(now, there, &bytes),
                    Flight::Down(bytes) => self.arrive_down(now, &bytes),
                }
            }
            self.rows
                .extend(std::iter::from_fn(|| self.session.poll_row()));
        }
    }

    fn arrive_up(&mut self, now: Time, there: Time, bytes: &[u8]) {
        let base = vec![Duration::ZERO];
        let far = |t: Time| ORIGIN + FAR_AHEAD + t.as_nanos() as i64;
        self.use_up_budget(now, bytes);
        self.reflector
            .handle_datagram(now, arrival(client(), far(there)), bytes);
        let mut out = [0u8; MAX_LEN];
        while let Some(o) = self.reflector.poll_transmit(far(now + FAR_HOLD), &mut out) {
            assert!(
                o.len <= bytes.len(),
                "{} bytes answered with {}",
                bytes.len(),
                o.len
            );
            let left = now + FAR_HOLD + FAR_SEND;
            self.reflector.handle_tx_stamp(o.id, far(left));
            let message = ServerMessage::decode(&out[..o.len], None);
            match message {
                Ok(ServerMessage::Reply { reply, .. }) => {
                    let truth = self.truth.get_mut(&i64::from(reply.seq));
                    truth.unwrap().arrived_up += 1;
                }
                Ok(ServerMessage::Refused { .. }) => {}
                other => panic!("{other:?}"),
            }
            for delay in self.down.pop_front().unwrap_or_else(|| base.clone()) {
                self.launch(left + delay, Flight::Down(out[..o.len].to_vec()));
            }
        }
    }

    fn use_up_budget(&mut self, now: Time, bytes: &[u8]) {
        let Ok(ClientMessage::Request { token, seq, .. }) = ClientMessage::decode(bytes, None)
        else {
            return;
        };
        let mut buf = [0u8; MAX_LEN];
        while self.throttle.contains(&seq) {
            let request = ClientMessage::Request {
                token,
                seq: 0,
                sent_ns: 0,
            };
            let len = request.encode(&mut buf, 0, None);
            self.reflector
                .handle_datagram(now, arrival(client(), 0), &buf[..len]);
            let answered = answers(&mut self.reflector).into_iter().any(|(_, bytes)| {
                matches!(
                    ServerMessage::decode(&bytes, None),
                    Ok(ServerMessage::Reply { .. })
                )
            });
            if !answered {
                return;
            }
        }
    }

    fn arrive_down(&mut self, now: Time, bytes: &[u8]) {
        if let Ok(ServerMessage::Reply { reply, .. }) = ServerMessage::decode(bytes, None) {
            let truth = self.truth.get_mut(&i64::from(reply.seq));
            truth.unwrap().arrived_down += 1;
        }
        let arrival = session::Arrival {
            at: now,
            kernel: true,
            steady: self.steady,
            tos: Some(0),
        };
        self.session.handle_datagram(now, arrival, bytes);
    }

    fn finish(&mut self) -> BTreeMap<i64, Vec<Delay>> {
        self.session.finish();
        self.rows
            .extend(std::iter::from_fn(|| self.session.poll_row()));
        let mut by_seq: BTreeMap<i64, Vec<Delay>> = BTreeMap::new();
        for row in &self.rows {
            if let Row::Delay(d) = row {
                by_seq.entry(d.seq).or_default().push(d.clone());
            }
        }
        by_seq
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn the_round_trip_is_the_path_s_alone_and_the_hosts_share_stands_beside_it() {
    let mut pair = Pair::new(ms(10), Duration::from_secs(10));
    pair.up = (0..100).map(|i| vec![ms(5 + i % 7)]).collect();
    pair.down = (0..100).map(|i| vec![ms(3 + i % 5)]).collect();
    pair.run(Time::from_millis(995), Time::from_secs(3));
    let rows = pair.finish();
    assert_eq!(rows.len(), 100);
    // The reflector answers in order of arrival, so the ways back are handed out in that order.
    let mut rtts: Vec<i64> = rows.values().flatten().map(|d| d.rtt_ns.unwrap()).collect();
    rtts.sort_unstable();
    assert!(rtts.iter().all(|rtt| rtt % 1_000_000 <= 5_000), "{rtts:?}");
    let exact = rows
        .values()
        .flatten()
        .filter(|d| d.rtt_ns.unwrap() % 1_000_000 == 0)
        .count();
    // Only the last answers never learn when the far kernel sent them.
    assert!(exact >= 99, "{exact} of 100");
    let d = &rows[&10][0];
    assert_eq!(
        d.host_ns,
        Some((NEAR_SEND + FAR_HOLD + FAR_SEND).as_nanos() as i64)
    );
    assert_eq!(
        d.remote_tx_ns.unwrap() - d.remote_rx_ns.unwrap(),
        (FAR_HOLD + FAR_SEND).as_nanos() as i64
    );
    assert_eq!(
        d.remote_rx_ns.unwrap() - FAR_AHEAD - d.sent_ns,
        pair.ups[&10].as_nanos() as i64
    );
    assert_eq!(d.late_send_ns, Some(NEAR_SEND.as_nanos() as i64));
    let (ahead, plus_minus) = pair.session.far_ahead_ns().unwrap();
    assert!(
        (ahead - FAR_AHEAD).abs() <= plus_minus && plus_minus <= 4_050_000,
        "{ahead} ± {plus_minus}"
    );
}

/// With irtt the downstream loss of number 4's answer, told by the answers after the late number 3, is
/// shown as upstream loss: its receive window forgets everything but the late packet.
#[test]
fn an_answer_lost_among_reordered_probes_was_lost_on_the_way_down() {
    let mut pair = Pair::new(ms(10), ms(500));
    // 3 is overtaken by 4. The answer to 4 is lost, so are those to 3 and 5.
    pair.up = [20, 20, 20, 35, 20, 20].map(|delay| vec![ms(delay)]).into();
    pair.down = [
        vec![ms(1)],
        vec![ms(1)],
        vec![ms(1)],
        vec![],
        vec![],
        vec![],
    ]
    .into();
    pair.run(Time::from_millis(600), Time::from_secs(3));
    let rows = pair.finish();
    for seq in [3, 4, 5] {
        assert_eq!(
            rows[&seq].iter().map(|d| d.status).collect::<Vec<_>>(),
            [Status::LostDown],
            "{seq}"
        );
    }
}

#[test]
fn an_answer_after_the_limit_is_late_with_its_delay_and_one_far_beyond_is_lost() {
    let mut pair = Pair::new(ms(100), ms(1_000));
    pair.up = [vec![ms(1_200)], vec![ms(20)], vec![ms(2_000)]].into();
    pair.run(Time::from_millis(2_500), Time::from_secs(6));
    let rows = pair.finish();
    assert_eq!(
        (rows[&0][0].status, rows[&0][0].rtt_ns),
        (Status::Late, Some(1_200_000_000))
    );
    assert_eq!(rows[&1][0].status, Status::Ok);
    assert_eq!(rows[&2].len(), 1);
    assert_eq!(
        (rows[&2][0].status, rows[&2][0].rtt_ns),
        (Status::LostUp, None)
    );
    assert_eq!(pair.session.stats().stray, 1);
}

/// A server that is stopped for 25 s and continued finds the probes in its socket and answers all of them.
#[test]
fn probes_that_wait_for_a_server_that_stands_still_are_late_and_not_invalid() {
    let seconds = Duration::from_secs;
    let mut pair = Pair::keeping(ms(100), seconds(10), seconds(180));
    pair.stopped = Time::from_millis(2_050)..Time::from_millis(27_050);
    pair.run(Time::from_secs(30), Time::from_secs(60));
    let rows = pair.finish();
    // The far kernel has a probe 20 ms after it left.
    let in_freeze = |d: &Delay| (2_030..27_030).contains(&((d.sent_ns - ORIGIN) / 1_000_000));
    let all: Vec<&Delay> = rows.values().flatten().collect();
    assert_eq!(all.len(), 300);
    for d in all {
        let waits_s = 27.05 - (d.sent_ns - ORIGIN) as f64 / 1e9;
        let expected = match waits_s {
            _ if !in_freeze(d) => Status::Ok,
            // The wire tells holds of up to 4.29 s, and the delay of the path is without them.
            ..4.29 => Status::Ok,
            // Answered within the limit, after a time that nobody knows.
            ..10.0 => Status::Invalid,
            _ => Status::Late,
        };
        assert_eq!(d.status, expected, "{waits_s} s before the end of the stop");
        assert_eq!(d.rtt_ns.is_some(), expected == Status::Ok);
    }
}

#[test]
fn no_probe_is_lost_where_the_round_trip_is_many_intervals() {
    let mut pair = Pair::new(ms(1), Duration::from_secs(10));
    pair.up = (0..500).map(|_| vec![ms(3_000)]).collect();
    pair.run(Time::from_millis(500), Time::from_secs(8));
    let rows = pair.finish();
    assert_eq!(rows.len(), 500);
    assert!(rows.values().flatten().all(|d| d.status == Status::Ok));
}

#[test]
fn slots_that_passed_are_reported_and_the_grid_stays() {
    let mut pair = Pair::new(ms(10), Duration::from_secs(10));
    pair.run(Time::from_millis(45), Time::from_millis(45));
    // The host stands still from 45 to 88 ms: the slots at 51, 61 and 71 ms are gone, 81 is sent late.
    let mut out = [0u8; MAX_LEN];
    let now = Time::from_millis(88);
    let (seq, _) = pair.session.poll_transmit(now, &mut out).unwrap();
    pair.session.handle_sent(seq, now, now);
    assert_eq!(pair.session.poll_transmit(now, &mut out), None);
    assert_eq!(
        (seq, pair.session.next_slot()),
        (8, Some(Time::from_millis(91)))
    );
    assert_eq!(pair.session.stats().missed_slots, 3);
    let rows = pair.finish();
    for (seq, planned_ms) in [(5, 51), (6, 61), (7, 71)] {
        assert_eq!(
            (rows[&seq][0].status, rows[&seq][0].sent_ns),
            (Status::NotSent, ORIGIN + planned_ms * 1_000_000)
        );
    }
    assert_eq!(rows[&8][0].late_send_ns, Some(7_000_000));
}

#[test]
fn a_new_interval_holds_from_the_next_slot_and_not_below_the_grant() {
    let mut pair = Pair::new(ms(10), Duration::from_secs(10));
    pair.run(Time::from_millis(25), Time::from_millis(25));
    assert_eq!(pair.session.set_interval(ms(50)), ms(50));
    assert_eq!(pair.session.next_slot(), Some(Time::from_millis(31)));
    pair.run(Time::from_millis(31), Time::from_millis(31));
    assert_eq!(pair.session.next_slot(), Some(Time::from_millis(81)));
    assert_eq!(
        pair.session.set_interval(Duration::from_nanos(1)),
        Budget::default().min_interval
    );
}

#[test]
fn memory_is_bounded_however_long_nothing_comes_back() {
    let mut pair = Pair::new(ms(1), Duration::from_secs(3_600));
    pair.up = (0..10_000).map(|_| vec![]).collect();
    pair.run(Time::from_secs(10), Time::from_secs(10));
    // 4096 are remembered; the others had to be given up for lost.
    assert_eq!(pair.rows.len(), 10_000 - 4_096);
    assert_eq!(pair.finish().len(), 10_000);
}

#[test]
fn a_probe_across_a_step_of_the_wall_clock_is_void_and_not_bent() {
    let mut pair = Pair::new(ms(10), Duration::from_secs(10));
    pair.run(Time::from_millis(200), Time::from_millis(200));
    pair.steady = false;
    pair.session
        .report_wall_step(Time::from_millis(205), -40_000_000);
    pair.run(Time::from_millis(205), Time::from_millis(205));
    pair.steady = true;
    pair.run(Time::from_millis(400), Time::from_secs(1));
    let rows = pair.finish();
    let invalid: Vec<&Delay> = rows
        .values()
        .flatten()
        .filter(|d| d.status == Status::Invalid)
        .collect();
    assert!(
        !invalid.is_empty()
            && invalid
                .iter()
                .all(|d| d.rtt_ns.is_none() && d.remote_rx_ns.is_none())
    );
    assert!(
        rows.values()
            .flatten()
            .filter(|d| d.status == Status::Ok)
            .all(|d| d.rtt_ns.unwrap() < 21_000_000)
    );
    assert!(pair.rows.iter().any(
        |r| matches!(r, Row::Event(e) if &*e.kind == "clock" && e.detail.contains("-40000000"))
    ));
}

#[test]
fn one_clock_at_both_ends_is_believed_only_if_the_first_answer_bears_it_out() {
    let says = |claim: i64| {
        let mut pair = Pair::new(ms(10), Duration::from_secs(10));
        pair.session.expect_same_clock(claim);
        pair.run(Time::from_millis(100), Time::from_secs(1));
        let same =
            |r: &Row| matches!(r, Row::Event(e) if &*e.kind == "clock" && &*e.subject == "same");
        pair.rows.iter().filter(|r| same(r)).count()
    };
    assert_eq!((says(FAR_AHEAD), says(0)), (1, 0));
}

#[test]
fn a_spoofed_source_gets_no_session_and_nothing_that_was_not_smaller() {
    let mut reflector = new_reflector(Budget::default(), None);
    let victim: SocketAddr = "198.51.100.9:53".parse().unwrap();
    let mut buf = [0u8; MAX_LEN];
    let messages = [
        ClientMessage::Hello { nonce: 1 },
        // A cookie that was made for somebody else, as one who cannot see the victim's packets has to use.
        ClientMessage::Open {
            nonce: 1,
            cookie: cookie_for(&mut reflector, client(), 1),
            ask: ask(ms(10)),
            user: None,
        },
        ClientMessage::Request {
            token: 1,
            seq: 0,
            sent_ns: 0,
        },
        ClientMessage::Train {
            token: 1,
            train: 0,
            index: 0,
            count: 8,
        },
        ClientMessage::Close { token: 1 },
    ];
    for message in messages {
        let len = message.encode(&mut buf, 0, None);
        reflector.handle_datagram(Time::from_secs(1), arrival(victim, 0), &buf[..len]);
        for (_, bytes) in answers(&mut reflector) {
            assert!(
                bytes.len() < len,
                "{message:?}: {len} bytes brought {}",
                bytes.len()
            );
        }
    }
    assert_eq!(reflector.sessions(), 0);
    // Nor can a stranger use a session that is open.
    let grant = shake(&mut reflector, client(), None, ask(ms(10))).unwrap();
    let len = ClientMessage::Request {
        token: grant.token,
        seq: 0,
        sent_ns: 0,
    }
    .encode(&mut buf, 0, None);
    reflector.handle_datagram(Time::from_secs(1), arrival(victim, 0), &buf[..len]);
    let refused = answers(&mut reflector);
    let message = ServerMessage::decode(&refused[0].1, None);
    assert_eq!(
        message,
        Ok(ServerMessage::Refused {
            id: grant.token,
            seq: 0,
            reason: Refusal::NoSession
        })
    );
}

fn cookie_for(reflector: &mut Reflector, from: SocketAddr, nonce: u64) -> [u8; 16] {
    let mut buf = [0u8; MAX_LEN];
    let len = ClientMessage::Hello { nonce }.encode(&mut buf, 0, None);
    reflector.handle_datagram(Time::from_secs(1), arrival(from, 0), &buf[..len]);
    match ServerMessage::decode(&answers(reflector)[0].1, None) {
        Ok(ServerMessage::Challenge { cookie, .. }) => cookie,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cookie_grows_stale() {
    let mut reflector = new_reflector(Budget::default(), None);
    let cookie = cookie_for(&mut reflector, client(), 1);
    let mut buf = [0u8; MAX_LEN];
    let len = ClientMessage::Open {
        nonce: 1,
        cookie,
        ask: ask(ms(10)),
        user: None,
    }
    .encode(&mut buf, 0, None);
    let outcomes = [Time::from_secs(60), Time::from_secs(2)].map(|now| {
        reflector.handle_datagram(now, arrival(client(), 0), &buf[..len]);
        let answer = answers(&mut reflector).remove(0).1;
        matches!(
            ServerMessage::decode(&answer, None),
            Ok(ServerMessage::Opened { .. })
        )
    });
    assert_eq!(outcomes, [false, true]);
    // The same Open again is the client not having heard us, not another session.
    reflector.handle_datagram(Time::from_secs(2), arrival(client(), 0), &buf[..len]);
    assert_eq!(reflector.sessions(), 1);
}

#[test]
fn a_client_learns_why_it_is_refused() {
    let (right, wrong) = (Some(1), Some(2));
    let refusal = |server: &Option<u8>, client_key: &Option<u8>| {
        let mut reflector = new_reflector(Budget::default(), *server);
        shake(&mut reflector, client(), *client_key, ask(ms(10))).map(|_| ())
    };
    assert_eq!(refusal(&right, &right), Ok(()));
    assert_eq!(
        refusal(&right, &wrong),
        Err(Failure::Refused(Refusal::WrongKey))
    );
    assert_eq!(refusal(&right, &None), Err(Failure::KeyNeeded));
    assert_eq!(
        refusal(&None, &wrong),
        Err(Failure::Refused(Refusal::NoKey))
    );
    let mut reflector = new_reflector(Budget::default(), None);
    let too_fast = shake(
        &mut reflector,
        client(),
        None,
        ask(Duration::from_micros(10)),
    );
    assert_eq!(too_fast, Err(Failure::Refused(Refusal::Rate(500_000))));
}

#[test]
fn one_address_opens_as_many_sessions_as_it_may_and_silence_closes_them() {
    let mut reflector = new_reflector(
        Budget {
            sessions_per_address: 2,
            ..Budget::default()
        },
        None,
    );
    let open = |reflector: &mut Reflector, port: u16| {
        shake(
            reflector,
            SocketAddr::new(client().ip(), port),
            None,
            ask(ms(10)),
        )
        .map(|_| ())
    };
    assert_eq!(
        [open(&mut reflector, 1), open(&mut reflector, 2)],
        [Ok(()), Ok(())]
    );
    assert_eq!(
        open(&mut reflector, 3),
        Err(Failure::Refused(Refusal::SessionsOfAddress(2)))
    );
    let other = shake(
        &mut reflector,
        "192.0.2.8:1".parse().unwrap(),
        None,
        ask(ms(10)),
    );
    assert!(other.is_ok());
    reflector.handle_timeout(Time::from_secs(301));
    assert_eq!(reflector.sessions(), 0);
}

#[test]
fn who_sends_more_than_granted_is_told_and_not_answered() {
    let mut reflector = new_reflector(Budget::default(), None);
    let grant = shake(&mut reflector, client(), None, ask(ms(10))).unwrap();
    let mut buf = [0u8; MAX_LEN];
    let mut answered = 0;
    let mut told = 0;
    let mut last_count = 0;
    // 10 000 a second for one second; granted are 2000 and a second's worth at once.
    for seq in 0..10_000u32 {
        let now = Time::from_secs(1) + Duration::from_micros(100) * u64::from(seq);
        let len = ClientMessage::Request {
            token: grant.token,
            seq,
            sent_ns: 0,
        }
        .encode(&mut buf, 0, None);
        reflector.handle_datagram(now, arrival(client(), 0), &buf[..len]);
        for (_, bytes) in answers(&mut reflector) {
            match ServerMessage::decode(&bytes, None) {
                Ok(ServerMessage::Reply { reply, .. }) => {
                    (answered, last_count) = (answered + 1, reply.throttled)
                }
                Ok(ServerMessage::Refused {
                    reason: Refusal::Rate(500_000),
                    ..
                }) => told += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    assert!((3_900..4_200).contains(&answered), "{answered}");
    assert!((1..=11).contains(&told), "{told}");
    assert!(last_count > 1_000, "{last_count}");
}

#[test]
fn a_probe_that_the_server_would_not_answer_is_not_called_lost_on_the_way() {
    let mut pair = Pair::new(ms(1), ms(500));
    // What it was granted is used up by somebody else's datagrams in this session.
    pair.throttle = 200..300;
    pair.run(Time::from_millis(400), Time::from_secs(3));
    let rows = pair.finish();
    let fates = |range: std::ops::Range<i64>| -> Vec<Status> {
        range.map(|seq| rows[&seq][0].status).collect()
    };
    let throttled = fates(210..290);
    assert!(
        throttled
            .iter()
            .all(|s| matches!(s, Status::Lost | Status::Invalid)),
        "{throttled:?}"
    );
    assert!(fates(0..190).iter().all(|&s| s == Status::Ok));
    assert!(pair.session.stats().throttled >= 80);
}

#[test]
fn a_train_is_held_until_it_is_complete_and_then_released_at_once() {
    let mut reflector = new_reflector(Budget::default(), None);
    let grant = shake(&mut reflector, client(), None, ask(ms(10))).unwrap();
    let mut buf = [0u8; MAX_LEN];
    let mut send = |reflector: &mut Reflector, train: u16, index: u8, at: Time| {
        let len = ClientMessage::Train {
            token: grant.token,
            train,
            index,
            count: 4,
        }
        .encode(&mut buf, 1172, None);
        reflector.handle_datagram(at, arrival(client(), at.as_nanos() as i64), &buf[..len]);
        answers(reflector).len()
    };
    let sent: Vec<usize> = (0..4u8)
        .map(|i| send(&mut reflector, 1, i, Time::from_millis(10 * u64::from(i))))
        .collect();
    assert_eq!(sent, [0, 0, 0, 4]);
    // One of the second train is lost: what came is released after a while.
    let sent: Vec<usize> = [0, 1, 3]
        .map(|i| send(&mut reflector, 2, i, Time::from_secs(1)))
        .into();
    assert_eq!(sent, [0, 0, 0]);
    while let Some(t) = reflector.next_wakeup().filter(|&t| t < Time::from_secs(2)) {
        reflector.handle_timeout(t);
    }
    let held = answers(&mut reflector);
    assert_eq!(
        held.iter()
            .map(|(_, bytes)| bytes.len())
            .collect::<Vec<_>>(),
        [1172; 3]
    );
}

fn fate(worst_ms: u64) -> impl Strategy<Value = Fate> {
    let delay = (0..worst_ms * 1_000).prop_map(Duration::from_micros);
    prop_oneof![
        7 => prop::collection::vec(delay.clone(), 1..2),
        1 => prop::collection::vec(delay, 2..4),
        2 => Just(Vec::new()),
    ]
}

proptest! {
    #[test]
    fn every_probe_s_fate_is_told_once_and_what_is_told_is_true(
        up in prop::collection::vec(fate(40), 300),
        down in prop::collection::vec(fate(40), 400),
        interval_ms in 2u64..30,
    ) {
        let mut pair = Pair::new(ms(interval_ms), ms(1_000));
        (pair.up, pair.down) = (up.into(), down.into());
        let last = Time::from_millis(interval_ms * 300);
        pair.run(last, last + ms(5_000));
        let rows = pair.finish();
        prop_assert_eq!(rows.len(), pair.truth.len());
        let last_answered = pair.truth.iter().filter(|(_, t)| t.arrived_down > 0).map(|(&s, _)| s).max().unwrap_or(-1);
        for (seq, truth) in &pair.truth {
            let (duplicates, fates): (Vec<&Delay>, Vec<&Delay>) = rows[seq].iter().partition(|d| d.status == Status::Duplicate);
            prop_assert_eq!(fates.len(), 1);
            prop_assert_eq!(duplicates.len(), truth.arrived_down.saturating_sub(1) as usize);
            let told = fates[0].status;
            match (truth.arrived_up, truth.arrived_down) {
                (0, _) => prop_assert!(matches!(told, Status::LostUp | Status::Lost), "{} was lost on the way up: {:?}", seq, told),
                (_, 0) => prop_assert!(matches!(told, Status::LostDown | Status::Lost), "{} was lost on the way down: {:?}", seq, told),
                _ => prop_assert_eq!(told, Status::Ok),
            }
            // With ten answered probes in the 64 after it and enough time for stragglers there is evidence.
            let later = pair.truth.range(seq + 26..seq + 60).filter(|(_, t)| t.arrived_down > 0).count();
            prop_assert!(told != Status::Lost || later < 10 || last_answered < seq + 60, "{} has no direction", seq);
            if told == Status::Ok {
                let rtt = fates[0].rtt_ns.unwrap();
                prop_assert!((0..=80_005_000).contains(&rtt), "{}", rtt);
            }
        }
        let stats = pair.session.stats();
        prop_assert_eq!(stats.sent, stats.received + stats.lost + stats.lost_up + stats.lost_down);
    }

    #[test]
    fn an_answer_is_never_larger_than_what_asked_for_it(
        bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..12, forge in 0..4, len in 0usize..1600, keyed: bool,
    ) {
        let mut reflector = new_reflector(Budget::default(), keyed.then_some(1));
        let shaken = shake_with(&mut reflector, client(), keyed.then(|| anna(1)), ask(ms(10)));
        let (grant, keys) = shaken.unwrap();
        let key = keys.map(|k| k.up);
        let mut buf = [0u8; MAX_LEN];
        let token = grant.token;
        let datagram = match forge {
            0 => bytes,
            1 => {
                let mut bytes = bytes;
                bytes.splice(0..bytes.len().min(4), [b'T', b'b', 2, kind]);
                bytes
            }
            2 => {
                let n = ClientMessage::Request { token, seq: 3, sent_ns: 0 }.encode(&mut buf, len.clamp(datagram_len(key.as_ref()), MAX_LEN), key.as_ref());
                buf[..len.min(n)].to_vec()
            }
            _ => {
                let n = ClientMessage::Train { token, train: 1, index: 0, count: 1 }.encode(&mut buf, len.clamp(datagram_len(key.as_ref()), MAX_LEN), key.as_ref());
                buf[..len.min(n)].to_vec()
            }
        };
        reflector.handle_datagram(Time::from_secs(1), arrival(client(), 0), &datagram);
        let said: usize = answers(&mut reflector).iter().map(|(_, b)| b.len()).sum();
        prop_assert!(said <= datagram.len(), "{} bytes brought {}", datagram.len(), said);
    }
}
