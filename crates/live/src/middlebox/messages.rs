//! The messages that are exchanged.

use crate::load::kernel::random_bytes;
use base::noted::middlebox::Message;
use domain::base::iana::{Class, OptionCode, Rcode, Rtype};
use domain::base::{MessageBuilder, Name, Record, Ttl};
use domain::dep::octseq::OctetsBuilder;
use domain::rdata::A;
use measure::control::listen::{TOKEN_LEN, Transport};
use std::net::Ipv4Addr;

/// A question, with the answer that our server shall give to it.
pub struct Letter {
    message: Message,
    /// That is asked for, where names are.
    name: Name<Vec<u8>>,
    pub transport: Transport,
    pub answer: Vec<u8>,
    /// Length of the question.
    pub expect: u32,
}

/// Number of the query for a name, which the answer must repeat.
const ID: u16 = 0x7b0c;
/// An address that stands for nothing (RFC 5737).
const ANSWER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);

impl Letter {
    pub fn of(message: Message) -> Letter {
        let name = fresh();
        let (transport, answer) = match message {
            Message::Http => (
                Transport::Tcp,
                page("this text is what the server said\n".as_bytes()),
            ),
            Message::Eicar => (Transport::Tcp, page(&eicar())),
            Message::NotHttp => (
                Transport::Tcp,
                b"NOTHING/9.9 fine\r\nno header at all\r\n: :\r\n\r\nend\r\n".to_vec(),
            ),
            Message::Dns => (Transport::Udp, name_answer(&name)),
            Message::NotDns => (
                Transport::Udp,
                b"this is not an answer of the DNS either".to_vec(),
            ),
        };
        let mut letter = Letter {
            message,
            name,
            transport,
            answer,
            expect: 0,
        };
        letter.expect = letter.sent(&[0; TOKEN_LEN]).len() as u32;
        letter
    }

    /// The question, in which the token stands as text.
    pub fn sent(&self, token: &[u8; TOKEN_LEN]) -> Vec<u8> {
        let token: String = token.iter().map(|b| format!("{b:02x}")).collect();
        match self.message {
            Message::Http | Message::Eicar => format!(
                "GET /{token} HTTP/1.1\r\nHost: tailback.invalid\r\nuSeR-aGeNt: tailback\r\nX-Tailback-Odd:  two blanks\r\nAccept: */*\r\nConnection: close\r\n\r\n"
            )
            .into_bytes(),
            Message::NotHttp => {
                format!("HELLO {token} how are you\r\nno header at all\r\n: :\r\n\r\n").into_bytes()
            }
            Message::Dns => name_query(&self.name, &token),
            Message::NotDns => format!("{token} this is not a query of the DNS").into_bytes(),
        }
    }
}

fn page(body: &[u8]) -> Vec<u8> {
    let mut out = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nx-tAiLbAcK-oDd:  two blanks\r\nConnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    out.extend_from_slice(body);
    out
}

/// The test string of the European Institute for Computer Antivirus Research: harmless, and known to every antivirus
/// program. It stands here backwards, so that neither this text nor the program is taken for a virus.
fn eicar() -> Vec<u8> {
    const BACKWARDS: &str = r"*H+H$!ELIF-TSET-SURIVITNA-DRADNATS-RACIE$}7)CC7)^P(45XZP\4[PA@%P!O5X";
    BACKWARDS.bytes().rev().collect()
}

/// A fresh name in a domain that nobody may have (RFC 6761 section 6.4).
fn fresh() -> Name<Vec<u8>> {
    let label = u64::from_be_bytes(random_bytes());
    format!("tailback-{label:016x}.invalid")
        .parse()
        .expect("it is a name")
}

/// The token stands in an option that no server knows (RFC 6891 section 9: 65001 is for experiments), so that the
/// answer can be made before the token is known.
fn name_query(name: &Name<Vec<u8>>, token: &str) -> Vec<u8> {
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_id(ID);
    message.header_mut().set_rd(true);
    let mut message = message.question();
    let room = message.push((name, Rtype::A, Class::IN));
    room.expect("a vector has room");
    let mut message = message.additional();
    let room = message.opt(|opt| {
        let code = OptionCode::from_int(65001);
        opt.push_raw_option(code, token.len() as u16, |target| {
            target.append_slice(token.as_bytes())
        })
    });
    room.expect("a vector has room");
    message.finish()
}

fn name_answer(name: &Name<Vec<u8>>) -> Vec<u8> {
    let mut message = MessageBuilder::new_vec();
    let header = message.header_mut();
    header.set_id(ID);
    header.set_qr(true);
    header.set_rd(true);
    header.set_ra(true);
    header.set_rcode(Rcode::NOERROR);
    let mut message = message.question();
    let room = message.push((name, Rtype::A, Class::IN));
    room.expect("a vector has room");
    let mut message = message.answer();
    let record = Record::new(name, Class::IN, Ttl::from_secs(1), A::new(ANSWER));
    message.push(record).expect("a vector has room");
    message.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_carries_the_token_and_is_as_long_as_was_said() {
        for message in [
            Message::Http,
            Message::NotHttp,
            Message::Eicar,
            Message::Dns,
            Message::NotDns,
        ] {
            let letter = Letter::of(message);
            let sent = letter.sent(&[0xab; TOKEN_LEN]);
            assert_eq!(sent.len(), letter.expect as usize, "{message:?}");
            let shows = sent.windows(16).any(|w| w == b"abababababababab");
            assert!(shows, "{message:?}");
            assert!(!letter.answer.is_empty());
        }
    }

    #[test]
    fn the_test_string_of_antivirus_programs_is_the_one_that_they_know() {
        let text = eicar();
        assert_eq!(text.len(), 68);
        assert!(text.starts_with(b"X5O!P%@AP"));
        assert!(text.ends_with(b"!$H+H*"));
    }
}
