//! Whether our server is reached over IPv6 as well as over IPv4, how fast, the largest packet of either, and what else of
//! IPv6 gets through.

use crate::clock::mono_ns;
use crate::craft::CraftError;
use crate::errand::{Errand, socket_to};
use crate::listeners::Listeners;
use crate::sys::option;
use crate::timestamp::set_whole;
use base::noted::ipv6::{V6Note, target};
use base::record::Direction;
use base::{Bytes, Duration};
use measure::control::listen::{
    Answer, KNOCK_LEN, Knocked, MARK_LEN, Place, Transport, Wanted, knock,
};
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsRawFd;

/// A lost SYN is sent again after one and three seconds.
const PATIENCE: Duration = Duration::from_secs(4);
/// A datagram may take this long.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);
const TRIES: u32 = 3;
/// What never answered is not waited for as long again.
const AGAIN: Duration = Duration::from_millis(1500);
/// Over a slow line so many of each version are enough.
const LEAST_PAIRS: i64 = 5;
/// A version that has not answered so often in a row is left alone.
const GIVEN_UP_AFTER: u32 = 2;
/// RFC 8200 section 5: every link carries so much of IPv6; of IPv4 almost every one does.
const USUAL_MTU: u32 = 1280;
/// RFC 791: every host takes so much.
const LEAST_MTU: u32 = 576;
/// Larger packets do not pass beyond the local network.
const MOST_MTU: u32 = 1500;
/// Payload that takes two pieces on any link of 1500 bytes.
const LARGE: usize = 2000;

#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections and datagrams of each version.
    pub count: u32,
    pub interval: Duration,
    /// Fewer than that where they take so long together.
    pub within: Duration,
}

impl Plan {
    /// The most that this puts on the line.
    pub fn cost(&self) -> Bytes {
        Bytes::new(u64::from(self.count) * 2 * 700 + 400_000)
    }
}

/// One version of IP: its listeners, by their numbers.
struct Family {
    version: u8,
    tcp: usize,
    udp: usize,
    silent: u32,
}

impl Family {
    /// Of IP and UDP, bytes.
    fn headers(&self) -> u32 {
        if self.version == 6 { 48 } else { 28 }
    }
}

struct Run<'a, 'b> {
    errand: &'a mut Errand<'b>,
    listeners: Listeners,
}

/// Carries it out.
///
/// # Errors
/// The server cannot be reached or refuses; there is no socket; the user wants no more.
pub fn run(plan: &Plan, errand: &mut Errand) -> Result<(), CraftError> {
    let wanted = [
        (Transport::Tcp, Place::V4),
        (Transport::Udp, Place::V4),
        (Transport::Tcp, Place::V6),
        (Transport::Udp, Place::V6),
    ]
    .map(|(transport, place)| Wanted {
        answer: Answer::Mark,
        ..Wanted::new(transport, place, 0)
    });
    let lasts = plan.interval * u64::from(plan.count) + plan.within + Duration::from_secs(60);
    let mut run = Run {
        listeners: errand.listeners(wanted.to_vec(), lasts)?,
        errand,
    };
    let families = [(4, 0), (6, 2)].map(|(version, first)| Family {
        version,
        tcp: first,
        udp: first + 1,
        silent: 0,
    });
    let mut there = Vec::new();
    for family in families {
        if run.family(&family) {
            there.push(family);
        }
    }
    run.times(plan, &mut there)?;
    for family in there.iter().filter(|f| f.silent < GIVEN_UP_AFTER) {
        run.path_mtu(family)?;
        if family.version == 6 {
            run.fragments(family.udp)?;
            run.extensions(family.udp)?;
        }
    }
    Ok(())
}

impl Run<'_, '_> {
    fn note(&self, note: &V6Note) {
        self.errand.note(note, "server");
    }

    fn stage(&mut self, stage: &str) -> Result<(), CraftError> {
        self.errand.stage(stage)
    }

    /// Whether there is anything to be tried.
    fn family(&self, family: &Family) -> bool {
        let at = self.listeners.at(family.udp);
        let local = at
            .as_ref()
            .ok()
            .map(|at| socket_to(*at).and_then(|s| s.local_addr()));
        let why = match (&at, &local) {
            (Err(why), _) => Some(why.clone()),
            (_, Some(Err(e))) => Some(format!("this host cannot send there: {e}")),
            _ => None,
        };
        let there = why.is_none();
        self.note(&V6Note::Family {
            version: family.version,
            server: at.ok().map(|a| a.ip().to_string()),
            local: local.and_then(Result::ok).map(|a| a.ip().to_string()),
            why,
        });
        there
    }

