//! Connections and datagrams over both versions of IP in turn, then the largest packet of either, and fragments and
//! extension headers of IPv6.

use super::Params;
use crate::ask::{Extension, Opening, Ports};
use crate::course::{Course, OfCourse};
use crate::host::Stopped;
use crate::spec::Setting;
use base::noted::ipv6::{V6Note, target};
use base::record::Direction;
use base::{Bytes, Duration};
use measure::control::listen::{
    Answer, KNOCK_LEN, Knocked, MARK_LEN, Place, Transport, Wanted, knock,
};
use std::net::SocketAddr;

/// Limit on a connection: a lost SYN is sent again after one and three seconds.
const PATIENCE: Duration = Duration::from_secs(4);
/// The same for a version that has not answered before.
const AGAIN: Duration = Duration::from_millis(1500);
/// Limit on the answer to a datagram.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);
const TRIES: u32 = 3;
/// Rounds of the search for the largest packet, of which most paths need two.
const ROUNDS: u32 = 8;
/// Copies of a small datagram and of one in fragments in each try: of the latter more are lost.
const COPIES: [usize; 2] = [1, 3];
/// Pairs that are enough over a slow link.
const LEAST_PAIRS: i64 = 5;
/// Failures in a row after which a version is no longer tried.
const GIVEN_UP_AFTER: u32 = 2;
/// RFC 8200 section 5: every link carries IPv6 packets of this size; almost every link carries the same over IPv4.
const USUAL_MTU: u32 = 1280;
/// RFC 791: every host takes packets of this size.
const LEAST_MTU: u32 = 576;
/// Larger packets do not pass beyond the local network.
const MOST_MTU: u32 = 1500;
/// Payload that takes two fragments on any link of 1500 bytes.
const LARGE: usize = 2000;
/// Number of the one UDP socket, which each step opens anew so that an answer is to its own datagrams.
const SOCKET: u32 = 0;

/// # Errors
/// The budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    let count = u64::from(params.count);
    setting.afford("ipv6", Bytes::new(count * 2 * 700 + 400_000))?;
    Ok(OfCourse::new(params.interval * count, move |course| {
        events(course, params)
    }))
}

/// One version of IP: the numbers of its ports.
struct Family {
    version: u8,
    tcp: usize,
    udp: usize,
    /// Rounds without an answer, in a row.
    silent: u32,
}

impl Family {
    /// Length of the headers of IP and UDP, bytes.
    fn headers(&self) -> u32 {
        if self.version == 6 { 48 } else { 28 }
    }
}

async fn events(course: Course, params: Params) -> Result<(), Stopped> {
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
    let lasts = params.interval * u64::from(params.count) + params.within;
    let open = lasts + Duration::from_secs(60);
    let Some(ports) = course.listen(wanted.to_vec(), open).await else {
        return Ok(());
    };
    let run = Run { course, ports };
    let mut there = Vec::new();
    for (version, first) in [(4, 0), (6, 2)] {
        let family = Family {
            version,
            tcp: first,
            udp: first + 1,
            silent: 0,
        };
        if run.family(&family).await {
            there.push(family);
        }
    }
    run.times(&params, &mut there).await?;
    for family in there.iter().filter(|f| f.silent < GIVEN_UP_AFTER) {
        run.path_mtu(family).await?;
        if family.version == 6 {
            run.fragments(family.udp).await?;
            run.extensions(family.udp).await?;
        }
    }
    Ok(())
}

struct Run {
    course: Course,
    ports: Ports,
}

impl Run {
    async fn note(&self, note: &V6Note) {
        self.course.note(note, "server").await;
    }

    fn at(&self, port: usize) -> Result<SocketAddr, String> {
        let none = || Err("the server did not name this port".to_owned());
        self.ports.at.get(port).cloned().unwrap_or_else(none)
    }

    /// True if there is anything to be tried.
    async fn family(&self, family: &Family) -> bool {
        let at = self.at(family.udp);
        let local = match &at {
            Ok(at) => Some(self.course.open(Opening::towards(SOCKET, *at)).await),
            Err(_) => None,
        };
        let why = match (&at, &local) {
            (Err(why), _) => Some(why.clone()),
            (_, Some(Err(e))) => Some(format!("this host cannot send there: {}", e.text)),
            _ => None,
        };
        let there = why.is_none();
        self.note(&V6Note::Family {
            version: family.version,
            server: at.ok().map(|a| a.ip().to_string()),
            local: local.and_then(Result::ok).map(|a| a.ip().to_string()),
            why,
        })
        .await;
        there
    }

