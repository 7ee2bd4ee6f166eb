//! People who may read the dashboard: each has a token of their own, which can be ended without those of others. A reader sees
//! all points, or those with one value of a label.

use super::Hub;
use crate::plan::is_name;
use crate::unix_s;
use measure::keys::hex;
use ops::usage;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Points that a reader sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All of them.
    #[default]
    All,
    /// Points with this value of a label.
    Label(String, String),
}

impl Scope {
    /// True for a point with these labels.
    pub fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Scope::All => true,
            Scope::Label(key, value) => labels.get(key) == Some(value),
        }
    }
}

/// Reader's token. Its JSON is that of `tailback hub reader --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(title = "Reader of a dashboard")]
pub struct Reader {
    pub name: String,
    /// Token with which the dashboard opens, as `?token=`; null if the reader's access was ended.
    pub token: Option<String>,
    /// Label and value of the points that it shows, such as `provider=acme`; null for all points.
    pub only: Option<String>,
}

/// Trace of a token that the ledger keeps: whoever reads the ledger cannot open the dashboard with it.
fn trace(token: &str) -> String {
    hex(&Sha256::digest(token))
}

impl Hub {
    /// Makes a token for a reader of the dashboard; one that the reader has holds no longer. `only` is a label with its
    /// value, such as `provider=acme`, of the points that the reader sees.
    ///
    /// # Errors
    /// A name or label that is not allowed; the ledger cannot be written.
    pub fn add_reader(&self, name: &str, only: Option<&str>) -> anyhow::Result<Reader> {
        if !is_name(name) {
            return Err(usage(format!(
                "{name:?}: a reader's name has 1 to 64 lower-case letters, digits and -"
            )));
        }
        let scope = only.map_or(Ok(Scope::All), scope)?;
        let token = live::web::new_token()?;
        let mut ledger = self.ledger();
        ledger.add_reader(name, &trace(&token), &scope, unix_s())?;
        Ok(Reader {
            name: name.to_owned(),
            token: Some(token),
            only: only.map(str::to_owned),
        })
    }

    /// Ends a reader's access.
    ///
    /// # Errors
    /// There is no such reader; the ledger cannot be written.
    pub fn end_reader(&self, name: &str) -> anyhow::Result<Reader> {
        if !self.ledger().end_reader(name, unix_s())? {
            return Err(usage(format!("there is no reader {name}")));
        }
        Ok(Reader {
            name: name.to_owned(),
            token: None,
            only: None,
        })
    }

    /// Points that the reader with this token sees; none if it is no reader's.
    pub(super) fn scope_of(&self, token: &str) -> Option<Scope> {
        let found = self.ledger().scope_of(&trace(token));
        found.unwrap_or_else(|e| {
            eprintln!("tailback hub: {e}");
            None
        })
    }
}

fn scope(only: &str) -> anyhow::Result<Scope> {
    let (key, value) = super::digests::parse_label(only)?;
    if value.is_empty() {
        return Err(usage(format!(
            "{only:?}: give the value of the label, too, such as provider=acme"
        )));
    }
    Ok(Scope::Label(key.to_owned(), value.to_owned()))
}
