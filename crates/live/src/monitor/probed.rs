//! Targets: each one's socket around its pure half.

use super::fresh::Fresh;
use super::tls::Tls;
use super::{OpenError, Out};
use crate::clock::Clock;
use crate::load::{Access, Peer};
use crate::outlet::Outlet;
use crate::probe::host::{boot_id, random};
use crate::probe::wire::{Found, Kind, Wall, Wire, told};
use crate::resolve;
use crate::timestamp::Batch;
use base::record::Text;
use base::rng::Streams;
use base::{Duration, Time};
use experiment::monitor::{MonitorPlan, Target, TargetKind};
use measure::asker::{Answer, Asker, Far};
use measure::guest::stamp;
use measure::keys::Credential;
use measure::lasting::{Lasting, Transmit};
use measure::ledger::Slots;
use measure::wire::MAX_LEN;
use measure::{asker, dns, icmp, lasting};
use nix::poll::PollFlags;
use rand::Rng as _;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// Resolver that looks names up again, in threads of its own because that may take minutes.
pub struct Resolver {
    only_v4: bool,
    only_v6: bool,
    asked: BTreeMap<String, (Time, Option<Receiver<SocketAddr>>)>,
}

/// Shortest interval between two look-ups of a name.
const ASK_AGAIN: Duration = Duration::from_secs(30);

impl Resolver {
    pub fn new(plan: &MonitorPlan) -> Resolver {
        Resolver {
            only_v4: plan.only_v4,
            only_v6: plan.only_v6,
            asked: BTreeMap::new(),
        }
    }

    /// Present address of a target, if it is known.
    fn ask(&mut self, now: Time, host: &str, port: u16) -> Option<SocketAddr> {
        if host.parse::<IpAddr>().is_ok() || host.parse::<SocketAddr>().is_ok() {
            return None;
        }
        let due = Time::from_nanos(0);
        let (since, pending) = self.asked.entry(host.into()).or_insert((due, None));
        if let Some(answer) = pending {
            match answer.try_recv() {
                Ok(addr) => {
                    *pending = None;
                    return Some(addr);
                }
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => *pending = None,
            }
        }
        if now.saturating_since(*since) >= ASK_AGAIN {
            *since = now;
            let (tell, answer) = channel();
            let (name, v4, v6) = (host.to_owned(), self.only_v4, self.only_v6);
            let thread = std::thread::Builder::new()
                .name("resolve".into())
                .stack_size(256 << 10)
                .spawn(move || {
                    if let Ok(addr) = resolve::server(&name, port, v4, v6) {
                        let _ = tell.send(addr);
                    }
                });
            *pending = thread.is_ok().then_some(answer);
        }
        None
    }
}

/// Target with its socket and state.
pub struct Probed {
    target: Target,
    name: Text,
    how: How,
    outlet: Outlet,
    /// Number of the outlet's interface when its sockets were opened.
    index: u32,
    /// Time of the last answer, which decides when the name is looked up again.
    answered_at: Time,
}

enum How {
    Server {
        lasting: Box<Lasting>,
        wire: Box<Wire>,
        /// Source of the key for probes, if the server is known by its pin.
        key: Option<Receiver<Result<Credential, String>>>,
    },
    Echo {
        asker: Box<Asker>,
        wire: Box<Wire>,
        question: Question,
    },
    Fresh(Box<Fresh>),
}

/// Pause between two requests for the key of a server's probes.
const KEY_AGAIN: std::time::Duration = std::time::Duration::from_secs(30);
/// Patience with one such request.
const KEY_WITHIN: Duration = Duration::from_secs(20);

