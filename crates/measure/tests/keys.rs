//! Attacks on sessions of probes that have a key: replay, reflection, forged answers, wrong keys, keys that are removed.
//! Seeds are printed; KEYS_SEED repeats one.

use base::rng::{Rng, Streams};
use base::{Duration, Time};
use measure::account::Account;
use measure::handshake::{Failure, Handshake};
use measure::keys::{Credential, KeyFile, Secret, SessionKeys, Tickets, UserKey, Users};
use measure::ledger::Slots;
use measure::reflector::{self, Budget, Reflector};
use measure::session::{Arrival, Params, Session};
use measure::wire::{Ask, ClientMessage, Grant, MAX_LEN, Refusal, ServerMessage};
use rand::RngExt as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn random(name: &str) -> Rng {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), name);
    let given = std::env::var("KEYS_SEED").ok().and_then(|s| s.parse().ok());
    let seed = given.unwrap_or(fresh);
    eprintln!("{name}: KEYS_SEED={seed}");
    Streams::new(seed).stream(name)
}

fn hex(key: u8) -> String {
    format!("{key:02x}").repeat(32)
}

fn users(lines: &str) -> Option<Arc<Users>> {
    let file = KeyFile::parse(lines).expect("good lines");
    Some(Arc::new(Users::new(&file, [5; 48], None)))
}

fn credential(name: &str, key: u8) -> Credential {
    Credential::new(name, Secret::Key(UserKey([key; 32])))
}

fn reflector(lines: &str) -> Reflector {
    Reflector::new(Budget::default(), users(lines), [7; 32], b"boot", 1)
}

fn client(n: u8) -> SocketAddr {
    ([192, 0, 2, n], 4000).into()
}

fn arrival(from: SocketAddr, now: Time) -> reflector::Arrival {
    reflector::Arrival {
        from,
        local: None,
        rx_ns: now.as_nanos() as i64,
        kernel: true,
        tos: Some(0),
    }
}

fn answers(reflector: &mut Reflector, now: Time) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut out = [0u8; MAX_LEN];
    std::iter::from_fn(|| {
        let sent = reflector.poll_transmit(now.as_nanos() as i64, &mut out)?;
        Some((sent.to, out[..sent.len].to_vec()))
    })
    .collect()
}

/// A path without loss or delay, and everything that passed over it.
struct Shaken {
    grant: Grant,
    keys: SessionKeys,
    up: Vec<Vec<u8>>,
    down: Vec<Vec<u8>>,
    at: Time,
}

fn shake(
    reflector: &mut Reflector,
    now: Time,
    from: SocketAddr,
    nonce: u64,
    key: Credential,
) -> Result<Shaken, Failure> {
    let ask = Ask {
        interval_ns: 10_000_000,
        duration_s: 0,
        tos: 0,
        boot_proof: 0,
    };
    let mut handshake = Handshake::new(now, nonce, ask, Some(key), Duration::from_secs(5));
    let (mut up, mut down, mut out) = (Vec::new(), Vec::new(), [0u8; MAX_LEN]);
    let mut at = now;
    while let Some(now) = handshake.next_wakeup() {
        at = now;
        handshake.handle_timeout(now);
        reflector.handle_timeout(now);
        while let Some(len) = handshake.poll_transmit(now, &mut out) {
            up.push(out[..len].to_vec());
            reflector.handle_datagram(now, arrival(from, now), &out[..len]);
        }
        for (_, bytes) in answers(reflector, now) {
            handshake.handle_datagram(now, &bytes);
            down.push(bytes);
        }
    }
    let outcome = handshake.outcome().expect("no wake-up is left");
    outcome.map(|grant| Shaken {
        grant,
        keys: handshake.keys().expect("a session with a key has keys"),
        up,
        down,
        at,
    })
}

fn session(shaken: &Shaken, now: Time) -> Session {
    let params = Params {
        lost_after: Duration::from_secs(2),
        kept_for: Duration::from_secs(3),
        origin_unix_ns: 0,
        target: "udp".into(),
        keys: Some(shaken.keys.clone()),
        grant: shaken.grant,
        capacity: 4096,
    };
    let interval = Duration::from_millis(10);
    Session::new(params, Slots::new(now + interval, interval, 0))
}

fn here(at: Time) -> Arrival {
    Arrival {
        at,
        kernel: true,
        steady: true,
        tos: Some(0),
    }
}

