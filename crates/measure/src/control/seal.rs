//! Framing and signatures of a control connection, for both ends.
//!
//! **Source.** HMAC-SHA-256 (RFC 2104, HMAC: Keyed-Hashing for Message Authentication), under keys derived from the
//! user's by HKDF (RFC 5869). **Deviations.** None. **Units.** Lengths in bytes.
//!
//! | message | bytes |
//! |---|---|
//! | hello (client) | `TBK`, version, nonce 16 |
//! | greeting (server) | `TBK`, version, bit 0: keys only, nonce 16, salt 16 |
//! | request (client) | `TBK`, version, kind, bit 0: signed, length 2, body; signed: user 16, tag 32 |
//! | response (server) | kind, top bit: signed, length 4, body; signed: tag 32. A pong has neither length nor body |
//! | frame (client) | length 2, body; signed: tag 32 |
//!
//! The keys of a connection are derived from the user's key and the hash of hello and greeting, one for each direction.
//! A tag covers the number of the message in its direction and all bytes before it. So no message can be changed,
//! replayed, reordered, reflected to its author or moved to another connection. The bytes of a load are not signed:
//! they are only counted.

pub use super::types::MOST_FRAME;
use super::{
    ControlError, GREETING_LEN, Greeting, HELLO_LEN, MAGIC, MAX_REPORT_BODY, MAX_REQUEST_BODY,
    MAX_RESPONSE_BODY, MAX_STAMPS_BODY, REQUEST_HEADER_LEN, RESPONSE_HEADER_LEN, Refusal, Request,
    Response, VERSION, check_magic, listen, packets,
};
use crate::keys::{Credential, ID_LEN, Identity, SessionKeys, UserId, UserKey, Users};
use crate::wire::Key;
use sha2::{Digest, Sha256};

/// Length of a signature, bytes.
pub const TAG_LEN: usize = 32;
const SIGNED: u8 = 0x80;
const PONG: u8 = 0;

/// Hash of everything that both ends said before the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transcript([u8; 32]);

impl Transcript {
    /// Transcript of the greeting.
    pub fn new(hello: &[u8; HELLO_LEN], greeting: &[u8; GREETING_LEN]) -> Transcript {
        let hash = Sha256::new().chain_update(hello).chain_update(greeting);
        Transcript(hash.finalize().into())
    }

    fn keys(&self, user: &UserKey) -> SessionKeys {
        user.session("tailback 3 control", &self.0)
    }
}

/// Direction of a connection: the key, if any, and the number of the next message.
#[derive(Clone, Debug)]
struct Seal {
    key: Option<Key>,
    next: u64,
}

impl Seal {
    fn new(key: Option<Key>) -> Seal {
        Seal { key, next: 0 }
    }

    fn tag_len(&self) -> usize {
        if self.key.is_some() { TAG_LEN } else { 0 }
    }

    fn sign(&mut self, message: &mut Vec<u8>) {
        if let Some(key) = &self.key {
            let tag = key.mac(&[&self.next.to_be_bytes(), message]);
            message.extend_from_slice(&tag);
        }
        self.next += 1;
    }

    /// Checks the tag; returns the message without it.
    fn verify<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], ControlError> {
        let Some(key) = &self.key else {
            return Ok(bytes);
        };
        let at = bytes.len().saturating_sub(TAG_LEN);
        let (message, tag) = bytes.split_at(at);
        if !key.verify_mac(&[&self.next.to_be_bytes(), message], tag) {
            return Err(ControlError::Unsigned);
        }
        self.next += 1;
        Ok(message)
    }
}

/// Client end: signs its messages, and assembles responses from the bytes received. Stores no more than has arrived.
#[derive(Debug)]
pub struct ClientEnd {
    user: Option<UserId>,
    up: Seal,
    down: Seal,
    buf: Vec<u8>,
}

impl ClientEnd {
    /// Starts once the greeting has arrived.
    ///
    /// # Errors
    /// One of the two ends has a key, and the other has none.
    pub fn new(
        hello: &[u8; HELLO_LEN],
        greeting: &[u8; GREETING_LEN],
        credential: Option<&Credential>,
    ) -> Result<ClientEnd, ControlError> {
        let said = Greeting::decode(greeting)?;
        let keys = match (credential, said.key_needed) {
            (None, true) => return Err(ControlError::KeyNeeded),
            (Some(_), false) => return Err(ControlError::NoKeyThere),
            (None, false) => None,
            (Some(c), true) => Some(Transcript::new(hello, greeting).keys(&c.key(&said.salt))),
        };
        Ok(ClientEnd {
            user: credential.map(|c| c.id(&said.salt)),
            up: Seal::new(keys.as_ref().map(|k| k.up.clone())),
            down: Seal::new(keys.map(|k| k.down)),
            buf: Vec::new(),
        })
    }

