//! Order of the run, and UDP: datagrams of every marking between two ports of the server and sockets of this host.

use super::note::{EcnNote, Part};
use super::tcp::Tcp;
use super::wire::{self, Came, MOST_ROUNDS, Probe, Quoted, Wire};
use super::{CODEPOINTS, MARKINGS, Params};
use crate::ask::{Heard, Marking, Opening};
use crate::course::{Course, OfCourse};
use crate::host::Stopped;
use crate::spec::Setting;
use base::record::Direction;
use base::{Bytes, Duration};
use measure::control::listen::{
    self, KNOCK_LEN, Knocked, MARK_LEN, MOST_ORDERS, Place, TOKEN_LEN, Transport, Wanted, knock,
};
use measure::quote::Quote;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Greatest traffic: eleven markings of datagrams and as many of segments, in both directions over both versions of IP, on a long path that changes
/// all of them.
const MOST: Bytes = Bytes::new(5_000_000);
/// Attempts to send a datagram: a socket reports the refusal of an earlier one in place of sending the next.
const SENDS: u32 = 3;
/// Pause between two datagrams, so that a slow link holds few of them.
const APART: Duration = Duration::from_millis(5);
/// Limit on the answer to a knock.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);
/// Shortest datagram; the length of each tells which one an ICMP error quotes.
const LEAST: usize = 24;
const _: () = assert!(LEAST >= MARK_LEN && LEAST > TOKEN_LEN);
/// Lengths reserved for each marking: one for each hop limit, and one without.
const HOPS: usize = 32;
/// Order of the far end's ports: the one that answers and sends, and the one that only counts.
const ANSWERS: usize = 0;
const COUNTS: usize = 1;

/// # Errors
/// The budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    setting.afford("ecn", MOST)?;
    let limit = params.hops;
    Ok(OfCourse::new(
        Duration::from_secs(4),
        move |course| async move {
            for (version, place) in [(4, Place::V4), (6, Place::V6)] {
                match Run::begin(&course, (version, place), (limit, MARKINGS.len())).await {
                    Ok(run) => wire::all(&run).await,
                    Err(why) => {
                        let note = EcnNote::Untried {
                            version,
                            tcp: false,
                            why,
                        };
                        course.note(&note, "server").await;
                    }
                }
                match Tcp::begin(&course, version, place, limit).await {
                    Ok(run) => run.all().await,
                    Err(why) => {
                        let note = EcnNote::Untried {
                            version,
                            tcp: true,
                            why,
                        };
                        course.note(&note, "server").await;
                    }
                }
            }
            Ok(())
        },
    ))
}

/// Hop limit up to which another experiment asks for hops.
const FAR: u8 = 24;

/// Finds the hops in a direction at which ECN codepoints of datagrams to this address are changed or lost: the part of
/// `ecn` that another experiment has learned to be of interest. Its notes are those of `ecn`.
pub(crate) async fn codepoints(course: &Course, direction: Direction, to: SocketAddr) {
    let of = match to {
        SocketAddr::V4(_) => (4, Place::V4),
        SocketAddr::V6(_) => (6, Place::V6),
    };
    match Run::begin(course, of, (FAR, CODEPOINTS)).await {
        Ok(run) => wire::one(&run, direction).await,
        Err(why) => {
            let note = EcnNote::Untried {
                version: of.0,
                tcp: false,
                why,
            };
            course.note(&note, "server").await;
        }
    }
}

impl Probe {
    fn len(self) -> usize {
        LEAST + self.marking * HOPS + usize::from(self.hop)
    }

    fn of_len(len: usize) -> Option<Probe> {
        let number = len.checked_sub(LEAST)?;
        let marking = number / HOPS;
        (marking < MARKINGS.len()).then_some(Probe {
            marking,
            hop: (number % HOPS) as u8,
        })
    }

    fn tos(self) -> u8 {
        MARKINGS[self.marking].tos
    }
}

/// One version of IP.
struct Run {
    course: Course,
    version: u8,
    /// Farthest hop that is asked.
    limit: u8,
    /// Number of the markings that are tried.
    markings: usize,
    token: [u8; TOKEN_LEN],
    /// Addresses of the far end's ports.
    at: [SocketAddr; 2],
    knocked: Knocked,
    /// Time in which a datagram arrives and news of it returns.
    patience: Duration,
    /// Orders that the far end still takes.
    orders: Cell<u32>,
    /// Arrivals at the far end that have been read.
    read: Cell<usize>,
    /// Contents of datagrams that the far end was told to send.
    ordered: RefCell<BTreeMap<Vec<u8>, Probe>>,
}

