//! Attacks on a server with keys and TLS, over loopback: storms of wrong keys and of handshakes, keys that change while
//! sessions run, and somebody on the path who changes what he likes.

use base::record::{Direction, Row};
use base::rng::{Rng, Streams};
use base::{Bytes, Duration};
use live::clock::Clock;
use live::listeners::Listeners;
use live::load::{Access, ForeignPlan, ForeignProbe, Load, LoadError, LoadPlan, Peer};
use live::probe::{ProbeError, ProbePlan, Prober};
use live::serve::{Budgets, Keys, PortSet, ServeConfig, Server, TlsKey};
use live::tally::Tally;
use measure::control::listen::{Place, Transport, Wanted};
use measure::control::seal::ClientEnd;
use measure::control::{GREETING_LEN, Hello, Refusal, Request, Response};
use measure::keys::{Credential, KeyFile, Pin, Secret, UserKey};
use rand::RngExt as _;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

fn random(name: &str) -> Rng {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), name);
    let given = std::env::var("KEYS_SEED").ok().and_then(|s| s.parse().ok());
    let seed = given.unwrap_or(fresh);
    eprintln!("{name}: KEYS_SEED={seed}");
    Streams::new(seed).stream(name)
}

fn line(name: &str, key: u8) -> String {
    format!("{name} {}\n", format!("{key:02x}").repeat(32))
}

fn credential(name: &str, key: u8) -> Credential {
    Credential::new(name, Secret::Key(UserKey([key; 32])))
}

fn fixed(lines: &str) -> Option<Keys> {
    Some(Keys::Fixed(KeyFile::parse(lines).expect("good lines")))
}

fn start(config: ServeConfig) -> Server {
    Server::start(ServeConfig {
        listen: vec!["0.0.0.0:0".parse().expect("an address")],
        ..config
    })
    .expect("it starts")
}

fn local(server: &Server) -> SocketAddr {
    ([127, 0, 0, 1], server.local_addr().port()).into()
}

fn peer(server: SocketAddr, key: Option<Credential>, pin: Option<Pin>) -> Peer {
    Peer {
        server,
        access: Access {
            key,
            pin,
            ..Access::default()
        },
        patience: Duration::from_secs(10),
    }
}

fn ask(peer: &Peer, request: &Request) -> Result<Response, LoadError> {
    let line = peer.connect(None)?;
    peer.ask(&line, request, &AtomicBool::new(false))
        .map(|(response, _)| response)
}

fn ms(ms: u64) -> std::time::Duration {
    std::time::Duration::from_millis(ms)
}

/// A connection from another loopback address.
fn from(ip: [u8; 4], to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((ip, 0)).into())?;
    socket.connect_timeout(&to.into(), ms(2_000))?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(ms(3_000)))?;
    Ok(stream)
}

/// One guess; true if it was answered.
fn guess(mut stream: TcpStream, n: u64) -> bool {
    let hello = Hello {
        nonce: [n as u8; 16],
    }
    .encode();
    let mut greeting = [0; GREETING_LEN];
    let key = credential(
        if n.is_multiple_of(2) {
            "anna"
        } else {
            "nobody"
        },
        99,
    );
    let asked = stream
        .write_all(&hello)
        .and_then(|()| stream.read_exact(&mut greeting));
    if asked.is_err() {
        return false;
    }
    let Ok(mut end) = ClientEnd::new(&hello, &greeting, Some(&key)) else {
        return false;
    };
    let _ = stream.write_all(&end.request(&Request::Info));
    matches!(stream.read(&mut [0; 64]), Ok(1..))
}