    /// Bytes of a request.
    pub fn request(&mut self, request: &Request) -> Vec<u8> {
        let (kind, body) = request.parts();
        let mut out = Vec::with_capacity(REQUEST_HEADER_LEN + body.len() + ID_LEN + TAG_LEN);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, kind, u8::from(self.user.is_some())]);
        out.extend_from_slice(&(body.len() as u16).to_be_bytes());
        out.extend_from_slice(&body);
        if let Some(user) = &self.user {
            out.extend_from_slice(user);
        }
        self.up.sign(&mut out);
        out
    }

    /// Bytes of a frame.
    pub fn frame(&mut self, body: &[u8]) -> Vec<u8> {
        let mut out = (body.len() as u16).to_be_bytes().to_vec();
        out.extend_from_slice(body);
        self.up.sign(&mut out);
        out
    }

    fn whole(&self) -> Result<usize, ControlError> {
        let Some(&first) = self.buf.first() else {
            return Ok(1);
        };
        let tag = if first & SIGNED != 0 { TAG_LEN } else { 0 };
        let limit = match first & !SIGNED {
            PONG => return Ok(1 + tag),
            4 => MAX_REPORT_BODY,
            6 => MAX_STAMPS_BODY,
            7 => listen::MOST_LISTENING_BODY,
            8 => listen::MOST_ARRIVALS_BODY,
            10 => listen::MOST_QUOTES_BODY,
            11 => packets::MOST_PACKETS_BODY,
            _ => MAX_RESPONSE_BODY,
        };
        let Some(len) = self.buf[1..].first_chunk() else {
            return Ok(RESPONSE_HEADER_LEN);
        };
        let bytes = u32::from_be_bytes(*len) as usize;
        if bytes > limit {
            return Err(ControlError::TooLong { bytes, limit });
        }
        Ok(RESPONSE_HEADER_LEN + bytes + tag)
    }

    /// Number of bytes to read next: never more than belong to the response. Zero after an error.
    pub fn wants(&self) -> usize {
        self.whole().unwrap_or(0).saturating_sub(self.buf.len())
    }

    /// Adds bytes; returns the response once it is complete. Further bytes belong to the next one.
    ///
    /// # Errors
    /// The response is malformed or its tag is wrong; the connection is then unusable.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Response>, ControlError> {
        let wanted = bytes.len().min(self.wants());
        self.buf.extend_from_slice(&bytes[..wanted]);
        // A complete header may announce more bytes.
        if self.buf.is_empty() || self.buf.len() < self.whole()? {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.buf);
        let signed = bytes[0] & SIGNED != 0;
        let message = match (signed, self.down.key.is_some()) {
            (true, false) => return Err(ControlError::Unsigned),
            (false, true) => {
                // A server that does not know our key cannot sign. It can only refuse.
                let response = parse_response(&bytes)?;
                return match response {
                    Response::Refused { why, .. } if is_for_strangers(why) => Ok(Some(response)),
                    _ => Err(ControlError::Unsigned),
                };
            }
            _ => self.down.verify(&bytes)?,
        };
        parse_response(message).map(Some)
    }
}

/// True if a server sends this refusal before it knows who asks.
fn is_for_strangers(why: Refusal) -> bool {
    matches!(
        why,
        Refusal::WrongKey
            | Refusal::KeyNeeded
            | Refusal::Busy
            | Refusal::Forbidden
            | Refusal::Malformed
    )
}

fn parse_response(message: &[u8]) -> Result<Response, ControlError> {
    match (message[0] & !SIGNED, message.get(RESPONSE_HEADER_LEN..)) {
        (PONG, _) => Ok(Response::Pong),
        (kind, Some(body)) => Response::parse(kind, body),
        (_, None) => Err(ControlError::Malformed {
            what: "it ends too early",
        }),
    }
}

/// Assembles a request from the bytes received. Holds a few thousand bytes at most.
#[derive(Debug, Default)]
pub struct RequestReader {
    buf: Vec<u8>,
}

impl RequestReader {
    fn whole(&self) -> Result<usize, ControlError> {
        if self.buf.len() < REQUEST_HEADER_LEN {
            return Ok(REQUEST_HEADER_LEN);
        }
        check_magic(&self.buf)?;
        let body = usize::from(u16::from_be_bytes([self.buf[6], self.buf[7]]));
        if body > MAX_REQUEST_BODY {
            return Err(ControlError::TooLong {
                bytes: body,
                limit: MAX_REQUEST_BODY,
            });
        }
        let signed = self.buf[5] & 1 != 0;
        Ok(REQUEST_HEADER_LEN + body + if signed { ID_LEN + TAG_LEN } else { 0 })
    }

