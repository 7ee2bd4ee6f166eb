//! People who may read the dashboard: each has a token of their own, which can be ended without those of others.

use super::Hub;
use crate::plan::is_name;
use crate::unix_s;
use measure::keys::hex;
use ops::usage;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Reader's token. Its JSON is that of `tailback hub reader --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(title = "Reader of a dashboard")]
pub struct Reader {
    pub name: String,
    /// Token with which the dashboard opens, as `?token=`; null if the reader's access was ended.
    pub token: Option<String>,
}

/// Trace of a token that the ledger keeps: whoever reads the ledger cannot open the dashboard with it.
fn trace(token: &str) -> String {
    hex(&Sha256::digest(token))
}

impl Hub {
    /// Makes a token for a reader of the dashboard; one that the reader has holds no longer.
    ///
    /// # Errors
    /// A name that is not allowed; the ledger cannot be written.
    pub fn add_reader(&self, name: &str) -> anyhow::Result<Reader> {
        if !is_name(name) {
            return Err(usage(format!(
                "{name:?}: a reader's name has 1 to 64 lower-case letters, digits and -"
            )));
        }
        let token = live::web::new_token()?;
        self.ledger().add_reader(name, &trace(&token), unix_s())?;
        Ok(Reader {
            name: name.to_owned(),
            token: Some(token),
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
        })
    }

    /// True if a token is that of a reader.
    pub(super) fn is_reader(&self, token: &str) -> bool {
        let found = self.ledger().has_reader(&trace(token));
        found.unwrap_or_else(|e| {
            eprintln!("tailback hub: {e}");
            false
        })
    }
}
