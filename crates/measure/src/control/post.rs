//! Server's decisions about its open ports, without sockets: what is answered, kept and reported.
//!
//! Two bounds hold for any request. First, a source that has not proven that it receives gets no more bytes than it
//! sent. An answer over UDP is never longer than the datagram before it; a longer one goes only to an address whose
//! cookie came back. Second, nobody reads what others sent. Without the token, only the client's own address is
//! reported, with lengths and no contents; everything else is only counted.

use super::listen::{
    Answer, Arrival, COOKIE_LEN, Echo, Knocked, LEAST_DATAGRAM, MARK_LEN, MOST_ARRIVALS,
    MOST_BYTES, MOST_DATAGRAM, MOST_ORDERS, PULLED_LEN, Pull, Pulled, TOKEN_LEN, Transport, Wanted,
    datagram, echo_number, mark,
};
use crate::segment::{self, Form, MOST_HEADER, Seen, Segment};
use crate::wire::Key;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Writer of an answer that is neither nothing nor a mark; it may depend on the token alone.
pub type Author = fn(Answer, &[u8; TOKEN_LEN]) -> Vec<u8>;

/// A datagram to send from one of the ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Index of the port that sends.
    pub listener: usize,
    /// Destination address.
    pub to: SocketAddr,
    /// Bytes to send.
    pub bytes: Vec<u8>,
}

/// Greatest number of TCP sources that are remembered.
const MOST_CONNECTIONS: usize = 256;

/// Source of hand-made segments.
#[derive(Clone, Copy, Debug)]
struct Connection {
    /// Sequence number of its latest SYN.
    syn: u32,
    /// SYNs that no SYN-ACK has answered.
    unanswered: u32,
    /// True once it has acknowledged a sequence number that only a receiver there can know.
    proven: bool,
}

/// Ports of one client.
pub struct Post {
    token: [u8; TOKEN_LEN],
    /// Token as text, for messages that are text.
    written: Vec<u8>,
    secret: Key,
    client: IpAddr,
    wanted: Vec<Wanted>,
    author: Author,
    arrivals: Vec<Arrival>,
    /// Datagrams that each port has echoed.
    echoed: Vec<u32>,
    connections: BTreeMap<(usize, SocketAddr), Connection>,
    foreign: u64,
}

impl Post {
    /// Opens the ports' state. `secret` makes cookies and stays private; `client` is the address of the connection that
    /// asked.
    pub fn new(
        token: [u8; TOKEN_LEN],
        secret: [u8; 16],
        client: IpAddr,
        wanted: Vec<Wanted>,
        author: Author,
    ) -> Post {
        let written: String = token.iter().map(|b| format!("{b:02x}")).collect();
        Post {
            token,
            written: written.into_bytes(),
            secret: Key::new(&secret),
            client: client.to_canonical(),
            echoed: vec![0; wanted.len()],
            wanted,
            author,
            arrivals: Vec::new(),
            connections: BTreeMap::new(),
            foreign: 0,
        }
    }

    /// Ports in the order of the request.
    pub fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    /// Arrivals for this client.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Token that messages to the ports carry.
    pub fn token(&self) -> &[u8; TOKEN_LEN] {
        &self.token
    }

    /// Address of the client.
    pub fn client(&self) -> IpAddr {
        self.client
    }

    /// Number of datagrams and connections of others, of which nothing is kept.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }

    /// True if the bytes hold the token.
    pub fn shows_token(&self, bytes: &[u8]) -> bool {
        let holds = |part: &[u8]| bytes.windows(part.len()).any(|w| w == part);
        holds(&self.token) || holds(&self.written)
    }

    fn cookie(&self, of: SocketAddr) -> [u8; COOKIE_LEN] {
        let ip = match of.ip().to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        self.secret
            .tag(&[b"listen", &ip.octets(), &of.port().to_be_bytes()])
    }

    fn keep(&mut self, arrival: Arrival) -> Option<usize> {
        if self.arrivals.len() >= MOST_ARRIVALS {
            return None;
        }
        self.arrivals.push(arrival);
        Some(self.arrivals.len() - 1)
    }