    /// Both versions in turn, so that whatever else goes on meets both.
    fn times(&mut self, plan: &Plan, families: &mut [Family]) -> Result<(), CraftError> {
        let ends = mono_ns() + plan.within.as_nanos() as i64;
        for seq in 0..i64::from(plan.count) {
            if seq >= LEAST_PAIRS && mono_ns() >= ends {
                break;
            }
            for family in families.iter_mut() {
                if family.silent >= GIVEN_UP_AFTER {
                    continue;
                }
                self.stage("both versions in turn")?;
                let mut answered = false;
                if let Ok(at) = self.listeners.at(family.tcp) {
                    let patience = if family.silent == 0 { PATIENCE } else { AGAIN };
                    let began = mono_ns();
                    let made = TcpStream::connect_timeout(&at, patience.to_std());
                    let took = mono_ns() - began;
                    match &made {
                        Ok(stream) => self.errand.tally.connection(stream),
                        Err(e) => {
                            let took = Duration::from_nanos(took.max(0) as u64);
                            self.errand.tally.attempt(at, e, took);
                        }
                    }
                    let took = made.is_ok().then_some(took);
                    answered |= took.is_some();
                    let target = target("tcp", family.version);
                    self.errand.delay(&target, seq, began, took);
                }
                if let Ok(at) = self.listeners.at(family.udp) {
                    let began = mono_ns();
                    let own = socket_to(at).map_err(CraftError::socket("open a UDP socket"))?;
                    self.send(&own, &knock(self.listeners.token(), KNOCK_LEN));
                    let heard = self.answered(&own, ANSWER_WITHIN).is_some();
                    let took = heard.then(|| mono_ns() - began);
                    answered |= heard;
                    let target = target("udp", family.version);
                    self.errand.delay(&target, seq, began, took);
                }
                family.silent = if answered { 0 } else { family.silent + 1 };
            }
            if seq + 1 < i64::from(plan.count) {
                std::thread::sleep(plan.interval.to_std());
            }
        }
        Ok(())
    }

    /// What this host refuses to send is as lost as what the line loses.
    fn send(&self, own: &UdpSocket, payload: &[u8]) {
        if let (Ok(_), Ok(far)) = (own.send(payload), own.peer_addr()) {
            self.errand.tally.datagram(far, payload.len());
        }
    }

    /// The server's answer to a knock.
    fn answered(&self, own: &UdpSocket, patience: Duration) -> Option<Knocked> {
        let bytes = hear(own, &|b| self.listeners.knocked(b).is_some(), patience)?;
        if let Ok(far) = own.peer_addr() {
            self.errand.tally.datagram(far, bytes.len());
        }
        self.listeners.knocked(&bytes)
    }

    fn own(&self, listener: usize) -> Result<UdpSocket, CraftError> {
        let at = self
            .listeners
            .at(listener)
            .map_err(|why| CraftError::Socket {
                what: "use the server's port",
                source: io::Error::other(why),
            })?;
        socket_to(at).map_err(CraftError::socket("open a UDP socket"))
    }

    /// Whether a datagram of this length has come to that port.
    fn came(&self, listener: usize, len: usize) -> Result<bool, CraftError> {
        let all = self.listeners.report()?;
        let mut its = all.iter().filter(|a| a.listener == listener as u32);
        Ok(its.any(|a| a.len as usize == len))
    }

    /// The token, and as much more as makes it so long.
    fn padded(&self, len: usize) -> Vec<u8> {
        knock(self.listeners.token(), len)
    }

    fn fragments(&mut self, listener: usize) -> Result<(), CraftError> {
        self.stage("datagrams in pieces")?;
        let own = self.own(listener)?;
        set_whole(own.as_raw_fd(), true, false).map_err(CraftError::socket("allow pieces"))?;
        let mut up = [false; 2];
        let mut seen = None;
        // One byte longer than what was timed, so that a report tells it from that.
        for (i, len) in [KNOCK_LEN + 1, LARGE].into_iter().enumerate() {
            let payload = self.padded(len);
            for _ in 0..TRIES {
                self.send(&own, &payload);
                if let Some(knocked) = self.answered(&own, ANSWER_WITHIN) {
                    up[i] = true;
                    seen = Some(knocked);
                    break;
                }
            }
            // It may have arrived although its answer did not.
            up[i] = up[i] || self.came(listener, len)?;
        }
        let mut down = [false; 2];
        for (i, size) in [MARK_LEN, LARGE].into_iter().enumerate() {
            // Without an answer there is no proof that we receive, and the server sends nothing.
            let Some(to) = seen else { break };
            for _ in 0..TRIES {
                let sent = self.listeners.send(listener, &to, size)?;
                // It was counted when the server was asked for it.
                if hear(&own, &|b| b == sent, ANSWER_WITHIN).is_some() {
                    down[i] = true;
                    break;
                }
            }
        }
        for (direction, [small, large]) in [(Direction::Up, up), (Direction::Down, down)] {
            self.note(&V6Note::Fragments {
                direction,
                bytes: LARGE as u32,
                small,
                large,
            });
        }
        Ok(())
    }

    /// Whether a packet of this size is answered that nobody may cut.
    fn passes(
        &mut self,
        family: &Family,
        size: u32,
        tries: u32,
        patience: Duration,
    ) -> Result<bool, CraftError> {
        self.stage("the largest packet")?;
        // Of its own, so that an answer is to this one.
        let own = self.own(family.udp)?;
        let whole = set_whole(own.as_raw_fd(), family.version == 6, true);
        whole.map_err(CraftError::socket("forbid pieces"))?;
        let payload = self.padded((size - family.headers()) as usize);
        for _ in 0..tries {
            // Too large for our own interface: it does not arrive.
            self.send(&own, &payload);
        }
        Ok(self.answered(&own, patience).is_some())
    }

