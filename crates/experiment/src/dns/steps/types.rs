//! Types of records that a resolver processes, EDNS0, and answers that are too large for a datagram.

use super::{Asker, Run, problem};
use crate::ask::{Back, Enough, Kind, Knock, Tried};
use crate::course::Course;
use crate::dns::message::{LARGEST, Manner, Question};
use crate::host::Stopped;
use base::Duration;
use base::noted::dns::{Carried, DnsNote, Said};
use domain::base::iana::Rtype;
use measure::control::listen::Transport;
use std::net::SocketAddr;

/// Number of times a question is asked before it counts as unanswered.
const TRIES: u32 = 3;
/// Types that programs ask for, and one for private use, which nobody can know (RFC 6895 section 3.1): it is to be
/// handed on like any other (RFC 3597 section 3).
const TYPES: &[Rtype] = &[
    Rtype::A,
    Rtype::AAAA,
    Rtype::MX,
    Rtype::TXT,
    Rtype::SRV,
    Rtype::CAA,
    Rtype::HTTPS,
    Rtype::DNSKEY,
    Rtype::DS,
    Rtype::NAPTR,
    Rtype::from_int(65280),
];
/// RFC 1035 section 4.2.1: limit of a datagram without EDNS0.
const SHORT: u16 = 512;
/// Questions to one resolver, all tries counted.
pub(super) const QUESTIONS: u64 = (TYPES.len() as u64 + 4) * TRIES as u64;

/// Questions for one address.
pub(super) struct Asking {
    pub socket: u32,
    pub far: SocketAddr,
    pub questions: Vec<Question>,
}

/// Asks all types at once, so that lost answers cost their time only once.
///
/// # Errors
/// A name that cannot be asked for.
pub(super) async fn ask(run: &Run, asker: &Asker) -> Result<(), Stopped> {
    if asker.left_alone {
        return Ok(());
    }
    let resolver = asker.resolver.text();
    let zone = run.plan.params.zone.to_string();
    let mut questions = Vec::new();
    for rtype in TYPES {
        questions.push(question(&run.course, &zone, *rtype, Manner::default()).await?);
    }
    let said = asked(run, asker, questions).await;
    let usable = said.first().is_some_and(|s| {
        s.answer
            .as_ref()
            .is_some_and(|a| !matches!(&*a.code, "FORMERR" | "NOTIMP" | "BADVERS"))
    });
    for (rtype, said) in TYPES.iter().zip(said) {
        let note = DnsNote::Typed {
            rtype: rtype.to_string(),
            name: zone.clone(),
            said,
        };
        run.course.note(&note, &resolver).await;
    }
    if !usable {
        let plain = Manner {
            largest: None,
            ..Manner::default()
        };
        let question = question(&run.course, &zone, Rtype::A, plain).await?;
        for said in asked(run, asker, vec![question]).await {
            run.course.note(&DnsNote::Plain { said }, &resolver).await;
        }
    }
    large(run, asker).await
}

/// The root's keys, which do not fit into 512 bytes.
async fn large(run: &Run, asker: &Asker) -> Result<(), Stopped> {
    let resolver = asker.resolver.text();
    let keys = async |largest| {
        let manner = Manner {
            signatures: true,
            largest: Some(largest),
            ..Manner::default()
        };
        question(&run.course, ".", Rtype::DNSKEY, manner).await
    };
    for (carried, largest) in [(Carried::Short, SHORT), (Carried::Long, LARGEST)] {
        let question = keys(largest).await?;
        for said in asked(run, asker, vec![question]).await {
            let note = DnsNote::Large { carried, said };
            run.course.note(&note, &resolver).await;
        }
    }
    run.course.stage(&resolver).await;
    let question = keys(LARGEST).await?;
    let patience = run.plan.params.patience;
    let said = over_tcp(&run.course, asker.resolver.address, &question, patience).await;
    let carried = Carried::Tcp;
    let note = DnsNote::Large { carried, said };
    run.course.note(&note, &resolver).await;
    Ok(())
}