    fn is_own(&self, from: SocketAddr) -> bool {
        from.ip().to_canonical() == self.client
    }

    /// Handles a datagram with its TOS byte; returns the answer to its source, which is never longer than it.
    pub fn datagram(
        &mut self,
        listener: usize,
        (from, tos): (SocketAddr, Option<u8>),
        bytes: &[u8],
    ) -> Option<Vec<u8>> {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let shown = self.shows_token(bytes);
        if !shown && !self.is_own(from) {
            self.foreign += 1;
            return None;
        }
        let wanted = self.wanted.get(listener)?;
        if wanted.answer == Answer::Echo {
            return self.echo(listener, tos, bytes);
        }
        let answer = match wanted.answer {
            _ if !shown => None,
            Answer::Nothing | Answer::Quic | Answer::Segments => None,
            Answer::Mark | Answer::Pull => {
                let cookie = self.cookie(from);
                Some(Knocked { from, cookie }.encode(&self.token).to_vec())
            }
            other => Some((self.author)(other, &self.token)),
        };
        let answer = answer.filter(|a| a.len() <= bytes.len());
        self.keep(Arrival {
            listener: listener as u32,
            from: Some(from),
            len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            bytes: bytes[..if shown {
                bytes.len().min(MOST_BYTES)
            } else {
                0
            }]
                .to_vec(),
            syn: Vec::new(),
            answered: answer.is_some(),
            tos,
        });
        answer
    }

    /// Feedback for a datagram. Thousands of them come, so that none is kept as an arrival.
    fn echo(&mut self, listener: usize, tos: Option<u8>, bytes: &[u8]) -> Option<Vec<u8>> {
        let number = echo_number(bytes, &self.token)?;
        let count = self.echoed.get_mut(listener)?;
        *count = count.wrapping_add(1);
        let echo = Echo {
            number,
            count: *count,
            tos,
        };
        let echo = echo.encode(&self.token).to_vec();
        (echo.len() <= bytes.len()).then_some(echo)
    }

    /// Handles a request for a datagram, which arrived at `at_ns`; returns the datagram and its TOS byte. `None` without the
    /// cookie that this port's source was given: whoever has not proven that it receives gets no datagram.
    pub fn pull(
        &mut self,
        listener: usize,
        from: SocketAddr,
        bytes: &[u8],
        at_ns: u64,
    ) -> Option<(Vec<u8>, u8)> {
        if self.wanted.get(listener)?.answer != Answer::Pull {
            return None;
        }
        let pull = Pull::decode(bytes, &self.token)?;
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let len = usize::from(pull.len);
        if !self.holds_cookie(from, &pull.cookie) || !PULLED_LEN.contains(&len) {
            return None;
        }
        let count = self.echoed.get_mut(listener)?;
        *count = count.wrapping_add(1);
        let pulled = Pulled {
            number: pull.number,
            count: *count,
            at_ns,
        };
        Some((pulled.encode(&self.token, len), pull.tos))
    }

    /// True if this is the cookie of an address. Compares in constant time, so that the timing of refusals reveals nothing.
    fn holds_cookie(&self, of: SocketAddr, cookie: &[u8; COOKIE_LEN]) -> bool {
        let expected = self.cookie(of);
        expected.iter().zip(cookie).fold(0, |d, (a, b)| d | (a ^ b)) == 0
    }

    /// Handles a connection to a port; returns its index among the arrivals, if there is room.
    pub fn call(&mut self, listener: usize, from: SocketAddr, syn: Vec<u8>) -> Option<usize> {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        if !self.is_own(from) {
            // The connection may still show the token: over another address family, or through a proxy.
            self.foreign += 1;
            return None;
        }
        self.keep(Arrival {
            listener: listener as u32,
            from: Some(from),
            syn,
            ..Arrival::default()
        })
    }