/// Requests the key for probes from a server with a pin, in a thread of its own, until there is one.
fn probe_key(
    server: SocketAddr,
    access: &Access,
) -> std::io::Result<Receiver<Result<Credential, String>>> {
    let (tell, answer) = channel();
    let peer = Peer {
        server,
        access: access.clone(),
        patience: KEY_WITHIN,
    };
    std::thread::Builder::new()
        .name("probe-key".into())
        .stack_size(256 << 10)
        .spawn(move || {
            loop {
                let told = match peer.probe_key() {
                    Ok(Some(key)) => Ok(key),
                    Ok(None) => return,
                    Err(e) => Err(base::text::clean(&e.to_string()).into_owned()),
                };
                let done = told.is_ok();
                // Nobody listens any more where the monitor has ended.
                if tell.send(told).is_err() || done {
                    return;
                }
                std::thread::sleep(KEY_AGAIN);
            }
        })?;
    Ok(answer)
}

/// Hands the key to the session once it has come, or reports the reason of the failure.
fn take_key(
    key: &mut Option<Receiver<Result<Credential, String>>>,
    lasting: &mut Lasting,
    now: Time,
) {
    match key.as_ref().map(Receiver::try_recv) {
        Some(Ok(Ok(credential))) => {
            lasting.set_key(now, credential);
            *key = None;
        }
        Some(Ok(Err(why))) => lasting.note_trouble(now, &why),
        _ => {}
    }
}

enum Question {
    Icmp {
        id: u16,
        token: u64,
    },
    Stamp {
        ssid: u16,
    },
    Dns {
        query: Vec<u8>,
        first_id: u16,
        rcode: u8,
    },
}

/// Silence after which a target's name is looked up again.
const UNHEARD: Duration = Duration::from_secs(20);
/// Greatest number of probes in flight: fifteen seconds at one each millisecond; three minutes at one each 11 ms.
const CAPACITY: usize = 16_384;

impl Probed {
    /// # Errors
    /// An unknown name, or a socket that is not allowed.
    pub fn open(
        target: &Target,
        plan: &MonitorPlan,
        access: &Access,
        clock: Clock,
        (begin, first_seq): (Time, u64),
        streams: &Streams,
    ) -> Result<Probed, OpenError> {
        let (host, port) = target.host();
        let remote = resolve::server(host, port, plan.only_v4, plan.only_v6)?;
        let name: Text = target.name().into();
        let socket = |source| OpenError::Socket {
            target: target.name(),
            source,
        };
        let origin_unix_ns = clock.from_mono_ns(clock.mono_of(Time::ZERO));
        // Targets with the same interval draw the same times, so that their probes stay apart.
        let key = streams.stream("send times").next_u64();
        let slots = Slots::new(begin, target.interval, first_seq).spread(key);
        let asker = || {
            let params = asker::Params {
                lost_after: plan.lost_after,
                kept_for: plan.kept_for,
                origin_unix_ns,
                target: name.clone(),
                capacity: CAPACITY,
            };
            Asker::new(params, slots)
        };
        let outlet = access.outlet.or(target.interface.as_deref());
        let far = || (remote, outlet.clone());
        let access = &Access {
            outlet: outlet.clone(),
            ..access.clone()
        };
        let how = match &target.kind {
            TargetKind::Server(_) => {
                let key = (access.key.is_none() && access.pin.is_some())
                    .then(|| probe_key(remote, access))
                    .transpose()
                    .map_err(socket)?;
                let params = lasting::Params {
                    lost_after: plan.lost_after,
                    kept_for: plan.kept_for,
                    origin_unix_ns,
                    host_origin_unix_ns: clock.from_mono_ns(0),
                    target: name.clone(),
                    key: access.key.clone(),
                    awaits_key: key.is_some(),
                    tos: 0,
                    boot_id: boot_id(),
                    capacity: CAPACITY,
                };
                let rng = streams.stream("nonce");
                let lasting = Lasting::new(params, clock.now(), slots, rng);
                How::Server {
                    lasting: Box::new(lasting),
                    wire: Box::new(Wire::open(Kind::Udp, remote, clock, &outlet).map_err(socket)?),
                    key,
                }
            }
            TargetKind::Icmp(_) => {
                let word: [u8; 10] = random().map_err(socket)?;
                let (token, id) = word.split_at(8);
                let question = Question::Icmp {
                    token: u64::from_be_bytes(token.try_into().expect("eight bytes")),
                    id: u16::from_be_bytes(id.try_into().expect("two bytes")),
                };
                How::Echo {
                    asker: Box::new(asker()),
                    wire: Box::new(Wire::open(Kind::Icmp, remote, clock, &outlet).map_err(socket)?),
                    question,
                }
            }
            TargetKind::Stamp { .. } => How::Echo {
                asker: Box::new(asker()),
                wire: Box::new(Wire::open(Kind::Udp, remote, clock, &outlet).map_err(socket)?),
                question: Question::Stamp {
                    // Zero would be no session of RFC 8972.
                    ssid: u16::from_be_bytes(random().map_err(socket)?).max(1),
                },
            },
            TargetKind::Dns { name, .. } => How::Echo {
                asker: Box::new(asker()),
                wire: Box::new(Wire::open(Kind::Udp, remote, clock, &outlet).map_err(socket)?),
                question: Question::Dns {
                    query: dns::encode(0, name).unwrap_or_default(),
                    first_id: u16::from_be_bytes(random().map_err(socket)?),
                    rcode: 0,
                },
            },
            TargetKind::Tcp { .. } => How::Fresh(Box::new(Fresh::new(asker(), far(), None, None))),
            TargetKind::Http { host, port, path } => {
                let ask = Some(request(host, *port, 80, path));
                How::Fresh(Box::new(Fresh::new(asker(), far(), ask, None)))
            }
            TargetKind::Https { host, port, path } => {
                let tls = Tls::new(host).map_err(socket)?;
                let ask = Some(request(host, *port, 443, path));
                How::Fresh(Box::new(Fresh::new(asker(), far(), ask, Some(tls))))
            }
        };
        Ok(Probed {
            target: target.clone(),
            name,
            how,
            index: outlet.index(),
            outlet,
            answered_at: clock.now(),
        })
    }

