//! The hub: enrols points, hands out the plan, checks and keeps what they measured.
//!
//! One directory holds everything: `ledger.sqlite`, the keys, `incoming/` (files under way), `points/POINT/RECORDING/` (the
//! store: recordings as every verb reads them), `quarantine/`.

mod alerts;
mod clickhouse;
mod dashboard;
mod digests;
mod intake;
mod ledger;
mod operators;
mod orders;
mod push;
mod readers;
mod releases;
mod routes;
mod run_now;
mod serve;
pub(crate) mod share;
mod status;
mod text;

pub use clickhouse::Target;
pub use dashboard::{Dashboard, Public};
pub use digests::Measured;
pub use intake::IntakeError;
pub use operators::Operator;
pub use push::Push;
pub use readers::Reader;
pub use releases::ReleaseStatus;
pub use run_now::{AllAsked, Asked};
pub use serve::serve;
pub use share::Sharing;
pub use status::{Health, PointStatus, Status};
pub use text::about_point;

use crate::durable;
use crate::identity::{Identity, PublicKey};
use crate::invitation::Invitation;
use crate::plan::{FleetPlan, is_name};
use crate::task::ReadTask;
use crate::unix_s;
use crate::wire::SignedPlan;
use ledger::Ledger;
use live::serve::{Tls, TlsKey};
use measure::keys::Pin;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Time for which an invitation holds, s.
const INVITATION_S: i64 = 7 * 86_400;

/// Upper limits on the recordings that the hub keeps, bytes; no limit if absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quotas {
    /// Recordings of one point, files in transfer included.
    pub point: Option<u64>,
    /// Recordings of all points.
    pub all: Option<u64>,
}

/// Hub on its directory.
pub struct Hub {
    data: PathBuf,
    read: ReadTask,
    quotas: Quotas,
    /// Limits on shared recordings; none are taken if absent.
    sharing: Option<Sharing>,
    /// Held while a shared recording's page is drawn.
    drawing: Mutex<()>,
    ledger: Mutex<Ledger>,
    identity: Identity,
    tls: Arc<Tls>,
    /// Held while a recording moves into the store, so that no two requests judge the same one.
    closing: Arc<Mutex<()>>,
    /// Files in transfer that this process has received from their first byte on. Of others, a power cut may have lost
    /// pieces that were not on the disk yet.
    whole: Mutex<BTreeSet<PathBuf>>,
    /// News for points, shared with the dashboard.
    push: Arc<Push>,
}

/// Addresses of a hub that has started. Its JSON is that of `tailback hub --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(title = "Hub")]
pub struct Started {
    /// Address and port for agents, HTTPS.
    pub listen: SocketAddr,
    /// Public key that agents pin when they join.
    pub key: String,
    /// Address of the dashboard, with its token; null without --web.
    pub dashboard: Option<String>,
}

/// One-time code. Its JSON is that of `tailback hub invite --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(title = "Invitation")]
pub struct Invited {
    /// Name of the point that joins with it; null for a code with which a recording is shared.
    pub point: Option<String>,
    pub code: String,
}

/// Change of the fleet: by the operator, by a point, or by the hub itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LogLine {
    /// Time, UNIX s.
    pub time_s: i64,
    /// Point, `operator` at the hub's machine, `operator NAME` at another one, or `hub`.
    pub who: String,
    pub what: String,
}

/// Changes of the fleet, the oldest first. Its JSON is that of `tailback fleet log --json`.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[schemars(title = "Log of a fleet")]
pub struct Log {
    pub changes: Vec<LogLine>,
}

