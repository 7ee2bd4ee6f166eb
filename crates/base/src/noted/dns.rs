//! Notes of the experiment `dns` on each resolver, whose address is the subject. Times are rows of the table `delay`.

use super::Noted;
use serde::{Deserialize, Serialize};

/// Source of a resolver's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// This host's configuration: the resolver that all programs here use.
    InUse,
    /// Stub resolver on this host, which forwards queries.
    Stub,
    /// Upstream resolver of the stub.
    BehindStub,
    /// Resolver given by the user instead of those in use.
    Given,
    /// Resolver tested for comparison.
    Alternative,
}

/// Purpose of a lookup. Timed lookups have the target `dns-ASKED@ADDRESS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// Name that nobody can have queried before.
    Cold,
    /// Repetition of the cold lookup.
    Warm,
    /// Name with valid signatures.
    Signed,
    /// Name with invalid signatures.
    Bogus,
    /// Name with invalid signatures; the query disables checking (RFC 4035 section 3.2.2).
    BogusUnchecked,
}

impl Asked {
    /// Word in texts and files.
    pub fn word(self) -> &'static str {
        match self {
            Asked::Cold => "cold",
            Asked::Warm => "warm",
            Asked::Signed => "signed",
            Asked::Bogus => "bogus",
            Asked::BogusUnchecked => "bogus_unchecked",
        }
    }

    /// Returns the name of the target that such lookups have in the table `delay`.
    pub fn target(self, resolver: &str) -> String {
        format!("dns-{}@{resolver}", self.word())
    }
}

/// Returns the name of the target of TCP connections to a resolver's port: network RTT without the resolver's own time.
pub fn way_target(resolver: &str) -> String {
    format!("tcp-connect@{resolver}")
}

/// Response of a resolver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Mnemonic of the response code: `NOERROR`, `NXDOMAIN`, `SERVFAIL` …
    pub code: String,
    /// Number of records in the answer section.
    pub records: u32,
    /// AD bit: the resolver claims to have validated the signatures.
    pub authentic: bool,
    /// True if the records include signatures (RRSIG).
    pub signatures: bool,
    /// TC bit: the response did not fit into a datagram.
    pub truncated: bool,
    /// AA bit: the server is authoritative. `recursive` is the RA bit: recursion is available.
    #[serde(default)]
    pub authoritative: bool,
    /// True if the server offers recursion (RA).
    #[serde(default)]
    pub recursive: bool,
    /// Length of the message, bytes.
    #[serde(default)]
    pub bytes: u32,
    /// True if the response uses EDNS0 (RFC 6891 section 6.1.1).
    #[serde(default)]
    pub extended: bool,
}

/// Transport of the query for the root's keys; the signed response takes more than 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carried {
    /// UDP with at most 512 bytes: the response has to be truncated.
    Short,
    /// UDP with at most 1232 bytes.
    Long,
    /// TCP.
    Tcp,
}

/// Result of a query that was sent up to three times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// Response; null if nothing usable came.
    pub answer: Option<Answer>,
    /// True if a reply came that cannot be parsed.
    pub garbled: bool,
    /// Reason why nothing came, if known.
    pub problem: Option<String>,
}

/// Notes of a run of `dns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum DnsNote {
    Resolver {
        origin: Origin,
        /// Operator of the resolver, or the source that lists it.
        name: String,
    },
    Lookup {
        asked: Asked,
        seq: i64,
        name: String,
        /// Response; null if none came.
        answer: Option<Answer>,
        /// Reason why none came, if known.
        problem: Option<String>,
    },
    /// Query for records of a given type.
    Typed {
        /// Record type: `MX`, `TYPE65280` …
        rtype: String,
        name: String,
        said: Said,
    },
    /// Query without EDNS0, sent because queries with EDNS0 gave nothing usable.
    Plain { said: Said },
    /// Query whose response does not fit into 512 bytes.
    Large { carried: Carried, said: Said },
    /// Query to a root server, which is the subject, for the root zone's SOA record with its signature.
    Root { name: String, said: Said },
    /// Resolver that failed to answer this many times in a row and is no longer queried.
    GivenUp { after: u32 },
}

impl Noted for DnsNote {
    const KIND: &'static str = "dns";
}
