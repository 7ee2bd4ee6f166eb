//! Messages between agents and the hub: JSON over HTTP/1.1 inside TLS 1.3.

use crate::identity::{PublicKey, Signature};
use crate::manifest::Manifest;
use crate::order::{Look, Order};
use crate::release::{ReleaseKey, Version};
use measure::keys::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Largest part of a file in one request, and largest request of any other kind.
pub(crate) const CHUNK: usize = 1 << 20;
pub(crate) const MAX_MESSAGE: usize = 1 << 20;
/// Header of a signed request: `Tailback POINT UNIX_SECONDS SIGNATURE`.
pub(crate) const SCHEME: &str = "Tailback";

/// Text that a point signs with each request.
pub(crate) fn request_text(
    method: &str,
    path: &str,
    range: &str,
    unix_s: i64,
    body: &[u8],
) -> Vec<u8> {
    let digest = hex(&Sha256::digest(body));
    format!("tailback-fleet 1\n{method}\n{path}\n{range}\n{unix_s}\n{digest}").into_bytes()
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Enrol {
    pub secret: String,
    pub public_key: PublicKey,
    pub agent: String,
    /// Version of the text to which the point's owner has agreed.
    pub consent: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Enrolled {
    pub point: String,
    /// Key that signs plans and receipts.
    pub hub_key: PublicKey,
    pub unix_s: i64,
    /// Key that signs releases; null if the hub has none.
    #[serde(default)]
    pub release_key: Option<ReleaseKey>,
}

/// Plan as the hub signed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SignedPlan {
    pub number: u64,
    pub text: String,
    pub signature: Signature,
}

impl SignedPlan {
    pub fn message(number: u64, text: &str) -> Vec<u8> {
        format!("tailback-plan 1\n{number}\n{text}").into_bytes()
    }

    pub fn is_signed_by(&self, hub: &PublicKey) -> bool {
        hub.has_signed(
            &SignedPlan::message(self.number, &self.text),
            &self.signature,
        )
    }
}

/// Run of a measurement that came to an end, or to no begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// Place in the point's list, from 0.
    pub index: u64,
    pub measurement: String,
    /// Number of the measurement's period.
    pub number: u64,
    pub due_s: u64,
    pub ended_s: u64,
    pub end: RunEnd,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub recording: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RunEnd {
    Done,
    /// The program ended early or with a failure; what it recorded is kept.
    Incomplete,
    /// Not started: cross traffic, another point's turn or another run took all of its patience.
    Deferred,
    /// Not started: the disk, the spool or the budget does not allow it.
    Skipped,
}

impl RunEnd {
    pub fn word(self) -> &'static str {
        match self {
            RunEnd::Done => "done",
            RunEnd::Incomplete => "incomplete",
            RunEnd::Deferred => "deferred",
            RunEnd::Skipped => "skipped",
        }
    }
}

/// State of a point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct State {
    pub agent: String,
    pub plan: u64,
    pub unix_s: i64,
    /// Time since the clock was last synchronised, s; null if the system does not say.
    pub since_sync_s: Option<u64>,
    pub spool_recordings: u64,
    pub spool_bytes: u64,
    pub disk_free: u64,
    /// Rows of all recordings that the agent ever closed.
    pub rows_closed: u64,
    pub recordings_closed: u64,
    /// Traffic of this day and month (UTC), bytes.
    pub spent_today: u64,
    pub spent_this_month: u64,
    /// Processor and system, such as `x86_64-linux`.
    pub target: String,
    /// Key of the releases that the point takes; null if it takes none.
    pub release_key: Option<ReleaseKey>,
    /// Release from which the point returned last.
    pub failed_release: Option<FailedRelease>,
    /// Number of the last run out of turn that it was asked for and has taken.
    pub asked_until: u64,
    /// Sentences about what waits, and why.
    pub remarks: Vec<String>,
    pub runs: Vec<Run>,
}

/// Run of a measurement out of its turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedRun {
    /// Place among all that the hub ever asked for, from 1.
    pub number: u64,
    pub measurement: String,
}

/// Release from which a point returned to its last program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FailedRelease {
    pub version: Version,
    pub why: String,
}