    fn path_mtu(&mut self, family: &Family) -> Result<(), CraftError> {
        let v6 = family.version == 6;
        let own = self.own(family.udp)?;
        let interface = known_mtu(&own, v6);
        let most = interface.unwrap_or(MOST_MTU).clamp(LEAST_MTU, MOST_MTU);
        let mut floors = vec![USUAL_MTU.min(most)];
        if !v6 {
            floors.push(LEAST_MTU);
        }
        let mut arrived = None;
        for floor in floors {
            let mut tries = 0;
            while arrived.is_none() && tries < TRIES {
                let began = mono_ns();
                if self.passes(family, floor, 1, ANSWER_WITHIN)? {
                    // What is a little larger takes little longer.
                    let took = Duration::from_nanos((mono_ns() - began).max(0) as u64);
                    let patience = took * 2 + Duration::from_millis(100);
                    let largest =
                        self.largest(family, (floor, most), patience.min(ANSWER_WITHIN))?;
                    arrived = Some(largest);
                }
                tries += 1;
            }
        }
        self.note(&V6Note::PathMtu {
            version: family.version,
            arrived,
            lost: arrived.filter(|a| *a < most).map(|a| a + 1),
            believed: known_mtu(&own, v6),
            interface,
        });
        Ok(())
    }

    /// The largest packet that gets through, knowing one that does: `most` at once, for most lines carry it, otherwise
    /// what a router told, otherwise by halves.
    fn largest(
        &mut self,
        family: &Family,
        (mut least, most): (u32, u32),
        patience: Duration,
    ) -> Result<u32, CraftError> {
        let mut size = most;
        loop {
            let mut lost = most + 1;
            while least + 1 < lost {
                if self.passes(family, size, 2, patience)? {
                    least = size;
                } else {
                    lost = size;
                }
                let told = known_mtu(&self.own(family.udp)?, family.version == 6);
                size = told
                    .filter(|t| (least + 1..lost).contains(t))
                    .unwrap_or(least + (lost - least) / 2);
            }
            if least >= most {
                return Ok(least);
            }
            // Chance loses packets and answers too: the last word has one try more, and what arrived.
            let again = self.passes(family, lost, TRIES, ANSWER_WITHIN)?;
            let all = self.listeners.report()?;
            let came = all.iter().filter(|a| a.listener == family.udp as u32);
            let came = came.map(|a| a.len + family.headers());
            least = match came.filter(|c| (lost..=most).contains(c)).max() {
                Some(came) => came,
                None if again => lost,
                None => return Ok(least),
            };
            size = least + (most + 1 - least) / 2;
        }
    }

    fn extensions(&mut self, listener: usize) -> Result<(), CraftError> {
        self.stage("further headers")?;
        // linux/in6.h; RFC 8200 sections 4.3 and 4.6, eight bytes of padding each.
        for (header, name) in [("hop-by-hop options", 54), ("destination options", 59)] {
            let own = self.own(listener)?;
            let bytes = [0u8, 0, 1, 4, 0, 0, 0, 0];
            let set = option::set(own.as_raw_fd(), libc::IPPROTO_IPV6, name, &bytes);
            let mut arrived = None;
            if set.is_ok() {
                let mut came = false;
                for _ in 0..TRIES {
                    self.send(&own, &knock(self.listeners.token(), KNOCK_LEN));
                    came = self.answered(&own, ANSWER_WITHIN).is_some();
                    if came {
                        break;
                    }
                }
                arrived = Some(came);
            }
            self.note(&V6Note::Extension {
                header: header.into(),
                arrived,
            });
        }
        Ok(())
    }
}

/// What this host believes that the path takes; none where it does not say.
fn known_mtu(own: &UdpSocket, v6: bool) -> Option<u32> {
    let (level, name) = if v6 {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU)
    } else {
        (libc::IPPROTO_IP, libc::IP_MTU)
    };
    let mtu = option::get_int(own.as_raw_fd(), level, name).ok()?;
    u32::try_from(mtu).ok().filter(|mtu| *mtu > 0)
}

/// Waits for a datagram that is the one.
fn hear(socket: &UdpSocket, is_it: &dyn Fn(&[u8]) -> bool, patience: Duration) -> Option<Vec<u8>> {
    let until = mono_ns() + patience.as_nanos() as i64;
    let mut buf = [0; 8192];
    loop {
        let left = until - mono_ns();
        if left <= 0 {
            return None;
        }
        let left = std::time::Duration::from_nanos(left as u64);
        if socket.set_read_timeout(Some(left)).is_err() {
            return None;
        }
        match socket.recv(&mut buf) {
            Ok(n) if is_it(&buf[..n]) => return Some(buf[..n].to_vec()),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return None,
            _ => {}
        }
    }
}
