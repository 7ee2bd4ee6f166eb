//! Valid and invalid messages on the ports that middleboxes watch and on a port without a service, then fragmented
//! datagrams, each with what both ends saw.

use super::messages::{self, Letter};
use super::{Params, syn};
use crate::ask::{Ask, Back, Enough, Kind, Knock, Opening, Ports, Tried};
use crate::course::{Course, OfCourse};
use crate::host::Stopped;
use crate::spec::Setting;
use base::noted::middlebox::{BoxNote, Message, Syn};
use base::record::Direction;
use base::{Bytes, Duration};
use measure::control::listen::{
    Answer, Arrival, KNOCK_LEN, Knocked, MARK_LEN, Place, Transport, Wanted, knock,
};

/// Limit on an answer: a lost SYN is sent again after one and three seconds.
const PATIENCE: Duration = Duration::from_secs(4);
/// Number of times a datagram is sent before it counts as lost.
const TRIES: u32 = 3;
/// Rounds of an exchange that seems blocked.
const ROUNDS: u32 = 2;
/// Copies of a small datagram and of one in pieces in each try: of the latter more are lost.
const COPIES: [usize; 2] = [1, 3];
/// Payload that takes three fragments on any link of 1500 bytes.
const LARGE: usize = 3000;
/// Longest answer over a connection.
const LONGEST: usize = 65_536;
/// Upper limit on traffic.
const COST: Bytes = Bytes::new(250_000);
const OPEN: Duration = Duration::from_secs(60);
/// Number of the UDP socket.
const SOCKET: u32 = 0;

/// # Errors
/// The budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    setting.afford("middlebox", COST)?;
    Ok(OfCourse::new(Duration::from_secs(5), |course| {
        Run { course, params }.all()
    }))
}

/// One exchange: its note, and that of the first packet of its connection.
struct Said {
    note: BoxNote,
    first: Option<BoxNote>,
}

impl Said {
    /// True if an answer came, or no other will: the server cannot open the port.
    fn came_back(&self) -> bool {
        match &self.note {
            BoxNote::Exchange {
                closed, returned, ..
            } => closed.is_some() || returned.is_some(),
            _ => true,
        }
    }

    /// Rank among the exchanges of a message: one that got further has a higher one.
    fn rank(&self) -> (bool, bool, bool) {
        match &self.note {
            BoxNote::Exchange {
                connected,
                arrived,
                returned,
                ..
            } => (returned.is_some(), arrived.is_some(), *connected),
            _ => (false, false, false),
        }
    }
}

struct Run {
    course: Course,
    params: Params,
}

impl Run {
    async fn all(self) -> Result<(), Stopped> {
        self.exchange(Message::Http, "HTTP messages").await;
        self.exchange(Message::NotHttp, "invalid HTTP messages")
            .await;
        self.exchange(Message::Dns, "DNS queries").await;
        self.exchange(Message::NotDns, "invalid DNS queries").await;
        if self.params.eicar {
            self.exchange(Message::Eicar, "the test string of antivirus programs")
                .await;
        }
        self.fragments().await
    }

    /// The same message on the port that is watched and on one without a service, again if either seems blocked: an outage,
    /// or losses, must not count as a block.
    async fn exchange(&self, message: Message, stage: &str) {
        let mut said: [Option<Said>; 2] = [None, None];
        for _ in 0..ROUNDS {
            let passes = |s: &Option<Said>| s.as_ref().is_some_and(Said::came_back);
            let controls = [false, true];
            let left = controls.map(|control| !passes(&said[usize::from(control)]));
            if left == [false; 2] {
                break;
            }
            let Some(now) = self.round(message, left, stage).await else {
                break;
            };
            for (best, now) in said.iter_mut().zip(now) {
                let better = |n: &Said| best.as_ref().is_none_or(|b| n.rank() >= b.rank());
                if let Some(now) = now.filter(better) {
                    *best = Some(now);
                }
            }
        }
        for said in said.into_iter().flatten() {
            self.course.note(&said.note, stage).await;
            if let Some(first) = said.first {
                self.course.note(&first, "first packet").await;
            }
        }
    }

    /// One exchange on each of these two ports; none if the server opens nothing.
    async fn round(
        &self,
        message: Message,
        left: [bool; 2],
        stage: &str,
    ) -> Option<[Option<Said>; 2]> {
        self.course.stage(stage).await;
        let letter = Letter::of(message);
        let port = match message {
            Message::Dns | Message::NotDns => self.params.dns,
            _ => self.params.http,
        };
        let wanted = [port, 0].map(|port| Wanted {
            expect: letter.expect,
            answer: letter.answer,
            ..Wanted::new(letter.transport, Place::Here, port)
        });
        let ports = self.course.listen(wanted.to_vec(), OPEN).await?;
        let mut said = [None, None];
        for control in [false, true] {
            if left[usize::from(control)] {
                let one = self.said(&letter, &ports, (port, control)).await;
                said[usize::from(control)] = Some(one);
            }
        }
        Some(said)
    }