/// Questions to one resolver.
async fn asked(run: &Run, asker: &Asker, questions: Vec<Question>) -> Vec<Said> {
    run.course.stage(&asker.resolver.text()).await;
    let asking = Asking {
        socket: asker.socket,
        far: asker.resolver.address,
        questions,
    };
    let said = gather(&run.course, &[asking], run.plan.params.patience).await;
    said.into_iter().next().unwrap_or_default()
}

/// # Errors
/// A name that cannot be asked for.
pub(super) async fn question(
    course: &Course,
    name: &str,
    rtype: Rtype,
    manner: Manner,
) -> Result<Question, Stopped> {
    let id = course.random(2).await;
    let id = id.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    Question::new(id, name, rtype, manner).ok_or_else(|| Stopped::Unusable {
        why: format!("\"{name}\" is no name that can be asked for"),
    })
}

/// Asks all of these from their sockets, and those that are not answered again. All have the same time.
pub(super) async fn gather(course: &Course, all: &[Asking], patience: Duration) -> Vec<Vec<Said>> {
    let none = |a: &Asking| a.questions.iter().map(|_| Said::default()).collect();
    let mut said: Vec<Vec<Said>> = all.iter().map(none).collect();
    for _ in 0..TRIES {
        for (asking, said) in all.iter().zip(&mut said) {
            for (question, said) in asking.questions.iter().zip(said) {
                if said.answer.is_none() {
                    let bytes = question.bytes.clone();
                    let sent = course.send(asking.socket, asking.far, bytes).await;
                    if let Err(e) = sent {
                        said.problem = Some(problem(&e));
                    }
                }
            }
        }
        let until = course.now() + patience;
        for (asking, said) in all.iter().zip(&mut said) {
            while said.iter().any(|s| s.answer.is_none()) {
                let left = until.saturating_since(course.now());
                let any = |bytes: &[u8], _| Some(bytes.to_vec());
                match course.hear(asking.socket, (left, false), any).await {
                    Ok(bytes) => take(&asking.questions, said, &bytes),
                    Err(e) if e.kind == Kind::Silence => break,
                    Err(e) => {
                        // Nobody is there: true of all that are still open.
                        for said in said.iter_mut().filter(|s| s.answer.is_none()) {
                            said.problem = Some(problem(&e));
                        }
                        break;
                    }
                }
            }
        }
    }
    said
}

/// Takes in a datagram that may answer one of these questions.
fn take(questions: &[Question], all: &mut [Said], bytes: &[u8]) {
    for (question, said) in questions.iter().zip(all) {
        if question.meant(bytes) && said.answer.is_none() {
            said.answer = question.read(bytes);
            said.garbled |= said.answer.is_none();
        }
    }
}

/// The same over a connection, where each message has its length before it (RFC 1035 section 4.2.2).
async fn over_tcp(
    course: &Course,
    far: SocketAddr,
    question: &Question,
    patience: Duration,
) -> Said {
    let mut says = (question.bytes.len() as u16).to_be_bytes().to_vec();
    says.extend(&question.bytes);
    let knock = Knock {
        transport: Transport::Tcp,
        at: far,
        says,
        enough: Enough::Framed,
        tries: 1,
        patience,
        watched: false,
    };
    match course.knock(vec![knock]).await.pop() {
        Some(tried) => read(question, &tried),
        None => Said::default(),
    }
}

fn read(question: &Question, tried: &Tried) -> Said {
    let mut said = Said::default();
    match (&tried.trouble, &tried.back) {
        (None, Back::Bytes(bytes)) => {
            let message = bytes.get(2..).unwrap_or_default();
            let len = bytes
                .first_chunk()
                .map_or(0, |len| u16::from_be_bytes(*len));
            said.answer = message
                .get(..usize::from(len))
                .and_then(|m| question.read(m));
            said.garbled = said.answer.is_none();
        }
        (Some(e), _) if !tried.connected => {
            said.problem = Some(match e.kind {
                Kind::Refused => "connections are refused".to_owned(),
                _ => problem(e),
            });
        }
        (Some(e), _) if e.kind == Kind::Silence => {
            said.problem = Some("the connection stays without an answer".into());
        }
        (Some(e), _) => {
            let why = format!("the connection ends without an answer: {}", e.text);
            said.problem = Some(why);
        }
        (None, _) => {
            said.problem = Some("the connection stays without an answer".into());
        }
    }
    said
}
