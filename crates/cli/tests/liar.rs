//! A lying server to every verb that talks to one: each run ends with a figure or a clear error, never with a panic, and in
//! time. Once for each verb in the ordinary run; LIES=100000 goes on until each verb has heard so many lies
//! (`make liar-long`), or until LIAR_SECONDS are over. LIARS runs go on at once. LIAR_SEED repeats a run.

#[path = "../../live/tests/lies/mod.rs"]
mod lies;

use base::rng::Streams;
use measure::wire::{ClientMessage, MAX_LEN};
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::TempDir;

/// Longest run of a verb against a liar, on a host that does little else.
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
    let dir = TempDir::new("lies");
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
    // Many runs at once share the processor.
    let many = from_environment::<u64>("LIES").is_some();
    let longest = if many { LONGEST * 3 } else { LONGEST };
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            break Some(status);
        }
        if began.elapsed() > longest {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    stop.store(true, Ordering::Relaxed);
    let said = said.join().expect("it reads");
    let shown = std::fs::read(dir.join("out")).unwrap_or_default();
    let about = format!("{} with LIAR_SEED={seed}: {said}", args.join(" "));
    let status = status.unwrap_or_else(|| panic!("{longest:?} were not enough for {about}"));
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

/// A verb's share of the work.
#[derive(Default)]
struct Share {
    heard: u64,
    /// Runs that have started, and those that go on.
    runs: u64,
    going: u64,
    busy: Duration,
}

/// Runs after which a verb that has heard nothing is left: without a browser, `probe page` asks no server.
const DEAF: u64 = 3;

impl Share {
    fn is_deaf(&self) -> bool {
        self.heard == 0 && self.runs - self.going >= DEAF
    }
}

/// Notes that its thread panics.
struct Watched<'a>(&'a AtomicBool);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Verbs with what they have heard so far. Any thread runs the verb that needs it most.
struct Work {
    verbs: Vec<Vec<String>>,
    wanted: u64,
    seed: u64,
    /// No run starts after this.
    until: Instant,
    shares: Mutex<Vec<Share>>,
    /// Set once a run has failed: the others end soon.
    failed: AtomicBool,
}

impl Work {
    /// The verb to run next and the number of its run: the one that is furthest from its lies, those expected of runs that go
    /// on included.
    fn next(&self) -> Option<(usize, u64)> {
        if Instant::now() > self.until {
            return None;
        }
        let mut shares = self.shares.lock().expect("no run has failed");
        let expected = |s: &Share| {
            let each = s.heard.checked_div(s.runs - s.going).unwrap_or(self.wanted);
            s.heard + s.going * each.max(1)
        };
        let open = shares.iter().enumerate();
        let short = |s: &Share| expected(s) < self.wanted && s.runs < self.wanted;
        let open = open.filter(|(_, s)| short(s) && !s.is_deaf());
        let (verb, _) = open.min_by_key(|(_, s)| expected(s))?;
        let share = &mut shares[verb];
        (share.runs, share.going) = (share.runs + 1, share.going + 1);
        Some((verb, share.runs - 1))
    }

    /// True once no run that goes on can leave a verb short.
    fn is_done(&self) -> bool {
        let shares = self.shares.lock().expect("no run has failed");
        let late = Instant::now() > self.until;
        let enough =
            |s: &Share| late || s.is_deaf() || s.heard >= self.wanted || s.runs >= self.wanted;
        shares.iter().all(|s| s.going == 0 && enough(s))
    }

    fn work(&self) {
        let _watched = Watched(&self.failed);
        while !self.failed.load(Ordering::Relaxed) && !self.is_done() {
            let Some((verb, number)) = self.next() else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            let began = Instant::now();
            let heard = run(&self.verbs[verb], self.seed.wrapping_add(number));
            let mut shares = self.shares.lock().expect("no run has failed");
            let share = &mut shares[verb];
            share.going -= 1;
            share.heard += heard;
            share.busy += began.elapsed();
        }
    }
}

/// Processor time that this process and its children have used, s.
fn processor_s() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let of = |who| {
        let usage = getrusage(who).expect("known to every kernel");
        let s = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
        s(usage.user_time()) + s(usage.system_time())
    };
    of(UsageWho::RUSAGE_SELF) + of(UsageWho::RUSAGE_CHILDREN)
}

#[test]
fn a_liar_brings_no_verb_down() {
    let fresh = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 1);
    let seed: u64 = from_environment("LIAR_SEED").unwrap_or(fresh);
    let wanted: u64 = from_environment("LIES").unwrap_or(1);
    // Runs wait for time-outs most of the time.
    let at_once: usize = from_environment("LIARS").unwrap_or(8);
    let most: u64 = from_environment("LIAR_SECONDS").unwrap_or(86_400);
    let only: Option<String> = from_environment("LIAR_VERB");
    eprintln!("LIAR_SEED={seed}");
    let mut verbs = verbs();
    verbs.retain(|v| {
        only.as_ref()
            .is_none_or(|o| v.join(" ").contains(o.as_str()))
    });
    let shares = verbs.iter().map(|_| Share::default()).collect();
    let work = Work {
        verbs,
        wanted,
        seed,
        until: Instant::now() + Duration::from_secs(most),
        shares: Mutex::new(shares),
        failed: AtomicBool::new(false),
    };
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| work.work());
        }
    });
    let shares = work.shares.lock().expect("no run has failed");
    for (verb, share) in work.verbs.iter().zip(shares.iter()) {
        let (name, mean) = (verb.join(" "), share.busy.as_secs_f64() / share.runs as f64);
        eprintln!(
            "{name}: {} lies in {} runs of {mean:.1} s",
            share.heard, share.runs
        );
    }
    let (lies, runs) = (
        shares.iter().map(|s| s.heard).sum::<u64>(),
        shares.iter().map(|s| s.runs).sum::<u64>(),
    );
    eprintln!(
        "{lies} lies to {} verbs in {runs} runs, {:.0} s, {:.0} s of processor",
        shares.len(),
        began.elapsed().as_secs_f64(),
        processor_s()
    );
}

/// Stamps of this liar stood for a rate of a few bits a second, and one train at such a rate takes an hour.
#[test]
fn a_train_does_not_last_for_hours_because_a_server_says_so() {
    let verb = ["probe", "sizes", "SERVER", "--beside-others"].map(str::to_owned);
    run(&verb, 8_356_829_114_397_635_979);
}