/// Names and schemas of what `tailback hub` and `tailback fleet` print with --json.
pub fn schemas() -> [(&'static str, schemars::Schema); 7] {
    [
        ("fleet-log", schemars::schema_for!(Log)),
        ("fleet-run-now", schemars::schema_for!(AllAsked)),
        ("fleet-status", schemars::schema_for!(Status)),
        ("hub", schemars::schema_for!(Started)),
        ("hub-operator", schemars::schema_for!(Operator)),
        ("hub-reader", schemars::schema_for!(Reader)),
        ("invitation", schemars::schema_for!(Invited)),
    ]
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// Opens the directory of a hub, or makes a new one.
    ///
    /// # Errors
    /// The directory, the ledger or a key cannot be read or made.
    pub fn open(data: &Path, read: ReadTask) -> anyhow::Result<Hub> {
        for directory in ["incoming", "points", "quarantine", "keys", "pages"] {
            durable::create_directories(&data.join(directory))?;
        }
        let tls = Tls::new(&TlsKey::KeptIn(data.join("keys")))?
            .ok_or_else(|| anyhow::anyhow!("the hub has no TLS key"))?;
        Ok(Hub {
            data: data.to_owned(),
            read,
            quotas: Quotas::default(),
            sharing: None,
            drawing: Mutex::new(()),
            ledger: Mutex::new(Ledger::open(&data.join("ledger.sqlite"))?),
            identity: Identity::kept_in(&data.join("keys/hub.key"))?,
            tls: Arc::new(tls),
            closing: Arc::default(),
            whole: Mutex::default(),
            push: Arc::default(),
        })
    }

    /// News for points and their live values, which the dashboard asks for.
    pub fn push(&self) -> Arc<Push> {
        self.push.clone()
    }

    /// The same hub once more, whose changes are by this operator.
    ///
    /// # Errors
    /// The directory, the ledger or a key cannot be read.
    pub(crate) fn for_operator(&self, name: &str) -> anyhow::Result<Hub> {
        let hub = Hub::open(&self.data, self.read)?;
        hub.ledger().who = format!("operator {name}").into();
        // A point that is forgotten must not get a recording that arrives meanwhile.
        Ok(Hub {
            closing: self.closing.clone(),
            ..hub
        })
    }

    /// The same hub with limits on what it keeps.
    #[must_use]
    pub fn with_quotas(self, quotas: Quotas) -> Hub {
        Hub { quotas, ..self }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// Pin of the hub's TLS key.
    pub fn pin(&self) -> Pin {
        self.tls.pin
    }

    /// Key that signs plans and receipts.
    pub fn public_key(&self) -> PublicKey {
        self.identity.public()
    }

    /// Makes a one-time code for a new point of this name.
    ///
    /// # Errors
    /// A name that is not allowed or in use.
    pub fn invite(&self, name: &str) -> anyhow::Result<Invitation> {
        if !is_name(name) || share::is_share(name) {
            return Err(ops::usage(format!(
                "{name:?}: a point's name has 1 to 64 lower-case letters, digits and -, and does not begin with share-"
            )));
        }
        let made = Invitation::new(self.pin())?;
        let now = unix_s();
        let trace = Invitation::trace(&made.secret);
        self.ledger()
            .invite(&trace, name, now, now + INVITATION_S)?;
        Ok(made)
    }

    /// Name of the point for which a code's secret was made, used or not.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) fn invited_as(&self, secret: &[u8; 16]) -> anyhow::Result<Option<String>> {
        Ok(self.ledger().invited_as(&Invitation::trace(secret))?)
    }

    /// Lets the holder of a code's secret join with its key; `consent` is the version of the text that its owner saw: the name of the point, or none if the code is unknown, used or
    /// expired.
    ///
    /// # Errors
    /// The ledger cannot be written.
    pub fn enrol(
        &self,
        secret: &[u8; 16],
        key: &PublicKey,
        consent: &str,
    ) -> anyhow::Result<Option<String>> {
        let trace = Invitation::trace(secret);
        self.ledger().enrol(&trace, key, consent, unix_s())
    }

    /// Ends the access of a point. Its recordings stay.
    ///
    /// # Errors
    /// There is no such point, or the ledger cannot be written.
    pub fn revoke(&self, name: &str) -> anyhow::Result<()> {
        let ledger = self.ledger();
        if !ledger.revoke(name, &ledger.who, unix_s())? {
            return Err(ops::usage(format!("there is no point {name}")));
        }
        Ok(())
    }

    /// Ends the access of a point and deletes all of its recordings, as its owner wishes.
    ///
    /// # Errors
    /// There is no such point; the ledger or the store cannot be written.
    pub fn forget(&self, name: &str) -> anyhow::Result<()> {
        let who = self.ledger().who.clone();
        self.delete(name, &who)
    }

    /// Deletes what a point has sent, as `who` wishes.
    pub(crate) fn delete(&self, name: &str, who: &str) -> anyhow::Result<()> {
        let now_s = unix_s();
        let point = self.ledger().point(name)?;
        let point = point.ok_or_else(|| ops::usage(format!("there is no point {name}")))?;
        if !point.revoked {
            self.ledger().revoke(name, who, now_s)?;
        }
        // A recording that arrives meanwhile is in the store by then, or is refused.
        let _alone = lock(&self.closing);
        // The rows first: a recording without its files is better than files that nobody knows.
        self.ledger().withdraw(name, who, now_s)?;
        for place in ["incoming", "points", "quarantine"] {
            let directory = self.data.join(place).join(name);
            match std::fs::remove_dir_all(&directory) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.into()),
                _ => durable::sync_directory(&self.data.join(place))?,
            }
        }
        self.remove_page(name)
    }

    /// Signs and publishes a plan; returns its number.
    ///
    /// # Errors
    /// Faults of the plan; the ledger cannot be written.
    pub fn publish(&self, text: &str) -> anyhow::Result<u64> {
        FleetPlan::parse(text, self.read)?;
        let mut ledger = self.ledger();
        let number = ledger.plan()?.map_or(1, |p| p.number + 1);
        let signature = self.identity.sign(&SignedPlan::message(number, text));
        let plan = SignedPlan {
            number,
            text: text.into(),
            signature,
        };
        ledger.add_plan(unix_s(), &plan)?;
        Ok(number)
    }

    /// State of all points.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn status(&self) -> anyhow::Result<Status> {
        let release = self.release_status()?;
        status::status(&self.ledger(), self.read, unix_s(), release)
    }

    /// Changes of the fleet, the oldest first.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn log(&self) -> anyhow::Result<Log> {
        let changes = self.ledger().log()?;
        Ok(Log { changes })
    }

    /// Latest recording of each of a point's measurements.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub fn latest(&self, point: &str) -> anyhow::Result<BTreeMap<String, String>> {
        Ok(self.ledger().latest(point)?)
    }

    /// Directory of a point's recordings.
    pub fn recordings(&self, point: &str) -> PathBuf {
        self.data.join("points").join(point)
    }
}
