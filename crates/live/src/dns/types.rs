//! Which types of records a resolver processes, whether it takes extended messages, and how it gives what is too large for
//! a datagram.

use super::message::{Manner, Question};
use super::{Asker, DnsError, Run, problem};
use crate::clock::mono_ns;
use crate::errand::Tally;
use crate::load::kernel::random_bytes;
use base::Duration;
use base::noted::dns::{Carried, DnsNote, Said};
use domain::base::iana::Rtype;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

/// A question is asked so often before it counts as unanswered.
const TRIES: u32 = 3;
/// What programs ask for, and one type for private use, which nobody can know (RFC 6895 section 3.1): it is to be
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
/// RFC 1035 section 4.2.1: what a datagram brings without extension.
const SHORT: u16 = 512;
/// Questions asked here of one resolver, and how often at most.
pub(super) const QUESTIONS: u64 = (TYPES.len() as u64 + 4) * TRIES as u64;

/// All at once, so that what never comes costs its time but once.
///
/// # Errors
/// There is no socket, or the user wants no more.
pub(super) fn ask(run: &mut Run, asker: &Asker) -> Result<(), DnsError> {
    if asker.left_alone {
        return Ok(());
    }
    let resolver = asker.resolver.text();
    let zone = run.plan.zone.clone();
    let patience = run.plan.patience;
    let questions = TYPES
        .iter()
        .map(|rtype| question(&zone, *rtype, Manner::default()))
        .collect::<Result<Vec<_>, _>>()?;
    run.stage(&resolver)?;
    let said = gather(&asker.socket, &questions, patience, &run.errand.tally);
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
        run.errand.note(&note, &resolver);
    }
    if !usable {
        run.stage(&resolver)?;
        let plain = Manner {
            largest: None,
            ..Manner::default()
        };
        let questions = [question(&zone, Rtype::A, plain)?];
        let said = gather(&asker.socket, &questions, patience, &run.errand.tally);
        for said in said {
            run.errand.note(&DnsNote::Plain { said }, &resolver);
        }
    }
    let keys = |largest| {
        let manner = Manner {
            signatures: true,
            largest,
            ..Manner::default()
        };
        question(".", Rtype::DNSKEY, manner)
    };
    run.stage(&resolver)?;
    for (carried, largest) in [
        (Carried::Short, SHORT),
        (Carried::Long, super::message::LARGEST),
    ] {
        let questions = [keys(Some(largest))?];
        let said = gather(&asker.socket, &questions, patience, &run.errand.tally);
        for said in said {
            run.errand
                .note(&DnsNote::Large { carried, said }, &resolver);
        }
        run.stage(&resolver)?;
    }
    let question = keys(Some(super::message::LARGEST))?;
    let said = over_tcp(
        asker.resolver.address,
        &question,
        patience,
        &run.errand.tally,
    );
    let carried = Carried::Tcp;
    run.errand
        .note(&DnsNote::Large { carried, said }, &resolver);
    Ok(())
}

pub(super) fn question(name: &str, rtype: Rtype, manner: Manner) -> Result<Question, DnsError> {
    let id = u16::from_be_bytes(random_bytes());
    Question::new(id, name, rtype, manner).ok_or_else(|| DnsError::Name {
        name: name.to_owned(),
    })
}

/// Asks all of these from a connected socket, and those that are not answered again.
pub(super) fn gather(
    socket: &UdpSocket,
    questions: &[Question],
    patience: Duration,
    tally: &Tally,
) -> Vec<Said> {
    let mut all: Vec<Said> = questions.iter().map(|_| Said::default()).collect();
    let Ok(far) = socket.peer_addr() else {
        return all;
    };
    let mut buf = [0; 4096];
    for _ in 0..TRIES {
        for (question, said) in questions.iter().zip(&mut all) {
            if said.answer.is_none() {
                match socket.send(&question.bytes) {
                    Ok(_) => tally.datagram(far, question.bytes.len()),
                    Err(e) => said.problem = Some(problem(&e)),
                }
            }
        }
        let until = mono_ns() + patience.as_nanos() as i64;
        while all.iter().any(|s| s.answer.is_none()) {
            let left = until - mono_ns();
            if left <= 0 {
                break;
            }
            let left = std::time::Duration::from_nanos(left as u64);
            let heard = socket
                .set_read_timeout(Some(left))
                .and_then(|()| socket.recv(&mut buf));
            match heard {
                Ok(n) => {
                    tally.datagram(far, n);
                    for (question, said) in questions.iter().zip(&mut all) {
                        if question.meant(&buf[..n]) && said.answer.is_none() {
                            said.answer = question.read(&buf[..n]);
                            said.garbled |= said.answer.is_none();
                        }
                    }
                }
                Err(e) if waits(&e) => {}
                Err(e) => {
                    // Nobody is there: of all that are still open.
                    for said in all.iter_mut().filter(|s| s.answer.is_none()) {
                        said.problem = Some(problem(&e));
                    }
                    break;
                }
            }
        }
    }
    all
}

fn waits(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// The same over a connection, where each message has its length before it (RFC 1035 section 4.2.2).
fn over_tcp(far: SocketAddr, question: &Question, patience: Duration, tally: &Tally) -> Said {
    let mut said = Said::default();
    let began = mono_ns();
    let mut stream = match TcpStream::connect_timeout(&far, patience.to_std()) {
        Ok(stream) => stream,
        Err(e) => {
            let took = Duration::from_nanos((mono_ns() - began).max(0) as u64);
            tally.attempt(far, &e, took);
            said.problem = Some(match e.kind() {
                io::ErrorKind::ConnectionRefused => "connections are refused".to_owned(),
                _ => problem(&e),
            });
            return said;
        }
    };
    let mut talk = || -> io::Result<Vec<u8>> {
        stream.set_read_timeout(Some(patience.to_std()))?;
        let mut message = (question.bytes.len() as u16).to_be_bytes().to_vec();
        message.extend(&question.bytes);
        stream.write_all(&message)?;
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    match talk() {
        Ok(bytes) => {
            said.answer = question.read(&bytes);
            said.garbled = said.answer.is_none();
        }
        Err(e) if waits(&e) => said.problem = Some("the connection stays without an answer".into()),
        Err(e) => said.problem = Some(format!("the connection ends without an answer: {e}")),
    }
    tally.connection(&stream);
    said
}
