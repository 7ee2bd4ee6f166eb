//! A lying server to every verb that talks to one: each run ends with a figure or a clear error, never with a panic, and in
//! time. Once for each verb in the ordinary run; LIES=100000 goes on until each verb has heard so many lies
//! (`make liar-long`). LIAR_SEED repeats a run.

#[path = "../../live/tests/lies/mod.rs"]
mod lies;

use base::rng::Streams;
use measure::wire::{ClientMessage, MAX_LEN};
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longest run of a verb against a liar.
const LONGEST: Duration = Duration::from_secs(100);

fn from_environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Lies over UDP and TCP on one port, until told to stop.
fn lie(seed: u64, stop: &Arc<AtomicBool>, told: &Arc<AtomicU64>) -> u16 {
    let (tcp, udp) = loop {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = tcp.local_addr().expect("bound");
        if let Ok(udp) = UdpSocket::bind(at) {
            break (tcp, udp);
        }
    };
    let port = tcp.local_addr().expect("bound").port();
    let (its, count) = (stop.clone(), told.clone());
    let soon = Duration::from_millis(50);
    udp.set_read_timeout(Some(soon)).expect("a time-out");
    std::thread::spawn(move || {
        let mut rng = Streams::new(seed).stream("udp");
        let mut buf = [0; MAX_LEN];
        while !its.load(Ordering::Relaxed) {
            let Ok((n, from)) = udp.recv_from(&mut buf) else {
                continue;
            };
            let answers = match ClientMessage::decode(&buf[..n], None) {
                Ok(message) => lies::lies(&mut rng, &message),
                Err(_) => lies::load_lies(&mut rng, &buf[..n]),
            };
            for answer in answers {
                count.fetch_add(1, Ordering::Relaxed);
                let _ = udp.send_to(&answer, from);
            }
        }
    });
    let (its, count) = (stop.clone(), told.clone());
    tcp.set_nonblocking(true).expect("it can");
    std::thread::spawn(move || {
        let mut connections = 0;
        while !its.load(Ordering::Relaxed) {
            let Ok((stream, _)) = tcp.accept() else {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            };
            let _ = stream.set_nonblocking(false);
            connections += 1;
            let rng = Streams::new(seed).stream(&format!("connection {connections}"));
            let count = count.clone();
            std::thread::spawn(move || lies::talk(stream, rng, port, &count));
        }
    });
    port
}

/// Runs a verb against a fresh liar. Returns the number of lies that it heard.
fn run(verb: &[String], seed: u64) -> u64 {
    let (stop, told) = (Arc::default(), Arc::default());
    let port = lie(seed, &stop, &told);
    let dir = std::env::temp_dir().join(format!("tailback-lies-{}-{port}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let args: Vec<String> = verb
        .iter()
        .map(|word| word.replace("SERVER", &format!("127.0.0.1:{port}")))
        .collect();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tailback"))
        .args(&args)
        .current_dir(&dir)
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(dir.join("out")).expect("it is ours"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stderr = child.stderr.take().expect("piped");
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stderr, &mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break Some(status);
        }
        if began.elapsed() > LONGEST {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    stop.store(true, Ordering::Relaxed);
    let said = said.join().expect("it reads");
    let shown = std::fs::read(dir.join("out")).unwrap_or_default();
    let _ = std::fs::remove_dir_all(&dir);
    let about = format!("{} with LIAR_SEED={seed}: {said}", args.join(" "));
    let status = status.unwrap_or_else(|| panic!("{LONGEST:?} were not enough for {about}"));
    let code = status
        .code()
        .unwrap_or_else(|| panic!("{status} of {about}"));
    if std::env::var_os("LIAR_SAYS").is_some() {
        eprintln!("{about}");
    }
    assert!(code <= 3, "exit code {code} of {about}");
    assert!(!said.contains("panicked"), "{about}");
    let shown = format!("{said}{}", String::from_utf8_lossy(&shown));
    let command = |c: char| c.is_control() && !"\r\n\t".contains(c) || c == '\u{202e}';
    assert!(!shown.contains(command), "a command of a terminal: {about}");
    assert!(
        code == 0 || said.contains("tailback: "),
        "no reason: {about}"
    );
    told.load(Ordering::Relaxed)
}

/// Every verb that talks to a server.
fn verbs() -> Vec<Vec<String>> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut all = vec![
        words("test SERVER --plain --longest 3s --budget 5MB"),
        words("test SERVER --plain --longest 3s --budget 5MB --udp 2mbit --phases idle,down"),
        words("monitor SERVER --interval 20ms --duration 3s --quiet --output m.rec"),
    ];
    for spec in experiment::PROBES {
        let name = match spec.entry.name {
            // Shorter than its usual 80 s each way.
            "train" => "train:count=200",
            name => name,
        };
        all.push(words(&format!(
            "probe {name} SERVER --budget 3MB --beside-others --output r.rec"
        )));
    }
    all
}

#[test]
fn a_liar_brings_no_verb_down() {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
    let seed: u64 = from_environment("LIAR_SEED").unwrap_or(fresh);
    let wanted: u64 = from_environment("LIES").unwrap_or(1);
    let only: Option<String> = from_environment("LIAR_VERB");
    eprintln!("LIAR_SEED={seed}");
    let verbs = verbs();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(verb) = verbs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = verb.join(" ");
                    if only.as_ref().is_some_and(|o| !name.contains(o.as_str())) {
                        continue;
                    }
                    let (began, mut heard, mut runs) = (Instant::now(), 0, 0);
                    while heard < wanted && runs < wanted {
                        heard += run(verb, seed.wrapping_add(runs));
                        runs += 1;
                    }
                    let took = began.elapsed().as_secs_f64();
                    eprintln!("{name}: {heard} lies in {runs} runs, {took:.0} s");
                }
            });
        }
    });
}
