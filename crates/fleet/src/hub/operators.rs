//! People who operate the fleet from other machines. Each has a token of their own, which can be ended without those of others.

use super::Hub;
use crate::plan::is_name;
use crate::token::{Purpose, Token};
use crate::unix_s;
use ops::usage;
use serde::Serialize;

/// Operator's token. Its JSON is that of `tailback hub operator --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(title = "Operator of a fleet")]
pub struct Operator {
    pub name: String,
    /// Token for --token of `tailback fleet`; null if the operator's access was ended.
    pub token: Option<String>,
}

impl Hub {
    /// Makes a token for an operator at another machine; one that the operator has holds no longer.
    ///
    /// # Errors
    /// A name that is not allowed; the ledger cannot be written.
    pub fn add_operator(&self, name: &str) -> anyhow::Result<Operator> {
        if !is_name(name) {
            return Err(usage(format!(
                "{name:?}: an operator's name has 1 to 64 lower-case letters, digits and -"
            )));
        }
        let token = Token::new(self.pin())?;
        let public = token.identity()?.public();
        self.ledger().add_operator(name, &public, unix_s())?;
        Ok(Operator {
            name: name.to_owned(),
            token: Some(token.text(Purpose::Operate)),
        })
    }

    /// Ends an operator's access.
    ///
    /// # Errors
    /// There is no such operator; the ledger cannot be written.
    pub fn end_operator(&self, name: &str) -> anyhow::Result<Operator> {
        if !self.ledger().end_operator(name, unix_s())? {
            return Err(usage(format!("there is no operator {name}")));
        }
        Ok(Operator {
            name: name.to_owned(),
            token: None,
        })
    }
}
