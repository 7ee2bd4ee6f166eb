//! The messages that are exchanged.

use base::noted::middlebox::Message;
use domain::base::iana::{Class, OptionCode, Rcode, Rtype};
use domain::base::{MessageBuilder, Name, Record, Ttl};
use domain::dep::octseq::OctetsBuilder;
use domain::rdata::A;
use measure::control::listen::{Answer, TOKEN_LEN, Transport};
use std::net::Ipv4Addr;

/// A question, with the answer that our server shall give to it.
pub struct Letter {
    /// Kind of message.
    pub message: Message,
    /// Transport that carries it.
    pub transport: Transport,
    /// Answer that the server gives to it.
    pub answer: Answer,
    /// Length of the question.
    pub expect: u32,
}

/// The bytes of an answer, at either end: they follow from the token alone.
pub fn answer(answer: Answer, token: &[u8; TOKEN_LEN]) -> Vec<u8> {
    match answer {
        // An echo is of a datagram, and no message.
        Answer::Nothing | Answer::Echo | Answer::Pull | Answer::Quic | Answer::Segments => {
            Vec::new()
        }
        Answer::Mark => measure::control::listen::mark(token).to_vec(),
        Answer::Page => page("this text is what the server said\n".as_bytes()),
        Answer::Eicar => page(&eicar()),
        Answer::NotPage => b"NOTHING/9.9 fine\r\nno header at all\r\n: :\r\n\r\nend\r\n".to_vec(),
        Answer::Names => name_answer(&name_of(token)),
        Answer::NotNames => b"this is not an answer of the DNS either".to_vec(),
    }
}

/// Number of the query for a name, which the answer must repeat.
const ID: u16 = 0x7b0c;
/// An address that stands for nothing (RFC 5737).
const ANSWER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);

impl Letter {
    /// Letter of this message.
    pub fn of(message: Message) -> Letter {
        let (transport, answer) = match message {
            Message::Http => (Transport::Tcp, Answer::Page),
            Message::Eicar => (Transport::Tcp, Answer::Eicar),
            Message::NotHttp => (Transport::Tcp, Answer::NotPage),
            Message::Dns => (Transport::Udp, Answer::Names),
            Message::NotDns => (Transport::Udp, Answer::NotNames),
        };
        let mut letter = Letter {
            message,
            transport,
            answer,
            expect: 0,
        };
        letter.expect = letter.sent(&[0; TOKEN_LEN]).len() as u32;
        letter
    }

    /// The question, in which the token stands as text.
    pub fn sent(&self, token: &[u8; TOKEN_LEN]) -> Vec<u8> {
        let name = name_of(token);
        let token: String = token.iter().map(|b| format!("{b:02x}")).collect();
        match self.message {
            Message::Http | Message::Eicar => format!(
                "GET /{token} HTTP/1.1\r\nHost: tailback.invalid\r\nuSeR-aGeNt: tailback\r\nX-Tailback-Odd:  two blanks\r\nAccept: */*\r\nConnection: close\r\n\r\n"
            )
            .into_bytes(),
            Message::NotHttp => {
                format!("HELLO {token} how are you\r\nno header at all\r\n: :\r\n\r\n").into_bytes()
            }
            Message::Dns => name_query(&name, &token),
            Message::NotDns => format!("{token} this is not a query of the DNS at all").into_bytes(),
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

/// Bytes that make a query at least as long as its answer: a server answers no source with more than came from it.
const PADDING: usize = 32;

/// The name of a token, in a domain that nobody may have (RFC 6761 section 6.4).
fn name_of(token: &[u8; TOKEN_LEN]) -> Name<Vec<u8>> {
    let mark = measure::control::listen::mark(token);
    let label: String = mark[..8].iter().map(|b| format!("{b:02x}")).collect();
    format!("tailback-{label}.invalid")
        .parse()
        .expect("it is a name")
}

/// The token stands in an option that no server knows (RFC 6891 section 9: 65001 is for experiments).
fn name_query(name: &Name<Vec<u8>>, token: &str) -> Vec<u8> {
    let token = format!("{token}{}", "-".repeat(PADDING));
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
            let answer = answer(letter.answer, &[0xab; TOKEN_LEN]);
            assert!(!answer.is_empty());
            // A forged source must not get more than was spent on it.
            let proven = letter.transport == Transport::Tcp;
            assert!(
                proven || answer.len() <= sent.len(),
                "{message:?}: {} bytes",
                answer.len()
            );
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
