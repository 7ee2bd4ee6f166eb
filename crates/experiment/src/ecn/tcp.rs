//! TCP: hand-made SYNs and segments of data between a port of the server and ports of this host, neither of which has a kernel
//! that answers.
//!
//! **Method.** A three-way handshake comes first, so that firewalls with state let later segments pass. The server sends
//! nothing by itself: this end learns from its report that a SYN has come, and orders the SYN-ACK. Each SYN has a source port
//! of its own. The sequence number of each segment tells its number, which every ICMP error quotes (RFC 792).

use super::note::Part;
use super::wire::{self, Came, MOST_ROUNDS, Probe, Quoted, Wire};
use crate::ask::{Heard, Marking, Opening};
use crate::course::Course;
use base::Duration;
use base::record::Direction;
use measure::control::listen::{self, Arrival, MOST_ORDERS, Place, TOKEN_LEN, Transport, Wanted};
use measure::quote::Quote;
use measure::segment::{self, Form, MOST_NUMBERS, Seen, Segment, TCP};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Numbers of sockets: of the connection, of SYNs with hop limits, of SYNs upwards, and the first of SYN-ACKs downwards.
const MAIN: u32 = 100;
const HOPS: u32 = 101;
const UP: u32 = 102;
const DOWN: u32 = 110;
/// Pause between two segments.
const APART: Duration = Duration::from_millis(5);
/// Limit on the arrival of the first SYN, and on that of its answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);
/// Tries of a SYN that shall only be answered.
const TRIES: u32 = 3;
/// Parts in the order of the run.
const PARTS: [Part; 4] = [Part::Handshake, Part::TcpEcn, Part::Ace, Part::AccEcn];

/// One version of IP.
pub(super) struct Tcp {
    course: Course,
    version: u8,
    limit: u8,
    token: [u8; TOKEN_LEN],
    /// Address of the server's port.
    at: SocketAddr,
    /// Address of this end of the connection as the server sees it.
    seen_as: Cell<Option<SocketAddr>>,
    /// Sequence number of the server's segment 0.
    isn: Cell<u32>,
    patience: Cell<Duration>,
    /// Ports of open sockets.
    ports: RefCell<BTreeMap<u32, u16>>,
    /// Number of the next segment upwards, and of the next one downwards.
    up: Cell<u32>,
    down: Cell<u32>,
    /// Orders that the far end still takes.
    orders: Cell<u32>,
    /// Arrivals at the far end that have been read.
    read: Cell<usize>,
    /// Probes by their numbers: upwards, and downwards.
    probes: [RefCell<BTreeMap<u32, (Part, Probe)>>; 2],
}

impl Tcp {
    /// Opens a port and connects; gives the reason if TCP cannot be tried.
    pub async fn begin(
        course: &Course,
        version: u8,
        place: Place,
        limit: u8,
    ) -> Result<Tcp, String> {
        course.stage(&format!("TCP over IPv{version}")).await;
        let wanted = Wanted {
            answer: listen::Answer::Segments,
            ..Wanted::new(Transport::Tcp, place, 0)
        };
        let ports = course.listen(vec![wanted], Duration::from_secs(600)).await;
        let ports = ports.ok_or("the server opens no ports")?;
        let none = || Err("the server did not name this port".to_owned());
        let at = ports.at.first().cloned().unwrap_or_else(none)?;
        let tcp = Tcp {
            course: course.clone(),
            version,
            limit,
            token: ports.token,
            at,
            seen_as: Cell::new(None),
            isn: Cell::new(0),
            patience: Cell::new(ANSWER_WITHIN),
            ports: RefCell::default(),
            up: Cell::new(0),
            down: Cell::new(1),
            orders: Cell::new(MOST_ORDERS - 64),
            read: Cell::new(0),
            probes: Default::default(),
        };
        tcp.connect().await?;
        Ok(tcp)
    }

    /// Tries all parts, in both directions.
    pub async fn all(&self) {
        for part in PARTS {
            wire::all(&Of { tcp: self, part }).await;
        }
    }

    async fn connect(&self) -> Result<(), String> {
        let mut why = "no plain SYN arrives: TCP to the server's port may be filtered";
        for _ in 0..MOST_ROUNDS {
            self.open(MAIN).await?;
            let began = self.course.now();
            let Some(to) = self.syn_arrives(MAIN).await else {
                continue;
            };
            let took = self.course.now().saturating_since(began);
            let left = self
                .order(to, (Form::Handshake(0), 0), Marking::default())
                .await;
            if !left {
                continue;
            }
            why = "no plain SYN-ACK arrives: answers by TCP may be filtered";
            let Some(isn) = self.syn_ack().await else {
                continue;
            };
            self.seen_as.set(Some(to));
            self.isn.set(isn);
            why = "no plain segment arrives after the handshake";
            for _ in 0..TRIES {
                let data = Form::Data(0);
                let Some(number) = self.segment(MAIN, data, Marking::default()).await else {
                    break;
                };
                if self.arrives(number, ANSWER_WITHIN).await.is_some() {
                    let patience = (took * 2).max(Duration::from_millis(200));
                    self.patience.set(patience);
                    return Ok(());
                }
            }
        }
        Err(why.into())
    }

