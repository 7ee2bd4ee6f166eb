//! A resolver that behaves in one known way.

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, Record, Ttl, UnknownRecordData};
use live::emulate::{FAR_V4, NetNs};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Clone, Copy, Default)]
pub struct Manner {
    /// Time of its answer about a new name; the next field has that about a known one.
    pub new_ms: u64,
    pub known_ms: u64,
    /// Every so many queries it leaves one without an answer; none where 0.
    pub drops_each: u32,
    pub dnssec: Dnssec,
    /// Its behaviour for some record types.
    pub types: &'static [(Rtype, Odd)],
    pub edns: Edns,
    /// It takes no connections.
    pub no_tcp: bool,
    /// Nothing above 512 bytes comes from it in a datagram.
    pub swallows_large: bool,
    /// It has the zone itself, as a root server has its own, and finds out nothing for others.
    pub authoritative: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Dnssec {
    /// Lets nothing pass whose signatures are wrong.
    Checks,
    #[default]
    HandsOn,
    Strips,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Odd {
    Silent,
    /// Something that cannot be read.
    Garbled,
    Says(Rcode),
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Edns {
    #[default]
    Knows,
    /// It answers as if the question were not extended.
    Ignores,
    /// It does not understand extended questions.
    Refuses,
}

/// Names that are signed well begin with this, and badly with that.
pub const SIGNED: &str = "signed.test";
pub const BOGUS: &str = "bogus.test";
/// The keys of the root are so long: two of them, and a signature.
const KEYS: [(Rtype, usize); 3] = [
    (Rtype::DNSKEY, 264),
    (Rtype::DNSKEY, 264),
    (Rtype::RRSIG, 287),
];

/// Behaviour of a resolver that knows few types: another fault for each.
pub const ODD: &[(Rtype, Odd)] = &[
    (Rtype::SRV, Odd::Silent),
    (Rtype::CAA, Odd::Says(Rcode::NOTIMP)),
    (Rtype::HTTPS, Odd::Garbled),
    (Rtype::NAPTR, Odd::Says(Rcode::FORMERR)),
    (Rtype::from_int(65280), Odd::Says(Rcode::NXDOMAIN)),
];

pub struct Resolver {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("the resolver does not panic");
        }
    }
}

/// Answers on this port of the far end until it is dropped.
pub fn start(far: &NetNs, port: u16, manner: Manner) -> Resolver {
    let stop: Arc<AtomicBool> = Arc::default();
    let socket = far
        .run(|| UdpSocket::bind((FAR_V4, port)))
        .expect("enters")
        .expect("binds");
    let wait = Duration::from_millis(50);
    socket.set_read_timeout(Some(wait)).expect("a time-out");
    let its = stop.clone();
    let mut threads = vec![std::thread::spawn(move || serve(&socket, manner, &its))];
    if !manner.no_tcp {
        let listener = far
            .run(|| TcpListener::bind((FAR_V4, port)))
            .expect("enters")
            .expect("binds");
        listener.set_nonblocking(true).expect("a listener");
        let its = stop.clone();
        threads.push(std::thread::spawn(move || {
            serve_connections(&listener, manner, &its);
        }));
    }
    Resolver { stop, threads }
}

fn serve(socket: &UdpSocket, manner: Manner, stop: &AtomicBool) {
    let mut known = BTreeSet::new();
    let mut buf = [0; 2000];
    let mut queries = 0;
    while !stop.load(Ordering::Relaxed) {
        let Ok((n, from)) = socket.recv_from(&mut buf) else {
            continue;
        };
        queries += 1;
        if manner.drops_each > 0 && queries % manner.drops_each == 0 {
            continue;
        }
        let query = Message::from_octets(&buf[..n]).expect("a message");
        let asked = query.sole_question().expect("a question");
        let name = asked.qname().to_string();
        let odd = manner.types.iter().find(|(t, _)| *t == asked.qtype());
        let wait = if known.insert(name.clone()) {
            manner.new_ms
        } else {
            manner.known_ms
        };
        // It asks others one by one, and what it has to say of itself at once.
        if asked.qtype() == Rtype::A {
            std::thread::sleep(Duration::from_millis(wait));
        }
        let whole = match odd.map(|o| o.1) {
            Some(Odd::Silent) => continue,
            Some(Odd::Garbled) => {
                let mut answer = answer(&query, &name, manner, None);
                answer.truncate(n - 3);
                answer
            }
            Some(Odd::Says(code)) => answer(&query, &name, manner, Some(code)),
            None => answer(&query, &name, manner, None),
        };
        let allowed = query.opt().map_or(512, |o| o.udp_payload_size());
        let sent = if whole.len() <= usize::from(allowed) {
            whole
        } else {
            cut(&query)
        };
        if sent.len() <= 512 || !manner.swallows_large {
            let _ = socket.send_to(&sent, from);
        }
    }
}

fn serve_connections(listener: &TcpListener, manner: Manner, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        // Some only knock, to see how far it is.
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
        let mut len = [0; 2];
        if stream.read_exact(&mut len).is_err() {
            continue;
        }
        let mut query = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut query).expect("a question");
        let query = Message::from_octets(&query[..]).expect("a message");
        let name = query
            .sole_question()
            .expect("a question")
            .qname()
            .to_string();
        let answer = answer(&query, &name, manner, None);
        let mut bytes = (answer.len() as u16).to_be_bytes().to_vec();
        bytes.extend(answer);
        let _ = stream.write_all(&bytes);
    }
}