/// Eight threads guess keys without a pause from one network. Someone else comes in within 2 s each time, and so does
/// someone of the storm's own network.
#[test]
fn a_storm_of_wrong_keys_keeps_nobody_out_and_learns_little() {
    let server = start(ServeConfig {
        keys: fixed(&line("anna", 1)),
        ..ServeConfig::default()
    });
    let to = local(&server);
    let stop = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU64::new(0));
    let storm: Vec<_> = (0..8u8)
        .map(|i| {
            let (stop, answered) = (stop.clone(), answered.clone());
            std::thread::spawn(move || {
                let mut n = u64::from(i);
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    if let Ok(stream) = from([127, 0, 7, 1 + i], to) {
                        answered.fetch_add(u64::from(guess(stream, n)), Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    std::thread::sleep(ms(1_500));
    let began = Instant::now();
    let mut worst = std::time::Duration::ZERO;
    let honest = peer(to, Some(credential("anna", 1)), None);
    while began.elapsed() < ms(4_000) {
        let asked = Instant::now();
        assert!(matches!(
            ask(&honest, &Request::Info),
            Ok(Response::Info(_))
        ));
        worst = worst.max(asked.elapsed());
    }
    assert!(worst < ms(500), "{worst:?} from another network");
    // The storm's own network: its keys are checked a second late.
    let asked = Instant::now();
    let mut stream = from([127, 0, 7, 200], to).expect("a connection");
    let (hello, mut greeting) = (Hello { nonce: [3; 16] }.encode(), [0; GREETING_LEN]);
    stream.write_all(&hello).expect("said");
    stream.read_exact(&mut greeting).expect("greeted");
    let anna = credential("anna", 1);
    let mut end = ClientEnd::new(&hello, &greeting, Some(&anna)).expect("keys at both ends");
    stream
        .write_all(&end.request(&Request::Ping))
        .expect("asked");
    let mut pong = [0; 33];
    stream.read_exact(&mut pong).expect("answered");
    assert_eq!(end.push(&pong[..1]), Ok(None));
    assert_eq!(end.push(&pong[1..]), Ok(Some(Response::Pong)));
    assert!(asked.elapsed() < ms(2_000), "{:?}", asked.elapsed());
    stop.store(true, Ordering::Relaxed);
    storm.into_iter().for_each(|t| t.join().expect("no panic"));
    let (told, wrong) = (answered.load(Ordering::Relaxed), server.stats().wrong_keys);
    eprintln!("{wrong} guesses, {told} answered, {worst:?} at worst for others");
    assert!(wrong >= 20 && told <= 5 + 9, "{told} of {wrong}");
    server.stop();
}

fn write_keys(path: &std::path::Path, text: &str) {
    let beside = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    let made = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = made.open(&beside).expect("a scratch file");
    file.write_all(text.as_bytes()).expect("written");
    std::fs::rename(&beside, path).expect("renamed");
}

fn prober(server: SocketAddr, key: Credential) -> (Prober, Receiver<Row>) {
    let plan = ProbePlan {
        access: Access {
            key: Some(key),
            ..Access::default()
        },
        silent_after: Duration::from_millis(1_500),
        ..ProbePlan::new(server)
    };
    let (rows, taken) = channel();
    let prober = Prober::start(plan, Clock::start(), rows).expect("a session");
    (prober, taken)
}

fn load(peer: Peer, direction: Direction, udp: bool) -> (Load, Receiver<Row>) {
    let plan = LoadPlan {
        peer,
        direction,
        flows: 2,
        first_flow: 0,
        congestion: None,
        duration: Duration::from_secs(20),
        sample: Duration::from_millis(20),
        udp_rate: udp.then_some(base::BitsPerSec::from_mbps(4)),
        tally: Tally::default(),
    };
    let (rows, taken) = channel();
    let load = Load::start(plan, Clock::start(), rows).expect("a load");
    (load, taken)
}

/// The file changes while a load and probes run: those of a key that remains go on, those of one that is gone end.
#[test]
fn keys_change_while_sessions_run() {
    let folder = std::env::temp_dir().join(format!("tailback-rotation-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a scratch directory");
    let path = folder.join("keys");
    write_keys(&path, &line("anna", 1));
    let server = start(ServeConfig {
        keys: Some(Keys::File(path.clone())),
        ..ServeConfig::default()
    });
    let to = local(&server);
    let with = |name: &str, key| peer(to, Some(credential(name, key)), None);
    let (running, _rows) = load(with("anna", 1), Direction::Down, false);
    let (old, _old_rows) = prober(to, credential("anna", 1));
    assert!(ask(&with("anna", 2), &Request::Ping).is_err());
    // Both keys are valid.
    write_keys(&path, &(line("anna", 1) + &line("anna", 2)));
    std::thread::sleep(ms(1_000));
    let (new, _new_rows) = prober(to, credential("anna", 2));
    assert!(ask(&with("anna", 2), &Request::Ping).is_ok());
    assert_eq!(running.progress().alive, 2, "the load goes on");
    // A fault in the file is told, and its keys stay for a while.
    write_keys(&path, &(String::from("anna short\n") + &line("bert", 3)));
    std::thread::sleep(ms(1_000));
    let notes = server.notes().join("\n");
    assert!(
        notes.contains("line 1") && notes.contains("2 keys that the file no longer shows"),
        "{notes}"
    );
    assert!(server.stats().key_file_faulty);
    assert!(ask(&with("bert", 3), &Request::Ping).is_ok(), "a good line");
    assert!(ask(&with("anna", 2), &Request::Ping).is_ok());
    assert_eq!(running.progress().alive, 2);
    assert!(
        server
            .used()
            .iter()
            .any(|(name, bytes)| &**name == "anna" && *bytes > 0)
    );
    // The old key goes.
    write_keys(&path, &line("anna", 2));
    let began = Instant::now();
    while running.progress().alive > 0 && began.elapsed() < ms(5_000) {
        std::thread::sleep(ms(20));
    }
    let took = began.elapsed();
    assert!(
        took < ms(2_500),
        "the load of the old key ended after {took:?}"
    );
    assert!(matches!(
        ask(&with("anna", 1), &Request::Ping),
        Err(LoadError::WrongKey { .. })
    ));
    while old.health().is_ok() && began.elapsed() < ms(8_000) {
        std::thread::sleep(ms(50));
    }
    assert!(old.health().is_err(), "the probes of the old key end");
    assert!(new.health().is_ok(), "those of the new key go on");
    assert!(ask(&with("anna", 2), &Request::Ping).is_ok());
    drop((running, old, new));
    server.stop();
    let _ = std::fs::remove_dir_all(&folder);
}

/// Somebody on the path: carries bytes both ways, and changes those of the server.
fn path(to: SocketAddr, change: impl Fn(usize, &mut [u8]) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound");
    let change = Arc::new(change);
    std::thread::spawn(move || {
        for mut near in listener.incoming().flatten() {
            let Ok(mut far) = TcpStream::connect(to) else {
                continue;
            };
            let (mut up_near, mut up_far) = match (near.try_clone(), far.try_clone()) {
                (Ok(near), Ok(far)) => (near, far),
                _ => continue,
            };
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut up_near, &mut up_far);
                let _ = up_far.shutdown(Shutdown::Write);
            });
            let change = change.clone();
            std::thread::spawn(move || {
                let (mut at, mut buf) = (0, [0; 4096]);
                while let Ok(n @ 1..) = far.read(&mut buf) {
                    change(at, &mut buf[..n]);
                    at += n;
                    if near.write_all(&buf[..n]).is_err() {
                        break;
                    }
                }
                let _ = near.shutdown(Shutdown::Both);
            });
        }
    });
    at
}

/// Every bit of what the server says, one at a time: with a key or a pin, the client takes the true answer or none.
#[test]
fn nobody_on_the_path_changes_an_answer_or_takes_the_signature_away() {
    let mut rng = random("path");
    let server = start(ServeConfig {
        keys: fixed(&line("anna", 1)),
        tls: TlsKey::Fresh,
        ..ServeConfig::default()
    });
    let to = local(&server);
    let anna = || Some(credential("anna", 1));
    let truth = ask(&peer(to, anna(), None), &Request::Info).expect("an answer");
    let mut taken = 0;
    for round in 0..60 {
        let pin = (round % 2 == 1).then(|| server.pin().expect("TLS"));
        let place: usize = rng.random_range(0..if pin.is_some() { 900 } else { 140 });
        let bit = rng.random_range(0..8u32);
        let at = path(to, move |from, bytes| {
            if let Some(byte) = place.checked_sub(from).and_then(|i| bytes.get_mut(i)) {
                *byte ^= 1 << bit;
            }
        });
        let mut there = peer(at, anna(), pin);
        there.patience = Duration::from_millis(1_500);
        match ask(&there, &Request::Info) {
            Ok(answer) => {
                assert_eq!(answer, truth, "bit {bit} of byte {place}");
                taken += 1;
            }
            Err(e) => assert!(!e.to_string().is_empty()),
        }
    }
    eprintln!("{taken} of 60 were beyond the answer's end");
    assert!(taken < 40);
    // The greeting says that no key is needed.
    let at = path(to, |from, bytes| {
        if let Some(byte) = 4usize.checked_sub(from).and_then(|i| bytes.get_mut(i)) {
            *byte = 0;
        }
    });
    let e = ask(&peer(at, anna(), None), &Request::Info).expect_err("a downgrade");
    assert!(matches!(e, LoadError::NoKeyThere { .. }), "{e}");
    server.stop();
}

#[test]
fn a_pinned_client_speaks_to_one_server_only_and_never_plainly() {
    let config = |tls| ServeConfig {
        tls,
        ..ServeConfig::default()
    };
    let (server, other) = (start(config(TlsKey::Fresh)), start(config(TlsKey::Fresh)));
    let plain = start(config(TlsKey::Off));
    let pin = server.pin().expect("TLS");
    assert!(ask(&peer(local(&server), None, Some(pin)), &Request::Info).is_ok());
    let e = ask(&peer(local(&other), None, Some(pin)), &Request::Info).expect_err("another key");
    let text = e.to_string();
    assert!(matches!(e, LoadError::WrongPin { .. }), "{text}");
    for shown in [pin, other.pin().expect("TLS")] {
        assert!(text.contains(&shown.to_string()), "{text}");
    }
    let e = ask(&peer(local(&plain), None, Some(pin)), &Request::Info).expect_err("no TLS there");
    assert!(matches!(e, LoadError::Tls { .. }), "{e}");
    // Somebody answers plainly in the server's place.
    let liar = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = liar.local_addr().expect("bound");
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = liar.accept().expect("a client");
        let greeting = measure::control::Greeting {
            key_needed: false,
            nonce: [0; 16],
            salt: [0; 16],
        };
        let _ = stream.write_all(&greeting.encode());
        let _ = stream.write_all(&Response::Pong.encode());
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let e = ask(&peer(at, None, Some(pin)), &Request::Ping).expect_err("plain");
    assert!(matches!(e, LoadError::Tls { .. }), "{e}");
    thread.join().expect("no panic");
    // And a server may refuse what is plain.
    let strict = start(ServeConfig {
        tls_only: true,
        ..config(TlsKey::Fresh)
    });
    let e = ask(&peer(local(&strict), None, None), &Request::Info).expect_err("plain");
    let forbidden = Refusal::Forbidden;
    assert!(
        matches!(&e, LoadError::Refused { why, .. } if *why == forbidden),
        "{e}"
    );
    assert!(e.to_string().contains("--pin"), "{e}");
    assert!(ask(&peer(local(&strict), None, strict.pin()), &Request::Info).is_ok());
    for server in [server, other, plain, strict] {
        server.stop();
    }
}

struct Calm;

impl live::craft::Watch for Calm {
    fn progress(&mut self, _: &live::craft::Progress) {}
    fn interrupted(&mut self) -> bool {
        false
    }
}

/// Loads up and down, over TCP and UDP, trains, ports and fresh connections: inside TLS with a key as well as without.
#[test]
fn every_kind_of_request_works_inside_tls() {
    for keyed in [true, false] {
        let server = start(ServeConfig {
            keys: if keyed { fixed(&line("anna", 1)) } else { None },
            tls: TlsKey::Fresh,
            tls_only: true,
            allow_listen: PortSet::any(),
            ..ServeConfig::default()
        });
        let key = keyed.then(|| credential("anna", 1));
        let there = peer(local(&server), key, server.pin());
        for (direction, udp) in [
            (Direction::Up, false),
            (Direction::Down, false),
            (Direction::Up, true),
            (Direction::Down, true),
        ] {
            let (load, rows) = load(there.clone(), direction, udp);
            std::thread::sleep(ms(300));
            let outcome = load.stop().collect(Duration::from_secs(5));
            assert!(outcome.report_error.is_none(), "{outcome:?}");
            assert_eq!(outcome.flows.len(), 2);
            for flow in &outcome.flows {
                assert!(flow.error.is_none() && (flow.bytes > 0 || udp), "{flow:?}");
            }
            assert!(rows.try_iter().count() > 10);
        }
        let sending = |direction| base::program::Sending {
            stage: "t".into(),
            direction,
            rest: Duration::ZERO,
            programs: vec!["30 x 100@1 ms".parse().expect("a program")],
        };
        let plan = live::craft::Plan {
            peer: there.clone(),
            first_train: 0,
            budget: Bytes::new(1_000_000),
            interface: None,
            others: experiment::Others::Welcome,
            waits: false,
        };
        let (rows, _taken) = channel();
        let mut next = |trains: &[base::program::Train]| match trains.len() {
            0 => Some(sending(Direction::Up)),
            1 => Some(sending(Direction::Down)),
            _ => None,
        };
        let trains = live::craft::run(&plan, &mut next, Clock::start(), &rows, &mut Calm);
        let trains = trains.expect("two trains");
        for train in &trains {
            let both = |f: &&base::program::Fate| f.sent_ns.is_some() && f.received_ns.is_some();
            assert_eq!(train.fates.iter().filter(both).count(), 30);
        }
        let wanted = vec![Wanted::new(Transport::Tcp, Place::Here, 0)];
        let second = Duration::from_secs(1);
        let open = Listeners::open(&there, wanted, second, Tally::default()).expect("a port");
        let caller = TcpStream::connect(open.at(0).expect("open")).expect("a call");
        std::thread::sleep(ms(100));
        assert_eq!(open.report().expect("a report").len(), 1);
        drop((caller, open));
        let (rows, taken) = channel();
        let plan = ForeignPlan {
            peer: there.clone(),
            interval: Duration::from_millis(20),
            at_once: 4,
            tally: Tally::default(),
        };
        let fresh = ForeignProbe::start(plan, Clock::start(), rows).expect("a thread");
        std::thread::sleep(ms(500));
        fresh.stop();
        let answered = taken.iter().filter(
            |row| matches!(row, Row::Delay(d) if &*d.target == "tcp-request" && d.rtt_ns.is_some()),
        );
        assert!(answered.count() >= 8);
        server.stop();
    }
}

/// Connections that begin TLS, as fast as four threads can: the server takes on its bounded share, and others come in.
#[test]
fn a_flood_of_handshakes_takes_a_bounded_share() {
    let server = start(ServeConfig {
        tls: TlsKey::Fresh,
        ..ServeConfig::default()
    });
    let to = local(&server);
    let stop = Arc::new(AtomicBool::new(false));
    let pin = server.pin().expect("TLS");
    // Loopback has one network for all who do not choose their address: the flood has it, the honest one another.
    let flood: Vec<_> = (0..4)
        .map(|_| {
            let stop = stop.clone();
            std::thread::spawn(move || {
                let there = peer(to, None, Some(pin));
                while !stop.load(Ordering::Relaxed) {
                    let _ = ask(&there, &Request::Ping);
                }
            })
        })
        .collect();
    let began = Instant::now();
    std::thread::sleep(ms(3_000));
    let handshakes = server.stats().tls_handshakes;
    let seconds = began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    flood.into_iter().for_each(|t| t.join().expect("no panic"));
    eprintln!("{handshakes} handshakes in {seconds:.1} s");
    assert!(
        handshakes as f64 <= 100.0 + 25.0 * seconds + 4.0,
        "{handshakes}"
    );
    // Over plain TCP there is nothing to wait for, and another network has its own share (see `serve::tls`).
    let asked = Instant::now();
    assert!(ask(&peer(to, None, None), &Request::Ping).is_ok());
    assert!(asked.elapsed() < ms(500));
    server.stop();
}

/// Somebody on the path who sees and changes datagrams: with a pin alone, probes are signed as well.
#[test]
fn a_pin_signs_probes_over_udp() {
    let server = start(ServeConfig {
        tls: TlsKey::Fresh,
        ..ServeConfig::default()
    });
    let pin = server.pin().expect("TLS");
    let to = local(&server);
    let probe = |server, pin| {
        let plan = ProbePlan {
            access: Access {
                pin: Some(pin),
                ..Access::default()
            },
            patience: Duration::from_secs(2),
            ..ProbePlan::new(server)
        };
        let (rows, taken) = channel();
        let prober = Prober::start(plan, Clock::start(), rows)?;
        std::thread::sleep(ms(700));
        let summary = prober.stop();
        drop(taken);
        Ok::<_, ProbeError>(summary.session)
    };
    let honest = probe(to, pin).expect("a session");
    assert!(honest.received > 30 && honest.untrusted == 0, "{honest:?}");
    // TCP goes through; one datagram in two comes back changed.
    let (meddler, changed) = meddler(to);
    let bent = probe(meddler, pin).expect("a session");
    let changed = changed.load(Ordering::Relaxed);
    assert!(changed > 10, "{changed}");
    assert!(
        bent.untrusted + bent.stray + 2 >= changed,
        "{bent:?}, {changed} changed"
    );
    assert!(bent.received > 10, "{bent:?}");
    // Another pin, and a server without TLS.
    assert!(matches!(probe(to, Pin([7; 32])), Err(ProbeError::Key(_))));
    let plain = start(ServeConfig::default());
    assert!(matches!(probe(local(&plain), pin), Err(ProbeError::Key(_))));
    let refused = ask(&peer(to, None, None), &Request::Ticket).expect_err("outside TLS");
    assert!(refused.to_string().contains("--pin"), "{refused}");
}

/// Carries TCP and UDP to a server, and turns a bit in every second answer over UDP.
fn meddler(to: SocketAddr) -> (SocketAddr, Arc<AtomicU64>) {
    let changed = Arc::<AtomicU64>::default();
    loop {
        let at = path(to, |_, _| {});
        let Ok(near) = UdpSocket::bind(at) else {
            continue;
        };
        let far = UdpSocket::bind("127.0.0.1:0").expect("a port");
        far.connect(to).expect("loopback");
        let (up_near, up_far) = (
            near.try_clone().expect("ours"),
            far.try_clone().expect("ours"),
        );
        let client = Arc::<std::sync::Mutex<Option<SocketAddr>>>::default();
        let its = client.clone();
        std::thread::spawn(move || {
            let mut buf = [0; 2000];
            while let Ok((n, from)) = up_near.recv_from(&mut buf) {
                *its.lock().expect("no panic") = Some(from);
                let _ = up_far.send(&buf[..n]);
            }
        });
        let count = changed.clone();
        std::thread::spawn(move || {
            let (mut buf, mut n) = ([0; 2000], 0usize);
            while let Ok(len) = far.recv(&mut buf) {
                n += 1;
                // After the handshake.
                if n > 4 && n.is_multiple_of(2) {
                    buf[4 + n % (len - 4)] ^= 1;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                if let Some(to) = *client.lock().expect("no panic") {
                    let _ = near.send_to(&buf[..len], to);
                }
            }
        });
        return (at, changed);
    }
}

#[test]
fn probes_over_udp_are_on_the_account_of_their_user() {
    let server = start(ServeConfig {
        keys: fixed(&(line("anna", 1) + &line("bert", 2))),
        budgets: Budgets {
            bytes_per_hour: Bytes::new(20_000),
            ..Budgets::default()
        },
        ..ServeConfig::default()
    });
    let to = local(&server);
    let (bert, _bert_rows) = prober(to, credential("bert", 2));
    std::thread::sleep(ms(300));
    let used = server.used();
    let its = |name: &str| used.iter().find(|(n, _)| &**n == name).map(|(_, b)| *b);
    // Some 30 probes of 68 bytes and their answers.
    assert!(
        its("bert").is_some_and(|b| (1_500..8_000).contains(&b)),
        "{used:?}"
    );
    assert_eq!(its("anna"), None);
    let began = Instant::now();
    while bert.health().is_ok() && began.elapsed() < ms(8_000) {
        std::thread::sleep(ms(50));
    }
    let told = bert.health().expect_err("the hour's bytes are used up");
    assert!(matches!(told, ProbeError::Spent { .. }), "{told}");
    server.stop();
}