/// An honest session of some seconds beside an attacker who sees everything, and sends everything that it has seen, at
/// random times, to both ends, changed or unchanged: the figures of the session are those of the path.
#[test]
fn replays_reflections_and_forgeries_bend_no_figure() {
    let mut rng = random("replays");
    for round in 0..20 {
        let mut reflector = reflector(&format!("anna {}\nbert {}", hex(1), hex(2)));
        let other = shake(
            &mut reflector,
            Time::ZERO,
            client(9),
            7,
            credential("bert", 2),
        );
        let mut seen_up = other.expect("a session").up;
        let mut seen_down = Vec::new();
        let shaken = shake(
            &mut reflector,
            Time::ZERO,
            client(1),
            8,
            credential("anna", 1),
        );
        let shaken = shaken.expect("a session");
        let mut honest = session(&shaken, shaken.at);
        seen_up.extend(shaken.up.iter().cloned());
        seen_down.extend(shaken.down.iter().cloned());
        let (mut now, mut out) = (shaken.at, [0u8; MAX_LEN]);
        let mut sent = 0u64;
        for _ in 0..3000 {
            now += Duration::from_millis(1);
            honest.handle_timeout(now);
            reflector.handle_timeout(now);
            while let Some((seq, len)) = honest.poll_transmit(now, &mut out) {
                honest.handle_sent(seq, now, now);
                sent += 1;
                let bytes = out[..len].to_vec();
                reflector.handle_datagram(now, arrival(client(1), now), &bytes);
                seen_up.push(bytes);
            }
            let answered = answers(&mut reflector, now);
            for (to, bytes) in answered {
                assert_eq!(to, client(1));
                let at = now + Duration::from_micros(100);
                honest.handle_datagram(at, here(at), &bytes);
                seen_down.push(bytes);
            }
            for _ in 0..rng.random_range(0..3) {
                let mut pick = |from: &[Vec<u8>]| from[rng.random_range(0..from.len())].clone();
                let mut bytes = match round % 2 {
                    0 => pick(&seen_up),
                    _ => pick(&seen_down),
                };
                if rng.random_range(0..3) == 0 {
                    let i = rng.random_range(0..bytes.len());
                    bytes[i] ^= 1 << rng.random_range(0..8u32);
                }
                // To the server, and back to the client that may have said it.
                reflector.handle_datagram(now, arrival(client(1), now), &bytes);
                let at = now + Duration::from_micros(200);
                honest.handle_datagram(at, here(at), &bytes);
            }
        }
        assert_eq!(honest.ended(), None, "nobody but the server ends a session");
        let stats = honest.stats();
        assert_eq!((stats.sent, stats.received), (sent, sent));
        assert_eq!(
            stats.lost + stats.lost_up + stats.lost_down + stats.invalid,
            0
        );
        assert_eq!(
            stats.throttled, 0,
            "replays are not on the client's account"
        );
        assert!(stats.untrusted > 0 || reflector.stats().replayed > 0);
        // A copy may be the path's. Each number has three at most at the client.
        assert!(stats.duplicates <= 3 * sent, "{}", stats.duplicates);
    }
}

#[test]
fn a_copy_is_answered_once_and_no_more() {
    let mut reflector = reflector(&format!("anna {}", hex(1)));
    let shaken = shake(
        &mut reflector,
        Time::ZERO,
        client(1),
        8,
        credential("anna", 1),
    );
    let Shaken {
        grant, keys, at, ..
    } = shaken.expect("a session");
    let request = |seq: u32| {
        let mut out = [0u8; MAX_LEN];
        let message = ClientMessage::Request {
            token: grant.token,
            seq,
            sent_ns: 0,
        };
        let len = message.encode(&mut out, 0, Some(&keys.up));
        out[..len].to_vec()
    };
    let mut count = |seq, copies| {
        for _ in 0..copies {
            reflector.handle_datagram(at, arrival(client(1), at), &request(seq));
        }
        answers(&mut reflector, at).len()
    };
    assert_eq!(count(7, 100), 2);
    assert_eq!(count(8, 1), 1);
    assert_eq!(count(5000, 1), 1);
    assert_eq!(count(8, 5), 0, "too old to tell");
    assert_eq!(reflector.stats().replayed, 98 + 5);
    assert_eq!(reflector.stats().throttled, 0);
}