    async fn open(&self, socket: u32) -> Result<(), String> {
        let opening = Opening {
            segments: true,
            ..Opening::towards(socket, self.at)
        };
        let local = self.course.open(opening).await;
        let local = local.map_err(|e| format!("this host cannot send segments: {}", e.text))?;
        self.ports.borrow_mut().insert(socket, local.port());
        Ok(())
    }

    /// Sends a segment upwards; gives its number. Null if no number is left.
    async fn segment(&self, socket: u32, form: Form, marking: Marking) -> Option<u32> {
        let number = self.up.get();
        if number >= MOST_NUMBERS {
            return None;
        }
        self.up.set(number + 1);
        let port = self.ports.borrow().get(&socket).copied()?;
        let acks = !matches!(form, Form::Handshake(_));
        let segment = Segment {
            ports: (port, self.at.port()),
            seq: segment::seq(segment::base(&self.token), number, form),
            ack: acks.then(|| self.isn.get().wrapping_add(1)),
            form,
        };
        let sent = self
            .course
            .send_marked(socket, self.at, segment.encode(), marking);
        // A segment that this host does not send is lost.
        let _ = sent.await;
        Some(number)
    }

    async fn order(&self, to: SocketAddr, what: (Form, u32), marking: Marking) -> bool {
        let Some(left) = self.orders.get().checked_sub(1) else {
            return false;
        };
        self.orders.set(left);
        self.course
            .order_segment((0, to), what, marking)
            .await
            .is_ok()
    }

    fn number(&self, arrival: &Arrival) -> Option<(u32, Seen)> {
        let seen = Seen::read(&arrival.bytes)?;
        let number = segment::number(segment::base(&self.token), seen.seq)?;
        Some((number, seen))
    }

    /// Source of an upward segment at the server, once it has arrived.
    async fn arrives(&self, number: u32, within: Duration) -> Option<SocketAddr> {
        let until = self.course.now() + within;
        loop {
            let all = self.course.arrivals().await;
            let its = |a: &&Arrival| self.number(a).is_some_and(|(n, _)| n == number);
            if let Some(arrival) = all.iter().rev().find(its) {
                return arrival.from;
            }
            if self.course.now() >= until {
                return None;
            }
            self.course.wait(Duration::from_millis(20)).await;
        }
    }

    /// Sends a plain SYN; gives its source as the server sees it.
    async fn syn_arrives(&self, socket: u32) -> Option<SocketAddr> {
        let number = self
            .segment(socket, Form::Handshake(0), Marking::default())
            .await?;
        self.arrives(number, self.patience.get()).await
    }

    /// Waits for the SYN-ACK of the connection; gives its sequence number.
    async fn syn_ack(&self) -> Option<u32> {
        let is_it = |bytes: &[u8], _| {
            let seen = Seen::read(bytes)?;
            seen.rest.filter(|f| f.syn && f.acks).map(|_| seen.seq)
        };
        let heard = self.course.hear(MAIN, (ANSWER_WITHIN, true), is_it);
        heard.await.ok()
    }
}

/// Part of the segments of a connection.
struct Of<'a> {
    tcp: &'a Tcp,
    part: Part,
}

impl Of<'_> {
    fn form(&self, value: u8) -> Form {
        match self.part {
            Part::Handshake => Form::Handshake(value),
            Part::Ace => Form::Data(value),
            Part::AccEcn => Form::Option(value),
            Part::Udp | Part::TcpEcn => Form::Data(0),
        }
    }

    /// Value of the part in a segment; null if it does not show.
    fn value(&self, seen: &Seen, tos: Option<u8>) -> Option<u8> {
        match self.part {
            Part::Handshake | Part::Ace => seen.rest.map(|f| f.ecn),
            Part::AccEcn => seen.option,
            Part::Udp | Part::TcpEcn => tos.map(|tos| tos & 3),
        }
    }

    fn probe(&self, direction: Direction, number: u32) -> Option<Probe> {
        let probes = self.tcp.probes[direction as usize].borrow();
        let (_, probe) = probes.get(&number).filter(|(part, _)| *part == self.part)?;
        Some(*probe)
    }

    fn remember(&self, direction: Direction, number: u32, probe: Probe) {
        let mut probes = self.tcp.probes[direction as usize].borrow_mut();
        probes.insert(number, (self.part, probe));
    }

    async fn send_up(&self, probe: Probe, form: Form, marking: Marking) -> bool {
        let socket = match (self.part, probe.hop) {
            (Part::Handshake, 0) => UP,
            (Part::Handshake, _) => HOPS,
            _ => MAIN,
        };
        let known = self.tcp.ports.borrow().contains_key(&socket);
        if (socket == UP || !known) && self.tcp.open(socket).await.is_err() {
            return false;
        }
        let number = self.tcp.segment(socket, form, marking).await;
        if let Some(number) = number {
            self.remember(Direction::Up, number, probe);
        }
        number.is_some()
    }

    async fn send_down(&self, probe: Probe, form: Form, marking: Marking) -> bool {
        if self.part == Part::Handshake && probe.hop == 0 {
            // A connection of its own, begun by a plain SYN.
            let socket = DOWN + probe.marking as u32;
            for _ in 0..TRIES {
                if self.tcp.open(socket).await.is_err() {
                    return false;
                }
                if let Some(to) = self.tcp.syn_arrives(socket).await {
                    return self.tcp.order(to, (form, 0), marking).await;
                }
            }
            return false;
        }
        let (Some(to), number) = (self.tcp.seen_as.get(), self.tcp.down.get()) else {
            return false;
        };
        if number >= MOST_NUMBERS {
            return false;
        }
        self.tcp.down.set(number + 1);
        self.remember(Direction::Down, number, probe);
        self.tcp.order(to, (form, number), marking).await
    }

    /// Next segment at a socket that is there.
    async fn heard(&self, socket: u32) -> Option<(Seen, Option<u8>)> {
        loop {
            let heard = self.tcp.course.heard(socket, (Duration::ZERO, true)).await;
            let Heard { bytes, tos, .. } = heard.ok()?;
            if let Some(seen) = Seen::read(&bytes) {
                return Some((seen, tos));
            }
        }
    }
}