    /// Answer to a connection's bytes so far; `None` if they do not show the token.
    pub fn answer_call(
        &mut self,
        (listener, arrival): (usize, &mut Option<usize>),
        from: SocketAddr,
        said: &[u8],
        len: u32,
    ) -> Option<Vec<u8>> {
        let shown = self.shows_token(said);
        if shown && arrival.is_none() {
            self.foreign = self.foreign.saturating_sub(1);
            *arrival = self.keep(Arrival {
                listener: listener as u32,
                from: Some(SocketAddr::new(from.ip().to_canonical(), from.port())),
                ..Arrival::default()
            });
        }
        let answer = match self.wanted.get(listener)?.answer {
            _ if !shown => None,
            Answer::Nothing | Answer::Echo | Answer::Pull | Answer::Quic | Answer::Segments => None,
            Answer::Mark => Some(mark(&self.token).to_vec()),
            other => Some((self.author)(other, &self.token)),
        };
        if let Some(kept) = arrival.and_then(|i| self.arrivals.get_mut(i)) {
            kept.len = len;
            if shown {
                kept.bytes = said[..said.len().min(MOST_BYTES)].to_vec();
            }
            kept.answered |= answer.is_some();
        }
        answer
    }

    /// Sequence number of the server's segment 0 to an address.
    fn segment_base(&self, to: SocketAddr) -> u32 {
        let cookie = self.cookie(to);
        u32::from_be_bytes(std::array::from_fn(|i| cookie[i]))
    }

    /// Handles a TCP segment at a port for segments. Nothing is answered; only segments with a sequence number from the token
    /// are kept.
    pub fn segment(&mut self, listener: usize, from: SocketAddr, tos: Option<u8>, bytes: &[u8]) {
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let its = self.wanted.get(listener).map(|w| w.answer) == Some(Answer::Segments);
        let seen = Seen::read(bytes).filter(|s| its && s.from == from.port());
        let base = segment::base(&self.token);
        let seen = seen.filter(|s| segment::number(base, s.seq).is_some());
        let Some((seen, flags)) = seen.and_then(|s| Some((s, s.rest?))) else {
            self.foreign += u64::from(!self.is_own(from));
            return;
        };
        let proof = self.segment_base(from).wrapping_add(1);
        let room = self.connections.len() < MOST_CONNECTIONS;
        match self.connections.get_mut(&(listener, from)) {
            Some(connection) if flags.syn => {
                connection.syn = seen.seq;
                connection.unanswered = connection.unanswered.saturating_add(1);
            }
            Some(connection) => connection.proven |= flags.acks && flags.ack == proof,
            None if flags.syn && room => {
                let connection = Connection {
                    syn: seen.seq,
                    unanswered: 1,
                    proven: false,
                };
                self.connections.insert((listener, from), connection);
            }
            None => {}
        }
        self.keep(Arrival {
            listener: listener as u32,
            from: Some(from),
            len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            bytes: bytes[..bytes.len().min(MOST_HEADER)].to_vec(),
            tos,
            ..Arrival::default()
        });
    }