/// A recorded way into a session opens none for anybody else, and no datagram of one session is worth anything in the next.
#[test]
fn a_recorded_session_is_worth_nothing_later() {
    let mut reflector = reflector(&format!("anna {}", hex(1)));
    let first = shake(
        &mut reflector,
        Time::ZERO,
        client(1),
        8,
        credential("anna", 1),
    );
    let first = first.expect("a session");
    let mut out = [0u8; MAX_LEN];
    let close = ClientMessage::Close {
        token: first.grant.token,
    };
    let len = close.encode(&mut out, 0, Some(&first.keys.up));
    let closing = out[..len].to_vec();
    reflector.handle_datagram(first.at, arrival(client(1), first.at), &closing);
    assert_eq!(reflector.sessions(), 0);
    // The same nonce, the same cookie: yet another token, and so other keys.
    let again = shake(
        &mut reflector,
        first.at,
        client(1),
        8,
        credential("anna", 1),
    );
    let again = again.expect("a session");
    assert_ne!(first.grant.token, again.grant.token);
    let mut old = closing.clone();
    old[4..12].copy_from_slice(&again.grant.token.to_be_bytes());
    for bytes in [&closing, &old] {
        reflector.handle_datagram(again.at, arrival(client(1), again.at), bytes);
    }
    assert_eq!(reflector.sessions(), 1, "the session stays open");
    for bytes in &first.down {
        assert!(ServerMessage::decode(bytes, Some(&again.keys.down)).is_err());
    }
}

#[test]
fn a_forged_refusal_ends_no_session_that_is_alive() {
    let mut reflector = reflector(&format!("anna {}", hex(1)));
    let shaken = shake(
        &mut reflector,
        Time::ZERO,
        client(1),
        8,
        credential("anna", 1),
    );
    let shaken = shaken.expect("a session");
    let mut honest = session(&shaken, shaken.at);
    let mut out = [0u8; MAX_LEN];
    let reasons = [
        Refusal::NoSession,
        Refusal::DurationOver,
        Refusal::Rate(1),
        Refusal::WrongKey,
    ];
    let mut refuse = |honest: &mut Session, now, reason| {
        let message = ServerMessage::Refused {
            id: shaken.grant.token,
            seq: 0,
            reason,
        };
        let len = message.encode(&mut out, 0, None);
        honest.handle_datagram(now, here(now), &out[..len]);
        honest.ended()
    };
    let soon = shaken.at + Duration::from_millis(900);
    for reason in reasons {
        assert_eq!(refuse(&mut honest, soon, reason), None);
    }
    assert_eq!(honest.stats().untrusted, 4);
    // A server that was restarted cannot sign: it is believed once nothing else has come for a second.
    let late = shaken.at + Duration::from_secs(2);
    for reason in &reasons[1..] {
        assert_eq!(refuse(&mut honest, late, *reason), None);
    }
    let ended = refuse(&mut honest, late, Refusal::NoSession);
    assert_eq!(ended, Some(Refusal::NoSession));
}

/// A storm of guesses from one network: each answer is a second late, few are given, and another network comes in at
/// once; the same network within a second or two.
#[test]
fn wrong_keys_are_answered_late_and_rarely_and_keep_nobody_out() {
    let mut reflector = reflector(&format!("anna {}", hex(1)));
    let mut out = [0u8; MAX_LEN];
    let (mut now, mut told, mut brought) = (Time::ZERO, Vec::new(), 0);
    let challenged = |reflector: &mut Reflector, now, from, nonce| {
        let mut out = [0u8; MAX_LEN];
        let len = ClientMessage::Hello { nonce }.encode(&mut out, 0, None);
        reflector.handle_datagram(now, arrival(from, now), &out[..len]);
        match ServerMessage::decode(&answers(reflector, now)[0].1, None) {
            Ok(ServerMessage::Challenge { cookie, salt, .. }) => (cookie, salt),
            other => panic!("{other:?}"),
        }
    };
    for guess in 0..5_000u64 {
        now += Duration::from_millis(1);
        reflector.handle_timeout(now);
        told.extend(
            answers(&mut reflector, now)
                .into_iter()
                .map(|(_, b)| (now, b.len())),
        );
        let from = client((guess % 200) as u8);
        let (cookie, salt) = challenged(&mut reflector, now, from, guess);
        let name = if guess % 2 == 0 { "anna" } else { "nobody" };
        let key = credential(name, 99);
        let open = ClientMessage::Open {
            nonce: guess,
            cookie,
            ask: Ask {
                interval_ns: 10_000_000,
                duration_s: 0,
                tos: 0,
                boot_proof: 0,
            },
            user: Some(key.id(&salt)),
        };
        let len = open.encode(&mut out, 0, Some(&key.key(&salt).opening()));
        reflector.handle_datagram(now, arrival(from, now), &out[..len]);
        brought += len;
        assert!(
            answers(&mut reflector, now).is_empty(),
            "none is told at once"
        );
    }
    assert!((5..=11).contains(&told.len()), "{} in 5 s", told.len());
    assert!(told[0].0 >= Time::from_millis(1_001));
    assert!(told.iter().map(|(_, len)| len).sum::<usize>() < brought);
    assert_eq!(reflector.sessions(), 0);
    let elsewhere: SocketAddr = ([198, 51, 100, 1], 4000).into();
    let honest = shake(&mut reflector, now, elsewhere, 1, credential("anna", 1));
    assert_eq!(honest.expect("a session").at, now, "at once");
    let honest = shake(&mut reflector, now, client(201), 1, credential("anna", 1));
    assert!(honest.expect("a session").at <= now + Duration::from_secs(2));
}

