//! A monitor's session over a day of virtual time, with everything that happens to one injected: outages that
//! drop and outages that hold packets back, a server that restarts and one that is away, a host that sleeps,
//! a process that is stopped, a wall clock that is set, addresses that change, loss, duplicates, overtaking.
//! Not one probe may be missing, and not one delay bent.

use base::record::{Row, Status};
use base::rng::{Rng, Streams, uniform};
use base::{Duration, Time};
use measure::keys::{Credential, KeyFile, Secret, UserKey, Users};
use measure::lasting::{Lasting, Params, Transmit};
use measure::ledger::Slots;
use measure::reflector::{Arrival as FarArrival, Budget, Reflector};
use measure::session::Arrival;
use measure::wire::MAX_LEN;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

const ORIGIN: i64 = 1_795_000_000_000_000_000;
const INTERVAL: Duration = Duration::from_millis(100);
const HOUR: u64 = 3600;

fn secs(s: u64) -> Time {
    Time::from_secs(s)
}

enum Packet {
    Up(Vec<u8>, SocketAddr),
    Down(Vec<u8>, SocketAddr),
}

/// Both ends and what lies between them.
struct Day {
    now: Time,
    lasting: Lasting,
    server: Reflector,
    keyed: bool,
    servers: u8,
    client: SocketAddr,
    /// Where the network sends what comes from the client.
    nat: SocketAddr,
    air: BTreeMap<(Time, u64), Packet>,
    order: u64,
    rng: Rng,
    /// Up to when the line holds packets back, and up to when it drops them.
    held_until: Time,
    dark_until: Time,
    server_away_until: Time,
    /// The truth: when each probe was sent, and the round trips of its answers.
    sent: BTreeMap<u64, Time>,
    rtts: BTreeMap<u64, Vec<i64>>,
    /// The process does not run until then.
    stopped_until: Time,
    /// Wall time was set within this look: its stamps are ambiguous.
    unsteady: bool,
    rows: Vec<Row>,
}

/// A server that has been started for the `number`th time; its salt is another one each time.
fn server(number: u8, keyed: bool) -> Reflector {
    let users = keyed.then(|| {
        let line = format!("anna {}", "11".repeat(32));
        let file = KeyFile::parse(&line).expect("a good line");
        Arc::new(Users::new(&file, [number; 48], None))
    });
    Reflector::new(Budget::default(), users, [number; 32], b"far", ORIGIN)
}

impl Day {
    fn new(seed: u64, keyed: bool) -> Day {
        let streams = Streams::new(seed);
        let params = Params {
            lost_after: Duration::from_secs(10),
            kept_for: Duration::from_secs(180),
            origin_unix_ns: ORIGIN,
            host_origin_unix_ns: ORIGIN,
            target: "udp".into(),
            key: keyed.then(|| Credential::new("anna", Secret::Key(UserKey([0x11; 32])))),
            awaits_key: false,
            tos: 0,
            boot_id: b"near".to_vec(),
            capacity: 16_384,
        };
        let slots = Slots::new(Time::ZERO, INTERVAL, 0).spread(seed);
        let client: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        Day {
            now: Time::ZERO,
            lasting: Lasting::new(params, Time::ZERO, slots, streams.stream("nonce")),
            server: server(1, keyed),
            keyed,
            servers: 1,
            client,
            nat: client,
            air: BTreeMap::new(),
            order: 0,
            rng: streams.stream("path"),
            held_until: Time::ZERO,
            dark_until: Time::ZERO,
            server_away_until: Time::ZERO,
            sent: BTreeMap::new(),
            rtts: BTreeMap::new(),
            stopped_until: Time::ZERO,
            unsteady: false,
            rows: Vec::new(),
        }
    }

    fn fly(&mut self, at: Time, packet: Packet) {
        self.order += 1;
        self.air.insert((at, self.order), packet);
    }

    /// When a packet that leaves now arrives; `None` if it never does.
    fn arrival(&mut self) -> Option<Time> {
        let jitter = Duration::from_nanos((uniform(&mut self.rng) * 30e6) as u64);
        let lost = uniform(&mut self.rng) < 0.005 || self.now < self.dark_until;
        (!lost).then_some(self.now.max(self.held_until) + Duration::from_millis(10) + jitter)
    }

    fn send_what_is_due(&mut self) {
        let mut out = [0; MAX_LEN];
        while let Some(t) = self.lasting.poll_transmit(self.now, &mut out) {
            let len = match t {
                Transmit::Greeting(len) => len,
                Transmit::Probe { seq, len } => {
                    self.lasting.handle_sent(seq, self.now, self.now);
                    self.sent.insert(seq, self.now);
                    len
                }
            };
            if let Some(at) = self.arrival() {
                self.fly(at, Packet::Up(out[..len].to_vec(), self.nat));
            }
        }
        while let Some(row) = self.lasting.poll_row() {
            self.rows.push(row);
        }
    }