    /// Number of bytes to read next: never more than belong to the request. Zero after an error.
    pub fn wants(&self) -> usize {
        self.whole().unwrap_or(0).saturating_sub(self.buf.len())
    }

    /// Adds bytes; returns the request once it is complete.
    ///
    /// # Errors
    /// The request is malformed; the connection is then unusable.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Asked>, ControlError> {
        let wanted = bytes.len().min(self.wants());
        self.buf.extend_from_slice(&bytes[..wanted]);
        let whole = self.whole()?;
        if self.buf.len() < whole || self.buf.len() < REQUEST_HEADER_LEN {
            return Ok(None);
        }
        Ok(Some(Asked(std::mem::take(&mut self.buf))))
    }
}

/// A complete request whose signature is not checked yet.
#[derive(Debug)]
pub struct Asked(Vec<u8>);

/// Request of a client that is admitted.
#[derive(Debug)]
pub struct Admitted {
    /// Request of the client.
    pub request: Request,
    /// User of the key; null if everybody is served.
    pub user: Option<Identity>,
    /// Server's end of the signed connection.
    pub end: ServerEnd,
}

impl Asked {
    /// Checks the signature, and reads the request. `now_s` is UNIX time, s.
    ///
    /// # Errors
    /// A wrong key, no key, or a malformed request.
    pub fn admit(
        self,
        transcript: &Transcript,
        users: Option<&Users>,
        now_s: i64,
    ) -> Result<Admitted, ControlError> {
        let bytes = self.0;
        let signed = bytes[5] & 1 != 0;
        let mut up = Seal::new(None);
        let (mut user, mut keys) = (None, None);
        let rest = match (users, signed) {
            (None, false) => &bytes[REQUEST_HEADER_LEN..],
            (None, true) => return Err(ControlError::NoKeyThere),
            (Some(_), false) => return Err(ControlError::KeyNeeded),
            (Some(users), true) => {
                let unsigned = bytes.len() - TAG_LEN;
                let (rest, id) = bytes[REQUEST_HEADER_LEN..unsigned]
                    .split_last_chunk::<ID_LEN>()
                    .ok_or(ControlError::WrongKey)?;
                let found = users.find(id, now_s, |key| {
                    let up = transcript.keys(key).up;
                    Seal::new(Some(up)).verify(&bytes).is_ok()
                });
                let (identity, key) = found.ok_or(ControlError::WrongKey)?;
                let its = transcript.keys(&key);
                up.key = Some(its.up.clone());
                (user, keys) = (Some(identity), Some(its));
                rest
            }
        };
        up.next = 1;
        Ok(Admitted {
            request: Request::parse(bytes[4], rest)?,
            user,
            end: ServerEnd {
                up,
                down: Seal::new(keys.map(|k| k.down)),
                buf: Vec::new(),
            },
        })
    }
}

/// Server end: signs its messages, and assembles the client's frames.
#[derive(Debug)]
pub struct ServerEnd {
    up: Seal,
    down: Seal,
    buf: Vec<u8>,
}

impl ServerEnd {
    /// Server end towards a client that has proven nothing: nothing is signed.
    pub fn stranger() -> ServerEnd {
        ServerEnd {
            up: Seal::new(None),
            down: Seal::new(None),
            buf: Vec::new(),
        }
    }

    /// Bytes of a response.
    pub fn response(&mut self, response: &Response) -> Vec<u8> {
        self.encoded(response.encode())
    }

    /// Signed bytes of a response that is [encoded](Response::encode) already.
    pub fn encoded(&mut self, mut message: Vec<u8>) -> Vec<u8> {
        if self.down.key.is_some() {
            message[0] |= SIGNED;
        }
        self.down.sign(&mut message);
        message
    }

    fn whole(&self) -> Result<usize, ControlError> {
        let Some(len) = self.buf.first_chunk() else {
            return Ok(2);
        };
        let bytes = usize::from(u16::from_be_bytes(*len));
        if bytes > MOST_FRAME {
            return Err(ControlError::TooLong {
                bytes,
                limit: MOST_FRAME,
            });
        }
        Ok(2 + bytes + self.up.tag_len())
    }

    /// Number of bytes to read next: never more than belong to the frame. Zero after an error.
    pub fn wants(&self) -> usize {
        self.whole().unwrap_or(0).saturating_sub(self.buf.len())
    }

    /// Adds bytes; returns the body of a frame once it is complete. Further bytes belong to the next one.
    ///
    /// # Errors
    /// The frame is malformed or its tag is wrong; the connection is then unusable.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, ControlError> {
        let wanted = bytes.len().min(self.wants());
        self.buf.extend_from_slice(&bytes[..wanted]);
        let whole = self.whole()?;
        if self.buf.len() < whole || self.buf.len() < 2 {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.buf);
        let body = self.up.verify(&bytes)?[2..].to_vec();
        Ok(Some(body))
    }
}