    pub fn name(&self) -> &Text {
        &self.name
    }

    pub fn slots(&self) -> Slots {
        match &self.how {
            How::Server { lasting, .. } => lasting.slots(),
            How::Echo { asker, .. } => asker.slots(),
            How::Fresh(fresh) => fresh.asker.slots(),
        }
    }

    /// Changes the interval of the probes of a server that is not ours, from the next slot on.
    pub fn set_interval(&mut self, interval: Duration) {
        match &mut self.how {
            How::Server { .. } => {}
            How::Echo { asker, .. } => asker.set_interval(interval),
            How::Fresh(fresh) => fresh.asker.set_interval(interval),
        }
    }

    /// Local address by which the target is reached.
    pub fn local(&self) -> Option<IpAddr> {
        match &self.how {
            How::Server { wire, .. } | How::Echo { wire, .. } => wire.local,
            How::Fresh(fresh) => fresh.outlet.local_towards(fresh.remote),
        }
    }

    /// Interface that the sockets are bound to.
    pub fn interface(&self) -> Option<&str> {
        self.outlet.interface()
    }

    pub fn remote(&self) -> SocketAddr {
        match &self.how {
            How::Server { wire, .. } | How::Echo { wire, .. } => wire.remote,
            How::Fresh(fresh) => fresh.remote,
        }
    }

    pub fn trouble(&self) -> Option<String> {
        let said = match &self.how {
            How::Server { lasting, .. } => lasting.trouble(),
            How::Echo { asker, .. } => asker.trouble(),
            How::Fresh(fresh) => fresh.asker.trouble(),
        };
        said.map(str::to_owned)
    }

    pub fn is_asking(&self) -> bool {
        matches!(&self.how, How::Server { lasting, .. } if lasting.is_asking())
    }

    pub fn is_waiting(&self) -> bool {
        match &self.how {
            How::Server { lasting, .. } => lasting.is_waiting(),
            How::Echo { asker, .. } => asker.is_waiting(),
            How::Fresh(fresh) => fresh.asker.is_waiting(),
        }
    }

