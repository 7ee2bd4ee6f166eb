//! Opens the server's ports, then TCP and QUIC connections in pairs, each pair in random order.

use super::note::{Over, QuicNote, Ran};
use super::{BIN, Params};
use crate::ask::{Back, Enough, Knock, QuicLoad};
use crate::course::{Course, OfCourse};
use crate::host::{Load, Stopped};
use crate::run::TURN;
use crate::spec::Setting;
use crate::steps::Action;
use base::{Bytes, Duration};
use measure::control::listen::{Answer, Place, Transport, Wanted, knock};
use std::net::SocketAddr;

/// Least budget: eight connections of two seconds at 2 Mbit/s.
const LEAST: Bytes = Bytes::new(4_000_000);
/// Pause between connections.
const REST: Duration = Duration::from_millis(500);
/// Longest wait for a handshake.
const PATIENCE: Duration = Duration::from_secs(4);
/// Handshakes that fail in a row, after which no further one is tried.
const TRIES: u32 = 3;
/// Single datagrams to another port.
const PLAIN: u32 = 5;

/// # Errors
/// The budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    setting.afford("quic", LEAST)?;
    let budget = setting.budget;
    let each = params.time + REST + Duration::from_millis(500);
    let whole = each * (2 * params.pairs) as u64 + Duration::from_secs(3);
    Ok(OfCourse::new(whole, move |course| async move {
        if let Err(why) = all(&course, &params, budget).await {
            course.note(&QuicNote::Untried { why }, "server").await;
        }
        Ok(())
    })
    .ended_by(|course| async move {
        course.act(Action::StopLoad(None)).await;
        course.act(Action::Collect).await;
        Ok(())
    }))
}

/// Port of the server for QUIC.
struct Port {
    index: usize,
    at: SocketAddr,
}

async fn all(course: &Course, params: &Params, budget: Bytes) -> Result<(), String> {
    let pairs = params.pairs as u64;
    let lasts = (params.time + REST * 2 + PATIENCE) * 2 * pairs;
    course.act(Action::Turn(TURN)).await;
    let port = open(course, params, lasts).await?;
    let coins = course.random(params.pairs).await;
    let mut failed = 0;
    for pair in 0..params.pairs {
        let quic_first = coins.get(pair).is_some_and(|c| c & 1 == 1);
        let order = match quic_first {
            true => [Over::Quic, Over::Tcp],
            false => [Over::Tcp, Over::Quic],
        };
        for (i, over) in order.into_iter().enumerate() {
            if over == Over::Quic && failed >= TRIES {
                continue;
            }
            let left = 2 * (params.pairs - pair) - i;
            let most = (budget - course.tally().min(budget)) / left as u64;
            let ran = match over {
                Over::Tcp => tcp(course, params, most, pair as u32).await,
                Over::Quic => quic(course, params, &port, most).await,
            };
            if over == Over::Quic {
                failed = match ran.handshake_ms {
                    Some(_) => 0,
                    None => failed + 1,
                };
            }
            let note = QuicNote::Connection {
                pair: pair as u32,
                over,
                direction: params.direction,
                ran,
            };
            course.note(&note, "server").await;
            course.wait(REST).await;
        }
    }
    Ok(())
}

/// Opens the port for QUIC and one for single datagrams, and tries those.
async fn open(course: &Course, params: &Params, lasts: Duration) -> Result<Port, String> {
    let udp = |answer, port| Wanted {
        answer,
        ..Wanted::new(Transport::Udp, Place::Here, port)
    };
    let wanted = params.port as u16;
    // One that may be used by something else, and one that is free in any case.
    let all = vec![
        udp(Answer::Quic, wanted),
        udp(Answer::Quic, 0),
        udp(Answer::Mark, 0),
    ];
    let ports = course.listen(all, lasts).await;
    let ports = ports.ok_or("the server opens no ports")?;
    let at = |i: usize| match ports.at.get(i) {
        Some(Ok(at)) => Ok(*at),
        Some(Err(why)) => Err(why.clone()),
        None => Err("the server did not name the port".to_owned()),
    };
    let (port, why) = match (at(0), at(1)) {
        (Ok(at), _) => (Port { index: 0, at }, None),
        (Err(why), Ok(at)) => (Port { index: 1, at }, Some(why)),
        (Err(why), Err(_)) => return Err(why),
    };
    let mut plain = (0, 0);
    if let Ok(at) = at(2) {
        let says = knock(&ports.token, 1200);
        let one = Knock {
            transport: Transport::Udp,
            at,
            says,
            enough: Enough::Bytes(1),
            tries: 1,
            patience: Duration::from_millis(1500),
            watched: false,
        };
        let tried = course.knock(vec![one; PLAIN as usize]).await;
        let answered = tried.iter().filter(|t| matches!(t.back, Back::Bytes(_)));
        plain = (PLAIN, answered.count() as u32);
    }
    let note = QuicNote::Port {
        wanted,
        opened: port.at.port(),
        why,
        plain,
    };
    course.note(&note, "server").await;
    Ok(port)
}

async fn quic(course: &Course, params: &Params, port: &Port, most: Bytes) -> Ran {
    course.stage("QUIC").await;
    let load = QuicLoad {
        port: port.index,
        at: port.at,
        direction: params.direction,
        lasts: params.time,
        bin: BIN,
        patience: PATIENCE,
        most,
    };
    let ran = course.quic(load).await;
    let (failed, refused) = match ran.trouble {
        Some(trouble) => (
            Some(trouble.text),
            trouble.kind == crate::ask::Kind::Refused,
        ),
        None => (None, false),
    };
    Ran {
        handshake_ms: ran.handshake.map(|d| d.as_secs_f64() * 1e3),
        bins: ran.bins,
        sent: ran.sent,
        lost: ran.lost,
        wait_ms: ran.wait.map(|d| d.as_secs_f64() * 1e3),
        failed,
        refused,
    }
}

async fn tcp(course: &Course, params: &Params, most: Bytes, number: u32) -> Ran {
    course.stage("TCP").await;
    let before = course.tally();
    let load = Load {
        number,
        direction: params.direction,
        flows: 1,
        congestion: None,
        duration: params.time * 2,
        sample: BIN,
        datagrams: None,
    };
    course.act(Action::Load(load)).await;
    let (began, mut bins) = (course.now(), Vec::new());
    let (mut counted, mut failed) = (0, None);
    while course.now().saturating_since(began) < params.time {
        if course.tally() - before >= most {
            break;
        }
        let next = began + BIN * (bins.len() as u64 + 1);
        course.wait(next.saturating_since(course.now())).await;
        let Some(state) = course.load(number) else {
            failed = Some("the load did not start".to_owned());
            break;
        };
        let bytes = state.bytes.get();
        // A host that was late has the bytes of several bins: they are spread.
        let due = (course.now().saturating_since(began).as_nanos() / BIN.as_nanos()) as usize;
        let new = due.saturating_sub(bins.len()).max(1);
        bins.extend(std::iter::repeat_n(
            bytes.saturating_sub(counted) / new as u64,
            new,
        ));
        counted = counted.max(bytes);
        if state.alive == 0 {
            failed = Some("it ended by itself".to_owned());
            break;
        }
    }
    course.act(Action::StopLoad(Some(number))).await;
    course.act(Action::Collect).await;
    Ran {
        handshake_ms: Some(0.0).filter(|_| !bins.is_empty()),
        bins,
        failed,
        ..Ran::default()
    }
}
