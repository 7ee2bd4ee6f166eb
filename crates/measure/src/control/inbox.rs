//! Server end of one flow of datagrams: the proof that the client receives, the counters of arrivals, and the rate at
//! which the server may send.
//!
//! **Source.** RFC 9097 (Metrics and Methods for One-Way IP Capacity): the sender stops when no feedback has come for a
//! second. **Deviations.** Sending pauses and resumes with the next feedback, so that a path whose queue holds more
//! than a second loses none of it. The flow ends after [`SILENT_NS`] without feedback. The rate is bounded by the rate
//! of arrivals.

use super::DatagramCount;
use super::datagram::{COOKIE_LEN, Message};
use crate::wire::Key;
use base::BitsPerSec;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Interval between the feedback messages of a client that receives.
pub const PROOF_EVERY_NS: i64 = 100_000_000;
/// Time without feedback after which nothing is sent (RFC 9097).
pub const WATCHDOG_NS: i64 = 1_000_000_000;
/// Time without feedback after which the flow is over.
pub const SILENT_NS: i64 = 20_000_000_000;
/// Rate at which a flow may start, before feedback has shown any arrival.
pub const FIRST_RATE: BitsPerSec = BitsPerSec::from_mbps(10);
/// Maximum ratio of the send rate to the recent rate of arrivals: above one, so that a path can be overloaded.
const ABOVE_SHOWN: u64 = 2;
/// Time window of the feedback.
const WINDOW_NS: i64 = 1_000_000_000;
const SHORTEST_NS: i64 = 80_000_000;

/// Arrivals of one flow.
pub struct Inbox {
    client: IpAddr,
    token: u64,
    secret: Key,
    address: Option<SocketAddr>,
    heard_ns: i64,
    feedback: VecDeque<(i64, u64)>,
    /// Highest rate that feedback of the last window has shown.
    shown: Option<BitsPerSec>,
    /// Counts of the datagrams.
    pub count: DatagramCount,
    /// Payload bytes received.
    pub bytes: u64,
}

impl Inbox {
    /// Creates the inbox. `client` is the address that TCP has proven; `secret` makes the cookies and stays private.
    pub fn new(client: IpAddr, token: u64, secret: [u8; 16]) -> Inbox {
        Inbox {
            client: client.to_canonical(),
            token,
            secret: Key::new(&secret),
            address: None,
            heard_ns: 0,
            feedback: VecDeque::new(),
            shown: None,
            count: DatagramCount::default(),
            bytes: 0,
        }
    }