impl Wire for Of<'_> {
    fn course(&self) -> &Course {
        &self.tcp.course
    }

    fn version(&self) -> u8 {
        self.tcp.version
    }

    fn limit(&self) -> u8 {
        self.tcp.limit
    }

    fn patience(&self) -> Duration {
        self.tcp.patience.get()
    }

    fn part(&self) -> Part {
        self.part
    }

    fn values(&self, direction: Direction) -> Vec<u8> {
        let values: &[u8] = match (self.part, direction) {
            // Classic ECN (RFC 3168 section 6.1.1), and AccECN (RFC 9768 section 3.1.1).
            (Part::Handshake, Direction::Up) => &[0, 3, 7],
            // Classic ECN, and AccECN for a SYN that came as Not-ECT, ECT(1), ECT(0), CE (section 3.1.2).
            (Part::Handshake, Direction::Down) => &[0, 1, 2, 3, 4, 6],
            (Part::Udp | Part::TcpEcn, _) => &[0, 2, 1, 3],
            (Part::Ace, _) => &[0, 1, 2, 4, 5, 7],
            (Part::AccEcn, _) => &[0, 1, 2],
        };
        values.to_vec()
    }

    async fn send(&self, direction: Direction, probe: Probe) -> bool {
        let value = self.values(direction)[probe.marking];
        let form = self.form(value);
        let marking = Marking {
            tos: if self.part == Part::TcpEcn { value } else { 0 },
            hops: (probe.hop > 0).then_some(probe.hop),
        };
        let left = match direction {
            Direction::Up => self.send_up(probe, form, marking).await,
            Direction::Down => self.send_down(probe, form, marking).await,
        };
        self.tcp.course.wait(APART).await;
        left
    }

    async fn gather(&self, direction: Direction, within: Duration) -> Vec<Came> {
        self.tcp.course.wait(within).await;
        let mut came = Vec::new();
        if direction == Direction::Up {
            let all = self.tcp.course.arrivals().await;
            let read = self.tcp.read.replace(all.len());
            for arrival in &all[read.min(all.len())..] {
                if let Some((number, seen)) = self.tcp.number(arrival) {
                    let probe = self.probe(direction, number);
                    came.extend(probe.map(|p| (p, self.value(&seen, arrival.tos))));
                }
            }
            return came;
        }
        while let Some((seen, tos)) = self.heard(MAIN).await {
            let number = segment::number(self.tcp.isn.get(), seen.seq);
            let probe = number.and_then(|n| self.probe(direction, n));
            came.extend(probe.map(|p| (p, self.value(&seen, tos))));
        }
        if self.part == Part::Handshake {
            for marking in 0..self.values(direction).len() {
                let socket = DOWN + marking as u32;
                if !self.tcp.ports.borrow().contains_key(&socket) {
                    continue;
                }
                while let Some((seen, tos)) = self.heard(socket).await {
                    if seen.rest.is_some_and(|f| f.syn && f.acks) {
                        let probe = Probe { marking, hop: 0 };
                        came.push((probe, self.value(&seen, tos)));
                    }
                }
            }
        }
        came
    }

    fn quoted(&self, direction: Direction, quote: &Quote) -> Quoted {
        if quote.protocol != TCP {
            return Quoted::Foreign;
        }
        let Some(seen) = Seen::read(&quote.rest) else {
            return Quoted::Short;
        };
        let (port, base) = match direction {
            Direction::Up => (seen.to, segment::base(&self.tcp.token)),
            Direction::Down => (seen.from, self.tcp.isn.get()),
        };
        let number = segment::number(base, seen.seq).filter(|_| port == self.tcp.at.port());
        match number.and_then(|n| self.probe(direction, n)) {
            Some(probe) => Quoted::Probe(probe, self.value(&seen, Some(quote.tos))),
            None => Quoted::Foreign,
        }
    }
}