    /// TCP segment that the server sends for an order from a port of this number, without its checksum. Before an address has
    /// proven that it receives, it gets one SYN-ACK for each of its SYNs, which is no longer than the SYN.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn order_segment(
        &mut self,
        listener: u32,
        port: u16,
        to: SocketAddr,
        (form, number): (Form, u32),
    ) -> Result<Sending, String> {
        let to = SocketAddr::new(to.ip().to_canonical(), to.port());
        let (listener, base) = (listener as usize, self.segment_base(to));
        if number >= MOST_ORDERS {
            return Err(format!(
                "a segment has a number below {MOST_ORDERS}, not {number}"
            ));
        }
        let Some(connection) = self.connections.get_mut(&(listener, to)) else {
            return Err(format!("no SYN from {to} has come to port {listener}"));
        };
        if !connection.proven {
            let answers = matches!(form, Form::Handshake(_)) && connection.unanswered > 0;
            if !answers {
                return Err(format!("{to} has not proven that it receives there"));
            }
            connection.unanswered -= 1;
        }
        let segment = Segment {
            ports: (port, to.port()),
            seq: segment::seq(base, number, form),
            ack: Some(connection.syn.wrapping_add(1)),
            form,
        };
        Ok(Sending {
            listener,
            to,
            bytes: segment.encode(),
        })
    }

    /// Datagram that the server sends for an order.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn send(
        &self,
        listener: u32,
        to: SocketAddr,
        cookie: &[u8; COOKIE_LEN],
        (number, len): (u32, u32),
    ) -> Result<Sending, String> {
        let port = usize::try_from(listener).ok();
        let port = port.filter(|i| {
            let wanted = self.wanted.get(*i);
            wanted.is_some_and(|w| w.transport == Transport::Udp)
        });
        let Some(listener) = port else {
            return Err(format!("no UDP port {listener} is open"));
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if number >= MOST_ORDERS || !(LEAST_DATAGRAM..=MOST_DATAGRAM).contains(&len) {
            return Err(format!(
                "a datagram has a number below {MOST_ORDERS} and {MARK_LEN} to {MOST_DATAGRAM} bytes, not {number} and {len}"
            ));
        }
        if !self.holds_cookie(to, cookie) {
            return Err(format!("{to} has not proven that it receives there"));
        }
        Ok(Sending {
            listener,
            to,
            bytes: datagram(&self.token, number, len),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::listen::{KNOCK_LEN, Place, knock};
    use proptest::prelude::*;

    const TOKEN: [u8; TOKEN_LEN] = *b"\x01tokentk";
    const CLIENT: [u8; 4] = [192, 0, 2, 1];

    fn author(_: Answer, _: &[u8; TOKEN_LEN]) -> Vec<u8> {
        vec![b'x'; 300]
    }

    fn post(answer: Answer) -> Post {
        let wanted = [Transport::Udp, Transport::Tcp].map(|transport| Wanted {
            answer,
            ..Wanted::new(transport, Place::Here, 0)
        });
        Post::new(TOKEN, [7; 16], CLIENT.into(), wanted.to_vec(), author)
    }

    fn answers() -> impl Strategy<Value = Answer> {
        prop_oneof![
            Just(Answer::Nothing),
            Just(Answer::Mark),
            Just(Answer::Page),
            Just(Answer::Names),
            Just(Answer::Pull),
        ]
    }

    proptest! {
        /// A forged source names a victim: the victim never gets more bytes than the forger spent on it.
        #[test]
        fn no_source_gets_more_than_it_sent(
            answer in answers(),
            datagrams in prop::collection::vec((0usize..3, any::<[u8; 4]>(), any::<u16>(), 0usize..2000, any::<bool>()), 1..40),
        ) {
            let mut post = post(answer);
            for (listener, ip, port, len, token) in datagrams {
                let mut bytes = if token { knock(&TOKEN, 0) } else { Vec::new() };
                bytes.resize(len, b'.');
                let sent = post.datagram(listener, ((ip, port).into(), None), &bytes).map_or(0, |a| a.len());
                prop_assert!(sent <= bytes.len(), "{sent} bytes in return for {}", bytes.len());
            }
        }

        /// Guessed cookies open nothing; a cookie of one address does not open another.
        #[test]
        fn nothing_is_sent_to_whom_has_not_received_a_cookie(
            cookie: [u8; 16], ip: [u8; 4], port in 1u16.., number: u32, len: u32, listener in 0u32..4,
        ) {
            let mut post = post(Answer::Mark);
            let own: SocketAddr = (CLIENT, 40_000).into();
            let answer = post.datagram(0, (own, None), &knock(&TOKEN, 0)).expect("answered");
            let known = Knocked::decode(&answer, &TOKEN).expect("readable");
            prop_assert_eq!(known.from, own);
            let victim = (ip, port).into();
            prop_assume!(victim != own);
            prop_assert!(post.send(listener, victim, &cookie, (number, len)).is_err());
            prop_assert!(post.send(0, victim, &known.cookie, (1, 100)).is_err());
            let allowed = post.send(listener, own, &known.cookie, (number, len));
            if let Ok(sending) = allowed {
                prop_assert!(listener == 0 && number < MOST_ORDERS);
                prop_assert_eq!(sending.bytes.len(), len as usize);
                prop_assert!(sending.bytes.len() <= MOST_DATAGRAM);
            }
        }

        /// A datagram goes to the source of a cookie alone, at its request; forged sources and guessed cookies get nothing.
        #[test]
        fn pulled_datagrams_go_to_whom_has_received_a_cookie(
            guess: [u8; 16], ip: [u8; 4], port in 1u16.., number: u32, len: u16, tos: u8, cut in 0usize..40,
        ) {
            let mut post = post(Answer::Pull);
            let own: SocketAddr = (CLIENT, 40_000).into();
            let answer = post.datagram(0, (own, None), &knock(&TOKEN, 0)).expect("answered");
            prop_assert_eq!(answer.len(), KNOCK_LEN);
            let known = Knocked::decode(&answer, &TOKEN).expect("readable");
            let pull = Pull { cookie: known.cookie, number, len, tos };
            let victim = (ip, port).into();
            prop_assume!(victim != own);
            let bytes = pull.encode(&TOKEN);
            prop_assert!(post.pull(0, victim, &bytes, 5).is_none());
            let guessed = Pull { cookie: guess, ..pull }.encode(&TOKEN);
            prop_assert!(post.pull(0, own, &guessed, 5).is_none());
            prop_assert!(post.pull(1, own, &bytes[..cut.min(bytes.len() - 1)], 5).is_none());
            let sent = post.pull(0, own, &bytes, 5);
            prop_assert_eq!(sent.is_some(), PULLED_LEN.contains(&usize::from(len)));
            if let Some((datagram, marked)) = sent {
                prop_assert_eq!((datagram.len(), marked), (usize::from(len), tos));
                let expected = Pulled { number, count: 1, at_ns: 5 };
                prop_assert_eq!(Pulled::decode(&datagram, &TOKEN), Some(expected));
                prop_assert_eq!(Pulled::decode(&datagram, b"another1"), None);
            }
        }

        /// A secret that another host sends to an open port appears in no report.
        #[test]
        fn what_others_send_is_counted_and_not_returned(
            datagrams in prop::collection::vec((any::<[u8; 4]>(), any::<u16>(), 0usize..600), 1..40),
        ) {
            let mut post = post(Answer::Page);
            let secret = b"PASSWORD";
            let mut foreign = 0;
            for (ip, port, len) in datagrams {
                let from: SocketAddr = (ip, port).into();
                let mut bytes = secret.to_vec();
                bytes.resize(secret.len() + len, b'S');
                prop_assert!(post.datagram(0, (from, None), &bytes).is_none());
                let call = &mut post.call(1, from, vec![0x45]);
                prop_assert!(post.answer_call((1, call), from, &bytes, 0).is_none());
                foreign += if from.ip() == IpAddr::from(CLIENT) { 0 } else { 2 };
            }
            prop_assert_eq!(post.foreign(), foreign);
            for a in post.arrivals() {
                prop_assert!(a.bytes.is_empty());
                prop_assert_eq!(a.from.map(|f| f.ip()), Some(IpAddr::from(CLIENT)));
            }
        }
    }

    /// A forged SYN gets one SYN-ACK of its own length for each order, and nothing else before the address has acknowledged
    /// a number that only a receiver there knows.
    #[test]
    fn a_source_of_segments_gets_no_more_than_it_sent_before_it_is_proven() {
        let mut post = post(Answer::Segments);
        let own: SocketAddr = (CLIENT, 40_000).into();
        let send = |form, ack| Segment {
            ports: (40_000, 7),
            seq: segment::seq(segment::base(&TOKEN), 5, form),
            ack,
            form,
        };
        let (syn, data) = (Form::Handshake(3), Form::Data(0));
        assert!(post.order_segment(1, 7, own, (syn, 0)).is_err());
        // A sequence number that does not follow from the token.
        let guessed = Segment {
            seq: 1,
            ..send(syn, None)
        };
        post.segment(1, own, Some(0), &guessed.encode());
        assert!(post.arrivals().is_empty());
        assert!(post.order_segment(1, 7, own, (syn, 0)).is_err());
        let first = send(syn, None).encode();
        post.segment(1, own, Some(0), &first);
        assert!(post.order_segment(1, 7, own, (data, 1)).is_err());
        assert!(
            post.order_segment(1, 7, (CLIENT, 40_001).into(), (syn, 1))
                .is_err()
        );
        let answer = post
            .order_segment(1, 7, own, (syn, 0))
            .expect("it is answered");
        assert!(answer.bytes.len() <= first.len());
        assert!(post.order_segment(1, 7, own, (syn, 0)).is_err());
        let isn = Seen::read(&answer.bytes).expect("a header").seq;
        // A wrong acknowledgment proves nothing; the right one does.
        post.segment(1, own, Some(0), &send(data, Some(isn)).encode());
        assert!(post.order_segment(1, 7, own, (data, 1)).is_err());
        post.segment(
            1,
            own,
            Some(0),
            &send(data, Some(isn.wrapping_add(1))).encode(),
        );
        assert!(post.order_segment(1, 7, own, (data, 1)).is_ok());
        assert!(post.order_segment(1, 7, own, (data, MOST_ORDERS)).is_err());
        assert_eq!(post.arrivals().len(), 3);
        for port in 1..2000 {
            let segment = Segment {
                ports: (port, 7),
                ..send(syn, None)
            };
            post.segment(1, (CLIENT, port).into(), None, &segment.encode());
        }
        assert!(post.connections.len() <= MOST_CONNECTIONS);
    }

    #[test]
    fn an_echo_tells_number_count_and_tos_byte_and_leaves_no_arrival() {
        use crate::control::listen::{ECHO_LEN, echoed};
        let mut post = post(Answer::Echo);
        let from: SocketAddr = "203.0.113.7:4000".parse().expect("an address");
        for (number, tos, count) in [(7, Some(1), 1), (u32::MAX, Some(3), 2), (0, None, 3)] {
            let bytes = echoed(&TOKEN, number, 1200);
            let answer = post.datagram(0, (from, tos), &bytes).expect("an echo");
            let echo = Echo { number, count, tos };
            assert_eq!(Echo::decode(&answer, &TOKEN), Some(echo));
            assert_eq!(Echo::decode(&answer, b"another1"), None);
        }
        // Nothing without the token, and never more than came.
        assert_eq!(
            post.datagram(0, (from, None), b"no token, but long enough to be echoed"),
            None
        );
        assert_eq!(
            post.datagram(0, (from, None), &echoed(&TOKEN, 1, 0)[..ECHO_LEN - 1]),
            None
        );
        assert!(post.arrivals().is_empty());
    }

    #[test]
    fn the_answer_to_a_knock_tells_its_source_and_fits_into_the_shortest() {
        for from in ["192.0.2.77:9", "[2001:db8::5]:65535"] {
            let from: SocketAddr = from.parse().expect("an address");
            let mut post = post(Answer::Mark);
            let answer = post
                .datagram(0, (from, None), &knock(&TOKEN, 0))
                .expect("answered");
            assert_eq!(answer.len(), KNOCK_LEN);
            assert_eq!(Knocked::decode(&answer, &TOKEN).map(|k| k.from), Some(from));
            assert_eq!(Knocked::decode(&answer, b"another!"), None);
            let short = &knock(&TOKEN, 0)[..KNOCK_LEN - 1];
            assert_eq!(post.datagram(0, (from, None), short), None);
        }
    }

    #[test]
    fn an_endless_stream_of_arrivals_is_kept_in_bounded_memory() {
        let mut post = post(Answer::Nothing);
        let mut whole = knock(&TOKEN, 0);
        whole.resize(65_000, 0);
        for port in 0..5_000 {
            post.datagram(0, ((CLIENT, port).into(), Some(2)), &whole);
        }
        assert_eq!(post.arrivals().len(), MOST_ARRIVALS);
        let kept: usize = post.arrivals().iter().map(|a| a.bytes.len()).sum();
        assert!(kept <= MOST_ARRIVALS * MOST_BYTES, "{kept}");
    }
}
