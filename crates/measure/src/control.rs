//! Control messages between client and server over TCP: requests to receive load, to send load, to read the server's
//! counters, and to time a fresh connection.
//!
//! One connection carries one request. The client says hello, the server greets, both with a nonce; then the client
//! sends its request. With a key, the request and everything that either end says after it is signed: see [`seal`]. All
//! lengths are limited before anything is allocated. Numbers are LEB128 and samples are stored as differences, because
//! a report returns over the slow link that was just measured.
//!
//! Units: durations and instants in nanoseconds, amounts in bytes, rates in bits per second.

mod codec;
pub mod datagram;
pub mod inbox;
pub mod listen;
pub mod packets;
pub mod post;
pub mod seal;
mod types;

use crate::keys::{SALT_LEN, Salt, Ticket, UserKey};
use base::program::Program;
use base::record::Direction;
use base::{BitsPerSec, Duration};
use codec::{Reader, Writer};
pub use types::{
    ControlError, DatagramCount, Detail, Ended, FlowReport, FlowSpec, LARGEST, LAST_NS, LONGEST,
    Limits, Sample, SenderState, SessionId, Stamp, Stamps, VERSION,
};
use types::{LONGEST_SAMPLE, MAX_PROGRAM};

/// Default UDP and TCP port of the server.
pub const DEFAULT_PORT: u16 = 7117;
/// Length of the client's hello.
pub const HELLO_LEN: usize = 20;
/// Length of the greeting.
pub const GREETING_LEN: usize = 21 + SALT_LEN;
/// Maximum number of samples in all flows of a report, so that neither side stores without limit.
pub const MAX_REPORT_SAMPLES: usize = 200_000;

const MAGIC: [u8; 3] = *b"TBK";
const REQUEST_HEADER_LEN: usize = 8;
const MAX_REQUEST_BODY: usize = 16 << 10;
const _: () =
    assert!(MAX_REQUEST_BODY > MAX_PROGRAM + 256 && MAX_REQUEST_BODY <= u16::MAX as usize);
const RESPONSE_HEADER_LEN: usize = 5;
const MAX_RESPONSE_BODY: usize = 4096;
const MAX_REPORT_BODY: usize = 8 << 20;
/// Length of the longest body of stamps. A stamp takes 5 bytes on a link of a few Mbit/s, and at most 20.
const MAX_STAMPS_BODY: usize = 20 * base::program::MOST_DATAGRAMS as usize + 256;
const MAX_NAMES: usize = 64;
const MAX_FLOWS: usize = 256;

/// First bytes from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Random number of the client.
    pub nonce: [u8; 16],
}

impl Hello {
    /// Encodes the message.
    pub fn encode(&self) -> [u8; HELLO_LEN] {
        let mut out = [0; HELLO_LEN];
        out[..3].copy_from_slice(&MAGIC);
        out[3] = VERSION;
        out[4..].copy_from_slice(&self.nonce);
        out
    }

    /// # Errors
    /// The far end is not a Tailback server, or has another version.
    pub fn decode(bytes: &[u8; HELLO_LEN]) -> Result<Hello, ControlError> {
        check_magic(bytes)?;
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&bytes[4..]);
        Ok(Hello { nonce })
    }
}

/// First bytes from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// True if only users with a key are served.
    pub key_needed: bool,
    /// Random number of the server.
    pub nonce: [u8; 16],
    /// Salt of the server's passphrases.
    pub salt: Salt,
}

impl Greeting {
    /// Encodes the message.
    pub fn encode(&self) -> [u8; GREETING_LEN] {
        let mut out = [0; GREETING_LEN];
        out[..3].copy_from_slice(&MAGIC);
        out[3] = VERSION;
        out[4] = u8::from(self.key_needed);
        out[5..21].copy_from_slice(&self.nonce);
        out[21..].copy_from_slice(&self.salt);
        out
    }

    /// # Errors
    /// The far end is not a Tailback server, or has another version.
    pub fn decode(bytes: &[u8; GREETING_LEN]) -> Result<Greeting, ControlError> {
        check_magic(bytes)?;
        Ok(Greeting {
            key_needed: bytes[4] & 1 != 0,
            nonce: std::array::from_fn(|i| bytes[5 + i]),
            salt: std::array::from_fn(|i| bytes[21 + i]),
        })
    }
}