    fn at_server(&mut self, bytes: &[u8], from: SocketAddr) {
        if self.now < self.server_away_until {
            // Its host says so, if the line is up.
            if from == self.client {
                self.lasting.note_trouble(self.now, "nothing listens there");
            }
            return;
        }
        let rx_ns = ORIGIN + self.now.as_nanos() as i64;
        // A probe's number follows the front, whether it is signed or not.
        let is_probe = bytes[3] & 0x7f == 6;
        let number = bytes[12..].first_chunk().filter(|_| is_probe);
        let seq = number.map(|n| u64::from(u32::from_be_bytes(*n)));
        let arrival = FarArrival {
            from,
            local: None,
            rx_ns,
            kernel: true,
            tos: Some(0),
        };
        self.server.handle_timeout(self.now);
        self.server.handle_datagram(self.now, arrival, bytes);
        let mut out = [0; MAX_LEN];
        while let Some(o) = self.server.poll_transmit(rx_ns, &mut out) {
            let copies = 1 + u8::from(uniform(&mut self.rng) < 0.001);
            for _ in 0..copies {
                let Some(at) = self.arrival() else { continue };
                if let Some(sent) = seq.and_then(|s| self.sent.get(&s)) {
                    let rtt = at.signed_since(*sent).as_nanos();
                    self.rtts.entry(seq.unwrap()).or_default().push(rtt);
                }
                self.fly(at, Packet::Down(out[..o.len].to_vec(), o.to));
            }
        }
    }

    /// Until `end`, as the clocks of both hosts have it.
    fn run(&mut self, end: Time) {
        loop {
            let wake = self.lasting.next_wakeup().unwrap_or(end);
            // A process that is stopped does nothing; its kernel goes on taking the time of what arrives.
            let wake = wake.max(self.stopped_until);
            let packet = self.air.first_key_value().map_or(end, |(k, _)| k.0);
            let next = wake.min(packet).max(self.now);
            if next >= end {
                break;
            }
            self.now = next;
            if packet <= next {
                let ((at, _), packet) = self.air.pop_first().unwrap();
                match packet {
                    Packet::Up(bytes, from) => self.at_server(&bytes, from),
                    Packet::Down(bytes, to) if to == self.nat => {
                        let arrival = Arrival {
                            at,
                            kernel: true,
                            steady: !std::mem::take(&mut self.unsteady),
                            tos: Some(0),
                        };
                        let read = self.now.max(self.stopped_until);
                        self.lasting.handle_datagram(read, arrival, &bytes);
                    }
                    // To an address that is nobody's any more.
                    Packet::Down(..) => {}
                }
            }
            if self.now >= self.stopped_until {
                self.lasting.handle_timeout(self.now);
                self.send_what_is_due();
            }
        }
        self.now = end;
    }

    fn finish(&mut self) {
        self.lasting.finish();
        while let Some(row) = self.lasting.poll_row() {
            self.rows.push(row);
        }
    }
}

#[test]
fn a_day_with_every_fault_leaves_no_probe_out_and_bends_no_delay() {
    for keyed in [false, true] {
        a_day(keyed);
    }
}