/// Release that a point is to try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReleaseOffer {
    pub version: Version,
    pub bytes: u64,
    /// Text of the program's signature.
    pub signature: String,
}

/// Question of a point that tries a release: has a recording of it come back?
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProofRequest {
    pub version: Version,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Proof {
    /// Recordings of the release that the hub has stored since the point first asked.
    pub stored: u64,
}

/// Question for a turn at a server: no other point of the fleet loads it meanwhile.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TurnRequest {
    pub server: String,
    /// Length of the turn, s; 0 gives it back.
    pub for_s: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TurnAnswer {
    /// Time until the other point's turn ends at the latest, s; null if the turn is granted.
    pub wait_s: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StateAnswer {
    pub unix_s: i64,
    /// Number of the present plan.
    pub plan: u64,
    /// Runs up to here are in the ledger.
    pub runs_until: u64,
    #[serde(default)]
    pub release: Option<ReleaseOffer>,
    /// Runs that the point is asked for and has not taken.
    #[serde(default)]
    pub asked: Vec<AskedRun>,
}

/// Longest time for which the hub holds a point's question for news, s. A point behind a middlebox that forgets idle
/// connections sooner asks for less.
pub(crate) const HELD_S: u64 = 240;
/// Most probes in one message of live values.
pub(crate) const LIVE_PROBES: usize = 500;

/// Question of a point between its reports: is there news?
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WaitRequest {
    /// Number of the newest plan that the point knows.
    pub plan: u64,
    /// Number of the last run out of turn that it has taken.
    pub asked_until: u64,
    /// Time for which the hub is to hold it, s.
    pub held_s: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct WaitAnswer {
    /// Time within which the point is to report, s, as there is a plan or a run for it: a large fleet comes one after the other.
    pub report_within_s: Option<u64>,
    /// True if somebody looks at the point's live values.
    pub live: bool,
}

/// Probes that a point's runs have recorded since its last message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LiveValues {
    pub probes: Vec<LiveProbe>,
}

/// Probe as it was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LiveProbe {
    /// Recording of the run.
    pub run: String,
    pub target: String,
    /// Number of the probe in its run; numbers of a target have no gaps.
    pub seq: i64,
    /// Time at which it was sent by the point's clock, UNIX ms.
    pub sent_ms: i64,
    /// Round-trip time; null if the probe is lost or was not sent.
    pub rtt_ms: Option<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LiveAnswer {
    /// True while somebody looks.
    pub go_on: bool,
}

/// Order of an operator; the answer is `Told`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderRequest {
    pub order: Order,
    pub look: Look,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Have {
    pub bytes: u64,
}

/// Terms under which a hub takes shared recordings.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// Text to which the sender agrees.
    pub consent: String,
    /// Size of the largest recording that is taken, bytes.
    pub largest_bytes: u64,
}

/// Judgement of the hub on a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Kept in the store.
    Stored,
    /// Kept apart, because a check failed; the point keeps its copy.
    Quarantined,
}

/// Signed answer to a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    pub point: String,
    pub recording: String,
    pub verdict: Verdict,
    /// Failed check, if the recording is in quarantine.
    #[serde(default)]
    pub reason: Option<String>,
    /// Hash of the manifest.
    pub manifest: String,
    pub rows: u64,
    pub received_s: i64,
    pub signature: Signature,
}

impl Receipt {
    pub(crate) fn message(&self) -> Vec<u8> {
        let verdict = match self.verdict {
            Verdict::Stored => "stored",
            Verdict::Quarantined => "quarantined",
        };
        format!(
            "tailback-receipt 1\n{}\n{}\n{verdict}\n{}\n{}\n{}\n{}",
            self.point,
            self.recording,
            self.manifest,
            self.rows,
            self.received_s,
            self.reason.as_deref().unwrap_or_default()
        )
        .into_bytes()
    }

    /// True if this hub gave the receipt for this manifest.
    pub fn is_for(&self, manifest: &Manifest, point: &str, hub: &PublicKey) -> bool {
        self.point == point
            && self.recording == manifest.recording
            && self.manifest == manifest.hash()
            && hub.has_signed(&self.message(), &self.signature)
    }
}

/// Refusal, as text for people.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub error: String,
}