    async fn said(&self, letter: &Letter, ports: &Ports, (port, control): (u16, bool)) -> Said {
        let (i, message) = (usize::from(control), letter.message);
        let sent = letter.sent(&ports.token);
        let answer = messages::answer(letter.answer, &ports.token);
        let at = ports.at.get(i).cloned();
        let at = at.unwrap_or_else(|| Err("the server did not name this port".into()));
        let tried = match &at {
            Ok(at) => {
                let knock = Knock {
                    transport: letter.transport,
                    at: *at,
                    says: sent.clone(),
                    enough: Enough::Bytes(LONGEST),
                    tries: TRIES,
                    patience: PATIENCE,
                    watched: letter.transport == Transport::Tcp,
                };
                self.course.knock(vec![knock]).await.pop()
            }
            Err(_) => None,
        };
        let arrivals = self.course.arrivals().await;
        let its = arrivals.iter().filter(|a| a.listener == i as u32);
        // Others may knock there as well: the arrival that is most like ours is ours.
        let came = its.max_by_key(|a| (a.bytes == sent, a.answered, a.len));
        let arrived = came.filter(|a| a.len > 0);
        let returned = returned(tried.as_ref());
        let text = |bytes: &[u8]| match message {
            // No recording shall be taken for a virus.
            Message::Eicar => format!("({} bytes)", bytes.len()),
            _ => bytes.escape_ascii().to_string(),
        };
        let note = BoxNote::Exchange {
            message,
            port: at.as_ref().map_or(port, std::net::SocketAddr::port),
            control,
            closed: at.as_ref().err().cloned(),
            connected: tried.as_ref().is_some_and(|t| t.connected),
            refused: tried.as_ref().is_some_and(refused),
            sent: text(&sent),
            arrived: arrived.map(|a| match a.bytes.is_empty() {
                // The server shows nobody a message without the token.
                true => format!("({} bytes without our token)", a.len),
                false => text(&a.bytes),
            }),
            answer: text(&answer),
            returned: returned.map(text),
            arrived_same: arrived.is_some_and(|a| a.bytes == sent),
            returned_same: returned == Some(&*answer),
        };
        let first = match (message, at) {
            (Message::Http, Ok(at)) => {
                let left = tried.and_then(|t| t.first);
                Some(self.first_packet(at.port(), control, left, came).await)
            }
            _ => None,
        };
        Said { note, first }
    }

    async fn first_packet(
        &self,
        port: u16,
        control: bool,
        sent: Option<Syn>,
        came: Option<&Arrival>,
    ) -> BoxNote {
        let asked = match self.course.ask(Ask::Options).await {
            Some(crate::ask::Answer::Options(asked)) => asked,
            _ => Vec::new(),
        };
        BoxNote::FirstPacket {
            port,
            control,
            sent,
            arrived: came.and_then(|a| syn::read(&a.syn)),
            asked,
        }
    }

    /// Datagrams that do not fit into one packet, in both directions.
    async fn fragments(&self) -> Result<(), Stopped> {
        self.course.stage("fragmented datagrams").await;
        let wanted = Wanted {
            answer: Answer::Mark,
            ..Wanted::new(Transport::Udp, Place::Here, 0)
        };
        let Some(ports) = self.course.listen(vec![wanted], OPEN).await else {
            return Ok(());
        };
        let Some(Ok(at)) = ports.at.first().cloned() else {
            return Ok(());
        };
        let opening = Opening {
            whole: Some(false),
            ..Opening::towards(SOCKET, at)
        };
        let opened = self.course.open(opening).await;
        opened.map_err(|e| Stopped::Unusable {
            why: format!("cannot open a UDP socket: {}", e.text),
        })?;
        let mut arrived = [false; 2];
        let mut seen = None;
        for (i, len) in [KNOCK_LEN, LARGE].into_iter().enumerate() {
            let payload = knock(&ports.token, len);
            for _ in 0..TRIES {
                for _ in 0..COPIES[i] {
                    // What this host refuses to send does not arrive.
                    let _ = self.course.send(SOCKET, at, payload.clone()).await;
                }
                let is_it = |bytes: &[u8], _| Knocked::decode(bytes, &ports.token);
                let heard = self.course.hear(SOCKET, (each(), false), is_it).await;
                seen = heard.ok().or(seen);
                // An answer may be lost, or be that to an earlier one.
                let all = self.course.arrivals().await;
                arrived[i] = all.iter().any(|a| a.len as usize == payload.len());
                if arrived[i] {
                    break;
                }
            }
        }
        self.fragments_noted(Direction::Up, arrived).await;
        // Without an answer there is no proof that we receive, and the server sends nothing.
        if let Some(to) = seen {
            let came = self.fragments_down(to).await;
            self.fragments_noted(Direction::Down, came).await;
        }
        Ok(())
    }

    async fn fragments_down(&self, to: Knocked) -> [bool; 2] {
        let mut came = [false; 2];
        for (i, size) in [MARK_LEN, LARGE].into_iter().enumerate() {
            for _ in 0..TRIES {
                let mut sent = Vec::new();
                for _ in 0..COPIES[i] {
                    sent.extend(self.course.order(0, to, size).await);
                }
                if sent.is_empty() {
                    break;
                }
                let is_it = |bytes: &[u8], _| sent.iter().any(|s| bytes == s).then_some(());
                let heard = self.course.hear(SOCKET, (each(), true), is_it).await;
                if heard.is_ok() {
                    came[i] = true;
                    break;
                }
            }
        }
        came
    }

    async fn fragments_noted(&self, direction: Direction, [small, large]: [bool; 2]) {
        let note = BoxNote::Fragments {
            direction,
            bytes: LARGE as u32,
            small,
            large,
        };
        self.course.note(&note, "fragments").await;
    }
}

/// Part of the patience for one datagram of several.
fn each() -> Duration {
    PATIENCE / u64::from(TRIES)
}

fn returned(tried: Option<&Tried>) -> Option<&[u8]> {
    match &tried?.back {
        Back::Bytes(bytes) => Some(bytes),
        Back::Refusal | Back::Unreachable | Back::Nothing => None,
    }
}

/// True if a connection was refused, or reset later, or a datagram was refused.
fn refused(tried: &Tried) -> bool {
    let kind = tried.trouble.as_ref().map(|t| t.kind);
    match tried.connected {
        true => kind == Some(Kind::Reset),
        false => kind == Some(Kind::Refused),
    }
}
