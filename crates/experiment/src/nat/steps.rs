//! Mapping, filtering and hairpinning in the manner of RFC 5780: datagrams from fresh sockets to several ports and
//! addresses of our server, which says where each came from, and which sends some unasked.

use super::{Params, silence};
use crate::ask::{Kind, Opening, Ports};
use crate::course::{Course, OfCourse};
use crate::host::Stopped;
use crate::spec::Setting;
use base::noted::nat::{Far, NatNote};
use base::{Bytes, Duration};
use measure::control::listen::{
    self, Arrival, KNOCK_LEN, Knocked, MARK_LEN, Place, TOKEN_LEN, Transport, Wanted, knock,
};
use std::net::SocketAddr;

/// A datagram is sent so often before it counts as lost on the way.
pub(super) const TRIES: u32 = 4;
/// An answer may take this long.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_millis(1500);
/// Headers and payload of the datagrams sent here.
const DATAGRAM: u64 = 80;
/// Order of the far end's ports.
const FARS: [Far; 3] = [Far::Same, Far::OtherPort, Far::OtherAddress];

/// # Errors
/// The budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    let datagrams = u64::from(params.sockets * 2 + 24) * u64::from(TRIES) * 2;
    let silent = params.lifetime.map_or(0, |_| silence::COST);
    let most = Bytes::new(datagrams * DATAGRAM * 4 + 20_000 + silent);
    setting.afford("nat", most)?;
    let whole = params.during + params.lifetime.unwrap_or(Duration::ZERO);
    Ok(OfCourse::new(whole, move |course| async move {
        let wanted = [Place::Here, Place::Here, Place::Elsewhere].map(|place| Wanted {
            answer: listen::Answer::Mark,
            ..Wanted::new(Transport::Udp, place, 0)
        });
        let open = whole + Duration::from_secs(60);
        let Some(ports) = course.listen(wanted.to_vec(), open).await else {
            return Ok(());
        };
        Run { course, ports }.all(&params).await;
        Ok(())
    }))
}

pub(super) struct Run {
    pub(super) course: Course,
    ports: Ports,
}

/// Socket of ours.
#[derive(Clone, Copy)]
pub(super) struct Own {
    number: u32,
    local: SocketAddr,
}

impl Run {
    async fn all(&self, params: &Params) {
        self.note(&NatNote::Connected {
            local: self.ports.local,
            external: self.ports.from,
        })
        .await;
        for (at, port) in FARS.into_iter().zip(&self.ports.at) {
            if let Err(why) = port.clone() {
                self.note(&NatNote::Closed { at, why }).await;
            }
        }
        self.mapping().await;
        self.filtering().await;
        self.alternating(params).await;
        self.hairpin().await;
        if let Some(longest) = params.lifetime {
            self.lifetime(longest).await;
        }
    }

    pub(super) async fn note(&self, note: &NatNote) {
        self.course.note(note, "server").await;
    }

    pub(super) async fn stage(&self, stage: &str) {
        self.course.stage(stage).await;
    }

    pub(super) fn at(&self, far: usize) -> Option<SocketAddr> {
        self.ports.at.get(far)?.as_ref().ok().copied()
    }

    /// A fresh socket, at the address that leads to the server.
    pub(super) async fn own(&self, number: u32) -> Own {
        let opened = self.course.open(Opening::free(number)).await;
        let local = opened.unwrap_or(self.ports.local);
        Own { number, local }
    }

    /// Sends a datagram; gives the reason if the host withholds it. What it cannot send is as lost as what the link loses.
    pub(super) async fn send(&self, own: Own, to: SocketAddr, bytes: &[u8]) -> Option<String> {
        let sent = self.course.send(own.number, to, bytes.to_vec()).await;
        let withheld = sent.err().filter(|e| e.kind == Kind::Withheld);
        withheld.map(|e| e.text)
    }

    /// The token, which lets the server answer, and what tells this datagram from others.
    pub(super) fn payload(&self, own: Own) -> Vec<u8> {
        let mut bytes = knock(&self.ports.token, KNOCK_LEN);
        bytes[TOKEN_LEN..TOKEN_LEN + 4].copy_from_slice(&own.number.to_be_bytes());
        bytes
    }

    /// Sends until the server's answer is here; gives it.
    pub(super) async fn knock(&self, own: Own, far: usize) -> Option<Knocked> {
        let to = self.at(far)?;
        let payload = self.payload(own);
        for _ in 0..TRIES {
            self.send(own, to, &payload).await;
            if let Some(answer) = self.answer(own, to, ANSWER_WITHIN).await {
                return Some(answer);
            }
            self.stage("waiting for an answer").await;
        }
        None
    }

    /// Waits for a datagram that is the one; gives where it came from.
    pub(super) async fn hear<T>(
        &self,
        own: Own,
        (within, ordered): (Duration, bool),
        is_it: impl Fn(&[u8], SocketAddr) -> Option<T>,
    ) -> Option<T> {
        let heard = self.course.hear(own.number, (within, ordered), is_it);
        heard.await.ok()
    }