    /// Client's address and port, once it has proven that it receives there.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    fn cookie(&self, of: SocketAddr) -> [u8; COOKIE_LEN] {
        let ip = match of.ip().to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        self.secret
            .tag(&[b"datagrams", &ip.octets(), &of.port().to_be_bytes()])
    }

    /// Handles a datagram; returns the answer to its source, which is never longer than it.
    pub fn datagram(&mut self, now_ns: i64, from: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        if from.ip().to_canonical() != self.client {
            return None;
        }
        match Message::decode(bytes) {
            Some((token, Message::Hello)) if token == self.token => {
                let cookie = self.cookie(from);
                let answer = Message::Challenge { cookie }.encode(token);
                return (answer.len() <= bytes.len()).then_some(answer);
            }
            Some((token, Message::Proof { cookie, received }))
                if token == self.token && cookie == self.cookie(from) =>
            {
                self.proven(now_ns, from, received);
            }
            Some((token, Message::Load(seq))) if token == self.token => {
                self.count.count(seq);
                self.bytes = self.bytes.saturating_add(bytes.len() as u64);
            }
            _ => {}
        }
        None
    }

    fn proven(&mut self, now_ns: i64, from: SocketAddr, received: u64) {
        if self.address != Some(from) {
            self.address = Some(from);
            self.feedback.clear();
            self.shown = None;
        }
        self.heard_ns = now_ns;
        self.feedback.push_back((now_ns, received));
        while let (Some(&(first, _)), Some(&(second, _))) =
            (self.feedback.front(), self.feedback.get(1))
            && (now_ns - first > WINDOW_NS && now_ns - second >= SHORTEST_NS
                || self.feedback.len() > 64)
        {
            self.feedback.pop_front();
        }
        // The shortest span that is long enough shows a growing rate soonest.
        let recent = |&&(t, _): &&(i64, u64)| now_ns - t >= SHORTEST_NS;
        if let Some(&(then, before)) = self.feedback.iter().rev().find(recent) {
            let bits = u128::from(received.saturating_sub(before)) * 8_000_000_000;
            let bps = bits / u128::from((now_ns - then).unsigned_abs().max(1));
            self.shown = Some(BitsPerSec::new(u64::try_from(bps).unwrap_or(u64::MAX)));
        }
    }

    /// Rate at which the server may send now; zero after a second without feedback. `sent_rate` is the server's recent
    /// rate: a client cannot have received more than that.
    pub fn allowance(&self, now_ns: i64, sent_rate: BitsPerSec) -> BitsPerSec {
        if self.address.is_none() || now_ns - self.heard_ns > WATCHDOG_NS {
            return BitsPerSec::ZERO;
        }
        let shown = self
            .shown
            .unwrap_or_default()
            .min(sent_rate.max(FIRST_RATE));
        BitsPerSec::new(shown.get().saturating_mul(ABOVE_SHOWN)).max(FIRST_RATE)
    }

    /// True if the silence is so long that the flow is over.
    pub fn is_silent(&self, now_ns: i64) -> bool {
        self.address.is_some() && now_ns - self.heard_ns > SILENT_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::datagram::HELLO_LEN;
    use proptest::prelude::*;

    const CLIENT: [u8; 4] = [192, 0, 2, 1];
    const MS: i64 = 1_000_000;

    fn inbox() -> Inbox {
        Inbox::new(CLIENT.into(), 7, [3; 16])
    }

    /// Completes the handshake from this port; returns the cookie.
    fn prove(inbox: &mut Inbox, now: i64, port: u16) -> [u8; COOKIE_LEN] {
        let from = (CLIENT, port).into();
        let hello = Message::Hello.encode(7);
        let answer = inbox.datagram(now, from, &hello).expect("a challenge");
        let Some((7, Message::Challenge { cookie })) = Message::decode(&answer) else {
            panic!("{answer:?}")
        };
        say(inbox, now, port, cookie, 0);
        cookie
    }

    fn say(inbox: &mut Inbox, now: i64, port: u16, cookie: [u8; COOKIE_LEN], received: u64) {
        let proof = Message::Proof { cookie, received }.encode(7);
        assert_eq!(inbox.datagram(now, (CLIENT, port).into(), &proof), None);
    }

    proptest! {
        #[test]
        fn no_datagram_is_answered_with_more_than_it_brought_nor_proves_anything_by_chance(
            datagrams in prop::collection::vec(
                (any::<bool>(), any::<u16>(), 0u64..6, prop::collection::vec(any::<u8>(), 0..60)), 1..60),
        ) {
            let mut inbox = inbox();
            for (own, port, back, rest) in datagrams {
                let from: SocketAddr = (if own { CLIENT } else { [198, 51, 100, 9] }, port).into();
                let mut bytes = Message::Load(u64::MAX - back).encode(7);
                bytes.extend(rest);
                let answer = inbox.datagram(0, from, &bytes);
                prop_assert!(answer.as_ref().map_or(0, Vec::len) <= bytes.len());
                prop_assert!(own || answer.is_none());
                prop_assert_eq!(inbox.address(), None);
                prop_assert_eq!(inbox.allowance(0, BitsPerSec::from_mbps(1000)), BitsPerSec::ZERO);
            }
        }

        /// False claims of a client raise the rate to at most double.
        #[test]
        fn what_a_client_claims_never_lifts_the_rate_above_twice_what_was_sent(
            claims in prop::collection::vec((0i64..500, any::<u64>()), 1..40), sent in 0u64..1_000_000_000,
        ) {
            let mut inbox = inbox();
            let cookie = prove(&mut inbox, 0, 5000);
            let mut now = 0;
            for (ms, received) in claims {
                now += ms * MS;
                say(&mut inbox, now, 5000, cookie, received);
                let sent = BitsPerSec::new(sent);
                let may = inbox.allowance(now, sent);
                prop_assert!(may <= (sent.max(FIRST_RATE)) * 2, "{may}");
            }
        }
    }

    #[test]
    fn the_cookie_of_one_port_opens_no_other() {
        let mut inbox = inbox();
        let cookie = prove(&mut inbox, 0, 5000);
        assert_eq!(inbox.address(), Some((CLIENT, 5000).into()));
        say(&mut inbox, 0, 5001, cookie, 0);
        assert_eq!(inbox.address(), Some((CLIENT, 5000).into()));
        let short = &Message::Hello.encode(7)[..HELLO_LEN - 1];
        assert_eq!(inbox.datagram(0, (CLIENT, 1).into(), short), None);
    }

    #[test]
    fn a_receiver_that_vanishes_gets_nothing_after_a_second() {
        let mut inbox = inbox();
        let cookie = prove(&mut inbox, 0, 5000);
        let sent = BitsPerSec::from_mbps(100);
        assert_eq!(inbox.allowance(WATCHDOG_NS, sent), FIRST_RATE);
        assert_eq!(inbox.allowance(WATCHDOG_NS + 1, sent), BitsPerSec::ZERO);
        assert!(!inbox.is_silent(SILENT_NS) && inbox.is_silent(SILENT_NS + 1));
        say(&mut inbox, 5_000 * MS, 5000, cookie, 0);
        assert!(inbox.allowance(5_100 * MS, sent) > BitsPerSec::ZERO);
    }

    #[test]
    fn the_rate_grows_with_what_arrives_and_settles_at_twice_of_it() {
        let path = BitsPerSec::from_mbps(80);
        let mut inbox = inbox();
        let cookie = prove(&mut inbox, 0, 5000);
        let (mut received, mut rates) = (0u64, Vec::new());
        let mut sent = FIRST_RATE;
        for step in 1..=20 {
            received += sent.min(path).get() / 8 / 10;
            let now = step * PROOF_EVERY_NS;
            say(&mut inbox, now, 5000, cookie, received);
            sent = inbox.allowance(now, sent);
            rates.push(sent);
        }
        assert!(
            rates[3] >= path,
            "80 Mbit/s are reached in 0.4 s: {rates:?}"
        );
        assert_eq!(rates[19], path * 2);
        assert!(inbox.feedback.len() <= 16);
    }
}