fn a_day(keyed: bool) {
    let mut day = Day::new(20260521, keyed);
    day.run(secs(2 * HOUR));
    // The line holds everything back for 154 s and then delivers it (table 15 of Borlaug 2014).
    day.held_until = secs(2 * HOUR + 154);
    day.run(secs(4 * HOUR));
    // It drops everything for 20 minutes: the server forgets us meanwhile.
    day.dark_until = secs(4 * HOUR + 1200);
    day.run(secs(6 * HOUR));
    day.servers += 1;
    day.server = server(day.servers, day.keyed);
    day.run(secs(7 * HOUR));
    day.server_away_until = secs(7 * HOUR + 300);
    day.servers += 1;
    day.server = server(day.servers, day.keyed);
    day.run(secs(8 * HOUR));
    // Asleep for an hour, between two looks; what was in the air then is gone.
    let from = day.now;
    day.now = secs(9 * HOUR);
    day.air.retain(|(at, _), _| *at >= secs(9 * HOUR));
    day.lasting.handle_sleep(from, day.now);
    day.run(secs(10 * HOUR));
    // The wall clock is set back by an hour; labels follow.
    day.unsteady = true;
    day.lasting.relabel(-3_600_000_000_000);
    day.run(secs(11 * HOUR));
    day.lasting.relabel(3_600_000_000_000);
    day.run(secs(12 * HOUR));
    // SIGSTOP for half a minute.
    day.stopped_until = secs(12 * HOUR + 30);
    day.run(secs(14 * HOUR));
    // Another address of ours, which we notice.
    day.client = "198.51.100.7:4001".parse().unwrap();
    day.nat = day.client;
    let now = day.now;
    day.lasting.handle_new_path(now, "{}".into());
    day.run(secs(16 * HOUR));
    // And one that only the network knows of: a NAT's mapping was lost.
    day.nat = "198.51.100.7:61000".parse().unwrap();
    day.run(secs(24 * HOUR));
    day.finish();

    let mut fates: BTreeMap<u64, Status> = BTreeMap::new();
    let mut told_missing = 0;
    let (mut late, mut invalid, mut not_sent, mut events) = (0, 0, 0, Vec::new());
    for row in &day.rows {
        let d = match row {
            Row::Delay(d) => d,
            Row::Event(e) => {
                if let Some(n) = e.detail.strip_prefix("{\"slots_missed\":") {
                    told_missing += n.split(',').next().unwrap().parse::<u64>().unwrap();
                }
                events.push(e.detail.to_string());
                continue;
            }
            other => panic!("{other:?}"),
        };
        let seq = d.seq as u64;
        if let Some(rtt) = d.rtt_ns {
            let truth = day.rtts.get(&seq).map_or(&[][..], Vec::as_slice);
            assert!(
                truth.contains(&rtt),
                "probe {seq}: {rtt} ns, truly {truth:?}"
            );
            let sent = ORIGIN + day.sent[&seq].as_nanos() as i64;
            assert!((d.sent_ns - sent) % 3_600_000_000_000 == 0, "probe {seq}");
        }
        if d.status == Status::Duplicate {
            continue;
        }
        late += u64::from(d.status == Status::Late);
        invalid += u64::from(d.status == Status::Invalid);
        not_sent += u64::from(d.status == Status::NotSent);
        let before = fates.insert(seq, d.status);
        assert_eq!(before, None, "probe {seq} has two fates");
        let answered_in_time = matches!(d.status, Status::Ok);
        assert!(!answered_in_time || d.rtt_ns.is_some_and(|r| r <= 10_000_000_000));
        assert_eq!(d.status == Status::NotSent, !day.sent.contains_key(&seq));
    }
    let expected = day.lasting.slots().begin().as_nanos() / INTERVAL.as_nanos();
    assert_eq!(expected, 864_000, "ten a second for a day");
    assert_eq!(
        expected,
        fates.len() as u64 + told_missing,
        "rows expected = rows recorded + rows reported missing"
    );
    assert_eq!(
        fates.last_key_value().map(|(s, _)| *s + 1),
        Some(fates.len() as u64)
    );
    // 154 s were held back: all but the last 10 s of them are late, less what is lost anyway.
    assert!((1400..=1440).contains(&late), "{late} late");
    // What was in the air when the host fell asleep, and what was stamped while the clock was set.
    assert!((1..=3).contains(&invalid), "{invalid} invalid");
    // An hour asleep, half a minute stopped, and moments without a session.
    let unused = not_sent + told_missing;
    assert!(
        (36_000 + 299..36_000 + 320).contains(&unused),
        "{unused} unused"
    );
    let says = |part: &str| events.iter().filter(|e| e.contains(part)).count();
    assert_eq!(says("\"first_seq\""), 7, "{events:#?}");
    assert!(says("session_ended_by_server") == 5, "{events:#?}");
    assert!(says("answers_again_after_ns") >= 4, "{events:#?}");
    assert_eq!(says("nothing listens there"), 1, "{events:#?}");
}

#[test]
fn a_probe_an_hour_keeps_its_session() {
    let mut day = Day::new(7, false);
    let streams = Streams::new(7);
    let params = Params {
        lost_after: Duration::from_secs(10),
        kept_for: Duration::from_secs(180),
        origin_unix_ns: ORIGIN,
        host_origin_unix_ns: ORIGIN,
        target: "udp".into(),
        key: None,
        awaits_key: false,
        tos: 0,
        boot_id: Vec::new(),
        capacity: 16_384,
    };
    let slots = Slots::new(Time::from_secs(1), Duration::from_secs(HOUR), 0);
    day.lasting = Lasting::new(params, Time::ZERO, slots, streams.stream("nonce"));
    day.run(secs(48 * HOUR));
    day.finish();
    let opened = day
        .rows
        .iter()
        .filter(|r| matches!(r, Row::Event(e) if &*e.kind == "session"));
    assert_eq!(opened.count(), 1);
    let answered = day
        .rows
        .iter()
        .filter(|r| matches!(r, Row::Delay(d) if d.rtt_ns.is_some()));
    assert!(answered.count() >= 46);
}
