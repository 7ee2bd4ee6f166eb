//! Reasons why there is no new certificate.

use crate::trust::TrustError;
use std::path::PathBuf;

/// Reason why there is no new certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AcmeError {
    #[error("{0}")]
    Authority(#[from] instant_acme::Error),
    #[error("{name} was not proven: {why}")]
    NotProven { name: String, why: String },
    #[error("the authority does not offer the challenge tls-alpn-01 for {0}")]
    NoChallenge(String),
    #[error("the certificate cannot be used: {0}")]
    Unusable(String),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("cannot write {}: {source}", .path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
}
