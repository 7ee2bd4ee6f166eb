//! Queries and answers of the DNS. The format is the business of the library `domain`.

use base::noted::dns::Answer;
use domain::base::iana::{Class, Rcode, Rtype};
use domain::base::{Message, MessageBuilder, Name};

/// What a datagram may bring without being cut on the way (RFC 9715 section 3.1).
pub(super) const LARGEST: u16 = 1232;

/// A question that a datagram carries.
pub(super) struct Question {
    id: u16,
    name: Name<Vec<u8>>,
    rtype: Rtype,
    pub bytes: Vec<u8>,
}

/// How to ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// A resolver is asked to find out; who is asked for what is its own is not.
    pub recursion: bool,
    /// For signatures too (the bit DO, RFC 4035 section 3.2.1).
    pub signatures: bool,
    /// Unchecked (the bit CD, RFC 4035 section 3.2.2).
    pub unchecked: bool,
    /// What a datagram may bring, bytes (EDNS0, RFC 6891 section 6.2.3); none for a message as of RFC 1035, which may
    /// bring 512.
    pub largest: Option<u16>,
}

impl Default for Manner {
    fn default() -> Manner {
        Manner {
            recursion: true,
            signatures: false,
            unchecked: false,
            largest: Some(LARGEST),
        }
    }
}

impl Question {
    /// For such records of `name`. `None` where no such name can be asked for.
    pub fn new(id: u16, name: &str, rtype: Rtype, manner: Manner) -> Option<Question> {
        let name: Name<Vec<u8>> = name.parse().ok()?;
        let mut message = MessageBuilder::new_vec();
        let header = message.header_mut();
        header.set_id(id);
        header.set_rd(manner.recursion);
        header.set_cd(manner.unchecked);
        let mut message = message.question();
        message.push((&name, rtype, Class::IN)).ok()?;
        let mut message = message.additional();
        if let Some(largest) = manner.largest {
            let edns = message.opt(|opt| {
                opt.set_udp_payload_size(largest);
                opt.set_dnssec_ok(manner.signatures);
                Ok(())
            });
            edns.ok()?;
        }
        let bytes = message.finish();
        Some(Question {
            id,
            name,
            rtype,
            bytes,
        })
    }

    /// Whether these bytes are meant for this question, readable or not.
    pub fn meant(&self, bytes: &[u8]) -> bool {
        bytes.get(..2) == Some(&self.id.to_be_bytes()[..])
    }

    /// What these bytes answer to this question; `None` where they are no answer to it, or not well formed.
    pub fn read(&self, bytes: &[u8]) -> Option<Answer> {
        let message = Message::from_octets(bytes).ok()?;
        let header = message.header();
        if header.id() != self.id || !header.qr() {
            return None;
        }
        // Who does not understand a question need not repeat it (RFC 1035 section 4.1.1).
        let not_understood = matches!(header.rcode(), Rcode::FORMERR | Rcode::NOTIMP)
            && message.header_counts().qdcount() == 0;
        if !not_understood {
            let asked = message.sole_question().ok()?;
            if asked.qtype() != self.rtype || *asked.qname() != self.name {
                return None;
            }
        }
        let mut answer = Answer {
            code: message.opt_rcode().to_string(),
            authentic: header.ad(),
            truncated: header.tc(),
            authoritative: header.aa(),
            recursive: header.ra(),
            bytes: bytes.len() as u32,
            extended: message.opt().is_some(),
            ..Answer::default()
        };
        let mut section = message.answer().ok();
        let mut first = true;
        while let Some(records) = section {
            for record in records {
                match record {
                    Ok(record) if first => {
                        let signature = record.rtype() == Rtype::RRSIG;
                        answer.signatures |= signature;
                        answer.records += u32::from(!signature);
                    }
                    Ok(_) => {}
                    // What was cut may be cut anywhere.
                    Err(_) if header.tc() => return Some(answer),
                    Err(_) => return None,
                }
            }
            first = false;
            section = records.next_section().ok()?;
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_this_very_question_counts() {
        let manner = Manner {
            signatures: true,
            ..Manner::default()
        };
        let asked = Question::new(77, "www.example.org", Rtype::A, manner).expect("a name");
        assert_eq!(asked.read(&asked.bytes), None, "a question is no answer");
        let mut answer = asked.bytes.clone();
        answer[2] |= 0x80;
        answer[3] |= 0x23;
        let read = asked.read(&answer).expect("it answers");
        assert_eq!((read.code.as_str(), read.authentic), ("NXDOMAIN", true));
        let other = Question::new(77, "www.example.com", Rtype::A, manner).expect("a name");
        assert_eq!(other.read(&answer), None);
        let other = Question::new(78, "www.example.org", Rtype::A, manner).expect("a name");
        assert_eq!(other.read(&answer), None);
        let other = Question::new(77, "www.example.org", Rtype::MX, manner).expect("a name");
        assert_eq!(other.read(&answer), None);
        assert!(asked.meant(&answer[..14]));
        assert_eq!(asked.read(&answer[..14]), None);
    }

    #[test]
    fn the_root_can_be_asked_for_and_who_does_not_understand_need_not_repeat_the_question() {
        let asked = Question::new(7, ".", Rtype::SOA, Manner::default()).expect("a name");
        let header = [0, 7, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let read = asked.read(&header).expect("a refusal");
        assert_eq!((read.code.as_str(), read.extended), ("FORMERR", false));
        let fine = [0, 7, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(asked.read(&fine), None, "an answer to what?");
    }
}