/// Request of a client on the control connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks for the server's release and abilities.
    Info,
    /// Asks for one byte: times a fresh connection.
    Ping,
    /// Starts an upload: the client sends, the server discards and counts.
    Upload { spec: FlowSpec },
    /// Starts a download: the server sends until the time is over or the client closes.
    Download {
        spec: FlowSpec,
        /// Kernel's name of the congestion control to send with; empty for the server's choice.
        congestion: String,
    },
    /// Starts datagrams at a rate. This connection stays open while they flow.
    Datagrams {
        spec: FlowSpec,
        direction: Direction,
        rate: BitsPerSec,
        /// UDP payload of each datagram, bytes.
        payload_bytes: u16,
    },
    /// Starts a crafted train. This connection stays open. After [`Response::Ready`] the sender runs the program; if
    /// that is the client, it then reports how many datagrams have left ([`finished`]). The server answers with its
    /// stamps.
    Train {
        spec: FlowSpec,
        direction: Direction,
        program: Program,
    },
    /// Asks for a probe key, for a client that has the server's pin and no key. Answered inside TLS only.
    Ticket,
    /// Asks for the server's counters of this session.
    Report { session: SessionId },
    /// Asks when this client may load the uplink; each change of its place is a [`Response::Turn`].
    Turn {
        /// Expected duration of the load.
        duration: Duration,
    },
    /// Opens these ports and reports arrivals. This connection stays open: see [`listen`].
    Listen {
        spec: FlowSpec,
        wanted: Vec<listen::Wanted>,
    },
    /// Starts a transfer of an exact size; the server ends the flow once all of it is acknowledged.
    Fetch {
        spec: FlowSpec,
        /// Congestion control, as for a download.
        congestion: String,
        bytes: u64,
    },
    /// Captures the TCP packets between this client and the server's port, without their payload, until the client
    /// sends a frame ([`finished`]). They follow as [`Response::Packets`].
    Capture { spec: FlowSpec },
}

/// Reason why the server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    WrongKey,
    KeyNeeded,
    /// Too many clients, connections or flows at once.
    Busy,
    /// The client has used up its budget of bytes.
    Spent,
    UnknownCongestion,
    UnknownSession,
    Malformed,
    /// An operation failed at the server.
    Failed,
    /// The server's owner does not allow it.
    Forbidden,
    /// Another client loads the uplink.
    Loaded,
}

const REFUSALS: [Refusal; 10] = [
    Refusal::WrongKey,
    Refusal::KeyNeeded,
    Refusal::Busy,
    Refusal::Spent,
    Refusal::UnknownCongestion,
    Refusal::UnknownSession,
    Refusal::Malformed,
    Refusal::Failed,
    Refusal::Forbidden,
    Refusal::Loaded,
];

/// Parameters that the server has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Server's clock at the start of the flow, ns.
    pub server_ns: i64,
    /// Granted length of the flow.
    pub duration: Duration,
    /// Interval between the server's samples.
    pub sample: Duration,
    /// Congestion control that the server sends with; empty if the client is the sender.
    pub congestion: String,
    /// UDP port for the datagrams, and the token that each of them carries; zero for TCP flows.
    pub udp_port: u16,
    /// Token of the flow's datagrams.
    pub udp_token: u64,
}

/// Facts about a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Release of the server.
    pub release: String,
    /// Congestion controls that the server's kernel allows it to use.
    pub congestion: Vec<String>,
    /// Greatest number of flows of a client.
    pub max_flows: u32,
    /// Longest flow.
    pub max_duration: Duration,
}

/// Body of the [frame](seal) in which the client reports, after its part of a train, how many datagrams have left.
pub fn finished(sent: u64) -> [u8; 8] {
    sent.to_be_bytes()
}

/// Reads the body that [`finished`] wrote.
///
/// # Errors
/// The body has another length.
pub fn read_finished(body: &[u8]) -> Result<u64, ControlError> {
    body.try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| ControlError::Malformed {
            what: "the count of a train that has left",
        })
}

/// Answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// The datagram that proves the path has arrived: the train may start.
    Ready,
    Stamps(Stamps),
    Listening(listen::Listening),
    Arrivals(Vec<listen::Arrival>),
    Quotes(listen::Quoted),
    Pong,
    Accepted(Accepted),
    Refused {
        why: Refusal,
        text: String,
    },
    /// Place in the queue for the uplink.
    Turn {
        /// Clients before this one; zero if the uplink is reserved for it now.
        place: u32,
        /// Expected waiting time.
        after: Duration,
    },
    Info(ServerInfo),
    Report(Vec<FlowReport>),
    Ticket(Ticket),
    Packets(packets::CapturedPackets),
}

/// Bytes at the front of every message that hold protocol and version.
pub const FRONT_LEN: usize = 4;

/// Checks the first [`FRONT_LEN`] bytes of a message, because another service may never send more.
///
/// # Errors
/// The far end is not a Tailback server, or has another version.
pub fn check_magic(bytes: &[u8]) -> Result<(), ControlError> {
    if bytes.len() < FRONT_LEN || bytes[..3] != MAGIC {
        return Err(ControlError::NotTailback);
    }
    if bytes[3] != VERSION {
        return Err(ControlError::Version { theirs: bytes[3] });
    }
    Ok(())
}

impl Request {
    /// Kind and body of the message.
    fn parts(&self) -> (u8, Vec<u8>) {
        let mut body = Writer::default();
        let kind = match self {
            Request::Info => 0,
            Request::Ping => 1,
            Request::Upload { spec } => {
                body.spec(spec);
                2
            }
            Request::Download { spec, congestion } => {
                body.spec(spec);
                body.text(congestion);
                3
            }
            Request::Datagrams {
                spec,
                direction,
                rate,
                payload_bytes,
            } => {
                body.spec(spec);
                body.direction(*direction);
                body.number(rate.get());
                body.number(u64::from(*payload_bytes));
                4
            }
            Request::Report { session } => {
                body.0.extend_from_slice(&session.0);
                5
            }
            Request::Train {
                spec,
                direction,
                program,
            } => {
                body.spec(spec);
                body.direction(*direction);
                body.0.extend_from_slice(program.to_string().as_bytes());
                6
            }
            Request::Ticket => 9,
            Request::Capture { spec } => {
                body.spec(spec);
                11
            }
            Request::Turn { duration } => {
                body.number(duration.min(&LONGEST).as_nanos());
                12
            }
            Request::Listen { spec, wanted } => {
                listen::write_request(&mut body, spec, wanted);
                7
            }
            Request::Fetch {
                spec,
                congestion,
                bytes,
            } => {
                body.spec(spec);
                body.text(congestion);
                body.number(*bytes);
                8
            }
        };
        (kind, body.0)
    }

    fn parse(kind: u8, body: &[u8]) -> Result<Request, ControlError> {
        let mut r = Reader(body);
        let request = match kind {
            0 => Request::Info,
            1 => Request::Ping,
            2 => Request::Upload { spec: r.spec()? },
            3 => Request::Download {
                spec: r.spec()?,
                congestion: r.text()?,
            },
            4 => Request::Datagrams {
                spec: r.spec()?,
                direction: r.direction()?,
                rate: r.rate()?,
                payload_bytes: r.small()?,
            },
            5 => Request::Report {
                session: r.session()?,
            },
            6 => Request::Train {
                spec: r.spec()?,
                direction: r.direction()?,
                program: r.program()?,
            },
            7 => {
                let (spec, wanted) = listen::read_request(&mut r)?;
                Request::Listen { spec, wanted }
            }
            8 => Request::Fetch {
                spec: r.spec()?,
                congestion: r.text()?,
                bytes: r.amount()?,
            },
            9 => Request::Ticket,
            11 => Request::Capture { spec: r.spec()? },
            12 => Request::Turn {
                duration: r.span(LONGEST)?,
            },
            _ => {
                return Err(ControlError::Malformed {
                    what: "unknown kind of request",
                });
            }
        };
        r.end()?;
        Ok(request)
    }
}