impl Run {
    /// Opens ports and sockets; gives the reason if this version of IP cannot be tried.
    async fn begin(
        course: &Course,
        (version, place): (u8, Place),
        (limit, markings): (u8, usize),
    ) -> Result<Run, String> {
        course.stage(&format!("markings over IPv{version}")).await;
        let wanted = [listen::Answer::Mark, listen::Answer::Nothing].map(|answer| Wanted {
            answer,
            ..Wanted::new(Transport::Udp, place, 0)
        });
        let open = Duration::from_secs(600);
        let ports = course.listen(wanted.to_vec(), open).await;
        let ports = ports.ok_or("the server opens no ports")?;
        let port = |i: usize| {
            let none = || Err("the server did not name this port".to_owned());
            ports.at.get(i).cloned().unwrap_or_else(none)
        };
        let at = [port(ANSWERS)?, port(COUNTS)?];
        for (number, to) in at.iter().enumerate() {
            let opened = course.open(Opening::towards(number as u32, *to)).await;
            opened.map_err(|e| format!("this host cannot send there: {}", e.text))?;
        }
        let (knocked, took) = answer(course, at[ANSWERS], &ports.token)
            .await
            .ok_or("no answer to datagrams: UDP may be filtered")?;
        Ok(Run {
            course: course.clone(),
            version,
            limit,
            markings,
            token: ports.token,
            at,
            knocked,
            patience: (took * 2).max(Duration::from_millis(200)),
            orders: Cell::new(MOST_ORDERS - 64),
            read: Cell::new(0),
            ordered: RefCell::default(),
        })
    }
}

impl Wire for Run {
    fn course(&self) -> &Course {
        &self.course
    }

    fn version(&self) -> u8 {
        self.version
    }

    fn limit(&self) -> u8 {
        self.limit
    }

    fn patience(&self) -> Duration {
        self.patience
    }

    fn part(&self) -> Part {
        Part::Udp
    }

    fn values(&self, _: Direction) -> Vec<u8> {
        MARKINGS[..self.markings].iter().map(|m| m.tos).collect()
    }

    fn quoted(&self, direction: Direction, quote: &Quote) -> Quoted {
        if quote.protocol != measure::quote::UDP {
            return Quoted::Foreign;
        }
        let Some(udp) = quote.udp() else {
            return Quoted::Short;
        };
        let ours = match direction {
            Direction::Up => udp.to == self.at[COUNTS].port(),
            Direction::Down => udp.from == self.at[ANSWERS].port(),
        };
        match Probe::of_len(udp.payload).filter(|_| ours) {
            Some(probe) => Quoted::Probe(probe, Some(quote.tos)),
            None => Quoted::Foreign,
        }
    }

    async fn send(&self, direction: Direction, probe: Probe) -> bool {
        let marking = Marking {
            tos: probe.tos(),
            hops: (probe.hop > 0).then_some(probe.hop),
        };
        if direction == Direction::Up {
            let bytes = knock_of(&self.token, probe.len());
            for _ in 0..SENDS {
                let (course, to) = (&self.course, self.at[COUNTS]);
                let sending = course.send_marked(COUNTS as u32, to, bytes.clone(), marking);
                if sending.await.is_ok() {
                    break;
                }
            }
        } else if let Some(left) = self.orders.get().checked_sub(1) {
            self.orders.set(left);
            let order = self
                .course
                .order_marked(ANSWERS, self.knocked, probe.len(), marking);
            if let Some(bytes) = order.await {
                self.ordered.borrow_mut().insert(bytes, probe);
            }
        } else {
            return false;
        }
        self.course.wait(APART).await;
        true
    }

    async fn gather(&self, direction: Direction, within: Duration) -> Vec<Came> {
        if direction == Direction::Up {
            self.course.wait(within).await;
            let all = self.course.arrivals().await;
            let new = &all[self.read.get().min(all.len())..];
            self.read.set(all.len());
            let ours = new
                .iter()
                .filter(|a| a.listener == COUNTS as u32 && !a.bytes.is_empty());
            return ours
                .filter_map(|a| Some((Probe::of_len(a.len as usize)?, a.tos)))
                .collect();
        }
        let until = self.course.now() + within;
        let mut came = Vec::new();
        loop {
            let left = until.saturating_since(self.course.now());
            let heard = self.course.heard(ANSWERS as u32, (left, true)).await;
            let Ok(Heard { bytes, tos, .. }) = heard else {
                return came;
            };
            let ordered = self.ordered.borrow().get(&bytes).copied();
            came.extend(ordered.map(|probe| (probe, tos)));
        }
    }
}

/// Token, padded.
fn knock_of(token: &[u8; TOKEN_LEN], len: usize) -> Vec<u8> {
    let mut bytes = token.to_vec();
    bytes.resize(len, b'.');
    bytes
}

/// Knocks until the server answers; gives the answer and the round trip.
async fn answer(
    course: &Course,
    at: SocketAddr,
    token: &[u8; TOKEN_LEN],
) -> Option<(Knocked, Duration)> {
    for _ in 0..MOST_ROUNDS {
        let began = course.now();
        let sent = course.send(ANSWERS as u32, at, knock(token, KNOCK_LEN));
        let _ = sent.await;
        let is_it = |bytes: &[u8], _| Knocked::decode(bytes, token);
        let heard = course.hear(ANSWERS as u32, (ANSWER_WITHIN, false), is_it);
        if let Ok(knocked) = heard.await {
            return Some((knocked, course.now().saturating_since(began)));
        }
    }
    None
}
