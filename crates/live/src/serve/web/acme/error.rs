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

/// Longest text of an authority that is shown, characters.
const MOST_TOLD: usize = 400;

/// Text of an authority in one line.
pub(super) fn quoted(text: &str) -> String {
    let start: String = text.trim_end_matches('.').chars().take(MOST_TOLD).collect();
    base::text::clean(&start).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_s_text_stays_in_its_line() {
        let told = quoted("no\n\u{1b}[2Jcertificate for a.example.");
        assert_eq!(told, "no\\u{a}\\u{1b}[2Jcertificate for a.example");
        assert_eq!(quoted(&"x".repeat(1 << 20)).len(), MOST_TOLD);
    }
}