impl Response {
    /// Encodes the answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        let kind = match self {
            // A single byte, which is what a responsiveness probe waits for.
            Response::Pong => return vec![0],
            Response::Ready => 5,
            Response::Stamps(stamps) => {
                w.stamps(stamps);
                6
            }
            Response::Listening(listening) => {
                listening.write(&mut w);
                7
            }
            Response::Arrivals(all) => {
                listen::write_arrivals(&mut w, all);
                8
            }
            Response::Quotes(quoted) => {
                quoted.write(&mut w);
                10
            }
            Response::Packets(packets) => {
                packets.write(&mut w);
                11
            }
            Response::Accepted(a) => {
                w.signed(a.server_ns);
                w.number(a.duration.as_nanos());
                w.number(a.sample.as_nanos());
                w.text(&a.congestion);
                w.number(u64::from(a.udp_port));
                w.number(a.udp_token);
                1
            }
            Response::Refused { why, text } => {
                let number = REFUSALS.iter().position(|r| r == why);
                w.0.push(number.expect("every refusal is listed") as u8);
                w.text(text);
                2
            }
            Response::Turn { place, after } => {
                w.number(u64::from(*place));
                w.number(after.min(&LONGEST).as_nanos());
                12
            }
            Response::Ticket(ticket) => {
                w.0.extend_from_slice(&ticket.id);
                w.0.extend_from_slice(&ticket.key.0);
                9
            }
            Response::Info(info) => {
                w.text(&info.release);
                w.number(info.congestion.len().min(MAX_NAMES) as u64);
                for name in info.congestion.iter().take(MAX_NAMES) {
                    w.text(name);
                }
                w.number(u64::from(info.max_flows));
                w.number(info.max_duration.min(LONGEST).as_nanos());
                3
            }
            Response::Report(flows) => {
                w.number(flows.len() as u64);
                for flow in flows {
                    w.flow(flow);
                }
                4
            }
        };
        let mut out = Vec::with_capacity(RESPONSE_HEADER_LEN + w.0.len());
        out.push(kind);
        out.extend_from_slice(&(w.0.len() as u32).to_be_bytes());
        out.extend_from_slice(&w.0);
        out
    }

    fn parse(kind: u8, body: &[u8]) -> Result<Response, ControlError> {
        let mut r = Reader(body);
        let response = match kind {
            1 => Response::Accepted(Accepted {
                server_ns: r.instant()?,
                duration: r.span(LONGEST)?,
                sample: r.span(LONGEST_SAMPLE)?,
                congestion: r.text()?,
                udp_port: r.small()?,
                udp_token: r.number()?,
            }),
            2 => Response::Refused {
                why: *REFUSALS
                    .get(usize::from(r.byte()?))
                    .unwrap_or(&Refusal::Failed),
                text: r.text()?,
            },
            3 => Response::Info(ServerInfo {
                release: r.text()?,
                congestion: {
                    let names = r.count(MAX_NAMES)?;
                    (0..names).map(|_| r.text()).collect::<Result<_, _>>()?
                },
                max_flows: r.small()?,
                max_duration: r.span(LONGEST)?,
            }),
            4 => {
                let flows = r.count(MAX_FLOWS)?;
                let mut room = MAX_REPORT_SAMPLES;
                Response::Report(
                    (0..flows)
                        .map(|_| r.flow(&mut room))
                        .collect::<Result<_, _>>()?,
                )
            }
            9 => Response::Ticket(Ticket {
                id: r.array()?,
                key: UserKey(r.array()?),
            }),
            12 => Response::Turn {
                place: r.small()?,
                after: r.span(LONGEST)?,
            },
            5 => Response::Ready,
            6 => Response::Stamps(r.stamps()?),
            7 => Response::Listening(listen::Listening::read(&mut r)?),
            8 => Response::Arrivals(listen::read_arrivals(&mut r)?),
            10 => Response::Quotes(listen::Quoted::read(&mut r)?),
            11 => Response::Packets(packets::CapturedPackets::read(&mut r)?),
            _ => {
                return Err(ControlError::Malformed {
                    what: "unknown kind of response",
                });
            }
        };
        r.end()?;
        Ok(response)
    }
}

#[cfg(test)]
mod tests;