/// That it does not fit.
fn cut(query: &Message<&[u8]>) -> Vec<u8> {
    let mut answer = MessageBuilder::new_vec()
        .start_answer(query, Rcode::NOERROR)
        .expect("room");
    answer.header_mut().set_tc(true);
    let mut answer = answer.additional();
    answer.opt(|_| Ok(())).expect("room");
    answer.finish()
}

fn answer(query: &Message<&[u8]>, name: &str, manner: Manner, odd: Option<Rcode>) -> Vec<u8> {
    let asked = query.sole_question().expect("a question").qtype();
    let extended = query.opt().is_some();
    let wants = query.opt().is_some_and(|o| o.dnssec_ok());
    let dnssec = manner.dnssec;
    let root = name == "." || name.is_empty();
    let (signed, bogus) = (name == SIGNED, name == BOGUS);
    let refuses = bogus && dnssec == Dnssec::Checks && !query.header().cd();
    let mut code = match (refuses, signed || bogus || root) {
        (true, _) => Rcode::SERVFAIL,
        (_, true) => Rcode::NOERROR,
        _ => Rcode::NXDOMAIN,
    };
    if extended && manner.edns == Edns::Refuses {
        code = Rcode::FORMERR;
    }
    let code = odd.unwrap_or(code);
    let mut answer = MessageBuilder::new_vec()
        .start_answer(query, code)
        .expect("room");
    answer.header_mut().set_ra(!manner.authoritative);
    answer.header_mut().set_aa(manner.authoritative);
    answer
        .header_mut()
        .set_ad(wants && signed && dnssec == Dnssec::Checks);
    if code == Rcode::NOERROR {
        let owner: Name<Vec<u8>> = if root {
            Name::root_vec()
        } else {
            name.parse().expect("a name")
        };
        let mut push = |rtype: Rtype, data: &[u8]| {
            // A signature of nothing: nobody here reads it.
            if rtype == Rtype::RRSIG && (!wants || dnssec == Dnssec::Strips) {
                return;
            }
            let data = UnknownRecordData::from_octets(rtype, data.to_vec()).expect("short");
            let record = Record::new(owner.clone(), Class::IN, Ttl::from_secs(60), data);
            answer.push(record).expect("room");
        };
        match asked {
            Rtype::DNSKEY if root => {
                for (rtype, len) in KEYS {
                    push(rtype, &vec![0; len]);
                }
            }
            Rtype::SOA if root => {
                push(Rtype::SOA, &[0; 22]);
                push(Rtype::RRSIG, &[0; 30]);
            }
            Rtype::A => {
                push(Rtype::A, &[192, 0, 2, 80]);
                push(Rtype::RRSIG, &[0; 30]);
            }
            _ => {}
        }
    }
    if !extended || manner.edns != Edns::Knows {
        return answer.finish();
    }
    let mut answer = answer.additional();
    answer
        .opt(|o| {
            o.set_dnssec_ok(wants);
            Ok(())
        })
        .expect("room");
    answer.finish()
}
