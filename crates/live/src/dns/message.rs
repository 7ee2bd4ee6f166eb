//! Queries and answers of the DNS. The format is the business of the library `domain`.

use base::noted::dns::Answer;
use domain::base::iana::{Class, Rtype};
use domain::base::{Message, MessageBuilder, Name};

/// What a datagram may bring without being cut on the way (RFC 9715 section 3.1).
const LARGEST: u16 = 1232;

/// A question that a datagram carries.
pub struct Question {
    id: u16,
    name: Name<Vec<u8>>,
    pub bytes: Vec<u8>,
}

/// How to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// For signatures too (the bit DO, RFC 4035 section 3.2.1).
    pub signatures: bool,
    /// Unchecked (the bit CD, RFC 4035 section 3.2.2).
    pub unchecked: bool,
}

impl Question {
    /// For the IPv4 address of `name`, recursion desired. `None` where no such name can be asked for.
    pub fn new(id: u16, name: &str, manner: Manner) -> Option<Question> {
        let name: Name<Vec<u8>> = name.parse().ok()?;
        let mut message = MessageBuilder::new_vec();
        let header = message.header_mut();
        header.set_id(id);
        header.set_rd(true);
        header.set_cd(manner.unchecked);
        let mut message = message.question();
        message.push((&name, Rtype::A, Class::IN)).ok()?;
        let mut message = message.additional();
        let edns = message.opt(|opt| {
            opt.set_udp_payload_size(LARGEST);
            opt.set_dnssec_ok(manner.signatures);
            Ok(())
        });
        edns.ok()?;
        let bytes = message.finish();
        Some(Question { id, name, bytes })
    }

    /// What these bytes answer to this question; `None` where they are no answer to it.
    pub fn read(&self, bytes: &[u8]) -> Option<Answer> {
        let message = Message::from_octets(bytes).ok()?;
        let header = message.header();
        if header.id() != self.id || !header.qr() {
            return None;
        }
        let asked = message.sole_question().ok()?;
        if asked.qtype() != Rtype::A || *asked.qname() != self.name {
            return None;
        }
        let (mut records, mut signatures) = (0, false);
        if let Ok(section) = message.answer() {
            for record in section.flatten() {
                signatures |= record.rtype() == Rtype::RRSIG;
                records += u32::from(record.rtype() != Rtype::RRSIG);
            }
        }
        Some(Answer {
            code: message.opt_rcode().to_string(),
            records,
            authentic: header.ad(),
            signatures,
            truncated: header.tc(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_this_very_question_counts() {
        let manner = Manner {
            signatures: true,
            unchecked: false,
        };
        let asked = Question::new(77, "www.example.org", manner).expect("a name");
        assert_eq!(asked.read(&asked.bytes), None, "a question is no answer");
        let mut answer = asked.bytes.clone();
        answer[2] |= 0x80;
        answer[3] |= 0x23;
        let read = asked.read(&answer).expect("it answers");
        assert_eq!((read.code.as_str(), read.authentic), ("NXDOMAIN", true));
        let other = Question::new(77, "www.example.com", manner).expect("a name");
        assert_eq!(other.read(&answer), None);
        let other = Question::new(78, "www.example.org", manner).expect("a name");
        assert_eq!(other.read(&answer), None);
        assert_eq!(asked.read(&answer[..14]), None);
    }
}
