//! What the kind `dns` notes of each resolver, whose address is the subject. Times are rows of the table `delay`.

use super::Noted;
use serde::{Deserialize, Serialize};

/// Where we have a resolver from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// This host's configuration: what every program here asks.
    InUse,
    /// A stub on this very host, which asks others.
    Stub,
    /// What the stub asks.
    BehindStub,
    /// The user named it in place of those in use.
    Given,
    /// For comparison.
    Alternative,
}

/// What a lookup is for. Its times are those of the target `dns-ASKED@ADDRESS`, where it is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// A name that nobody can have asked for before.
    Cold,
    /// The same again.
    Warm,
    /// A name with valid signatures.
    Signed,
    /// A name whose signatures are wrong.
    Bogus,
    /// The same, with the resolver told not to check (RFC 4035 section 3.2.2).
    BogusUnchecked,
}

impl Asked {
    pub fn word(self) -> &'static str {
        match self {
            Asked::Cold => "cold",
            Asked::Warm => "warm",
            Asked::Signed => "signed",
            Asked::Bogus => "bogus",
            Asked::BogusUnchecked => "bogus_unchecked",
        }
    }

    /// Name of the target that such lookups are in the table `delay`.
    pub fn target(self, resolver: &str) -> String {
        format!("dns-{}@{resolver}", self.word())
    }
}

/// Name of the target of TCP connections to a resolver's port: the way there and back, and nothing of the resolver.
pub fn way_target(resolver: &str) -> String {
    format!("tcp-connect@{resolver}")
}

/// What a resolver said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Mnemonic of the response code: `NOERROR`, `NXDOMAIN`, `SERVFAIL` …
    pub code: String,
    /// Records in the answer section.
    pub records: u32,
    /// The resolver claims to have checked the signatures (AD).
    pub authentic: bool,
    /// There were signatures among the records (RRSIG).
    pub signatures: bool,
    /// It did not fit into a datagram (TC).
    pub truncated: bool,
    /// It comes from whom it belongs to (AA), and from one who would ask others too (RA).
    #[serde(default)]
    pub authoritative: bool,
    #[serde(default)]
    pub recursive: bool,
    /// Length of the message.
    #[serde(default)]
    pub bytes: u32,
    /// It is an extended message too (EDNS0, RFC 6891 section 6.1.1).
    #[serde(default)]
    pub extended: bool,
}

/// How a resolver is asked for the keys of the root, whose answer with its signatures takes more than 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carried {
    /// In a datagram of 512 bytes at most: it has to be cut.
    Short,
    /// In a datagram of 1232 bytes at most.
    Long,
    /// Over a connection.
    Tcp,
}

/// What became of a question that was asked up to three times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Null where nothing usable came.
    pub answer: Option<Answer>,
    /// Something came that cannot be read.
    pub garbled: bool,
    /// Why nothing came, where something said so.
    pub problem: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum DnsNote {
    Resolver {
        origin: Origin,
        /// Who runs it or what told of it.
        name: String,
    },
    Lookup {
        asked: Asked,
        seq: i64,
        name: String,
        /// Null where none came.
        answer: Option<Answer>,
        /// Why none came, where something said so.
        problem: Option<String>,
    },
    /// It was asked for records of a type.
    Typed {
        /// `MX`, `TYPE65280` …
        rtype: String,
        name: String,
        said: Said,
    },
    /// It was asked by a message that is not extended, because it gave nothing usable to those that are.
    Plain { said: Said },
    /// It was asked for what does not fit into 512 bytes.
    Large { carried: Carried, said: Said },
    /// A root server, which is the subject, was asked for the begin of the root zone, with its signature.
    Root { name: String, said: Said },
    /// It did not answer so often that it was left alone.
    GivenUp { after: u32 },
}

impl Noted for DnsNote {
    const KIND: &'static str = "dns";
}