#[test]
fn a_key_that_is_removed_ends_its_sessions_and_no_others() {
    let both = format!("anna {}\nanna {}\nbert {}", hex(1), hex(3), hex(2));
    let mut reflector = reflector(&both);
    let open = |reflector: &mut Reflector, n: u8, name: &str, key: u8| {
        let from = client(n);
        let nonce = u64::from(n);
        shake(reflector, Time::ZERO, from, nonce, credential(name, key)).map(|s| s.grant.token)
    };
    let old = open(&mut reflector, 1, "anna", 1).expect("the old key");
    let new = open(&mut reflector, 2, "anna", 3).expect("the new key");
    let bert = open(&mut reflector, 3, "bert", 2).expect("another user");
    assert!(old != new && new != bert);
    assert_eq!(reflector.sessions(), 3);
    reflector.set_users(users(&format!("anna {}\nbert {}", hex(3), hex(2))));
    reflector.end_invalid(0);
    assert_eq!(reflector.sessions(), 2);
    assert_eq!(
        open(&mut reflector, 4, "anna", 1),
        Err(Failure::Refused(Refusal::WrongKey))
    );
    let expiring = format!("anna {} until=1970-01-02\nbert {}", hex(3), hex(2));
    reflector.set_users(users(&expiring));
    reflector.end_invalid(86_400);
    assert_eq!(reflector.sessions(), 2);
    reflector.end_invalid(2 * 86_400);
    assert_eq!(reflector.sessions(), 1, "bert's");
}

/// A request that repeats that of a session with keys, but has no signature, gets a session of its own: an answer of the
/// signed one would be longer than the question.
#[test]
fn an_unsigned_request_has_no_part_in_a_signed_session() {
    let tickets = Tickets::new(b"a server");
    let server = Reflector::new(Budget::default(), None, [7; 32], b"boot", 1);
    let mut reflector = server.with_tickets(Some(tickets.clone()));
    let ticket = Credential::of_ticket(tickets.ticket([3; 16]));
    let shaken = shake(&mut reflector, Time::ZERO, client(1), 8, ticket).expect("a session");
    let challenge = ServerMessage::decode(&shaken.down[0], None);
    let Ok(ServerMessage::Challenge { cookie, .. }) = challenge else {
        panic!("no challenge: {challenge:?}");
    };
    let open = ClientMessage::Open {
        nonce: 8,
        cookie,
        ask: Ask {
            interval_ns: 10_000_000,
            duration_s: 0,
            tos: 0,
            boot_proof: 0,
        },
        user: None,
    };
    let mut out = [0u8; MAX_LEN];
    let len = open.encode(&mut out, 0, None);
    reflector.handle_datagram(shaken.at, arrival(client(1), shaken.at), &out[..len]);
    let answers = answers(&mut reflector, shaken.at);
    let [(_, answer)] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert!(answer.len() <= len, "{} for {len}", answer.len());
    match ServerMessage::decode(answer, None) {
        Ok(ServerMessage::Opened { grant, .. }) => assert_ne!(grant.token, shaken.grant.token),
        other => panic!("{other:?}"),
    }
}