    /// Both versions in turn, so that other traffic meets both.
    async fn times(&self, params: &Params, families: &mut [Family]) -> Result<(), Stopped> {
        let ends = self.course.now() + params.within;
        // Rounds in a row without any answer: they tell of the link, and nothing of a version.
        let mut mute = 0;
        for seq in 0..i64::from(params.count) {
            if seq >= LEAST_PAIRS && self.course.now() >= ends {
                break;
            }
            let mut answered = Vec::new();
            for family in families.iter() {
                if family.silent >= GIVEN_UP_AFTER {
                    answered.push(false);
                    continue;
                }
                self.course.stage("both versions in turn").await;
                let patience = match family.silent + mute {
                    0 => PATIENCE,
                    _ => AGAIN,
                };
                let connected = self.connection(family, seq, patience).await;
                answered.push(self.datagram(family, seq).await? || connected);
            }
            mute = match answered.contains(&true) {
                true => 0,
                false => mute + 1,
            };
            if mute > GIVEN_UP_AFTER {
                families.iter_mut().for_each(|f| f.silent = GIVEN_UP_AFTER);
                break;
            }
            for (family, answered) in families.iter_mut().zip(&answered) {
                family.silent = match answered {
                    true => 0,
                    false if mute == 0 => family.silent + 1,
                    false => family.silent,
                };
            }
            if seq + 1 < i64::from(params.count) {
                self.course.wait(params.interval).await;
            }
        }
        Ok(())
    }

    async fn connection(&self, family: &Family, seq: i64, patience: Duration) -> bool {
        let Ok(at) = self.at(family.tcp) else {
            return false;
        };
        let connected = self.course.connect(at, patience).await;
        let took = connected.made.is_ok().then_some(connected.took);
        let target = target("tcp", family.version);
        let began_ns = connected.began_ns;
        self.course.delay(&target, seq, began_ns, took).await;
        took.is_some()
    }

    async fn datagram(&self, family: &Family, seq: i64) -> Result<bool, Stopped> {
        let Ok(at) = self.at(family.udp) else {
            return Ok(false);
        };
        self.own(Opening::towards(SOCKET, at)).await?;
        let (began, began_ns) = (self.course.now(), self.course.unix_ns());
        self.send(at, KNOCK_LEN).await;
        let heard = self.answered(ANSWER_WITHIN).await.is_some();
        let took = heard.then(|| self.course.now().saturating_since(began));
        let target = target("udp", family.version);
        self.course.delay(&target, seq, began_ns, took).await;
        Ok(heard)
    }

    /// Opens the socket anew.
    async fn own(&self, opening: Opening) -> Result<(), Stopped> {
        let opened = self.course.open(opening).await;
        opened.map(drop).map_err(|e| Stopped::Unusable {
            why: format!("cannot open a UDP socket: {}", e.text),
        })
    }

    /// Sends the token, padded to this length.
    async fn send(&self, at: SocketAddr, len: usize) {
        let payload = knock(&self.ports.token, len);
        // What this host refuses to send is as lost as what the link loses.
        let _ = self.course.send(SOCKET, at, payload).await;
    }

    /// The server's answer to a knock.
    async fn answered(&self, patience: Duration) -> Option<Knocked> {
        let token = self.ports.token;
        let is_it = |bytes: &[u8], _| Knocked::decode(bytes, &token);
        let heard = self.course.hear(SOCKET, (patience, false), is_it);
        heard.await.ok()
    }

    /// True if a datagram of this length has come to that port.
    async fn came(&self, port: usize, len: usize) -> bool {
        let all = self.course.arrivals().await;
        let mut its = all.iter().filter(|a| a.listener == port as u32);
        its.any(|a| a.len as usize == len)
    }

    fn reachable(&self, port: usize) -> Result<SocketAddr, Stopped> {
        self.at(port).map_err(|why| Stopped::Unusable {
            why: format!("cannot use the server's port: {why}"),
        })
    }

    async fn fragments(&self, port: usize) -> Result<(), Stopped> {
        self.course.stage("fragmented datagrams").await;
        let at = self.reachable(port)?;
        let opening = Opening::towards(SOCKET, at);
        self.own(Opening {
            whole: Some(false),
            ..opening
        })
        .await?;
        let mut up = [false; 2];
        let mut seen = None;
        // One byte longer than the timed ones, so that a report tells them apart.
        for (i, len) in [KNOCK_LEN + 1, LARGE].into_iter().enumerate() {
            for _ in 0..TRIES {
                for _ in 0..COPIES[i] {
                    self.send(at, len).await;
                }
                seen = self.answered(ANSWER_WITHIN).await.or(seen);
                // An answer may be lost, or be that to an earlier one.
                up[i] = self.came(port, len).await;
                if up[i] {
                    break;
                }
            }
        }
        let down = self.fragments_down(port, seen).await;
        for (direction, [small, large]) in [(Direction::Up, up), (Direction::Down, down)] {
            self.note(&V6Note::Fragments {
                direction,
                bytes: LARGE as u32,
                small,
                large,
            })
            .await;
        }
        Ok(())
    }

    async fn fragments_down(&self, port: usize, seen: Option<Knocked>) -> [bool; 2] {
        let mut down = [false; 2];
        for (i, size) in [MARK_LEN, LARGE].into_iter().enumerate() {
            // Without an answer there is no proof that we receive, and the server sends nothing.
            let Some(to) = seen else { break };
            for _ in 0..TRIES {
                let mut sent = Vec::new();
                for _ in 0..COPIES[i] {
                    sent.extend(self.course.order(port, to, size).await);
                }
                if sent.is_empty() {
                    break;
                }
                let is_it = |bytes: &[u8], _| sent.iter().any(|s| bytes == s).then_some(());
                let heard = self.course.hear(SOCKET, (ANSWER_WITHIN, true), is_it);
                if heard.await.is_ok() {
                    down[i] = true;
                    break;
                }
            }
        }
        down
    }

