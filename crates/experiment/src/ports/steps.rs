//! Knocks at ports that the server opens for a while; both ends say what they saw.

use super::Params;
use crate::ask::{self, Enough, Knock, Ports, Tried};
use crate::course::{Course, OfCourse};
use crate::host::Stopped;
use crate::spec::Setting;
use base::noted::ports::{Back, PortNote};
use base::{Bytes, Duration};
use measure::control::listen::{
    self, Arrival, Knocked, MARK_LEN, MOST_LISTENERS, Place, TOKEN_LEN, Transport, Wanted, knock,
    mark,
};

/// A datagram is sent so often before it counts as lost on the way.
const TRIES: u32 = 3;
/// Rounds of knocks at a port that seems blocked: an outage, or losses, must not count as a block.
const ROUNDS: u32 = 3;
/// Greatest traffic of one port: a connection with its retransmissions, or datagrams, and its part of the report.
const PORT: u64 = 1200;
/// Greatest number of ports of either transport: the server opens 64 at once.
const MOST: usize = 256;

/// # Errors
/// There are too many ports, or the budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    let list = |key: &str, mut all: Vec<u16>| {
        if all.len() > MOST {
            let why = format!(
                "{} ports for {key}, and at most {MOST} can be tried",
                all.len()
            );
            return Err(Stopped::Unusable { why });
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    };
    let tcp = list("tcp", params.tcp)?;
    let udp = list("udp", params.udp)?;
    let tcp = tcp.into_iter().map(|p| (Transport::Tcp, p));
    let all: Vec<_> = tcp
        .chain(udp.into_iter().map(|p| (Transport::Udp, p)))
        .collect();
    let most = all.len() as u64 * PORT * u64::from(ROUNDS) + 5_000;
    setting.afford("ports", Bytes::new(most))?;
    let patience = params.patience;
    Ok(OfCourse::new(patience * 2, move |course| async move {
        for some in all.chunks(MOST_LISTENERS) {
            tried(&course, some, patience).await;
        }
        Ok(())
    }))
}

/// Knocks at as many ports as the server opens at once, again at those that seem blocked, and notes what became of it.
async fn tried(course: &Course, some: &[(Transport, u16)], patience: Duration) {
    let mut notes: Vec<Option<PortNote>> = vec![None; some.len()];
    for round in 1..=ROUNDS {
        let open = |n: &Option<PortNote>| {
            let proven = |n: &PortNote| n.back == Back::Proof || n.closed.is_some();
            n.as_ref().is_some_and(proven)
        };
        let left: Vec<usize> = (0..some.len()).filter(|i| !open(&notes[*i])).collect();
        if left.is_empty() {
            break;
        }
        let ports: Vec<(Transport, u16)> = left.iter().map(|i| some[*i]).collect();
        let Some(round) = once(course, &ports, (patience, round)).await else {
            break;
        };
        for (i, now) in left.into_iter().zip(round) {
            notes[i] = Some(match notes[i].take() {
                Some(before) => both(before, now),
                None => now,
            });
        }
    }
    for note in notes.into_iter().flatten() {
        let subject = format!("{} {}", note.transport, note.port);
        course.note(&note, &subject).await;
    }
}

/// Note of two rounds of knocks: what got through once gets through.
fn both(before: PortNote, now: PortNote) -> PortNote {
    // From the proof down to nothing at all.
    const BEST: [Back; 5] = [
        Back::Proof,
        Back::Other,
        Back::Refusal,
        Back::Unreachable,
        Back::Nothing,
    ];
    let backs = [before.back, now.back];
    let back = BEST.into_iter().find(|b| backs.contains(b));
    PortNote {
        connected: before.connected || now.connected,
        back: back.unwrap_or(now.back),
        seen: before.seen || now.seen,
        whole: before.whole || now.whole,
        from: now.from.or(before.from),
        closed: now.closed.clone().filter(|_| before.closed.is_some()),
        ..now
    }
}

/// One round of knocks; none if the server opens nothing.
async fn once(
    course: &Course,
    some: &[(Transport, u16)],
    (patience, round): (Duration, u32),
) -> Option<Vec<PortNote>> {
    course.stage("knocking at ports").await;
    let wanted = some.iter().map(|(transport, port)| Wanted {
        expect: 8,
        answer: listen::Answer::Mark,
        ..Wanted::new(*transport, Place::Here, *port)
    });
    let open = Duration::from_secs(60);
    let ports = course.listen(wanted.collect(), open).await?;
    let (open, knocks) = knocks(&ports, some, patience);
    let tried = course.knock(knocks).await;
    let arrivals = course.arrivals().await;
    let note = |(i, (transport, port)): (usize, &(Transport, u16))| {
        let its: Vec<&Arrival> = arrivals.iter().filter(|a| a.listener == i as u32).collect();
        // The server gives contents only of what shows the token.
        let shows = |a: &&&Arrival| !a.bytes.is_empty();
        let ours = its.iter().find(shows).or_else(|| its.first());
        let tried = open
            .iter()
            .position(|o| *o == i)
            .and_then(|at| tried.get(at));
        PortNote {
            transport: transport.name().to_owned(),
            port: *port,
            closed: ports.at[i].as_ref().err().cloned(),
            connected: tried.is_some_and(|t| t.connected),
            back: tried.map_or(Back::Nothing, |t| judged(t, &ports.token)),
            seen: ours.is_some(),
            whole: its.iter().any(|a| shows(&a)),
            from: ours.and_then(|a| a.from),
            usual: Some(ports.from),
            rounds: round,
        }
    };
    Some(some.iter().enumerate().map(note).collect())
}

/// The knocks at those that are open, and which these are.
fn knocks(
    ports: &Ports,
    some: &[(Transport, u16)],
    patience: Duration,
) -> (Vec<usize>, Vec<Knock>) {
    let open = ports.at.iter().enumerate();
    open.filter_map(|(i, at)| {
        let (transport, at) = (some.get(i)?.0, *at.as_ref().ok()?);
        let knock = Knock {
            transport,
            at,
            says: match transport {
                Transport::Tcp => ports.token.to_vec(),
                Transport::Udp => knock(&ports.token, 0),
            },
            enough: Enough::Bytes(MARK_LEN),
            tries: TRIES,
            patience,
            watched: false,
        };
        Some((i, knock))
    })
    .unzip()
}

fn judged(tried: &Tried, token: &[u8; TOKEN_LEN]) -> Back {
    match &tried.back {
        ask::Back::Bytes(bytes)
            if bytes[..] == mark(token) || Knocked::decode(bytes, token).is_some() =>
        {
            Back::Proof
        }
        ask::Back::Bytes(_) => Back::Other,
        ask::Back::Refusal => Back::Refusal,
        ask::Back::Unreachable => Back::Unreachable,
        ask::Back::Nothing => Back::Nothing,
    }
}