    /// Number of probes that are lost although their rows are not written yet.
    pub fn overdue(&self, now: Time) -> u64 {
        match &self.how {
            How::Server { lasting, .. } => lasting.overdue(now),
            How::Echo { asker, .. } => asker.overdue(now),
            How::Fresh(fresh) => fresh.asker.overdue(now),
        }
    }

    /// True if probes leave often enough for silence to mean something within seconds.
    pub fn asked_lately(&self) -> bool {
        self.target.interval <= Duration::from_secs(2)
    }

    /// Number of probes since the last look.
    pub fn sends(&self) -> u32 {
        match &self.how {
            How::Server { wire, .. } | How::Echo { wire, .. } => wire.sends,
            How::Fresh(_) => 0,
        }
    }

    pub fn poll_fds(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        match &self.how {
            How::Fresh(fresh) => fresh.poll_fds(),
            _ => Vec::new(),
        }
    }

    pub fn send_due(&mut self, clock: Clock, out: &mut Out) {
        let mut buffer = [0; MAX_LEN];
        match &mut self.how {
            How::Server { lasting, wire, key } => {
                take_key(key, lasting, clock.now());
                while let Some(transmit) = lasting.poll_transmit(clock.now(), &mut buffer) {
                    let (seq, len) = match transmit {
                        Transmit::Greeting(len) => (None, len),
                        Transmit::Probe { seq, len } => (Some(seq), len),
                    };
                    let before = clock.now();
                    let sent = wire.send(&buffer[..len], seq);
                    let after = clock.now();
                    match (sent, seq) {
                        (Ok(()), Some(seq)) => lasting.handle_sent(seq, before, after),
                        (Err(e), Some(seq)) => {
                            let why = e.raw_os_error().map_or(e.to_string(), told);
                            lasting.handle_send_failed(after, seq, &why);
                        }
                        (Ok(()), None) => {}
                        (Err(e), None) => lasting.note_trouble(after, &e.to_string()),
                    }
                }
                drain(|| lasting.poll_row(), out);
            }
            How::Echo {
                asker,
                wire,
                question,
            } => {
                while let Some(seq) = asker.poll_transmit(clock.now()) {
                    let bytes: &[u8] = match question {
                        Question::Icmp { id, token } => {
                            let mut packet = [0; icmp::LEN];
                            icmp::encode(&mut packet, wire.remote.is_ipv6(), *id, *token, seq);
                            buffer[..icmp::LEN].copy_from_slice(&packet);
                            &buffer[..icmp::LEN]
                        }
                        Question::Stamp { ssid } => {
                            let mut packet = [0; stamp::BASE];
                            stamp::encode(&mut packet, seq, *ssid, clock.unix_ns());
                            buffer[..stamp::BASE].copy_from_slice(&packet);
                            &buffer[..stamp::BASE]
                        }
                        Question::Dns {
                            query, first_id, ..
                        } => {
                            let id = first_id.wrapping_add(seq as u16);
                            query[..2].copy_from_slice(&id.to_be_bytes());
                            query
                        }
                    };
                    let before = clock.now();
                    match wire.send(bytes, Some(seq)) {
                        Ok(()) => asker.handle_sent(seq, before, clock.now()),
                        Err(e) => {
                            let why = e.raw_os_error().map_or(e.to_string(), told);
                            asker.handle_send_failed(before, seq, &why);
                        }
                    }
                }
                drain(|| asker.poll_row(), out);
            }
            How::Fresh(fresh) => {
                fresh.launch_due(clock);
                drain(|| fresh.asker.poll_row(), out);
            }
        }
    }