    /// True if an unfragmented packet of this size is answered.
    async fn passes(
        &self,
        family: &Family,
        size: u32,
        tries: u32,
        patience: Duration,
    ) -> Result<bool, Stopped> {
        self.course.stage("the largest packet").await;
        let at = self.reachable(family.udp)?;
        let opening = Opening::towards(SOCKET, at);
        self.own(Opening {
            whole: Some(true),
            ..opening
        })
        .await?;
        for _ in 0..tries {
            // One that is too large for our own interface does not arrive.
            self.send(at, (size - family.headers()) as usize).await;
        }
        Ok(self.answered(patience).await.is_some())
    }

    async fn known_mtu(&self) -> Option<u32> {
        match self.course.ask(crate::ask::Ask::PathMtu(SOCKET)).await {
            Some(crate::ask::Answer::PathMtu(mtu)) => mtu,
            _ => None,
        }
    }

    async fn path_mtu(&self, family: &Family) -> Result<(), Stopped> {
        let at = self.reachable(family.udp)?;
        self.own(Opening::towards(SOCKET, at)).await?;
        let interface = self.known_mtu().await;
        let most = interface.unwrap_or(MOST_MTU).clamp(LEAST_MTU, MOST_MTU);
        let mut floors = vec![USUAL_MTU.min(most)];
        if family.version == 4 {
            floors.push(LEAST_MTU);
        }
        let mut arrived = None;
        for floor in floors {
            let mut tries = 0;
            while arrived.is_none() && tries < TRIES {
                let began = self.course.now();
                if self.passes(family, floor, 1, ANSWER_WITHIN).await? {
                    // A slightly larger packet takes hardly longer.
                    let took = self.course.now().saturating_since(began);
                    let patience = took * 2 + Duration::from_millis(100);
                    let patience = patience.min(ANSWER_WITHIN);
                    arrived = Some(self.largest(family, (floor, most), patience).await?);
                }
                tries += 1;
            }
        }
        self.own(Opening::towards(SOCKET, at)).await?;
        let believed = self.known_mtu().await;
        self.note(&V6Note::PathMtu {
            version: family.version,
            arrived,
            lost: arrived.filter(|a| *a < most).map(|a| a + 1),
            believed,
            interface,
        })
        .await;
        Ok(())
    }

    /// The largest packet that gets through, given one that does: `most` at once, for most links carry it, otherwise
    /// the size that a router named, otherwise by halves.
    async fn largest(
        &self,
        family: &Family,
        (mut least, most): (u32, u32),
        patience: Duration,
    ) -> Result<u32, Stopped> {
        let at = self.reachable(family.udp)?;
        let mut size = most;
        // Rounds in which a size was lost, and a smaller one passed after it: one alone may be the end of an outage.
        let mut sure = 0;
        for _ in 0..ROUNDS {
            let mut lost = most + 1;
            while least + 1 < lost {
                if self.passes(family, size, 2, patience).await? {
                    least = size;
                } else {
                    lost = size;
                }
                self.own(Opening::towards(SOCKET, at)).await?;
                let told = self.known_mtu().await;
                size = told
                    .filter(|t| (least + 1..lost).contains(t))
                    .unwrap_or(least + (lost - least) / 2);
            }
            if least >= most {
                return Ok(least);
            }
            // Packets and answers are lost at random too: the last size has one try more, and the report decides.
            let again = self.passes(family, lost, TRIES, ANSWER_WITHIN).await?;
            let all = self.course.arrivals().await;
            let came = all.iter().filter(|a| a.listener == family.udp as u32);
            let came = came.map(|a| a.len.saturating_add(family.headers()));
            least = match came.filter(|c| (lost..=most).contains(c)).max() {
                Some(came) => came,
                None if again => lost,
                None => {
                    sure += u32::from(self.passes(family, least, TRIES, ANSWER_WITHIN).await?);
                    if sure == 2 {
                        break;
                    }
                    size = lost;
                    continue;
                }
            };
            size = least + (most + 1 - least) / 2;
        }
        Ok(least)
    }

    async fn extensions(&self, port: usize) -> Result<(), Stopped> {
        self.course.stage("further headers").await;
        let at = self.reachable(port)?;
        for (name, header) in [
            ("hop-by-hop options", Extension::HopByHop),
            ("destination options", Extension::Destination),
        ] {
            let opening = Opening {
                header: Some(header),
                ..Opening::towards(SOCKET, at)
            };
            let mut arrived = None;
            if self.course.open(opening).await.is_ok() {
                let mut came = false;
                for _ in 0..TRIES {
                    self.send(at, KNOCK_LEN).await;
                    came = self.answered(ANSWER_WITHIN).await.is_some();
                    if came {
                        break;
                    }
                }
                arrived = Some(came);
            }
            self.note(&V6Note::Extension {
                header: name.into(),
                arrived,
            })
            .await;
        }
        Ok(())
    }
}