/// A client that is no user and has a ticket: its session is signed, and only the server that gave it can sign.
#[test]
fn a_ticket_signs_the_probes_of_a_client_that_is_no_user() {
    let mut rng = random("tickets");
    let tickets = Tickets::new(&rng.random::<[u8; 32]>());
    let open = || Reflector::new(Budget::default(), None, [7; 32], b"boot", 1);
    let credential = |tickets: &Tickets, id| Credential::of_ticket(tickets.ticket(id));
    let mut reflector = open().with_tickets(Some(tickets.clone()));
    let shaken = shake(
        &mut reflector,
        Time::ZERO,
        client(1),
        8,
        credential(&tickets, rng.random()),
    );
    let shaken = shaken.expect("a session");
    let mut honest = session(&shaken, shaken.at);
    let (mut now, mut out) = (shaken.at, [0u8; MAX_LEN]);
    for _ in 0..200 {
        now += Duration::from_millis(10);
        while let Some((seq, len)) = honest.poll_transmit(now, &mut out) {
            honest.handle_sent(seq, now, now);
            reflector.handle_datagram(now, arrival(client(1), now), &out[..len]);
        }
        for (_, bytes) in answers(&mut reflector, now) {
            // Every answer twice: once with a bit of it turned.
            let mut forged = bytes.clone();
            let at = rng.random_range(0..forged.len());
            forged[at] ^= 1 << rng.random_range(0..8u32);
            honest.handle_datagram(now, here(now), &forged);
            honest.handle_datagram(now, here(now), &bytes);
        }
        honest.handle_timeout(now);
        reflector.end_invalid(now.as_nanos() as i64 / 1_000_000_000);
    }
    let stats = honest.stats();
    assert!(
        stats.received >= 199 && honest.ended().is_none(),
        "{stats:?}"
    );
    assert!(stats.untrusted + stats.stray >= 199, "{stats:?}");
    // A ticket of another server, a server without tickets, one with users.
    let other = Tickets::new(b"another server");
    let mut with = open().with_tickets(Some(tickets.clone()));
    let refused = |why| Some(Failure::Refused(why));
    let id = rng.random();
    let outcome = shake(&mut with, Time::ZERO, client(2), 9, credential(&other, id));
    assert_eq!(outcome.err(), refused(Refusal::WrongKey));
    let outcome = shake(
        &mut open(),
        Time::ZERO,
        client(2),
        9,
        credential(&tickets, id),
    );
    assert_eq!(outcome.err(), refused(Refusal::NoKey));
    let mut keyed =
        self::reflector(&format!("anna {}", hex(1))).with_tickets(Some(tickets.clone()));
    let outcome = shake(
        &mut keyed,
        Time::ZERO,
        client(2),
        9,
        credential(&tickets, id),
    );
    assert_eq!(outcome.err(), Some(Failure::KeyNeeded));
    // Users come: the session of a ticket ends.
    reflector.set_users(users(&format!("anna {}", hex(1))));
    reflector.end_invalid(0);
    assert_eq!(reflector.sessions(), 0);
}

/// Probes and answers are charged to the user, from whatever address, until the bytes of the hour are used up.
#[test]
fn probes_are_on_the_account_of_their_user() {
    let spent = Arc::<AtomicU64>::default();
    let (its, limit) = (spent.clone(), 20_000);
    let mut reflector = reflector(&format!("anna {}\nbert {}", hex(1), hex(2)));
    reflector = reflector.with_accounts(Box::new(move |_, user| match user {
        Some(name) if &**name == "anna" => Account::new(vec![(its.clone(), limit)]),
        _ => Account::default(),
    }));
    let mut refused = None;
    let mut received = 0;
    for (n, name) in [(1, "anna"), (2, "anna"), (3, "bert")] {
        let key = if name == "anna" { 1 } else { 2 };
        let credential = credential(name, key);
        let shaken = shake(
            &mut reflector,
            Time::ZERO,
            client(n),
            u64::from(n),
            credential,
        );
        let shaken = match shaken {
            Ok(shaken) => shaken,
            Err(e) => {
                assert_eq!((n, e), (2, Failure::Refused(Refusal::Spent)));
                refused = Some(n);
                continue;
            }
        };
        let mut honest = session(&shaken, shaken.at);
        let (mut now, mut out) = (shaken.at, [0u8; MAX_LEN]);
        for _ in 0..300 {
            now += Duration::from_millis(10);
            while let Some((seq, len)) = honest.poll_transmit(now, &mut out) {
                honest.handle_sent(seq, now, now);
                reflector.handle_datagram(now, arrival(client(n), now), &out[..len]);
            }
            for (_, bytes) in answers(&mut reflector, now) {
                honest.handle_datagram(now, here(now), &bytes);
            }
            honest.handle_timeout(now);
        }
        if name == "anna" {
            assert_eq!(honest.ended(), Some(Refusal::Spent));
            received = honest.stats().received;
        } else {
            assert!(honest.ended().is_none() && honest.stats().received > 290);
        }
    }
    assert_eq!(refused, Some(2), "nor from another address");
    // 68 bytes each way, header and tag included.
    assert_eq!(received, limit / (2 * 68));
    assert!(spent.load(Ordering::Relaxed) <= limit + 2 * 68);
}
