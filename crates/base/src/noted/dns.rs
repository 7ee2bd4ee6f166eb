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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// It did not answer so often that it was left alone.
    GivenUp { after: u32 },
}

impl Noted for DnsNote {
    const KIND: &'static str = "dns";
}