    pub fn look(&mut self, batch: &mut Batch, clock: Clock, wall: &mut Wall, out: &mut Out) {
        match &mut self.how {
            How::Server { lasting, wire, .. } => {
                wire.look(batch, clock, wall, &mut |now, found| match found {
                    Found::Left(seq, at) => lasting.handle_tx_stamp(seq, at),
                    Found::Trouble(errno) => lasting.note_trouble(now, &told(errno)),
                    Found::Hop { .. } => {}
                    Found::Came { arrival, bytes } => {
                        lasting.handle_datagram(now, arrival, bytes);
                    }
                });
                drain(|| lasting.poll_row(), out);
            }
            How::Echo {
                asker,
                wire,
                question,
            } => {
                let (raw, v6) = (wire.raw, wire.remote.is_ipv6());
                wire.look(batch, clock, wall, &mut |now, found| match found {
                    Found::Left(seq, at) => asker.handle_tx_stamp(seq, at),
                    Found::Trouble(errno) => asker.note_trouble(now, &told(errno)),
                    Found::Hop { .. } => {}
                    Found::Came { arrival, bytes } => {
                        let unix_ns = clock.unix_ns();
                        let answered = question.answered(bytes, raw, v6, (now, unix_ns), asker);
                        if let Some((seq, far)) = answered {
                            let answer = Answer {
                                at: arrival.at,
                                steady: arrival.steady && arrival.kernel,
                                tos: arrival.tos,
                                far,
                            };
                            asker.handle_answer(now, seq, answer);
                        }
                    }
                });
                drain(|| asker.poll_row(), out);
            }
            How::Fresh(_) => {}
        }
    }

    /// Handles due times, and connections that moved.
    pub fn advance(&mut self, now: Time, clock: Clock, out: &mut Out) {
        match &mut self.how {
            How::Server { lasting, .. } => {
                lasting.handle_timeout(now);
                drain(|| lasting.poll_row(), out);
            }
            How::Echo { asker, .. } => {
                asker.handle_timeout(now);
                drain(|| asker.poll_row(), out);
            }
            How::Fresh(fresh) => {
                fresh.advance(clock);
                drain(|| fresh.asker.poll_row(), out);
            }
        }
    }

    /// Reports changed addresses: the local one, or the target's.
    pub fn each_second(&mut self, now: Time, clock: Clock, resolver: &mut Resolver, out: &mut Out) {
        let answers = out.status.get(&self.name).map_or(0, |s| s.answered);
        if answers > 0 && self.trouble().is_none() && !self.is_asking() {
            self.answered_at = self.last_heard(now);
        }
        let remote = self.remote();
        let mut new_remote = remote;
        if now.saturating_since(self.answered_at) >= UNHEARD {
            let (host, port) = self.target.host();
            if let Some(found) = resolver.ask(now, host, port) {
                new_remote = found;
            }
        }
        let (new_local, old_local) = match &self.how {
            How::Fresh(_) => (None, None),
            How::Server { wire, .. } | How::Echo { wire, .. } => {
                (self.outlet.local_towards(new_remote), wire.local)
            }
        };
        // A socket stays bound to the interface that was there, not to its successor of the same name.
        let index = self.outlet.index();
        let anew = index != 0 && index != self.index;
        self.index = if anew { index } else { self.index };
        let moved = new_local.is_some() && (anew || new_local != old_local);
        if new_remote == remote && !moved {
            return;
        }
        let detail = format!(
            "{{\"from\":\"{} to {remote}\",\"to\":\"{} to {new_remote}\"}}",
            shown(old_local),
            shown(new_local)
        );
        let outlet = &self.outlet;
        match &mut self.how {
            How::Server { lasting, wire, .. } => {
                match Wire::open(Kind::Udp, new_remote, clock, outlet) {
                    Ok(new) => {
                        **wire = new;
                        lasting.handle_new_path(now, detail);
                    }
                    Err(e) => lasting.note_trouble(now, &e.to_string()),
                }
            }
            How::Echo {
                asker,
                wire,
                question,
            } => {
                let kind = match question {
                    Question::Icmp { .. } => Kind::Icmp,
                    Question::Stamp { .. } | Question::Dns { .. } => Kind::Udp,
                };
                match Wire::open(kind, new_remote, clock, outlet) {
                    Ok(new) => {
                        **wire = new;
                        out.event(clock.unix_ns(), "address", &self.name, detail);
                    }
                    Err(e) => asker.note_trouble(now, &e.to_string()),
                }
            }
            How::Fresh(fresh) => {
                fresh.remote = new_remote;
                out.event(clock.unix_ns(), "address", &self.name, detail);
            }
        }
    }

