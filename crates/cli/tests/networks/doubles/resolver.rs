//! A resolver that behaves in one known way.

use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name, Record, Ttl, UnknownRecordData};
use live::emulate::{FAR_V4, NetNs};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Clone, Copy, Default)]
pub struct Manner {
    /// How long it takes for a name that it has not been asked for, and for one that it has.
    pub new_ms: u64,
    pub known_ms: u64,
    /// Every so many queries it leaves one without an answer; none where 0.
    pub drops_each: u32,
    pub dnssec: Dnssec,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Dnssec {
    /// Lets nothing pass whose signatures are wrong.
    Checks,
    #[default]
    HandsOn,
    Strips,
}

/// Names that are signed well begin with this, and badly with that.
pub const SIGNED: &str = "signed.test";
pub const BOGUS: &str = "bogus.test";

pub struct Resolver {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the resolver does not panic");
        }
    }
}

/// Answers on this port of the far end until it is dropped.
pub fn start(far: &NetNs, port: u16, manner: Manner) -> Resolver {
    let stop: Arc<AtomicBool> = Arc::default();
    let its = stop.clone();
    let socket = far
        .run(|| UdpSocket::bind((FAR_V4, port)))
        .expect("enters")
        .expect("binds");
    let wait = Duration::from_millis(50);
    socket.set_read_timeout(Some(wait)).expect("a time-out");
    let thread = std::thread::spawn(move || serve(&socket, manner, &its));
    Resolver {
        stop,
        thread: Some(thread),
    }
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
        let wait = if known.insert(name.clone()) {
            manner.new_ms
        } else {
            manner.known_ms
        };
        std::thread::sleep(Duration::from_millis(wait));
        let _ = socket.send_to(&answer(&query, &name, manner.dnssec), from);
    }
}

fn answer(query: &Message<&[u8]>, name: &str, dnssec: Dnssec) -> Vec<u8> {
    let wants = query.opt().is_some_and(|o| o.dnssec_ok());
    let (signed, bogus) = (name == SIGNED, name == BOGUS);
    let refuses = bogus && dnssec == Dnssec::Checks && !query.header().cd();
    let code = match (refuses, signed || bogus) {
        (true, _) => Rcode::SERVFAIL,
        (_, true) => Rcode::NOERROR,
        _ => Rcode::NXDOMAIN,
    };
    let mut answer = MessageBuilder::new_vec()
        .start_answer(query, code)
        .expect("room");
    answer.header_mut().set_ra(true);
    answer
        .header_mut()
        .set_ad(wants && signed && dnssec == Dnssec::Checks);
    if code == Rcode::NOERROR {
        let owner: Name<Vec<u8>> = name.parse().expect("a name");
        let mut push = |rtype: Rtype, data: &[u8]| {
            let data = UnknownRecordData::from_octets(rtype, data.to_vec()).expect("short");
            let record = Record::new(owner.clone(), Class::IN, Ttl::from_secs(60), data);
            answer.push(record).expect("room");
        };
        push(Rtype::A, &[192, 0, 2, 80]);
        if wants && dnssec != Dnssec::Strips {
            // A signature of nothing: nobody here reads it.
            push(Rtype::RRSIG, &[0; 30]);
        }
    }
    answer.finish()
}