    /// Waits for the server's answer from there.
    pub(super) async fn answer(
        &self,
        own: Own,
        from: SocketAddr,
        within: Duration,
    ) -> Option<Knocked> {
        self.hear(own, (within, false), |bytes, source| {
            Knocked::decode(bytes, &self.ports.token).filter(|_| source == from)
        })
        .await
    }

    /// Has the server send to where it answered a knock; gives what the datagram holds.
    pub(super) async fn order(&self, far: usize, to: Knocked) -> Option<Vec<u8>> {
        self.course.order(far, to, MARK_LEN).await
    }

    /// External address of this socket's latest datagram to that port, which is noted.
    async fn mapped(&self, own: Own, far: usize, answered: bool) -> Option<SocketAddr> {
        let (all, payload) = (self.course.arrivals().await, self.payload(own));
        let its = |a: &&Arrival| a.listener == far as u32 && a.bytes == payload;
        let external = all.iter().rev().find(its).and_then(|a| a.from);
        self.note(&NatNote::Mapped {
            socket: own.number,
            local: own.local,
            to: FARS[far],
            external,
            answered,
        })
        .await;
        external
    }

    /// RFC 5780 section 4.3: one socket to several ports and addresses.
    async fn mapping(&self) {
        self.stage("how ports are mapped").await;
        let own = self.own(0).await;
        for far in 0..FARS.len() {
            if self.at(far).is_some() {
                let answer = self.knock(own, far).await;
                self.mapped(own, far, answer.is_some()).await;
            }
        }
    }

    /// RFC 5780 section 4.4: a socket that has sent to one port only hears from others, or does not.
    async fn filtering(&self) {
        self.stage("who may send back").await;
        let own = self.own(1).await;
        let answer = self.knock(own, 0).await;
        self.mapped(own, 0, answer.is_some()).await;
        // Without an answer there is no proof that we receive, and the server sends nothing.
        let Some(mut external) = answer else { return };
        // From afar first: nothing that is let in may open the door for the next.
        for far in [2, 1, 0] {
            if self.at(far).is_none() {
                continue;
            }
            // Some boxes forget a mapping while what a filter holds back is waited for.
            external = self.knock(own, 0).await.unwrap_or(external);
            let mut arrived = false;
            for _ in 0..TRIES {
                let Some(mark) = self.order(far, external).await else {
                    return;
                };
                let is_it = |bytes: &[u8], _| (bytes == mark).then_some(());
                arrived = self.hear(own, (ANSWER_WITHIN, true), is_it).await.is_some();
                if arrived {
                    break;
                }
                self.stage("who may send back").await;
            }
            let from = FARS[far];
            self.note(&NatNote::Unasked { from, arrived }).await;
        }
    }

    /// Fresh sockets, and the first of them again and again.
    async fn alternating(&self, params: &Params) {
        let pause = params.during / u64::from(params.sockets.max(1));
        let first = self.own(10).await;
        for i in 0..params.sockets {
            self.stage("whether addresses alternate").await;
            let fresh = self.own(11 + i).await;
            for own in [first, fresh] {
                let answer = self.knock(own, 0).await;
                self.mapped(own, 0, answer.is_some()).await;
            }
            if i + 1 < params.sockets {
                self.course.wait(pause).await;
            }
        }
    }

    /// RFC 4787 section 6: two sockets here by their external addresses.
    async fn hairpin(&self) {
        self.stage("whether hosts inside reach each other by outside addresses")
            .await;
        let (a, b) = (self.own(1000).await, self.own(1001).await);
        let answer = self.knock(a, 0).await;
        let at_a = self.mapped(a, 0, answer.is_some()).await;
        let answer = self.knock(b, 0).await;
        let at_b = self.mapped(b, 0, answer.is_some()).await;
        let (Some(at_a), Some(at_b)) = (at_a, at_b) else {
            return;
        };
        if at_a == a.local {
            // Nothing translates: they would talk as neighbours do.
            return;
        }
        // Nobody else knows the token, and no other datagram of this run begins so.
        let mut mark = *b"hairpin ........";
        mark[8..].copy_from_slice(&self.ports.token);
        let mut heard = None;
        for _ in 0..TRIES {
            // Each has then sent to the other, so that no filter stands between them.
            for (own, to) in [(b, at_a), (a, at_b)] {
                if let Some(why) = self.send(own, to, &mark).await {
                    let external = to;
                    self.note(&NatNote::HairpinWithheld { external, why }).await;
                    return;
                }
            }
            let is_it = |bytes: &[u8], from| (bytes == mark).then_some(from);
            heard = self.hear(b, (ANSWER_WITHIN / 3, true), is_it).await;
            if heard.is_some() {
                break;
            }
        }
        self.note(&NatNote::Hairpin {
            arrived: heard.is_some(),
            source: heard,
            external: at_a,
        })
        .await;
    }
}