    fn last_heard(&self, now: Time) -> Time {
        match &self.how {
            How::Server { lasting, .. } => lasting.last_heard(),
            _ => now,
        }
    }

    pub fn relabel(&mut self, by_ns: i64) {
        match &mut self.how {
            How::Server { lasting, .. } => lasting.relabel(by_ns),
            How::Echo { asker, .. } => asker.relabel(by_ns),
            How::Fresh(fresh) => fresh.asker.relabel(by_ns),
        }
    }

    pub fn handle_sleep(&mut self, from: Time, to: Time) {
        match &mut self.how {
            How::Server { lasting, .. } => lasting.handle_sleep(from, to),
            How::Echo { asker, .. } => asker.handle_sleep(from, to),
            How::Fresh(fresh) => fresh.asker.handle_sleep(from, to),
        }
    }

    /// Writes open slots; nothing more will come.
    pub fn finish(&mut self, now: Time, out: &mut Out) {
        match &mut self.how {
            How::Server { lasting, wire, .. } => {
                lasting.handle_timeout(now);
                let mut buffer = [0; MAX_LEN];
                if let Some(len) = lasting.close(&mut buffer) {
                    // A courtesy: without it the server forgets us minutes later.
                    let _ = wire.send(&buffer[..len], None);
                }
                lasting.finish();
                drain(|| lasting.poll_row(), out);
            }
            How::Echo { asker, .. } => {
                asker.finish();
                drain(|| asker.poll_row(), out);
            }
            How::Fresh(fresh) => {
                fresh.asker.finish();
                drain(|| fresh.asker.poll_row(), out);
            }
        }
    }
}

/// Text of an HTTP request. RFC 9110 section 7.2: the port is named if it is not the usual one, and an IPv6 address
/// stands in brackets.
fn request(host: &str, port: u16, usual: u16, path: &str) -> String {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let port = if port == usual {
        String::new()
    } else {
        format!(":{port}")
    };
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}{port}\r\nUser-Agent: tailback/{}\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn shown(ip: Option<IpAddr>) -> String {
    ip.map_or("nowhere".into(), |ip| ip.to_string())
}

fn drain(mut next: impl FnMut() -> Option<base::record::Row>, out: &mut Out) {
    while let Some(row) = next() {
        out.row(row);
    }
}

impl Question {
    /// Probe that a datagram answers, and the times of the far end if it tells them.
    fn answered(
        &mut self,
        bytes: &[u8],
        raw: bool,
        v6: bool,
        (now, unix_ns): (Time, i64),
        asker: &mut Asker,
    ) -> Option<(u64, Option<Far>)> {
        let latest = asker.slots().next_seq().checked_sub(1);
        match self {
            Question::Icmp { token, .. } => {
                icmp::decode(bytes, v6, raw, *token).map(|seq| (seq, None))
            }
            Question::Stamp { ssid } => {
                let (number, far) = stamp::decode(bytes, *ssid, unix_ns)?;
                let behind = (latest? as u32).wrapping_sub(number);
                Some((latest?.checked_sub(u64::from(behind))?, Some(far)))
            }
            Question::Dns {
                query,
                first_id,
                rcode,
            } => {
                let (id, code) = dns::decode(bytes, query)?;
                if code != std::mem::replace(rcode, code) {
                    asker.report(now, format!("{{\"dns_result_code\":{code}}}"));
                }
                // The latest query of that number: there are 65 536, and answers are waited for three minutes.
                let behind = first_id.wrapping_add(latest? as u16).wrapping_sub(id);
                Some((latest?.checked_sub(u64::from(behind))?, None))
            }
        }
    }
}
